"""What commands have read and written, handed to the judges of files: the rows are read anew."""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np

from dualclust.algos.scores.sources import FeatureSource, ScoreSource
from dualclust.cluster.whole import MEDOIDS
from dualclust.common.formats.npz import wide_sparse_matrix
from tests.judge import SMALL
from tests.judge_files import (
    Rows,
    judge_choice,
    judge_folder,
    judge_page,
    judge_table,
    labels_of,
    read_csv,
)
from tests.judge_medoid_files import judge_medoid_folder

LARGEST = 2**24
"""Scores that are judged at most."""


def on_host(value: Any) -> Any:
    """Return arrays as NumPy's, also those in records; all else as it is."""
    if isinstance(value, tuple) and not isinstance(value, (ScoreSource, FeatureSource)):
        parts = [on_host(part) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    if not hasattr(value, "shape") or not hasattr(value, "dtype"):
        return value
    if type(value).__name__ == "SecondTensor":
        value = value.inner
    if hasattr(value, "detach"):
        value = value.detach()
        value = value.double() if str(value.dtype) == "torch.bfloat16" else value
        return value.cpu().numpy().copy()
    return np.asarray(value)


def how(n_scores: int) -> str:
    """Tell how an assignment of so many scores is judged."""
    return "exact" if n_scores <= SMALL else "interval"


def barred_pairs(given: dict[str, Any], n: int, k: int) -> Any:
    fixed, forbidden = given["fixed"], given["forbidden"]
    if fixed is None and forbidden is None:
        return None
    barred = np.zeros((n, k), bool)
    if fixed is not None:
        barred |= (fixed[:, None] >= 0) & (fixed[:, None] != np.arange(k))
    if forbidden is not None:
        barred[forbidden[:, 0], forbidden[:, 1]] = True
    return barred


def command(given: dict[str, Any], found: Any) -> str:
    """Judge the folder that a command has written, from what it has read."""
    from dualclust.common.formats import default_folder

    options = given["options"]
    is_new = hasattr(options, "model")
    if found != 0 or getattr(options, "dry_run", False):
        return "not judged: nothing was written"
    folder = options.out or default_folder(options.input, *(["-assigned"] if is_new else []))
    if os.environ.get("RANK", "0") != "0":
        return "part"  # the first rank writes the folder
    if not (folder / "result.json").is_file():
        return "not judged: labels alone"
    if options.metric in MEDOIDS:
        return judge_medoid_folder(folder, options)
    if any(getattr(options, name, None) for name in ("groups", "sizes", "links", "max_out")):
        return "not judged: its k-means is, and tests/cli/test_cli_groups.py compares its files"
    is_sparse = not is_new and options.input.suffix == ".npz"
    if is_sparse and wide_sparse_matrix(options.input) is not None:
        return "not judged: sparse rows, too large with their zeros"
    rows = (assigned_rows if is_new else clustered_rows)(options, folder)
    if rows.x.shape[0] * len(rows.centers) > LARGEST:
        return "not judged: too large"
    judge_folder(folder, rows)
    labels = labels_of(folder, rows)
    if rows.prices is not None and (folder / "rows.csv").is_file():
        judge_table(read_csv(folder / "rows.csv"), labels, rows)
    if (folder / "report.html").is_file():
        result = json.loads((folder / "result.json").read_text())
        judge_page((folder / "report.html").read_text(), result, labels, rows)
    if rows.prices is not None and options.table is not None and options.table.suffix == ".csv":
        judge_table(read_csv(options.table), labels, rows, options.id or "row")
    return how(rows.x.shape[0] * len(rows.centers))


def read_rows(options: Any, metric: str) -> tuple[Any, Any, Any, float]:
    """Return the rows of a command's input, read anew, and the spacing of their type.

    Between them the numbers of those that are clustered, if ``--invalid drop`` leaves others out.
    """
    from dualclust.cluster.embeddings import open_embeddings
    from dualclust.cluster.options import selection_of
    from dualclust.cluster.valid_rows import KeptRows

    stored, numbers = open_embeddings(options.input, selection_of(options)), None
    x = np.asarray(stored.rows(0, stored.n_samples), np.float64)
    if options.invalid == "drop":
        valid = np.isfinite(x).all(axis=1) & ((metric != "cosine") | (x != 0).any(axis=1))
        if not valid.all():
            x, numbers = x[valid], np.flatnonzero(valid)
            stored = KeptRows(stored, np.flatnonzero(~valid))  # for what else is read of rows
    if metric == "cosine":
        x = x / np.abs(x).max(axis=1, keepdims=True)
        x = x / np.linalg.norm(x, axis=1, keepdims=True)
    return stored, x, numbers, float(np.finfo(stored.dtype).eps)


def clustered_rows(options: Any, folder: Any) -> Rows:
    from dualclust.cluster.problem import read_inputs

    stored, x, numbers, eps = read_rows(options, options.metric)
    inputs = read_inputs(options, stored)
    with np.load(folder / "model.npz", allow_pickle=False) as model:
        centers, prices = model["centers"], model["prices"]
    fixed, forbidden = on_host(inputs.fixed), on_host(inputs.forbidden)
    return Rows(
        x=x,
        numbers=numbers,
        weights=on_host(inputs.weights),
        barred=barred_pairs({"fixed": fixed, "forbidden": forbidden}, len(x), len(centers)),
        centers=centers,
        prices=prices,
        metric=options.metric,
        eps=eps,
        n_fixed=0 if fixed is None else int((fixed >= 0).sum()),
        n_forbidden=0 if forbidden is None else len(forbidden),
    )


def assigned_rows(options: Any, folder: Any) -> Rows:
    from dualclust.cluster.model import read_model

    model = read_model(options.model)
    _, x, numbers, eps = read_rows(options, model.metric)
    prices, price_error = model.prices if options.prices else None, 0.0
    if options.bounded:
        sizes = read_csv(folder / "sizes.csv")
        prices, price_error = np.asarray([float(line["price"]) for line in sizes]), 5e-7
    same = {"weights": None, "barred": None, "metric": model.metric, "eps": eps}
    none = {"n_fixed": 0, "n_forbidden": 0, "price_error": price_error}
    none["middle"] = np.asarray(model.centers, np.float64).mean(axis=0)
    return Rows(x=x, numbers=numbers, centers=model.centers, prices=prices, **same, **none)


def chosen(given: dict[str, Any], found: Any) -> str:
    """Judge the table of a choice of k."""
    from dualclust.common.formats import default_folder

    options = given["options"]
    folder = options.out or default_folder(options.input, "-choice")
    if found != 0 or not (folder / "choice.csv").is_file():
        return "not judged: nothing was written"
    said = json.loads((folder / "choice.json").read_text())
    judge_choice(read_csv(folder / "choice.csv"), said["n_drawn"])
    return "interval"
