"""Numbers of a page: digits, bars, places in a square, and which bound holds a cluster."""

import base64

import numpy as np
import pytest

from dualclust.common.page import json_text, read_part, script_of
from dualclust.common.page.document import SHARED
from dualclust.common.page.layout import main_plane, neighbor_map, rows_around
from dualclust.common.page.numbers import _box, held, histogram, maps_of, packed, rounded


def unpacked(text, kind):
    return np.frombuffer(base64.b64decode(text), kind)


def test_digits_and_what_is_rounding():
    values = np.asarray([-2.0, 1234567.0, 0.0021, 0.001, -np.inf])
    assert rounded(values, 3) == [-2.0, 1230000.0, 0.0021, 0.0, -np.inf]
    assert rounded(np.asarray([1.0, 2e-9, -1.5e-9, 0.8e-9]), 2) == [1.0, 2e-9, -1.5e-9, 0.0]
    assert rounded(np.asarray([]), 3) == []
    assert rounded(np.asarray([1.0, 1e-9]), 3) == [1.0, 0.0]
    assert rounded(np.asarray([1e-12, 2e-12]), 3) == [1e-12, 2e-12]


def test_margins_are_counted_in_sixty_bars(rng):
    margin = np.concatenate([rng.exponential(size=2000), [-0.5, np.inf, np.nan, 99.0]])
    found = histogram(margin)
    finite = np.maximum(margin[np.isfinite(margin)], 0)
    end = np.quantile(finite, 0.995)
    assert found["n"] == 2002
    assert found["end"] == pytest.approx(end)
    assert end < 99
    assert found["median"] == pytest.approx(np.median(finite))
    assert found["near"] == pytest.approx((finite < 0.01 * end).mean())
    expected = [0] * 60
    for value in finite:
        expected[min(int(value / end * 60), 59)] += 1
    assert np.abs(np.asarray(found["counts"]) - expected).sum() <= 2  # rounding at an edge
    assert sum(found["counts"]) == 2002
    assert histogram(np.full(3, np.inf)) is None
    flat = histogram(np.zeros(4))
    assert (flat["end"], flat["counts"][0], flat["near"]) == (1.0, 4, 1.0)
    assert histogram(np.asarray([0.01, *[1.0] * 999]))["near"] == 0.0  # 1 % is not near


def test_the_bound_that_holds_a_cluster():
    prices = np.asarray([0.3, 0.3, -0.2, -0.2, 0.0, 2e-10, 4e-10, -2e-10, -4e-10])
    lower, upper = np.asarray([1, 0, 4, 4, 4, 1, 1, 4, 4]), np.full(9, 9)
    upper[3] = 10
    # 1e-9 of the largest price is rounding; no lower bound, or one that all samples fit in, is none
    assert held(prices, lower, upper, 10).tolist() == [1, 0, -1, 0, 0, 0, 1, 0, -1]
    assert held(prices, lower, upper, 10).dtype == np.int64
    assert held(np.zeros(2), np.ones(2), np.ones(2), 5).tolist() == [0, 0]


def test_places_are_scaled_into_the_square_both_axes_alike():
    centers = np.asarray([[0.0, 0.0], [4.0, 2.0]])
    found = _box(centers, np.zeros((0, 2)))
    assert (found["x"], found["y"]) == ([0.0, 1.0], [0.75, 0.25])
    assert found["dots"] == ""
    dots = np.concatenate([np.tile([[2.0, 1.0]], (996, 1)), [[-9.0, 1.0], [2.0, 99.0]]])
    found = _box(centers, dots)
    assert found["x"] == [0.0, 1.0]  # the outermost rows lie on the edge
    places = unpacked(found["dots"], "<u2").reshape(-1, 2)
    assert places[0].tolist() == [32767, 32767]
    assert places[-2].tolist() == [0, 32767]
    assert places[-1].tolist() == [32767, 0]
    wide = np.concatenate([np.tile([[2.0, 1.0]], (90, 1)), np.tile([[8.0, 1.0]], (10, 1))])
    assert _box(centers, wide)["x"] == [0.0, 0.5]
    assert _box(np.ones((1, 2)), np.zeros((0, 2)))["x"] == [0.5]
    assert _box(np.asarray([[0.0, 0.0], [3.0, 1.0]]), np.zeros((0, 2)))["y"] == [0.6667, 0.3333]
    assert _box(np.asarray([[0.0, 0.0], [1.0, 3.0]]), np.zeros((0, 2)))["x"] == [0.3333, 0.6667]


