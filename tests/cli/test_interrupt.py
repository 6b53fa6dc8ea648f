"""Ctrl-C ends a long clustering with the best labels so far: processes, and real signals."""

from __future__ import annotations

import json
import signal
import threading

import numpy as np
import pytest
from sklearn.base import clone

import dualclust as dc
from tests.cli.cluster_files import check, cluster, dual_of, groups, listing, outputs, save
from tests.forked import run_program
from tests.problems import unit_rows

K = 20

PRESSED = """
import os, signal, sys
from dualclust.cli.main import main

words, times = sys.argv[1], int(sys.argv[2])
signal.signal(signal.SIGINT, getattr(signal, sys.argv[3]))


class Screen:
    '''Standard error, at which somebody presses Ctrl-C once it shows some words.'''

    def __init__(self, inside):
        self.inside, self.left = inside, times

    def __getattr__(self, name):
        return getattr(self.inside, name)

    def write(self, text):
        self.inside.write(text)
        self.inside.flush()
        while words in text and self.left:
            self.left -= 1
            os.kill(os.getpid(), signal.SIGINT)


sys.stderr = Screen(sys.stderr)
sys.exit(main(sys.argv[4:]))
"""


@pytest.fixture
def rows(tmp_path):
    x = groups(n=4_000, k=K, spread=2.0)[0]
    return save(tmp_path / "X.npy", x), x


def proves(scores, labels, report):
    """The bound that is reported holds for the best labels, which the dual proves to be that."""
    n = len(scores)
    bounds = dc.SizeBounds.from_ratios(K, n_samples=n, lower=0.9, upper=1.1)
    best = dc.assign_exact(scores, bounds)
    dual = dual_of(scores, best.prices, np.asarray(bounds.lower), np.asarray(bounds.upper))
    assert best.objective == pytest.approx(dual, rel=1e-12)
    value = np.take_along_axis(scores, labels[:, None], axis=1).sum()
    assert report["mean_similarity"] == pytest.approx(value / n, rel=1e-9)
    assert report["mean_similarity_bound"] >= dual / n * (1.0 - 1e-9)
    assert value <= dual <= value * (1.0 + report["relative_gap"]) * (1.0 + 1e-9)


def pressed(path, words, *options, times=1, handler="default_int_handler"):
    """Run the command, and press Ctrl-C as soon as it says some words."""
    command = ["cluster", path, "-k", K, "--progress", "--tol", 0, *options]
    return run_program(PRESSED, words, str(times), handler, *map(str, command))


def test_the_first_ctrl_c_writes_the_labels_so_far(tmp_path, rows) -> None:
    path, x = rows
    done = pressed(path, "update 2:")
    assert done.returncode == 75, done.stderr
    labels, centers, _, report = outputs(tmp_path / "X-clusters")
    counts = np.bincount(labels, minlength=K)
    assert 180 <= counts.min() <= counts.max() <= 220
    proves(unit_rows(x) @ centers.T.astype(np.float64), labels, report)
    assert (report["passes"], report["converged"]) == (2, False)
    assert 0.0 < report["relative_gap"] < 0.05
    assert "Ctrl-C has ended it after 2 updates" in report["notes"]
    said = "SIGINT: ends with the best labels so far; the same signal again leaves at once"
    assert said in done.stderr
    told = f"the best labels so far, with a proven gap of {report['relative_gap']:.1e}, are in"
    assert told in done.stderr.splitlines()[-1]
    assert "note                Ctrl-C has ended it" in done.stdout
    # It goes on from there as it says.
    more = ("--start", tmp_path / "X-clusters", "--out", tmp_path / "more")
    assert cluster(path, *more, k=K) == 0
    assert outputs(tmp_path / "more")[3]["mean_similarity"] > report["mean_similarity"]
    # And the same updates without Ctrl-C end at the same centers.
    assert cluster(path, "--tol", 0, "--max-iter", 2, "--out", tmp_path / "two", k=K) == 0
    centers = np.load(tmp_path / "two" / "centers.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "X-clusters" / "centers.npy"), centers)


def test_the_second_leaves_at_once(tmp_path, rows) -> None:
    path, _ = rows
    before = listing(tmp_path)
    done = pressed(path, "update 2:", times=2)
    assert done.returncode == 130, done.stderr
    assert "dualclust: interrupted; nothing was written" in done.stderr
    assert listing(tmp_path) == before


def test_a_run_with_a_checkpoint_saves_instead(tmp_path, rows) -> None:
    path, _ = rows
    done = pressed(path, "update 2:", "--checkpoint", tmp_path / "X.state")
    assert done.returncode == 75
    assert "stopped after update 3; the state is in" in done.stderr
    assert not (tmp_path / "X-clusters").exists()


def test_a_job_that_ignores_ctrl_c_goes_on_to_do_so(tmp_path, rows) -> None:
    """As one that a script has started in the background."""
    path, x = rows
    done = pressed(path, "update 2:", handler="SIG_IGN")
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "X-clusters" / "result.json").read_text())["converged"]
    check(tmp_path / "X-clusters", x, K)


