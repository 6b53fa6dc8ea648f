"""Training steps, views and optimizers, on networks of the papers' size and drawn pictures."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from dualclust.cli.train import read_recipe
from dualclust.train.config.run import NetworkConfig, OptimConfig, RunConfig, override
from dualclust.train.loop import Run
from dualclust.train.loop.optim import build_optimizer
from dualclust.train.methods import METHODS as REGISTERED
from dualclust.train.methods.base import ParameterGroup
from dualclust.train.networks.network import build_network

from ..records import Row
from ..runs import METHODS, batches_of, begun, digits_like, pictures, prepared, steps_of
from ..stages import Context, attempted
from ..timing import measure
from .ceilings import bandwidth, matrix_rate, rotations, share

__all__ = ["measure_compiled", "measure_optimizers", "measure_steps", "measure_views"]

BATCHES = 8
LAST = "execution.channels_last=true"
STEPS = {
    "bf16 graph": ("bfloat16", "graph"),
    "bf16 graph, channels last": ("bfloat16", "graph", LAST),
    "eager": ("float32", "eager"),
}
COMPILED = {
    "bf16 compiled graph": ("bfloat16", "compiled-graph"),
    "bf16 compiled graph, channels last": ("bfloat16", "compiled-graph", LAST),
}
TOY = {"bf16 compiled": ("bfloat16", "compile")}
# Its step is a large batch: here of 1,000 pictures, in one pass of 32 steps of the optimizer.
CUT = {"gatcluster": ["batch_size=1000", "gatcluster.repeats=1"]}
TENSORS = {"lars": 5, "sgd": 5, "adam": 7}  # read and written by a step, each of the network's size


def measure_steps(context: Context) -> Iterator[Row]:
    """A row for each method and way of running its step."""
    for method in METHODS:
        for name, (precision, step, *changes) in STEPS.items():
            if context.machine.toy and name not in ("eager", "bf16 graph"):
                continue
            if context.machine.toy and step == "graph" and method != METHODS[0]:
                continue  # the graph of each method is rehearsed where it is compared
            if step == "graph" and not REGISTERED[method].capturable:
                continue
            label = {"method": method, "step": name}
            take = partial(_step, context, method, precision, step, changes)
            yield from attempted(context, label, take)


def measure_compiled(context: Context) -> Iterator[Row]:
    """A row for each method."""
    for name, (precision, step, *changes) in context.machine.size(COMPILED, TOY).items():
        for method in context.machine.size(METHODS, METHODS[:1]):
            if step == "compiled-graph" and not REGISTERED[method].capturable:
                continue
            label = {"method": method, "step": name}
            take = partial(_step, context, method, precision, step, changes)
            yield from attempted(context, label, take)


def _config(context: Context, method: str, *changes: str) -> RunConfig:
    """The CIFAR-10 recipe of a method on drawn pictures; the digits' in a rehearsal."""
    machine = context.machine
    if machine.toy:
        return digits_like(machine, context.scratch, method, *changes)
    config = override(read_recipe(f"{method}_cifar10"), CUT.get(method, []))
    n = max(2, min(BATCHES, 4096 // config.batch_size)) * config.batch_size
    source = pictures(context.scratch, n, (32, 32, 3))
    heads = ["heads.init=random"] if method in ("secu", "coke") else []
    heads += ["assignment.rounding=outward"]
    cut = ["data.split=auto", "data.test=none", "data.normalization=own", f"data.source={source}"]
    return override(config, [*cut, *heads, *changes])


def _step(context: Context, method: str, precision: str, step: str, changes: Sequence[str]) -> Row:
    machine = context.machine
    compiled = "compile" if step.startswith("compile") else "eager"
    settings = f"execution.precision={precision}", f"execution.step={compiled}", *changes
    graph = step.endswith("graph")
    run = prepared(machine, _config(context, method, *settings), graph=graph)
    batches = batches_of(begun(run), machine.size(BATCHES, 1))
    calls = steps_of(run, batches)
    with run.execution.searching():
        for call in (calls * 3)[:3] if graph else ():
            call()  # a graph is captured at the third batch of its length
        found = measure(machine, calls, warm=4, most=2.0)
        seen = machine.profile(partial(_each, calls), 1)
    # Convolutions of float32 run in tf32, unless torch is told otherwise.
    rate = matrix_rate(context, {"float32": "tf32"}.get(precision, precision))
    operations = context.facts.get(method)
    if operations is None:
        operations = context.facts[method] = _operations(context, method)
    return {
        "batch": len(batches[0].ids),
        **found.row(),
        "kernels": seen.kernels / len(calls),
        "idle": seen.idle,
        "of peak": share(operations, found.median, rate),
        "images/s": len(batches[0].ids) / found.median,
    }


def _each(calls: Sequence[Callable[[], object]]) -> None:
    for call in calls:
        call()


def _operations(context: Context, method: str) -> float:
    """Operations of the products and convolutions of one step, forward and backward."""
    run = begun(prepared(context.machine, _config(context, method)))
    (call,) = steps_of(run, batches_of(run, 1))
    with _Products() as seen:
        call()
    return seen.operations


class _Products(TorchDispatchMode):
    """Adds up the operations of all products and convolutions, by torch's own formulas.

    Torch's counter takes apart each operation that it has no formula for, which not every one
    allows; here such an operation counts for nothing, and is done as it is.
    """

    operations = 0.0

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        made = function(*args, **kwargs)
        formula = flop_registry.get(getattr(function, "overloadpacket", None))
        if formula is not None:
            self.operations += float(formula(*args, **kwargs, out_val=made))
        return made


def measure_views(context: Context) -> Iterator[Row]:
    """Both views of a batch, of each recipe, drawn eagerly and as a graph."""
    for method in METHODS:
        for graph in (False, True):
            label = {"method": method, "step": "graph" if graph else "eager"}
            yield from attempted(context, label, partial(_views, context, method, graph))


def _views(context: Context, method: str, graph: bool) -> Row:
    machine = context.machine
    run = begun(prepared(machine, _config(context, method), graph=graph))
    batches = run.loader.batches(0, run.method.order(0))
    names = run.method.views
    calls = [partial(_draw, run, ids, number, names) for number, ids in enumerate(batches)]
    for call in (calls * 3)[:3] if graph else ():
        call()  # captured at the third batch of its length
    drawn = sum(view.numel() for view in calls[0]())
    found = measure(machine, calls, most=2.0)
    seen = machine.profile(calls[0], 1)
    moved = drawn + 4.0 * drawn  # bytes as they are stored, floats as they are drawn
    return {
        "views": ", ".join(names),
        "batch": len(batches[0]),
        **found.row(),
        "kernels": seen.kernels,
        "of peak": share(moved, found.median, bandwidth(context)),
    }


def _draw(run: Run, ids: torch.Tensor, number: int, names: Sequence[str]) -> list[torch.Tensor]:
    return [run.loader.view(ids, 0, number, v, name=name) for v, name in enumerate(names)]


def measure_optimizers(context: Context) -> Iterator[Row]:
    """One step of each optimizer over the tensors of a ResNet-18."""
    for name in TENSORS:
        yield from attempted(context, {"optimizer": name}, partial(_optimizer, context, name))


def _optimizer(context: Context, name: str) -> Row:
    machine = context.machine
    width = machine.size(0, 2)
    settings = NetworkConfig(name="resnet18-cifar", width=width, hidden=machine.size(512, 8))
    sets: list[Callable[[], object]] = []
    size, tensors = 0, 0
    for _ in range(rotations(machine, 4 * 1.2e7 * TENSORS[name], 2)):
        params = [p.to(machine.device).detach() for p in _parameters(settings)]
        for p in params:
            p.requires_grad_().grad = torch.randn_like(p)
        options = OptimConfig(name=name, lr=1e-4, weight_decay=1e-4, momentum=0.9)
        sets.append(build_optimizer(options, [ParameterGroup(params)]).step)
        size, tensors = sum(p.numel() for p in params), len(params)
    found = measure(machine, sets, most=2.0)
    seen = machine.profile(sets[0], 1)
    return {
        "tensors": tensors,
        "parameters": size,
        **found.row(),
        "kernels": seen.kernels,
        "of peak": share(4.0 * size * TENSORS[name], found.median, bandwidth(context)),
    }


def _parameters(settings: NetworkConfig) -> list[Any]:
    return list(build_network(settings, (3, 32, 32)).parameters())
