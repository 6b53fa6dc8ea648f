"""What is told of the heads of a run: a table, the reason, which is used, which was evaluated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["HEADINGS", "evaluated_clusters", "heads_text", "row_of", "used_text"]

HEADINGS = ("k", "views agree", "silhouette", "(none)", "sizes", "price", "gap")
"""Columns of the table; (none) is the silhouette of data without clusters."""


def row_of(judged: Mapping[str, Any]) -> tuple[str, ...]:
    """Return a head as texts, one for each of `HEADINGS`."""
    return (
        f"{judged['n_clusters']}",
        f"{judged['agreement']:.3f} +- {judged['agreement_error']:.3f}",
        f"{judged['silhouette']:.3f}",
        f"{judged['reference']:.3f}",
        f"{judged['smallest']}-{judged['largest']}",
        f"{100 * judged['price']:.2f} %",
        f"{judged['gap']:.0e}",
    )


def heads_text(entry: Mapping[str, Any], used: int) -> str:
    """Return the table of the heads and the reason, as lines.

    Parameters
    ----------
    entry : mapping. Of a record, as `judge_heads` returns it.
    used : int. The k of the head that the results are of.
    """
    lines = [HEADINGS, *map(row_of, entry["judged"])]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    marks = ["", *(" *" if one["n_clusters"] == used else "" for one in entry["judged"])]
    table = [
        "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) + mark
        for line, mark in zip(lines, marks, strict=True)
    ]
    return "\n".join([*table, used_text(entry, used)])


def used_text(entry: Mapping[str, Any], used: int, *, done: bool = True) -> str:
    """Return the reason, and which head the results are of, or are shown of until the end."""
    reason = str(entry["reason"])
    if not done:
        return f"until the end k = {used} is shown; {reason}"
    if used != entry["best"]:
        return f"k = {used} is used, as asked; {reason}"
    if entry["recommended"] is None:
        return f"{reason}; the results are of k = {used}"
    return reason


def evaluated_clusters(record: Mapping[str, Any], *, target: int, epochs: int) -> int:
    """Return the k of the head that the figures of an evaluation are of.

    Parameters
    ----------
    record : mapping. A line of ``metrics.jsonl``.
    target : int. ``heads.target`` of the settings.
    epochs : int. Of the whole run: its last evaluation is of the head that it chooses.

    Examples
    --------
    >>> end = {"epoch": 8, "heads": {"best": 4}}
    >>> evaluated_clusters(end, target=7, epochs=8), evaluated_clusters(end, target=7, epochs=9)
    (4, 7)
    """
    chosen = record["epoch"] == epochs and "heads" in record
    return int(record["heads"]["best"]) if chosen else target
