"""What workers begin before it is asked for: done while the caller is busy, and handed out once."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from collections import Counter
from contextlib import suppress

import array_api_strict
import numpy as np
import pytest

from dualclust.algos.core._tasks import Task
from dualclust.algos.core.workers import begun, map_in_order, workers
from dualclust.backends import engine, select

LIKE = np.zeros(1)
THREADS = (1, 2, 4, 16)


def patiently(condition):
    """Wait until something is true: another thread makes it so."""
    until = time.monotonic() + 30.0
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.001)


@pytest.mark.parametrize("n_threads", THREADS)
def test_results_are_those_of_the_function_in_any_order(n_threads):
    with workers(n_threads), begun(lambda i: i * i, range(9), like=LIKE) as square:
        assert [square(i) for i in (3, 0, 8, 8, 11, 1)] == [9, 0, 64, 64, 121, 1]


def test_workers_do_it_while_the_caller_is_busy():
    by = {}

    def work(i):
        by[i] = threading.get_ident()
        return -i

    with workers(2), begun(work, range(4), like=LIKE) as found:
        patiently(lambda: len(by) == 4)
        assert threading.get_ident() not in by.values()
        before = dict(by)
        assert [found(i) for i in range(4)] == [0, -1, -2, -3]
        assert by == before  # nothing was computed for a second time


def test_a_result_is_handed_out_once_and_computed_anew_after_that():
    calls = Counter()

    def work(i):
        calls[i] += 1
        return [i]

    with workers(2), begun(work, [5, 6], like=LIKE) as found:
        first = found(5)
        assert calls[5] == 1
        assert found(5) == first
        assert found(5) is not first
        assert calls[5] == 3


def test_once_somebody_asks_workers_begin_no_more():
    """The only worker is held by the first item; the caller asks for another."""
    goes_on, by = threading.Event(), {}

    def work(i):
        by[i] = threading.get_ident()
        if i == 0:
            assert goes_on.wait(timeout=30.0)
        return i

    with workers(2), begun(work, range(3), like=LIKE) as found:
        patiently(lambda: 0 in by)
        assert found(2) == 2
        goes_on.set()
        assert found(0) == 0
        time.sleep(0.02)  # a worker that went on would take the other one
        assert found(1) == 1
        assert by[1] == by[2] == threading.get_ident() != by[0]
    assert len(by) == 3


def test_who_needs_an_item_that_a_worker_has_waits_for_it():
    has_begun, calls = threading.Event(), Counter()

    def work(i):
        calls[i] += 1
        has_begun.set()
        time.sleep(0.02)
        return i

    with workers(2), begun(work, [7], like=LIKE) as found:
        assert has_begun.wait(timeout=30.0)
        assert found(7) == 7
    assert calls == {7: 1}


@pytest.mark.parametrize("n_threads", [2, 4])
def test_other_passes_run_meanwhile_and_may_ask_for_it(n_threads):
    with workers(n_threads), begun(lambda i: i * i, range(5), like=LIKE) as square:
        assert list(map_in_order(abs, range(-9, 0), like=LIKE)) == list(range(9, 0, -1))
        assert list(map_in_order(square, range(8), like=LIKE)) == [i * i for i in range(8)]


def test_errors_are_those_of_who_asks():
    def fails(i):
        if i % 2:
            raise ValueError(i)
        return i

    with workers(2), begun(fails, range(4), like=LIKE) as found:
        assert found(2) == 2
        for i in (1, 1, 5):
            with pytest.raises(ValueError, match=str(i)):
                found(i)  # the error of item 3 is nobody's


@pytest.mark.parametrize("is_error", [False, True])
def test_the_context_ends_with_nothing_running(is_error):
    running, done = set(), []

    def slow(i):
        running.add(i)
        time.sleep(0.02)
        running.remove(i)
        done.append(i)

    with workers(3):
        try:
            with begun(slow, range(100), like=LIKE):
                patiently(lambda: len(running) == 2)
                if is_error:
                    raise RuntimeError
        except RuntimeError:
            assert is_error
        assert not running
        assert len(done) < 100
        # The threads are as they were.
        assert list(map_in_order(abs, [-1, -2], like=LIKE)) == [1, 2]


class Interrupt(BaseException):
    """Like a KeyboardInterrupt, which this test must not raise where it fails."""


def test_who_is_interrupted_while_waiting_leaves_nothing_running(monkeypatch):
    here, has_begun, interrupted, done = threading.get_ident(), threading.Event(), [], []

    def work(i):
        has_begun.set()
        time.sleep(0.05)
        done.append(i)

    def wait(task):
        if threading.get_ident() == here and not interrupted:
            interrupted.append(task)
            raise Interrupt
        real(task)

    real = Task.wait
    monkeypatch.setattr(Task, "wait", wait)
    with workers(2):
        with begun(work, [7], like=LIKE) as found:
            assert has_begun.wait(timeout=30.0)
            with pytest.raises(Interrupt):
                found(7)
        assert done == [7]


class Item:
    """Something that can be watched."""


@pytest.mark.parametrize("fails", [False, True])
def test_nothing_holds_an_item_after_it_was_asked_for(fails):
    item, by = Item(), []

    def work(one):
        by.append(threading.get_ident())
        if fails:
            raise ZeroDivisionError

    watched = weakref.ref(item)
    gc.disable()  # what is left in a cycle stays
    try:
        with workers(2), begun(work, iter([item]), like=LIKE) as found:
            patiently(lambda: by)
            with suppress(ZeroDivisionError):
                found(item)
            del item
            patiently(lambda: watched() is None)  # a worker lets go of it last
        assert by != [threading.get_ident()]
    finally:
        gc.enable()


def test_where_nothing_is_shared_out_nothing_is_begun():
    def never(i):
        raise AssertionError

    for like, n_threads in ((LIKE, 1), (None, 2), (array_api_strict.asarray([0.0]), 2)):
        with workers(n_threads), begun(never, range(3), like=like) as found:
            assert found is never
    with begun(never, range(3), like=LIKE) as found:
        assert found is never


def test_what_the_caller_has_chosen_holds_in_the_workers():
    with engine("reference"), workers(2):
        with begun(lambda i: select("segment_sum", LIKE), range(4), like=LIKE) as found:
            assert [found(i) for i in range(4)] == [None] * 4
    with workers(2), begun(lambda i: select("segment_sum", LIKE), [0], like=LIKE) as found:
        assert found(0) is not None


def test_passes_inside_what_is_begun_are_loops():
    def inner(i):
        return set(map_in_order(lambda j: threading.get_ident(), range(5), like=LIKE))

    with workers(3), begun(inner, range(4), like=LIKE) as found:
        assert all(len(found(i)) == 1 for i in range(4))
