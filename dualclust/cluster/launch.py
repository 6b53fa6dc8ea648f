"""How a command about clusters runs: on its ranks and threads, with a meter, to one exit code."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

from ..common.ranks import Ranks, join_ranks
from ..common.watch import watched
from .exchange import agree
from .options import check_machine
from .progress import Meter
from .threads import Multiply, products_on

__all__ = ["on_ranks"]

Run = Callable[[argparse.Namespace, Ranks, Multiply, Meter], int]


def on_ranks(
    options: argparse.Namespace,
    run: Run,
    *,
    stopped: Callable[[], str] = lambda: "nothing was written",
    lost: Callable[[], str] = lambda: "give the same command again",
) -> int:
    """Call ``run(options, ranks, multiply, meter)`` as the options say, on every rank.

    Parameters
    ----------
    options : argparse.Namespace
        Device, timeout, threads, progress.
    run : callable
        Returns the exit code of this rank.
    stopped : callable
        Returns what somebody who stops the command should know.
    lost : callable
        Returns how the work goes on once a rank has died.

    Returns
    -------
    int
        The exit code, the same on all ranks.

    Raises
    ------
    KeyboardInterrupt
        With the text of `stopped`.
    """
    check_machine(options)
    ranks = join_ranks(options.device, timeout=options.timeout)
    wanted = sys.stderr.isatty() if options.progress is None else options.progress
    meter = Meter(ranks.first and wanted)
    try:
        watching = watched(ranks, how=lost)
        with products_on(options.threads) as multiply, watching, meter.running():
            return agree(ranks, lambda: run(options, ranks, multiply, meter))
    except KeyboardInterrupt as stop:
        raise KeyboardInterrupt(stopped()) from stop
    finally:
        meter.end()
        ranks.leave()
