r"""The tasks of one pass: threads take them in order, and each keeps what came of it.

Problem: a part of a pass may take 0.1 ms, as long as an executor needs to take in a few calls and
wake a thread for each. So a worker is woken once a pass and takes tasks until none waits.

1. A *task* is an item that waits; then some thread's; then what the function returned or raised.
2. *Workers* are called by `Tasks.offer` and leave when they find nothing: under the lock that
   guards the tasks, so that an offer knows whether they will see it.
3. The *caller* takes tasks too (`Tasks.do_here`), and waits only for those that a worker has.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from contextvars import Context
from threading import Lock
from typing import Generic, TypeVar, cast

__all__ = ["Task", "Tasks"]

T = TypeVar("T")
R = TypeVar("R")


class Task(Generic[T, R]):
    """An item until a thread takes it, and what the function returned or raised for it then.

    Attributes
    ----------
    is_done : bool
        The result can be had without waiting.
    is_with_worker : bool
        A worker has taken it.
    """

    __slots__ = ("_held", "_raised", "_undone", "is_done", "is_with_worker")

    def __init__(self, item: T) -> None:
        self._held: T | R | None = item  # then what the function returned
        self._raised: BaseException | None = None
        self._undone = Lock()  # held until it is done; who asks for it waits for that
        self._undone.acquire()
        self.is_done = self.is_with_worker = False

    def do(self, function: Callable[[T], R], *, keeps: type[BaseException]) -> None:
        """Call the function, hold the item no longer than that, and keep errors of a kind."""
        item, self._held = cast(T, self._held), None
        try:
            self._held = function(item)
        except keeps as error:
            self._raised = error
        self.is_done = True
        self._undone.release()
        del self, item  # an error holds this frame, and the task the error

    def wait(self) -> None:
        """Wait until the thread that has taken the task has done it."""
        with self._undone:
            pass

    def result(self) -> R:
        """Wait for what the function returned, or raise what it raised."""
        self.wait()
        error = self._raised
        try:
            if error is not None:
                raise error
            return cast(R, self._held)
        finally:
            del self, error  # the error holds this frame, and the task the error


class Tasks(Generic[T, R]):
    """The tasks that no thread has begun, and the workers that look for them.

    Parameters
    ----------
    function : callable
        Called with the item of each task, by several threads at once.
    executor : Executor
        Of the threads that become workers; it may serve other passes at the same time.
    most_workers : int
        At the same time.
    context : Context
        In which the function runs; nobody else enters it.
    """

    def __init__(
        self,
        function: Callable[[T], R],
        executor: Executor,
        *,
        most_workers: int,
        context: Context,
    ) -> None:
        self._function, self._executor, self._context = function, executor, context
        self._waiting: deque[Task[T, R]] = deque()
        self._lock = Lock()
        self._n_workers, self._most_workers = 0, most_workers

    def offer(self, tasks: Iterable[Task[T, R]], *, n_workers: int) -> None:
        """Let threads take some tasks, after those that wait, and call so many workers more.

        Fewer are called where there would be more than `most_workers`.
        """
        with self._lock:
            self._waiting.extend(tasks)
            called = min(n_workers, self._most_workers - self._n_workers)
            self._n_workers += called
        for _ in range(called):
            self._executor.submit(self._context.copy().run, self._work)

    def do_here(self) -> bool:
        """Do the first task that waits in this thread; return whether there was one.

        Raises
        ------
        BaseException
            An interrupt, at once; other errors are raised by the task's `result`.
        """
        with self._lock:
            if not self._waiting:
                return False
            task = self._waiting.popleft()
        self._context.run(task.do, self._function, keeps=Exception)
        del task  # its error holds this frame
        return True

    def withdraw(self, begun: Iterable[Task[T, R]]) -> None:
        """Drop the tasks that wait, and wait for those of some begun ones that a worker has."""
        with self._lock:
            self._waiting.clear()
        for task in begun:
            if task.is_with_worker:
                task.wait()

    def _work(self) -> None:
        """Do tasks until none waits; what a worker runs."""
        while True:
            with self._lock:
                if not self._waiting:
                    self._n_workers -= 1
                    return
                task = self._waiting.popleft()
                task.is_with_worker = True
            task.do(self._function, keeps=BaseException)
            del task  # it holds its result
