"""The message of a missing library of the `train` extra, and how to get torch without CUDA.

It is one text for whoever needs such a library, because all of them come by the same line, which
also brings torch: the default build of Linux is 6 GB of CUDA that a machine without a card has no
use for.
"""

from __future__ import annotations

import importlib.util

__all__ = ["needs_train", "without_cuda"]

INSTALL = "docs/start/install.md"
"""The page that says how; `dualclust docs install` prints it."""


def without_cuda(library: str | None = "torch") -> str:
    """Return how to spare CUDA, for the end of a message; empty where torch is installed.

    Parameters
    ----------
    library : str or None
        What was not found. Where it is torch nothing is looked up.
    """
    if library != "torch" and _torch_is_there():
        return ""
    return (
        " (without a graphics card, install PyTorch's CPU build first, which spares gigabytes of"
        f" CUDA: {INSTALL})"
    )


def needs_train(what: str, library: str | None, or_else: str = "") -> str:
    """Return the message of something that needs a library of the `train` extra.

    Parameters
    ----------
    what : str
        Who needs it; the message begins with it. ``"pictures"`` takes the plural.
    library : str or None
        The library that was not found.
    or_else : str
        Another way out, such as "pass an array".

    Examples
    --------
    >>> print(needs_train("'train'", "torch"))  # doctest: +ELLIPSIS
    'train' needs torch. To fix this: pip install 'dualclust[train]' (without a graphics card, ...
    >>> print(needs_train("pictures", "PIL", "pass an array"))  # doctest: +ELLIPSIS
    pictures need PIL. To fix this, pass an array, or: pip install 'dualclust[train]'...
    """
    verb = "need" if what.endswith("s") else "needs"
    fix = f"To fix this, {or_else}, or:" if or_else else "To fix this:"
    return f"{what} {verb} {library}. {fix} pip install 'dualclust[train]'{without_cuda(library)}"


def _torch_is_there() -> bool:
    try:
        return importlib.util.find_spec("torch") is not None
    except (ImportError, ValueError):  # hidden from us, by a finder or a stand-in
        return False
