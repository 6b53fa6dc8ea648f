"""Parts of MI + margin by themselves: its views, its report, its shares, and the few labels."""

import math

import pytest
import torch

from dualclust.algos.core.errors import UsageError
from dualclust.common.ranks import Ranks
from dualclust.train.config.methods.mi_margin import MiMarginOptions
from dualclust.train.methods.mi_margin import method as mi_margin
from dualclust.train.methods.mi_margin._baselines import (
    BASELINES,
    Outputs,
    split_labels,
    transport_labels,
)
from dualclust.train.methods.mi_margin._restarts import APART
from dualclust.train.methods.mi_margin._seeds import draw_seeds
from dualclust.train.methods.mi_margin.method import MiMargin
from tests.train.methods.mi_margin.test_mi_margin import D, K, make


@pytest.mark.parametrize(
    ("changes", "views"),
    [
        (["mi_margin.average=0"], ("plain",)),
        (["mi_margin.average=1"], ("first",)),
        (["mi_margin.average=3"], ("first",) * 3),
        (["mi_margin.average=0", "mi_margin.extra_weight=0.5"], ("plain", "second")),
        (["mi_margin.average=2", "mi_margin.extra_weight=0.5"], ("first", "first", "second")),
    ],
    ids=str,
)
def test_only_the_views_in_use_are_drawn(changes, views):
    assert make(*changes).views == views


def test_labels_are_wanted_where_some_are_asked_for():
    assert not make().wants_labels
    assert make("mi_margin.supervised=0.1").wants_labels
    with pytest.raises(UsageError, match=r"mi_margin\.supervised is 0"):
        make().take_labels(torch.zeros(40, dtype=torch.int64))


@pytest.mark.parametrize(
    ("objective", "name"),
    [("mi_margin", "label_gap"), ("mi_adm", "label_error"), ("sela", "label_error"), ("mi_d", "")],
)
def test_a_report_has_the_mean_and_the_largest_error(objective, name):
    method = make(f"mi_margin.objective={objective}")
    for error in (0.25, 1.0, 0.5, 0.25):
        method._record(torch.tensor(error))
    assert method.report() == ({f"{name}_mean": 0.5, f"{name}_max": 1.0} if name else {})


@pytest.mark.parametrize("world", [1, 2, 4])
def test_the_margin_is_whole_and_its_gradient_shared(world):
    """Gradients are summed over ranks, and every rank has the same margin."""
    method = make("mi_margin.margin_weight=0.3")
    method.ranks = Ranks(0, world)
    value = method._margin()
    weight = method.head.weight
    assert value.item() == pytest.approx(0.3 * weight.square().sum().item())
    value.backward()
    torch.testing.assert_close(weight.grad, 0.6 * weight.detach() / world)


@pytest.mark.parametrize(
    ("newton", "may_read", "least", "most"),
    [(0, True, 3, 24), (0, False, 25, 25), (2, True, 2, 2), (7, False, 7, 7)],
)
def test_steps_of_the_label_solver(newton, may_read, least, most, monkeypatch):
    """On the host until solved, or the most that are set; without reading as many, or 25."""
    method = make(f"mi_margin.newton_steps={newton}", "mi_margin.average=1")
    method.may_read = may_read
    seen, whole = [], mi_margin.pseudo_labels

    def spy(*args, **kwargs):
        seen.append(whole(*args, **kwargs))
        return seen[-1]

    monkeypatch.setattr(mi_margin, "pseudo_labels", spy)
    method.step(torch.arange(9), (8.0 * torch.randn(9, D, dtype=torch.float64),))
    (solved,) = seen
    assert least <= solved.n_iter <= most
    assert (float(solved.gap) <= method.options.tol) == (newton != 2)


@pytest.mark.parametrize("newton", [0, 12])
def test_the_host_solves_for_the_labels_of_a_captured_step(newton, rng):
    """The same loss and gradients, to what a second way to solve a linear system rounds."""
    x, found = torch.from_numpy(rng.normal(size=(64, D))), []
    for may_read in (True, False):
        method = make(f"mi_margin.newton_steps={newton}", "mi_margin.average=1")
        method.may_read = may_read
        loss = method.step(torch.arange(64) % 40, (x,))
        loss.backward()
        found.append([loss.detach(), method.head.weight.grad, method.errors, method.labels])
    for host, device in zip(*found, strict=True):
        torch.testing.assert_close(host, device, rtol=1e-9, atol=1e-12)


