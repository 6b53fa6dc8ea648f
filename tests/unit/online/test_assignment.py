"""Online assignment: labels, prices and states by hand, and on every array library."""

import copy
import math
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.online.assignment import (
    Assignment,
    AssignmentState,
    assign,
    init_state,
    next_pass,
)
from dualclust.algos.online.duals import DualRule, Duals, init_duals, update_duals
from dualclust.algos.online.step_sizes import StepRule, published_steps, theorem_steps
from tests.compare import assert_close, assert_equal, to_numpy
from tests.libraries import LIBRARIES
from tests.problems import replay

NUMPY = LIBRARIES[0]
SCORES = np.random.default_rng(0).integers(-16, 17, size=(16, 3)) / 16.0


def ratios(xp, k=3, n=16, **options):
    options = {"lower": 0.75, "upper": 1.25, "rounding": "outward"} | options
    return xp.freeze(
        SizeBounds.from_ratios(k, n_samples=n, xp=xp.namespace, device=xp.device, **options)
    )


def stream(xp, k=3, **options):
    return xp.freeze(SizeBounds.for_stream(k, xp=xp.namespace, device=xp.device, **options))


def run_in_pieces(scores, bounds, cuts, xp, steps):
    state, labels = None, []
    for first, last in zip([0, *cuts], [*cuts, len(scores)], strict=True):
        part, state = assign(xp.asarray(scores[first:last]), bounds, state, steps=steps)
        xp.freeze(state)
        labels.append(to_numpy(part))
    return np.concatenate(labels), state


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_results_are_of_the_library_of_the_scores(xp, dtype):
    labels, state = assign(xp.asarray(SCORES, dtype), ratios(xp))
    like = xp.asarray(np.zeros(16, np.int64))
    assert labels.shape == like.shape
    assert labels.dtype == like.dtype == state.counts.dtype
    for dual in (*state.duals, *state.start):
        assert_close(dual, xp.asarray(to_numpy(dual), "float64"))
    assert state.seen == 16
    assert_equal(state.counts, xp.asarray(np.bincount(to_numpy(labels), minlength=3)))


def test_the_state_before_the_first_sample(xp):
    bounds = ratios(xp)
    state = init_state(bounds)
    zero = xp.asarray(np.zeros(3))
    for dual in (*state.duals, *state.start, *init_duals((3,), xp=xp.namespace, device=xp.device)):
        assert_equal(dual, zero)
    assert_equal(state.counts, xp.asarray([0, 0, 0]))
    assert state[3:] == (0, None, False)


def test_prices_by_hand(xp):
    scores = xp.asarray([[1.0, 0.5], [1.0, 0.5], [1.0, 0.5], [0.25, 0.0]])
    bounds = stream(xp, 2, lower=0.5, upper=1.5)  # shares 1/4 and 3/4
    labels, state = assign(scores, bounds, steps=StepRule(1.0))
    # rho - rho' before each sample: (0, 0), (-1/4, 1/4), which ties, (-1/2, 1/2), (1/4, -1/4).
    assert to_numpy(labels).tolist() == [0, 0, 1, 0]
    assert_equal(state.duals.lower, xp.asarray([0.0, 0.25]))
    assert_equal(state.duals.upper, xp.asarray([0.25, 0.0]))
    assert_equal(state.counts, xp.asarray([3, 1]))


def test_without_bounds_labels_are_greedy(xp, rng):
    scores = rng.normal(size=(40, 5))
    for bounds in (
        ratios(xp, 5, 40, lower=0.0, upper=math.inf),
        stream(xp, 5, lower=0.0, upper=math.inf),
    ):
        labels, state = assign(xp.asarray(scores), bounds)
        assert_equal(labels, xp.asarray(scores.argmax(axis=1)))
        assert_equal(state.duals.lower, xp.asarray(np.zeros(5)))


def test_ties_go_to_the_lowest_index(xp):
    scores = xp.asarray(np.zeros((4, 130)))
    bounds = ratios(xp, 130, 4, lower=0.0, upper=math.inf)
    assert to_numpy(assign(scores, bounds).labels).tolist() == [0] * 4
    one_each = xp.freeze(
        SizeBounds.from_counts([0] * 130, [1] * 130, n_samples=4, xp=xp.namespace, device=xp.device)
    )
    labels, _ = assign(scores, one_each, steps=StepRule(0.5, chunk_size=4))
    assert to_numpy(labels).tolist() == [0, 1, 2, 3]


