"""Who notices the end of a rank, and who keeps silent; the ranks are threads."""

from __future__ import annotations

import socket
import struct
import threading

import pytest

from dualclust.common import watch
from dualclust.common.ranks import RankLostError
from dualclust.common.watch import watched
from tests.thread_ranks import on_threads

torch = pytest.importorskip("torch")


def meet(ranks):
    return ranks.join(torch.tensor([ranks.rank]), [1] * ranks.world_size).tolist()


def no_threads():
    return not [t for t in threading.enumerate() if t.name == "dualclust-watch"]


def test_ranks_that_leave_in_any_order_are_not_missed():
    def work(ranks):
        with watched(ranks, ends_process=False):
            met = meet(ranks)
        return met

    for _ in range(5):
        assert on_threads(3, work) == [[0, 1, 2]] * 3
    assert no_threads()


def test_an_error_that_all_have_been_told_is_no_loss(capsys):
    heard = []

    def work(ranks):
        try:
            with watched(ranks, ends_process=False):
                meet(ranks)
                if ranks.rank == 1:
                    raise ZeroDivisionError
                meet_after.wait()
        except Exception as error:
            heard.append(error)
        if ranks.rank == 1:
            meet_after.set()

    meet_after = threading.Event()
    on_threads(3, work)
    assert [type(error) for error in heard] == [ZeroDivisionError]
    assert no_threads()


@pytest.mark.parametrize("dead", [0, 1, 2])
def test_all_others_name_the_rank_that_ended_without_a_word(dead):
    said = {}

    def work(ranks):
        try:
            with watched(ranks, ends_process=False):
                meet(ranks)
                if ranks.rank == dead:
                    raise KeyboardInterrupt
                meet(ranks)
        except RankLostError as error:
            said[ranks.rank] = str(error)
            raise

    with pytest.raises(KeyboardInterrupt):
        on_threads(3, work)
    assert sorted(said) == [rank for rank in range(3) if rank != dead]
    for text in said.values():
        assert text.startswith(f"lost rank {dead}: ")
    assert no_threads()


def test_a_rank_that_lost_another_and_was_not_told_does_not_say_goodbye(monkeypatch):
    """Its peers must not take its end for an orderly one."""
    monkeypatch.setattr(watch, "GRACE", 2.0)
    said = {}

    def work(ranks):
        try:
            with watched(ranks, ends_process=False):
                meet(ranks)
                if ranks.rank == 1:
                    raise RankLostError(alone)
                waiting.wait(20.0)
                raise RankLostError(alone)
        except RankLostError as error:
            said[ranks.rank] = str(error)
            waiting.set()
            if ranks.rank == 0:
                raise

    waiting, alone = threading.Event(), "an exchange has failed"
    with pytest.raises(RankLostError):
        on_threads(2, work)
    assert said[1] == alone
    assert said[0].startswith("lost rank 1: ")
    assert no_threads()


def test_a_stranger_at_the_port_is_sent_away(monkeypatch):
    told = watch._told

    def tell(ranks, numbers):
        port, token = told(ranks, numbers)
        if ranks.rank == 1:
            for words in (
                struct.pack("<QQq", token ^ 1, 2, 1),
                b"GET / HTTP/1.0\r\n\r\n      ",
                b"",
            ):
                with socket.create_connection(("127.0.0.1", port)) as stranger:
                    stranger.sendall(words)
        return [port, token]

    monkeypatch.setattr(watch, "_told", tell)

    def work(ranks):
        with watched(ranks, ends_process=False):
            return meet(ranks)

    assert on_threads(2, work) == [[0, 1]] * 2


def test_one_rank_alone_has_no_watch():
    with watched(on_threads(1, lambda ranks: ranks)[0]):
        assert no_threads()
