"""Which branches ran is read from what coverage.py wrote, summed by group and held to bars."""

import runpy
from pathlib import Path

import coverage
import pytest

from tests import branches
from tests.branches import Counts

SOURCE = """
def sign(x):
    if x < 0:
        return -1
    for _ in range(x):
        return 1
    return 0
"""


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Data of two processes: one has called `sign` with -1, the other with 1."""
    (tmp_path / "algos").mkdir()
    (tmp_path / "algos" / "signs.py").write_text(SOURCE)
    (tmp_path / "pyproject.toml").write_text("[tool.coverage.run]\nbranch = true\n")
    monkeypatch.setattr(branches, "ROOT", tmp_path)
    monkeypatch.chdir(tmp_path)
    files = [tmp_path / f"of.{x}" for x in (-1, 1)]
    for x, file in zip((-1, 1), files, strict=True):
        measure = coverage.Coverage(str(file), branch=True, source=[str(tmp_path / "algos")])
        with measure.collect():
            assert runpy.run_path("algos/signs.py")["sign"](x) == x
        measure.save()
    return files


def test_processes_are_joined_and_a_way_that_nothing_took_is_counted(written: list[Path]) -> None:
    found = branches.measured(written)
    assert found == {"algos/signs.py": Counts(branches=4, taken=3, lines=6, ran=5)}
    assert all(file.exists() for file in written)


@pytest.mark.parametrize(("bar", "code"), [(0.75, 0), (0.76, 1)])
def test_a_bar_decides_the_exit_code(
    written: list[Path],
    bar: float,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(branches, "BARS", {"algos": bar})
    assert branches.main([*map(str, written)]) == code
    said = capsys.readouterr().out
    assert "75.0%" in said
    assert "1 of 4     not taken: algos/signs.py" in said


def test_groups_are_summed_and_nothing_measured_is_below_a_bar() -> None:
    found = branches.by_group({"a/x.py": Counts(4, 3, 9, 8), "a/y.py": Counts(2, 2, 1, 1)})
    assert found == {"a": Counts(6, 5, 10, 9), "all": Counts(6, 5, 10, 9)}
    assert Counts().rate < min(branches.BARS.values())
