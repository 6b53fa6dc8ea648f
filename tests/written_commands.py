"""Commands of ``dualclust`` that are written down: in pages, docstrings, messages and settings.

A command is found where it is marked as one: between backticks, in a fenced block, on an indented
line of its own, or in quotes. Names in capitals stand for a value (`K`, `RUN`), and what a message
fills in is one.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import io
import re
import shlex
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from dualclust.algos.core.errors import UsageError
from dualclust.cli.main import build_parser
from dualclust.cli.train_settings import read_recipe
from dualclust.train.config.run import RunConfig, override

__all__ = ["Written", "commands_of", "refusal", "texts_of"]

FILLED = "7"
"""What a message fills in, or a name in capitals stands for."""

MARKED = (
    re.compile(r"``\s*(?:\$ )?((?:torchrun [^`]* -m )?dualclust [^`]+?)\s*``", re.S),
    re.compile(r"(?<!`)`\s*((?:torchrun [^`]* -m )?dualclust [^`]+?)\s*`(?!`)", re.S),
    re.compile(r"['\"](dualclust [a-z][^'\"\n]*)['\"]"),
    re.compile(r"^(?:\$ |    +\$? ?|#\s+)((?:torchrun .* -m )?dualclust (?!: ).*)$", re.M),
)
COMMANDS = (
    "cluster assign train resume demo proofs predict embed export report compare docs".split()
)
PARSER = build_parser()
FLAGS = re.compile(r"(?<!`)`(--[a-z][^`]*)`(?!`)|``(--[a-z][^`]*)``", re.S)


class Written(NamedTuple):
    """A command or flags, as written, and where."""

    place: str
    text: str


def texts_of(path: Path) -> Iterator[str]:
    """Yield the texts of a file: a page whole, of code the strings and comments."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        yield text.replace("\\\n", " ")
        return
    nodes = list(ast.walk(ast.parse(text)))
    joined = {id(part) for n in nodes if isinstance(n, ast.JoinedStr) for part in n.values}
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            yield "".join(
                str(part.value) if isinstance(part, ast.Constant) else FILLED
                for part in node.values
            )
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            if id(node) not in joined:
                yield node.value.replace("\\\n", " ")
    # Tokens take longer than the tree: only where a comment may hold a command or flags.
    if any("#" in line and re.search("dualclust |`--", line) for line in text.splitlines()):
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                yield token.string


def commands_of(path: Path, root: Path) -> Iterator[Written]:
    """Yield what a file writes down, each once."""
    seen = set()
    for text in texts_of(path):
        found = [match[1] for pattern in MARKED for match in pattern.finditer(text)]
        found += [match[1] or match[2] for match in FLAGS.finditer(text)]
        for command in found:
            one_line = " ".join(command.replace("\\\n", " ").split())
            if one_line not in seen and not one_line.startswith(f"dualclust {FILLED}"):
                seen.add(one_line)
                yield Written(path.relative_to(root).as_posix(), one_line)


def arguments_of(text: str) -> list[str]:
    """Return the arguments of a written command, without what a shell or prose adds to it."""
    text = text.partition(" -m dualclust ")[2] or text.removeprefix("dualclust ")
    text = re.sub(r"\s#\s.*$|\s[|>].*$|\s&$|[;:,]$", "", text)
    text = re.sub(r"\[(-[^\]]*)\]", r"\1", text)  # what may be left out
    words = [word for word in shlex.split(text) if word not in {"...", "…"}]
    return ["secu" if word == "METHOD" else word for word in words]


def refusal(text: str) -> str:
    """Return what the parser and the settings say against a command, or flags, as written.

    A command may be named in part (`dualclust cluster --report`): what it lacks is put in.
    """
    if not text.startswith("--"):
        return _said_against(arguments_of(text))
    said = [_said_against([name, *arguments_of(text)]) for name in COMMANDS]
    return "" if "" in said else min(said, key=lambda error: "unrecognized" in error)


def _said_against(arguments: list[str]) -> str:
    said = ""
    for _ in range(6):
        told = io.StringIO()
        try:
            with contextlib.redirect_stderr(told), contextlib.redirect_stdout(io.StringIO()):
                options = PARSER.parse_args(arguments)
        except SystemExit as end:
            if not end.code:
                return ""  # --help, --version
            if f"invalid choice: '{FILLED}'" in told.getvalue():
                return ""  # a choice that is not named
        else:
            return _said_of_settings(options)
        said = told.getvalue().strip().rpartition("error: ")[2]
        lacking = re.search(r"arguments are required: (.*)$|one of the arguments (\S+)", said)
        if lacking:
            arguments = [*arguments, *_missing((lacking[1] or lacking[2]).split(", "))]
        elif re.search(r"expected (one|at least one) argument", said):
            arguments = [*arguments, FILLED]
        else:
            break
    return said


def _missing(names: list[str]) -> Iterator[str]:
    for name in names:
        if name.startswith("-"):
            yield name.partition("/")[0]
        yield "secu" if name == "method" else FILLED


def _said_of_settings(options: argparse.Namespace) -> str:
    """Return what the settings say against the items of --set, each on its own."""
    recipe, config = getattr(options, "recipe", None), RunConfig()
    method = getattr(options, "method", "secu")
    items = [
        item
        for item in getattr(options, "set", [])
        if item != FILLED and not re.search(r"=(\.\.\.|[A-Z]+|)$", item)
    ]
    try:
        if recipe and recipe != FILLED and not re.search(r"[/A-Z]|\.toml", recipe):
            config = read_recipe(recipe)
        for item in items:
            override(config, [f"method={method}", item])
    except UsageError as error:
        return str(error)
    return ""
