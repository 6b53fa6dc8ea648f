"""A map over blocks gives results in order, ends its threads, and hands errors to the caller."""

from __future__ import annotations

import contextvars
import gc
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import array_api_strict
import numpy as np
import pytest

from dualclust.algos.core.errors import InvalidTypeError, InvalidValueError
from dualclust.algos.core.workers import (
    AHEAD,
    map_in_order,
    workers,
)
from dualclust.backends import engine, select

LIKE = np.zeros(1)
THREADS = (1, 2, 4, 16)


def names():
    return [thread for thread in threading.enumerate() if thread.name.startswith("dualclust")]


@pytest.mark.parametrize("n_threads", THREADS)
def test_results_come_in_the_order_of_the_items(n_threads):
    def late(i):
        time.sleep(0.002 * ((7 * i) % 5))  # the first is not the first to be ready
        return i

    with workers(n_threads):
        assert list(map_in_order(late, range(23), like=LIKE)) == list(range(23))
        assert list(map_in_order(late, [], like=LIKE)) == []


def threads_at_once(n_threads):
    """The threads that compute some items at the same time; broken, unless so many meet."""
    all_of_them = threading.Barrier(n_threads, timeout=30.0)

    def meet(i):
        all_of_them.wait()
        return threading.get_ident()

    return set(map_in_order(meet, range(n_threads), like=LIKE))


@pytest.mark.parametrize("n_threads", [2, 3, 5])
def test_so_many_items_are_computed_at_the_same_time_one_by_the_caller(n_threads):
    with workers(n_threads):
        found = threads_at_once(n_threads)
    assert len(found) == n_threads
    assert threading.get_ident() in found


@pytest.mark.parametrize("n_threads", [2, 3, 5])
def test_no_more_items_are_computed_at_the_same_time(n_threads):
    running, most = set(), []

    def slow(i):
        running.add(i)
        most.append(len(running))
        time.sleep(0.002)
        running.remove(i)

    with workers(n_threads):
        list(map_in_order(slow, range(40), like=LIKE))
    assert max(most) <= n_threads


def test_the_caller_takes_the_first_items_that_no_worker_has_begun():
    here, own, goes_on = threading.get_ident(), [], threading.Event()

    def work(i):
        if threading.get_ident() != here:
            assert goes_on.wait(timeout=30.0)  # the worker holds an item until the caller has three
            return i
        own.append(i)
        if len(own) == AHEAD * 2 - 1:
            goes_on.set()
        return i

    with workers(2):
        assert list(map_in_order(work, iter(range(9)), like=LIKE)) == list(range(9))
    assert len(own) >= AHEAD * 2 - 1
    assert own == sorted(own)


def test_the_caller_hands_out_a_result_that_is_ready_before_it_takes_more():
    here, own = threading.get_ident(), []
    has_own, has_third, taken = (threading.Event() for _ in range(3))

    def work(i):
        if threading.get_ident() == here:
            own.append(i)
            has_own.set()
            assert has_third.wait(timeout=30.0)  # so that the worker's first one is done
        elif i < 2:
            assert has_own.wait(timeout=30.0)  # one of the first two is the caller's
        else:
            has_third.set()
            assert taken.wait(timeout=30.0)
        return i

    with workers(2):
        results = map_in_order(work, range(4), like=LIKE)
        assert next(results) == 0
        assert next(results) == 1
        assert own in ([0], [1])
        taken.set()
        assert list(results) == [2, 3]


def test_a_single_item_is_the_caller_s():
    here = threading.get_ident()
    with workers(3):
        for _ in range(50):
            assert list(map_in_order(lambda i: threading.get_ident(), [0], like=LIKE)) == [here]
        assert not names()  # no thread has been asked for


