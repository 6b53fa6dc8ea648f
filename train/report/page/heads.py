"""The card of a run that chooses among several numbers of clusters: a table, and the reason."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import Any

from ..heads import HEADINGS, row_of, used_text

__all__ = ["heads_curves", "heads_html", "latest_heads"]

NOTE = (
    "“Views agree”: labels that each head gives to two random views of the same samples, adjusted "
    "Rand index with its standard error. Silhouette: how much nearer samples are to their own "
    "center than to the next; (none): the same for data without clusters, of the same covariance. "
    "Price: share of the objective that the bounds cost; gap: proven distance to the best labels "
    "inside them. No class is read."
)


def latest_heads(records: Sequence[Mapping[str, Any]]) -> tuple[int, Mapping[str, Any]] | None:
    """Return the last epoch that has judged its heads, and what it found."""
    for record in reversed(records):
        if "heads" in record:
            return int(record["epoch"]), record["heads"]
    return None


def heads_html(records: Sequence[Mapping[str, Any]], used: int, *, done: bool) -> str:
    """Return the card, or nothing for a run with one k.

    Parameters
    ----------
    records : sequence of mappings. The lines of ``metrics.jsonl``.
    used : int. The k of the head that the page shows.
    done : bool. Whether the run has ended, so that its head is chosen.
    """
    latest = latest_heads(records)
    if latest is None:
        return ""
    epoch, entry = latest
    rows = []
    for one in entry["judged"]:
        cells = "".join(f"<td>{html.escape(cell)}</td>" for cell in row_of(one)[1:])
        shown = " (shown)" if one["n_clusters"] == used else ""
        rows.append(f"<tr><th scope=row>{one['n_clusters']}{shown}</th>{cells}</tr>")
    head = "".join(f"<th scope=col>{html.escape(name)}</th>" for name in HEADINGS)
    reason = html.escape(used_text(entry, used, done=done))
    return (
        '<section class="card" id="heads"><h2>Numbers of clusters</h2>'
        f"<p>Epoch {epoch:,}: {reason}.</p>"
        f'<div class="scroll"><table class="plain"><thead><tr>{head}</tr></thead>'
        f'<tbody>{"".join(rows)}</tbody></table></div><p class="small">{NOTE}</p></section>'
    )


def heads_curves(records: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the panel of agreements over epochs, a line for each k; nothing for one k."""
    lines: dict[int, dict[str, list[float]]] = {}
    for record in records:
        for one in record.get("heads", {}).get("judged", ()):
            line = lines.setdefault(one["n_clusters"], {"x": [], "y": []})
            line["x"].append(int(record["epoch"]))
            line["y"].append(float(f"{one['agreement']:.5g}"))
    if not lines:
        return []
    named = [{"name": f"k = {k}", **line} for k, line in lines.items()]
    title = "Agreement of two views, by number of clusters"
    return [{"title": title, "lines": named, "high": 1}]
