"""Defaults are what `defaults.txt` says, and a rule holds exactly where its words say.

A changed default changes every run that does not name the setting: it is changed here, too, and
told in CHANGELOG.md.
"""

from __future__ import annotations

import importlib
import inspect
import math
import pkgutil
import re
from collections.abc import Iterator
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import pytest

from dualclust.train import config
from dualclust.train.config.methods import METHOD_OPTIONS
from dualclust.train.config.run import RunConfig
from dualclust.train.config.schema import Rule

STORED = Path(__file__).with_name("defaults.txt")


def records() -> dict[str, type]:
    """Every record of settings by its name."""
    found = {}
    for module in pkgutil.walk_packages(config.__path__, f"{config.__name__}."):
        for name, value in vars(importlib.import_module(module.name)).items():
            if inspect.isclass(value) and is_dataclass(value) and fields(value):
                found[name] = value
    return found


def defaults() -> str:
    """One table for each record, in the order of their names."""
    lines = []
    for name, record in sorted(records().items()):
        lines.append(f"[{name}]")
        for spec in fields(record):
            if record is RunConfig and spec.name in METHOD_OPTIONS:  # a table, or None
                continue
            factory = getattr(spec.default_factory, "__name__", "")
            default = spec.default if spec.default_factory is MISSING else factory
            shown = "required" if default is MISSING else repr(default)
            lines.append(f"{spec.name} = {shown}")
        lines.append("")
    return "\n".join(lines)


def test_the_settings_of_a_run_have_a_table_for_each_method() -> None:
    methods = {"coke", "gatcluster", "graph", "mi_margin", "propos", "secu"}
    methods |= {"self_label", "temi"}
    assert methods == set(METHOD_OPTIONS)
    assert methods <= {spec.name for spec in fields(RunConfig)}


def tables(text: str) -> dict[str, str]:
    """The tables of a file by their names."""
    parts = re.split(r"(?m)^\[(\w+)\]\n", text)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def rules() -> Iterator[tuple[str, Rule, bool]]:
    """Every rule of an option about a number: where, the rule, and whether integers are meant."""
    for name, record in sorted(records().items()):
        hints = get_type_hints(record, include_extras=True)
        for spec in fields(record):
            for hint in _annotated(hints[spec.name]):
                kind, *extras = get_args(hint)
                for rule in extras:
                    if kind in (int, float):
                        yield f"{name}.{spec.name}", rule, kind is int


def _annotated(hint: Any) -> Iterator[Any]:
    if get_origin(hint) is Annotated:
        yield hint
    for inner in get_args(hint):
        if get_origin(hint) is not Annotated or inner is get_args(hint)[0]:
            yield from _annotated(inner)


NUMBER = r"(-?[\d.]+(?:e-?\d+)?(?:\*\*\d+)?)"
WORDS = (
    (rf"between {NUMBER} and {NUMBER}(?: \w+)?", "[]"),
    (rf"(?:an integer )?in \[{NUMBER}, {NUMBER}\)", "[)"),
    (rf"{NUMBER} or more and below {NUMBER}", "[)"),
    (rf"above {NUMBER}, and at most {NUMBER}", "(]"),
    (rf"a finite number above {NUMBER}", "()"),
    (rf"a finite number, {NUMBER} or more", "[)"),
    (rf"an integer, {NUMBER} or more", "[]"),
    (rf"{NUMBER} or more \(inf: no upper bound\)", "[]"),
)


def interval(text: str) -> tuple[float, float, str]:
    """What the words of a rule allow, and whether the ends belong to it."""
    for pattern, ends in WORDS:
        if match := re.fullmatch(pattern, text):
            low, high = ([float(eval(n)) for n in match.groups()] + [math.inf])[:2]
            return low, high, ends
    pytest.fail(f"no words for the rule {text!r}: add them to WORDS")


def test_defaults_are_the_stored_ones() -> None:
    found, stored = (tables(text) for text in (defaults(), STORED.read_text(encoding="utf-8")))
    new = found.keys() - stored.keys()
    # The defaults of a method may change until a release has it: then they are stored.
    assert new <= {options.__name__ for options in METHOD_OPTIONS.values()}
    assert {name: table for name, table in found.items() if name not in new} == stored


def test_a_run_has_a_table_for_every_method() -> None:
    """To be a file of the folder is all that it takes, before any method is loaded."""
    folder = Path(config.__file__).with_name("methods")
    names = {path.stem for path in folder.glob("*.py") if not path.stem.startswith("_")}
    assert {"coke", "secu"} < names
    assert METHOD_OPTIONS.keys() == names
    tables = {spec.name: spec.default for spec in fields(RunConfig)}
    assert {name: tables.get(name, "no table") for name in names} == dict.fromkeys(names)
    hints = get_type_hints(RunConfig)
    for name, options in METHOD_OPTIONS.items():
        assert hints[name] == options | None


@pytest.mark.parametrize(
    ("rule", "whole"), [pytest.param(rule, whole, id=where) for where, rule, whole in rules()]
)
def test_a_rule_holds_where_its_words_say(rule: Rule, whole: bool) -> None:
    low, high, ends = interval(rule.text)
    below = low - 1 if whole else math.nextafter(low, -math.inf)
    above = low + 1 if whole else math.nextafter(low, math.inf)
    holds = rule.holds
    assert not holds(below)
    assert holds(low) == (ends[0] == "[")
    assert holds(above)
    if not whole:
        assert not holds(math.nan)
    if whole and math.isinf(high):
        assert holds(2**62)
    else:
        assert holds(int(high) - 1 if whole else math.nextafter(high, 0.0))
        assert holds(int(high) if whole else high) == (ends[1] == "]")
        if not math.isinf(high):
            assert not holds(int(high) + 1 if whole else math.nextafter(high, math.inf))
