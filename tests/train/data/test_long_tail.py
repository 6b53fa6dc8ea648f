"""Long tails at their ends: one class, two, ratios that leave less than one sample."""

import pytest
import torch

from dualclust.algos.core.errors import UsageError
from dualclust.train.data.long_tail import profile, subset


@pytest.mark.parametrize(
    ("counts", "ratio", "sizes"),
    [
        ([7], 10.0, [7]),
        ([100, 100], 10.0, [100, 10]),
        ([16, 16, 16], 4.0, [16, 8, 4]),
        ([10, 10, 10], 1000.0, [10, 1, 1]),  # 0.3 and 0.01 are one sample all the same
        ([0, 5], 5.0, [0, 1]),
        ([5000, 5000], 100.0, [5000, 50]),
        ([4, 9, 2], 1.0, [4, 9, 2]),
    ],
)
def test_sizes_of_the_classes(counts, ratio, sizes):
    assert profile(counts, ratio) == sizes


def test_a_slight_tail_is_one():
    labels = torch.arange(30) % 3
    kept = subset(30, labels, imbalance=1.5, limit=0, seed=0)
    assert torch.bincount(labels[kept]).tolist() == profile([10] * 3, 1.5) == [10, 8, 6]
    assert kept.tolist() == sorted(kept.tolist())
    wrong = labels.clone()
    wrong[4] = -1
    for labels in (wrong, None):
        with pytest.raises(UsageError, match=r"data\.imbalance=1\.5 needs the class of every"):
            subset(30, labels, imbalance=1.5, limit=0, seed=0)
        assert len(subset(30, labels, imbalance=1.0, limit=0, seed=0)) == 30


def test_a_limit_is_drawn_from_what_the_tail_keeps():
    labels = torch.arange(40) % 2
    tail = set(subset(40, labels, imbalance=4.0, limit=0, seed=3).tolist())
    kept = subset(40, labels, imbalance=4.0, limit=24, seed=3).tolist()
    assert len(tail) == 25
    assert len(kept) == 24
    assert kept == sorted(kept)
    assert set(kept) < tail
    assert set(subset(40, labels, imbalance=4.0, limit=25, seed=3).tolist()) == tail
    assert subset(40, labels, imbalance=4.0, limit=24, seed=4).tolist() != kept
    assert len(subset(40, None, imbalance=1.0, limit=1, seed=3)) == 1
    drawn = [subset(40, None, imbalance=1.0, limit=20, seed=s).tolist() for s in (3, 3, 4)]
    assert drawn[0] == drawn[1] != drawn[2]
