"""The claims of ProPos (TPAMI 2022): P1 to P29.

=====================  =======================================================================
module                 claims
=====================  =======================================================================
`scattering`           the loss that scatters prototypes: P1, P3, P4, P7
`prototypes`           prototypes of a batch: P5, P6
`pairs`                its alignment as a sum over pairs of samples: P20, P21
`sampling`             alignment, sampled positives, uniformity: P2, P8 to P11, P13, P25
`mixture`              the density and expectation maximization: P12, P14 to P18
`convergence`          whether the alternation converges: P19
`tables`               the tables' arithmetic and statistics: P22 to P24, P26 to P29
=====================  =======================================================================
"""

from __future__ import annotations

from . import convergence, mixture, pairs, prototypes, sampling, scattering, tables

__all__ = ["convergence", "mixture", "pairs", "prototypes", "sampling", "scattering", "tables"]
