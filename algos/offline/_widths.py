r"""How wide a box of prices can be, if lists of a bounded size are to tell its clusters apart.

Problem: a row is open in the box ``pi +- r`` if its two best priced scores differ by at most 2 r,
and its list of w clusters is cut if its best and its (w + 1)-th do. Where hundreds of clusters
nearly tie, a wide box opens all rows and cuts all lists: what is found on them says nothing. On a
few rows, look up the largest r at which the lists of all rows fit into memory and only a few of
them are cut. Prices that are farther off than that get there in several boxes.

=================  ===============  =========  ====================================================
symbol             here             shape      meaning
=================  ===============  =========  ====================================================
:math:`r`          ``radius``       ()         half the width of the box, in units of score
:math:`w`          ``width``        ()         of the lists
\-                 ``apart``        (b, w)     best priced score minus the 2nd, 3rd, ... (w + 1)-th
=================  ===============  =========  ====================================================
"""

from __future__ import annotations

import math
from typing import NamedTuple

import array_api_compat as compat

from ..core.types import Array

__all__ = ["BoxLimit", "widest_box"]

WIDTHS = (4, 8, 16, 32)
CUT = 0.02  # share of the rows whose lists may be cut


class BoxLimit(NamedTuple):
    """Radius of the box in units of score, and width of the lists to go with it."""

    radius: float
    width: int


def widest_box(
    scores: Array, prices: Array, *, n_rows: int, entries: int, wanted: float = math.inf
) -> BoxLimit:
    """Largest radius at which lists of `n_rows` rows have at most `entries` entries, few cut.

    Parameters
    ----------
    scores : (b, k) real array
        Some of the rows; minus infinity where a pair is forbidden.
    prices : (k,) float64 array
        Middle of the box.
    n_rows : int
    entries : int
        Listed scores of all rows; at least ``4 n_rows`` for the radius to be of use.
    wanted : float
        Radius that is enough: the narrowest lists that allow it are taken.

    Returns
    -------
    BoxLimit
        Of a radius above 0, unless most rows tie.

    Notes
    -----
    Cost: O(b k log k). The rows are taken for typical: the entries are those expected.

    Examples
    --------
    >>> import numpy as np
    >>> scores = np.linspace(0.0, 1.0, 101)[None, :]  # each a hundredth from the next
    >>> limit = widest_box(scores, np.zeros(101), n_rows=10, entries=320)
    >>> limit.width, round(limit.radius, 2)
    (32, 0.16)
    """
    xp, k = compat.array_namespace(prices), prices.shape[0]
    priced = xp.sort(xp.astype(scores, xp.float64) + prices, axis=1, descending=True)
    apart = priced[:, :1] - priced[:, 1 : min(k, max(WIDTHS) + 1)]
    apart = xp.where(xp.isfinite(apart), apart, xp.full_like(apart, math.inf))  # forbidden pairs
    b, columns = apart.shape
    apart = xp.sort(apart, axis=0)
    best = BoxLimit(0.0, min(WIDTHS[0], k))
    for width in WIDTHS:
        if width > k or b == 0 or best.radius >= wanted:
            break
        radius = math.inf
        few = int(entries / (n_rows * width) * b)  # rows that may be open
        if few < b:
            radius = float(apart[few, 0]) / 2.0
        if width <= columns:
            radius = min(radius, float(apart[int(CUT * b), width - 1]) / 2.0)
        if radius > best.radius:
            best = BoxLimit(radius, width)
    return best
