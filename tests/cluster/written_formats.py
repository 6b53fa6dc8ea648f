"""The same rows in a file of each format, written by the format's own library."""

from __future__ import annotations

import csv
import gzip

import numpy as np
import pytest

from dualclust.cli.main import main
from tests.cli.cluster_files import groups

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


def write_matlab(path, **options):
    """As MATLAB's -v7.3 does: the columns of the matrix, behind a block of 512 bytes."""
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w", userblock_size=512) as file:
        file.create_dataset("X", data=X.T, **options).attrs["MATLAB_class"] = np.bytes_("single")
    with path.open("r+b") as file:
        file.write(b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(116) + bytes(8) + b"\0\2IM")


def write_records(path, dtype="<f4"):
    """Each row behind its length."""
    lengths = np.full((N, 1), D, "<i4").view(np.uint8)
    rows = np.ascontiguousarray(X.astype(dtype)).view(np.uint8).reshape(N, -1)
    np.concatenate([lengths, rows], axis=1).tofile(path)


def word_lines(header=""):
    rows = zip(IDS, X.tolist(), strict=True)
    lines = [f"{key}w {' '.join(map(repr, row))}" for key, row in rows]
    return "\n".join([*filter(None, [header]), *lines, ""])


def write_word2vec(path):
    rows = zip(IDS, X, strict=True)
    records = b"".join(f"{key}w ".encode() + row.tobytes() + b"\n" for key, row in rows)
    path.write_bytes(f"{N} {D}\n".encode() + records)


def write_gzip(path, write):
    write(path)
    path.write_bytes(gzip.compress(path.read_bytes()))


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
    "M.mat": (write_matlab, ""),
    "MP.mat": (lambda p: write_matlab(p, chunks=(3, 50), compression="gzip"), ":X"),
    "V.fvecs": (write_records, ""),
    "V.fbin": (lambda p: p.write_bytes(np.array([N, D], "<u4").tobytes() + X.tobytes()), ""),
    "O.bin": (
        lambda p: p.write_bytes(bytes(12) + X.tobytes()),
        f" --dtype float32 --dim {D} --offset 12",
    ),
    "G.txt": (lambda p: p.write_text(word_lines()), " --dtype float32"),
    "W.vec": (lambda p: p.write_text(word_lines(f"{N} {D}")), " --dtype float32"),
    "W.w2v": (write_word2vec, ""),
    "W.bin.gz": (lambda p: write_gzip(p, write_word2vec), ""),
    "T.csv.gz": (lambda p: write_gzip(p, write_csv), " --dtype float32 --id url"),
    "T.txt": (lambda p: np.savetxt(p, X, fmt="%.9g"), " --dtype float32"),
    "sh": (lambda p: write_shards(p, np.save), ""),
    "shz": (lambda p: write_shards(p, lambda q, x: np.savez_compressed(q, x)), ""),
    "pattern": (lambda p: write_shards(p, lambda q, x: npz_or_plain(q, x)), "/p*"),
}


WORDS = ("G.txt", "W.vec", "W.w2v", "W.bin.gz")
"""Files of words, which are the ids of their rows."""


def npz_or_plain(path, x):
    """Shards of one format, of which one is packed."""
    (np.savez if path.name == "p10" else np.savez_compressed)(path, x)


def cluster(place, out, *options):
    return main(["cluster", str(place), "-k", "4", "--out", str(out), *options])
