"""Planted errors: what a check is worth is whether it notices one."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest

from dualclust.algos.core.errors import DualclustError
from dualclust.proofs.registry.claims import REGISTRY

# Of a replacement that is not even a function of the same arguments, not of a check that noticed.
BUGS = (TypeError, NameError, AttributeError, ImportError, SyntaxError)


def assert_noticed(
    claim_id: str,
    monkeypatch: pytest.MonkeyPatch,
    target: str,
    replacement: Callable[..., Any] | Any,
) -> None:
    """Fail unless the claim's check passes as it is and fails with `replacement` at `target`.

    `target` is a full dotted name, as listed in the claim's `mutations`.
    """
    claim = REGISTRY[claim_id]
    assert target in claim.mutations, f"{claim_id} does not list the mutation {target}"
    sound = claim.check()
    assert sound <= claim.tolerance, f"{claim_id} fails without a planted error: {sound:g}"
    with monkeypatch.context() as patch:
        patch.setattr(target, replacement)
        try:
            worst = claim.check()
        except Exception as error:
            if isinstance(error, BUGS) and not isinstance(error, DualclustError):
                raise
            return
    assert not worst <= claim.tolerance, f"{claim_id} did not notice the error in {target}"


def original(target: str) -> Any:
    """What a full dotted name stands for."""
    module, _, name = target.rpartition(".")
    return getattr(import_module(module), name)
