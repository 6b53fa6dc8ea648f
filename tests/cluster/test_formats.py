"""Every format gives the bytes that the .npy file of the same values gives, and its ids."""

from __future__ import annotations

import csv
import os
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from dualclust.algos.core.errors import DualclustError, InvalidValueError, OutputError
from dualclust.cli.main import build_parser, main
from dualclust.cluster.formats import Selection, copies, default_folder, open_rows
from dualclust.cluster.formats.kinds import kind_of
from dualclust.cluster.formats.plain import PlainRows
from dualclust.cluster.formats.registry import FORMATS
from dualclust.cluster.formats.shards import JoinedRows
from dualclust.common import ranks
from tests.cli.cluster_files import error_of, groups, listing

N, D = 200, 8
X = groups(n=N, d=D)[0].astype(np.float32)
IDS = [f"{i:03d}" for i in range(N)]


# Files, each written by its own library ---------------------------------------------------------


def arrow_table(x=X, lists="fixed"):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet  # noqa: F401  (registers what pyarrow loads late)

    values = pa.array(x.reshape(-1))
    if lists == "fixed":
        column = pa.FixedSizeListArray.from_arrays(values, x.shape[1])
    else:
        kind = pa.ListArray if lists == "list" else pa.LargeListArray
        edges = pa.array(np.arange(len(x) + 1) * x.shape[1])
        column = kind.from_arrays(edges.cast("int32" if lists == "list" else "int64"), values)
    names = pa.array([f"{i:03d}" for i in range(len(x))])
    return pa.table({"url": names, "emb": column, "year": pa.array(range(len(x)))})


def columns_table(x=X):
    pa = pytest.importorskip("pyarrow")
    return pa.table({f"x{j}": x[:, j] for j in range(x.shape[1])})


def write_parquet(path, table=None, **options):
    pq = pytest.importorskip("pyarrow.parquet")
    pq.write_table(arrow_table() if table is None else table, path, **options)


def write_arrow(path, *, stream=False, table=None):
    pa = pytest.importorskip("pyarrow")
    table = arrow_table() if table is None else table
    new = pa.ipc.new_stream if stream else pa.ipc.new_file
    with pa.OSFile(str(path), "wb") as file, new(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=64)


def write_feather(path):
    feather = pytest.importorskip("pyarrow.feather")
    feather.write_feather(arrow_table(), path, compression="zstd")


def write_csv(path, mark=",", lead=""):
    pytest.importorskip("pyarrow")
    with path.open("w", newline="") as file:
        file.write(lead)
        table = csv.writer(file, delimiter=mark)
        table.writerow(["url", *(f"x{j}" for j in range(D))])
        table.writerows([key, *map(repr, row)] for key, row in zip(IDS, X.tolist(), strict=True))


def write_headless_csv(path):
    pytest.importorskip("pyarrow")
    np.savetxt(path, X, delimiter=",", fmt="%.9g")


def write_hdf5(path, **options):
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w", userblock_size=options.pop("block", 0)) as file:
        file.create_dataset("group/emb", data=X, **options)
        file["url"] = IDS
        file["year"] = np.arange(N)


def write_tensor(path, change=lambda x: {"X": x, "step": 3}):
    torch = pytest.importorskip("torch")
    torch.save(change(torch.from_numpy(X)), path)


def write_safetensors(path):
    pytest.importorskip("safetensors.numpy").save_file({"b": X[:3, 0].copy(), "X": X}, path)


def write_shards(folder, save):
    folder.mkdir()
    for name, (start, stop) in {"p9": (0, 7), "p10": (7, 120), "p100": (120, N)}.items():
        save(folder / name, X[start:stop])


def npz(path, save=np.savez, x=X):
    save(path, X=x, url=np.array(IDS), year=np.arange(N))


def turned(x):
    """A tensor in Fortran order, behind other values of its storage."""
    import torch

    return torch.cat([x.new_zeros(2 * D), x.T.contiguous().reshape(-1)])[2 * D :].view(D, N).T


