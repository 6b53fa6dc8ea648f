"""What `dualclust train` prints of a run, recomputed from its images and files."""

from __future__ import annotations

import csv
import json
import re

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

import dualclust as dc
from dualclust.cli.main import main
from tests.cli.cluster_files import dual_of
from tests.train.runs import N, write_images

SETTINGS = (
    "epochs=2",
    "batch_size=32",
    "heads.clusters=[10, 20]",
    "optim.warmup_epochs=1",
    "network.width=2",
    "network.hidden=16",
    "network.out_dim=8",
    "evaluation.views=0",
    "evaluation.every=1",
)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """(images, classes, run folder, what was printed, the lines of assignments.csv)."""
    home = tmp_path_factory.mktemp("numbers")
    path, folder, log = write_images(home / "small.npz"), home / "run", home / "out.txt"
    settings = [word for setting in SETTINGS for word in ("--set", setting)]
    command = ["train", "secu", "--data", str(path), "--recipe", "secu_digits", *settings]
    with pytest.MonkeyPatch.context() as patch, log.open("w") as file:
        patch.setattr("sys.stdout", file)
        assert main([*command, "--out", str(folder)]) == 0
    with np.load(path) as data:
        images, classes = data["images"], data["labels"]
    with (folder / "assignments.csv").open() as file:
        lines = list(csv.DictReader(file))
    return images, classes, folder, log.read_text(), lines


def column(lines, name):
    return np.asarray([int(line[name]) for line in lines])


def test_sizes_bounds_and_certificate(finished):
    images, _, folder, out, lines = finished
    labels, nearest = column(lines, "cluster"), column(lines, "nearest")
    counts = np.bincount(labels, minlength=10)
    free = np.bincount(nearest, minlength=10)
    low, high = -(-9 * N // 100), 11 * N // 100  # 0.9 and 1.1 times N / 10, inward
    sizes = re.search(
        r"sizes +(\d+) to (\d+), bounds (\d+) to (\d+), violation (\d+); by argmax (\d+) to (\d+)",
        out,
    )
    found = [int(number) for number in sizes.groups()]
    assert found == [counts.min(), counts.max(), low, high, 0, free.min(), free.max()]
    assert f"clusters      10 of {N} samples" in out
    model = dc.load(folder)
    features = np.asarray(model.embed(images), np.float64)
    centers = np.load(folder / "centers.npy").astype(np.float64)
    np.testing.assert_allclose(np.linalg.norm(features, axis=1), 1.0, atol=1e-5)
    scores, line = features @ centers.T, np.arange(N)
    np.testing.assert_allclose(scores[line, nearest], scores.max(axis=1), atol=1e-5)
    prices = np.asarray(model.prices, np.float64)
    dual = dual_of(scores, prices, np.full(10, low), np.full(10, high))
    own = scores[line, labels]
    gap = float(re.search(r"labels within ([\d.e+-]+) of the best", out)[1])
    assert gap == pytest.approx((dual - own.sum()) / max(np.abs(own).sum(), abs(dual)), abs=1e-5)
    # Margin and runner-up of each label, at these prices.
    priced = scores + prices
    label = priced[line, labels]
    priced[line, labels] = -np.inf
    runner_up = column(lines, "runner_up")
    np.testing.assert_allclose(priced[line, runner_up], priced.max(axis=1), atol=1e-5)
    margins = np.asarray([float(each["margin"]) for each in lines])
    np.testing.assert_allclose(margins, label - priced.max(axis=1), atol=2e-5)


def test_agreement_with_the_classes(finished):
    _, classes, folder, out, lines = finished
    assert column(lines, "class").tolist() == classes.tolist()
    last = json.loads((folder / "metrics.jsonl").read_text().splitlines()[-1])
    printed = re.findall(r"ACC ([\d.]+)  NMI ([\d.]+)  ARI ([\d.]+)  \(([^)]*)\)", out)
    kinds = {"labels inside the bounds": ("cluster", ""), "argmax": ("nearest", "argmax_")}
    seen = 0
    for *figures, what in printed:
        ((name, prefix),) = [kind for words, kind in kinds.items() if words in what]
        labels = column(lines, name)
        table = np.zeros((10, 10))
        np.add.at(table, (labels, classes), 1)
        rows, columns = linear_sum_assignment(-table)
        expected = {
            "acc": table[rows, columns].sum() / N,
            "nmi": normalized_mutual_info_score(classes, labels),
            "ari": adjusted_rand_score(classes, labels),
        }
        for (short, value), shown in zip(expected.items(), figures, strict=True):
            assert float(shown) == pytest.approx(value, abs=5.1e-4)
            assert last[f"{prefix}{short}"] == pytest.approx(value, abs=1e-6)
        seen += 1
    assert seen == len(printed) > 0
    sizes = np.bincount(column(lines, "cluster"), minlength=10)
    assert sizes.sum() == N
