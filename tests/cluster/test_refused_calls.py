"""Every call that is refused says what to do, and what it says to do ends right."""

from __future__ import annotations

import ast
import re
import shutil
from pathlib import Path

import pytest

import dualclust
from tests.cluster.test_mistaken_files import CASES
from tests.cluster.tried.calls import CALLS, prepare, run

SOURCE = Path(dualclust.__file__).parent


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("calls")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        prepare(folder)
    return folder


@pytest.mark.parametrize("name", CALLS)
def test_a_refused_call_and_its_remedies(prepared, tmp_path, capsys, monkeypatch, name) -> None:
    call = CALLS[name]
    for i, remedy in enumerate(call.follow):
        folder = tmp_path / str(i)
        shutil.copytree(prepared, folder)
        monkeypatch.chdir(folder)
        before = sorted(folder.rglob("*"))
        assert run(call.call) in (2, 65, 66, 73)
        error = capsys.readouterr().err
        assert call.says in error
        assert error.count("\n") == 1
        assert sorted(folder.rglob("*")) == before
        assert run(remedy if isinstance(remedy, str) else remedy(folder)) == 0, capsys.readouterr()


# Every remedy of the source ----------------------------------------------------------------------

ACTION = re.compile(r"--[a-z]|\b[\w.]+\(")
"""An option, or a call of Python."""


def remedies(path: Path) -> list[str]:
    """Patterns of the remedies in a module that name an option or a call of Python."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        texts: list[ast.expr] = []
        if isinstance(node, ast.Assign | ast.AugAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            named = {target.id for target in targets if isinstance(target, ast.Name)}
            if named & {"fix", "msg"}:
                texts = [node.value]
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "refuse":
            texts = node.args[3:4]
        for text in texts:
            parts = [text.body, text.orelse] if isinstance(text, ast.IfExp) else [text]
            found += [pattern for part in parts if (pattern := pattern_of(part))]
    return found


def pattern_of(text: ast.expr) -> str:
    """A pattern of a text's remedy; empty where it has none that could be followed."""
    if isinstance(text, ast.Constant) and isinstance(text.value, str):
        pieces = [text.value]
    elif isinstance(text, ast.JoinedStr):
        pieces = [v.value if isinstance(v, ast.Constant) else "\0" for v in text.values]
    else:
        return ""
    remedy = "".join(map(str, pieces))
    remedy = remedy.partition("To fix this, ")[2] or remedy
    if not ACTION.search(remedy):
        return ""
    return ".*".join(map(re.escape, remedy.split("\0")))


ELSEWHERE = {
    "on_dask.py": "rows in a Dask cluster, which no file holds",
    "standard_input.py": "tests of standard input",
    "checkpoint.py": "states that are damaged, or of an older build",
    "resume.py": "states of an older build",
}


def test_every_remedy_that_can_be_followed_is(prepared, capsys, monkeypatch) -> None:
    monkeypatch.chdir(prepared)
    messages = [case.message for case in CASES.values()]
    for call in CALLS.values():
        run(call.call)
        messages.append(capsys.readouterr().err)
    patterns = {
        (path.name, pattern)
        for folder in (SOURCE / "cluster", SOURCE / "common" / "formats")
        for path in sorted(folder.rglob("*.py"))
        if path.name not in ELSEWHERE
        for pattern in remedies(path)
    }
    assert len(patterns) > 45
    text = "\n".join(messages)
    missing = [each for each in patterns if not re.search(each[1], text)]
    assert not missing, "\n".join(map(str, sorted(missing)))
