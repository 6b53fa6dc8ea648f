"""What a stage found, as JSON: one file for each stage, in the results and beside the checkpoints.

A record belongs to a card and to the text of the library. One of another card or text is never
continued; it stays where it is until the stage has something new to say.
"""

from __future__ import annotations

import json
import math
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["Part", "Record", "Store"]

Row = dict[str, Any]


@dataclass
class Part:
    """One part of a stage.

    Attributes
    ----------
    status : "finished", "stopped" (the budget ended it) or "failed" (it raised an error).
    seconds : float. Time it took.
    rows : list of dict, a row of its table each.
    note : str. One sentence below the table.
    groups : dict. Places of the rows that belong together and are complete; not done again where
        the budget ended the part.
    """

    status: str = "stopped"
    seconds: float = 0.0
    rows: list[Row] = field(default_factory=list)
    note: str = ""
    groups: dict[str, list[int]] = field(default_factory=dict)


@dataclass
class Record:
    """What is known of a stage.

    Attributes
    ----------
    stage : str
    identity : dict. Card, text of the library, whether it is a rehearsal.
    environment : dict. Driver, versions, commit, ...
    parts : dict of Part, by name, in the order in which they are run.
    spent : float. Seconds, of all calls together.
    calls : int
    status : "finished", "stopped" or "failed".
    """

    stage: str
    identity: dict[str, Any]
    environment: dict[str, Any] = field(default_factory=dict)
    parts: dict[str, Part] = field(default_factory=dict)
    spent: float = 0.0
    calls: int = 0
    status: str = "stopped"

    def wrong(self) -> list[str]:
        """Rows that failed a comparison, and parts that broke, by name."""
        found = []
        for name, part in self.parts.items():
            found += [name] if part.status == "failed" else []
            for row in part.rows:
                if row.get("verdict", "ok") != "ok":
                    found.append(f"{name}: {' '.join(map(str, list(row.values())[:3]))}")
        return found


class Store:
    """Reads and writes the records of a day.

    Parameters
    ----------
    out : Path. The results: ``gpu.md``, and ``gpu/STAGE.json``.
    scratch : Path. Where a copy of each record stays while a day goes on.
    """

    def __init__(self, out: Path, scratch: Path) -> None:
        self.out, self.scratch = out, scratch
        self.places = [out / "gpu", scratch / "records"]

    def load(self, stage: str, identity: dict[str, Any]) -> Record:
        """The record of a stage to go on from; a new one where there is none that fits."""
        fitting = [
            found
            for place in self.places
            if (found := _read(place / f"{stage}.json")) is not None and found.identity == identity
        ]
        return max(fitting, key=lambda one: one.spent, default=Record(stage, identity))

    def shown(self, stage: str) -> Record | None:
        """The record that the page shows, of whatever card and text; results before scratch."""
        found = [_read(place / f"{stage}.json") for place in self.places]
        return next((record for record in found if record is not None), None)

    def save(self, record: Record) -> None:
        """Write a record to both places, whole or not at all."""
        text = json.dumps(_plain(asdict(record)), indent=1) + "\n"
        for place in self.places:
            place.mkdir(parents=True, exist_ok=True)
            unfinished = place / f".{record.stage}.json.{os.getpid()}"
            unfinished.write_text(text, encoding="utf-8")
            unfinished.replace(place / f"{record.stage}.json")


def _read(path: Path) -> Record | None:
    if not path.is_file():
        return None
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        stored["parts"] = {name: Part(**part) for name, part in stored["parts"].items()}
        return Record(**stored)
    except (ValueError, KeyError, TypeError):
        return None  # of another version of this program, or cut short


def _plain(value: Any) -> Any:
    """Only what JSON knows; infinities and NaN as words."""
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return _plain(value.item()) if hasattr(value, "item") else str(value)