def test_a_worker_comes_back_to_a_pass_that_it_has_left():
    """It leaves where nothing waits; the caller calls it again with the next item."""
    by, done = {}, threading.Event()

    def work(i):
        by[i] = threading.get_ident()
        if i == AHEAD * 2 + 1:
            done.set()
        return i

    with workers(2):
        results = map_in_order(work, iter(range(AHEAD * 2 + 2)), like=LIKE)
        assert next(results) == 0
        time.sleep(0.05)  # the worker has nothing left to do
        assert next(results) == 1  # the last item is begun now
        assert done.wait(timeout=30.0)  # by the worker: the caller is not in the pass
        assert by[AHEAD * 2 + 1] != threading.get_ident()
        assert list(results) == list(range(2, AHEAD * 2 + 2))


def test_no_more_is_begun_than_the_caller_has_asked_for():
    begun = []
    with workers(3):
        results = map_in_order(begun.append, range(100), like=LIKE)
        for taken in range(1, 5):
            next(results)
            assert len(begun) <= AHEAD * 3 + taken
        results.close()
    assert len(begun) <= AHEAD * 3 + 4


@pytest.mark.parametrize("n_threads", THREADS)
def test_an_error_reaches_the_caller_and_ends_the_pass(n_threads):
    begun = []

    def fails(i):
        begun.append(i)
        if i == 5:
            msg = "block 5"
            raise ZeroDivisionError(msg)
        return i

    seen = []
    with workers(n_threads):
        with pytest.raises(ZeroDivisionError, match="block 5"):
            seen.extend(map_in_order(fails, range(1000), like=LIKE))
        assert seen == [0, 1, 2, 3, 4]
        at_the_end = len(begun)
        assert at_the_end <= 5 + 2 * AHEAD * n_threads + 1
        time.sleep(0.02)
        assert len(begun) == at_the_end  # nothing goes on
        assert list(map_in_order(abs, [-1], like=LIKE)) == [1]  # the threads are as they were
    assert not names()


def test_nothing_runs_on_once_a_caller_leaves_a_pass():
    running = []

    def slow(i):
        running.append(i)
        time.sleep(0.02)
        running.remove(i)

    with workers(4):
        for _ in map_in_order(slow, range(50), like=LIKE):
            break
        assert running == []


def test_the_threads_end_with_the_context_also_by_an_error():
    def interrupted():
        with workers(4):
            list(map_in_order(abs, range(40), like=LIKE))
            assert names()
            raise KeyError

    before = threading.active_count()
    with pytest.raises(KeyError):
        interrupted()
    assert threading.active_count() == before
    with workers(1):
        list(map_in_order(abs, range(40), like=LIKE))
        assert not names()


@pytest.mark.parametrize("n_items", [1, 2, 20])
def test_a_pass_inside_a_pass_is_a_loop(n_items):
    def slow(i):
        time.sleep(0.001)  # time for a worker that has nothing else to do
        return threading.get_ident()

    def inner(i):
        return set(map_in_order(slow, range(9), like=LIKE)) == {threading.get_ident()}

    with workers(2):
        assert all(map_in_order(inner, range(n_items), like=LIKE))


def test_several_threads_may_open_workers_at_once():
    def run(seed):
        with workers(2):
            return list(map_in_order(lambda i: i * seed, range(200), like=LIKE))

    with ThreadPoolExecutor(6) as pool:
        for seed, found in enumerate(pool.map(run, range(12))):
            assert found == [i * seed for i in range(200)]
    assert not names()


def test_several_threads_may_share_the_same_workers():
    def run(seed):
        return list(map_in_order(lambda i: i * seed, range(200), like=LIKE))

    with workers(2), ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(contextvars.copy_context().run, run, seed) for seed in range(8)]
        for seed, future in enumerate(asked):
            assert future.result(timeout=60) == [i * seed for i in range(200)]


def test_workers_do_as_the_caller_has_chosen():
    with workers(2), engine("reference"), np.errstate(over="raise"):
        chosen = list(map_in_order(lambda i: select("segment_sum", LIKE), range(6), like=LIKE))
        assert chosen == [None] * 6
        with pytest.raises(FloatingPointError):
            list(map_in_order(lambda i: np.float32(1e38) * np.float32(9.0), range(3), like=LIKE))
    assert select("segment_sum", LIKE) is not None


