"""Several numbers of clusters in one run: judged without classes, one chosen, the results its."""

import csv
import json
import shutil

import numpy as np
import pytest
import torch

from dualclust.algos.core.errors import InvalidValueError, UsageError
from dualclust.algos.scores.statistics import strided_ids
from dualclust.algos.selection import adjusted_rand_index
from dualclust.cli.train import _print_result
from dualclust.train.comparison import agreements_of, comparison_rows, prefer, read_run
from dualclust.train.comparison.table import protocol_note, shown_cells
from dualclust.train.config.run import load_config, override
from dualclust.train.data.look import look_at
from dualclust.train.loop import heads, resume, train, train_and_resume, write_page
from dualclust.train.loop.heads import HEADS_FILE, settle_target, written_clusters
from dualclust.train.loop.results import is_finished
from dualclust.train.loop.run import Run
from dualclust.train.models import load_model
from dualclust.train.own_data import Machine, choose_settings
from dualclust.train.report.heads import heads_text
from tests.train.runs import Interrupted, assert_same_run, interrupt_after

N, D, K = 240, 8, 4
KS = (2, 4, 7, 9)  # the head in the middle is followed, and another one is right


def settings(folder, seed, *, clusters, changes=()):
    """Blobs far apart, or one round cloud; heads on the rows themselves."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(N, D))
    if clusters:
        x += 8.0 * np.linalg.qr(rng.normal(size=(D, D)))[0][np.arange(N) % K]
    path = folder / f"x{seed}.npy"
    np.save(path, x.astype(np.float32))
    look = look_at(str(path), split="auto", folders="names")
    found = choose_settings(look, "secu", str(path), Machine(1), clusters=KS, epochs=8)
    small = ["network.hidden=16", "network.out_dim=8", "batch_size=60", "evaluation.every=4"]
    return override(found.config, [f"seed={seed}", *small, *changes])


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A finished run on blobs."""
    home = tmp_path_factory.mktemp("heads")
    return train(settings(home, 0, clusters=True), home / "run")


@pytest.fixture
def copy(finished, tmp_path):
    return shutil.copytree(finished.folder, tmp_path / "copy")


@pytest.fixture(scope="module")
def labeled(tmp_path_factory):
    """A finished run on the same blobs, whose classes are known."""
    home = tmp_path_factory.mktemp("labeled")
    config = settings(home, 0, clusters=True)
    np.save(home / "x0_labels.npy", np.arange(N) % K)
    return train(config, home / "run")


def rows_of_table(folder):
    run = read_run(folder)
    return comparison_rows([run], prefer([run], agreements_of([run])))


def tile_of(folder):
    """What the page has in the tile of ACC."""
    return (folder / "report.html").read_text().partition(">ACC<")[2][:200]


