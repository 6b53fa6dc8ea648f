"""The ends of a run by stand-ins: its bounds, its files in their order, its files left out."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from dualclust.train.config.encoder import EncoderConfig
from dualclust.train.config.run import RunConfig, override
from dualclust.train.data.splits import Skipped
from dualclust.train.loop import RunWarning
from dualclust.train.loop import train_and_resume as module

DIGEST, OTHER = 64 * "a", 64 * "b"


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
    assert module._named(RunConfig(), None) == RunConfig()
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


def test_settings_are_kept_with_the_place_of_their_data(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "digits" in module._kept(RunConfig())
    kept = module._kept(override(RunConfig(), ["data.source=photos"]))
    assert f'source = "{Path(tmp_path) / "photos"}"' in kept
