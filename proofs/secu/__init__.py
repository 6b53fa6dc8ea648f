"""The claims of SeCu's supplement: S1 to S12.

============  ====================================================================================
module        claims
============  ====================================================================================
`supplement`  batches, variances, labels and duals: S1, S2, S4, S5, S7
`losses`      of the losses
`centers`     of Theorem 1, the closed form of the centers
`tables`      of the tables
============  ====================================================================================
"""

from . import centers, losses, supplement, tables

__all__ = ["centers", "losses", "supplement", "tables"]
