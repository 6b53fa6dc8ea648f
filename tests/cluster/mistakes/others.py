"""Vectors of search engines, words, packed text, sparse matrices, and what looks like ids."""

from __future__ import annotations

import gzip
import io
import zipfile

import numpy as np
import scipy.io
import scipy.sparse as sparse

from tests.cluster.mistakes.written import Case, X, content, hdf5, parquet, text, text_bomb

READ = (
    "These formats are read: .npy, .npz, .parquet, .arrow, .csv, .pt, .safetensors, .h5, .fvecs, "
    ".fbin, .w2v"
)
RECORDS = b"".join(np.int32(3).tobytes() + row.tobytes() for row in X)
HEADED = np.array([40, 3], "<u4").tobytes() + X.tobytes()
OTHER_LENGTH = RECORDS[:16] + np.int32(7).tobytes() + RECORDS[20:] + 9 * RECORDS
LINES = "".join(f"w{i} {' '.join(map(str, row))}\n" for i, row in enumerate(X.tolist()))
TABLE = "a,b,c\n" + "".join(f"{a},{b},{c}\n" for a, b, c in X.tolist())
RULE = "A table in text has a line of names, and then one number in each column of each line"
LONG = 10**15


def npy_bytes():
    file = io.BytesIO()
    np.save(file, X)
    return file.getvalue()


def ids(name, values):
    rows = zip(values, X.tolist(), strict=True)
    return text(f"{name},a,b\n" + "".join(f"{key},{row[0]},{row[1]}\n" for key, row in rows))


def wide(folder):
    """A sparse matrix of a few entries that would be 320 MB of rows."""
    n, d = 400, 100_000
    rows = np.arange(n)
    made = sparse.csr_matrix((np.ones(n), (rows, rows % 50)), shape=(n, d))
    sparse.save_npz(folder / "X.npz", made)


def diagonals(folder):
    sparse.save_npz(folder / "X.npz", sparse.dia_matrix(np.eye(9)[:, :4]))


def outside(folder):
    made = sparse.csr_matrix(np.eye(9)[:, :4])
    made.indices[0] = 7
    sparse.save_npz(folder / "X.npz", made)


def counts_and_plot(folder):
    """An .h5ad file: the counts are sparse, and the only dense array is one for plots."""
    hdf5(**{"obsm/X_umap": X[:, :2]})(folder)
    import h5py

    made = sparse.csr_matrix(np.eye(40, 30))
    with h5py.File(folder / "X.h5", "r+") as file:
        group = file.create_group("X")
        group.attrs["encoding-type"], group.attrs["shape"] = "csr_matrix", made.shape
        for name in ("data", "indices", "indptr"):
            group[name] = getattr(made, name)


def market(folder):
    scipy.io.mmwrite(folder / "X.mtx", sparse.csr_matrix(np.eye(9)[:, :4] + 1))


def matlab5(folder):
    scipy.io.savemat(folder / "X.mat", {"X": X})


def split_dataset(folder):
    for name in ("test", "train"):
        (folder / "in" / name).mkdir(parents=True)
        np.save(folder / "in" / name / "X.npy", X)
    (folder / "in" / "dataset_dict.json").write_text("{}")


def folders(folder):
    (folder / "in" / "train").mkdir(parents=True)
    np.save(folder / "in" / "train" / "X.npy", X)


def elsewhere(folder):
    """A data set whose numbers lie in another file."""
    import h5py

    X.tofile(folder / "X.raw")
    with h5py.File(folder / "X.h5", "w") as file:
        file.create_dataset("a", X.shape, X.dtype, external=[(folder / "X.raw", 0, X.nbytes)])


def program(folder):
    """What TorchScript saves beside tensors."""
    with zipfile.ZipFile(folder / "X.pt", "w") as archive:
        archive.writestr("X/data.pkl", b"")
        archive.writestr("X/constants.pkl", b"")


def two_formats(folder):
    (folder / "in").mkdir()
    np.save(folder / "in" / "X.npy", X)
    (folder / "in" / "labels.csv").write_text("label\n1\n")


