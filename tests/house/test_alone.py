"""The library leaves the machine alone: no network, no pickle, no file written by an import."""

from __future__ import annotations

import ast
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.test_layering import LAYERS, ROOT
from tests.no_network import NetworkUsedError

CODE = """
import os, sys
found = []
def watch(event, arguments):
    if event == "open" and isinstance(arguments[1], str) and set(arguments[1]) & set("wax+"):
        found.append(f"writes {arguments[0]}")
    # An old SciPy asks whether temporary files can be made, and takes away the one it made.
    if event == "os.remove" and os.fsdecode(arguments[0]).startswith(os.environ["TMPDIR"]):
        return
    if event in ("os.mkdir", "os.rename", "os.remove", "socket.connect", "socket.getaddrinfo"):
        found.append(f"{event} {arguments}")
sys.addaudithook(watch)
import dualclust
import dualclust.algos, dualclust.estimators, dualclust.cli.main, dualclust.cluster
dualclust.ConstrainedKMeans
bounds = dualclust.SizeBounds.from_ratios(2, n_samples=4)
print("\\n".join(["ended", *found]))
"""

# Modules that load code or objects from files, and functions that do.
UNPICKLERS = {"pickle", "_pickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}
WORDS = re.compile("|".join([*UNPICKLERS, "allow_pickle", "weights_only"]))
OPTIONS = {("allow_pickle", True), ("weights_only", False)}
TESTS_THAT_PICKLE = {
    "tests/bad_inputs/arrays.py", "tests/cli/test_cli_cluster_errors.py",
    "tests/cluster/mistakes/remedies.py", "tests/cluster/mistakes/written.py",
    "tests/train/data/test_data.py",
    "tests/cluster/test_mistaken_files.py", "tests/train/state/test_checkpoint.py",
}  # fmt: skip


def test_an_import_writes_nothing_and_asks_nobody(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    home.chmod(0o500)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    environment = {
        **os.environ, "HOME": str(home), "TMPDIR": str(temporary), "PYTHONDONTWRITEBYTECODE": "1"
    }  # fmt: skip
    for name in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "MPLCONFIGDIR"):
        environment.pop(name, None)
    done = subprocess.run(
        [sys.executable, "-c", CODE], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:2] == ["ended", ""], done.stdout
    assert [*home.iterdir(), *temporary.iterdir()] == []


def unpickled(tree: ast.AST) -> list[str]:
    """What a module imports or calls that loads objects from files."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names} & UNPICKLERS
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found |= {(node.module or "").partition(".")[0]} & UNPICKLERS
        elif isinstance(node, ast.Attribute) and node.attr == "read_pickle":
            found.add(node.attr)
        elif isinstance(node, ast.keyword) and isinstance(node.value, ast.Constant):
            if (node.arg, node.value.value) in OPTIONS:
                found.add(str(node.arg))
    return sorted(found)


def test_nothing_is_unpickled_but_by_tests_of_refusals() -> None:
    found = {}
    for folder in (*LAYERS, "dualclust", "benchmarks", "docs", "tests"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            where = path.relative_to(ROOT).as_posix()
            if not where.startswith(tuple(f"dualclust/{layer}/" for layer in LAYERS)):
                text = path.read_text(encoding="utf-8")
                if WORDS.search(text) and (names := unpickled(ast.parse(text))):
                    found[where] = names
    assert set(found) == TESTS_THAT_PICKLE | PICKLED_ROUND_TRIPS, found


def test_what_unpickles_is_seen() -> None:
    for text in (
        "import pickle", "from joblib import load", "def f():\n    import marshal as m",
        "np.load(path, allow_pickle=True)", "pd.read_pickle(path)",
        "torch.load(path, weights_only=False)",
    ):  # fmt: skip
        assert unpickled(ast.parse(text)), text
    text = "from .pickle import x\nnp.load(path, allow_pickle=False)\npickle = 3"
    assert not unpickled(ast.parse(text))


@pytest.mark.parametrize("host", ["192.0.2.1", "example.invalid", "2001:db8::1"])
def test_the_suite_reaches_no_network(host: str) -> None:
    with pytest.raises(NetworkUsedError, match=re.escape(host)):
        socket.create_connection((host, 80), timeout=0.1)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as one, pytest.raises(NetworkUsedError):
        one.connect((host, 80))


def test_the_suite_reaches_this_machine() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection(server.getsockname()).close()


PICKLED_ROUND_TRIPS = {
    "tests/unit/bounds/test_farkas.py", "tests/unit/clustering/test_minibatch.py",
    "tests/unit/core/test_errors.py", "tests/unit/online/test_assignment.py",
}  # fmt: skip
"""Tests that copy an object of ours by a pickle of their own."""
