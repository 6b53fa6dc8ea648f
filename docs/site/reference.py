"""Pages of the reference: groups and their names, the front door, which engine runs where."""

from __future__ import annotations

import ast
import enum
import inspect
import itertools
import re
import textwrap
from collections.abc import Mapping
from dataclasses import is_dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

GROUPS = {
    "The mathematics": [
        "dualclust.algos.core",
        "dualclust.algos.bounds",
        "dualclust.algos.scores",
        "dualclust.algos.online",
        "dualclust.algos.offline",
        "dualclust.algos.offline.grouped",
        "dualclust.algos.offline.weighted",
        "dualclust.algos.baselines",
        "dualclust.algos.batches",
        "dualclust.algos.clustering",
        "dualclust.algos.selection",
        "dualclust.algos.losses",
        "dualclust.algos.losses.gatcluster",
        "dualclust.algos.losses.information",
        "dualclust.algos.losses.propos",
        "dualclust.algos.pseudo_labels",
        "dualclust.algos.theory",
    ],
    "Engines, estimators, files and ranks": [
        "dualclust.backends",
        "dualclust.estimators",
        "dualclust.common",
    ],
    "A loop of one's own": ["dualclust.torch"],
    "Training": [
        "dualclust.train.config",
        "dualclust.train.state",
        "dualclust.train.augment",
        "dualclust.train.data",
        "dualclust.train.networks",
        "dualclust.train.report",
        "dualclust.train.report.page",
        "dualclust.train.models",
        "dualclust.train.methods",
        "dualclust.train.loop",
        "dualclust.train.own_data",
        "dualclust.train.comparison",
    ],
    "Claims": ["dualclust.proofs.registry"],
}
ALL_GROUPS = [name for names in GROUPS.values() for name in names]


def group_page(name: str) -> str:
    """Write the reference of one group: its docstring, then module by module its public names."""
    group = import_module(name)
    by_module: dict[str, list[str]] = {}
    for public in sorted(public_names(group), key=str.isupper):  # constants last
        by_module.setdefault(defined_in(group, public), []).append(public)
    parts = [
        _title(name.removeprefix("dualclust."), "="),
        f".. automodule:: {name}\n   :no-members:\n",
    ]
    parts += [f".. currentmodule:: {name}\n"]
    text = inspect.getsource(group)  # modules in the order in which the group imports them
    places = {m: text.find(f"from .{m.removeprefix(f'{name}.')} ") for m in by_module}
    order = sorted(by_module, key=lambda m: (m != name, places[m]))  # its own names have no heading
    for module, members in ((m, by_module[m]) for m in order):
        if module != name:
            parts.append(_title(module.removeprefix(f"{name}."), "-"))
            # Its text alone: the names are those of the group.
            parts.append(f".. automodule:: {module}\n   :no-members:\n   :no-index:\n")
            parts.append(f".. currentmodule:: {name}\n")
        for member in members:
            parts.append(_member(group, module, name, member))
    return "\n".join(parts)


def public_names(group: ModuleType) -> list[str]:
    """Return the names that a group exports, without those of other packages."""
    names = [name for name in group.__all__ if not inspect.ismodule(getattr(group, name))]
    return [name for name in names if not name.startswith("__")]


def defined_in(group: ModuleType, name: str) -> str:
    """Return the module of a group that defines a name."""
    module = getattr(getattr(group, name), "__module__", None)
    if module and module.startswith(f"{group.__name__}.") and not _private(module):
        return str(module)
    for path in sorted(Path(str(group.__file__)).parent.glob("*.py")):
        if path.stem[0] != "_" and name in _top_level(path):
            return f"{group.__name__}.{path.stem}"
    return group.__name__


def _private(module: str) -> bool:
    return module.rpartition(".")[2].startswith("_")


