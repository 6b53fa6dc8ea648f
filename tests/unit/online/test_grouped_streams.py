"""Streams with bounds on groups: which clusters a row may join, prices, states and refusals."""

from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dualclust.algos.bounds.groups import GroupBounds
from dualclust.algos.bounds.loads import LoadBounds
from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.core.errors import InfeasibleBoundsError, InvalidTypeError, InvalidValueError
from dualclust.algos.online.assignment import assign
from dualclust.algos.online.certificates import size_certificate
from dualclust.algos.online.duals import DualRule, Duals, update_duals
from dualclust.algos.online.grouped import (
    assign_grouped_stream,
    group_rule,
    init_grouped_state,
)
from dualclust.algos.online.step_sizes import StepRule, theorem_steps
from tests.compare import assert_equal, to_numpy
from tests.grouped_problems import grouped_problem
from tests.refusals import message_of

N, K = 24, 3
RNG = np.random.default_rng(0)
SCORES = RNG.integers(-16, 17, (N, K)) / 16.0
GROUPS = RNG.integers(-1, 3, N)


def sizes(xp, k=K, n=N, **options):
    options = {"lower": 0.75, "upper": 1.25} | options
    return SizeBounds.from_ratios(k, n_samples=n, xp=xp.namespace, device=xp.device, **options)


def fair(xp, k=K, groups=GROUPS, lower=0.5, upper=1.5):
    return GroupBounds.from_shares(xp.asarray(groups), k, lower=lower, upper=upper)


def in_pieces(xp, scores, bounds, groups, cuts, steps):
    state, labels = None, []
    for first, last in zip([0, *cuts], [*cuts, len(scores)], strict=True):
        part = xp.asarray(scores[first:last])
        found, state = assign_grouped_stream(part, bounds, groups, state, steps=steps)
        labels.extend(to_numpy(found).tolist())
    return labels, state


def cells_of(labels, groups, n_groups, k):
    cells = np.zeros((n_groups + 1, k), np.int64)
    np.add.at(cells, (groups, labels), 1)  # -1 is the last row
    return cells


def test_all_bounds_hold_on_every_library_and_in_any_batches(xp):
    bounds, groups, steps = sizes(xp), fair(xp), StepRule(2.0**-4, 4)
    whole = assign_grouped_stream(xp.asarray(SCORES), bounds, groups, steps=steps)
    labels, state = in_pieces(xp, SCORES, bounds, groups, [0, 4, 12], steps)
    assert to_numpy(whole.labels).tolist() == labels
    cells = cells_of(labels, GROUPS, 3, K)
    assert_equal(whole.state.group_counts, xp.asarray(cells))
    assert_equal(whole.state.plan, xp.asarray(cells))  # nothing is left to plan
    assert_equal(whole.state.clusters.counts, xp.asarray(cells.sum(axis=0)))
    for ours, theirs in zip(whole.state.group_duals, state.group_duals, strict=True):
        assert_equal(ours, theirs)
    for count, low, high in (
        (cells[:-1], groups.lower, groups.upper),
        (cells.sum(axis=0), bounds.lower, bounds.upper),
    ):
        assert (to_numpy(low) <= count).all()
        assert (count <= to_numpy(high)).all()


def test_prices_are_those_of_each_group_as_a_stream_of_its_own(xp):
    stream = SizeBounds.for_stream(K, lower=0.9, upper=1.1, xp=xp.namespace, device=xp.device)
    groups, steps = fair(xp, lower=0.8, upper=1.2), StepRule(2.0**-4, 8)
    found = assign_grouped_stream(
        xp.asarray(SCORES), stream, groups, of_rows=xp.asarray(GROUPS), steps=steps
    )
    p, q = np.zeros(K), np.zeros((4, K))
    own = [Duals(xp.asarray(np.zeros(K)), xp.asarray(np.zeros(K))) for _ in range(4)]
    rule, n_g = group_rule(groups, steps), [int((GROUPS == g).sum()) for g in range(3)]
    for first in range(0, N, 8):
        part = slice(first, first + 8)
        priced = SCORES[part] + (q[GROUPS[part]] + p)
        assert to_numpy(found.labels)[part].tolist() == priced.argmax(axis=1).tolist()
        cells = cells_of(priced.argmax(axis=1), GROUPS[part], 3, K)
        own[3] = update_duals(own[3], xp.asarray(cells.sum(axis=0)), 8, DualRule.of(stream, steps))
        for g in range(3):
            step = 2.0**-4 * min(N / n_g[g], 8 / K)
            np.testing.assert_allclose(to_numpy(rule.step_size)[g], step)
            shares = to_numpy(groups.lower)[g] / n_g[g], to_numpy(groups.upper)[g] / n_g[g]
            alone = DualRule(*(xp.asarray(share) for share in shares), step)
            own[g] = update_duals(own[g], xp.asarray(cells[g]), int(cells[g].sum()), alone)
        p = to_numpy(own[3].lower) - to_numpy(own[3].upper)
        q[:3] = [to_numpy(dual.lower) - to_numpy(dual.upper) for dual in own[:3]]
    for ours, theirs in zip(found.state.prices, (p, q[:3]), strict=True):
        np.testing.assert_allclose(to_numpy(ours), theirs, atol=1e-12)
    told = size_certificate(found.state.clusters, stream)
    counts = to_numpy(found.state.clusters.counts)
    assert (to_numpy(told.at_least) <= counts).all()
    assert (counts <= to_numpy(told.at_most)).all()


