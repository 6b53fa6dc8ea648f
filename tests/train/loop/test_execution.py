"""Each fast path against its eager twin."""

import pytest
import torch

from dualclust.algos.core.errors import UsageError
from dualclust.train.config.run import ExecutionConfig
from dualclust.train.loop import Run
from dualclust.train.loop.execution import Execution
from dualclust.train.methods import METHODS
from tests.train.runs import tiny, tiny_recipe
from tests.train.tape import capture

SMALL = ["network.width=2", "network.hidden=8", "network.out_dim=8", "evaluation.views=0"]
OWN = {
    "mi_margin": [
        "network.width=2",
        "evaluation.views=0",
        "mi_margin.newton_steps=20",
        "mi_margin.tol=1e-13",
    ],
    "gatcluster": [
        "network.width=2",
        "evaluation.views=0",
        "gatcluster.sub_batch=16",
        "gatcluster.repeats=1",
        "gatcluster.n_init=2",
    ],
    # Batch statistics of two large views, then of three crops.
    "coke with crops": [*SMALL, "coke.views=multi", "coke.small_crops=3", "small.crop=[0.5, 1.0]"],
}


def trained(source, *changes, epochs=3, captured=None, method="secu", fused=False):
    """A run after some epochs, and what it recorded; `fused`: its rates are on the device."""
    config = tiny(source, *changes)
    if method != "secu":
        recipe = f"{method.partition(' ')[0]}_digits"
        own = "heads.clusters=[10]", *OWN.get(method, SMALL)
        config = tiny_recipe(recipe, source, *changes, *own)
    run = Run(config, "cpu")
    if captured is not None:
        graph = ExecutionConfig(step="graph", precision=run.config.execution.precision)
        run.execution = run.loader.execution = Execution(
            graph, torch.device("cpu"), lambda f: captured.append(1) or capture(f)
        )
    if fused:  # as on CUDA: it reads the rate on the device
        for group in run.optimizer.param_groups:
            group["fused"] = True
        run.execution.keep_rates(run.optimizer)
    run.init()
    return run, [run.run_epoch()["loss"] for _ in range(epochs)]


def flat(state, name=""):
    if isinstance(state, dict):
        return {k: v for key, x in state.items() for k, v in flat(x, f"{name}.{key}").items()}
    if isinstance(state, (list, tuple)):
        return {k: v for i, x in enumerate(state) for k, v in flat(x, f"{name}.{i}").items()}
    return {name: state} if isinstance(state, torch.Tensor) else {}


BY_STEPS = sorted(name for name, method in METHODS.items() if method.by_steps)


@pytest.mark.parametrize(
    "method", [name for name in [*BY_STEPS, "coke with crops"] if name != "self_label"]
)
def test_a_captured_step_is_the_eager_one(source, method):
    """Two lengths of batches, two epochs, each with graphs of its own; networks learn in both."""
    settings = "batch_size=35", "execution.precision=float64", "optim.warmup_epochs=0"
    eager, expected = trained(source, *settings, epochs=2, method=method, fused=True)
    captured = []
    graph, losses = trained(
        source, *settings, epochs=2, captured=captured, method=method, fused=True
    )
    views = len(graph.execution.others.known)  # once for all epochs, of each kind and length
    assert views >= 2
    # Batches of an evaluation are larger than those of training: their graphs would stay for ever.
    assert all(key[1][0][0] <= 35 for key in graph.execution.others.known)
    assert len(captured) == 2 * 2 + views
    assert losses == pytest.approx(expected, rel=1e-9)
    ours, theirs = (flat(run.method.state_dict()) for run in (graph, eager))
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        if value.is_floating_point():
            # The labels of MI + margin are solved for in two ways, to a gap of 1e-12.
            atol = 1e-8 if method == "mi_margin" else 1e-10
            torch.testing.assert_close(value, theirs[name], rtol=1e-8, atol=atol)
        else:
            assert torch.equal(value, theirs[name]), name


def test_the_tape_sees_state_that_is_not_changed_in_place():
    """A counter that is made anew in each step stands still in a graph."""
    state = {"kept": torch.zeros(()), "made": torch.zeros(())}

    def step():
        state["kept"].add_(1)
        state["made"] = state["made"] + 1
        return state["kept"] + 0

    step()
    tape, result = capture(step)
    for _ in range(3):
        tape.replay()
    assert float(result) == 4
    assert float(state["kept"]) == 4
    assert float(state["made"]) == 2


def test_a_compiled_network_is_the_eager_one(source, monkeypatch):
    monkeypatch.setattr(Execution, "backend", "eager")  # the others are PyTorch's own work
    learns_at_once = "optim.warmup_epochs=0", "heads.init=random"
    _, expected = trained(source, *learns_at_once, epochs=1)
    _, losses = trained(source, "execution.step=compile", *learns_at_once, epochs=1)
    assert losses == pytest.approx(expected, rel=1e-3)


def test_lower_precision_stays_in_the_network(source):
    run, losses = trained(source, "execution.precision=bfloat16", epochs=2)
    assert losses == pytest.approx(trained(source, epochs=2)[1], rel=0.1)
    assert run.method.labels.dtype == torch.int64
    images = torch.randn(4, 1, 8, 8)
    assert run.method.features(images).dtype == torch.float32
    assert all(p.dtype == torch.float32 for p in run.method.network.parameters())


def test_channels_last_is_the_same_run(source):
    _, expected = trained(source, epochs=2)
    run, losses = trained(source, "execution.channels_last=true", epochs=2)
    assert losses == pytest.approx(expected, rel=1e-3)
    weights = [p for p in run.method.network.parameters() if p.ndim == 4 and p.shape[1] > 1]
    assert all(w.is_contiguous(memory_format=torch.channels_last) for w in weights)


def test_a_card_has_graphs_of_its_own():
    """Nothing is done there before the first step."""
    made = Execution(ExecutionConfig(step="graph"), torch.device("cuda"))
    assert made.captured


def test_a_graph_needs_a_device_that_has_them():
    with pytest.raises(UsageError, match="CUDA device"):
        Execution(ExecutionConfig(step="graph"), torch.device("cpu"))


def test_a_step_that_decides_on_the_host_is_refused(source, monkeypatch):
    run = Run(tiny(source), "cpu")
    run.execution = Execution(ExecutionConfig(step="graph"), torch.device("cpu"), capture)
    monkeypatch.setattr(type(run.method), "capturable", False)
    with pytest.raises(UsageError, match="decides on the host"):
        run.run_epoch()
