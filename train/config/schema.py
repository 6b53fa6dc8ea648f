"""Records that check themselves, and TOML that gives them back unchanged.

A setting's type carries its rule: ``lr: Annotated[float, Rule("above 0", lambda x: x > 0)]``. A
frozen dataclass that inherits `Checked` brings every field to its type and holds it to its rule,
however the record was made: by hand, from a file or from the command line.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Annotated, Any, NamedTuple, TypeVar, cast, get_args, get_origin, get_type_hints

from ...algos.core.errors import UsageError
from ...common.untrusted import parse_toml

__all__ = ["Checked", "Rule", "dump_config", "flat", "from_mapping", "override"]

T = TypeVar("T")


class Rule(NamedTuple):
    """A condition on a field, and the words that complete "must be …"."""

    text: str
    holds: Callable[[Any], bool]


class Checked:
    """Base of the records: every field is brought to its type and held to its rule."""

    __slots__ = ()

    def __post_init__(self) -> None:
        kind: Any = type(self)  # mypy takes no class for hashable
        for name, hint in _hints(kind).items():
            object.__setattr__(self, name, _convert(getattr(self, name), hint, name))


def from_mapping(cls: type[T], mapping: Mapping[str, Any], where: str = "config.toml") -> T:
    """Build the record `cls` from nested mappings, as `tomllib` returns them.

    Parameters
    ----------
    cls : type. A frozen dataclass that inherits `Checked`.
    mapping : mapping from field name to value; an inner record is an inner mapping.
    where : str. Where the values stand, named in every message.

    Raises
    ------
    UsageError
        At the first key that is unknown or missing, or whose value breaks its type or rule.
    """
    return cast(T, _build(cls, mapping, f"{where}: ", ""))


def dump_config(config: Any) -> str:
    """Write a record as TOML: scalars and lists first, then one table for each inner record.

    Reading the text back gives an equal record: floats are written by `repr`. A table that is None
    is left out, and so is a list that is empty where it is by default.
    """
    scalars, tables = [], []
    for spec in fields(config):
        value = getattr(config, spec.name)
        if value is None or value == spec.default == ():
            continue
        if is_dataclass(value):
            tables.append(f"\n[{spec.name}]\n{dump_config(value)}")
        else:
            scalars.append(f"{spec.name} = {_toml(value)}\n")
    return "".join(scalars + tables)


def override(config: T, items: Iterable[str]) -> T:
    """Copy a record with some values replaced: ``["optim.lr=0.1", "data.source=digits"]``.

    A value is read as TOML; what is not TOML is taken as a string, so that a shell needs no
    nested quotes. All items are set before the rules are checked.

    Raises
    ------
    UsageError
        If an item is not ``key=value``, or the result breaks a rule.
    """
    mapping = _as_mapping(config)
    for item in items:
        key, equals, text = item.partition("=")
        *tables, name = key.strip().split(".")
        table: Any = mapping
        for step in tables:
            table = table.setdefault(step, {}) if isinstance(table, dict) else None
        if not equals or not isinstance(table, dict) or not name:
            msg = (
                f"override {item!r} must look like key=value or table.key=value. "
                f"To fix this, write for example optim.lr=0.1"
            )
            raise UsageError(msg)
        try:
            parsed = parse_toml(f"value = {text}")
        except ValueError:
            parsed = {}
        # More than one key: the text held a line break and then another assignment.
        table[name] = parsed["value"] if len(parsed) == 1 else text.strip()
    return from_mapping(type(config), mapping, "override")


def flat(table: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the settings of nested tables under their whole names, as ``override`` takes them.

    Examples
    --------
    >>> dict(flat({"epochs": 3, "optim": {"lr": 0.1}}))
    {'epochs': 3, 'optim.lr': 0.1}
    """
    for name, value in table.items():
        if isinstance(value, dict):
            yield from flat(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", value


def _as_mapping(config: Any) -> dict[str, Any]:
    values = {spec.name: getattr(config, spec.name) for spec in fields(config)}
    kept = {k: v for k, v in values.items() if v is not None}
    return {k: _as_mapping(v) if is_dataclass(v) else v for k, v in kept.items()}


@cache
def _hints(cls: type[Any]) -> dict[str, Any]:
    """Return the types of the fields with their rules: kept, since Python evaluates texts."""
    return get_type_hints(cls, include_extras=True)


def _inner(hint: Any) -> type[Any] | None:
    """Return the record type of an inner table, also of one that may be left out (``X | None``)."""
    kinds = [kind for kind in (hint, *get_args(hint)) if is_dataclass(kind)]
    return cast(type[Any], kinds[0]) if kinds else None


def _build(cls: Any, mapping: Any, where: str, table: str) -> Any:
    place = f"{where}[{table}] " if table else where
    if not isinstance(mapping, Mapping):
        msg = f"{where}{table} must be a table, got {_short(mapping)}. To fix this, write [{table}]"
        raise UsageError(msg)
    hints = _hints(cls)
    known = {spec.name: spec for spec in fields(cls)}
    for key in mapping:
        if key not in known:
            close = difflib.get_close_matches(str(key), known)
            hint = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(known)}."
            wrong = f"{place}unknown key {str(key)[:60]!r}"
            msg = f"{wrong}; {hint} To fix this, rename it or leave it out"
            raise UsageError(msg)
    for name, spec in known.items():
        if name not in mapping and spec.default is MISSING and spec.default_factory is MISSING:
            msg = f"{place}missing key {name!r}. To fix this, set it"
            raise UsageError(msg)
    inner = {
        name: _build(kind, value, where, f"{table}.{name}".lstrip("."))
        for name, value in mapping.items()
        if (kind := _inner(hints[name])) is not None
    }
    try:
        return cls(**{**mapping, **inner})
    except UsageError as error:
        msg = f"{place}{error}"
        raise UsageError(msg) from None


