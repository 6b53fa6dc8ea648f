"""Files as other programs write them: what is read, and what the screen says of it."""

from __future__ import annotations

import numpy as np
import pytest

from dualclust.cli.main import build_parser
from dualclust.cluster.notes import input_facts, input_lines
from dualclust.cluster.options import selection_of
from dualclust.cluster.shown import values_of
from dualclust.common.formats import open_rows
from tests.cluster.tried import arrays, tables, texts, vectors

PARTS = {"array": arrays, "vectors": vectors, "text": texts, "table": tables}
CASES = {f"{part}-{name}": case for part, m in PARTS.items() for name, case in m.CASES.items()}


@pytest.mark.parametrize("name", CASES)
def test_what_is_read(tmp_path, monkeypatch, name) -> None:
    case = CASES[name]
    monkeypatch.chdir(tmp_path)
    case.write(tmp_path)
    options = build_parser().parse_args(["cluster", *case.call.split(), "-k", "3"])
    rows = open_rows(options.input, selection_of(options))
    want = np.asarray(case.want, dtype=np.float64)
    found = rows.rows(0, rows.n_samples)
    np.testing.assert_allclose(found, want, rtol=1e-6, atol=0)
    some = np.asarray([rows.n_samples - 1, 0])
    np.testing.assert_array_equal(rows.take(some), found[some])
    facts = input_facts(rows)
    first, *others = input_lines(facts)
    n, d = want.shape
    assert first == f"input               {n} rows of {d} numbers{case.says}"
    assert tuple(facts["left_out"]) == case.left_out
    assert len(others) == bool(case.left_out)
    if case.ids:
        assert rows.ids is not None
        assert tuple(values_of(rows.ids, np.arange(n)).values()) == case.ids
