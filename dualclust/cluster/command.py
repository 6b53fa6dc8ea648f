"""``dualclust cluster``: embeddings in, labels with sizes between bounds out.

The command needs torch only for several ranks or a GPU. The rows stay in the file: each pass over
them reads a block at a time (`embeddings`), so that memory depends on n only through the labels.
Options are checked in `options`, files read in `problem`, results written in `folder`.
"""

from __future__ import annotations

import argparse
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..algos.clustering.choices import restricted_scores
from ..algos.clustering.constrained import KMeansState, constrained_kmeans
from ..algos.core.errors import OutputError
from ..algos.scores.deadline import Deadline
from ..algos.scores.sources import ScoreSource
from ..common.files import remove_leftovers_of
from ..common.formats import default_folder, look_at
from ..common.locks import only_writer
from ..common.ranks import Ranks
from ..common.stopping import Stop, StoppedError, stoppable
from .distances import squared_distances
from .exchange import exchange_lengths
from .graph import check_graph, graph_facts, graph_line
from .in_groups import check_groups, cluster_in_groups, groups_csv, link_facts
from .interrupt import ended_by_interrupt
from .launch import on_ranks
from .loads import cluster_by_load, loads_csv
from .model import MODEL_FILE, model_bytes
from .notable import Notable, Restricted, find_notable
from .notes import input_facts, input_lines, note_lines, notes_on_input, notes_on_result
from .options import check_options, check_paths, selection_of
from .output import Clusters, json_text, npy, result_of, sizes_csv, text
from .output_folder import check_folder, replace_folder
from .places import on_host, placed
from .problem import Problem, open_problem
from .progress import Meter
from .resume import again, how_to_go_on, load, save
from .start import drawn_centers
from .table import written_table
from .threads import Multiply
from .valid_rows import KeptRows, in_input
from .whole import cluster_whole

__all__ = ["run_cluster"]


def run_cluster(options: argparse.Namespace) -> int:
    """Read, cluster, write and report; return the exit code, the same on all ranks.

    Raises
    ------
    StoppedError
        With how to go on, for a run that a signal asked to end: with a checkpoint it has saved its
        state, without one it has written the best labels so far.
    KeyboardInterrupt
        With how to go on, for a run that left at once.
    """
    told = {"stopped": partial(how_to_go_on, options), "lost": partial(again, options)}
    if options.checkpoint is None:
        return on_ranks(options, partial(_run, stop=None), **told)
    with stoppable() as stop:
        return on_ranks(options, partial(_run, stop=stop), **told)


def _run(
    options: argparse.Namespace,
    ranks: Ranks,
    multiply: Multiply,
    meter: Meter,
    *,
    stop: Stop | None,
) -> int:
    check_paths(options)
    if options.graph is not None:
        check_graph(options, ranks.world_size)
    check_groups(options, ranks.world_size)
    check_options(options)
    deadline = Deadline(options.time)
    out = options.out or default_folder(options.input)
    try:
        inputs = {"X.npy": options.input, "--table": options.table}
        inputs["--checkpoint"] = options.checkpoint
        check_folder(out, overwrite=options.overwrite, inputs=inputs)
    except OutputError:
        look_at(options.input, selection_of(options))  # what is wrong with the input comes first
        raise
    whole = cluster_whole(options, ranks, meter, deadline)
    if whole is not None:
        problem, result, squared, medoids = whole
        found = _collect(result, problem)._replace(medoids=medoids)
        report = _result(options, problem, found, squared, [])
        _write(options, problem, found, report, None, {})
        return 0
    if options.dry_run:
        from .plan import show_plan

        return show_plan(options, ranks, multiply, meter, out)
    problem = open_problem(options, ranks, multiply, meter)
    ending = nullcontext() if stop is not None else ended_by_interrupt(deadline)
    with _only_run(options, ranks), ending as asked:
        if options.checkpoint is not None and ranks.first:
            remove_leftovers_of(options.checkpoint)
        found = _cluster(options, problem, ranks, meter, stop, deadline)
        is_done = found.converged and found.gap <= options.gap
        is_early = not is_done and asked is not None and _on_any_rank(ranks, asked)
        early = [f"Ctrl-C has ended it after {found.n_iter} updates"] if is_early else []
        _write_all(options, problem, ranks, meter, found, early)
    if is_early:
        where = f"the best labels so far, with a proven gap of {found.gap:.1e}, are in {out}/"
        more = f". To go on from there, give --start {out} and another --out"
        msg = f"{early[0]}: {where}{more if options.graph is None else ''}"
        raise StoppedError(msg)
    return 0


