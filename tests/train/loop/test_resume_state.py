"""Saving after an epoch: who saves, what stops the run there, and states that do not fit."""

from types import SimpleNamespace

import pytest

from dualclust.algos.core.errors import CheckpointError, OutputError
from dualclust.common.stopping import StoppedError
from dualclust.train.loop import Run
from dualclust.train.loop.resume_state import check_there, restore, run_and_save_epoch
from dualclust.train.state.checkpoint import (
    checkpoint_folder,
    has_epoch,
    latest_checkpoint,
    save_checkpoint,
)
from tests.train.runs import listing, tiny, write_images


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Settings of a run of one batch an epoch, and its folder after the first."""
    source = write_images(tmp_path_factory.mktemp("data") / "images.npz", n=61)
    config = tiny(source, "heads.clusters=[10]", "batch_size=61", "assignment.rounding=outward")
    run, folder = Run(config, "cpu"), tmp_path_factory.mktemp("run")
    run.init()
    run_and_save_epoch(run, folder)
    return config, folder


class Epochs(SimpleNamespace):
    """A run whose epochs take no time, of some rank among several."""

    def __init__(self, first=True, stop=None, elsewhere=False):
        waited = []
        ranks = SimpleNamespace(
            first=first, any=lambda flag: flag or elsewhere, wait=lambda: waited.append(self.epoch)
        )
        super().__init__(
            epoch=1,
            ranks=ranks,
            waited=waited,
            stop=stop,
            config=SimpleNamespace(epochs=5),
            loader=SimpleNamespace(shown=None),
            fitted=False,
            metrics_text="{}\n",
            state_dict=lambda: {"epoch": self.epoch},
            identity=lambda: {"config": "c"},
        )

    def run_epoch(self):
        self.epoch += 1
        return {"epoch": self.epoch}


def test_the_first_rank_alone_saves(tmp_path):
    assert run_and_save_epoch(Epochs(first=False), tmp_path) == {"epoch": 2}
    assert not list(tmp_path.iterdir())
    assert run_and_save_epoch(Epochs(), tmp_path) == {"epoch": 2}
    assert (tmp_path / "metrics.jsonl").read_text() == "{}\n"
    found = latest_checkpoint(tmp_path)
    assert found.folder == checkpoint_folder(tmp_path, 2)
    assert found.metadata["metrics"] == "{}\n"
    assert found.metadata["config"] == "c"


@pytest.mark.parametrize(("own", "elsewhere"), [(True, False), (False, True), (False, False)])
def test_all_ranks_stop_after_the_epoch_in_which_one_was_asked(tmp_path, own, elsewhere):
    run = Epochs(stop=lambda: own, elsewhere=elsewhere)
    if not (own or elsewhere):
        assert run_and_save_epoch(run, tmp_path) == {"epoch": 2}
        assert run.waited == []
        return
    with pytest.raises(StoppedError, match=r"^stopped after epoch 2 of 5$"):
        run_and_save_epoch(run, tmp_path)
    assert run.waited == [2]  # until the first rank has saved
    assert has_epoch(tmp_path)


def test_a_run_that_is_stopped_in_its_first_epoch_makes_its_folder(tmp_path):
    """One of several beginnings has a folder of its own, below that of the run."""

    class Stopped(Epochs):
        def run_epoch(self):
            raise StoppedError

    home, folder = tmp_path / "run", tmp_path / "run" / "starts" / "0"
    home.mkdir()
    with pytest.raises(StoppedError):
        run_and_save_epoch(Stopped(), folder, inside=home)
    assert latest_checkpoint(folder).metadata["config"] == "c"


def test_nobody_asks_a_run_that_cannot_be_stopped(tmp_path):
    assert run_and_save_epoch(Epochs(elsewhere=True), tmp_path) == {"epoch": 2}


def test_a_folder_that_has_gone_is_not_made_again(tmp_path):
    home = tmp_path / "run"
    for inside, folder in ((None, home), (home, home / "starts" / "0")):
        with pytest.raises(OutputError, match=f"the run folder {home} has gone while"):
            run_and_save_epoch(Epochs(), folder, inside=inside)
    assert not list(tmp_path.iterdir())
    home.mkdir()
    run_and_save_epoch(Epochs(), home / "starts" / "0", inside=home)
    assert has_epoch(home / "starts" / "0")


def test_a_folder_that_goes_while_the_state_is_read_is_not_made_again(tmp_path):
    home = tmp_path / "run"
    run = Epochs()
    run.state_dict = lambda: home.rmdir() or {"epoch": 2}
    for folder in (home, home / "starts" / "0"):
        home.mkdir()
        with pytest.raises(OutputError):
            run_and_save_epoch(run, folder, inside=home)
        assert not list(tmp_path.iterdir())


def test_a_folder_without_one_of_its_files_has_gone(tmp_path):
    check_there(tmp_path)
    with pytest.raises(OutputError, match="has gone while"):
        check_there(tmp_path, "config.toml")
    (tmp_path / "config.toml").write_text("")
    check_there(tmp_path, "config.toml")


def test_the_metrics_come_back_with_the_state(saved):
    config, folder = saved
    run, before = Run(config, "cpu"), listing(folder)
    restore(run, latest_checkpoint(folder), folder / "config.toml")
    assert run.epoch == len(run.metrics) == 1
    assert run.metrics_text == (folder / "metrics.jsonl").read_text()
    assert listing(folder) == before


@pytest.mark.parametrize("part", ["optimizer", "epoch", "method"])
def test_a_state_without_a_part_is_of_another_version(saved, tmp_path, part):
    config, folder = saved
    found = latest_checkpoint(folder)
    pairs = found.metadata["state"]["dict"]
    tree = {"dict": [pair for pair in pairs if pair[0] != part]}
    assert len(tree["dict"]) == len(pairs) - 1
    changed = save_checkpoint(
        checkpoint_folder(tmp_path, 1), found.tensors, {**found.metadata, "state": tree}
    )
    words = rf"the checkpoint {changed} does not fit this version: .*resume with the version"
    with pytest.raises(CheckpointError, match=words):
        restore(Run(config, "cpu"), latest_checkpoint(tmp_path), folder / "config.toml")


@pytest.mark.parametrize("change", ["none there", "one more"])
def test_a_tensor_that_one_side_alone_has_is_of_another_network(saved, tmp_path, change):
    config, folder = saved
    found = latest_checkpoint(folder)
    name = min(n for n in found.tensors if n.startswith("state.method."))
    tensors = {n: t for n, t in found.tensors.items() if change == "one more" or n != name}
    words = rf"{name.removeprefix('state.method.')} has no such tensor there, \(.*\) here"
    if change == "one more":
        tensors["state.method.zzz"] = found.tensors[name]
        words = r"zzz has \(.*\) there, no such tensor here"
    save_checkpoint(checkpoint_folder(tmp_path, 1), tensors, found.metadata)
    with pytest.raises(CheckpointError, match=words):
        restore(Run(config, "cpu"), latest_checkpoint(tmp_path), folder / "config.toml")


def test_the_files_that_cannot_be_read_are_listed_beside_the_metrics(tmp_path):
    run = Epochs()
    run.loader.shown = SimpleNamespace(skipped=[("a.png", "cut short")])
    run_and_save_epoch(run, tmp_path)
    assert (tmp_path / "skipped.csv").read_text() == "file,reason\na.png,cut short\n"
