"""The benchmark programs run: on sizes where nothing is measured, so that they do not rot."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from dualclust.train.loop.metrics import Agreement
from tests.programs import FOLDER, program


def test_streaming_is_compared_with_argmax() -> None:
    rows = program("assign_stream").compare(2_000, 10, repeats=1).splitlines()
    assert [row.split(" | ")[-2] for row in rows] == ["0", "0"]  # violation


@pytest.mark.parametrize("name", ["ours_stream", "ours_default", "ours_exact", "highs"])
def test_assignment_methods_keep_the_bounds(name: str) -> None:
    module = program("assignment")
    x, c = module.data(300, 5)
    low, high = module.sizes(300, 5)
    counts = np.bincount(getattr(module, name)(x, c), minlength=5)
    assert counts.sum() == 300
    assert counts.min() >= low
    assert counts.max() <= high


def test_assignment_methods_without_bounds_agree() -> None:
    module = program("assignment")
    x, c = module.data(300, 5)
    assert (module.argmax(x, c) == module.sklearn_nearest(x, c)).mean() > 0.99


def test_assignment_table_is_printed() -> None:
    """Of two methods: each has a process of its own."""
    command = [sys.executable, str(FOLDER / "assignment.py"), "--n", "500", "--k", "4"]
    command += ["--only", "dualclust, exact"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    base, ours = done.stdout.splitlines()[-2:]
    assert base.startswith("| matmul + argmax")
    assert ours.startswith("| dualclust, exact | ")
    assert ours.endswith("| 0 |")


@pytest.mark.slow
def test_reads_are_few_in_every_row() -> None:
    pytest.importorskip("torch")
    module = program("reads")
    with module.second_device() as transfers:
        rows = list(module.Counter(transfers).table(small=True))
    # A run of k-means begins with eight reads beside its iterations, a mini-batch with two.
    limits = {"chunks": 2, "passes": 10, "blocks": 0, "batches": 8, "steps": 0}
    runs = {"`kmeans`": 6, "`constrained_kmeans`": 100, "`constrained_kmeans`, rules": 100}
    for row in rows:
        most = runs[row.name] if row.unit == "iterations" else limits[row.unit]
        assert row.reads <= most * row.n_units, row
        assert row.n_units > 0
    assert {row.unit for row in rows} == {*limits, "iterations"}
    assert sum(row.name.startswith("a training step of") for row in rows) == 5
    assert str(rows[0]).startswith("| `assign`, one pass | 1,000 x 10 |")


@pytest.mark.slow(reason="tests/backends/test_launches.py bounds what it prints")
def test_launches_are_counted_at_every_size_and_in_every_step(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    module = program("launches")
    with module.counted_launches() as launches:
        rows = list(module.Program(launches).table([(300, 4), (300, 8)]))
        parts = module.step(launches, "secu", 16, tmp_path)
    assert len(rows) == 2 * 5 + len(module.LARGE)
    assert rows[0].startswith("| `nearest_centers` | 300 x 4 | ")
    assert {name for name, count in parts.items() if count > 0} == set(module.PARTS)


def test_a_model_of_a_card_says_what_it_waits_for() -> None:
    pytest.importorskip("torch")
    module = program("launches")
    card = module.Card(operation=2.0, read=3.0, bytes=5.0, multiplications=7.0, to_host=11.0)
    sent = module.Count(10, 1, 0, 0, 22, 4, 0.5)
    assert sent.seconds(card) == 20 + 3 + 2 + 0.5
    computed = sent._replace(bytes=500, multiplications=70)
    assert computed.seconds(card) == 110 + 3 + 2 + 0.5
    few, many = (100_000, sent), (200_000, computed._replace(operations=8))
    more = module.n_blocks(500_000, 1_000) - module.n_blocks(200_000, 1_000)
    found = module.extrapolated(module.WITHIN, few, many, 500_000, 1_000, 60.0)
    assert found == (8 + 60 * more, 1, 2_000, 280, 22, 4, 0.5)
    assert more == 4 - 2  # of 131,072 rows
    count, own = module.without_scores(1_000_000, 1_000)
    assert count.bytes < 1e9 * 1.1  # features twice, and a few numbers a row; no score
    assert count.seconds(own) <= 0.02
    found = module.extrapolated(module.NEAREST, few, many, 500_000, 1_000, 60.0)
    assert found == (8, 1, 2_000, 280, 22, 4, 0.5)


def test_sizes_in_a_loop_are_compared() -> None:
    pytest.importorskip("torch")
    module = program("own_loop")
    rows = module.table(5, 32, 60)
    by_name = {row.name: row for row in rows}
    assert by_name["argmax"].largest > 1.5 > by_name["prices, 0.9 to 1.1"].largest
    converged = by_name["Sinkhorn, converged"]
    assert 0.99 < converged.soft_smallest <= converged.soft_largest < 1.01
    assert by_name["argmax"].score == max(row.score for row in rows)
    assert module.show(rows, 32).count("| 32 | prices") == 2


def test_digits_row() -> None:
    found = [Agreement(0.5, 0.4, 0.3, 0.0, 0.0), Agreement(0.7, 0.6, 0.5, 1.0, 1.0)]
    row = program("digits").row("name", found, [3, 9], 1.5)
    assert row == (
        "| name | 2 | 0.600 +- 0.100 | 0.500 +- 0.100 | 0.400 +- 0.100 | 0.500 | 3-9 | 1.5 |"
    )


def test_recipes_row() -> None:
    found = [{"acc": 0.5, "nmi": 0.4, "ari": 0.3}, {"acc": 0.7, "nmi": 0.6, "ari": 0.5}]
    figures = program("recipes")._figures(found)
    assert figures == "0.600 +- 0.100 | 0.500 +- 0.100 | 0.400 +- 0.100"


def test_rules_that_choose_k_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    module = program("choice")
    rows = module.blobs(0, 3, 2, "unequal sizes")[:300]
    monkeypatch.setattr(module, "KS", [2, 3, 4])
    monkeypatch.setattr(module, "cases", lambda *_: [module.Case("three", 3, rows)])
    _, _, line = module.rules_table(1, None, "three")
    assert line.startswith("| three | 1 | ")
    assert line.endswith(" | 1 | 0 |")  # ours is right, and names one


def test_two_trees_solve_the_same_file_by_turns(tmp_path: Path) -> None:
    module, file = program("beside"), str(tmp_path / "a.npz")
    scores = np.random.default_rng(0).normal(size=(300, 5))
    np.savez(file, scores=scores, lower=np.full(5, 50), upper=np.full(5, 70))
    tree = module.Tree(Path(__file__).parents[2])
    cells = module.compared([tree, tree], file, 0.0, [1, 2], 1).split(" | ")
    tree.close()
    assert tree.process.returncode == 0
    assert len(cells) == 6
    assert cells[-1] == "0e+00, 0e+00 |"
    assert all(float(cell) > 0.0 for cell in cells[:-1])


def test_scores_without_labels_are_those_of_the_labelings() -> None:
    module = program("choosing")
    rows = np.concatenate([np.random.default_rng(0).normal(5.0 * i, 1.0, (40, 3)) for i in (0, 1)])
    data = module.standardized(rows, np.repeat([0, 1], 40))
    near = np.argsort(((data.rows[:, None] - data.rows) ** 2).sum(2), axis=1)[:, 1:6]
    found = module.measured(data, module.procedures()["k-means"], near)
    assert found.acc == [1.0] * module.SEEDS
    assert {name: np.mean(x) for name, x in found.scores.items()} == dict.fromkeys(module.SCORES, 1)
    random = np.random.default_rng(1).integers(0, 2, 80)
    assert module.held_out(data, random, 0) < 0.75
    worse = found._replace(acc=[0.5] * 5, scores={name: [0.5] * 5 for name in module.SCORES})
    both = {module.DEFAULT: found, "other": worse}
    assert all(module.correlation(both, name) == pytest.approx(1.0) for name in module.SCORES)
    assert module.chosen(both, "seeds") == 1.0
