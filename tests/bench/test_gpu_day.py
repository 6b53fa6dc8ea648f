"""The GPU day, rehearsed: every stage at toy size on the second device; what it must refuse."""

from __future__ import annotations

import importlib
import json
import math
import os
import subprocess
import sys
import time
import warnings
from functools import partial
from pathlib import Path
from unittest.mock import patch

import pytest

torch = pytest.importorskip("torch")
from benchmarks.gpu import needs, program, records, stages, timing  # noqa: E402
from benchmarks.gpu.__main__ import main as command  # noqa: E402
from tests.programs import program as program_of  # noqa: E402

ROOT = Path(__file__).parents[2]
DAY = ("constants", "conformance", "functions", "steps", "triton")
RUNS = ("secu",)  # the others: test_gpu_runs.py
QUICK = tuple(stage for stage in (*DAY, *RUNS) if stage != "conformance")
"""Stages of every run of the suite; the other: test_gpu_conformance.py."""


def call(*words: object, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks.gpu", *map(str, words)]
    env = os.environ | {"OMP_NUM_THREADS": "1"} | environment
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, str]:
    """Results, scratch and what was said of a rehearsal of the quick stages."""
    return rehearsed(tmp_path_factory, QUICK)


def rehearsed(factory: pytest.TempPathFactory, names: tuple[str, ...]) -> tuple[Path, Path, str]:
    out, scratch = (factory.mktemp(name) for name in ("out", "scratch"))
    done = call("--rehearse", "--stages", ",".join(names), "--out", out, "--scratch", scratch)
    assert done.returncode == 0, done.stdout + done.stderr
    return out, scratch, done.stdout


def test_every_stage_is_rehearsed(day):
    assert_rehearsed(*day, QUICK)


def assert_rehearsed(out, _, said, names):
    for stage in names:
        found = json.loads((out / "gpu" / f"{stage}.json").read_text())
        assert found["status"] == "finished", said
        assert found["identity"]["rehearsal"] is True
        assert found["environment"]["versions"]["torch"] == torch.__version__
        assert all(part["status"] == "finished" for part in found["parts"].values())
    assert "WRONG" not in said


def test_the_model_without_a_card_takes_the_constants(day):
    card = program_of("launches").measured_card(day[0] / "gpu" / "constants.json")
    assert len(card) == 5
    assert all(0 < value < math.inf for value in card)


def test_the_page_shows_each_part_and_names_the_rehearsal(day):
    page = (day[0] / "gpu.md").read_text()
    assert "A rehearsal without a card" in page
    for stage in program.STAGES:
        assert f"## {stage.title}" in page
        if stage.name in QUICK:
            assert all(f"### {part.name} (" in page for part in stage.parts)
    for heading in ("- commit: ", "- digest of the sources: ", "min-max", "of peak", "test ACC"):
        assert heading in page


def test_what_is_left_behind_is_small(day):
    out, scratch, _ = day
    assert not list(out.rglob("*.safetensors")) + list(out.rglob("checkpoints"))
    assert sum(file.stat().st_size for file in out.rglob("*") if file.is_file()) < 2**20
    assert list(scratch.rglob("checkpoints"))
    curves = {file.name for file in (out / "gpu").iterdir()}
    assert curves >= {"secu_cifar10.png", "secu_cifar10.jsonl", "secu_cifar10.toml"}


def test_a_finished_day_is_not_repeated(day, tmp_path, monkeypatch, capsys):
    _, scratch, _ = day
    monkeypatch.setattr(program, "run_stage", None)  # nothing is trained
    words = ["--rehearse", "--stages", ",".join(QUICK)]
    assert program.main([*words, "--out", str(tmp_path), "--scratch", str(scratch)]) == 0
    assert capsys.readouterr().out.count("not repeated") == len(QUICK)
    assert (tmp_path / "gpu.md").read_text().count("### ") > 10


def test_a_day_has_the_minutes_of_one_call_and_its_worth_first():
    assert [stage.name for stage in program.DAY] == list(DAY)
    assert [stage.name for stage in program._chosen("")] == list(DAY)
    assert sum(stage.minutes for stage in program.DAY[:-1]) <= program.ONE_CALL
    assert sum(stage.minutes for stage in program.DAY) <= 12
    for stage in program.DAY:  # no part takes the time of all that follow
        *first, _ = stage.parts
        assert sum(part.seconds for part in first if part.seconds < 1e9) <= 60 * stage.minutes + 60


