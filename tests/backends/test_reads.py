"""How often the core reads from a device, on the second device; `benchmarks/reads.py` prints it.

`tests/passes.py` says how passes of the offline solver are counted. Each test holds the bar, and
where the library does far better, a second number that keeps what it has reached.
"""

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402
from torch.utils._pytree import tree_flatten  # noqa: E402

from dualclust import SizeBounds, assign, assign_offline, measured_steps  # noqa: E402
from dualclust.algos.clustering import _labels, constrained_kmeans, kmeans  # noqa: E402
from dualclust.algos.core.reads import on_host, read, unread  # noqa: E402
from dualclust.algos.offline import _smoothed_dual, assign_exact  # noqa: E402
from dualclust.algos.offline._candidates import collect_candidates  # noqa: E402
from dualclust.algos.online import StepRule  # noqa: E402
from dualclust.algos.scores.sources import score_source  # noqa: E402
from dualclust.backends import torch_engine  # noqa: E402
from tests.passes import counted_passes  # noqa: E402
from tests.second_device import DEVICE, is_second  # noqa: E402


def problem(n, k, *, lower=0.9, upper=1.1, seed=0, dtype=np.float32):
    """Scores on the host, and bounds on the host and on the device."""
    rng = np.random.default_rng(seed)
    scores = torch.tensor(rng.normal(size=(n, k)).astype(dtype))
    scores[:, : max(1, k // 4)] += 0.7
    bounds = [
        SizeBounds.from_ratios(
            k, n_samples=n, lower=lower, upper=upper, rounding="outward", xp=torch, device=device
        )
        for device in ("cpu", DEVICE)
    ]
    return scores, *bounds


# -- the helper


def test_numbers_are_read_together(transfers):
    x = torch.arange(3.0, device=DEVICE)
    assert (on_host(x), on_host(torch.zeros(3)), on_host(np.zeros(3))) == (False, True, True)
    assert read(x.sum(), 2, x.max() > 1, x.to(torch.int64)[1]) == [3.0, 2.0, 1.0, 1.0]
    assert transfers.reads.total() == 1
    assert is_second(unread(x.sum()))
    assert unread(torch.tensor(0.5)) == 0.5
    assert transfers.reads.total() == 1


def test_the_host_is_known_by_the_kind_of_the_device(xp):
    assert on_host(xp.asarray([1.0])) == (xp.name not in ("torch:second", "torch:cuda"))
    assert not on_host(torch.zeros(1, device="meta"))


# -- the online pass


def check_online_pass(transfers, n, k, *, at_most=math.inf, steps=None, **ratios):
    scores, here, there = problem(n, k, **ratios)
    away = scores.to(DEVICE)
    steps = measured_steps(here) if steps is None else steps
    transfers.clear()
    found = assign(away, there, steps=steps)
    n_reads, n_chunks = transfers.reads.total(), -(-n // steps.chunk_size)
    expected = assign(scores, here, steps=steps)
    torch.testing.assert_close(found.labels.cpu(), expected.labels, rtol=0, atol=0)
    torch.testing.assert_close(found.state.counts.cpu(), expected.state.counts, rtol=0, atol=0)
    assert n_reads <= 1 + n_chunks + 2 * k + 1, transfers.reads
    assert n_reads <= at_most, transfers.reads


@pytest.mark.parametrize(
    ("n", "k", "ratios", "at_most"),
    [
        (1_000, 10, {"upper": math.inf}, 40),
        (20_000, 10, {"upper": math.inf}, 45),
        (20_000, 100, {"upper": math.inf}, 150),
        (20_000, 10, {}, 40),
        (2_000, 10, {"lower": 0.0, "upper": math.inf}, 2),  # no event is possible
        (2_000, 10, {"lower": 1.0, "upper": 1.0}, 60),
    ],
)
def test_an_online_pass_reads_only_where_an_event_is_possible(transfers, n, k, ratios, at_most):
    check_online_pass(transfers, n, k, at_most=at_most, **ratios)


def test_the_published_steps_read_twice_a_batch_and_once_an_event(transfers):
    scores, here, there = problem(1_024, 10)
    steps = StepRule(0.1, 128, mean_over_chunk=True)
    away = scores.to(DEVICE)
    transfers.clear()
    labels = assign(away, there, steps=steps).labels
    assert transfers.reads.total() <= 2 * 8 + 2 * 10 + 1
    assert labels.cpu().tolist() == assign(scores, here, steps=steps).labels.tolist()


def test_a_row_that_is_not_finite_costs_no_read_more(transfers):
    scores, _, there = problem(2_000, 10, lower=0.0, upper=math.inf)
    scores[1_234, 5] = math.nan
    with pytest.raises(ValueError, match="in row 1234, column 5"):
        assign(scores.to(DEVICE), there)


def test_a_read_in_the_online_pass_is_noticed(transfers, monkeypatch):
    real = torch_engine._best

    def reading(*given):
        y = real(*given)
        return y * (y[0].item() >= 0) + y * (y[-1].item() < 0)

    monkeypatch.setattr(torch_engine, "_best", reading)
    with pytest.raises(AssertionError, match="assign_stream"):
        check_online_pass(transfers, 20_000, 10, at_most=40)


# -- the offline solver


def check_offline(transfers, n, k, *, solve=assign_offline, at_most=math.inf, **options):
    scores, here, there = problem(n, k)
    away = scores.to(DEVICE)
    transfers.clear()
    with counted_passes() as passes:
        found = solve(away, there, **options)
    n_reads = transfers.reads.total()
    expected = solve(scores, here, **options)
    assert found.objective == pytest.approx(expected.objective, rel=1e-4)
    assert found.gap <= max(expected.gap, 1e-4)
    assert n_reads <= 10 * passes.total(), (transfers.reads, passes)
    assert n_reads <= at_most, transfers.reads


@pytest.mark.parametrize(
    ("n", "k", "at_most"),
    [(1_000, 10, 70), (20_000, 10, 130), (20_000, 50, 120), (9_000, 300, 260)],
)
def test_the_offline_solver_reads_at_most_ten_times_a_pass(transfers, n, k, at_most):
    check_offline(transfers, n, k, at_most=at_most)


def test_the_exact_solver_reads_at_most_ten_times_a_pass(transfers):
    check_offline(transfers, 20_000, 10, solve=assign_exact, at_most=130)


def test_a_scan_of_many_blocks_reads_as_often_as_one_of_few(transfers):
    found = []
    for n in (2_048, 20_480):
        scores, _, there = problem(n, 300)
        source, box = score_source(scores.to(DEVICE)), torch.full((300,), 0.05, device=DEVICE)
        box = box.to(torch.float64)
        transfers.clear()
        collect_candidates(source, -box, box, width=8, max_entries=2**24)
        found.append(transfers.reads.total())
        assert there.n_clusters == 300
    assert found[0] == found[1] <= 6


def test_reads_in_a_newton_step_are_noticed(transfers, monkeypatch):
    real = _smoothed_dual.evaluate

    def reading(problem, prices, temperature):
        point = real(problem, prices, temperature)
        for j in range(problem.lower.shape[0]):  # of the lists: vectors are on the host
            problem.values[j, 0].item()
            problem.clusters[j, 0].item()
        return point

    monkeypatch.setattr(_smoothed_dual, "evaluate", reading)
    with pytest.raises(AssertionError):
        check_offline(transfers, 20_000, 50)


# -- k-means


def rows(n, d=5):
    rng = np.random.default_rng(0)
    return torch.tensor(rng.normal(size=(n, d)) + 2.0 * rng.integers(0, 3, size=(n, 1)))


def unit(x):
    return x / x.norm(dim=1, keepdim=True)


def reads_an_iteration(transfers, run, few=2, many=5):
    """Reads of further iterations, each; `run` returns how many there were."""
    counts = []
    for max_iter in (few, many):
        transfers.clear()
        assert run(max_iter) == max_iter
        counts.append(transfers.reads.total())
    return (counts[1] - counts[0]) / (many - few)


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_balanced_lloyd_reads_at_most_five_times_an_iteration(transfers, metric):
    x = rows(20_000) if metric == "euclidean" else unit(rows(20_000))  # three blocks
    away = x.to(DEVICE)

    def run(max_iter):
        return kmeans(away, away[:10], metric=metric, max_iter=max_iter).n_iter

    assert reads_an_iteration(transfers, run) <= 5


def some_rules(n, k):
    """The cluster of some rows, and pairs that are forbidden to others."""
    fixed = torch.full((n,), -1)
    fixed[::50] = torch.arange(len(fixed[::50])) % k
    barred = torch.arange(1, n, 7)
    barred = barred[barred % 50 != 0]
    pairs = torch.stack([barred, barred % k], dim=1)
    return {"fixed": fixed.to(DEVICE), "forbidden": pairs.to(DEVICE)}


def constrained_reads(transfers, monkeypatch, rules=None):
    """Reads an iteration of constrained k-means beside those of the assignment, and all."""
    away, inside, rules = rows(1_000).to(DEVICE), [], rules or {}
    bounds = SizeBounds.from_ratios(
        10, n_samples=1_000, lower=0.9, upper=1.1, rounding="outward", xp=torch, device=DEVICE
    )
    real = _labels.assign_source

    def spy(*args, **kwargs):
        before = transfers.reads.total()
        found = real(*args, **kwargs)
        inside.append(transfers.reads.total() - before)
        return found

    monkeypatch.setattr(_labels, "assign_source", spy)

    def run(max_iter):
        inside.clear()
        found = constrained_kmeans(
            away, bounds, away[:10], metric="euclidean", max_iter=max_iter, **rules
        )
        solver.append(sum(inside))
        return found.n_iter

    solver = []
    each = reads_an_iteration(transfers, run)
    of_solver = (solver[1] - solver[0]) / 3
    return each - of_solver, of_solver


@pytest.mark.parametrize("ruled", [False, True])
def test_constrained_kmeans_reads_at_most_five_times_an_iteration_beside_its_solver(
    transfers, monkeypatch, ruled
):
    rules = some_rules(1_000, 10) if ruled else None
    own, of_solver = constrained_reads(transfers, monkeypatch, rules)
    assert round(own, 9) <= 5  # a difference of thirds
    assert of_solver <= 100  # one assignment of few scores: all Newton steps of one problem


def test_a_read_for_each_block_of_rows_is_noticed(transfers, monkeypatch):
    from dualclust.algos.clustering._cluster_sums import PassSums

    real, away = PassSums.add_block, rows(20_000).to(DEVICE)

    def reading(self, block, start, labels):
        assert float(block[0, 0]) == float(block[0, 0])
        return real(self, block, start, labels)

    monkeypatch.setattr(PassSums, "add_block", reading)

    def run(max_iter):
        return kmeans(away, away[:10], metric="euclidean", max_iter=max_iter).n_iter

    assert reads_an_iteration(transfers, run) > 5


class Largest(TorchDispatchMode):
    """The largest array that an operation has made; a view of one is none."""

    entries = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        made = function(*args, **(kwargs or {}))
        if function.is_view:
            return made
        sizes = [t.numel() for t in tree_flatten(made)[0] if isinstance(t, torch.Tensor)]
        self.entries = max(self.entries, *sizes, 0)
        return made
