"""k-means beside the methods: on pixels, on embeddings, or on features of a pretrained network.

A baseline has a folder of its own, with the table of labels that a run has (``assignments.csv``)
and ``baseline.json``, which is written last: where it stands, the baseline is whole.
"""

from __future__ import annotations

import hashlib
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import sklearn.cluster  # noqa: F401 - loaded before the clock of a baseline starts
import torch
from numpy.typing import NDArray

from ...algos.core.errors import InvalidValueError
from ...common.files import write_file
from ...common.tables import csv_text
from ..config.run import RunConfig
from ..data.samples import Samples
from ..loop.metrics import evaluate, kmeans_labels, pixel_rows
from ..loop.results import LABELS_FILE
from .stored import BASELINE_FILE

__all__ = ["rows_digest", "run_baseline"]


def run_baseline(
    folder: Path,
    config: RunConfig,
    data: Samples,
    *,
    name: str,
    seed: int,
    features: NDArray[Any] | None = None,
) -> None:
    """Cluster by k-means (10 starts) and write the folder.

    Parameters
    ----------
    folder : Path
        Is made, with the folders above it.
    config : RunConfig
        Of a run on the same data: source, split and number of clusters.
    data : Samples
        As that run has them.
    name : str
        Of the rows, such as ``"pixels"``; after ``"kmeans-"`` it names the method.
    seed : int
    features : (n, d) array, optional
        A row for each sample, in the order of `data`; by default the pixels, or the embeddings.

    Raises
    ------
    InvalidValueError
        If `features` has not a row for each sample.

    Notes
    -----
    Holds the rows in float64: 8 n d bytes.
    """
    started = time.perf_counter()
    rows = pixel_rows(data) if features is None else _checked(features, len(data.ids))
    k = config.heads.target
    labels = kmeans_labels(rows, k, seed=seed)
    agreement = evaluate(torch.from_numpy(labels), data)
    sizes = np.bincount(labels, minlength=k)
    figures: dict[str, Any] = {"size_min": int(sizes.min()), "size_max": int(sizes.max())}
    if agreement is not None:
        scores = agreement._asdict()
        for kind in ("", "argmax_"):  # no bound, so that both are the same labels
            figures |= {f"{kind}{key}": value for key, value in scores.items()}
    columns: dict[str, Any] = {"id": data.ids.cpu().numpy(), "cluster": labels, "nearest": labels}
    if data.labels is not None:
        columns["class"] = [code if code >= 0 else "" for code in data.labels.tolist()]
    if data.names is not None:
        columns["file"] = list(data.names)
    about = {
        "method": f"kmeans-{name}",
        "seed": seed,
        "clusters": k,
        "source": config.data.source,
        "split": config.data.split,
        "rows": "" if features is None else rows_digest(features),
        "seconds": round(time.perf_counter() - started, 4),
        "figures": figures,
    }
    write_file(folder / LABELS_FILE, csv_text(columns), parents=True)
    write_file(folder / BASELINE_FILE, json.dumps(about, indent=1) + "\n")


def rows_digest(rows: NDArray[Any]) -> str:
    """Return the SHA-256 of rows, with their shape and dtype."""
    plain = np.ascontiguousarray(rows)
    found = hashlib.sha256(repr((plain.shape, plain.dtype.str)).encode())
    found.update(plain.data)
    return found.hexdigest()


def _checked(features: NDArray[Any], n: int) -> NDArray[np.float64]:
    if features.ndim != 2 or len(features) != n:
        msg = (
            f"--features must have a row for each of the {n:,} samples, in the order of "
            f"dualclust embed, got shape {features.shape}. To fix this, embed the same data: files "
            f"that cannot be read have no row"
        )
        raise InvalidValueError(msg)
    return features.astype(np.float64)
