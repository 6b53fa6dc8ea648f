"""What fuzzing found, a few executions of each target, and that a finding is seen."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest

pytest.importorskip("torch")

from dualclust.algos.core.errors import InvalidValueError
from tests.fuzz import __main__ as program
from tests.fuzz import targets
from tests.fuzz.mutation import mutants

FOUND = {
    "state": [
        b'{"run": {}, "arrays": [{"dtype": "<,8", "name": "y", "shape": [2]}]}\n' + bytes(16)
    ],
    "npy": [b"\x93NUMPY\1\0\x3f\0{'descr': '<f4', 'fortran_order': False, 'shape': (1e999, 3), }"],
    "tensors": [b'{"x": {"dtype": "F32", "shape": [Infinity, 3], "data_offsets": [0, 96]}}'],
    "toml": [b"a = " + b"9" * 5000, b"a." * 3000 + b"b = 1"],
    "checkpoint": [b'{"state": {"dict": [3]}}\0', b"[" * 99_999 + b"\0"],
}
"""Inputs that ended in an exception of another kind; found here, or by `tests/bad_inputs`."""


@pytest.mark.parametrize("name", targets.TARGETS)
def test_seeds_are_taken_and_changes_refused_or_taken(name: str) -> None:
    kept = targets.seeds(name)
    if name != "embeddings":
        results = [targets.taken(targets.TARGETS[name], content) for content in kept]
        assert any(results)
    for content in islice(mutants(kept, 7), 20):
        targets.taken(targets.TARGETS[name], content)


@pytest.mark.parametrize("name", FOUND)
def test_what_was_found_is_refused(name: str) -> None:
    for content in FOUND[name]:
        if name == "tensors":
            targets.tensors(content)
        else:
            assert not targets.taken(targets.TARGETS[name], content)


def test_equal_seeds_give_equal_changes() -> None:
    one, two, other = (list(islice(mutants([b"abc" * 9], seed), 30)) for seed in (1, 1, 2))
    assert one == two != other


def test_what_takes_too_long_is_found_where_a_reader_takes_all_errors_of_the_system_for_its_own(
    tmp_path: Path, monkeypatch, capsys
) -> None:
    def slow(content: bytes) -> None:
        try:
            while True:
                pass
        except OSError as error:
            raise InvalidValueError from error

    monkeypatch.setattr(program, "FOUND", tmp_path)
    monkeypatch.setattr(program, "LONGEST", 0.05)
    monkeypatch.setitem(targets.TARGETS, "npy", slow)
    assert program.main(["npy", "--runs", "2", "--plain"]) == 1
    assert "more than 0.05 s of the processor" in capsys.readouterr().out


def test_a_finding_is_kept(tmp_path: Path, monkeypatch, capsys) -> None:
    def weak(content: bytes) -> None:
        if b"9" in content:
            raise KeyError(content)
        raise InvalidValueError

    monkeypatch.setattr(program, "FOUND", tmp_path)
    monkeypatch.setitem(targets.TARGETS, "npy", weak)
    assert program.main(["npy", "--runs", "300", "--plain"]) == 1
    said = capsys.readouterr().out
    assert "FOUND in npy: KeyError at" in said
    assert "300 executions    1 findings" in said
    assert len(list(tmp_path.iterdir())) == 1
