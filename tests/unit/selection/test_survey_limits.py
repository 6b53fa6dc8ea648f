"""Where a survey ends: rows too far out, prices without bounds, and what does not fit."""

import math

import numpy as np
import pytest

from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.core.errors import DeviceMismatchError, InvalidValueError
from dualclust.algos.scores.sources import feature_source
from dualclust.algos.selection import Candidate, survey
from tests.compare import to_numpy
from tests.libraries import ONE_EACH
from tests.refusals import message_of

X = np.asarray([[0.0, 0.0], [4.0, 3.0], [0.0, 1.0]])
CENTERS = np.asarray([[0.0, 0.0], [4.0, 0.0]])


def of(source, *candidate, **options):
    [found] = survey(source, (Candidate(*candidate, **options),), metric="euclidean")
    return found


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rows_may_be_as_far_out_as_a_tenth_of_what_squares_allow(dtype):
    """On a host, whatever the scores are: the root of the largest number by the columns."""
    limit = 0.1 * math.sqrt(float(np.finfo(dtype).max) / 2)
    for factor, fits in ((1.0 - 1e-6, True), (1.0 + 1e-6, False)):
        x = X.astype(dtype)
        x[1, 0] = -factor * limit
        source, centers = feature_source(x), CENTERS.astype(dtype)
        if fits:
            assert of(source, centers).counts.tolist() == [3, 0]
        else:
            told = message_of(InvalidValueError, of, source, centers)
            assert told.startswith("features must be finite, with squared distances that do not")


@pytest.mark.parametrize("xp", ONE_EACH, ids=lambda row: row.name)
def test_a_silhouette_by_hand(xp):
    """Distances of the rows to both centers: 0 and 4, 5 and 3, 1 and sqrt(17)."""
    found = of(feature_source(xp.asarray(X)), xp.asarray(CENTERS))
    root = math.sqrt(17.0)
    assert found.silhouette == pytest.approx((1.0 + 2.0 / 5.0 + (root - 1.0) / root) / 3.0)
    assert found.objective == found.free == found.upper_bound == 8.0  # 0, (25 - 9) / 2, 0
    worse = of(feature_source(xp.asarray(X)), xp.asarray(CENTERS), labels=xp.asarray([0, 0, 1]))
    assert worse.silhouette == pytest.approx((1.0 - 2.0 / 5.0 - (root - 1.0) / root) / 3.0)
    assert (worse.objective, worse.free) == (0.5 - 8.5, 8.0)


@pytest.mark.parametrize("xp", ONE_EACH, ids=lambda row: row.name)
def test_prices_prove_nothing_without_bounds_nor_bounds_without_prices(xp):
    source, centers = feature_source(xp.asarray(X)), xp.asarray(CENTERS)
    prices = xp.asarray([9.0, 0.0])
    bounds = SizeBounds.from_counts([2, 0], None, n_samples=3, xp=xp.namespace, device=xp.device)
    alone = of(source, centers, prices)
    assert (to_numpy(alone.counts).tolist(), alone.objective, alone.upper_bound) == (
        [3, 0],
        0.0,
        8.0,
    )
    assert of(source, centers, None, bounds).upper_bound == 8.0
    # Priced 9 + 9 + 9, less 9 for each of the 2 rows that are needed; the best labels have 8.
    assert of(source, centers, prices, bounds).upper_bound == 9.0


@pytest.mark.parametrize(
    ("changed", "error", "text"),
    [
        ({"centers": CENTERS[:1]}, InvalidValueError, "centers must be at least two, got 1"),
        ({"labels": [0, 1]}, InvalidValueError, r"labels must have shape (3,), got (2,)"),
        ({"prices": [1.0]}, InvalidValueError, "prices must have shape (2,), got (1,)"),
        (
            {"bounds": (2, 4)},
            InvalidValueError,
            "bounds must be of 3 samples and 2 clusters, got 4 and 2",
        ),
        (
            {"bounds": (3, 3)},
            InvalidValueError,
            "bounds must be of 3 samples and 2 clusters, got 3 and 3",
        ),
    ],
)
def test_what_does_not_fit_is_named(changed, error, text):
    arguments = {"centers": CENTERS}
    for name, value in changed.items():
        if name == "bounds":
            k, n = value
            arguments[name] = SizeBounds.from_counts([0] * k, None, n_samples=n)
        else:
            arguments[name] = np.asarray(value)
    assert text in message_of(error, of, feature_source(X), **arguments)


@pytest.mark.parametrize("xp", ONE_EACH, ids=lambda row: row.name)
def test_each_array_must_be_where_the_rows_are(xp):
    other = next(library for library in ONE_EACH if library.namespace is not xp.namespace)
    source, centers = feature_source(xp.asarray(X)), xp.asarray(CENTERS)
    bounds = SizeBounds.from_counts([0, 0], None, n_samples=3, xp=other.namespace)
    cases = [
        (other.asarray(CENTERS),),
        (centers, other.asarray([0.0, 1.0])),
        (centers, None, bounds),
        (centers, None, None, other.asarray([0, 1, 0])),
    ]
    for case in cases:
        assert "same array library" in message_of(DeviceMismatchError, of, source, *case)
