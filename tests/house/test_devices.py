"""One module knows what kinds of devices differ in: `dualclust.common.devices`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("algos", "backends", "train", "proofs", "dualclust")
LINKS = {"algos", "backends", "train", "proofs"}
HERE = "dualclust/common/devices.py"
WORDS = re.compile(
    r"torch\.cuda|is_cuda|torch\.Generator\(|pin_memory|torch\.autocast\(|mem_get_info"
    r"|\.type (==|!=|in) |record_stream"
)


def found(root: Path) -> Iterator[str]:
    """Each line of the package that asks what a device is, as 'file:line'."""
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*.py")):
            where = path.relative_to(root)
            if folder == "dualclust" and where.parts[1] in LINKS:
                continue
            if str(where) == HERE:
                continue
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                if WORDS.search(line):
                    yield f"{where}:{number}"


def test_no_other_module_asks_what_a_device_is() -> None:
    assert list(found(ROOT)) == []


@pytest.mark.parametrize(
    "line",
    [
        "stream = torch.cuda.Stream()",
        "if x.is_cuda:",
        "draws = torch.Generator('cuda')",
        "x.pin_memory()",
        "with torch.autocast('cpu'):",
        "if device.type == 'cuda':",
    ],
)
def test_a_planted_line_is_found(tmp_path: Path, line: str) -> None:
    for where in ("train/x.py", "dualclust/common/x.py", HERE):
        (tmp_path / where).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / where).write_text(f"{line}\n")
    assert list(found(tmp_path)) == ["train/x.py:1", "dualclust/common/x.py:1"]
