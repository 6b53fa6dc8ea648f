"""Several beginnings: the best goes on as the run that it is, and an interrupted choice is made."""

import json
import shutil
from dataclasses import replace

import pytest
import torch
from sklearn.metrics import silhouette_score

from dualclust.algos.core.errors import CheckpointError, DivergedError, UsageError
from dualclust.train.config import RunConfig, StartsConfig, dump_config, override
from dualclust.train.loop import Run, resume, starts, train
from dualclust.train.loop.resume_state import restore
from dualclust.train.loop.starts import (
    beginning_words,
    chosen_settings,
    is_undecided,
    seed_of,
    settings_of,
)
from dualclust.train.loop.train_and_resume import write_page
from dualclust.train.methods.base import evaluating
from dualclust.train.state.checkpoint import latest_checkpoint
from tests.train.runs import Interrupted, assert_same_run, contents, tiny, write_images

FEW = "assignment.rounding=outward"  # of 97 images
STARTS = ["starts.count=3", "starts.epochs=2", FEW]


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return write_images(tmp_path_factory.mktemp("data") / "images.npz", n=97)


@pytest.fixture(scope="module")
def config(source):
    return tiny(source, *STARTS)


@pytest.fixture(scope="module")
def whole(config, tmp_path_factory):
    """A run with beginnings, that nothing interrupted."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    train(config, folder)
    return folder


def test_the_least_loss_goes_on(config, whole):
    text = (whole / "starts.json").read_text()
    choice = json.loads(text)
    assert text == json.dumps(choice, indent=1) + "\n"
    assert choice["seed"] == settings_of(config, choice["chosen"]).seed
    losses = choice["losses"]
    assert len(set(losses)) == 3
    assert losses[choice["chosen"]] == min(losses)
    for number, loss in enumerate(losses):
        lines = (whole / "starts" / str(number) / "metrics.jsonl").read_text().splitlines()
        assert [json.loads(line)["epoch"] for line in lines] == [1, 2]
        assert json.loads(lines[-1])["loss"] == loss


def assert_goes_on_alone(config, whole, tmp_path):
    """Fail unless a run ended as one that began with the settings of the chosen beginning."""
    chosen = json.loads((whole / "starts.json").read_text())["chosen"]
    train(settings_of(config, chosen), tmp_path / "alone")
    ours, alone = contents(whole), contents(tmp_path / "alone")
    for found in (ours, alone):
        for name in ("config.toml", "starts.json"):
            found.pop(name, None)
    assert ours == alone


def test_what_goes_on_is_the_run_of_its_seed(config, whole, tmp_path):
    assert_goes_on_alone(config, whole, tmp_path)


def test_the_first_beginning_has_the_seed_of_the_run(config):
    seeds = [settings_of(config, number).seed for number in range(3)]
    assert seeds[0] == config.seed
    assert len(set(seeds)) == 3
    assert settings_of(config, 1).starts is None


@pytest.mark.parametrize(
    "stop",
    [(0, 1), (2, 2), *(pytest.param(s, marks=pytest.mark.slow) for s in ((1, 2), (None, 3)))],
)
def test_it_goes_on_where_it_was_interrupted(config, whole, tmp_path, stop):
    seen = []

    def progress(record):
        seen.append((record.get("start"), record["epoch"]))
        if seen[-1] == stop:
            raise Interrupted

    with pytest.raises(Interrupted):
        train(config, tmp_path / "run", progress=progress)
    assert seen[-1] == stop
    resume(tmp_path / "run", progress=progress)
    assert len(seen) == len(set(seen)) == 3 * 2 + 2  # no epoch twice
    assert_same_run(tmp_path / "run", whole)


def test_a_network_of_the_users_own_is_copied(config, tmp_path):
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 16), torch.nn.ReLU())
    before = [p.clone() for p in network.parameters()]
    result = train(config, tmp_path / "run", network=network)
    assert all(torch.equal(p, q) for p, q in zip(network.parameters(), before, strict=True))
    assert len(result.metrics) == config.epochs


def test_a_choice_that_cannot_be_read_is_refused(whole, tmp_path):
    shutil.copytree(whole, tmp_path / "run")
    path = tmp_path / "run" / "starts.json"
    for text in ("", "[]", '{"chosen": 7}'):
        path.write_text(text)
        with pytest.raises(CheckpointError, match=r"starts\.json"):
            resume(tmp_path / "run")


def test_settings_of_the_beginnings_are_checked(config):
    with pytest.raises(UsageError, match=r"starts\.epochs must be below epochs=4, got 4"):
        override(config, ["starts.epochs=4"])
    with pytest.raises(UsageError, match="count must be an integer, 1 or more"):
        StartsConfig(count=0)
    assert RunConfig().starts is None


def diverging(monkeypatch, numbers):
    """Spoil the loss of some beginnings in their second epoch."""
    whole = Run.run_epoch

    def run_epoch(run):
        record = whole(run)
        if run.epoch == 2 and run.config.seed in numbers:
            msg = f"the loss of seed {run.config.seed} became nan"
            raise DivergedError(msg)
        return record

    monkeypatch.setattr(Run, "run_epoch", run_epoch)


def test_a_beginning_that_diverges_is_not_chosen(config, whole, tmp_path, monkeypatch):
    before = json.loads((whole / "starts.json").read_text())
    seeds = [settings_of(config, number).seed for number in range(3)]
    best = before["chosen"]
    diverging(monkeypatch, [seeds[best]])
    train(config, tmp_path / "run")
    choice = json.loads((tmp_path / "run" / "starts.json").read_text())
    assert choice["losses"] == [None if i == best else x for i, x in enumerate(before["losses"])]
    rest = {i: x for i, x in enumerate(choice["losses"]) if x is not None}
    assert choice["chosen"] == min(rest, key=rest.get)


def test_all_beginnings_diverged(config, tmp_path, monkeypatch):
    diverging(monkeypatch, [settings_of(config, number).seed for number in range(3)])
    with pytest.raises(DivergedError, match="became nan"):
        train(config, tmp_path / "run")
    assert not (tmp_path / "run" / "starts.json").exists()


@pytest.mark.parametrize("text", ["3", "-1", "true", "1.0", '"1"', "null"])
def test_a_choice_is_the_number_of_a_beginning(config, tmp_path, text):
    path = tmp_path / "starts.json"
    for number in range(3):
        path.write_text(f'{{"chosen": {number}}}')
        assert chosen_settings(config, tmp_path) == settings_of(config, number)
    alone = settings_of(config, 0)
    assert chosen_settings(alone, tmp_path / "gone") is alone
    path.write_text(f'{{"chosen": {text}}}')
    with pytest.raises(CheckpointError, match="the settings have 3, counted from 0"):
        chosen_settings(config, tmp_path)


def test_a_run_is_undecided_until_its_choice_is_written(tmp_path):
    assert not is_undecided(tmp_path)
    (tmp_path / "starts").mkdir()
    assert is_undecided(tmp_path)
    (tmp_path / "starts.json").touch()
    assert not is_undecided(tmp_path)


def test_seeds_of_the_beginnings_are_pinned():
    assert [seed_of(5, number) for number in (0, 1)] == [5, 4842663402287069284]
    assert all(0 <= seed_of(2**63 - 1, number) < 2**63 for number in range(9))


VIEWS = ["starts.count=3", "starts.epochs=2", "starts.by=silhouette", "starts.views=[0.5, 0.25]"]


@pytest.fixture(scope="module")
def of_views(source, tmp_path_factory):
    """A run whose beginnings have views of different strengths, and its settings."""
    config = tiny(source, *VIEWS, FEW, "augment.rotate=20", "second={rotate=40.0}")
    folder = tmp_path_factory.mktemp("views") / "run"
    result = train(config, folder)
    return config, folder, result


def test_beginnings_have_their_views_in_turn(of_views):
    config = of_views[0]
    for number, strength in enumerate((0.5, 0.25, 0.5)):
        settings = settings_of(config, number)
        assert settings.augment == config.augment.milder(strength)
        assert settings.second.rotate == 40.0 * strength
        assert settings.small is None
        assert (settings.starts, settings.seed) == (None, seed_of(config.seed, number))
    assert config.augment.rotate == 20.0


def test_the_largest_silhouette_goes_on_with_its_views(of_views, tmp_path):
    config, folder, result = of_views
    choice = json.loads((folder / "starts.json").read_text())
    assert list(choice) == ["chosen", "seed", "losses", "silhouettes", "views"]
    assert choice["views"] == [0.5, 0.25, 0.5]
    found = choice["silhouettes"]
    assert len(set(found)) == 3
    assert found[choice["chosen"]] == max(found)
    assert result.config == settings_of(config, choice["chosen"])
    for number, silhouette in enumerate(found):
        home = folder / "starts" / str(number)
        run = Run(settings_of(config, number), "cpu", fresh=False)
        restore(run, latest_checkpoint(home), folder / "config.toml")
        with evaluating(run.method.network), torch.no_grad():
            plain = run.method.predict(run.loader.apply_to_all(run.method.features))
        labels, rows = plain.assignment.labels.numpy(), plain.features.numpy()
        expected = silhouette_score(rows, labels, metric="cosine")
        assert silhouette == pytest.approx(expected, abs=1e-5)
    for chosen in range(3):  # whichever it is
        figures = {n: {"silhouette": float(n == chosen)} for n in range(3)}
        assert starts._best(figures, "silhouette") == chosen
        assert starts._best({n: {"loss": -float(n == chosen)} for n in range(3)}, "loss") == chosen
    assert starts._best({n: {"silhouette": 0.5, "loss": 1.0} for n in (1, 2)}, "silhouette") == 1


def test_what_goes_on_is_the_run_of_its_views(of_views, tmp_path):
    config, folder, _ = of_views
    assert_goes_on_alone(config, folder, tmp_path)


@pytest.mark.slow  # as of beginnings by their losses
def test_a_choice_of_views_is_made_after_an_interruption(of_views, tmp_path):
    config, folder, _ = of_views

    def progress(record):
        if (record.get("start"), record["epoch"]) == (2, 2):
            raise Interrupted

    with pytest.raises(Interrupted):
        train(config, tmp_path / "run", progress=progress)
    resume(tmp_path / "run")
    assert_same_run(tmp_path / "run", folder)


def test_a_run_goes_on_with_the_views_that_were_chosen(of_views, tmp_path):
    """Interrupted after the choice; then its page is written again."""
    config, folder, _ = of_views

    def progress(record):
        if "start" not in record and record["epoch"] == 3:
            raise Interrupted

    with pytest.raises(Interrupted):
        train(config, tmp_path / "run", progress=progress)
    assert resume(tmp_path / "run").config.augment.rotate < 20.0
    assert_same_run(tmp_path / "run", folder)
    before = (tmp_path / "run" / "report.html").read_bytes()
    assert write_page(tmp_path / "run").read_bytes() == before


def test_losses_of_different_views_are_not_compared():
    for wrong in ((1.0, 0.5), (0.5, 0.25)):
        with pytest.raises(UsageError, match="by must be 'silhouette' where views differ"):
            StartsConfig(views=wrong)
    with pytest.raises(UsageError, match="views must be no more than count=2 strengths"):
        StartsConfig(count=2, by="silhouette", views=(1.0, 0.5, 0.25))
    assert StartsConfig(count=1, views=(1.0, 0.5)).count == 1  # nothing is compared
    assert StartsConfig(views=(0.5,)).by == "loss"
    for wrong in ((), (0.0,), (1.5, 0.5), (-0.5,)):
        with pytest.raises(UsageError, match="views"):
            StartsConfig(by="silhouette", views=wrong)
    with pytest.raises(UsageError, match="by must be one of 'loss', 'silhouette'"):
        StartsConfig(by="acc")


def test_a_run_says_which_beginning_went_on(config, whole, of_views, tmp_path):
    assert beginning_words(tmp_path) is None
    choice = json.loads((whole / "starts.json").read_text())
    losses = [f"{loss:.3f}" for loss in choice["losses"]]
    best = losses.pop(choice["chosen"])
    words = f"beginning {choice['chosen'] + 1} of 3 went on: loss {best}; the others: "
    assert beginning_words(whole) == words + ", ".join(losses)
    text = '{"chosen": 1, "losses": [1, 2, null], "silhouettes": [0.25, 0.5, null], "views": '
    (tmp_path / "starts.json").write_text(text + "[1.0, 0.5, 1.0]}")
    assert beginning_words(tmp_path) == (
        "beginning 2 of 3 went on: silhouette 0.500 (views x 0.5); the others: 0.250 (views x 1), "
        "none (views x 1)"
    )
    (tmp_path / "starts.json").write_text(text + "[1.0, 1.0, 1.0]}")
    assert "silhouette 0.500; the others: 0.250, none" in beginning_words(tmp_path)
    (tmp_path / "starts.json").write_text('{"chosen": 0, "losses": [1, 2]}')
    assert beginning_words(tmp_path) == "beginning 1 of 2 went on: loss 1.000; the other: 2.000"
    assert "silhouette" in beginning_words(of_views[1])
    for damaged in (
        "",
        "[]",
        "{}",
        '{"chosen": 2, "losses": [1, 2]}',
        '{"chosen": 0, "losses": 1}',
    ):
        (tmp_path / "starts.json").write_text(damaged)
        assert beginning_words(tmp_path) is None


def test_one_beginning_is_none(config):
    alone = override(config, ["starts.count=1"])
    assert alone.starts is None
    assert alone == replace(config, starts=None)
    short = override(RunConfig(), ["epochs=1", "optim.warmup_epochs=0", "starts.count=1"])
    assert short.starts is None
    assert "starts" not in dump_config(short)
