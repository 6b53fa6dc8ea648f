"""A step of MI + margin that ranks share is that of one process; a state goes over whole."""

import copy

import pytest
import torch

from dualclust.train.methods.mi_margin.method import MiMargin
from tests.thread_ranks import on_threads
from tests.train.methods.mi_margin.test_mi_margin import B, D, make

CASES = {
    "views": ["mi_margin.average=2"],
    "extra view": ["mi_margin.average=1", "mi_margin.extra_weight=0.5"],
    "weak supervision": ["mi_margin.supervised=0.5", "mi_margin.average=2"],
    "iic": ["mi_margin.objective=iic"],
}


def shared_step(template, views, ranks):
    """Loss, gradients over all ranks, and what the method keeps."""
    method = MiMargin(template.config, copy.deepcopy(template.network), 40, ranks)
    if method.wants_labels:
        method.take_labels(torch.arange(40) % 3)
    part = slice(*ranks.shard(B))
    loss = method.step(torch.arange(B), tuple(view[part] for view in views))
    loss.backward()
    grads = [p.grad for p in method.network.parameters()]
    ranks.sum_(grads)
    return loss.detach(), grads, method.state_dict(), method.report()


@pytest.mark.parametrize("changes", CASES.values(), ids=CASES)
def test_two_ranks_are_one_process(changes):
    template = make("mi_margin.margin_weight=0.3", *changes)
    draws = torch.Generator().manual_seed(3)
    views = [torch.randn(B, D, generator=draws, dtype=torch.float64) for _ in template.views]
    (one,) = on_threads(1, lambda ranks: shared_step(template, views, ranks))
    for found in on_threads(2, lambda ranks: shared_step(template, views, ranks)):
        torch.testing.assert_close(found, one, rtol=1e-9, atol=1e-12)


def test_a_state_goes_over_to_another_run():
    """All of it: network, labels, mass and seeds; a state that lacks something is refused."""
    method, other = (make("mi_margin.supervised=0.2", f"seed={seed}") for seed in (0, 1))
    method.take_labels(torch.arange(40) % 3)
    method.step(torch.arange(B), (torch.randn(B, D, dtype=torch.float64),) * 2)
    state = copy.deepcopy(method.state_dict())
    assert state["labels"].any()
    assert state["mass"].sum().item() == pytest.approx(B)
    assert (state["seeds"] >= 0).any()
    other.load_state_dict(copy.deepcopy(state))
    torch.testing.assert_close(other.state_dict(), state, rtol=0, atol=0)
    name = next(iter(state["network"]))
    del state["network"][name]
    with pytest.raises(RuntimeError, match=name):
        other.load_state_dict(state)


def test_the_rest_of_an_epoch_is_reported_with_what_came_before():
    """Errors and restarts of an epoch, resumed in the middle of it."""
    method = make("mi_margin.newton_steps=1", "mi_margin.restart=0.5")
    draws = torch.Generator().manual_seed(0)
    views = tuple(4.0 * torch.randn(2, B, D, generator=draws, dtype=torch.float64))
    method.begin_epoch(2)
    method.step(torch.arange(B), views)
    method.restarted = 2
    other = make("mi_margin.newton_steps=1", "mi_margin.restart=0.5")
    other.load_state_dict(copy.deepcopy(method.state_dict()))
    other.resume_epoch(2, copy.deepcopy(method.epoch_state()))
    assert other.epoch == 2
    for each in (method, other):
        each.step(torch.arange(B), tuple(0.5 * view for view in views))
    assert other.report() == pytest.approx(method.report())
    assert other.report()["restarted"] == 2.0
    assert other.report()["label_gap_max"] > other.report()["label_gap_mean"] > 0.0


@pytest.mark.parametrize("share", [0.3, 0.6])
def test_seeds_are_drawn_by_the_seed_of_the_run(share):
    found = []
    for seed, state in ((0, 1), (0, 2), (1, 1)):
        method = make(f"mi_margin.supervised={share}", f"seed={seed}")
        torch.manual_seed(state)
        method.take_labels(torch.arange(40) % 3)
        found.append(method.seeds)
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])


def test_the_last_layer_learns_at_the_rate_of_the_rest_unless_it_has_its_own():
    for rate, scales in ((0.0, [1.0]), (0.5, [1.0, 5.0]), (1.0, [1.0, 10.0])):
        method = make(f"mi_margin.head_lr={rate}", "optim.lr=0.1")
        groups = method.parameter_groups()
        assert [group.scale for group in groups] == pytest.approx(scales)
        every = {id(p) for group in groups for p in group.params}
        assert every == {id(p) for p in method.network.parameters()}


def test_only_sela_labels_all_images_before_an_epoch():
    """And that only where the loop hands over the images."""

    def apply_to_all(function):
        return torch.full((40, 3), 1 / 3, dtype=torch.float64)

    for objective in ("mi_margin", "mi_d", "mi_adm"):
        method = make(f"mi_margin.objective={objective}")
        method.labels.fill_(2)
        method.begin_epoch(0, apply_to_all)
        assert (method.labels == 2).all()
        assert method.report() == {}
    method = make("mi_margin.objective=sela")
    method.begin_epoch(0)
    assert method.report() == {}


@pytest.mark.parametrize("tol", [0.5, 1e-12])
def test_the_label_problem_is_solved_to_the_tolerance_that_is_set(tol):
    """A loose one stops early: the gap that is left is larger, and reported."""
    balance = "mi_margin.balance=10", "mi_margin.newton_steps=0", f"mi_margin.tol={tol}"
    method = make(*balance, "mi_margin.average=1")
    draws = torch.Generator().manual_seed(0)
    method.step(torch.arange(B), (6.0 * torch.randn(B, D, generator=draws, dtype=torch.float64),))
    gap = method.report()["label_gap_max"]
    assert gap <= tol
    assert (gap > 1e-6) == (tol == 0.5)


def test_the_stored_labels_are_the_largest_entries_of_the_soft_labels():
    """Equal groups of sure predictions, so that no balance moves one."""
    method = make("mi_margin.average=1", n=9)
    expected = torch.arange(9) % 3
    method._log_posterior = lambda rows: torch.log_softmax(rows, dim=1)
    method.step(torch.arange(9), (4.0 * torch.eye(3, dtype=torch.float64)[expected],))
    assert torch.equal(method.labels[0], expected)
