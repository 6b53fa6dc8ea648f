"""docs/claims.md is what the generator writes, and says everything."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dualclust.proofs import page, registry
from dualclust.proofs.registry import REGISTRY, Claim, Status

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "claims.md"
HOW = "python -m dualclust.proofs.page docs/claims.md"


def test_the_document_is_up_to_date() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    assert text == page.render(), f"docs/claims.md is not the register's. To fix this: {HOW}"


def test_every_claim_has_one_anchor_and_one_link() -> None:
    text = page.render()
    anchors = re.findall(r'<a id="([^"]+)"></a>', text)
    links = re.findall(r"\]\(#([^)]+)\)", text)
    assert sorted(anchors) == sorted(links) == sorted(REGISTRY)


def test_nothing_is_left_out() -> None:
    text = page.render()
    for claim in REGISTRY.values():
        section = text.split(f'<a id="{claim.id}"></a>')[1].split('<a id="')[0]
        for part in (claim.statement, claim.hypotheses, claim.derivation, claim.counterexample):
            assert part in section
        for name in claim.covers:
            assert f"`algos.{name.removeprefix('dualclust.algos.')}`" in section
        for name in claim.mutations:
            assert f"`{name.removeprefix('dualclust.')}`" in section
        assert f"**Status: {claim.status.value}.**" in section
        assert claim.check.__qualname__ in section


def test_every_status_is_explained() -> None:
    for status in Status:
        assert f"| {status.value} |" in page.HEAD


def test_a_small_page() -> None:
    claim = Claim(
        "C1", "CoKe", "Eq. 1, |x|", "A.", "B.", Status.OPEN, "Because.", lambda: 0.0, 0.5, slow=True
    )
    text = page.render([claim])
    assert "1 claims: 1 open." in text
    assert "| [C1](#C1) | Eq. 1, \\|x\\| | open |" in text
    assert "tolerance 0.5, slow." in text
    assert "Covers" not in text
    assert "Counterexample." not in text


def test_the_program_writes_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "claims.md"
    assert page.main([str(path)]) == 0
    assert path.read_text(encoding="utf-8") == page.render()
    assert page.main([]) == 0
    assert capsys.readouterr().out == page.render()
    registry.load()
