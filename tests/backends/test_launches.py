"""How many operations the host sends to a device, on the second device: bars of the library.

`benchmarks/launches.py` prints the counts, and what they cost on a card. A bar is what the library
has reached and a tenth more.
"""

import math

import pytest

torch = pytest.importorskip("torch")

from benchmarks.launches import step  # noqa: E402
from dualclust import SizeBounds, assign, assign_source, measured_steps, product_source  # noqa: E402
from dualclust.algos.clustering import constrained_kmeans  # noqa: E402
from dualclust.algos.offline._candidates import candidates_of_blocks  # noqa: E402
from dualclust.algos.scores.sources import feature_source  # noqa: E402
from dualclust.backends import torch_cpu, torch_lists  # noqa: E402
from dualclust.cluster.distances import nearest_centers  # noqa: E402
from tests.backends.test_reads import problem  # noqa: E402
from tests.launches import counted_launches  # noqa: E402
from tests.programs import program  # noqa: E402
from tests.second_device import DEVICE  # noqa: E402


@pytest.fixture
def launches():
    with counted_launches(name_lines=True) as found:
        yield found


def data(n, k):
    """Features, centers and bounds of the benchmark, on the device."""
    x, c = (torch.from_numpy(array).to(DEVICE) for array in program("assignment").data(n, k))
    ratios = {"lower": 0.9, "upper": 1.1, "rounding": "outward"}
    return x, c, SizeBounds.from_ratios(k, n_samples=n, xp=torch, device=DEVICE, **ratios)


# -- the counter


def test_operations_bytes_and_products_are_counted(launches):
    a, b = torch.zeros(4, 3, device=DEVICE), torch.zeros(3, 5, device=DEVICE)
    launches.clear()
    product = (a @ b)[:2]  # a view is no operation
    assert (launches.operations, launches.multiplied) == (1, 2 * 4 * 3 * 5)
    assert launches.size == 4 * (12 + 15 + 20)
    launches.clear()
    torch.zeros(2, 3)  # of the host
    row = product.expand(3, 2, 5)[0, 0]
    row.add_(1.0)
    assert (launches.operations, launches.size) == (1, 4 * (5 + 5))
    assert launches.to_host == 0
    assert row.cpu().tolist() == [1.0] * 5
    assert float(row[0]) == 1.0
    assert launches.to_host == 4 * (5 + 1)
    assert sum(launches.lines.values()) == launches.operations == sum(launches.names.values())


def test_what_is_picked_counts_and_what_is_sorted_counts_often(launches):
    table, places = torch.zeros(100, 2, device=DEVICE), torch.arange(3, device=DEVICE)
    launches.clear()
    table.index_select(0, places)
    assert launches.size == 2 * 4 * 6 + 8 * 3
    launches.clear()
    torch.sort(places)
    assert launches.size == (6 + 1 + 1) * 8 * 3


# -- bars


def test_nearest_centers_are_three_operations_a_block(launches):
    x, c, _ = data(150_000, 8)  # two blocks
    source = product_source(feature_source(x), c)
    prices = torch.zeros(8, dtype=torch.float64, device=DEVICE)
    launches.clear()
    nearest_centers(source, prices)
    assert launches.operations <= 3 * 2 + 3, launches.functions()


@pytest.mark.parametrize("radius", [0.01, 0.05])
def test_candidates_cost_few_operations_a_block_and_few_bytes_a_score(launches, radius):
    """Bytes of a score: 18 of keys, groups and a mask, and the lists; its product is not here."""
    n, k, found = 2_048, 1_000, []
    x, c, _ = data(n, k)
    scores = x @ c.T
    box = torch.full((k,), radius, dtype=torch.float64).to(DEVICE)
    for rows in (n // 2, n // 4):
        blocks = list(scores.split(rows))
        launches.clear()
        candidates_of_blocks(-box, box, blocks, width=16)
        found.append((launches.operations, launches.reads.total()))
        assert launches.size <= 29 * n * k
    operations, reads = ((b - a) / 2 for a, b in zip(*found, strict=True))
    assert operations <= 14, launches.functions()
    assert reads == 1


@pytest.mark.parametrize(("n", "k"), [(6_000, 60), (6_000, 8)])
def test_a_pass_has_few_operations_a_chunk_and_a_round(launches, n, k):
    x, c, bounds = data(n, k)
    scores, steps = x @ c.T, measured_steps(bounds)
    launches.clear()
    assign(scores, bounds, steps=steps)
    n_chunks, n_rounds = -(-n // steps.chunk_size), launches.names["sort"]
    assert n_rounds
    assert launches.operations <= 25 * n_chunks + 12 * n_rounds + 50, launches.functions()
    assert launches.reads.total() <= 1.5 * n_chunks


def test_labels_within_a_gap_have_few_operations(launches):
    x, c, bounds = data(20_000, 128)
    source = product_source(feature_source(x), c)
    launches.clear()
    found = assign_source(source, bounds, tol=1e-4)
    assert found.gap <= 1e-4
    assert launches.operations <= 2_650, launches.functions()
    assert launches.reads.total() <= 122, launches.reads
    assert launches.to_host <= 450_000


def test_an_iteration_of_k_means_has_few_operations(launches):
    x, c, bounds = data(10_000, 20)
    found = []
    for max_iter in (1, 4):
        launches.clear()
        constrained_kmeans(x, bounds, c, max_iter=max_iter, tol=0.0, gap=1e-2)
        found.append((launches.operations, launches.reads.total()))
    operations, reads = ((b - a) / 3 for a, b in zip(*found, strict=True))
    assert operations <= 1_150, launches.functions()
    assert reads <= 73, launches.reads


@pytest.mark.parametrize(
    ("method", "most"),
    [("secu", 106), ("coke", 113), ("propos", 150), ("gatcluster", 139), ("mi_margin", 77)],
)
def test_a_training_step_asks_for_few_operations_outside_the_network(
    launches, tmp_path, method, most
):
    found = step(launches, method, 16, tmp_path)
    assert 0 < found["ours"] <= most


# -- rows that go to the host


def test_only_rows_that_may_move_go_to_the_host(launches):
    n, k = 3_000, 12
    scores, here, there = problem(n, k, lower=0.95, upper=1.05)
    order = scores.argsort(dim=1, descending=True)[:, :6]
    values, clusters = scores.gather(1, order), order.to(torch.int32)
    values[::2, 2:], clusters[::2, 2:] = -math.inf, -1  # half of the rows have two candidates
    prices = torch.zeros(k, dtype=torch.float64)
    given = values, clusters, prices
    for window, share in ((3.0, 0.7), (0.1, 0.25), (math.inf, 1.0)):
        options = {"window": window}
        expected = torch_cpu.augmenting_paths(*given, lower=here.lower, upper=here.upper, **options)
        away = [array.to(DEVICE) for array in given]
        launches.clear()
        found = torch_lists.augmenting_paths(*away, lower=there.lower, upper=there.upper, **options)
        assert launches.to_host <= share * (8 * values.numel() + 4 * n) + 24 * k
        assert found[2:] == expected[2:]
        assert torch.equal(found[0].cpu(), expected[0])
        assert torch.equal(found[1].cpu(), expected[1])
