"""How often the offline solver goes over the scores or over the candidates.

A pass over the scores is one scan of a matrix, or of a sample of its rows, block by block, however
many blocks there are. A pass over the candidates is one value of the smoothed dual, one product
with its curvature, or one scan for a bound or a proof. Both are counted where they begin.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from dualclust.algos.offline import _candidates, _reduced, _smoothed_dual
from dualclust.algos.scores.sources import ScoreSource

BEGINS = (
    (_candidates, "row_blocks"),
    (ScoreSource, "map_blocks"),
    (_reduced, "soft_counts"),
    (_smoothed_dual, "evaluate"),
    (_smoothed_dual, "curvature"),
    (_smoothed_dual, "curvature_product"),
)

OVER_SCORES = "_candidates.row_blocks", "ScoreSource.map_blocks"
"""Where passes over the scores, or over samples of them, begin."""


@contextmanager
def counted_passes() -> Iterator[Counter[str]]:
    """Count the passes of everything that is solved inside the block, by where they begin."""
    passes: Counter[str] = Counter()
    with ExitStack() as stack:
        for module, name in BEGINS:
            stack.enter_context(patch.object(module, name, _counting(module, name, passes)))
        yield passes


@contextmanager
def counted_work() -> Iterator[Counter[str]]:
    """Count passes, "paths", the augmenting paths, and "moved", the rows that these moved."""
    with counted_passes() as passes:
        adding_up = _adding_up(passes)
        with patch.object(_reduced, "augmenting_paths", adding_up):
            yield passes


def _adding_up(passes: Counter[str]) -> Any:
    real = _reduced.augmenting_paths

    def counted(*args: Any, **kwargs: Any) -> Any:
        found = real(*args, **kwargs)
        _, _, n_moved, n_paths, _ = found
        passes["moved"] += n_moved
        passes["paths"] += n_paths
        return found

    return counted


def _counting(module: Any, name: str, passes: Counter[str]) -> Any:
    real, where = getattr(module, name), f"{module.__name__.rpartition('.')[2]}.{name}"

    def counted(*args: Any, **kwargs: Any) -> Any:
        passes[where] += 1
        return real(*args, **kwargs)

    return counted
