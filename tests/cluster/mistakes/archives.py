"""Archives of arrays: .npz."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sparse

from tests.cluster.mistakes.written import (
    OBJECTS,
    Case,
    X,
    bomb,
    cut,
    locked,
    lying,
    npy,
    npz,
    spoiled,
)


def wide_with_zeros(folder):
    """A sparse matrix that would be 320 MB of rows, of which the last two hold no entry."""
    rows = np.arange(400)
    made = sparse.csr_matrix((np.ones(400), (rows, rows % 50)), shape=(402, 100_000))
    sparse.save_npz(folder / "X.npz", made)


CASES = {
    "sparse-zeros": Case(
        wide_with_zeros,
        "X.npz",
        "X.npz holds only zeros in 2 rows, the first of them row 400. A row of zeros has no "
        "direction, which --metric cosine compares. To fix this, drop these rows, or choose "
        "--metric euclidean",
    ),
    "npz-two": Case(
        npz(a=X, b=X),
        "X.npz",
        "X.npz holds 2 arrays. Only one can be clustered, and 2 have the shape (n, d): "
        "'a' (float32, 40 x 3); 'b' (float32, 40 x 3). To fix this, name one: X.npz:a, "
        "or --array a",
    ),
    "npz-missing": Case(
        npz(a=X, b=X[:, 0]),
        "X.npz:c",
        "X.npz has no array 'c'. It holds 'a' (float32, 40 x 3); 'b' (float32, 40). To "
        "fix this, name one of these with --array, or as X.npz:a",
    ),
    "npz-none": Case(
        npz(a=X[:, 0], b=X[:, 1]),
        "X.npz",
        "X.npz holds 2 arrays. One of them must have the shape (n, d), and there are "
        "'a' (float32, 40); 'b' (float32, 40). To fix this, look at the program that "
        "wrote it",
    ),
    "npz-empty": Case(
        npz(),
        "X.npz",
        "X.npz is a zip archive without files. A file whose name ends in .npz must be "
        "an .npz archive. To fix this, look at the program that wrote it",
    ),
    "npz-objects": Case(
        npz(a=OBJECTS),
        "X.npz",
        "X.npz:a holds Python objects, which only a pickle can bring back (object). "
        "Embeddings are real numbers. To fix this, save the numbers as one array: "
        "np.save('X.npy', np.stack(rows).astype(np.float32))",
    ),
    "npz-cut": Case(
        cut(npz(a=X), "X.npz", 0.6),
        "X.npz",
        "X.npz is the beginning of a zip archive (.npz, .pt) whose end is missing or "
        "damaged. A file whose name ends in .npz must be an .npz archive. To fix this, "
        "write or copy it again",
    ),
    "npz-spoiled": Case(
        spoiled(npz(a=X, packed=True), "X.npz", 0.5),
        "X.npz",
        "X.npz:a cannot be unpacked (*). An archive must be whole, and packed by a "
        "method that Python reads. To fix this, write or copy the archive again",
    ),
    "npz-lying": Case(
        lying,
        "X.npz",
        "X.npz:x has a header for 48128 bytes in an entry of 608 bytes. An entry of an "
        "archive must be as long as its array. To fix this, write the archive again "
        "with np.savez",
    ),
    "npz-bomb": Case(
        bomb,
        "X.npz",
        "X.npz:x promises 320000128 bytes packed into 311113. Embeddings do not pack "
        "250 times: this may be made to fill the disk. To fix this, unpack it yourself "
        "and give the .npy file",
    ),
    "npz-locked": Case(
        locked,
        "X.npz",
        "X.npz:x is locked by a password. Its arrays must be readable without a "
        "password. To fix this, write the archive again with np.savez",
    ),
    "npz-columns": Case(
        npz(a=X),
        "X.npz --columns a",
        "X.npz is an .npz archive. --columns is for tables: .parquet, .arrow, .feather,"
        " .csv, .tsv. To fix this, leave out --columns",
        2,
    ),
    "npz-ids": Case(
        npz(a=X, i=np.arange(7)),
        "X.npz:a --id i",
        "X.npz:i gives ids of type int64 and shape (7,). Ids are one whole number or "
        "text for each of the 40 rows. To fix this, name another array with --id, or "
        "leave --id out",
    ),
    "npz-no-ids": Case(
        npz(a=X),
        "X.npz:a --id i",
        "X.npz has no array 'i'. It holds 'a' (float32, 40 x 3). To fix this, name one "
        "of these with --id, or leave --id out",
    ),
    "npy-array": Case(
        npy(X),
        "X.npy:a",
        "X.npy is an .npy file, which holds a single array. --array is for files of "
        "several arrays: .npz, .pt, .safetensors, .h5. To fix this, leave out --array "
        "(or the ':NAME' after the file)",
        2,
    ),
    "npy-id": Case(
        npy(X),
        "X.npy --id url",
        "X.npy is an .npy file, which holds a single array. --id is for tables, and for"
        " .npz and .h5 files. To fix this, leave out --id",
        2,
    ),
}
