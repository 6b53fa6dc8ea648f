"""Which samples of each cluster the page shows, and their small images.

Typical samples have the largest margins of their cluster, doubtful ones the smallest; between them
some are drawn at random, which alone tell what most of a cluster looks like. Images that are small
already stay as they are, to the pixel; larger ones shrink.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from .state import Found, Images, Ints, Pictures

__all__ = ["Chosen", "choose_samples", "thumbnails"]

Chosen = dict[str, Ints]
"""Positions by kind: ``exemplars``, ``random``, ``doubtful``, each sorted by cluster."""

PLENTY = ((20, (10, 8, 6)), (100, (8, 6, 4)), (300, (6, 4, 4)))
"""Typical, random and doubtful samples of a cluster, for so many clusters at most."""
FEW = (4, 2, 2)

SIDE = 64
"""Pixels of the longer side of a small image."""

ATTENDED = 4
"""Samples of a cluster that are also shown with what the network looks at."""

BYTES = 16_000_000
"""Of all images on a page."""


def choose_samples(found: Found) -> Chosen:
    """Choose samples of each cluster; none is in two kinds, and equal results give equal samples.

    Examples
    --------
    >>> one, n = np.zeros(1), 100
    >>> zeros = np.zeros(n, dtype=np.int64)
    >>> margins = np.arange(n) / n
    >>> found = Found(1, zeros, zeros, zeros, margins, margins, margins, margins[:, None], one,
    ...               one, one, 0.0, np.arange(n))
    >>> chosen = choose_samples(found)
    >>> chosen["exemplars"][:3], chosen["doubtful"][:3], len(chosen["random"])
    (array([99, 98, 97]), array([0, 1, 2]), 8)
    """
    k = len(found.lower)
    n_typical, n_random, n_doubtful = next((most for top, most in PLENTY if k <= top), FEW)
    order = np.lexsort((-found.margins, found.labels))
    ends = np.cumsum(found.counts)
    draws = np.random.default_rng(0)
    lists: dict[str, list[Ints]] = {"exemplars": [], "random": [], "doubtful": []}
    for end, size in zip(ends, found.counts, strict=True):
        members = order[end - size : end]
        middle = members[n_typical : max(n_typical, size - n_doubtful)]
        drawn = draws.permutation(len(middle))[:n_random]
        lists["exemplars"].append(members[:n_typical])
        lists["random"].append(middle[np.sort(drawn)])
        lists["doubtful"].append(members[n_typical:][len(middle) :][::-1])
    return {kind: np.concatenate(some).astype(np.int64) for kind, some in lists.items()}


def thumbnails(
    found: Found, chosen: Chosen, pictures: Pictures, first: Sequence[int] = ()
) -> dict[str, Any]:
    """Return small images of the chosen samples as ``data:`` addresses.

    Parameters
    ----------
    found : Found
    chosen : Chosen
    pictures : Pictures
    first : sequence of int
        Positions that come before the chosen ones.

    Returns
    -------
    dict
        ``images``: addresses; ``of``: the place of a sample's among them, by position; ``under``:
        the same for what the network looks at; ``pixels``: whether pixels are kept as they are;
        ``left_out``: samples without an image.
    """
    turns = _in_turns(found, [chosen[kind] for kind in ("exemplars", "random", "doubtful")])
    wanted = list(dict.fromkeys([*first, *turns]))
    addresses: list[str] = []
    of: dict[int, int] = {}
    under: dict[int, int] = {}
    room, pixels = BYTES, True
    for start in range(0, min(len(wanted), pictures.most), 256):
        if room <= 0:
            break
        some = wanted[start : min(start + 256, pictures.most)]
        images = pictures.images(some).transpose(0, 2, 3, 1)
        pixels = max(images.shape[1:3]) <= 40
        for position, image in zip(some, images, strict=True):
            address = _address(image)
            of[position] = len(addresses)
            addresses.append(address)
            room -= len(address)
    if pictures.attended is not None:
        seen = [p for p in _firsts(found, chosen["exemplars"]) if p in of][: pictures.most // 4]
        for start in range(0, len(seen), 256):
            some = seen[start : start + 256]
            stack = pictures.attended(some)
            if stack is None:
                break
            for position, image in zip(some, stack, strict=True):
                under[position] = len(addresses)
                addresses.append(_address(image))
    left_out = len(wanted) - len(of)
    return {"images": addresses, "of": of, "under": under, "pixels": pixels, "left_out": left_out}


def _in_turns(found: Found, lists: list[Ints]) -> list[int]:
    """Positions, the first of each kind and cluster first: where room ends, none has all of it."""
    ranked = [(_ranks(found.labels[some]), some) for some in lists]
    rank = np.concatenate([ranks for ranks, _ in ranked])
    every = np.concatenate([some for _, some in ranked])
    turns: list[int] = every[np.argsort(rank, kind="stable")].tolist()
    return turns


def _firsts(found: Found, some: Ints) -> list[int]:
    firsts: list[int] = some[_ranks(found.labels[some]) < ATTENDED].tolist()
    return firsts


def _ranks(clusters: Ints) -> NDArray[np.int64]:
    """Place of each entry among those of its cluster, in a sorted array."""
    ranks: NDArray[np.int64] = np.arange(len(clusters)) - np.searchsorted(clusters, clusters)
    return ranks


def _address(image: Images) -> str:
    """One (h, w, c) uint8 image as an address: PNG of few bytes, JPEG of photographs."""
    gray = image.shape[2] == 1
    small = Image.fromarray(np.ascontiguousarray(image[:, :, 0] if gray else image))
    if max(small.size) > SIDE:
        small.thumbnail((SIDE, SIDE), Image.Resampling.BOX)
    content, kind = io.BytesIO(), "png"
    if min(small.size) >= 32 and not gray:
        kind = "jpeg"
        small.save(content, format="JPEG", quality=85)
    else:
        small.save(content, format="PNG")
    return f"data:image/{kind};base64," + base64.b64encode(content.getvalue()).decode()
