"""Runs as rows of a table: for CSV, Markdown, JSON, standard output and the page.

What a row has depends on its run: classes give agreement, the end of a run gives sizes inside the
bounds. The papers' figure stands first and is named; that of labels inside the bounds is beside it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...common.tables import csv_text
from .preference import Candidate, Preference
from .stored import StoredRun

__all__ = [
    "COLUMNS",
    "comparison_csv",
    "comparison_markdown",
    "comparison_rows",
    "comparison_text",
    "protocol_note",
    "shown_cells",
]

Row = dict[str, Any]

SCORES = ("acc", "nmi", "ari")
PROTOCOLS = {"test_": "held out, argmax", "argmax_": "argmax"}
"""Figures of the papers' protocol by the prefix of their names; the first that is there counts."""

COLUMNS = (
    "run",
    "method",
    "seed",
    "state",
    "epoch",
    "epochs",
    "clusters",
    "samples",
    "protocol",
    *SCORES,
    *(f"bounded_{name}" for name in SCORES),
    "smallest",
    "largest",
    "lower",
    "upper",
    "argmax_smallest",
    "argmax_largest",
    "moved",
    "loss",
    "churn",
    "alarms",
    "repeated",
    "found_by_others",
    "seconds",
    "folder",
)
"""Names of the columns. Without a prefix agreement is that of the papers' protocol, which
``protocol`` names, ``bounded_`` that of labels inside the bounds; where another head was evaluated
than the one that the labels are of, ``protocol`` says which, and there is no agreement;
``smallest`` and ``largest`` are sizes inside the bounds ``lower`` and ``upper``, or of the labels
of training before the end;
``moved`` is the share of samples that only the bounds moved; ``repeated`` and ``found_by_others``
are mean ARIs of a method (`preference`). What is not known is empty."""


def comparison_rows(runs: Sequence[StoredRun], preference: Preference) -> list[Row]:
    """Return a row for each run, with the names of `COLUMNS`; None where something is not known."""
    by_method: dict[str, Candidate] = {}
    for candidate in preference.candidates:
        by_method |= dict.fromkeys(candidate.runs, candidate)
    rows = []
    for run in runs:
        own = by_method[run.name]
        row: Row = dict.fromkeys(COLUMNS)
        row |= {
            "run": run.name,
            "method": run.method,
            "seed": run.seed,
            "state": run.state,
            "epoch": None if run.baseline else run.epoch,
            "epochs": None if run.baseline else run.epochs,
            "clusters": run.n_clusters,
            "loss": _last(run, "loss"),
            "churn": _last(run, "churn"),
            "alarms": ", ".join(run.alarms),
            "repeated": _known(own.repeated),
            "found_by_others": _known(own.found),
            "seconds": run.seconds,
            "folder": str(run.folder),
        }
        rows.append(row | _agreement(run) | _sizes(run))
    return rows


def _agreement(run: StoredRun) -> Row:
    """Figures of the last evaluation, where it was of the head that the labels are of."""
    for prefix, protocol in PROTOCOLS.items():
        for record in reversed(run.records):
            if f"{prefix}acc" in record:
                if run.evaluated(record) != run.n_clusters:
                    return {"protocol": f"evaluated for k = {run.evaluated(record)} alone"}
                bounded = {f"bounded_{n}": record.get(n) for n in SCORES}
                return {
                    "protocol": protocol,
                    **{n: record[f"{prefix}{n}"] for n in SCORES},
                    **bounded,
                }
    return {}


def _sizes(run: StoredRun) -> Row:
    if run.found is None:
        free = {f"argmax_{name}": _last(run, f"argmax_size_{key}") for name, key in _ENDS}
        return {name: _last(run, f"size_{key}") for name, key in _ENDS} | free
    assert run.lower is not None
    assert run.upper is not None
    sizes = np.bincount(run.found.labels, minlength=run.n_clusters)
    nearest = np.bincount(run.found.nearest, minlength=run.n_clusters)
    return {
        "samples": len(run.found.ids),
        "smallest": int(sizes.min()),
        "largest": int(sizes.max()),
        "lower": int(run.lower.min()),
        "upper": int(run.upper.max()),
        "argmax_smallest": int(nearest.min()),
        "argmax_largest": int(nearest.max()),
        "moved": float((run.found.labels != run.found.nearest).mean()),
    }


_ENDS = (("smallest", "min"), ("largest", "max"))


