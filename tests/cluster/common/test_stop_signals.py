"""A first signal is noted and said, a second leaves at once; handlers are put back."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from dualclust.common.stopping import SIGNALS, StoppedError, stoppable


def send(number: int) -> None:
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", SIGNALS)
def test_the_first_signal_is_noted_and_the_second_leaves(number, capfd) -> None:
    assert StoppedError.exit_code == 75  # what says that the same work goes on later
    before = [signal.getsignal(each) for each in SIGNALS]
    with stoppable() as stop:
        assert not stop()
        send(number)
        assert stop()
        assert stop.asked is number
        said = capfd.readouterr().err
        assert said.count("\n") == 2
        assert f"dualclust: {number.name}: ends after this step and saves; the same" in said
        with pytest.raises(KeyboardInterrupt):
            send(number)
        assert [signal.getsignal(each) for each in SIGNALS] == [signal.SIG_DFL] * 2
    assert [signal.getsignal(each) for each in SIGNALS] == before
    assert capfd.readouterr().err == ""


def test_a_block_inside_another_gives_back_its_handlers(capfd) -> None:
    with stoppable() as outer:
        with stoppable() as inner:
            send(signal.SIGTERM)
        assert inner()
        assert not outer()
        send(signal.SIGINT)
        assert outer()


def test_a_thread_has_no_signals() -> None:
    found = []

    def work() -> None:
        with stoppable() as stop:
            found.append(stop())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [False]
