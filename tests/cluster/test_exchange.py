"""Which rows a rank gets, and what its environment must say for it to be one."""

from __future__ import annotations

import pytest

from dualclust.algos.core.errors import UsageError
from dualclust.algos.scores.blocks import MOST_ROWS
from dualclust.cluster.exchange import row_group
from dualclust.common.ranks import Ranks, join_ranks

pytest.importorskip("torch")


@pytest.mark.parametrize("n", [0, 1, MOST_ROWS, MOST_ROWS + 1, 10 * MOST_ROWS - 1])
@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_shares_are_whole_blocks_in_order(n, size) -> None:
    shares = [row_group(Ranks(rank, size), n)[:2] for rank in range(size)]
    assert shares[0][0] == 0
    for (first, count), (after, _) in zip(shares, [*shares[1:], (n, 0)], strict=True):
        assert first + count == after
        assert first % MOST_ROWS == 0 or first == n
    most = max(count for _, count in shares)
    assert most <= (-(-n // MOST_ROWS) // size + 1) * MOST_ROWS


def test_without_the_variables_there_is_one(monkeypatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    assert row_group(join_ranks(), 10)[:3] == (0, 10, 10)
    monkeypatch.setenv("WORLD_SIZE", "1")
    ranks = join_ranks()
    assert (ranks.rank, ranks.world_size) == (0, 1)


LAUNCHED = {
    "WORLD_SIZE": "2",
    "RANK": "0",
    "LOCAL_RANK": "0",
    "MASTER_ADDR": "127.0.0.1",
    "MASTER_PORT": "1",
}


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"WORLD_SIZE": "two"}, "WORLD_SIZE must be a whole number"),
        ({"WORLD_SIZE": "2"}, "RANK, LOCAL_RANK, MASTER_ADDR, MASTER_PORT is not set"),
        ({**LAUNCHED, "RANK": "-1"}, "RANK must be a whole number"),
    ],
)
def test_half_an_environment_is_refused(monkeypatch, variables, words) -> None:
    for name in LAUNCHED:
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UsageError, match=words):
        join_ranks()
