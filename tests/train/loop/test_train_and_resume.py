"""The ends of a run by stand-ins: its bounds, its files in their order, its files left out."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from dualclust.algos.core.errors import OutputError
from dualclust.train.config.encoder import EncoderConfig
from dualclust.train.config.run import RunConfig, override
from dualclust.train.data.splits import Skipped
from dualclust.train.loop import RunWarning
from dualclust.train.loop import train_and_resume as module

DIGEST, OTHER = 64 * "a", 64 * "b"


def ended(n=10):
    """A run at its end, whose clusters have bounds of their own."""
    bounds = SimpleNamespace(lower=torch.tensor([3, 2, 4]), upper=torch.tensor([5, 9, 7]))
    ranks = SimpleNamespace(first=True, wait=lambda: None)
    config = override(RunConfig(epochs=2), ["heads.clusters=[2, 3]", "heads.target=3"])
    method = SimpleNamespace(
        bounds=[None, bounds], target=1, followed=1, network="the network", config=config
    )
    return SimpleNamespace(
        config=config,
        epoch=2,
        ranks=ranks,
        method=method,
        loader=SimpleNamespace(shown="the images", n=n),
        metrics=[{"epoch": 2}],
        metrics_text="{}\n",
        predict=lambda: "a prediction",
    )


def test_a_result_says_the_smallest_and_the_largest_size_that_is_allowed(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "RunPage", lambda run, folder: SimpleNamespace(see=None))
    written = []
    monkeypatch.setattr(module, "_write", lambda *given: written.append(given[2]))
    run = ended()
    run.ranks.wait = lambda: written.append("wait")  # until the first rank has written all
    with pytest.raises(OutputError, match="has gone while the run was under way"):
        module._finish(run, tmp_path, None)
    assert written == ["a prediction"]
    written.clear()
    (tmp_path / "config.toml").touch()
    found = module._finish(run, tmp_path, None)
    assert (found.lower, found.upper) == (2, 9)
    assert (found.folder, found.metrics, found.prediction) == (
        tmp_path,
        [{"epoch": 2}],
        "a prediction",
    )
    assert written == ["a prediction", "wait"]

    def full(*given):
        msg = "cannot write x: the disk is full. To fix this, buy another"
        raise OutputError(msg)

    monkeypatch.setattr(module, "_write", full)
    words = r"^cannot write x: the disk is full\. The run itself is saved\. To fix this, make room"
    with pytest.raises(OutputError, match=words):
        module._finish(ended(), tmp_path, None)


def test_all_ranks_have_looked_at_the_folder_before_the_first_one_makes_it(tmp_path, monkeypatch):
    log = []

    def maker(*given):
        log.append("begin")
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "check_free", lambda *given: log.append("look"))
    monkeypatch.setattr(module, "_maker", maker)
    ranks = SimpleNamespace(first=True, wait=lambda: log.append("wait"))
    with pytest.raises(KeyboardInterrupt):
        module.train(RunConfig(), tmp_path / "run", ranks=ranks)
    assert log == ["look", "wait", "begin"]


@pytest.mark.parametrize(("n", "most"), [(10, 9.0), (9, float("inf")), (8, float("inf"))])
def test_the_results_of_a_run_and_last_its_model(tmp_path, monkeypatch, n, most):
    """An upper bound that allows all samples is none."""
    log = []

    def note(name):
        return lambda *given, **more: log.append((name, given, more)) or "model"

    for name in ("write_metrics", "write_results", "write_curves", "trained_model", "write_file"):
        monkeypatch.setattr(module, name, note(name))
    run = ended(n)
    run.method.write_pictures = note("pictures")
    page = SimpleNamespace(see=note("see"), write=note("page"))
    module._write(run, tmp_path, "a prediction", page)
    said = {name: (given, more) for name, given, more in log}
    assert said["write_curves"] == (
        (tmp_path / "curves.png", run.metrics),
        {"bounds": (2.0, most)},
    )
    assert said["write_metrics"] == ((tmp_path, "{}\n"), {})
    assert said["write_results"][0][1:] == (
        "a prediction",
        run.method.bounds[1],
        "the images",
        "the network",
    )
    assert said["pictures"] == ((tmp_path, "the images", "a prediction"), {})
    assert said["see"] == (("a prediction",), {"most": 20_000})
    assert said["page"] == ((), {"done": True})
    assert log[-1] == ("write_file", (tmp_path / "model.safetensors", "model"), {})


@pytest.mark.parametrize(
    ("reason", "words"),
    [("cannot decode a.png: short", "cannot decode a.png: short"), ("short", "a.png: short")],
)
def test_files_that_are_left_out_are_counted_and_the_first_is_named(tmp_path, reason, words):
    skipped = (Skipped("a.png", reason), Skipped("b.png", "worse"))
    with pytest.warns(RunWarning) as said:
        module.tell_skipped(tmp_path, skipped, 8)
    assert [str(one.message) for one in said] == [
        f"2 of 10 files cannot be read and are left out, the first: {words} (all of them: "
        f"{tmp_path / 'skipped.csv'}, from the first epoch on)"
    ]


def test_settings_name_what_a_run_starts_from_in_any_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(module, "start_digest", lambda config, network: DIGEST)
    config = override(RunConfig(), ["encoder.weights=w.safetensors"])
    found = module._named(config, None)
    assert found.encoder == EncoderConfig(weights=str(tmp_path / "w.safetensors"), digest=DIGEST)
    assert found.network == config.network
    for weights in ("", "random"):
        asked = replace(config, encoder=EncoderConfig(weights=weights, digest=OTHER))
        assert module._named(asked, None).encoder == asked.encoder  # the first digest stands
    assert module._named(RunConfig(), None).encoder == EncoderConfig(digest=DIGEST)
    named = module._named(RunConfig(), torch.nn.Linear(2, 2))
    assert named.network.name == "own:torch.nn.modules.linear.Linear"
    monkeypatch.setattr(module, "start_digest", lambda config, network: "")
    assert module._named(config, None) == config
    assert module._named(RunConfig(), None) == RunConfig()


def test_settings_are_kept_with_the_place_of_their_data(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "digits" in module._kept(RunConfig())
    kept = module._kept(override(RunConfig(), ["data.source=photos"]))
    assert f'source = "{Path(tmp_path) / "photos"}"' in kept
