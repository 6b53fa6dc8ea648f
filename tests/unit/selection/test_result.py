"""Prices, errors and recommendations from figures made up so that each can be computed by hand."""

import math

import numpy as np
import pytest

from dualclust.algos.selection._runs import FREE, Run
from dualclust.algos.selection.result import Parts, result_of
from dualclust.algos.selection.survey import Survey
from tests.compare import assert_same_kind, to_numpy
from tests.libraries import ONE_EACH

KS = [2, 3, 5]
PAIRS = (FREE, (0.5, 2.0), (0.9, 1.1))


def seen(library, objective, free, upper, silhouette, *counts):
    return Survey(objective, free, upper, silhouette, library.asarray(np.asarray(counts)))


def run(library, lost, gap):
    zeros = library.asarray(np.zeros(1))
    return Run(zeros, None, zeros, lost, gap)


def parts(library):
    """Three k, of which the second is the clearest; bounds cost most at the third.

    Of the last k the free value lies above the objective of its own labels, and bounds lead to
    better centers; that of the first is 0, as where all rows are equal.
    """
    own = [
        [seen(library, v, 0.0, 0.0, 0.2, 3, 1) for v in (0.0, 0.0, 0.0)],
        [
            seen(library, 10.0, 10.0, 9.0, 0.7, 1, 1, 2),
            seen(library, 9.9, 10.0, 9.0, 0.6, 2, 1, 1),
            seen(library, 9.0, 9.5, 9.0, 0.5, 1, 2, 1),
        ],
        [
            seen(library, 16.0, 16.5, 9.0, 0.3, 0, 1, 1, 1, 1),
            seen(library, 18.0, 20.0, 9.0, 0.4, 2, 0, 0, 1, 1),
            seen(library, 15.0, 19.0, 9.0, 0.1, 0, 0, 0, 0, 4),
        ],
    ]
    of_all = [
        [seen(library, 0.0, 0.0, 0.0, 0.25, 6, 2) for _ in PAIRS],
        [
            seen(library, 24.0, 25.0, 99.0, 0.75, 4, 2, 2),
            seen(library, 23.0, 24.0, 24.5, 0.65, 4, 2, 2),
            seen(library, 22.0, 24.0, 22.5, 0.55, 4, 2, 2),
        ],
        [
            seen(library, 32.0, 40.0, 99.0, 0.35, 4, 2, 2, 0, 0),
            seen(library, 30.0, 40.0, 41.0, 0.45, 4, 2, 2, 0, 0),
            seen(library, 20.0, 40.0, 30.0, 0.15, 4, 2, 2, 0, 0),
        ],
    ]
    runs = [
        [run(library, 0.0, 0.0) for _ in PAIRS],
        [run(library, 0.0, 0.0), run(library, 0.05, 0.005), run(library, 0.25, 0.02)],
        [run(library, 0.0, 0.0), run(library, 3.0, 0.1), run(library, -0.5, 0.2)],
    ]
    agreements = [
        [[0.5, 0.7, 0.9], [0.1, 0.2, 0.3], [0.0, 0.0, 0.0]],
        [[0.75, 1.0, 0.95], [1.0, 1.0, 1.0], [0.5, 1.0, 0.0]],
        [[0.2, 0.4, 0.0], [0.0, 0.3, 0.6], [0.25, 0.5, 0.75]],
    ]
    null = [seen(library, 0.0, 0.0, 0.0, s, 2, 2) for s in (0.1, 0.15, 0.05)]
    return Parts(KS, PAIRS, runs, agreements, own, of_all, null)


def rows_of(library, m):
    return library.asarray(np.zeros((m, 7)))


@pytest.mark.parametrize("library", ONE_EACH, ids=lambda row: row.name)
def test_every_figure_by_hand(library):
    made = parts(library)
    found = result_of(made, rows_of(library, 4), 2.0, 8)
    expected = {
        "ks": KS,
        "shares": [[0.0, math.inf], [0.5, 2.0], [0.9, 1.1]],
        "objective": [[0.0] * 3, [5.0, 4.95, 4.5], [8.0, 9.0, 7.5]],
        "gap": [[0.0] * 3, [0.0, 0.005, 0.02], [0.0, 0.1, 0.2]],
        "silhouette": [[0.2] * 3, [0.7, 0.6, 0.5], [0.3, 0.4, 0.1]],
        "reference": [0.1, 0.15, 0.05],
        "stability": [[0.7, 0.2, 0.0], [0.9, 1.0, 0.5], [0.2, 0.3, 0.5]],
        # Of three values a, a + d, a + 2 d: the root of 2 d^2 / 2 / 3.
        "stability_error": [
            [0.2 / math.sqrt(3.0), 0.1 / math.sqrt(3.0), 0.0],
            [math.sqrt((0.15**2 + 0.1**2 + 0.05**2) / 6.0), 0.0, 0.5 / math.sqrt(3.0)],
            [0.2 / math.sqrt(3.0), 0.3 / math.sqrt(3.0), 0.25 / math.sqrt(3.0)],
        ],
        # Of the best labels without bounds for any centers of this k.
        "price": [[0.0] * 3, [0.0, 0.01, 0.1], [0.0, 0.1, 0.25]],
        # Less what labels inside the bounds can be worth more; at most the price, at least 0.
        "price_proven": [[0.0] * 3, [0.0, 0.005, 0.075], [0.0, 0.0, 0.25]],
        "smallest": [[1] * 3, [1, 1, 1], [0, 0, 0]],
        "largest": [[3] * 3, [2, 2, 2], [1, 2, 4]],
        "all_objective": [[0.0] * 3, [6.0, 5.75, 5.5], [8.0, 7.5, 5.0]],
        "all_silhouette": [[0.25] * 3, [0.75, 0.65, 0.55], [0.35, 0.45, 0.15]],
        "all_price_proven": [[0.0] * 3, [0.0, 0.02, 0.1], [0.0, 0.0, 0.25]],
    }
    for name, value in expected.items():
        array, like = getattr(found, name), np.asarray(value)
        np.testing.assert_allclose(to_numpy(array), like, atol=1e-12, err_msg=name)
        assert_same_kind(array, library.asarray(like))
    assert (found.n_samples, found.n_drawn) == (8, 4)
    assert found.recommended == 3
    assert found.reason.startswith("k = 3 stands out: labels from two halves of the sample agree")
    assert found.recommended_shares == (0.5, 2.0)
    assert found.shares_reason.startswith("sizes of 0.5 to 2 times n/k lose 1.0 %")


def test_a_sample_of_all_rows_proves_what_its_labels_prove():
    """Then the bound is that of the solver, and not that of prices on other rows."""
    library = ONE_EACH[0]
    made = parts(library)
    found = result_of(made._replace(of_all=made.own), rows_of(library, 8), 1.0, 8)
    np.testing.assert_array_equal(found.all_price_proven, found.price_proven)
    np.testing.assert_array_equal(found.all_objective, found.objective)


def test_bounds_are_recommended_for_the_best_k_also_where_none_stands_out():
    library = ONE_EACH[0]
    made = parts(library)
    none = [[[v * 0.8 for v in values] for values in of_k] for of_k in made.agreements]
    found = result_of(made._replace(agreements=none), rows_of(library, 4), 1.0, 8)
    assert found.recommended is None
    assert found.reason.startswith("no k stands out: at k = 3")
    assert found.recommended_shares == (0.5, 2.0)
