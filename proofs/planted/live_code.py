"""Exchange the code of functions that are already in use, and take the exchange back.

A function may have been imported by name elsewhere, wrapped by a decorator, kept in a table, bound
as a property or closed over. All of these hold the same function object, or one made of the same
code, so it is the code that is exchanged: in every living function made of the old code. A function
compiled by numba is a constant of its callers' machine code; it and its callers get new dispatchers
without a disk cache, under the same names. Constants are bound anew under their name in every
module that holds the same object.
"""

from __future__ import annotations

import ast
import functools
import gc
import inspect
import sys
import types
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from ...algos.core.errors import InvalidValueError
from .source_edits import ROOT, Edit, functions_below, load, nested_code

__all__ = ["exchanged", "forget_results"]


@contextmanager
def exchanged(edit: Edit) -> Iterator[None]:
    """Run the block with the edit's new text in place of its old one.

    Raises
    ------
    InvalidValueError
        If nothing that lives was made of the old text, or the change is of a kind that cannot be
        exchanged: of a decorator, of a class's bases.
    """
    module = load(edit.place)
    with ExitStack() as undo:
        forget_results()
        undo.callback(forget_results)
        if isinstance(edit.new, ast.Assign | ast.AnnAssign):
            changed = _exchange_constant(edit, module, undo)
        else:
            _refuse_what_runs_once(edit)
            changed = _exchange_functions(edit, module, undo)
            changed |= _exchange_class_values(edit, module, undo)
        if not changed:
            msg = (
                f"nothing that runs was made of {edit.place.module}.{edit.place.name} as it stands"
                f" in {edit.place.path}. To fix this, start afresh after editing that file"
            )
            raise InvalidValueError(msg)
        yield


def forget_results() -> None:
    """Empty every `functools.cache` of the package: a stored result would hide an error."""
    kind = functools._lru_cache_wrapper  # which each of them refers to
    for item in gc.get_referrers(kind):
        if type(item) is kind and item.__module__.startswith(f"{ROOT}."):
            item.cache_clear()


def _refuse_what_runs_once(edit: Edit) -> None:
    """Decorators and bases have run already; a change of theirs would not be seen."""

    def parts(node: ast.AST) -> list[str]:
        above = [*getattr(node, "decorator_list", []), *getattr(node, "bases", [])]
        below = [d for _, f in functions_below(node) for d in f.decorator_list]
        return [ast.unparse(part) for part in (*above, *below)]

    if parts(edit.old) != parts(edit.new):
        msg = f"decorators and bases of {edit.place.name} cannot be exchanged, got a change of them"
        raise InvalidValueError(msg)


# Functions --------------------------------------------------------------------------------------


def _exchange_functions(edit: Edit, module: types.ModuleType, undo: ExitStack) -> bool:
    path = str(module.__file__)
    old, new = (
        nested_code(text, path, edit.place.name) for text in (edit.old_source, edit.new_source)
    )
    defaults = _changed_defaults(edit, module)
    pairs = [
        (before, after)
        for name, codes in old.items()
        if len(codes) == len(new.get(name, ()))
        for before, after in zip(codes, new[name], strict=True)
        if before != after or name in defaults
    ]
    names = {before.co_qualname for before, _ in pairs}
    living = [f for f in _functions(module) if f.__code__.co_qualname in names]
    touched = []
    for before, after in pairs:
        for function in living:
            code = function.__code__
            if code.co_filename == path and _is_same(code, before):
                touched.append(function)
                undo.callback(setattr, function, "__code__", code)
                if code.co_freevars != after.co_freevars:
                    msg = (
                        f"new must use the same outer variables as old in {after.co_qualname}:"
                        f" {code.co_freevars}, got {after.co_freevars}"
                    )
                    raise InvalidValueError(msg)
                function.__code__ = after
                key = after.co_qualname.replace(".<locals>", "")
                if key in defaults:
                    _set_defaults(function, *defaults[key], undo)
    _exchange_dispatchers(lambda d: any(d.py_func is f for f in touched), undo)
    return bool(touched)


