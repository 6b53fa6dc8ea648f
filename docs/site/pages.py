"""Pages of the site that are written from the code: reference, settings, recipes, command."""

from __future__ import annotations

import argparse
import ast
import inspect
import itertools
import os
import re
import textwrap
import tomllib
from collections.abc import Iterator
from dataclasses import MISSING, fields, is_dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

ROOT = Path(__file__).resolve().parents[2]
GROUPS = {
    "The mathematics": [
        "dualclust.algos.core",
        "dualclust.algos.bounds",
        "dualclust.algos.scores",
        "dualclust.algos.online",
        "dualclust.algos.offline",
        "dualclust.algos.baselines",
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


def write_pages(folder: Path) -> None:
    """Write every generated page into a folder of sources."""
    reference = folder / "reference"
    (reference / "recipes").mkdir(parents=True, exist_ok=True)
    for name in ALL_GROUPS:
        (reference / f"{name}.rst").write_text(group_page(name), encoding="utf-8")
    pages = {
        "names.md": names_page(),
        "capabilities.md": capabilities_page(),
        "settings.md": settings_page(),
        "command.md": command_page(),
        "recipes.md": recipes_page(),
        **{f"recipes/{method}.md": text for method, text in recipe_pages().items()},
    }
    for name, text in pages.items():
        (reference / name).write_text(text, encoding="utf-8")
    (folder / "claims_by_status.md").write_text(claims_page(folder / "claims.md"), encoding="utf-8")


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
    order = sorted(by_module, key=lambda m: text.find(f"from .{m.removeprefix(f'{name}.')} "))
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
        if isinstance(node, ast.Assign):
            found |= {t.id for t in node.targets if isinstance(t, ast.Name)}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found.add(node.target.id)
    return found


def _member(group: ModuleType, module: str, name: str, member: str) -> str:
    thing = getattr(group, member)
    if inspect.isclass(thing):
        return f".. autoclass:: {name}.{member}\n   :members:\n"
    if inspect.isroutine(thing):
        return f".. autofunction:: {name}.{member}\n"
    value = textwrap.shorten(re.sub(r" at 0x\w+", "", repr(thing)), 400, placeholder=" ...")
    text = f"{_text_after(module, member)}\n\n``{value}``".strip()
    return f".. py:data:: {member}\n\n{textwrap.indent(text, '   ')}\n"


def _text_after(module: str, name: str) -> str:
    """Return the string below an assignment, as this library documents its constants."""
    body = ast.parse(inspect.getsource(import_module(module))).body
    for node, after in itertools.pairwise(body):
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(isinstance(t, ast.Name) and t.id == name for t in targets) and isinstance(
            after, ast.Expr
        ):
            value = getattr(after.value, "value", None)
            if isinstance(value, str):
                return inspect.cleandoc(value)
    return ""


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
        first = re.sub(r"(?<!`)`([^`]+)`(?!`)", r"``\1``", first).replace("|", "\\|")
        lines.append(f"| {{py:obj}}`{name} <{home(name)}>` | {first} |")
    return "\n".join(lines) + "\n"


def front_names() -> list[str]:
    """Return what `import dualclust as dc` holds."""
    return [name for name in import_module("dualclust").__all__ if name != "__version__"]


def home(name: str) -> str:
    """Return the group that describes a name of the front door, and the name."""
    module = getattr(import_module("dualclust"), name).__module__
    while module not in ALL_GROUPS and "." in module:
        module = module.rpartition(".")[0]
    return f"{module}.{name}"


def capabilities_page() -> str:
    """Write the table of kernels and engines from the dispatch table."""
    from dualclust.backends import KERNELS, TABLE

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
        "| kernel | what it does | NumPy | PyTorch, CPU | PyTorch, CUDA | others |",
        "|---|---|---|---|---|---|",
    ]
    for kernel, rows in TABLE.items():
        engines = [rows.get(place, "its text").partition(":")[0] for place in places]
        what = (inspect.getdoc(KERNELS[kernel]) or "").splitlines()[0] if kernel in KERNELS else ""
        what = re.sub(r"(?<!`)`([^`]+)`(?!`)", r"``\1``", what)
        cells = [e if e == "its text" else f"`{e}`" for e in engines]
        lines.append(f"| `{kernel}` | {what} | {' | '.join(cells)} | its text |")
    lines += [
        "",
        '`with dc.engine("reference"):` runs the text of every kernel, to compare with. The test',
        "`tests/backends` compares each row with it. Modules named `torch_cpu` hand the memory of",
        "a tensor to numba without a copy.",
    ]
    return "\n".join(lines) + "\n"


def records() -> Iterator[tuple[str, type]]:
    """Every table of settings of a run, as (table of the TOML file, record)."""
    from dualclust.train import config

    yield "", config.RunConfig
    for spec in fields(config.RunConfig):
        hint = get_type_hints(config.RunConfig)[spec.name]
        kinds = [hint, *get_args(hint)]
        record = next((k for k in kinds if isinstance(k, type) and is_dataclass(k)), None)
        if record is not None and spec.name not in {"second", "small"}:
            yield spec.name, record


def settings_page() -> str:
    """Write every setting with its rule, its default and its meaning."""
    parts = [
        "# Settings",
        "",
        "Every setting of a training run, written from the records that check them. In a recipe",
        "(TOML) a setting stands in the table of its section; on the command line it is",
        "`--set TABLE.NAME=VALUE`. `[second]` and `[small]` are tables like `[augment]`.",
        "",
    ]
    for table, record in records():
        doc = inspect.getdoc(record) or ""
        title = f"`[{table}]`" if table else "Top of the file"
        parts += [
            f"(settings-{table or 'top'})=",
            f"## {title}",
            "",
            _code(doc.splitlines()[0]),
            "",
        ]
        described = attributes(doc)
        hints = get_type_hints(record, include_extras=True)
        for spec in fields(record):
            if not table and (is_dataclass(spec.default_factory) or spec.name in dict(records())):
                continue
            kind, meaning = described.get(spec.name, ("", ""))
            rule = _rule(hints[spec.name]) or kind
            default = "" if spec.default is MISSING else f"; default `{_toml(spec.default)}`"
            term = f"`{spec.name}` ({_code(rule)}{default})"
            parts += [term, f": {_code(meaning)}", ""]
        parts.append("")
    return "\n".join(parts)


def attributes(doc: str) -> dict[str, tuple[str, str]]:
    """Split the section "Attributes" of a record into {name: (kind, meaning)}."""
    match = re.search(r"^Attributes\n-+\n(.*?)(?=^\w[^\n]*\n-+\n|\Z)", doc, re.M | re.S)
    found: dict[str, tuple[str, str]] = {}
    for entry in re.split(r"\n(?=\S)", match[1] if match else ""):
        names, _, text = entry.partition(" : ")
        text = " ".join(text.split())
        kind, _, meaning = text.partition(". ")
        if not meaning:  # the kind is all there is to say
            kind, meaning = "", text
        for name in names.split(", "):
            found[name.strip()] = (kind, meaning)
    return found


def _rule(hint: Any) -> str:
    if get_origin(hint) is Annotated:
        return "; ".join(str(extra.text) for extra in get_args(hint)[1:] if hasattr(extra, "text"))
    return ""


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'"{value}"'
    return str(list(value) if isinstance(value, tuple) else value)


def _code(text: str) -> str:
    """Turn the marks of a docstring into those of Markdown."""
    return re.sub(r"(?<!`)`([^`]+)`(?!`)", r"`\1`", text.replace("``", "`"))


def command_page() -> str:
    """Write the help of the command and of each subcommand."""
    from dualclust.cli.main import build_parser

    os.environ["COLUMNS"] = "88"
    parser = build_parser()
    parts = ["# The command", "", "What `--help` prints.", "", _block(parser.format_help())]
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, sub in action.choices.items():
                parts += ["", f"## `dualclust {name}`", "", _block(sub.format_help())]
    return "\n".join(parts) + "\n"


def _block(text: str) -> str:
    return f"```text\n{text.rstrip()}\n```"


def recipes_page() -> str:
    """Write the table of the built-in recipes."""
    lines = [
        "# Recipes",
        "",
        "The built-in recipes: `dualclust train METHOD --recipe NAME --data SOURCE`. Those of the",
        "papers' sets follow a paper or its released code, as [departures](../departures.md) says",
        "setting by setting; we have not run them to their end. Those for `digits` and `mnist` are",
        "ours, and [measured](../benchmarks/mnist.md).",
        "",
        "| recipe | method | epochs | batch | clusters |",
        "|---|---|---|---|---|",
    ]
    for name, text in recipe_texts().items():
        recipe = tomllib.loads(text)
        heads = ", ".join(map(str, recipe.get("heads", {}).get("clusters", [])))
        cells = (recipe.get(key, "") for key in ("method", "epochs", "batch_size"))
        method = recipe.get("method", "secu")
        anchor = f"[`{name}`](recipes/{method}.md#{name.replace('_', '-')})"
        lines.append(f"| {anchor} | {' | '.join(map(str, cells))} | {heads} |")
    methods = sorted({tomllib.loads(t).get("method", "secu") for t in recipe_texts().values()})
    lines += ["", "```{toctree}", ":maxdepth: 1", *[f"recipes/{m}" for m in methods], "```"]
    return "\n".join(lines) + "\n"


def recipe_texts() -> dict[str, str]:
    """Return the text of every built-in recipe by name."""
    folder = ROOT / "train" / "recipes"
    return {p.stem: p.read_text(encoding="utf-8") for p in sorted(folder.glob("*.toml"))}


def recipe_pages() -> dict[str, str]:
    """Write one page of recipes for each method."""
    pages: dict[str, list[str]] = {}
    for name, text in recipe_texts().items():
        method = tomllib.loads(text).get("method", "secu")
        page = pages.setdefault(method, [f"# Recipes of `{method}`", ""])
        page += [f"## {name}", "", f"```toml\n{text.rstrip()}\n```", ""]
    return {method: "\n".join(page) for method, page in pages.items()}


def claims_page(claims: Path) -> str:
    """Write the claims by paper and status, each with its link, from the page of claims."""
    paper, rows = "", dict[str, dict[str, list[tuple[str, str]]]]()
    page = claims.read_text(encoding="utf-8")
    stated = re.findall(r'<a id="(\w+)">.*?\*\*Statement\.\*\* (.*?)\n\n', page, re.S)
    statements = {claim: " ".join(text.split()) for claim, text in stated}
    for line in page.splitlines():
        if line.startswith("## "):
            paper = line[3:]
        match = re.match(r"\| (?:\[|\{claim\}`)(\w+)[^|]*\| (.*) \| ([^|]+) \| (\w+) \|$", line)
        if match:
            claim, place, status, about = match.groups()
            text = f"{place}{'' if about == 'library' else f' ({about})'}: {statements[claim]}"
            rows.setdefault(status.strip(), {}).setdefault(paper, []).append((claim, text))
    order = ["refuted", "erratum (repaired)", "holds with an extra hypothesis", "holds", "open"]
    parts = [
        "# Claims by status",
        "",
        "Which sentences of the papers are false, which need a repair or a hypothesis that is left",
        "out, and which hold. Each link leads to the statement, the reason and the program.",
        "`(paper)` and `(print)` mark checks that do not call this library.",
        "",
    ]
    for status in [*order, *[s for s in rows if s not in order]]:
        count = sum(len(v) for v in rows.get(status, {}).values())
        parts += [f"## {status.capitalize()} ({count})", ""]
        for name, found in rows.get(status, {}).items():
            items = [f"{{claim}}`{claim}` {place}" for claim, place in found]
            parts += [f"**{name}**", "", *[f"- {item}" for item in items], ""]
    return "\n".join(parts)


def _title(text: str, mark: str) -> str:
    return f"{text}\n{mark * len(text)}\n"
