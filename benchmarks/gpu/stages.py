"""A stage is a list of parts; each is done once, in order, until the stage's minutes are over."""

from __future__ import annotations

import json
import math
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from .machine import Machine, environment
from .records import Part, Record, Row, Store
from .timing import Budget, OutOfTime

__all__ = ["Context", "PartOf", "Stage", "attempted", "run_stage"]


@dataclass
class Context:
    """What a part gets.

    Attributes
    ----------
    machine : Machine
    budget : Budget. What the stage may still spend in this call.
    out, scratch : Path. Where small results go, and what only the next call needs.
    record : Record. Of the stage, with the parts before this one.
    changes : tuple of str. Settings that the user changed, ``KEY=VALUE``.
    part : Budget. What the part may still spend.
    rates : list of dict. What the card can do, as `ceilings` of the stage of constants found.
    seed : int. Of random inputs; another one in each call.
    data : str or None. Where CIFAR-10 is.
    notes : dict. What a part has to add below its table, by its name.
    facts : dict. What one part found out for later ones of the same call.
    known, groups : dict. Rows of this part by what `attempted` calls them: those of an earlier
        call, and those that are complete now.
    """

    machine: Machine
    budget: Budget
    out: Path
    scratch: Path
    record: Record
    changes: tuple[str, ...] = ()
    part: Budget = field(default_factory=lambda: Budget(math.inf))
    rates: list[Row] = field(default_factory=list)
    seed: int = 0
    data: str | None = None
    notes: dict[str, str] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    known: dict[str, list[Row]] = field(default_factory=dict)
    groups: dict[str, list[Row]] = field(default_factory=dict)


class PartOf(NamedTuple):
    """A part: its name, what yields its rows, and a sentence for below its table.

    `guarded` parts are stopped by the budget wherever they are, and after `seconds` of a call, so
    that those after them get theirs; others look at the budget themselves.
    """

    name: str
    run: Callable[[Context], Iterable[Row]]
    note: str = ""
    guarded: bool = True
    seconds: float = math.inf


class Stage(NamedTuple):
    """A stage: its name, its minutes, and its parts."""

    name: str
    minutes: float
    parts: Sequence[PartOf]
    title: str


def run_stage(stage: Stage, store: Store, context: Context) -> Record:
    """Run the parts that are not done yet, saving after each row; returns what is known then."""
    record = context.record
    record.environment = environment(context.machine)
    record.calls += 1
    before, began = record.spent, time.monotonic()
    for part in stage.parts:
        known = record.parts.get(part.name)
        if known is not None and known.status == "finished":
            print(f"  {part.name}: done before", flush=True)
            continue
        if context.budget.left() <= 0:
            break

        def save(found: Part, name: str = part.name) -> None:
            record.parts[name] = found
            record.spent = before + time.monotonic() - began
            store.save(record)

        save(_run(part, context, known, save))
        _tell(part.name, record.parts[part.name])
        context.machine.free()
    done = [record.parts.get(part.name, Part()).status for part in stage.parts]
    record.status = next((s for s in ("failed", "stopped") if s in done), "finished")
    record.spent = before + time.monotonic() - began
    store.save(record)
    return record


def _run(part: PartOf, context: Context, known: Part | None, save: Callable[[Part], None]) -> Part:
    found = Part(note=part.note)
    began = time.monotonic()
    context.groups, context.known = {}, {}
    if known is not None and known.status == "stopped":
        found.seconds = known.seconds
        context.known = {key: [known.rows[i] for i in at] for key, at in known.groups.items()}
    if part.guarded:  # a rehearsal takes as long as its processor does
        own = math.inf if context.machine.toy else part.seconds
        context.part = Budget(min(own, context.budget.left()))
    try:
        with context.part.guard() if part.guarded else nullcontext():
            for row in part.run(context):  # one by one: an interrupt keeps those before it
                found.rows.append(row)
                save(found)
        found.status = "finished"
    except OutOfTime:
        found.status = "stopped"
    except Exception as error:  # one part that breaks must not cost the others their minutes
        found.status = "failed"
        found.note = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        traceback.print_exc()
    found.note = " ".join(filter(None, [found.note, context.notes.pop(part.name, "")]))
    found.seconds += time.monotonic() - began
    places = {id(row): i for i, row in enumerate(found.rows)}
    for key, rows in context.groups.items():
        if all(id(row) in places for row in rows):
            found.groups[key] = [places[id(row)] for row in rows]
    return found


def _tell(name: str, part: Part) -> None:
    print(f"  {name}: {part.status}, {len(part.rows)} rows, {part.seconds:.1f} s", flush=True)


def _within(context: Context, seconds: float) -> AbstractContextManager[None]:
    """At most so many seconds, and no more than the part has; none are counted in a rehearsal."""
    if context.machine.toy or math.isinf(seconds):
        return nullcontext()
    return Budget(min(seconds, context.part.left())).guard()


def attempted(
    context: Context,
    name: dict[str, Any],
    function: Callable[[], Row | Iterable[Row]],
    seconds: float = math.inf,
) -> Iterator[Row]:
    """Rows of a function; an error becomes a row that names it, and the part goes on.

    So does the end of its seconds. What an earlier call came to before its time was over is not
    done again.
    """
    key = json.dumps(name)
    if key in context.known:
        context.groups[key] = context.known[key]
        yield from context.known[key]
        return
    rows: list[Row] = []
    try:
        with _within(context, seconds):
            found = function()
            for row in [found] if isinstance(found, dict) else found:
                rows.append({**name, **row})
        context.groups[key] = rows
        yield from rows
    except OutOfTime:
        yield from rows
        if context.part.left() <= 0:
            raise
        yield {**name, "note": f"stopped after {seconds:.0f} s"}
    except Exception as error:
        yield from rows
        text = str(error).splitlines()[0] if str(error) else ""
        traceback.print_exc()
        yield {**name, "verdict": "failed", "error": f"{type(error).__name__}: {text}"[:300]}
