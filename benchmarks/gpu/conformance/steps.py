"""Training steps: that none waits for the device, and that each way of running one is the eager."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import torch

from dualclust.train.loop.execution import Execution
from dualclust.train.loop.run_folder import RunWarning
from dualclust.train.methods import METHODS as REGISTERED
from dualclust.train.methods.base import Batch

from ..records import Row
from ..runs import METHODS, batches_of, begun, digits_like, prepared, steps_of
from ..stages import Context, attempted

__all__ = ["compare_compiled", "compare_fallback", "compare_graphs", "count_reads"]

GRAPH = 1e-8
COMPILED = 1e-3
SHOWN = 4  # lines that wait, of each method
ON_THE_HOST = {"gatcluster": 1, "mi_margin": 1}
"""Reads, and uploads, of an eager step that solves a small problem on the host."""


def count_reads(context: Context) -> Iterator[Row]:
    """A row for each method: what a step makes the host wait for."""
    for method in METHODS:
        yield from attempted(
            context, {"method": method}, lambda method=method: _reads(context, method)
        )


def _reads(context: Context, method: str) -> Row:
    machine = context.machine
    run = begun(prepared(machine, digits_like(machine, context.scratch, method)))
    calls = steps_of(run, batches_of(run, machine.size(3, 1)))
    for call in calls[:-1]:
        call()
    found = machine.quiet(calls[-1])
    lines = {**found.reads, **{f"{line} (upload)": n for line, n in found.uploads.items()}}
    most = sorted(lines.items(), key=lambda pair: -pair[1])[:SHOWN]
    reads, uploads = sum(found.reads.values()), sum(found.uploads.values())
    promised, most_each = REGISTERED[method].capturable, ON_THE_HOST.get(method, 0)
    return {
        "capturable": promised,
        "waits": reads,
        "uploads": uploads if machine.toy else None,
        "most at": ", ".join(f"{line} {n}" for line, n in most),
        "verdict": "differs" if promised and max(reads, uploads) > most_each else "ok",
    }


def _methods(context: Context) -> tuple[str, ...]:
    """All methods; of a rehearsal two, because the tests of training capture a step of each."""
    found: tuple[str, ...] = context.machine.size(METHODS, ("secu", "gatcluster"))
    return found


def compare_graphs(context: Context) -> Iterator[Row]:
    """A row for each method that can be captured: three epochs, two lengths of batches."""
    for method in _methods(context):
        if REGISTERED[method].capturable:
            yield from attempted(
                context, {"method": method}, lambda method=method: _graph(context, method)
            )
        else:
            yield {"method": method, "note": "its step cannot be captured"}


def _graph(context: Context, method: str) -> Row:
    machine = context.machine
    settings = ["execution.precision=float64"]
    if machine.toy:  # the first epoch of CoKe does not learn
        settings += [f"epochs={1 + (method == 'coke')}", "optim.warmup_epochs=0"]
    config = digits_like(machine, context.scratch, method, *settings)
    eager, graph = (prepared(machine, config, graph=captured) for captured in (False, True))
    machine.adapt(eager.optimizer)
    eager.execution.keep_rates(eager.optimizer)  # a fused kernel rounds those on the device
    pairs = []
    for _ in range(config.epochs):
        pairs.append(tuple(run.run_epoch()["loss"] for run in (graph, eager)))
    off = max(abs(a - b) / max(abs(b), 1e-12) for a, b in pairs)
    ours, theirs = (_flat(run.method.state_dict()) for run in (graph, eager))
    labels, worst = 0, ""
    for name, value in theirs.items():
        if not value.is_floating_point():
            labels += int((ours[name] != value).sum().cpu())
            continue
        size = float(value.abs().max().cpu()) if value.numel() else 0.0
        here = float((ours[name] - value).abs().max().cpu()) / max(size, 1.0) if size else 0.0
        if here > off:
            off, worst = here, name
    exact = off == 0.0 and labels == 0
    captured = len(graph.execution.steps.known)
    good = off <= GRAPH and labels == 0 and captured > 0
    return {
        "epochs": config.epochs,
        "graphs an epoch": captured,
        "off": off,
        "other labels": labels,
        "bits": "equal" if exact else "not equal",
        "most at": worst,
        "verdict": "ok" if good else "differs",
    }


def compare_fallback(context: Context) -> Iterator[Row]:
    """One row: SeCu, where steps are chosen, and each reads a value."""
    yield from attempted(context, {"method": METHODS[0]}, lambda: _fallback(context))


def _fallback(context: Context) -> Row:
    machine = context.machine
    config = digits_like(machine, context.scratch, METHODS[0], "execution.step=auto")
    losses, taken = [], []
    for graphs in (True, False):
        run = prepared(machine, config)
        if graphs:
            run.execution = Execution(config.execution, run.device, machine.capture())
            size = {"per_epoch": 100, "epochs": 1}
            run.execution.choose(REGISTERED[METHODS[0]], alone=True, **size)
            machine.adapt(run.optimizer)
        run.method.losses = partial(_reading, run.method.losses)
        calls = steps_of(run, batches_of(begun(run), machine.size(6, 4)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RunWarning)
            losses.append([float(call()) for call in calls])  # type: ignore[arg-type]
        taken.append(run.execution.choice)
    off = max(abs(a - b) / max(abs(b), 1e-12) for a, b in zip(*losses, strict=True))
    good = off <= COMPILED and "failed" in taken[0].why
    return {
        "steps": len(losses[0]),
        "off": off,
        "told": str(taken[0]),
        "verdict": "ok" if good else "differs",
    }


def _reading(losses: Callable[[Batch], Iterable[torch.Tensor]], batch: Batch) -> Any:
    for loss in losses(batch):
        float(loss.detach())
        yield loss


def compare_compiled(context: Context) -> Iterator[Row]:
    """A row for each method: the first steps with a compiled network."""
    for method in _methods(context):
        yield from attempted(
            context, {"method": method}, lambda method=method: _compiled(context, method)
        )


def _compiled(context: Context, method: str) -> Row:
    machine = context.machine
    losses = []
    for step in ("eager", "compile"):
        config = digits_like(machine, context.scratch, method, f"execution.step={step}")
        run = begun(prepared(machine, config))
        calls = steps_of(run, batches_of(run, machine.size(6, 1)))
        losses.append([float(call()) for call in calls])  # type: ignore[arg-type]
    off = max(abs(a - b) / max(abs(b), 1e-12) for a, b in zip(*losses, strict=True))
    verdict = "ok" if off <= COMPILED else "differs"
    return {"steps": len(losses[0]), "off": off, "loss": losses[0][-1], "verdict": verdict}


def _flat(state: Any, name: str = "") -> dict[str, torch.Tensor]:
    """The tensors of a nested state by their path."""
    if isinstance(state, dict):
        return {k: v for key, x in state.items() for k, v in _flat(x, f"{name}.{key}").items()}
    if isinstance(state, (list, tuple)):
        return {k: v for i, x in enumerate(state) for k, v in _flat(x, f"{name}.{i}").items()}
    return {name: state} if isinstance(state, torch.Tensor) else {}
