"""Files that are damaged, mistaken or of another kind: what is said of each, word for word.

A message names the file, what was found, the rule, and what to do. A file that would have to be
unpickled is refused; the test's pickle would leave a trace if it were loaded.
"""

from __future__ import annotations

import pickle
import sys
import zipfile

import numpy as np
import pytest

from dualclust.cli.main import main
from dualclust.common.extras import without_cuda
from dualclust.common.formats import registry
from tests.cluster.mistakes import archives, arrays, columns, others, stores, strangers
from tests.cluster.mistakes.written import PICKLE, X

PARTS = arrays, strangers, archives, columns, stores, others
CASES = {name: case for part in PARTS for name, case in part.CASES.items()}
"""A star stands for a library's own words, which change with its version."""


@pytest.mark.parametrize("name", CASES)
def test_what_is_said(tmp_path, capsys, monkeypatch, name) -> None:
    case = CASES[name]
    monkeypatch.chdir(tmp_path)
    case.write(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    assert main(["cluster", *case.arguments.split(), "-k", "1"]) == case.code
    out, err = capsys.readouterr()
    assert out == ""
    lead, _, end = f"dualclust: error: {case.message}\n".partition("*")
    if "(*)" in case.message:
        assert err.startswith(lead)
        assert err.endswith(end)
        assert err.count("\n") == 1
    else:
        assert err == f"dualclust: error: {case.message}\n"
    assert sorted(tmp_path.rglob("*")) == before  # no output; no trap has sprung


def test_a_file_that_may_not_be_read(tmp_path, capsys, monkeypatch) -> None:
    path = tmp_path / "X.npy"
    np.save(path, X)

    def refused(path):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(registry, "kind_of", refused)
    assert main(["cluster", str(path), "-k", "3"]) == 65
    assert capsys.readouterr().err == (
        f"dualclust: error: {path} cannot be opened (Permission denied). The file must be there "
        f"to be read. To fix this, look at who may read it\n"
    )


def test_the_trap_can_spring(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    pickle.loads(PICKLE)
    assert (tmp_path / "unpickled").is_dir()


def test_every_message_names_the_file_and_a_way_out() -> None:
    assert len(CASES) >= 60
    for name, case in CASES.items():
        file = case.arguments.split()[0].partition(":")[0].partition("*")[0].rstrip("/")
        if case.code != 2:  # about an option, not about the file
            assert file in case.message, name
            assert "To fix this, " in case.message, name


@pytest.mark.parametrize(
    ("name", "library", "extra"),
    [
        ("X.parquet", "pyarrow", "parquet"),
        ("X.feather", "pyarrow", "parquet"),
        ("X.csv", "pyarrow", "parquet"),
        ("X.h5", "h5py", "hdf5"),
        ("X.pt", "torch", "train"),
    ],
)
def test_a_missing_library_names_its_extra(
    tmp_path, capsys, monkeypatch, name, library, extra
) -> None:
    starts = {".parquet": b"PAR1", ".feather": b"ARROW1", ".csv": b"a,b\n1,2\n"}
    starts[".h5"] = b"\x89HDF\r\n\x1a\n"
    path = tmp_path / name
    if name == "X.pt":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("X/data.pkl", b"")
    else:
        path.write_bytes(starts[path.suffix])
    for module in [module for module in sys.modules if module.partition(".")[0] == library]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, library, None)
    assert main(["cluster", str(path), "-k", "3"]) == 69
    what = {"X.csv": "a table in text", "X.feather": "an Arrow file", "X.h5": "an HDF5 file"}
    what |= {"X.pt": "a PyTorch file", "X.parquet": "a Parquet file"}
    assert capsys.readouterr().err == (
        f"dualclust: error: {path} is {what[name]}, which needs {library}, and {library} is not "
        f"installed. To fix this: pip install 'dualclust[{extra}]'"
        f"{without_cuda() if extra == 'train' else ''}\n"
    )