_SET = "To fix this, set it to such a value, or leave it out for the default"

_WORDS = {int: "an integer", float: "a number", bool: "true or false", str: "a string"}


def _convert(value: Any, hint: Any, key: str) -> Any:
    """Bring `value` to the type `hint`, or raise `UsageError` naming `key`."""
    if get_origin(hint) is Annotated:
        kind, *rules = get_args(hint)
        value = _convert(value, kind, key)
        for rule in rules:
            if not rule.holds(value):
                msg = f"{key} must be {rule.text}, got {_toml(value)}. {_SET}"
                raise UsageError(msg)
        return value
    if _inner(hint) is not None and type(None) in get_args(hint):
        return value if value is None else _convert(value, _inner(hint), key)
    if get_origin(hint) is tuple:
        kinds = get_args(hint)
        if not isinstance(value, (list, tuple)):
            msg = f"{key} must be a list, got {_short(value)} ({type(value).__name__}). {_SET}"
            raise UsageError(msg)
        if kinds[-1] is ...:
            kinds = (kinds[0],) * len(value)
        if len(kinds) != len(value):
            msg = f"{key} must be a list of {len(kinds)} values, got {_short(list(value))}. {_SET}"
            raise UsageError(msg)
        pairs = enumerate(zip(value, kinds, strict=True))
        return tuple(_convert(item, kind, f"{key}[{i}]") for i, (item, kind) in pairs)
    # bool is a subclass of int in Python; here it is never a number.
    numeric = isinstance(value, (int, float)) and not isinstance(value, bool)
    if numeric and (hint is float or (hint is int and isinstance(value, int))):
        try:
            return hint(value)
        except OverflowError:
            msg = f"{key} must be a number that a float can hold, got {value}. {_SET}"
            raise UsageError(msg) from None
    if hint in (int, float) or not isinstance(value, hint):
        expected = _WORDS.get(hint, f"an instance of {hint.__name__}")
        msg = f"{key} must be {expected}, got {_short(value)} ({type(value).__name__}). {_SET}"
        raise UsageError(msg)
    return value


def _short(value: Any) -> str:
    """Spell a value for a message, on one line."""
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:197]}..."


def _toml(value: Any) -> str:
    """Spell a scalar, a string or a list in TOML."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, str):
        # JSON's escapes are TOML's, except that TOML forbids a bare DEL as well.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return repr(value)
