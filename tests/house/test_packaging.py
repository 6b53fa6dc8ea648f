"""What a user gets: the built distributions hold the package, all of it and nothing else."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from importlib.metadata import distributions
from pathlib import Path

import pytest

from dualclust.cli import docs
from tests.pages import dead_links, dead_pointers, pointers

ROOT = Path(__file__).resolve().parents[2]
LAYERS = ("algos", "backends", "train", "proofs")
# Packages of pages: what is installed of them, as repository and wheel name it.
PAGES = {
    "dualclust.docs": ("docs", ("**/*.md", "images/*", "examples/*.py", "jobs/*")),
    "dualclust.docs.benchmarks": ("benchmarks/results", ("*.md",)),
}
# What only the extras bring, and triton, which only the CUDA builds of torch bring.
EXTRAS = ["torch", "triton", "cvxpy", "safetensors", "PIL", "matplotlib", "rich", "tensorboard"]
EXTRAS += ["pyarrow", "h5py", "dask", "distributed"]

# Imports every module of the wheel and prints {name: its file, or the library it waits for}.
IMPORT_ALL = """
import importlib, json, pathlib, sys
target, libraries, hidden = json.loads(sys.argv[1])
sys.path[:0] = [target, libraries]

class Hide:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in hidden:
            raise ModuleNotFoundError(f"{name} is hidden", name=name)

sys.meta_path.insert(0, Hide())
files = {}
for path in sorted(pathlib.Path(target, "dualclust").rglob("*.py")):
    *package, last = path.relative_to(target).with_suffix("").parts
    if last == "__main__" or package[:2] == ["dualclust", "docs"]:  # scripts beside the pages
        continue
    name = ".".join(package if last == "__init__" else [*package, last])
    try:
        files[name] = importlib.import_module(name).__file__
    except ImportError as error:  # ModuleNotFoundError, or ours of a whole sub-package
        root = (error.name or "").split(".")[0]
        if root not in hidden:
            raise
        files[name] = f"needs {root}"
print(json.dumps(files))
"""


def copy_tree(destination: Path) -> Path:
    """Copy the sources, links as links: a build leaves its droppings in the copy."""

    def skip(folder: str, names: list[str]) -> set[str]:
        at_root = Path(folder) == ROOT
        return {
            name
            for name in names
            if name == "__pycache__"
            or (at_root and (name[0] == "." or name in {"build", "dist", "runs"}))
            or name.endswith(".egg-info")
        }

    copy = Path(shutil.copytree(ROOT, destination, symlinks=True, ignore=skip))
    for path in (copy, *copy.rglob("*")):  # the tree may be one that cannot be written
        if not path.is_symlink():
            path.chmod(path.stat().st_mode | 0o200)
    return copy


def tree_packages(root: Path) -> set[str]:
    """The package of every folder with an __init__.py under the five roots."""
    folders = [init.parent for layer in LAYERS for init in (root / layer).rglob("__init__.py")]
    # rglob does not go through links, so that each layer is met once, under its real path.
    front = [init.parent for init in (root / "dualclust").rglob("__init__.py")]
    relative = [folder.relative_to(root) for folder in folders]
    relative += [folder.relative_to(root / "dualclust") for folder in front]
    return {".".join(("dualclust", *path.parts)) for path in relative}


def listed_packages(root: Path) -> set[str]:
    """The packages that pyproject.toml lists, without those of pages."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    listed = set(project["tool"]["setuptools"]["packages"])
    assert listed >= set(PAGES)
    return listed - set(PAGES)


def tree_files() -> set[str]:
    """Every file under the five roots, code or not, as the repository names it."""
    return {
        path.relative_to(ROOT).as_posix()
        for folder in ("dualclust", *LAYERS)
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.name[0] != "."
    }


def page_files() -> set[str]:
    """Pages, pictures and scripts of the documentation, as the wheel names them."""
    return {
        f"{package.replace('.', '/')}/{path.relative_to(ROOT / folder).as_posix()}"
        for package, (folder, patterns) in PAGES.items()
        for pattern in patterns
        for path in (ROOT / folder).glob(pattern)
    }


def run(command: list[str], cwd: Path) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True)
    if done.returncode:
        pytest.fail(f"{' '.join(command[:6])} ...\n{done.stdout}\n{done.stderr}", pytrace=False)
    return done.stdout


def test_packages_are_the_tree() -> None:
    assert listed_packages(ROOT) == tree_packages(ROOT)


@pytest.mark.parametrize(
    ("folder", "package"),
    [
        ("algos/planted", "dualclust.algos.planted"),
        ("train/methods/planted", "dualclust.train.methods.planted"),
        ("dualclust/planted", "dualclust.planted"),
    ],
)
def test_an_unlisted_folder_is_found(folder: str, package: str, tmp_path: Path) -> None:
    root = copy_tree(tmp_path / "copy")
    (root / folder).mkdir()
    (root / folder / "__init__.py").touch()
    assert tree_packages(root) - listed_packages(root) == {package}


def test_a_missing_folder_is_found(tmp_path: Path) -> None:
    root = copy_tree(tmp_path / "copy")
    (root / "proofs" / "__init__.py").unlink()
    assert listed_packages(root) - tree_packages(root) == {"dualclust.proofs"}


