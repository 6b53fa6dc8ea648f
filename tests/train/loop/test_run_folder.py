"""A start that ends before its first epoch: the same start takes over, and no other file goes."""

import shutil

import pytest

from dualclust.algos.core.errors import OutputError
from dualclust.common import files
from dualclust.common.locks import only_writer
from dualclust.train.loop import Run, RunWarning, resume, run_folder, train
from dualclust.train.loop.run_folder import check_free
from tests.train.runs import Interrupted, assert_same_run, listing, tiny

SHORT = ("epochs=2", "heads.clusters=[10]", "evaluation.views=0", "assignment.rounding=outward")
STARTS = ("starts.count=2", "starts.epochs=1")
HEX = "0123456789ab"


@pytest.fixture(scope="module")
def straight(source, tmp_path_factory):
    folder = tmp_path_factory.mktemp("straight") / "run"
    train(tiny(source, *SHORT), folder)
    return folder


def stopped(monkeypatch, source, folder, *changes):
    """Start a run and stop it in its first epoch."""

    def stop(run):
        raise Interrupted

    with monkeypatch.context() as patch:
        patch.setattr(Run, "run_epoch", stop)
        with pytest.raises(Interrupted):
            train(tiny(source, *SHORT, *changes), folder)
    assert [path.name for path in folder.iterdir()] == ["config.toml"]


def test_the_same_start_takes_over(source, straight, tmp_path, monkeypatch):
    folder = tmp_path / "run"
    stopped(monkeypatch, source, folder)
    with pytest.warns(RunWarning, match=r"run is of a start with the same settings.* taken over"):
        train(tiny(source, *SHORT), folder)
    assert_same_run(folder, straight)


def test_a_kill_in_the_middle_of_a_file_is_taken_over(source, straight, tmp_path):
    """What the kill leaves is laid down by hand: a torn file, a torn checkpoint, torn locks."""
    folder = tmp_path / "run"
    torn = folder / "checkpoints" / f".epoch-000001.tmp-{HEX}"
    torn.mkdir(parents=True)
    (torn / "state.safetensors").write_bytes(b"\0" * 99)
    settings = (straight / "config.toml").read_bytes()
    (folder / "config.toml").write_bytes(settings)
    (folder / f".config.toml.tmp-{HEX}").write_bytes(settings[:50])
    (folder / f"..lock-holder.tmp-{HEX}").write_bytes(b"")
    (folder / ".lock").touch()
    with pytest.warns(RunWarning, match="taken over"):
        train(tiny(source, *SHORT), folder)
    assert not list(folder.rglob("*.tmp-*"))
    assert_same_run(folder, straight)


@pytest.mark.parametrize(
    "name",
    [
        "notes.txt",
        ".hidden",
        "checkpoints/mine.txt",
        f"checkpoints/.epoch-000001.tmp-{HEX}/mine.txt",
        f"checkpoints/.epoch-000002.tmp-{HEX}/state.json",
        "checkpoints/epoch-000001/state.json",
        "starts/0/checkpoints/x",
        f".config.toml.tmp-{HEX}",
        ".config.toml.tmp-mine",
        "metrics.jsonl",
    ],
)
def test_a_file_that_no_start_wrote_is_never_touched(straight, source, tmp_path, name):
    folder = tmp_path / "run"
    (folder / name).parent.mkdir(parents=True)
    (folder / name).write_text("mine")
    shutil.copy(straight / "config.toml", folder)
    before = listing(folder)
    with pytest.raises(OutputError, match=r"exists and is not empty.* To fix this, choose another"):
        train(tiny(source, *SHORT), folder)
    assert listing(folder) == before


def test_links_are_not_followed(straight, source, tmp_path):
    folder, away = tmp_path / "run", tmp_path / "away"
    for name in ("config.toml", "checkpoints"):
        folder.mkdir()
        away.mkdir()
        shutil.copy(straight / "config.toml", away)
        (folder / name).symlink_to(away / name if name == "config.toml" else away)
        with pytest.raises(OutputError, match="exists and is not empty"):
            train(tiny(source, *SHORT), folder)
        shutil.rmtree(folder)
        shutil.rmtree(away)


