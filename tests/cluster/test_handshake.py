"""Ranks with other options, inputs, versions or weights end before their first step, all alike."""

from __future__ import annotations

import numpy as np
import pytest

from dualclust.algos.core.errors import UsageError
from dualclust.cli.main import build_parser
from dualclust.cluster import problem
from dualclust.cluster.options import check_options
from dualclust.cluster.problem import open_problem
from dualclust.cluster.progress import Meter
from dualclust.common.handshake import check_same
from tests.thread_ranks import on_threads

pytest.importorskip("torch")


def refusals(work):
    """What two ranks say, each of which does ``work(ranks)`` and is refused."""
    said = []

    def one(ranks):
        with pytest.raises(UsageError) as error:
            work(ranks)
        said.append(str(error.value))

    on_threads(2, one)
    assert len({*said}) == 1
    assert "the ranks must do the same, got " in said[0]
    assert "To fix this, start all ranks with the same options" in said[0]
    return said[0]


def test_the_first_rank_that_differs_is_named() -> None:
    facts = [{"a": "1", "b": "2"}, {"a": "1", "b": "2"}, {"a": "1", "c": "3"}]

    def work(ranks):
        check_same(facts[ranks.rank], ranks.exchange)

    def refused(ranks):
        words = r"b = 2 on rank 0 and nothing on rank 2; c = nothing on rank 0 and 3 on rank 2\. To"
        with pytest.raises(UsageError, match=words):
            work(ranks)

    on_threads(3, refused)
    on_threads(2, work)


def test_more_than_three_differences_are_counted() -> None:
    said = refusals(lambda ranks: check_same({n: str(ranks.rank) for n in "abcde"}, ranks.exchange))
    assert "c = 0 on rank 0 and 1 on rank 1 and 2 more. To fix" in said


def test_a_flag_of_any_rank_is_one_of_all() -> None:
    assert on_threads(3, lambda ranks: ranks.any(ranks.rank == 1)) == [True] * 3
    assert on_threads(3, lambda ranks: ranks.any(False)) == [False] * 3


def opened(path, *more):
    """A function of a rank that opens a problem, with more options on rank 1."""

    def work(ranks):
        own = list(more) if ranks.rank == 1 else []
        words = ["cluster", str(path), "-k", "4", *own]
        options = build_parser().parse_args(words)
        check_options(options)
        return open_problem(options, ranks, np.matmul, Meter(False))

    return work


@pytest.fixture
def rows(tmp_path):
    np.save(tmp_path / "X.npy", np.random.default_rng(0).normal(size=(50, 3)))
    return tmp_path / "X.npy"


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["-k", "5"], "--k = 4 on rank 0 and 5 on rank 1"),
        (["--seed", "7"], "--seed = 0 on rank 0 and 7 on rank 1"),
        (["--lower", "0.5"], "the bounds = "),
        (["--tol", "0.5"], "--tol = 0.001 on rank 0 and 0.5 on rank 1"),
        (["--checkpoint", "state"], "--checkpoint = None on rank 0 and given on rank 1"),
    ],
)
def test_options_that_differ_are_named(rows, more, words) -> None:
    assert words in refusals(opened(rows, *more))


def test_where_a_rank_computes_may_differ(rows) -> None:
    found = on_threads(2, opened(rows, "--threads", "2", "--out", "elsewhere"))
    assert [p.source.group.n_total for p in found] == [50, 50]


def test_another_version_and_another_file_are_named(rows, tmp_path, monkeypatch) -> None:
    whole = problem.same_facts

    def facts(options, inputs):
        found = whole(options, inputs)
        return found if options.seed == 0 else {**found, "numpy": "1.0", "--seed": "0"}

    monkeypatch.setattr(problem, "same_facts", facts)
    said = refusals(opened(rows, "--seed", "1"))
    assert f"numpy = {np.__version__} on rank 0 and 1.0 on rank 1. To fix" in said
    monkeypatch.undo()
    np.save(tmp_path / "Y.npy", np.ones((51, 3)))

    def work(ranks):
        return opened(rows if ranks.rank == 0 else tmp_path / "Y.npy")(ranks)

    said = refusals(work)
    assert "rows of the input = 50 of 3 float64 on rank 0 and 51 of 3 float64 on rank 1" in said
