"""A run that is asked to stop saves within its epoch, and goes on with the next step to the bit."""

from __future__ import annotations

import pytest

from dualclust.common.stopping import StoppedError
from dualclust.train.config.run import RunConfig
from dualclust.train.loop import Run
from dualclust.train.loop.resume_state import restore, run_and_save_epoch
from dualclust.train.state.checkpoint import latest_checkpoint
from dualclust.train.state.packing import pack
from tests.train.runs import tiny_recipe, without_time, write_images

SMALL = (
    "epochs=2",
    "batch_size=16",
    "network.width=2",
    "evaluation.views=0",
    "assignment.rounding=outward",
)
METHODS = {
    "secu": ["heads.clusters=[10, 20]"],
    "secu certified": ["heads.clusters=[10]", "secu.centers=certified"],
    "coke": ["heads.clusters=[10]"],
    "propos": ["propos.queue=32", "optim.warmup_epochs=0"],
    "gatcluster": ["gatcluster.repeats=1"],
    "mi_margin": ["mi_margin.restart=0.02"],
}


@pytest.fixture(scope="module")
def few(tmp_path_factory):
    return write_images(tmp_path_factory.mktemp("data") / "images.npz", n=61)


def state_of(run: Run) -> dict[str, object]:
    """All that a run is, to the bit, and its figures but for the time that they took."""
    tensors, _ = pack(run.state_dict())
    bits = {name: (str(t.dtype), t.numpy().tobytes()) for name, t in tensors.items()}
    return {**bits, "metrics": without_time(run.metrics)}


def settings(case: str, few) -> RunConfig:
    method = case.partition(" ")[0]
    return tiny_recipe(f"{method}_digits", few, *SMALL, *METHODS[case])


class Signals:
    """Asks a run to stop after some of its steps, counted over all of its parts."""

    def __init__(self, *after: int) -> None:
        self.after, self.count = after, 0

    def made(self, config: RunConfig) -> Run:
        run = Run(config, "cpu")
        run.on_step, run.stop = self.step, lambda: self.count in self.after
        return run

    def step(self, done: int, total: int) -> None:
        self.count += 1


@pytest.mark.parametrize("case", METHODS)
def test_stopped_within_an_epoch_and_resumed_to_the_bit(few, tmp_path, case) -> None:
    """Four steps an epoch: twice in the first and once in the second, each in a new process."""
    config = settings(case, few)
    straight = Run(config, "cpu")
    straight.init()
    while straight.epoch < 2:
        straight.run_epoch()
    signals = Signals(2, 3, 6)
    run, said = signals.made(config), []
    run.init()
    while run.epoch < 2:
        try:
            run_and_save_epoch(run, tmp_path)
        except StoppedError as stopped:
            said.append(str(stopped))
            run = signals.made(config)
            restore(run, latest_checkpoint(tmp_path), tmp_path / "config.toml")
    assert said == [
        f"stopped in epoch {e}, after {s} of 4 steps" for e, s in [(1, 2), (1, 3), (2, 2)]
    ]
    assert signals.count == 8  # no step was taken twice
    assert state_of(run) == state_of(straight)
