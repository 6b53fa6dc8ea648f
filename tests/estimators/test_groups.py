"""Groups of rows in the estimator, linked rows, and rows that stay out."""

from __future__ import annotations

import numpy as np
import pytest

from dualclust import ConstrainedKMeans
from dualclust.algos.bounds import GroupBounds
from dualclust.algos.core.errors import InfeasibleBoundsError, InvalidTypeError, InvalidValueError


def rows_of(n=120, seed=0):
    """Rows whose halves a clustering without groups would part, and the half of each."""
    rows = np.random.default_rng(seed).normal(size=(n, 2))
    return rows, np.where(rows[:, 0] > 0.0, "right", "left")


def shares(labels, groups, k):
    return np.asarray(
        [np.bincount(labels[groups == g], minlength=k) for g in np.unique(groups[groups != ""])]
    )


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_fair_shares_of_groups_that_are_named(metric) -> None:
    rows, groups = rows_of()
    model = ConstrainedKMeans(4, lower=0.9, upper=1.1, metric=metric, random_state=0)
    model.fit(rows, groups=groups)
    assert model.groups_.tolist() == ["left", "right"]
    np.testing.assert_array_equal(model.group_counts_, shares(model.labels_, groups, 4))
    for own, n in zip(model.group_counts_, model.group_counts_.sum(axis=1), strict=True):
        assert (own >= np.floor(0.9 * n / 4)).all()
        assert (own <= np.ceil(1.1 * n / 4)).all()
    assert model.gap_ == 0.0
    free = ConstrainedKMeans(4, lower=0.9, upper=1.1, metric=metric, random_state=0).fit(rows)
    assert (shares(free.labels_, groups, 4) == 0).any()  # what groups have changed
    assert not hasattr(free, "group_counts_")


def test_prices_of_groups_give_the_rows_of_fit_their_labels_back() -> None:
    rows, groups = rows_of(seed=1)
    weights = np.random.default_rng(2).uniform(0.5, 2.0, len(rows))
    model = ConstrainedKMeans(3, lower=0.9, upper=1.1, group_bounds=(1.0, 1.0), random_state=0)
    model.fit(rows, sample_weight=weights, groups=groups)
    found = model.predict(rows, groups=groups, sample_weight=weights)
    assert (found != model.labels_).sum() <= model.group_prices_.size + 3  # ties at the prices
    without = model.predict(rows, sample_weight=weights)
    assert (without != model.labels_).sum() > 20
    others = np.where(groups == "left", "left", "unheard of")
    mixed = model.predict(rows, groups=others, sample_weight=weights)
    np.testing.assert_array_equal(mixed, np.where(groups == "left", found, without))
    kept = model.predict(rows, groups=groups, sample_weight=weights, bounded=True)
    np.testing.assert_array_equal(shares(kept, groups, 3), model.group_counts_)


@pytest.mark.parametrize(
    "groups",
    [
        np.repeat(np.arange(12), 10) * 7,
        np.repeat(np.arange(12), 10).astype(object),
        (np.repeat(np.arange(12), 10) + 0.5).tolist(),
    ],
)
def test_at_most_and_at_least_one_of_groups_of_any_values(groups) -> None:
    rows, _ = rows_of()
    n = len(rows)
    pairs = np.full(n, -1)
    pairs[:20] = np.arange(20) // 2 * 5
    apart = ConstrainedKMeans(3, group_bounds="at-most-one", random_state=0)
    assert apart.fit(rows, groups=pairs).group_counts_.max() == 1
    assert apart.group_counts_.sum() == 20
    everywhere = ConstrainedKMeans(5, group_bounds="at-least-one", random_state=0)
    assert everywhere.fit(rows, groups=groups).group_counts_.min() >= 1
    assert len(everywhere.groups_) == 12


def test_missing_values_are_no_group_and_bounds_may_be_ones_own() -> None:
    rows, groups = rows_of()
    some = groups.astype(object)
    some[::3], some[1::3] = None, np.nan
    model = ConstrainedKMeans(2, group_bounds=(1.0, 1.0), random_state=0).fit(rows, groups=some)
    assert model.groups_.tolist() == ["left", "right"]
    assert model.group_counts_.sum() == 40
    numbers = np.where(groups == "left", 0, 1)
    own = GroupBounds.from_counts(numbers, 2, lower=[20, 0])
    model = ConstrainedKMeans(2, random_state=0).fit(rows, groups=own)
    assert (model.group_counts_[0] >= 20).all()
    kept = model.predict(rows, groups=own)
    assert (kept != model.labels_).sum() <= 6


def test_rows_that_stay_out_move_no_center_and_new_ones_do_as_they_do() -> None:
    rng = np.random.default_rng(3)
    rows = np.concatenate([rng.normal(size=(60, 2)), 8.0 + rng.normal(size=(60, 2))])
    rows[[5, 70, 100]] += [[300.0, 0.0], [0.0, -200.0], [-400.0, 9.0]]
    model = ConstrainedKMeans(2, lower=0.5, max_out=3, init=rows[[0, 61]], random_state=0).fit(rows)
    assert np.flatnonzero(model.labels_ < 0).tolist() == [5, 70, 100]
    assert model.counts_.sum() == 117
    kept = np.delete(rows, [5, 70, 100], axis=0)
    labels = np.delete(model.labels_, [5, 70, 100])
    for j in range(2):
        np.testing.assert_allclose(model.cluster_centers_[j], kept[labels == j].mean(axis=0))
    apart = ((kept - model.cluster_centers_[labels]) ** 2).sum()
    assert model.inertia_ == pytest.approx(apart)
    np.testing.assert_array_equal(model.predict(rows), model.labels_)
    new = np.asarray([[0.0, 0.0], [8.0, 8.0], [1e4, 0.0]])
    assert model.predict(new).tolist() == [*model.predict(rows[[0, 61]]), -1]


