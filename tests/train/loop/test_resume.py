"""A run that was interrupted, anywhere, ends like one that was not, to the last bit."""

import json
import os
import shutil
import signal
from pathlib import Path

import pytest

from dualclust.common import files
from dualclust.train.config.run import dump_config
from dualclust.train.loop import resume, train
from dualclust.train.methods.secu import SeCu
from dualclust.train.state.checkpoint import checkpoint_folder, latest_checkpoint
from tests.forked import run_program
from tests.train.runs import (
    EPOCHS,
    FILES,
    Interrupted,
    assert_same_run,
    contents,
    interrupt_after,
    without_time,
    write_images,
)
from tests.train.runs import tiny as whole_tiny

VARIANTS = {
    "recipe": [],
    "adamw, random start": ["optim.name=adamw", "optim.lr=1e-3", "heads.init=random"],
    "adam, every epoch, plain views": [
        "optim.name=adam",
        "optim.lr=1e-3",
        "evaluation.every=1",
        "evaluation.views=0",
    ],
    "published steps": ["assignment.steps=secu-cifar", "assignment.upper=inf", "seed=9"],
}


STEPS = 4  # of an epoch: 97 images in batches of 32


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return write_images(tmp_path_factory.mktemp("data") / "images.npz", n=97)


def tiny(source, *changes):
    """Of so few images 20 clusters take four or five each, whatever they are to take."""
    return whole_tiny(source, "assignment.rounding=outward", *changes)


@pytest.fixture(scope="module")
def straight(source, tmp_path_factory):
    """Runs that nobody interrupted, by variant."""
    made = {}

    def get(variant="recipe"):
        if variant not in made:
            folder = tmp_path_factory.mktemp("straight") / "run"
            train(tiny(source, *VARIANTS[variant]), folder)
            made[variant] = folder
        return made[variant]

    return get


@pytest.fixture
def copy(straight, tmp_path):
    """A finished run of one's own."""
    return shutil.copytree(straight(), tmp_path / "copy")


def test_the_same_settings_give_the_same_run(source, straight, tmp_path):
    train(tiny(source), tmp_path / "again")
    assert_same_run(tmp_path / "again", straight())


def test_the_comparison_can_fail(source, straight, tmp_path):
    train(tiny(source, "seed=1"), tmp_path / "other")
    with pytest.raises(AssertionError, match=r"state\.method\.centers"):
        assert_same_run(tmp_path / "other", straight())


@pytest.mark.parametrize(
    ("variant", "epoch"),
    [
        *(("recipe", epoch) for epoch in (1, EPOCHS)),
        *((v, 2) for v in VARIANTS if v != "recipe"),
        # The test below stops after each in turn.
        *(pytest.param("recipe", e, marks=pytest.mark.slow) for e in range(2, EPOCHS)),
    ],
)
def test_interrupted_after_an_epoch(source, straight, tmp_path, variant, epoch):
    folder = tmp_path / "run"
    with pytest.raises(Interrupted):
        train(tiny(source, *VARIANTS[variant]), folder, progress=interrupt_after(epoch))
    assert latest_checkpoint(folder).folder == checkpoint_folder(folder, epoch)
    seen = []
    result = resume(folder, progress=seen.append)
    assert [record["epoch"] for record in seen] == list(range(epoch + 1, EPOCHS + 1))
    assert [record["epoch"] for record in result.metrics] == list(range(1, EPOCHS + 1))
    assert_same_run(folder, straight(variant))


def test_interrupted_after_each_epoch_in_turn(source, straight, tmp_path):
    folder = tmp_path / "run"
    with pytest.raises(Interrupted):
        train(tiny(source), folder, progress=interrupt_after(1))
    for epoch in range(2, EPOCHS + 1):
        with pytest.raises(Interrupted):
            resume(folder, progress=interrupt_after(epoch))
    resume(folder)
    assert_same_run(folder, straight())


