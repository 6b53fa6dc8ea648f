"""Tables in text: pandas, polars, R, spreadsheets, databases."""

from __future__ import annotations

import numpy as np

from tests.cluster.tried.read import BITS, TEXT, Read, X, file, lines

NAMES = ["a", "b", "c"]
COMMAS = [[field.replace(".", ",") for field in row] for row in TEXT]
KEYS = [f"k{i}" for i in range(40)]
KEYED = [[key, *row] for key, row in zip(KEYS, TEXT, strict=True)]
NUMBERED = [[str(i), *row] for i, row in enumerate(TEXT)]


def bits(yes, no):
    words = np.where(BITS, yes, no).tolist()
    return [[*row, *own] for row, own in zip(words, TEXT, strict=True)]


def mixed():
    return np.concatenate([BITS, X], axis=1)


SIX = ["p", "q", "r", *NAMES]
OF, OF_SIX = ": columns a, b, c", ": columns p, q, r, a, b, c"
CASES = {
    "csv": Read("pandas", file("X.csv", lines(rows=[NAMES, *TEXT])), "X.csv", OF),
    "csv-index-named": Read(
        "pandas",
        file("X.csv", lines(rows=[["", *NAMES], *NUMBERED])),
        "X.csv --columns a,b,c",
        OF,
        left_out=("",),
    ),
    "csv-id": Read(
        "pandas",
        file("X.csv", lines(rows=[["id", *NAMES], *NUMBERED])),
        "X.csv --id id",
        OF,
        ids=tuple(map(str, range(40))),
    ),
    "csv-semicolons": Read("pandas", file("X.csv", lines(";", [NAMES, *TEXT])), "X.csv", OF),
    "csv-decimal": Read("pandas", file("X.csv", lines(";", [NAMES, *COMMAS])), "X.csv", OF),
    "csv-decimal-headless": Read(
        "pandas", file("X.csv", lines(";", COMMAS)), "X.csv", ": columns f0, f1, f2"
    ),
    "csv-bars": Read("pandas", file("X.csv", lines("|", [NAMES, *TEXT])), "X.csv", OF),
    "csv-spaces": Read("pandas", file("X.csv", lines(" ", [NAMES, *TEXT])), "X.csv"),
    "csv-gz": Read(
        "pandas", file("X.csv.gz", lines(rows=[NAMES, *TEXT]), packed=True), "X.csv.gz", OF
    ),
    "csv-gz-unnamed": Read(
        "pandas", file("X.csv", lines(rows=[NAMES, *TEXT]), packed=True), "X.csv", OF
    ),
    "csv-headless": Read("pandas", file("X.csv", lines()), "X.csv", ": columns f0, f1, f2"),
    "csv-bool": Read(
        "pandas", file("X.csv", lines(rows=[SIX, *bits("True", "False")])), "X.csv", OF_SIX, mixed()
    ),
    "csv-bool-late": Read(
        "pandas",
        file("X.csv", lines(rows=[["p", "a"], ["", "1.5"], ["True", "2.5"], ["False", "3.5"]])),
        "X.csv --invalid drop",
        ": columns p, a",
        [[np.nan, 1.5], [1, 2.5], [0, 3.5]],
    ),
    "csv-missing": Read(
        "pandas",
        file("X.csv", lines(rows=[NAMES, ["", "1.5", "2.5"], *TEXT[1:]])),
        "X.csv --invalid drop",
        OF,
        [[np.nan, 1.5, 2.5], *X[1:].tolist()],
    ),
    "csv-headless-missing": Read(
        "pandas",
        file("X.csv", lines(rows=[["NA", "1.5", "2.5"], *TEXT[1:]])),
        "X.csv --invalid drop",
        ": columns f0, f1, f2",
        [[np.nan, 1.5, 2.5], *X[1:].tolist()],
    ),
    "polars-bool": Read(
        "polars", file("X.csv", lines(rows=[SIX, *bits("true", "false")])), "X.csv", OF_SIX, mixed()
    ),
    "polars-tsv": Read("polars", file("X.tsv", lines("\t", [NAMES, *TEXT])), "X.tsv", OF),
    "tabs-in-csv": Read("polars", file("X.csv", lines("\t", [NAMES, *TEXT])), "X.csv", OF),
    "r-no-names": Read(
        "R", file("X.csv", lines(rows=[[f'"{name}"' for name in NAMES], *TEXT])), "X.csv", OF
    ),
    "r-csv": Read(
        "R",
        file(
            "X.csv",
            lines(
                rows=[
                    ['""', '"a"', '"b"', '"c"'],
                    *([f'"{i + 1}"', *row] for i, row in enumerate(TEXT)),
                ]
            ),
        ),
        "X.csv --columns a,b,c",
        OF,
        left_out=("",),
    ),
    "r-csv2": Read("R", file("X.csv", lines(";", [['"a"', '"b"', '"c"'], *COMMAS])), "X.csv", OF),
    "r-table": Read(
        "R",
        file(
            "X.txt",
            lines(
                " ",
                [
                    ['"a"', '"b"', '"c"'],
                    *([f'"{key}"', *row] for key, row in zip(KEYS, TEXT, strict=True)),
                ],
            ),
        ),
        "X.txt",
        ": vectors of words",
        ids=tuple(f'"{key}"' for key in KEYS),
    ),
    "r-comment": Read(
        "R", file("X.csv", "# made by R\n#\n" + lines(rows=[NAMES, *TEXT])), "X.csv", OF
    ),
    "excel": Read(
        "Excel",
        file("X.csv", "\ufeff" + lines(rows=[NAMES, *TEXT]).replace("\n", "\r\n")),
        "X.csv",
        OF,
    ),
    "excel-sep": Read(
        "Excel",
        file("X.csv", "sep=,\r\n" + lines(rows=[NAMES, *TEXT]).replace("\n", "\r\n")),
        "X.csv",
        OF,
    ),
    "excel-sep-semicolon": Read(
        "Excel", file("X.csv", "\ufeffsep=;\n" + lines(";", [NAMES, *COMMAS])), "X.csv", OF
    ),
    "excel-truth": Read(
        "Excel", file("X.csv", lines(rows=[SIX, *bits("TRUE", "FALSE")])), "X.csv", OF_SIX, mixed()
    ),
    "excel-trailing": Read(
        "Excel", file("X.csv", lines(rows=[NAMES, *TEXT], end=",")), "X.csv", OF
    ),
    "excel-trailing-rows": Read("Excel", file("X.csv", "a,b,c\n" + lines(end=",")), "X.csv", OF),
    "excel-trailing-headless": Read(
        "Excel", file("X.csv", lines(end=",")), "X.csv", ": columns f0, f1, f2"
    ),
    "excel-blank-lines": Read(
        "Excel", file("X.csv", "\n\n" + lines(rows=[NAMES, *TEXT]) + "\n"), "X.csv", OF
    ),
    "sql-null": Read(
        "PostgreSQL",
        file("X.tsv", lines("\t", [NAMES, [r"\N", "1.5", "2.5"], *TEXT[1:]])),
        "X.tsv --invalid drop",
        OF,
        [[np.nan, 1.5, 2.5], *X[1:].tolist()],
    ),
    "sqlite-csv": Read("SQLite", file("X.csv", lines(rows=[NAMES, *TEXT])), "X.csv", OF),
    "comment-names": Read(
        "samtools",
        file("X.tsv", lines("\t", [["#key", *NAMES], *KEYED])),
        "X.tsv --id key",
        OF,
        ids=tuple(KEYS),
    ),
    "one-column": Read(
        "awk",
        file("X.csv", "first name\n" + lines(rows=[row[:1] for row in TEXT])),
        "X.csv",
        ": column first name",
        X[:, :1],
    ),
    "matlab-csv": Read("MATLAB", file("X.csv", lines()), "X.csv", ": columns f0, f1, f2"),
    "julia-tabs": Read("Julia", file("X.dat", lines("\t")), "X.dat", ": columns f0, f1, f2"),
    "no-suffix": Read("awk", file("X", lines(rows=[NAMES, *TEXT])), "X", OF),
}
