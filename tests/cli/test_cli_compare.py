"""`dualclust compare` and `report`: one comparison that is stopped once, and its pages."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

from dualclust.algos.core.errors import DivergedError
from dualclust.cli import compare_methods
from dualclust.cli.main import build_parser, main
from dualclust.train.config.run import load_config
from tests.cluster.test_cluster_report import Page
from tests.train.runs import write_images

SMALL = ("network.width=2", "network.hidden=8", "network.out_dim=4", "threads=1", "batch_size=32")
WORDS = [
    *("compare", "--data", "x.npz", "-k", "3", "--methods", "secu,coke", "--epochs", "2"),
    *(word for setting in SMALL for word in ("--set", setting)),
    *("--features", "rows.npy", "--out", "out"),
]
RUNS = ["coke-seed0", "kmeans-features-rows-seed0", "kmeans-pixels-seed0", "secu-seed0"]


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A comparison whose second run was stopped after its first epoch, and that then went on."""
    home = tmp_path_factory.mktemp("home")
    write_images(home / "x.npz", n=60, classes=3)
    np.save(home / "rows.npy", np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32))
    calls, train, resume = [], compare_methods.train, compare_methods.resume

    def stopped(config, folder, **given):
        calls.append(("train", folder.name))
        stop = (lambda: True) if config.method == "coke" else given["stop"]
        return train(config, folder, **(given | {"stop": stop}))

    def resumed(folder, **given):
        calls.append(("resume", folder.name))
        return resume(folder, **given)

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        patch.setattr(compare_methods, "train", stopped)
        patch.setattr(compare_methods, "resume", resumed)
        codes = [main(WORDS), main(WORDS), main(WORDS)]
    return home, codes, calls


@pytest.fixture
def inside(home, monkeypatch):
    monkeypatch.chdir(home[0])
    return home[0]


def test_what_has_ended_is_not_repeated_and_what_was_stopped_goes_on(home):
    folder, codes, calls = home
    assert codes == [75, 0, 0]
    assert calls == [("train", "secu-seed0"), ("train", "coke-seed0"), ("resume", "coke-seed0")]
    out = folder / "out"
    files = {"plan.json", "comparison.html", "comparison.csv", "comparison.md"}
    assert {path.name for path in out.iterdir()} == {*files, *RUNS}
    for name in ("secu-seed0", "coke-seed0"):
        assert len((out / name / "metrics.jsonl").read_text().splitlines()) == 2


def test_each_run_has_the_settings_that_were_chosen_for_its_method(home):
    plan = json.loads((home[0] / "out" / "plan.json").read_text())
    assert sorted(plan["settings"]) == ["coke", "secu"]
    assert plan["request"]["epochs"] == 2
    config = load_config(home[0] / "out" / "coke-seed0" / "config.toml")
    assert (config.method, config.epochs, config.heads.target) == ("coke", 2, 3)
    assert config.optim.warmup_epochs <= 2


def test_the_page_links_to_the_runs(home):
    page = Page((home[0] / "out" / "comparison.html").read_text(encoding="utf-8"))
    links = [found["href"] for tag, found in page.tags if tag == "a"]
    assert {"coke-seed0/report.html", "secu-seed0/report.html"} <= set(links)
    assert "4 runs side by side" in page.words
    assert "chance cannot be told from merit by one run of a method" in page.words