def test_one_cluster_one_sample_and_fewer_samples_than_clusters(xp):
    assert to_numpy(assign(xp.asarray(SCORES[:, :1]), ratios(xp, 1)).labels).tolist() == [0] * 16
    one = ratios(xp, 3, 1, lower=0.0, upper=3.0)
    assert to_numpy(assign(xp.asarray([[0.0, 2.0, 1.0]]), one).labels).tolist() == [1]
    few = xp.freeze(
        SizeBounds.from_counts([0, 0, 1], [1, 1, 1], n_samples=2, xp=xp.namespace, device=xp.device)
    )
    labels = assign(xp.asarray([[5.0, 0.0, 0.0], [5.0, 4.0, 0.0]]), few).labels
    assert to_numpy(labels).tolist() == [0, 2]


def test_no_sample_changes_nothing(xp):
    bounds = ratios(xp)
    before = assign(xp.asarray(SCORES[:5]), bounds).state
    labels, after = assign(xp.asarray(SCORES[:0]), bounds, before)
    assert_equal(labels, xp.asarray(np.zeros(0, np.int64)))
    for a, b in zip((*after.duals, after.counts), (*before.duals, before.counts), strict=True):
        assert_equal(a, b)
    assert after.seen == 5


def test_completion_gives_what_is_owed_to_the_last_samples(xp):
    scores = xp.asarray([[1.0, 0.0, 0.0]] * 6)
    bounds = xp.freeze(
        SizeBounds.from_counts([0, 1, 2], n_samples=6, xp=xp.namespace, device=xp.device)
    )
    labels, _ = assign(scores, bounds, steps=StepRule(2.0**-20, chunk_size=6))
    assert to_numpy(labels).tolist() == [0, 0, 0, 1, 2, 2]


def test_a_full_cluster_takes_no_more_even_inside_a_chunk(xp):
    scores = xp.asarray([[1.0, 0.5, 0.0]] * 6)
    bounds = xp.freeze(
        SizeBounds.from_counts([0, 0, 0], [2, 1, 6], n_samples=6, xp=xp.namespace, device=xp.device)
    )
    labels, _ = assign(scores, bounds, steps=StepRule(2.0**-20, chunk_size=6))
    assert to_numpy(labels).tolist() == [0, 0, 1, 2, 2, 2]


@pytest.mark.parametrize("chunk", [1, 2, 4, 16])
@pytest.mark.parametrize("free_sign", [False, True])
@pytest.mark.parametrize("known", [True, False])
def test_batch_by_batch_is_one_call_where_chunks_align(xp, chunk, free_sign, known):
    lower = 1.0 if free_sign else 0.75
    bounds = ratios(xp, lower=lower) if known else stream(xp, lower=lower, upper=1.25)
    steps = StepRule(2.0**-4, chunk, free_sign)
    whole = assign(xp.asarray(SCORES), bounds, steps=steps)
    for cuts in ([8], [0, 0, 8], [4, 8, 12] if chunk < 8 else [16], [16]):
        cuts = [c for c in cuts if c % chunk == 0]
        labels, state = run_in_pieces(SCORES, bounds, cuts, xp, steps)
        np.testing.assert_array_equal(labels, to_numpy(whole.labels))
        for a, b in zip(
            (*state.duals, *state.start, state.counts),
            (*whole.state.duals, *whole.state.start, whole.state.counts),
            strict=True,
        ):
            assert_equal(a, b)
        assert state[3:] == whole.state[3:]


@pytest.mark.parametrize("n", [16, 15, 9, 3])
def test_steps_divided_by_the_length_of_a_chunk(xp, n):
    steps = StepRule(0.5, chunk_size=4, mean_over_chunk=True)
    bounds = ratios(xp, n=n)
    labels, state = assign(xp.asarray(SCORES[:n]), bounds, steps=steps)
    told = replay(SCORES[:n], to_numpy(labels), ratios(NUMPY, n=n), steps)
    assert told.gaps.max() <= 1e-12
    np.testing.assert_allclose(to_numpy(state.duals.lower), told.rho, atol=1e-12)
    np.testing.assert_allclose(to_numpy(state.duals.upper), told.rho_up, atol=1e-12)
    assert math.isnan(state.step_size)