@pytest.mark.parametrize("step", [STEPS, STEPS + 1, 5 * STEPS // 2, EPOCHS * STEPS - 1])
def test_interrupted_within_an_epoch(source, straight, tmp_path, monkeypatch, step):
    """Labels and prices have moved on when the process stops."""
    folder, whole, count = tmp_path / "run", SeCu.step, 0

    def failing(self, ids, views):
        nonlocal count
        loss = whole(self, ids, views)
        count += 1
        if count > step:
            raise Interrupted
        return loss

    with monkeypatch.context() as patch:
        patch.setattr(SeCu, "step", failing)
        with pytest.raises(Interrupted):
            train(tiny(source), folder)
    resume(folder)
    assert_same_run(folder, straight())


def interrupt_before(monkeypatch, name, time=1):
    """Stop the process at the `time`-th renaming of a finished file to `name`."""
    whole, count = os.replace, 0

    def failing(source, target):
        nonlocal count
        count += Path(target).name == name
        if Path(target).name == name and count == time:
            raise Interrupted
        return whole(source, target)

    monkeypatch.setattr(os, "replace", failing)


@pytest.mark.parametrize(
    ("name", "time"),
    [
        ("metrics.jsonl", 2),  # between a checkpoint and the line of its epoch
        ("metrics.jsonl", EPOCHS),
        ("assignments.csv", 1),
        ("centers.npy", 1),
        ("weights.safetensors", 1),
    ],
)
def test_interrupted_while_writing_results(source, straight, tmp_path, monkeypatch, name, time):
    folder = tmp_path / "run"
    with monkeypatch.context() as patch:
        interrupt_before(patch, name, time)
        with pytest.raises(Interrupted):
            train(tiny(source), folder)
    resume(folder)
    assert_same_run(folder, straight())


def test_what_a_killed_writer_left_is_removed(straight, tmp_path):
    """A process killed between writing a file and renaming it cannot clean up after itself."""
    folder = tmp_path / "run"
    shutil.copytree(straight(), folder)
    files._temporary(folder / "metrics.jsonl").write_text("half")
    (folder / "checkpoints" / ".epoch-000001.tmp-doomed").mkdir()
    (folder / "checkpoints" / ".epoch-000001.tmp-doomed" / "state.json").write_text("{}")
    resume(folder)
    assert_same_run(folder, straight())
    kept = folder / ".notes.tmp-mine"  # not a name that the library gives
    kept.write_text("mine")
    resume(folder)
    assert kept.read_text() == "mine"


KILLED_EPOCHS = 20
FORK = """
import os, random, signal, sys, time
from dualclust.train.config.run import load_config
from dualclust.train.loop import resume, train

folder, config, longest = sys.argv[1], sys.argv[2], float(sys.argv[3])
delays, codes = random.Random(0), []
for action in ("train", "resume", "resume"):
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.close(read)
        try:
            progress = lambda record: os.write(write, b".")
            if action == "train":
                train(load_config(config), folder, progress=progress)
            else:
                resume(folder, progress=progress)
            os._exit(0)
        finally:
            os._exit(1)
    os.close(write)
    os.read(read, 1)  # one more epoch is saved: from here on it can be resumed
    time.sleep(delays.uniform(0, longest))
    os.kill(child, signal.SIGKILL)
    codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    os.close(read)
print(*codes)
"""


def test_killed_at_random_times(source, tmp_path):
    """SIGKILL three times in one run: in a step, in a save, between two files."""
    config, folder, whole = tmp_path / "config.toml", tmp_path / "run", tmp_path / "straight"
    settings = tiny(source, f"epochs={KILLED_EPOCHS}", "evaluation.every=10")
    config.write_text(dump_config(settings))
    train(settings, whole)
    seconds = json.loads((whole / "metrics.jsonl").read_text().splitlines()[-2])["seconds"]
    done = run_program(FORK, str(folder), str(config), str(4 * seconds))
    assert done.returncode == 0, done.stderr
    codes = [int(code) for code in done.stdout.split()]
    assert set(codes) <= {0, -signal.SIGKILL}, done.stderr
    assert -signal.SIGKILL in codes
    resume(folder)
    assert_same_run(folder, whole)


# Finished runs ---------------------------------------------------------------------------------


def test_a_finished_run_resumes_to_the_same_results(straight, copy):
    folder = copy
    before = contents(folder)
    seen = []
    result = resume(folder, progress=seen.append)
    assert seen == []
    assert contents(folder) == before
    assert len(result.metrics) == EPOCHS
    assert result.prediction.assignment.violation == 0


@pytest.mark.parametrize("name", sorted(FILES - {"config.toml", "checkpoints"}))
def test_a_finished_run_writes_its_results_again(straight, copy, name):
    folder = copy
    (folder / name).unlink()
    resume(folder)
    assert_same_run(folder, straight())


def test_metrics_are_those_of_the_result(source, straight, copy):
    lines = (straight() / "metrics.jsonl").read_text().splitlines()
    result = resume(copy)
    assert without_time(map(json.loads, lines)) == without_time(result.metrics)
