"""Compare the installed packages with their pins and with what their wheels said of their files.

    python -m tests.supply.audit
    python -m tests.supply.audit --wheels FOLDER     # and the wheels that lie there

It works without a network: pins are in `constraints.txt`, and every wheel brings a list of its
files with their SHA-256, against which each is read. A file that was changed after the
installation, a version that is not the pinned one, a pin without a hash in `constraints-hashed.txt`
and a wheel of another hash are printed, and the exit code is 1. What is known against a version has
to be asked for in a network: `pip-audit -r constraints.txt` does that.
"""

from __future__ import annotations

import argparse
import base64
import csv
import hashlib
import sys
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, distributions
from pathlib import Path

from .hashes import HASHED, Hashed, disagreements, normalized, read

__all__ = ["changed_files", "main", "pins", "wrong_versions", "wrong_wheels"]

CONSTRAINTS = Path(__file__).parents[2] / "constraints.txt"


def pins(text: str) -> dict[str, str]:
    """Versions by normalized names."""
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    pairs = (line.partition(";")[0].split("==") for line in lines if "==" in line)
    return {normalized(name): version.strip() for name, version in pairs}


def wrong_versions(found: Iterable[Distribution], wanted: dict[str, str]) -> Iterator[str]:
    """Yield the installed packages that are pinned to another version; local tags do not count."""
    for each in found:
        name = normalized(each.metadata["Name"])
        version = each.version.partition("+")[0]
        if name in wanted and version != wanted[name]:
            yield f"{name} is {each.version}, and pinned to {wanted[name]}"


def changed_files(each: Distribution) -> Iterator[str]:
    """Yield the files of a package that are missing, or not as its wheel said."""
    # Not by `Distribution.files`: from Python 3.12 on it leaves out what is missing.
    for name, stated, _ in csv.reader((each.read_text("RECORD") or "").splitlines()):
        if not stated or name.endswith(".pyc"):
            continue
        path = Path(str(each.locate_file(name)))
        mode, _, value = stated.partition("=")
        try:
            digest = digest_of(path, mode)
        except OSError as error:
            yield f"{path} cannot be read: {error.strerror}"
            continue
        if base64.urlsafe_b64encode(digest).rstrip(b"=").decode() != value:
            yield f"{path} is not what the wheel of {each.metadata['Name']} brought"


def digest_of(path: Path, mode: str = "sha256") -> bytes:
    """Return the digest of a file."""
    with path.open("rb") as content:
        return hashlib.file_digest(content, mode).digest()


def wrong_wheels(folder: Path, hashed: Hashed) -> Iterator[str]:
    """Yield the wheels of a folder that are of a pinned version, and have none of its hashes."""
    for path in sorted(folder.rglob("*.whl")):
        name, version = path.name.split("-")[:2]
        pin = hashed.pins.get(normalized(name))
        if pin is None or version.partition("+")[0] != pin.version:
            continue
        if digest_of(path).hex() not in pin.digests:
            yield f"{path} has none of the hashes of {pin.name} {pin.version}"


def main(arguments: list[str] | None = None) -> int:
    """Run the program and return its exit code."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--wheels", type=Path, help="a folder of wheels to compare with the hashes")
    options = parser.parse_args(arguments)
    found, wanted = list(distributions()), pins(CONSTRAINTS.read_text(encoding="utf-8"))
    hashed = read(HASHED.read_text(encoding="utf-8"))
    wrong = [*wrong_versions(found, wanted), *disagreements(hashed, wanted)]
    for each in found:
        wrong += changed_files(each)
    if options.wheels is not None:
        wrong += wrong_wheels(options.wheels, hashed)
    for line in wrong:
        print(f"WRONG {line}")
    print(f"{len(found)} packages, {len(wrong)} complaints")
    print("known vulnerabilities need a network: pip-audit --requirement constraints.txt")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
