"""The interpreter and the packages of a row: those of `make test`, or an environment of its own."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

from .rows import Row

__all__ = ["NotHereError", "interpreter", "requirements"]

ROOT = Path(__file__).parents[2]

# Pinned in constraints.txt next to a direct requirement of ours whose lowest version wants another.
FOLLOWS = {"numba": "llvmlite"}


class NotHereError(Exception):
    """This machine cannot be the one that a row stands for; the message says why."""


def requirements(row: Row) -> tuple[list[str], list[str]]:
    """What a row installs, and the constraints under which it does.

    The lowest versions are read from pyproject.toml, so that they are what it promises. The tools
    of development stay at the versions of constraints.txt: nothing is promised about them.

    Examples
    --------
    >>> from tests.machines.rows import Row
    >>> wanted, constraints = requirements(Row("x", "", lowest=True, without=("torch",)))
    >>> [line for line in wanted if line.startswith(("numpy==", "torch", "ruff"))]
    ['numpy==2.0', 'ruff']
    >>> [line for line in constraints if line.startswith(("numpy==", "ruff"))]
    ['ruff==0.17.5']
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    tools = extras["dev"]
    (ours,) = re.findall(r"^dualclust\[(.*)\]$", "\n".join(tools), re.MULTILINE)
    lists = [project["dependencies"], *(extras[name] for name in ours.split(",")), tools]
    wanted, lowered = [], set()
    for text in (text for each in lists for text in each):
        name, bound = re.fullmatch(r"([\w.-]+)(?:\[.*\])?(?:>=([\w.]+))?", text).groups()  # type: ignore[union-attr]
        if name in ("dualclust", *row.without):
            continue
        if row.lowest and bound and text not in tools:
            wanted.append(f"{name}=={bound}")
            lowered |= {name, FOLLOWS.get(name, name)}
        else:
            wanted.append(name)
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    return wanted, [pin for pin in pins if pin.partition("==")[0] not in lowered]


def interpreter(row: Row, folder: Path) -> str:
    """The interpreter that runs a row, its packages installed; made anew where these have changed.

    Parameters
    ----------
    row : Row
    folder : Path
        Of the environments, one folder each.

    Raises
    ------
    NotHereError
        If there is no such Python, or its packages cannot be had.
    """
    if not row.own_environment:
        return sys.executable
    base = _python(row.python)
    wanted, constraints = requirements(row)
    content = "\n".join([base, *wanted, "", *constraints])
    key = hashlib.sha256(content.encode()).hexdigest()
    place = folder / row.name
    python, stamp = place / "bin" / "python", place / ".installed"
    if stamp.is_file() and stamp.read_text() == key:
        return str(python)
    if (place / "pyvenv.cfg").is_file():  # an environment, and one that this function made
        shutil.rmtree(place)
    _run(base, "-m", "venv", str(place))
    limits = place / "constraints.txt"
    limits.write_text("\n".join(constraints) + "\n")
    pip = (str(python), "-m", "pip", "install", "--disable-pip-version-check", "--quiet")
    _run(*pip, "-c", str(limits), *wanted)
    _run(*pip, "--no-build-isolation", "--no-deps", "-e", str(ROOT))
    stamp.write_text(key)
    return str(python)


def _python(version: str | None) -> str:
    """The first interpreter of a version that starts: on PATH, or among those of pyenv."""
    if version is None or sys.version_info[:2] == tuple(map(int, version.split("."))):
        return str(Path(sys.executable).resolve())
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    on_path = shutil.which(f"python{version}")
    candidates = [on_path] if on_path else []
    candidates += [str(p) for p in sorted(pyenv.glob(f"{version}.*/bin/python{version}"))]
    for candidate in candidates:
        done = subprocess.run([candidate, "-c", "import ensurepip, venv"], capture_output=True)
        if done.returncode == 0:
            return candidate
    msg = f"no Python {version} that can make environments"
    raise NotHereError(msg)


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    if done.returncode:
        last = (done.stderr or done.stdout).strip().splitlines()[-3:]
        msg = f"{' '.join(command[:5])} ... failed: {' / '.join(last)}"
        raise NotHereError(msg)
