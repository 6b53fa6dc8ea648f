"""The kernels in Triton against the text they stand for: equal bits, in Triton's interpreter.

`make triton` installs Triton beside the environment and runs this file; without it, or without
its interpreter, everything here is skipped.
"""

import os
import subprocess
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("triton", reason="no package triton: make triton brings it")
if os.environ.get("TRITON_INTERPRET") != "1":
    pytest.skip("TRITON_INTERPRET is not 1: see make triton", allow_module_level=True)

import dualclust as dc  # noqa: E402
from dualclust import backends  # noqa: E402
from dualclust.algos.clustering import constrained_kmeans, kmeans  # noqa: E402
from dualclust.algos.scores.nearest import best_products  # noqa: E402
from dualclust.algos.scores.sources import Products, feature_source, product_source  # noqa: E402
from dualclust.backends import triton_products  # noqa: E402
from dualclust.backends.triton_products import TILES, Tile, relative_error  # noqa: E402
from dualclust.cluster.distances import nearest_centers  # noqa: E402

SMALL = Tile(rows=32, clusters=16, features=16, warps=4, stages=1)
PRECISIONS = ("ieee", "tf32x3", "tf32")


def problem(n, k, d, seed=0, levels=None):
    """Rows, centers and offsets; few levels make ties."""
    rng = np.random.default_rng(seed)
    if levels:
        x, c = (rng.integers(-levels, levels + 1, size=(m, d)) for m in (n, k))
        offsets = rng.integers(-levels, levels + 1, size=k) / 2
    else:
        x, c, offsets = rng.normal(size=(n, d)), rng.normal(size=(k, d)), rng.normal(size=k)
    return tuple(torch.as_tensor(a.astype(t)) for a, t in ((x, "f4"), (c, "f4"), (offsets, "f8")))


def assert_conforms(given, **options):
    expected = best_products.reference(*given)
    found = triton_products.best_products(*given, **options)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0, equal_nan=True)


def truncated(array):
    """Keep 10 bits behind the point, which is what a tensor core reads of a float32 number."""
    return (array.view(torch.int32) & ~0x1FFF).view(torch.float32)


# -- equal bits


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize(
    ("n", "k", "d"),
    [(1, 1, 1), (33, 17, 16), (70, 5, 3), (65, 129, 20), (0, 3, 4)],
)
@pytest.mark.parametrize("levels", [None, 1])
def test_labels_and_values_are_those_of_the_text(precision, n, k, d, levels):
    given = problem(n, k, d, levels=levels)
    assert_conforms(given, precision=precision)
    assert_conforms(given, precision=precision, tile=SMALL)


def test_any_block_of_rows_has_the_same_bits():
    x, c, offsets = problem(70, 20, 6, levels=2)
    x[:40] += 2.0**-12 * torch.randn(40, 6)
    labels, values = triton_products.best_products(x, c, offsets)
    for size in (3, 31, 64):
        parts = [triton_products.best_products(p, c, offsets) for p in torch.split(x, size)]
        assert torch.equal(torch.cat([p[0] for p in parts]), labels)
        assert torch.equal(torch.cat([p[1] for p in parts]), values)


def test_any_layout():
    x, c, offsets = problem(40, 9, 12)
    assert_conforms((x.T.contiguous().T, c[:, ::2].contiguous().repeat(1, 2), offsets))
    assert_conforms((x[::3, ::2], c[:, ::2], offsets))
    assert_conforms((x[5:, :7], c[2:, :7], offsets[2:]))


@pytest.mark.parametrize("precision", PRECISIONS)
def test_equal_centers_and_clusters_that_are_left_out(precision):
    x, c, offsets = problem(60, 30, 8)
    c[20:], offsets[20:] = c[:10].clone(), offsets[:10].clone()
    assert_conforms((x, c, offsets), precision=precision)
    offsets[::3] = -torch.inf
    assert_conforms((x, c, offsets), precision=precision)


