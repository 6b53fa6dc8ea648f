"""What happens to a run's folder besides its files: its name, its leftovers, its page meanwhile."""

import shutil
import sys
from pathlib import Path

import pytest
import torch

from dualclust.algos.core.errors import MissingExtraError, UsageError
from dualclust.train.config.run import load_config
from dualclust.train.loop import resume, train, write_page
from dualclust.train.state.checkpoint import latest_checkpoint, load_checkpoint, save_checkpoint
from tests.train.runs import tiny, write_images

OPTIONS = ("epochs=2", "batch_size=61", "heads.clusters=[10]", "optim.warmup_epochs=0")
LEFT = ".curves.png.tmp-0123456789ab"


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_images(tmp_path / "images.npz", n=61)
    return tmp_path


def test_a_folder_may_be_named_by_a_word(home, monkeypatch):
    """And of what was left there by a part that was killed nothing stays."""
    config = tiny("images.npz", *OPTIONS, "assignment.rounding=outward")
    folder, seen = home / "run", []

    def progress(record):
        page = folder / "report.html"
        seen.append((record["epoch"], page.is_file(), (folder / "checkpoints" / LEFT).exists()))
        page.unlink()
        (folder / "checkpoints" / LEFT).touch()

    result = train(config, "run", progress=progress)
    assert result.folder == Path("run")
    assert seen == [(1, True, False), (2, True, False)]  # a page and a checkpoint after each
    assert str(home / "images.npz") in (folder / "config.toml").read_text()
    assert load_config("run/config.toml").data.source == str(home / "images.npz")
    (folder / LEFT).touch()
    shutil.copytree(folder / "checkpoints/epoch-000001", folder / "checkpoints/epoch-000000")
    before = torch.get_num_threads()
    again = resume("run")
    assert torch.get_num_threads() == before
    assert again.folder == Path("run")
    assert torch.equal(again.prediction.features, result.prediction.features)
    assert sorted(path.name for path in (folder / "checkpoints").iterdir()) == [
        "epoch-000001",
        "epoch-000002",
    ]
    assert not (folder / LEFT).exists()
    (folder / "report.html").unlink()
    assert write_page("run") == Path("run") / "report.html"
    assert (folder / "report.html").is_file()
    # What a run needs is asked for before it goes on, though nothing is left to do.
    settings = folder / "config.toml"
    settings.write_text(f'log = ["wandb"]\n{settings.read_text()}')
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(MissingExtraError, match="log='wandb' needs the package wandb"):
        resume("run")


def test_a_checkpoint_may_be_named_by_a_word(home):
    folder = save_checkpoint("run/checkpoints/epoch-000003", {"w": torch.ones(2)}, {"a": 1})
    assert folder == Path("run/checkpoints/epoch-000003")
    assert load_checkpoint("run/checkpoints/epoch-000003").metadata == {"a": 1}
    assert latest_checkpoint("run").folder == folder


def test_no_page_is_written_before_a_beginning_is_chosen(home):
    (home / "run" / "starts").mkdir(parents=True)
    with pytest.raises(UsageError, match="run has not chosen its beginning yet"):
        write_page("run")
