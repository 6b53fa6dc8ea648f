"""Write the pins with the hashes of their files, as pip reports them, and say where they hold.

    python -m pip install --dry-run --ignore-installed --no-deps --quiet \\
        --report report.json --requirement constraints.txt
    python -m tests.supply.hashes report.json         # constraints-hashed.txt, for this platform
    python -m tests.supply.hashes report.json --add   # its platforms and hashes too, of one version
    python -m tests.supply.hashes --fits              # 0: it holds files of this platform

The first line needs an index of packages, the others none. `make env HASHES=yes` takes no other
file than those, and `make audit` compares them with the pins. A platform takes other wheels than
another: the file says which it is for, and names packages, versions and hashes, and no address.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["HASHED", "Hashed", "Pin", "disagreements", "main", "normalized", "of_report", "read"]

HASHED = Path(__file__).parents[2] / "constraints-hashed.txt"
HEADER = """\
# The versions of constraints.txt with the SHA-256 of the files that pip takes for them.
# `make env HASHES=yes` takes these files alone; tests/supply/hashes.py writes this one.
# torch is its CPU build: pip has to find that one (see docs/start/install.md), and refuses others.
"""
FOR = "# for: "


class Pin(NamedTuple):
    """A package, its version, and the hashes of the files that are allowed."""

    name: str
    version: str
    digests: frozenset[str]


class Hashed(NamedTuple):
    """Platforms whose files are known, and pins by normalized names."""

    platforms: frozenset[str]
    pins: dict[str, Pin]

    def __str__(self) -> str:
        platforms = "".join(f"{FOR}{each}\n" for each in sorted(self.platforms))
        lines = []
        for _, (name, version, digests) in sorted(self.pins.items()):
            hashes = "".join(f" \\\n    --hash=sha256:{digest}" for digest in sorted(digests))
            lines.append(f"{name}=={version}{hashes}\n")
        return HEADER + platforms + "".join(lines)


def normalized(name: str) -> str:
    """Spell a name as indexes do."""
    return re.sub(r"[-_.]+", "-", name.strip()).lower()


def here() -> str:
    """Name what decides which wheel pip takes, as far as a file of hashes tells platforms apart."""
    python = f"{sys.implementation.name} {sys.version_info[0]}.{sys.version_info[1]}"
    return f"{sys.platform} {platform.machine()} {python}"


def of_report(report: dict[str, Any], place: str) -> Hashed:
    """Return the pins of pip's report, for the platform that it was made on.

    Raises
    ------
    ValueError
        For a package whose file pip reports without a SHA-256.
    """
    pins = {}
    for entry in report["install"]:
        name, version = (entry["metadata"][key] for key in ("name", "version"))
        digest = entry["download_info"].get("archive_info", {}).get("hashes", {}).get("sha256")
        if digest is None:
            msg = f"{name} {version} has no SHA-256 in the report: it is no file of an index"
            raise ValueError(msg)
        pins[normalized(name)] = Pin(name, version.partition("+")[0], frozenset({digest}))
    return Hashed(frozenset({place}), pins)


def read(text: str) -> Hashed:
    """Read what `str` of a `Hashed` wrote."""
    places = {line.removeprefix(FOR) for line in text.splitlines() if line.startswith(FOR)}
    found = re.findall(r"^([^\s#=]+)==(\S+)((?: \\\n    --hash=sha256:\w+)*)$", text, re.MULTILINE)
    pins = {
        normalized(name): Pin(name, version, frozenset(re.findall(r"sha256:(\w+)", hashes)))
        for name, version, hashes in found
    }
    return Hashed(frozenset(places), pins)


def added(old: Hashed, new: Hashed) -> Hashed:
    """Return both together; the new one alone once a version has moved, which the old one lacks."""
    common = old.pins.keys() & new.pins.keys()
    if any(old.pins[name].version != new.pins[name].version for name in common):
        return new
    both = {
        name: new.pins[name]._replace(digests=old.pins[name].digests | new.pins[name].digests)
        for name in common
    }
    return Hashed(old.platforms | new.platforms, old.pins | new.pins | both)


def disagreements(hashed: Hashed, wanted: dict[str, str]) -> Iterator[str]:
    """Yield where the hashed pins are not those of `constraints.txt`, each with a hash."""
    for name in sorted(hashed.pins.keys() | wanted.keys()):
        pin, version = hashed.pins.get(name), wanted.get(name)
        if pin is None:
            yield f"{name} is pinned and has no hash"
        elif version != pin.version:
            yield f"{name} has hashes of {pin.version}, and is pinned to {version or 'no version'}"
        elif not all(re.fullmatch("[0-9a-f]{64}", digest) for digest in pin.digests or {""}):
            yield f"{name} has no SHA-256"


def main(arguments: list[str], path: Path = HASHED) -> int:
    """Run the program and return its exit code."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("report", nargs="?", type=Path, help="of pip, as JSON")
    parser.add_argument("--add", action="store_true", help="to the platforms that are there")
    parser.add_argument("--fits", action="store_true", help="are there files of this platform?")
    options = parser.parse_args(arguments)
    known = read(path.read_text(encoding="utf-8")) if path.is_file() else Hashed(frozenset(), {})
    if options.report is not None:
        new = of_report(json.loads(options.report.read_text(encoding="utf-8")), here())
        path.write_text(str(added(known, new) if options.add else new), encoding="utf-8")
    elif options.fits and here() not in known.platforms:
        print(f"no hashes for {here()}, only for {', '.join(sorted(known.platforms))}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
