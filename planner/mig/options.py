"""What an operator asks of a plan of MIG layouts, as one value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from planner.errors import PlannerError
from planner.options import SolveLimits

# A demand is met instance by instance, which people are to read.
MOST_INSTANCES = 100_000
STRATEGIES = ("mixed", "single")


@dataclass(frozen=True, slots=True)
class WantedProfile:
    """Instances of a profile that shall be free for pods to come.

    Attributes
    ----------
    profile
        As somebody wrote it: `1g.10gb`, `1g.10gb+me`.
    product
        Value of `nvidia.com/gpu.product` of the GPUs that serve; empty for any that has a profile of this name.
    source
        Where it was asked for, in words: `--profile`, or the file.
    """

    profile: str
    count: int
    priority: int = 0
    product: str = ""
    source: str = "--profile"


@dataclass(frozen=True, slots=True)
class WantedModel:
    """Instances that can each serve one replica of a model.

    Attributes
    ----------
    memory_mib
        All that a replica needs: weights, KV cache, activations.
    why
        How the memory was reckoned; empty when the file gives it.
    """

    name: str
    memory_mib: int
    replicas: int
    priority: int = 0
    product: str = ""
    source: str = "demand file"
    why: str = ""


@dataclass(frozen=True, slots=True)
class MigOptions:
    """Options of `plan mig`.

    Attributes
    ----------
    profiles, models
        What is wanted; with neither, what pending and running pods ask for.
    asked
        True when flags or a file say what is wanted, even when that is nothing.
    allow_drain
        GPUs that run pods may be cut when the pods may move.
    nodes
        Label selector of the nodes that may change, as kubectl writes it; empty for all.
    strategy
        MIG strategy to plan for whatever the nodes' labels say: mixed or single; empty to believe the labels.
    """

    profiles: tuple[WantedProfile, ...] = ()
    models: tuple[WantedModel, ...] = ()
    asked: bool = False
    allow_drain: bool = False
    nodes: str = ""
    strategy: str = ""
    limits: SolveLimits = field(default_factory=SolveLimits)

    def flags(self) -> list[str]:
        """Return the flags that bear on what a plan may do, as they are written; `from_flags` reads them."""
        found = ["--allow-drain"] if self.allow_drain else []
        found += [f"--nodes={self.nodes}"] if self.nodes else []
        return found + ([f"--strategy={self.strategy}"] if self.strategy else [])

    @classmethod
    def from_flags(cls, flags: Sequence[str]) -> MigOptions:
        """Return the options that `flags` wrote; what was wanted stands in the plan itself.

        Raises
        ------
        PlannerError
            A flag is not one of them.
        """
        options = cls()
        for flag in flags:
            name, equals, value = flag.partition("=")
            match name, bool(equals):
                case "--allow-drain", False:
                    options = replace(options, allow_drain=True)
                case "--nodes", True:
                    options = replace(options, nodes=value)
                case "--strategy", True if value in STRATEGIES:
                    options = replace(options, strategy=value)
                case _:
                    raise PlannerError(f"option {flag!r:.80} of the plan is not known; plan again with this release")
        return options


def wanted_profile(text: str) -> WantedProfile:
    """Return what `--profile 1g.10gb=12` asks for; a profile alone is one instance.

    Raises
    ------
    PlannerError
        The text is no profile, or its number none.
    """
    profile, equals, number = (part.strip() for part in text.partition("="))
    digits = number if equals else "1"
    if not profile or not (digits.isascii() and digits.isdigit() and len(digits) <= 6 and int(digits) > 0):
        raise PlannerError(f"--profile {text!r:.60}: not PROFILE=COUNT, such as 1g.10gb=12")
    if int(digits) > MOST_INSTANCES:
        raise PlannerError(f"--profile {text:.60}: more than {MOST_INSTANCES} instances")
    return WantedProfile(profile, int(digits))
