"""A demo replaces what a demo wrote, and nothing else."""

from __future__ import annotations

import json

import pytest

from dualclust.algos.core.errors import OutputError
from dualclust.cli.demo_folders import run_folder
from dualclust.cli.main import main

SETTINGS = 'method = "secu"\n'
FILES = (
    "config.toml",
    "metrics.jsonl",
    "assignments.csv",
    "gallery.png",
    ".sizes.png.tmp-0123456789ab",
    "checkpoints/epoch-000012/tensors.safetensors",
    "checkpoints/.epoch-000013.tmp-0123456789ab/state.json",
    "checkpoints/.epoch-000010.old.tmp-doomed/state.json",
    "checkpoints/.epoch-000011.old/manifest.json",
)


def written(out, settings=SETTINGS):
    folder = run_folder(out, "seed0", settings)
    assert not folder.exists() or not any(folder.iterdir())
    for name in FILES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(settings)
    return folder


def listing(folder):
    return {p.relative_to(folder).as_posix() for p in folder.rglob("*") if not p.is_dir()}


def test_ten_demos_in_turn_leave_one_run(tmp_path):
    for i in range(10):
        folder = written(tmp_path / "demo", f"number = {i}\n")
    assert listing(folder) == set(FILES)
    assert listing(tmp_path / "demo") == {"demo.json", *(f"seed0/{name}" for name in FILES)}


@pytest.mark.parametrize(
    "left", [(), FILES[1:], FILES[:1], (".config.toml.tmp-0123456789ab",)], ids=str
)
def test_what_an_interrupted_demo_left_makes_room(tmp_path, left):
    folder = run_folder(tmp_path, "seed0", SETTINGS)
    for name in left:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(SETTINGS)
    written(tmp_path)


def spoil_config(folder):
    (folder / "config.toml").write_text("mine")


def spoil_marker(folder):
    (folder.parent / "demo.json").unlink()


def foreign_marker(folder):
    (folder.parent / "demo.json").write_text(json.dumps({"runs": {}}))


def note(folder):
    (folder / "notes.txt").write_text("mine")


def deep_note(folder):
    (folder / "checkpoints" / "epoch-000012" / "notes.txt").write_text("mine")


def picture(folder):
    (folder / "photos").mkdir()
    (folder / "photos" / "gallery.png").write_text("mine")


def linked_file(folder):
    (folder / "sizes.png").symlink_to(folder / "gallery.png")


def linked_folder(folder):
    (folder.parent / "elsewhere").mkdir()
    (folder / "checkpoints" / "epoch-000014").symlink_to(folder.parent / "elsewhere")


SPOILED = (
    spoil_config,
    spoil_marker,
    foreign_marker,
    note,
    deep_note,
    picture,
    linked_file,
    linked_folder,
)


@pytest.mark.parametrize("spoil", SPOILED)
def test_what_no_demo_wrote_stays(tmp_path, spoil):
    folder = written(tmp_path)
    spoil(folder)
    before = listing(tmp_path)
    said = r"^\S+ was not written by a demo: .* another folder with --out"
    with pytest.raises(OutputError, match=said):
        run_folder(tmp_path, "seed0", SETTINGS)
    assert listing(tmp_path) == before


def test_a_linked_run_and_a_file_stay(tmp_path):
    elsewhere = written(tmp_path / "elsewhere")
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo" / "seed0").symlink_to(elsewhere)
    (tmp_path / "demo" / "seed1").write_text("mine")
    for name in ("seed0", "seed1"):
        with pytest.raises(OutputError, match="it is no folder"):
            run_folder(tmp_path / "demo", name, SETTINGS)
    assert listing(elsewhere) == set(FILES)


def test_every_file_of_a_real_run_is_known(tmp_path):
    pytest.importorskip("torch")
    from dualclust.train.config.run import dump_config
    from dualclust.train.loop import train
    from tests.train.runs import FILES as KNOWN
    from tests.train.runs import tiny, write_images

    config = tiny(write_images(tmp_path / "images.npz"), "epochs=2")
    folder = run_folder(tmp_path, "seed0", dump_config(config))
    train(config, folder)
    assert {path.name for path in folder.iterdir()} == KNOWN
    assert run_folder(tmp_path, "seed0", dump_config(config)) == folder
    assert not listing(folder)


def test_a_run_of_one_s_own_is_not_the_demo_s(tmp_path, capsys):
    """The command says so in one line, before it trains."""
    pytest.importorskip("torch")
    (tmp_path / "seed0").mkdir()
    (tmp_path / "seed0" / "config.toml").write_text(SETTINGS)
    assert main(["demo", "--small", "--out", str(tmp_path)]) == 73
    assert "demo.json does not name it" in capsys.readouterr().err
    assert listing(tmp_path) == {"seed0/config.toml"}
