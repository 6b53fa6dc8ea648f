"""Ranks that would not train the same run end before their first step."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest
import torch

from dualclust.algos.core.errors import UsageError
from dualclust.train.config.run import override
from dualclust.train.loop import Run, handshake, resume, train
from dualclust.train.loop.handshake import check_same_run
from tests.thread_ranks import on_threads
from tests.train.runs import Interrupted, interrupt_after, tiny, write_images

OPTIONS = ("threads=1", "heads.clusters=[10]")
DRAWING = threading.Lock()
"""Ranks of a test share the random numbers that their networks begin at."""


def begun(config, ranks, network=None) -> Run:
    with DRAWING:
        return Run(config, "cpu", network(ranks.rank) if network else None, ranks)


def refusal(source, *changes, other=None, network=None) -> str:
    """What both ranks say where rank 1 has changed settings, other images or another network."""
    said = []

    def work(ranks):
        second = ranks.rank == 1
        config = tiny(other if second and other else source, *OPTIONS)
        config = override(config, list(changes)) if second else config
        run = begun(config, ranks, network)
        with pytest.raises(UsageError, match=r"^the ranks must do the same, got ") as error:
            check_same_run(run)
        said.append(str(error.value))

    on_threads(2, work)
    assert len({*said}) == 1
    return said[0]


def test_settings_and_images_that_differ_are_named(source, tmp_path) -> None:
    assert "seed = 0 on rank 0 and 1 on rank 1" in refusal(source, "seed=1")
    assert "optim.lr = " in refusal(source, "optim.lr=0.25")
    other = write_images(tmp_path / "other.npz", classes=9)
    assert "images = " in refusal(source, other=other)


def test_a_network_of_ones_own_that_each_rank_drew_anew(source) -> None:
    def network(rank):
        with torch.random.fork_rng():
            torch.manual_seed(rank)
            return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 4))

    assert "got weights = " in refusal(source, network=network)


def said_by_ranks(begin) -> str:
    """What both ranks say, of which each calls ``begin(rank, ranks)``."""
    said = []

    def work(ranks):
        with pytest.raises(UsageError, match=r"^the ranks must do the same, got ") as error:
            begin(ranks.rank, ranks)
        said.append(str(error.value))

    on_threads(2, work)
    assert len({*said}) == 1
    return said[0]


def test_ranks_that_start_another_run_end_before_its_first_step(source, tmp_path) -> None:
    def begin(rank, ranks):
        config = tiny(source, *OPTIONS, f"seed={rank}")
        train(config, tmp_path / f"{rank}", ranks=ranks)

    assert "seed = 0 on rank 0 and 1 on rank 1" in said_by_ranks(begin)


@pytest.mark.parametrize(
    ("epochs", "changes", "words"),
    [
        ((2, 1), (), "epochs that are over = 2 on rank 0 and 1 on rank 1"),
        ((1, 1), ("seed=7",), "seed = 0 on rank 0 and 7 on rank 1"),
    ],
)
def test_ranks_that_resume_another_run_end_before_its_next_step(
    source, tmp_path, epochs, changes, words
) -> None:
    """Each from a folder of its own machine, of which one is an older copy, or of another run."""
    for rank, last in enumerate(epochs):
        config = tiny(source, *OPTIONS, *(changes if rank else ()))
        with pytest.raises(Interrupted):
            train(config, tmp_path / f"{rank}", progress=interrupt_after(last))

    assert words in said_by_ranks(lambda rank, ranks: resume(tmp_path / f"{rank}", ranks=ranks))


def test_a_digest_is_of_all_that_steps_change() -> None:
    """By name, kind, shape and bit, in whatever order a state has them."""

    def digest(**state):
        return handshake._digest(SimpleNamespace(method=SimpleNamespace(state_dict=lambda: state)))

    a, b = torch.arange(6.0), torch.tensor(2)
    base = digest(a=a, b=b, rest=[1, "word"])
    assert len(base) == 16
    strided = torch.stack([a, a + 1], 1)[:, 0]
    assert digest(b=b, rest=[2], a=strided) == base  # words are no weights
    others = [
        digest(a=a, c=b),
        digest(a=a.reshape(2, 3), b=b),
        digest(a=a.view(torch.int32), b=b),
        digest(a=a, b=torch.tensor(3)),
        digest(a=a),
    ]
    assert len({base, *others}) == 6


def test_settings_are_named_with_their_table() -> None:
    text = 'seed = 0\n\n[optim]\nlr = 0.5\n\n[heads]\ninit = "a = b"\n'
    named = ["seed = 0", "", "optim.lr = 0.5", "optim.", 'heads.init = "a = b"']
    assert handshake._settings(text) == named


def test_a_run_alone_compares_nothing() -> None:
    check_same_run(SimpleNamespace(ranks=SimpleNamespace(world_size=1)))


def test_equal_ranks_begin(source) -> None:
    on_threads(2, lambda ranks: check_same_run(begun(tiny(source, *OPTIONS), ranks)))