def test_predictions_that_are_no_numbers_make_a_loss_that_is_none():
    """It is the watch that ends such a run, and says what to do."""
    method = make("mi_margin.average=1")
    loss = method.step(torch.arange(9), (torch.full((9, D), math.nan, dtype=torch.float64),))
    assert math.isnan(float(loss.detach()))


def test_sela_labels_all_images_before_an_epoch():
    method = make("mi_margin.objective=sela", "mi_margin.sharpness=5.0")
    rows = torch.rand(40, K, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    rows = rows / rows.sum(1, keepdim=True)
    training = []

    def apply_to_all(function):
        assert function == method.features
        training.append(method.network.training)
        return rows

    method.begin_epoch(0, apply_to_all)
    labels, error = transport_labels(rows, sharpness=5.0)
    assert torch.equal(method.labels[0], labels)
    assert method.report() == pytest.approx(
        {"label_error_mean": float(error), "label_error_max": float(error)}
    )
    assert training == [False]
    assert method.network.training


def test_a_batch_adds_its_predictions_to_the_mass():
    method = make("mi_margin.average=1", "mi_margin.restart=0.1")
    x = torch.randn(9, D, dtype=torch.float64)
    for _ in range(2):
        method.step(torch.arange(9), (x,))
    torch.testing.assert_close(method.mass, 2 * method.features(x).detach().sum(0))
    assert method.mass.sum().item() == pytest.approx(18.0)
    method.begin_epoch(1)
    assert (method.mass == 0).all()


def test_split_labels_without_a_balance_are_sharpened_predictions():
    log_p = torch.log_softmax(torch.randn(8, 3, dtype=torch.float64), dim=1)
    y, error = split_labels(log_p, balance=0.0, smoothing=0.5, rounds=3)
    torch.testing.assert_close(y, torch.softmax(2.0 * log_p, dim=1))
    assert float(error) == 0.0


@pytest.mark.parametrize("balance", [0.5, 1.3])
def test_the_error_of_split_labels_is_the_largest_of_a_share(balance):
    """Before the first round no cluster has a price: each asks for 1 / k."""
    log_p = torch.log(torch.tensor([[0.5, 0.25, 0.25], [0.75, 0.125, 0.125]]).double())
    y, error = split_labels(log_p, balance=balance, smoothing=1.0, rounds=0)
    torch.testing.assert_close(y, log_p.exp())
    assert float(error) == pytest.approx(0.625 - 1 / 3)  # the others: 1 / 3 - 0.1875


def test_a_small_class_keeps_one_label_and_the_rest_none():
    labels = torch.tensor([0] * 10 + [1] * 3 + [2] * 20)
    seeds = draw_seeds(labels, 0.1, n_clusters=3, generator=torch.Generator().manual_seed(0))
    assert [int((seeds == c).sum()) for c in range(3)] == [1, 1, 2]
    assert sorted(set(seeds.tolist())) == [-1, 0, 1, 2]
    whole = draw_seeds(labels, 1.0, n_clusters=5, generator=torch.Generator())
    assert torch.equal(whole, labels)


def test_halves_are_moved_by_half_a_length():
    assert APART == 0.5


def test_no_image_has_a_class_before_labels_are_handed_over():
    seeds = make("mi_margin.supervised=0.1").seeds
    assert seeds.dtype == torch.int64
    assert (seeds == -1).all()
    assert len(seeds) == 40


def test_nothing_is_restarted_before_the_first_epoch():
    assert make("mi_margin.restart=0.1").report() == {"restarted": 0.0}


@pytest.mark.parametrize("name", BASELINES)
def test_a_baseline_says_how_far_its_labels_are_from_solved(name):
    """In float64 whatever the scores; labels are whole numbers, of the batch alone or stored."""
    scores = torch.log_softmax(torch.randn(9, K), dim=1)
    stored = torch.arange(9) % K
    out = Outputs(scores, torch.stack([scores, scores]), stored)
    found = BASELINES[name](MiMarginOptions(), out)
    assert found.error.shape == ()
    assert found.error.dtype == torch.float64
    assert (float(found.error) > 0) == (name == "mi_adm")
    assert found.labels.dtype == torch.int64
    if name != "mi_adm":
        assert torch.equal(found.labels, stored if name == "sela" else scores.argmax(1))


def test_a_network_that_ends_otherwise_is_refused(monkeypatch):
    method = make()
    network = method.network
    network.projector = torch.nn.Sequential(torch.nn.BatchNorm1d(K))
    with pytest.raises(UsageError, match="must end in a linear layer, got BatchNorm1d"):
        MiMargin(method.config, network, 40)
