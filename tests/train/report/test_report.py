"""Pictures of a run: every pixel and caption says what the result says."""

import os
import sys

import numpy as np
import pytest
import torch
from PIL import Image

from dualclust.algos.core.errors import InvalidValueError, MissingExtraError, OutputError
from dualclust.common import plotting
from dualclust.train.data.samples import load_source
from dualclust.train.report import figures
from dualclust.train.report.figures import write_curves, write_gallery, write_sizes


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def texts(monkeypatch):
    """Everything written on the figures that are saved."""
    found = []
    save = plotting.save_png

    def spy(figure, path):
        from matplotlib.text import Text

        found.extend(t.get_text() for t in figure.findobj(Text) if t.get_text())
        return save(figure, path)

    monkeypatch.setattr("dualclust.train.report.figures.save_png", spy)
    return found


def pixels(path):
    with Image.open(path) as image:
        return np.asarray(image.convert("RGB"))


def count(picture, color):
    rgb = [int(color[i : i + 2], 16) for i in (1, 3, 5)]
    return int((picture == rgb).all(-1).sum())


# -- gallery --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("k", "most"),
    [
        (1, 200),
        (10, 200),
        *(pytest.param(k, 200, marks=pytest.mark.slow) for k in (30, 100, 300)),
    ],
)
def test_gallery_of_digits(tmp_path, rng, texts, k, most):
    assert figures._MOST_ROWS == 200
    data = load_source("digits")
    labels = rng.integers(0, k, 1797)
    path = write_gallery(
        tmp_path / "g.png",
        data.images,
        torch.from_numpy(labels),
        rng.random(1797),
        n_clusters=k,
        true_labels=data.labels,
        class_names=data.class_names,
        title="digits",
    )
    height, width, _ = pixels(path).shape
    assert "digits" in texts
    # A single row is a strip; any more make a page.
    assert 0.6 < width / height < (6 if k == 1 else 2.5)
    rows = min(k, most)
    assert sum(text.isdigit() for text in texts) == rows
    amounts = [text for text in texts if text.endswith((" image", " images")) or text == "empty"]
    assert len(amounts) == rows


def test_each_image_stands_where_it_belongs(tmp_path):
    # 6 images of cluster 0, each of one grey, with falling scores; 2 columns typical, 1 doubtful.
    greys = np.array([50, 60, 70, 80, 90, 100], np.uint8)
    images = np.broadcast_to(greys[:, None, None, None], (6, 1, 8, 8)).copy()
    scores = np.array([0.1, 0.9, 0.3, 0.8, -1.0, 0.5])
    path = write_gallery(tmp_path / "g.png", images, np.zeros(6, int), scores, n_columns=3,
                         n_doubtful=1)  # fmt: skip
    picture = pixels(path)[:, :, 0]
    columns = {g: np.flatnonzero((picture == g).sum(0) >= 72) for g in greys}
    shown = [g for g in greys if len(columns[g]) == 72]
    assert shown == [60, 80, 90]
    assert columns[60].max() < columns[80].min() < columns[80].max() < columns[90].min()
    near, far = columns[80].min() - columns[60].max(), columns[90].min() - columns[80].max()
    assert far > 3 * near


def test_pixels_are_exact_squares(tmp_path):
    image = np.zeros((1, 3, 8, 8), np.uint8)
    image[0, :, 2, 5] = (10, 200, 30)
    path = write_gallery(tmp_path / "g.png", image, np.zeros(1, int), np.ones(1))
    where = np.argwhere((pixels(path) == (10, 200, 30)).all(-1))
    assert len(where) == 81
    assert (np.ptp(where, axis=0) == 8).all()


def test_large_images_shrink_and_small_ones_grow():
    images = np.arange(2 * 3 * 224 * 200).reshape(2, 3, 224, 200).astype(np.uint8)
    assert plotting.magnify(images, 72).shape == (2, 112, 100, 3)
    assert plotting.magnify(images[:, :1, :8, :6], 48).shape == (2, 48, 36, 3)
    assert plotting.magnify(np.full((1, 1, 300, 300), 7, np.uint8), 48).tolist()[0][0][0] == [7] * 3


def test_captions_tell_size_class_and_purity(tmp_path, texts):
    images = np.zeros((5, 1, 8, 8), np.uint8)
    write_gallery(
        tmp_path / "g.png",
        images,
        np.array([0, 0, 0, 0, 2]),
        np.arange(5.0),
        n_clusters=3,
        true_labels=np.array([1, 1, 0, 1, 0]),
        class_names=("cat", "$dog$"),
    )
    assert {"4 images", "$dog$ · 75 %", "empty", "cat · 100 %"} <= set(texts)
    assert any("3 clusters · 5 images · purity 80.0 %" in text for text in texts)
    # One image is not of its row's majority class: the frame and the word "empty".
    assert count(pixels(tmp_path / "g.png"), plotting.ORANGE) > 4 * 3 * 72


