"""Size bounds from ratios and counts: what they mean, how they round, what is refused."""

import math
from fractions import Fraction

import numpy as np
import pytest

from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.core.errors import InfeasibleBoundsError, InvalidTypeError, InvalidValueError
from tests.compare import assert_equal, to_numpy
from tests.refusals import is_refusal, message_of


def sizes(bounds):
    return to_numpy(bounds.lower).tolist(), to_numpy(bounds.upper).tolist()


def test_bounds_are_arrays_of_the_library_asked_for(xp):
    bounds = SizeBounds.from_ratios(
        2, n_samples=10, lower=0.5, upper=1.5, xp=xp.namespace, device=xp.device
    )
    assert_equal(bounds.lower, xp.asarray([2, 2]))
    assert_equal(bounds.upper, xp.asarray([8, 8]))
    assert_equal(bounds.lower_share, xp.asarray([0.25, 0.25]))
    assert_equal(bounds.upper_share, xp.asarray([0.75, 0.75]))
    assert (bounds.n_samples, bounds.n_clusters, bounds.total_lower_share) == (10, 2, 0.5)


def test_numpy_is_the_default_library():
    assert type(SizeBounds.from_ratios(2, n_samples=10).lower) is np.ndarray
    assert type(SizeBounds.for_stream(2).lower) is np.ndarray
    assert type(SizeBounds.from_counts([1], n_samples=10).lower) is np.ndarray


@pytest.mark.parametrize(
    ("ratio", "n", "k", "size"),
    [
        (0.9, 1000, 1, 900),  # in floats 0.9 is a little more than 9/10: its ceiling is 901
        (0.9, 1000, 10, 90),
        (0.7, 10, 1, 7),
        (0.1, 30, 1, 3),
        (0.3, 10**9, 1, 3 * 10**8),
        (1 / 3, 300, 1, 100),
        (0.29, 100, 1, 29),
        (1e-6, 10**6, 1, 1),
        (1, 12, 3, 4),
        (0, 12, 3, 0),
    ],
)
@pytest.mark.parametrize("rounding", ["inward", "outward", "nearest"])
def test_a_ratio_means_its_simple_fraction(ratio, n, k, size, rounding):
    low = SizeBounds.from_ratios(k, n_samples=n, lower=ratio, rounding=rounding)
    assert set(low.lower.tolist()) == {size}
    if ratio >= 1:
        high = SizeBounds.from_ratios(k, n_samples=n, lower=0, upper=ratio, rounding=rounding)
        assert set(high.upper.tolist()) == {size}


def test_a_ratio_that_is_no_simple_fraction_is_taken_to_the_letter():
    awkward = math.nextafter(0.9, 1.0)
    found = SizeBounds.from_ratios(1, n_samples=1000, lower=awkward, rounding="inward")
    assert found.lower.tolist() == [901]
    found = SizeBounds.from_ratios(1, n_samples=10**9, lower=math.pi / 4)
    assert found.lower.tolist() == [math.floor(Fraction(math.pi / 4) * 10**9)]


@pytest.mark.parametrize(
    ("rounding", "low", "high"),
    [("inward", 30, 36), ("outward", 29, 37), ("nearest", 30, 37)],
)
def test_rounding(rounding, low, high):
    # 100 / 3 * 0.89 = 29.67 and 100 / 3 * 1.1 = 36.67
    bounds = SizeBounds.from_ratios(3, n_samples=100, lower=0.89, upper=1.1, rounding=rounding)
    assert sizes(bounds) == ([low] * 3, [high] * 3)


def test_one_ratio_per_cluster(xp):
    ratios = [0.5, 0.0, 1.5]
    for lower in (ratios, tuple(ratios), xp.asarray(ratios), xp.asarray(ratios, "float32")):
        bounds = SizeBounds.from_ratios(3, n_samples=9, lower=lower, upper=[1.0, math.inf, 2.0])
        assert sizes(bounds) == ([1, 0, 4], [3, 9, 6])


def test_zero_and_infinity_mean_no_bound():
    bounds = SizeBounds.from_ratios(4, n_samples=7, lower=0.0)
    assert sizes(bounds) == ([0] * 4, [7] * 4)
    assert bounds.upper_share.tolist() == [1.0] * 4
    assert SizeBounds.from_ratios(4, n_samples=7, lower=0.0, upper=1e300).upper.tolist() == [7] * 4


def test_ratios_and_counts_that_say_the_same_are_equal():
    by_ratio = SizeBounds.from_ratios(4, n_samples=64, lower=0.5, upper=2.0)
    by_count = SizeBounds.from_counts([8] * 4, [32] * 4, n_samples=64)
    for a, b in zip(by_ratio[:4], by_count[:4], strict=True):
        assert_equal(a, b)


