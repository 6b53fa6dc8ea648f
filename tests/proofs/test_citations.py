"""Docstrings and claims cite each other: no link without an anchor, no claim without its links."""

from __future__ import annotations

from pathlib import Path

import pytest

from dualclust.proofs import page
from dualclust.proofs.registry import citations, claims
from dualclust.proofs.registry.claims import REGISTRY

ROOT = Path(__file__).resolve().parents[2]
claims.load()
DOCSTRINGS = [
    (f"{'.'.join(path.relative_to(ROOT / 'algos').with_suffix('').parts)}.{name}".rstrip("."), text)
    for path in sorted((ROOT / "algos").rglob("*.py"))
    for name, text in citations.docstrings(path)
]
COVERS: dict[str, set[str]] = {}
for item in REGISTRY.values():
    for function in item.covers:
        COVERS.setdefault(function.removeprefix("dualclust.algos."), set()).add(item.id)


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("Source: Eq. 3; claim S3b. Cost O(k), C4 lines.", {"S3b"}),
        ("claims S3a (on the sphere) and S6 (once,\nnot k times).", {"S3a", "S6"}),
        ("Source, claims G1 to G4: all.", {"G1", "G2", "G3", "G4"}),
        ("claims P5,\n    P6. Cost O(k).", {"P5", "P6"}),
        ("Lemma B.1 (M1, M3, M4); ours. Algorithm 1 (M3).", {"M1", "M3", "M4"}),
        ("the k-gon (A1); ``hi(M1 c2)``; proclaims S1.", set()),
    ],
)
def test_citations_are_found(text: str, ids: set[str]) -> None:
    assert citations.cited(text) == ids


def test_links_are_found() -> None:
    text = "Claims: docs/claims.md#S3a, #R1,\n    #T2.\n\nC4, #C5 and docs/claims.md are none."
    assert citations.linked(text) == ["S3a", "R1", "T2"]
    assert citations.linked("See claims S1 and M2.") == []


def test_every_link_has_an_anchor() -> None:
    anchors = page.render()
    broken = [
        f"{name}: {claim_id}"
        for name, text in DOCSTRINGS
        for claim_id in citations.linked(text)
        if f'<a id="{claim_id}"></a>' not in anchors
    ]
    assert broken == []


def test_a_docstring_links_what_it_cites_and_what_covers_it() -> None:
    """Both ways, once each: no claim is named without its link, none is linked for nothing."""
    wrong = {
        name: (links, wanted)
        for name, text in DOCSTRINGS
        for links, wanted in [
            (citations.linked(text), citations.cited(text) | COVERS.get(name, set()))
        ]
        if sorted(links) != sorted(wanted)
    }
    assert wrong == {}


def test_every_function_that_a_claim_covers_is_read() -> None:
    assert set(COVERS) <= {name for name, _ in DOCSTRINGS}
    assert len(COVERS) > 60


def test_the_page_lists_who_cites_a_claim() -> None:
    citing = citations.citing()
    assert "algos.losses.propos.prototypes.batch_prototypes" in citing["S1"]
    assert "algos.losses.propos.prototypes" in citing["P5"]
    text = page.render()
    for claim in REGISTRY.values():
        section = text.split(f'<a id="{claim.id}"></a>')[1].split('<a id="')[0]
        for name in citing.get(claim.id, []):
            assert f"`{name}`" in section.split("**Cited by.**")[1]
        assert ("**Cited by.**" in section) == (claim.id in citing)
        assert {f"algos.{n.removeprefix('dualclust.algos.')}" for n in claim.covers} <= set(
            citing.get(claim.id, [])
        )


def test_names_are_dotted_and_docstrings_whole(tmp_path: Path) -> None:
    path = tmp_path / "some.py"
    path.write_text('"""M."""\nclass A:\n    """C."""\n    def f(self):\n        """F."""\n')
    assert list(citations.docstrings(path)) == [("", "M."), ("A", "C."), ("A.f", "F.")]
