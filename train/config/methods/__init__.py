"""What each method can be told besides the settings that all methods share: one record per method.

A recipe holds the table of its own method alone, under the method's name. The module ``NAME.py``
holds the record of the method NAME, under ``@register_options("NAME")``: to be in this folder is
all that it takes to be in `METHOD_OPTIONS`, in `RunConfig` and among the command's methods.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from ._registry import METHOD_OPTIONS, register_options, with_method_tables

__all__ = ["METHOD_OPTIONS", "register_options", "with_method_tables"]

for _module in iter_modules(__path__):
    import_module(f".{_module.name}", __name__)
