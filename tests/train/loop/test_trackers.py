"""TensorBoard, Weights & Biases and MLflow get what metrics.jsonl has, and decide about nothing."""

import json
import sys
import types
from types import SimpleNamespace

import pytest

from dualclust.algos.core.errors import CheckpointError, MissingExtraError, UsageError
from dualclust.common.ranks import Ranks
from dualclust.train.config.run import LOGS, RunConfig, dump_config, from_mapping, load_config
from dualclust.train.loop import RunWarning, resume, train
from dualclust.train.loop.trackers import TRACKERS, tracked
from tests.train.runs import Interrupted, assert_same_run, interrupt_after, tiny

SHORT = ("epochs=3", "heads.clusters=[10]", "evaluation.views=0", "assignment.rounding=outward")
STARTS = ("starts.count=2", "starts.epochs=1")


class FakeRun:
    def __init__(self, options):
        self.options, self.steps, self.code = options, {}, None

    def log(self, figures, step):
        # W&B takes no step twice.
        assert step > max(self.steps, default=0)
        self.steps[step] = figures

    def finish(self, exit_code):
        self.code = exit_code


@pytest.fixture
def wandb(monkeypatch):
    """A module with what we call of W&B; the runs that were begun."""
    module, runs = types.ModuleType("wandb"), []

    def init(**options):
        runs.append(FakeRun(options))
        return runs[-1]

    module.init = init
    monkeypatch.setitem(sys.modules, "wandb", module)
    return runs


class FakeClient:
    """What we call of MLflow's client; all clients share a store."""

    store: dict = {}  # noqa: RUF012

    def get_experiment_by_name(self, name):
        return self.store.get(("experiment", name))

    def create_experiment(self, name):
        self.store["experiment", name] = types.SimpleNamespace(experiment_id="7")
        return "7"

    def create_run(self, experiment_id, run_name):
        assert experiment_id == "7"
        run = f"id{len(self.store)}"
        self.store[run] = {"name": run_name, "params": {}, "metrics": {}, "status": "RUNNING"}
        return types.SimpleNamespace(info=types.SimpleNamespace(run_id=run))

    def log_param(self, run_id, key, value):
        assert key not in self.store[run_id]["params"]
        self.store[run_id]["params"][key] = value

    def log_metric(self, run_id, key, value, step):
        assert (key, step) not in self.store[run_id]["metrics"]
        self.store[run_id]["metrics"][key, step] = value

    def set_terminated(self, run_id, status):
        self.store[run_id]["status"] = status


@pytest.fixture
def mlflow(monkeypatch):
    module, store = types.ModuleType("mlflow"), {}
    module.MlflowClient = FakeClient
    monkeypatch.setattr(FakeClient, "store", store)
    monkeypatch.setitem(sys.modules, "mlflow", module)
    return store


def written(folder):
    """What metrics.jsonl says, by epoch."""
    records = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    return {record.pop("epoch"): record for record in records}


def in_two_parts(source, folder, *changes):
    with pytest.raises(Interrupted):
        train(tiny(source, *SHORT, *changes), folder, progress=interrupt_after(2))
    resume(folder)


def test_every_name_has_a_tracker():
    assert set(LOGS) == set(TRACKERS)


@pytest.mark.parametrize("starts", [(), STARTS], ids=["", "starts"])
def test_all_three_get_every_epoch_once(source, tmp_path, wandb, mlflow, starts):
    pytest.importorskip("tensorboard")
    folder = tmp_path / "run"
    in_two_parts(source, folder, 'log=["wandb", "mlflow", "tensorboard"]', *starts)
    expected = written(folder)
    assert list(expected) == [1, 2, 3]
    first, second = wandb
    assert {**first.steps, **second.steps} == expected
    assert (first.code, second.code) == (1, 0)
    assert first.options["id"] == second.options["id"] == ids_of(folder)["wandb"]
    assert first.options["resume"] == "allow"
    assert first.options["config"]["optim"]["name"] == "sgd"
    assert first.options["dir"] == str(folder)
    [run] = [value for key, value in mlflow.items() if isinstance(key, str)]
    flat = {(name, step): value for step, r in expected.items() for name, value in r.items()}
    assert run["metrics"] == flat
    assert (run["name"], run["status"]) == ("run", "FINISHED")
    assert run["params"]["optim.name"] == "sgd"
    assert shown_by_tensorboard(folder) == pytest.approx(flat, rel=1e-6)


def ids_of(folder):
    return json.loads((folder / "trackers.json").read_text())


