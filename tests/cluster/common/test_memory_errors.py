"""Memory that was refused is one typed error, whoever asked for it."""

from __future__ import annotations

import numpy as np
import pytest

from dualclust.common.memory import OutOfMemoryError, memory_errors


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
