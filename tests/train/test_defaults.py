"""Constants and defaults of `train` are what `defaults.txt` says.

A constant decides the bits, the time or the memory that were measured with it, and a default what
happens to who does not name the argument: one that changes is changed here, too, and told in
CHANGELOG.md. The settings have a file of their own (`tests/train/config`).
"""

from __future__ import annotations

from pathlib import Path

from dualclust import train
from tests.pinned import inner_defaults, numbers

STORED = Path(__file__).with_name("defaults.txt")
LEFT = ("config", "report")
"""Settings are pinned by their own test; pages and pictures are for people."""


def found() -> str:
    return f"{numbers(train, LEFT)}\n{inner_defaults(train, LEFT)}"


def test_constants_and_defaults_are_those_that_are_written_down() -> None:
    assert found().splitlines() == STORED.read_text(encoding="utf-8").splitlines()


def test_a_changed_constant_or_default_is_seen(monkeypatch) -> None:
    from dualclust.train.loop.loader import Loader

    monkeypatch.setattr("dualclust.train.own_data.epochs_for_time.WIDTHS", (8, 16))
    monkeypatch.setitem(Loader.view.__kwdefaults__, "name", "second")
    changed = set(found().splitlines()) - set(STORED.read_text(encoding="utf-8").splitlines())
    assert changed == {
        "own_data.epochs_for_time.WIDTHS = (8, 16)",
        "loop.loader.Loader.view(name='second')",
    }
