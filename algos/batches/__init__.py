"""One batch inside its bounds: soft labels, hard labels, and what prices prove of them."""

from ._scaling import Ranks
from .capacity import capped_choices
from .certificate import BatchCertificate, certify_batch
from .derivative import plan_gradient
from .hard import HardBatch, balance_hard, whole_bounds
from .soft import SoftBatch, balance_soft

__all__ = [
    "BatchCertificate",
    "HardBatch",
    "Ranks",
    "SoftBatch",
    "balance_hard",
    "balance_soft",
    "capped_choices",
    "certify_batch",
    "plan_gradient",
    "whole_bounds",
]
