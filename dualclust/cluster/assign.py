"""``dualclust assign``: labels of new rows from the centers and prices of a model.

Rows are read a block at a time, in any format of `formats`; the labels are those of `labeling`.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from ..algos.core.checks import check_interval
from ..algos.core.errors import OutputError, UsageError
from ..common.files import write_file
from ..common.formats import Rows, default_folder
from ..common.formats.checks import refuse
from ..common.ranks import Ranks
from .distances import squared_distances
from .embeddings import check_embeddings, check_path, embedding_source
from .exchange import row_group
from .graph import on_device, placed_by
from .labeling import around_centers, label_rows, stored_bounds, whole_result
from .launch import on_ranks
from .model import Model, read_model
from .notable import find_notable
from .notes import input_facts, input_lines
from .options import check_paths, check_sizes
from .output import Clusters, json_text, npy, sizes_csv
from .output_folder import check_folder, replace_folder
from .places import device_place
from .problem import open_valid
from .progress import Meter
from .sizes import bounds_of
from .table import check_table, written_table
from .threads import Multiply
from .valid_rows import KeptRows, in_input

__all__ = ["run_assign"]

GAP = 1e-4
"""Relative gap to prove unless another is asked for."""

BOUNDS = ("lower", "upper", "min_count", "max_count", "bounds")


def run_assign(options: argparse.Namespace) -> int:
    """Read, label, write and report; return the exit code, the same on all ranks."""
    return on_ranks(options, _run)


def _run(options: argparse.Namespace, ranks: Ranks, multiply: Multiply, meter: Meter) -> int:
    _check(options)
    model = read_model(options.model)
    metric = model.metric if model.graph is None else "euclidean"  # rows are centered first
    rows, _ = open_valid(options, ranks, meter, metric)
    _check_fit(options, model, rows)
    out = options.out or default_folder(options.input, "-assigned")
    _check_out(out, options)
    n, options.k = rows.n_samples, len(model.centers)
    place = device_place(options.device)
    bounds = None
    if options.bounded:
        stored = stored_bounds(model, n, rounding=options.rounding)
        bounds = bounds_of(options, n, stored=stored, **place)
    if model.graph is not None and ranks.world_size > 1:
        msg = "a model of --graph labels rows in one process. To fix this, leave out torchrun"
        raise UsageError(msg)
    group = row_group(ranks, n)
    if options.invalid != "drop":
        meter.begin("checking the rows", group)
        check_embeddings(meter.reading(rows), metric, group)
    source = embedding_source(
        meter.reading(rows), metric, group, device=options.device, multiply=multiply
    )
    dtype = rows.dtype
    if model.graph is not None:
        meter.begin("finding neighbors", group)
        dtype = model.graph.rows.dtype
        source = placed_by(on_device(model.graph, options.device), source)
    source, centers = around_centers(source, model, dtype, options.device)
    meter.begin("labeling", group)
    found = label_rows(
        source, centers, model, bounds=bounds, priced=options.prices, gap=options.gap
    )
    squared = None
    if model.metric == "euclidean":
        squared = squared_distances(source, found.labels, centers)
    clusters = whole_result(found, bounds, source, centers)
    second = None
    if options.table is not None:
        notable = find_notable(source, clusters, model.metric, all_rows=True)
        notable = in_input(rows, notable) if isinstance(rows, KeptRows) else notable
        second = notable.choices
    meter.end()
    if not ranks.first:
        return 0
    result = _result(options, model, clusters, squared) | {"input": input_facts(rows)}
    labels = clusters.labels
    if isinstance(rows, KeptRows):
        labels = rows.in_input(labels, -1)
    with written_table(options.table, labels, second, options.id, rows.ids):
        result = _write(out, clusters._replace(labels=labels), result, options)
    _print(options, result, out)
    return 0


def _check(options: argparse.Namespace) -> None:
    """Refuse options that are wrong whatever the model and the rows are."""
    check_path("MODEL", options.model)
    check_paths(options, "Y.npy")
    options.bounded = options.bounded or any(getattr(options, b) is not None for b in BOUNDS)
    for flag, value in (("--gap", options.gap), ("--rounding", options.rounding)):
        if value is not None and not options.bounded:
            msg = (
                f"{flag} is about sizes between bounds, and without --bounded there are none. "
                f"To fix this, add --bounded, or leave out {flag}"
            )
            raise UsageError(msg)
    check_sizes(options)
    options.gap = GAP if options.gap is None else options.gap
    check_interval("--gap", options.gap, 0.0, 1.0)
    if options.bounded and options.prices:
        msg = (
            "--bounded finds prices of its own, and --prices takes those of the model. "
            "To fix this, leave one of them out"
        )
        raise UsageError(msg)
    if options.table is not None:
        check_table(options.table, options.id)


def _check_fit(options: argparse.Namespace, model: Model, rows: Rows) -> None:
    if options.metric not in (None, model.metric):
        rule = "Labels are those of the metric that found the centers"
        fix = f"leave out --metric, or cluster with --metric {options.metric}"
        refuse(options.model, f"is a model of --metric {model.metric}", rule, fix)
    d = model.centers.shape[1] if model.graph is None else model.graph.rows.shape[1]
    if rows.n_features != d:
        rule = f"The centers of {options.model} have {d} numbers, and so must the rows"
        fix = "give rows of the same embedding, or another model"
        refuse(rows.name, f"holds rows of {rows.n_features} numbers", rule, fix)


def _is_file(out: Path) -> bool:
    return out.suffix.lower() == ".npy"


def _check_out(out: Path, options: argparse.Namespace) -> None:
    if not _is_file(out):
        model = options.model if options.model.is_dir() else options.model.parent
        inputs = {"MODEL": model, "Y.npy": options.input, "--table": options.table}
        check_folder(out, overwrite=options.overwrite, inputs=inputs)
    elif out.exists():
        why = ", and --overwrite replaces a folder of results, no single file"
        msg = f"{out} exists{why if options.overwrite else ''}. To fix this, name another file "
        raise OutputError(msg + "with --out")


def _result(
    options: argparse.Namespace, model: Model, found: Clusters, squared: float | None
) -> dict[str, Any]:
    n = len(found.labels)
    how = "bounded" if options.bounded else "prices" if options.prices else "nearest"
    result: dict[str, Any] = {
        "n_samples": n,
        "n_clusters": len(found.counts),
        "metric": model.metric,
        "labels": how,
        "smallest_cluster": int(found.counts.min()),
        "largest_cluster": int(found.counts.max()),
    }
    name = "mean_similarity" if squared is None else "mean_squared_distance"
    result[name] = (found.objective if squared is None else squared) / n
    if options.bounded:
        lost = max(0.0, found.upper_bound - found.objective) / n
        best = result[name] + lost if squared is None else max(0.0, result[name] - 2.0 * lost)
        outside = np.maximum(found.lower - found.counts, found.counts - found.upper)
        result |= {
            f"{name}_bound": best,
            "relative_gap": found.gap,
            "min_count": int(found.lower.min()),
            "max_count": int(found.upper.max()),
            "violation": max(0, int(outside.max())),
        }
    return result


def _write(
    out: Path, found: Clusters, result: dict[str, Any], options: argparse.Namespace
) -> dict[str, Any]:
    """Write the folder, or the labels alone; return the result with the names of the files."""
    if _is_file(out):
        write_file(out, npy(found.labels), parents=True)
        return result | {"files": [out.name]}
    files = {"labels.npy": npy(found.labels), "sizes.csv": sizes_csv(found).encode()}
    result = result | {"files": [*files, "result.json"]}
    files["result.json"] = json_text(result).encode()
    replace_folder(out, files, overwrite=options.overwrite)
    return result


def _print(options: argparse.Namespace, result: dict[str, Any], out: Path) -> None:
    if options.json:
        print(json_text(result), end="")
        return
    r = result
    how = {
        "nearest": "the nearest centers",
        "prices": "the best at the stored prices",
        "bounded": "inside the bounds",
    }
    sizes = f"{r['smallest_cluster']} to {r['largest_cluster']}"
    name = next(n for n in ("mean_similarity", "mean_squared_distance") if n in r)
    title = name.replace("_", " ").replace("squared distance", "sq. distance")
    lines = input_lines(r["input"])
    lines += [f"labels              {r['n_samples']} rows, {how[r['labels']]}"]
    if options.bounded:
        sizes += f", bounds {r['min_count']} to {r['max_count']}"
    lines += [f"sizes               {sizes}", f"{title:<20}{r[name]:.6f}"]
    if options.bounded:
        beyond = "exceed" if name == "mean_similarity" else "are below"
        lines.append(
            f"certificate         no labels inside the bounds {beyond} "
            f"{r[name + '_bound']:.6f} for these centers (gap {r['relative_gap']:.1e})"
        )
    lines.append(f"written to          {out}{'' if _is_file(out) else '/'}")
    if options.table is not None:
        lines.append(f"table               {options.table}")
    print("\n".join(lines))
