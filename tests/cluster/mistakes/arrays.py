"""Arrays: .npy files that are damaged, or hold what is no embedding."""

from __future__ import annotations

import numpy as np

from tests.cluster.mistakes.written import (
    OBJECTS,
    PICKLE,
    Case,
    X,
    changed,
    content,
    npy,
    whole,
)

CASES = {
    "missing": Case(
        lambda f: None,
        "X.npy",
        "no file at X.npy. To fix this, look at the path, and put a pattern in quotes",
        66,
    ),
    "empty": Case(
        content(b""),
        "X.npy",
        "X.npy is empty (0 bytes). A file whose name ends in .npy must be an .npy file."
        " To fix this, write or copy it again: a full disk leaves such files",
    ),
    "cut-header": Case(
        content(whole()[:40]),
        "X.npy",
        "X.npy is cut off within its header. An .npy file begins with a header that "
        "gives type and shape. To fix this, write or copy it again",
    ),
    "cut-magic": Case(
        content(b"\x93NUMPY"),
        "X.npy",
        "X.npy is cut off within its header. An .npy file begins with a header that "
        "gives type and shape. To fix this, write or copy it again",
    ),
    "cut-numbers": Case(
        content(whole()[:-7]),
        "X.npy",
        "X.npy is cut off: its header promises 608 bytes, and it has 601. A file must "
        "be as long as its header says. To fix this, write or copy it again",
    ),
    "damaged-header": Case(
        content(whole().replace(b"descr", b"dexxr")),
        "X.npy",
        "X.npy has a damaged .npy header. An .npy file begins with a header that gives "
        "type and shape. To fix this, write or copy it again",
    ),
    "code-in-header": Case(
        content(whole().replace(b"'<f4'", b"os.x ")),
        "X.npy",
        "X.npy has a damaged .npy header. An .npy file begins with a header that gives "
        "type and shape. To fix this, write or copy it again",
    ),
    "version-9": Case(
        content(b"\x93NUMPY\x09" + whole()[7:]),
        "X.npy",
        "X.npy has a damaged .npy header. An .npy file begins with a header that gives "
        "type and shape. To fix this, write or copy it again",
    ),
    "negative": Case(
        content(whole().replace(b"(40, 3)", b"(-4, 3)")),
        "X.npy",
        "X.npy has a damaged .npy header. An .npy file begins with a header that gives "
        "type and shape. To fix this, write or copy it again",
    ),
    "objects": Case(
        npy(OBJECTS),
        "X.npy",
        "X.npy holds Python objects, which only a pickle can bring back (object). "
        "Embeddings are real numbers. To fix this, save the numbers as one array: "
        "np.save('X.npy', np.stack(rows).astype(np.float32))",
    ),
    "pickle": Case(
        content(PICKLE),
        "X.npy",
        "X.npy is a Python pickle. A file whose name ends in .npy must be an .npy file."
        " To fix this, load it yourself where you trust it, and save the numbers: "
        "np.save('X.npy', x). A pickle can run any code, so none is loaded here",
    ),
    "pickle-pkl": Case(
        content(PICKLE, "X.pkl"),
        "X.pkl",
        "X.pkl is a Python pickle. These formats are read: .npy, .npz, .parquet, .arrow, "
        ".csv, .pt, .safetensors, .h5, .fvecs, .fbin, .w2v. To fix this, load it yourself "
        "where you trust it, and save the numbers: np.save('X.npy', x). A pickle can run any "
        "code, so none is loaded here",
    ),
    "complex": Case(
        npy(X.astype(complex)),
        "X.npy",
        "X.npy holds complex numbers (complex128). Embeddings are real numbers. To fix "
        "this, save real and imaginary parts as columns: np.concatenate([x.real, "
        "x.imag], axis=1)",
    ),
    "dates": Case(
        npy(np.zeros((9, 2), "M8[s]")),
        "X.npy",
        "X.npy holds dates (datetime64[s]). Embeddings are real numbers. To fix this, "
        "save embeddings instead, or numbers made of the dates",
    ),
    "strings": Case(
        npy(np.array([["a", "b"]])),
        "X.npy",
        "X.npy holds text (<U1). Embeddings are real numbers. To fix this, save "
        "embeddings of the text, or convert digits: x.astype(np.float32)",
    ),
    "records": Case(
        npy(np.zeros(9, [("a", "f4"), ("b", "i4")])),
        "X.npy",
        "X.npy holds records with the fields 'a', 'b'. Embeddings are real numbers. To "
        "fix this, save the fields as columns: "
        "np.stack([x[f] for f in x.dtype.names], axis=1)",
    ),
    "void": Case(
        npy(np.zeros((9, 2), "V2")),
        "X.npy",
        "X.npy holds raw bytes of no type that NumPy knows, as bfloat16 becomes in an "
        ".npy file (|V2). Embeddings are real numbers. To fix this, save them as "
        "numbers: x.astype(np.float32)",
    ),
    "one-axis": Case(
        npy(X[:, 0]),
        "X.npy",
        "X.npy has the shape (40,). Embeddings have the shape (n, d), with at least one"
        " row and one column. To fix this, save it as x.reshape(-1, d), or as x[:, "
        "None] if each row is one number",
    ),
    "three-axes": Case(
        npy(X.reshape(5, 8, 3)),
        "X.npy",
        "X.npy has the shape (5, 8, 3). Embeddings have the shape (n, d), with at least"
        " one row and one column. To fix this, make each sample one row: "
        "x.reshape(len(x), -1), or a mean over an axis",
    ),
    "scalar": Case(
        npy(np.float32(3)),
        "X.npy",
        "X.npy holds a single number. Embeddings have the shape (n, d), with at least "
        "one row and one column. To fix this, save one row for each sample",
    ),
    "no-rows": Case(
        npy(X[:0]),
        "X.npy",
        "X.npy has the shape (0, 3): no rows. Embeddings have the shape (n, d), with at"
        " least one row and one column. To fix this, look at the program that wrote it",
    ),
    "no-columns": Case(
        npy(X[:, :0]),
        "X.npy",
        "X.npy has the shape (40, 0): rows without numbers. Embeddings have the shape "
        "(n, d), with at least one row and one column. To fix this, look at the program"
        " that wrote it",
    ),
    "nan": Case(
        npy(changed([17, 20], 1, np.nan)),
        "X.npy",
        "X.npy holds NaN or infinity in 2 rows, the first of them row 17. Embeddings are "
        "finite numbers. To fix this, drop these rows (--invalid drop), or look at the "
        "program that wrote them",
    ),
    "inf": Case(
        npy(changed(9, 1, -np.inf)),
        "X.npy",
        "X.npy holds NaN or infinity in row 9. Embeddings are finite numbers. To fix this, "
        "drop these rows (--invalid drop), or look at the program that wrote them",
    ),
    "zeros": Case(
        npy(changed(9, slice(None), 0)),
        "X.npy",
        "X.npy holds only zeros in row 9. A row of zeros has no direction, which --metric "
        "cosine compares. To fix this, drop these rows (--invalid drop), or choose --metric "
        "euclidean",
    ),
}