# name: (how it is written, arguments after the file)
FILES = {
    "F.npy": (lambda p: np.save(p, np.asfortranarray(X)), ""),
    "B.npy": (lambda p: np.save(p, X.astype(">f4")), ""),
    "Z.npz": (npz, ":X --id url"),
    "C.npz": (lambda p: npz(p, np.savez_compressed), ":X --id url"),
    "CF.npz": (lambda p: npz(p, np.savez_compressed, np.asfortranarray(X)), ":X"),
    "ZF.npz": (lambda p: npz(p, np.savez, np.asfortranarray(X)), ""),
    "R.bin": (lambda p: X.tofile(p), f" --dtype float32 --dim {D}"),
    "RB.memmap": (lambda p: X.astype(">f4").tofile(p), f" --dtype >f4 --dim {D}"),
    "L.parquet": (write_parquet, " --columns emb --id url"),
    "G.parquet": (lambda p: write_parquet(p, arrow_table(lists="list"), row_group_size=7), ""),
    "LL.pq": (lambda p: write_parquet(p, arrow_table(lists="large"), compression="gzip"), ""),
    "W.parquet": (lambda p: write_parquet(p, columns_table()), ""),
    "P.parquet": (
        lambda p: write_parquet(p, columns_table().append_column("n", [list(range(N))])),
        " --columns x*",
    ),
    "A.arrow": (write_arrow, " --id url"),
    "S.arrows": (lambda p: write_arrow(p, stream=True), " --id url"),
    "no-suffix": (write_feather, ""),
    "F.feather": (write_feather, " --id url"),
    "T.csv": (write_csv, " --dtype float32 --id url"),
    "BOM.csv": (lambda p: write_csv(p, lead="\ufeff"), " --dtype float32 --id url"),
    "T.tsv": (lambda p: write_csv(p, "\t"), " --dtype float32 --columns x* --id url"),
    "H.csv": (write_headless_csv, " --dtype float32"),
    "H.h5": (write_hdf5, " --id url"),
    "HB.hdf5": (lambda p: write_hdf5(p, block=512), ":/group/emb --id url"),
    "HP.h5": (lambda p: write_hdf5(p, chunks=(33, 3), compression="gzip"), " --id url"),
    "HE.h5": (lambda p: write_hdf5(p, chunks=True, dtype=">f4"), " --array group/emb"),
    "T.pt": (write_tensor, ""),
    "TF.pth": (lambda p: write_tensor(p, lambda x: [{"a": x[:3, 0]}, turned(x)]), ":1"),
    "TV.pt": (lambda p: write_tensor(p, lambda x: x.repeat(2, 1)[:N]), ""),
    "T.safetensors": (write_safetensors, ""),
    "sh": (lambda p: write_shards(p, np.save), ""),
    "shz": (lambda p: write_shards(p, lambda q, x: np.savez_compressed(q, x)), ""),
    "pattern": (lambda p: write_shards(p, lambda q, x: npz_or_plain(q, x)), "/p*"),
}


def npz_or_plain(path, x):
    """Shards of one format, of which one is packed."""
    (np.savez if path.name == "p10" else np.savez_compressed)(path, x)


def cluster(place, out, *options):
    return main(["cluster", str(place), "-k", "4", "--out", str(out), *options])


@pytest.fixture(scope="module")
def answer(tmp_path_factory):
    """The files of the .npy file, and the table of its rows."""
    folder = tmp_path_factory.mktemp("answer")
    np.save(folder / "X.npy", X)
    assert cluster(folder / "X.npy", folder / "out", "--table", str(folder / "t.csv")) == 0
    return listing(folder / "out"), (folder / "t.csv").read_text()


@pytest.mark.parametrize("name", FILES)
def test_the_bytes_of_the_npy_file(tmp_path, answer, name) -> None:
    write, more = FILES[name]
    write(tmp_path / name)
    before = listing(tmp_path)
    more, *options = f"{more} ".split(" ")
    options = [*filter(None, options), "--table", str(tmp_path / "t.csv")]
    assert cluster(f"{tmp_path / name}{more}", tmp_path / "out", *options) == 0
    assert listing(tmp_path / "out") == answer[0]
    lines, wanted = (tmp_path / "t.csv").read_text().splitlines(), answer[1].splitlines()
    keys = ["url", *IDS] if "--id" in options else ["row", *map(str, range(N))]
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
    whole, small = np.arange(N, dtype=np.int32), X[:, 0].astype(np.float16)
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


