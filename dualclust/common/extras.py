"""The message of a missing library of the `train` extra, and how to get torch without CUDA."""

from __future__ import annotations

__all__ = ["needs_train"]

CPU = (
    " (without a graphics card, install PyTorch's CPU build first, which spares gigabytes of CUDA:"
    " docs/start/install.md)"
)


def needs_train(what: str, library: str | None) -> str:
    """Return the message of something that needs a library of the `train` extra.

    Examples
    --------
    >>> print(needs_train("'train'", "rich"))
    'train' needs rich. To fix this: pip install 'dualclust[train]'
    >>> print(needs_train("'train'", "torch"))  # doctest: +ELLIPSIS
    'train' needs torch. To fix this: pip install 'dualclust[train]' (without a graphics card, ...
    """
    hint = CPU if library == "torch" else ""
    return f"{what} needs {library}. To fix this: pip install 'dualclust[train]'{hint}"