@pytest.mark.parametrize("size", [1e-44, 1e-30, 1e-19, 1.0, 1e15, 3e18])
@pytest.mark.parametrize("prices", [0.0, 1e-40, 1.0, 1e12])
def test_rows_and_prices_of_any_size(size, prices):
    x, c, offsets = problem(40, 12, 6)
    x = (x.double() * size).float()
    for precision in PRECISIONS:
        assert_conforms((x, c, offsets * prices), precision=precision)
    assert_conforms((c, x, torch.zeros(40, dtype=torch.float64)), tile=SMALL)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_rows_that_are_not_finite_get_a_label_and_spoil_no_other():
    x, c, offsets = problem(40, 12, 6)
    plain = best_products.reference(x, c, offsets)[0]
    x[3], x[5, 2], x[7, 0] = torch.nan, torch.inf, -torch.inf
    labels, _ = triton_products.best_products(x, c, offsets, tile=SMALL)
    others = torch.ones(40, dtype=torch.bool)
    others[[3, 5, 7]] = False
    assert torch.equal(labels[others], plain[others])
    assert ((labels >= 0) & (labels < 12)).all()


# -- the bound


@pytest.mark.parametrize("d", [1, 16, 128, 700])
@pytest.mark.parametrize("spread", [0.0, 8.0])
def test_products_of_tf32_stay_within_the_bound(d, spread):
    """Operands as tensor cores read them; three products of them; sums in float32."""
    torch.manual_seed(d)
    x, c = (torch.randn(n, d) * 2.0 ** (spread * torch.randn(n, d)) for n in (200, 50))
    exact = x.double() @ c.double().T
    lengths = x.double().norm(dim=1)[:, None] * c.double().norm(dim=1)
    big, rest = zip(*((truncated(a), truncated(a - truncated(a))) for a in (x, c)), strict=True)
    found = {
        "ieee": x @ c.T,
        "tf32": big[0] @ big[1].T,
        "tf32x3": rest[0] @ big[1].T + big[0] @ rest[1].T + big[0] @ big[1].T,
    }
    errors = {name: ((f.double() - exact).abs() / lengths).max() for name, f in found.items()}
    for name, error in errors.items():
        assert error <= relative_error(d, name), name
    if d == 1:  # and it is no bound of ten times the error
        assert errors["tf32"] >= 0.1 * relative_error(d, "tf32")


@pytest.mark.parametrize("rounding", ["truncated", "nearest"])
def test_operands_of_tf32_change_no_label(monkeypatch, rounding):
    """The interpreter multiplies in float32: here its operands are what a tensor core reads."""
    x, c, offsets = problem(300, 60, 32, seed=3)
    c[30:] = c[:30] + 1e-4 * torch.randn(30, 32)  # near each other
    offsets[30:] = offsets[:30]
    dot = torch.matmul

    def of_tf32(a, b):
        if rounding == "nearest":
            a, b = ((v.view(torch.int32) + 0x1000).view(torch.float32) for v in (a, b))
        return dot(truncated(a), truncated(b))

    from triton.runtime import interpreter

    def create_dot(self, a, b, acc, *_):
        product = of_tf32(*(torch.from_numpy(np.ascontiguousarray(v.data)) for v in (a, b)))
        return interpreter.TensorHandle(product.numpy() + acc.data, acc.dtype.scalar)

    monkeypatch.setattr(interpreter.InterpreterBuilder, "create_dot", create_dot)
    plain = (truncated(x) @ truncated(c).T + offsets.float()).argmax(dim=1)
    assert not torch.equal(plain, best_products.reference(x, c, offsets)[0])  # it does change some
    assert_conforms((x, c, offsets), precision="tf32")


