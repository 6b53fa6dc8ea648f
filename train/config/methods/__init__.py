"""What each method can be told beside the settings that all share: one record per method.

A recipe holds the table of its own method alone, under the method's name.
"""

from __future__ import annotations

from .coke import CokeOptions
from .gatcluster import GatclusterOptions
from .mi_margin import MiMarginOptions
from .propos import ProposOptions
from .secu import SecuOptions
from .self_label import SelfLabelOptions

__all__ = [
    "CokeOptions",
    "GatclusterOptions",
    "MiMarginOptions",
    "ProposOptions",
    "SecuOptions",
    "SelfLabelOptions",
]
