"""Compare the installed packages with their pins and with what their wheels said of their files.

    python -m tests.supply.audit

It works without a network: pins are in `constraints.txt`, and every wheel brings a list of its
files with their SHA-256, against which each is read. A file that was changed after the
installation, and a version that is not the pinned one, are printed, and the exit code is 1. What is
known against a version has to be asked for in a network: `pip-audit -r constraints.txt` does that.
"""

from __future__ import annotations

import base64
import hashlib
import re
import sys
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, distributions
from pathlib import Path

__all__ = ["changed_files", "main", "pins", "wrong_versions"]

CONSTRAINTS = Path(__file__).parents[2] / "constraints.txt"


def pins(text: str) -> dict[str, str]:
    """Versions by normalized names."""
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    pairs = (line.partition(";")[0].split("==") for line in lines if "==" in line)
    return {normalized(name): version.strip() for name, version in pairs}


def normalized(name: str) -> str:
    """Spell a name as indexes do."""
    return re.sub(r"[-_.]+", "-", name.strip()).lower()


def wrong_versions(found: Iterable[Distribution], wanted: dict[str, str]) -> Iterator[str]:
    """Yield the installed packages that are pinned to another version; local tags do not count."""
    for each in found:
        name = normalized(each.metadata["Name"])
        version = each.version.partition("+")[0]
        if name in wanted and version != wanted[name]:
            yield f"{name} is {each.version}, and pinned to {wanted[name]}"


def changed_files(each: Distribution) -> Iterator[str]:
    """Yield the files of a package that are missing, or not as its wheel said."""
    for file in each.files or ():
        if file.hash is None or file.suffix == ".pyc":
            continue
        path = Path(str(each.locate_file(file)))
        try:
            digest = hashlib.new(file.hash.mode)
            with path.open("rb") as content:
                while part := content.read(2**20):
                    digest.update(part)
        except OSError as error:
            yield f"{path} cannot be read: {error.strerror}"
            continue
        if base64.urlsafe_b64encode(digest.digest()).rstrip(b"=").decode() != file.hash.value:
            yield f"{path} is not what the wheel of {each.metadata['Name']} brought"


def main() -> int:
    """Run the program and return its exit code."""
    found = list(distributions())
    wrong = list(wrong_versions(found, pins(CONSTRAINTS.read_text(encoding="utf-8"))))
    for each in found:
        wrong += changed_files(each)
    for line in wrong:
        print(f"WRONG {line}")
    print(f"{len(found)} packages, {len(wrong)} complaints")
    print("known vulnerabilities need a network: pip-audit --requirement constraints.txt")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
