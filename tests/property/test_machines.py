"""Steps in any order: a stream in batches, checkpoints that are damaged, a folder that is replaced.

Each machine keeps a plain model of what must be there, takes steps at random, and compares.
"""

from __future__ import annotations

import shutil
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.core.errors import CheckpointError, MissingFileError, OutputError
from dualclust.algos.online.assignment import assign, init_state, next_pass
from dualclust.algos.online.certificates import violation
from dualclust.algos.online.step_sizes import StepRule
from dualclust.cluster.output_folder import replace_folder
from dualclust.train.state.checkpoint import (
    checkpoint_folder,
    latest_checkpoint,
    load_checkpoint,
    save_checkpoint,
)
from tests.compare import assert_equal

torch = pytest.importorskip("torch")

N, K = 16, 3
BOUNDS = SizeBounds.from_counts([2] * K, [9] * K, n_samples=N)
STEPS = StepRule(0.25, 2)
SHORT = settings(max_examples=12, stateful_step_count=12)
LONG = settings(max_examples=500, stateful_step_count=40)


class Stream(RuleBasedStateMachine):
    """A stream in batches of any length gives what all of its rows at once give."""

    def __init__(self):
        super().__init__()
        self.begin = self.state = init_state(BOUNDS)
        self.rows, self.labels = np.empty((0, K)), np.empty(0, np.int64)

    @precondition(lambda self: len(self.rows) < N)
    @rule(seed=st.integers(0, 99), pairs=st.integers(0, 4))
    def more(self, seed, pairs):
        n = min(2 * pairs, N - len(self.rows))
        scores = np.random.default_rng(seed).integers(-8, 8, (n, K)) / 8.0
        labels, self.state = assign(scores, BOUNDS, self.state, steps=STEPS)
        self.rows = np.concatenate([self.rows, scores])
        self.labels = np.concatenate([self.labels, labels])

    @rule()
    def stored(self):
        """The state of arrays and numbers comes back from their bytes."""
        lower, upper = (np.frombuffer(a.tobytes()) for a in self.state.duals)
        duals = self.state.duals._replace(lower=lower, upper=upper)
        self.state = self.state._replace(duals=duals)

    @precondition(lambda self: len(self.rows) == N)
    @rule()
    def again(self):
        assert violation(self.state.counts, BOUNDS) == 0
        self.begin = self.state = next_pass(self.state)
        self.rows, self.labels = self.rows[:0], self.labels[:0]

    @invariant()
    def is_that_of_all_rows_at_once(self):
        labels, state = assign(self.rows, BOUNDS, self.begin, steps=STEPS)
        assert_equal(labels, self.labels)
        for ours, theirs in zip(state.duals, self.state.duals, strict=True):
            assert_equal(ours, theirs)
        assert_equal(state.counts, self.state.counts)


class Checkpoints(RuleBasedStateMachine):
    """The newest checkpoint that is whole comes back; damage is never loaded."""

    def __init__(self):
        super().__init__()
        self.run = Path(tempfile.mkdtemp())
        self.whole: dict[int, int] = {}
        self.damaged: set[int] = set()

    def teardown(self):
        shutil.rmtree(self.run)

    @rule(epoch=st.integers(1, 6), value=st.integers(0, 99))
    def save(self, epoch, value):
        tensors = {"x": torch.full((2,), float(value))}
        save_checkpoint(checkpoint_folder(self.run, epoch), tensors, {"value": value}, keep=2)
        self.whole[epoch] = value
        self.damaged.discard(epoch)
        there = sorted({*self.whole, *self.damaged})
        older = [number for number in there if number < epoch]
        for number in older[: max(0, len(older) - 1)]:
            self.whole.pop(number, None)
            self.damaged.discard(number)

    @precondition(lambda self: self.whole)
    @rule(data=st.data(), place=st.integers(0, 10**6), bit=st.integers(0, 7))
    def damage(self, data, place, bit):
        epoch = data.draw(st.sampled_from(sorted(self.whole)))
        files = sorted(checkpoint_folder(self.run, epoch).iterdir())
        path = files[place % 3]
        content = bytearray(path.read_bytes())
        content[place % len(content)] ^= 1 << bit
        path.write_bytes(content)
        del self.whole[epoch]
        self.damaged.add(epoch)

    @invariant()
    def the_newest_whole_one_comes_back(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if self.whole:
                found = latest_checkpoint(self.run)
                assert found.metadata == {"value": self.whole[max(self.whole)]}
                assert found.folder == checkpoint_folder(self.run, max(self.whole))
            else:
                kind = CheckpointError if self.damaged else MissingFileError
                with pytest.raises(kind):
                    latest_checkpoint(self.run)
        for epoch in self.damaged:
            with pytest.raises(CheckpointError):
                load_checkpoint(checkpoint_folder(self.run, epoch))


class Folder(RuleBasedStateMachine):
    """A folder of results is replaced as a whole, and never with a file of somebody else's."""

    def __init__(self):
        super().__init__()
        self.home = Path(tempfile.mkdtemp())
        self.out = self.home / "out"
        self.ours: bytes | None = None
        self.theirs: bytes | None = None

    def teardown(self):
        shutil.rmtree(self.home)

    @rule(content=st.binary(max_size=4), overwrite=st.booleans())
    def write(self, content, overwrite):
        listed = b'{"files": ["labels.npy", "result.json"]}'
        files = {"labels.npy": content, "result.json": listed}
        allowed = self.ours is None or (overwrite and self.theirs is None)
        if allowed:
            replace_folder(self.out, files, overwrite=overwrite)
            self.ours = content
        else:
            with pytest.raises(OutputError):
                replace_folder(self.out, files, overwrite=overwrite)

    @precondition(lambda self: self.ours is not None)
    @rule(content=st.binary(max_size=4))
    def add_a_note(self, content):
        (self.out / "notes.txt").write_bytes(content)
        self.theirs = content

    @precondition(lambda self: self.theirs is not None)
    @rule()
    def take_the_note_away(self):
        (self.out / "notes.txt").unlink()
        self.theirs = None

    @invariant()
    def nothing_is_lost_and_nothing_left(self):
        expected = {} if self.ours is None else {"labels.npy": self.ours}
        expected |= {} if self.theirs is None else {"notes.txt": self.theirs}
        found = (
            {} if not self.out.exists() else {p.name: p.read_bytes() for p in self.out.iterdir()}
        )
        found.pop("result.json", None)
        assert found == expected
        assert [path.name for path in self.home.iterdir()] == ["out"] * (self.ours is not None)


@pytest.mark.parametrize("machine", [Stream, Checkpoints, Folder])
@pytest.mark.parametrize(
    "within", [SHORT, pytest.param(LONG, marks=pytest.mark.slow)], ids=["short", "long"]
)
def test_steps_in_any_order(machine, within):
    run_state_machine_as_test(machine, settings=within)


class Forgetful(Stream):
    """A stream that forgets its prices, which the machine must notice."""

    @rule()
    def forget(self):
        self.state = self.state._replace(duals=init_state(BOUNDS).duals)


def test_a_machine_can_fail():
    with pytest.raises(AssertionError):
        run_state_machine_as_test(
            Forgetful, settings=settings(SHORT, max_examples=100, database=None)
        )