def _is_same(code: types.CodeType, other: types.CodeType) -> bool:
    """Return whether both were made of one text, whatever flags numba has left."""
    names = ("co_qualname", "co_firstlineno", "co_code", "co_consts", "co_names", "co_varnames")
    return code == other or all(getattr(code, n) == getattr(other, n) for n in names)


def _functions(module: types.ModuleType) -> list[types.FunctionType]:
    """Return what lives of a module's text: each function refers to the module's names."""
    return [f for f in gc.get_referrers(vars(module)) if type(f) is types.FunctionType]


Defaults = tuple[tuple[Any, ...] | None, dict[str, Any] | None]


def _changed_defaults(edit: Edit, module: types.ModuleType) -> dict[str, Defaults]:
    """Return the new defaults of the functions whose defaults the edit changes."""
    parent = edit.place.name.rpartition(".")[0]
    old, new = (
        dict(functions_below(ast.Module([node], []), parent)) for node in (edit.old, edit.new)
    )
    return {
        name: _evaluated(node.args, module)
        for name, node in new.items()
        if name in old and _defaults_text(node) != _defaults_text(old[name])
    }


def _defaults_text(node: ast.FunctionDef) -> list[str]:
    return [ast.dump(d) if d else "" for d in (*node.args.defaults, *node.args.kw_defaults)]


def _evaluated(arguments: ast.arguments, module: types.ModuleType) -> Defaults:
    named = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    by_place = tuple(_value(d, module) for d in arguments.defaults)
    by_name = {a.arg: _value(d, module) for a, d in named if d is not None}
    return by_place or None, by_name or None


def _value(expression: ast.expr, module: types.ModuleType) -> Any:
    code = compile(ast.Expression(expression), str(module.__file__), "eval", dont_inherit=True)
    return eval(code, vars(module))


def _set_defaults(
    function: Callable[..., Any], by_place: Any, by_name: Any, undo: ExitStack
) -> None:
    for name, value in (("__defaults__", by_place), ("__kwdefaults__", by_name)):
        undo.callback(setattr, function, name, getattr(function, name))
        setattr(function, name, value)


# Constants --------------------------------------------------------------------------------------


def _exchange_constant(edit: Edit, module: types.ModuleType, undo: ExitStack) -> bool:
    assert isinstance(edit.new, ast.Assign | ast.AnnAssign)
    assert edit.new.value is not None
    owner, _, name = edit.place.name.rpartition(".")
    new = _value(edit.new.value, module)
    if owner:
        holder = functools.reduce(getattr, owner.split("."), module)
        return _bind_in_class(holder, name, new, undo)  # type: ignore[arg-type]
    old = vars(module)[name]
    holders = [m for m in _modules() if vars(m).get(name) is old]
    _bind(holders, name, old, new, undo)
    for holder in holders:  # defaults were read when their functions were made
        tree = ast.parse(_text(holder))
        for qualified, node in functions_below(tree):
            given = [*node.args.defaults, *filter(None, node.args.kw_defaults)]
            if any(isinstance(n, ast.Name) and n.id == name for d in given for n in ast.walk(d)):
                values = _evaluated(node.args, holder)
                for function in _functions(holder):
                    code = function.__code__
                    plain = code.co_qualname.replace(".<locals>", "")
                    if plain == qualified and code.co_filename == holder.__file__:
                        _set_defaults(function, *values, undo)
    spaces = [id(vars(m)) for m in holders]
    _exchange_dispatchers(
        lambda d: id(d.py_func.__globals__) in spaces and name in d.py_func.__code__.co_names, undo
    )
    return bool(holders)


def _text(module: types.ModuleType) -> str:
    with open(str(module.__file__), encoding="utf-8") as file:
        return file.read()


