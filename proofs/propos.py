"""The claims of ProPos (TPAMI 2022): P1 to P29.

=====================  =======================================================================
module                 claims
=====================  =======================================================================
`propos_scattering`    the loss that scatters prototypes: P1, P3, P4, P7
`propos_prototypes`    prototypes of a batch: P5, P6
`propos_pairs`         its alignment as a sum over pairs of samples: P20, P21
`propos_sampling`      alignment, sampled positives, uniformity: P2, P8 to P11, P13, P25
`propos_mixture`       the density and expectation maximization: P12, P14 to P18
`propos_convergence`   whether the alternation converges: P19
`propos_tables`        the tables' arithmetic and statistics: P22 to P24, P26 to P29
=====================  =======================================================================
"""

from __future__ import annotations

from . import (
    propos_convergence,
    propos_mixture,
    propos_pairs,
    propos_prototypes,
    propos_sampling,
    propos_scattering,
    propos_tables,
)

__all__ = [
    "propos_convergence",
    "propos_mixture",
    "propos_pairs",
    "propos_prototypes",
    "propos_sampling",
    "propos_scattering",
    "propos_tables",
]
