"""The claims of the MI + margin supplement: M1 to M10.

===========  =====================================================================================
module       claims
===========  =====================================================================================
`objective`  the loss and the experiments: M2, M5 to M8, M10
`labels`     the update of the pseudo-labels: M1, M3, M4
`baselines`  IIC and SeLa: M9
===========  =====================================================================================
"""

from . import baselines, labels, objective

__all__ = ["baselines", "labels", "objective"]