@pytest.mark.parametrize("of_groups", [GROUPS, np.full(N, -1)])
@pytest.mark.parametrize("lower", [0.75, 1.0])
def test_where_no_bound_on_a_group_binds_labels_are_those_of_assign(xp, of_groups, lower):
    bounds = sizes(xp, lower=lower)
    for steps in (None, StepRule(0.25, 2), StepRule(0.25, 5, free_sign=lower == 1.0)):
        plain = assign(xp.asarray(SCORES), bounds, steps=steps)
        groups = GroupBounds.from_counts(xp.asarray(of_groups), K)
        found = assign_grouped_stream(xp.asarray(SCORES), bounds, groups, steps=steps)
        assert_equal(found.labels, plain.labels)
        for ours, theirs in zip(found.state.clusters.duals, plain.state.duals, strict=True):
            assert_equal(ours, theirs)
        assert found.state.clusters[3:] == plain.state[3:]


def small_problems(most_rows, seeds):
    """Small feasible problems, with all labels inside their bounds."""
    for seed in seeds:
        problem = grouped_problem(seed)
        n, k = problem.scores.shape
        if n > most_rows or k == 1:
            continue
        low, high, least, most = problem[2:]
        every = np.asarray(list(product(range(k), repeat=n)))
        cells = np.stack([cells_of(labels, problem.groups, len(least), k) for labels in every])
        inside = ((least <= cells[:, :-1]) & (cells[:, :-1] <= most)).all(axis=(1, 2))
        counts = cells.sum(axis=1)
        inside &= ((low <= counts) & (counts <= high)).all(axis=1)
        if inside.any():
            bounds = SizeBounds.from_counts(low, high, n_samples=n)
            groups = GroupBounds.from_counts(problem.groups, k, lower=least, upper=most)
            scores = np.where(np.isfinite(problem.scores), problem.scores, 0.0)
            yield scores, bounds, groups, every[inside]


def test_a_row_joins_the_best_of_the_clusters_that_leave_a_way_to_end_inside():
    """All labels inside the bounds are listed: they say which clusters each row may join."""
    n_problems = n_refused = 0
    for scores, bounds, groups, inside in small_problems(6, range(300)):
        (n, k), state, rest = scores.shape, init_grouped_state(bounds, groups), inside
        for i in range(n):
            may = np.isin(np.arange(k), rest[:, i])
            p, q = state.prices
            own = np.concatenate([q, np.zeros((1, k))])[groups.groups[i]] + p
            best = int(np.where(may, scores[i] + own, -np.inf).argmax())
            labels, state = assign_grouped_stream(
                scores[i : i + 1], bounds, groups, state, steps=StepRule(0.25)
            )
            assert labels.tolist() == [best]
            rest, n_refused = rest[rest[:, i] == best], n_refused + int((~may).sum())
        n_problems += 1
    assert n_problems > 50
    assert n_refused > 100


def test_every_order_of_a_small_stream_ends_inside():
    problems = list(small_problems(5, range(40)))[:4]
    for scores, bounds, groups, _ in problems:
        for order in permutations(range(len(scores))):
            order = np.asarray(order)
            found = assign_grouped_stream(
                scores[order], bounds, groups, of_rows=groups.groups[order], steps=StepRule(0.5)
            )
            cells = found.state.group_counts
            assert ((groups.lower <= cells[:-1]) & (cells[:-1] <= groups.upper)).all()
            counts = cells.sum(axis=0)
            assert ((bounds.lower <= counts) & (counts <= bounds.upper)).all()