# In Python ----------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def handler():
    """What Python itself does at Ctrl-C, also where the tests run in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield signal.default_int_handler
    signal.signal(signal.SIGINT, before)


def press(*_):
    signal.raise_signal(signal.SIGINT)


def problem(rng, n=6_000):
    x = rng.normal(size=(n, 8)) + 2.0 * rng.normal(size=(K, 8))[rng.integers(K, size=n)]
    return x, dc.SizeBounds.from_ratios(K, n_samples=n, lower=0.9, upper=1.1)


def test_ctrl_c_in_a_block_returns_the_labels_so_far(rng, handler, capfd) -> None:
    x, bounds = problem(rng)
    seen = []

    def progress(state, _):
        seen.append(state)
        if state.n_iter == 2:
            press()

    options = {"metric": "euclidean", "progress": progress, "tol": 0.0}
    with dc.interruptible() as limit:
        assert not limit.is_late()
        found = dc.constrained_kmeans(x, bounds, x[:K], **options, time_limit=limit)
        assert limit.is_late()
        again = dc.assign_offline(x @ x[:K].T, bounds, time_limit=limit)
    assert (found.n_iter, found.converged) == (2, False)
    np.testing.assert_array_equal(found.centers, seen[-1].centers)
    assert 0.0 < found.gap < 0.1
    for counts in (found.counts, again.counts):
        assert 270 <= counts.min() <= counts.max() <= 330
    assert again.phase == "online passes"  # a search that begins after it ends at once
    assert signal.getsignal(signal.SIGINT) is handler
    assert capfd.readouterr().err.count("SIGINT: ends with the best labels so far") == 1
    # After the block the limit limits nothing.
    later = dc.constrained_kmeans(x, bounds, x[:K], metric="euclidean", time_limit=limit)
    assert later.converged
    assert later.gap <= 1e-4


def test_the_second_ctrl_c_is_an_interrupt(rng, handler) -> None:
    x, bounds = problem(rng)

    def run():
        with dc.interruptible() as limit:
            options = {"progress": press, "tol": 0.0, "time_limit": limit}
            dc.constrained_kmeans(x, bounds, x[:K], metric="euclidean", **options)
            press()

    with pytest.raises(KeyboardInterrupt):
        run()
    assert signal.getsignal(signal.SIGINT) is handler


def test_without_a_block_nothing_is_different(rng) -> None:
    x, bounds = problem(rng)
    with pytest.raises(KeyboardInterrupt):
        dc.constrained_kmeans(x, bounds, x[:K], metric="euclidean", progress=press)


def test_an_estimator_keeps_the_best_of_its_starts_so_far(rng) -> None:
    """A copy, as a pipeline or a search makes it, has the limit of the estimator."""
    x, _ = problem(rng)
    starts = []

    def third(rows, k, random_state):
        starts.append(rows[random_state.choice(len(rows), k, replace=False)])
        if len(starts) == 3:
            press()
        return starts[-1]

    model = dc.ConstrainedKMeans(K, lower=0.9, upper=1.1, init=third, n_init=5, random_state=0)
    with dc.interruptible() as limit:
        fitted = clone(model.set_params(time_limit=limit)).fit(x)
    assert len(starts) == 3  # the third is drawn, and not begun
    assert fitted.n_iter_ > 0  # of the first or second start, which were whole
    assert fitted.gap_ <= 1e-4
    assert 270 <= fitted.counts_.min() <= fitted.counts_.max() <= 330


def test_blocks_within_blocks_and_seconds_as_well(rng) -> None:
    x, bounds = problem(rng)
    with dc.interruptible() as outer:
        with dc.interruptible(time_limit=0.0) as inner:
            assert inner.is_late()  # by the clock
            found = dc.constrained_kmeans(x, bounds, x[:K], metric="euclidean", time_limit=inner)
            assert found.n_iter == 0
        with dc.interruptible() as inner:
            press()
            assert inner.is_late()
        assert not outer.is_late()
        press()
        assert outer.is_late()
    assert not inner.is_late()
    with pytest.raises(dc.DualclustError, match="time_limit must lie in"):
        dc.interruptible(time_limit=-1.0).__enter__()


def test_a_thread_changes_nothing(handler) -> None:
    """Python delivers signals to the main thread alone."""
    found = []

    def work():
        with dc.interruptible() as limit:
            found.append((limit.is_late(), signal.getsignal(signal.SIGINT) is handler))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [(False, True)]