def _only_run(options: argparse.Namespace, ranks: Ranks) -> AbstractContextManager[None]:
    """Keep other runs from the checkpoint, which the first rank writes."""
    state: Path | None = options.checkpoint
    if state is None or not ranks.first:
        return nullcontext()
    return only_writer(state.parent, file=state.name)


def _write_all(
    options: argparse.Namespace,
    problem: Problem,
    ranks: Ranks,
    meter: Meter,
    found: Clusters,
    early: list[str],
) -> None:
    """Measure and write, with what has ended the run early among the notes."""
    meter.begin("measuring", problem.source.group)
    squared = notable = None
    if options.metric == "euclidean":
        group = problem.source.group
        own = found.labels[group.first_row : group.first_row + group.n_local]
        arrays = placed(own, options.device), placed(found.centers, options.device)
        squared = squared_distances(problem.source, *arrays, problem.weights)
    if options.table is not None or options.report:
        notable = _notable(options, problem, found)
    report = _result(options, problem, found, squared, early)
    page: dict[str, bytes] = {}
    if options.report and notable is not None:  # on all ranks: each reads its own rows
        page = _page(options, problem, found, report, notable, ranks)
    meter.end()
    if ranks.first:
        _write(options, problem, found, report, notable, page)


def _cluster(
    options: argparse.Namespace,
    problem: Problem,
    ranks: Ranks,
    meter: Meter,
    stop: Stop | None,
    deadline: Deadline,
) -> Clusters:
    source, group = problem.source, problem.source.group

    def progress(state: KMeansState, changed: float) -> None:
        if options.checkpoint is not None and stop is not None:
            labels = on_host(group.gather(state.labels))
            if ranks.first:
                save(options, problem, state, labels)
            _check_stop(options, ranks, state, stop)
        told = f"gap {state.gap:.1e}, {changed:.2%} of labels changed"
        meter.tell(told if meter.one_line else f"update {state.n_iter}: {told}")
        last = state.converged or state.n_iter == options.max_iter
        nexts = f"update {state.n_iter + 1} of {options.max_iter}"
        meter.begin("the final labels" if last else nexts, problem.source.group)

    meter.begin("choosing the first centers", problem.source.group)
    state = load(options, problem) if options.resume else None
    prices = None
    if state is not None:
        centers = state.centers
    elif problem.start is not None:
        dtype = problem.rows.dtype
        centers = placed(problem.start.centers.astype(dtype), options.device)
        prices = placed(problem.start.prices, options.device)
    else:
        centers = drawn_centers(
            source,
            options.k,
            init=options.init,
            seed=options.seed,
            metric=options.metric,
            weights=problem.weights,
            fixed=problem.fixed,
        )
    meter.begin("the first labels", problem.source.group)
    if problem.sizes is not None:
        meter.begin("labels and centers in turn", problem.source.group)
        by_load, loads = cluster_by_load(options, problem, centers, deadline)
        return _collect(by_load, problem)._replace(loads=loads)
    if any(each is not None for each in (problem.groups, problem.links, options.max_out)):
        meter.begin("labels and centers in turn", problem.source.group)
        bounded, groups = cluster_in_groups(options, problem, centers, deadline)
        is_partial = options.max_out is not None
        return _collect(bounded, problem)._replace(groups=groups, is_partial=is_partial)
    result = constrained_kmeans(
        source,
        problem.bounds,
        centers,
        metric=options.metric,
        weights=problem.weights,
        fixed=problem.fixed,
        forbidden=problem.forbidden,
        prices=prices,
        max_iter=options.max_iter,
        tol=options.tol,
        gap=options.gap,
        state=state,
        progress=progress,
        empty=options.empty,
        time_limit=deadline,
    )
    return _collect(result, problem)


def _check_stop(options: argparse.Namespace, ranks: Ranks, state: KMeansState, stop: Stop) -> None:
    """End all ranks after an update that was saved, if one of them was asked to end."""
    if _on_any_rank(ranks, stop):
        msg = f"stopped after update {state.n_iter}; {how_to_go_on(options)}"
        raise StoppedError(msg)


def _on_any_rank(ranks: Ranks, asked: Stop) -> bool:
    """Tell all ranks alike whether one of them was asked to end."""
    own = asked()
    return own if ranks.world_size == 1 else any(exchange_lengths(ranks, 0, int(own)))