def test_other_settings_are_kept(source, tmp_path, monkeypatch):
    """They may be somebody's: a seed is all the difference."""
    folder = tmp_path / "run"
    stopped(monkeypatch, source, folder)
    before = listing(folder)
    with pytest.raises(OutputError, match=r"its config\.toml has other settings than these"):
        train(tiny(source, *SHORT, "seed=1"), folder)
    assert listing(folder) == before


def test_a_run_that_lives_in_its_first_epoch_is_not_taken_over(source, tmp_path, monkeypatch):
    folder = tmp_path / "run"
    stopped(monkeypatch, source, folder)
    with only_writer(folder), pytest.raises(OutputError, match="is in use by process"):
        train(tiny(source, *SHORT), folder)
    assert {path.name for path in folder.iterdir()} == {"config.toml"}


def test_empty_and_missing_folders_are_free(tmp_path):
    assert not check_free(tmp_path / "gone", "")
    assert not check_free(tmp_path, "")
    (tmp_path / ".lock").touch()
    assert not check_free(tmp_path, "")
    with pytest.raises(OutputError):
        check_free(tmp_path / ".lock", "")


def test_what_can_be_resumed_says_so_and_what_cannot_does_not(source, straight, tmp_path):
    with pytest.raises(OutputError, match="continue that run with: dualclust resume"):
        train(tiny(source, *SHORT), straight)
    (tmp_path / "run" / "checkpoints").mkdir(parents=True)
    (tmp_path / "run" / "mine").touch()
    with pytest.raises(OutputError) as found:
        train(tiny(source, *SHORT), tmp_path / "run")
    assert "dualclust resume" not in str(found.value)


def test_a_beginning_that_was_killed_in_its_first_save_goes_on(source, tmp_path, monkeypatch):
    whole, folder = tmp_path / "whole", tmp_path / "run"
    train(tiny(source, *SHORT, *STARTS), whole)

    def killed(*arguments, **options):
        raise Interrupted

    with monkeypatch.context() as patch:
        patch.setattr(files, "_write_flushed", _after(1, killed, files._write_flushed))
        with pytest.raises(Interrupted):
            train(tiny(source, *SHORT, *STARTS), folder)
    (folder / "starts" / "0" / "checkpoints").mkdir(parents=True, exist_ok=True)
    resume(folder)
    assert_same_run(folder, whole)


def _after(count, then, before):
    """A function that does something else once it has written a file other than of the lock."""
    done = []

    def call(path, parts):
        if ".lock" in path.name:
            return before(path, parts)
        done.append(1)
        return (before if len(done) <= count else then)(path, parts)

    return call


def test_other_settings_are_named_where_they_are_all_that_is_there(tmp_path, monkeypatch):
    folder = tmp_path / "run"
    folder.mkdir()
    settings, other = folder / "config.toml", folder / "mine"
    settings.write_text("a = 1\n")
    monkeypatch.setattr(run_folder, "_foreign", lambda *_: iter([settings]))
    with pytest.raises(OutputError, match=r"its config\.toml has other settings than these"):
        check_free(folder, "a = 2\n")
    monkeypatch.setattr(run_folder, "_foreign", lambda *_: iter([settings, other]))
    with pytest.raises(OutputError, match=r"run exists and is not empty\. To fix this, choose"):
        check_free(folder, "a = 2\n")


@pytest.mark.parametrize(
    ("name", "content", "free"),
    [
        ("config.toml", "a = 1\n", True),
        ("config.toml", "a = 1", False),
        ("config.toml", "a = 2\n", False),
        ("config.toml", "a = 1\nb = 2\n", False),
        (f".config.toml.tmp-{HEX}", "a = 1\n", True),
        (f".config.toml.tmp-{HEX}", "a =", True),
        (f".config.toml.tmp-{HEX}", "", True),
        (f".config.toml.tmp-{HEX}", "b", False),
        (f".config.toml.tmp-{HEX}", "a = 1\nb", False),
        (f".config.toml.tmp-{HEX}0", "a =", False),
        ("config.toml", None, False),
    ],
)
def test_settings_are_known_by_what_they_hold(tmp_path, name, content, free):
    path = tmp_path / name
    if content is None:
        path.mkdir()
    else:
        path.write_text(content)
    if free:
        assert check_free(tmp_path, "a = 1\n")
    else:
        with pytest.raises(OutputError):
            check_free(tmp_path, "a = 1\n")
