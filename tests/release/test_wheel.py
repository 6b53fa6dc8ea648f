"""The wheel is the same bytes for everybody, and a user's mypy reads its types."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from tests.release import wheel

PROGRAM = """\
import dualclust as dc
reveal_type(dc.SizeBounds.from_ratios(3, n_samples=9))
dc.SizeBounds.from_ratios("three", n_samples=9)
"""


def test_a_copy_has_no_droppings_and_plain_permissions(tmp_path: Path) -> None:
    root = tmp_path / "root"
    for name in wheel.FOLDERS:
        (root / name / "__pycache__").mkdir(parents=True)
        (root / name / "__pycache__" / "a.pyc").touch()
        (root / name / "a.py").touch(mode=0o700)
    (root / "dualclust" / "train").symlink_to("../train")
    for name in wheel.SOURCES:
        (root / name).touch(mode=0o600)
    wheel.copy_sources(tmp_path / "copy", root)
    found = {p.relative_to(tmp_path / "copy").as_posix() for p in (tmp_path / "copy").rglob("*")}
    files = {*wheel.SOURCES, *(f"{name}/a.py" for name in wheel.FOLDERS)}
    assert found == {*files, *wheel.FOLDERS, "benchmarks", "dualclust/train"}
    assert {(tmp_path / "copy" / name).stat().st_mode & 0o777 for name in files} == {0o644}
    assert (tmp_path / "copy" / "dualclust" / "train").is_symlink()


def test_builds_that_differ_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def build(folder: Path, out: Path) -> Path:
        out.mkdir()
        with zipfile.ZipFile(out / "a.whl", "w") as file:
            file.writestr(zipfile.ZipInfo("same.py"), "")
            file.writestr(zipfile.ZipInfo("where.py"), str(folder))
        return out / "a.whl"

    monkeypatch.setattr(wheel, "copy_sources", lambda folder: folder.mkdir(parents=True))
    monkeypatch.setattr(wheel, "build_once", build)
    with pytest.raises(wheel.NotReproducibleError, match=r"a\.whl differ in where\.py$"):
        wheel.build_twice(tmp_path / "dist")
    assert not (tmp_path / "dist").exists()


def test_addresses_are_asked_for_until_both_files_have_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    none = "[project]\nname = 'a'\n"
    some = f"{none}[project.urls]\nSource = 'https://example.org/a'\n"
    every = some + "".join(f"{name} = 'https://example.org'\n" for name in wheel.URLS[1:])
    cited = 'repository-code: "https://example.org/a"\n'
    found = wheel.addresses_to_give
    assert found(every, cited) == []
    assert found(every, "") == ["CITATION.cff: repository-code"]
    assert found(some, cited) == [f"pyproject.toml: [project.urls] {', '.join(wheel.URLS[1:])}"]
    assert found(every, cited.replace("/a", "/b")) == [
        "one address: CITATION.cff has https://example.org/b, [project.urls] https://example.org/a"
    ]
    (tmp_path / "pyproject.toml").write_text(none)
    (tmp_path / "CITATION.cff").write_text("title: a\n")
    (tmp_path / "a.whl").touch()
    monkeypatch.setattr(wheel, "ROOT", tmp_path)
    monkeypatch.setattr(wheel, "build_twice", lambda out: tmp_path / "a.whl")
    assert wheel.main([]) == 0
    said = capsys.readouterr().err.splitlines()
    begin = "not to be published yet, to be given first: "
    assert said == [begin + line for line in found(none, "")]
    assert len(said) == 2


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return wheel.build_twice(tmp_path_factory.mktemp("dist"))


@pytest.mark.slow
def test_a_build_on_another_day_under_another_umask_has_the_same_bytes(
    built: Path, tmp_path: Path
) -> None:
    before = os.umask(0o077)
    try:
        wheel.copy_sources(tmp_path / "tree")
        for path in (tmp_path / "tree").rglob("*.py"):
            os.utime(path, (1_000_000_000, 1_000_000_000))
        again = wheel.build_once(tmp_path / "tree", tmp_path / "out")
    finally:
        os.umask(before)
    assert wheel.differing(wheel.entries(built), wheel.entries(again)) == []
    assert again.read_bytes() == built.read_bytes()


@pytest.mark.slow
def test_the_types_reach_a_user_s_mypy(built: Path, tmp_path: Path) -> None:
    """As an installed package: on a path of its own, mypy would not ask for the marker."""
    venv.create(tmp_path / "env")
    paths = {"base": str(tmp_path / "env"), "platbase": str(tmp_path / "env")}
    site = Path(sysconfig.get_path("purelib", scheme="venv", vars=paths))
    with zipfile.ZipFile(built) as file:
        file.extractall(site)
    (site / "libraries.pth").write_text(sysconfig.get_path("purelib") + "\n")
    (tmp_path / "program.py").write_text(PROGRAM)
    python = tmp_path / "env" / "bin" / "python"
    command = [sys.executable, "-m", "mypy", "--strict", "--python-executable", str(python)]
    done = subprocess.run(
        [*command, "program.py"],
        cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        capture_output=True,
        text=True,
    )
    known, wrong, last = done.stdout.splitlines()
    assert known.startswith("program.py:2: note: Revealed type is ")
    assert "dualclust.algos.bounds.sizes.SizeBounds" in known
    assert wrong.startswith("program.py:3: error: Argument 1 to ")
    assert last == "Found 1 error in 1 file (checked 1 source file)"