@pytest.mark.parametrize("layer", LAYERS)
def test_the_front_door_links_to_the_layer(layer: str) -> None:
    link = ROOT / "dualclust" / layer
    if not os.path.lexists(link):
        pytest.skip("an unpacked source distribution has no links")
    assert os.readlink(link) == f"../{layer}"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """(source distribution, the wheel built from it)."""
    root = copy_tree(tmp_path_factory.mktemp("build") / "source")
    # Not isolated: the environment's own setuptools builds, and nothing is downloaded.
    run([sys.executable, "-m", "build", "--no-isolation", "--outdir", "out"], root)
    [sdist], [wheel] = root.glob("out/*.tar.gz"), root.glob("out/*.whl")
    return sdist, wheel


@pytest.fixture(scope="module")
def installed(built: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel as pip lays it out, and nothing else."""
    parent = tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
    run([*pip, "--no-index", "--no-deps", "--target", "site", str(built[1])], parent)
    return parent / "site"


def test_the_wheel_holds_the_package_and_nothing_else(built: tuple[Path, Path]) -> None:
    with zipfile.ZipFile(built[1]) as wheel:
        names = {name for name in wheel.namelist() if not name.endswith("/")}
    metadata = {name for name in names if name.split("/")[0].endswith(".dist-info")}
    code = {f"dualclust/{f.removeprefix('dualclust/')}" for f in tree_files()}
    assert names - metadata == code | page_files()
    for needed in ("/licenses/LICENSE", "/entry_points.txt"):
        assert any(name.endswith(needed) for name in metadata)


def test_the_sdist_holds_the_sources_once_and_the_tests(built: tuple[Path, Path]) -> None:
    with tarfile.open(built[0]) as sdist:
        members = sdist.getmembers()
    assert not [member.name for member in members if member.issym()]
    names = {member.name.split("/", 1)[1] for member in members if member.isfile()}
    code = {name for name in names if name.split("/")[0] in {"dualclust", *LAYERS}}
    assert code == tree_files()
    tests = {path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("*.py")}
    assert tests <= names
    assert {"pyproject.toml", "constraints.txt", "Makefile", "LICENSE", "README.md"} <= names


def test_what_docstrings_and_messages_point_to_is_in_the_wheel(
    installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(docs.algos, "__file__", str(installed / "dualclust/algos/__init__.py"))
    found = docs.pages()
    assert all(path.is_relative_to(installed / "dualclust/docs") for path in found.values())
    assert len(list(pointers(installed / "dualclust"))) > 100
    assert dead_pointers(installed / "dualclust", found) == []


def test_the_pages_of_the_wheel_link_to_each_other(installed: Path) -> None:
    assert dead_links(installed / "dualclust/docs") == []


def test_every_module_of_the_wheel_imports(installed: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    files = import_all(installed, tmp_path, hidden=["triton"])
    assert listed_packages(ROOT) <= set(files)
    waiting = {name for name, file in files.items() if file == "needs triton"}
    assert all(name.startswith("dualclust.backends.") for name in waiting)


def test_without_the_extras_only_training_and_engines_are_missing(
    installed: Path, tmp_path: Path
) -> None:
    files = import_all(installed, tmp_path, hidden=EXTRAS)
    waiting = {name for name, file in files.items() if file.startswith("needs ")}
    engines = ("dualclust.train", "dualclust.cli.train", "dualclust.backends.", "dualclust.torch")
    of_torch = (
        "dualclust.common._gradients",
        "dualclust.common.devices",
        "dualclust.cli.run_progress",
        "dualclust.cli.report_runs",
        "dualclust.cli.compare_methods",
    )
    assert [n for n in waiting if not n.startswith((*engines, *of_torch))] == []
    assert {"dualclust.common", "dualclust.train.config", "dualclust.cli.main"} <= set(
        files
    ) - waiting
    assert {"dualclust", "dualclust.algos", "dualclust.backends", "dualclust.proofs"} <= set(files)


def test_the_command_is_in_the_wheel(installed: Path, tmp_path: Path) -> None:
    [ours] = distributions(path=[str(installed)])
    [command] = ours.entry_points.select(group="console_scripts")
    assert command.name == "dualclust"
    path = [str(installed), sysconfig.get_path("purelib")]
    program = f"import sys; sys.path[:0] = {path}; from {command.module} import {command.attr}"
    run([sys.executable, "-I", "-S", "-c", program], tmp_path)


def test_the_addresses_are_in_the_metadata_of_the_wheel(installed: Path) -> None:
    """What they may be is in tests/release/test_addresses.py."""
    [ours] = distributions(path=[str(installed)])
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["urls"]
    assert ours.metadata.get_all("Project-URL") == [f"{name}, {url}" for name, url in urls.items()]
    assert len(urls) >= 5


def test_the_import_check_rejects_another_copy(tmp_path: Path) -> None:
    """A wheel that lacks a module must not pass on the copy in the repository."""
    (tmp_path / "site" / "dualclust").mkdir(parents=True)
    (tmp_path / "site" / "dualclust" / "__init__.py").write_text("from . import algos\n")
    with pytest.raises(pytest.fail.Exception, match=r"cannot import name 'algos'"):
        import_all(tmp_path / "site", tmp_path, hidden=[])


def import_all(installed: Path, folder: Path, hidden: list[str]) -> dict[str, str]:
    """Run IMPORT_ALL on the installed wheel, in `folder`, an empty one."""
    argument = json.dumps([str(installed), sysconfig.get_path("purelib"), hidden])
    # -S: without `site` there is no import hook of the editable install, which would lend the
    # repository's copy of any module that the wheel lacks.
    done = run([sys.executable, "-I", "-S", "-c", IMPORT_ALL, argument], folder)
    files: dict[str, str] = json.loads(done)
    for name, file in files.items():
        assert file.startswith((f"{installed}{os.sep}", "needs ")), f"{name} came from {file}"
    return files
