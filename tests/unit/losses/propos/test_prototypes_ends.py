"""Prototypes where a mass or a resultant is at the edge of having a direction."""

import numpy as np
import pytest

from dualclust.algos.losses.propos.prototypes import (
    Prototypes,
    PrototypeSums,
    normalize_sums,
    update_prototypes,
)
from tests.compare import assert_equal, to_numpy

LEAST = 2.0**-63  # the root of the smallest normal number of float32


@pytest.mark.parametrize(
    ("resultant", "there"), [(2.0**-20, True), (0.999 * 2.0**-20, False), (1.001 * 2.0**-20, True)]
)
@pytest.mark.parametrize("mass", [1.0, 64.0])
def test_a_direction_has_a_millionth_of_the_mass(xp, resultant, there, mass):
    sums = PrototypeSums(xp.asarray([[0.0, -mass * resultant]]), xp.asarray([mass]))
    found = normalize_sums(sums)
    assert to_numpy(found.valid).tolist() == [there]
    expected = [[0.0, -1.0 if there else 0.0]]
    np.testing.assert_allclose(to_numpy(found.vectors), expected, rtol=1e-12)


@pytest.mark.parametrize(("mass", "there"), [(LEAST, False), (1.01 * LEAST, True), (0.0, False)])
def test_a_mass_is_more_than_a_posterior_that_vanishes(xp, mass, there):
    found = normalize_sums(PrototypeSums(xp.asarray([[mass, 0.0]]), xp.asarray([mass])))
    assert to_numpy(found.valid).tolist() == [there]
    assert to_numpy(found.vectors).tolist() == [[float(there), 0.0]]


def test_a_momentum_of_one_moves_no_bit_and_less_does(xp):
    """Rows that are of unit length but for rounding: normalizing them would change their bits."""
    rows = np.asarray([[0.6, 0.8000000000000003], [1.0, 0.0]])
    both = xp.asarray([True, True])
    old, new = Prototypes(xp.asarray(rows), both), Prototypes(xp.asarray(rows[::-1].copy()), both)
    assert_equal(update_prototypes(old, new, momentum=1.0).vectors, old.vectors)
    moved = to_numpy(update_prototypes(old, new, momentum=0.5).vectors)
    np.testing.assert_allclose(moved, np.asarray([[2.0, 1.0]] * 2) / np.sqrt(5.0), rtol=1e-12)
