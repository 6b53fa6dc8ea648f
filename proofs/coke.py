"""The claims of CoKe (unsupervised representation learning by online constrained k-means).

=========================  ========================================================================
module                     claims
=========================  ========================================================================
`coke_clustering`          C1, C2, C19 to C21, C25, C30: the objective, centers, convergence
`coke_labels`              C22 to C24: averages, two views, targets and losses
`coke_assignment`          C3 to C8: the assignment problem and one step of its online solver
`coke_theorem`             C9 to C15: Theorem 1 step by step, and where it fails
`coke_remarks`             C16 to C18: raised bounds, batches, prices without a projection
`coke_tables`              C26 to C29, C31 to C37: what the printed numbers say
=========================  ========================================================================

The theorem that replaces Theorem 1 is in `theorem`.
"""

from . import (
    coke_assignment,
    coke_clustering,
    coke_labels,
    coke_remarks,
    coke_tables,
    coke_theorem,
)

__all__ = [
    "coke_assignment",
    "coke_clustering",
    "coke_labels",
    "coke_remarks",
    "coke_tables",
    "coke_theorem",
]
