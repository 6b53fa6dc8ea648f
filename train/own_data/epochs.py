"""How many epochs a run has on data of one's own: by the number of samples.

A number that the user gives stands as it is (`--set epochs=N`), and `epochs_for_time` finds the one
that fills a time (`--time`).
"""

from __future__ import annotations

from dataclasses import replace

from ..config.run import RunConfig

__all__ = ["epochs_by_count", "lasting"]


def epochs_by_count(recipe: int, n: int, for_samples: int, kind: str, *, card: bool) -> int:
    """Passes over n samples: as many samples in all as the base's, within what makes sense.

    Examples
    --------
    >>> epochs_by_count(25, 10_000, 10_000, "strokes", card=False)
    25
    >>> [epochs_by_count(25, n, 10_000, "photographs", card=False) for n in (500, 10_000, 10**6)]
    [200, 25, 10]
    """
    most = 400 if kind == "photographs" and card else 200
    return min(most, max(10, round(recipe * for_samples / n)))


def lasting(config: RunConfig, epochs: int) -> RunConfig:
    """Copy settings for another number of epochs: warm-up and beginnings keep their shares."""
    ratio = epochs / config.epochs
    warmup = min(epochs, round(config.optim.warmup_epochs * ratio))
    frozen = min(config.optim.frozen_epochs, epochs - 1)
    optim = replace(config.optim, warmup_epochs=warmup, frozen_epochs=frozen)
    starts = config.starts
    if starts is not None:
        begun = max(1, round(starts.epochs * ratio))
        starts = replace(starts, epochs=begun) if begun < epochs else None
    evaluation = replace(config.evaluation, every=max(1, round(epochs / 5)))
    return replace(config, epochs=epochs, optim=optim, starts=starts, evaluation=evaluation)
