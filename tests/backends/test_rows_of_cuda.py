"""The rows of CUDA read little, keep to their memory, and equal what the host computes."""

import math
from contextlib import nullcontext

import pytest

torch = pytest.importorskip("torch")
from torch.utils._pytree import tree_flatten, tree_map  # noqa: E402

from dualclust.algos.scores.nearest import best_clusters  # noqa: E402
from dualclust.backends import TABLE, torch_cpu, torch_engine, torch_lists  # noqa: E402
from tests.backends.test_reads import Largest, problem  # noqa: E402
from tests.second_device import DEVICE  # noqa: E402


def candidates(n, k, width):
    scores = problem(n, k)[0]
    box = torch.full((k,), 4.0, dtype=torch.float64)
    clusters, values = torch_lists.candidates_of_blocks(-box, box, [scores], width=width)[:2]
    return scores, box, values, clusters


CALLS = {
    "candidates_of_blocks": lambda s, box, v, c: (-box, box, list(s.split(1_200))),
    "soft_counts": lambda s, box, v, c: (v, c, box),
    "curvature": lambda s, box, v, c: (torch.softmax(v, dim=1), c),
    "eliminate": lambda s, box, v, c: (
        s[:30].to(torch.float64).T @ s[:30].to(torch.float64),
        (box * torch.linspace(0, 1, len(box)) > 1.0).to(torch.float64),
        box,
        s[:2].to(torch.float64),
    ),
    "regrets": lambda s, box, v, c: (v, c, box, c[:, 0].to(torch.int64) % 2),
    "curvature_product": lambda s, box, v, c: (torch.softmax(v, dim=1), c, box),
    "segment_sum": lambda s, box, v, c: (c.to(torch.int64) + 1, c[:, 0].to(torch.int64)),
    "best_clusters": lambda s, box, v, c: (s, box.to(s.dtype) * torch.linspace(0, 1, len(box))),
}
OPTIONS = {
    "candidates_of_blocks": {"width": 8},
    "soft_counts": {"temperature": 0.5},
    "curvature": {"n_clusters": 20},
    "eliminate": {},
    "regrets": {},
    "curvature_product": {},
    "segment_sum": {"n_segments": 20},
    "best_clusters": {},
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("blocks", [False, True])
def test_the_rows_of_cuda_read_little_and_stay_small(transfers, monkeypatch, name, blocks):
    n, k, width = 3_000, 20, 8
    given = CALLS[name](*candidates(n, k, width))
    module = torch_lists if name in ("regrets", "candidates_of_blocks") else torch_engine
    function, whole = getattr(module, name), None
    if blocks:
        whole = function(*given, **OPTIONS[name])
        monkeypatch.setattr(torch_engine, "BLOCK_ENTRIES", 2**10)
    with nullcontext() if blocks else Largest() as seen:
        here = function(*given, **OPTIONS[name])
    away = tree_map(lambda x: x.to(DEVICE), given)
    transfers.clear()
    there = function(*away, **OPTIONS[name])
    # How many rows of a block are fractional, and how many pairs may be candidates.
    if name not in ("soft_counts", "candidates_of_blocks"):
        assert transfers.reads.total() == 0
    elif not blocks:
        assert transfers.reads.total() == (1 if name == "soft_counts" else 3)
    assert transfers.uploads.total() == 0
    leaves = zip(*(tree_flatten(found)[0] for found in (here, there)), strict=True)
    for a, b in leaves:
        torch.testing.assert_close(b.cpu(), a, rtol=0, atol=0)
    if whole is not None:
        for a, b in zip(tree_flatten(whole)[0], tree_flatten(here)[0], strict=True):
            torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-9)
    else:
        wide = {"best_clusters": k, "curvature": k, "regrets": 2 * width}
        wide["candidates_of_blocks"] = 2 * k  # all clusters are candidates, and a pair is two
        assert seen.entries <= n * wide.get(name, width)


def test_every_row_of_cuda_is_among_them():
    rows = {name for name, row in TABLE.items() if ("torch", "cuda") in row}
    assert rows - set(CALLS) == {
        "assign_stream",
        "augmenting_paths",
        "split_rows",
    }  # these are tested above, below


def test_the_best_clusters_and_a_pass_hold_a_block_of_scores_at_most(monkeypatch):
    n, k, block = 3_000, 20, 2**10
    monkeypatch.setattr(torch_engine, "BLOCK_ENTRIES", block)
    scores, bounds, _ = problem(n, k)
    with Largest() as seen:
        found = torch_engine.best_clusters(scores, torch.zeros(k))
    assert seen.entries <= max(block, n)  # the labels of all rows, and no n k
    expected = best_clusters.reference(scores, torch.zeros(k))
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))
    empty = torch.zeros(k, dtype=torch.float64)
    with Largest() as seen:  # one chunk of all rows
        torch_engine.assign_stream(
            scores,
            empty,
            empty,
            empty.to(torch.int64),
            lower_share=bounds.lower_share,
            upper_share=bounds.upper_share,
            lower=bounds.lower,
            upper=bounds.upper,
            step_size=0.1,
            chunk_size=n,
            remaining=n,
            free_sign=False,
        )
    assert seen.entries <= max(block, n + 1)


def test_curvature_of_long_lists_builds_no_table_of_pairs():
    p = torch.full((4_000, 32), 1.0 / 32)
    clusters = torch.arange(32, dtype=torch.int32).repeat(4_000, 1)
    with Largest() as seen:
        matrix = torch_engine.curvature(p, clusters, n_clusters=32)
    assert seen.entries <= 4_000 * 32  # the lists; pairs would be 32 times as many
    expected = 4_000 / 32 * (torch.eye(32) - 1.0 / 32)
    torch.testing.assert_close(matrix, expected.to(torch.float64), rtol=1e-9, atol=1e-9)


def test_paths_take_three_copies_down_and_two_back(transfers):
    _, box, values, clusters = candidates(200, 20, 20)
    sizes = {"lower": torch.full((20,), 9), "upper": torch.full((20,), 11)}
    here = torch_cpu.augmenting_paths(values, clusters, 0 * box, **sizes, window=math.inf)
    away = [x.to(DEVICE) for x in (values, clusters, 0 * box)]
    sizes = {name: x.to(DEVICE) for name, x in sizes.items()}
    transfers.clear()
    there = torch_cpu.augmenting_paths(*away, **sizes, window=math.inf)
    assert (transfers.reads.total(), transfers.uploads.total()) == (3, 2)
    assert here[2:] == there[2:]
    for a, b in zip(here[:2], there[:2], strict=True):
        torch.testing.assert_close(b.cpu(), a, rtol=0, atol=0)
