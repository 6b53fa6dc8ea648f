"""A task keeps what came of it; workers take tasks in order, and leave when there are none."""

from __future__ import annotations

import contextvars
import gc
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest

from dualclust.algos.core._tasks import Task, Tasks


class Item:
    """Something that can be watched."""


def fails(item):
    msg = "no result"
    raise ZeroDivisionError(msg)


class Executor:
    """Keeps what it is asked for, to be run by hand."""

    def __init__(self):
        self.asked = []

    def submit(self, run, *arguments):
        self.asked.append(lambda: run(*arguments))


def tasks_of(function, *, most_workers=2, executor=None):
    executor = executor or Executor()
    context = contextvars.copy_context()
    return executor, Tasks(function, executor, most_workers=most_workers, context=context)


def test_a_task_returns_what_the_function_did():
    task = Task(3)
    assert not task.is_done
    task.do(lambda i: i + 1, keeps=Exception)
    assert task.is_done
    assert task.result() == 4


@pytest.mark.parametrize("keeps", [Exception, BaseException])
def test_a_task_raises_what_the_function_did_when_it_is_asked_for(keeps):
    task = Task(3)
    task.do(fails, keeps=keeps)
    assert task.is_done
    with pytest.raises(ZeroDivisionError, match="no result"):
        task.result()


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_errors_of_other_kinds_are_raised_at_once(error):
    def stops(item):
        raise error

    task = Task(3)
    with pytest.raises(error):
        task.do(stops, keeps=Exception)
    assert not task.is_done
    task = Task(3)
    task.do(stops, keeps=BaseException)
    assert task.is_done


def test_a_result_is_waited_for():
    task, found = Task(3), []
    thread = threading.Thread(target=lambda: found.append(task.result()), daemon=True)
    thread.start()
    thread.join(timeout=0.02)
    assert thread.is_alive()
    task.do(abs, keeps=Exception)
    thread.join(timeout=30.0)
    assert found == [3]
    task.wait()  # any number of times


def test_an_item_is_held_no_longer_than_its_work_takes():
    item = Item()
    watched, task = weakref.ref(item), Task(item)
    del item
    assert watched() is not None
    task.do(lambda item: item is None, keeps=Exception)
    assert task.result() is False
    assert watched() is None


def test_an_error_holds_neither_its_task_nor_itself():
    gc.disable()  # what is left in a cycle stays
    try:
        item = Item()
        watched, (_, tasks), task = weakref.ref(item), tasks_of(fails), Task(item)
        del item
        tasks.offer([task], n_workers=0)
        assert tasks.do_here()
        with pytest.raises(ZeroDivisionError):
            task.result()
        del task
        assert watched() is None
    finally:
        gc.enable()


def test_tasks_are_done_in_order_here_and_by_workers():
    done = []
    executor, tasks = tasks_of(done.append)
    tasks.offer([Task(0), Task(1)], n_workers=1)
    assert tasks.do_here()
    tasks.offer([Task(2), Task(3)], n_workers=0)
    assert done == [0]
    (worker,) = executor.asked
    worker()
    assert done == [0, 1, 2, 3]
    assert not tasks.do_here()


def test_no_more_workers_are_called_than_there_may_be():
    executor, tasks = tasks_of(abs, most_workers=3)
    tasks.offer(map(Task, range(4)), n_workers=2)
    assert len(executor.asked) == 2
    tasks.offer(map(Task, range(4)), n_workers=4)
    assert len(executor.asked) == 3
    tasks.offer([Task(0)], n_workers=1)
    assert len(executor.asked) == 3
    for worker in executor.asked:
        worker()
    tasks.offer(map(Task, range(9)), n_workers=9)  # those before have left
    assert len(executor.asked) == 6


def test_a_withdrawal_drops_what_waits_and_waits_for_what_a_worker_has():
    at_work, goes_on, done = threading.Event(), threading.Event(), []

    def work(item):
        at_work.set()
        assert goes_on.wait(timeout=30.0)
        done.append(item)

    with ThreadPoolExecutor(1) as executor:
        _, tasks = tasks_of(work, most_workers=1, executor=executor)
        begun = [Task(i) for i in range(5)]
        tasks.offer(begun, n_workers=1)
        assert at_work.wait(timeout=30.0)
        timer = threading.Timer(0.05, goes_on.set)
        timer.start()
        tasks.withdraw(begun)
        assert done == [0]
        assert [task.is_done for task in begun] == [True, False, False, False, False]
        timer.join()
    assert done == [0]
    assert not tasks.do_here()


def test_a_task_that_an_interrupt_ended_here_is_not_waited_for():
    def stops(item):
        raise KeyboardInterrupt

    _, tasks = tasks_of(stops)
    begun = [Task(0), Task(1)]
    tasks.offer(begun, n_workers=0)
    with pytest.raises(KeyboardInterrupt):
        tasks.do_here()
    tasks.withdraw(begun)  # for ever, if it were
    assert not tasks.do_here()


def test_workers_and_the_caller_see_the_context():
    seen, variable = [], contextvars.ContextVar("variable", default=0)
    context = contextvars.copy_context()
    context.run(variable.set, 7)
    executor = Executor()
    tasks = Tasks(lambda i: seen.append(variable.get()), executor, most_workers=2, context=context)
    tasks.offer(map(Task, range(2)), n_workers=1)
    assert tasks.do_here()
    executor.asked[0]()
    assert seen == [7, 7]
    assert variable.get() == 0
