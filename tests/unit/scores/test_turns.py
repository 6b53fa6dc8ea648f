"""Ranks that go through their rows one after the other."""

import numpy as np
import pytest

from dualclust.algos.scores import turns
from dualclust.algos.scores.sources import Group, alone
from dualclust.algos.scores.turns import Turn, hand_on, turns_of
from tests.compare import assert_same_kind, to_numpy
from tests.thread_ranks import groups_on_threads

EDGES = [[0, 7], [0, 4, 7], [0, 0, 4, 4, 9, 9], [0, 9, 9], [0, 1, 2, 6]]


@pytest.mark.parametrize("edges", EDGES)
def test_all_rows_have_one_turn_in_order(xp, edges, monkeypatch):
    monkeypatch.setattr(turns, "TURN_ROWS", 3)
    like = xp.asarray(np.zeros(1))

    def own_rows(group):
        taken = list(turns_of(group, like=like))
        rows = [range(t.start, t.stop) for t in taken if t.is_own]
        return len(taken), [group.first_row + row for turn in rows for row in turn]

    found = groups_on_threads(edges, own_rows)
    assert len({n_turns for n_turns, _ in found}) == 1
    assert [row for _, rows in found for row in rows] == list(range(edges[-1]))


@pytest.mark.parametrize("edges", EDGES)
def test_each_row_sees_what_those_before_it_left(xp, edges, monkeypatch):
    monkeypatch.setattr(turns, "TURN_ROWS", 2)

    def last_state(group):
        state = (xp.asarray(np.zeros((2, 2))), xp.asarray(np.asarray(1, dtype=np.int64)))
        for turn in turns_of(group, like=state[0]):
            if turn.is_own:
                for row in range(group.first_row + turn.start, group.first_row + turn.stop):
                    state = (state[0] * 2.0 + row, state[1] * 3 + row)
            state = hand_on(group, turn, state)
        return state

    expected = last_state(alone(edges[-1]))
    for found in groups_on_threads(edges, last_state):
        for ours, theirs in zip(found, expected, strict=True):
            np.testing.assert_array_equal(to_numpy(ours), to_numpy(theirs))
            assert_same_kind(ours, theirs)


def test_alone_nothing_is_packed():
    group, array = alone(5), np.ones(2)
    assert group.is_alone
    assert list(turns_of(group, like=None)) == [Turn(0, 5, True)]
    assert hand_on(group, Turn(0, 5, True), [array])[0] is array
    assert not Group(0, 5, 5, lambda a: a).is_alone  # the others have no rows


def test_turns_alone_are_those_of_ranks(monkeypatch):
    assert turns.TURN_ROWS == 2**20
    monkeypatch.setattr(turns, "TURN_ROWS", 3)
    expected = [Turn(0, 3, True), Turn(3, 6, True), Turn(6, 7, True)]
    assert list(turns_of(alone(7), like=np.zeros(1))) == expected
    assert list(turns_of(alone(0), like=np.zeros(1))) == []
