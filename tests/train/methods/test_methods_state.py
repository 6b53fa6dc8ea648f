"""What each method keeps: the dtype of every array, whatever that of the network.

Labels and counts are whole numbers; prices, masses and errors, which add up over a run, are in
double precision; what is compared with features is of their kind.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch

from dualclust.train.methods.secu import SeCu
from tests.train import coke_methods, secu_methods
from tests.train.methods.gatcluster.test_gatcluster import make as make_gatcluster
from tests.train.methods.mi_margin.test_mi_margin import make as make_mi_margin
from tests.train.methods.propos.test_propos import make as make_propos
from tests.train.methods.secu.test_secu_self_label import make as make_self_label

COUNT, LABEL, SLOT, DOUBLE = torch.int64, torch.int64, torch.int32, torch.float64
NETWORKS = {"network", "online", "target", "groups"}


def make_secu(*changes: str, dtype: torch.dtype) -> SeCu:
    made = secu_methods.make(changes=changes)
    return SeCu(made.config, made.network.to(dtype), made.n_samples)


def kept(state: dict[str, Any], name: str = "") -> dict[str, torch.dtype]:
    """Dtypes of the tensors in a nested state, without those of networks."""
    found = {}
    for key, value in state.items():
        if isinstance(value, dict) and key not in NETWORKS:
            found |= kept(value, f"{name}{key}.")
        elif isinstance(value, torch.Tensor):
            found[name + key] = value.dtype
    return found


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_arrays_of_a_fresh_method(dtype):
    own = dtype
    secu = make_secu(dtype=dtype)
    labels = {"labels": LABEL}
    prices = {"lower": DOUBLE, "upper": DOUBLE}
    certified = {"centers": own, "certificate": DOUBLE, **labels}
    assert kept(secu.state_dict()) == certified | {f"heads.{k}": v for k, v in prices.items()}
    assert kept(secu.epoch_state()) == {"snapshot": own}
    entropy = make_secu("secu.constraint=entropy", dtype=dtype)
    assert kept(entropy.state_dict()) == certified | {"heads.counts": COUNT}

    coke = coke_methods.make(changes=coke_methods.AVERAGED, dtype=dtype)
    assert kept(coke.state_dict()) == {
        "centers": own, "past": own, "sums.sums": COUNT, "sums.counts": COUNT, **labels,
        "averages.clusters": SLOT, "averages.weights": own,
        **{f"duals.{k}": v for k, v in prices.items()},
    }  # fmt: skip
    assert coke.averages.clusters.shape == (3, coke_methods.N, 2)

    mi = make_mi_margin("mi_margin.supervised=0.5", dtype=dtype)
    assert kept(mi.state_dict()) == {**labels, "mass": DOUBLE, "seeds": LABEL}
    assert kept(mi.epoch_state()) == {"errors": DOUBLE}

    propos = make_propos("propos.queue=7", dtype=dtype)
    queue = {"queue.rows": own, "queue.ids": LABEL, "queue.pushed": COUNT}
    assert kept(propos.state_dict()) == {**labels, "steps": COUNT, **queue}
    assert propos.gate.dtype == own
    assert propos.ema_momentum().dtype == DOUBLE

    assert kept(make_gatcluster(dtype=dtype).state_dict()) == labels


def test_arrays_of_fresh_self_labeling():
    method = make_self_label()
    assert kept(method.state_dict()) == {"centers": DOUBLE, "labels": LABEL, "fixed": LABEL}
    assert kept(method.epoch_state()) == {"counted": DOUBLE}
    assert method.centers.shape == (4, 6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_losses_are_of_the_kind_of_the_network(dtype):
    """A sum of terms starts from a 0 that widens none of them."""
    for made in (
        make_secu(dtype=dtype),
        coke_methods.make(changes=[*coke_methods.PREDICTOR], dtype=dtype),
    ):
        views = torch.randn(2, 24, 1, 8, 8, dtype=dtype).unbind()
        assert made.step(torch.arange(24), views).dtype == dtype
