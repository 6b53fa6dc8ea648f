"""`dualclust train` on data of one's own, as strangers keep it, without a recipe."""

import csv
import json
import re

import numpy as np
import pytest

from dualclust.algos.core.errors import UsageError
from dualclust.cli import train as train_commands
from dualclust.cli import train_settings
from dualclust.cli.main import main
from dualclust.train.config.run import load_config
from dualclust.train.own_data import Machine
from tests.train.pictures import picture
from tests.train.strangers_folder import SKIPPED, write_strangers

pytest.importorskip("PIL.Image")

SMALL = ("epochs=1", "network.width=2", "network.hidden=8", "network.out_dim=4", "threads=1")
SET = [word for setting in SMALL for word in ("--set", setting)]


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with all kinds of trouble, a run on it, what the run said, and an .npy file."""
    home = tmp_path_factory.mktemp("home")
    images = np.stack([picture(48, 48, seed=i) for i in range(36)])
    written = write_strangers(home / "photos", images)
    np.save(home / "x.npy", np.random.default_rng(0).normal(size=(60, 5)).astype(np.float32))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        patch.setenv("DUALCLUST_CACHE", str(home / "cache"))
        assert main(["train", "secu", "--data", "photos/", "-k", "3", *SET]) == 0
    return home, written


@pytest.fixture
def inside(home, monkeypatch):
    monkeypatch.chdir(home[0])
    monkeypatch.setenv("DUALCLUST_CACHE", str(home[0] / "cache"))
    return home


def rows_of(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_each_picture_has_a_cluster_and_each_bad_file_a_reason(home):
    folder, written = home[0] / "runs" / "secu-photos-seed0", home[1]
    rows = rows_of(folder / "assignments.csv")
    assert sorted(row["file"] for row in rows) == sorted(written)
    assert "class" not in rows[0]
    skipped = rows_of(folder / "skipped.csv")
    assert [row["file"] for row in skipped] == sorted(SKIPPED)
    assert all("cannot decode" in row["reason"] for row in skipped)
    assert "pip install pillow-heif" in skipped[-1]["reason"]
    assert "acc" not in json.loads((folder / "metrics.jsonl").read_text().splitlines()[-1])


def test_the_run_folder_holds_all_settings_and_goes_on(home, inside, capsys):
    config = load_config("runs/secu-photos-seed0/config.toml")
    assert (config.data.size, config.data.decode, config.heads.clusters) == (32, "copies", (3,))
    assert config.augment.crop == (0.3, 1.0)
    assert main(["resume", "runs/secu-photos-seed0"]) == 0
    recipe = ["--recipe", "runs/secu-photos-seed0/config.toml", "--out", "again"]
    assert main(["train", "secu", *recipe]) == 0
    a, b = (home[0] / place / "assignments.csv" for place in ("runs/secu-photos-seed0", "again"))
    assert a.read_bytes() == b.read_bytes()


def test_a_run_labels_its_own_folder(home, inside, capsys):
    run = "runs/secu-photos-seed0"
    assert main(["predict", run, "photos", "--table", "labels.csv"]) == 0
    assert "5 files cannot be read and are left out" in capsys.readouterr().err
    nearest = {row["file"]: row["nearest"] for row in rows_of(home[0] / run / "assignments.csv")}
    assert {row["path"]: row["cluster"] for row in rows_of(home[0] / "labels.csv")} == nearest
    assert main(["predict", run, "photos", "--bad", "stop"]) == 65
    assert "cannot decode" in capsys.readouterr().err


def seen(monkeypatch, capsys, *words):
    """Settings that a command comes to, and what it says about them."""
    found = []

    def stop(config, folder, **options):
        found.append((config, str(folder)))
        msg = "far enough"
        raise UsageError(msg)

    monkeypatch.setattr(train_commands, "train", stop)
    assert main(["train", *words]) == 2
    err = capsys.readouterr().err
    assert err.endswith("dualclust: error: far enough\n")
    return found[0][0], err


def test_what_is_chosen_is_told_before_the_run(inside, monkeypatch, capsys):
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    config, err = seen(monkeypatch, capsys, "coke", "--data", "photos", "-k", "3", "--seed", "5")
    assert config.seed == 5
    first, *lines = err.splitlines()
    assert first == (
        "settings for photos: 41 pictures in color, 90 × 64 pixels (median), in 3 sub-folders; "
        "2 CPU cores"
    )
    told = dict(re.fullmatch(r"  (\S.*?) = (.*?)  +.+", x).groups() for x in lines if " = " in x)
    assert (told["threads"], config.threads) == ("2", 2)
    assert told["data.size"] == "32"
    assert told["epochs"] == "200"
    assert "to change one: --set epochs=100; to keep all: dualclust train coke --recipe" in err


def test_options_of_one_s_own_data(inside, monkeypatch, capsys):
    words = ["secu", "--data", "photos", "-k", "3", "--bad", "stop"]
    config, err = seen(monkeypatch, capsys, *words, "--set", "epochs=6", "--set", "data.limit=20")
    assert (config.epochs, config.data.bad, config.data.limit) == (6, "stop", 20)
    assert config.optim.warmup_epochs == 1
    assert "20 pictures in color" in err
    for recipe in ("secu_photos", None):
        again, _ = seen(monkeypatch, capsys, *words[:5], *(["--recipe", recipe] if recipe else []))
        assert again.data.source == "photos"
    config, _ = seen(monkeypatch, capsys, "propos", "--data", "x.npy", "-k", "4")
    assert (config.network.name, config.heads.clusters) == ("none", (4,))
    config, _ = seen(monkeypatch, capsys, "secu", "-k", "5")
    assert (config.data.source, config.heads.clusters) == ("digits", (5, 10, 20, 40))


def test_several_numbers_of_clusters(inside, monkeypatch, capsys):
    for flag, text in (("-k", "3,5"), ("--k-range", "3:5:2"), ("--clusters", "5,3")):
        config, err = seen(monkeypatch, capsys, "secu", "--data", "x.npy", flag, text)
        assert (config.heads.candidates, config.heads.target) == ((3, 5), 5)
        assert config.heads.clusters == (3, 5)
        assert "  heads.candidates = [3, 5]  " in err
    config, _ = seen(monkeypatch, capsys, "coke", "-k", "5,8")
    assert (config.data.source, config.heads.candidates) == ("digits", (5, 8))


def test_a_time_chooses_network_and_epochs(inside, monkeypatch, capsys):
    asked = []

    def measure(config, device, n):
        asked.append((config.network.width, config.optim.lr, device, n))
        return 1.0 * config.network.width

    monkeypatch.setattr(train_settings, "epoch_time", measure)
    words = ["secu", "--data", "photos", "-k", "3", "--set", "optim.lr=0.1", "--time", "2h"]
    config, err = seen(monkeypatch, capsys, *words)
    assert asked == [(8, 0.1, "cpu", 41), (16, 0.1, "cpu", 41)]
    assert config.network.width == 16
    assert 355 <= config.epochs <= 360
    assert f"epochs = {config.epochs} " in err
    assert "--time: an epoch takes 16.0 s" in err
    asked.clear()
    config, err = seen(monkeypatch, capsys, *words, "--set", "network.width=4")
    assert (asked, config.network.width) == ([(4, 0.1, "cpu", 41)], 4)
    assert re.search(r"  network\.width = 4 +as asked\n", err)


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["secu", "--data", "photos"], 2, "how many clusters shall photos be put into? To fix"),
        (["secu", "--data", "x.npy"], 2, "say it by -k, for example -k 10"),
        (["secu", "--data", "photos", "-k", "1"], 2, "-k must be an integer, 2 or more, got 1"),
        (["secu", "-k", "0"], 2, "-k must be an integer, 2 or more, got 0"),
        (["secu", "-k", "ten"], 2, "got ten. To fix this, write 10, 5,10,20 or 5:20:5"),
        (["secu", "-k", "5,x"], 2, "-k must be numbers from 2 on, or ranges FIRST:LAST:STEP"),
        (["secu", "-k", "2:2000"], 2, "-k must name at most 1,000 numbers of clusters"),
        (["secu", "-k", "2:99"], 2, "-k must name at most 20 numbers of clusters for a run"),
        (["propos", "--data", "x.npy", "-k", "3,5"], 2, "propos has one head and learns one"),
        (["mi_margin", "-k", "3,5"], 2, "or train secu or coke, which have a head for each"),
        (["secu", "--data", "x.npy", "-k", "3,31"], 65, "heads.candidates must end at half the"),
        (["secu", "--data", "photos", "-k", "90"], 65, "the head of 90 clusters"),
        (["secu", "--data", "photos", "-k", "3", "--classes"], 2, "leave out --classes"),
        (["secu", "--data", "photos", "-k", "3", "--bad", "stop"], 65, "cannot decode"),
        (
            ["secu", "--data", "x.npy", "-k", "3", "--recipe", "secu_photos"],
            2,
            "does not fit x.npy",
        ),
        (["secu", "--recipe", "secu_photos", "-k", "3"], 2, "To fix this, name it: --data"),
        (["secu", "--data", "gone", "-k", "3"], 66, "no data at 'gone'"),
        (["secu", "--data", "empty", "-k", "3"], 2, "empty holds no image"),
        (["self_label", "--data", "photos", "-k", "3"], 2, "goes on from a finished run"),
        (["secu", "--time", "20m"], 2, "--time fits settings that are chosen"),
        (["secu", "--data", "photos", "-k", "3", "--time", "20"], 2, "--time must be a time such"),
        (
            ["secu", "--data", "photos", "-k", "3", "--time", "1m", "--set", "epochs=3"],
            2,
            "leave out one",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_is_refused(inside, capsys, words, code, message):
    (inside[0] / "empty").mkdir(exist_ok=True)
    assert main(["train", *words, "--out", "refused"]) == code
    assert message in capsys.readouterr().err.splitlines()[-1]
    assert not (inside[0] / "refused").exists()


def test_settings_that_are_most_likely_mistakes_are_told(inside, monkeypatch, capsys):
    (inside[0] / "mine.toml").write_text('method = "secu"\n[data]\nsource = "photos"\nsize = 48\n')
    _, err = seen(monkeypatch, capsys, "secu", "--recipe", "mine.toml")
    assert "[augment] changes nothing, so that all views of a sample are the same" in err
    assert "network.name='digits-cnn' is made for digits of 8 pixels" in err
    _, err = seen(monkeypatch, capsys, "secu")
    assert "dualclust: [" not in err


def test_machines(monkeypatch):
    assert Machine(1).describe() == "1 CPU core"
    assert Machine(16, card=True).describe() == "a CUDA card"