CASES = {
    "fvecs-cut": Case(
        content(RECORDS[:-3], "X.fvecs"),
        "X.fvecs",
        "X.fvecs is not built so. Each row of .fvecs is its length, an int32, and as many float32 "
        "numbers. To fix this, copy it again, or give --dtype and --dim if it holds raw numbers",
    ),
    "fvecs-lengths": Case(
        content(OTHER_LENGTH, "X.fvecs"),
        "X.fvecs",
        "X.fvecs has records of other lengths than 3. All rows must have the same length. To fix "
        "this, write or copy it again",
    ),
    "fvecs-raw": Case(
        content(RECORDS, "X.fvecs"),
        "X.fvecs --dtype float32 --dim 4",
        "X.fvecs is built like .fvecs, by its first bytes. A file of numbers alone has no lengths "
        "of rows, and no header. To fix this, leave out --dtype and --dim, or give --offset 0 if "
        "these are numbers",
    ),
    "fvecs-bin": Case(
        content(RECORDS, "X.bin"),
        "X.bin --dtype float32 --dim 4",
        "X.bin is built like .fvecs, by its first bytes. A file of numbers alone has no lengths of "
        "rows, and no header. To fix this, rename it to X.fvecs and leave out --dtype and --dim, "
        "or give --offset 0 if these are numbers",
    ),
    "fvecs-unknown": Case(
        content(RECORDS, "X.bin"),
        "X.bin",
        f"X.bin is built like .fvecs. {READ}. To fix this, rename it to X.fvecs",
    ),
    "bvecs-as-fvecs": Case(
        content(b"".join(b"\3\0\0\0" + bytes([i, 1, 2]) for i in range(40)), "X.fvecs"),
        "X.fvecs",
        "X.fvecs is not built so. Each row of .fvecs is its length, an int32, and as many float32 "
        "numbers. To fix this, rename it to X.bvecs, which fits",
    ),
    "fbin-unknown": Case(
        content(HEADED, "X.bin"),
        "X.bin",
        f"X.bin is built like .fbin. {READ}. To fix this, rename it to X.fbin",
    ),
    "fbin-part": Case(
        content(HEADED[:-120], "X.fbin"),
        "X.fbin",
        "X.fbin has 368 bytes, and 488 for the 40 rows of 3 numbers of its header. A .fbin file "
        "begins with n and d, two uint32, and holds n * d float32 numbers. To fix this, copy it "
        "again, or give --dtype and --dim if it holds raw numbers (--offset 8 leaves out the "
        "header)",
    ),
    "raw-header": Case(
        content(b"head" + X.tobytes(), "X.raw"),
        "X.raw --dtype float32 --dim 3",
        "X.raw has 484 bytes, which are 40 whole rows and 4 bytes more. A row of 3 float32 numbers "
        "has 12 bytes. To fix this, look at --dtype and --dim, give --offset 4 if a header stands "
        "before the numbers, or copy the file again",
    ),
    "raw-offset": Case(
        content(X.tobytes(), "X.raw"),
        "X.raw --dtype float32 --dim 3 --offset -4",
        "--offset must be at least 0, got -4",
        2,
    ),
    "raw-beyond": Case(
        content(X.tobytes(), "X.raw"),
        "X.raw --dtype float32 --dim 3 --offset 480",
        "X.raw ends before --offset 480. Embeddings have at least one row. To fix this, give a "
        "smaller --offset",
    ),
    "offset-npy": Case(
        content(npy_bytes()),
        "X.npy --dtype float32 --dim 3 --offset 128",
        "X.npy is an .npy file. --dtype and --dim are for files of numbers alone, without a "
        "header. To fix this, leave out --dtype, --dim and --offset",
        2,
    ),
    "words-of-w2v-cut": Case(
        content(b"3 2\na " + bytes(8) + b"\nb " + bytes(5), "X.w2v"),
        "X.w2v",
        "X.w2v is cut off. It must hold 3 words of 2 numbers, as its first line says. To fix this, "
        "write or copy it again",
    ),
    "words-of-w2v-none": Case(
        content(b"0 3\nw \x80\x81\x82\x83", "X.bin"),
        "X.bin",
        "X.bin says that it has 0 words of 3 numbers. Embeddings have at least one row and one "
        "column. To fix this, write it again",
    ),
    "words-fewer": Case(
        text(LINES + "last 1 2\n", "X.txt"),
        "X.txt",
        "X.txt has 2 numbers in line 41, and 3 in the first. Each line is a word and its numbers, "
        "or numbers alone, with spaces between. To fix this, write the same number of numbers in "
        "each line",
    ),
    "words-more": Case(
        text(LINES + "last 1 2 3 4\n", "X.txt"),
        "X.txt",
        "X.txt has more than 3 numbers in line 41. Each line is a word and its numbers, or numbers "
        "alone, with spaces between. To fix this, write the same number of numbers in each line",
    ),
    "words-missing": Case(
        text("99 3\n" + LINES, "X.vec"),
        "X.vec",
        "X.vec says that it has 99 lines, and has 40. The first line says how many follow, and how "
        "many numbers each has. To fix this, write or copy it again",
    ),
    "libsvm": Case(
        text("1 1:0.5 2:0.25\n0 1:1 2:2\n", "X.txt"),
        "X.txt",
        "X.txt has no number in line 1: '1:0.5'. Each line is a word and its numbers, or numbers "
        "alone, with spaces between. To fix this, write numbers alone: np.savetxt('X.txt', x)",
    ),
    "gzip-npy": Case(
        content(gzip.compress(npy_bytes()), "X.npy.gz"),
        "X.npy.gz",
        "X.npy.gz is an .npy file, packed by gzip. A file whose name ends in .gz must be an .npy "
        "file. To fix this, unpack it (gunzip) and give what comes out",
    ),
    "gzip-cut": Case(
        content(gzip.compress(TABLE.encode())[:-20], "X.csv.gz"),
        "X.csv.gz",
        "X.csv.gz is packed by gzip, and damaged. A file whose name ends in .gz must be text in "
        "UTF-8. To fix this, write or copy it again",
    ),
    "gzip-bomb": Case(
        text_bomb,
        "X.csv.gz",
        "X.csv.gz is packed too well (*). Text does not pack 250 times: this "
        "may be made to fill the disk. To fix this, unpack it yourself (gunzip) and give what "
        "comes out",
    ),
    "bzip2": Case(
        content(b"BZh91AY&SY\0", "X.csv.bz2"),
        "X.csv.bz2",
        f"X.csv.bz2 is packed by bzip2. {READ}. To fix this, unpack it (bunzip2) and give what "
        f"comes out",
    ),
    "mat-5": Case(
        matlab5,
        "X.mat",
        "X.mat is a MATLAB file of another version than 7.3. A file whose name ends in .mat must "
        "be an HDF5 file. To fix this, save it with -v7.3, which is HDF5, or np.save('X.npy', "
        "scipy.io.loadmat(path)['X'])",
    ),
    "rds": Case(
        content(gzip.compress(b"X\n\0\0\0\3"), "X.rds"),
        "X.rds",
        f"X.rds is an R object, packed by gzip. {READ}. To fix this, write.csv(x, 'X.csv', "
        f"row.names = FALSE)",
    ),
    "mtx": Case(
        market,
        "X.mtx",
        f"X.mtx is a Matrix Market file. {READ}. To fix this, scipy.sparse.save_npz('X.npz', "
        f"scipy.io.mmread(path).tocsr())",
    ),
    "xlsx": Case(
        lambda f: zipfile.ZipFile(f / "X.xlsx", "w").writestr("[Content_Types].xml", ""),
        "X.xlsx",
        f"X.xlsx is an Office document. {READ}. To fix this, export its numbers as .npy, .parquet "
        f"or .csv",
    ),
    "sparse-wide": Case(
        wide,
        "X.npz --graph 2",
        "X.npz is a sparse matrix of 400 rows of 100000 numbers, 0.32 GB with zeros. Here zeros "
        "are read, too: at most 0.27 GB of a sparse matrix, but for k-means of "
        "'dualclust cluster'. To fix this, give fewer numbers a row: "
        "sklearn.decomposition.TruncatedSVD(100).fit_transform(x)",
    ),
    "sparse-form": Case(
        diagonals,
        "X.npz",
        "X.npz is a sparse matrix of the form dia. Sparse matrices are read from the forms csr, "
        "csc and coo. To fix this, save x.tocsr()",
    ),
    "sparse-outside": Case(
        outside,
        "X.npz",
        "X.npz has entries of no row or column. Each entry of a sparse matrix lies in one of its "
        "rows and columns. To fix this, write or copy it again",
    ),
    "h5ad-two": Case(
        counts_and_plot,
        "X.h5",
        "X.h5 holds 2 data sets. Only one can be clustered, and 2 have the shape (n, d): 'X' "
        "(sparse float64, 40 x 30); 'obsm/X_umap' (float32, 40 x 2). To fix this, name one: "
        "X.h5:X, or --array X",
    ),
    "id-counted": Case(
        ids("n", range(40)),
        "X.csv",
        "X.csv has a column 'n' that looks like ids or times (0, 1, 2, ...). All columns of "
        "numbers are clustered, unless you name some. To fix this, name it with --id n, or the "
        "columns to cluster with --columns",
    ),
    "id-long": Case(
        ids("key", [LONG + 7 * i * i for i in range(40)]),
        "X.csv",
        "X.csv has a column 'key' that looks like ids or times (1000000000000000, "
        "1000000000000007, 1000000000000028, ...). All columns of numbers are clustered, unless "
        "you name some. To fix this, name it with --id key, or the columns to cluster with "
        "--columns",
    ),
    "id-named": Case(
        ids("user_id", [17 * i % 41 for i in range(40)]),
        "X.csv",
        "X.csv has a column 'user_id' that looks like ids or times (0, 17, 34, ...). All columns "
        "of numbers are clustered, unless you name some. To fix this, name it with --id user_id, "
        "or the columns to cluster with --columns",
    ),
    "id-parquet": Case(
        parquet(PassengerId=range(40, 0, -1), a=X[:, 0], b=X[:, 1]),
        "X.parquet",
        "X.parquet has a column 'PassengerId' that looks like ids or times (40, 39, 38, ...). All "
        "columns of numbers are clustered, unless you name some. To fix this, name it with --id "
        "PassengerId, or the columns to cluster with --columns",
    ),
    "csv-number-name": Case(
        text("k0,0.5,1.5\nk1,2.5,3.5\n"),
        "X.csv",
        f"X.csv has the number '0.5' in its line of names. {RULE}. To fix this, write a line of "
        f"names before the rows",
    ),
    "csv-r-names": Case(
        text("a,b\nr1,1.5,2.5\nr2,3.5,4.5\n"),
        "X.csv",
        f"X.csv has 2 names over 3 fields, as R writes the names of rows. {RULE}. To fix this, "
        f"write it without these (row.names = FALSE)",
    ),
    "csv-behind": Case(
        text("a,b,\n1,2,\n3,4,5\n"),
        "X.csv",
        f"X.csv has values behind the mark at the end of its lines. {RULE}. To fix this, write a "
        f"name for this column",
    ),
    "csv-yes": Case(
        text("a,ok\n1.5,t\n2.5,f\n"),
        "X.csv",
        f"X.csv has no number in column 'ok', line 2: 't'. {RULE}. To fix this, name the columns "
        f"of numbers with --columns, or the column of ids with --id",
    ),
    "csv-id-alone": Case(
        text("url,a\n1,2\n3,4\n"),
        "X.csv --id url --columns url",
        "X.csv has no columns of numbers. A table in text has a line of names, and then one number "
        "in each column of each line. To fix this, name others with --columns",
    ),
    "h5-elsewhere": Case(
        elsewhere,
        "X.h5",
        "X.h5:a takes its numbers from other files (*). A data set must lie in the file that is "
        "named. To fix this, copy it into one: file.create_dataset('X', data=other['/a'][:])",
    ),
    "pt-program": Case(
        program,
        "X.pt",
        "X.pt holds a program (TorchScript or torch.export). A PyTorch file must hold a tensor, or "
        "dictionaries and lists of tensors. To fix this, save what the program computes: "
        "torch.save(x, path)",
    ),
    "columns-none": Case(
        parquet(url=range(40)),
        "X.parquet --id url",
        "X.parquet has no columns of numbers. A table gives its rows in one column of lists, or in "
        "columns of numbers. To fix this, look at the program that wrote it",
    ),
    "folder-of-folders": Case(
        folders,
        "in",
        "in is a folder without files. Shards are files of one format. To fix this, name one of "
        "its folders: in/train",
        66,
    ),
    "dataset-dict": Case(
        split_dataset,
        "in",
        "in has no file that is read, but 'dataset_dict.json'. Shards are files of one format. To "
        "fix this, name one of its folders: in/test",
    ),
    "two-formats": Case(
        two_formats,
        "in",
        "in has files of 2 kinds. Shards are files of one format, and here are 'X.npy', "
        "'labels.csv'. To fix this, name those you mean by a pattern in quotes: 'in/*.npy'",
    ),
}
