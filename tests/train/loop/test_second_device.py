"""Whole runs on the second device: they end like those of the CPU, and no step waits for the host.

Two methods solve a small problem there in each step, which crosses once in each direction.

`tests.second_device` says what the device is. Its runs are cut in two, so that checkpoints and
resuming are in every comparison.
"""

from __future__ import annotations

from contextlib import closing
from importlib import import_module

import pytest
import torch

from dualclust.train.config.run import override
from dualclust.train.loop import Run, resume, train
from dualclust.train.methods import METHODS
from tests.second_device import DEVICE, SecondTensor, second_device
from tests.train.data.test_pictures import CROPS
from tests.train.methods.secu.test_secu_self_label import stage
from tests.train.pictures import write_folder
from tests.train.runs import (
    Interrupted,
    assert_same_run,
    interrupt_after,
    tiny,
    tiny_recipe,
    write_images,
)
from tests.train.steps import counted_steps

SETTINGS = [
    "epochs=2",
    "batch_size=49",
    "evaluation.every=1",
    "evaluation.views=1",
    "assignment.rounding=outward",
    "network.width=2",
]
SMALL = ["network.hidden=8", "network.out_dim=8"]
CASES = {
    "secu": ["heads.clusters=[10, 12]", *SMALL],
    "secu entropy": ["heads.clusters=[10, 12]", "secu.constraint=entropy", *SMALL],
    "coke": ["heads.clusters=[10]", *SMALL],
    "propos": ["heads.clusters=[10]", *SMALL],
    "gatcluster": ["gatcluster.sub_batch=25", "gatcluster.n_init=2"],
    "mi_margin": ["mi_margin.newton_steps=6"],
    "mi_margin until solved": ["mi_margin.newton_steps=0", "mi_margin.balance=2.0"],
    "self_label": ["self_label.fixed_epochs=1"],
}


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return write_images(tmp_path_factory.mktemp("data") / "images.npz", n=97)


def settings(case, source, folder):
    method, changes = case.partition(" ")[0], CASES[case]
    if method != "self_label":
        return tiny_recipe(f"{method}_digits", source, *SETTINGS, *changes)
    train(settings("secu", source, folder), folder / "finished")
    return stage(folder / "finished", *SETTINGS[:4], *changes, "assignment.rounding=outward")


def run_in_two(config, folder):
    """Train on the second device, stopped after an epoch and resumed; what its steps waited for."""
    with second_device() as transfers, counted_steps(transfers) as steps:
        with pytest.raises(Interrupted):
            train(config, folder, device=str(DEVICE), progress=interrupt_after(1))
        resume(folder, device=str(DEVICE))
    return steps


SOLVED_ON_THE_HOST = {"mi_margin": 1, "gatcluster": 1}
LONG = {"secu entropy", "mi_margin until solved"}
"""Cases of `make slow`: another method's or setting's run takes the same operations."""


@pytest.mark.parametrize(
    "case", [pytest.param(c, marks=[pytest.mark.slow] * (c in LONG)) for c in CASES]
)
def test_a_run_ends_like_that_of_the_cpu(source, tmp_path, case):
    config = settings(case, source, tmp_path)
    train(config, tmp_path / "cpu")
    steps = run_in_two(config, tmp_path / "second")
    steps.assert_nothing_crossed(but=SOLVED_ON_THE_HOST.get(case.partition(" ")[0], 0))
    assert steps.count == 2 * 2  # of 49 images and of 48
    assert_same_run(tmp_path / "second", tmp_path / "cpu", other_engine=True)


def test_every_method_is_run():
    by_steps = {name for name, method in METHODS.items() if method.by_steps}
    assert {case.partition(" ")[0] for case in CASES} == by_steps
    assert all(METHODS[name].capturable for name in by_steps)


# What reads ahead --------------------------------------------------------------------------------


