"""A pass reads as often over many blocks of rows as over few, on the second device.

`test_reads` holds the bars of the solvers; here are the passes around them: nearest centers, labels
at prices, rows whose cluster is known, pairs that are forbidden, starts, mini-batches, and the
online passes of hard problems.
"""

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from dualclust import SizeBounds, assign, init_state, measured_steps  # noqa: E402
from dualclust.algos.clustering import seeded  # noqa: E402
from dualclust.algos.clustering._restrictions import restrictions_of  # noqa: E402
from dualclust.algos.clustering.minibatch import init_minibatch  # noqa: E402
from dualclust.algos.clustering.minibatch_pass import minibatch_pass  # noqa: E402
from dualclust.algos.offline._candidates import collect_candidates  # noqa: E402
from dualclust.algos.offline._online_labels import assign_in_passes  # noqa: E402
from dualclust.algos.scores import blocks  # noqa: E402
from dualclust.algos.scores.sources import feature_source, product_source, score_source  # noqa: E402
from dualclust.algos.selection import Candidate, survey  # noqa: E402
from dualclust.algos.selection._runs import Run, label_rows  # noqa: E402
from dualclust.cluster import distances, labeling  # noqa: E402
from tests.backends.test_reads import Largest, some_rules  # noqa: E402
from tests.second_device import DEVICE  # noqa: E402

K, D, BLOCK = 10, 4, 64
FEW, MANY = 3 * BLOCK, 12 * BLOCK


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK_ENTRIES", BLOCK * K)
    monkeypatch.setattr(blocks, "DEVICE_ENTRIES", BLOCK * K)
    assert blocks.block_rows(K) == blocks.block_rows(K, like=points(1, DEVICE)) == BLOCK


def points(n, device):
    rng = np.random.default_rng(0)
    return torch.tensor(rng.normal(size=(n, D))).to(device)


def bounds_of(n, device=DEVICE, lower=0.9, upper=1.1):
    options = {"rounding": "outward", "xp": torch, "device": device}
    return SizeBounds.from_ratios(K, n_samples=n, lower=lower, upper=upper, **options)


def prices_on(device):
    return torch.linspace(-0.3, 0.3, K, dtype=torch.float64, device=device)


def products(x):
    centers = x[:K] + 0.0
    offsets = -0.5 * (centers * centers).sum(dim=1)
    return product_source(feature_source(x), centers, offsets=offsets)


def run_of(x):
    prices = prices_on(x.device)
    return Run(x[:K] + 0.0, prices, torch.zeros(len(x), dtype=torch.int64), 0.0, 0.0)


PASSES = {
    "nearest": lambda x: distances.nearest_centers(products(x)),
    "at prices": lambda x: distances.nearest_centers(products(x), prices_on(x.device)),
    "command": lambda x: labeling._best(products(x), prices_on(x.device)).labels,
    "around": lambda x: distances.nearest_centers(
        product_source(distances.around(feature_source(x), x[0]), x[:K] - x[0])
    ),
    "distances": lambda x: torch.tensor(
        distances.squared_distances(
            feature_source(x), torch.arange(len(x), device=x.device) % K, x[:K]
        )
    ),
    "a half": lambda x: label_rows(x, run_of(x), metric="euclidean")[0],
    "survey": lambda x: (
        survey(
            feature_source(x), (Candidate(x[:K] + 0.0, prices_on(x.device)),), metric="euclidean"
        )[0].counts
    ),
}


@pytest.mark.parametrize("name", PASSES)
def test_blocks_cost_no_reads(transfers, name):
    found = []
    for n in (FEW, MANY):
        away = points(n, DEVICE)
        transfers.clear()
        there = PASSES[name](away)
        found.append(transfers.reads.total())
        assert transfers.uploads.total() == 0, transfers.uploads
        here = PASSES[name](points(n, "cpu"))
        torch.testing.assert_close(there.cpu(), here, rtol=1e-12, atol=0)
    assert found[0] == found[1] <= 5, transfers.reads


@pytest.mark.parametrize("name", ["nearest", "at prices", "command", "a half"])
def test_a_look_at_all_rows_holds_a_block_of_scores_at_most(transfers, name):
    away = points(MANY, DEVICE)
    with Largest() as seen:
        PASSES[name](away)
    assert seen.entries <= max(BLOCK * K, MANY * D) < MANY * K