def test_the_mean_over_a_full_chunk_is_a_smaller_step(xp):
    mean = StepRule(0.5, chunk_size=4, mean_over_chunk=True)
    plain = StepRule(0.125, chunk_size=4)
    a = assign(xp.asarray(SCORES), ratios(xp), steps=mean)
    b = assign(xp.asarray(SCORES), ratios(xp), steps=plain)
    assert_equal(a.labels, b.labels)
    assert_equal(a.state.duals.lower, b.state.duals.lower)
    short_a = assign(xp.asarray(SCORES[:1]), stream(xp), steps=mean).state.duals.lower
    short_b = assign(xp.asarray(SCORES[:1]), stream(xp), steps=plain).state.duals.lower
    assert_close(short_a, 4.0 * short_b)


def test_the_projection_of_the_theorem_keeps_the_sum_of_the_duals(xp):
    scores = xp.asarray([[1.0, 0.0, 0.0]] * 12)
    rule = theorem_steps(12, tau=0.25)
    state = None
    for first in range(0, 12, 3):
        _, state = assign(scores[first : first + 3, :], stream(xp), state, steps=rule)
        assert float(to_numpy(state.duals.lower).sum()) <= 0.25 * (1 + 1e-12)
        assert float(to_numpy(state.duals.upper).sum()) <= 0.25 * (1 + 1e-12)
    assert math.isnan(state.step_size)
    # tau below sum rho*: the price never reaches the score gap of 1, and all samples stay in 0.
    assert to_numpy(state.counts).tolist() == [12, 0, 0]
    loose = assign(scores, stream(xp), steps=StepRule(rule.step_size)).state.duals.lower
    assert float(to_numpy(loose).sum()) > 0.25


@pytest.mark.parametrize("name", ["coke-cifar", "secu-imagenet"])
def test_published_settings_run(xp, name):
    _, state = assign(xp.asarray(SCORES), ratios(xp), steps=published_steps(name))
    assert int(to_numpy(state.counts).sum()) == 16
    assert math.isnan(state.step_size)


def test_the_next_pass_keeps_the_prices_and_forgets_the_counts(xp):
    first = assign(xp.asarray(SCORES), ratios(xp)).state
    state = xp.freeze(next_pass(first))
    assert_equal(state.counts, xp.asarray([0, 0, 0]))
    for a, b, c in zip(state.duals, state.start, first.duals, strict=True):
        assert_equal(a, c)
        assert_equal(b, c)
    assert state[3:] == (0, None, False)
    assert assign(xp.asarray(SCORES), ratios(xp), state).state.seen == 16


def test_inputs_are_not_changed(xp):
    scores, bounds = xp.asarray(SCORES), ratios(xp)
    state = assign(scores[:7, :], bounds).state
    before = [to_numpy(a) for a in (scores, *bounds[:4], *state.duals, *state.start, state.counts)]
    assign(scores[7:, :], bounds, state)
    after = [to_numpy(a) for a in (scores, *bounds[:4], *state.duals, *state.start, state.counts)]
    for a, b in zip(before, after, strict=True):
        np.testing.assert_array_equal(a, b)


def test_one_dual_step_by_hand(xp):
    duals = Duals(xp.asarray([[0.0, 0.5], [1.0, 0.0]]), xp.asarray([[0.0, 0.25], [0.5, 0.0]]))
    sizes = xp.asarray([[3, 1], [0, 4]])
    share, top = xp.asarray([[0.5, 0.25]] * 2), xp.asarray([[0.5, 0.5]] * 2)
    step = xp.asarray([[1.0], [0.5]])  # one step per head
    options = {"lower_share": share, "upper_share": top, "step_size": step}
    clipped = update_duals(duals, sizes, 4, DualRule(**options))
    assert_equal(clipped.lower, xp.asarray([[0.0, 0.5], [2.0, 0.0]]))
    assert_equal(clipped.upper, xp.asarray([[1.0, 0.0], [0.0, 1.0]]))
    free = update_duals(duals, sizes, 4, DualRule(free_sign=True, **options))
    assert_equal(free.lower, xp.asarray([[-1.0, 0.5], [2.0, -1.5]]))
    assert_equal(free.upper, duals.upper)


