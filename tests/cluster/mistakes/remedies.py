"""What each message about a file tells its user to do, done to that file.

A remedy is new arguments of the command, or a function that changes the file as the message says
and returns the arguments. Each must end right. What only the user's own programs can mend has none:
`OUTSIDE` has the words of such remedies.
"""

from __future__ import annotations

import gzip
import re
import zipfile

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sparse

from tests.cluster.mistakes.written import X, tensors

OUTSIDE = (
    "look at the program",
    "write it again",
    "look at the path",
    "look at it in a browser",
    "look at who may read it",
    "write or copy",
    "compute embeddings",
    "fetch the file",
    "save embeddings instead",
    "give the files of one model only",
    "save one row for each sample",
    "unpack it yourself",
    "let nobody write",
)


def saved(make, path="X.npy", at="X.npy"):
    """Save what becomes of an array, as the message says."""

    def follow(folder):
        old = np.load(folder / path, allow_pickle=True)
        np.save(folder / at, make(old))
        return at

    return follow


def numbers(at="X.npy", more=""):
    """Save the numbers that the user has in a program of theirs."""

    def follow(folder):
        (np.savez if at.endswith(".npz") else np.save)(folder / at, X)
        return f"{at}{more}"

    return follow


def named(old, new):
    def follow(folder):
        (folder / old).rename(folder / new)
        return new

    return follow


def text(change, path="X.csv", at="X.csv", encoding="utf-8"):
    def follow(folder):
        old = (folder / path).read_bytes().decode(encoding)
        (folder / at).write_text(change(old))
        return at

    return follow


def unpacked(folder):
    with zipfile.ZipFile(folder / "X.zip") as archive:
        archive.extract("X.csv", folder)
    return "X.csv"


def rewritten(change):
    """Read an HDF5 file, and write another data set in its place."""

    def follow(folder):
        h5py = pytest.importorskip("h5py")
        with h5py.File(folder / "X.h5", "r+") as file:
            old = file["a"].asstr()[:] if file["a"].dtype.kind == "O" else file["a"][:]
            del file["a"]
            file["a"] = change(old)
        return "X.h5"

    return follow


def faiss_vectors(folder):
    faiss = pytest.importorskip("faiss")
    index = faiss.IndexFlatL2(3)
    index.add(X)
    faiss.write_index(index, str(folder / "X.index"))
    index = faiss.read_index(str(folder / "X.index"))
    np.save(folder / "X.npy", index.reconstruct_n(0, index.ntotal))
    return "X.npy"


def torch_saved(change, path="X.pt"):
    def follow(folder):
        torch = pytest.importorskip("torch")
        old = torch.load(folder / path, weights_only=True)
        torch.save(change(torch, old), folder / path)
        return path

    return follow


def tensor_alone(folder):
    tensors(lambda t: {"X": t.from_numpy(X)})(folder)
    return "X.pt"


def safetensors_saved(folder):
    torch = pytest.importorskip("torch")
    found = {"x": torch.from_numpy(X).to(torch.float8_e4m3fn)}
    halves = {key: value.to(torch.float16) for key, value in found.items()}
    pytest.importorskip("safetensors.torch").save_file(halves, folder / "X.safetensors")
    return "X.safetensors"


def filled(folder):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.compute as compute
    import pyarrow.parquet as parquet

    old = parquet.read_table(folder / "X.parquet")
    columns = {
        name: column if pa.types.is_nested(column.type) else compute.fill_null(column, 0.0)
        for name, column in zip(old.column_names, old.columns, strict=True)
    }
    parquet.write_table(pa.table(columns), folder / "X.parquet")
    return "X.parquet --columns a,b"


def columns_of(record):
    return np.stack([record[field] for field in record.dtype.names], axis=1)


def even(folder):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as parquet

    parquet.write_table(pa.table({"emb": [[1, 2], [3, 4], [5, 6]]}), folder / "X.parquet")
    return "X.parquet"


def gunzipped(name):
    def follow(folder):
        (folder / name).write_bytes(gzip.decompress((folder / f"{name}.gz").read_bytes()))
        return name

    return follow


def matlab7(folder):
    """As MATLAB's -v7.3 writes it."""
    h5py = pytest.importorskip("h5py")
    with h5py.File(folder / "X.mat", "w", userblock_size=512) as file:
        file["X"] = X.T
        file["X"].attrs["MATLAB_class"] = np.bytes_("single")
    return "X.mat"