def rows_of(folder):
    with (folder / "assignments.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def chosen(config):
    run = Run(config, "cpu")
    run.init()
    while run.epoch < config.epochs:
        run.run_epoch()
    return run.metrics[-1]["heads"]


@pytest.mark.parametrize("seed", [1, 2])  # and 0, which `finished` has
def test_the_planted_number_of_clusters_is_chosen(seed, tmp_path):
    found = chosen(settings(tmp_path, seed, clusters=True))
    assert found["recommended"] == found["best"] == K, found


def test_of_one_round_cloud_no_number_stands_out(tmp_path):
    found = chosen(settings(tmp_path, 0, clusters=False))
    assert found["recommended"] is None
    assert found["reason"].startswith("no k stands out: at k = ")
    told = heads_text(found, found["best"])
    assert told.endswith(f"; the results are of k = {found['best']}")


def test_the_figures_are_by_definition(finished, tmp_path):
    entry = finished.metrics[-1]["heads"]
    assert entry["recommended"] == K
    assert "labels of two views of the same samples agree by" in entry["reason"]
    assert [one["n_clusters"] for one in entry["judged"]] == list(KS)
    own = entry["judged"][1]
    found = finished.prediction.assignment
    scores = finished.prediction.features @ finished.prediction.centers.T
    free = float(scores.double().amax(1).sum())
    value = float(scores.double().gather(1, found.labels[:, None]).sum())
    assert own["price"] == pytest.approx(max(0.0, 1.0 - value / free), abs=1e-6)
    assert own["gap"] == float(found.gap)
    assert (own["smallest"], own["largest"]) == (found.counts.min(), found.counts.max())
    assert own["agreement"] > 0.9 > entry["judged"][3]["agreement"]
    # Labels of training, which the checkpoint has, of the row of this head.
    run = Run(load_config(finished.folder / "config.toml"), "cpu", fresh=False)
    assert run.method.followed == run.method.target == KS.index(7)


def test_views_are_labeled_at_the_prices_of_all_samples(finished, tmp_path):
    run = Run(settings(tmp_path, 0, clusters=True), "cpu")
    run.init()
    run.run_epoch()
    entry = heads.judge_heads(run.method, run.loader)
    run.method.target = 0
    found = run.predict()
    agreements = []
    run.method.network.eval()
    for pair in range(heads.PAIRS):
        labels = []
        for side, view in enumerate(("first", "second")):
            rows = run.loader.apply_to_all(
                run.method.features, view=view, stream="heads", number=2 * pair + side
            )
            priced = (rows @ found.centers.T).double() + found.assignment.prices
            labels.append(priced.argmax(1))
        agreements.append(adjusted_rand_index(*labels, 2))
    assert entry["judged"][0]["agreement"] == pytest.approx(np.mean(agreements), abs=1e-12)
    error = np.std(agreements, ddof=1) / np.sqrt(len(agreements))
    assert entry["judged"][0]["agreement_error"] == pytest.approx(error, abs=1e-12)


def test_each_evaluation_judges_and_the_chosen_head_is_used(finished):
    folder = finished.folder
    records = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert [r["epoch"] for r in records if "heads" in r] == [4, 8]
    assert json.loads((folder / HEADS_FILE).read_text()) == {"k": K, **records[-1]["heads"]}
    assert len(finished.prediction.assignment.counts) == K
    rows = rows_of(folder)
    assert {int(row["cluster"]) for row in rows} == set(range(K))
    assert np.load(folder / "centers.npy").shape == (K, 8)
    model = load_model(folder)
    x = np.load(load_config(folder / "config.toml").data.source)
    found = model.label(model.inputs(torch.from_numpy(x)))
    assert model.n_clusters == K
    assert found.labels.tolist() == [int(row["nearest"]) for row in rows]
    stored = read_run(folder)
    assert (stored.n_clusters, len(stored.lower)) == (K, K)
    page = (folder / "report.html").read_text()
    assert f"{K} clusters of {N} samples by secu" in page
    assert "Epoch 8: k = 4 stands out" in page
    assert "Agreement of two views, by number of clusters" in page
    assert "(head of 7 clusters)" in page


@pytest.mark.parametrize("epoch", [4, 8])
def test_an_interrupted_choice_ends_as_one_that_was_not(finished, epoch, tmp_path):
    config = load_config(finished.folder / "config.toml")
    with pytest.raises(Interrupted):
        train(config, tmp_path / "run", progress=interrupt_after(epoch))
    page = (tmp_path / "run" / "report.html").read_text()
    shown = {4: 7, 8: K}[epoch]  # the last epoch chooses, and its results are still to be written
    assert f"Epoch {epoch}: until the end k = {shown} is shown; " in page
    assert "as asked" not in page
    resume(tmp_path / "run")
    assert_same_run(tmp_path / "run", finished.folder)


def test_another_head_on_request(finished, copy):
    found = resume(copy, n_clusters=9)
    assert len(found.prediction.assignment.counts) == 9
    assert load_model(copy).n_clusters == read_run(copy).n_clusters == 9
    entry = finished.metrics[-1]["heads"]
    assert (copy / HEADS_FILE).read_text() == json.dumps({"k": 9, **entry}, indent=1) + "\n"
    assert heads_text(entry, 9).splitlines()[-1].startswith("k = 9 is used, as asked; k = 4 stands")
    page = (copy / "report.html").read_bytes()
    write_page(copy)
    assert (copy / "report.html").read_bytes() == page
    assert b"9 clusters of 240 samples by secu" in page
    resume(copy)
    assert_same_run(copy, finished.folder)


def test_figures_of_another_head_are_left_out(labeled, tmp_path, capsys):
    folder = shutil.copytree(labeled.folder, tmp_path / "copy")
    _print_result(labeled)
    out = capsys.readouterr().out
    assert "agreement     ACC 1.000" in out
    assert "1.000" in tile_of(folder)
    (row,) = rows_of_table(folder)
    assert (row["protocol"], row["acc"]) == ("argmax", 1.0)

    found = resume(folder, n_clusters=9)
    _print_result(found)
    out = capsys.readouterr().out
    free = np.bincount(found.prediction.nearest.numpy(), minlength=9)
    assert "agreement     not evaluated for 9 clusters; metrics.jsonl has that of 4\n" in out
    assert "clusters      9 of 240 samples" in out
    assert f"by argmax {free.min()} to {free.max()}\n" in out
    assert "ACC" not in out
    assert "not evaluated for k = 9; k = 4: 1.000" in tile_of(folder)
    rows = rows_of_table(folder)
    assert rows[0]["protocol"] == "evaluated for k = 4 alone"
    assert rows[0]["acc"] is rows[0]["bounded_acc"] is None
    assert protocol_note(rows) == ""
    assert "protocol" in shown_cells(rows)[0]


def test_a_choice_of_another_head_that_is_stopped_is_not_finished(copy, monkeypatch):
    config = load_config(copy / "config.toml")
    before = (copy / "assignments.csv").read_bytes()
    real = train_and_resume.write_heads

    def killed(*given):
        real(*given)
        raise Interrupted

    with monkeypatch.context() as patch:
        patch.setattr(train_and_resume, "write_heads", killed)
        with pytest.raises(Interrupted):
            resume(copy)
        assert (copy / "model.safetensors").is_file()  # the same head again: readers need not wait
        with pytest.raises(Interrupted):
            resume(copy, n_clusters=9)
    assert (copy / "assignments.csv").read_bytes() != before
    assert not is_finished(copy, config)
    (copy / HEADS_FILE).write_text("[")
    resume(copy)
    assert is_finished(copy, config)
    assert (copy / "assignments.csv").read_bytes() == before


def test_a_sample_of_the_samples_is_judged(tmp_path, monkeypatch):
    run = Run(settings(tmp_path, 0, clusters=True), "cpu")
    run.init()
    run.run_epoch()
    kept = []
    real = heads._agreements
    monkeypatch.setattr(heads, "sample_rows", lambda n, most: 100)
    monkeypatch.setattr(heads, "_agreements", lambda *given: kept.append(given[2]) or real(*given))
    entry = heads.judge_heads(run.method, run.loader)
    assert len({one.features.data_ptr() for one in kept[0].values()}) == 1  # one copy for all k
    ids = strided_ids(N, 100, torch.zeros(1)).sort().values
    run.method.network.eval()
    for k, judged in zip(KS, entry["judged"], strict=True):
        one, agreements = kept[0][k], []
        for pair in range(heads.PAIRS):
            labels = []
            for side, name in enumerate(("first", "second")):
                view = run.loader.view(ids, "heads", 0, 2 * pair + side, name=name)
                rows = run.method.normalize_rows(run.method.features(view)).detach()
                priced = (rows @ one.centers.T).double() + one.assignment.prices
                labels.append(priced.argmax(1))
            agreements.append(adjusted_rand_index(*labels, k))
        assert judged["agreement"] == pytest.approx(np.mean(agreements), abs=1e-12)
    every = run.loader.apply_to_all(run.method.features)
    some = run.loader.apply_to_all(run.method.features, ids=ids, batch_size=30)
    torch.testing.assert_close(some, every[ids])


def test_finer_heads_can_be_asked_for_too(copy):
    config = load_config(copy / "config.toml")
    assert config.heads.clusters == (*KS, 18)
    resume(copy, n_clusters=18)
    assert written_clusters(copy, config) == 18
    stored = read_run(copy)
    assert stored.evaluated(stored.records[-1]) == K
    assert stored.evaluated(stored.records[3]) == 7


def test_refusals(copy, tmp_path):
    with pytest.raises(UsageError, match=r"no head of 5 clusters, its heads have \[2, 4, 7, 9, 18"):
        resume(copy, n_clusters=5)
    config = load_config(copy / "config.toml")
    few = override(config, ["data.limit=17", "assignment.lower=0.0", "assignment.upper=inf"])
    with pytest.raises(InvalidValueError, match="must end at half the number of samples, or befo"):
        Run(few, "cpu")
    for text in ('{"k": 5}', '{"k": true}', "{}", "[", '{"k": "4"}'):
        (copy / HEADS_FILE).write_text(text)
        with pytest.raises(InvalidValueError, match=r"heads\.json is damaged"):
            written_clusters(copy, config)
    for wrong in ("[4]", "[4, 2]", "[2, 4]", "[2, 3, 7]"):
        with pytest.raises(UsageError, match=r"candidates must be"):
            override(config, [f"heads.candidates={wrong}"])


def test_a_run_of_one_k_keeps_its_target(finished, copy):
    config = override(load_config(copy / "config.toml"), ["heads.candidates=[]"])
    run = Run(config, "cpu")
    settle_target(run.method, [{}])
    assert run.method.target == KS.index(7)