def shown_by_tensorboard(folder):
    """What TensorBoard's own reader makes of the folder."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    reader = EventAccumulator(str(folder / "tensorboard"))
    reader.Reload()
    found = {}
    for name in reader.Tags()["scalars"]:
        for event in reader.Scalars(name):
            assert (name, event.step) not in found, "an epoch is shown twice"
            found[name, event.step] = event.value
    return found


def test_trackers_change_nothing_of_a_run(source, tmp_path, wandb):
    train(tiny(source, *SHORT), tmp_path / "plain")
    config = tiny(source, *SHORT, 'log=["wandb"]')
    train(config, tmp_path / "logged")
    (tmp_path / "logged" / "trackers.json").unlink()
    text = (tmp_path / "logged" / "config.toml").read_text()
    assert 'log = ["wandb"]\n' in text
    (tmp_path / "logged" / "config.toml").write_text(text.replace('log = ["wandb"]\n', ""))
    assert_same_run(tmp_path / "logged", tmp_path / "plain")


def test_a_run_may_be_resumed_with_other_trackers(source, tmp_path, wandb):
    """They are no part of what a run is: a tracker that comes late gets all epochs."""
    folder = tmp_path / "run"
    with pytest.raises(Interrupted):
        train(tiny(source, *SHORT), folder, progress=interrupt_after(2))
    text = (folder / "config.toml").read_text()
    assert "log" not in text
    (folder / "config.toml").write_text(f'log = ["wandb"]\n{text}')
    resume(folder)
    assert wandb[0].steps == written(folder)
    (folder / "config.toml").write_text(text.replace("seed = 0", "seed = 1"))
    with pytest.raises(CheckpointError):  # what is part of it still is
        resume(folder)


def test_a_finished_run_begins_nothing(source, tmp_path, wandb):
    train(tiny(source, *SHORT, 'log=["wandb"]'), tmp_path / "run")
    resume(tmp_path / "run")
    assert len(wandb) == 1


@pytest.mark.parametrize("where", ["init", "log", "finish"])
def test_a_tracker_that_fails_stops_no_run(source, tmp_path, wandb, mlflow, monkeypatch, where):
    def fail(*arguments, **options):
        msg = "no network"
        raise ConnectionError(msg)

    if where == "init":
        monkeypatch.setattr(sys.modules["wandb"], "init", fail)
    else:
        monkeypatch.setattr(FakeRun, where, fail)
    words = r"wandb gets no more figures: ConnectionError: no network\. The run goes on"
    with pytest.warns(RunWarning, match=words) as said:
        train(tiny(source, *SHORT, 'log=["wandb", "mlflow"]'), tmp_path / "run")
    assert len(said) == 1
    [run] = [value for key, value in mlflow.items() if isinstance(key, str)]
    assert {step for _, step in run["metrics"]} == {1, 2, 3}


def test_only_the_first_rank_logs(tmp_path, wandb, monkeypatch):
    from dualclust.train.loop import train_and_resume

    class Over:
        epoch, metrics, ranks, fitted = 0, (), Ranks(1, 2), False
        config = RunConfig(epochs=1, log=("wandb",))
        method = SimpleNamespace(config=config)

        def predict(self):
            raise Interrupted

    def epoch(run, folder):
        run.epoch = 1
        return {"epoch": 1}

    monkeypatch.setattr(train_and_resume, "run_and_save_epoch", epoch)
    monkeypatch.setattr(train_and_resume.RunPage, "write", lambda page, **more: None)
    with pytest.raises(Interrupted):
        train_and_resume._finish(Over(), tmp_path, None)
    assert not wandb
    Over.ranks = Ranks(0, 1)
    with pytest.raises(Interrupted):
        train_and_resume._finish(Over(), tmp_path, None)
    assert [run.steps for run in wandb] == [{1: {}}]


def test_damaged_ids_begin_a_new_run(tmp_path, wandb):
    (tmp_path / "trackers.json").write_text("{")
    config = RunConfig(log=("wandb",))
    with pytest.warns(RunWarning, match="trackers begin new runs"), tracked(config, tmp_path, []):
        pass
    assert ids_of(tmp_path) == {"wandb": wandb[0].options["id"]}


def test_the_setting(tmp_path):
    assert "log" not in dump_config(RunConfig())
    config = RunConfig(log=("mlflow", "tensorboard"))
    (tmp_path / "c.toml").write_text(dump_config(config))
    assert load_config(tmp_path / "c.toml") == config
    for wrong in (["tensorbord"], ["wandb", "wandb"], "wandb", [1]):
        with pytest.raises(UsageError, match="log"):
            from_mapping(RunConfig, {"log": wrong})


@pytest.mark.parametrize("name", LOGS)
def test_a_missing_package_is_said_before_anything_is_written(source, tmp_path, monkeypatch, name):
    monkeypatch.setitem(sys.modules, TRACKERS[name][1], None)
    words = rf"log='{name}' needs the package {name}.* pip install 'dualclust\[{name}\]'"
    with pytest.raises(MissingExtraError, match=words):
        train(tiny(source, *SHORT, f'log=["{name}"]'), tmp_path / "run")
    assert not (tmp_path / "run").exists()
