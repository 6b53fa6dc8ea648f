"""`make env` again and again: after an interrupt, over somebody's own environment, read-only.

The interpreter is a small script that makes "environments" and notes what pip is asked for, so that
nothing is installed and no network is needed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PYTHON = """#!/bin/sh
here=$(dirname "$0")
case "$1 $2" in
  "-m venv") mkdir -p "$3/bin" && cp "$0" "$3/bin/python" && touch "$3/pyvenv.cfg"
             test "$STOP" != venv || exit 130 ;;
  "-m pip") echo "$*" >> "$LOG"; echo "$*" > "$here/half-installed"
            test "$STOP" != pip || exit 130 ;;
  "-m tests.supply.hashes") test -z "$OTHER" ;;
  "-m ruff") echo "cache ${RUFF_CACHE_DIR:-in the tree} path ${PYTHONPATH:-none}" >> "$LOG" ;;
esac
"""
COPIED = ("Makefile", "pyproject.toml", "constraints.txt", "README.md", "LICENSE", "MANIFEST.in")
HASHED = "constraints-hashed.txt"

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")


@pytest.fixture
def tree(tmp_path):
    """A checkout with the files that `make env` reads."""
    folder = tmp_path / "tree"
    folder.mkdir()
    for name in COPIED:
        shutil.copy(ROOT / name, folder)
    for name in ("algos", "backends", "benchmarks", "docs", "dualclust", "proofs", "train"):
        (folder / name).mkdir()
        (folder / name / "__init__.py").touch()
    (tmp_path / "python").write_text(PYTHON)
    (tmp_path / "python").chmod(0o755)
    return folder


class Made:
    """Calls of make on a tree, and what pip was asked for in the last."""

    def __init__(self, tree: Path, venv: Path | None = None, prefix: tuple[str, ...] = ()) -> None:
        self.tree, self.prefix = tree, prefix
        self.venv = tree / ".venv" if venv is None else venv
        self.log = tree.parent / "log"

    def __call__(self, target: str = "env", *words: str, stop: str = "", other: str = "") -> int:
        self.log.write_text("")
        # The variables of a make that runs these tests would reach this one.
        unset = ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "PYTHONPATH", "RUFF_CACHE_DIR")
        env = {name: value for name, value in os.environ.items() if name not in unset}
        done = subprocess.run(
            [*self.prefix, "make", target, f"PYTHON={self.tree.parent / 'python'}",
             f"VENV={self.venv}", *words],
            cwd=self.tree, env=env | {"LOG": str(self.log), "STOP": stop, "OTHER": other},
            capture_output=True, text=True,
        )  # fmt: skip
        self.said = done.stdout + done.stderr
        return done.returncode

    def asked(self) -> list[str]:
        return [line.split()[-1] for line in self.log.read_text().splitlines()]


def test_the_second_and_the_tenth_call_have_nothing_to_do(tree):
    make = Made(tree)
    assert make() == 0, make.said
    assert make.asked() == ["setuptools", ".[dev]"]
    for _ in range(9):
        assert make() == 0
        assert make.asked() == []


def test_hashes_come_first_where_the_platform_is_known(tree):
    make = Made(tree)
    assert make("env", "HASHES=yes") == 0, make.said
    assert make.asked() == [HASHED, "setuptools", ".[dev]"]
    assert "--require-hashes --no-deps" in make.log.read_text().splitlines()[0]
    os.utime(make.venv / ".installed", (1, 1))
    assert make("env", "HASHES=yes", other="yes") == 0, make.said
    assert make.asked() == ["setuptools", ".[dev]"]
    assert "versions alone decide" in make.said


def test_the_site_s_tools_come_on_first_use(tree):
    make = Made(tree)
    assert make("docs") == 0, make.said
    assert make.asked() == ["setuptools", ".[dev]", ".[docs]"]
    assert make("docs") == 0
    assert make.asked() == []


def test_the_site_s_tools_come_along_where_they_are_named(tree):
    make = Made(tree)
    assert make("env", "DEV_EXTRAS=dev,docs") == 0, make.said
    assert make.asked() == ["setuptools", ".[dev,docs]"]
    assert make("docs") == 0
    assert make.asked() == []
    os.utime(make.venv / ".installed", (1, 1))  # other versions: the site's tools come anew
    assert make("docs") == 0
    assert make.asked() == ["setuptools", ".[dev]", ".[docs]"]


def test_other_versions_are_installed_into_the_same_environment(tree):
    make = Made(tree)
    assert make() == 0, make.said
    (make.venv / "kept").touch()
    os.utime(make.venv / ".installed", (1, 1))
    assert make() == 0
    assert make.asked() == ["setuptools", ".[dev]"]
    assert (make.venv / "kept").exists()


@pytest.mark.parametrize("stop", ["venv", "pip"])
def test_an_interrupted_environment_is_made_anew(tree, stop):
    make = Made(tree)
    assert make(stop=stop) != 0
    (make.venv / "bin" / "half-a-package").touch()
    assert make() == 0, make.said
    assert make.asked() == ["setuptools", ".[dev]"]
    assert not (make.venv / "bin" / "half-a-package").exists()
    assert make() == 0
    assert make.asked() == []


def test_an_interrupted_update_is_made_anew(tree):
    make = Made(tree)
    assert make() == 0, make.said
    os.utime(make.venv / ".installed", (1, 1))
    assert make(stop="pip") != 0
    (make.venv / "bin" / "half-a-package").touch()
    assert make() == 0
    assert not (make.venv / "bin" / "half-a-package").exists()


def test_an_environment_of_somebody_s_own_is_not_cleared(tree, tmp_path):
    mine = tmp_path / "mine"
    (mine / "bin").mkdir(parents=True)
    shutil.copy(tmp_path / "python", mine / "bin" / "python")
    for name in ("pyvenv.cfg", "notes.txt"):
        (mine / name).write_text("mine")
    make = Made(tree, mine)
    assert make(stop="pip") != 0
    assert make() == 0, make.said
    assert make.asked() == ["setuptools", ".[dev]"]
    assert (mine / "notes.txt").read_text() == "mine"
    (mine / "bin" / "python").unlink()
    assert make() == 0, make.said
    assert (mine / "notes.txt").read_text() == "mine"


def read_only(tree: Path) -> tuple[str, ...] | None:
    """Make a tree read-only; returns what to put before a command, or None where it cannot be."""
    if os.geteuid():
        for path in (tree, *tree.rglob("*")):
            path.chmod(path.stat().st_mode & ~0o222)
        return ()
    mount = f"mount --bind {tree} {tree} && mount -o remount,ro,bind {tree} && cd {tree} && exec "
    prefix = ("unshare", "-m", "sh", "-c", mount + '"$@"', "sh")
    test = [*prefix, "sh", "-c", "! test -w ."]
    return prefix if shutil.which("unshare") and not subprocess.run(test).returncode else None


def test_a_read_only_checkout(tree, tmp_path):
    """Caches go next to the environment; what runs is the text of the tree itself."""
    before = {path: path.read_bytes() for path in tree.rglob("*") if path.is_file()}
    prefix = read_only(tree)
    if prefix is None:
        pytest.skip("root that may not mount writes everywhere")
    make = Made(tree, tmp_path / "elsewhere", prefix)
    assert make("lint", stop="pip") != 0
    assert make("lint") == 0, make.said
    venv = make.venv
    lines = make.log.read_text().splitlines()
    assert [line.split()[-1] for line in lines[:2]] == ["setuptools", f"{venv}/sources[dev]"]
    assert lines[2] == f"cache {venv}/caches/ruff path {tree}"
    assert (venv / "sources" / "train" / "__init__.py").is_file()
    assert make("lint") == 0
    assert len(make.asked()) == 2  # ruff twice, pip not at all
    assert {path: path.read_bytes() for path in tree.rglob("*") if path.is_file()} == before


def test_the_tools_of_a_writable_checkout_keep_their_places(tree):
    make = Made(tree)
    assert make("lint") == 0, make.said
    assert make.log.read_text().splitlines()[2] == "cache in the tree path none"
