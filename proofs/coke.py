"""The claims of CoKe (unsupervised representation learning by online constrained k-means).

=========================  ========================================================================
module                     claims
=========================  ========================================================================
`coke_clustering`          C1, C2, C19 to C25, C30: the objective, centers, labels, convergence
`coke_assignment`          C3 to C8: the assignment problem and one step of its online solver
`coke_theorem`             C9 to C18: Theorem 1 step by step, where it fails, what follows it
`coke_tables`              C26 to C29, C31 to C37: what the printed numbers say
=========================  ========================================================================

The theorem that replaces Theorem 1 is in `theorem`.
"""

from . import coke_assignment, coke_clustering, coke_tables, coke_theorem

__all__ = ["coke_assignment", "coke_clustering", "coke_tables", "coke_theorem"]
