"""Samples from a file in the text format of Prometheus, as `curl .../metrics` or a federation endpoint gives it."""

from __future__ import annotations

from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from islander.cluster.dcgm import Sample
from planner.errors import PlannerError


def read_samples(file: Path) -> tuple[Sample, ...]:
    """Return the samples of a file.

    Raises
    ------
    PlannerError
        The file cannot be read, or is not in that format.
    """
    try:
        text = file.read_text(encoding="utf-8")
        families = list(text_string_to_metric_families(text))
    except OSError as problem:
        raise PlannerError(f"{file}: {problem.strerror}") from problem
    except (ValueError, KeyError, IndexError) as problem:
        # The parser says what it stumbled over, and not always in words.
        first_line = str(problem).partition("\n")[0]
        raise PlannerError(f"{file}: not metrics as Prometheus writes them: {first_line:.120}") from problem
    return tuple(Sample(s.name, dict(s.labels), float(s.value)) for family in families for s in family.samples)
