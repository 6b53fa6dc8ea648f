"""The machines that `make machines` emulates: one row each, and what a processor must have for it.

A processor decides the last bits of a sum: each library picks code for what the processor can do,
and that code adds in an order of its own. Every one of them listens to a variable that makes it
pick as on another processor. `EFFECT` says which, and `tests/machines/probe.py` what came of it.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ROWS", "Row", "missing", "variables"]


@dataclass(frozen=True)
class Row:
    """One emulated machine; None leaves a choice to the library.

    Attributes
    ----------
    name, says : str
        What to call it, and what it stands for.
    openblas : str
        The core whose kernels numpy's and scipy's products use.
    aten, mkl, onednn : str
        Most that torch's own loops, its products and its convolutions use.
    numpy : str
        "X86_V2", "X86_V3" or "X86_V4": most that numpy's own loops use.
    libm : bool
        Whether exp, log and others of the C library may use fused multiplications.
    numba : str
        The processor that numba compiles for.
    threads : int
        Of every library.
    python : str
        "3.13", say; an interpreter of that version gets an environment of its own.
    lowest : bool
        Whether direct requirements have the lowest versions that pyproject.toml allows.
    without : tuple of str
        Requirements that this row does not install. Tests that need them are not collected.
    needs : frozenset of str
        What the processor must have, as Linux names it.
    """

    name: str
    says: str
    openblas: str | None = None
    aten: str | None = None
    mkl: str | None = None
    onednn: str | None = None
    numpy: str | None = None
    libm: bool = True
    numba: str | None = None
    threads: int = 2
    python: str | None = None
    lowest: bool = False
    without: tuple[str, ...] = ()
    needs: frozenset[str] = frozenset()

    @property
    def own_environment(self) -> bool:
        """Whether the row's packages differ from those of `make test`."""
        return self.python is not None or self.lowest or bool(self.without)


_AVX2 = frozenset({"avx2", "fma"})
_AVX512 = _AVX2 | {"avx512f", "avx512cd", "avx512bw", "avx512dq", "avx512vl"}

ROWS = (
    Row(
        "oldest",
        "no AVX, no fused multiplication, one thread",
        openblas="Prescott",
        aten="default",
        mkl="COMPATIBLE",
        onednn="SSE41",
        numpy="X86_V2",
        libm=False,
        numba="generic",
        threads=1,
    ),
    Row(
        "haswell",
        "AVX2 of 2013",
        openblas="Haswell",
        aten="avx2",
        mkl="AVX2",
        onednn="AVX2",
        numpy="X86_V3",
        numba="haswell",
        threads=2,
        needs=_AVX2,
    ),
    Row(
        "zen",
        "AVX2 of another maker, more threads than cores",
        openblas="Zen",
        aten="avx2",
        onednn="AVX2",
        numpy="X86_V3",
        numba="znver2",
        threads=4,
        needs=_AVX2,
    ),
    Row(
        "skylakex",
        "AVX-512",
        openblas="SkylakeX",
        aten="avx512",
        onednn="AVX512_CORE",
        numpy="X86_V4",
        numba="skylake-avx512",
        threads=2,
        needs=_AVX512,
    ),
    # The others keep this machine's choices: what is red there comes from the versions.
    Row(
        "python-3.13",
        "the newest Python, and no torch, which the base installation does without",
        python="3.13",
        without=("torch",),
    ),
    Row(
        "lowest",
        "the lowest versions that pyproject.toml allows, and no JAX, which wants a newer SciPy",
        python="3.11",
        lowest=True,
        without=("jax",),
    ),
)


def missing(row: Row, flags: frozenset[str]) -> list[str]:
    """What the processor lacks for a row, given what it has.

    Examples
    --------
    >>> missing(ROWS[1], frozenset({"sse2", "fma"}))
    ['avx2']
    >>> missing(ROWS[0], frozenset({"sse2"}))
    []
    """
    return sorted(row.needs - flags)


def variables(row: Row, numpy_features: list[str]) -> dict[str, str]:
    """Environment variables of a row.

    Parameters
    ----------
    row : Row
    numpy_features : list of str
        What numpy's loops can choose from in the row's environment, beyond its baseline; newer
        versions of numpy speak of groups of features, older ones of single ones.

    Examples
    --------
    >>> found = variables(ROWS[0], ["X86_V3", "X86_V4"])
    >>> found["OPENBLAS_CORETYPE"], found["NPY_DISABLE_CPU_FEATURES"], found["MKL_NUM_THREADS"]
    ('Prescott', 'X86_V3 X86_V4', '1')
    """
    threads = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
    chosen = dict.fromkeys(threads, str(row.threads))
    # Workers of the suite share the cores: threads that wait for each other give theirs away.
    chosen["OMP_WAIT_POLICY"] = "PASSIVE"
    # Otherwise MKL, and torch with it, takes no more threads than there are cores.
    chosen["MKL_DYNAMIC"] = "FALSE"
    named = {
        "OPENBLAS_CORETYPE": row.openblas,
        "ATEN_CPU_CAPABILITY": row.aten,
        "MKL_CBWR": row.mkl,
        "ONEDNN_MAX_CPU_ISA": row.onednn,
        "NUMBA_CPU_NAME": row.numba,
        "GLIBC_TUNABLES": None if row.libm else "glibc.cpu.hwcaps=-AVX2,-FMA,-FMA4",
    }
    chosen |= {name: value for name, value in named.items() if value is not None}
    if row.numpy is not None:
        disabled = [name for name in numpy_features if _level(name) > _level(row.numpy)]
        chosen["NPY_DISABLE_CPU_FEATURES"] = " ".join(disabled)
    return {name: value for name, value in chosen.items() if value}


def _level(feature: str) -> int:
    """The generation of x86 that a feature of numpy came with."""
    if feature.startswith("X86_V"):
        return int(feature.removeprefix("X86_V"))
    if feature in ("AVX512F", "AVX512CD", "AVX512_SKX"):
        return 4
    if feature.startswith("AVX512"):
        return 5
    return 3 if feature.startswith(("AVX", "FMA", "F16C", "XOP")) else 2
