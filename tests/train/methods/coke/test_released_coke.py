"""CoKe's step against a transcription of its released code, by the options that ask for it."""

import numpy as np
import pytest
import torch

from dualclust.algos.clustering.centers import mean_centers, renormalized_centers, sum_batch
from tests.compare import assert_close, assert_equal
from tests.problems import unit_rows
from tests.train.coke_methods import AVERAGED, MULTI, PREDICTOR, N, draw_views, make, on_features
from tests.train.released_coke import Released

RELEASED = ["coke.center_rule=released", "assignment.steps=coke-cifar", "assignment.upper=inf"]
CASES = {
    "one view": ["coke.views=one", *PREDICTOR, "coke.beta=1.0"],
    "one view, second stage": [*AVERAGED, *PREDICTOR, "loss.temperature=0.1"],
    "two views": [*PREDICTOR, "coke.beta=0.5"],
    "multi-crop": [*MULTI, *PREDICTOR, "coke.beta=0.5"],
    "a bound without slack": [*PREDICTOR, "assignment.lower=1.0"],
}


def run(changes, rng, epochs, rule=RELEASED):
    """Compare every step; the largest differences of centers, and how many labels have changed."""
    clusters = (2, 4, 6) if "assignment.lower=1.0" in changes else (3, 7, 5)
    method = on_features(make(clusters, changes=[*rule, *changes], dtype=torch.float64))
    other = Released(method, eta=0.1)
    worst, relabeled = 0.0, 0
    for epoch in range(epochs):
        method.begin_epoch(epoch)
        if epoch:
            other.end_epoch()
        for ids in np.array_split(rng.permutation(N), 4):
            before = other.labels[1][ids].copy()
            x = draw_views(rng, method, ids)
            leaves = [torch.tensor(view, requires_grad=True) for view in x]
            loss = method.step(torch.from_numpy(ids), tuple(leaves))
            loss.backward()
            expected = other.step(ids, x)
            assert loss.item() == pytest.approx(expected.loss, rel=1e-8)
            for leaf, slope in zip(leaves, expected.dx, strict=True):
                if epoch:
                    np.testing.assert_allclose(leaf.grad.numpy(), slope, rtol=1e-6, atol=1e-11)
            for h, k in enumerate(other.k):
                np.testing.assert_array_equal(method.labels[h].numpy()[ids], other.labels[h][ids])
                dual = method.heads.duals.lower[h, :k].numpy()
                np.testing.assert_allclose(dual, other.dual[h], rtol=1e-9, atol=1e-12)
                past = method.past[h, :k].numpy()
                worst = max(worst, float(np.abs(past - other.pre[h]).max()))
                if epoch < other.stage:
                    now = method.centers[h, :k].numpy() - other.cur[h]
                    worst = max(worst, float(np.abs(now).max()))
            relabeled += int((other.labels[1][ids] != before).sum()) if epoch else 0
    if method.averaging:
        for h in range(len(other.k)):
            for i in range(N):
                found = np.zeros(other.k[h])
                clusters, weights = (table[h, i].tolist() for table in method.averages)
                np.add.at(found, clusters, weights)
                np.testing.assert_allclose(found, other.weights[h][i], atol=1e-12)
    return worst, relabeled


@pytest.mark.parametrize("changes", CASES.values(), ids=CASES)
def test_epochs_are_those_of_the_released_code(changes, rng):
    """Loss, labels, duals, both kinds of centers and gradients; sums are rounded to 2^-36."""
    worst, relabeled = run(changes, rng, 5)
    assert worst < 1e-8
    assert relabeled > 10


def test_the_exact_rule_is_another_one(rng):
    """The comparison sees the difference: with exact centers it fails."""
    exact = ["coke.center_rule=exact", *RELEASED[1:]]
    with pytest.raises(AssertionError):
        run(CASES["two views"], rng, 3, exact)


def test_a_renormalized_center_by_hand(xp):
    """Two samples at right angles count as one of unit length, not as their mean of length .7."""
    center, counts = np.asarray([[1.0, 1.0], [0.0, 1.0]]) / np.sqrt([[2.0], [1.0]]), [2, 0]
    x = np.asarray([[1.0, 0.0]])
    batch = sum_batch(xp.asarray(x), xp.asarray(np.asarray([0])), n_clusters=2)
    args = xp.asarray(center), xp.asarray(np.asarray(counts)), batch
    found = renormalized_centers(*args)
    expected = unit_rows(np.asarray([2 * center[0] + x[0]]))
    assert_close(found[:1, :], xp.asarray(expected), rtol=1e-9)
    assert_equal(found[1, :], xp.asarray(center[1]))  # untouched, to the bit


def test_a_first_batch_replaces_a_center(xp):
    x = np.asarray([[0.6, 0.8], [0.8, 0.6]])
    batch = sum_batch(xp.asarray(x), xp.asarray(np.asarray([0, 0])), n_clusters=1)
    before = xp.asarray(np.asarray([[-1.0, 0.0]]))
    found = renormalized_centers(before, xp.asarray(np.asarray([0])), batch)
    assert_close(found, mean_centers(batch, before), rtol=1e-12)
