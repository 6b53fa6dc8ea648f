"""``dualclust cluster --report``: one page about a result, which loads nothing else."""

from __future__ import annotations

import base64
from functools import partial
from typing import Any

import array_api_compat as compat
import numpy as np
from numpy.typing import NDArray

from ...algos.clustering.choices import RowChoices
from ...algos.scores.sources import FeatureSource, ScoreSource, alone
from ..notable import Lines, Notable, Restricted, find_notable
from ..output import Clusters
from .layout import main_plane, neighbor_map, rows_around
from .page import active_bounds, page_of
from .row_entries import Room, Shown, entry_of, short

__all__ = ["draw_report"]

Floats = NDArray[np.float64]

SAMPLE, DOTS = 20_000, 5_000
"""Most rows behind the margins and on the map; both take every m-th row."""

LISTED = 3_000
"""Most rows of each kind on the page; `rows.csv` has all of them."""

BARS = 60
"""Bars of the margins."""

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
        "prices": _rounded(found.prices, 6),
        "movedIn": notable.moved_in.tolist(),
        "movedOut": notable.moved_out.tolist(),
        "margins": _histogram(choices.margin),
        "maps": _maps(source, sample, found, choices),
        "rows": entries,
        "images": pictures,
        "shown": None if shown is None else shown.name,
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


def _rounded(values: Floats, digits: int) -> list[float]:
    """Return values of so many digits; what is rounding next to the largest is 0."""
    finite = values[np.isfinite(values)]
    values = np.where(np.abs(values) > 1e-9 * np.abs(finite).max(initial=0.0), values, 0.0)
    return [float(f"{value:.{digits}g}") for value in values.tolist()]


def _histogram(margin: Floats) -> dict[str, Any] | None:
    """Count margins in bars of equal width; None for a single cluster, which has no second."""
    finite = margin[np.isfinite(margin)]
    if len(finite) == 0:
        return None
    finite = np.maximum(finite, 0.0)
    end = float(np.quantile(finite, 0.995)) or 1.0
    counts, _ = np.histogram(np.minimum(finite, end), bins=BARS, range=(0.0, end))
    return {
        "end": end,
        "counts": counts.tolist(),
        "median": float(np.median(finite)),
        "n": len(finite),
        "near": float((finite < 0.01 * end).mean()),
    }


def _maps(
    source: FeatureSource, sample: NDArray[np.int64], found: Clusters, choices: RowChoices
) -> dict[str, Any]:
    """Return places of the centers and of some rows, each in [0, 1], on one or two maps."""
    every = max(1, -(-len(sample) // DOTS))
    dots, labels = sample[::every], found.labels[sample[::every]]
    centers, k = found.centers.astype(np.float64), len(found.counts)
    blocks = [_float64(source.take(dots[i : i + 1024])) for i in range(0, len(dots), 1024)]
    if k > 2:
        plane = main_plane(centers, np.maximum(found.counts, 1).astype(np.float64))
    else:  # two centers span a line only
        points = np.concatenate(blocks)
        plane = main_plane(points, np.ones(len(points)))
    flat = plane.project(centers)
    of_what = "the centers" if k > 2 else "the rows"
    maps = [
        {
            "name": "Main directions",
            "note": f"The plane of most spread of {of_what}: it shows {plane.share:.0%} of it.",
            **_box(flat, np.concatenate([plane.project(block) for block in blocks])),
        }
    ]
    if 4 <= k <= MOST_NEIGHBORS:
        places = neighbor_map(centers, flat)
        margin = choices.margin[::every]
        order = np.argsort(np.argsort(-margin, kind="stable"), kind="stable")
        doubt = (order + 0.5) / max(1, len(order))
        around = rows_around(places, labels, choices.runner_up[::every], doubt)
        note = (
            "Only who is next to whom is kept; distances across the map mean nothing. A row is the "
            "nearer to its cluster's edge, toward its second choice, the smaller its margin is."
        )
        maps.insert(0, {"name": "Neighborhoods", "note": note, **_box(places, around)})
    return {"all": maps, "cluster": _packed(labels.astype("<u4"))}


def _box(centers: Floats, dots: Floats) -> dict[str, Any]:
    """Scale places into the unit square, both axes alike; rows far outside lie on its edge."""
    low, high = centers.min(axis=0), centers.max(axis=0)
    if len(dots):
        low = np.minimum(low, np.quantile(dots, 0.002, axis=0))
        high = np.maximum(high, np.quantile(dots, 0.998, axis=0))
    side = float((high - low).max()) or 1.0
    middle = (low + high) / 2
    inside = (centers - middle) / side + 0.5
    dots = np.clip((dots - middle) / side + 0.5, 0.0, 1.0)
    return {
        "x": [round(x, 4) for x in inside[:, 0].tolist()],
        "y": [round(1.0 - y, 4) for y in inside[:, 1].tolist()],
        "dots": _packed((np.stack([dots[:, 0], 1.0 - dots[:, 1]], axis=1) * 65535).astype("<u2")),
    }


def _packed(array: NDArray[Any]) -> str:
    return base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()


def _float64(rows: Any) -> Floats:
    return np.asarray(rows if isinstance(rows, np.ndarray) else rows.cpu(), dtype=np.float64)


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
        "near": _rounded(lines.near, 4),
        "margin": [v if np.isfinite(v) else None for v in _rounded(lines.margin, 4)],
        "loss": _rounded(lines.loss, 4),
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
