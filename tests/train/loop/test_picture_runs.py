"""Runs on pictures in their files: broken files, resume to the bit, held-out pictures, figures."""

import threading

import pytest

from dualclust.algos.core.errors import CheckpointError, InvalidValueError
from dualclust.train.loop import Run, resume, train
from tests.train.data.test_pictures import CROPS
from tests.train.pictures import encoded, picture, write_folder
from tests.train.runs import Interrupted, assert_same_run, interrupt_after, tiny, tiny_recipe

RUN = (*CROPS, "heads.clusters=[10]", "epochs=3", "batch_size=20", "data.fit=imagenet")


@pytest.fixture(autouse=True)
def no_thread_stays():
    before = threading.active_count()
    yield
    assert threading.active_count() == before


def test_a_broken_file_ends_a_run(tmp_path):
    folder = write_folder(tmp_path / "pictures", 40, 10)
    config = tiny(folder, *CROPS, "heads.clusters=[10]", "data.workers=2")
    run = Run(config, "cpu")
    broken = run.loader.data.files[33]
    with open(broken.content, "r+b") as file:
        file.truncate(300)
    with pytest.raises(InvalidValueError, match=rf"cannot decode {broken.name}: "):
        run.run_epoch()


def test_a_run_resumes_to_the_bit_with_other_workers(tmp_path):
    folder = write_folder(tmp_path / "pictures", 60, 10)
    whole = train(tiny(folder, *RUN), tmp_path / "whole")
    with pytest.raises(Interrupted):
        train(tiny(folder, *RUN), tmp_path / "cut", progress=interrupt_after(1))
    config = tmp_path / "cut" / "config.toml"
    text = config.read_text()
    assert "workers = 0" in text
    config.write_text(text.replace("workers = 0", "workers = 3"))
    resume(tmp_path / "cut")
    config.write_text(text)
    assert_same_run(tmp_path / "cut", tmp_path / "whole")
    assert "acc" in whole.metrics[-1]
    assert (tmp_path / "whole" / "gallery.png").exists()
    lines = (tmp_path / "whole" / "assignments.csv").read_text().splitlines()
    assert lines[1].endswith(",class0/000.jpeg")


@pytest.mark.parametrize("change", ["size = 8|size = 9", 'fit = "imagenet"|fit = "crop"', "a file"])
def test_a_run_of_other_pictures_is_not_resumed(tmp_path, change):
    folder = write_folder(tmp_path / "pictures", 40, 10)
    with pytest.raises(Interrupted):
        train(tiny(folder, *RUN), tmp_path / "run", progress=interrupt_after(1))
    config = tmp_path / "run" / "config.toml"
    if change == "a file":
        (folder / "class3" / "003.jpeg").write_bytes(encoded(picture(30, 40, seed=99)))
    else:
        old, new = change.split("|")
        assert config.read_text().count(f"\n{old}\n") >= 1
        config.write_text(config.read_text().replace(f"\n{old}\n", f"\n{new}\n", 1))
    with pytest.raises(CheckpointError, match="does not fit: other images"):
        resume(tmp_path / "run")


def test_attention_is_drawn_on_pictures_from_files(tmp_path):
    folder = write_folder(tmp_path / "pictures", 40, 10)
    changes = ("epochs=1", "data.size=8", "data.decode=views", "data.fit=squash")
    train(tiny_recipe("gatcluster_digits", folder, *changes), tmp_path / "run")
    assert {"gallery.png", "attention.png"} <= {path.name for path in (tmp_path / "run").iterdir()}


def test_held_out_pictures_are_scored(tmp_path):
    write_folder(tmp_path / "p" / "train", 40, 10)
    write_folder(tmp_path / "p" / "val", 20, 10, height=50)
    result = train(tiny(tmp_path / "p", *RUN, "data.test=test", "epochs=1"), tmp_path / "run")
    assert "test_acc" in result.metrics[-1]
