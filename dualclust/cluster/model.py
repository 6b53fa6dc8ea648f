"""``model.npz``: what an output folder keeps of a clustering to label other rows.

An uncompressed archive of NumPy arrays, without pickles (docs/decisions/0028-model-file.md)::

    format       ()      int64      1; 2 with a graph
    metric       ()      text       "cosine" or "euclidean"
    n_samples    ()      int64      rows that were clustered
    centers      (k, d)  float      unit rows for "cosine", or means
    prices       (k,)    float64    in units of score
    counts       (k,)    int64      sizes that came out
    lower        (k,)    int64      smallest sizes that were allowed, of n_samples rows
    upper        (k,)    int64      largest

of ``--graph``, whose centers are in coordinates (k, q), also::

    graph_origin     (d,)    float      what is subtracted from a row
    graph_rows       (m, d)  float      directions of the rows of the graph
    graph_vectors    (m, q)  float      their coordinates
    graph_neighbors  ()      int64      rows that place another one, besides itself

The comment of the archive is the SHA-256 of all bytes before it: no bit changes without a word, not
even of a date. An archive without a comment, which NumPy writes, is read as well.

`read_model` looks at all headers before it allocates anything, and at every number.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..algos.clustering.neighbor_graph import NeighborGraph
from ..algos.clustering.start import METRICS
from ..algos.core.errors import MissingFileError
from ..common.array_headers import PARSING, Header, archive_headers
from ..common.formats.checks import refuse
from ..common.formats.kinds import kind_of
from .output import Clusters
from .places import on_host

__all__ = ["FORMAT", "MODEL_FILE", "Model", "model_bytes", "read_model"]

MODEL_FILE = "model.npz"
FORMAT, GRAPH_FORMAT = 1, 2

SCALARS = {"format": "iu", "metric": "U", "n_samples": "iu"}
PER_CLUSTER = {"prices": "f", "counts": "iu", "lower": "iu", "upper": "iu"}
GRAPH = ("graph_origin", "graph_rows", "graph_vectors", "graph_neighbors")
NAMES = (*SCALARS, "centers", *PER_CLUSTER)

RULE = "A model is the file model.npz of an output folder of 'dualclust cluster'"
AGAIN = "copy it again, or cluster again"
SEAL = b"sha256 "
SEAL_LENGTH = len(SEAL) + 64
BLOCK = 2**20
"""Bytes that are hashed at a time."""
UNIT = 1e-2
"""How far from 1 the length of a center of directions may be."""


class Model(NamedTuple):
    """Centers and prices of a clustering.

    Attributes
    ----------
    centers : (k, d) float32 or float64 array
    prices : (k,) float64 array
    counts, lower, upper : (k,) int64 arrays
    metric : str
    n_samples : int
    graph : NeighborGraph or None
        What makes rows the coordinates that the centers are of.
    """

    centers: NDArray[np.floating[Any]]
    prices: NDArray[np.float64]
    counts: NDArray[np.int64]
    lower: NDArray[np.int64]
    upper: NDArray[np.int64]
    metric: str
    n_samples: int
    graph: NeighborGraph | None = None


def model_bytes(found: Clusters, metric: str, graph: NeighborGraph | None = None) -> bytes:
    """Return the bytes of model.npz; equal results give equal bytes."""
    arrays: Mapping[str, Any] = {
        "format": np.int64(FORMAT if graph is None else GRAPH_FORMAT),
        "metric": np.str_(metric),
        "n_samples": np.int64(len(found.labels)),
        "centers": found.centers,
        "prices": found.prices,
        "counts": found.counts,
        "lower": found.lower,
        "upper": found.upper,
    }
    if graph is not None:
        fields = (graph.origin, graph.rows, graph.vectors)
        values = (*map(on_host, fields), np.int64(graph.n_neighbors))
        arrays = {**arrays, **dict(zip(GRAPH, values, strict=True))}
    content = io.BytesIO()
    np.savez(content, **arrays)  # numbers and a text: nothing that wants a pickle
    # An archive ends with the length of its comment, and that.
    body = content.getvalue()[:-2] + SEAL_LENGTH.to_bytes(2, "little")
    return body + SEAL + hashlib.sha256(body).hexdigest().encode()


def read_model(path: Path) -> Model:
    """Read a model from a file, or from an output folder that holds one.

    Raises
    ------
    MissingFileError
        If there is none.
    InvalidValueError
        If the file is damaged, or no model of this format.
    """
    file = path / MODEL_FILE if path.is_dir() else path
    if not file.is_file():
        fix = "name an output folder of 'dualclust cluster'"
        if (path / "medoids.npy").is_file():
            fix = "label new rows by ConstrainedKMedoids.predict: this folder holds medoids"
        msg = f"no model at {file}. To fix this, {fix}"
        raise MissingFileError(msg)
    if (kind := kind_of(file)).key != "npz":
        refuse(file, f"is {kind.what}", RULE, "name that file, or its folder")
    try:
        _check_seal(file)
        headers = _headers(file)
        _check_headers(file, headers)
        with PARSING, np.load(file, allow_pickle=False) as archive:
            there = NAMES if "graph_rows" not in headers else (*NAMES, *GRAPH)
            arrays = {name: archive[name] for name in there}
    except (zipfile.BadZipFile, OSError, EOFError, RuntimeError, KeyError) as error:
        refuse(file, f"is damaged ({error})", RULE, AGAIN)
    _check_values(file, arrays)
    wide = arrays["centers"].dtype.itemsize >= 8
    integers = {name: arrays[name].astype(np.int64) for name in ("counts", "lower", "upper")}
    return Model(
        centers=arrays["centers"].astype(np.float64 if wide else np.float32),
        prices=arrays["prices"].astype(np.float64),
        **integers,
        metric=str(arrays["metric"]),
        n_samples=int(arrays["n_samples"]),
        graph=_graph(arrays) if "graph_rows" in arrays else None,
    )


def _graph(arrays: Mapping[str, NDArray[Any]]) -> NeighborGraph:
    """Return the graph that an archive holds; eigenvalues and parts are in result.json alone."""
    origin, rows, vectors, neighbors = (arrays[name] for name in GRAPH)
    ones = np.ones(vectors.shape[1])
    return NeighborGraph(origin, rows, vectors, ones, int(neighbors), 1)


def _check_seal(file: Path) -> None:
    """Refuse an archive with another comment than the digest of all that stands before it."""
    with file.open("rb") as content:
        left = max(0, content.seek(0, io.SEEK_END) - SEAL_LENGTH)
        content.seek(left)
        seal, digest = content.read(), hashlib.sha256()
        if seal[-22:-18] == b"PK\x05\x06" and seal[-2:] == bytes(2):  # the end without a comment
            return
        content.seek(0)
        while block := content.read(min(BLOCK, left)):
            digest.update(block)
            left -= len(block)
    if seal != SEAL + digest.hexdigest().encode():
        refuse(file, "is damaged (its SHA-256 is not the one that it ends with)", RULE, AGAIN)


def _headers(file: Path) -> dict[str, Header]:
    """Return what the headers of the entries say; no entry is larger than its place in the file."""
    headers = {}
    for name, (info, header) in archive_headers(file).items():
        if info.compress_type != zipfile.ZIP_STORED:
            refuse(f"{file}:{name}", "is packed", RULE, AGAIN)
        if info.file_size != header.n_bytes:
            found = f"has {info.file_size} bytes under a header for {header.n_bytes}"
            refuse(f"{file}:{name}", found, RULE, AGAIN)
        headers[name] = header
    return headers


def _check_headers(file: Path, headers: dict[str, Header]) -> None:
    missing = [name for name in NAMES if name not in headers]
    if missing:
        refuse(file, f"holds no {', '.join(missing)}", RULE, "name an output folder")
    shape = headers["centers"].shape
    if len(shape) != 2 or 0 in shape:
        refuse(f"{file}:centers", f"has the shape {shape}", RULE, AGAIN)
    expected: dict[str, tuple[tuple[int, ...], str]]
    expected = {name: ((), kinds) for name, kinds in SCALARS.items()}
    expected |= {name: ((shape[0],), kinds) for name, kinds in PER_CLUSTER.items()}
    expected |= {"centers": (shape, "f")}
    if "graph_rows" in headers:
        missing = [name for name in GRAPH if name not in headers]
        m, *d = (*headers["graph_rows"].shape, 0, 0)[:2]
        if missing or 0 in (m, *d):
            refuse(file, "holds a part of a graph", RULE, AGAIN)
        expected |= {"graph_rows": ((m, *d), "f"), "graph_origin": ((*d,), "f")}
        expected |= {"graph_vectors": ((m, shape[1]), "f"), "graph_neighbors": ((), "iu")}
    for name, (wanted, kinds) in expected.items():
        header = headers[name]
        if header.shape != wanted or header.dtype.kind not in kinds:
            found = f"holds {header.dtype} of shape {header.shape}"
            refuse(f"{file}:{name}", found, RULE, AGAIN)


def _check_values(file: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    version, metric = int(arrays["format"]), str(arrays["metric"])
    if version != (GRAPH_FORMAT if "graph_rows" in arrays else FORMAT):
        rule = f"This version reads format {FORMAT}, and {GRAPH_FORMAT} with a graph"
        refuse(file, f"has the format {version}", rule, "use the version that wrote it")
    if metric not in METRICS:
        refuse(file, f"has the metric {metric!r}", f"It is one of {', '.join(METRICS)}", AGAIN)
    graph = [name for name in GRAPH[:3] if name in arrays]
    if graph and not 1 <= int(arrays["graph_neighbors"]) < len(arrays["graph_rows"]):
        refuse(file, "holds a graph of too many neighbors", "They are fewer than its rows", AGAIN)
    for name in ("centers", "prices", *graph):
        if not np.isfinite(arrays[name]).all():
            refuse(f"{file}:{name}", "holds NaN or infinity", RULE, AGAIN)
    with np.errstate(over="ignore"):  # of means, whose length is not looked at
        lengths = np.linalg.norm(arrays["centers"].astype(np.float64), axis=1)
    if metric == "cosine" and not (np.abs(lengths - 1.0) <= UNIT).all():
        worst = float(lengths[np.abs(lengths - 1.0).argmax()])
        rule = "Centers of the metric cosine have the length 1"
        refuse(f"{file}:centers", f"has a center of length {worst:g}", rule, AGAIN)
    n = int(arrays["n_samples"])
    low, sizes, high = (arrays[name] for name in ("lower", "counts", "upper"))
    fits = (0 <= low).all() and (low <= sizes).all() and (sizes <= high).all()
    if not fits or sum(map(int, sizes)) != n or int(high.max()) >= 2**63:  # in numbers that wrap
        rule = "Sizes lie between their bounds and add up to the number of rows"
        refuse(file, "holds sizes that do not fit each other", rule, AGAIN)
