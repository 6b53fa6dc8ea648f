"""Deep clustering methods: each is a state, a `step`, and a `predict`.

The loop (`train.loop`) knows no method: it hands over batches of two views and asks for a loss,
for labels, and for a state to save. A new method is one module here and one row in `METHODS`.
"""

from __future__ import annotations

from .secu import SeCu

__all__ = ["METHODS", "SeCu"]

METHODS = {"secu": SeCu}
