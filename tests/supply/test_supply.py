"""The audit of what is installed, and the file of hashed pins."""

from __future__ import annotations

import base64
import hashlib
import json
from importlib.metadata import Distribution, PathDistribution
from pathlib import Path

import pytest

from tests.supply.audit import CONSTRAINTS, changed_files, pins, wrong_versions
from tests.supply.hashes import hashed, main


@pytest.fixture
def package(tmp_path: Path) -> Distribution:
    """An installed package of one module."""
    (tmp_path / "module.py").write_bytes(b"x = 1\n")
    digest = base64.urlsafe_b64encode(hashlib.sha256(b"x = 1\n").digest()).rstrip(b"=").decode()
    info = tmp_path / "Some_Package-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: Some_Package\nVersion: 1.2+cpu\n")
    (info / "RECORD").write_text(f"module.py,sha256={digest},6\ngone.py,sha256={digest},6\n")
    (tmp_path / "gone.py").write_bytes(b"x = 1\n")
    return PathDistribution(info)


def test_a_package_as_its_wheel_brought_it_is_right(package: Distribution) -> None:
    assert list(changed_files(package)) == []
    assert list(wrong_versions([package], {"some-package": "1.2"})) == []


def test_what_was_changed_is_named(package: Distribution, tmp_path: Path) -> None:
    (tmp_path / "module.py").write_bytes(b"x = 2\n")
    (tmp_path / "gone.py").unlink()
    first, second = changed_files(package)
    assert first == f"{tmp_path / 'module.py'} is not what the wheel of Some_Package brought"
    assert second == f"{tmp_path / 'gone.py'} cannot be read: No such file or directory"
    (complaint,) = wrong_versions([package], {"some-package": "1.3"})
    assert complaint == "some-package is 1.2+cpu, and pinned to 1.3"


def test_every_line_of_the_constraints_is_a_pin() -> None:
    text = CONSTRAINTS.read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert len(pins(text)) == len(lines) > 100
    assert pins("A_b.C == 1.0 ; python_version < '4' # why\n# x==3") == {"a-b-c": "1.0"}


def test_hashed_pins_are_those_of_the_report(tmp_path: Path, capsys) -> None:
    def entry(name: str, version: str, info: dict[str, object]) -> dict[str, object]:
        return {"metadata": {"name": name, "version": version}, "download_info": info}

    one = {"archive_info": {"hashes": {"sha256": "ab"}}, "url": "somewhere"}
    report = {"install": [entry("torch", "2.13.0+cpu", one), entry("Babel", "2.18", one)]}
    path = tmp_path / "report.json"
    path.write_text(json.dumps(report))
    assert main([str(path)]) == 0
    expected = "Babel==2.18 --hash=sha256:ab\ntorch==2.13.0 --hash=sha256:ab\n"
    assert capsys.readouterr().out == expected
    with pytest.raises(ValueError, match="x 1 has no SHA-256"):
        hashed({"install": [entry("x", "1", {"dir_info": {}})]})
