"""What is refused: never a fresh start, never another run's state, never an overwritten folder."""

import shutil

import pytest
import torch

from dualclust.algos.core.errors import (
    CheckpointError,
    DualclustError,
    MissingFileError,
    OutputError,
    UsageError,
)
from dualclust.train.config.run import dump_config, override
from dualclust.train.loop import resume, train
from dualclust.train.state.checkpoint import (
    CheckpointWarning,
    checkpoint_folder,
    pack,
    save_checkpoint,
)
from tests.train.runs import (
    EPOCHS,
    Interrupted,
    assert_same_run,
    interrupt_after,
    listing,
    tiny,
    write_images,
)


@pytest.fixture(scope="module")
def straight(source, tmp_path_factory):
    """A run that nobody interrupted."""
    folder = tmp_path_factory.mktemp("straight") / "run"
    train(tiny(source), folder)
    return folder


@pytest.fixture
def copy(straight, tmp_path):
    """A copy of that run, put back to the state after `epoch` epochs."""

    def get(epoch=EPOCHS):
        folder = shutil.copytree(straight, tmp_path / "copy")
        for later in range(epoch + 1, EPOCHS + 1):
            shutil.rmtree(checkpoint_folder(folder, later))
        return folder

    return get


# What cannot be resumed ------------------------------------------------------------------------


def test_a_wrong_path_is_never_a_fresh_start(source, tmp_path):
    cases = {"nothing": None, "empty": [], "settings only": ["config.toml"]}
    for name, files in cases.items():
        folder = tmp_path / name
        if files is not None:
            folder.mkdir()
        for file in files or []:
            (folder / file).write_text(dump_config(tiny(source)))
    (tmp_path / "no epoch" / "checkpoints").mkdir(parents=True)
    (tmp_path / "a file").write_text("")
    before = listing(tmp_path)
    for name in (*cases, "no epoch", "a file", "nothing/deeper"):
        with pytest.raises(MissingFileError, match="cannot resume"):
            resume(tmp_path / name)
    assert listing(tmp_path) == before


def test_a_run_without_its_settings_is_not_resumed(copy):
    folder = copy(EPOCHS - 1)
    (folder / "config.toml").unlink()
    before = listing(folder)
    with pytest.raises(MissingFileError, match=r"no configuration file at .*config\.toml"):
        resume(folder)
    assert listing(folder) == before


def test_a_run_without_its_data_is_not_resumed(copy):
    folder = copy(EPOCHS - 1)
    settings = dump_config(tiny(folder / "gone.npz"))
    (folder / "config.toml").write_text(settings)
    before = listing(folder)
    with pytest.raises(MissingFileError, match=r"gone\.npz"):
        resume(folder)
    assert listing(folder) == before


def test_settings_that_are_no_settings(copy):
    folder = copy(EPOCHS - 1)
    for text in ("epochs = ", "epoch = 3", "epochs = 0"):
        (folder / "config.toml").write_text(text)
        with pytest.raises(UsageError, match=r"config\.toml"):
            resume(folder)


@pytest.mark.parametrize(
    "changes",
    [
        ["network.hidden=24"],
        ["network.out_dim=9"],
        ["network.name=resnet18-cifar"],
        ["heads.clusters=[10]"],
        ["heads.clusters=[10, 21]"],
        ["heads.clusters=[10, 20, 5]"],
        ["optim.name=adam"],
        ["heads.clusters=[10, 15, 20]", "heads.target=15"],
        ["heads.clusters=[8, 20]", "heads.target=20"],
        ["seed=1"],
        ["batch_size=16"],
        ["optim.center_lr=9.0"],
        ["epochs=6"],
        ["loss.tau=0.3"],
    ],
    ids=str,
)
def test_settings_that_do_not_fit_the_checkpoint(source, copy, changes):
    folder = copy(EPOCHS - 1)
    (folder / "config.toml").write_text(dump_config(override(tiny(source), changes)))
    before = listing(folder)
    with pytest.raises(CheckpointError, match="does not fit"):
        resume(folder)
    assert listing(folder) == before


def test_one_head_does_not_become_two(source, tmp_path):
    folder = tmp_path / "run"
    one = tiny(source, "heads.clusters=[10]")
    with pytest.raises(Interrupted):
        train(one, folder, progress=interrupt_after(2))
    (folder / "config.toml").write_text(dump_config(override(one, ["heads.clusters=[10, 9]"])))
    with pytest.raises(CheckpointError, match="does not fit"):
        resume(folder)


def test_other_images_do_not_fit_the_checkpoint(tmp_path):
    source = write_images(tmp_path / "images.npz")
    folder = tmp_path / "run"
    with pytest.raises(Interrupted):
        train(tiny(source), folder, progress=interrupt_after(1))
    write_images(source, n=260)
    with pytest.raises(CheckpointError, match="does not fit"):
        resume(folder)
    write_images(source, classes=9)
    with pytest.raises(CheckpointError, match="does not fit: other images"):
        resume(folder)


def damage(folder, epoch):
    path = checkpoint_folder(folder, epoch) / "state.safetensors"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def test_a_damaged_checkpoint_is_passed_over(straight, copy):
    folder = copy()
    damage(folder, EPOCHS)
    with pytest.warns(CheckpointWarning, match=f"epoch-00000{EPOCHS}.*damaged"):
        resume(folder)
    assert_same_run(folder, straight)


def test_only_damaged_checkpoints(copy):
    folder = copy()
    for epoch in (EPOCHS - 1, EPOCHS):
        damage(folder, epoch)
    before = listing(folder)
    with pytest.raises(CheckpointError, match=r"no checkpoint of .* is intact"):
        resume(folder)
    assert listing(folder) == before


def test_a_foreign_checkpoint_is_refused(copy):
    for state in ({"weights": torch.zeros(2)}, {"epoch": 1}):
        folder = copy(EPOCHS)
        tensors, tree = pack(state)
        save_checkpoint(checkpoint_folder(folder, 9), tensors, {"state": tree})
        with pytest.raises(CheckpointError, match="does not fit"):
            resume(folder)
        shutil.rmtree(folder)


# Where a run may begin -------------------------------------------------------------------------


def test_a_folder_with_content_is_never_overwritten(source, copy, tmp_path):
    folder = copy()
    (tmp_path / "note").mkdir()
    (tmp_path / "note" / ".hidden").write_text("mine")
    (tmp_path / "file").write_text("mine")
    before = listing(tmp_path)
    for path in (folder, tmp_path / "note", tmp_path / "file"):
        with pytest.raises(OutputError, match="exists and is not empty"):
            train(tiny(source), path)
    with pytest.raises(OutputError, match="cannot write into"):
        train(tiny(source), tmp_path / "file" / "deeper")
    assert listing(tmp_path) == before


def test_an_empty_folder_is_taken(source, straight, tmp_path):
    train(tiny(source), tmp_path)
    assert_same_run(tmp_path, straight)


@pytest.mark.parametrize(
    "changes",
    [
        ["heads.clusters=[10, 200]"],
        ["assignment.lower=1.0"],
        ["data.source=/nowhere.npz"],
        ["network.name=resnet99"],
        ["method=kmeans"],
    ],
    ids=str,
)
def test_nothing_is_written_for_settings_that_do_not_fit(source, tmp_path, changes):
    with pytest.raises(DualclustError):
        train(tiny(source, *changes), tmp_path / "run")
    assert listing(tmp_path) == {}
