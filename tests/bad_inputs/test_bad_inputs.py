"""A sample of the bad inputs that `python -m tests.bad_inputs` counts, and the judge itself."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("pyarrow")
pytest.importorskip("h5py")

from dualclust.algos.core.errors import InvalidValueError
from tests.bad_inputs import __main__ as program
from tests.bad_inputs.judge import Bad, judged
from tests.bad_inputs.small_model import write_model

EVERY = 9
"""Of the thousands, each ninth."""


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> list[Bad]:
    model = write_model(tmp_path_factory.mktemp("model") / "m.safetensors")
    return list(program.all_cases(model))


def test_there_are_thousands_and_each_has_its_name(cases: list[Bad]) -> None:
    assert len(cases) >= 3000
    assert len({bad.name for bad in cases}) == len(cases)


@pytest.mark.parametrize("first", range(3))
def test_each_is_refused(cases: list[Bad], tmp_path: Path, first: int) -> None:
    wrong = {}
    for i, bad in enumerate(cases[first :: 3 * EVERY]):
        folder = tmp_path / str(i)
        folder.mkdir()
        if complaints := judged(bad, folder).complaints:
            wrong[bad.name] = complaints
    assert not wrong


def refused(text: str):
    def call(folder: Path) -> None:
        raise InvalidValueError(text)

    return call


@pytest.mark.parametrize(
    ("call", "complaint"),
    [
        (lambda folder: None, "it was taken"),
        (lambda folder: [][3], "IndexError is not an error of ours"),
        (refused("rows are wrong"), "no fix"),
        (refused("it is wrong. To fix this, go"), "'rows' is not named"),
        (refused("rows are wrong.\nTo fix this, go"), "1 line breaks"),
        (refused("rows. To fix this, go" + "o" * 2000), "letters"),
        (lambda folder: (folder / "new").touch(), "something was written"),
        (lambda folder: np.float32(1e38) * np.float32(1e38), "RuntimeWarning"),
    ],
)
def test_what_is_not_refused_well_is_seen(tmp_path: Path, call, complaint: str) -> None:
    found = judged(Bad("a", call, "rows"), tmp_path).complaints
    assert any(complaint in text for text in found), found


def test_the_program_counts(monkeypatch, capsys: pytest.CaptureFixture[str]) -> None:
    right, taken = refused("it is wrong. To fix this, go"), refused("it is wrong")
    some = [Bad("a-1", right, ""), Bad("a-2", taken, ""), Bad("b-1", right, "")]
    monkeypatch.setattr(program, "all_cases", lambda model: some)
    assert program.main(["a"]) == 1
    assert "2 bad inputs, 1 refused as they must be, 1 not" in capsys.readouterr().out
    assert program.main(["b"]) == program.main(["--every", "2"]) == 0
    said = capsys.readouterr().out
    assert "1 bad inputs, 1 refused as they must be, 0 not" in said
    assert "2 bad inputs, 2 refused as they must be, 0 not" in said
