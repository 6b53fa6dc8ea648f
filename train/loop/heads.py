"""Heads of several k judged without classes, and the one of them that a run ends with.

With ``heads.candidates`` each evaluation judges these heads, and the last one decides:

1. *labels* of all samples inside the bounds, by each head, with their prices; the same features
   for all.
2. *agreement*: pairs of views of a sample of the samples are drawn as in training, and labeled at
   these prices. The adjusted Rand index is corrected for chance, so that different k compare.
3. *silhouette*, that of rows without clusters, and what the bounds cost, on all samples.
4. *rule*: `algos.selection.choose_clustering`, which is that of ``dualclust cluster --k-range``.

The record of the epoch keeps all of it under ``heads``, and ``heads.json`` of the run folder which
head the results are of. Nothing of it reads a class, and nothing of it enters a step.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ...algos.core.errors import InvalidValueError, OutputError, UsageError
from ...algos.scores.nearest import best_clusters
from ...algos.scores.statistics import strided_ids
from ...algos.selection import Candidate, adjusted_rand_index, choose_clustering, sample_rows
from ...common.files import write_file
from ...common.untrusted import parse_json, refuse
from ..config.run import RunConfig
from ..methods.base import Method, Prediction, evaluating
from ..models.files import MODEL_FILE
from ..state.checkpoint import is_begun
from .evaluation import mean_features
from .loader import Loader

__all__ = [
    "HEADS_FILE",
    "drop_model_of_another",
    "head_of",
    "judge_heads",
    "settle_target",
    "write_heads",
    "written_clusters",
]

HEADS_FILE = "heads.json"

PAIRS = 3
"""Pairs of views whose labels are compared, for a standard error."""

AGREEING = "labels of two views of the same samples"


@torch.no_grad()
def judge_heads(method: Method, loader: Loader) -> dict[str, Any]:
    """Judge the heads of ``heads.candidates``, between two epochs.

    Parameters
    ----------
    method : Method, whose scores are cosines of its unit features.
    loader : Loader

    Returns
    -------
    dict
        ``recommended`` (None where no k stands out), ``best``, ``reason``, and ``judged``: for each
        k its `algos.selection.JudgedClustering`, with the certified ``gap`` of its labels, and
        ``trained``, their agreement with those that training has stored.

    Notes
    -----
    Cost: one pass over all samples, and six over at most 128 samples for each cluster of the
    largest k (4,096 at least); an assignment of all samples for each k. Memory: the features twice,
    (n, d) as the mean of views and as unit rows, and while a head is labeled once more with its
    (n, k) scores; of each head that is done (n,) labels, margins, nearest and second clusters.
    """
    ks = loader.config.heads.candidates
    rows = mean_features(method, loader)
    found: dict[int, Prediction] = {}
    for k in ks:
        with targeting(method, head_of(loader.config, k)), evaluating(method.network):
            one = method.predict(rows)
        # The features are the same for each head; a copy for each would be k times (n, d).
        found[k] = one._replace(features=next(iter(found.values()), one).features)
    agreements = _agreements(method, loader, found)
    candidates = [
        Candidate(
            one.centers,
            one.assignment.prices,
            method.bounds[head_of(loader.config, k)],
            one.assignment.labels,
        )
        for k, one in found.items()
    ]
    chosen = choose_clustering(
        found[ks[0]].features, candidates, agreements, seed=loader.config.seed, agreeing=AGREEING
    )
    judged = []
    for k, figures in zip(ks, chosen.judged, strict=True):
        assignment = found[k].assignment
        stored = method.labels[head_of(loader.config, k)]
        trained = adjusted_rand_index(assignment.labels, stored, k)
        judged.append({**figures._asdict(), "gap": float(assignment.gap), "trained": trained})
    return {
        "recommended": chosen.recommended,
        "best": chosen.best,
        "reason": chosen.reason,
        "judged": judged,
    }


def _agreements(
    method: Method, loader: Loader, found: Mapping[int, Prediction]
) -> list[list[float]]:
    """Return for each k how far labels of two views agree, for each pair of views."""
    n, like = loader.n, next(iter(found.values())).features
    m = sample_rows(n, max(found))
    ids = torch.arange(n, device=loader.device)
    if m < n:
        ids = strided_ids(n, m, like).sort().values
    agreements: list[list[float]] = [[] for _ in found]
    for pair in range(PAIRS):
        labels = []
        for side, view in enumerate(("first", "second")):
            with evaluating(method.network):
                rows = loader.apply_to_all(
                    method.features, view=view, stream="heads", number=2 * pair + side, ids=ids
                )
            labels.append([_labels(method, rows, one) for one in found.values()])
        for own, k, one, other in zip(agreements, found, labels[0], labels[1], strict=True):
            own.append(adjusted_rand_index(one, other, k))
    return agreements


def _labels(method: Method, rows: Tensor, found: Prediction) -> Tensor:
    """Return the clusters of samples at the prices of all samples, (m,) int64."""
    scores = method.scores(method.normalize_rows(rows), found.centers).double()
    labels: Tensor = best_clusters(scores, found.assignment.prices)[0]
    return labels


@contextmanager
def targeting(method: Method, head: int) -> Iterator[None]:
    """Let another head be the target, for a while."""
    before = method.target
    method.target = head
    try:
        yield
    finally:
        method.target = before


def head_of(config: RunConfig, n_clusters: int) -> int:
    """Return the row of the head with so many clusters.

    Raises
    ------
    UsageError
        If there is none.
    """
    known = config.heads.clusters
    if n_clusters not in known:
        msg = (
            f"the run has no head of {n_clusters} clusters, its heads have {list(known)}. "
            f"To fix this, name one of these with -k"
        )
        raise UsageError(msg)
    return known.index(n_clusters)


def settle_target(
    method: Method, records: Sequence[Mapping[str, Any]], n_clusters: int | None = None
) -> None:
    """Set the target of a run that has had all its epochs: what is asked for, or was chosen.

    Parameters
    ----------
    method : Method
    records : sequence of mappings. The lines of ``metrics.jsonl``.
    n_clusters : int, optional

    Raises
    ------
    UsageError
        If no head has so many clusters.
    """
    if n_clusters is None and method.config.heads.candidates:
        n_clusters = int(records[-1]["heads"]["best"])
    if n_clusters is not None:
        method.target = head_of(method.config, n_clusters)


def drop_model_of_another(folder: Path, method: Method) -> None:
    """Remove the model of a run whose results are of another head, before they are replaced.

    A run is finished where its model stands (`results.is_finished`). Without this, one that is
    stopped while it writes the files of a head would pass as finished, with files of two heads.

    Raises
    ------
    OutputError
        If it cannot be removed.
    """
    config, path = method.config, folder / MODEL_FILE
    try:
        same = written_clusters(folder, config) == config.heads.clusters[method.target]
    except InvalidValueError:  # heads.json is damaged, and about to be written again
        same = False
    if same:
        return
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        msg = (
            f"cannot take away {path}, the model of another head: {error.strerror}. "
            f"To fix this, make the folder writable"
        )
        raise OutputError(msg) from error


def write_heads(folder: Path, method: Method, records: Sequence[Mapping[str, Any]]) -> None:
    """Write which head the results are of, where that is not the one of the settings alone."""
    heads = method.config.heads
    k = heads.clusters[method.target]
    if heads.candidates or k != heads.target or (folder / HEADS_FILE).exists():
        entry = {"k": k, **records[-1].get("heads", {})}
        write_file(folder / HEADS_FILE, json.dumps(entry, indent=1) + "\n")


def written_clusters(folder: Path, config: RunConfig) -> int:
    """Return the number of clusters that the results of a finished run have.

    Raises
    ------
    InvalidValueError
        If ``heads.json`` is damaged.
    """
    path = folder / HEADS_FILE
    if not path.is_file():
        return config.heads.target
    try:
        k = parse_json(path.read_text(encoding="utf-8"))["k"]
        if type(k) is int and k in config.heads.clusters:
            return k
        what = f"it names k = {k!r}"
    except (OSError, ValueError, KeyError, TypeError) as error:
        what = f"it does not parse ({error})"
    rule = f"It must name a head of {list(config.heads.clusters)}, and {what}"
    again = "resume the run, which writes it again"
    refuse(path, "is damaged", rule, again if is_begun(folder) else "copy it again")
