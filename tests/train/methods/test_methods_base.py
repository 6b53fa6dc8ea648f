"""What methods share: the runner-up of an image, some rows at a time, and who may be a method."""

import importlib
from types import SimpleNamespace

import pytest
import torch

from dualclust.algos.core.errors import UsageError
from dualclust.train import methods
from dualclust.train.config.run import RunConfig, override
from dualclust.train.methods import base
from dualclust.train.methods.base import METHODS, Batch, Method, ParameterGroup, register_method
from dualclust.train.methods.secu import SeCu
from tests.train.secu_methods import make


def found(scores, labels, prices):
    return base._runner_up(scores, SimpleNamespace(labels=labels, prices=prices))


def test_the_runner_up_is_the_best_but_for_the_label_at_the_prices():
    scores = torch.tensor([[3.0, 2.0, 1.0], [3.0, 2.0, 1.0], [0.0, 0.1, 0.2]])
    prices = torch.tensor([0.0, 0.0, 1.5])
    assert found(scores, torch.tensor([0, 2, 2]), prices).tolist() == [2, 0, 1]


@pytest.mark.parametrize(("k", "rows"), [(3, 2**22 // 3), (2**21, 2), (2**22 + 1, 1)])
def test_four_million_scores_are_looked_at_a_time(k, rows, monkeypatch):
    """And one row at least; on tensors without values, which take no memory."""
    sizes, split = [], torch.split

    def spy(tensor, size):
        sizes.append(size)
        return split(tensor, size)

    monkeypatch.setattr(base.torch, "split", spy)
    scores = torch.empty(5, k, device="meta")
    labels = torch.empty(5, dtype=torch.int64, device="meta")
    assert found(scores, labels, torch.empty(k, device="meta")).shape == (5,)
    assert set(sizes) == {rows}


def test_a_method_without_settings_is_refused():
    with pytest.raises(UsageError, match=r"'unknown' has no settings.*config/methods/unknown\.py"):
        register_method("unknown")


def test_features_are_of_single_precision_or_more():
    method = make()
    for dtype, wide in ((torch.bfloat16, torch.float32), (torch.float64, torch.float64)):
        method.network.to(dtype)
        rows = method.features(torch.randn(6, 1, 8, 8, dtype=dtype)).detach()
        assert rows.dtype == wide
        torch.testing.assert_close(rows.norm(dim=1), torch.ones(6, dtype=wide))


def test_a_network_without_parameters_is_refused():
    config = override(RunConfig(), ["network.name=none", "network.layers=0"])
    with pytest.raises(UsageError, match=r"nothing to learn.*set network\.layers to 1 or more"):
        SeCu(config, torch.nn.Identity(), 6)


def test_a_module_that_registers_no_method_is_refused(monkeypatch):
    """Its name is that of its settings: a method under another name would never be found."""
    monkeypatch.delitem(METHODS, "coke")
    with pytest.raises(ImportError, match="train/methods/coke registers no method 'coke'"):
        importlib.reload(methods)


def test_what_a_method_is_unless_it_says_otherwise():
    assert not Method.capturable
    assert not Method.wants_labels
    assert Method.stores_labels
    assert Method.views == ("first", "second")
    group = ParameterGroup([])
    assert (group.lr, group.scale, group.local) == (None, 1.0, True)
    assert (group.ramp, group.stacked) == (False, False)
    assert make().epoch == 0
    assert make().draws([3, 2]) == [(), ()]
    assert make().order(3) is None
    assert Method.report(make()) == {}
    assert make().attended("images", "ids") is None


def test_one_loss_of_a_batch_is_that_of_its_step():
    method = make()
    method.step = lambda ids, views: ("loss of", ids, views)
    assert [*method.losses(Batch("ids", "views"))] == [("loss of", "ids", "views")]


def test_bounds_of_heads_are_rounded_as_the_settings_say():
    """Of 120 images, 16 clusters have 7.5 each: at least 5.625 and at most 9.75 of them."""
    found = {}
    for rounding in ("inward", "outward", "nearest"):
        changes = ["assignment.lower=0.75", "assignment.upper=1.3"]
        changes.append(f"assignment.rounding={rounding}")
        [head, other] = make((16, 2), changes=changes).bounds
        found[rounding] = (int(head.lower[0]), int(head.upper[0]))
        assert (int(other.lower[0]), int(other.upper[0])) == (45, 78)
    assert found == {"inward": (6, 9), "outward": (5, 10), "nearest": (6, 10)}


def test_predictions_know_the_nearest_center_beside_the_label():
    """Bounds of two images each move the third of cluster 0, whose margin is the smallest."""
    method = make((2,), 4, ["assignment.lower=1.0", "assignment.upper=1.0"])
    with torch.no_grad():
        method.centers.copy_(torch.eye(2, 12))
    rows = torch.zeros(4, 12)
    rows[:, :2] = torch.tensor([[1.0, 0.0], [0.8, 0.6], [1.0, 0.1], [0.0, 3.0]])
    found = method.predict(rows)
    assert found.nearest.tolist() == [0, 0, 0, 1]
    assert found.assignment.labels.tolist() == [0, 1, 0, 1]
    assert found.runner_up.tolist() == [1, 0, 1, 0]
    torch.testing.assert_close(found.features.norm(dim=1), torch.ones(4))
    assert bool((found.margins >= 0).all())
