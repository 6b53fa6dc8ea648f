"""Engines of `assign_stream` against its text: every bit of labels, prices and counts."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dualclust.algos.online.assignment import assign_stream
from tests.backends.rows import row_id, rows_of
from tests.compare import to_numpy
from tests.examples import examples
from tests.problems import dyadic_streams, float_streams

ROWS = rows_of("assign_stream")
N = 64  # a power of two: shares of samples are exact
each_row = pytest.mark.parametrize("row", ROWS, ids=row_id)


def problem(k, case, seed=0, n=N):
    """Arguments of the kernel on dyadic scores, as NumPy arrays, and its options."""
    rng = np.random.default_rng(seed)
    scores = rng.integers(-16, 17, size=(n, k)) / 16.0
    scores[:, : max(1, k // 3)] += 0.5  # some clusters are wanted by many
    sizes = np.bincount(rng.integers(0, k, size=n), minlength=k)
    lower, upper = np.zeros(k, np.int64), np.full(k, n)
    if case in ("caps", "both"):
        upper = np.maximum(sizes, 1)
    if case in ("completion", "both"):
        lower = np.maximum(sizes - 1, 0)
    if case in ("no slack", "free sign"):
        lower = upper = sizes
    remaining = n
    if case == "unknown":
        remaining, lower, upper = -1, np.zeros(k, np.int64), np.full(k, 2**63 - 1)
        share = np.minimum(sizes, n // k if k < n else 1)
    else:
        share = lower
    start = rng.integers(0, 9, size=(2, k)) / 16.0
    return (scores, start[0], start[1], np.zeros(k, np.int64)), {
        "lower_share": share / n,
        "upper_share": np.minimum(upper, 2 * n) / n,
        "lower": lower,
        "upper": upper,
        "step_size": 2.0**-5,
        "remaining": remaining,
        "free_sign": case == "free sign",
    }


def call(function, library, arrays, options):
    """Run a kernel on arrays of `library`; a NumPy array keeps its layout on NumPy."""

    def there(value):
        if not isinstance(value, np.ndarray):
            return value
        return value if library.name == "numpy" else library.asarray(value)

    *results, bad_row = function(
        *map(there, arrays), **{name: there(value) for name, value in options.items()}
    )
    return [to_numpy(result) for result in results], bad_row


def assert_conforms(row, arrays, options):
    """Fail unless the engine of `row` gives the bits of the reference text."""
    before = [array.copy() for array in arrays]
    expected, no_row = assign_stream.reference(*arrays, **options)[:4], -1
    found, bad_row = call(row.engine(), row.arrays(), arrays, options)
    assert bad_row == no_row
    for name, a, b in zip(("labels", "rho", "rho'", "counts"), found, expected, strict=True):
        assert a.dtype == b.dtype, name
        np.testing.assert_array_equal(a, b, err_msg=name, strict=True)
        assert a.tobytes() == b.tobytes(), f"{name}: the sign of a zero"
    for array, copy in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(array, copy)


@each_row
@pytest.mark.parametrize("k", [1, 3, 63, 64, 65, 130, 1000])
@pytest.mark.parametrize(
    "case", ["none", "caps", "completion", "both", "no slack", "free sign", "unknown"]
)
def test_an_engine_gives_the_bits_of_the_reference(row, k, case):
    arrays, options = problem(k, case)
    for chunk in (1, 7, N):
        for dtype in (np.float32, np.float64):
            scores = arrays[0].astype(dtype)
            assert_conforms(row, (scores, *arrays[1:]), options | {"chunk_size": chunk})


@each_row
@given(stream=st.one_of(dyadic_streams(), float_streams(max_k=4)), late=st.integers(0, 8))
@examples(150)
def test_an_engine_gives_the_bits_of_the_reference_on_any_stream(row, stream, late):
    n, k = stream.scores.shape
    sizes = np.bincount(stream.scores.argmax(axis=1), minlength=k)
    options = {
        "lower_share": stream.lower / n,
        "upper_share": stream.upper / n,
        "lower": stream.lower,
        "upper": stream.upper + late,
        "step_size": stream.rule.step_size,
        "chunk_size": stream.rule.chunk_size,
        "remaining": n + late,
        "free_sign": stream.rule.free_sign,
    }
    start = (sizes / n, sizes[::-1] / n, np.zeros(k, np.int64))
    assert_conforms(row, (stream.scores, *start), options)


@each_row
@pytest.mark.parametrize("case", ["both", "unknown"])
def test_no_sample_changes_nothing(row, case):
    arrays, options = problem(5, case)
    assert_conforms(row, (arrays[0][:0], *arrays[1:]), options | {"chunk_size": 3})


@each_row
@pytest.mark.parametrize("k", [3, 64, 130])
def test_ties_go_to_the_lowest_index_across_lanes(row, k):
    arrays, options = problem(k, "none")
    for columns in ([k - 1], [0, k - 1], [k // 2, k - 1], range(k)):
        scores = np.zeros((8, k))
        scores[:, list(columns)] = 1.0
        flat = (scores, np.zeros(k), np.zeros(k), arrays[3])
        options |= {"step_size": 2.0**-40, "chunk_size": 8}
        assert_conforms(row, flat, options)
        labels, *_ = call(row.engine(), row.arrays(), flat, options)[0]
        assert set(labels.tolist()) == {min(columns)}


def broadcast(scores):
    return np.broadcast_to(scores[:1], scores.shape)


def frozen(scores):
    scores.flags.writeable = False
    return scores


def unaligned(scores):
    raw = np.zeros(scores.nbytes + 1, np.uint8)
    view = raw[1:].view(scores.dtype).reshape(scores.shape)
    view[:] = scores
    return view


LAYOUTS = {
    "fortran": np.asfortranarray,
    "every second": lambda s: np.repeat(np.repeat(s, 2, axis=0), 2, axis=1)[::2, ::2],
    "reversed": lambda s: s[::-1, ::-1].copy()[::-1, ::-1],
    "broadcast": broadcast,
    "read-only": frozen,
    "big-endian": lambda s: s.astype(s.dtype.newbyteorder(">")),
    "unaligned": unaligned,
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("k", [3, 130])
def test_any_layout_of_numpy_scores(layout, k):
    (row,) = (row for row in ROWS if row.library == "numpy")
    arrays, options = problem(k, "both")
    assert_conforms(row, (LAYOUTS[layout](arrays[0]), *arrays[1:]), options | {"chunk_size": 7})


@pytest.mark.parametrize("row", [r for r in ROWS if r.library == "torch"], ids=row_id)
@pytest.mark.parametrize("k", [3, 130])
def test_any_layout_of_torch_scores(row, k):

    arrays, options = problem(k, "both")
    options |= {"chunk_size": 7}
    plain = row.arrays().asarray(arrays[0])
    rest = [row.arrays().asarray(a) for a in arrays[1:]]
    given = {
        name: row.arrays().asarray(v) if isinstance(v, np.ndarray) else v
        for name, v in options.items()
    }
    for scores in (
        plain.T.contiguous().T,
        plain.repeat_interleave(2, dim=1)[:, ::2],
        plain[:1].expand(plain.shape),
        plain.clone().requires_grad_(),
    ):
        same = to_numpy(scores)
        expected = assign_stream.reference(same, *arrays[1:], **options)
        found = row.engine()(scores, *rest, **given)
        for a, b in zip(found[:4], expected[:4], strict=True):
            assert not a.requires_grad
            np.testing.assert_array_equal(to_numpy(a), b)


@each_row
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("k", [1, 3, 64, 130])
def test_the_first_row_that_is_not_finite_is_found(row, bad, k):
    arrays, options = problem(k, "both")
    before = [array.copy() for array in arrays]
    for chunk in (1, 7, N):
        for dtype in (np.float32, np.float64):
            for i in (0, 6, 7, 31, N - 1):
                for j in {0, k // 2, k - 1}:
                    scores = arrays[0].astype(dtype)
                    scores[i, j] = scores[-1, 0] = bad
                    _, bad_row = call(
                        row.engine(),
                        row.arrays(),
                        (scores, *arrays[1:]),
                        options | {"chunk_size": chunk},
                    )
                    assert bad_row == i
    for array, copy in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(array, copy)


def test_the_reference_finds_the_first_row_that_is_not_finite(xp):
    arrays, options = problem(3, "both")
    arrays[0][[5, 9], [1, 0]] = math.nan
    _, bad_row = call(assign_stream.reference, xp, arrays, options | {"chunk_size": 4})
    assert bad_row == 5


@each_row
def test_rows_that_are_all_but_infinite_are_finite(row):
    arrays, options = problem(130, "both")
    scores = np.sign(arrays[0]) * 1e308
    assert_conforms(row, (scores, *arrays[1:]), options | {"chunk_size": 7})
    tiny = arrays[0] * 1e-323
    assert_conforms(row, (tiny, *arrays[1:]), options | {"chunk_size": 7})


def test_a_difference_of_one_bit_does_not_conform():
    (row,) = (row for row in ROWS if row.library == "numpy")
    arrays, options = problem(3, "both")
    options |= {"chunk_size": 7}
    real = row.engine()

    class Off(type(row)):
        def engine(self):
            def wrong(*args, **kwargs):
                labels, rho, *rest = real(*args, **kwargs)
                return labels, np.nextafter(rho, 9.0), *rest

            return wrong

    with pytest.raises(AssertionError, match="rho"):
        assert_conforms(Off(*row), arrays, options)


def test_the_rows_run_where_torch_has_them():
    torch = pytest.importorskip("torch")
    devices = {row.device for row in ROWS if row.library == "torch"}
    assert devices == {"cpu", "cuda"}
    for row in ROWS:
        assert torch.cuda.is_available() or row.arrays().device in (None, torch.device("cpu"))
