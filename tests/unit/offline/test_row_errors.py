"""Rows that no solver can label: what is wrong, and the same error on every rank."""

import math
from itertools import pairwise

import numpy as np
import pytest

from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.core.errors import (
    DualclustError,
    InfeasibleBoundsError,
    InvalidValueError,
)
from dualclust.algos.offline._free_rows import (
    NO_CLUSTER,
    NOT_FINITE,
    OUT_OF_RANGE,
    agree,
)
from dualclust.algos.offline.assignment import assign_source
from dualclust.algos.scores.blocks import MOST_ROWS
from dualclust.algos.scores.sources import score_source
from dualclust.algos.scores.statistics import ScoresOutOfRangeError
from tests.thread_ranks import groups_on_threads

EDGES = [0, 3, 3, 5, 9]
FINE = (-1, 0)


def of_ranks(wrong, frees=(2, 0, 1, 4)):
    """What each rank gets that has met its part of these rows."""
    source, like = score_source(np.zeros((9, 3))), np.zeros(1)

    def look(group):
        rank = list(pairwise(EDGES)).index((group.first_row, group.first_row + group.n_local))
        found = wrong.get(rank, FINE)
        try:
            return agree(source._replace(group=group), found, frees[rank], like=like)
        except (InvalidValueError, ScoresOutOfRangeError) as error:
            return error

    return groups_on_threads(EDGES, look)


def test_ranks_know_their_place_among_the_free_rows():
    assert of_ranks({}) == [(0, 7), (2, 7), (2, 7), (3, 7)]
    assert all("row 0 is not so" in str(error) for error in of_ranks({0: (0, NOT_FINITE)}))


@pytest.mark.parametrize("kind", [NOT_FINITE, NO_CLUSTER, OUT_OF_RANGE])
def test_all_ranks_raise_the_error_of_the_first_row(kind):
    other = (kind + 1) % 3
    for error in of_ranks({3: (8, other), 2: (4, kind)}):
        if kind == OUT_OF_RANGE:
            assert isinstance(error, ScoresOutOfRangeError)
        elif kind == NO_CLUSTER:
            assert isinstance(error, InfeasibleBoundsError)
            assert error.vector is not None
            assert "sample 4 may join no cluster" in str(error)
        else:
            assert "row 4 is not so. To fix this" in str(error)


@pytest.mark.parametrize("row", [3, MOST_ROWS - 1, MOST_ROWS + 3, 2 * MOST_ROWS + 5, -1])
@pytest.mark.parametrize(
    ("entry", "error", "words"),
    [
        (math.nan, InvalidValueError, "row {} is not so"),
        (math.inf, InvalidValueError, "row {} is not so"),
        (-math.inf, InfeasibleBoundsError, "sample {} may join no cluster"),
    ],
)
def test_a_row_is_named_by_its_place_among_all_rows(rng, row, entry, error, words):
    """In any block of any rank, alone and before another wrong row; the second has two blocks."""
    edges = [0, MOST_ROWS, 3 * MOST_ROWS, 3 * MOST_ROWS + 40]
    n, k = edges[-1], 3
    scores = rng.normal(size=(n, k))
    scores[row] = entry
    scores[-1, 0] = math.nan if row != -1 else scores[-1, 0]
    bounds = SizeBounds.from_ratios(k, n_samples=n, lower=0.9, upper=1.1)

    def solve(group):
        own = scores[group.first_row : group.first_row + group.n_local]
        with pytest.raises(DualclustError) as found:
            assign_source(score_source(own)._replace(group=group), bounds)
        return found.value

    with np.errstate(invalid="ignore"):
        for found in [*groups_on_threads(edges, solve), *groups_on_threads([0, n], solve)]:
            assert type(found) is error
            assert words.format(row % n) in str(found)
