"""The claims of CoKe (unsupervised representation learning by online constrained k-means).

=========================  ========================================================================
module                     claims
=========================  ========================================================================
`clustering`               C1, C2, C19 to C21, C25, C30: the objective, centers, convergence
`labels`                   C22 to C24: averages, two views, targets and losses
`assignment`               C3 to C8: the assignment problem and one step of its online solver
`theorem_1`                C9 to C15: Theorem 1 step by step, and where it fails
`remarks`                  C16 to C18: raised bounds, batches, prices without a projection
`tables`                   C26 to C29, C31 to C37: what the printed numbers say
=========================  ========================================================================

The theorem that replaces Theorem 1 is in `theorem_r`.
"""

from . import assignment, clustering, labels, remarks, tables, theorem_1

__all__ = ["assignment", "clustering", "labels", "remarks", "tables", "theorem_1"]
