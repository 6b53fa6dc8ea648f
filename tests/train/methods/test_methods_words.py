"""What each method says of itself: scores for a look, prices, churn, and where it goes on."""

from __future__ import annotations

import math
from copy import deepcopy

import pytest
import torch
from torch.nn import functional as F

from dualclust.algos.core.errors import InfeasibleBoundsError
from tests.train import coke_methods, secu_methods
from tests.train.methods.gatcluster.test_gatcluster import make as make_gatcluster
from tests.train.methods.mi_margin.test_mi_margin import make as make_mi_margin
from tests.train.methods.propos.test_propos import D, K, N, P
from tests.train.methods.propos.test_propos import make as make_propos
from tests.train.methods.secu.test_secu_self_label import make as make_self_label


def test_scores_for_a_look_are_cosines_over_the_temperature():
    """Of the target head, for rows of any length; as the loss compares them."""
    coke = coke_methods.make()
    coke.begin_epoch(0)
    coke.step(torch.arange(coke_methods.N), coke_methods.draw_images(coke, coke_methods.N))
    labeling = make_self_label()
    with torch.no_grad():
        labeling.centers.normal_()
    for method, d in (
        (secu_methods.make(changes=["loss.temperature=0.25"]), secu_methods.D),
        (coke, coke_methods.D),
        (labeling, 6),
    ):
        rows = torch.randn(9, d, dtype=method.dtype)
        found = method.probe_logits(rows).detach()
        cosines = F.normalize(rows, dim=1) @ method.target_centers(rows).T
        torch.testing.assert_close(found, cosines / method.config.loss.temperature)
        assert method.temperature == method.config.loss.temperature
        unit = method.target_centers(rows).norm(dim=1)
        torch.testing.assert_close(unit, torch.ones_like(unit))


def test_scores_of_probabilities_are_their_logarithms():
    rows = torch.tensor([[0.5, 0.25, 0.25], [1.0, 0.0, 0.0]], dtype=torch.float64)
    least = math.log(torch.finfo(torch.float64).smallest_normal)
    expected = torch.tensor([[math.log(0.5), *[math.log(0.25)] * 2], [0.0, least, least]])
    for method in (make_gatcluster(), make_mi_margin()):
        torch.testing.assert_close(method.probe_logits(rows), expected.double())
    assert make_propos().probe_logits(torch.randn(3, D)) is None


def test_the_temperature_of_propos_is_that_of_the_scattering():
    method = make_propos("propos.temperature=0.2", "loss.temperature=0.7")
    assert method.temperature == 0.2


def test_prices_are_those_of_the_target_head_where_there_are_any():
    for method in (secu_methods.make(), coke_methods.make()):
        draws = torch.rand(2, *method.heads.duals.lower.shape, dtype=torch.float64)
        method.heads.load_state_dict({"lower": draws[0], "upper": draws[1]})
        assert torch.equal(method.training_prices(), (draws[0] - draws[1])[method.target, :3])
    for without in (secu_methods.make(changes=["secu.constraint=entropy"]), make_propos()):
        assert without.training_prices() is None


def test_churn_is_the_share_of_the_labels_that_a_clustering_changed():
    method = make_propos("propos.reassign=2")
    data = torch.randn(N, P, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    calls = []

    def apply_to_all(function, **_):
        calls.append(method.epoch)
        return function(data)

    before = method.labels[0].clone()
    method.begin_epoch(0, apply_to_all)
    share = float((method.labels[0] != before).double().mean())
    assert 0 < share < 1
    assert method.report() == {"churn": pytest.approx(share)}
    state = deepcopy(method.epoch_state())
    method.begin_epoch(1, apply_to_all)
    assert method.report() == {"churn": 0.0}
    method.begin_epoch(2, apply_to_all)  # the networks have not moved
    assert method.report() == {"churn": 0.0}
    method.begin_epoch(3)
    assert calls == [0, 2]
    other = make_propos("propos.reassign=2", "seed=9")
    other.resume_epoch(1, state)  # warm-up is over
    assert other.report() == {"churn": pytest.approx(share)}
    assert (other.epoch, float(other.gate)) == (1, 1.0)
    other.resume_epoch(0, state)
    assert (other.epoch, float(other.gate)) == (0, 0.0)


@pytest.mark.parametrize("rounding", ["inward", "nearest"])
def test_bounds_of_a_head_that_cannot_be_name_their_settings(rounding):
    """With the rounding that always leaves some sizes as a way out."""
    changes = ["assignment.upper=1", "assignment.lower=0", f"assignment.rounding={rounding}"]
    with pytest.raises(InfeasibleBoundsError) as caught:
        secu_methods.make((3, 23), changes=changes)
    text = str(caught.value)
    assert text.startswith("the head of 23 clusters (heads.clusters) has no sizes for 120 samples")
    assert f"assignment.lower=0.0, upper=1.0, rounding={rounding!r}: " in text
    assert text.endswith(". Or set assignment.rounding='outward'")
    assert isinstance(caught.value.__cause__, InfeasibleBoundsError)
    assert caught.value.vector is caught.value.__cause__.vector


def test_the_number_of_clusters_of_propos_is_that_of_its_head():
    assert make_propos().n_clusters == K
