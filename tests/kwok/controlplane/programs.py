"""The programs of the control plane: which Go module, which package, which version."""

import re
from dataclasses import dataclass
from pathlib import Path

MODULES_FOLDER = Path(__file__).parent.parent / "modules"
DEFAULT_MINOR = "1.36"


@dataclass(frozen=True, slots=True)
class Program:
    """One program and the wrapper module that pins it.

    `stamped` programs get the version compiled in: an unstamped kube-apiserver reports a version that is no semantic
    version, which others (Kueue) refuse to parse. `kept` are folders of the module that are copied to the binary: what
    the program is installed with must still be there when Go's module cache is empty.
    """

    name: str
    folder: Path
    module: str
    package: str
    stamped: bool = False
    kept: tuple[str, ...] = ()

    @property
    def version(self) -> str:
        """The version that the wrapper module requires, such as `v1.36.3`."""
        text = (self.folder / "go.mod").read_text()
        found = re.search(rf"^(?:require )?\s*{re.escape(self.module)} (v\S+)", text, re.MULTILINE)
        if found is None:
            raise ValueError(f"{self.folder / 'go.mod'} does not require {self.module}")
        return found[1]


def minors() -> tuple[str, ...]:
    """Return the Kubernetes minors that have a wrapper module, such as `("1.34", "1.36", "1.37")`."""
    return tuple(sorted(folder.name.removeprefix("kube-") for folder in MODULES_FOLDER.glob("kube-*")))


def kube_program(name: str, minor: str) -> Program:
    """Return kube-apiserver, kube-scheduler or kube-controller-manager of one minor."""
    folder = MODULES_FOLDER / f"kube-{minor}"
    if not folder.is_dir():
        raise ValueError(f"no Kubernetes minor {minor}; there are {', '.join(minors())}")
    return Program(name, folder, "k8s.io/kubernetes", f"k8s.io/kubernetes/cmd/{name}", stamped=True)


ETCD = Program("etcd", MODULES_FOLDER / "etcd", "go.etcd.io/etcd/server/v3", "go.etcd.io/etcd/server/v3")
KWOK = Program("kwok", MODULES_FOLDER / "kwok", "sigs.k8s.io/kwok", "sigs.k8s.io/kwok/cmd/kwok")
KUEUE = Program(
    "kueue",
    MODULES_FOLDER / "kueue",
    "sigs.k8s.io/kueue",
    "sigs.k8s.io/kueue/cmd/kueue",
    kept=("config/components/crd", "config/components/webhook"),
)
KUBE_PROGRAM_NAMES = ("kube-scheduler", "kube-apiserver", "kube-controller-manager")


def control_plane_programs(minor: str = DEFAULT_MINOR) -> tuple[Program, ...]:
    """Return everything one control plane needs, in the order in which they are best built."""
    return (*(kube_program(name, minor) for name in KUBE_PROGRAM_NAMES), ETCD, KWOK)