def test_rows_of_torch_have_groups_as_well() -> None:
    torch = pytest.importorskip("torch")
    rows, groups = rows_of()
    numbers = torch.asarray((groups == "left").astype(np.int64))
    model = ConstrainedKMeans(3, random_state=0).fit(torch.asarray(rows), groups=numbers)
    plain = ConstrainedKMeans(3, random_state=0).fit(rows, groups=groups == "left")
    assert isinstance(model.group_counts_, torch.Tensor)
    np.testing.assert_array_equal(model.labels_.numpy(), plain.labels_)


def test_linked_rows_are_together_and_apart() -> None:
    rows, _ = rows_of()
    order = np.random.default_rng(4).permutation(len(rows))[:80].reshape(-1, 2)
    must, cannot = order[:20], order[20:]
    model = ConstrainedKMeans(4, lower=0.9, upper=1.1, n_init=2, random_state=0)
    model.fit(rows, must_link=must.tolist(), cannot_link=cannot)
    labels = model.labels_
    assert (labels[must[:, 0]] == labels[must[:, 1]]).all()
    assert (labels[cannot[:, 0]] != labels[cannot[:, 1]]).all()
    assert 27 <= model.counts_.min() <= model.counts_.max() <= 33
    assert model.gap_ <= 0.02
    free = ConstrainedKMeans(4, lower=0.9, upper=1.1, n_init=2, random_state=0).fit(rows)
    assert (free.labels_[must[:, 0]] != free.labels_[must[:, 1]]).any()
    plain = ConstrainedKMeans(4, lower=0.9, upper=1.1, random_state=0).fit(rows, must_link=[])
    assert plain.counts_.sum() == len(rows)


ROWS, GROUPS = rows_of(24)


@pytest.mark.parametrize(
    ("parameters", "given", "error", "words"),
    [
        ({"group_bounds": (1.1, 1.2)}, {"groups": GROUPS}, InvalidValueError, r"group_bounds\[0\]"),
        ({"group_bounds": "equal"}, {"groups": GROUPS}, InvalidValueError, "'at-least-one'"),
        ({"group_bounds": 3}, {}, InvalidValueError, "two shares of the mean"),
        ({}, {"groups": GROUPS[:9]}, InvalidValueError, "of the 24 rows of X, got 9"),
        ({}, {"groups": GROUPS[:, None]}, InvalidValueError, "one value for each row"),
        ({}, {"groups": np.zeros(24, "M8[D]")}, InvalidTypeError, "a text for each row"),
        (
            {"group_bounds": "at-most-one"},
            {"groups": np.zeros(24, int)},
            InfeasibleBoundsError,
            "group 0 has 24 samples, of which all clusters take at most 3",
        ),
        ({"max_out": 2}, {"groups": GROUPS}, InvalidValueError, "groups does not go with max_out"),
        ({"max_out": 2}, {"sample_weight": np.ones(24)}, InvalidValueError, "sample_weight"),
        ({"max_out": 2}, {"forbidden": [[0, 1]]}, InvalidValueError, "forbidden"),
        ({}, {"groups": GROUPS, "must_link": [[0, 1]]}, InvalidValueError, "go with must_link"),
        ({}, {"cannot_link": [[0, 1]], "fixed": [-1] * 24}, InvalidValueError, "with fixed"),
        ({}, {"must_link": [[0.5, 1]]}, InvalidTypeError, "must_link must have an integer"),
        (
            {},
            {"must_link": [[0, 1]], "cannot_link": [[1, 0]]},
            InfeasibleBoundsError,
            "rows 1 and 0 must be together",
        ),
        ({"max_out": 25}, {}, InvalidValueError, "max_out must be at most the 24 rows"),
        ({"max_out": -1}, {}, InvalidValueError, "max_out"),
    ],
)
def test_what_is_refused(parameters, given, error, words) -> None:
    with pytest.raises(error, match=words):
        ConstrainedKMeans(3, random_state=0, **parameters).fit(ROWS, **given)


def test_what_prediction_refuses() -> None:
    plain = ConstrainedKMeans(3, random_state=0).fit(ROWS)
    with pytest.raises(InvalidValueError, match="fit with groups"):
        plain.predict(ROWS, groups=GROUPS)
    model = ConstrainedKMeans(3, random_state=0).fit(ROWS, groups=GROUPS)
    with pytest.raises(InvalidTypeError, match="must be values like 'left'"):
        model.predict(ROWS, groups=np.zeros(24, int))
    with pytest.raises(InvalidValueError, match="of the 24 rows"):
        model.predict(ROWS, groups=GROUPS[:3])
    with pytest.raises(InvalidValueError, match="groups must be those of fit, got 3"):
        model.predict(ROWS, groups=GroupBounds.from_counts(np.arange(24) % 3, 3))
    partial = ConstrainedKMeans(3, max_out=2, random_state=0).fit(ROWS)
    with pytest.raises(InvalidValueError, match="bounded does not go with max_out=2"):
        partial.predict(ROWS, bounded=True)
    assert not hasattr(partial, "partial_fit")


def test_sparse_rows_have_no_groups() -> None:
    from scipy.sparse import csr_array

    with pytest.raises(InvalidValueError, match="groups does not go with sparse rows"):
        ConstrainedKMeans(3).fit(csr_array(ROWS), groups=GROUPS)
