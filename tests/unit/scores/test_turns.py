"""Ranks that go through their rows one after the other."""

from itertools import pairwise

import numpy as np
import pytest

from dualclust.algos.scores.sources import Group, alone
from dualclust.algos.scores.turns import Turn, hand_on, turns_of
from tests.compare import assert_same_kind, to_numpy
from tests.thread_ranks import groups_on_threads

S = 2**20 // 3 + 1  # rows, of which a turn has less than three times as many
EDGES = [
    [S * edge for edge in edges]
    for edges in ([0, 7], [0, 4, 7], [0, 0, 4, 4, 9, 9], [0, 9, 9], [0, 1, 2, 6])
]


@pytest.mark.parametrize("edges", EDGES)
def test_all_rows_have_one_turn_in_order(xp, edges):
    like = xp.asarray(np.zeros(1))

    def own_rows(group):
        taken = list(turns_of(group, like=like))
        own = [(t.start, t.stop) for t in taken if t.is_own]
        return len(taken), [(group.first_row + a, group.first_row + b) for a, b in own]

    found = groups_on_threads(edges, own_rows)
    assert len({n_turns for n_turns, _ in found}) == 1
    turns = [turn for _, own in found for turn in own]
    ends = [0, *(stop for _, stop in turns)]
    assert [start for start, _ in turns] == ends[:-1]
    assert ends[-1] == edges[-1]
    assert all(0 < stop - start <= 2**20 for start, stop in turns)


@pytest.mark.parametrize("edges", EDGES)
def test_each_row_sees_what_those_before_it_left(xp, edges):
    def last_state(group):
        state = (xp.asarray(np.zeros((2, 2))), xp.asarray(np.asarray(1, dtype=np.int64)))
        for turn in turns_of(group, like=state[0]):
            if turn.is_own:
                a, b = group.first_row + turn.start, group.first_row + turn.stop
                for row in range(a, b, 2**18):  # some of them, and the first of each turn
                    state = (state[0] * 2.0 + row % 97, state[1] * 3 + row % 89)
            state = hand_on(group, turn, state)
        return state

    def in_order():
        state = (xp.asarray(np.zeros((2, 2))), xp.asarray(np.asarray(1, dtype=np.int64)))
        for a, b in pairwise(edges):
            for start in range(a, b, 2**20):
                for row in range(start, min(start + 2**20, b), 2**18):
                    state = (state[0] * 2.0 + row % 97, state[1] * 3 + row % 89)
        return state

    expected = in_order()
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


def test_turns_alone_are_those_of_ranks():
    m = 2**20
    expected = [Turn(0, m, True), Turn(m, 2 * m, True), Turn(2 * m, 2 * m + 1, True)]
    assert list(turns_of(alone(2 * m + 1), like=np.zeros(1))) == expected
    assert list(turns_of(alone(0), like=np.zeros(1))) == []
