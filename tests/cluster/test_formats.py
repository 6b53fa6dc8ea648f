"""Every format gives the bytes that the .npy file of the same values gives, and its ids."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sparse

from dualclust.algos.core.errors import DualclustError, InvalidValueError
from dualclust.cli.main import build_parser
from dualclust.common.formats import Selection, default_folder, open_rows
from dualclust.common.formats.kinds import kind_of
from dualclust.common.formats.registry import FORMATS
from dualclust.common.formats.shards import JoinedRows
from tests.cli.cluster_files import listing
from tests.cluster.written_formats import (
    FILES,
    IDS,
    WORDS,
    D,
    N,
    X,
    arrow_table,
    cluster,
    columns_table,
    npz,
    write_parquet,
    write_shards,
)


@pytest.fixture(scope="module")
def answer(tmp_path_factory):
    """The files of the .npy file, and the table of its rows."""
    folder = tmp_path_factory.mktemp("answer")
    np.save(folder / "X.npy", X)
    assert cluster(folder / "X.npy", folder / "out", "--table", str(folder / "t.csv")) == 0
    return result_in(folder / "out"), (folder / "t.csv").read_text()


def result_in(folder):
    """All files of a result, but for what result.json says of the input."""
    files = listing(folder)
    result = json.loads(files.pop("result.json"))
    about = result.pop("input")
    assert (about["rows"], about["numbers_per_row"], about["dropped"]) == (N, D, [])
    return files, result


@pytest.mark.parametrize("name", FILES)
def test_the_bytes_of_the_npy_file(tmp_path, answer, name) -> None:
    write, more = FILES[name]
    write(tmp_path / name)
    before = listing(tmp_path)
    more, *options = f"{more} ".split(" ")
    options = [*filter(None, options), "--table", str(tmp_path / "t.csv")]
    assert cluster(f"{tmp_path / name}{more}", tmp_path / "out", *options) == 0
    assert result_in(tmp_path / "out") == answer[0]
    lines, wanted = (tmp_path / "t.csv").read_text().splitlines(), answer[1].splitlines()
    keys = ["url", *IDS] if "--id" in options else ["row", *map(str, range(N))]
    keys = ["word", *(f"{key}w" for key in IDS)] if name in WORDS else keys
    assert lines == [f"{k},{w.split(',', 1)[1]}" for k, w in zip(keys, wanted, strict=True)]
    assert {key: value for key, value in listing(tmp_path).items() if key in before} == before


def test_every_format_is_tried() -> None:
    tried = {Path(name).suffix for name in FILES}
    assert {format.suffixes[0] for format in FORMATS} <= tried | {".npy"}


@pytest.mark.parametrize("dtype", ["float16", "int8", "float64"])
@pytest.mark.parametrize("name", ["parquet", "h5", "pt", "safetensors", "npz", "bin"])
def test_other_types(tmp_path, name, dtype) -> None:
    x = np.round(8 * X).astype(dtype) + np.asarray(1, dtype)
    np.save(tmp_path / "X.npy", x)
    want = open_rows(tmp_path / "X.npy")
    path, selection = tmp_path / f"X.{name}", Selection()
    if name == "parquet":
        write_parquet(path, arrow_table(x))
    elif name == "h5":
        h5py = pytest.importorskip("h5py")
        with h5py.File(path, "w") as file:
            file["x"] = x
    elif name == "pt":
        torch = pytest.importorskip("torch")
        torch.save(torch.from_numpy(x), path)
    elif name == "safetensors":
        pytest.importorskip("safetensors.numpy").save_file({"x": x}, path)
    elif name == "npz":
        np.savez_compressed(path, x)
    else:
        x.tofile(path)
        selection = Selection(dtype=dtype, dim=D)
    rows = open_rows(path, selection)
    assert (rows.n_samples, rows.n_features, rows.dtype) == (N, D, want.dtype)
    np.testing.assert_array_equal(rows.rows(3, 150), want.rows(3, 150))
    ids = np.asarray([5, 199, 0, 5])
    np.testing.assert_array_equal(rows.take(ids), want.take(ids))


def test_bfloat16(tmp_path) -> None:
    torch = pytest.importorskip("torch")
    x = torch.from_numpy(X).to(torch.bfloat16)
    want = x.float().numpy()
    torch.save(x, tmp_path / "X.pt")
    x.view(torch.int16).numpy().tofile(tmp_path / "X.bin")
    pytest.importorskip("safetensors.torch").save_file({"x": x}, tmp_path / "X.safetensors")
    (tmp_path / "both").mkdir()
    torch.save(x, tmp_path / "both" / "a.pt")
    np.savez_compressed(tmp_path / "both" / "b.npz", X)
    raw = Selection(dtype="bfloat16", dim=D)
    for name, selection in (("X.pt", None), ("X.bin", raw), ("X.safetensors", None)):
        np.testing.assert_array_equal(open_rows(tmp_path / name, selection).rows(0, N), want)


def test_mixed_columns_are_computed_in_the_widest_floats(tmp_path) -> None:
    pa = pytest.importorskip("pyarrow")
    whole, small = np.arange(N, dtype=np.int32) // 2, X[:, 0].astype(np.float16)
    for wide, dtype in ((X[:, 1], np.float32), (X[:, 1].astype(np.float64), np.float64)):
        write_parquet(tmp_path / "X.parquet", pa.table({"a": whole, "b": small, "c": wide}))
        rows = open_rows(tmp_path / "X.parquet")
        assert rows.dtype == dtype
        np.testing.assert_array_equal(rows.rows(0, N), np.stack([whole, small, wide], axis=1))


def test_a_table_of_pandas_leaves_its_index_out(tmp_path) -> None:
    """What pandas writes, made without pandas: its index is a column that the metadata names."""
    table = columns_table().append_column("__index_level_0__", [list(range(N))])
    meta = b'{"index_columns": ["__index_level_0__"], "columns": [], "column_indexes": []}'
    write_parquet(tmp_path / "X.parquet", table.replace_schema_metadata({"pandas": meta}))
    assert open_rows(tmp_path / "X.parquet").n_features == D


def test_the_first_line_of_a_csv_file(tmp_path) -> None:
    pytest.importorskip("pyarrow")
    path = tmp_path / "X.csv"
    for text, want in [
        ("0,1\n5,6\n", [[5, 6]]),  # the names that pandas gives to columns
        ("0.5,1\n5,6\n", [[0.5, 1], [5, 6]]),
        ('a,"b,c"\n5,6\n\n7,8\n', [[5, 6], [7, 8]]),
        ("a,b\r\n5,6\r\n", [[5, 6]]),
    ]:
        path.write_text(text, newline="")
        rows = open_rows(path)
        np.testing.assert_array_equal(rows.rows(0, rows.n_samples), want)


# Shards -----------------------------------------------------------------------------------------


def test_rows_of_shards(tmp_path) -> None:
    write_shards(tmp_path / "sh", np.save)
    rows = open_rows(tmp_path / "sh")
    assert isinstance(rows, JoinedRows)
    for start, stop in [(0, N), (0, 0), (7, 7), (5, 8), (6, 130), (7, 120), (119, 121), (N, N)]:
        np.testing.assert_array_equal(rows.rows(start, stop), X[start:stop])
    ids = np.random.default_rng(0).integers(N, size=90)
    for some in (ids, ids[:0], np.sort(ids)):
        np.testing.assert_array_equal(rows.take(some), X[some])
    assert rows.where(120) == f"row 120 (row 0 of {tmp_path / 'sh' / 'p100.npy'})"


def test_shards_of_two_types_give_the_wider(tmp_path) -> None:
    (tmp_path / "sh").mkdir()
    np.save(tmp_path / "sh" / "a.npy", X.astype(np.float16))
    np.save(tmp_path / "sh" / "b.npy", X.astype(np.float64))
    rows = open_rows(tmp_path / "sh")
    assert rows.rows(0, 2 * N).dtype == rows.dtype == np.float64


def test_hidden_files_are_no_shards(tmp_path) -> None:
    write_shards(tmp_path / "sh", np.save)
    for name in ("_SUCCESS", ".part.crc"):
        (tmp_path / "sh" / name).write_bytes(b"")
    assert open_rows(tmp_path / "sh").n_samples == N


@pytest.mark.parametrize(
    ("given", "folder"),
    [
        ("X.npy", "X-clusters"),
        ("X.npz:emb", "X-clusters"),
        ("X.h5:group/emb", "X-clusters"),
        ("sh", "sh-clusters"),
        ("sh/", "sh-clusters"),
        ("sh/*.npy", "sh-clusters"),
        ("sh/p-*.npy", "sh/p-clusters"),
        ("x[0-9].npy", "x-clusters"),
        ("my.embeddings.npy", "my.embeddings-clusters"),
    ],
)
def test_where_results_go(tmp_path, monkeypatch, given, folder) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sh").mkdir()
    (tmp_path / "X.npz").touch()
    (tmp_path / "X.h5").touch()
    assert default_folder(Path(given)) == Path(folder)
    monkeypatch.chdir(tmp_path / "sh")
    assert default_folder(Path("*.npy")).absolute() == tmp_path / "sh" / "sh-clusters"


def test_a_file_whose_name_has_a_colon_or_a_star(tmp_path) -> None:
    for name in ("a:b.npy", "a*b.npy", "a[1].npy"):
        np.save(tmp_path / name, X)
        assert open_rows(tmp_path / name).n_samples == N


# What a file is ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "key"),
    [
        (b"ORCA,b\n1,2\n", "text"),
        (b"ORC\x00\x01", "orc"),
        (b"\xef\xbb\xbfa,b\n", "text"),
        (b"x" * (2**16 - 1) + "\u20ac".encode(), "text"),
        (b"x" * 10 + b"\xe2\x82", "unknown"),
        (b"a\0b", "unknown"),
        (b"RIFF\0\0\0\0WAVEfmt", "wav"),
        (b"\0\0\0\x18ftypheic", "mp4"),
        (b"PK\x03\x04 nothing more", "damaged-zip"),
        (bytes(257) + b"ustar", "tar"),
        (b"MATLAB 5.0 MAT-file" + bytes(200), "matlab"),
        (b"<?xml version='1.0'?>", "xml"),
        (b"%PDF-1.7 \x00", "pdf"),
    ],
)
def test_first_bytes(tmp_path, content, key) -> None:
    (tmp_path / "file").write_bytes(content)
    assert kind_of(tmp_path / "file").key == key


def test_two_names_for_the_array(tmp_path) -> None:
    npz(tmp_path / "X.npz")
    place = Path(f"{tmp_path / 'X.npz'}:X")
    assert open_rows(place, Selection(array="X")).n_samples == N
    with pytest.raises(InvalidValueError, match="name two arrays"):
        open_rows(place, Selection(array="Y"))


def test_the_help_names_every_format() -> None:
    text = build_parser()._subparsers._group_actions[0].choices["cluster"].format_help()
    for format in FORMATS:
        assert format.suffixes[0] in text, format.suffixes[0]


def write_sparse(path):
    sparse.save_npz(path, sparse.csr_matrix(np.where(X > 0, X, 0)), compressed=False)


NEW = ["V.fvecs", "V.fbin", "W.w2v", "W.vec", "W.bin.gz", "T.csv.gz", "MP.mat", "S.npz"]
DAMAGED = ["F.npy", "Z.npz", "C.npz", "L.parquet", "A.arrow", "S.arrows", "T.csv", "HP.h5", "T.pt"]


@pytest.mark.parametrize("name", [*DAMAGED, *NEW, "T.safetensors"])
def test_damage_anywhere_is_no_bug(tmp_path, name) -> None:
    """Cut or changed bytes give other numbers or an error of ours, and never another one."""
    rng, path = np.random.default_rng(0), tmp_path / name
    write_sparse(path) if name == "S.npz" else FILES[name][0](path)
    data, messages = path.read_bytes(), []
    columns = ("emb",) if path.suffix in (".parquet", ".arrow", ".arrows") else ()
    selection = Selection("X" if name in ("Z.npz", "C.npz") else "", columns)
    if name.startswith("T.csv"):
        selection = Selection(id="url")
    for i in range(30):
        content = bytearray(data)
        if i % 3 == 0:
            del content[rng.integers(1, len(data)) :]
        else:
            near = rng.integers(min(400, len(data)), size=3)  # headers are at the ends
            for place in (near[0], len(data) - 1 - near[1], rng.integers(len(data))):
                content[place] = rng.integers(256)
        path.write_bytes(content)
        try:
            rows = open_rows(path, selection)
            rows.rows(0, rows.n_samples)
        except DualclustError as error:
            messages.append(str(error))
    assert len(messages) >= 10  # those that are cut
    assert all(str(path) in message for message in messages)