# Memory and temporary copies ---------------------------------------------------------------------


@pytest.mark.parametrize("name", ["npz", "parquet", "csv", "h5", "feather"])
def test_memory_is_a_batch(tmp_path, name) -> None:
    n, d = 200_000, 32  # 25.6 MB
    x = np.broadcast_to(np.arange(1, d + 1, dtype=np.float32), (n, d))
    path = tmp_path / f"X.{name}"
    if name == "npz":
        np.savez_compressed(path, np.random.default_rng(0).normal(size=(n, d)).astype(np.float32))
    elif name == "parquet":
        write_parquet(path, columns_table(x), row_group_size=20_000)
    elif name == "feather":
        pytest.importorskip("pyarrow.feather").write_feather(columns_table(x), path)
    elif name == "csv":
        pytest.importorskip("pyarrow")
        path.write_text("a,b\n" + "1.5,2.5\n" * 3 * n)
    else:
        h5py = pytest.importorskip("h5py")
        with h5py.File(path, "w") as file:
            file.create_dataset("x", data=x, chunks=(1000, d), compression="gzip")
    tracemalloc.start()
    try:
        rows = open_rows(path)
        for start in range(0, rows.n_samples, 8192):
            rows.rows(start, min(rows.n_samples, start + 8192))
        rows.take(np.arange(0, n, 1000))
        assert tracemalloc.get_traced_memory()[1] < 16e6
    finally:
        tracemalloc.stop()


def test_a_copy_leaves_nothing(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    npz(tmp_path / "X.npz", np.savez_compressed)
    rows = open_rows(tmp_path / "X.npz")
    assert isinstance(rows, PlainRows)
    assert list((tmp_path / "tmp").iterdir()) == []
    np.testing.assert_array_equal(rows.rows(0, N), X)


@pytest.fixture
def three_ranks(tmp_path, monkeypatch):
    """The environment of a rank among three of this machine, and a place for their copies."""
    if not hasattr(os, "O_NOFOLLOW"):
        pytest.skip("files cannot be locked safely here, so each rank makes its own copy")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    run = {"WORLD_SIZE": "3", "RANK": "0", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "3"}
    for name, value in {**run, "MASTER_ADDR": "here", "MASTER_PORT": "1"}.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize("other", ["time", "size", "run"])
def test_a_copy_that_a_killed_run_left_is_not_taken(
    tmp_path, three_ranks, monkeypatch, other
) -> None:
    """It has the name of the file, its shape and its port."""
    path = tmp_path / "X.npz"
    npz(path, np.savez_compressed)
    killed = open_rows(path)  # held, as by a process whose end removes nothing
    [left] = tmp_path.glob("dualclust-*.rows")
    state = path.stat()
    if other == "run":
        monkeypatch.setattr(ranks, "_token", "another")
    else:
        npz(path, np.savez_compressed, -X if other == "time" else 0 * X)
        same_size = path.stat().st_size == state.st_size
        assert same_size == (other == "time")  # signs alone pack as well
        os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns + same_size))
    with np.load(path) as archive:
        written = archive["X"]
    found = open_rows(path)
    assert len(list(tmp_path.glob("dualclust-*.rows"))) == 2
    assert left.exists()
    np.testing.assert_array_equal(found.rows(0, N), written)
    np.testing.assert_array_equal(killed.rows(0, N), X)


def test_ranks_of_a_machine_share_a_copy(tmp_path, three_ranks, monkeypatch) -> None:
    npz(tmp_path / "X.npz", np.savez_compressed)
    before, written = sorted(tmp_path.iterdir()), copies._lay_down
    calls = []

    def counted(*arguments):
        calls.append(1)
        return written(*arguments)

    monkeypatch.setattr(copies, "_lay_down", counted)
    opened = [open_rows(tmp_path / "X.npz") for _ in range(2)]
    assert len(list(tmp_path.glob("dualclust-*.rows"))) == 1
    opened.append(open_rows(tmp_path / "X.npz"))
    assert sorted(tmp_path.iterdir()) == before  # the last one has opened it
    assert len(calls) == 1
    for rows in opened:
        np.testing.assert_array_equal(rows.rows(0, N), X)
    lost = open_rows(tmp_path / "X.npz")
    assert len(calls) == 2
    del lost  # a rank that ends before the others have come
    assert sorted(tmp_path.iterdir()) == before