def test_without_classes_nothing_is_framed(tmp_path, texts):
    write_gallery(tmp_path / "g.png", np.zeros((5, 1, 8, 8), np.uint8), np.zeros(5, int),
                  np.arange(5))  # fmt: skip
    assert count(pixels(tmp_path / "g.png"), plotting.ORANGE) == 0
    assert not any("purity" in text for text in texts)


def test_a_picture_is_a_function_of_its_data(tmp_path, rng):
    data = load_source("digits")
    arguments = data.images, rng.integers(0, 10, 1797), rng.random(1797)
    a, b = (write_gallery(tmp_path / f"{i}.png", *arguments).read_bytes() for i in range(2))
    assert a == b


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"images": np.zeros((4, 1, 8, 8))}, "images must be .* uint8, got .* float64"),
        ({"images": np.zeros((4, 8, 8), np.uint8)}, r"images must be .* got \(4, 8, 8\)"),
        ({"labels": np.zeros(3, int)}, r"labels must have shape \(4,\).* got \(3,\)"),
        ({"labels": np.zeros(4)}, "labels must be integers, got float64"),
        ({"labels": np.array([0, -1, 0, 0])}, r"labels must lie in 0 … 0, got -1 … 0"),
        ({"n_clusters": 1, "labels": np.arange(4)}, r"labels must lie in 0 … 0, got 0 … 3"),
        ({"scores": np.zeros((4, 1))}, r"scores must have shape \(4,\)"),
        ({"true_labels": np.zeros(5, int)}, r"true_labels must have shape \(4,\)"),
        ({"true_labels": np.array([0, 0, 0, -1])}, r"true_labels must be 0 or more, got -1"),
        ({"n_columns": 3, "n_doubtful": 3}, r"n_doubtful must be .* below n_columns=3, got 3"),
    ],
)
def test_gallery_misuse_is_named(tmp_path, change, message):
    arguments = {"images": np.zeros((4, 1, 8, 8), np.uint8), "labels": np.zeros(4, int)}
    arguments |= {"scores": np.zeros(4)} | change
    with pytest.raises(InvalidValueError, match=message):
        write_gallery(tmp_path / "g.png", **arguments)
    assert not list(tmp_path.iterdir())


# -- sizes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [1, 10, 100, 1000])
def test_sizes_inside_their_bounds(tmp_path, rng, texts, k):
    counts = rng.integers(90, 111, k)
    write_sizes(tmp_path / "s.png", torch.from_numpy(counts), 90, 110)
    assert f"Cluster sizes {counts.min()} to {counts.max()}" in texts
    assert "lower 90 · upper 110 · all inside" in texts
    assert {"lower 90", "upper 110"} <= set(texts)
    assert count(pixels(tmp_path / "s.png"), plotting.ORANGE) == 0


def test_sizes_outside_stand_out(tmp_path, texts):
    write_sizes(tmp_path / "s.png", [10, 20, 30], 15, 25.5)
    assert "lower 15 · upper 25.5 · 2 of 3 outside" in texts
    assert {"10", "20", "30"} <= set(texts)
    picture = pixels(tmp_path / "s.png")
    ratio = count(picture, plotting.ORANGE) / count(picture, plotting.BLUE)
    assert ratio == pytest.approx(2, rel=0.1)


def test_a_bound_that_is_off_is_not_drawn(tmp_path, texts):
    write_sizes(tmp_path / "s.png", [10, 20], 0, float("inf"))
    assert "no bounds" in texts
    write_sizes(tmp_path / "s.png", [10, 20], None, 15)
    assert "upper 15 · 1 of 2 outside" in texts


def test_a_bound_of_all_samples_is_none(tmp_path, texts):
    """What a run without bounds has: a line at 1,797 would squeeze bars of 180."""
    write_sizes(tmp_path / "s.png", [170, 190, 180], 0, 540)
    assert "no bounds" in texts
    bars = count(pixels(tmp_path / "s.png"), plotting.BLUE)
    write_sizes(tmp_path / "s.png", [170, 190, 180])
    assert count(pixels(tmp_path / "s.png"), plotting.BLUE) == bars


