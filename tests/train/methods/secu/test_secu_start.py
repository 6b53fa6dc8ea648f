"""SeCu before and between its steps: starts, what the optimizer is told, certificates, ranks."""

from __future__ import annotations

import copy

import pytest
import torch
from torch.nn import functional as F

from dualclust.train.methods._priced_heads import kmeans_centers
from dualclust.train.methods.secu import SeCu
from tests.problems import cone_features
from tests.thread_ranks import ThreadRanks, on_threads
from tests.train.secu_methods import D, draw_views, make, on_features

CERTIFIED = ["secu.centers=certified", "loss.center_temperature=0.3"]


def sampler(images, *named):
    """An `apply_to_all` that has the images of one view and stream, and others of the rest."""

    def apply_to_all(function, view="plain", stream="plain"):
        return function(images if (view, stream) == named else 2 - images)

    return apply_to_all


def images_of(n=120):
    return torch.randn(n, 1, 8, 8, generator=torch.Generator().manual_seed(0))


def test_a_start_is_of_first_views_of_a_stream_of_their_own():
    """Drawn like a first view, by numbers that no epoch draws."""
    method, images = make(changes=["heads.init=kmeans"]), images_of()
    method.network.eval()
    with torch.no_grad():
        method.start(sampler(images, "first", "init"))
        rows = method.features(images)
    for head, bounds in enumerate(method.bounds):
        expected = kmeans_centers(rows, bounds, method.config.seed, head)
        torch.testing.assert_close(method.centers.detach()[head, : bounds.n_clusters], expected)


def test_random_centers_stay_and_no_image_is_looked_at():
    method = make(changes=["heads.init=random"])
    before = method.centers.detach().clone()
    method.start(lambda *_, **__: pytest.fail("an image was looked at"))
    assert torch.equal(method.centers.detach(), before)
    assert torch.equal(make(changes=["heads.init=random"]).centers.detach(), before)


def test_certified_centers_are_solved_on_plain_images_of_a_stream_of_their_own():
    """And in evaluation mode, which is left again; the statistics of the network stay."""
    changes = [*CERTIFIED, "heads.init=random"]
    method, other = make((3, 7), changes=changes), make((3, 7), changes=changes)
    images = images_of()
    for one in (method, other):
        one.labels[:] = torch.arange(120) % 3
    before = copy.deepcopy(method.network.state_dict())
    method.begin_epoch(1, sampler(images, "plain", "centers"))
    assert method.network.training
    for name, tensor in method.network.state_dict().items():
        assert torch.equal(tensor, before[name])
    other.network.eval()
    with torch.no_grad():
        other.solve_centers(other.features(images))
    torch.testing.assert_close(method.centers, other.centers)
    torch.testing.assert_close(method.certificate, other.certificate)
    assert method.certificate.shape == (2, 3)
    gap, certified, interior = method.certificate[0].tolist()
    assert method.report() == {"center_gap": gap, "certified": certified, "interior": interior}


def test_certificates_come_back_with_a_state():
    method, other = (make((3, 7), changes=CERTIFIED) for _ in range(2))
    method.labels[:] = torch.arange(120) % 3
    method.solve_centers(torch.from_numpy(cone_features(120, 0, d=D)).float())
    assert bool((method.certificate > 0).any())
    other.load_state_dict(copy.deepcopy(method.state_dict()))
    assert torch.equal(other.certificate, method.certificate)
    assert torch.equal(other.centers, method.centers)


def test_learned_centers_are_reported_without_a_certificate():
    method = make()
    for epoch in range(2):
        method.begin_epoch(epoch)
        assert method.report() == {}


@pytest.mark.parametrize("ramp", [False, True])
def test_learned_centers_have_a_rate_of_their_own(ramp):
    """A tensor for each head, whose gradient every rank has in full: it is not to be summed."""
    ramps = f"secu.center_ramp={str(ramp).lower()}"
    method = make(changes=["optim.center_lr=0.7", ramps])
    network, centers = method.parameter_groups()
    assert network == ([*method.network.parameters()], None, 1.0, True, False, False)
    assert centers.params[0] is method.centers
    assert (centers.lr, centers.scale, centers.local) == (0.7, 1.0, False)
    assert (centers.ramp, centers.stacked) == (ramp, True)
    [alone] = make(changes=CERTIFIED).parameter_groups()
    assert (alone.lr, alone.local) == (None, True)


def test_a_new_method_compares_with_the_centers_that_it_has():
    method = make((3, 7))
    assert torch.equal(method.snapshot, method.centers.detach())
    with torch.no_grad():
        method.centers += 1
    lengths = torch.tensor([[1.0] * 3 + [0.0] * 4, [1.0] * 7])
    torch.testing.assert_close(method.snapshot.norm(dim=2), lengths)


@pytest.mark.parametrize("changes", [[], ["secu.constraint=entropy"]], ids=["size", "entropy"])
def test_an_epoch_that_was_left_goes_on_as_it_was(changes, rng):
    """With the centers it began with, and its own steps of prices, which halve by the epoch."""
    methods = [on_features(make((3,), 6000, [f"seed={seed}", *changes])) for seed in (0, 3)]
    method, other = methods
    ids = torch.arange(60)
    x = tuple(torch.from_numpy(draw_views(rng, ids.numpy())))
    for epoch in range(2):
        method.begin_epoch(epoch)
        method.step(ids, x)
        with torch.no_grad():
            method.centers += 0.1
    left = copy.deepcopy((method.epoch_state(), method.state_dict()))
    other.load_state_dict(left[1])
    other.resume_epoch(1, left[0])
    assert other.epoch == 1
    assert torch.equal(method.snapshot, other.snapshot)
    assert not torch.equal(F.normalize(other.centers.detach(), dim=2), other.snapshot)
    losses = [one.step(ids, x).detach() for one in methods]
    assert torch.equal(*losses)
    for name, value in method.heads.state_dict().items():
        assert torch.equal(value, other.heads.state_dict()[name])
    if not changes:
        assert float(method.heads.rule.step_size.max()) < 0.02  # else they would be capped
        assert torch.equal(method.heads.rule.step_size, other.heads.rule.step_size)


@pytest.mark.parametrize("changes", [[], ["network.predictor=8"]], ids=["projector", "predictor"])
def test_ranks_have_the_loss_of_the_whole_batch(changes):
    """Views of one rank's images alone, and the state of one process on both."""
    alone = make(changes=changes)
    images = images_of(7).double()
    alone.network.double().eval()  # no batch statistics, which ranks share

    def work(ranks: ThreadRanks) -> tuple[float, torch.Tensor]:
        method = SeCu(alone.config, copy.deepcopy(alone.network), 120, ranks)
        method.begin_epoch(0)
        part = images[slice(*ranks.shard(7))]
        return method.step(torch.arange(7), (part, part + 0.1)).item(), method.labels

    (expected, labels), *others = on_threads(1, work) + on_threads(2, work)
    for loss, found in others:
        assert loss == pytest.approx(expected, rel=1e-12)
        assert torch.equal(found, labels)
