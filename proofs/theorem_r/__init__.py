"""The theorem that replaces CoKe's Theorem 1: R1 to R7 and T1 to T7.

===========  =====================================================================================
module       claims
===========  =====================================================================================
`regret`     statement, proofs and constants
`runs`       what runs of the library must satisfy
`two_sided`  bounds from below and from above at once
`loads`      R9: rows that have sizes
===========  =====================================================================================
"""

from . import loads, regret, runs, two_sided

__all__ = ["loads", "regret", "runs", "two_sided"]
