"""Stage 2: whether the card gives what the references give, and whether its steps stay on it.

===========  ===============================================================================
part         compares
===========  ===============================================================================
kernels      each CUDA row of `dualclust.backends.TABLE` with the text that it stands for
reads        training steps with CUDA's errors of synchronization switched on
functions    public functions on the card with the same on the CPU, by values and certificates
graph        captured steps with eager ones, over epochs and two lengths of batches
fallback     steps that cannot be captured with eager ones
compile      compiled networks with eager ones
===========  ===============================================================================

Inputs are random, and others in each call: the seed stands in the table.
"""

from __future__ import annotations

from ..stages import PartOf, Stage
from .functions import compare_functions
from .kernels import compare_kernels
from .steps import compare_compiled, compare_fallback, compare_graphs, count_reads

__all__ = ["STAGE"]

STAGE = Stage(
    "conformance",
    2.5,
    (
        PartOf(
            "kernels",
            compare_kernels,
            "Labels, sizes and candidates: to the last bit, or, where two clusters are worth the "
            "same to 1e-12, either. Values: relative to the largest, 1e-9.",
            seconds=45,
        ),
        PartOf(
            "reads",
            count_reads,
            "One step after the first; on the card, a step without a warning is repeated under "
            "`set_sync_debug_mode('error')`. A method that says it can be captured must have none.",
            seconds=20,
        ),
        PartOf(
            "functions",
            compare_functions,
            "`off` is the difference of the objectives, relative, but for `assign` and "
            "`nearest_centers` (share of other labels), `pseudo_labels` and `load`, a model that "
            "the device made (largest difference of an entry).",
            seconds=45,
        ),
        PartOf(
            "graph",
            compare_graphs,
            "float64; `off` is the largest relative difference of a loss or an entry of the state; "
            "at most 1e-8.",
            seconds=35,
        ),
        PartOf(
            "fallback",
            compare_fallback,
            "A step that reads a value, which ends its capture: it goes on without a graph.",
            seconds=15,
        ),
        PartOf("compile", compare_compiled, "float32; `off` is that of the losses, at most 1e-3."),
    ),
    "Conformance",
)
