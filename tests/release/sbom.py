"""What comes along with the library: every package, its version and its license, as CycloneDX.

    python -m tests.release.sbom sbom.json             the base installation
    python -m tests.release.sbom sbom.json train onnx  with extras

The bill of materials is read off the metadata of the packages that are installed here, from
dualclust's requirements down. It holds no time and no random number: the same environment gives the
same bytes.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

__all__ = ["NotInstalledError", "closure", "document", "license_of", "main"]

LONGEST = 100
"""Characters of a license's name; what is longer is its text."""


class NotInstalledError(Exception):
    """A required package is not installed; the message names it and who requires it."""


def document(name: str, extras: Iterable[str] = ()) -> dict[str, Any]:
    """Return the bill of materials of an installed package, CycloneDX 1.6.

    Parameters
    ----------
    name : str
        The package.
    extras : iterable of str
        Of its extras, those that count.

    Raises
    ------
    NotInstalledError
        If something that it requires is missing.
    """
    found = closure(name, extras)
    root = canonicalize_name(name)
    parts = {key: _component(dist) for key, (dist, _) in found.items()}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": parts[root]},
        "components": [part for key, part in sorted(parts.items()) if key != root],
        "dependencies": [
            {
                "ref": parts[key]["bom-ref"],
                "dependsOn": [parts[other]["bom-ref"] for other in sorted(needs)],
            }
            for key, (_, needs) in sorted(found.items())
        ],
    }


def closure(name: str, extras: Iterable[str] = ()) -> dict[str, tuple[Distribution, set[str]]]:
    """Return each package that one needs here, itself included, with what it needs directly."""
    found: dict[str, tuple[Distribution, set[str]]] = {}
    done: set[tuple[str, str]] = set()
    waiting = [(canonicalize_name(name), extra, name) for extra in ("", *extras)]
    while waiting:
        key, extra, whose = waiting.pop()
        if (key, extra) in done:
            continue
        done.add((key, extra))
        try:
            dist = found[key][0] if key in found else distribution(key)
        except PackageNotFoundError as error:
            msg = f"{key} is not installed, which {whose} requires"
            raise NotInstalledError(msg) from error
        needs = found.setdefault(key, (dist, set()))[1]
        for text in dist.requires or ():
            wanted = Requirement(text)
            if wanted.marker is not None and not wanted.marker.evaluate({"extra": extra}):
                continue
            other = canonicalize_name(wanted.name)
            if other != key:  # an extra of its own, as "dualclust[train]" of [docs]
                needs.add(other)
            waiting += [(other, inner, key) for inner in ("", *wanted.extras)]
    return found


def license_of(dist: Distribution) -> dict[str, Any] | None:
    """Return a license as CycloneDX writes it, or None if the package does not state one.

    An expression of SPDX comes first, then the short name that a package gives, then its
    classifiers, and last the first line of the license file that it brings.
    """
    about = dist.metadata
    if expression := about.get("License-Expression"):
        return {"expression": expression}
    name = (about.get("License") or "").strip()
    if name and name != "UNKNOWN" and len(name) <= LONGEST and "\n" not in name:
        return {"license": {"name": name}}
    stated = [c for c in about.get_all("Classifier", []) if c.startswith("License :: ")]
    if stated:
        return {"license": {"name": " and ".join(c.rpartition(" :: ")[2] for c in stated)}}
    lines = [line.strip() for line in (dist.read_text("LICENSE") or "").splitlines()]
    first = next((line for line in lines if line), "")
    return {"license": {"name": first}} if 0 < len(first) <= LONGEST else None


def _component(dist: Distribution) -> dict[str, Any]:
    name, version = canonicalize_name(dist.metadata["Name"]), dist.version
    purl = f"pkg:pypi/{name}@{version}"
    part = {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}
    found = license_of(dist)
    return part if found is None else {**part, "licenses": [found]}


def main(arguments: list[str]) -> int:
    """Write the file that is named first, with the extras that follow; says who has no license."""
    path, *extras = arguments or ["sbom.json"]
    found = document("dualclust", extras)
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    silent = [part["name"] for part in found["components"] if "licenses" not in part]
    print(f"{path}: {len(found['components'])} packages; no license stated: {silent or 'none'}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
