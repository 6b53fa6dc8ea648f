"""The file ``report.html``: words and numbers for everybody, data and scripts for the charts.

The page forbids itself to load or run anything but what is in it, by a content security policy with
the hashes of its style and its script. Text of the user is escaped where it stands in HTML; in the
data, no letter of it can end the element that holds the data.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...common.page.document import SHARED, page_text, read_part, script_of, template_of
from ...common.page.numbers import held
from ...common.page.sections import allowed_sizes, shared_fields, tiles_html
from ..notable import Notable
from ..output import Clusters

__all__ = ["SCRIPTS", "active_bounds", "page_of"]

SCRIPTS = (
    *((SHARED, name) for name in ("base.js", "charts.js", "map.js", "rows.js", "clusters.js")),
    (__package__, "main.js"),
)
"""Parts of the script, in order; together they are one function."""

NAV = (
    ("sizes", "Sizes and prices"),
    ("map", "Map"),
    ("clusters", "Clusters"),
    ("balance", "Price of balance"),
    ("doubtful", "Doubtful rows"),
    ("moved", "Moved rows"),
    ("run", "The run"),
)

SIZES_NOTE = """A price is what is added to all scores of a cluster so that its size comes out
right. These colors mean the same everywhere on this page."""


def active_bounds(found: Clusters) -> NDArray[np.int64]:
    """Return which bound acts on each cluster, as `common.page.numbers.held` tells."""
    return held(found.prices, found.lower, found.upper, len(found.labels))


def page_of(
    found: Clusters,
    result: dict[str, Any],
    notable: Notable,
    data: dict[str, Any],
    *,
    title: str,
    weight: float,
    notes: Sequence[str] = (),
) -> str:
    """Return the page.

    Parameters
    ----------
    found : Clusters
    result : dict
        The contents of result.json.
    notable : Notable
    data : dict
        What the script needs (`draw`).
    title : str
    weight : float
        Sum of the weights; n without weights.
    notes : sequence of str
        About what is not shown.
    """
    k, n = len(found.counts), len(found.labels)
    name = html.escape(title)
    fields = {
        **shared_fields(
            NAV, rows="rows", find="text", orders=("size", "price", "number"), sizes_note=SIZES_NOTE
        ),
        "title": name,
        "heading": f"{k:,} cluster{'s' * (k != 1)} of {n:,} rows",
        "summary": _summary(found, notable),
        "tiles": _tiles(found, notable),
        "balance": _balance(found, result, notable, weight),
        "notes": "".join(f"<p class=note>{html.escape(note)}</p>" for note in notes),
        "facts": "".join(
            f"<tr><th scope=row>{html.escape(key.replace('_', ' '))}</th>"
            f"<td>{html.escape(_number(value))}</td></tr>"
            for key, value in result.items()
        ),
    }
    return page_text(
        template_of(__package__, "page.html"),
        fields,
        style=read_part(SHARED, "page.css"),
        script=script_of(SCRIPTS),
        data=data,
    )


def _summary(found: Clusters, notable: Notable) -> str:
    k, n = len(found.counts), len(found.labels)
    outside = int(((found.counts < found.lower) | (found.counts > found.upper)).sum())
    if outside:
        inside = f"<strong>{outside:,} of {k:,} sizes lie outside their bounds.</strong>"
    elif not (found.lower > 0).any() and not (found.upper < n).any():
        inside = "No bounds were asked for."
    else:
        inside = f"{'All' if k > 1 else 'Its'} sizes lie inside their bounds."
    moved = f"{notable.n_moved:,} row{'s' * (notable.n_moved != 1)} ({notable.n_moved / n:.1%})"
    rest = f"{moved} would be elsewhere without bounds." if notable.n_moved else ""
    if not notable.n_moved:
        rest = "Every row is in the cluster that scores highest for it."
    return f"{inside} {rest}"


def _tiles(found: Clusters, notable: Notable) -> str:
    k, n = len(found.counts), len(found.labels)
    held = [int((active_bounds(found) == side).sum()) for side in (1, -1)]
    low, high = int(found.lower.min()), int(found.upper.max())
    tiles = [
        ("Sizes", f"{found.counts.min():,} to {found.counts.max():,}", f"mean {n / k:,.1f}"),
        ("Bounds", allowed_sizes(low, high, n), "smallest to largest allowed"),
        ("Held by a bound", f"{sum(held):,} of {k:,}", f"{held[0]:,} up, {held[1]:,} down"),
        ("Moved rows", f"{notable.n_moved:,}", f"{notable.n_moved / n:.2%} of all"),
        ("Proven gap", f"{found.gap:.1e}" if found.gap else "0", "0 is the best there is"),
        (
            "Passes",
            f"{found.n_iter:,}",
            "converged" if found.converged else "stopped at the limit",
        ),
    ]
    return tiles_html(tiles)


def _balance(found: Clusters, result: dict[str, Any], notable: Notable, weight: float) -> str:
    """Return the values with and without bounds as a table, and the certificate in words."""
    similar = "mean_similarity" in result
    key = "mean_similarity" if similar else "mean_squared_distance"
    value, bound = float(result[key]), float(result[f"{key}_bound"])
    # Scores are similarities, or minus half the squared distances.
    loss = notable.loss / weight
    free = value + loss if similar else max(0.0, value - 2.0 * loss)
    cost = abs(free - value) / abs(free) if free else 0.0
    name = key.replace("_", " ")
    beyond = "more" if similar else "less"
    rows = [
        ("Every row in its favorite cluster, bounds ignored", free),
        ("These labels, inside the bounds", value),
        (f"Proven: no labels inside the bounds give {beyond} than", bound),
    ]
    table = "".join(
        f"<tr><th scope=row>{text}</th><td>{number:.6g}</td></tr>" for text, number in rows
    )
    proof = "no other labels are better, whatever method finds them."
    if found.gap > 0:
        proof = (
            f"the labels are <b>within {found.gap:.1e} of the best possible</b>, relative to their "
            "scores: no other labels are better by more, whatever method finds them."
        )
    return (
        f"<p>Balance costs <b>{cost:.2%}</b> of the {name} that the same centers would give if "
        f"every row went to its favorite cluster. For these centers and bounds {proof}</p>"
        f"<table class=plain><thead><tr><td></td><th scope=col>{name}</th></tr></thead>"
        f"<tbody>{table}</tbody></table>"
    )


def _number(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