@pytest.mark.slow(reason="a second rehearsal of the papers' runs")
@pytest.mark.filterwarnings("ignore:subprocess .* is still running:ResourceWarning")  # it is to
def test_a_detached_run_is_picked_up(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    words = ["--rehearse", "--stages", "coke", "--scratch", str(tmp_path / "scratch")]
    assert program.main([*words, "--detach"]) == 0
    assert "goes on" in capsys.readouterr().out
    for _ in range(20):
        code = program.main([*words, "--out", str(tmp_path / "out"), "--pick-up", "--budget", "2"])
        said = capsys.readouterr().out
        if "still at work" not in said:
            break
    assert code == 0, said
    assert "coke: finished" in said
    assert json.loads((tmp_path / "out" / "gpu" / "coke.json").read_text())["calls"] == 1
    assert "CoKe, CIFAR-10" in (tmp_path / "out" / "gpu.md").read_text()


def test_idle_time_is_what_no_kernel_covers():
    from benchmarks.gpu.card import _idle

    assert _idle([(0.0, 4.0), (1.0, 3.0), (5.0, 10.0)]) == pytest.approx(0.1)
    assert _idle([(2.0, 3.0)]) == 0.0
    assert _idle([]) is None


def test_without_a_card_it_says_so(monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(sys, "argv", ["benchmarks.gpu"])
    assert command() == 2
    said = capsys.readouterr().err
    assert "sees no CUDA device" in said
    assert "--rehearse" in said


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--stages", "steps,stebs"], "--stages must be of constants, .*, coke, got stebs"),
        (["--device", "cpu"], "--device must be cuda or cuda:N, got 'cpu'"),
        (["--device", "no such"], "--device must be cuda or cuda:N, got 'no such'"),
    ],
)
def test_options_that_do_not_fit(words, message):
    with pytest.raises(needs.CannotRun, match=message):
        program.main(words)


def test_versions_below_the_supported_ones_are_named_together():
    found: dict[str, str | None] = {name: "99.0" for name in needs.REQUIRED}
    needs.check(found)
    needs.check(found | {"torch": "2.11.0+cu130"})
    with pytest.raises(needs.CannotRun) as error:
        needs.check(found | {"torch": "2.10.1", "numba": None}, (3, 10, 4))
    assert str(error.value) == (
        "the GPU day needs Python 3.11 or newer, found 3.10; torch 2.11 or newer, found 2.10.1; "
        "numba 0.61 or newer, not installed"
    )


def test_a_package_is_found_under_the_name_of_the_one_that_brings_it(monkeypatch):
    monkeypatch.setattr(sys, "meta_path", [needs._Alias("brought_along", "json"), *sys.meta_path])
    try:
        assert importlib.import_module("brought_along.decoder") is sys.modules["json.decoder"]
        assert sys.modules["brought_along"] is json
        assert json.__spec__ is not None
        assert json.__spec__.name == "json"
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module("brought_along.nothing")
    finally:
        for name in [name for name in sys.modules if name.startswith("brought_along")]:
            del sys.modules[name]


def test_an_old_array_api_compat_is_named(monkeypatch, capsys):
    import array_api_compat

    needs.prepare()
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(array_api_compat, "__version__", "1.13.1")
    needs.prepare()
    assert "array-api-compat 1.13.1: below 1.14 training steps read" in capsys.readouterr().err


class Nowhere:
    """A machine of which a stage needs no more than this."""

    name, toy = "none", True

    def describe(self):
        return {}

    def free(self):
        pass


def run_parts(folder, seconds, *parts):
    store = records.Store(folder, folder)
    own = [p if isinstance(p, stages.PartOf) else stages.PartOf(p.__name__, p) for p in parts]
    stage = stages.Stage("speed", 1.0, own, "Speed")
    record = store.load("speed", {})
    budget = timing.Budget(seconds)
    context = stages.Context(Nowhere(), budget, folder, folder, record)  # type: ignore[arg-type]
    # Asking git takes longer than the budget where the machine is busy.
    with patch.object(stages, "environment", lambda machine: {}):
        return store, stages.run_stage(stage, store, context)


def test_a_budget_ends_a_part_and_keeps_its_rows(tmp_path):
    def endless(context):
        for number in range(10**9):
            yield {"number": number}
            time.sleep(0.01)

    def never(context):
        raise AssertionError

    store, found = run_parts(tmp_path, 1.0, endless, never)
    assert found.status == "stopped"
    assert found.parts["endless"].status == "stopped"
    assert 1 < len(found.parts["endless"].rows) < 200
    assert "never" not in found.parts
    assert store.load("speed", {}).parts == found.parts
    assert store.load("speed", {"card": "another"}).parts == {}


