"""``dualclust cluster --report``: one page about a result, which loads nothing else."""

from __future__ import annotations

from functools import partial
from typing import Any

import array_api_compat as compat
import numpy as np
from numpy.typing import NDArray

from ...algos.clustering.choices import RowChoices
from ...algos.scores.sources import FeatureSource, ScoreSource, alone
from ...common.page.numbers import histogram, maps_of, rounded
from ..notable import Lines, Notable, Restricted, find_notable
from ..output import Clusters
from .frequent_words import frequent_words
from .page import active_bounds, page_of
from .row_entries import Room, Shown, entry_of, short

__all__ = ["draw_report", "sampled_rows"]

Floats = NDArray[np.float64]

SAMPLE, DOTS = 20_000, 5_000
"""Most rows behind the margins and on the map; both take every m-th row."""

LISTED = 3_000
"""Most rows of each kind on the page; `rows.csv` has all of them."""

MOST_NEIGHBORS = 2_000
"""Most clusters with a map of neighborhoods, whose time grows with their square."""


def draw_report(
    source: FeatureSource,
    found: Clusters,
    result: dict[str, Any],
    notable: Notable,
    *,
    title: str,
    weights: Floats | None = None,
    restricted: Restricted | None = None,
    ids: dict[int, str] | None = None,
    shown: Shown | None = None,
) -> dict[str, bytes]:
    """Write the page of a result.

    Parameters
    ----------
    source : FeatureSource
        Gives a sample of rows by ids, on this rank alone (`embeddings.embedding_source`).
    found : Clusters
    result : dict
        The contents of result.json.
    notable : Notable
    title : str
    weights : (n,) float64 array, optional
    restricted : callable, optional
        As in `find_notable`: margins and map then know which choices a row has.
    ids : dict from row to str, optional
        Of the rows in `notable`.
    shown : Shown, optional
        What else to show of these rows.

    Returns
    -------
    dict from the name ``report.html`` to its bytes
        Equal for equal results. At k = 1,000 below 3 MB, whatever `shown` holds.

    Notes
    -----
    Reads at most `SAMPLE` rows; O(k^2) time and memory for at most `MOST_NEIGHBORS` clusters.
    """
    metric = str(result["metric"])
    sample = np.arange(0, len(found.labels), max(1, -(-len(found.labels) // SAMPLE)))
    choices = _choices(source, sample, found, metric, weights, restricted)
    entries, pictures, notes = _entries(notable, ids, shown)
    data = {
        "metric": metric,
        "counts": found.counts.tolist(),
        "lower": [int(low) if low > 0 else None for low in found.lower],
        "upper": [int(high) if high < len(found.labels) else None for high in found.upper],
        "held": active_bounds(found).tolist(),
        "prices": rounded(found.prices, 6),
        "movedIn": notable.moved_in.tolist(),
        "movedOut": notable.moved_out.tolist(),
        "margins": histogram(choices.margin),
        "maps": _maps(source, sample, found, choices),
        "rows": entries,
        "images": pictures,
        "shown": None if shown is None else shown.name,
        "words": {} if shown is None else _words(found, shown),
        **{
            kind: _columns(lines)
            for kind, lines in zip(
                ("exemplars", "doubtful", "moved"), _on_page(notable), strict=True
            )
        },
    }
    weight = float(len(found.labels) if weights is None else weights.sum())
    page = page_of(found, result, notable, data, title=title, weight=weight, notes=notes)
    return {"report.html": page.encode("utf-8", "replace")}


def _choices(
    source: FeatureSource,
    sample: NDArray[np.int64],
    found: Clusters,
    metric: str,
    weights: Floats | None,
    restricted: Restricted | None,
) -> RowChoices:
    """Return the choices of a sample of rows, among the clusters that these may join."""
    some = source._replace(
        rows=lambda start, stop: source.take(sample[start:stop]), group=alone(len(sample))
    )
    part = found._replace(labels=found.labels[sample])
    own = None if weights is None else weights[sample]
    if own is not None and not own.any():  # the sample may have met rows of weight 0 alone
        own = None
    among = None if restricted is None else partial(_of_sample, restricted, sample)
    choices = find_notable(some, part, metric, own, restricted=among, most=1, all_rows=True).choices
    assert choices is not None
    return choices


def _of_sample(
    restricted: Restricted, sample: NDArray[np.int64], scores: ScoreSource
) -> ScoreSource:
    """Restrict the scores of a sample by what holds for its rows among all rows."""

    def scores_of(ids: Any) -> Any:
        first = int(np.searchsorted(sample, int(ids[0])))
        return scores.block(first, first + len(ids))

    among_all = restricted(scores._replace(take=scores_of))

    def block(start: int, stop: int) -> Any:
        like = scores.block(start, stop)
        xp = compat.array_namespace(like)
        return among_all.take(xp.asarray(sample[start:stop], device=compat.device(like)))

    return scores._replace(block=block)


def _maps(
    source: FeatureSource, sample: NDArray[np.int64], found: Clusters, choices: RowChoices
) -> dict[str, Any]:
    """Return places of the centers and of some rows, each in [0, 1], on one or two maps."""
    every = max(1, -(-len(sample) // DOTS))
    dots, labels = sample[::every], found.labels[sample[::every]]
    centers, k = found.centers.astype(np.float64), len(found.counts)
    blocks = [_float64(source.take(dots[i : i + 1024])) for i in range(0, len(dots), 1024)]
    return maps_of(
        centers,
        found.counts,
        blocks,
        labels=labels,
        runner_up=choices.runner_up[::every],
        margin=choices.margin[::every],
        neighborhoods=k <= MOST_NEIGHBORS,
    )


def _float64(rows: Any) -> Floats:
    return np.asarray(rows if isinstance(rows, np.ndarray) else rows.cpu(), dtype=np.float64)


def _words(found: Clusters, shown: Shown) -> dict[int, list[str]]:
    """Return frequent words of clusters, in the sample of rows and those that are worth a look."""
    texts = (shown.sample or {}) | shown.values
    rows = np.asarray(sorted(texts), dtype=np.int64)
    labels = found.labels if shown.labels is None else shown.labels
    return frequent_words([texts[row] for row in rows.tolist()], labels[rows].tolist())


def sampled_rows(n: int) -> NDArray[np.int64]:
    """Return the rows whose words are counted: at most `DOTS`, in even distances."""
    return np.arange(0, n, max(1, -(-n // DOTS)))


def _on_page(notable: Notable) -> list[Lines]:
    """Return the lines that the page shows: the first of each cluster, as many as there is room."""
    chosen = []
    for lines in (notable.exemplars, notable.doubtful, notable.moved):
        start = np.searchsorted(lines.cluster, lines.cluster)
        rank = np.arange(len(lines.cluster)) - start
        room = np.argsort(rank, kind="stable")[:LISTED]  # all first ones, then all second ones
        chosen.append(lines.take(np.sort(room)))
    return chosen


def _columns(lines: Lines) -> dict[str, list[Any]]:
    return {
        "row": lines.row.tolist(),
        "cluster": lines.cluster.tolist(),
        "second": lines.runner_up.tolist(),
        "free": lines.free.tolist(),
        "near": rounded(lines.near, 4),
        "margin": [v if np.isfinite(v) else None for v in rounded(lines.margin, 4)],
        "loss": rounded(lines.loss, 4),
    }


def _entries(
    notable: Notable, ids: dict[int, str] | None, shown: Shown | None
) -> tuple[dict[str, dict[str, str | int]], list[str], list[str]]:
    """Return what is shown of each row on the page, images, and notes about what is not shown."""
    if ids is None and shown is None:
        return {}, [], []
    order: dict[int, None] = {}  # the first rows of all clusters first, while there is room
    for lines in _on_page(notable):
        rank = np.arange(len(lines.cluster)) - np.searchsorted(lines.cluster, lines.cluster)
        order |= dict.fromkeys(lines.row[np.argsort(rank, kind="stable")].tolist())
    room, entries = Room(len(order)), dict[str, dict[str, str | int]]()
    for row in order:
        entry: dict[str, str | int] = {}
        if shown is not None:
            entry = entry_of(shown.values[row], shown, room)
        if ids is not None:
            entry["id"] = short(ids[row], 40)
        entries[str(row)] = entry
    return entries, room.pictures, room.notes()
