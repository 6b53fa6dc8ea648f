"""The GPU day's first look, rehearsed: kernels in each run of the suite, all of it in long ones.

What the rest of it compares on a card, tests of training compare on the second device: captured and
compiled steps, values that a step reads, runs that end like those of the CPU.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
from benchmarks.gpu import conformance, program, runs  # noqa: E402
from dualclust import backends  # noqa: E402
from tests.bench.test_gpu_day import assert_rehearsed, rehearsed  # noqa: E402


@pytest.fixture(scope="module")
def conformed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, str]:
    """Results, scratch and what was said of a rehearsal of the stage."""
    return rehearsed(tmp_path_factory, ("conformance",))


@pytest.mark.slow
def test_the_stage_is_rehearsed(conformed):
    assert_rehearsed(*conformed, ("conformance",))


@pytest.mark.slow
def test_the_conformance_of_each_row_and_method_is_recorded(conformed):
    found = json.loads((conformed[0] / "gpu" / "conformance.json").read_text())["parts"]
    rows = {row["kernel"]: row for row in found["kernels"]["rows"]}
    assert rows.keys() == {name for name, row in backends.TABLE.items() if ("torch", "cuda") in row}
    assert all(row["verdict"] == "ok" and row["instances"] > 1 for row in rows.values())
    reads = {row["method"]: row for row in found["reads"]["rows"]}
    waits = {name: row["waits"] for name, row in reads.items()}
    assert waits == dict.fromkeys(runs.METHODS, 0) | {"gatcluster": 1, "mi_margin": 1}
    graphs = [row for row in found["graph"]["rows"] if "verdict" in row]
    assert len(graphs) == 2
    for row in graphs:  # GATCluster's epoch has one batch of the shorter length: too few to capture
        assert row["graphs an epoch"] == 1 + (row["method"] != "gatcluster")
        assert row["off"] < 1e-8


def off_by_a_little(found):
    value, counts, *rest = found
    return value, counts * (1 + 1e-7), *rest


@pytest.fixture
def wrong_row(monkeypatch):
    """A CUDA row that is off in the seventh digit."""
    from dualclust.backends import torch_engine

    right = torch_engine.soft_counts
    monkeypatch.setattr(
        torch_engine, "soft_counts", lambda *a, **o: off_by_a_little(right(*a, **o))
    )
    backends._load.cache_clear()
    yield
    monkeypatch.undo()
    backends._load.cache_clear()


def kernels_alone(monkeypatch, tmp_path):
    """The command, with a first stage that ends after the kernels."""
    short = conformance.STAGE._replace(parts=conformance.STAGE.parts[:1])
    monkeypatch.setattr(program, "STAGES", (short,))
    words = ["--rehearse", "--stages", "conformance", "--scratch", str(tmp_path)]
    code = program.main([*words, "--out", str(tmp_path / "o")])
    found = json.loads((tmp_path / "o" / "gpu" / "conformance.json").read_text())
    return code, {row["kernel"]: row for row in found["parts"]["kernels"]["rows"]}


def test_a_wrong_kernel_is_found(wrong_row, monkeypatch, tmp_path, capsys):
    code, rows = kernels_alone(monkeypatch, tmp_path)
    assert code == 1
    assert rows["soft_counts"]["verdict"] == "differs"
    assert 1e-8 < rows["soft_counts"]["off"] < 1e-6
    assert rows["curvature"]["verdict"] == "ok"
    assert "WRONG kernels: soft_counts" in capsys.readouterr().out
    assert "**1 wrong:**" in (tmp_path / "o" / "gpu.md").read_text()


def test_a_row_without_instances_is_found(monkeypatch, tmp_path):
    row = {("torch", "cuda"): "torch_engine:segment_sum"}
    monkeypatch.setitem(backends.TABLE, "new_kernel", row)
    code, rows = kernels_alone(monkeypatch, tmp_path)
    assert code == 1
    assert "no instances of new_kernel" in rows["new_kernel"]["error"]