@settings(max_examples=30)
@given(st.data())
def test_an_adversary_who_sees_the_counts_cannot_break_a_bound(data):
    """Each row is of the group, and likes the cluster, that somebody else chooses at each step."""
    k, n_groups = data.draw(st.integers(2, 4)), data.draw(st.integers(1, 3))
    cells = np.asarray(data.draw(st.lists(
        st.lists(st.integers(0, 3), min_size=k, max_size=k),
        min_size=n_groups + 1, max_size=n_groups + 1,
    )))  # fmt: skip
    slack = data.draw(st.integers(0, 1))
    if not cells.sum():
        return
    low, high = np.maximum(cells - slack, 0), cells + slack
    of_rows = np.repeat([*range(n_groups), -1], cells.sum(axis=1))
    bounds = SizeBounds.from_counts(cells.sum(axis=0), None, n_samples=len(of_rows))
    groups = GroupBounds.from_counts(of_rows[of_rows >= 0], k)  # counted anew below
    groups = groups._replace(groups=of_rows, lower=low[:-1], upper=high[:-1])
    state, left = None, list(of_rows)
    while left:
        g = left.pop(data.draw(st.integers(0, len(left) - 1)))
        likes = np.zeros((1, k))
        likes[0, data.draw(st.integers(0, k - 1))] = 1.0
        _, state = assign_grouped_stream(
            likes, bounds, groups, state, of_rows=np.asarray([g]), steps=StepRule(0.01)
        )
    assert (state.clusters.counts >= bounds.lower).all()
    assert ((low[:-1] <= state.group_counts[:-1]) & (state.group_counts[:-1] <= high[:-1])).all()


def test_without_the_totals_of_groups_no_rule_keeps_the_bounds():
    """The counterexample of docs/math/completion.md: one first row, two streams that may follow."""
    bounds = SizeBounds.from_counts([1, 1], [1, 1], n_samples=2)
    upper = np.asarray([[1, 1], [1, 0], [0, 1]])  # group 1 joins cluster 0 alone, group 2 cluster 1
    firsts = []
    for second in (1, 2):
        groups = GroupBounds.from_counts(np.asarray([0, second]), 2, upper=upper[: second + 1])
        found = assign_grouped_stream(np.asarray([[0.1, 0.0], [0.0, 0.0]]), bounds, groups)
        firsts.append(found.labels.tolist())
    assert firsts == [[1, 0], [0, 1]]  # the first row must know which follows


def test_rows_stay_out_by_one_more_column():
    """At most two of eight rows, those that no cluster likes, though they come first."""
    scores = np.asarray([[-9.0, -9.0]] * 2 + [[-1.0, -2.0], [-2.0, -1.0]] * 3)
    with_out = np.concatenate([scores, np.full((8, 1), -4.0)], axis=1)
    bounds = SizeBounds.from_counts([3, 3, 0], [8, 8, 2], n_samples=8)
    labels = assign(with_out, bounds).labels
    assert labels.tolist() == [2, 2, 0, 1, 0, 1, 0, 1]
    apart = GroupBounds.at_most_one(np.asarray([0, 0, 1, 1, -1, -1, -1, -1]), 3)
    found = assign_grouped_stream(with_out, bounds, apart)
    assert found.labels.tolist()[:2] == [2, 0]
    assert (found.state.group_counts[:-1] <= 1).all()