def test_no_space_for_the_copy(tmp_path, monkeypatch) -> None:
    npz(tmp_path / "X.npz", np.savez_compressed)
    usage = type("Usage", (), {"free": 1000})
    monkeypatch.setattr(copies.shutil, "disk_usage", lambda path: usage)
    with pytest.raises(OutputError, match=r"temporary copy .* 6.4e-06 GB, and 1e-06 GB are free"):
        open_rows(tmp_path / "X.npz")
    monkeypatch.undo()

    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(copies, "_lay_down", full)
    with pytest.raises(OutputError, match=r"writing it failed: No space left on device\. To fix"):
        open_rows(tmp_path / "X.npz")


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


# The table --------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [(), ("--metric", "euclidean", "--weights", "w.npy")])
def test_margins_and_second_choices(tmp_path, monkeypatch, options) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("X.npy", X)
    weights = np.random.default_rng(0).uniform(0.5, 2.0, size=N)
    np.save("w.npy", weights)
    assert cluster("X.npy", "out", *options, "--table", "t.csv", "--gap", "0") == 0
    with open("t.csv") as file:
        lines = list(csv.DictReader(file))
    centers = np.load("out/centers.npy").astype(np.float64)
    with open("out/sizes.csv") as file:
        prices = np.asarray([float(line["price"]) for line in csv.DictReader(file)])
    x = X / np.linalg.norm(X, axis=1, keepdims=True)
    scores = x @ centers.T
    if options:
        scores = weights[:, None] * (X @ centers.T - 0.5 * (centers**2).sum(axis=1))
    free = np.asarray([int(line["free_choice"]) for line in lines])
    tol = 1e-5 * np.abs(scores).max()
    np.testing.assert_allclose(scores[np.arange(N), free], scores.max(axis=1), atol=tol)
    scores = scores + prices
    labels = np.load("out/labels.npy")
    assert [int(line["cluster"]) for line in lines] == labels.tolist()
    own = scores[np.arange(N), labels]
    scores[np.arange(N), labels] = -np.inf
    margins = np.asarray([float(line["margin"]) for line in lines])
    tol = 1e-5 * np.abs(own).max()
    np.testing.assert_allclose(margins, own - scores.max(axis=1), atol=tol)
    assert margins.min() >= -tol
    others = np.asarray([int(line["runner_up"]) for line in lines])
    np.testing.assert_allclose(scores[np.arange(N), others], scores.max(axis=1), atol=tol)


@pytest.mark.parametrize("name", ["t.parquet", "t.arrow", "deep/t.feather"])
def test_tables_of_arrow(tmp_path, name) -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    write_parquet(tmp_path / "X.parquet")
    csv_file, other = tmp_path / "t.csv", tmp_path / name
    for i, path in enumerate((csv_file, other)):
        options = ("--columns", "emb", "--id", "year", "--table", str(path))
        assert cluster(tmp_path / "X.parquet", tmp_path / f"out{i}", *options) == 0
    if other.suffix == ".parquet":
        table = pq.read_table(other)
    else:
        with pa.OSFile(str(other)) as file:
            table = pa.ipc.open_file(file).read_all()
    assert table.column_names == ["year", "cluster", "margin", "runner_up", "free_choice"]
    assert table.schema.field("year").type == pa.int64()  # as in the input
    with csv_file.open() as file:
        lines = list(csv.DictReader(file))
    for key in ("year", "cluster", "runner_up", "free_choice"):
        assert table[key].to_pylist() == [int(line[key]) for line in lines]
    assert table["margin"].to_pylist() == pytest.approx([float(ln["margin"]) for ln in lines])


