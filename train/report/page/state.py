"""What the page of a run is made of: arrays of the host, records, and how to get images."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Found", "Pictures", "RunState"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Images = NDArray[np.uint8]


class Found(NamedTuple):
    """What a pass over all n samples gave, for k clusters.

    Attributes
    ----------
    epoch : int
    labels, nearest, runner_up : (n,) int64 arrays. Clusters inside the bounds, without bounds, and
        second choices at the prices.
    margins : (n,) float64 array. How clear each label is, in units of score.
    near, loss : (n,) float64 arrays. Score of a sample's own cluster, and by how much the best
        cluster without bounds has more.
    features : (n, d) float32 array
    prices, lower, upper : (k,) arrays
    gap : float. Proven distance to the best labels.
    ids : (n,) int64 array. Positions in the source.
    names : sequence of str or None. Files.
    classes : (n,) int64 array or None. -1 where there is none.
    class_names : sequence of str
    alike : pair of (n,) int64 and float64 arrays, or None. The nearest other sample of each, and
        the cosine of their features.
    """

    epoch: int
    labels: Ints
    nearest: Ints
    runner_up: Ints
    margins: Floats
    near: Floats
    loss: Floats
    features: NDArray[np.float32]
    prices: Floats
    lower: Ints
    upper: Ints
    gap: float
    ids: Ints
    names: Sequence[str] | None = None
    classes: Ints | None = None
    class_names: Sequence[str] = ()
    alike: tuple[Ints, Floats] | None = None

    @property
    def counts(self) -> Ints:
        """Sizes of the clusters inside the bounds, (k,)."""
        sizes: Ints = np.bincount(self.labels, minlength=len(self.lower)).astype(np.int64)
        return sizes


class Pictures(NamedTuple):
    """Where the page gets images from.

    Attributes
    ----------
    images : function of a list of m positions. Gives (m, c, h, w) uint8 arrays, c = 1 or 3.
    attended : function of m positions, or None. Gives (m, h, w, 3) uint8 arrays, the images under
        what the network looks at, or None where that is not known.
    most : int. Images to put on the page at most, so that a page of a run that goes on is cheap.
    """

    images: Callable[[list[int]], Images]
    attended: Callable[[list[int]], Images | None] | None = None
    most: int = 20_000


class RunState(NamedTuple):
    """A run between two epochs, or at its end.

    Attributes
    ----------
    title, method : str
    settings : str. As ``config.toml`` has them.
    versions : mapping from name to version.
    epochs : int. Of the whole run.
    done : bool
    records : sequence of mappings. The lines of ``metrics.jsonl``.
    n_samples : int
    lower, upper : (k,) int64 arrays. Bounds of the target head.
    trained : (k,) int64 array. Sizes by the labels that training has stored.
    prices : (k,) float64 array or None. Where the method trains at prices: those of now.
    stopped : str. Why the run cannot go on; empty where it can.
    followed : (k, smallest, largest) or None. The head that the sizes and churn of `records` are
        of, and its bounds; None: the one above.
    """

    title: str
    method: str
    settings: str
    versions: Mapping[str, str]
    epochs: int
    done: bool
    records: Sequence[Mapping[str, Any]]
    n_samples: int
    lower: Ints
    upper: Ints
    trained: Ints
    prices: Floats | None = None
    stopped: str = ""
    followed: tuple[int, int, int] | None = None
