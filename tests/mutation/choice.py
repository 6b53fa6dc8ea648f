"""Which mutants are tried, and which tests run for one: those that are likely to see it first."""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from tests.mutation.operators import OPERATORS, is_python, mutants
from tests.mutation.places import Mutant
from tests.mutation.trace import Trace

__all__ = [
    "GROUPS",
    "PINNED",
    "compiled_with",
    "draw",
    "folder",
    "folder_files",
    "group",
    "likely_files",
    "line_tests",
    "modules",
]

GROUPS = ("algos", "backends", "train", "dualclust")
LINKS = tuple(f"dualclust/{name}/" for name in ("algos", "backends", "train", "proofs"))
# Pictures and words for people: their tests look at what is there, not at where.
SKIPPED = {
    "dualclust/cluster/choice_figure.py",
    "dualclust/cluster/report/draw.py",
    "dualclust/common/plotting.py",
    "train/report/attention.py",
    "train/report/figures.py",
}
# They build distributions, start ranks and commands, or run every claim: minutes. They come last,
# with the folder.
SLOW = (
    "test_packaging",
    "test_ranks",
    "test_cli",
    "test_distributed",
    "test_readme",
    "test_claims",
)
# What pins the constants and defaults of a folder.
PINNED = {
    "train/config/": "tests/train/config/test_defaults.py",
    "train/": "tests/train/test_defaults.py",
    "algos/": "tests/unit/test_defaults.py",
}
# Tests that belong to a package, which all run on its mutants; {} is its name.
OWN = {
    "algos": ("unit/{}", "property", "reference"),
    "backends": ("backends",),
    "train": ("train/{}",),
    "dualclust/cli": ("cli",),
    "dualclust/cluster": ("cluster", "cli"),
    "dualclust/common": ("cluster", "train/state"),
    "dualclust/estimators": ("estimators",),
    "dualclust/torch": ("own_loop",),
    "dualclust": ("estimators", "cli"),
}
OTHERS = {pattern.split("/")[0] for patterns in OWN.values() for pattern in patterns}


def modules(root: Path, only: Sequence[str] = ()) -> list[str]:
    """Modules that mutants are made of, as paths below the repository."""
    found = []
    for part in GROUPS:
        for path in sorted((root / part).rglob("*.py")):
            name = path.relative_to(root).as_posix()
            wanted = not only or any(path.match(p) or name.startswith(p) for p in only)
            if wanted and name not in SKIPPED and not name.startswith(LINKS):
                found.append(name)
    return found


def group(module: str) -> str:
    """Which of `GROUPS` a module belongs to."""
    return module.split("/")[0]


def folder(module: str) -> str:
    """Package of a module, of which rates are told: "algos/offline", "backends"."""
    return "/".join(module.split("/")[:-1][:2])


def folder_files(root: Path, module: str) -> list[str]:
    """All test files of the package of a module."""
    package = folder(module)
    patterns = OWN.get(package) or OWN[group(module)]
    name = package.rpartition("/")[2]
    found: list[Path] = []
    for pattern in patterns:
        where = root / "tests" / pattern.format(name)
        found += sorted((where if where.is_dir() else where.parent).rglob("test_*.py"))
    return list(dict.fromkeys(path.relative_to(root).as_posix() for path in found))


def draw(
    root: Path, names: Sequence[str], n: int, seed: int, operators: Sequence[str] = OPERATORS
) -> list[Mutant]:
    """Draw mutants: groups in turn, a module of it, an operator, then a place.

    Large modules and frequent operators would else be most of what is tried.
    """
    rng = random.Random(seed)
    sources = {name: (root / name).read_text(encoding="utf-8") for name in names}
    left: dict[str, list[Mutant]] = {}
    drawn: list[Mutant] = []
    queues: dict[str, list[str]] = {g: [] for g in GROUPS}
    alive = set(names)
    while len(drawn) < n and alive:
        for g in GROUPS:
            mine = sorted(name for name in alive if group(name) == g)
            if not mine or len(drawn) == n:
                continue
            if not queues[g]:
                queues[g] = rng.sample(mine, len(mine))
            name = queues[g].pop()
            if name not in left:
                found = mutants(name, sources[name])
                left[name] = [m for m in found if m.operator in operators]
            if not left[name]:
                alive.discard(name)
                continue
            operator = rng.choice(sorted({m.operator for m in left[name]}))
            chosen = rng.choice([m for m in left[name] if m.operator == operator])
            left[name].remove(chosen)
            if is_python(chosen.applied(sources[name])):
                drawn.append(chosen)
    return drawn


@cache
def _texts(root: Path) -> dict[str, str]:
    """Every test file by its path below the repository."""
    return {
        path.relative_to(root).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted((root / "tests").rglob("test_*.py"))
    }


