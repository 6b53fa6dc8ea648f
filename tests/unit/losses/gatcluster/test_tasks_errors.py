"""What GATCluster's losses refuse, and how they say it."""

import math

import numpy as np
import pytest

from dualclust.algos.core.errors import InvalidTypeError, InvalidValueError
from dualclust.algos.losses.gatcluster.released import released_gatcluster_loss
from dualclust.algos.losses.gatcluster.tasks import (
    LossWeights,
    attention_loss,
    balanced_targets,
    entropy_loss,
    gatcluster_loss,
    transformation_loss,
)
from tests.refusals import is_refusal, message_of


def test_arguments_are_checked(xp):
    x, t = xp.asarray(np.zeros((5, 3))), xp.asarray(np.full((5, 3), 1 / 3))
    calls = {
        "targets": balanced_targets,
        "transformation": lambda x: transformation_loss(x, x),
        "entropy": entropy_loss,
        "attention": lambda x: attention_loss(x, x),
    }
    for call in calls.values():
        for bad in (x[0, :], x[:0, :], x[:, :0]):
            with pytest.raises(InvalidValueError, match="at least one sample and one cluster"):
                call(bad)
        with pytest.raises(InvalidTypeError, match="logits must have a real floating dtype"):
            call(xp.asarray([[1, 2]]))
    for loss in (transformation_loss, attention_loss):
        with pytest.raises(InvalidValueError, match=r"targets must have shape \(5, 3\)"):
            loss(x, t[:, :2])
    with pytest.raises(InvalidValueError, match=r"attention_logits must have shape \(5, 3\)"):
        gatcluster_loss(x, x[:, :2], xp.asarray([0] * 5), t, t)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"sharpness": 0.0}, "sharpness must lie in (0, inf), got 0.0"),
        ({"empty": 0.0}, "empty must lie in (0, 1], got 0.0"),
        ({"empty": 2.0}, "empty must lie in (0, 1], got 2.0"),
    ],
)
def test_options_are_checked(xp, options, text):
    told = message_of(InvalidValueError, balanced_targets, xp.asarray(np.zeros((5, 3))), **options)
    assert is_refusal(told, text)


@pytest.mark.parametrize("name", ["transformation", "attention", "entropy"])
@pytest.mark.parametrize("value", [-1.0, math.nan, math.inf])
def test_weights_are_checked(name, value):
    with pytest.raises(InvalidValueError, match=rf"{name} must lie in \[0, inf\)"):
        LossWeights(**{name: value})


@pytest.mark.parametrize("name", ["attention_logits", "targets", "attention_targets"])
@pytest.mark.parametrize("shape", [(1, 3), (4, 1), (4, 3, 1)])
def test_the_released_loss_takes_no_shape_that_would_be_stretched(xp, name, shape):
    arrays = {
        key: xp.asarray(np.full((4, 3), 1.0 / 3.0))
        for key in ("logits", "attention_logits", "targets", "attention_targets")
    }
    arrays["labels"] = xp.asarray(np.arange(4))
    released_gatcluster_loss(**arrays)
    arrays[name] = xp.asarray(np.full(shape, 1.0 / 3.0))
    text = message_of(InvalidValueError, released_gatcluster_loss, **arrays)
    assert text.startswith(f"{name} must have shape (4, 3), got {shape}")
