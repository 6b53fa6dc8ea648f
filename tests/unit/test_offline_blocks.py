"""The last pass reads the scores block by block; the size of a block must not show."""

import pytest

from dualclust.algos import offline
from dualclust.algos.assignment import init_state
from dualclust.algos.bounds import from_ratios


@pytest.mark.parametrize(
    "lower",
    [
        1.0,
        0.9,
        # Whole samples without slack, shares with a little: the prices are learned with a free
        # sign, and the last pass must not clip them.
        0.9995,
    ],
)
def test_frozen_prices_give_the_same_labels_in_blocks_of_any_size(rng, monkeypatch, lower):
    scores = 0.3 * rng.normal(size=(2000, 2)) + [0.5, 0.0]
    bounds = from_ratios(2, n_samples=2000, lower=lower)
    state = init_state(bounds)
    for epoch in range(4):
        _, state = offline.learn_prices(scores.__getitem__, bounds, state, epoch=epoch)
    whole = offline.finish(scores.__getitem__, bounds, state)
    for entries in (1000, 128, 2):
        monkeypatch.setattr(offline, "BLOCK_ENTRIES", entries)
        parted = offline.finish(scores.__getitem__, bounds, state)
        assert parted.objective == pytest.approx(whole.objective, abs=1e-6)
