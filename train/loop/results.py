"""The files of a finished run; each is written completely or not at all (`common.files`)."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
from torch import nn

from ...algos.bounds.sizes import SizeBounds
from ...common.files import write_file
from ...common.tables import csv_text
from ...common.untrusted import parse_json, refuse
from ..config.run import RunConfig
from ..data.samples import EmbeddingData, Samples
from ..methods.base import Prediction
from ..models.files import MODEL_FILE
from ..report.figures import write_gallery, write_sizes
from ..state.checkpoint import is_begun

__all__ = [
    "LABELS_FILE",
    "SKIPPED_FILES",
    "is_finished",
    "read_metrics",
    "write_metrics",
    "write_results",
    "write_skipped",
]

METRICS_FILE = "metrics.jsonl"
LABELS_FILE = "assignments.csv"

SKIPPED_FILES = "skipped.csv"
"""The list of files that are no samples of a run, because they cannot be read."""


def write_metrics(folder: Path, lines: str) -> None:
    """Write ``metrics.jsonl``: one line of JSON per epoch."""
    write_file(folder / METRICS_FILE, lines)


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    """Read ``metrics.jsonl`` of a run folder; it is empty before the first epoch is over.

    Raises
    ------
    InvalidValueError
        If a line is no record of an epoch.
    """
    path = folder / METRICS_FILE
    if not path.is_file():
        return []
    try:
        records = [dict(parse_json(line)) for line in path.read_text("utf-8").splitlines()]
        strange = [record for record in records if type(record.get("epoch")) is not int]
    except (OSError, ValueError, TypeError) as error:
        what = f"one does not parse ({error})"
    else:
        if not strange:
            return records
        what = "one has no epoch"
    rule = f"Each line must be the record of an epoch, and {what}"
    again = "resume the run, which writes it again"
    refuse(path, "is damaged", rule, again if is_begun(folder) else "copy it again")


def is_finished(folder: Path, config: RunConfig) -> bool:
    """Whether a run has had all its epochs and written its labels and its model."""
    records = read_metrics(folder)
    whole = bool(records) and records[-1]["epoch"] == config.epochs
    return whole and all((folder / name).is_file() for name in (LABELS_FILE, MODEL_FILE))


def write_skipped(folder: Path, data: Samples) -> None:
    """Write the files that cannot be read, each with the reason, where there are any."""
    skipped = getattr(data, "skipped", ())
    if not skipped or (folder / SKIPPED_FILES).exists():
        return
    files, reasons = zip(*skipped, strict=True)
    write_file(folder / SKIPPED_FILES, csv_text({"file": files, "reason": reasons}))


def write_results(
    folder: Path,
    prediction: Prediction,
    bounds: SizeBounds,
    data: Samples,
    network: nn.Module,
) -> None:
    """Write assignments, centers, weights, the gallery and the sizes of a run.

    A line of the assignments has the label inside the bounds with its margin, the best cluster
    after it, and the label without bounds.

    Parameters
    ----------
    folder : Path. Exists.
    prediction : Prediction. Of all images of `data`.
    bounds : SizeBounds. Of the target head.
    data : Samples. Their classes and file names, where they have some, go into the table; the
        gallery is of images alone, and shows classes where every image has one.
    network : nn.Module
    """
    found = prediction.assignment
    labels, margin = found.labels.cpu(), prediction.margins.cpu()
    classes = None if data.labels is None else data.labels.cpu()
    columns = {
        "id": data.ids.tolist(),
        "cluster": labels.tolist(),
        "margin": margin.tolist(),
        "runner_up": prediction.runner_up.tolist(),
        "nearest": prediction.nearest.tolist(),
    }
    if classes is not None:
        columns["class"] = [code if code >= 0 else "" for code in classes.tolist()]
    if data.names is not None:
        columns["file"] = list(data.names)
    write_file(folder / LABELS_FILE, csv_text(columns, ".6f"))
    centers = io.BytesIO()
    np.save(centers, prediction.centers.cpu().numpy(), allow_pickle=False)
    write_file(folder / "centers.npy", centers.getvalue())
    weights = {name: t.detach().cpu().contiguous() for name, t in network.state_dict().items()}
    write_file(folder / "weights.safetensors", safetensors.torch.save(weights))
    if not isinstance(data, EmbeddingData):
        known = classes is not None and bool((classes >= 0).all())
        write_gallery(
            folder / "gallery.png",
            data.images.cpu(),
            labels,
            margin,
            n_clusters=bounds.n_clusters,
            true_labels=classes if known else None,
            class_names=data.class_names,
        )
    counts = found.counts.cpu()
    write_sizes(folder / "sizes.png", counts, bounds.lower.cpu(), bounds.upper.cpu())
