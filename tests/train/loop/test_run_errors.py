"""Runs that go wrong: a loss that diverges, a disk that is full; and runs without classes."""

import math
import os
import shutil

import pytest
import torch

from dualclust.algos.core.errors import DualclustError, InvalidValueError, UsageError
from dualclust.train.loop import train, train_and_resume
from tests.train.runs import (
    listing,
    tiny,
    without_time,
    write_images,
)


@pytest.mark.parametrize(
    "changes",
    [["optim.lr=1e30"], ["optim.center_lr=1e38"]],
    ids=str,
)
def test_a_loss_that_is_not_finite_stops_the_run(source, tmp_path, changes):
    seen = []
    with pytest.raises(UsageError, match=r"the loss became nan in epoch .*lower optim\.lr"):
        train(tiny(source, *changes), tmp_path / "run", progress=seen.append)
    assert all(math.isfinite(record["loss"]) for record in seen)


def test_a_temperature_that_float32_cannot_hold_is_refused(source, tmp_path):
    with pytest.raises(InvalidValueError, match="temperature"):
        train(tiny(source, "loss.center_temperature=1e-40"), tmp_path / "run")


@pytest.mark.parametrize("epoch", [2, 3])
def test_a_last_step_that_spoils_the_weights_is_said(source, tmp_path, monkeypatch, epoch):
    """The loss was taken before; epoch 2 is evaluated, epoch 3 would only be saved."""
    whole, count = torch.optim.SGD.step, 0

    def step(self, *args, **kwargs):
        nonlocal count
        whole(self, *args, **kwargs)
        count += 1
        if count == 8 * epoch:
            with torch.no_grad():
                self.param_groups[0]["params"][0].fill_(math.nan)

    monkeypatch.setattr(torch.optim.SGD, "step", step)
    seen = []
    with pytest.raises(UsageError, match=r"lower optim\.lr"):
        train(tiny(source), tmp_path / "run", progress=seen.append)
    assert len(seen) == epoch - 1


def test_a_full_disk_is_said_and_costs_no_epoch(source, finished, tmp_path, monkeypatch):
    result, _ = finished
    folder = shutil.copytree(result.folder, tmp_path / "run")
    before = {name: v for name, v in listing(folder).items() if name.startswith("checkpoints")}

    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DualclustError, match=r"cannot write .*No space left on device"):
        train_and_resume.resume(folder)
    after = {name: v for name, v in listing(folder).items() if name.startswith("checkpoints")}
    assert after == before
    assert not list(folder.glob(".*"))


def test_without_labels_nothing_is_compared(tmp_path):
    source = write_images(tmp_path / "images.npz", labels=False)
    result = train(tiny(source, "epochs=2"), tmp_path / "run")
    assert not any("acc" in record for record in result.metrics)
    header = (tmp_path / "run" / "assignments.csv").read_text().partition("\n")[0]
    assert header == "id,cluster,margin,runner_up,nearest"
    assert without_time(result.metrics)[-1].keys() >= {"loss", "lr", "size_min", "size_max"}
