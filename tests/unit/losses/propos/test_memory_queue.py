"""The ring buffer against a list that is cut, and that no value is read back."""

import numpy as np
import pytest
import torch
from array_api_compat import torch as torch_namespace
from hypothesis import given
from hypothesis import strategies as st
from torch._subclasses.fake_tensor import FakeTensorMode

from dualclust.algos.core.errors import DualclustError
from dualclust.algos.losses.propos.memory_queue import contents, current_labels, init_queue, push
from dualclust.algos.losses.propos.prototypes import batch_prototypes
from tests.compare import assert_equal, assert_same_kind, to_numpy
from tests.examples import examples
from tests.refusals import assert_refused


def batches(sizes, d=2):
    """Rows that name themselves: row i is (i, -i, ...)."""
    first = 0
    for size in sizes:
        ids = np.arange(first, first + size)
        yield ids[:, None] * np.asarray([1.0, -1.0] * d)[:d], ids
        first += size


@given(m=st.integers(1, 7), sizes=st.lists(st.integers(0, 20), max_size=8))
@examples(40)
def test_a_queue_is_the_end_of_the_list(xp, m, sizes):
    queue = init_queue(m, 2, xp=xp.namespace, dtype=xp.namespace.float64, device=xp.device)
    kept = []
    for rows, ids in batches(sizes):
        queue = xp.freeze(push(queue, xp.asarray(rows), xp.asarray(ids)))
        kept = [*kept, *ids.tolist()][-m:]
        found = contents(queue)
        filled = to_numpy(found.filled)
        assert filled.tolist() == [False] * (m - len(kept)) + [True] * len(kept)
        assert to_numpy(found.ids).tolist() == [-1] * (m - len(kept)) + kept
        assert to_numpy(found.rows)[filled].tolist() == [[i, -i] for i in kept]
        assert (to_numpy(found.rows)[~filled] == 0).all()
    assert int(to_numpy(queue.pushed)) == sum(sizes)


@given(m=st.integers(1, 6), a=st.integers(0, 15), b=st.integers(0, 15))
@examples(40)
def test_two_pushes_are_one(xp, m, a, b):
    queue = init_queue(m, 2, xp=xp.namespace, device=xp.device)
    ((rows, ids),) = batches([a + b])
    parts = queue
    for part in (slice(0, a), slice(a, a + b)):
        parts = push(parts, xp.asarray(rows[part], "float32"), xp.asarray(ids[part]))
    whole = push(queue, xp.asarray(rows, "float32"), xp.asarray(ids))
    for x, y in zip(parts, whole, strict=True):
        assert_equal(x, y)


def test_kinds_and_an_untouched_state(xp):
    before = xp.freeze(init_queue(3, 2, xp=xp.namespace, device=xp.device))
    after = push(before, xp.asarray(np.ones((2, 2))), xp.asarray(np.asarray([4, 5], np.int32)))
    for x, y in zip(after, before, strict=True):
        assert_same_kind(x, y)
    assert_same_kind(before.rows, xp.asarray(np.zeros((3, 2)), "float32"))
    assert_same_kind(before.ids, xp.asarray(np.zeros(3, np.int64)))
    assert to_numpy(before.ids).tolist() == [-1, -1, -1]
    assert to_numpy(after.ids).tolist() == [4, 5, -1]


def test_empty_places_take_no_part_in_prototypes(xp):
    """The released queue begins with random rows that bear the label of sample 0."""
    labels_of = xp.asarray([1, 0, 1])
    queue = init_queue(4, 2, xp=xp.namespace, device=xp.device)
    rows = xp.asarray([[1.0, 0.0], [0.0, 1.0]], "float32")
    found = contents(push(queue, rows, xp.asarray([0, 1])))
    labels = current_labels(found.ids, labels_of)
    assert_equal(labels, xp.asarray([-1, -1, 1, 0]))
    mu = batch_prototypes(found.rows, labels, n_clusters=2)
    assert to_numpy(mu.vectors).tolist() == [[0.0, 1.0], [1.0, 0.0]]


def test_nothing_is_read_back():
    with FakeTensorMode():
        queue = init_queue(5, 3, xp=torch_namespace)
        for b in (2, 12):
            queue = push(queue, torch.ones(b, 3), torch.ones(b, dtype=torch.int64))
        assert contents(queue).rows.shape == (5, 3)
        assert current_labels(queue.ids, torch.ones(9, dtype=torch.int64)).shape == (5,)


@pytest.mark.parametrize(
    ("rows", "ids", "message"),
    [
        (np.ones((2, 4)), np.ones(2, np.int64), "rows"),
        (np.ones(3), np.ones(2, np.int64), "rows"),
        (np.ones((2, 3)), np.ones(3, np.int64), "ids"),
        (np.ones((2, 3)), np.ones(2), "ids"),
        (np.ones((2, 3), np.int64), np.ones(2, np.int64), "rows"),
        (np.ones((2, 3)), torch.ones(2, dtype=torch.int64), "ids"),
    ],
)
def test_errors_name_the_argument(rows, ids, message):
    assert_refused(DualclustError, message, push, init_queue(5, 3, xp=np), rows, ids)


@pytest.mark.parametrize(("size", "d"), [(0, 2), (2, 0), (True, 2)])
def test_a_queue_has_rows_and_columns(size, d):
    with pytest.raises(DualclustError, match=r"size|n_features"):
        init_queue(size, d, xp=np)
