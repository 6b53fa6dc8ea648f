"""Targets of a batch in a loop of one's own: inside bounds in every batch, on any device."""

from __future__ import annotations

import copy
import math
from collections import Counter

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from dualclust.algos.core.errors import (
    InfeasibleBoundsError,
    InvalidTypeError,
    InvalidValueError,
)
from dualclust.torch import BalancedLabels
from tests.second_device import DEVICE, SecondTensor, second_device, tensors

VIEWS = {"view", "t", "permute", "select", "slice", "unsqueeze", "squeeze", "expand", "detach"}
kinds = pytest.mark.parametrize("kind", ["soft", "hard", "exact"])


def batch(seed, n=64, k=8, dtype=torch.float32):
    draws = torch.Generator().manual_seed(seed)
    return (torch.rand(n, k, generator=draws) + torch.linspace(1.0, 0.0, k)).to(dtype)


def sizes(labels, k=8):
    return labels.sum(dim=0) if labels.ndim == 2 else labels.bincount(minlength=k)


@pytest.mark.parametrize("kind", ["hard", "exact"])
@pytest.mark.parametrize(("low", "high"), [(0.9, 1.1), (0.5, 2.0), (1.0, 1.0), (0.0, math.inf)])
def test_every_batch_is_inside_whole_bounds_from_the_first_on(kind, low, high):
    label = BalancedLabels(8, kind=kind, lower=low, upper=high)
    for seed in range(8):
        n = 64 if seed % 2 else 50
        counts = sizes(label(batch(seed, n)))
        assert counts.min() >= math.floor(low * n / 8)
        assert counts.max() <= math.ceil(min(high, 8.0) * n / 8)


def test_soft_sizes_come_near_with_steps_and_warm_prices():
    outside = {}
    for n_iter in (3, 30):
        label = BalancedLabels(8, lower=0.9, upper=1.1, n_iter=n_iter)
        violations = []
        for seed in range(10):
            scores = batch(seed)
            labels = label(scores)
            torch.testing.assert_close(labels.sum(dim=1), torch.ones(64))
            violations.append(label.certificate(scores, labels).violation)
        outside[n_iter] = sum(violations[2:])
    assert outside[30] < 0.2 * outside[3]
    assert outside[30] / 8 < 0.5


def test_a_certificate_is_tight_for_exact_labels_and_holds_for_hard_ones():
    exact, hard = (BalancedLabels(8, kind=kind, upper=1.1) for kind in ("exact", "hard"))
    scores = batch(0)
    best = exact.certificate(scores, exact(scores))
    assert best.upper_bound == pytest.approx(best.objective, rel=1e-9)
    near = hard.certificate(scores, hard(scores))
    assert near.objective <= best.objective + 1e-9 <= near.upper_bound + 2e-9
    assert near.objective > 0.97 * best.objective
    assert (near.violation, near.smallest) == (0.0, float(sizes(hard(scores)).min()))
    wrong = hard.certificate(scores, torch.zeros(64, dtype=torch.int64))
    assert (wrong.violation, wrong.largest) == (55.0, 64.0)


@kinds
def test_eval_mode_labels_alike_and_remembers_nothing(kind):
    label = BalancedLabels(8, kind=kind, upper=1.2)
    label(batch(0))
    before, twin = label.prices.clone(), copy.deepcopy(label)
    assert before.abs().max() > 0
    assert torch.equal(label.eval()(batch(1)), twin(batch(1)))
    assert torch.equal(label.prices, before)
    assert not torch.equal(twin.prices, before)


@pytest.mark.parametrize("decay", [0.0, 0.5])
def test_a_batch_begins_with_a_part_of_the_prices(decay):
    label, plain = (BalancedLabels(8, upper=1.2, decay=d) for d in (decay, 1.0))
    label(batch(0))
    plain(batch(0))
    plain.prices *= decay
    assert torch.equal(label(batch(1)), plain(batch(1)))


