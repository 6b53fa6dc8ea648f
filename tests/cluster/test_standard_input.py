"""`-` in the place of a file: what comes through a pipe is read as a file of its bytes would be."""

from __future__ import annotations

import io
import json
import tempfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from dualclust.cli.main import main
from tests.cli.cluster_files import groups, listing

X = groups(n=60, d=4)[0].astype(np.float32)


def bytes_of(save):
    file = io.BytesIO()
    save(file)
    return file.getvalue()


NPY = bytes_of(lambda file: np.save(file, X))
NPZ = bytes_of(lambda file: np.savez(file, a=X, b=X + 1))
TEXT = "a,b,c,d\n" + "".join(",".join(map(repr, row)) + "\n" for row in X.tolist())


@pytest.fixture
def pipe(tmp_path, monkeypatch):
    """Run a command in an empty folder, with bytes on standard input."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))

    def run(content, *words):
        monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(content)))
        code = main(["cluster", "-", "-k", "3", *words] if words[:1] != ("assign",) else [*words])
        assert list((tmp_path / "tmp").iterdir()) == []
        return code

    return run


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (NPY, ()),
        (NPZ, ("--array", "a")),
        (TEXT.encode(), ("--dtype", "float32")),
        (X.tobytes(), ("--dtype", "float32", "--dim", "4")),
    ],
)
def test_the_labels_of_the_file(pipe, tmp_path, content, words) -> None:
    np.save("X.npy", X)
    assert main(["cluster", "X.npy", "-k", "3"]) == 0
    assert pipe(content, *words) == 0
    want, found = listing(tmp_path / "X-clusters"), listing(tmp_path / "stdin-clusters")
    for name in ("labels.npy", "centers.npy", "sizes.csv", "model.npz"):
        assert found[name] == want[name]


def test_other_commands(pipe, capsys) -> None:
    assert pipe(NPY, "--out", "model") == 0
    assert pipe(NPY, "assign", "model", "-") == 0
    assert Path("stdin-assigned/labels.npy").is_file()
    capsys.readouterr()
    assert pipe(NPY, "--dry-run", "--json") == 0
    plan = json.loads(capsys.readouterr().out)
    assert (plan["input"]["rows"], plan["out"]) == (60, "stdin-clusters")


def test_messages_call_it_by_its_name(pipe, capsys) -> None:
    assert pipe(NPZ) == 65
    error = capsys.readouterr().err
    assert error.startswith("dualclust: error: - holds 2 arrays. Only one can be clustered")
    assert error.endswith("To fix this, name one: --array a\n")
    assert pipe(NPZ, "--array", "c") == 65
    assert capsys.readouterr().err.endswith("To fix this, name one of these with --array\n")
    assert pipe(b"") == 65
    assert "- is empty (0 bytes)" in capsys.readouterr().err


def test_ranks_have_no_standard_input(pipe, capsys, monkeypatch) -> None:
    for name in ("RANK", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.setenv(name, "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert pipe(NPY) == 2
    assert "write it to a file for the ranks" in capsys.readouterr().err
