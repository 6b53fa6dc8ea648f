"""Linear evaluation: a classifier on the frozen encoder, trained by SGD on crops of the images.

What tables of representation learning print for ImageNet (MoCo; CoKe, appendix B; ProPos, table 5).
The encoder stays in evaluation mode and gets no gradient; each epoch draws a new crop of every
training image; the accuracy is that of the plain held-out images after the last epoch. It is the
only place beside weak supervision where classes are learned, after training has ended.
"""

from __future__ import annotations

import math
from contextlib import closing
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional as F

from ...algos.core.errors import UsageError
from ..config.linear import LinearConfig
from ..methods.base import evaluating
from ..state.seeding import generator, permutation

if TYPE_CHECKING:
    from .run import Run

__all__ = ["START_STD", "linear_accuracy", "linear_rate"]

START_STD = 0.01
"""Standard deviation of the classifier's first weights; its biases start at 0."""


def linear_rate(options: LinearConfig, epoch: int) -> float:
    """Rate of an epoch, counted from 0: constant within it, half a cosine over all of them."""
    return options.lr * 0.5 * (1.0 + math.cos(math.pi * epoch / options.epochs))


def linear_accuracy(run: Run, options: LinearConfig) -> float | None:
    """Train a linear classifier on the encoder of a run, and score it on the held-out images.

    Parameters
    ----------
    run : Run. With held-out images, ``data.test = "test"``. Its network is left as it is.
    options : LinearConfig

    Returns
    -------
    accuracy : float in [0, 1]; None where training or held-out images have no classes. Images of
        class -1 have none and do not count.

    Raises
    ------
    UsageError
        If no training image has a class.

    Notes
    -----
    Cost: ``options.epochs`` passes of the encoder over the training images, without gradients.
    With ranks, features are gathered and every rank computes the same classifier.
    """
    classes = run.data.labels
    if classes is None or run.test is None or run.test.labels is None:
        return None
    classes, expected = classes.to(run.device), run.test.labels.to(run.device)
    if not bool((classes >= 0).any()):
        msg = "evaluation.probe needs classes of training images. To fix: evaluation.probe=false"
        raise UsageError(msg)
    network = run.method.network
    draws = generator(run.config.seed, "linear")
    number = int(torch.maximum(classes.max(), expected.max())) + 1
    start = START_STD * torch.randn(number, network.encoder_dim, generator=draws)
    weight = start.to(run.device, run.method.dtype).requires_grad_()
    bias = torch.zeros(number, device=run.device, dtype=run.method.dtype, requires_grad=True)
    optimizer = torch.optim.SGD(
        [weight, bias],
        lr=options.lr,
        momentum=options.momentum,
        weight_decay=options.weight_decay,
    )
    # Orders of their own, not those of training.
    order_seed = generator(run.config.seed, "linear order").initial_seed()
    with evaluating(network):
        for epoch in range(options.epochs):
            for group in optimizer.param_groups:
                group["lr"] = linear_rate(options, epoch)
            order = permutation(run.n, order_seed, epoch, device=run.device)
            batches = list(torch.split(order, options.batch_size))
            with closing(run.feed.views(batches, f"linear {epoch}", ("linear",))) as fed:
                for ids, (views,) in fed:
                    rows = run.ranks.gather(network.encoder(views), len(ids))
                    _step(optimizer, rows.to(weight.dtype), weight, bias, classes[ids])
        rows = run.sweep(network.encoder, data=run.test).to(weight.dtype)
        found = (rows @ weight.T + bias).argmax(dim=1)
    known = expected >= 0
    return float((found[known] == expected[known]).double().mean())


def _step(
    optimizer: torch.optim.Optimizer, rows: Tensor, weight: Tensor, bias: Tensor, classes: Tensor
) -> None:
    if not bool((classes >= 0).any()):
        return
    with torch.enable_grad():
        loss = F.cross_entropy(rows @ weight.T + bias, classes, ignore_index=-1)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()
