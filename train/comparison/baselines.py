"""k-means beside the methods: on pixels, on embeddings, or on features of a pretrained network.

A baseline has a folder of its own, with the table of labels that a run has (``assignments.csv``)
and ``baseline.json``, which is written last: where it stands, the baseline is whole.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ...algos.core.errors import InvalidValueError
from ...common.files import write_file
from ...common.tables import csv_text
from ..config.run import RunConfig
from ..data.samples import EmbeddingData, Samples
from ..loop.agreement import evaluate, kmeans_labels, pixel_rows
from ..loop.results import LABELS_FILE
from .stored import BASELINE_FILE

__all__ = ["BASELINES", "run_baseline"]

BASELINES = ("kmeans-pixels", "kmeans-features", "kmeans-embeddings")
"""What `run_baseline` knows: k-means on what is stored, or on rows of somebody else's."""


def run_baseline(
    folder: Path,
    config: RunConfig,
    data: Samples,
    *,
    seed: int,
    features: NDArray[Any] | None = None,
) -> str:
    """Cluster by k-means (10 starts) and write the folder; returns the baseline's name.

    Parameters
    ----------
    folder : Path
        Is made, with the folders above it.
    config : RunConfig
        Of a run on the same data: source, split and number of clusters.
    data : Samples
        As that run has them.
    seed : int
    features : (n, d) array, optional
        A row for each sample, in the order of `data`; by default the pixels, or the embeddings.

    Raises
    ------
    InvalidValueError
        If `features` has not a row for each sample, or a value is not finite.

    Notes
    -----
    Holds the rows in float64: 8 n d bytes.
    """
    started = time.perf_counter()
    name = "kmeans-embeddings" if isinstance(data, EmbeddingData) else "kmeans-pixels"
    if features is not None:
        name, rows = "kmeans-features", _checked(features, len(data.ids))
    else:
        rows = pixel_rows(data)
    k = config.heads.target
    labels = kmeans_labels(rows, k, seed=seed)
    agreement = evaluate(torch.from_numpy(labels), data)
    sizes = np.bincount(labels, minlength=k)
    figures = {"size_min": int(sizes.min()), "size_max": int(sizes.max())}
    if agreement is not None:
        scores = agreement._asdict()
        figures |= {f"{kind}{key}": value for kind in ("", "argmax_") for key, value in scores.items()}
    columns: dict[str, Any] = {"id": data.ids.cpu().numpy(), "cluster": labels, "nearest": labels}
    if data.labels is not None:
        columns["class"] = [code if code >= 0 else "" for code in data.labels.tolist()]
    if data.names is not None:
        columns["file"] = list(data.names)
    about = {
        "method": name,
        "seed": seed,
        "clusters": k,
        "source": config.data.source,
        "split": config.data.split,
        "seconds": round(time.perf_counter() - started, 4),
        "figures": figures,
    }
    write_file(folder / LABELS_FILE, csv_text(columns), parents=True)
    write_file(folder / BASELINE_FILE, json.dumps(about, indent=1) + "\n")
    return name


def _checked(features: NDArray[Any], n: int) -> NDArray[np.float64]:
    if features.ndim != 2 or len(features) != n:
        msg = (
            f"--features must have a row for each of the {n:,} samples, in the order of "
            f"dualclust embed, got shape {features.shape}. To fix this, embed the same data: files "
            f"that cannot be read have no row"
        )
        raise InvalidValueError(msg)
    if not np.isfinite(features).all():
        msg = "--features must be finite, and holds NaN or infinity. To fix this, leave such rows out"
        raise InvalidValueError(msg)
    return features.astype(np.float64)
