"""Deep clustering methods: each is a state, losses to take steps on, and a prediction.

The loop (`train.loop`) knows no method: it draws batches and views, and asks for losses,
labels, and a state to save (`base.Method`). The module or package ``NAME`` holds the method NAME,
under ``@register_method("NAME")``; `METHODS` is the table of all of them, with the keys of
`train.config.methods.METHOD_OPTIONS`. Modules with an underscore are what methods share.
"""

from __future__ import annotations

from importlib import import_module

from ..config.methods import METHOD_OPTIONS
from .base import METHODS, ApplyToAll, Batch, Method, ParameterGroup, Prediction, register_method

__all__ = [
    "METHODS",
    "ApplyToAll",
    "Batch",
    "Method",
    "ParameterGroup",
    "Prediction",
    "register_method",
]

for _name in METHOD_OPTIONS:
    import_module(f".{_name}", __name__)
    if _name not in METHODS:
        _msg = f"train/methods/{_name} registers no method {_name!r}"
        raise ImportError(_msg)