def test_figures_as_json(inside, capsys):
    assert main(["report", "out", "--out", "again.html", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [row["run"] for row in found["rows"]] == RUNS
    for row in found["rows"]:
        assert row["samples"] == 60
        assert row["largest"] >= 20 >= row["smallest"]
        assert 0 <= row["acc"] <= 1
    ari = found["agreement"]["ari"]
    assert [ari[i][i] for i in range(4)] == [1.0] * 4
    assert ari[0][3] == ari[3][0] is not None
    assert (found["preferred"], found["agreement"]["not_compared"]) == (None, [])
    assert (inside / "again.html").is_file()
    assert (inside / "again.csv").read_text().startswith("run,method,seed,")


def test_kmeans_of_noise_finds_no_class_and_that_of_pixels_does(inside, capsys):
    assert main(["report", "out", "--out", "again.html", "--json"]) == 0
    rows = {row["run"]: row for row in json.loads(capsys.readouterr().out)["rows"]}
    assert rows["kmeans-pixels-seed0"]["acc"] == 1.0
    assert rows["kmeans-features-rows-seed0"]["acc"] < 0.7


def test_the_page_of_one_run_is_written_again(inside, capsys):
    page = inside / "out" / "coke-seed0" / "report.html"
    before = page.read_bytes()
    page.write_text("gone")
    assert main(["report", "out/coke-seed0"]) == 0
    assert capsys.readouterr().out == "written to    out/coke-seed0/report.html\n"
    assert page.read_bytes() == before


def unfinished(inside, name="going"):
    """A run after its first epoch of two."""
    folder = inside / name
    shutil.copytree(inside / "out" / "coke-seed0", folder)
    (folder / "model.safetensors").unlink()
    shutil.rmtree(folder / "checkpoints" / "epoch-000002")
    first, _ = (folder / "metrics.jsonl").read_text().splitlines()
    (folder / "metrics.jsonl").write_text(first + "\n")
    return folder, json.loads(first)


def test_a_run_that_goes_on(inside, capsys):
    folder, first = unfinished(inside)
    assert main(["report", "going"]) == 0
    page = Page((folder / "report.html").read_text(encoding="utf-8"))
    assert "Epoch 1 of 2." in page.words
    assert {"http-equiv": "refresh", "content": "60"} in [found for _, found in page.tags]
    capsys.readouterr()
    assert main(["report", "going", "out/secu-seed0", "--out", "mixed.html", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["rows"][0]["state"], found["rows"][0]["loss"]) == ("epoch 1 of 2", first["loss"])
    assert found["agreement"]["not_compared"] == [
        "going has no labels before its end (epoch 1 of 2)"
    ]
    assert found["reason"] == "No method is preferred: 1 of 2 runs have not ended."


def test_a_run_that_diverged_says_so_on_its_page_and_is_not_repeated(inside, capsys):
    folder, first = unfinished(inside, "diverged")
    bad = {"epoch": 2, "loss": None, "alarms": {"not finite": "The loss became nan in epoch 2"}}
    (folder / "metrics.jsonl").write_text(f"{json.dumps(first)}\n{json.dumps(bad)}\n")
    assert main(["report", "diverged"]) == 0
    words = Page((folder / "report.html").read_text(encoding="utf-8")).words
    assert "Stopped in epoch 2 of 2. The loss became nan in epoch 2." in words
    compare_methods._run_one(folder, load_config(folder / "config.toml"), "diverged", "cpu")
    assert "has diverged, and is left as it is" in capsys.readouterr().err


def test_a_run_whose_time_is_over_ends_and_is_not_repeated(inside, capsys):
    """It has had one step of its last epoch of two; the first one was that of its beginnings."""
    config = load_config(inside / "out" / "secu-seed0" / "config.toml")
    compare_methods._run_one(inside / "late", config, "late", "cpu", seconds=1e-9)
    first, last = map(json.loads, (inside / "late" / "metrics.jsonl").read_text().splitlines())
    assert ("part" in first, last["part"]) == (False, 0.5)
    assert "epoch 2/2, the time was over after 50% of it" in capsys.readouterr().err
    before = (inside / "late" / "report.html").stat().st_mtime_ns
    compare_methods._run_one(inside / "late", config, "late", "cpu", seconds=1e-9)
    assert (inside / "late" / "report.html").stat().st_mtime_ns == before


def test_a_method_that_diverges_stops_no_other(inside, capsys, monkeypatch):
    def diverged(config, folder, **given):
        msg = "the loss became nan. To fix this, lower optim.lr"
        raise DivergedError(msg)

    monkeypatch.setattr(compare_methods, "train", diverged)
    config = load_config(inside / "out" / "coke-seed0" / "config.toml")
    compare_methods._run_one(inside / "other", config, "other", "cpu")
    assert "other: the loss became nan. To fix this, lower optim.lr" in capsys.readouterr().err


def test_an_encoder_is_that_of_the_comparison(inside):
    words = ["compare", "--data", "x.npz", "-k", "3", "--out", "encoded"]
    parsed = build_parser().parse_args([*words, "--encoder", "hf/b", "--weights", "w"])
    request = compare_methods._request(parsed, ["secu"])
    assert request["encoder"] == "hf/b"
    assert request["weights"] == str(inside / "w")  # another folder is another file


OTHER = [*WORDS[:4], "4", *WORDS[5:]]


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (
            OTHER,
            73,
            "out holds a comparison with clusters = 3, and not 4. To fix this, name",
        ),
        ([*WORDS[:-1], "theirs"], 73, "theirs exists, and holds no comparison. To fix this, name"),
        ([*WORDS[:-1], "strange"], 73, "plan.json is damaged. It must be the plan of a"),
        (
            ["compare", "--methods", "secu,kmeans"],
            2,
            "--methods must be some of secu, coke, propos",
        ),
        (["compare", "--methods", "secu,secu"], 2, "got a method twice"),
        (["compare", "--seeds", "0"], 2, "--seeds must be an integer, 1 or more, got 0"),
        (["compare", "--epochs", "1"], 2, "--epochs must be an integer, 2 or more, got 1"),
        (["compare", "--time", "1m"], 2, "--time is for data of one's own, and digits is built in"),
        (["compare", "--time", "1m", "--epochs", "2"], 2, "To fix this, leave out one"),
        (["compare", "--data", "x.npz"], 2, "how many clusters shall x.npz be put into?"),
        (["compare", "--features", "x.npz"], 2, "--features must end in .npy, got 'x.npz'"),
        (["report", "gone"], 66, "no run at gone. To fix this, name folders of dualclust train"),
        (["report", "theirs"], 66, "theirs holds no run: it has no config.toml"),
        (["report", "out/secu-seed0", "--json"], 2, "--json is for several runs, and there is one"),
        (["report", "out/secu-seed0", "--out", "y.html"], 2, "--out is for several runs"),
        (["report", f"out/{RUNS[2]}"], 2, "is of k-means, which has no page of its own"),
        (["report", "out", "--out", "page.txt"], 2, "--out must end in .html, got 'page.txt'"),
        (["report", "out", "--out", "theirs/a.html"], 73, "is not of an earlier report"),
        (["report", "out", "--out", "theirs/b.html"], 73, "theirs/b.csv exists, and is not of an"),
    ],
    ids=lambda value: " ".join(value[-4:]) if isinstance(value, list) else "",
)
def test_what_is_refused(inside, capsys, words, code, message):
    for name, text in (
        ("theirs/a.html", "<html>"),
        ("theirs/b.csv", ""),
        ("strange/plan.json", '{"settings": 1}'),
    ):
        (inside / name).parent.mkdir(exist_ok=True)
        (inside / name).write_text(text)
    before = sorted(path for path in inside.rglob("*") if "__pycache__" not in str(path))
    assert main(words) == code
    assert message in capsys.readouterr().err.splitlines()[-1]
    after = sorted(path for path in inside.rglob("*") if "__pycache__" not in str(path))
    assert [path for path in after if path not in before] == []
    assert (inside / "theirs" / "a.html").read_text() == "<html>"


def test_features_need_a_row_for_each_sample(inside, capsys):
    np.save(inside / "few.npy", np.zeros((59, 2), dtype=np.float32))
    words = [word if word != "rows.npy" else "few.npy" for word in WORDS]
    assert main(words) == 65
    err = capsys.readouterr().err
    assert "--features must have a row for each of the 60 samples" in err
    assert not (inside / "out" / "kmeans-features-few-seed0").exists()


def test_other_features_of_the_same_name_are_refused(inside, capsys):
    stored = np.load(inside / "rows.npy")
    try:
        np.save(inside / "rows.npy", stored + 1.0)
        assert main(WORDS) == 73
        assert "is of other features of this name. To fix this, give" in capsys.readouterr().err
    finally:
        np.save(inside / "rows.npy", stored)
    (inside / "more").mkdir()
    np.save(inside / "more" / "rows.npy", stored)
    assert main([*WORDS, "--features", "more/rows.npy"]) == 2
    assert (
        "--features must be files of different names, got 'rows' twice" in capsys.readouterr().err
    )


def test_a_page_that_was_moved_is_written_again(inside, capsys):
    page = inside / "out" / "comparison.html"
    text = page.read_text()
    page.unlink()
    assert main(WORDS) == 0
    assert page.read_text() == text


def test_a_comparison_is_of_one_number_of_clusters(inside, capsys):
    assert main(["compare", "--data", "x.npz", "-k", "3,5", "--out", "several"]) == 2
    err = capsys.readouterr().err
    assert "-k must be one number here, since most methods have one head" in err
    assert "choose one first: dualclust train secu -k 3,5" in err
    assert not (inside / "several").exists()
