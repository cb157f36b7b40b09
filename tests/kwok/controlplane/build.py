"""Builds the control plane's programs from their Go modules, once per version, into the cache folder.

Run as `python -m tests.kwok.controlplane.build [--minor 1.36 ...]`.
"""

import argparse
import hashlib
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.kwok.controlplane.cache import cache_folder, held_lock, say
from tests.kwok.controlplane.programs import DEFAULT_MINOR, KUEUE, Program, control_plane_programs, minors
from tests.kwok.controlplane.running_command import CommandError, run_and_report
from tests.kwok.controlplane.toolchain import go_environment, go_program

_STAMPED_PACKAGES = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
_BUILD_FLAGS = ("-trimpath", "-mod=readonly")


def ready_binary(program: Program) -> Path:
    """Return the path of the built program; build it when the cache has none.

    A folder named by KUBEBUILDER_ASSETS is looked at first, the convention by which people point at ready binaries; not
    for a program that needs more than its binary.

    Raises
    ------
    CommandError
        The build failed.
    """
    given = _binary_of_the_user(program)
    if given is not None:
        return given
    binary = _cached_path(program)
    if binary.exists():
        return binary
    title = f"{program.name} {program.version}"
    with held_lock(binary.parent.with_name(binary.parent.name + ".lock"), title):
        if not binary.exists():
            _build(program, binary)
    return binary


def _cached_path(program: Program) -> Path:
    digest = hashlib.sha256()
    for name in ("go.mod", "go.sum"):
        digest.update((program.folder / name).read_bytes())
    for folder in program.kept:
        digest.update(folder.encode())
    return cache_folder() / f"{program.name}-{program.version}-{digest.hexdigest()[:12]}" / program.name


def _build(program: Program, binary: Path) -> None:
    """Build into a folder beside the final one and rename it, so that half a build never looks whole."""
    go = go_program()
    with tempfile.TemporaryDirectory(prefix="build-", dir=cache_folder()) as scratch:
        target = Path(scratch) / program.name
        command = [
            str(go),
            "build",
            *_BUILD_FLAGS,
            "-ldflags",
            _linker_flags(program),
            "-o",
            str(target),
            program.package,
        ]
        log = cache_folder() / f"{binary.parent.name}.log"
        run_and_report(
            f"building {program.name} {program.version}", command, cwd=program.folder, env=go_environment(), log=log
        )
        binary.parent.mkdir(exist_ok=True)
        _keep(program, go, binary.parent)
        target.replace(binary)


def _keep(program: Program, go: Path, folder: Path) -> None:
    """Copy what the program is installed with out of the module cache, where everything is read-only."""
    if not program.kept:
        return
    command = [go, "list", "-mod=readonly", "-m", "-f", "{{.Dir}}", program.module]
    answer = subprocess.run(
        command, cwd=program.folder, env=go_environment(), capture_output=True, text=True, check=True
    )
    module = Path(answer.stdout.strip())
    for source in (file for kept in program.kept for file in (module / kept).rglob("*") if file.is_file()):
        copy = folder / source.relative_to(module)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(source.read_bytes())


def _linker_flags(program: Program) -> str:
    flags = ["-s", "-w"]
    if program.stamped:
        major, minor, _ = program.version.removeprefix("v").split(".", 2)
        values = {
            "gitVersion": program.version,
            "gitMajor": major,
            "gitMinor": minor,
            "gitTreeState": "clean",
            "gitCommit": "0" * 40,
            "buildDate": "2026-01-01T00:00:00Z",
        }
        flags += [f"-X {package}.{name}={value}" for package in _STAMPED_PACKAGES for name, value in values.items()]
    return " ".join(flags)


def _binary_of_the_user(program: Program) -> Path | None:
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    if not assets or program.kept:
        return None
    binary = Path(assets).expanduser() / program.name
    if not os.access(binary, os.X_OK):
        return None
    if program.stamped:
        wanted = program.version.rsplit(".", 1)[0]
        answer = subprocess.run([binary, "--version"], capture_output=True, text=True, check=False).stdout.strip()
        if re.search(rf"{re.escape(wanted)}\.", answer) is None:
            say(f"{binary} from KUBEBUILDER_ASSETS is {answer or 'of unknown version'}, wanted {wanted}: not used")
            return None
    say(f"using {binary} from KUBEBUILDER_ASSETS")
    return binary


def main(arguments: list[str] | None = None) -> int:
    """Build everything that tests on the asked minors need and print where it is."""
    parser = argparse.ArgumentParser(prog="python -m tests.kwok.controlplane.build", description=__doc__)
    parser.add_argument(
        "--minor", action="append", choices=minors(), help=f"Kubernetes minor, repeatable (default {DEFAULT_MINOR})"
    )
    asked = parser.parse_args(arguments).minor or [DEFAULT_MINOR]
    started = time.monotonic()
    try:
        for minor in asked:
            for program in control_plane_programs(minor):
                print(ready_binary(program))
        print(ready_binary(KUEUE))
    except CommandError as problem:
        say(str(problem))
        return 1
    say(f"control plane {', '.join(asked)} is ready ({time.monotonic() - started:.0f} s)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
