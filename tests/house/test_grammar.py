"""One name for one idea: the grammar of CONTRIBUTING, held over every public signature."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import dualclust
from dualclust import algos
from dualclust.estimators import ConstrainedKMeans

ROOT = Path(__file__).resolve().parents[2]

# What a parameter or a field must not be called, and what it is called here.
INSTEAD = {
    "tolerance": "tol",
    "rtol": "tol",
    "iterations": "max_iter, or n_iter for an exact number",
    "maxiter": "max_iter",
    "n_iters": "n_iter",
    "size_min": "lower",
    "size_max": "upper",
    "min_size": "lower",
    "max_size": "upper",
    "sample_weight": "weights",
    "weight_of_samples": "weights",
    "k": "n_clusters",
    "n_centers": "n_clusters",
    "num_clusters": "n_clusters",
    "dual_prices": "prices",
    "assignments": "labels",
    "y": "labels",
    "cluster_sizes": "counts",
    "cost": "objective",
    "random_state": "seed",
    "rng": "seed",
    "namespace": "xp",
}
GENERIC = {"solve", "compare", "objective", "run", "fit", "step", "update", "margins", "violation"}
# A default that may be given by position: what the equation names next to its first argument, a
# record of settings, or a state handed on.
BY_POSITION = {"upper", "state", "previous", "weights", "offsets", "prior", "shares"}
BY_POSITION |= {"total", "fallback", "rule"}


def groups() -> Iterator[Any]:
    """The packages whose `__all__` is public."""
    yield dualclust
    for found in pkgutil.walk_packages(algos.__path__, "dualclust.algos."):
        if found.ispkg:
            yield importlib.import_module(found.name)


def functions() -> dict[str, Callable[..., Any]]:
    """Every public function and class method of the mathematics, by its dotted name."""
    found = {}
    for group in groups():
        for name in group.__all__:
            thing = getattr(group, name)
            if inspect.isfunction(thing):
                found[f"{group.__name__}.{name}"] = thing
            elif inspect.isclass(thing):
                for method, kind in vars(thing).items():
                    if isinstance(kind, classmethod) and method[0] != "_":
                        found[f"{group.__name__}.{name}.{method}"] = getattr(thing, method)
    return found


def records() -> dict[str, tuple[str, ...]]:
    """Fields of every public record."""
    return {
        f"{group.__name__}.{name}": getattr(group, name)._fields
        for group in groups()
        for name in group.__all__
        if hasattr(getattr(group, name), "_fields")
    }


def faults(name: str, function: Callable[..., Any]) -> list[str]:
    """What the grammar says against a signature."""
    found = []
    for p in inspect.signature(function).parameters.values():
        if p.name in INSTEAD:
            found.append(f"{name}({p.name}): say {INSTEAD[p.name]}")
        default = p.default is not p.empty
        if default and p.kind is p.POSITIONAL_OR_KEYWORD and p.name not in BY_POSITION:
            found.append(f"{name}({p.name}): an option is keyword-only")
        if p.name in ("xp", "device") and p.kind is not p.KEYWORD_ONLY:
            found.append(f"{name}({p.name}): keyword-only")
    return found


def test_every_signature_keeps_to_the_grammar() -> None:
    found = functions()
    assert len(found) > 100
    assert [fault for name, f in found.items() for fault in faults(name, f)] == []


def test_training_uses_the_same_words() -> None:
    pytest.importorskip("torch")
    import dualclust.torch
    import dualclust.train

    packages = [dualclust.torch.__name__, dualclust.train.__name__]
    inner = pkgutil.walk_packages(dualclust.train.__path__, f"{dualclust.train.__name__}.")
    packages += [found.name for found in inner if found.ispkg]
    seen, wrong = 0, []
    for package in map(importlib.import_module, packages):
        for name in getattr(package, "__all__", ()):
            thing = getattr(package, name)
            is_record = inspect.isclass(thing) and not issubclass(thing, Exception)
            if inspect.isfunction(thing) or is_record:
                seen += 1
                said = inspect.signature(thing).parameters.keys() & INSTEAD.keys()
                wrong += [f"{package.__name__}.{name}({word})" for word in said]
    assert seen > 60
    assert wrong == []


def test_fields_of_records_are_the_same_words() -> None:
    found = records()
    assert len(found) > 20
    wrong = [f"{name}.{field}" for name, fs in found.items() for field in fs if field in INSTEAD]
    assert wrong == []


def test_the_estimator_says_lower_and_upper() -> None:
    # scikit-learn's own words are an estimator's: n_clusters, random_state, sample_weight.
    names = set(inspect.signature(ConstrainedKMeans).parameters) - {"random_state"}
    assert {"lower", "upper", "tol", "max_iter", "gap", "metric"} <= names
    assert names.isdisjoint(INSTEAD)


def test_the_front_door_is_small_and_on_one_page() -> None:
    page = (ROOT / "docs/guides/which_function.md").read_text(encoding="utf-8")
    names = set(dualclust.__all__) - {"__version__"}
    assert len(names) <= 33
    assert names.isdisjoint(GENERIC)
    assert sorted(name for name in names if name not in page) == []


def test_everything_public_says_what_it_does() -> None:
    silent = [name for name, f in functions().items() if len(inspect.getdoc(f) or "") < 20]
    assert silent == []


def wrong(scores: Any, tolerance: float = 1.0, *, k: int = 3) -> None:
    """Break three rules."""


def right(scores: Any, state: Any = None, *, tol: float = 1.0, n_clusters: int = 3) -> None:
    """Break none."""


@pytest.mark.parametrize(("function", "number"), [(wrong, 3), (right, 0)])
def test_a_fault_is_found(function: Callable[..., Any], number: int) -> None:
    assert len(faults("f", function)) == number