@cache
def _importers(root: Path, stem: str) -> frozenset[str]:
    """Stems of the modules of ours that import a module."""
    found = set()
    for part in GROUPS:
        for path in (root / part).rglob("*.py"):
            if _imports(path.read_text(encoding="utf-8"), stem):
                found.add(path.stem)
    return frozenset(found - {stem, "__init__"})


def compiled_with(root: Path, module: str) -> set[str]:
    """Stems of a module of kernels and of those that import it, directly or not."""
    found, waiting = set(), [Path(module).stem]
    while waiting:
        found.add(stem := waiting.pop())
        waiting += (s for s in _importers(root, stem) - found if s.startswith("numba_"))
    return found


def _imports(text: str, stem: str) -> bool:
    return bool(re.search(rf"^\s*(from|import)\b.*\b{stem}\b", text, re.M))


def likely_files(root: Path, mutant: Mutant) -> list[str]:
    """Test files that are likely to see a mutant, the likeliest first."""
    stem, part = Path(mutant.module).stem, mutant.module.split("/")[0]
    titles = _titles(mutant.module)
    names = [n for n in mutant.function.split(".") if n]
    # A private function is seen through the public ones of its module.
    public = _public(root, mutant.module)
    near = _importers(root, stem)
    package = set(folder_files(root, mutant.module))
    ranked = []
    for path, text in _texts(root).items():
        file, where = Path(path).stem, path.split("/")[1]
        if where not in OTHERS or file.startswith(SLOW):
            continue
        home = path in package
        near_by = Path(mutant.module).parent.name in path.split("/")
        own = home and near_by and any(file == t or file.startswith(f"{t}_") for t in titles)
        score = 8.0 * own + 4.0 * _imports_module(text, mutant.module) + 4.0 * (home and near_by)
        score += 4.0 * any(_says(text, n) for n in names)
        score += 2.0 * any(_says(text, n) for n in public)
        score += 1.0 * any(file == f"test_{s}" or file.startswith(f"test_{s}_") for s in near)
        score += 0.5 * any(_imports(text, s) for s in near)
        if part == "backends" and home:
            # Every engine against its reference, and the row's own file, by whose name it goes.
            rows = {re.sub(r"^(numba|torch_cpu|torch_cuda|torch)_", "", s) for s in (stem, *near)}
            score += 1.0 + 8.0 * (file == "test_table") + 8.0 * (file.removeprefix("test_") in rows)
        score += 12.0 * any(
            mutant.module.startswith(part) and path == pins for part, pins in PINNED.items()
        )
        if score > 0:
            # Unit tests are quicker than the others, and short files than long ones.
            score += 2.0 * home + 0.3 * (where == "unit") - len(text) / 1e5
            ranked.append((score, path))
    ranked.sort(key=lambda pair: (-pair[0], pair[1]))
    return [path for _, path in ranked]


def line_tests(
    trace: Trace, source: str, mutant: Mutant, files: Sequence[str], most: float
) -> list[str]:
    """Test functions that run a mutant's lines: those of likely files first, the quickest first.

    They take at most about `most` seconds together, without a single one that takes more: the rest
    comes with the folder.
    """
    found = trace.through(mutant.module, _lines(source, mutant))
    rank = {file: i for i, file in enumerate(files)}
    found.sort(key=lambda test: rank.get(test.partition("::")[0], len(rank)))
    chosen, total = [], 0.0
    for test in found:
        seconds = trace.seconds.get(test, 0.0)
        if total + seconds <= most:
            chosen.append(test)
            total += seconds
    return chosen


def _lines(source: str, mutant: Mutant) -> range:
    """Lines of what is replaced, from the first line of the statement around it."""
    first, last = (source.count("\n", 0, at) + 1 for at in (mutant.start, mutant.stop))
    around = [
        node.lineno
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.stmt) and node.lineno <= first <= (node.end_lineno or node.lineno)
    ]
    return range(max(around, default=first), last + 1)


def _titles(module: str) -> set[str]:
    """File names that tests of a module may begin with: its own, or after that of its folder."""
    path = Path(module)
    stem, folder = path.stem.lstrip("_"), path.parent.name
    return {f"test_{stem}", f"test_{folder}_{stem}"} | (
        {f"test_{folder}"} if stem == "method" else set()
    )


def _imports_module(text: str, module: str) -> bool:
    """Whether a test imports a module by its dotted name, or a name of its group."""
    path = Path(module)
    parts = ("dualclust", *(part for part in path.parent.parts if part != "dualclust"))
    group, stem = re.escape(".".join(parts)), re.escape(path.stem)
    return bool(re.search(rf"{group}(\.{stem}\b| import .*\b{stem}\b)", text))


def _says(text: str, name: str) -> bool:
    return re.search(rf"\b{name}\b", text) is not None


@cache
def _public(root: Path, module: str) -> tuple[str, ...]:
    """Names in a module's `__all__`."""
    for node in ast.parse((root / module).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and "__all__" in ast.unparse(node.targets[0]):
            return tuple(e.value for e in node.value.elts)  # type: ignore[attr-defined]
    return ()