def test_bounds_of_each_cluster(tmp_path, texts):
    upper = np.array([20, np.inf, 30])
    write_sizes(tmp_path / "s.png", [10, 99, 30], torch.tensor([5, 0, 10]), upper)
    assert "lower 0 to 10 · upper 20 to inf · all inside" in texts


def test_all_empty(tmp_path, texts):
    write_sizes(tmp_path / "s.png", [0, 0, 0], 1)
    assert "lower 1 · 3 of 3 outside" in texts


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([],), r"counts must have shape \(k,\) with k of 1 or more, got \(0,\)"),
        ((np.zeros((2, 2)),), r"got \(2, 2\)"),
        (([1, 2], [1, 2, 3]), r"lower must be a number or have shape \(2,\)"),
        (([1, 2], None, float("nan")), r"upper must be a number .* without nan"),
    ],
)
def test_sizes_misuse_is_named(tmp_path, arguments, message):
    with pytest.raises(InvalidValueError, match=message):
        write_sizes(tmp_path / "s.png", *arguments)


# -- curves ---------------------------------------------------------------------------------------


def test_curves(tmp_path, texts):
    records = [{"epoch": e, "loss": 1 / e, "size_min": 3, "size_max": 9} for e in range(1, 9)]
    records[3] |= {"acc": 0.5, "nmi": 0.4, "ari": 0.3}
    records[7] |= {"acc": 0.91, "nmi": 0.9, "ari": 0.89, "churn": 0.1}
    write_curves(tmp_path / "c.png", records)
    titles = {"loss", "agreement with the classes", figures.SIZES, "churn"}
    ends = {"loss 0.125", "acc 0.910", "nmi 0.900", "ari 0.890", "smallest 3", "churn 0.100"}
    assert titles | ends <= set(texts)


def test_curves_of_sizes_have_their_bounds(tmp_path, monkeypatch):
    """Two dashed lines, and none where there is no bound; NMI is seen below AMI."""
    saved = []
    monkeypatch.setattr(figures, "save_png", lambda figure, path: saved.append(figure))
    records = [{"epoch": e, "size_min": 3, "size_max": 9, "nmi": 0.5, "ami": 0.5} for e in (1, 2)]
    for bounds in ((4, 8), (0, float("inf"))):
        write_curves(tmp_path / "c.png", records, bounds=bounds)
    panels = [{axes.get_title(loc="left"): axes for axes in figure.axes} for figure in saved]
    lines = [panel[figures.SIZES].lines for panel in panels]
    assert [[*line.get_ydata()] for line in lines[0][2:]] == [[4, 4], [8, 8]]
    assert len(lines[1]) == 2
    styles = [line.get_linestyle() for line in panels[0]["agreement with the classes"].lines]
    assert styles == ["-", ":"]


@pytest.mark.parametrize(
    "records",
    [
        [{"loss": 1.0}],
        [{"epoch": 5, "loss": float("nan")}, {"epoch": 6, "loss": 2, "acc": None}],
        [{"churn": 0.0}] * 3,
        [{"loss": 2000.0 - e, "center_loss": 1e-9} for e in range(3)],
    ],
)
def test_few_or_odd_records(tmp_path, records):
    assert pixels(write_curves(tmp_path / "c.png", records)).std() > 0


@pytest.mark.parametrize("records", [[], [{}], [{"epoch": 1, "lr": 0.1}], [{"loss": np.nan}]])
def test_nothing_to_draw(tmp_path, records):
    with pytest.raises(InvalidValueError, match="records must hold a loss"):
        write_curves(tmp_path / "c.png", records)


# -- files ----------------------------------------------------------------------------------------


def test_a_failed_write_leaves_the_old_picture(tmp_path, monkeypatch):
    path = write_sizes(tmp_path / "s.png", [1, 2])
    before = path.read_bytes()

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OutputError, match=r"s\.png: No space left on device"):
        write_sizes(path, [3, 4])
    assert [p.name for p in tmp_path.iterdir()] == ["s.png"]
    assert path.read_bytes() == before


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(OutputError, match=r"cannot write .*nowhere"):
        write_sizes(tmp_path / "nowhere" / "s.png", [1, 2])


def test_matplotlib_is_optional(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'dualclust\[train\]'"):
        write_sizes(tmp_path / "s.png", [1, 2])


def test_no_global_state_is_touched(tmp_path):
    import subprocess
    import sys

    code = """
import sys
from dualclust.train.report.figures import write_sizes
assert "matplotlib" not in sys.modules
write_sizes(sys.argv[1], [1, 2], 1, 2)
assert "matplotlib.pyplot" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "s.png")], check=True)
