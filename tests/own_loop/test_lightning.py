"""The callback: what it shows and saves, in any loop that calls its hooks and in Lightning."""

from __future__ import annotations

import json
import sys
import types
from importlib.util import find_spec

import pytest
import torch
from torch import nn

from dualclust.algos.core.errors import MissingExtraError, OutputError, UsageError
from dualclust.torch import (
    PricedLabels,
    PricedRouter,
    PriceLog,
    lightning,
    lightning_callback,
    price_figures,
)

INSTALLED = [name for name in ("lightning", "pytorch_lightning") if find_spec(name)]


class Watched(nn.Module):
    """A model that keeps what is logged."""

    def __init__(self):
        super().__init__()
        self.head = nn.Sequential(nn.Linear(4, 3), PricedLabels(3, upper=1.1))
        self.router = PricedRouter(4)
        self.bar, self.rest = {}, {}

    def log_dict(self, values, prog_bar=False):
        (self.bar if prog_bar else self.rest).update(values)


def trainer(epoch=0, step=0, first=True):
    return types.SimpleNamespace(current_epoch=epoch, global_step=step, is_global_zero=first)


def epoch(log, model, number=0, *, first=True):
    log.on_train_epoch_start(trainer(number), model)
    torch.manual_seed(number)
    for _ in range(5):
        model.head(torch.randn(30, 4))
    log.on_train_epoch_end(trainer(number, 5 * number + 5, first), model)


def test_an_epoch_is_shown_and_saved(tmp_path):
    model, path = Watched(), tmp_path / "new" / "prices.jsonl"
    log = PriceLog(path)
    log.on_fit_start(trainer(), model)
    epoch(log, model)
    epoch(log, model, 1)
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert [(row["epoch"], row["step"]) for row in rows] == [(0, 5), (1, 10)]
    found = rows[-1]["modules"]["head.1"]
    label = model.head[1]
    assert found["counts"] == label.counts.tolist()
    assert sum(found["counts"]) == 150  # of this epoch alone
    assert found["prices"] == label.prices.tolist()
    assert found["largest"] == max(found["counts"]) / 50
    assert found["violation"] == float(label.violation())
    assert model.bar["head.1/smallest"] == min(found["counts"]) / 50
    spread = max(found["prices"]) - min(found["prices"])
    assert model.rest["head.1/price_range"] == spread > 0
    assert rows[-1]["modules"]["router"]["counts"] == [0] * 4
    assert model.bar["router/smallest"] == model.rest["router/violation"] == 0.0


def test_only_the_first_rank_saves(tmp_path):
    model = Watched()
    epoch(PriceLog(tmp_path / "prices.jsonl"), model, first=False)
    assert list(tmp_path.iterdir()) == []
    epoch(PriceLog(), model)
    assert list(tmp_path.iterdir()) == []
    assert model.bar


def test_a_model_without_prices_is_refused():
    with pytest.raises(UsageError, match="Linear must hold a PricedLabels or a PricedRouter"):
        PriceLog().on_fit_start(trainer(), nn.Linear(2, 2))


def test_a_file_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match=r"prices\.jsonl cannot be written: .*To fix this"):
        epoch(PriceLog(tmp_path / "file" / "prices.jsonl"), Watched())


def test_figures_are_those_of_each_module():
    model = Watched()
    assert list(price_figures(model)) == ["head.1", "router"]
    model.head[1].count(torch.tensor([0, 0, 0, 2, 2, 2]))
    found = price_figures(model)["head.1"]
    assert found.counts == [3, 0, 3]
    assert (found.smallest, found.largest) == (0.0, 1.5)
    assert found.violation == pytest.approx(1.8)  # of 0.9 * 2


def test_without_lightning_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setattr(lightning, "PACKAGES", ("no_such_package.pytorch", "no_such_lightning"))
    with pytest.raises(MissingExtraError, match="pip install lightning"):
        lightning_callback()


def test_the_callback_is_of_the_package_that_is_loaded(monkeypatch):
    for name in lightning.PACKAGES:
        package = types.ModuleType(name)
        package.Callback = type("Callback", (), {"package": name, "on_fit_end": lambda *_: None})
        monkeypatch.setitem(sys.modules, name.partition(".")[0], types.ModuleType("parent"))
        monkeypatch.setitem(sys.modules, name, package)
    assert lightning_callback().package == "lightning.pytorch"
    monkeypatch.delitem(sys.modules, "lightning.pytorch")
    monkeypatch.delitem(sys.modules, "lightning")
    found = lightning_callback("a.jsonl")
    assert found.package == "pytorch_lightning"
    assert isinstance(found, PriceLog)
    assert found.path.name == "a.jsonl"
    assert hasattr(found, "on_fit_end")


def test_a_part_that_lightning_lacks_is_not_hidden(monkeypatch):
    def failing(name):
        msg = "No module named 'torchmetrics'"
        raise ModuleNotFoundError(msg, name="torchmetrics")

    monkeypatch.setattr(lightning, "import_module", failing)
    with pytest.raises(ModuleNotFoundError, match="torchmetrics"):
        lightning_callback()


@pytest.mark.skipif(not INSTALLED, reason="neither lightning nor pytorch_lightning is installed")
@pytest.mark.filterwarnings("ignore")  # those of Lightning
def test_lightning_trains_with_the_callback(tmp_path):
    package = "lightning.pytorch" if "lightning" in INSTALLED else "pytorch_lightning"
    pl = pytest.importorskip(package)

    class Own(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer, self.label = nn.Linear(4, 3), PricedLabels(3)

        def training_step(self, batch, index):
            scores = self.layer(batch)
            return nn.functional.cross_entropy(scores, self.label(scores))

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    own, path = Own(), tmp_path / "prices.jsonl"
    fit = pl.Trainer(
        max_epochs=3,
        accelerator="cpu",
        logger=False,
        enable_progress_bar=False,
        enable_checkpointing=False,
        enable_model_summary=False,
        callbacks=[lightning_callback(path)],
        default_root_dir=tmp_path,
    )
    fit.fit(own, torch.utils.data.DataLoader(torch.randn(64, 4), batch_size=16))
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert [row["step"] for row in rows] == [4, 8, 12]
    assert all(sum(row["modules"]["label"]["counts"]) == 64 for row in rows)
    assert {"label/smallest", "label/violation"} <= set(fit.callback_metrics)
    fit.save_checkpoint(tmp_path / "own.ckpt")
    state = torch.load(tmp_path / "own.ckpt", weights_only=True)["state_dict"]
    assert torch.equal(state["label.price_lower"], own.label.price_lower)
