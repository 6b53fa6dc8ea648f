"""What trackers are called with, to the letter; no run is made."""

import json
import sys
import types

import pytest

from dualclust.train.config.run import RunConfig, dump_config
from dualclust.train.loop.trackers import tracked

OVER = [{"epoch": 1, "loss": 2, "alarms": {"dead head": "It is."}}]


class Calls:
    """Records every call of any method."""

    def __init__(self, log, answers):
        self._made, self._answers = log, answers

    def __getattr__(self, method):
        def call(*given, **more):
            self._made.append((method, given, more))
            return self._answers.get(method)

        return call


@pytest.fixture
def calls(monkeypatch):
    """Stand-ins for all three; what each is called with."""
    log = {"tensorboard": [], "wandb": [], "mlflow": []}
    board = types.ModuleType("torch.utils.tensorboard")
    weights, flow = types.ModuleType("wandb"), types.ModuleType("mlflow")
    of_run = types.SimpleNamespace(info=types.SimpleNamespace(run_id="r7"))
    answers = {"create_run": of_run, "create_experiment": "e7"}

    def made(name, answers=None):
        def make(*given, **more):
            log[name].append(("made", given, more))
            return Calls(log[name], answers or {})

        return make

    board.SummaryWriter, weights.init = made("tensorboard"), made("wandb")
    flow.MlflowClient = made("mlflow", answers)
    for module in (board, weights, flow):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    log["answers"] = answers
    return log


def track(folder, name, *, fails=False, over=OVER):
    """One epoch after those that are over."""
    config = RunConfig(epochs=2, log=(name,))
    try:
        with tracked(config, folder, over) as log:
            log({"epoch": 2, "loss": 1, "acc": 0.5})
            if fails:
                raise KeyboardInterrupt
    except KeyboardInterrupt:
        assert fails
    return config


def test_tensorboard_gets_all_epochs_in_a_folder_of_the_run(calls, tmp_path):
    config = track(tmp_path, "tensorboard")
    text = f"```toml\n{dump_config(config)}```"
    assert calls["tensorboard"] == [
        ("made", (str(tmp_path / "tensorboard"),), {"purge_step": 1}),
        ("add_text", ("settings", text), {"global_step": 1}),
        ("add_scalar", ("loss", 2.0), {"global_step": 1}),
        ("flush", (), {}),
        ("add_scalar", ("loss", 1.0), {"global_step": 2}),
        ("add_scalar", ("acc", 0.5), {"global_step": 2}),
        ("flush", (), {}),
        ("close", (), {}),
    ]
    assert not (tmp_path / "trackers.json").exists()


def test_figures_of_each_candidate_are_named_by_its_number_of_clusters(calls, tmp_path):
    judged = [{"n_clusters": k, "agreement": k / 8, "gap": 0} for k in (3, 5)]
    last = {"epoch": 1, "acc": 0.5, "heads": {"best": 5, "reason": "why", "judged": judged}}
    track(tmp_path, "wandb", over=[last])
    figures = {"acc": 0.5, "k3_agreement": 0.375, "k3_gap": 0.0, "k5_agreement": 0.625}
    assert calls["wandb"][1] == ("log", (figures | {"k5_gap": 0.0},), {"step": 1})


@pytest.mark.parametrize("fails", [False, True])
def test_wandb_gets_a_run_that_may_go_on(calls, tmp_path, fails):
    track(tmp_path, "wandb", fails=fails)
    (_, given, made), *rest = calls["wandb"]
    assert given == ()
    settings = made.pop("config")
    assert (settings["epochs"], settings["log"]) == (2, ["wandb"])
    own = made.pop("id")
    assert len(own) == 16
    assert made == {
        "project": "dualclust",
        "name": tmp_path.name,
        "resume": "allow",
        "dir": str(tmp_path),
    }
    end = [("finish", (), {"exit_code": 1 if fails else 0})]
    second = [("log", ({"loss": 1.0, "acc": 0.5},), {"step": 2})]
    assert rest == [("log", ({"loss": 2.0},), {"step": 1}), *second, *end]
    assert (tmp_path / "trackers.json").read_text() == f'{{\n "wandb": "{own}"\n}}\n'
    calls["wandb"].clear()
    track(tmp_path, "wandb", fails=fails)
    (_, _, made), *rest = calls["wandb"]
    assert made["id"] == own
    assert rest == [*second, *end]  # what is over is there already


@pytest.mark.parametrize("there", [False, True])
@pytest.mark.parametrize("fails", [False, True])
def test_mlflow_gets_a_run_of_the_experiment(calls, tmp_path, there, fails):
    if there:
        calls["answers"]["get_experiment_by_name"] = types.SimpleNamespace(experiment_id="e7")
    track(tmp_path, "mlflow", fails=fails)
    found = [call for call in calls["mlflow"] if call[0] != "log_param"]
    params = {given[1]: given[2] for name, given, _ in calls["mlflow"] if name == "log_param"}
    assert (params["epochs"], params["optim.name"]) == (2, RunConfig().optim.name)
    assert found == [
        ("made", (), {}),
        ("get_experiment_by_name", ("dualclust",), {}),
        *([] if there else [("create_experiment", ("dualclust",), {})]),
        ("create_run", ("e7",), {"run_name": tmp_path.name}),
        ("log_metric", ("r7", "loss", 2.0), {"step": 1}),
        ("log_metric", ("r7", "loss", 1.0), {"step": 2}),
        ("log_metric", ("r7", "acc", 0.5), {"step": 2}),
        ("set_terminated", ("r7",), {"status": "KILLED" if fails else "FINISHED"}),
    ]
    assert json.loads((tmp_path / "trackers.json").read_text()) == {"mlflow": "r7"}
    calls["mlflow"].clear()
    track(tmp_path, "mlflow")
    assert [call[0] for call in calls["mlflow"]] == [
        *("made", "log_metric", "log_metric", "set_terminated"),
    ]
