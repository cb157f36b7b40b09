"""Which binaries the test bench takes, and what a broken build leaves behind."""

import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from tests.kwok.controlplane import build
from tests.kwok.controlplane.build import ready_binary
from tests.kwok.controlplane.cache import cache_folder
from tests.kwok.controlplane.programs import ETCD, Program, control_plane_programs, kube_program, minors
from tests.kwok.controlplane.running_command import CommandError


@pytest.fixture
def assets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder that KUBEBUILDER_ASSETS names; the build cache is empty too."""
    folder = tmp_path / "assets"
    folder.mkdir()
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return folder


def put_program(folder: Path, name: str, version: str) -> Path:
    binary = folder / name
    binary.write_text(f"#!/bin/sh\necho '{version}'\n")
    binary.chmod(0o755)
    return binary


def test_every_minor_pins_one_patch_version_of_all_its_programs() -> None:
    assert minors() == ("1.34", "1.36", "1.37")
    for minor in minors():
        versions = {program.version for program in control_plane_programs(minor) if program.stamped}
        assert len(versions) == 1
        assert versions.pop().startswith(f"v{minor}.")


def test_ready_binaries_that_the_user_points_at_are_taken(assets: Path) -> None:
    etcd = put_program(assets, "etcd", "etcd Version: 3.5.0")
    scheduler = put_program(assets, "kube-scheduler", "Kubernetes v1.36.9")

    assert ready_binary(ETCD) == etcd
    assert ready_binary(kube_program("kube-scheduler", "1.36")) == scheduler


def test_ready_binary_of_another_minor_is_not_taken(assets: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put_program(assets, "kube-scheduler", "Kubernetes v1.33.1")

    with pytest.raises(CommandError):
        ready_binary(_without_source("kube-scheduler", assets))

    assert "is Kubernetes v1.33.1, wanted v1.36: not used" in capsys.readouterr().err


def test_broken_build_says_why_and_leaves_no_binary(assets: Path) -> None:
    program = _without_source("kube-apiserver", assets)

    with pytest.raises(CommandError, match=r"missing go\.sum entry") as problem:
        ready_binary(program)

    assert "building kube-apiserver v1.36.0 failed" in str(problem.value)
    assert [path for path in cache_folder().rglob("kube-apiserver") if path.is_file()] == []


def test_what_a_program_is_installed_with_stays_when_its_module_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "cache_folder", lambda: tmp_path)
    program = _tiny_program(tmp_path / "module")
    # A ready binary alone is not enough for such a program.
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(put_program(tmp_path, "tiny", "v0.1.0").parent))

    binary = ready_binary(program)
    shutil.rmtree(program.folder / "tiny")

    assert ready_binary(program) == binary
    assert subprocess.run([binary], capture_output=True, check=True).stdout == b""
    kept = binary.parent / "config" / "crd" / "queue.yaml"
    assert kept.read_text() == "kind: Queue\n"
    # The module cache is read-only; a copy that is too could not be removed.
    assert os.access(kept, os.W_OK)
    assert not (binary.parent / "config" / "secret.yaml").exists()


def _tiny_program(folder: Path) -> Program:
    """Return a program that does nothing, in a module of its own with files beside it, required by another module."""
    source = folder / "tiny"
    (source / "config" / "crd").mkdir(parents=True)
    (source / "go.mod").write_text("module islander.dev/testbench/tiny\n\ngo 1.26.0\n")
    (source / "main.go").write_text("package main\n\nfunc main() {}\n")
    (source / "config" / "crd" / "queue.yaml").write_text("kind: Queue\n")
    (source / "config" / "crd" / "queue.yaml").chmod(0o444)
    (source / "config" / "secret.yaml").write_text("")
    (folder / "go.mod").write_text(
        "module islander.dev/testbench/with-files\n\ngo 1.26.0\n\ntool islander.dev/testbench/tiny\n\n"
        "require islander.dev/testbench/tiny v0.1.0 // indirect\n\nreplace islander.dev/testbench/tiny => ./tiny\n"
    )
    (folder / "go.sum").write_text("")
    name = "islander.dev/testbench/tiny"
    return Program("tiny", folder, name, name, kept=("config/crd",))


def _without_source(name: str, folder: Path) -> Program:
    """Return a program whose module requires nothing that could be built, so that its build fails at once."""
    module = folder / "module"
    module.mkdir()
    (module / "go.mod").write_text(
        "module islander.dev/testbench/broken\n\ngo 1.26.0\n\nrequire k8s.io/kubernetes v1.36.0\n"
    )
    (module / "go.sum").write_text("")
    return replace(kube_program(name, "1.36"), folder=module)
