"""Vectors of search engines, and words with their vectors."""

from __future__ import annotations

import numpy as np

from tests.cluster.tried.read import TEXT, Read, X, file, lines

INTEGERS = np.abs(8 * X).astype(np.uint8)
WORDS = [f"w{i}" for i in range(40)]
GLOVE = [[word, *row] for word, row in zip(WORDS, TEXT, strict=True)]
SPACED = [["at name@domain.com" if i == 7 else row[0], *row[1:]] for i, row in enumerate(GLOVE)]
NAMES = tuple(row[0] for row in SPACED)


def records(array):
    return b"".join(np.int32(len(row)).tobytes() + row.tobytes() for row in array)


def headed(array):
    return np.array(array.shape, np.uint32).tobytes() + array.tobytes()


def word2vec(end=b"\n"):
    rows = zip(WORDS, X, strict=True)
    return b"40 3\n" + b"".join(w.encode() + b" " + row.tobytes() + end for w, row in rows)


def wide():
    """Rows of 640 numbers, whose length has the first bytes of a pickle."""
    return np.random.default_rng(0).normal(size=(3, 640)).astype(np.float32)


VECTORS, OF_WORDS = "", ": vectors of words"
CASES = {
    "fvecs": Read("faiss", file("X.fvecs", records(X)), "X.fvecs"),
    "fvecs-640": Read("faiss", file("X.fvecs", records(wide())), "X.fvecs", "", wide()),
    "bvecs": Read("faiss", file("X.bvecs", records(INTEGERS)), "X.bvecs", "", INTEGERS),
    "ivecs": Read(
        "faiss", file("X.ivecs", records(INTEGERS.astype("i4"))), "X.ivecs", "", INTEGERS
    ),
    "fbin": Read("DiskANN", file("X.fbin", headed(X)), "X.fbin"),
    "u8bin": Read("DiskANN", file("X.u8bin", headed(INTEGERS)), "X.u8bin", "", INTEGERS),
    "i8bin": Read(
        "DiskANN", file("X.i8bin", headed(INTEGERS.astype("i1"))), "X.i8bin", "", INTEGERS
    ),
    "ibin": Read("DiskANN", file("X.ibin", headed(INTEGERS.astype("i4"))), "X.ibin", "", INTEGERS),
    "f16bin": Read(
        "DiskANN",
        file("X.f16bin", headed(X.astype("f2"))),
        "X.f16bin",
        "",
        X.astype("f2").astype("f4"),
    ),
    "fbin-of-more": Read(
        "DiskANN",
        file("X.fbin", np.array([99, 3], "<u4").tobytes() + X.tobytes()),
        "X.fbin --dtype float32 --dim 3 --offset 8",
    ),
    "glove": Read("GloVe", file("X.txt", lines(" ", GLOVE)), "X.txt", OF_WORDS, ids=tuple(WORDS)),
    "glove-gz": Read(
        "GloVe",
        file("X.txt.gz", lines(" ", GLOVE), packed=True),
        "X.txt.gz",
        OF_WORDS,
        ids=tuple(WORDS),
    ),
    "glove-840B": Read("GloVe", file("X.txt", lines(" ", SPACED)), "X.txt", OF_WORDS, ids=NAMES),
    "glove-pad": Read(
        "GloVe",
        file("X.txt", lines(" ", [["[PAD]", *TEXT[0]], *GLOVE[1:]])),
        "X.txt",
        OF_WORDS,
        ids=("[PAD]", *WORDS[1:]),
    ),
    "word2vec-text": Read(
        "word2vec",
        file("X.txt", "40 3\n" + lines(" ", GLOVE)),
        "X.txt",
        OF_WORDS,
        ids=tuple(WORDS),
    ),
    "word2vec-one": Read(
        "word2vec",
        file("X.txt", "40 1\n" + lines(" ", [row[:2] for row in GLOVE])),
        "X.txt",
        OF_WORDS,
        X[:, :1],
        ids=tuple(WORDS),
    ),
    "fasttext-vec": Read(
        "fastText",
        file("X.vec", "40 3\n" + lines(" ", GLOVE, end=" ")),
        "X.vec",
        OF_WORDS,
        ids=tuple(WORDS),
    ),
    "word2vec-bin": Read(
        "word2vec", file("X.bin", word2vec()), "X.bin", OF_WORDS, ids=tuple(WORDS)
    ),
    "gensim-bin": Read("gensim", file("X.bin", word2vec(b"")), "X.bin", OF_WORDS, ids=tuple(WORDS)),
    "word2vec-bin-gz": Read(
        "gensim", file("X.bin.gz", word2vec(), packed=True), "X.bin.gz", OF_WORDS, ids=tuple(WORDS)
    ),
    "pairs": Read(
        "a program in C",
        file("X.txt", lines(" ", [["3", "1"], ["4", "5"], ["6", "7"]])),
        "X.txt",
        "",
        [[3, 1], [4, 5], [6, 7]],
    ),
    "shape-first": Read("a program in C", file("X.txt", "40 3\n" + lines(" ")), "X.txt"),
    "shape-of-two": Read(
        "a program in C",
        file("X.txt", "40 2\n" + lines(" ", [row[:2] for row in TEXT])),
        "X.txt",
        "",
        X[:, :2],
    ),
    "projector": Read(
        "TensorBoard's projector", file("X.tsv", lines("\t")), "X.tsv", ": columns f0, f1, f2"
    ),
}