def test_counts_from_any_integer_array(xp):
    lower = xp.asarray([2, 0], "int32")
    bounds = SizeBounds.from_counts(
        lower, xp.asarray([3, 99]), n_samples=10, xp=xp.namespace, device=xp.device
    )
    assert sizes(bounds) == ([2, 0], [3, 10])
    assert_equal(bounds.upper_share, xp.asarray([0.3, 1.0]))


def test_counts_without_an_upper_bound():
    assert SizeBounds.from_counts([2, 0], n_samples=10).upper.tolist() == [10, 10]


def test_a_stream_has_shares_only(xp):
    bounds = SizeBounds.for_stream(4, lower=0.8, upper=2, xp=xp.namespace, device=xp.device)
    assert_equal(bounds.lower_share, xp.asarray([0.2] * 4))
    assert_equal(bounds.upper_share, xp.asarray([0.5] * 4))
    assert_equal(bounds.lower, xp.asarray([0] * 4))
    assert_equal(bounds.upper, xp.asarray([2**63 - 1] * 4))
    assert bounds.n_samples is None


def check_proof(error, lower, upper, n):
    """Verify the certificate by adding up: the clusters named must break one inequality."""
    clusters, excess = error.clusters, error.excess
    assert excess > 0
    assert len(set(clusters)) == len(clusters) > 0
    crossed = all(lower[i] > upper[i] for i in clusters)
    if crossed:
        assert lower[clusters[0]] - upper[clusters[0]] == excess
    elif sum(lower[i] for i in clusters) > n:
        assert sum(lower[i] for i in clusters) - n == excess
    else:
        assert set(clusters) == set(range(len(upper)))  # all samples must fit under these
        assert n - sum(upper) == excess


@pytest.mark.parametrize(
    ("lower", "upper", "n", "clusters", "excess", "text"),
    [
        (
            [3, 0, 4],
            [9, 9, 9],
            5,
            (0, 2),
            2,
            "lower bounds add up to 7 samples, 2 more than n_samples=5. To fix this, lower them",
        ),
        (
            [0, 0],
            [2, 1],
            5,
            (0, 1),
            2,
            "upper bounds add up to 3 samples, 2 fewer than n_samples=5. To fix this, raise them",
        ),
        (
            [0, 4, 3],
            [9, 2, 1],
            9,
            (1, 2),
            2,
            "lower bound 4 exceeds upper bound 2 for cluster 1, in samples. "
            "To fix this, widen the bounds",
        ),
        (
            [0],
            [-1],
            1,
            (0,),
            1,
            "lower bound 0 exceeds upper bound -1 for cluster 0, in samples. "
            "To fix this, widen the bounds",
        ),
    ],
)
def test_infeasible_counts_come_with_a_proof(lower, upper, n, clusters, excess, text):
    with pytest.raises(InfeasibleBoundsError) as caught:
        SizeBounds.from_counts(lower, upper, n_samples=n)
    assert str(caught.value) == text
    assert (caught.value.clusters, caught.value.excess) == (clusters, excess)
    check_proof(caught.value, lower, upper, n)


def test_a_wrong_proof_does_not_pass():
    wrong = InfeasibleBoundsError("", clusters=(0, 1), excess=2)
    with pytest.raises(AssertionError):
        check_proof(wrong, [3, 0, 4], [9, 9, 9], 5)


def test_infeasible_ratios_come_with_a_proof():
    with pytest.raises(InfeasibleBoundsError) as caught:
        SizeBounds.from_ratios(3, n_samples=100, lower=1.0, rounding="inward")
    assert str(caught.value) == (
        "lower bounds add up to 102 samples, 2 more than n_samples=100. "
        "To fix this, lower them, or pass rounding='outward'"
    )
    check_proof(caught.value, [34] * 3, [100] * 3, 100)
    assert sizes(SizeBounds.from_ratios(3, n_samples=100, lower=1.0))[0] == [33] * 3


@pytest.mark.parametrize("rounding", ["inward", "outward", "nearest"])
@pytest.mark.parametrize(
    ("lower", "upper", "text"),
    [
        (
            1.2,
            2.0,
            "lower must be at most 1 on average over the clusters, in units of the mean size "
            "n / k = 4 samples, got 1.2. To fix this, use a share of at most 1, or give a number "
            "of samples as min_count",
        ),
        (
            [0.0, 0.5, 0.0],
            [0.75, 1.0, 1.0],
            "upper must be at least 1 on average over the clusters, in units of the mean size "
            "n / k = 4 samples, got 0.916667. To fix this, use a share of at least 1, or give a "
            "number of samples as max_count",
        ),
        (
            [0.0, 950.0, 0.0],
            1.1,
            "lower bound 950 exceeds upper bound 1.1 for cluster 1, in units of the mean size "
            "n / k = 4 samples. To fix this, widen the bounds, or give numbers of samples as "
            "min_count and max_count",
        ),
    ],
)
def test_shares_that_no_sizes_have_are_refused_however_they_are_rounded(
    lower, upper, text, rounding
):
    with pytest.raises(InfeasibleBoundsError) as caught:
        SizeBounds.from_ratios(3, n_samples=12, lower=lower, upper=upper, rounding=rounding)
    assert str(caught.value) == text
    assert caught.value.clusters
    assert caught.value.excess > 0


