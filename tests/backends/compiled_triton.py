"""The kernels in Triton as machine code for a card that is not there.

Not for the interpreter: in a process without `TRITON_INTERPRET`.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from dualclust.backends import triton_products

__all__ = ["compiled"]

TOOL = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
CAPABILITY = 90  # of an H200
POINTERS = {
    "rows": "*fp32",
    "centers": "*fp32",
    "bound": "*fp32",
    "labels": "*i64",
    "ids": "*i64",
    "close": "*i8",
    "values": "*fp64",
}


def compiled(capability: int = CAPABILITY) -> Iterator[tuple[str, int, int]]:
    """Yield the name of each kernel, its bytes of shared memory, and those spilled by a thread."""
    for precision, tile in triton_products.TILES.items():
        chosen = {
            "ROWS": tile.rows,
            "CLUSTERS": tile.clusters,
            "FEATURES": tile.features,
            "PRECISION": precision,
        }
        options = {"num_warps": tile.warps, "num_stages": tile.stages}
        kernel = triton_products._best_two
        yield f"_best_two_{precision}", *_needs(kernel, "*fp32", chosen, options, capability)
    for kernel, chosen in (
        (triton_products._best_in_float64, triton_products.EXACT_TILE),
        (triton_products._values, {"ROWS": triton_products.VALUE_ROWS}),
    ):
        yield kernel.fn.__name__, *_needs(kernel, "*fp64", chosen, {}, capability)


def _needs(
    kernel: Any, offsets: str, chosen: dict[str, Any], options: dict[str, int], capability: int
) -> tuple[int, int]:
    kinds = {**POINTERS, "offsets": offsets}
    signature = {name: kinds.get(name, "i32") for name in kernel.arg_names}
    signature |= dict.fromkeys(chosen, "constexpr")
    aligned = [["tt.divisibility", 16]]  # as PyTorch's arrays are
    attrs = {(i,): aligned for i, name in enumerate(kernel.arg_names) if name in kinds}
    source = ASTSource(fn=kernel, signature=signature, constexprs=chosen, attrs=attrs)
    made = triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(made.asm["cubin"])
        file.flush()
        command = [str(TOOL), "-res-usage", file.name]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return made.metadata.shared, int(re.findall(r"STACK:(\d+)", said)[0])
