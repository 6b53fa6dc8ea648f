r"""A check whether relations are those of k clusters: an equivalence with k classes.

Clusters relate samples by ``r_ij = [c_i = c_j]``, so r satisfies

``r_ii = 1``,   ``r_ij = r_ji``,   ``r_ij = r_jh = 1  =>  r_ih = 1``

with one class for each cluster that has a sample. The Label Feature Theorem of GATCluster needs
exactly k classes but does not say so (claim G1). Relations from thresholds on similarities break
the third condition.

=====================  =====================  =========  ==========================================
paper                  here                   shape      meaning
=====================  =====================  =========  ==========================================
:math:`r_{ij}`         ``relations``          (n, n)     0 and 1, or bool
k                      ``n_clusters``         int        required number of classes
=====================  =====================  =========  ==========================================

The checks read values back to the host; do not use them in training steps.

Claims: docs/claims.md#G1.
"""

from __future__ import annotations

from typing import NamedTuple

import array_api_compat as compat

from ..core.checks import check_count, check_same_place, check_shape
from ..core.errors import InvalidTypeError, InvalidValueError
from ..core.types import Array

__all__ = ["RelationReport", "as_relation", "check_relations"]


class RelationReport(NamedTuple):
    """Report whether relations are an equivalence with exactly k classes.

    Attributes
    ----------
    reflexive, symmetric, transitive : bool
        The last is checked only if the first two hold, and False otherwise.
    triple : (int, int, int) or None
        i, j, h with r_ij = r_jh = 1 and r_ih = 0, if transitivity is broken.
    n_classes : int or None
        Number of classes of an equivalence relation.
    broken : tuple of str
        One sentence for each hypothesis that fails; empty where all hold.
    """

    reflexive: bool
    symmetric: bool
    transitive: bool
    triple: tuple[int, int, int] | None
    n_classes: int | None
    broken: tuple[str, ...]


def check_relations(relations: Array, n_clusters: int) -> RelationReport:
    """Tell whether relations can be those of k clusters, and name the broken conditions.

    Parameters
    ----------
    relations : (n, n) array of 0 and 1, or bool
    n_clusters : int >= 1
        k.

    Returns
    -------
    RelationReport

    Raises
    ------
    InvalidValueError
        If `relations` is not square or has another entry.

    Notes
    -----
    Cost O(n^2): with ``c_i`` the first sample related to i, a reflexive and symmetric r is
    transitive iff ``r_ij = [c_i = c_j]``. An entry where this fails lies in a broken triple.
    Source: the hypothesis missing in the Label Feature Theorem, claim G1.
    Claims: docs/claims.md#G1, #G7.

    Examples
    --------
    >>> import numpy as np
    >>> r = np.asarray([[1, 1, 0], [1, 1, 1], [0, 1, 1]])
    >>> report = check_relations(r, 2)
    >>> report.triple, report.broken
    ((0, 1, 2), ('r is not transitive: r[0, 1] = r[1, 2] = 1, but r[0, 2] = 0',))
    """
    r = as_relation(relations)
    xp, (n, _) = compat.array_namespace(r), r.shape
    k = check_count("n_clusters", n_clusters, 1)
    at = xp.arange(n, dtype=xp.int64, device=compat.device(r))
    diagonal = (at[:, None] == at) & ~r
    lopsided = r & ~xp.matrix_transpose(r)
    reflexive, symmetric = not bool(xp.any(diagonal)), not bool(xp.any(lopsided))
    broken = []
    if not reflexive:
        i, _ = _first(diagonal)
        broken.append(f"r is not reflexive: r[{i}, {i}] = 0")
    if not symmetric:
        i, j = _first(lopsided)
        broken.append(f"r is not symmetric: r[{i}, {j}] = 1, but r[{j}, {i}] = 0")
    if broken:
        return RelationReport(reflexive, symmetric, False, None, None, tuple(broken))
    first = xp.argmax(xp.astype(r, xp.int8), axis=1)
    wrong = r != (first[:, None] == first)
    if bool(xp.any(wrong)):
        i, h = _first(wrong)
        c_i, c_h = int(first[i]), int(first[h])
        if not bool(r[i, h]):  # both related to c_i = c_h
            triple = (i, c_i, h)
        elif c_i < c_h:  # h is related to i, but not to c_i, since its first is c_h
            triple = (c_i, i, h)
        else:
            triple = (i, h, c_h)
        a, b, c = triple
        text = f"r is not transitive: r[{a}, {b}] = r[{b}, {c}] = 1, but r[{a}, {c}] = 0"
        return RelationReport(True, True, False, triple, None, (text,))
    n_classes = int(xp.sum(xp.astype(first == at, xp.int64)))
    if n_classes < k:
        broken.append(
            f"r has {n_classes} classes, fewer than k = {k}: -N is approached, but p_h > 0 keeps "
            f"it from being attained"
        )
    if n_classes > k:
        broken.append(
            f"r has {n_classes} classes, more than k = {k}: so many orthogonal nonnegative vectors "
            f"do not exist in R^{k}"
        )
    return RelationReport(True, True, True, None, n_classes, tuple(broken))


def as_relation(relations: Array) -> Array:
    """Check every entry of relations and return them as an (n, n) bool array.

    Parameters
    ----------
    relations : (n, n) array of 0 and 1, or bool

    Returns
    -------
    (n, n) bool array

    Raises
    ------
    InvalidValueError
        If the array is not square, empty, or has another entry.
    InvalidTypeError
        If its dtype is neither bool, an integer nor real.

    Examples
    --------
    >>> import numpy as np
    >>> as_relation(np.eye(2))
    array([[ True, False],
           [False,  True]])
    """
    check_same_place(relations=relations)
    xp = compat.array_namespace(relations)
    n, columns = check_shape("relations", relations, ("n", "n"))
    if columns != n or n == 0:
        msg = (
            f"relations must be square and not empty, got shape {tuple(relations.shape)}"
            ". To fix this, pass at least one"
        )
        raise InvalidValueError(msg)
    if xp.isdtype(relations.dtype, "bool"):
        return relations
    if not xp.isdtype(relations.dtype, ("integral", "real floating")):
        msg = (
            f"relations must be bool or hold 0 and 1, got {relations.dtype}"
            ". To fix this, pass truth values"
        )
        raise InvalidTypeError(msg)
    other = (relations != 0) & (relations != 1)
    if bool(xp.any(other)):
        i, j = _first(other)
        msg = (
            f"relations must hold 0 and 1, got {float(relations[i, j]):g} at index {(i, j)}"
            ". To fix this, pass truth values"
        )
        raise InvalidValueError(msg)
    return relations == 1


def _first(mask: Array) -> tuple[int, int]:
    """Return row and column of the first True."""
    xp, (_, columns) = compat.array_namespace(mask), mask.shape
    flat = xp.reshape(xp.astype(mask, xp.int8), (-1,))
    i, j = divmod(int(xp.argmax(flat)), columns)
    return i, j
