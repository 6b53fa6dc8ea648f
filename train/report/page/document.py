"""The file ``report.html`` of a run folder, written anew after each epoch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ....common.page.document import SHARED, page_text, read_part, script_of, template_of
from .figures import cluster_data, curves_of
from .state import RunState
from .words import fields_of

__all__ = ["SCRIPTS", "run_page"]

SCRIPTS = (
    *((SHARED, name) for name in ("base.js", "charts.js", "curves.js", "map.js", "rows.js")),
    (SHARED, "clusters.js"),
    *((__package__, name) for name in ("gallery.js", "confusion.js", "main.js")),
)
"""Parts of the script, in order; together they are one function."""

COLUMNS = ("row", "cluster", "second", "free", "near", "margin", "loss")


def run_page(state: RunState, parts: Mapping[str, Any] | None = None) -> str:
    """Return the page of a run.

    Parameters
    ----------
    state : RunState
    parts : mapping, optional
        What `figures.found_parts` gave at the last evaluation; before the first, the page has
        figures and curves alone.

    Returns
    -------
    str
        Equal for equal states: no clock is read.
    """
    prices = np.zeros(len(state.lower)) if state.prices is None else state.prices
    data = {
        "metric": "score",
        "table": "assignments.csv",
        "typical": "Most typical: clearest margin",
        "shown": None,
        "curves": _curves(state),
        **(_nothing(state, prices) if parts is None else parts),
    }
    if parts is not None:
        data["trained"] = state.trained.tolist()
    style = read_part(SHARED, "page.css") + read_part(__package__, "run.css")
    return page_text(
        template_of(__package__, "page.html"),
        fields_of(state, parts),
        style=style,
        script=script_of(SCRIPTS),
        data=data,
    )


def _curves(state: RunState) -> list[Any]:
    """Return the panels; those of one head say which, where it is not the one that is shown."""
    k = len(state.lower)
    own = (k, int(state.lower.min()), int(state.upper.max()))
    followed, low, high = state.followed or own
    panels = curves_of(state.records, (low, high, state.n_samples))
    if followed != k:
        for panel in panels:
            if panel["title"].startswith(("Churn", "Sizes by the labels of training")):
                panel["title"] += f" (head of {followed} clusters)"
    return panels


def _nothing(state: RunState, prices: Any) -> dict[str, Any]:
    """What the script reads where no samples have been labeled yet."""
    empty: dict[str, Any] = {name: [] for name in COLUMNS}
    k = len(state.lower)
    return {
        **cluster_data(state.trained, state.lower, state.upper, prices, state.n_samples),
        "movedIn": [0] * k,
        "movedOut": [0] * k,
        "margins": None,
        "maps": None,
        **dict.fromkeys(("exemplars", "random", "doubtful", "moved"), empty),
        "rows": {},
        "images": [],
        "next": [[] for _ in range(k)],
        "classes": None,
        "alike": None,
    }
