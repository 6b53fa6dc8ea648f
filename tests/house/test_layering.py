"""Who may import whom: the table of CONTRIBUTING.md, read off the source with `ast`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LAYERS = ("algos", "backends", "train", "proofs")
ENGINES = {"numba", "torch", "triton", "jax", "cupy"}

# Of ours. The front door, dualclust/ itself, may import everything.
MAY_IMPORT = {
    "algos": {"algos", "backends"},
    "backends": {"backends"},
    "train": {"train", "common", "algos", "backends"},
    "proofs": {"proofs", "algos", "backends"},
    "common": {"common", "algos"},
    "dualclust": {"dualclust", "common", *LAYERS},
}
# dualclust/common/ is shared by training and the command, and takes the errors of algos alone.
FROM_ALGOS = {"common": "dualclust.algos.core.errors."}
# Nowhere: a pickle runs code when it is read, and torchvision and timm fix the user's torch.
NOWHERE = {"pickle", "_pickle", "dill", "cloudpickle", "joblib", "torchvision", "timm"}
# The mathematics names no library, not even in a string: its namespace comes in with the arrays.
NOT_IN_ALGOS = {"numpy", "cvxpy", "sklearn", "pandas", "importlib", *ENGINES}
# Two exceptions: bounds given as plain numbers need a namespace to become an array in, and the
# field's scores are scikit-learn's, which is loaded when one is asked for.
MAY_NAME = {
    ("sizes.py", "array_api_compat.numpy", "eager"),
    ("metrics.py", "array_api_compat.numpy", "eager"),
    ("metrics.py", "sklearn", "lazy"),
}


def imports(path: Path) -> Iterator[tuple[int, str, int, bool]]:
    """(relative level, dotted name, line, whether it runs when the module is imported)."""

    def walk(node: ast.AST, eager: bool) -> Iterator[tuple[int, str, int, bool]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import):
                yield from ((0, alias.name, child.lineno, eager) for alias in child.names)
            elif isinstance(child, ast.ImportFrom):
                for alias in child.names:
                    name = f"{child.module}.{alias.name}" if child.module else alias.name
                    yield child.level, name, child.lineno, eager
            elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
                yield from walk(ast.Module(child.body, []), False)
                yield from walk(ast.Module(child.orelse, []), eager)
            else:
                lazy = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
                yield from walk(child, eager and not lazy)

    return walk(ast.parse(path.read_text(encoding="utf-8"), str(path)), True)


# Groups of a folder, lowest first: a group imports those of lower floors, not those on its own.
# Within a group everything goes, but for circles, which Python refuses. A module whose name begins
# with an underscore belongs to its group alone.
FLOORS: dict[str, tuple[tuple[str, ...], ...]] = {
    "algos": (
        ("core",),
        ("batches", "bounds", "scores", "losses", "pseudo_labels", "theory"),
        ("online",),
        ("offline",),
        ("baselines", "clustering"),
        ("selection",),
    ),
    "train": (
        ("config", "state"),
        ("augment", "networks"),
        ("data",),
        ("report", "models"),
        ("methods",),
        ("loop",),
        ("own_data",),
        ("comparison",),
    ),
    "proofs": (
        ("registry",),
        ("references", "planted"),
        ("theorem_r",),
        ("coke", "constraints", "gatcluster", "mi_margin", "propos", "secu"),
    ),
    "dualclust": (("common",), ("cluster", "torch"), ("estimators",), ("cli",)),
}


def upward(where: Path, level: int, name: str) -> str | None:
    """Why `where` may not import `name` of its own folder: no lower floor, or private."""
    folder, parts = where.parts[0], name.split(".")
    if not level or folder not in FLOORS:
        return None
    package = where.parts[:-1]
    target = (*package[: len(package) - level + 1], *parts)
    private = [i for i, part in enumerate(target) if part.startswith("_") and part[1:2] != "_"]
    for i in private:
        # Claims look at the parts of a solver: proofs may import what is private to algos.
        if target[:i] != package[:i] and folder != "proofs":
            return f"{'.'.join(target[: i + 1])} is private to {'.'.join(target[:i])}"
    floor = {g: i for i, groups in enumerate(FLOORS[folder]) for g in groups}
    if len(target) < 2 or target[0] != folder or len(where.parts) < 3:
        return None
    mine, theirs = where.parts[1], target[1]
    if mine == theirs or theirs not in floor or mine not in floor:
        return None
    return None if floor[theirs] < floor[mine] else f"{mine} is not above {theirs}"


def violations(root: Path) -> list[str]:
    """Every import below `root` that breaks the table, as 'file:line: reason'."""
    found = []
    for folder in (*LAYERS, "dualclust"):
        # The links in dualclust/ lead to the other four, which are read under their real paths.
        for path in sorted((root / folder).rglob("*.py")):
            where = path.relative_to(root)
            if folder == "dualclust" and where.parts[1] in LAYERS:
                continue
            for level, name, line, eager in imports(path):
                reason = reason_against(where, level, name, eager) or upward(where, level, name)
                if reason:
                    found.append(f"{where}:{line}: {reason}")
    for path in sorted((root / "backends").glob("*.py")):
        named = {name.split(".")[0] for level, name, _, _ in imports(path) if level == 0}
        if {"numba", "torch"} <= named:
            found.append(f"{path.relative_to(root)}:1: one engine a module, not numba and torch")
    for path in sorted(loaded_with_backends(root)):
        for level, name, line, eager in imports(path):
            if eager and level == 0 and name.split(".")[0] in ENGINES:
                found.append(
                    f"{path.relative_to(root)}:{line}: `import dualclust.backends` loads {name}"
                )
    return found


def reason_against(where: Path, level: int, name: str, eager: bool) -> str | None:
    """Why the file `where` may not import `name`; None where it may."""
    folder, parts = where.parts[0], name.split(".")
    if level:
        package = ("dualclust", *where.parts[folder == "dualclust" : -1])
        if package[:2] == ("dualclust", "common"):
            folder = "common"
        target = (*package[: len(package) - level + 1], *parts)
        # Above the package (`from ...`) nothing is ours; `from .. import x` is the front door.
        layer = target[1] if len(target) > 1 and target[1] in (*LAYERS, "common") else target[0]
        whole = ".".join(target)
        allowed = layer in MAY_IMPORT[folder]
        if layer == "algos" and not whole.startswith(FROM_ALGOS.get(folder, "")):
            allowed = False
        return None if allowed else f"{folder} imports {whole}"
    if parts[0] in MAY_IMPORT:
        return f"imports of ours are relative, not {name}"
    if parts[0] in NOWHERE:
        return f"nowhere {parts[0]}"
    if folder == "algos":
        # array_api_compat.torch is torch under another name.
        named = parts[:2] if parts[0] == "array_api_compat" else parts[:1]
        if (where.name, ".".join(named), "eager" if eager else "lazy") in MAY_NAME:
            return None
        if NOT_IN_ALGOS.intersection(named):
            return f"algos names {name}"
    return None


def loaded_with_backends(root: Path) -> set[Path]:
    """The modules of backends/ that `import dualclust.backends` runs."""
    todo, seen = [root / "backends" / "__init__.py"], set()
    while todo:
        path = todo.pop()
        if path in seen or not path.exists():
            continue
        seen.add(path)
        for level, name, _, eager in imports(path):
            if eager and level == 1:
                todo.append(root / "backends" / f"{name.split('.')[0]}.py")
    return seen


def test_the_package_keeps_to_the_table() -> None:
    assert violations(ROOT) == []


def circle(root: Path) -> list[str]:
    """Modules below `root` that import each other in a circle, be it inside functions; or none."""
    files = {
        path.relative_to(root).with_suffix(""): path
        for folder in (*LAYERS, "dualclust")
        for path in (root / folder).rglob("*.py")
        if path.name != "__init__.py"
        and (folder != "dualclust" or path.relative_to(root).parts[1] not in LAYERS)
    }
    named = {".".join(where.parts).removeprefix("dualclust."): where for where in files}
    graph: dict[str, set[str]] = {}
    for module, where in named.items():
        package = module.split(".")[:-1]
        graph[module] = set()
        for level, name, _, _ in imports(files[where]):
            if level:
                above = package[: len(package) - level + 1]
                whole = ".".join((*above, *name.split(".")))
                targets = {whole, whole.rpartition(".")[0]} & named.keys()
                graph[module] |= targets - {module}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_no_module_imports_itself_through_others() -> None:
    assert circle(ROOT) == []


def test_a_circle_is_found(tmp_path: Path) -> None:
    plant(tmp_path, {"algos/a/x.py": "from ..b import y", "algos/b/y.py": "import os"})
    assert circle(tmp_path) == []
    plant(tmp_path, {"algos/b/y.py": "def f():\n    from ..a.x import z"})
    assert set(circle(tmp_path)) == {"algos.a.x", "algos.b.y"}


def test_every_group_has_a_floor() -> None:
    for folder, floors in FLOORS.items():
        groups = {p.parent.name for p in (ROOT / folder).glob("*/__init__.py")} - set(LAYERS)
        named = {group for groups in floors for group in groups}
        assert groups - {"recipes"} == named, folder


def test_the_checker_reads_every_layer() -> None:
    for folder in (*LAYERS, "dualclust", "dualclust/common"):
        assert (ROOT / folder / "__init__.py").is_file()


@pytest.mark.parametrize(
    ("file", "line", "reason"),
    [
        ("algos/x.py", "import numpy as np", "algos names numpy"),
        ("algos/x.py", "import torch.nn", "algos names torch.nn"),
        ("algos/x.py", "from importlib import import_module", "algos names importlib"),
        ("algos/x.py", "from numba import njit", "algos names numba.njit"),
        ("algos/x.py", "def f():\n    import numpy", "algos names numpy"),
        ("algos/x.py", "from array_api_compat import torch", "algos names array_api_compat.torch"),
        ("algos/x.py", "import array_api_compat.numpy", "algos names array_api_compat.numpy"),
        ("algos/x.py", "def f():\n    import cvxpy", "algos names cvxpy"),
        ("algos/x.py", "def f():\n    import sklearn.metrics", "algos names sklearn.metrics"),
        ("algos/clustering/metrics.py", "import sklearn.metrics", "algos names sklearn.metrics"),
        ("algos/clustering/metrics.py", "class A:\n    import sklearn", "algos names sklearn"),
        ("algos/x.py", "from ..train import loop", "algos imports dualclust.train.loop"),
        ("algos/x.py", "from .. import proofs", "algos imports dualclust.proofs"),
        ("algos/x.py", "from .. import __version__", "algos imports dualclust.__version__"),
        ("algos/x.py", "from ... import os", "algos imports os"),
        ("algos/x.py", "from dualclust import backends", "imports of ours are relative"),
        ("algos/x.py", "import backends", "imports of ours are relative"),
        (
            "backends/x.py",
            "from ..algos import bounds",
            "backends imports dualclust.algos.bounds",
        ),
        ("backends/__init__.py", "import numba", "`import dualclust.backends` loads numba"),
        ("backends/_x.py", "try:\n    import torch\nexcept E:\n    pass", "loads torch"),
        ("backends/x.py", "import numba, torch", "one engine a module"),
        ("train/methods/x.py", "from ...proofs import claims", "train imports dualclust.proofs"),
        ("train/methods/x.py", "from ... import cli", "train imports dualclust.cli"),
        ("dualclust/common/x.py", "from ..cli import main", "common imports dualclust.cli"),
        ("dualclust/common/x.py", "from ..algos import bounds", "common imports dualclust.algos"),
        ("train/x.py", "def f():\n    import pickle", "nowhere pickle"),
        ("train/x.py", "import torchvision.transforms as T", "nowhere torchvision"),
        ("train/x.py", "from timm import create_model", "nowhere timm"),
        ("backends/x.py", "from ..proofs import smt", "backends imports dualclust.proofs"),
        ("proofs/x.py", "from ..train import loop", "proofs imports dualclust.train"),
        ("dualclust/x.py", "from dualclust.algos import bounds", "imports of ours are relative"),
        ("algos/core/x.py", "from ..bounds.sizes import SizeBounds", "core is not above bounds"),
        ("algos/losses/x.py", "from ..theory import equivalence", "losses is not above theory"),
        ("algos/core/x.py", "def f():\n    from ..online import duals", "core is not above online"),
        (
            "algos/bounds/x.py",
            "from ..core._secret import y",
            "core._secret is private to algos.core",
        ),
        ("algos/losses/propos/x.py", "from ..gatcluster import _y", "is private to algos.losses"),
        ("train/config/x.py", "from ..loop import run", "config is not above loop"),
    ],
)
def test_a_planted_violation_is_found(tmp_path: Path, file: str, line: str, reason: str) -> None:
    plant(tmp_path, {"backends/__init__.py": "from . import _x\n", file: line})
    [found] = violations(tmp_path)
    assert found.startswith(f"{file}:")
    assert reason in found


def test_what_the_table_allows_passes(tmp_path: Path) -> None:
    plant(
        tmp_path,
        {
            "algos/clustering/metrics.py": "import scipy.optimize\n"
            "def f():\n    from sklearn import metrics",
            "algos/bounds/sizes.py": "import array_api_compat.numpy as default_namespace",
            "algos/x.py": "from array_api_compat import array_namespace\nfrom . import y\n"
            "from ..backends import kernel\nfrom .y import z",
            "backends/__init__.py": "from . import _table\nfrom importlib import import_module\n"
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import torch\n"
            "def f():\n    from . import engine",
            "backends/engine.py": "import numba",
            "train/methods/x.py": "import torch\nfrom ..data import run\nfrom ...algos import z",
            "proofs/x.py": "import numpy\nfrom ..algos import z\nfrom ..backends import engine\n"
            "def f():\n    import cvxpy",
            "dualclust/common/x.py": "import os\nfrom ..algos.core.errors import UsageError",
            "dualclust/cli/main.py": "from . import train\nfrom ..common import files\n"
            "from .proofs import claims",
        },
    )
    assert violations(tmp_path) == []


def plant(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