def test_rows_widen_the_square_on_all_sides_but_for_two_in_a_thousand():
    """From -9.96 to 9.96 around 100: the outermost two of 1,001 rows lie beyond."""
    line = np.linspace(-10.0, 10.0, 1001)
    for dots in (np.stack([line, 0 * line], 1), np.stack([0 * line, line], 1)):
        found = _box(np.asarray([[100.0, 100.0], [104.0, 104.0]]), dots + 100)
        away = 4 / 19.92
        middle = 0.5 if dots[0, 0] else 0.5 - away / 2
        assert found["x"] == pytest.approx([middle, middle + away], abs=6e-5)
        middle = 0.5 if dots[0, 1] else 0.5 + away / 2
        assert found["y"] == pytest.approx([middle, middle - away], abs=6e-5)
        places = unpacked(found["dots"], "<u2").reshape(-1, 2).astype(float)
        along = places[:, 0] if dots[0, 0] else 65535 - places[:, 1]
        np.testing.assert_allclose(along, np.clip(line / 19.92 + 0.5, 0, 1) * 65535, atol=1.01)
        assert (along[0], along[-1]) == (0, 65535)


def test_a_square_of_no_size_has_side_1():
    dots = np.zeros((1001, 2))
    dots[0] = 0.25
    found = _box(np.zeros((1, 2)), dots)
    assert unpacked(found["dots"], "<u2").reshape(-1, 2)[0].tolist() == [49151, 16383]


@pytest.mark.parametrize(("k", "asked"), [(2, True), (3, True), (4, True), (5, False)])
@pytest.mark.parametrize("ties", [False, True])
def test_maps_of_centers_and_rows(k, asked, ties, rng):
    """Rows lie the nearer to the edge the smaller their margin; of one margin, in their order."""
    centers, counts = rng.normal(size=(k, 6)), np.asarray([0, 9, 1, 4, 2])[:k]
    rows = [rng.normal(size=(7, 6)), rng.normal(size=(3, 6))]
    labels, toward = rng.integers(0, k, size=10), rng.integers(0, k, size=10)
    margin = np.arange(10) % 3 / 2.0 if ties else rng.permutation(10) / 10.0
    found = maps_of(
        centers, counts, rows, labels=labels, runner_up=toward, margin=margin, neighborhoods=asked
    )
    both = asked and k >= 4
    assert [one["name"] for one in found["all"]] == ["Neighborhoods"] * both + ["Main directions"]
    assert unpacked(found["cluster"], "<u4").tolist() == labels.tolist()
    points = np.concatenate(rows)
    of_rows = main_plane(points, np.ones(10))
    plane = main_plane(centers, np.maximum(counts, 1.0)) if k > 2 else of_rows
    flat = plane.project(centers)
    main, note = found["all"][-1], found["all"][-1]["note"]
    expected = _box(flat, plane.project(points))
    assert {name: main[name] for name in expected} == expected
    assert f"of {'the centers' if k > 2 else 'the rows'}: it shows {plane.share:.0%} of" in note
    if both:
        places = neighbor_map(centers, flat)
        order = sorted(range(10), key=lambda i: -margin[i])  # the surest has 0.05 of 1
        doubt = np.asarray([(order.index(i) + 0.5) / 10 for i in range(10)])
        expected = _box(places, rows_around(places, labels, toward, doubt))
        assert {name: found["all"][0][name] for name in expected} == expected


def test_bytes_are_those_of_the_array_in_its_order():
    table = np.arange(6, dtype="<u2").reshape(2, 3)
    assert unpacked(packed(table.T), "<u2").tolist() == [0, 3, 1, 4, 2, 5]


def test_json_can_stand_in_a_script():
    text = json_text({"a": "</script>&\u2028\u2029é", "b": [1, 2]})
    assert text == '{"a":"\\u003c/script\\u003e\\u0026\\u2028\\u2029é","b":[1,2]}'
    assert json_text("\ud800") == '"?"'
    with pytest.raises(ValueError, match="not JSON compliant"):
        json_text(float("nan"))


def test_scripts_are_one_function():
    names = [(SHARED, "base.js"), (SHARED, "rows.js")]
    body = read_part(*names[0]) + read_part(*names[1])
    assert script_of(names) == f'"use strict";\n(() => {{\n{body}}})();\n'
