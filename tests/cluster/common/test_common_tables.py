"""Tables as text and as Arrow, and the names that are refused before there is anything to write."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

from dualclust.algos.core.errors import MissingExtraError, OutputError, UsageError
from dualclust.common.tables import TABLES, check_table_path, csv_text, write_table

COLUMNS = {"id": ["a", 'b "c", d'], "label": np.array([3, -1]), "margin": np.array([1 / 3, 2.0])}


def test_text_has_nine_digits_and_ends_of_lines_of_one_character():
    expected = 'id,label,margin\na,3,0.333333333\n"b ""c"", d",-1,2\n'
    assert csv_text(COLUMNS) == expected
    assert csv_text({"x": np.array([1 / 3], "<f4")}) == "x\n0.333333343\n"
    assert csv_text({"x": [1.0, 1e-12 / 3, None, True]}) == 'x\n1\n3.33333333e-13\n""\nTrue\n'


def test_columns_of_different_lengths_are_no_table():
    with pytest.raises(ValueError, match="shorter"):
        csv_text({"a": [1, 2], "b": [1]})


@pytest.mark.parametrize("name", ["t.csv", "t.CSV", "t.parquet", "t.Arrow", "t.feather"])
def test_a_table_is_written_below_folders_that_are_not_there(tmp_path, name):
    if not name.lower().endswith(".csv"):
        pytest.importorskip("pyarrow")
    path = tmp_path / "one" / "two" / name
    check_table_path(path, "--table")
    write_table(path, COLUMNS)
    assert [p.name for p in path.parent.iterdir()] == [name]
    if path.suffix.lower() == ".csv":
        assert path.read_text(encoding="utf-8") == csv_text(COLUMNS)
        return
    import pyarrow.feather as feather
    import pyarrow.parquet as parquet

    read = parquet.read_table if path.suffix == ".parquet" else feather.read_table
    table = read(path, memory_map=False)
    assert table.to_pydict() == {name: list(values) for name, values in COLUMNS.items()}
    assert [str(kind) for kind in table.schema.types] == ["string", "int64", "double"]


def test_numbers_of_an_arrow_file_can_be_mapped(tmp_path):
    pytest.importorskip("pyarrow")
    numbers = np.arange(1000.0)
    write_table(tmp_path / "t.arrow", {"x": numbers})
    assert numbers.tobytes() in (tmp_path / "t.arrow").read_bytes()  # not compressed


def test_names_that_are_refused(tmp_path, monkeypatch):
    says = r"--table must end in \.csv, \.parquet, \.arrow, \.feather, got '.*t\.txt'; or not"
    with pytest.raises(UsageError, match=says):
        check_table_path(tmp_path / "t.txt", "--table", hint="; or not")
    (tmp_path / "t.csv").write_text("")
    with pytest.raises(OutputError, match=r"t\.csv exists.*another file with --table"):
        check_table_path(tmp_path / "t.csv", "--table")

    def missing(name: str) -> None:
        assert name == "pyarrow.parquet"
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    check_table_path(tmp_path / "new.CSV", "--table")
    for end in TABLES[1:]:
        with pytest.raises(MissingExtraError, match="needs pyarrow"):
            check_table_path(tmp_path / f"new{end.upper()}", "--table")
