"""What a prediction says of each label: how clear it is at the prices that the bounds ask for."""

import numpy as np
import torch

from tests.train.coke_methods import D, N, make


def test_margins_are_those_of_the_priced_scores(rng):
    """With bounds that bind, the score alone says which cluster is nearest, not which is best."""
    changes = ["assignment.upper=inf", "assignment.lower=1.0"]
    method = make(clusters=(4,), changes=changes, dtype=torch.float64)
    rows = rng.normal(size=(N, D)) + 2.0 * np.eye(D)[0]  # most are near one center
    found = method.predict(torch.from_numpy(rows))
    prices = found.assignment.prices.numpy()
    scores = (found.features @ found.centers.T).numpy()
    expected = []
    for row in scores:
        best, second = sorted((row + prices).tolist(), reverse=True)[:2]
        expected.append(best - second)
    np.testing.assert_allclose(found.margins.numpy(), expected, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(found.nearest, scores.argmax(axis=1))
    others = scores + prices
    others[np.arange(N), found.assignment.labels] = -np.inf
    np.testing.assert_array_equal(found.runner_up, others.argmax(axis=1))
    plain = np.sort(scores, axis=1)
    differs = np.abs(found.margins.numpy() - (plain[:, -1] - plain[:, -2])).max()
    assert differs > 0.01  # prices are at work