def _collect(result: Any, problem: Problem) -> Clusters:
    """Return a result of k-means of any kind, with the labels of all ranks."""
    found = result.assignment
    return Clusters(
        labels=on_host(problem.source.group.gather(found.labels)),
        centers=on_host(result.centers),
        counts=on_host(found.counts),
        lower=on_host(problem.bounds.lower),
        upper=on_host(problem.bounds.upper),
        prices=on_host(found.prices),
        objective=found.objective,
        upper_bound=found.upper_bound,
        gap=found.gap,
        n_iter=result.n_iter,
        converged=result.converged,
    )


def _restrictions(problem: Problem) -> Restricted | None:
    """Return what makes scores of choices that the labels must not have minus infinity."""
    if problem.fixed is None and problem.forbidden is None:
        return None

    def restricted(scores: ScoreSource) -> ScoreSource:
        return restricted_scores(
            scores, problem.bounds, fixed=problem.fixed, forbidden=problem.forbidden
        )

    return restricted


def _notable(options: argparse.Namespace, problem: Problem, found: Clusters) -> Notable:
    """Find the rows worth a look, under the restrictions that the labels keep."""
    notable = find_notable(
        problem.source,
        found,
        options.metric,
        problem.weights,
        restricted=_restrictions(problem),
        all_rows=options.table is not None,
    )
    rows = problem.rows
    return in_input(rows, notable) if isinstance(rows, KeptRows) else notable


def _result(
    options: argparse.Namespace,
    problem: Problem,
    found: Clusters,
    squared: float | None,
    early: list[str],
) -> dict[str, Any]:
    """Return the contents of result.json, but for the names of the files."""
    weights = problem.weights
    weight = int(found.counts.sum()) if weights is None else float(on_host(weights).sum())
    return result_of(found, options, weight=weight, squared=squared) | {
        "init": options.init or "start",
        **({} if problem.links is None else link_facts(problem.links)),
        **({} if problem.graph is None else {"graph": graph_facts(problem.graph)}),
        "fixed_rows": 0 if problem.fixed is None else int((problem.fixed >= 0).sum()),
        "forbidden_pairs": 0 if problem.forbidden is None else len(problem.forbidden),
        "input": input_facts(problem.rows),
        "notes": [
            *notes_on_input(options, problem.rows, found.upper),
            *notes_on_result(found),
            *early,
        ],
    }


def _page(
    options: argparse.Namespace,
    problem: Problem,
    found: Clusters,
    result: dict[str, Any],
    notable: Notable,
    ranks: Ranks,
) -> dict[str, bytes]:
    """Draw the report; the first rank alone reads ids and what the page shows of rows."""
    from .report import report_files

    return report_files(
        problem.source,
        found,
        result,
        notable,
        title=options.input.name,
        out=options.out or default_folder(options.input),
        weights=None if problem.weights is None else on_host(problem.weights),
        restricted=_restrictions(problem),
        ids=problem.rows.ids if ranks.first else None,
        column=problem.shown if ranks.first else None,
        labels=_in_input(problem, found),
    )


def _in_input(problem: Problem, found: Clusters) -> NDArray[np.int64]:
    """Labels of all rows of the input, -1 for those that were dropped."""
    rows = problem.rows
    return rows.in_input(found.labels, -1) if isinstance(rows, KeptRows) else found.labels


def _write(
    options: argparse.Namespace,
    problem: Problem,
    found: Clusters,
    result: dict[str, Any],
    notable: Notable | None,
    page: dict[str, bytes],
) -> None:
    """Write the output folder and the table, and print what is in them."""
    out = options.out or default_folder(options.input)
    labels = _in_input(problem, found)
    files = {"labels.npy": npy(labels)}
    if found.medoids is None:
        files["centers.npy"] = npy(found.centers)
    else:
        files["medoids.npy"] = npy(found.medoids)
    files["sizes.csv"] = sizes_csv(found).encode()
    if found.groups is not None:
        files["groups.csv"] = groups_csv(found.groups).encode()
    elif found.loads is not None:
        files["loads.csv"] = loads_csv(found.loads, found.prices).encode()
    elif found.medoids is None:
        files[MODEL_FILE] = model_bytes(found, options.metric, problem.graph)
    files |= page
    result = result | {"files": [*files, "result.json"]}
    files["result.json"] = json_text(result).encode()
    choices = None if notable is None else notable.choices
    with written_table(options.table, labels, choices, options.id, problem.rows.ids):
        replace_folder(out, files, overwrite=options.overwrite)
    if options.json:
        print(json_text(result), end="")
        return
    about, notes = input_lines(result["input"]), note_lines(result["notes"])
    about += [graph_line(result["graph"], options.k)] if "graph" in result else []
    print(*about, text(result), *notes, f"written to          {out}/", sep="\n")
    if options.table is not None:
        print(f"table               {options.table}")