def test_prices_of_a_pass_begin_the_next():
    stream, bounds = SizeBounds.for_stream(K, lower=0.75, upper=1.25), sizes(NUMPY)
    groups = fair(NUMPY)
    learned = assign_grouped_stream(SCORES, stream, groups, of_rows=GROUPS).state
    assert learned.plan is None
    state = init_grouped_state(bounds, groups, prices=learned.prices)
    for ours, theirs in zip(state.prices, learned.prices, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    found = assign_grouped_stream(SCORES, bounds, groups, state)
    assert (found.state.group_counts[:-1] >= groups.lower).all()
    told = size_certificate(found.state.clusters, bounds)
    assert (told.at_least <= found.state.clusters.counts).all()


class NumPy:
    """The row of the fixture `xp` that tests of numbers alone take."""

    namespace, device = None, None
    asarray = staticmethod(np.asarray)


NUMPY = NumPy()


def test_what_does_not_fit_is_refused():
    bounds, groups = sizes(NUMPY), fair(NUMPY)
    state = assign_grouped_stream(SCORES[:20], bounds, groups).state

    def told(*arguments, error=InvalidValueError, **options):
        return message_of(error, assign_grouped_stream, *arguments, **options)

    for name, group in ((f"more of group {GROUPS[0]}.", int(GROUPS[0])), ("more of no group.", -1)):
        text = told(SCORES[20:], bounds, groups, state, of_rows=np.full(4, group))
        assert "of_rows must have no more rows of a group" in text
        assert name in text
    assert "of_rows must lie in [-1, 3)" in told(SCORES, bounds, groups, of_rows=GROUPS + 1)
    assert "of_rows must have shape (24,)" in told(SCORES, bounds, groups, of_rows=GROUPS[:3])
    assert "only 4 of n_samples=24 are left" in told(SCORES[:5], bounds, groups, state)
    assert "whose plan is outside" in told(SCORES[20:], bounds, fair(NUMPY, lower=1.0), state)
    assert "l1_radius=inf" in told(SCORES, bounds, groups, steps=theorem_steps(N, 1.0))
    assert "steps must have" in told(
        SCORES, bounds, groups, steps=StepRule(0.1, mean_over_chunk=True)
    )
    stream = SizeBounds.for_stream(K)
    assert "of_rows must be given" in told(SCORES, stream, groups)
    assert "in row 3, column 1" in told(
        np.where(np.arange(N * K).reshape(N, K) == 10, np.nan, SCORES), bounds, groups
    )
    assert "groups must be a GroupBounds" in told(SCORES, bounds, GROUPS, error=InvalidTypeError)
    assert "state must be a GroupedState" in told(
        SCORES, bounds, groups, assign(SCORES, bounds).state, error=InvalidTypeError
    )
    assert "take at most" in told(
        SCORES, bounds, GroupBounds.at_most_one(GROUPS, K), error=InfeasibleBoundsError
    )


def test_prices_to_start_from_are_a_finite_pair():
    bounds, groups = sizes(NUMPY), fair(NUMPY)
    p, q = np.zeros(K), np.zeros((3, K))

    def told(prices, error=InvalidValueError):
        return message_of(error, init_grouped_state, bounds, groups, prices=prices)

    assert "prices[0] must be finite" in told((p + np.nan, q))
    assert "prices[1] must be finite" in told((p, q + np.nan))
    assert "prices[1] must have shape" in told((p, q[1:]))
    assert "prices must be a pair" in told((p, q, q), error=InvalidTypeError)


def test_many_rows_in_one_call_all_have_labels():
    n, k = 1_500, 3
    rng = np.random.default_rng(2)
    wanted = np.asarray([3.0, 0.0, 0.0])
    scores, of_rows = rng.normal(size=(n, k)) + wanted, rng.integers(0, 2, n)
    bounds = SizeBounds.from_ratios(k, n_samples=n, lower=0.9, upper=1.1)
    groups = GroupBounds.from_shares(of_rows, k, lower=0.9, upper=1.1)
    steps = StepRule(1e-3, chunk_size=1_100)  # too small to matter: the plan refuses
    labels, state = assign_grouped_stream(scores, bounds, groups, steps=steps)
    counts = np.zeros((2, k), np.int64)
    np.add.at(counts, (of_rows, labels), 1)
    np.testing.assert_array_equal(state.group_counts[:-1], counts)
    assert ((counts >= groups.lower) & (counts <= groups.upper)).all()


def test_groups_of_more_than_a_million_rows_are_those_in_order():
    """Of the last four rows of a pass, the others have no group and are in their clusters."""
    n = 2**20 + 8
    last = np.asarray([0, 1, 1, 0])
    of_rows = np.concatenate([np.full(n - 4, -1), last])
    bounds = SizeBounds.from_counts([n // 2] * 2, [n // 2] * 2, n_samples=n)
    groups = GroupBounds.from_counts(of_rows, 2, lower=1, upper=1)
    state = init_grouped_state(bounds, groups)
    counts = np.concatenate([np.zeros((2, 2), np.int64), state.plan[2:]])
    clusters = state.clusters._replace(counts=counts.sum(axis=0), seen=n - 4)
    state = state._replace(clusters=clusters, group_counts=counts)
    scores = np.asarray([[1.0, 0.0]] * 4)
    found = assign_grouped_stream(scores, bounds, groups, state)
    assert found.labels.tolist() == [0, 0, 1, 1]
    assert found.state.group_counts[:-1].tolist() == [[1, 1], [1, 1]]


def test_loads_are_refused_with_the_reason():
    loads = LoadBounds.from_loads(np.ones(N), K, upper=10.0)
    for call in (
        lambda: assign(SCORES, loads),
        lambda: assign_grouped_stream(SCORES, loads, fair(NUMPY)),
    ):
        assert "no online rule can keep loads inside" in message_of(InvalidTypeError, call)


def test_more_than_a_thousand_pairs_of_a_group_and_a_cluster():
    of_rows = np.random.default_rng(0).permutation(np.repeat(np.arange(40), 30))
    once = GroupBounds.at_most_one(of_rows, 30)
    sizes = SizeBounds.from_counts([40] * 30, [40] * 30, n_samples=1200)
    scores = np.random.default_rng(1).random((1200, 30))
    state = assign_grouped_stream(scores, sizes, once).state
    assert (state.group_counts[:-1] == 1).all()
