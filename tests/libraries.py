"""The array libraries on which the tests run, behind one small interface."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any, TypeVar

import array_api_compat.numpy
import array_api_strict
import numpy as np
from numpy.typing import ArrayLike

T = TypeVar("T")


@dataclass(frozen=True)
class Library:
    """One row of the `xp` fixture.

    `flags` are those of array_api_strict while the row is tested; `readonly` hands out arrays that
    raise when written to, so that a hidden mutation fails.
    """

    name: str
    namespace: Any
    device: Any = None
    readonly: bool = False
    flags: dict[str, Any] = field(default_factory=dict)

    @property
    def place(self) -> dict[str, Any]:
        """Arguments by which bounds are made on this library and device."""
        return {"xp": self.namespace, "device": self.device}

    def asarray(self, data: ArrayLike, dtype: Any = None) -> Any:
        """Copy `data` into this library, with NumPy's dtype unless another (by name) is given."""
        array = np.array(data, dtype=dtype, order="C")
        if self.namespace is array_api_strict:
            return array_api_strict.asarray(array)
        if self.name.startswith("torch"):
            return self.namespace.from_numpy(array).to(self.device)
        if self.name.startswith("jax"):
            return self.namespace.array(array, device=self.device)
        return self.freeze(array)

    def freeze(self, tree: T) -> T:
        """Make the arrays of an array, or of nested tuples, read-only where this row is."""
        if self.readonly and isinstance(tree, np.ndarray):
            tree.flags.writeable = False
        elif self.readonly and isinstance(tree, tuple):
            for leaf in tree:
                self.freeze(leaf)
        return tree


LIBRARIES = [
    Library("numpy", array_api_compat.numpy),
    Library("numpy:readonly", array_api_compat.numpy, readonly=True),
    Library("strict", array_api_strict),
    Library(
        "strict:minimal",
        array_api_strict,
        flags={"data_dependent_shapes": False, "boolean_indexing": False},
    ),
]
if find_spec("torch") is not None:  # the base installation does without
    import array_api_compat.torch
    import torch

    LIBRARIES.append(Library("torch:cpu", array_api_compat.torch, torch.device("cpu")))
    if torch.cuda.is_available():
        LIBRARIES.append(Library("torch:cuda", array_api_compat.torch, torch.device("cuda", 0)))

# Each library once: what a long test runs on.
ONE_EACH = [row for row in LIBRARIES if not row.readonly and not row.flags]

# A device of torch that is not the CPU, on any machine (tests/second_device.py). In the `xp`
# fixture alone: each operation passes through Python.
SECOND: list[Library] = []
if find_spec("torch") is not None:
    from tests.second_device import DEVICE

    SECOND.append(Library("torch:second", array_api_compat.torch, DEVICE))

# A library of immutable arrays and without an engine of ours. In the `xp` fixture alone: XLA
# compiles each operation for each shape, which takes longer than the tests themselves.
IMMUTABLE: list[Library] = []
if find_spec("jax") is not None:
    import jax

    jax.config.update("jax_enable_x64", True)
    IMMUTABLE.append(Library("jax:cpu", jax.numpy, jax.devices("cpu")[0]))

COMPILING = "XLA compiles each operation for each of many shapes: minutes for a test"
SUBNORMAL = "XLA reads subnormal numbers as 0"
REDUCTION = "XLA adds up in an order that depends on the shape: equal to rounding, not in each bit"

# What the row of IMMUTABLE does not run, by the beginning of a test's path and name, and why. Those
# marked "slow" run with `make slow`.
NOT_IMMUTABLE = {
    "tests/property/": ("skip", COMPILING),
    **dict.fromkeys(
        (
            "tests/backends/test_free_rows.py::test_sums_do_not_depend",
            "tests/unit/offline/grouped/test_grouped_search.py",
            "tests/unit/offline/weighted/test_weighted_search.py",
            "tests/unit/baselines/",
            "tests/unit/batches/",
            "tests/unit/clustering/",
            "tests/unit/core/test_exact_sums",
            "tests/unit/core/test_projections.py",
            "tests/unit/core/test_directions",
            "tests/unit/core/test_random.py",
            "tests/unit/losses/",
            "tests/unit/offline/",
            *(
                f"tests/unit/online/test_assignment.py::test_{name}"
                for name in ("threads", "ties", "one_cluster", "without_bounds", "the_projection")
            ),
            "tests/unit/online/test_assignment_errors.py::test_an_entry_that_is_not_finite",
            "tests/unit/online/test_assignment_passes.py::test_other_bounds_that_a_pass_can_still",
            "tests/unit/online/test_certificates",
            "tests/unit/online/test_duals",
            "tests/unit/online/test_grouped_streams",
            "tests/unit/pseudo_labels/",
            "tests/unit/selection/",
            "tests/unit/theory/",
            "tests/train/",
        ),
        ("slow", COMPILING),
    ),
    "tests/unit/core/test_projections.py::test_leading_axes_are_a_batch": ("skip", REDUCTION),
    "tests/unit/core/test_projections.py::test_lengths_neither_overflow": ("skip", SUBNORMAL),
    "tests/unit/theory/test_von_mises_fisher.py::test_no_nan": ("skip", SUBNORMAL),
}

# The same for SECOND.
NOT_SECOND = dict.fromkeys(
    (
        "tests/property/",
        "tests/unit/clustering/test_hardness_weighted",
        # Nine rows run there; three are the same operations on other shapes.
        "tests/unit/pseudo_labels/test_solver.py::test_all_ways_run_on_every_library[torch:second-3",
    ),
    ("slow", "each operation of many small steps passes through Python"),
)

# Arrays that may be written: "numpy:readonly" runs the same code, and fails where that writes.
WRITABLE = LIBRARIES[:1]

# Rows on which an operation takes longest, or does what it does on another. Of a test with several
# parameters those of `ONCE` run its first case, the others each value of each once, and `WRITABLE`
# shows no property examples; with `make slow` all of them run all, as the other rows always do.
ONCE = [*WRITABLE, *(row for row in LIBRARIES if row.flags), *IMMUTABLE]
SAMPLED = [*ONCE, *SECOND]

# Tests of formulas, whose other cases are the same operations on other numbers: of each of them
# SECOND runs the first case alone.
FORMULAS = tuple(
    f"tests/unit/{folder}/" for folder in ("baselines", "core", "losses", "pseudo_labels", "theory")
)

# And for the smallest part of the standard: its functions are those of "strict", which runs.
NOT_MINIMAL = {
    "tests/property/": ("slow", "each property runs on the whole of the standard"),
    "tests/unit/offline/test_online_labels": ("slow", "seconds each: many small operations"),
}
