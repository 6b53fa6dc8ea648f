"""Files of another kind than their name says, or of none that is read."""

from __future__ import annotations

import zipfile

from tests.cluster.mistakes.written import (
    Case,
    X,
    content,
    npy,
    npz,
    parquet,
    whole,
)

CASES = {
    "png": Case(
        content(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"),
        "X.npy",
        "X.npy is a PNG picture. A file whose name ends in .npy must be an .npy file. "
        "To fix this, compute embeddings of the pictures first, and give the file that "
        "holds these",
    ),
    "jpeg": Case(
        content(b"\xff\xd8\xff\xe0\0\x10JFIF", "X.jpg"),
        "X.jpg",
        "X.jpg is a JPEG picture. These formats are read: .npy, .npz, .parquet, .arrow, .csv,"
        " .pt, .safetensors, .h5, .fvecs, .fbin, .w2v. To fix this, compute embeddings of the"
        " pictures first, and give the file that holds these",
    ),
    "zip-of-csv": Case(
        lambda f: zipfile.ZipFile(f / "X.zip", "w").writestr("X.csv", "1,2"),
        "X.zip",
        "X.zip is a zip archive of other files than arrays. These formats are read: .npy, "
        ".npz, .parquet, .arrow, .csv, .pt, .safetensors, .h5, .fvecs, .fbin, .w2v. To fix "
        "this, unpack it (unzip) and give what comes out",
    ),
    "html": Case(
        content(b"<!DOCTYPE html><html>404"),
        "X.npy",
        "X.npy is a page in HTML. A file whose name ends in .npy must be an .npy file. "
        "To fix this, look at it in a browser: a download that fails often leaves such "
        "a page",
    ),
    "lfs": Case(
        content(b"version https://git-lfs.github.com/spec/v1\noid sha256:1\n"),
        "X.npy",
        "X.npy is a pointer of Git LFS, not the file itself. A file whose name ends in "
        ".npy must be an .npy file. To fix this, fetch the file: git lfs pull",
    ),
    "json": Case(
        content(b"[[1, 2], [3, 4]]", "X.json"),
        "X.json",
        "X.json is JSON. These formats are read: .npy, .npz, .parquet, .arrow, .csv, .pt, "
        ".safetensors, .h5, .fvecs, .fbin, .w2v. To fix this, write the numbers as .npy, "
        ".parquet or .csv",
    ),
    "text-npy": Case(
        content(b"1.0 2.0\n"),
        "X.npy",
        "X.npy is text. A file whose name ends in .npy must be an .npy file. To fix this, "
        "rename it to X.txt if each of its lines is a row",
    ),
    "unknown": Case(
        content(X.tobytes(), "X.bin"),
        "X.bin",
        "X.bin is of no format that is known here (it begins with the bytes 6c bf 00 3e 7f 46"
        " 07 be). These formats are read: .npy, .npz, .parquet, .arrow, .csv, .pt, "
        ".safetensors, .h5, .fvecs, .fbin, .w2v. To fix this, give --dtype and --dim if it "
        "holds raw numbers, or save it as .npy",
    ),
    "npy-as-parquet": Case(
        content(whole(), "X.parquet"),
        "X.parquet",
        "X.parquet is an .npy file, by its first bytes. A file whose name ends in "
        ".parquet must be a Parquet file. To fix this, rename it to X.npy",
    ),
    "npz-as-npy": Case(
        lambda f: (npz(x=X)(f), (f / "X.npz").rename(f / "X.npy")),
        "X.npy",
        "X.npy is an .npz archive, by its first bytes. A file whose name ends in .npy "
        "must be an .npy file. To fix this, rename it to X.npz",
    ),
    "parquet-as-npy": Case(
        parquet("X.npy", a=X[:, 0]),
        "X.npy",
        "X.npy is a Parquet file, by its first bytes. A file whose name ends in .npy "
        "must be an .npy file. To fix this, rename it to X.parquet",
    ),
    "faiss": Case(
        content(b"IxF2\x03\0\0\0\0\0", "X.index"),
        "X.index",
        "X.index is a faiss index. These formats are read: .npy, .npz, .parquet, .arrow, "
        ".csv, .pt, .safetensors, .h5, .fvecs, .fbin, .w2v. To fix this, save its vectors: "
        "index.reconstruct_n(0, n)",
    ),
    "sqlite": Case(
        content(b"SQLite format 3\0", "X.db"),
        "X.db",
        "X.db is an SQLite database. These formats are read: .npy, .npz, .parquet, .arrow, "
        ".csv, .pt, .safetensors, .h5, .fvecs, .fbin, .w2v. To fix this, export its numbers "
        "as .npy, .parquet or .csv",
    ),
    "raw-odd": Case(
        content(bytes(1000), "X.bin"),
        "X.bin --dtype float16 --dim 768",
        "X.bin has 1000 bytes, which are 0 whole rows and 1000 bytes more. A row of 768"
        " float16 numbers has 1536 bytes. To fix this, look at --dtype and --dim, or "
        "copy the file again",
    ),
    "raw-no-dim": Case(
        content(bytes(1000), "X.bin"),
        "X.bin --dtype float16",
        "X.bin is read as raw numbers, got no --dim. To fix this, give --dtype and --dim",
        2,
    ),
    "raw-type": Case(
        content(bytes(1000), "X.bin"),
        "X.bin --dtype complex64 --dim 5",
        "--dtype must be a type of real numbers (float16, bfloat16, float32, float64, "
        "int8, uint8, int16, ..., or >f4 for big endian), got 'complex64'",
        2,
    ),
    "raw-npy": Case(
        npy(X),
        "X.npy --dtype float32 --dim 3",
        "X.npy is an .npy file. --dtype and --dim are for files of numbers alone, "
        "without a header. To fix this, leave out --dtype and --dim",
        2,
    ),
    "raw-empty": Case(
        content(b"", "X.bin"),
        "X.bin --dtype float32 --dim 3",
        "X.bin is empty (0 bytes). Embeddings have at least one row. To fix this, look "
        "at the program that wrote it",
    ),
}