def test_samples_that_stay_on_the_host(source, tmp_path):
    """A thread fetches the rows, and the step brings them to the device: the same run."""
    config = override(settings("coke", source, tmp_path), ["epochs=1"])
    train(config, tmp_path / "resident", device="cpu")
    with second_device() as transfers, counted_steps(transfers) as steps:
        fetched = override(config, ["data.resident=never"])
        train(fetched, tmp_path / "fetched", device=str(DEVICE))
    assert not steps.reads
    assert set(steps.uploads) == {line for line in steps.uploads if "common/devices.py" in line}
    expected = (tmp_path / "resident" / "weights.safetensors").read_bytes()
    assert (tmp_path / "fetched" / "weights.safetensors").read_bytes() == expected


def test_pictures_that_stay_in_their_files(tmp_path):
    folder = write_folder(tmp_path / "pictures", 24, 4)
    config = tiny(folder, *CROPS, "heads.clusters=[4]", "heads.target=4", "batch_size=12")
    found = []
    for device in ("cpu", str(DEVICE)):
        with second_device():
            loader = Run(config, device).loader
            views = loader.views(loader.batches(0), 0, ("first", "second"))
            with closing(views) as drawn:
                found.append([[x.cpu() for x in of_batch] for _, of_batch in drawn])
    for ours, theirs in zip(*found, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))


# What is planted is found ------------------------------------------------------------------------


def a_read(module, name):
    """The function, after the host has looked at a value of its first tensor."""
    function = getattr(module, name)

    def planted(*args, **kwargs):
        tensor = next(x for x in args if isinstance(x, SecondTensor))
        assert tensor.flatten()[0].item() == tensor.flatten()[0].item()
        return function(*args, **kwargs)

    return planted


def an_upload(module, name):
    """The function, after a list of the host has become a tensor."""
    function = getattr(module, name)

    def planted(*args, **kwargs):
        torch.tensor([1.0], device=DEVICE)
        return function(*args, **kwargs)

    return planted


def a_numpy(module, name):
    """The function, after its first tensor has become an array."""
    function = getattr(module, name)

    def planted(*args, **kwargs):
        next(x for x in args if isinstance(x, SecondTensor)).detach().numpy()
        return function(*args, **kwargs)

    return planted


def a_mix(module, name):
    """The function, plus a row of zeros that lives on the host."""
    function = getattr(module, name)

    def planted(*args, **kwargs):
        found = function(*args, **kwargs)
        return found + torch.zeros(1)

    return planted


def test_a_device_without_a_number_is_the_one_that_tensors_name(source, tmp_path):
    """Random numbers of "cuda" and images of "cuda:0" would lie apart."""
    with second_device():
        run = Run(settings("secu", source, tmp_path), DEVICE.type)
        assert run.device == run.loader.data.mean.device == DEVICE


ALIGNMENT = "dualclust.train.methods.propos.method", "positive_sampling_alignment"
TARGETS = "dualclust.train.methods.gatcluster._targets", "balanced_targets"


@pytest.mark.parametrize(
    ("method", "place", "plant", "error"),
    [
        ("propos", ALIGNMENT, a_read, "values that the host reads in steps"),
        ("propos", ALIGNMENT, an_upload, "copies to the device in steps"),
        ("propos", ALIGNMENT, a_numpy, "can't convert a tensor of lazy:0 to numpy"),
        ("propos", ALIGNMENT, a_mix, "expected all tensors to be on the same device"),
        ("gatcluster", TARGETS, a_read, "values that the host reads in steps"),
        pytest.param(
            "gatcluster",
            TARGETS,
            a_numpy,
            "can't convert a tensor of lazy:0 to numpy",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "gatcluster",
            TARGETS,
            a_mix,
            "expected all tensors to be on the same device",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_planted_mistake_is_found(source, tmp_path, monkeypatch, method, place, plant, error):
    module, name = import_module(place[0]), place[1]
    monkeypatch.setattr(module, name, plant(module, name))
    config = override(
        settings(method, source, tmp_path), ["evaluation.views=0", f"{method}.n_init=1"]
    )
    with second_device() as transfers, counted_steps(transfers) as steps:
        run = Run(config, str(DEVICE))
        run.init()

        def checked_epoch():
            run.run_epoch()
            steps.assert_nothing_crossed(but=SOLVED_ON_THE_HOST.get(method, 0))

        with pytest.raises((AssertionError, RuntimeError, TypeError), match=error):
            checked_epoch()
