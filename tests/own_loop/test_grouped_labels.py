"""`PricedLabels` with bounds on groups: fair labels of a stream, and what does not go together."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch

from dualclust.algos.bounds.groups import GroupBounds
from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.core.errors import InfeasibleBoundsError, InvalidTypeError, InvalidValueError
from dualclust.algos.online import assign_grouped_stream, init_grouped_state
from dualclust.algos.online.step_sizes import StepRule, published_steps, theorem_steps
from dualclust.torch import PricedLabels, PricedRouter
from tests.second_device import DEVICE, second_device

K, B = 4, 32
DRAWS = np.random.default_rng(0)
OF_ROWS = torch.from_numpy(DRAWS.choice([-1, 0, 1], 8 * B * 10, p=[0.1, 0.6, 0.3]))
LIKES = (
    torch.from_numpy(DRAWS.random((len(OF_ROWS), K)))
    + torch.tensor([[0.0, 0.0, 0.6, 0.6], [0.6, 0.6, 0.0, 0.0], [0.0] * 4], dtype=torch.float64)[
        OF_ROWS
    ]
)
FAIR = GroupBounds.from_shares(OF_ROWS, K, lower=0.9, upper=1.1)


def made(**options):
    return PricedLabels(K, **{"lower": 0.9, "upper": 1.1, "groups": FAIR} | options)


def batches(b=B):
    return zip(LIKES.split(b), OF_ROWS.split(b), strict=True)


def test_each_group_is_near_its_bounds_where_sizes_alone_would_part_them():
    fair, plain = made(), PricedLabels(K, lower=0.9, upper=1.1)
    apart = torch.zeros((2, K))
    for i, (scores, groups) in enumerate(batches()):
        labels = plain(scores)
        if i == 40:
            fair.reset_counts()
        fair(scores, groups=groups)
        if i >= 40:
            for g in range(2):
                apart[g] += torch.bincount(labels[groups == g], minlength=K)
    shares = fair.group_counts / fair.group_counts.sum(dim=1, keepdim=True) * K
    assert shares.min() > 0.75
    assert shares.max() < 1.25
    assert (apart / apart.sum(dim=1, keepdim=True) * K).min() < 0.5


def test_labels_and_prices_are_those_of_the_stream():
    stream, steps = SizeBounds.for_stream(K, lower=0.9, upper=1.1), StepRule(2.0**-8, B)
    bounds = GroupBounds(*(part.numpy() for part in FAIR))
    label, state = made(steps=steps), init_grouped_state(stream, bounds)
    for scores, groups in list(batches())[:30]:
        wanted, state = assign_grouped_stream(
            scores.numpy(), stream, bounds, state, of_rows=groups.numpy(), steps=steps
        )
        np.testing.assert_array_equal(label(scores, groups=groups).numpy(), wanted)
    np.testing.assert_array_equal(label.group_price_lower.numpy(), state.group_duals.lower)
    np.testing.assert_array_equal(label.group_price_upper.numpy(), state.group_duals.upper)
    np.testing.assert_array_equal(label.group_counts.numpy(), state.group_counts[:-1])
    np.testing.assert_array_equal(label.counts.numpy(), state.clusters.counts)


def test_groups_without_bounds_that_bind_change_nothing():
    plain = PricedLabels(K, lower=0.9, upper=1.1)
    free = made(groups=GroupBounds.from_counts(OF_ROWS, K))
    for scores, groups in list(batches())[:10]:
        assert torch.equal(plain(scores), free(scores, groups=groups))
    assert torch.equal(plain.prices, free.prices)
    assert [name for name, _ in plain.named_buffers()] == [
        "lower_share", "upper_share", "price_lower", "price_upper", "counts"
    ]  # fmt: skip


def test_padding_shapes_and_prices_on_request():
    whole, padded, asked = made(), made(), made(automatic=False)
    for scores, groups in list(batches())[:6]:
        labels = whole(scores, groups=groups)
        rows = torch.cat([scores, torch.full((4, K), 3.0)]).reshape(6, 6, K)
        ids = torch.cat([groups, torch.zeros(4, dtype=torch.int64)]).reshape(6, 6)
        found = padded(rows, torch.arange(36).reshape(6, 6) < B, groups=ids)
        assert torch.equal(found.reshape(-1)[:B], labels)
        halves = [asked(scores[part], groups=groups[part]) for part in (slice(8), slice(8, B))]
        asked.move_prices()
        assert torch.equal(torch.cat(halves), labels)
    for other in (padded, asked):
        for name, value in whole.state_dict().items():
            assert torch.equal(value, other.state_dict()[name]), name


def test_a_state_comes_back_under_the_same_bounds_alone():
    label = made(epsilon=0.05)
    for scores, groups in list(batches())[:5]:
        label(scores, groups=groups)
    clone = made(epsilon=0.05)
    clone.load_state_dict(label.state_dict())
    assert torch.equal(clone(scores, groups=groups), label(scores, groups=groups))
    other = made(groups=GroupBounds.from_shares(OF_ROWS, K, lower=0.8, upper=1.1))
    with pytest.raises(RuntimeError, match="group_lower_share differs"):
        other.load_state_dict(label.state_dict())
    with pytest.raises(RuntimeError, match="group_price_lower"):
        PricedLabels(K, lower=0.9, upper=1.1).load_state_dict(label.state_dict())
    with pytest.raises(RuntimeError, match="group_price_lower"):
        label.load_state_dict(PricedLabels(K, lower=0.9, upper=1.1).state_dict())


def test_eval_mode_freezes_and_prices_stay_float64():
    label = made(epsilon=0.1)
    for scores, groups in list(batches())[:5]:
        label(scores, groups=groups)
    label = label.eval().to(torch.bfloat16)
    before = {name: value.clone() for name, value in label.state_dict().items()}
    q = torch.cat([label.group_price_lower - label.group_price_upper, torch.zeros(1, K)])
    assert q.dtype == torch.float64
    soft = torch.softmax((scores + label.prices + q[groups]) / 0.1, dim=1)
    torch.testing.assert_close(label(scores, groups=groups), soft)
    for name, value in label.state_dict().items():
        assert torch.equal(value, before[name])


def test_it_is_one_graph_and_runs_over_heads():
    plain, compiled = made(), torch.compile(made(), fullgraph=True, backend="aot_eager")
    scores, groups = next(batches())
    for _ in range(2):
        assert torch.equal(plain(scores, groups=groups), compiled(scores, groups=groups))
    heads = [made(), made()]
    state = torch.func.stack_module_state(heads)[1]
    found = torch.func.vmap(
        lambda own, x: torch.func.functional_call(heads[0], own, (x,), {"groups": groups})
    )(state, torch.stack([scores, 2.0 * scores]))
    assert torch.equal(found[0], made()(scores, groups=groups))


def test_what_does_not_go_together_is_refused():
    scores, groups = next(batches())
    with pytest.raises(InvalidValueError, match="groups must be given"):
        made()(scores)
    with pytest.raises(InvalidValueError, match="groups must be None"):
        PricedLabels(K)(scores, groups=groups)
    with pytest.raises(InvalidValueError, match=r"groups must lie in \[-1, 2\)"):
        made()(scores, groups=groups + 1)
    with pytest.raises(InvalidValueError, match=r"groups must have shape \(32,\)"):
        made()(scores, groups=groups[:3])
    with pytest.raises(InvalidTypeError, match="groups must have an integer dtype"):
        made()(scores, groups=groups.double())
    with pytest.raises(InvalidTypeError, match="groups must be a GroupBounds"):
        made(groups=OF_ROWS)
    with pytest.raises(InvalidValueError, match=r"groups.lower must have shape \(2, 4\)"):
        made(groups=GroupBounds.from_shares(OF_ROWS, 3))
    for steps in (published_steps("coke-cifar"), theorem_steps(100, 1.0)):
        with pytest.raises(InvalidValueError, match="l1_radius=inf and mean_over_chunk=False"):
            made(steps=steps)
    with pytest.raises(InfeasibleBoundsError, match="groups 0 and 1 have 2278"):
        made(groups=GroupBounds.from_counts(OF_ROWS, K, upper=5))
    with pytest.raises(TypeError, match="groups"):
        PricedRouter(K, groups=FAIR)


def test_a_pass_on_a_second_device_reads_and_sends_nothing():
    here = made()
    there = copy.deepcopy(here)
    with second_device() as transfers:
        there.to(DEVICE)
        rows = [(scores.to(DEVICE), groups.to(DEVICE)) for scores, groups in list(batches())[:3]]
        transfers.clear()
        found = [there(scores, groups=groups) for scores, groups in rows]
        there.reset_counts()
        assert transfers.reads == {}
        assert transfers.uploads == {}
        for labels, (scores, groups) in zip(found, list(batches())[:3], strict=True):
            assert torch.equal(labels.cpu(), here(scores, groups=groups))
        assert torch.equal(there.group_price_upper.cpu(), here.group_price_upper)
