"""Figures of a run's page against numbers that are counted by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dualclust.common.page.numbers import histogram, maps_of
from dualclust.train.report.page import Found, Pictures, figures, found_parts
from dualclust.train.report.page.figures import cluster_data, curves_of
from tests.train.report.test_run_page import found_of

# Nine samples of four clusters, the last one empty; a class is unknown, a margin infinite.
NINE = Found(
    epoch=7,
    labels=np.array([0, 2, 1, 0, 2, 0, 1, 2, 0]),
    nearest=np.array([1, 2, 1, 2, 0, 0, 1, 1, 2]),
    runner_up=np.array([1, 0, -1, 1, 3, 2, 0, 1, 1]),
    margins=np.array([0.5, 0.123456, math.inf, 0.3, 0.2, 0.1, 0.05, 0.4, 0.6]),
    near=np.array([0.98765, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1]),
    loss=np.array([0.2, 0.0, 0.0, 0.234567, 0.9, 0.0, 0.0, 0.1, 0.3]),
    features=np.arange(18, dtype=np.float32).reshape(9, 2) ** 2,
    prices=np.array([0.25, -0.5, 0.1234567, 0.0]),
    lower=np.array([4, 0, 1, 0]),
    upper=np.array([9, 2, 3, 9]),
    gap=0.125,
    ids=np.arange(9) + 100,
    names=tuple(f"{i}.png" for i in range(9)),
    classes=np.array([1, 2, 0, 1, 2, 0, -1, 0, 1]),
    class_names=("cat", "dog"),
)


def test_what_is_said_of_each_cluster():
    found = found_parts(NINE, None)
    assert found["counts"] == [4, 2, 3, 0]
    assert (found["lower"], found["upper"]) == ([4, None, 1, None], [None, 2, 3, None])
    assert (found["held"], found["prices"]) == ([1, -1, 1, 0], [0.25, -0.5, 0.123457, 0.0])
    # Moved by the bounds: into 0 three, into 2 two; out of 0, 1 and 2.
    assert (found["movedIn"], found["movedOut"]) == ([3, 0, 2, 0], [1, 2, 2, 0])
    assert (found["moved_total"], found["epoch"], found["gap"]) == (5, 7, 0.125)
    assert (found["images"], found["pixels"], found["left_out"]) == ([], False, 0)
    # Second choices of 0 are 1, 1, 1 and 2; of 1 one is unknown; those of 2 are as many each.
    assert found["next"] == [
        [[1, 0.75], [2, 0.25]],
        [[0, 0.5]],
        [[0, 0.333], [1, 0.333], [3, 0.333]],
        [],
    ]


def test_a_bound_of_none_or_of_all_samples_is_none():
    counts, prices = np.array([3, 7, 0]), np.array([0.5, -0.5, 0.0])
    found = cluster_data(counts, np.array([0, 1, 2]), np.array([11, 10, 9]), prices, 10)
    assert found == {
        "counts": [3, 7, 0],
        "lower": [None, 1, 2],
        "upper": [None, None, 9],
        "held": [0, 0, 0],
        "prices": [0.5, -0.5, 0.0],
    }


def test_moved_samples_are_those_that_lose_most_by_cluster():
    moved = found_parts(NINE, None)["moved"]
    assert moved["row"] == [108, 103, 100, 104, 107]
    assert moved["cluster"] == [0, 0, 0, 2, 2]
    assert moved["free"] == [2, 2, 1, 0, 1]
    assert moved["second"] == [1, 1, 1, 3, 1]
    assert moved["loss"] == [0.3, 0.2346, 0.2, 0.9, 0.1]
    assert moved["near"] == [0.1, 0.6, 0.9877, 0.5, 0.2]
    assert moved["margin"] == [0.6, 0.3, 0.5, 0.2, 0.4]


def test_of_equal_losses_the_first_sample_comes_first():
    """In an order that an unstable sort of so many does not keep; 3,000 are listed."""
    n = 6_000
    found = found_of(n, 2)._replace(
        labels=np.arange(n) % 2, nearest=1 - np.arange(n) % 2, loss=np.full(n, 0.5)
    )
    rows = found_parts(found, None)["moved"]["row"]
    assert rows == [*range(1000, 4000, 2), *range(1001, 4000, 2)]


def test_an_endless_margin_is_none():
    (unknown,) = [
        margin
        for kind in ("exemplars", "random", "doubtful")
        for columns in [found_parts(NINE, None)[kind]]
        for row, margin in zip(columns["row"], columns["margin"], strict=True)
        if row == 102
    ]
    assert unknown is None
    columns = found_parts(NINE, None)["exemplars"]
    assert columns["margin"][columns["row"].index(101)] == 0.1235


def test_what_is_said_of_each_sample():
    rows = found_parts(NINE, None)["rows"]
    assert sorted(rows) == [str(row) for row in range(100, 109)]
    # Most of cluster 0 are dogs, of cluster 1 is one cat, of 2 most are of the class without name.
    assert rows["100"] == {"text": "0.png", "class": "dog", "odd": 0}
    assert rows["105"] == {"text": "5.png", "class": "cat", "odd": 1}
    assert rows["101"] == {"text": "1.png", "class": "2", "odd": 0}
    assert rows["107"] == {"text": "7.png", "class": "cat", "odd": 1}
    assert rows["106"] == {"text": "6.png"}
    plain = found_parts(NINE._replace(classes=None, names=None), None)
    assert plain["rows"]["100"] == {}
    assert plain["classes"] is None


def test_images_have_a_name_where_files_have_none():
    def images(some):
        return np.zeros((len(some), 1, 2, 2), np.uint8)

    made = found_parts(NINE._replace(names=None), Pictures(images))
    assert made["pixels"] is True
    assert len(made["images"]) == 9
    assert all(entry["text"] == f"image {row}" for row, entry in made["rows"].items())
    assert not any("under" in entry for entry in made["rows"].values())
    named = found_parts(NINE, Pictures(images, images))["rows"]
    assert named["103"]["text"] == "3.png"
    assert sorted(entry["image"] for entry in named.values()) == list(range(9))
    assert sorted(entry["under"] for entry in named.values()) == list(range(9, 18))


def test_long_names_keep_their_end():
    names = ["a\tb\n c", "x" * 80, "y" + "x" * 80, "z"]
    found = NINE._replace(names=names + ["."] * 5, class_names=("é\x1f", "w" * 81))
    rows = found_parts(found, None)["rows"]
    shown = [rows[str(100 + i)]["text"] for i in range(3)]
    assert shown == ["a b  c", "x" * 80, "…" + "x" * 79]
    assert rows["102"]["class"] == "é "
    assert rows["100"]["class"] == "…" + "w" * 79


def test_the_table_of_clusters_and_classes():
    found = found_parts(NINE, None)["classes"]
    # cluster 0: cat, dog x 3; 1: cat (one is unknown); 2: cat, class 2 twice; 3: none.
    assert found == {
        "names": ["cat", "dog", "2"],
        "majority": [1, 0, 2, 0],
        "share": [0.75, 1.0, 0.6667, 0.0],
        "order": [1, 3, 0, 2],
        "table": [[1, 0, 0], [0, 0, 0], [1, 3, 0], [1, 0, 2]],
    }
    assert type(found["table"][0][0]) is int
    unknown = NINE._replace(classes=np.full(9, -1))
    assert found_parts(unknown, None)["classes"] is None


def test_of_a_large_table_the_largest_confusions_are_listed():
    """A table has 900 cells: of 2 clusters of 450 classes it is there, of 451 it is not."""
    for k, whole in ((450, True), (451, False)):
        amounts = np.arange(1, k + 1)
        labels = np.repeat(np.arange(2), amounts.sum())
        classes = np.tile(np.repeat(np.arange(k), amounts), 2)
        many = found_of(len(labels), 2)._replace(
            labels=labels, classes=classes, class_names=(), runner_up=1 - labels
        )
        found = figures._confusion(many)
        assert ("table" in found, "order" in found) == (whole, whole)
        if not whole:  # all but one class are confusions, of which 40 are shown
            expected = [[i, k - 1 - j, k - j] for j in range(1, 21) for i in (0, 1)]
            assert found["mixed"] == expected


@pytest.mark.parametrize(("n", "every"), [(90, 1), (20_000, 1), (20_001, 2), (40_001, 3)])
def test_margins_are_of_every_so_many_samples(n, every):
    found = found_of(n, 5)
    assert found_parts(found, None)["margins"] == histogram(found.margins[::every])


@pytest.mark.parametrize(("n", "k", "every"), [(9, 4, 1), (5_001, 13, 2), (60, 12, 1)])
def test_a_map_is_of_means_and_of_every_so_many_samples(n, k, every):
    """Neighborhoods are drawn of more than a dozen clusters."""
    found = NINE if n == 9 else found_of(n, k)
    features = found.features.astype(np.float64)
    means = [
        features[found.labels == j].mean(0) if (found.labels == j).any() else features.mean(0)
        for j in range(k)
    ]
    expected = maps_of(
        np.stack(means),
        np.bincount(found.labels, minlength=k),
        [features[::every]],
        labels=found.labels[::every],
        runner_up=found.runner_up[::every],
        margin=found.margins[::every],
        neighborhoods=k > 12,
    )
    shown = figures._maps(found)
    assert shown == expected
    assert len(shown["all"]) == 1 + (k > 12)


def test_every_figure_has_its_panel():
    names = (
        *("sup_loss", "loss", "lr", "churn", "size_min", "size_max", "test_acc", "test_ami"),
        *("argmax_acc", "argmax_nmi", "acc", "stored_acc", "argmax_size_min", "argmax_size_max"),
        *("effective_clusters", "uniformity", "label_gap_max", "label_error_max", "probe"),
    )
    records = [{"epoch": e} | {name: e + i / 7 for i, name in enumerate(names)} for e in (1, 2)]
    panels = curves_of(records, (3, 8, 9))
    shown = [
        (p["title"], [line["name"] for line in p["lines"]], p.get("low"), p.get("high"))
        for p in panels
    ]
    assert shown == [
        ("Loss", ["loss", "sup loss"], None, None),
        ("Learning rate", ["lr"], 0, None),
        ("Churn: share of samples that changed cluster", ["churn"], 0, None),
        ("Sizes by the labels of training", ["largest", "smallest"], 0, None),
        (
            "Agreement with the classes",
            [f"{name}, held out" for name in ("acc", "ami")]
            + ["acc, argmax", "nmi, argmax", "acc, training labels"],
            0,
            1,
        ),
        ("Sizes without bounds", ["largest", "smallest"], 0, None),
        ("Effective number of clusters", ["effective clusters"], 0, None),
        ("Spread of the features, 0 when collapsed", ["uniformity"], None, None),
        ("Certificate of the labels", ["label gap max", "label error max"], 0, None),
    ]  # fmt: skip
    assert panels[3]["marks"] == [["lower bound", 3], ["upper bound", 8]]
    assert panels[0]["lines"][0] == {"name": "loss", "x": [1, 2], "y": [1.1429, 2.1429]}


@pytest.mark.parametrize(
    ("bounds", "marks"),
    [
        ((1, 9, 9), [["lower bound", 1]]),
        ((0, 8, 9), [["upper bound", 8]]),
        ((0, 9, 9), []),
        ((0, 10, 9), []),
    ],
)
def test_bounds_that_bind_nothing_are_not_drawn(bounds, marks):
    records = [{"epoch": 1, "size_min": 2, "size_max": math.nan}]
    (panel,) = curves_of(records, bounds)
    assert panel["marks"] == marks
    assert [line["name"] for line in panel["lines"]] == ["smallest"]


def test_how_much_a_page_holds():
    """Of dots, of samples behind the margins and in a list, of clusters on a map, of cells."""
    assert (figures.DOTS, figures.SAMPLE, figures.LISTED) == (5_000, 20_000, 3_000)
    assert (figures.MOST_NEIGHBORS, figures.CELLS) == (2_000, 900)