def test_shares_that_add_up_to_k_but_for_rounding_are_taken():
    shares = np.random.default_rng(0).dirichlet(np.ones(1000), size=20) * 1000
    assert any(sum(map(Fraction, row)) > 1000 for row in shares)
    for row in shares:
        bounds = SizeBounds.from_ratios(1000, n_samples=10**6, lower=row, upper=row)
        assert int(bounds.lower.sum()) <= 10**6 <= int(bounds.upper.sum())


@pytest.mark.parametrize("build", [SizeBounds.from_ratios, SizeBounds.for_stream])
@pytest.mark.parametrize(
    ("error", "options", "text"),
    [
        (InvalidValueError, {"lower": -0.1}, "lower must lie in [0, inf), got -0.1"),
        (InvalidValueError, {"upper": math.nan}, "upper must lie in [0, inf), got nan"),
        (
            InvalidValueError,
            {"lower": [0.5]},
            "lower must be one number or one per cluster (k=3), got 1",
        ),
        (
            InvalidValueError,
            {"lower": math.inf},
            "lower must be finite, got inf. To fix this, use a ratio of at most 1",
        ),
        (InvalidTypeError, {"lower": True}, "lower must be a number, got True (bool)"),
    ],
)
def test_invalid_ratios_are_named(build, error, options, text):
    size = {} if build == SizeBounds.for_stream else {"n_samples": 9}
    assert is_refusal(message_of(error, build, 3, **size, **options), text)


@pytest.mark.parametrize("build", [SizeBounds.from_ratios, SizeBounds.for_stream])
@pytest.mark.parametrize(
    "lower",
    ["abc", None, [None] * 3, [True] * 3, ["a"] * 3, np.ones((3, 1)), [1j] * 3],
    ids=["text", "None", "Nones", "bools", "texts", "matrix", "complex"],
)
def test_a_ratio_of_a_wrong_type_is_an_error_of_ours(build, lower):
    size = {} if build == SizeBounds.for_stream else {"n_samples": 9}
    message_of((InvalidTypeError, InvalidValueError), build, 3, lower=lower, **size)


def test_a_scalar_array_is_one_ratio(xp):
    for lower in (xp.asarray(0.5), np.float32(0.5), np.float64(0.5), np.int64(1)):
        assert SizeBounds.from_ratios(3, n_samples=9, lower=lower).n_clusters == 3


def test_invalid_counts_are_named():
    for lower, text in (
        ([1, -1], "lower must be at least 0, got -1 for cluster 1"),
        ([], "lower and upper must have one entry per cluster, got 0 and 0"),
    ):
        assert is_refusal(
            message_of(InvalidValueError, SizeBounds.from_counts, lower, n_samples=9), text
        )
    text = message_of(InvalidValueError, SizeBounds.from_counts, [1], [1, 2], n_samples=3)
    assert is_refusal(text, "lower and upper must have one entry per cluster, got 1 and 2")
    text = message_of(InvalidTypeError, SizeBounds.from_counts, [1, 1.5], n_samples=9)
    assert is_refusal(text, "lower[1] must be an int, got 1.5 (float)")


def test_counts_of_a_wrong_dtype_or_shape_are_named(xp):
    real = xp.asarray([1.0])
    text = message_of(InvalidTypeError, SizeBounds.from_counts, real, n_samples=9)
    assert is_refusal(text, f"lower must be integers, got an array of {real.dtype}")
    message_of(InvalidTypeError, SizeBounds.from_counts, xp.asarray([[1]]), n_samples=9)


@pytest.mark.parametrize(
    ("k", "n", "rounding", "words"),
    [
        (0, 9, "inward", "n_clusters must be at least 1, got 0"),
        (3, 0, "inward", "n_samples must be at least 1, got 0"),
        (3, 9, "up", "rounding must be one of 'outward', 'inward', 'nearest', got 'up'"),
    ],
)
def test_invalid_options_are_named(k, n, rounding, words):
    text = message_of(InvalidValueError, SizeBounds.from_ratios, k, n_samples=n, rounding=rounding)
    assert is_refusal(text, words)


def test_a_size_read_off_an_array_is_an_int():
    n = np.asarray([9, 1]).max()
    assert SizeBounds.from_ratios(3, n_samples=n).n_samples == 9
    assert SizeBounds.from_counts(list(np.asarray([1, 2])), n_samples=9).n_clusters == 2


def test_bounds_are_a_tuple_that_cannot_be_changed():
    bounds = SizeBounds.from_ratios(2, n_samples=10)
    assert isinstance(bounds, SizeBounds)
    with pytest.raises(AttributeError):
        bounds.n_samples = 3
