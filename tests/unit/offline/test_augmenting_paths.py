"""The text of the paths: labels that their prices prove, and stuck only where none exist."""

import math

import numpy as np
import pytest

from dualclust.algos.offline._augmenting_paths import PATHS_AT_ONCE, augmenting_paths
from tests.backends.test_augmenting_paths import candidates_of
from tests.highs import best_plan


def summed(counts, parents):
    """Counts of all nodes but the root, from those of each by itself."""
    counts = counts.copy()
    for v, u in enumerate(parents):
        counts[u] += counts[v]
    return counts[:-1]


@pytest.mark.parametrize("n_sets", [0, 1, 3])
@pytest.mark.parametrize("window", [math.inf, 1.0])
def test_labels_are_inside_and_their_prices_prove_them(n_sets, window):
    """Bounds on clusters, and on sets of them that are a tree; all numbers are exact."""
    n_stuck = n_moves = 0
    for seed in range(150):
        rng = np.random.default_rng(seed)
        n, k = int(rng.integers(1, 13)), int(rng.integers(1, 5))
        n_nodes = k + n_sets
        parents = np.asarray([rng.integers(max(v + 1, k), n_nodes + 1) for v in range(n_nodes)])
        scores = rng.integers(-16, 17, (n, n_nodes)) / 16.0
        scores[:, 0] += 2.0 * (seed % 2)  # many have to leave it
        values, clusters = candidates_of(scores, int(rng.integers(1, n_nodes + 1)), rng)
        own = np.asarray([rng.choice(row[row >= 0]) for row in clusters])
        sizes = summed(np.bincount(own, minlength=n_nodes + 1), parents)
        lower = np.maximum(sizes - rng.integers(0, 3, n_nodes), 0)
        upper = sizes + rng.integers(0, 3, n_nodes)
        lower[0] += seed % 5 == 0  # labels may exist no longer
        prices = rng.integers(-16, 17, n_nodes) / 16.0
        tree = {"parents": parents} if n_sets else {}
        limits = {"lower": lower, "upper": np.maximum(lower, upper), **tree}
        found = augmenting_paths.reference(values, clusters, prices, **limits, window=window)
        slots, after, moved, n_paths, is_stuck = found
        n_stuck, n_moves = n_stuck + is_stuck, n_moves + moved
        labels = np.take_along_axis(clusters, slots[:, None], axis=1)[:, 0]
        before, priced = (values + p[np.maximum(clusters, 0)] for p in (prices, after))
        falling = np.sort(np.concatenate([before, np.full((n, 1), -np.inf)], axis=1), axis=1)
        leads = falling[:, -1] - falling[:, -2]
        is_far = leads > window
        assert (slots[is_far] == before.argmax(axis=1)[is_far]).all()
        away = np.take_along_axis(before, slots[:, None], axis=1)[:, 0] < falling[:, -1]
        assert away.sum() <= moved
        assert (moved > 0) <= (n_paths > 0)
        best = np.take_along_axis(priced, slots[:, None], axis=1)[:, 0] == priced.max(axis=1)
        assert best[~is_far].all()
        if is_stuck:
            if n_sets == 0 and window == math.inf:
                allowed = (clusters[:, :, None] == np.arange(k)).any(axis=1)
                assert best_plan(scores, lower, limits["upper"], allowed=allowed) is None
            continue
        counts = summed(np.bincount(labels, minlength=n_nodes + 1), parents)
        adds = after - np.append(after, 0.0)[parents]
        assert ((lower <= counts) & (counts <= limits["upper"])).all()
        assert (counts == lower)[adds > 0].all()
        assert (counts == limits["upper"])[adds < 0].all()
    assert 0 < n_stuck < 140
    assert n_moves > 50


def solve(scores, counts, **options):
    k = scores.shape[1]
    clusters, exact = np.tile(np.arange(k, dtype=np.int32), (len(scores), 1)), np.asarray(counts)
    given = {"lower": exact, "upper": exact, "window": math.inf, **options}
    return augmenting_paths.reference(scores, clusters, np.zeros(k), **given)


def test_rows_that_are_alike_move_together_and_the_first_of_them():
    scores = np.repeat(np.asarray([[1.0, 0.5, 0.0], [1.0, 0.0, 0.75]]), 2_000, axis=0)
    slots, prices, moved, n_paths, is_stuck = solve(scores, [1_200, 1_600, 1_200])
    assert (moved, n_paths, is_stuck) == (2_800, 2, False)
    assert slots.tolist() == [1] * 1_600 + [0] * 400 + [2] * 1_200 + [0] * 800
    assert (prices - prices[0]).tolist() == [0.0, 0.5, 0.25]


def test_rows_that_tie_need_no_path():
    """They go where most is free of what the price of a cluster asks for."""
    slots, _, moved, n_paths, _ = solve(np.zeros((12, 3)), [2, 6, 4])
    assert np.bincount(slots).tolist() == [2, 6, 4]
    assert (moved, n_paths) == (0, 0)


def test_the_clock_is_looked_at_between_paths():
    rng = np.random.default_rng(0)
    scores = rng.integers(-2000, 2001, (200, 8)) / 1024.0
    scores[:, 0] += 4.0
    whole = solve(scores, [25] * 8)
    looks = []
    found = solve(scores, [25] * 8, is_over=lambda: bool(looks.append(1)))
    assert (found[2:], len(looks)) == (whole[2:], whole[3] // PATHS_AT_ONCE)
    assert solve(scores, [25] * 8, is_over=lambda: True)[3:] == (PATHS_AT_ONCE, True)
