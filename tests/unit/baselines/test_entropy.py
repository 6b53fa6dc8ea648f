"""SeCu's entropy variant against its formulas, one sample at a time."""

import math

import numpy as np
import pytest

from dualclust.algos.baselines.entropy import (
    EntropyRule,
    assign_entropy,
    entropy_objective,
    entropy_prices,
    entropy_step,
    entropy_upper_bound,
    published_rule,
)
from dualclust.algos.core.errors import InvalidTypeError, InvalidValueError
from tests.compare import assert_close, assert_equal, assert_same_kind, to_numpy
from tests.problems import cone_scores, mixture_scores
from tests.refusals import assert_refused


def f(q):
    return q * math.log(q) if q > 0 else 0.0


def value(scores, labels, alpha):
    """J of labels, by its definition."""
    n, k = scores.shape
    counts = np.bincount(labels, minlength=k)
    return scores[np.arange(n), labels].sum() - alpha * sum(f(c / n) for c in counts)


def released(scores, alpha, batch, passes, first_pass="published"):
    """SeCu's labels with stale counts, sample by sample, cluster by cluster."""
    n, k = scores.shape
    labels, counts = [-1] * n, [0] * k
    for _ in range(passes):
        for first in range(0, n, batch):
            stale = list(counts)
            seen = sum(stale)
            for i in range(first, min(first + batch, n)):
                old, costs = labels[i], []
                for j in range(k):
                    cost = -scores[i, j]
                    if old < 0 and first_pass == "published":
                        if seen:  # the released base is one more than what has been seen
                            cost += alpha * (
                                f((stale[j] + 1) / (seen + 1)) - f(stale[j] / (seen + 1))
                            )
                    elif old < 0:
                        cost += alpha * (f((stale[j] + 1) / n) - f(stale[j] / n))
                    elif j != old:
                        q, q_old = stale[j] / n, stale[old] / n
                        cost += alpha * (f(q_old - 1 / n) - f(q_old) + f(q + 1 / n) - f(q))
                    costs.append(cost)
                y = int(np.argmin(costs))
                labels[i] = y
                counts[y] += 1
                if old >= 0:
                    counts[old] -= 1
    return np.asarray(labels), np.asarray(counts)


@pytest.mark.parametrize("first_pass", ["published", "exact"])
@pytest.mark.parametrize(("batch", "passes"), [(1, 1), (1, 3), (8, 3), (100, 2)])
def test_equal_to_the_formulas_one_at_a_time(xp, rng, first_pass, batch, passes):
    scores = rng.normal(size=(60, 4))
    labels, counts = released(scores, 20.0, batch, passes, first_pass)
    rule = EntropyRule(20.0, 60, batch, first_pass)
    found = assign_entropy(xp.asarray(scores), rule, n_passes=passes)
    assert_equal(found.labels, xp.asarray(labels))
    assert_equal(found.counts, xp.asarray(counts))
    assert found.objective == pytest.approx(value(scores, labels, 20.0), rel=1e-12)


def test_the_cost_of_staying_is_nothing(xp):
    """A sample is not charged for its own share: prices are those of the counts without it."""
    scores = xp.asarray(np.asarray([[0.5, 0.0]]))
    rule = EntropyRule(2.0, 2)
    # With itself counted the price gap is log 2 + ... > 0.5; without, both clusters hold one.
    labels, counts = entropy_step(
        scores, xp.asarray(np.asarray([0])), xp.asarray(np.asarray([2, 1])), rule
    )
    assert_equal(labels, xp.asarray(np.asarray([0])))
    assert_equal(counts, xp.asarray(np.asarray([2, 1])))
    gap = to_numpy(entropy_prices(xp.asarray(np.asarray([2, 1])), rule))
    assert gap[1] - gap[0] > 0.5


