"""The table of claims: how a claim is registered, run, ordered, and cited by the library."""

from .claims import (
    MODULES,
    PAPERS,
    REGISTRY,
    Claim,
    Result,
    Status,
    claim,
    load,
    load_from,
    ordered,
    run,
)

__all__ = [
    "MODULES",
    "PAPERS",
    "REGISTRY",
    "Claim",
    "Result",
    "Status",
    "claim",
    "load",
    "load_from",
    "ordered",
    "run",
]
