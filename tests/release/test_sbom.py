"""The bill of materials names every package that comes along, and under which license."""

from __future__ import annotations

import json
import re
import tomllib
from email.message import Message
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from tests.release import sbom

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def base() -> dict[str, Any]:
    return sbom.document("dualclust")


def names(found: dict[str, Any]) -> set[str]:
    return {part["name"] for part in found["components"]}


def test_the_base_installation_is_what_pyproject_asks_for_and_what_that_needs(
    base: dict[str, Any],
) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    direct = {Requirement(text).name for text in project["dependencies"]}
    assert direct <= names(base)
    assert {"llvmlite", "joblib"} <= names(base)  # by numba and by scikit-learn
    assert not {"torch", "pytest", "dualclust"} & names(base)
    assert all(part["version"] == version(part["name"]) for part in base["components"])
    assert base["metadata"]["component"]["licenses"] == [{"expression": "BSD-3-Clause"}]


def test_every_dependency_states_a_license(base: dict[str, Any]) -> None:
    assert [part["name"] for part in base["components"] if "licenses" not in part] == []


def test_an_extra_brings_its_packages(base: dict[str, Any]) -> None:
    pytest.importorskip("torch")
    more = sbom.document("dualclust", ["train"])
    assert names(base) | {"torch", "safetensors", "pygments"} <= names(more)
    assert sbom.document("dualclust", ["train"]) == more


def test_the_graph_is_closed(base: dict[str, Any]) -> None:
    assert (base["bomFormat"], base["specVersion"]) == ("CycloneDX", "1.6")
    refs = {part["bom-ref"] for part in base["components"]}
    refs.add(base["metadata"]["component"]["bom-ref"])
    assert {node["ref"] for node in base["dependencies"]} == refs
    reached = {ref for node in base["dependencies"] for ref in node["dependsOn"]}
    assert reached == refs - {base["metadata"]["component"]["bom-ref"]}


def test_the_page_lists_what_the_extras_ask_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted: dict[str, set[str]] = {Requirement(r).name: {"always"} for r in project["dependencies"]}
    for extra, texts in project["optional-dependencies"].items():
        for text in texts if extra not in ("dev", "docs") else ():
            if (name := Requirement(text).name) != project["name"]:  # another of its extras
                wanted.setdefault(name, set()).add(f"`{extra}`")
    page = (ROOT / "docs" / "start" / "install.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([\w-]+) \| ([^|]+) \| [\w][^|]+ \|$", page, flags=re.MULTILINE)
    assert {name: set(what.split(", ")) for name, what in rows[1:]} == wanted


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    find = sbom.distribution

    def without(name: str) -> Any:
        if name == "llvmlite":
            raise sbom.PackageNotFoundError(name)
        return find(name)

    monkeypatch.setattr(sbom, "distribution", without)
    with pytest.raises(sbom.NotInstalledError, match="llvmlite is not installed, which numba"):
        sbom.document("dualclust")


class Package:
    """A distribution with some metadata."""

    def __init__(self, *fields: tuple[str, str]) -> None:
        self.metadata = Message()
        for name, value in fields:
            if name != "text":
                self.metadata[name] = value
        self.text = dict(fields).get("text")

    def read_text(self, name: str) -> str | None:
        return self.text if name == "LICENSE" else None


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ([("License-Expression", "MIT"), ("License", "other")], {"expression": "MIT"}),
        ([("License", "MIT")], {"license": {"name": "MIT"}}),
        (
            [("License", "Copyright\nof whom"), ("Classifier", "License :: OSI Approved :: X")],
            {"license": {"name": "X"}},
        ),
        ([("License", "UNKNOWN")], None),
        (
            [("License", "UNKNOWN"), ("text", "\n Apache Software License 2.0\n\nCopyright\n")],
            {"license": {"name": "Apache Software License 2.0"}},
        ),
    ],
)
def test_where_a_license_is_read(fields: list[tuple[str, str]], found: Any) -> None:
    assert sbom.license_of(Package(*fields)) == found  # type: ignore[arg-type]


def test_the_program_writes_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "new" / "sbom.json"
    assert sbom.main([str(path)]) == 0
    found = json.loads(path.read_text(encoding="utf-8"))
    said = f"{path}: {len(found['components'])} packages; no license stated: none\n"
    assert capsys.readouterr().out == said