def loaded(kind, path):
    def follow(folder):
        if kind == "mat":
            np.save(folder / "X.npy", scipy.io.loadmat(folder / path)["X"])
            return "X.npy"
        sparse.save_npz(folder / "X.npz", scipy.io.mmread(folder / path).tocsr())
        return "X.npz"

    return follow


def reduced(folder):
    from sklearn.decomposition import TruncatedSVD

    x = sparse.load_npz(folder / "X.npz")
    np.save(folder / "X.npy", TruncatedSVD(100, n_iter=1).fit_transform(x))
    return "X.npy"


def as_rows(folder):
    sparse.save_npz(folder / "X.npz", sparse.load_npz(folder / "X.npz").tocsr())
    return "X.npz --metric euclidean"


def copied_into_one(folder):
    h5py = pytest.importorskip("h5py")
    with h5py.File(folder / "X.h5") as other, h5py.File(folder / "Y.h5", "w") as file:
        file.create_dataset("X", data=other["/a"][:])
    return "Y.h5"


def zarr_saved(folder):
    np.save(folder / "Z.npy", X)
    return "Z.npy"


DROP, LEAVE_ID = " --invalid drop", "X.parquet"
FOLLOW = {
    "objects": (numbers(),),
    "pickle": (numbers(),),
    "pickle-pkl": (numbers(),),
    "complex": (saved(lambda x: np.concatenate([x.real, x.imag], axis=1)),),
    "strings": (saved(lambda x: np.array([["1", "2"]]).astype(np.float32)),),
    "records": (saved(lambda x: 1 + columns_of(x)),),
    "void": (numbers(),),
    "one-axis": (saved(lambda x: x.reshape(-1, 2)), saved(lambda x: x.reshape(-1, 1))),
    "three-axes": (saved(lambda x: x.reshape(len(x), -1)),),
    "nan": (f"X.npy{DROP}",),
    "inf": (f"X.npy{DROP}",),
    "zeros": (f"X.npy{DROP}", "X.npy --metric euclidean"),
    "zip-of-csv": (unpacked,),
    "json": (numbers(),),
    "text-npy": (named("X.npy", "X.txt"),),
    "unknown": ("X.bin --dtype float32 --dim 3", numbers()),
    "npy-as-parquet": (named("X.parquet", "X.npy"),),
    "npz-as-npy": (named("X.npy", "X.npz"),),
    "parquet-as-npy": (named("X.npy", "X.parquet"),),
    "faiss": (faiss_vectors,),
    "sqlite": (numbers(),),
    "raw-odd": ("X.bin --dtype float16 --dim 5 --metric euclidean",),
    "raw-no-dim": ("X.bin --dtype int8 --dim 1000 --metric euclidean",),
    "raw-type": ("X.bin --dtype int8 --dim 5 --metric euclidean",),
    "raw-npy": ("X.npy",),
    "npz-two": ("X.npz:a", "X.npz --array a"),
    "npz-missing": ("X.npz:a", "X.npz --array a"),
    "npz-objects": (numbers(),),
    "npz-lying": (numbers("X.npz"),),
    "npz-locked": (numbers("X.npz"),),
    "npz-columns": ("X.npz",),
    "npz-ids": ("X.npz:a",),
    "npz-no-ids": ("X.npz:a",),
    "npy-array": ("X.npy",),
    "npy-id": ("X.npy",),
    "pq-null": (f"X.parquet{DROP}",),
    "pq-null-inside": (f"X.parquet{DROP}",),
    "pq-ragged": (even,),
    "pq-strings": ("X.parquet --columns a", "X.parquet --id color"),
    "pq-list-of-text": ("X.parquet --columns n --metric euclidean",),
    "pq-null-column": (f"X.parquet{DROP}", filled),
    "pq-missing-column": ("X.parquet --columns a", "X.parquet --columns a*,b"),
    "pq-missing-id": ("X.parquet --id a", LEAVE_ID),
    "pq-null-id": ("X.parquet --columns a,b",),
    "pq-two-lists": ("X.parquet --columns a",),
    "pq-nan": (f"X.parquet{DROP}",),
    "pq-array": ("X.parquet",),
    "arrow-as-parquet": (named("X.parquet", "X.arrow"),),
    "csv-word": ("X.csv --columns a",),
    "csv-empty-field": (f"X.csv{DROP}", text(lambda t: t.replace("3,\n", "3,0\n"))),
    "csv-fields": (text(lambda t: t.replace("3\n", "3,3\n")),),
    "csv-long-line": (numbers(),),
    "csv-twice": (text(lambda t: t.replace("a,a", "a,b")),),
    "csv-pandas": ("X.csv --columns a,b", text(lambda t: "a,b\n1,2\n3,4\n")),
    "csv-nan": (f"X.csv{DROP}",),
    "csv-latin": (
        lambda f: f"{text(lambda t: t, encoding='latin-1')(f)} --id name --metric euclidean",
    ),
    "csv-utf16": (text(lambda t: t, encoding="utf-16"),),
    "csv-dtype": ("X.csv --dtype float32", "X.csv"),
    "csv-id": ("X.csv --id a", "X.csv"),
    "h5-two": ("X.h5:a", "X.h5 --array a"),
    "h5-missing": ("X.h5:a", "X.h5 --array a"),
    "h5-text": (rewritten(lambda x: np.stack([[1.0, 2.0] for _ in x])),),
    "h5-one-axis": (rewritten(lambda x: x.reshape(-1, 2)), rewritten(lambda x: x.reshape(-1, 1))),
    "h5-complex": (rewritten(lambda x: np.concatenate([x.real, x.imag], axis=1)),),
    "h5-records": (rewritten(lambda x: 1 + columns_of(x)),),
    "pt-object": (tensor_alone,),
    "pt-old": (torch_saved(lambda torch, x: x),),
    "pt-two": ("X.pt:a", "X.pt --array a"),
    "pt-view": (torch_saved(lambda torch, x: x.contiguous()),),
    "pt-float8": (torch_saved(lambda torch, x: x.to(torch.float16)),),
    "st-float8": (safetensors_saved,),
    "st-missing": ("X.safetensors --array x", "X.safetensors:x"),
    "sh-kinds": ("in/*.npy",),
    "sh-nan": (f"in{DROP}",),
    "sh-zarr": (zarr_saved,),
    "fvecs-raw": ("X.fvecs", "X.fvecs --dtype float32 --dim 4 --offset 0"),
    "fvecs-bin": (named("X.bin", "X.fvecs"),),
    "fvecs-unknown": (named("X.bin", "X.fvecs"),),
    "bvecs-as-fvecs": (named("X.fvecs", "X.bvecs"),),
    "fbin-unknown": (named("X.bin", "X.fbin"),),
    "fbin-part": ("X.fbin --dtype float32 --dim 3 --offset 8",),
    "fvecs-cut": ("X.fvecs --dtype int8 --dim 7",),
    "raw-header": ("X.raw --dtype float32 --dim 3 --offset 4",),
    "raw-offset": ("X.raw --dtype float32 --dim 3 --offset 0",),
    "raw-beyond": ("X.raw --dtype float32 --dim 3 --offset 120",),
    "offset-npy": ("X.npy",),
    "words-fewer": (text(lambda t: t.replace("last 1 2\n", "last 1 2 3\n"), "X.txt", "X.txt"),),
    "words-more": (text(lambda t: t.replace(" 3 4\n", " 3\n"), "X.txt", "X.txt"),),
    "libsvm": (text(lambda t: "0.5 0.25\n1 2\n", "X.txt", "X.txt"),),
    "gzip-npy": (gunzipped("X.npy"),),
    "bzip2": (numbers(),),
    "mat-5": (matlab7, loaded("mat", "X.mat")),
    "rds": (numbers(),),
    "mtx": (loaded("mtx", "X.mtx"),),
    "xlsx": (numbers(),),
    "sparse-wide": (reduced, "X.npz"),
    "sparse-zeros": ("X.npz --metric euclidean",),
    "sparse-form": (as_rows,),
    "h5ad-two": ("X.h5:X --invalid drop", "X.h5 --array X --metric euclidean"),
    "id-counted": ("X.csv --id n", "X.csv --columns n,a,b"),
    "id-long": ("X.csv --id key", "X.csv --columns a,b"),
    "id-named": ("X.csv --id user_id", "X.csv --columns a,b"),
    "id-parquet": ("X.parquet --id PassengerId", "X.parquet --columns a,b"),
    "csv-number-name": (lambda f: f"{text(lambda t: f'key,a,b{chr(10)}{t}')(f)} --id key",),
    "csv-r-names": (text(lambda t: re.sub("r\\d,", "", t)),),
    "csv-behind": (text(lambda t: "a,b,c\n1,2,0\n3,4,5\n"),),
    "csv-yes": ("X.csv --columns a", "X.csv --id ok"),
    "csv-id-alone": ("X.csv --id url --columns a --metric euclidean",),
    "h5-elsewhere": (copied_into_one,),
    "pt-program": (tensor_alone,),
    "folder-of-folders": ("in/train",),
    "dataset-dict": ("in/test",),
    "two-formats": ("in/*.npy",),
}
