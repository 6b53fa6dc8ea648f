"""Samples that workers begin with: which, when, and that none is held where nobody asks for it."""

from __future__ import annotations

from contextlib import contextmanager

import numpy as np
import pytest

from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.offline import _trust_region
from dualclust.algos.offline._candidates import TrustRegion
from dualclust.algos.scores.sources import score_source

N, K = 4_000, 3
SIZES = [10, 80, 640, 1_000]
SCORES = np.random.default_rng(0).normal(size=(N, K))
SETTLED, MOVED, TIED = (False, True), (False, False), (True, True)


def events(monkeypatch, outcomes, averages):
    """What happens to the samples, named by their rows, if Newton and averages end like this.

    ``+m`` and ``-m``: begun by workers, and no longer held; ``newton m`` and ``average m``.
    """
    found, outcomes, averages = [], iter(outcomes), iter(averages)
    region = TrustRegion(np.zeros(K), np.ones(K))

    @contextmanager
    def blocks_ahead(source, *, like, edges):
        m = source.group.n_total
        assert edges == _trust_region.parts_of_pass(m, K, like=like)
        found.append(f"+{m}")
        yield source._replace(exponent=m)
        found.append(f"-{m}")

    def refine_on(sample, region, n_attempts, options):
        found.append(f"newton {sample.source.group.n_total}")
        return region, *next(outcomes)

    def averaged_region(sample, bounds, region, before, *, options):
        m = sample.group.n_total
        assert sample.exponent == m  # the source whose blocks workers have
        assert before == SIZES[SIZES.index(m) - 1]
        found.append(f"average {m}")
        return region if next(averages) else None

    monkeypatch.setattr(_trust_region, "_sample_sizes", lambda *_: SIZES)
    monkeypatch.setattr(_trust_region, "blocks_ahead", blocks_ahead)
    monkeypatch.setattr(_trust_region, "_refine_on", refine_on)
    monkeypatch.setattr(_trust_region, "averaged_region", averaged_region)
    bounds = SizeBounds.from_ratios(K, n_samples=N, lower=0.9)
    _trust_region.initial_region(score_source(SCORES), bounds, region.center)
    assert next(outcomes, None) is next(averages, None) is None  # all were used
    return found


@pytest.mark.parametrize(
    ("outcomes", "averages", "expected"),
    [
        (  # the usual case: each sample is begun while the one before is solved
            [SETTLED],
            [True, True, True],
            "+80, newton 10, +640, average 80, -80, +1000, average 640, -640, average 1000, -1000",
        ),
        (  # nobody averages the second sample: it ends first
            [MOVED, SETTLED],
            [True, True],
            "+80, newton 10, -80, newton 80, +640, +1000, average 640, -640, average 1000, -1000",
        ),
        ([MOVED] * 4, [], "+80, newton 10, -80, newton 80, newton 640, newton 1000"),
        (  # an average in doubt: the next sample was begun, and is not held meanwhile
            [SETTLED, SETTLED, MOVED, MOVED],
            [False, False],
            "+80, newton 10, +640, average 80, -80, -640, newton 80, +640, +1000, average 640, "
            "-640, -1000, newton 640, newton 1000",
        ),
        ([TIED], [], "+80, newton 10, -80"),
    ],
    ids=["settled", "moved", "never settled", "in doubt", "tied"],
)
def test_a_sample_is_begun_for_its_average_and_held_no_longer(
    monkeypatch, outcomes, averages, expected
):
    assert ", ".join(events(monkeypatch, outcomes, averages)) == expected


def test_without_fast_passes_nothing_is_begun(monkeypatch):
    monkeypatch.setattr(_trust_region, "passes_are_fast", lambda like: False)
    expected = "newton 10, newton 80, newton 640, newton 1000"
    assert ", ".join(events(monkeypatch, [SETTLED] * 4, [])) == expected


def test_an_error_ends_what_was_begun(monkeypatch):
    def fails(*_):
        assert len(held) == 1
        raise ZeroDivisionError

    held = []

    @contextmanager
    def blocks_ahead(source, *, like, edges):
        held.append(source)
        try:
            yield source
        finally:
            held.pop()

    monkeypatch.setattr(_trust_region, "passes_are_fast", lambda like: True)
    monkeypatch.setattr(_trust_region, "_sample_sizes", lambda *_: SIZES)
    monkeypatch.setattr(_trust_region, "blocks_ahead", blocks_ahead)
    monkeypatch.setattr(_trust_region, "_refine_on", fails)
    bounds = SizeBounds.from_ratios(K, n_samples=N, lower=0.9)
    with pytest.raises(ZeroDivisionError):
        _trust_region.initial_region(score_source(SCORES), bounds)
    assert held == []