def test_few_rows_are_computed_again():
    x, c, _ = problem(2_000, 50, 64, seed=5)
    unit = torch.nn.functional.normalize
    scores = (unit(x, dim=1).double() @ unit(c, dim=1).double().T).topk(2, dim=1).values
    lead = scores[:, 0] - scores[:, 1]
    shares = [float((lead <= 2 * relative_error(64, p)).double().mean()) for p in PRECISIONS]
    assert shares[0] <= shares[1] <= 0.01
    assert shares[2] <= 0.1


# -- where it runs


@pytest.fixture
def on_the_processor():
    """The kernels for arrays of the processor, in the interpreter."""
    row = backends.OPTIONAL["best_products"]
    row["torch", "cpu"] = row["torch", "cuda"]
    yield
    del row["torch", "cpu"]


@pytest.mark.parametrize("priced", [False, True])
@pytest.mark.parametrize("offset", [False, True])
def test_nearest_centers_take_the_kernels(on_the_processor, priced, offset):
    x, c, prices = problem(200, 30, 10, levels=1)
    offsets = -0.5 * (c * c).sum(dim=1) if offset else None
    source = product_source(feature_source(x)._replace(largest=1.0), c, offsets=offsets)
    expected = nearest_centers(source, prices if priced else None)
    text = backends._load  # what has run is what was loaded
    text.cache_clear()
    with dc.engine("triton"):
        found = nearest_centers(source, prices if priced else None)
    assert text.cache_info().misses == 1
    assert torch.equal(found, expected)


def test_weights_and_scores_in_memory_do_not(on_the_processor):
    x, c, prices = problem(50, 6, 4)
    weights = torch.linspace(0.1, 1.0, 50, dtype=torch.float64)
    source = product_source(feature_source(x)._replace(largest=4.0), c)
    assert isinstance(source.block, Products)
    for other in (
        product_source(feature_source(x)._replace(largest=4.0), c, weights=weights),
        product_source(feature_source(x)._replace(largest=1e38), 10 * c),  # may overflow
        product_source(feature_source(x), c),  # nobody knows the largest entry
        dc.score_source(x @ c.T),
    ):
        assert not isinstance(other.block, Products)
    double = product_source(feature_source(x.double())._replace(largest=4.0), c.double())
    with dc.engine("triton"):
        found = nearest_centers(double, prices)
    assert torch.equal(found, nearest_centers(double, prices))


def test_k_means_takes_the_kernels(on_the_processor):
    x, c, _ = problem(300, 6, 5, seed=1)
    expected = kmeans(x, c, metric="euclidean", max_iter=5)
    source = feature_source(x)._replace(largest=5.0)  # as rows in the memory of a card have it
    backends._load.cache_clear()
    with dc.engine("triton"):
        found = kmeans(source, c, metric="euclidean", max_iter=5)
        loaded = backends._load.cache_info().misses
        assert backends._load("triton_products:best_products")
        assert backends._load.cache_info().misses == loaded  # it had been loaded, so it has run
        bounds = dc.SizeBounds.from_ratios(6, n_samples=300, lower=0.9, xp=torch)
        constrained = constrained_kmeans(x, bounds, c, metric="euclidean", max_iter=3)
    assert torch.equal(found.labels, expected.labels)
    assert found.objective == pytest.approx(expected.objective, rel=1e-6)
    assert ((constrained.counts >= bounds.lower) & (constrained.counts <= bounds.upper)).all()


# -- the compiler


COMPILED = """
from tests.backends.compiled_triton import compiled
for name, shared, spilled in compiled():
    print(name, shared, spilled)
    assert shared <= 99 * 1024, "more shared memory than the smallest cards have"
    assert spilled == 0, "registers do not suffice"
"""


def test_the_kernels_compile_for_a_card_and_spill_no_register():
    """Triton brings the assembler along, and needs no card for it: seconds each."""
    assert set(TILES) == set(PRECISIONS)
    env = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    run = subprocess.run([sys.executable, "-c", COMPILED], env=env, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    assert len(run.stdout.splitlines()) == len(PRECISIONS) + 2
