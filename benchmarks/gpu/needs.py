"""Which versions the program runs on, and what it does where a package is missing.

The library needs array-api-compat and array-api-extra. scikit-learn brings both along, under a name
of its own: where they are not installed, those are used. Nothing is downloaded.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import re
import sys
from collections.abc import Iterable, Sequence
from importlib.metadata import PackageNotFoundError, version
from types import ModuleType

__all__ = ["PYTHON", "REQUIRED", "CannotRun", "check", "compat_version", "prepare", "versions"]

PYTHON = (3, 11)
# Lowest versions; `make gpu` runs on what it finds, from these on.
REQUIRED = {
    "torch": (2, 11),
    "numpy": (2, 0),
    "numba": (0, 61),
    "scipy": (1, 13),
    "scikit-learn": (1, 6),
    "safetensors": (0, 5),
    "pillow": (11,),
    "matplotlib": (3, 9),
    "threadpoolctl": (3, 5),
    "rich": (13,),
}
# Named in the results where they are there; nothing fails without them.
OPTIONAL = ("triton", "array-api-compat", "array-api-extra", "hypothesis", "pytest")
COMPAT = (1, 14)  # of array-api-compat, whose clip reads from the device before that
VENDORED = {
    "array_api_compat": "sklearn.externals.array_api_compat",
    "array_api_extra": "sklearn.externals.array_api_extra",
}


class CannotRun(Exception):  # noqa: N818 - it is a message to the user, not a mistake
    """The program cannot run here; the message says why, and what to do."""


def check(found: dict[str, str | None], python: Sequence[int] = sys.version_info[:3]) -> None:
    """Refuse versions below the supported ones, naming all of them at once.

    Parameters
    ----------
    found : the version of each package of `REQUIRED`; None where it is not installed.
    python : ints. The version of Python.
    """
    wrong = []
    if tuple(python[:2]) < PYTHON:
        wrong.append(f"Python {_shown(PYTHON)} or newer, found {_shown(python[:2])}")
    for name, least in REQUIRED.items():
        here = found.get(name)
        if here is None:
            wrong.append(f"{name} {_shown(least)} or newer, not installed")
        elif _numbers(here) < least:
            wrong.append(f"{name} {_shown(least)} or newer, found {here}")
    if wrong:
        raise CannotRun("the GPU day needs " + "; ".join(wrong))


def versions(names: Iterable[str]) -> dict[str, str | None]:
    """The installed version of each package, None where there is none."""
    found: dict[str, str | None] = {}
    for name in names:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = None
    return found


def compat_version() -> str:
    """The version of array-api-compat that is used, that of scikit-learn or one of its own."""
    return str(importlib.import_module("array_api_compat").__version__)


def prepare() -> None:
    """Check the versions, make the array API packages findable, and find the library.

    Raises
    ------
    CannotRun
        If a version is too low, or a package is in no place that is known.
    """
    check(versions(REQUIRED))
    for name, other in VENDORED.items():
        if importlib.util.find_spec(name) is not None:
            continue
        if importlib.util.find_spec(other) is None:
            msg = f"{name} is missing, and this scikit-learn does not bring it: install {name}"
            raise CannotRun(msg)
        sys.meta_path.insert(0, _Alias(name, other))  # before that which looks into folders
    if _numbers(compat_version()) < COMPAT:
        print(
            f"array-api-compat {compat_version()}: below {_shown(COMPAT)} training steps read from "
            f"the device, so that `reads` and `graph` of the conformance will differ",
            file=sys.stderr,
        )
    try:
        import dualclust.algos  # noqa: F401
    except ModuleNotFoundError as error:
        msg = (
            f"no module {error.name!r}. Start `python -m benchmarks.gpu` in the root of a checkout "
            f"whose links dualclust/{{algos,backends,train,proofs}} are intact, or install it"
        )
        raise CannotRun(msg) from error


class _Alias(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds a package, and all in it, under another name: one module each, not two."""

    def __init__(self, name: str, other: str) -> None:
        self.name, self.other = name, other

    def find_spec(
        self, fullname: str, path: object = None, target: object = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Say that it can load the package and what is in it."""
        if fullname != self.name and not fullname.startswith(self.name + "."):
            return None
        if importlib.util.find_spec(self.other + fullname[len(self.name) :]) is None:
            return None
        return importlib.machinery.ModuleSpec(fullname, self)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        """Return the module of the other name."""
        found = importlib.import_module(self.other + spec.name[len(self.name) :])
        self._kept = found.__spec__
        return found

    def exec_module(self, module: ModuleType) -> None:
        """Give the module back its own spec: it has run already."""
        module.__spec__ = self._kept


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text.partition("+")[0])[:3])


def _shown(numbers: Sequence[int]) -> str:
    return ".".join(map(str, numbers))
