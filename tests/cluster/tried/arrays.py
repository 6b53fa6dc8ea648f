"""NumPy, SciPy, PyTorch, and HDF5 as MATLAB, Octave, AnnData, PyTables and benchmarks write it."""

from __future__ import annotations

import io

import numpy as np
import pytest
import scipy.sparse as sparse

from tests.cluster.tried.read import BITS, Read, X, file, hdf5

DENSE = np.where(X > 0.5, X, 0) + np.eye(40, 3, dtype=np.float32)


def savetxt(**options):
    text = io.StringIO()
    np.savetxt(text, X, **options)
    return text.getvalue()


def save_npz(form):
    return lambda folder: sparse.save_npz(folder / "X.npz", sparse.csr_matrix(DENSE).asformat(form))


def matlab(**sets):
    """Data sets of -v7.3: the axes in reverse order, the class as an attribute."""

    def fill(file):
        for name, value in sets.items():
            kind, array = value if isinstance(value, tuple) else ("single", value)
            if kind == "sparse":
                columns = sparse.csc_matrix(array)
                group = file.create_group(name)
                group.attrs["MATLAB_class"] = np.bytes_("double")
                group.attrs["MATLAB_sparse"] = np.uint64(array.shape[0])
                group["data"], group["ir"], group["jc"] = (
                    columns.data, columns.indices.astype("u8"), columns.indptr.astype("u8")
                )  # fmt: skip
            else:
                file.create_dataset(name, data=array.T).attrs["MATLAB_class"] = np.bytes_(kind)

    return fill


def octave(file):
    file.create_group("X").attrs["OCTAVE_NEW_FORMAT"] = np.uint8(1)
    file["X/type"] = np.bytes_("matrix")
    file["X/value"] = X.T


def anndata(*, form="", dense=(), old=False):
    """An .h5ad file: X dense or sparse, and dense arrays beside it."""

    def fill(file):
        if form:
            matrix = sparse.csr_matrix(DENSE).asformat(form)
            group = file.create_group("X")
            if old:
                group.attrs["h5sparse_format"] = form
                group.attrs["h5sparse_shape"] = matrix.shape
            else:
                group.attrs["encoding-type"] = f"{form}_matrix"
                group.attrs["shape"] = matrix.shape
            for name in ("data", "indices", "indptr"):
                group[name] = getattr(matrix, name)
        for name in dense:
            file[name] = X
        file["obs/_index"] = [f"cell{i}" for i in range(40)]

    return fill


def tenx(file):
    """10x Genomics: a column for each cell."""
    matrix = sparse.csc_matrix(DENSE.T)
    for name in ("data", "indices", "indptr"):
        file[f"matrix/{name}"] = getattr(matrix, name)
    file["matrix/shape"] = matrix.shape
    file["matrix/barcodes"] = [b"cell"] * 40


def pytables(file):
    file["df/axis0"], file["df/axis1"] = [b"a", b"b", b"c"], np.arange(40)
    file["df/block0_items"], file["df/block0_values"] = [b"a", b"b", b"c"], X


def benchmark(file):
    for name, value in {"train": X, "test": X[:4], "distances": X[:4]}.items():
        file[name] = value
    file["neighbors"] = np.zeros((4, 100), np.int32)


def tensors(**values):
    def write(folder):
        pytest.importorskip("safetensors.numpy").save_file(values, folder / "X.safetensors")

    return write


