"""Which code the libraries use in this process, as JSON: asked of them, not of the variables.

``python -m tests.machines.probe`` prints one line, ``python -m tests.machines.probe --numpy`` the
features from which numpy's own loops choose.
"""

from __future__ import annotations

import json
import math
import os
import struct
import sys
import tempfile
import zlib
from importlib.util import find_spec
from typing import Any

import numpy as np


def numpy_features() -> list[str]:
    """What numpy's loops can choose from here, beyond the baseline that it was built for."""
    from numpy._core import _multiarray_umath as core

    return [name for name in core.__cpu_dispatch__ if core.__cpu_features__[name]]


def libm() -> int:
    """A checksum of the C library's functions, which differ in their last bits."""
    functions = (math.exp, math.log, math.sin, math.atan)
    values = [f(1e-3 * i + 0.1) for f in functions for i in range(5000)]
    return zlib.crc32(struct.pack(f"{len(values)}d", *values))


def cores() -> dict[str, str]:
    """The processor whose kernels each OpenBLAS of this process uses, by the package it is of."""
    import scipy.linalg  # noqa: F401
    from threadpoolctl import threadpool_info

    found = {}
    for pool in threadpool_info():
        if pool["internal_api"] == "openblas":
            owner = "scipy" if "scipy.libs" in pool["filepath"] else "numpy"
            found[owner] = f"{pool['architecture']} x {pool['num_threads']}"
    return found


def numba() -> dict[str, Any]:
    """The processor and the threads of numba, and where it keeps what it has compiled."""
    from numba import config
    from numba.core.registry import cpu_target

    _, name, features = cpu_target.target_context.codegen().magic_tuple()
    return {
        "numba": name or "generic",
        "numba_avx": "+avx2" in features.split(","),
        "numba_threads": config.NUMBA_NUM_THREADS,
        "numba_cache": config.CACHE_DIR,
    }


def torch() -> dict[str, Any]:
    """Torch's own loops, its products and its threads."""
    import torch

    found = {"aten": torch.backends.cpu.get_cpu_capability(), "threads": torch.get_num_threads()}
    if not torch.backends.mkl.is_available():
        return found
    a = torch.ones(64, 64)
    text = _printed(lambda: _verbose_product(torch, a))
    modes = [part.removeprefix("CNR:") for part in text.split() if part.startswith("CNR:")]
    return found | {"mkl": modes[-1] if modes else "silent"}


def _verbose_product(torch: Any, a: Any) -> None:
    with torch.backends.mkl.verbose(torch.backends.mkl.VERBOSE_ON):
        torch.mm(a, a)


def _printed(run: Any) -> str:
    """What a library writes on the process's standard output, past Python's."""
    sys.stdout.flush()
    with tempfile.TemporaryFile() as file:
        kept = os.dup(1)
        os.dup2(file.fileno(), 1)
        try:
            run()
        finally:
            os.dup2(kept, 1)
            os.close(kept)
        file.seek(0)
        return file.read().decode(errors="replace")


def probe() -> dict[str, Any]:
    """All of it."""
    found: dict[str, Any] = {
        "python": f"{sys.version_info.major}.{sys.version_info.minor}",
        "numpy": f"{np.__version__}: {' '.join(numpy_features()) or 'baseline'}",
        "libm": libm(),
        "openblas": cores(),
        **numba(),
    }
    return found | (torch() if find_spec("torch") is not None else {"aten": None})


if __name__ == "__main__":
    print(json.dumps(numpy_features() if "--numpy" in sys.argv else probe()))