@pytest.mark.parametrize("first_pass", ["published", "exact"])
def test_heads_side_by_side_are_labeled_as_each_alone(xp, rng, first_pass):
    """Also one with a cluster fewer, whose padded column is minus infinity."""
    rule = EntropyRule(4e6, 20, first_pass=first_pass)  # an empty cluster is paid very much
    scores, previous = rng.normal(size=(2, 6, 4)), rng.integers(-1, 3, size=(2, 6))
    scores[1, :, 3] = -math.inf
    counts = np.asarray([[5, 0, 7, 2], [6, 9, 4, 0]])
    labels, moved = entropy_step(*map(xp.asarray, (scores, previous, counts)), rule)
    for head, k in enumerate((4, 3)):
        alone = scores[head, :, :k].copy(), previous[head].copy(), counts[head, :k].copy()
        expected, after = entropy_step(*map(xp.asarray, alone), rule)
        assert_equal(labels[head, :], expected)
        assert_equal(moved[head, :k], after)
    assert int(moved[1, 3]) == 0


def test_prices_are_to_first_order_logarithms_of_the_counts(xp):
    counts = np.asarray([400, 1000, 8600])
    prices = to_numpy(entropy_prices(xp.asarray(counts), EntropyRule(1200.0, 10_000)))
    assert np.diff(prices) == pytest.approx(-0.12 * np.diff(np.log(counts)), rel=1e-3)


def test_prices_keep_their_digits_for_large_counts():
    """g is a difference of numbers of 2e10; it is computed without it."""
    counts = np.asarray([10**9])
    exact = math.log1p(1e9) + 1.0 - 0.5e-9
    assert -entropy_prices(counts, EntropyRule(1.0, 1))[0] == pytest.approx(exact, rel=1e-15)
    m = 1e9
    assert abs((m + 1) * math.log(m + 1) - m * math.log(m) - exact) > 1e-7


def test_without_weight_labels_are_greedy(xp, rng):
    scores = rng.normal(size=(20, 3))
    found = assign_entropy(xp.asarray(scores), EntropyRule(0.0, 20, 7))
    assert_equal(found.labels, xp.asarray(scores.argmax(axis=1)))
    assert found.upper_bound == pytest.approx(found.objective)
    assert found.moved == 0


def test_a_large_weight_balances(rng):
    found = assign_entropy(rng.normal(size=(60, 4)), EntropyRule(1e6, 60))
    assert found.counts.tolist() == [15] * 4


def test_erratum_the_first_pass_as_published_ignores_the_scores():
    """Its charge is N / (B + 1) times that of later passes: early samples are dealt out."""
    scores = np.zeros((1000, 4))
    scores[:, 0] = 0.6
    published, exact = (
        assign_entropy(scores, EntropyRule(120.0, 1000, 1, kind), n_passes=1)
        for kind in ("published", "exact")
    )
    early = np.bincount(published.labels[:40], minlength=4)
    assert early[1:].min() >= 8
    assert np.bincount(exact.labels[:40], minlength=4)[1:].sum() == 0
    assert published.objective < exact.objective


def test_erratum_a_batch_with_stale_counts_can_lower_the_objective():
    scores = np.zeros((64, 2))
    scores[:, 0] = 0.01
    start = np.zeros(64, np.int64)
    before = value(scores, start, 64.0)
    at_once = assign_entropy(scores, EntropyRule(64.0, 64, 64), n_passes=1, previous=start)
    assert at_once.counts.tolist() == [0, 64]  # all of them rush
    assert at_once.objective < before
    one_by_one = assign_entropy(scores, EntropyRule(64.0, 64, 1), n_passes=1, previous=start)
    assert one_by_one.objective > before
    assert abs(one_by_one.counts[0] - 32) <= 1


def test_the_published_weights_and_the_rule():
    """Claim S9: 600 and 6,000 are 0.12 n, 26,460 is 2.1 times that."""
    assert published_rule(50_000).weight == 6000.0
    assert published_rule(5_000).weight == 600.0
    assert published_rule(105_000).weight == 12_600.0
    assert 26_460 / published_rule(105_000).weight == pytest.approx(2.1)
    rule = published_rule(50_000)
    assert (rule.batch_size, rule.first_pass) == (128, "published")


def test_no_size_is_promised():
    """On cone scores the smallest cluster stays under the 0.9 of the size variant."""
    scores = cone_scores(4000, 10)
    found = assign_entropy(scores, published_rule(4000))
    assert found.counts.min() < 0.9 * 400
    assert found.counts.min() > np.bincount(scores.argmax(axis=1), minlength=10).min()
    # A weak one changes little.
    scores = mixture_scores(4000, 10)
    weak = assign_entropy(scores, EntropyRule(0.001 * 4000, 4000, 128))
    assert (weak.labels != scores.argmax(axis=1)).mean() < 0.01


