"""Choices of rows, and the first of each cluster: by loops, on ties, at extremes."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.clustering import first_of_each, restricted_scores, row_choices
from dualclust.algos.core.errors import InvalidValueError
from dualclust.algos.scores.sources import score_source
from tests.compare import to_numpy

RNG = np.random.default_rng(0)
# Sixteenths: sums and differences are exact, and many of them are equal.
SCORES = RNG.integers(-4, 5, size=(60, 5)) / 16.0
PRICES = RNG.integers(-2, 3, size=5) / 16.0
LABELS = RNG.integers(0, 5, size=60)


def by_loops(scores, labels, prices):
    for i, row in enumerate(scores.tolist()):
        own = labels[i]
        priced = [s + p for s, p in zip(row, prices.tolist(), strict=True)]
        others = [v for j, v in enumerate(priced) if j != own]
        second = max(others)
        runner_up = next(j for j, v in enumerate(priced) if j != own and v == second)
        loss = max(row) - row[own]
        free = row.index(max(row)) if loss > 0 else own
        yield priced[own] - second, runner_up, free, loss


def test_choices_by_loops(xp):
    found = row_choices(xp.asarray(SCORES), xp.asarray(LABELS), xp.asarray(PRICES))
    margin, runner_up, free, loss = zip(*by_loops(SCORES, LABELS, PRICES), strict=True)
    assert to_numpy(found.margin).tolist() == list(margin)
    assert to_numpy(found.runner_up).tolist() == list(runner_up)
    assert to_numpy(found.free).tolist() == list(free)
    assert to_numpy(found.loss).tolist() == list(loss)


def test_forbidden_pairs_and_a_single_cluster(xp):
    scores = np.asarray([[0.5, -math.inf, -math.inf], [0.5, 1.0, -math.inf]])
    found = row_choices(xp.asarray(scores), xp.asarray([0, 0]), xp.asarray([0.0, 0.25, 9.0]))
    assert to_numpy(found.margin).tolist() == [math.inf, -0.75]
    assert to_numpy(found.runner_up).tolist() == [-1, 1]
    assert to_numpy(found.free).tolist() == [0, 1]
    assert to_numpy(found.loss).tolist() == [0.0, 0.5]
    alone = row_choices(xp.asarray([[3.0]]), xp.asarray([0]), xp.asarray([-2.0]))
    assert to_numpy(alone.margin).tolist() == [math.inf]
    assert to_numpy(alone.runner_up).tolist() == [-1]


def test_rounding_is_no_loss(xp):
    scores = xp.asarray([[0.5, 0.5 + 2.0**-20], [0.0, 1.0]])
    labels, prices = xp.asarray([0, 0]), xp.asarray([0.0, 0.0])
    found = row_choices(scores, labels, prices, ties=xp.asarray([2.0**-19, 2.0**-19]))
    assert to_numpy(found.loss).tolist() == [0.0, 1.0]
    assert to_numpy(found.free).tolist() == [0, 1]
    assert to_numpy(row_choices(scores, labels, prices).free).tolist() == [1, 1]


@pytest.mark.parametrize("most", [1, 3, 100])
def test_first_of_each_by_sorting(xp, most):
    keys = RNG.integers(0, 6, size=80) / 4.0
    groups = RNG.integers(0, 4, size=80) * 2  # some clusters have no row
    found = to_numpy(first_of_each(xp.asarray(groups), xp.asarray(keys), most)).tolist()
    expected = []
    for group in range(8):
        mine = [i for i in range(80) if groups[i] == group]
        expected += sorted(mine, key=lambda i: (keys[i], i))[:most]
    assert found == expected


def test_the_first_of_parts_are_the_first_of_all(xp):
    keys, groups = RNG.integers(0, 5, size=90) / 4.0, RNG.integers(0, 3, size=90)
    whole = to_numpy(first_of_each(xp.asarray(groups), xp.asarray(keys), 4))
    kept = np.empty(0, np.int64)
    for start in range(0, 90, 30):
        kept = np.concatenate([kept, np.arange(start, start + 30)])
        first = first_of_each(xp.asarray(groups[kept]), xp.asarray(keys[kept]), 4)
        kept = kept[to_numpy(first)]
    assert kept.tolist() == whole.tolist()


def test_nothing_has_no_first(xp):
    none = first_of_each(xp.asarray(np.empty(0, np.int64)), xp.asarray(np.empty(0)), 2)
    assert to_numpy(none).tolist() == []
    with pytest.raises(InvalidValueError, match="most"):
        first_of_each(xp.asarray([0]), xp.asarray([0.0]), 0)


def test_restrictions_are_those_of_the_clustering(xp):
    bounds = SizeBounds.from_counts([0, 0], None, n_samples=2, xp=xp.namespace, device=xp.device)
    source = score_source(xp.asarray([[1.0, 2.0], [3.0, 4.0]]))
    assert restricted_scores(source, bounds) is source
    known, pairs = xp.asarray([-1, 0]), xp.asarray([[0, 1]])
    scores = restricted_scores(source, bounds, fixed=known, forbidden=pairs).block(0, 2)
    assert to_numpy(scores).tolist() == [[1.0, -math.inf], [3.0, -math.inf]]
