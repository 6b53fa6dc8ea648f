"""The command: which stages, for how long, and where results go."""

from __future__ import annotations

import argparse
import math
import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from . import conformance, constants, paper, speed, triton_kernels
from .detached import pick_up, start_detached
from .machine import ROOT, Machine, sources_digest
from .needs import CannotRun
from .page import page
from .records import Row, Store
from .stages import Context, Stage, run_stage
from .timing import Budget

__all__ = ["STAGES", "build_parser", "main"]

DAY = (
    constants.STAGE,
    conformance.STAGE,
    speed.FUNCTIONS,
    speed.STEPS,
    triton_kernels.STAGE,
)
STAGES: tuple[Stage, ...] = (*DAY, *paper.STAGES)
ONE_CALL = 9.0  # minutes of a stage in one call that is waited for


def main(words: Sequence[str]) -> int:
    """Run the command; 0, or 1 where something is wrong.

    Raises
    ------
    CannotRun
        If there is no card, or the options do not fit.
    """
    options = build_parser().parse_args(words)
    chosen = _chosen(options.stages)
    out, scratch = _folders(options)
    if options.pick_up:
        return pick_up(scratch, out, 60 * min(options.budget, ONE_CALL))
    machine = _machine(options)
    if options.detach:
        base = scratch.parent if options.rehearse else scratch
        return start_detached(words, scratch, base, out)
    store = Store(out, scratch)
    identity = {
        "card": machine.name,
        "sources": sources_digest(),
        "rehearsal": machine.toy,
    }
    whole = Budget(60 * options.budget)
    wrong: list[str] = []
    with machine.active():
        for stage in chosen:
            record = store.load(stage.name, identity)
            if record.status == "finished" and not options.again:
                print(f"{stage.name}: finished before on this card and text, not repeated")
                store.save(record)
                wrong += record.wrong()
                continue
            most = math.inf if options.unlimited or machine.toy else 60 * ONE_CALL
            # A rehearsal takes as long as its processor does: only --budget ends it.
            own = math.inf if machine.toy else 60 * stage.minutes
            budget = Budget(min(own, most, whole.left()))
            print(f"{stage.name}: {budget.seconds / 60:.1f} minutes", flush=True)
            context = Context(
                machine=machine,
                budget=budget,
                out=out / "gpu",
                scratch=scratch,
                record=record,
                changes=tuple(options.set),
                rates=_rates(store, identity),
                seed=time.time_ns() % 2**31,
                data=options.data or os.environ.get("DUALCLUST_DATA"),
            )
            record = run_stage(stage, store, context)
            wrong += record.wrong()
            print(f"{stage.name}: {record.status} after {record.spent:.1f} s", flush=True)
            _write_page(store)
    _write_page(store)
    for line in wrong:
        print(f"WRONG {line}")
    print(f"results: {out / 'gpu.md'}")
    return 1 if wrong else 0


def _rates(store: Store, identity: dict[str, Any]) -> list[Row]:
    """What this card can do, as far as it is known."""
    known = store.load(constants.STAGE.name, identity).parts.get("ceilings")
    return [] if known is None else known.rows


def _write_page(store: Store) -> None:
    store.out.mkdir(parents=True, exist_ok=True)
    (store.out / "gpu.md").write_text(page(STAGES, store), encoding="utf-8")


def _machine(options: argparse.Namespace) -> Machine:
    if options.rehearse:
        from .rehearsal import Rehearsal  # the second device belongs to the tests

        return Rehearsal()
    from .card import Card

    return Card(options.device)


def _folders(options: argparse.Namespace) -> tuple[Path, Path]:
    scratch = options.scratch or Path(tempfile.gettempdir()) / "dualclust-gpu"
    if options.rehearse:
        scratch = scratch / "rehearsal"
    usual = scratch / "results" if options.rehearse else ROOT / "benchmarks" / "results"
    return (options.out or usual).resolve(), scratch.resolve()


def _chosen(names: str) -> list[Stage]:
    known = {stage.name: stage for stage in STAGES}
    asked = [name for name in names.split(",") if name] or [stage.name for stage in DAY]
    if wrong := [name for name in asked if name not in known]:
        msg = f"--stages must be of {', '.join(known)}, got {', '.join(wrong)}"
        raise CannotRun(msg)
    return [stage for name, stage in known.items() if name in asked]


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the command."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu",
        description="Check, time and train on a CUDA card, stage by stage (docs/gpu.md).",
    )
    add = parser.add_argument
    names = ", ".join(stage.name for stage in STAGES)
    add("--stages", default="", metavar="A,B", help=f"of {names}; the first {len(DAY)} by default")
    add("--budget", type=float, default=math.inf, metavar="MIN", help="minutes of the whole call")
    add("--device", default="cuda", help="cuda or cuda:N")
    add("--rehearse", action="store_true", help="toy sizes on the second device of the tests")
    add("--out", type=Path, metavar="DIR", help="of gpu.md and gpu/ (benchmarks/results)")
    add("--scratch", type=Path, metavar="DIR", help="of checkpoints and half-done stages")
    add("--data", help="CIFAR-10: its folder, or cifar10_jpeg.npz (variable DUALCLUST_DATA)")
    add("--set", action="append", default=[], metavar="KEY=VALUE", help="settings of papers' runs")
    add("--again", action="store_true", help="repeat stages that are finished")
    add("--detach", action="store_true", help="go on in the background, without the limit of 9")
    add("--pick-up", action="store_true", help="wait for the detached day, and show its end")
    add("--unlimited", action="store_true", help=argparse.SUPPRESS)
    return parser