ARRAY, SET = ": array", ": data set"
CASES = {
    "npy-bool": Read("numpy", lambda f: np.save(f / "X.npy", BITS), "X.npy", "", BITS),
    "npz-bool": Read(
        "numpy", lambda f: np.savez_compressed(f / "X.npz", b=BITS), "X.npz", f"{ARRAY} b", BITS
    ),
    "npz-others": Read(
        "numpy",
        lambda f: np.savez(f / "X.npz", x=X, y=X[:, 0], w=X[:, 1]),
        "X.npz",
        f"{ARRAY} x",
        left_out=("y", "w"),
    ),
    "savetxt": Read("numpy", file("X.txt", savetxt()), "X.txt"),
    "savetxt-dat": Read("numpy", file("X.dat", savetxt(fmt="%.9g")), "X.dat"),
    "savetxt-gz": Read("numpy", file("X.txt.gz", savetxt(), packed=True), "X.txt.gz"),
    "savetxt-header": Read("numpy", file("X.txt", savetxt(header="a b c")), "X.txt"),
    "savetxt-commas": Read(
        "numpy",
        file("X.csv", savetxt(header="a,b,c", delimiter=",")),
        "X.csv",
        ": columns a, b, c",
    ),
    "savetxt-prose": Read(
        "numpy",
        file("X.csv", savetxt(header="made by hand, with care", delimiter=",")),
        "X.csv",
        ": columns f0, f1, f2",
    ),
    "tofile-offset": Read(
        "numpy",
        file("X.raw", b"head" + X.tobytes()),
        "X.raw --dtype float32 --dim 3 --offset 4",
    ),
    "csr": Read("scipy", save_npz("csr"), "X.npz", ": sparse matrix (csr)", DENSE),
    "csc": Read("scipy", save_npz("csc"), "X.npz", ": sparse matrix (csc)", DENSE),
    "coo": Read("scipy", save_npz("coo"), "X.npz", ": sparse matrix (coo)", DENSE),
    "safetensors-bool": Read(
        "safetensors",
        tensors(b=BITS, y=X[:, 0].copy()),
        "X.safetensors",
        ": tensor b",
        BITS,
        ("y",),
    ),
    "mat-double": Read(
        "MATLAB",
        hdf5("X.mat", matlab(data=("double", X.astype("f8"))), userblock_size=512),
        "X.mat",
        f"{SET} data",
    ),
    "mat-logical": Read(
        "MATLAB", hdf5("X.mat", matlab(b=("logical", BITS.astype("u1")))), "X.mat", f"{SET} b", BITS
    ),
    "mat-text": Read(
        "MATLAB",
        hdf5("X.mat", matlab(X=X, name=("char", np.zeros((1, 9), "u2")))),
        "X.mat:X",
        f"{SET} X",
        left_out=("name",),
    ),
    "mat-sparse": Read(
        "MATLAB", hdf5("X.mat", matlab(S=("sparse", DENSE))), "X.mat", f"{SET} S", DENSE
    ),
    "mat-ids": Read(
        "MATLAB",
        hdf5("X.mat", matlab(X=X, id=("int64", np.arange(40)[:, None]))),
        "X.mat:X --id id",
        f"{SET} X",
        ids=tuple(map(str, range(40))),
    ),
    "octave-hdf5": Read(
        "Octave", hdf5("X.h5", octave), "X.h5", f"{SET} X/value", left_out=("X/type",)
    ),
    "octave-text": Read(
        "Octave",
        file(
            "X.txt",
            f"# Created by Octave\n# name: X\n# type: matrix\n# rows: 40\n# columns: 3\n"
            f"{savetxt()}\n\n",
        ),
        "X.txt",
    ),
    "h5ad-dense": Read(
        "AnnData",
        hdf5("X.h5ad", anndata(dense=["X"])),
        "X.h5ad",
        f"{SET} X",
        left_out=("obs/_index",),
    ),
    "h5ad-csr": Read(
        "AnnData",
        hdf5("X.h5ad", anndata(form="csr")),
        "X.h5ad",
        f"{SET} X",
        DENSE,
        ("obs/_index",),
    ),
    "h5ad-csc": Read(
        "AnnData",
        hdf5("X.h5ad", anndata(form="csc", dense=["obsm/X_umap"])),
        "X.h5ad:X",
        f"{SET} X",
        DENSE,
        ("obs/_index", "obsm/X_umap"),
    ),
    "h5ad-old": Read(
        "AnnData",
        hdf5("X.h5ad", anndata(form="csc", old=True)),
        "X.h5ad",
        f"{SET} X",
        DENSE,
        ("obs/_index",),
    ),
    "h5ad-pca": Read(
        "AnnData",
        hdf5("X.h5ad", anndata(form="csr", dense=["obsm/X_pca"])),
        "X.h5ad:obsm/X_pca --id obs/_index",
        f"{SET} obsm/X_pca",
        X,
        ("X",),
        tuple(f"cell{i}" for i in range(40)),
    ),
    "10x": Read(
        "10x Genomics",
        hdf5("X.h5", tenx),
        "X.h5",
        f"{SET} matrix",
        DENSE,
    ),
    "pytables": Read(
        "pandas",
        hdf5("X.hdf", pytables),
        "X.hdf",
        f"{SET} df/block0_values",
        left_out=("df/axis0", "df/axis1", "df/block0_items"),
    ),
    "ann-benchmarks": Read(
        "ann-benchmarks",
        hdf5("X.hdf5", benchmark),
        "X.hdf5",
        f"{SET} train",
        left_out=("distances", "neighbors", "test"),
    ),
}
