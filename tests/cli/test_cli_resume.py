"""`dualclust cluster --resume`: a state goes on with all that decides the answer unchanged."""

from __future__ import annotations

import numpy as np
import pytest

from tests.cli.cluster_files import cluster, error_of, groups, listing, save

N, K = 120, 4


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """(folder, input, options by name) of a run that has stopped after two updates."""
    folder = tmp_path_factory.mktemp("stopped")
    x = groups(n=N, k=K, spread=3.0)[0]
    rng = np.random.default_rng(0)
    path = save(folder / "X.npy", x)
    for name, seed in (("start", 1), ("other", 2)):
        made = (path, "--seed", seed, "--max-iter", 1, "--out", folder / name)
        assert cluster(*made, k=K) == 0
    # The same centers with other prices are another start, too.
    with np.load(folder / "start" / "model.npz") as model:
        np.savez(
            folder / "priced.npz", **dict(model) | {"prices": model["prices"] + [0, 0, 0, 0.5]}
        )
    known = np.full(N, -1)
    known[5] = 1
    others = np.full(N, -1)
    others[6] = 1
    options = {
        "--start": folder / "start",
        "--weights": save(folder / "w.npy", rng.uniform(1, 2, N)),
        "--seeds": save(folder / "s.npy", known),
        "--forbidden": save(folder / "f.npy", np.asarray([[0, 1]])),
        "--metric": "cosine",
        "--tol": 0,
        "--gap": 1e-4,
        "--empty": "relocate",
        "--lower": 0.8,
        "--upper": 1.2,
        "--seed": 3,
    }
    save(folder / "w2.npy", rng.uniform(1, 2, N))
    save(folder / "s2.npy", others)
    save(folder / "f2.npy", np.asarray([[0, 2]]))
    x[0, 0] += 1e-9
    save(folder / "Y.npy", x)
    options |= {"--checkpoint": folder / "X.state"}
    end = ("--max-iter", 2, "--out", folder / "first")
    assert cluster(path, *flags(options), *end, k=K) == 0
    return folder, path, options


def flags(options):
    return [part for pair in options.items() for part in pair]


# What is changed, and how the message names it.
CHANGES = {
    "--start": ("other", "init: "),
    "--start of other prices": ("priced.npz", "init: "),
    "--weights": ("w2.npy", "weights: "),
    "--seeds": ("s2.npy", "seeds: "),
    "--forbidden": ("f2.npy", "forbidden: "),
    "--tol": (0.25, "tol: 0.0 there, 0.25 here"),
    "--gap": (0.5, "gap: 0.0001 there, 0.5 here"),
    "--empty": ("keep", "empty: 'relocate' there, 'keep' here"),
    "--lower": (0.5, "bounds: "),
    "--upper": (1.5, "bounds: "),
    "--seed": (4, "seed: 3 there, 4 here"),
}
GONE = {
    "--start": "init: ",
    "--weights": "weights: ",
    "--seeds": "seeds: ",
    "--forbidden": "forbidden: ",
}


@pytest.mark.parametrize("change", CHANGES)
def test_another_value_of_what_decides_the_answer_is_refused(stopped, capsys, change):
    folder, path, options = stopped
    value, words = CHANGES[change]
    value = folder / value if str(value).endswith((".npy", ".npz", "other")) else value
    given = options | {change.partition(" ")[0]: value}
    refused(folder, path, given, capsys, words)


@pytest.mark.parametrize("option", GONE)
def test_leaving_out_what_decides_the_answer_is_refused(stopped, capsys, option):
    folder, path, options = stopped
    given = {name: value for name, value in options.items() if name != option}
    refused(folder, path, given, capsys, GONE[option])


def test_other_rows_are_refused(stopped, capsys):
    folder, _, options = stopped
    refused(folder, folder / "Y.npy", options, capsys, "input: ")


def refused(folder, path, options, capsys, words):
    before = listing(folder)
    capsys.readouterr()
    command = ("cluster", path, "-k", K, *flags(options), "--resume", "--out", folder / "again")
    error = error_of(capsys, 65, *command)
    assert "belongs to another run" in error
    assert words in error
    assert listing(folder) == before


def test_what_does_not_decide_the_answer_may_change(stopped, tmp_path):
    _, path, options = stopped
    more = ("--max-iter", 4, "--resume", "--threads", 2, "--report", "--out", tmp_path / "on")
    state = save_copy(options["--checkpoint"], tmp_path / "state")
    assert cluster(path, *flags(options | {"--checkpoint": state}), *more, k=K) == 0


def save_copy(path, target):
    target.write_bytes(path.read_bytes())
    return target
