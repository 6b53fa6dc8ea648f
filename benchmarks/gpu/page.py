"""The results as one page of Markdown, written anew from the records after each call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .records import Part, Record, Row, Store
from .stages import Stage

__all__ = ["page"]

FACTS = ("card", "memory_gib", "driver", "cuda", "cudnn", "commit", "sources", "python", "host")
NAMES = {"memory_gib": "memory, GiB", "sources": "digest of the sources"}


def page(stages: Sequence[Stage], store: Store) -> str:
    """Return the page of all stages of which something is known."""
    records = {stage.name: store.shown(stage.name) for stage in stages}
    known = [record for record in records.values() if record is not None]
    lines = ["# GPU day", ""]
    if any(record.identity.get("rehearsal") for record in known):
        lines += ["**A rehearsal without a card: toy sizes, and its times say nothing.**", ""]
    lines += _environment(known)
    for stage in stages:
        record = records[stage.name]
        lines += [f"## {stage.title}", ""]
        lines += ["Not run yet.", ""] if record is None else _stage(stage, record)
    return "\n".join(lines).rstrip() + "\n"


def _environment(known: list[Record]) -> list[str]:
    """What all stages ran on; a list for each, where they differ."""
    shown: list[str] = []
    for record in known:
        facts = record.environment
        text = [f"- {NAMES.get(key, key)}: {facts[key]}" for key in FACTS if facts.get(key)]
        versions = ", ".join(f"{k} {v}" for k, v in facts.get("versions", {}).items())
        block = "\n".join([*text, f"- versions: {versions}"])
        if block not in shown:
            shown.append(block)
    if len(shown) == 1:
        return [shown[0], ""]
    return [
        line
        for record, block in zip(known, shown, strict=False)
        for line in (f"{record.stage} and what follows it until the next list:", "", block, "")
    ]


def _stage(stage: Stage, record: Record) -> list[str]:
    calls = "1 call" if record.calls == 1 else f"{record.calls} calls"
    lines = [f"{record.status.capitalize()}; {record.spent / 60:.1f} minutes in {calls}.", ""]
    if wrong := record.wrong():
        lines += [f"**{len(wrong)} wrong:**", "", *(f"- {name}" for name in wrong), ""]
    for part in stage.parts:
        if part.name in record.parts:
            lines += _part(part.name, record.parts[part.name])
        else:
            lines += [f"### {part.name}", "", "Not reached.", ""]
    return lines


def _part(name: str, part: Part) -> list[str]:
    left = "" if part.status == "finished" else f", {part.status}"
    return [f"### {name} ({part.seconds:.0f} s{left})", "", *table(part.rows), part.note, ""]


def table(rows: Sequence[Row]) -> list[str]:
    """A Markdown table with the columns that any row has, in the order of their appearance."""
    if not rows:
        return []
    columns = list(dict.fromkeys(key for row in rows for key in row))
    lines = [columns, ["---"] * len(columns)]
    lines += [[shown(row.get(key)) for key in columns] for row in rows]
    return [*("| " + " | ".join(line) + " |" for line in lines), ""]


def shown(value: Any) -> str:
    """A value as a cell."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return str(value).replace("|", "/").replace("\n", " ")
