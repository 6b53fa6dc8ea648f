"""Linear evaluation: a classifier on the frozen encoder, trained by SGD on crops of the images.

Tables of representation learning print this figure for ImageNet (MoCo; CoKe, appendix B; ProPos,
table 5). The encoder stays in evaluation mode and gets no gradient; each epoch draws a new crop of
every training image; the accuracy is that of the plain held-out images after the last epoch. Apart
from weak supervision, nothing else learns classes; this happens after training has ended.
"""

from __future__ import annotations

import math
from contextlib import closing

import torch
from torch import Tensor
from torch.nn import functional as F

from ...algos.core.errors import UsageError
from ..config.linear import LinearConfig
from ..methods.base import Method, evaluating
from ..state.seeding import generator, permutation
from .loader import Loader

__all__ = ["START_STD", "linear_accuracy", "linear_rate"]

START_STD = 0.01
"""Standard deviation of the classifier's first weights; its biases start at 0."""


def linear_rate(options: LinearConfig, epoch: int) -> float:
    """Rate of an epoch, counted from 0: constant within it, half a cosine over all of them."""
    return options.lr * 0.5 * (1.0 + math.cos(math.pi * epoch / options.epochs))


def linear_accuracy(method: Method, loader: Loader, options: LinearConfig) -> float | None:
    """Train a linear classifier on the encoder of a run, and score it on the held-out images.

    Parameters
    ----------
    method : Method. Its network is left as it is.
    loader : Loader. With held-out images, ``data.test = "test"``.
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
    if loader.data.labels is None or loader.test is None or loader.test.labels is None:
        return None
    device, seed = loader.device, loader.config.seed
    classes, expected = loader.data.labels.to(device), loader.test.labels.to(device)
    if not bool((classes >= 0).any()):
        msg = "evaluation.probe needs classes of training images. To fix: evaluation.probe=false"
        raise UsageError(msg)
    encoder, dtype = method.network.encoder, method.dtype
    number = int(torch.maximum(classes.max(), expected.max())) + 1
    shape = number, method.network.encoder_dim
    start = START_STD * torch.randn(shape, generator=generator(seed, "linear"))
    weight = start.to(device, dtype).requires_grad_()
    bias = torch.zeros(number, device=device, dtype=dtype, requires_grad=True)
    optimizer = torch.optim.SGD(
        [weight, bias],
        lr=options.lr,
        momentum=options.momentum,
        weight_decay=options.weight_decay,
    )
    # The epochs have orders of their own, which are not those of training.
    order_seed = generator(seed, "linear order").initial_seed()
    with evaluating(method.network):
        for epoch in range(options.epochs):
            for group in optimizer.param_groups:
                group["lr"] = linear_rate(options, epoch)
            order = permutation(loader.n, order_seed, epoch, device=device)
            batches = list(torch.split(order, options.batch_size))
            told = _with_classes(batches, classes)
            with closing(loader.views(batches, f"linear {epoch}", ("linear",))) as drawn:
                for (ids, (views,)), some in zip(drawn, told, strict=True):
                    if not some:
                        continue
                    rows = loader.ranks.gather(encoder(views), len(ids))
                    _step(optimizer, rows.to(dtype), weight, bias, classes[ids])
        rows = loader.apply_to_all(encoder, data=loader.test).to(dtype)
        found = (rows @ weight.T + bias).argmax(dim=1)
    known = expected >= 0
    return float((found[known] == expected[known]).double().mean())


def _with_classes(batches: list[Tensor], classes: Tensor) -> list[bool]:
    """Whether any image of each batch has a class; read at once, so that no step waits."""
    known = classes >= 0
    found: list[bool] = torch.stack([known[ids].any() for ids in batches]).tolist()
    return found


def _step(
    optimizer: torch.optim.Optimizer, rows: Tensor, weight: Tensor, bias: Tensor, classes: Tensor
) -> None:
    with torch.enable_grad():
        loss = F.cross_entropy(rows @ weight.T + bias, classes, ignore_index=-1)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()