def _last(run: StoredRun, name: str) -> Any:
    """The last value of a figure that was a number."""
    for record in reversed(run.records):
        value = record.get(name)
        if isinstance(value, int | float) and math.isfinite(value):
            return value
    return None


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value


def comparison_csv(rows: Sequence[Row]) -> str:
    """Return all columns as CSV, with six digits of a number that is not whole."""
    return csv_text({name: [row[name] for row in rows] for name in COLUMNS}, ".6g")


def shown_cells(rows: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    """Return headings and cells of the table that is read: what says nothing is left out.

    Examples
    --------
    >>> row = dict.fromkeys(COLUMNS) | {"run": "a", "state": "ended", "smallest": 3, "largest": 5}
    >>> shown_cells([row])
    (['run', 'sizes'], [['a', '3 to 5']])
    """
    makers: dict[str, Callable[[Row], Any]] = {
        "run": lambda r: r["run"],
        "state": lambda r: r["state"],
        "ACC": lambda r: _digits(r["acc"]),
        "NMI": lambda r: _digits(r["nmi"]),
        "ARI": lambda r: _digits(r["ari"]),
        "protocol": lambda r: r["protocol"] or "",
        "ACC in bounds": lambda r: _digits(r["bounded_acc"]),
        "sizes": lambda r: _span(r["smallest"], r["largest"]),
        "bounds": _bounds,
        "moved": lambda r: "" if _bounds(r) in ("", "none") else _percent(r["moved"]),
        "loss": lambda r: "" if r["loss"] is None else f"{r['loss']:.4g}",
        "churn": lambda r: _percent(r["churn"]),
        "alarms": lambda r: r["alarms"] or "",
        "repeats": lambda r: _digits(r["repeated"]),
        "found by others": lambda r: _digits(r["found_by_others"]),
        "seconds": lambda r: "" if r["seconds"] is None else f"{r['seconds']:,.1f}",
    }
    columns = {name: [str(make(row)) for row in rows] for name, make in makers.items()}
    kept = {name: cells for name, cells in columns.items() if any(cells)}
    told = set(filter(None, kept.get("protocol", [])))
    if len(told) == 1 and told <= set(PROTOCOLS.values()):
        del kept["protocol"]  # `protocol_note` says it
    if set(kept["state"]) == {"ended"}:
        del kept["state"]
    return list(kept), [list(line) for line in zip(*kept.values(), strict=True)]


def protocol_note(rows: Sequence[Row]) -> str:
    """Say how the figures of agreement were made; empty where no run has any."""
    found = sorted({row["protocol"] for row in rows if row["acc"] is not None})
    if not found:
        return ""
    how = found[0] if len(found) == 1 else "as the column protocol says"
    return f"ACC, NMI, ARI: {how}, the papers' protocol; ACC in bounds: of the labels of the run"


def comparison_markdown(rows: Sequence[Row], preference: Preference) -> str:
    """Return the table that is read, and the preference, as Markdown."""
    heads, lines = shown_cells(rows)
    marked = [[cell.replace("|", "\\|") for cell in line] for line in [heads, *lines]]
    marked.insert(1, ["---"] * len(heads))
    table = "\n".join(f"| {' | '.join(line)} |" for line in marked)
    notes = "".join(f"{note}.\n\n" for note in [protocol_note(rows)] if note)
    return f"{table}\n\n{notes}{preference.reason}\n"


def comparison_text(rows: Sequence[Row], preference: Preference, notes: Sequence[str] = ()) -> str:
    """Return the report for standard output."""
    heads, lines = shown_cells(rows)
    every = [heads, *lines]
    widths = [max(map(len, column)) for column in zip(*every, strict=True)]
    words = {heads.index(name) for name in ("run", "state", "protocol", "alarms") if name in heads}
    table = [
        "  ".join(
            cell.ljust(width) if i in words else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in every
    ]
    return "\n".join([*table, *filter(None, [protocol_note(rows)]), *notes, preference.reason])


def _digits(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _percent(value: float | None) -> str:
    return "" if value is None else f"{value:.1%}"


def _span(low: Any, high: Any) -> str:
    return "" if low is None else f"{low:,} to {high:,}"


def _bounds(row: Mapping[str, Any]) -> str:
    low, high, n = row["lower"], row["upper"], row["samples"]
    if low is None:
        return ""
    if low <= 0 and high >= n:
        return "none"
    if low <= 0:
        return f"at most {high:,}"
    return f"at least {low:,}" if high >= n else f"{low:,} to {high:,}"
