"""Stage 2: times, each as a share of what the card can do.

===========  ===============================================================================
part         measures
===========  ===============================================================================
ceilings     a large copy (bytes read and written), and large matrix products
steps        training steps of each method: eager, bfloat16, graph; kernels, idle time
views        the two views of a batch
assignment   `assign` beside product and argmax; `assign_source`; constrained k-means
y-update     the pseudo-labels of MI + margin
optimizers   LARS of ours, and PyTorch's fused SGD and Adam, on a ResNet-18
compiled     training steps with a compiled network; last, because compiling takes long
===========  ===============================================================================
"""

from __future__ import annotations

from ..stages import PartOf, Stage
from .ceilings import measure_ceilings
from .clustering import measure_assignment, measure_y_update
from .training import measure_compiled, measure_optimizers, measure_steps, measure_views

__all__ = ["STAGE"]

STAGE = Stage(
    "speed",
    5.0,
    (
        PartOf(
            "ceilings",
            measure_ceilings,
            "`noise`: the same work measured twice, in turn; relative difference of the medians.",
        ),
        PartOf(
            "steps",
            measure_steps,
            "Views are drawn before. `of peak`: products and convolutions, forward and backward, "
            "over the rate of their precision (float32: of tf32, which convolutions use). `idle`: "
            "share of the time in which no kernel runs. GATCluster: a large batch of 1,000, once.",
        ),
        PartOf("views", measure_views, "`of peak`: images read and views written, over the copy."),
        PartOf(
            "assignment",
            measure_assignment,
            "`of peak`: one product of features and centers at float32, the least that each needs "
            "(each iteration of k-means); from scores, where they take 4 GiB at most, a reading. "
            "`times argmax`: to product and argmax in the same blocks.",
        ),
        PartOf(
            "y-update",
            measure_y_update,
            "`of peak`: the outputs read once and the labels written once for each step, in "
            "float64, over the copy.",
        ),
        PartOf(
            "optimizers",
            measure_optimizers,
            "`of peak`: weights, gradients and states read, weights and states written.",
        ),
        PartOf("compiled", measure_compiled, "As `steps`."),
    ),
    "Speed",
)
