"""The files of ``--report``: the rows worth a look as a table, and the page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...algos.scores.sources import FeatureSource
from ...common.formats import Ids
from ..notable import Notable, Restricted, rows_csv
from ..output import Clusters
from ..shown import ShownColumn, values_of
from .draw import draw_report, sampled_rows
from .row_entries import Shown

__all__ = ["report_files"]


def report_files(
    source: FeatureSource,
    found: Clusters,
    result: dict[str, Any],
    notable: Notable,
    *,
    title: str,
    out: Path,
    weights: Any | None = None,
    restricted: Restricted | None = None,
    ids: Ids | None = None,
    column: ShownColumn | None = None,
    labels: NDArray[np.int64] | None = None,
) -> dict[str, bytes]:
    """Return the files, by their names.

    Parameters
    ----------
    source, found, result, notable, title, weights, restricted
        As in `draw_report`.
    out : Path
        The folder that they go to.
    ids : callable, optional
        Of all rows of the input.
    column : ShownColumn, optional
    labels : (n,) int64 array, optional
        Of all rows of the input, -1 for those that were dropped; those found by default.
    """
    labels = found.labels if labels is None else labels
    lists = (notable.exemplars, notable.doubtful, notable.moved)
    rows = np.unique(np.concatenate([lines.row for lines in lists]))
    own = None if ids is None else values_of(ids, rows)
    shown = None
    if column is not None:
        sample = sampled_rows(len(labels))
        sample = sample[labels[sample] >= 0]
        texts = values_of(column.values, np.union1d(rows, sample))
        values, counted = ({row: texts[row] for row in some.tolist()} for some in (rows, sample))
        shown = Shown(column.name, values, column.folder, out, counted, labels)
    page = draw_report(
        source,
        found,
        result,
        notable,
        title=title,
        weights=weights,
        restricted=restricted,
        ids=own,
        shown=shown,
    )
    return {"rows.csv": rows_csv(notable, str(result["metric"]), own).encode()} | page
