"""Stages 3 and 4: times of functions and of steps, each as a share of what the card can do.

===========  ===============================================================================
part         measures
===========  ===============================================================================
assignment   `assign` beside product and argmax; `assign_source`; constrained k-means
y-update     the pseudo-labels of MI + margin
steps        training steps of each method: graphs, and eager; kernels, idle time
compiled     training steps in a graph with a compiled network, which takes long to compile
views        the two views of a batch
optimizers   LARS of ours, and PyTorch's fused SGD and Adam, on a ResNet-18
===========  ===============================================================================
"""

from __future__ import annotations

from ..stages import PartOf, Stage
from .clustering import measure_assignment, measure_y_update
from .training import measure_compiled, measure_optimizers, measure_steps, measure_views

__all__ = ["FUNCTIONS", "STEPS"]

FUNCTIONS = Stage(
    "functions",
    2.5,
    (
        PartOf(
            "assignment",
            measure_assignment,
            "`of peak`: one product of features and centers at float32, the least that each needs "
            "(each iteration of k-means); from scores, where they take 4 GiB at most, a reading. "
            "`times argmax`: to product and argmax in the same blocks.",
            seconds=130,
        ),
        PartOf(
            "y-update",
            measure_y_update,
            "`of peak`: the outputs read once and the labels written once for each step, in "
            "float64, over the copy.",
        ),
    ),
    "Functions",
)

STEPS = Stage(
    "steps",
    3.0,
    (
        PartOf(
            "steps",
            measure_steps,
            "Views are drawn before. `of peak`: products and convolutions, forward and backward, "
            "over the rate of their precision (float32: of tf32, which convolutions use). `idle`: "
            "share of the time in which no kernel runs. GATCluster: a large batch of 1,000, once.",
            seconds=70,
        ),
        PartOf("compiled", measure_compiled, "As `steps`.", seconds=90),
        PartOf("views", measure_views, "`of peak`: images read and views written, over the copy."),
        PartOf(
            "optimizers",
            measure_optimizers,
            "`of peak`: weights, gradients and states read, weights and states written.",
        ),
    ),
    "Steps",
)