@kinds
def test_padding_nan_and_infinite_rows_take_no_part(kind):
    label, clean = (BalancedLabels(8, kind=kind, upper=1.2) for _ in range(2))
    rows = torch.cat([batch(2), torch.rand(6, 8)]).reshape(7, 10, 8)
    rows[6, 5, 3], rows[6, 6, 2], rows[6, 7] = math.nan, math.inf, -math.inf
    weights = (torch.arange(70) < 68).reshape(7, 10)
    weights[6, 4] = False
    found, wanted = label(rows, weights), clean(batch(2))
    assert found.shape[:2] == (7, 10)
    flat = found.reshape(70, *found.shape[2:])
    torch.testing.assert_close(flat[:64], wanted, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(label.prices, clean.prices, atol=1e-5, rtol=1e-5)
    if kind == "soft":
        assert flat[65:68].isnan().all()
        assert flat[64].isfinite().all()


@kinds
def test_a_queue_shares_the_bounds_and_is_not_returned(kind):
    label, whole = (BalancedLabels(8, kind=kind, upper=1.2) for _ in range(2))
    scores, queue = batch(3, 20), batch(4, 100)
    found = label(scores, queue=queue)
    assert torch.equal(found, whole(torch.cat([scores, queue]))[:20])
    weights = torch.arange(20) < 15
    assert label(scores, weights, queue).shape == found.shape


@kinds
def test_an_empty_batch_moves_nothing(kind):
    label = BalancedLabels(8, kind=kind, upper=1.2)
    label(batch(0))
    before = label.prices.clone()
    assert label(torch.zeros(0, 8)).shape[0] == 0
    assert label(batch(1), torch.zeros(64, dtype=torch.bool)).shape[0] == 64
    assert torch.equal(label.prices, before)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@kinds
def test_half_precision_and_autocast_compute_in_float32(kind, dtype):
    label, plain = (BalancedLabels(8, kind=kind, upper=1.1) for _ in range(2))
    with torch.autocast("cpu", torch.bfloat16):
        found = label(batch(5, dtype=dtype))
    wanted = plain(batch(5, dtype=dtype).float())
    assert torch.equal(found, wanted)
    assert found.dtype in (torch.float32, torch.int64)


@pytest.mark.parametrize(("low", "high"), [(1.0, 1.0), (0.8, 1.2), (0.0, 1.4)])
def test_the_gradient_is_that_of_finite_differences(low, high):
    options = {"lower": low, "upper": high, "epsilon": 0.1, "n_iter": 400}
    label = BalancedLabels(4, differentiable=True, **options).eval()
    plain = BalancedLabels(4, **options).eval()
    scores = batch(6, 10, 4, torch.float64).requires_grad_()
    weight = torch.rand(10, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    (label(scores) * weight).sum().backward()
    assert not plain(scores).requires_grad
    step, rows = 1e-6, scores.detach()
    for i, j in ((0, 0), (3, 1), (7, 2), (9, 3)):
        ends = [rows.clone() for _ in range(2)]
        ends[0][i, j] -= step
        ends[1][i, j] += step
        less, more = ((plain(end) * weight).sum() for end in ends)
        assert scores.grad[i, j] == pytest.approx(float(more - less) / (2 * step), abs=1e-5)
    assert scores.grad.abs().max() > 0.1


class Operations(TorchDispatchMode):
    """Counts what is launched on the second device: every operation but views."""

    def __init__(self):
        super().__init__()
        self.found = Counter()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        given = tensors([*args, *(kwargs or {}).values(), result])
        name = function.overloadpacket.__name__
        if name not in VIEWS and any(isinstance(each, SecondTensor) for each in given):
            self.found[name] += 1
        return result


@pytest.mark.parametrize(("kind", "most"), [("soft", 60), ("hard", 160)])
def test_a_step_on_a_second_device_reads_nothing_and_has_few_operations(kind, most):
    here = BalancedLabels(8, kind=kind, upper=1.1)
    with second_device() as transfers:
        there = BalancedLabels(8, kind=kind, upper=1.1, device=DEVICE)
        scores = batch(7).to(DEVICE)
        there(scores)
        transfers.clear()
        with Operations() as counted:
            found = there(scores)
        assert sum(counted.found.values()) <= most, counted.found
        assert transfers.reads == {}
        assert transfers.uploads == {}
        here(batch(7))
        assert torch.equal(found.cpu(), here(batch(7)))


def test_exact_labels_run_on_a_second_device_and_read():
    with second_device() as transfers:
        label = BalancedLabels(8, kind="exact", upper=1.1, device=DEVICE)
        found = label(batch(8).to(DEVICE))
        assert transfers.reads
        assert torch.equal(found.cpu(), BalancedLabels(8, kind="exact", upper=1.1)(batch(8)))


def test_a_state_goes_on_and_other_bounds_are_refused():
    label = nn.Sequential(BalancedLabels(8, upper=1.1)).half()
    label(batch(0))
    fresh = nn.Sequential(BalancedLabels(8, upper=1.1))
    fresh.load_state_dict(label.state_dict())
    assert torch.equal(fresh(batch(1)), label(batch(1)))
    with pytest.raises(RuntimeError, match="upper_share differs"):
        BalancedLabels(8, upper=1.3).load_state_dict(label[0].state_dict())


def test_arguments_that_do_not_fit_are_refused():
    with pytest.raises(InvalidValueError, match="kind must be one of 'soft', 'hard', 'exact'"):
        BalancedLabels(8, kind="soften")
    with pytest.raises(InvalidTypeError, match="differentiable must be False for hard labels"):
        BalancedLabels(8, kind="hard", differentiable=True)
    with pytest.raises(InvalidValueError, match=r"scores must have shape \(..., 8\)"):
        BalancedLabels(8)(torch.zeros(3, 7))
    with pytest.raises(InvalidTypeError, match="weights must be boolean for hard labels"):
        BalancedLabels(8, kind="hard")(batch(0), torch.ones(64))
    with pytest.raises(InvalidValueError, match="call one BalancedLabels for each group"):
        BalancedLabels(8)(batch(0), groups=torch.arange(64) % 2)
    with pytest.raises(InvalidValueError, match="decay must lie in"):
        BalancedLabels(8, decay=1.5)
    forbidden = batch(0)
    forbidden[:, 7] = -math.inf
    with pytest.raises(InfeasibleBoundsError):
        BalancedLabels(8, kind="exact")(forbidden)
