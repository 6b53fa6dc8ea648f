"""Build the wheel so that anybody gets the same bytes from the same sources, and prove it.

    python -m tests.release.wheel dist

The wheel is built twice, from copies in two folders, and is kept only if both are equal to the
byte. What could differ between machines is set: the time of every entry (``SOURCE_DATE_EPOCH``,
that of the first day a zip file knows unless you set it), permissions (git keeps only the
executable bit, and the umask decides the rest), and the build back end, which constraints.txt pins.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

__all__ = [
    "BuildError",
    "NotReproducibleError",
    "addresses_to_give",
    "build_once",
    "build_twice",
    "copy_sources",
    "wrong_addresses",
]

ROOT = Path(__file__).parents[2]
EPOCH = "315532800"
"""1980-01-01, the first day that an entry of a zip file can have, in seconds since 1970."""

URLS = ("Source", "Documentation", "Issues", "Changelog")
"""Labels of ``[project.urls]`` that an index shows beside a package."""
LABEL = 32
"""Characters of a label, at most, by the specification of the metadata."""
PLACEHOLDER = re.compile(
    r"//(?:[\w.-]+\.)?(?:example(?:\.\w+)?|invalid|localhost|test)(?:[:/]|$)"
    r"|[<>{}\[\]$]|\b(?:your\w*|owner|user(?:name)?|todo|tbd|x{3,})\b",
    re.IGNORECASE,
)
"""What stands in an address that leads nowhere: reserved hosts, brackets, words to be replaced."""

# What `make env` copies for a build as well.
SOURCES = ("pyproject.toml", "README.md", "LICENSE", "MANIFEST.in")
FOLDERS = ("algos", "backends", "benchmarks/results", "docs", "dualclust", "proofs", "train")


class BuildError(Exception):
    """The wheel was not built."""


class NotReproducibleError(Exception):
    """Two builds differ; the message names the entries."""


def copy_sources(folder: Path, root: Path = ROOT) -> None:
    """Copy what a wheel is made of into a new folder, with the permissions of a plain checkout."""
    folder.mkdir(parents=True)
    for name in SOURCES:
        shutil.copy(root / name, folder)
    leave = shutil.ignore_patterns("__pycache__", "*.py[cod]", ".*")
    for name in FOLDERS:
        shutil.copytree(root / name, folder / name, symlinks=True, ignore=leave)
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() else 0o644)


def build_once(folder: Path, out: Path) -> Path:
    """Build the wheel of a copy into `out`, with the back end of this environment.

    Raises
    ------
    BuildError
        With all that the build said, if it failed.
    """
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out)]
    done = subprocess.run(
        command,
        cwd=folder,
        env={"SOURCE_DATE_EPOCH": EPOCH, **os.environ},
        umask=0o022,  # the build makes files of its own, and their permissions go into the wheel
        capture_output=True,
        text=True,
    )
    if done.returncode:
        msg = f"{' '.join(command)} failed:\n{done.stdout}\n{done.stderr}"
        raise BuildError(msg)
    [wheel] = out.glob("*.whl")
    return wheel


def build_twice(out: Path) -> Path:
    """Build two copies, compare them, and put the wheel into `out`.

    Raises
    ------
    NotReproducibleError
        If the two differ.
    """
    with tempfile.TemporaryDirectory() as place:
        wheels = []
        for name in ("one", "two/deeper"):
            copy_sources(Path(place, name, "tree"))
            wheels.append(build_once(Path(place, name, "tree"), Path(place, name, "out")))
        first, second = wheels
        if first.read_bytes() != second.read_bytes():
            names = differing(entries(first), entries(second)) or ["the order or the form"]
            msg = f"two builds of {first.name} differ in {', '.join(names)}"
            raise NotReproducibleError(msg)
        out.mkdir(parents=True, exist_ok=True)
        return Path(shutil.copy(first, out / first.name))


Entry = tuple[bytes, tuple[int, ...], int]


def entries(wheel: Path) -> dict[str, Entry]:
    """Return bytes, time and attributes of every entry of a wheel."""
    with zipfile.ZipFile(wheel) as file:
        return {i.filename: (file.read(i), i.date_time, i.external_attr) for i in file.infolist()}


def differing(first: Mapping[str, Entry], second: Mapping[str, Entry]) -> list[str]:
    """Return the entries that one wheel lacks, or that differ."""
    return sorted(n for n in {*first, *second} if first.get(n) != second.get(n))


def addresses_to_give(project: str, citation: str) -> list[str]:
    """Return what is to be given before a wheel is published: where the project can be found.

    Parameters
    ----------
    project : str
        Text of pyproject.toml.
    citation : str
        Text of CITATION.cff.

    Returns
    -------
    list of str
        What is missing or does not agree; empty for a wheel that may be published.
    """
    urls = tomllib.loads(project)["project"].get("urls", {})
    cited = re.search(r"^repository-code: *\"?([^\"\s]+)", citation, flags=re.MULTILINE)
    missing = [name for name in URLS if name not in urls]
    wrong = [f"pyproject.toml: [project.urls] {', '.join(missing)}"] if missing else []
    if cited is None:
        wrong.append("CITATION.cff: repository-code")
    elif "Source" in urls and cited[1] != urls["Source"]:
        wrong.append(f"one address: CITATION.cff has {cited[1]}, [project.urls] {urls['Source']}")
    return wrong


def wrong_addresses(urls: Mapping[str, str]) -> list[str]:
    """Return what is wrong with the form of addresses, by label; none is fetched."""
    wrong = []
    for label, url in urls.items():
        parts = urlsplit(url)
        if len(label) > LABEL:
            wrong.append(f"{label}: a label has at most {LABEL} characters")
        if parts.scheme != "https" or not re.fullmatch(r"(?:[a-z\d-]+\.)+[a-z]{2,}", parts.netloc):
            wrong.append(f"{label}: {url} is no https address")
        elif PLACEHOLDER.search(url):
            wrong.append(f"{label}: {url} is a placeholder")
    return wrong


def main(arguments: list[str]) -> int:
    """Build into the folder that is named, ``dist`` by default, and print the hash.

    What is to be given before the wheel is published goes to standard error.
    """
    wheel = build_twice(Path(arguments[0] if arguments else "dist"))
    print(f"{hashlib.sha256(wheel.read_bytes()).hexdigest()}  {wheel}")
    texts = [
        (ROOT / name).read_text(encoding="utf-8") for name in ("pyproject.toml", "CITATION.cff")
    ]
    urls = tomllib.loads(texts[0])["project"].get("urls", {})
    for line in [*addresses_to_give(*texts), *wrong_addresses(urls)]:
        print(f"not to be published yet, to be given first: {line}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
