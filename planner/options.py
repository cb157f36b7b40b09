"""What an operator asks of a move plan, as one value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from planner.errors import PlannerError

# Each replica of a goal is a pod of its own in the plan, which people are to read.
MOST_REPLICAS = 10_000


@dataclass(frozen=True, slots=True)
class Goal:
    """Room that is wanted for replicas that do not exist yet: `tp=8,count=2,product=NVIDIA-H100-80GB-HBM3`."""

    tensor_parallel: int
    count: int = 1
    product: str = ""

    def __str__(self) -> str:
        """Return the goal in the words of `--goal`."""
        product = f",product={self.product}" if self.product else ""
        return f"tp={self.tensor_parallel},count={self.count}{product}"

    @classmethod
    def parse(cls, text: str) -> Goal:
        """Return the goal that `str` wrote, or a person: `tp=8`, `tp=8,count=2`, `count=2,tp=4,product=...`.

        Raises
        ------
        PlannerError
            The text is no goal.
        """
        values: dict[str, str] = {}
        for part in text.split(","):
            key, equals, value = (word.strip() for word in part.partition("="))
            if key not in ("tp", "count", "product") or not equals or not value or key in values:
                raise PlannerError(f"goal {text!r}: {part!r} is not one of tp=N, count=N, product=NAME")
            values[key] = value
        if "tp" not in values:
            raise PlannerError(f"goal {text!r}: tp=N is missing, the GPUs of one replica")
        return cls(
            _count(f"goal {text}", values["tp"], 1),
            _count(f"goal {text}", values.get("count", "1"), 1, MOST_REPLICAS),
            values.get("product", ""),
        )


@dataclass(frozen=True, slots=True)
class SolveLimits:
    """How long and how the solver may search; one worker and a seed give the same plan on every run."""

    time_limit_seconds: float = 10.0
    workers: int = 1
    seed: int = 0


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """Options of `plan moves`.

    Attributes
    ----------
    pods
        Pending pods to admit, as `namespace/name`; empty for all pending GPU pods.
    goal
        Replicas to make room for instead.
    max_moves, max_moves_per_workload
        None for no limit.
    protect
        Label selector of pods that must not move, as kubectl writes it; empty for none.
    empty_nodes
        How many GPU nodes to free wholly; 0 for none.
    spare_nodes
        Leave nodes without any GPU pod empty where the plan can do without them.
    """

    pods: tuple[str, ...] = ()
    goal: Goal | None = None
    max_moves: int | None = None
    max_moves_per_workload: int | None = None
    allow_single_replica: bool = False
    allow_unknown_owners: bool = False
    protect: str = ""
    empty_nodes: int = 0
    spare_nodes: bool = False
    limits: SolveLimits = SolveLimits()

    def flags(self) -> list[str]:
        """Return the flags that bear on what a plan may do, as they are written; `from_flags` reads them."""
        found = [f"--pod={pod}" for pod in self.pods]
        found += [f"--goal={self.goal}"] if self.goal is not None else []
        for name, limit in (
            ("--max-moves", self.max_moves),
            ("--max-moves-per-workload", self.max_moves_per_workload),
        ):
            found += [f"{name}={limit}"] if limit is not None else []
        found += ["--allow-single-replica"] if self.allow_single_replica else []
        found += ["--allow-unknown-owners"] if self.allow_unknown_owners else []
        found += [f"--protect={self.protect}"] if self.protect else []
        found += [f"--empty-nodes={self.empty_nodes}"] if self.empty_nodes else []
        return found + (["--spare-nodes"] if self.spare_nodes else [])

    @classmethod
    def from_flags(cls, flags: Sequence[str]) -> PlanOptions:
        """Return the options that `flags` wrote.

        Raises
        ------
        PlannerError
            A flag is not one of them, or its value is not what the flag takes.
        """
        options = cls()
        for flag in flags:
            name, equals, value = flag.partition("=")
            match name, bool(equals):
                case "--pod", True:
                    options = replace(options, pods=(*options.pods, value))
                case "--goal", True:
                    options = replace(options, goal=Goal.parse(value))
                case "--max-moves", True:
                    options = replace(options, max_moves=_count(flag, value))
                case "--max-moves-per-workload", True:
                    options = replace(options, max_moves_per_workload=_count(flag, value))
                case "--allow-single-replica", False:
                    options = replace(options, allow_single_replica=True)
                case "--allow-unknown-owners", False:
                    options = replace(options, allow_unknown_owners=True)
                case "--protect", True:
                    options = replace(options, protect=value)
                case "--empty-nodes", True:
                    options = replace(options, empty_nodes=_count(flag, value))
                case "--spare-nodes", False:
                    options = replace(options, spare_nodes=True)
                case _:
                    raise PlannerError(f"option {flag!r} of the plan is not known; plan again with this release")
        return options


def _count(flag: str, text: str, least: int = 0, most: int = 10**9) -> int:
    # Python itself refuses to read a number of thousands of digits.
    if not (text.isascii() and text.isdigit() and len(text) < 20) or not least <= int(text) <= most:
        raise PlannerError(f"{flag!r}: {text!r:.40} is not a whole number from {least} to {most}")
    return int(text)