def _top_level(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found: set[str] = set()
    for node in tree.body:
        found |= _assigned(node)
    return found


def _assigned(node: ast.stmt) -> set[str]:
    """Return the names that a statement gives a value."""
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    each = itertools.chain(*(t.elts if isinstance(t, ast.Tuple) else [t] for t in targets))
    return {target.id for target in each if isinstance(target, ast.Name)}


def _member(group: ModuleType, module: str, name: str, member: str) -> str:
    thing = getattr(group, member)
    if inspect.isclass(thing):
        values = "   :undoc-members:\n" if issubclass(thing, enum.Enum) else ""
        return f".. autoclass:: {name}.{member}\n   :members:\n{values}"
    if inspect.isroutine(thing):
        return f".. autofunction:: {name}.{member}\n"
    text = f"{_text_after(group, member)}\n\n{_value(thing)}".strip()
    return f".. py:data:: {member}\n\n{textwrap.indent(text, '   ')}\n"


MOST_SHOWN = 600
"""Characters of a constant that are shown; of a longer table, or one of functions, its keys."""


def _value(thing: Any) -> str:
    """Return a constant as a reader sees it, without the addresses and paths of its `repr`."""
    text = repr(dict(thing) if isinstance(thing, Mapping) else thing)
    if len(text) > MOST_SHOWN and is_dataclass(thing) and thing == type(thing)():
        return f"``{type(thing).__name__}()``"
    text = re.sub(r"\bdualclust(?:\.\w+)*\.(?=[A-Z])", "", text)
    if isinstance(thing, Mapping) and (len(text) > MOST_SHOWN or "<" in text):
        return f"Keys: {', '.join(f'``{key!r}``' for key in thing)}."
    return f"``{text}``" if text != "{}" else ""


def _text_after(group: ModuleType, name: str) -> str:
    """Return the string below an assignment, as this library documents its constants."""
    for path in sorted(Path(str(group.__file__)).parent.rglob("*.py")):
        body = ast.parse(path.read_text(encoding="utf-8")).body
        for node, after in itertools.pairwise(body):
            value = getattr(getattr(after, "value", None), "value", None)
            if name in _assigned(node) and isinstance(after, ast.Expr) and isinstance(value, str):
                return inspect.cleandoc(value)
    return ""


def groups_table() -> str:
    """Write the groups of the reference, each with the first line of its text."""
    lines = []
    for title, names in GROUPS.items():
        lines += [f"**{title}**", "", "| group | holds |", "|---|---|"]
        for name in names:
            first = (inspect.getdoc(import_module(name)) or "").splitlines()[0]
            lines.append(f"| [{name.removeprefix('dualclust.')}]({name}.rst) | {_marked(first)} |")
        lines.append("")
    return "\n".join(lines)


def _marked(line: str) -> str:
    """Turn the names of a docstring's line into code, for a cell of a table."""
    return re.sub(r"(?<!`)`([^`]+)`(?!`)", r"``\1``", line).replace("|", "\\|")


def names_page() -> str:
    """Write the names of the front door: what `import dualclust as dc` holds."""
    front = import_module("dualclust")
    lines = [
        "# The front door",
        "",
        "What `import dualclust as dc` holds, and where each name is described. Importing it loads",
        "neither torch nor numba nor scikit-learn.",
        "",
        "| name | what it is |",
        "|---|---|",
    ]
    for name in front_names():
        first = (inspect.getdoc(getattr(front, name)) or "").splitlines()[0]
        lines.append(f"| {{py:obj}}`{name} <{home(name)}>` | {_marked(first)} |")
    return "\n".join(lines) + "\n"


def front_names() -> list[str]:
    """Return what `import dualclust as dc` holds."""
    return [name for name in import_module("dualclust").__all__ if name != "__version__"]


def home(name: str) -> str:
    """Return the group that describes a name of the front door, and the name that it has there."""
    thing = getattr(import_module("dualclust"), name)
    module = thing.__module__
    while module not in ALL_GROUPS and "." in module:
        module = module.rpartition(".")[0]
    return f"{module}.{getattr(thing, '__name__', name)}"  # `load` is `load_model` there


def capabilities_page() -> str:
    """Write the table of kernels and engines from the dispatch table."""
    from dualclust.backends import KERNELS, OPTIONAL, TABLE

    for group in GROUPS["The mathematics"]:
        import_module(group)
    places = [("numpy", "cpu"), ("torch", "cpu"), ("torch", "cuda")]
    lines = [
        "# Where it runs",
        "",
        "Everything is array-API code and runs wherever the arrays live; results come back on the",
        "library and device of the scores. A *kernel* is a loop that array code cannot express",
        "fast; this table, written from `dualclust.backends.TABLE`, says which engine runs it. The",
        "text of a kernel runs everywhere else: JAX (CPU, 64-bit types, outside of `jax.jit`),",
        "array-api-strict, and what is to come.",
        "",
        "| kernel | NumPy | PyTorch, CPU | PyTorch, CUDA | what it does |",
        "|---|---|---|---|---|",
    ]
    for kernel, rows in TABLE.items():
        engines = [rows.get(place, "its text").partition(":")[0] for place in places]
        what = (inspect.getdoc(KERNELS[kernel]) or "").splitlines()[0] if kernel in KERNELS else ""
        cells = [e if e == "its text" else f"`{e}`" for e in engines]
        lines.append(f"| `{kernel}` | {' | '.join(cells)} | {_marked(what)} |")
    lines += [
        "",
        '`with dc.engine("triton"):` asks for ' + " and ".join(f"`{name}`" for name in OPTIONAL),
        "on CUDA, which is optional ([how](../guides/card.md)).",
        '`with dc.engine("reference"):` runs the text of every kernel, to compare with. The test',
        "`tests/backends` compares each row with it. Modules named `torch_cpu` hand the memory of",
        "a tensor to numba without a copy.",
    ]
    return "\n".join(lines) + "\n"


def _title(text: str, mark: str) -> str:
    return f"{text}\n{mark * len(text)}\n"