def test_threads_do_not_disturb_each_other(xp):
    problems = [np.random.default_rng(i).normal(size=(30, 70)) for i in range(12)]
    bounds = ratios(xp, 70, 30, lower=0.0, upper=70.0)

    def run(scores):
        labels, state = assign(xp.asarray(scores), bounds, steps=StepRule(0.01, 4))
        return to_numpy(labels), to_numpy(state.duals.upper)

    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(run, problems))
    for found, scores in zip(together, problems, strict=True):
        for a, b in zip(found, run(scores), strict=True):
            np.testing.assert_array_equal(a, b)


def test_a_state_survives_a_copy_and_a_worker_process(xp):
    state = assign(xp.asarray(SCORES[:8]), ratios(xp)).state
    expected = assign(xp.asarray(SCORES[8:]), ratios(xp), state).labels
    for clone in (copy.deepcopy(state), pickle.loads(pickle.dumps(state))):
        assert_equal(assign(xp.asarray(SCORES[8:]), ratios(xp), clone).labels, expected)


def test_results_unpack(xp):
    result = assign(xp.asarray(SCORES), ratios(xp))
    _, state = result
    assert isinstance(result, Assignment)
    assert isinstance(state, AssignmentState)
    _, _, _, seen, step_size, free_sign = state
    assert (seen, free_sign) == (16, False)
    assert step_size > 0


def onto_ball(p, radius):
    """Projection of a nonnegative vector: the threshold that leaves `radius`, by bisection."""
    low, high = 0.0, float(p.max())
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if np.maximum(p - middle, 0.0).sum() > radius else (low, middle)
    return np.maximum(p - high, 0.0) if p.sum() > radius else p


@pytest.mark.parametrize("radius", [0.02, 0.2])
def test_both_duals_stay_in_the_ball_of_coke_theorem_1(xp, radius):
    """One sided scores: without the projection the upper dual of cluster 0 would grow to 1.2."""
    scores = np.tile([2.0, 1.0, 0.0], (16, 1)) + 1e-3 * SCORES[:, :3]
    bounds = SizeBounds.for_stream(3, lower=0.9, upper=1.1, xp=xp.namespace, device=xp.device)
    rule = StepRule(0.1, chunk_size=4, l1_radius=radius)
    found = assign(xp.asarray(scores), bounds, steps=rule)
    low, high, labels = np.zeros(3), np.zeros(3), []
    for first in range(0, 16, 4):
        own = np.argmax(scores[first : first + 4] + low - high, axis=1)
        sizes = np.bincount(own, minlength=3)
        low = np.maximum(low + 0.1 * (4 * 0.3 - sizes), 0.0)
        high = np.maximum(high + 0.1 * (sizes - 4 * 1.1 / 3), 0.0)
        assert min(low.sum(), high.sum()) > radius  # the projections have something to do
        low, high = onto_ball(low, radius), onto_ball(high, radius)
        labels.extend(own.tolist())
    assert to_numpy(found.labels).tolist() == labels
    for dual, expected in ((found.state.duals.lower, low), (found.state.duals.upper, high)):
        np.testing.assert_allclose(to_numpy(dual), expected, rtol=1e-12, atol=1e-15)
        assert float(to_numpy(dual).sum()) == pytest.approx(radius)


def test_another_step_in_a_pass_leaves_no_step_to_certify(xp):
    bounds = stream(xp)
    state = assign(xp.asarray(SCORES[:8]), bounds, steps=StepRule(0.5)).state
    assert state.step_size == 0.5
    same = assign(xp.asarray(SCORES[8:]), bounds, state, steps=StepRule(0.5, 4)).state
    assert same.step_size == 0.5
    for rule in (StepRule(0.25), StepRule(0.5, free_sign=True), StepRule(0.5, l1_radius=9.0)):
        mixed = assign(xp.asarray(SCORES[8:]), bounds, state, steps=rule).state
        assert math.isnan(mixed.step_size)
        still = assign(xp.asarray(SCORES[8:]), bounds, mixed, steps=rule).state
        assert math.isnan(still.step_size)
        assert next_pass(mixed).step_size is None
