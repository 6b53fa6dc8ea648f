"""Papers' runs on a card, rehearsed: what goes on in the next call, and on another machine."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
from benchmarks.gpu import needs, paper, portable, records, stages, timing  # noqa: E402
from dualclust.cli.train import read_recipe  # noqa: E402
from dualclust.train.networks.network import build_network  # noqa: E402

RUNS = ("secu", "propos", "coke")


class Countdown(timing.Budget):
    """Time for a number of looks at the clock."""

    def __init__(self, looks: int) -> None:
        super().__init__(1e6)
        self.looks = looks

    def left(self) -> float:
        self.looks -= 1
        return 1e6 if self.looks >= 0 else 0.0


def run_in(folder: Path, looks: int, name: str = "secu", out: Path | None = None) -> records.Record:
    """Rehearse a paper's run for a while."""
    from benchmarks.gpu.rehearsal import Rehearsal

    machine, out = Rehearsal(), out or folder / "out"
    store = records.Store(out, folder)
    record = store.load(name, {"card": machine.name, "rehearsal": True})
    (stage,) = (stage for stage in paper.STAGES if stage.name == name)
    with machine.active():
        context = stages.Context(machine, Countdown(looks), out / "gpu", folder, record)
        return stages.run_stage(stage, store, context)


def test_a_run_that_was_stopped_goes_on_to_the_same_end(tmp_path, capsys):
    whole = run_in(tmp_path / "whole", 10**9)
    assert whole.status == "finished"
    first = run_in(tmp_path / "parts", 3)
    assert first.status == "stopped"
    assert first.parts["SeCu, CIFAR-10"].rows[0]["epochs"] == "1 of 3"
    assert "goes on after epoch" not in capsys.readouterr().out
    second = run_in(tmp_path / "parts", 10**9)
    assert "goes on after epoch 1 of 3\n" in capsys.readouterr().out
    assert (second.status, second.calls) == ("finished", 2)
    rows = [record.parts["SeCu, CIFAR-10"].rows[0] for record in (whole, second)]
    assert [row["calls"] for row in rows] == [1, 2]
    for name in ("epochs", "test ACC", "test NMI", "test ARI", "train ACC"):
        assert rows[0][name] == rows[1][name]


@pytest.mark.parametrize("name", [pytest.param("propos", marks=pytest.mark.slow), "coke"])
def test_another_machine_goes_on_from_the_results(name, tmp_path, capsys):
    """Of the first machine, results alone are left: small files, and gone once the run is over."""
    out = tmp_path / "results"
    first = run_in(tmp_path / "first", 3, name, out)
    (title,) = first.parts
    assert (first.status, first.parts[title].rows[0]["epochs"]) == ("stopped", "1 of 2")
    (state,) = (out / "gpu").glob("state-*")
    assert {file.suffix for file in state.iterdir()} == {".bin", ".json"}
    second = run_in(tmp_path / "second", 10**9, name, out)
    assert f"goes on after epoch 1 of 2, from {state.name}" in capsys.readouterr().out
    assert (second.status, second.calls) == ("finished", 2)
    assert second.parts[title].rows[0]["epochs"] == "2 of 2"
    assert not state.exists()
    assert len((out / "gpu" / f"{name}_cifar10.jsonl").read_text().splitlines()) == 2


class Holding:
    """A run of which a state needs no more than its tensors."""

    metrics_text = ""

    def __init__(self, tensors):
        self.tensors = tensors

    def state_dict(self):
        return self.tensors

    def identity(self):
        return {}


@pytest.mark.parametrize("bits", portable.PLANS)
def test_a_state_is_rounded_row_by_row(bits, tmp_path, monkeypatch):
    draw = partial(torch.randn, generator=torch.Generator().manual_seed(0))
    weight = draw(65, 9, 9) * torch.logspace(-3, 3, 65)[:, None, None]
    weight[3] = 0.0
    given = {
        "method": {
            "online": {"w": weight, "few": draw(5)},
            "target": {"w": weight + 1e-3 * weight.abs() * draw(65, 9, 9), "few": draw(5)},
            "labels": torch.arange(-3, 70_000),
            "price": draw(7).double(),
        },
        "optimizer": {"state": {0: {"momentum_buffer": draw(65, 9, 9)}}},
        "epoch": 3,
    }
    monkeypatch.setattr(portable, "PLANS", (bits,))
    monkeypatch.setattr(portable, "FILE", 30_000)
    kept = {}
    monkeypatch.setattr(portable, "restore", lambda run, point, file: kept.update(point.tensors))
    for _ in range(2):  # the second takes the place of the first
        portable.write_state(Holding(given), tmp_path / "state")  # type: ignore[arg-type]
    files = sorted((tmp_path / "state").glob("*.bin"))
    assert len(files) > 1
    assert max(file.stat().st_size for file in files) <= 30_000
    assert not (tmp_path / "state.new").exists()
    portable.read_state(Holding(given), tmp_path / "state")  # type: ignore[arg-type]
    method, buffer = given["method"], given["optimizer"]["state"][0]["momentum_buffer"]
    for name in ("online.few", "target.few", "labels", "price"):
        part, _, key = name.partition(".")
        expected = method[part][key] if key else method[part]
        assert torch.equal(kept[f"state.method.{name}"], expected)
        assert kept[f"state.method.{name}"].dtype == expected.dtype

    def off(found, expected, width):
        most = expected.flatten(1).abs().amax(1) / (2 ** (width - 1) - 1) / 2
        return bool(((found - expected).flatten(1).abs().amax(1) <= most * 1.05 + 1e-30).all())

    online, target = (kept[f"state.method.{name}.w"] for name in ("online", "target"))
    assert off(online, weight, bits.weights)
    difference = method["target"]["w"] - online
    assert off(target - online, difference, bits.target)
    momentum = kept["state.optimizer.state.0.momentum_buffer"]
    assert off(momentum, buffer, bits.momentum) if bits.momentum else not momentum.any()
    assert torch.equal(online[3], weight[3])


@pytest.mark.parametrize("name", RUNS)
def test_the_state_of_a_recipe_is_small(name):
    """Parameters and labels of the whole size, without their values."""
    config = read_recipe(f"{name}_cifar10")
    with torch.device("meta"):
        network = build_network(config.network, (3, 32, 32))
    large = [p.numel() for p in network.parameters() if p.ndim > 1 and p.numel() >= portable.LARGE]
    few = sum(p.numel() for p in network.state_dict().values()) - sum(large)
    sizes = dict.fromkeys(["weights", "momentum"], sum(large))
    sizes["target"] = sum(large) if name == "propos" else 0
    labels = 60_000 * len(config.heads.clusters)
    bits = portable.bits_for(sizes, exact=4 * 3 * few + labels + 2**20)
    assert bits == portable.PLANS[name == "propos"]
    with pytest.raises(ValueError, match="does not fit into 56,000,000 bytes"):
        portable.bits_for({"weights": 40_000_000}, 0)


def test_the_paper_needs_data(tmp_path):
    class Card:
        toy = False

    context = stages.Context(Card(), timing.Budget(1), tmp_path, tmp_path, None)  # type: ignore[arg-type]
    for recipe in paper.NAMES:
        context.data = None
        with pytest.raises(needs.CannotRun, match="DUALCLUST_DATA"):
            paper.settings(context, recipe)
        context.data = str(tmp_path / "nothing")
        with pytest.raises(needs.CannotRun, match="there is no data at"):
            paper.settings(context, recipe)
