"""What the kernels in plain PyTorch do beside being right: blocks, reads, stable sorts, ties."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from dualclust.backends import torch_engine  # noqa: E402
from tests.backends import test_assign_stream  # noqa: E402
from tests.backends.rows import rows_of  # noqa: E402
from tests.second_device import DEVICE  # noqa: E402

(STREAM,) = (row for row in rows_of("assign_stream") if row.target.startswith("torch_engine:"))


# -- blocks of rows


def test_a_block_in_float64_takes_512_mebibytes():
    assert torch_engine.BLOCK_ENTRIES * 8 == 512 * 1024 * 1024


@pytest.mark.parametrize(
    ("n", "k", "sizes"),
    [(5, 4, [2, 2, 1]), (5, 5, [1] * 5), (3, 8, [1] * 3), (3, 9, [1] * 3), (9, 1, [8, 1])],
)
def test_blocks_of_rows_hold_so_many_entries_or_one_row(monkeypatch, n, k, sizes):
    monkeypatch.setattr(torch_engine, "BLOCK_ENTRIES", 8)
    scores = torch.arange(n * k).reshape(n, k)
    parts = torch_engine._row_blocks(scores)
    assert [len(part) for part in parts] == sizes
    assert torch.equal(torch_engine._joined(list(parts)), scores)
    names = scores.to(torch.int32) - 1
    found = list(torch_engine._in_blocks(scores, names))
    assert [len(part) for part, _ in found] == sizes
    assert torch.equal(torch.cat([places for _, places in found]), (scores - 1).clamp(min=0))
    assert all(places.dtype == torch.int64 for _, places in found)
    assert len(next(torch_engine._in_blocks(scores, names, 20))[0]) == 1
    assert len(next(torch_engine._in_blocks(scores, names, 2))[0]) == min(n, 4)


def test_a_single_block_is_not_copied():
    only = torch.zeros(3)
    assert torch_engine._joined([only]) is only


# -- what the host reads


def stream(transfers, scores, chunk_size, upper, *, lower=None, remaining=-1):
    """Labels of a pass on the second device that changes no price, and how often it reads."""
    k, n = scores.shape[1], scores.shape[0]
    free = np.zeros(k)
    arrays = (scores, free, free, np.zeros(k, dtype=np.int64))
    sizes = {
        "lower": np.zeros(k, dtype=np.int64) if lower is None else np.asarray(lower),
        "upper": np.asarray(upper),
    }
    away = [torch.tensor(a).to(DEVICE) for a in arrays]
    options = {name: torch.tensor(a).to(DEVICE) for name, a in sizes.items()}
    options |= {name: away[1] for name in ("lower_share", "upper_share")}
    options |= {"step_size": 0.0, "free_sign": False}
    transfers.clear()
    labels, *_, counts, bad = torch_engine.assign_stream(
        *away, **options, chunk_size=chunk_size, remaining=remaining
    )
    n_reads = transfers.reads.total()
    assert bad == -1
    assert counts.cpu().tolist() == np.bincount(labels.cpu(), minlength=k).tolist()
    assert labels.shape == (n,)
    return labels.cpu().tolist(), n_reads


def wanted(n):
    """All rows want the first of two clusters."""
    return np.tile([1.0, 0.0], (n, 1))


def test_no_row_and_one_chunk_of_rows_are_read_as_seldom_as_can_be(transfers):
    assert stream(transfers, wanted(0), 4, [9, 9]) == ([], 0)
    assert stream(transfers, wanted(4), 4, [9, 9]) == ([0] * 4, 1)
    assert stream(transfers, wanted(12), 4, [99, 99]) == ([0] * 12, 1)


def test_a_chunk_that_just_fills_a_cluster_needs_no_read(transfers):
    assert stream(transfers, wanted(12), 4, [8, 99]) == ([0] * 8 + [1] * 4, 2)
    # A cluster that is full does not make the next chunks be looked at.
    assert stream(transfers, wanted(24), 4, [4, 99]) == ([0] * 4 + [1] * 20, 2)
    # What is known to be safe lasts for many chunks, to its last row.
    assert stream(transfers, wanted(40), 4, [40, 99]) == ([0] * 40, 1)


def test_a_chunk_before_which_completion_may_not_begin_needs_no_read(transfers):
    """Of 12 rows the second cluster is owed 4: at the earliest, completion begins after 8."""
    labels, n_reads = stream(transfers, wanted(12), 4, [99, 99], lower=[0, 4], remaining=12)
    assert labels == [0] * 8 + [1] * 4
    assert n_reads == 3  # the beginning, the counts and the labels of the third chunk
    labels, n_reads = stream(transfers, wanted(12), 4, [99, 99], lower=[0, 5], remaining=12)
    assert labels == [0] * 7 + [1] * 5
    assert n_reads == 3


def test_rejected_rows_propose_again_in_rounds_that_double(transfers):
    """Six rows want five clusters with room for one each: a read after 1, 2, 4 and 8 rounds."""
    scores = np.tile(np.arange(6.0)[::-1], (9, 1))
    found = stream(transfers, scores, 6, [1, 1, 1, 1, 1, 99])
    assert found == ([0, 1, 2, 3, 4, 5, 5, 5, 5], 1 + 4)


def test_rows_without_an_event_are_kept_together(transfers):
    """Another cluster has room for a single row, so that no two rows are safe before a look."""
    assert stream(transfers, wanted(6), 6, [99, 1]) == ([0] * 6, 2)
    # Two clusters get the one row that they are owed; completion begins with the end of the chunk.
    wishes = np.eye(4)[[0, 1, 0, 0, 0, 0, 0, 0]]
    found = stream(transfers, wishes, 6, [99, 99, 99, 1], lower=[1, 1, 2, 0], remaining=8)
    assert found == ([0, 1, 0, 0, 0, 0, 2, 2], 2)


def test_completion_begins_before_the_first_row_if_all_are_owed(transfers):
    scores = np.tile([9.0, 1.0, 0.0], (4, 1))
    for remaining, labels in ((4, [1, 1, 2, 2]), (5, [0, 1, 1, 2])):
        options = {"lower": [0, 2, 2], "remaining": remaining}
        assert stream(transfers, scores, 4, [9] * 3, **options)[0] == labels


# -- streams that go on, and ties


def test_a_stream_that_goes_on():
    for seed in range(8):
        rng, n, k = np.random.default_rng(seed), 16, 4
        counts, more = rng.integers(0, 4, k), np.bincount(rng.integers(0, k, n), minlength=k)
        (scores, *duals, _), options = test_assign_stream.problem(k, "none", seed=seed, n=n)
        slack = rng.integers(0, 2, k)
        lower = np.where(slack > 0, np.maximum(counts - 1, 0), counts + more)
        options |= {"lower": lower, "upper": np.maximum(counts + more + slack, lower)}
        options |= {"chunk_size": 1 + seed, "remaining": n}
        test_assign_stream.assert_conforms(STREAM, (scores, *duals, counts), options)


class Sorts(TorchDispatchMode):
    """Whether all sorts are asked to keep the order of what is equal."""

    def __init__(self):
        super().__init__()
        self.stable = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if function.overloadpacket is torch.ops.aten.sort:
            self.stable.append(bool((kwargs or {}).get("stable")))
        return function(*args, **(kwargs or {}))


def test_sorts_keep_the_order_of_ties_on_any_device():
    with Sorts() as seen:
        rank = torch_engine._rank_in_segment(torch.tensor([2, 0, 2, 2, 0]))
    assert rank.tolist() == [0, 0, 1, 2, 1]
    assert seen.stable == [True]
