"""Groups of samples that are most alike, and those far from all others, on rows made for it."""

from __future__ import annotations

import numpy as np
import pytest

from dualclust.train.report.page import Pictures, found_parts
from dualclust.train.report.page.alike import ALONE, GROUPS, groups_and_loners
from dualclust.train.report.page.figures import TILES
from tests.train.report.test_run_page import found_of, gray


def nearest(rows):
    """Each row's nearest other one and their cosine, by all pairs."""
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    cosines = unit @ unit.T - 3.0 * np.eye(len(rows))
    return cosines.argmax(axis=1), cosines.max(axis=1)


@pytest.fixture
def planted(rng):
    """Rows of noise with five copies of row 3, a pair that is nearly one, and a loner."""
    rows = rng.normal(size=(100, 6))
    rows[:, 0] += 2.0
    rows[[10, 20, 30, 40, 50]] = rows[3]
    rows[61] = rows[60] + 1e-2
    rows[99] = [-9, 0, 0, 0, 0, 0]
    return rows


def test_copies_are_one_group_and_come_first(planted):
    found = groups_and_loners(*nearest(planted))
    assert sorted(found.groups[0]) == [3, 10, 20, 30, 40, 50]
    assert found.least[0] == pytest.approx(1.0)
    assert found.copies == 6 + (found.least[1] >= 0.9999) * 2
    assert found.groups[1][:2] == [60, 61]
    assert found.alone[0] == 99


def test_a_twentieth_is_listed_and_each_sample_once(planted):
    near, cosines = nearest(planted)
    found = groups_and_loners(near, cosines)
    listed = [i for group in found.groups for i in group]
    assert len(listed) == len({*listed, *found.alone}) - len(found.alone)
    assert len(found.alone) == 5
    assert sorted(cosines[found.alone])[-1] <= np.sort(cosines)[5 + len(listed)]
    # Links of 5 samples beside the copies: each adds two samples at most.
    assert len(listed) <= found.copies + 10
    for group, least in zip(found.groups, found.least, strict=True):
        assert max(cosines[i] for i in group) >= least


def test_of_many_samples_so_many_groups(rng):
    n = 4000
    found = groups_and_loners(*nearest(rng.normal(size=(n, 8))))
    assert len(found.groups) == len(found.least) == GROUPS
    assert len(found.alone) == ALONE


def test_two_groups_that_a_link_joins_are_one():
    near, cosines = np.arange(80), np.full(80, 0.1)
    for i, j, cosine in ((0, 1, 0.99), (2, 3, 0.98), (1, 2, 0.97), (4, 5, 0.96)):
        near[i], cosines[i] = j, cosine
    found = groups_and_loners(near, cosines)
    assert found.groups == [[0, 1, 2, 3], [4, 5]]
    assert found.least == [0.97, 0.96]


def test_few_samples_without_copies_list_none():
    found = groups_and_loners(np.array([1, 0, 1]), np.array([0.9, 0.9, 0.2]))
    assert found == ([], [], [], 0)


def test_the_page_has_their_ids_names_and_images():
    n = 90
    near, cosines = np.roll(np.arange(n), 1), np.linspace(0.2, 0.6, n)
    near[:30], cosines[:30] = 31, 1.0
    found = found_of(n)._replace(alike=(near, cosines), names=tuple(f"{i}.png" for i in range(n)))
    parts = found_parts(found, Pictures(gray))
    told = parts["alike"]
    assert told["groups"][0] == [1000, 1031, *range(1001, 1011)]
    assert (told["sizes"][0], len(told["groups"][0]), told["copies"]) == (31, TILES, 30)
    for row in [*told["groups"][0], *told["alone"]]:
        entry = parts["rows"][str(row)]
        assert entry["text"] == f"{row - 1000}.png"
        assert entry["image"] < len(parts["images"])
    assert found_parts(found._replace(alike=None), Pictures(gray))["alike"] is None