@pytest.mark.parametrize("like", [None, array_api_strict.zeros(1)], ids=["none", "strict"])
def test_other_libraries_stay_in_the_thread_of_the_caller(like):
    with workers(4):
        seen = list(map_in_order(lambda i: threading.get_ident(), range(9), like=like))
    assert set(seen) == {threading.get_ident()}


def test_the_number_of_threads_is_checked():
    with pytest.raises(InvalidValueError, match="n_threads must be at least 1, got 0"):
        workers(0).__enter__()
    with pytest.raises(InvalidTypeError, match="n_threads"):
        workers(2.5).__enter__()


def test_the_innermost_workers_run_a_pass_and_the_outer_ones_after_them():
    def alone():
        return set(map_in_order(lambda i: threading.get_ident(), range(9), like=LIKE))

    here = {threading.get_ident()}
    assert alone() == here
    with workers(2):
        assert len(threads_at_once(2)) == 2
        with workers(1):
            assert alone() == here
        assert len(threads_at_once(2)) == 2
        with workers(3):
            assert len(threads_at_once(3)) == 3
        assert len(threads_at_once(2)) == 2
    assert alone() == here


@pytest.mark.parametrize("fails_in", ["caller", "worker"])
def test_an_error_waits_for_its_turn_whoever_meets_it(fails_in):
    here, seen = threading.get_ident(), []
    both, failed = threading.Barrier(2, timeout=30.0), threading.Event()

    def work(i):
        if i < 2:
            both.wait()  # one of the two is the caller's
        if i > 0 and (threading.get_ident() == here) == (fails_in == "caller"):
            failed.set()
            msg = f"item {i}"
            raise ZeroDivisionError(msg)
        assert i < 2 or failed.wait(timeout=30.0)
        return i

    with workers(2), pytest.raises(ZeroDivisionError, match=r"item [1-3]") as met:
        seen.extend(map_in_order(work, range(9), like=LIKE))
    assert seen == list(range(int(str(met.value)[-1])))


class Interrupt(BaseException):
    """Like a KeyboardInterrupt, which this test must not raise where it fails."""


@pytest.mark.parametrize("error", [Interrupt, SystemExit, KeyboardInterrupt])
def test_an_interrupt_in_the_part_of_the_caller_ends_the_pass(error):
    """In a thread of its own, because what goes wrong here goes on for ever."""
    ended, at_work, goes_on = [], threading.Event(), threading.Event()

    def run():
        here = threading.get_ident()

        def work(i):
            if threading.get_ident() == here:
                assert at_work.wait(timeout=30.0)  # the worker has an item
                goes_on.set()
                raise error
            at_work.set()
            assert goes_on.wait(timeout=30.0)  # and leaves others to the caller

        try:
            with workers(2):
                list(map_in_order(work, range(9), like=LIKE))
        except error:
            ended.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(timeout=60.0)
    assert ended == [error]


class Item:
    """Something that can be watched."""


@pytest.mark.parametrize("fails_in", ["caller", "worker", "none"])
def test_nothing_holds_an_item_after_the_pass(fails_in):
    here, watched, held = threading.get_ident(), [], []
    both, failed = threading.Barrier(2, timeout=30.0), threading.Event()

    def items():
        for _ in range(6):
            item = Item()
            watched.append(weakref.ref(item))
            yield item
            del item

    def work(item):
        if len(held) < 2:
            held.append(None)
            both.wait()  # the caller and the worker have one each
        if (threading.get_ident() == here) == (fails_in == "caller") and fails_in != "none":
            failed.set()
            msg = "no result"
            raise ZeroDivisionError(msg)
        assert fails_in == "none" or failed.wait(timeout=30.0)

    gc.disable()  # what is left in a cycle stays
    try:
        with workers(2), suppress(ZeroDivisionError):
            list(map_in_order(work, items(), like=LIKE))
        assert failed.is_set() == (fails_in != "none")
        assert len(watched) >= 4
        assert [ref() for ref in watched] == [None] * len(watched)
    finally:
        gc.enable()
