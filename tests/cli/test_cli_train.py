"""`dualclust train` and `resume`, on a run of a second, and the table of the demo."""

import re
import sys

import numpy as np
import pytest
import torch

from dualclust.algos.core.errors import UsageError
from dualclust.cli import train as train_commands
from dualclust.cli.main import main
from dualclust.cli.run_progress import describe
from dualclust.cli.train import _Row, _table, read_recipe
from dualclust.train.config.run import dump_config, load_config
from dualclust.train.loop import RunResult
from dualclust.train.loop.metrics import Agreement
from tests.train.runs import FILES, assert_same_run, listing, tiny, write_images

SETTINGS = [
    "epochs=2",
    "batch_size=32",
    "heads.clusters=[10, 20]",
    "optim.warmup_epochs=1",
    "network.width=2",
    "network.hidden=16",
    "network.out_dim=8",
]
SET = [word for setting in SETTINGS for word in ("--set", setting)]


@pytest.fixture
def images(tmp_path, monkeypatch):
    """A data file, alone in the current folder."""
    monkeypatch.chdir(tmp_path)
    return write_images(tmp_path / "small.npz")


def train(images, *options):
    return main(["train", "secu", "--data", str(images), "--recipe", "secu_digits", *SET, *options])


def error_of(capsys, code, *arguments):
    assert main([str(a) for a in arguments]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert re.fullmatch(r"dualclust: error: [^\n]*\n", err), err
    return err


@pytest.mark.parametrize("epochs", [0, 1])
def test_who_stops_a_run_learns_how_to_go_on(images, capsys, monkeypatch, epochs):
    """In its first epoch, or after it; what the message says works."""

    def stop(self, *state):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(train_commands.RunProgress, "epoch" if epochs else "step", stop)
        assert train(images, "--out", "run") == 130
    err = capsys.readouterr().err
    how = "no epoch was finished, and the same command begins again"
    if epochs:
        how = "to go on after its last epoch: dualclust resume run"
    assert err.endswith(f"dualclust: interrupted; {how}\n")
    assert (main(["resume", "run"]) if epochs else train(images, "--out", "run")) == 0
    err = capsys.readouterr().err
    taken = "dualclust: run is of a start with the same settings, which ended before its first"
    assert (taken in err) == (epochs == 0)
    assert "Warning" not in err


def test_the_data_of_the_recipe(images, capsys, monkeypatch):
    """Nothing overrides it but --data."""
    seen = []

    def record(config, folder, **options):
        seen.append((config.data.source, str(folder)))
        msg = "stop here"
        raise UsageError(msg)

    monkeypatch.setattr(train_commands, "train", record)
    recipe = images.parent / "mine.toml"
    recipe.write_text(dump_config(tiny("small.npz")))
    for words in (["--recipe", "mine.toml"], ["--recipe", "mine.toml", "--data", "digits"], []):
        assert main(["train", "secu", *words]) == 2
    assert main(["train", "secu", "--recipe", "mine.toml", "--set", "data.source=x.npz"]) == 2
    small, digits = ("small.npz", "runs/secu-small-seed0"), ("digits", "runs/secu-digits-seed0")
    assert seen == [small, digits, digits, ("x.npz", "runs/secu-x-seed0")]


def test_the_log_is_a_setting_and_an_option(images, monkeypatch):
    assert train(images, "--out", "run", "--log", "tensorboard") == 0
    assert load_config("run/config.toml").log == ("tensorboard",)
    assert list(images.parent.glob("run/tensorboard/events.*"))


@pytest.mark.parametrize("name", ["wandb", "mlflow"])
def test_a_tracker_that_is_not_installed(images, capsys, monkeypatch, name):
    monkeypatch.setitem(sys.modules, name, None)
    before = listing(images.parent)
    words = ["train", "secu", "--data", images, "--recipe", "secu_digits", *SET, "--log", name]
    error = error_of(capsys, 69, *words)
    assert f"log='{name}' needs the package {name}" in error
    assert f"To fix this: pip install 'dualclust[{name}]'" in error
    assert listing(images.parent) == before


def test_train_then_resume(images, capsys):
    assert train(images, "--seed", "3") == 0
    folder = images.parent / "runs" / "secu-small-seed3"
    assert {path.name for path in folder.iterdir()} == FILES
    out, err = capsys.readouterr()
    assert "violation 0" in out
    first = r"agreement     ACC 0\.\d{3}  NMI 0\.\d{3}  ARI -?0\.\d{3}  .* the papers' protocol"
    assert re.match(first, out)
    assert re.search(r"epoch 1/2  loss \d+\.\d+  sizes \d+-\d+  [\d,]+ samples/s", err)
    assert "runs/secu-small-seed3/" in out
    assert "secu on small: epoch 1/2" in err
    assert "Warning" not in err
    assert load_config(folder / "config.toml").seed == 3

    assert main(["resume", str(folder)]) == 0
    again, _ = capsys.readouterr()
    assert again.splitlines()[:3] == out.splitlines()[:3]

    before = listing(images.parent)
    error = error_of(
        capsys, 73, "train", "secu", "--data", images, "--recipe", "secu_digits", *SET, "--seed", 3
    )
    assert "exists and is not empty" in error
    assert "dualclust resume runs/secu-small-seed3" in error
    assert listing(images.parent) == before


def test_a_recipe_of_ones_own(images, tmp_path):
    recipe = tmp_path / "mine.toml"
    assert train(images, "--out", "first") == 0
    recipe.write_text((tmp_path / "first" / "config.toml").read_text())
    assert (
        main(["train", "secu", "--data", str(images), "--recipe", "mine.toml", "--out", "second"])
        == 0
    )
    assert_same_run(tmp_path / "second", tmp_path / "first")


def test_options_outrank_the_recipe_and_the_seed_outranks_all(images, monkeypatch):
    seen = []

    def record(config, folder, **options):
        seen.append((config, str(folder)))
        msg = "stop here"
        raise UsageError(msg)

    monkeypatch.setattr(train_commands, "train", record)
    assert main(["train", "secu", "--set", "seed=4", "--set", "optim.lr=0.125"]) == 2
    assert main(["train", "secu", "--set", "seed=4", "--seed", "5", "--set", "epochs=77"]) == 2
    (first, folder), (second, other) = seen
    assert (first.seed, first.optim.lr, folder) == (4, 0.125, "runs/secu-digits-seed4")
    assert (second.seed, second.epochs, other) == (5, 77, "runs/secu-digits-seed5")
    assert first.data.source == "digits"
    assert first.heads == read_recipe("secu_digits").heads


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (["--set", "epoch=3"], 2, "unknown key 'epoch'; did you mean 'epochs'?"),
        (["--set", "optim.momentun=0"], 2, "did you mean 'momentum'?"),
        (["--set", "optim.lr=fast"], 2, "lr must be a number"),
        (["--set", "optim.lr=-1"], 2, "lr must be a finite number above 0"),
        (["--set", "epochs"], 2, "must look like key=value"),
        (["--set", "heads.target=11"], 2, "target must be one of clusters"),
        (["--set", "network.name=resnet"], 2, "network.name 'resnet' is unknown"),
        (["--set", "optim.warmup_epochs=100"], 2, "warmup_epochs must be at most epochs"),
        (["--set", "optim.warmup_epochs=100"], 2, "for example --set optim.warmup_epochs=6"),
        (["--set", "data.split=test"], 2, "To fix this, leave data.split at 'auto'"),
        (["--set", "log=[1]"], 2, "log[0] must be a string"),
        (["--seed", "-1"], 2, "seed must be an integer in [0, 2**63)"),
        (["--recipe", "secu_cifar"], 2, "secu_digits, "),
        (["--recipe", "gone.toml"], 66, "no configuration file at gone.toml"),
        (["--device", "cuda"], 2, "sees no CUDA device"),
        (["--device", "cuda:3"], 2, "sees no CUDA device"),
        (["--device", "graphics"], 2, "must name a torch device"),
        (["--set", "heads.clusters=[10, 300]"], 65, "bounds add up to"),
        (["--set", "heads.clusters=[10, 300]"], 65, "the head of 300 clusters (heads.clusters)"),
        (["--set", "data.limit=37"], 65, "for 37 samples with assignment.lower=0.9, upper=1.1"),
        (["--set", "data.limit=37"], 65, "Or set assignment.rounding='outward'"),
        (["--data", "gone.npz", "--recipe", "secu_digits"], 66, "no data at 'gone.npz'"),
        (["--data", "small.npz"], 2, "how many clusters shall small.npz be put into?"),
        (["--data", "small.csv"], 66, "no data at 'small.csv'"),
        (["--data", "notes.md"], 2, "cannot read notes.md, which is of another kind"),
        (["--set", "epochs=6"], 2, "To fix this, set both, for example --set optim.warmup_epochs"),
        (["--data", "notes.md", "--recipe", "secu_digits"], 2, "cannot read notes.md"),
        (["--out", "small.npz"], 73, "small.npz exists"),
        (["--out", "small.npz/run"], 73, "cannot write into"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_settings_that_are_refused_write_nothing(images, capsys, monkeypatch, options, code, words):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    (images.parent / "notes.md").write_text("text")
    before = listing(images.parent)
    assert words in error_of(capsys, code, "train", "secu", *options)
    assert listing(images.parent) == before


@pytest.mark.parametrize("device", ["mps", "xpu", "meta"])
def test_a_device_that_torch_knows_and_this_machine_lacks(images, capsys, device):
    assert device in error_of(capsys, 2, "train", "secu", "--device", device, "--out", "run")
    assert not (images.parent / "run").exists()


def test_a_run_that_is_not_there(images, capsys):
    before = listing(images.parent)
    for path in ("runs/gone", ".", "small.npz"):
        assert "cannot resume: the run folder" in error_of(capsys, 66, "resume", path)
    monkey = error_of(capsys, 2, "resume", "runs/gone", "--device", "nowhere")
    assert "must name a torch device" in monkey
    assert listing(images.parent) == before


def test_a_damaged_run(images, capsys):
    assert train(images, "--out", "run") == 0
    capsys.readouterr()
    for path in images.parent.glob("run/checkpoints/*/state.safetensors"):
        path.write_bytes(path.read_bytes()[:-1])
    error = error_of(capsys, 65, "resume", "run")
    assert "no checkpoint of run is intact" in error


def test_recipes():
    assert read_recipe("secu_digits").data.source == "digits"
    for name in ("SECU_DIGITS", "", "secu_digits.tom", "../secu_digits", "__init__"):
        with pytest.raises(UsageError, match=r"one of .*secu_digits"):
            read_recipe(name)


# What is printed -------------------------------------------------------------------------------


def figures(acc: float, nmi: float, ari: float) -> Agreement:
    return Agreement(acc, nmi, ari, 0.5, 0.5)


ROWS = [
    _Row(0, figures(0.791, 0.74, 0.66), figures(0.981, 0.956, 0.959), 171, 185, 41.25),
    _Row(1, figures(0.8, 0.75, 0.68), figures(0.971, 0.946, 0.949), 170, 190, 1040.0),
    _Row(2, figures(1.0, 1.0, -0.01), figures(0.0, 0.0, 0.0), 1, 1797, 0.04),
]


def test_the_table_of_several_seeds():
    lines = _table(ROWS, "162 to 197", True).splitlines()
    assert lines[0].startswith("1797 handwritten digits")
    assert lines[-1] == "every cluster size is inside its bounds, 162 to 197"
    body = lines[4:-2]
    assert [line.split()[0] for line in body] == ["0", "1", "2", "mean", "std"]
    assert body[0].split() == [
        "0",
        "0.791",
        "0.740",
        "0.660",
        "0.981",
        "0.956",
        "0.959",
        "171-185",
        "41.2",
    ]
    for name, of in (("mean", np.mean), ("std", np.std)):
        figures = [
            of([getattr(row, side)[i] for row in ROWS])
            for side in ("kmeans", "secu")
            for i in range(3)
        ]
        line = next(line for line in body if line.startswith(name))
        assert line.split()[1:] == [f"{value:.3f}" for value in figures]
    # Figures stand in columns under their heads.
    starts = {line.index(line.split()[1]) for line in body}
    assert starts == {lines[3].index("ACC")}


def test_the_table_of_one_seed_has_no_mean():
    text = _table(ROWS[:1], "162 to 197", False)
    assert not [line for line in text.splitlines() if line.startswith(("mean", "std"))]
    assert text.endswith("SOME CLUSTER SIZE IS OUTSIDE its bounds, 162 to 197")


def test_a_line_of_progress():
    record = {"epoch": 3, "loss": 1.23456, "size_min": 160, "size_max": 199}
    assert describe(record, 60) == "epoch 3/60  loss 1.235  sizes 160-199"
    # Accuracy is that of the papers' protocol, not that of labels inside the bounds.
    record |= {"acc": 0.5, "argmax_acc": 0.98765}
    assert describe(record, None) == "epoch 3  loss 1.235  sizes 160-199  acc 0.988"
    record |= {"test_acc": 0.25}
    assert describe(record, None).endswith("sizes 160-199  test acc 0.250")


@pytest.mark.parametrize("violation", [0, 3])
def test_the_demo_ends_with_65_if_a_size_is_outside(monkeypatch, capsys, tmp_path, violation):
    """With the training replaced: the labels are the classes."""
    folders = []

    def instead(config, folder, progress, steps):
        data = train_commands.load_source("digits")
        progress({"epoch": config.epochs, "loss": 0.1, "size_min": 1, "size_max": 2})
        folders.append(folder)
        counts = torch.bincount(data.labels)
        members = {"labels": data.labels, "counts": counts, "violation": violation}
        prediction = type("P", (), {"assignment": type("Found", (), members)})
        return RunResult(folder, [], prediction, 162, 197, config)

    monkeypatch.setattr(train_commands, "train", instead)
    fast = Agreement(0.7, 0.7, 0.6, 0.5, 0.5)
    monkeypatch.setattr(train_commands, "kmeans_on_pixels", lambda *a, **k: fast)
    assert main(["demo", "--small", "--out", str(tmp_path)]) == (65 if violation else 0)
    out = capsys.readouterr().out
    assert "1.000  1.000  1.000" in out
    assert ("SOME CLUSTER SIZE IS OUTSIDE" in out) == bool(violation)
    assert folders == [tmp_path / "seed0"]
    assert main(["demo", "--out", str(tmp_path)]) == (65 if violation else 0)
    assert folders[1:] == [tmp_path / f"seed{seed}" for seed in (0, 1, 2)]
