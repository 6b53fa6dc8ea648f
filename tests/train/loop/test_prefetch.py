"""What the thread that reads ahead does at its end, and what ids it is given."""

import queue
import threading

import torch

from dualclust.train.loop.prefetch import AHEAD, _Reader, on_host, read_ahead

CPU = torch.device("cpu")


def test_parts_are_copied_to_the_host_in_their_lengths():
    parts = [torch.tensor([3, 1]), torch.tensor([], dtype=torch.int64), torch.tensor([4])]
    assert [part.tolist() for part in on_host(parts)] == [[3, 1], [], [4]]
    assert on_host([]) == []


def test_jobs_are_done_in_their_order_by_a_thread_that_keeps_no_process_alive():
    def job(i):
        thread = threading.current_thread()
        return torch.tensor([i]), torch.tensor([thread.name == "prefetch", thread.daemon])

    with read_ahead([lambda i=i: job(i) for i in range(9)], CPU) as found:
        rows = [(int(number), flags.tolist()) for number, flags in found]
    assert rows == [(i, [True, True]) for i in range(9)]
    assert AHEAD == 3  # batches in memory


def test_a_job_that_is_under_way_is_stopped_before_it_is_waited_for():
    going, stopped, done = threading.Event(), threading.Event(), []

    def job():
        going.set()
        assert stopped.wait(20.0)
        done.append(True)
        return (torch.zeros(1),)

    with read_ahead([job, job], CPU, stop=stopped.set):
        assert going.wait(20.0)
    assert done == [True]  # the second has not begun
    assert "prefetch" not in [thread.name for thread in threading.enumerate()]


def test_at_the_end_the_reader_looks_again_and_again_for_what_is_still_under_way():
    seen_empty, waited = threading.Event(), []

    class Ready(queue.Queue):
        def get(self, block=True, timeout=None):
            try:
                return super().get(block, timeout)
            except queue.Empty:
                seen_empty.set()
                raise

    def job():
        waited.append(seen_empty.wait(2.0))
        return (torch.zeros(1),)

    reader = _Reader([job], CPU)
    reader.ready = Ready(AHEAD)
    reader.thread.start()
    reader.close(None)
    assert waited == [True]
    assert not reader.thread.is_alive()
