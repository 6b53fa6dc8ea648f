"""SeCu's steps against a transcription of the released rules, by the options that ask for them."""

import numpy as np
import pytest
import torch

from tests.train.released_secu import Released
from tests.train.secu_methods import compare_state, draw_views, make, on_features

SIZE = ["assignment.steps=secu-cifar", "assignment.upper=inf"]
ENTROPY = ["secu.constraint=entropy", "secu.first_pass=published"]
CASES = {
    "size": SIZE,
    "size without slack": [*SIZE, "assignment.lower=1.0"],
    "size, predictor": [*SIZE, "network.predictor=8"],
    "entropy": ENTROPY,
    "strong entropy": [*ENTROPY, "secu.alpha=1.0"],
    "entropy, predictor": [*ENTROPY, "network.predictor=8"],
}
CENTER_RATE = 5.0


def run(changes, rng, epochs=4):
    """Compare every step, batches of 30 and a rest of 13; how many labels prices have changed."""
    clusters = (2, 4, 8) if "assignment.lower=1.0" in changes else (3, 7, 5)
    n = 128 if "assignment.lower=1.0" in changes else 133
    method = on_features(make(clusters, n=n, changes=changes))
    released = Released(method, eta=0.1)
    terms = 4 if method.config.network.predictor else 2
    greedy = 0
    for epoch in range(epochs):
        method.begin_epoch(epoch)
        released.begin_epoch(epoch)
        for ids in np.array_split(rng.permutation(n), range(30, n, 30)):
            x = draw_views(rng, ids, terms=terms)
            leaves = [torch.tensor(view, requires_grad=True) for view in x]
            method.centers.grad = None
            loss = method.step(torch.from_numpy(ids), tuple(leaves))
            loss.backward()
            w = [c / np.linalg.norm(c, axis=1, keepdims=True) for c in released.w]
            expected = released.step(ids, x)
            assert loss.item() == pytest.approx(expected.loss, rel=1e-10)
            compare_state(method, released)
            for leaf, slope in zip(leaves, expected.dx, strict=True):
                np.testing.assert_allclose(leaf.grad.numpy(), slope, rtol=1e-8, atol=1e-13)
            for head, k in enumerate(released.k):
                found = method.centers.grad[head, :k].numpy()
                np.testing.assert_allclose(found, expected.dw[head], rtol=1e-8, atol=1e-13)
                nearest = (x.mean(axis=0) @ w[head].T).argmax(axis=1)
                greedy += int((released.labels[head][ids] != nearest).sum())
            with torch.no_grad():
                method.centers -= CENTER_RATE * method.centers.grad
            for c, slope in zip(released.w, expected.dw, strict=True):
                c -= CENTER_RATE * slope
    return greedy


@pytest.mark.parametrize("changes", CASES.values(), ids=CASES)
def test_epochs_are_those_of_the_released_code(changes, rng):
    """Losses, labels, duals or counts, and both gradients, with steps of the centers between."""
    assert run(changes, rng) > 10  # prices, or the entropy, have changed labels


@pytest.mark.parametrize(
    "changes",
    [
        ["assignment.steps=measured", "assignment.upper=inf"],
        [*ENTROPY[:1], "secu.first_pass=exact"],
    ],
)
def test_other_rules_are_seen(changes, rng):
    with pytest.raises(AssertionError):
        run(changes, rng)
