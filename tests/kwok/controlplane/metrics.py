"""Reads values out of the Prometheus text format."""

import re

_SAMPLE = re.compile(r"^(?P<name>[a-zA-Z_:][\w:]*)(?:\{(?P<labels>.*)\})? (?P<value>\S+)", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


def metric_sum(text: str, metric: str, /, **labels: str) -> float:
    """Return the sum of a metric's samples that carry all of `labels`; 0 when there is none, as counters start."""
    total = 0.0
    for sample in _SAMPLE.finditer(text):
        if sample["name"] == metric and labels.items() <= dict(_LABEL.findall(sample["labels"] or "")).items():
            total += float(sample["value"])
    return total