def test_rows_that_are_complete_are_not_measured_again(tmp_path):
    done = []

    def rows_of(label, slow):
        done.append(label)
        yield {"row": 1}
        if slow:
            time.sleep(60)
        yield {"row": 2}

    def measured(context, slow="c"):
        for label in ("a", "b", "c"):
            if label == "b":
                yield {"label": "in between"}
            rows = partial(rows_of, label, label == slow)
            yield from stages.attempted(context, {"label": label}, rows)

    def fast(context):
        yield from measured(context, slow="")

    fast.__name__ = "measured"
    _, found = run_parts(tmp_path, 2.0, measured)
    assert (found.status, done) == ("stopped", ["a", "b", "c"])
    _, found = run_parts(tmp_path, 60.0, fast)
    assert (found.status, done) == ("finished", ["a", "b", "c", "c"])
    rows = [(row["label"], row.get("row")) for row in found.parts["measured"].rows]
    assert rows == [
        ("a", 1), ("a", 2), ("in between", None), ("b", 1), ("b", 2), ("c", 1), ("c", 2),
    ]  # fmt: skip


def test_rows_are_written_as_they_come(tmp_path):
    """A command that is killed leaves what it has measured."""
    seen = []

    def measured(context):
        for number in range(3):
            yield {"number": number}
            stored = json.loads((tmp_path / "gpu" / "speed.json").read_text())
            seen.append(len(stored["parts"]["measured"]["rows"]))

    run_parts(tmp_path, 60.0, measured)
    assert seen == [1, 2, 3]


def test_a_function_and_a_part_end_at_their_own_seconds(tmp_path, monkeypatch):
    def waiting(context):
        yield from stages.attempted(context, {"label": "a"}, lambda: time.sleep(60), 0.2)
        yield from stages.attempted(context, {"label": "b"}, lambda: {"value": 1}, 60.0)
        time.sleep(60)

    def after(context):
        yield {"label": "c"}

    monkeypatch.setattr(Nowhere, "toy", False)
    parts = [
        stages.PartOf("waiting", waiting, seconds=1.0),
        stages.PartOf("after", after),
    ]
    _, found = run_parts(tmp_path, 60.0, *parts)
    assert [part.status for part in found.parts.values()] == ["stopped", "finished"]
    assert found.parts["waiting"].rows == [
        {"label": "a", "note": "stopped after 0 s"},
        {"label": "b", "value": 1},
    ]


def test_an_error_costs_its_own_row_alone(tmp_path, capsys):
    def broken(context):
        yield from stages.attempted(context, {"label": "a"}, lambda: {"value": 1 / 0})
        yield from stages.attempted(context, {"label": "b"}, lambda: {"value": 1})

    def failing(context):
        yield {"label": "c"}
        msg = "no such thing"
        raise LookupError(msg)

    _, found = run_parts(tmp_path, 60.0, broken, failing)
    assert found.status == "failed"
    assert [row.get("value") for row in found.parts["broken"].rows] == [None, 1]
    assert found.parts["failing"].note == "LookupError: no such thing"
    assert len(found.wrong()) == 2
    assert "ZeroDivisionError" in capsys.readouterr().err


def test_a_card_s_warnings_are_counted_by_line(monkeypatch):
    """What torch says of synchronization counts, and not that it can say so."""
    from benchmarks.gpu.card import Card

    modes = []

    def set_mode(mode):
        modes.append(mode)
        warnings.warn("Synchronization debug mode is a prototype: synchronizing", stacklevel=1)

    monkeypatch.setattr(torch.cuda, "set_sync_debug_mode", set_mode)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: None)
    card = object.__new__(Card)
    card.device = torch.device("cpu")

    def waits():
        for _ in range(3):
            warnings.warn("called a synchronizing CUDA operation", stacklevel=1)

    found = card.quiet(waits)
    assert list(found.reads.values()) == [3]
    assert next(iter(found.reads)).startswith("tests/bench/test_gpu_day.py:")
    assert modes == ["warn", "default"]
    with pytest.warns(UserWarning, match="prototype"):
        assert card.quiet(lambda: None).reads == {}
    assert modes[2:] == ["warn", "default", "error", "default"]
