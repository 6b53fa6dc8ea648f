"""Pages of the site that are written from the code: settings, recipes, command, claims."""

from __future__ import annotations

import argparse
import inspect
import os
import re
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE))

from reference import (  # noqa: E402
    ALL_GROUPS,
    capabilities_page,
    front_names,
    group_page,
    groups_table,
    home,
    names_page,
    public_names,
)

__all__ = [
    "ALL_GROUPS",
    "attributes",
    "capabilities_page",
    "claims_page",
    "command_page",
    "front_names",
    "group_page",
    "groups_table",
    "home",
    "names_page",
    "public_names",
    "recipe_pages",
    "recipe_texts",
    "recipes_page",
    "records",
    "settings_page",
    "write_pages",
]


GROUPS_HERE = "<!-- the groups -->"
"""Where the index of the reference has the table of groups."""
MOST_HEADS = 4
"""Heads of a recipe that the table of recipes lists; of more, the first two and the last."""


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
    index = reference / "index.md"
    text = index.read_text(encoding="utf-8").replace(GROUPS_HERE, groups_table())
    index.write_text(text, encoding="utf-8")
    (folder / "claims_by_status.md").write_text(claims_page(folder / "claims.md"), encoding="utf-8")


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
        heads = _few(recipe.get("heads", {}).get("clusters", []))
        cells = (recipe.get(key, "") for key in ("method", "epochs", "batch_size"))
        method = recipe.get("method", "secu")
        anchor = f"[`{name}`](recipes/{method}.md#{name.replace('_', '-')})"
        lines.append(f"| {anchor} | {' | '.join(map(str, cells))} | {heads} |")
    methods = sorted({tomllib.loads(t).get("method", "secu") for t in recipe_texts().values()})
    lines += ["", "```{toctree}", ":maxdepth: 1", *[f"recipes/{m}" for m in methods], "```"]
    return "\n".join(lines) + "\n"


def _few(numbers: list[int]) -> str:
    shown = [str(number) for number in numbers]
    if len(shown) > MOST_HEADS:
        return f"{shown[0]}, {shown[1]}, …, {shown[-1]}"
    return ", ".join(shown)


def recipe_texts() -> dict[str, str]:
    """Return the text of every built-in recipe by name."""
    folder = ROOT / "train" / "recipes"
    return {p.stem: p.read_text(encoding="utf-8") for p in sorted(folder.glob("*.toml"))}


def recipe_pages() -> dict[str, str]:
    """Write one page of recipes for each method; what a recipe is for stands above its block."""
    pages: dict[str, list[str]] = {}
    for name, text in recipe_texts().items():
        method = tomllib.loads(text).get("method", "secu")
        page = pages.setdefault(method, [f"# Recipes of `{method}`", ""])
        about, settings = _comment_of(text)
        page += [f"## {name}", "", *about, f"```toml\n{settings.rstrip()}\n```", ""]
    return {method: "\n".join(page) for method, page in pages.items()}


def _comment_of(text: str) -> tuple[list[str], str]:
    """Split the comment at the head of a recipe off, as paragraphs of Markdown."""
    found = re.match(r"(?:#.*\n)*", text)
    head, rest = (found[0], text[found.end() :]) if found else ("", text)
    about = " ".join(line.removeprefix("#").strip() for line in head.splitlines())
    about = about.replace("docs/departures.md", "[departures](../../departures.md)")
    return ([about, ""] if about else []), rest


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
    order = [
        "refuted",
        "not established",
        "erratum (repaired)",
        "holds with an extra hypothesis",
        "holds",
        "open",
    ]
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