def _modules() -> list[types.ModuleType]:
    return [m for name, m in list(sys.modules.items()) if f"{name}.".startswith(f"{ROOT}.")]


def _bind(holders: list[types.ModuleType], name: str, old: Any, new: Any, undo: ExitStack) -> None:
    known = {id(m) for m in _modules()}

    def restore() -> None:
        for module in _modules():  # those too that were imported in the meantime
            if module in holders or (id(module) not in known and vars(module).get(name) is new):
                setattr(module, name, old)

    undo.callback(restore)
    for holder in holders:
        setattr(holder, name, new)


def _exchange_class_values(edit: Edit, module: types.ModuleType, undo: ExitStack) -> bool:
    """Exchange defaults of a record's fields, and other values that the body of a class binds."""
    if not isinstance(edit.new, ast.ClassDef):
        return False

    def values(node: ast.AST) -> dict[str, ast.expr]:
        return {
            (n.target if isinstance(n, ast.AnnAssign) else n.targets[0]).id: n.value  # type: ignore
            for n in getattr(node, "body", ())
            if isinstance(n, ast.Assign | ast.AnnAssign) and n.value is not None
        }

    before = values(edit.old)
    changed = {
        name: value
        for name, value in values(edit.new).items()
        if name in before and ast.dump(value) != ast.dump(before[name])
    }
    holder = functools.reduce(getattr, edit.place.name.split("."), module)
    bound = [
        _bind_in_class(holder, name, _value(value, module), undo)  # type: ignore[arg-type]
        for name, value in changed.items()
    ]
    return any(bound)


def _bind_in_class(holder: type, name: str, new: Any, undo: ExitStack) -> bool:
    """Bind a class's attribute, or a record's default, which its constructor holds as well."""
    old = vars(holder).get(name)
    bound = name in vars(holder) and not inspect.isdatadescriptor(old)  # not a slot, nor a field
    if bound:
        undo.callback(setattr, holder, name, old)
        setattr(holder, name, new)
    constructor: Any = (
        holder.__new__ if hasattr(holder, "_fields") else vars(holder).get("__init__")
    )
    if not isinstance(constructor, types.FunctionType):
        return bound
    code, by_place = constructor.__code__, constructor.__defaults__ or ()
    arguments = code.co_varnames[: code.co_argcount]
    placed = dict(zip(arguments[len(arguments) - len(by_place) :], by_place, strict=True))
    named = dict(constructor.__kwdefaults__ or {})
    if name not in placed and name not in named:
        return bound
    values = ({n: new if n == name else v for n, v in d.items()} for d in (placed, named))
    first, second = values
    _set_defaults(constructor, tuple(first.values()) or None, second or None, undo)
    return True


# Functions compiled by numba --------------------------------------------------------------------


def _exchange_dispatchers(chosen: Callable[[Any], bool], undo: ExitStack) -> None:
    """New dispatchers, without the disk cache, for the chosen ones and all that call them."""
    living = {
        id(item): item
        for module in _modules()
        for item in list(vars(module).values())
        if hasattr(type(item), "py_func") or "py_func" in getattr(item, "__dict__", {})
        if hasattr(item, "targetoptions")
    }
    stale = {i for i, d in living.items() if chosen(d)}
    while True:
        callers = {
            i
            for i, d in living.items()
            if i not in stale
            and any(id(d.py_func.__globals__.get(n)) in stale for n in d.py_func.__code__.co_names)
        }
        if not callers:
            break
        stale |= callers
    for i in stale:
        old = living[i]
        new = type(old)(old.py_func, locals={}, targetoptions=dict(old.targetoptions))
        undo.callback(_rebind, new, old)
        _rebind(old, new)


def _rebind(old: object, new: object) -> None:
    for module in _modules():
        for name, value in list(vars(module).items()):
            if value is old:
                setattr(module, name, new)
