"""The audit of what is installed, and the file of hashed pins."""

from __future__ import annotations

import base64
import hashlib
import json
from importlib.metadata import Distribution, PathDistribution
from pathlib import Path

import pytest

from tests.supply.audit import CONSTRAINTS, changed_files, pins, wrong_versions, wrong_wheels
from tests.supply.hashes import HASHED, Hashed, Pin, disagreements, here, main, of_report, read


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


def entry(name: str, version: str, digest: str = "") -> dict[str, object]:
    """A package in a report of pip; without a digest it comes from a folder."""
    info = {"archive_info": {"hashes": {"sha256": digest}}} if digest else {"dir_info": {}}
    return {
        "metadata": {"name": name, "version": version},
        "download_info": {**info, "url": "somewhere"},
    }


def test_the_hashes_are_those_of_the_pins() -> None:
    hashed = read(HASHED.read_text(encoding="utf-8"))
    wanted = pins(CONSTRAINTS.read_text(encoding="utf-8"))
    assert list(disagreements(hashed, wanted)) == []
    assert len(hashed.pins) > 100
    assert "linux x86_64 cpython 3.11" in hashed.platforms
    assert str(hashed) == HASHED.read_text(encoding="utf-8")
    assert "://" not in str(hashed)


def test_a_pin_that_differs_is_named() -> None:
    digest = "ab" * 32
    report = {"install": [entry("A_b", "1.0+cpu", digest), entry("c", "2", digest)]}
    hashed = of_report(report, "somewhere")
    assert list(disagreements(hashed, {"a-b": "1.0", "c": "2"})) == []
    assert list(disagreements(hashed, {"a-b": "1.1", "d": "3"})) == [
        "a-b has hashes of 1.0, and is pinned to 1.1",
        "c has hashes of 2, and is pinned to no version",
        "d is pinned and has no hash",
    ]
    short = Hashed(frozenset(), {"c": Pin("c", "2", frozenset())})
    assert list(disagreements(short, {"c": "2"})) == ["c has no SHA-256"]
    with pytest.raises(ValueError, match="x 1 has no SHA-256"):
        of_report({"install": [entry("x", "1")]}, "somewhere")


def test_another_platform_adds_its_hashes(tmp_path: Path, capsys) -> None:
    report, path = tmp_path / "report.json", tmp_path / "hashed.txt"
    other = Hashed(
        frozenset({"another"}),
        {"b": Pin("B", "2", frozenset({"c" * 64})), "a": Pin("a", "1", frozenset({"d" * 64}))},
    )
    path.write_text(str(other))
    assert read(str(other)) == other
    assert main(["--fits"], path) == 1
    assert "no hashes for" in capsys.readouterr().out
    report.write_text(
        json.dumps({"install": [entry("B", "2", "e" * 64), entry("c", "3", "f" * 64)]})
    )
    assert main([str(report), "--add"], path) == 0
    found = read(path.read_text())
    assert found.pins["b"].digests == {"c" * 64, "e" * 64}
    assert found.pins["a"] == other.pins["a"]  # of that platform alone
    assert found.pins["c"] == ("c", "3", {"f" * 64})
    assert found.platforms == {"another", here()}
    assert main(["--fits"], path) == 0
    report.write_text(json.dumps({"install": [entry("B", "3", "e" * 64)]}))
    assert main([str(report), "--add"], path) == 0  # the others have no hash of that version
    found = read(path.read_text())
    assert found == Hashed(frozenset({here()}), {"b": Pin("B", "3", frozenset({"e" * 64}))})


def test_a_wheel_of_another_hash_is_named(tmp_path: Path) -> None:
    wheel = tmp_path / "Some_Package-1.2+cpu-py3-none-any.whl"
    wheel.write_bytes(b"content")
    right = hashlib.sha256(b"content").hexdigest()
    for digest, version, complaints in (
        (right, "1.2", 0),
        ("0" * 64, "1.2", 1),
        ("0" * 64, "2", 0),
    ):
        pin = Pin("some-package", version, frozenset({digest}))
        found = list(wrong_wheels(tmp_path, Hashed(frozenset(), {"some-package": pin})))
        assert len(found) == complaints
