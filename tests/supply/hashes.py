"""Write the pins with the hashes of their files, as pip reports them.

    python -m pip install --dry-run --ignore-installed --no-deps --quiet \\
        --report report.json --requirement constraints.txt
    python -m tests.supply.hashes report.json > constraints-hashed.txt
    python -m pip install --require-hashes --no-deps --requirement constraints-hashed.txt

The first line needs a network, the second none. The file holds for the platform that it was made
on: another one takes other wheels. It names packages, versions and hashes, and no address.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

__all__ = ["hashed", "main"]


def hashed(report: dict[str, Any]) -> str:
    """Return the lines of a file of hashed pins.

    Raises
    ------
    ValueError
        For a package whose file pip reports without a SHA-256.
    """
    lines = []
    for entry in report["install"]:
        name, version = (entry["metadata"][key] for key in ("name", "version"))
        digest = entry["download_info"].get("archive_info", {}).get("hashes", {}).get("sha256")
        if digest is None:
            msg = f"{name} {version} has no SHA-256 in the report: it is no file of an index"
            raise ValueError(msg)
        lines.append(f"{name}=={version.partition('+')[0]} --hash=sha256:{digest}")
    return "\n".join(sorted(lines, key=str.lower)) + "\n"


def main(arguments: list[str]) -> int:
    """Run the program and return its exit code."""
    report = json.loads(Path(arguments[0]).read_text(encoding="utf-8"))
    print(hashed(report), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
