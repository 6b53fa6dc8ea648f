"""Memory that was refused is one typed error, whoever asked for it."""

from __future__ import annotations

import numpy as np
import pytest

from dualclust.common.memory import OutOfMemoryError, memory_error, memory_errors


def test_arrays_and_tensors_that_fit_nowhere() -> None:
    torch = pytest.importorskip("torch")
    for ask in (lambda: np.empty(2**55), lambda: torch.empty(2**55)):
        with pytest.raises(OutOfMemoryError, match=r"^out of memory \(.*\)\. To fix this, less$"):
            with memory_errors("less"):
                ask()
    assert OutOfMemoryError.exit_code == 71


def test_other_errors_pass_as_they_are() -> None:
    with pytest.raises(RuntimeError, match=r"^shapes$"), memory_errors("less"):
        raise RuntimeError(*["shapes"])
    with pytest.raises(OutOfMemoryError, match=r"fix this, inner$"), memory_errors("outer"):
        with memory_errors("inner"):
            raise MemoryError


def test_what_an_error_says_about_memory() -> None:
    """Any of the allocators' words do, of a RuntimeError only; the first line is quoted."""
    said = OutOfMemoryError("out of memory")
    assert memory_error(said, "less") is said
    assert memory_error(RuntimeError("shapes"), "less") is None
    for words in ("DefaultCPUAllocator: can't", "CUDA out of memory.", "not enough memory: you"):
        assert memory_error(ValueError(words), "less") is None
        found = memory_error(RuntimeError(f"{words} x\nand more"), "less")
        assert str(found) == f"out of memory ({words} x). To fix this, less"
    assert str(memory_error(MemoryError(), "less")) == "out of memory. To fix this, less"
