"""The type of an array of any array-API library: numpy, torch, array_api_strict and others.

The array API standard has no static type yet, so docstrings state shapes, as ``(n, k)``, where

=======  =====================================
letter   axis
=======  =====================================
``n``    samples
``b``    samples of one mini-batch
``k``    clusters
``d``    features
=======  =====================================
"""

from __future__ import annotations

from typing import Any, TypeAlias

Array: TypeAlias = Any
Namespace: TypeAlias = Any