def test_kinds(xp, rng):
    scores = xp.asarray(rng.normal(size=(6, 2)), "float32")
    found = assign_entropy(scores, EntropyRule(1.0, 6))
    assert_same_kind(found.labels, xp.asarray(np.zeros(6, np.int64)))
    assert_same_kind(found.counts, xp.asarray(np.zeros(2, np.int64)))
    assert_same_kind(found.prices, xp.asarray(np.zeros(2)))


def test_the_upper_bound_is_tight_at_the_right_prices(xp):
    """All samples alike: the relaxed optimum is a softmax, its prices give no gap."""
    s, alpha, n = np.asarray([0.3, 0.1, 0.0]), 16.0, 64
    scores, rule = np.tile(s, (n, 1)), EntropyRule(alpha, n)
    q = np.exp(s * n / alpha) / np.exp(s * n / alpha).sum()
    bound = entropy_upper_bound(xp.asarray(scores), xp.asarray(-alpha / n * np.log(q)), rule)
    assert bound == pytest.approx(n * (s @ q) - alpha * (q @ np.log(q)), rel=1e-12)
    found = assign_entropy(xp.asarray(scores), rule)
    assert found.objective <= bound
    assert found.objective > bound - 0.1
    counts = xp.asarray(np.asarray([64, 0, 0]))
    labels = xp.asarray(np.zeros(n, np.int64))
    greedy = entropy_objective(xp.asarray(scores), labels, counts, rule)
    assert greedy == pytest.approx(0.3 * n)
    assert_close(xp.asarray(greedy < found.objective), xp.asarray(True))


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({"scores": np.full((2, 2), np.inf)}, InvalidValueError, "scores must be finite"),
        ({"scores": np.zeros((3, 2))}, InvalidValueError, "scores must have shape"),
        ({"scores": np.zeros((2, 0))}, InvalidValueError, "at least one column"),
        ({"scores": np.zeros((2, 2), int)}, InvalidTypeError, "real floating"),
        ({"previous": np.asarray([0, 2])}, InvalidValueError, "previous"),
        ({"previous": np.asarray([-2, 0])}, InvalidValueError, "previous"),
        ({"previous": np.asarray([0])}, InvalidValueError, "previous must have shape"),
        ({"n_passes": 0}, InvalidValueError, "n_passes must be at least 1"),
    ],
)
def test_refusals_say_what_and_why(change, error, text):
    assert_refused(
        error,
        text,
        assign_entropy,
        **{"scores": np.zeros((2, 2)), "rule": EntropyRule(1.0, 2), **change},
    )


@pytest.mark.parametrize(
    "options",
    [{"weight": -1.0}, {"n_samples": 0}, {"batch_size": 0}, {"first_pass": "other"}],
)
def test_options_out_of_range_are_refused(options):
    with pytest.raises(InvalidValueError, match=next(iter(options))):
        EntropyRule(**{"weight": 1.0, "n_samples": 2, **options})


@pytest.mark.parametrize("seen", [1, 7, 500])
def test_the_released_first_charge_is_the_later_one_with_another_base(xp, rng, seen):
    """alpha (f((n + 1) / (B + 1)) - f(n / (B + 1))) is alpha g(n) / (B + 1) and a constant.

    Scores are set to the released charge itself, so that all clusters cost the same up to 1e-9, and
    one is lowered by more: it is chosen, whichever it is.
    """
    counts, alpha = rng.multinomial(seen, [0.1, 0.2, 0.3, 0.4]), 50.0
    base = seen + 1
    charge = np.asarray([alpha * (f((n + 1) / base) - f(n / base)) for n in counts])
    for j in range(4):
        scores = charge.copy()
        scores[j] += 1e-9
        rule = EntropyRule(alpha, 1000, first_pass="published")
        labels, _ = entropy_step(
            xp.asarray(scores[None]), xp.asarray(np.asarray([-1])), xp.asarray(counts), rule
        )
        assert_equal(labels, xp.asarray(np.asarray([j])))
