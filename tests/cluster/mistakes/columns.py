"""Tables: Parquet, Arrow and text."""

from __future__ import annotations

from tests.cluster.mistakes.written import (
    Case,
    X,
    content,
    cut,
    feather,
    lists,
    parquet,
    spoiled,
    text,
)

CASES = {
    "pq-null": Case(
        lists([[1, 2], [3, 4], None, [5, 6]]),
        "X.parquet",
        "X.parquet has a missing value in column 'emb', row 2. Every row must have all its "
        "numbers, and its id where --id asks for one. To fix this, fill them, or drop these "
        "rows with --invalid drop",
    ),
    "pq-null-inside": Case(
        lists([[1, 2], [3, None]]),
        "X.parquet",
        "X.parquet has a missing value in column 'emb', row 1. Every row must have all its "
        "numbers, and its id where --id asks for one. To fix this, fill them, or drop these "
        "rows with --invalid drop",
    ),
    "pq-ragged": Case(
        lists([[1, 2], [3, 4], [5]]),
        "X.parquet",
        "X.parquet has lists of several lengths in column 'emb': 2 numbers in one row, 1 in "
        "row 2. All rows must have the same length. To fix this, write rows of one length",
    ),
    "pq-empty-lists": Case(
        lists([[], []]),
        "X.parquet",
        "X.parquet holds lists without numbers. Embeddings have at least one column. To"
        " fix this, look at the program that wrote it",
    ),
    "pq-strings": Case(
        parquet(a=X[:, 0], color=["red"] * 40),
        "X.parquet",
        "X.parquet, column 'color', holds values of type string. A table gives its rows"
        " in one column of lists, or in columns of numbers. To fix this, name the "
        "columns of numbers with --columns, or the column of ids with --id",
    ),
    "pq-list-of-text": Case(
        lists([["a"], ["b"]], "string"),
        "X.parquet",
        "X.parquet, column 'emb', holds values of type string. A table gives its rows "
        "in one column of lists, or in columns of numbers. To fix this, name the "
        "columns of numbers with --columns, or the column of ids with --id",
    ),
    "pq-null-column": Case(
        parquet(a=[1.0, None, 3.0], b=[1.0, 2.0, 3.0]),
        "X.parquet",
        "X.parquet has a missing value in column 'a', row 1. Every row must have all its "
        "numbers, and its id where --id asks for one. To fix this, fill them, or drop these "
        "rows with --invalid drop",
    ),
    "pq-missing-column": Case(
        parquet(a=X[:, 0], b=X[:, 1]),
        "X.parquet --columns emb",
        "X.parquet has no column 'emb'. It has 'a', 'b'. To fix this, name some of "
        "these with --columns; 'x*' names all that begin with x",
    ),
    "pq-missing-id": Case(
        parquet(a=X[:, 0], b=X[:, 1]),
        "X.parquet --id url",
        "X.parquet has no column 'url' for the ids. It has 'a', 'b'. To fix this, name "
        "one of these with --id, or leave --id out",
    ),
    "pq-null-id": Case(
        parquet(a=X[:3, 0], b=X[:3, 1], url=["a", "b", None]),
        "X.parquet --id url",
        "X.parquet has a missing value in column 'url', row 2. Every row must have all its "
        "numbers, and its id where --id asks for one. To fix this, name another column with "
        "--id, or leave --id out",
    ),
    "pq-two-lists": Case(
        parquet(a=X.tolist(), b=X.tolist()),
        "X.parquet",
        "X.parquet has 2 columns, 2 of them lists. One column of lists can be "
        "clustered, and it has 'a', 'b'. To fix this, name one: --columns a",
    ),
    "pq-no-rows": Case(
        parquet(a=X[:0, 0]),
        "X.parquet",
        "X.parquet has no rows. Embeddings have at least one row. To fix this, look at "
        "the program that wrote it",
    ),
    "pq-cut": Case(
        cut(parquet(a=X[:, 0]), "X.parquet", 0.7),
        "X.parquet",
        "X.parquet is cut off: it does not end with PAR1. What is in it is listed at "
        "its end. To fix this, write or copy it again",
    ),
    "pq-spoiled": Case(
        spoiled(parquet(a=X[:, 0]), "X.parquet", 0.85),
        "X.parquet",
        "X.parquet cannot be read (*). A table must be whole and not encrypted. To fix "
        "this, write or copy it again",
    ),
    "pq-nan": Case(
        parquet(a=[1.0, float("nan"), 3.0], b=[1.0, 2.0, 3.0]),
        "X.parquet",
        "X.parquet holds NaN or infinity in row 1. Embeddings are finite numbers. To fix "
        "this, drop these rows (--invalid drop), or look at the program that wrote them",
    ),
    "pq-array": Case(
        parquet(a=X[:, 0]),
        "X.parquet --array a",
        "X.parquet is a Parquet file. --array is for files of several arrays: .npz, "
        ".pt, .safetensors, .h5. To fix this, leave out --array (or the ':NAME' after "
        "the file)",
        2,
    ),
    "arrow-cut": Case(
        cut(feather(), "X.feather", 0.7),
        "X.feather",
        "X.feather is cut off: it does not end with ARROW1. What is in it is listed at "
        "its end. To fix this, write or copy it again",
    ),
    "arrow-as-parquet": Case(
        feather("X.parquet"),
        "X.parquet",
        "X.parquet is an Arrow file, by its first bytes. A file whose name ends in "
        ".parquet must be a Parquet file. To fix this, rename it to X.arrow",
    ),
    "csv-word": Case(
        text("a,b\n1,2\n3,red\n"),
        "X.csv",
        "X.csv has no number in column 'b', line 3: 'red'. A table in text has a line "
        "of names, and then one number in each column of each line. To fix this, name "
        "the columns of numbers with --columns, or the column of ids with --id",
    ),
    "csv-empty-field": Case(
        text("a,b\n1,2\n3,\n"),
        "X.csv",
        "X.csv has a missing value in column 'b', row 1. Every row must have all its numbers,"
        " and its id where --id asks for one. To fix this, fill them, or drop these rows with"
        " --invalid drop",
    ),
    "csv-fields": Case(
        text("a,b\n1,2\n3\n4,5\n"),
        "X.csv",
        "X.csv has 1 field in line 3, and 2 in the first. All lines must have the same "
        "number of fields. To fix this, write the table again",
    ),
    "csv-long-line": Case(
        text("a,b\n1,2\n1," + 3 * 2**19 * "1" + "\n3,4\n"),
        "X.csv",
        "X.csv has a line of more than 524288 bytes, or a quote without its end. A line must "
        "fit into a block. To fix this, write the rows as .npy or .parquet",
    ),
    "csv-header-only": Case(
        text("a,b\n"),
        "X.csv",
        "X.csv has a line of names and no row. A table in text has a line of names, and"
        " then one number in each column of each line. To fix this, look at the program"
        " that wrote it",
    ),
    "csv-twice": Case(
        text("a,a\n1,2\n"),
        "X.csv",
        "X.csv has several columns of the name 'a'. Columns are told apart by their "
        "names. To fix this, rename them",
    ),
    "csv-pandas": Case(
        text(",a,b\n0,1,2\n1,3,4\n"),
        "X.csv",
        "X.csv has a column without a name, as pandas writes its index. A table in text"
        " has a line of names, and then one number in each column of each line. To fix "
        "this, write it without the index (index=False), or name columns with --columns",
    ),
    "csv-nan": Case(
        text("a,b\n1,2\n3,nan\n4,1\n"),
        "X.csv",
        "X.csv holds NaN or infinity in row 1. Embeddings are finite numbers. To fix this, "
        "drop these rows (--invalid drop), or look at the program that wrote them",
    ),
    "csv-latin": Case(
        content("name,a\nJos\xe9,1\n".encode("latin-1"), "X.csv"),
        "X.csv",
        "X.csv is text in another encoding than UTF-8. A file whose name ends in .csv must be"
        " text in UTF-8. To fix this, save it as UTF-8",
    ),
    "csv-utf16": Case(
        content("a,b\n1,2\n".encode("utf-16"), "X.csv"),
        "X.csv",
        "X.csv is text in UTF-16. A file whose name ends in .csv must be text in UTF-8. To "
        "fix this, save it as UTF-8",
    ),
    "csv-dtype": Case(
        text("a,b\n1,2\n"),
        "X.csv --dtype int8",
        "--dtype must be float16, float32 or float64 for the text of X.csv, got 'int8'. To "
        "fix this, name one of these, or leave out --dtype",
        2,
    ),
    "csv-id": Case(
        text("a,b\n1,2\n"),
        "X.csv --id url",
        "X.csv has no column 'url' for the ids. It has 'a', 'b'. To fix this, name one "
        "of these with --id, or leave --id out",
    ),
    "csv-blank": Case(
        text("\n\n"),
        "X.csv",
        "X.csv has no line that is not empty. A table in text has a line of names, and "
        "then one number in each column of each line. To fix this, look at the program "
        "that wrote it",
    ),
}