def test_a_read_for_each_block_is_noticed(transfers, monkeypatch):
    real = labeling.best_clusters

    def reading(block, offsets):
        assert float(block[0, 0]) < math.inf
        return real(block, offsets)

    monkeypatch.setattr(labeling, "best_clusters", reading)
    with pytest.raises(AssertionError):
        test_blocks_cost_no_reads(transfers, "command")


# -- rows that are known, and pairs that are forbidden


def restricted(n, **rules):
    scores = torch.tensor(np.random.default_rng(0).normal(size=(n, K)).astype(np.float32))
    found = restrictions_of(rules.get("fixed"), rules.get("forbidden"), bounds_of(n))
    return found.of_scores(score_source(scores.to(DEVICE)))


@pytest.mark.parametrize("rule", ["fixed", "forbidden"])
def test_rules_cost_no_reads(transfers, rule):
    """A look at candidates reads once a block, and a few times for all."""
    found = []
    for n in (FEW, MANY):
        source = restricted(n, **{rule: some_rules(n, K)[rule]})
        box = torch.full((K,), 0.05, dtype=torch.float64, device=DEVICE)
        transfers.clear()
        rows = source.take(torch.arange(0, n, 3, device=DEVICE))
        assert rows.shape == (len(range(0, n, 3)), K)
        source.block(5, BLOCK + 1)
        assert (transfers.reads.total(), transfers.uploads.total()) == (0, 0)
        collect_candidates(source, -box, box, width=4, max_entries=2**24)
        found.append(transfers.reads.total() - n // BLOCK)
    assert found[0] == found[1] <= 3


def test_starts_read_as_often_for_many_clusters_as_for_few(transfers):
    x, found = feature_source(points(FEW, DEVICE)), []
    for k in (4, K):
        fixed = torch.where(torch.arange(FEW) % 5 == 0, torch.arange(FEW) % 2, -1).to(DEVICE)
        transfers.clear()
        seeded.seeded_centers(x, k, fixed=fixed, seed=0, metric="euclidean")
        found.append(transfers.reads.total())
    assert found[0] == found[1] <= 16, transfers.reads


# -- batches


def test_a_mini_batch_reads_at_most_five_times(transfers):
    bounds = SizeBounds.for_stream(K, lower=0.8, xp=torch, device=DEVICE)
    found = []
    for n in (FEW, MANY):
        x = points(n, DEVICE)
        state = init_minibatch(x[:K], bounds)
        source = feature_source(x)
        transfers.clear()
        minibatch_pass(source, state, bounds, metric="euclidean", batch_size=BLOCK)
        found.append(transfers.reads.total())
    assert found[1] - found[0] <= 5 * (MANY - FEW) // BLOCK, transfers.reads


def test_a_batch_of_a_pass_reads_twice_where_no_event_is_possible(transfers):
    bounds = bounds_of(MANY, lower=0.0, upper=math.inf)
    steps = measured_steps(bounds)
    scores = torch.zeros(BLOCK, K, device=DEVICE)
    state = assign(scores, bounds, init_state(bounds), steps=steps).state
    transfers.clear()
    assign(scores, bounds, state, steps=steps)
    chunks = -(-BLOCK // steps.chunk_size)
    assert transfers.reads.total() <= 2 + (chunks > 1), transfers.reads


def test_online_passes_read_at_most_twice_a_chunk_and_once_an_event(transfers):
    source, bounds = products(points(MANY, DEVICE)), bounds_of(MANY)
    prices = prices_on(DEVICE)
    transfers.clear()
    found = assign_in_passes(source, bounds, prices)
    n_reads = transfers.reads.total()
    chunk = measured_steps(bounds).chunk_size
    n_chunks = 2 * (MANY // BLOCK) * -(-BLOCK // chunk)
    assert n_reads <= 2 * n_chunks + 2 * (2 * K + 1), transfers.reads
    assert found is not None
    assert found.violation == 0
    here = assign_in_passes(products(points(MANY, "cpu")), bounds_of(MANY, "cpu"), prices.cpu())
    assert torch.equal(found.labels.cpu(), here.labels)