def test_ids_of_an_archive_in_a_parquet_table(tmp_path) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    np.savez(tmp_path / "X.npz", X=X, key=np.array(IDS, dtype="S"))
    options = ("--id", "key", "--table", str(tmp_path / "t.parquet"))
    assert cluster(f"{tmp_path / 'X.npz'}:X", tmp_path / "out", *options) == 0
    assert pq.read_table(tmp_path / "t.parquet")["key"].to_pylist() == IDS


def test_one_cluster_has_no_second(tmp_path) -> None:
    np.save(tmp_path / "X.npy", X[:3])
    arguments = ["cluster", str(tmp_path / "X.npy"), "-k", "1", "--table"]
    assert main([*arguments, str(tmp_path / "t.csv")]) == 0
    text = (tmp_path / "t.csv").read_text()
    assert text == "row,cluster,margin,runner_up,free_choice\n0,0,,,0\n1,0,,,0\n2,0,,,0\n"
    pq = pytest.importorskip("pyarrow.parquet")
    assert main([*arguments, str(tmp_path / "t.parquet"), "--out", str(tmp_path / "b")]) == 0
    assert pq.read_table(tmp_path / "t.parquet")["margin"].to_pylist() == [None] * 3


def test_a_table_that_cannot_be_written(tmp_path, capsys) -> None:
    np.save(tmp_path / "X.npy", X)
    (tmp_path / "there.csv").write_text("mine")
    before = listing(tmp_path)
    start = ("cluster", tmp_path / "X.npy", "-k", 4, "--table")
    error = error_of(capsys, 2, *start, tmp_path / "t.npy")
    assert "must end in .csv, .parquet, .arrow, .feather" in error
    assert "Labels alone are in labels.npy of the output folder" in error
    error = error_of(capsys, 73, *start, tmp_path / "there.csv")
    assert "there.csv exists. To fix this, name another file with --table" in error
    error = error_of(capsys, 2, *start, tmp_path / "t.csv", "--id", "cluster")
    assert "--table has a column 'cluster' of its own" in error
    assert listing(tmp_path) == before


def test_a_folder_that_cannot_be_written_takes_the_table_with_it(tmp_path, monkeypatch) -> None:
    from dualclust.cluster import command

    np.save(tmp_path / "X.npy", X)
    before = listing(tmp_path)

    def full(*arguments, **options):
        assert (tmp_path / "t.csv").exists()
        msg = "disk full"
        raise OutputError(msg)

    monkeypatch.setattr(command, "replace_folder", full)
    assert cluster(tmp_path / "X.npy", tmp_path / "out", "--table", str(tmp_path / "t.csv")) == 73
    assert listing(tmp_path) == before


def test_ids_that_have_changed_meanwhile(tmp_path, capsys, monkeypatch) -> None:
    write_csv(tmp_path / "X.csv")
    from dualclust.cluster import command

    collect = command._collect

    def shorten(*arguments):
        text = (tmp_path / "X.csv").read_text()
        (tmp_path / "X.csv").write_text(text[: text.index("100,")])
        return collect(*arguments)

    monkeypatch.setattr(command, "_collect", shorten)
    table = str(tmp_path / "t.csv")
    assert cluster(tmp_path / "X.csv", tmp_path / "out", "--id", "url", "--table", table) == 65
    assert "would have 200 lines, and the input has 100 ids by now" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["X.csv"]


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


DAMAGED = ["F.npy", "Z.npz", "C.npz", "L.parquet", "A.arrow", "S.arrows", "T.csv", "HP.h5", "T.pt"]


@pytest.mark.parametrize("name", [*DAMAGED, "T.safetensors"])
def test_damage_anywhere_is_no_bug(tmp_path, name) -> None:
    """Cut or changed bytes give other numbers or an error of ours, and never another one."""
    rng, path = np.random.default_rng(0), tmp_path / name
    FILES[name][0](path)
    data, messages = path.read_bytes(), []
    columns = ("emb",) if path.suffix in (".parquet", ".arrow", ".arrows") else ()
    selection = Selection("X" if path.suffix == ".npz" else "", columns)
    if name == "T.csv":
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
