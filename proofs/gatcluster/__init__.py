"""The claims of GATCluster (ECCV 2020): G1 to G19.

=======================  =====================================================================
module                   claims
=======================  =====================================================================
`label_feature_theorem`  the theorem and its refutations: G1 to G3
`label_feature_proof`    its printed proof: G4
`targets`                targets: G6, G10, G12
`losses`                 losses, relations and attention: G5, G7 to G9, G11, G19
`tables`                 figures, their definitions and tests, memory: G13 to G18
=======================  =====================================================================
"""

from __future__ import annotations

from . import label_feature_proof, label_feature_theorem, losses, tables, targets

__all__ = ["label_feature_proof", "label_feature_theorem", "losses", "tables", "targets"]
