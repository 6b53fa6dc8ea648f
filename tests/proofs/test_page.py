"""docs/claims.md is what the generator writes, and says everything."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dualclust.algos.core.errors import MissingFileError
from dualclust.proofs import page, regret_plot
from dualclust.proofs.planted import planting, runs
from dualclust.proofs.registry import claims as registry
from dualclust.proofs.registry.claims import ABOUT, REGISTRY, Claim, Status

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "claims.md"
HOW = "python -m dualclust.proofs.page docs/claims.md"


def test_the_document_is_up_to_date() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    assert text == page.render(), f"docs/claims.md is not the register's. To fix this: {HOW}"


def test_every_claim_has_one_anchor_and_one_link() -> None:
    text = page.render()
    anchors = re.findall(r'<a id="([^"]+)"></a>', text)
    links = re.findall(r"\]\(#([^)]+)\)", text)
    assert sorted(anchors) == sorted([*REGISTRY, "growth"])
    for claim_id in REGISTRY:
        assert links.count(claim_id) == 1 + (claim_id in page.GROWTH)  # the table of growth
    assert links.count("growth") == len(page.GROWTH)
    assert set(links) == set(anchors)


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
        for error in planting.tables():
            if runs.named_by(error, [claim]):
                assert f"`{error.target}` (" in section.split("**Planted errors.**")[1]
                assert error.kind in section.split("**Planted errors.**")[1]
        assert f"**Status: {claim.status.value}.** About: {claim.about}." in section
        assert claim.check.__qualname__ in section


def test_every_status_is_explained() -> None:
    for status in Status:
        assert f"| {status.value} |" in page.HEAD


def test_a_small_page() -> None:
    claim = Claim(
        "C1", "CoKe", "Eq. 1, |x|", "A.", "B.", Status.OPEN, "Because.", lambda: 0.0, 0.5, slow=True
    )
    text = page.render([claim])
    assert "1 claims: 1 about the library, 0 about the paper alone, 0 arithmetic" in text
    assert "- library: 1 open.\n" in text
    assert "| [C1](#C1) | Eq. 1, \\|x\\| | open | library |" in text
    assert "tolerance 0.5, slow." in text
    assert "**Covers.**" not in text
    assert "**Counterexample.**" not in text


def test_what_claims_are_about_is_counted_apart() -> None:
    kinds = {"C1": "library", "C2": "paper", "C3": "print", "C4": "print"}
    claims = [
        Claim(i, "CoKe", "", "A.", "B.", Status.HOLDS, "Because.", lambda: 0.0, about=about)
        for i, about in kinds.items()
    ]
    text = page.render(claims)
    assert "4 claims: 1 about the library, 1 about the paper alone, 2 arithmetic of the" in text
    assert "- library: 1 holds.\n- paper: 1 holds: C2.\n- print: 2 holds: C3, C4.\n" in text
    for about in ABOUT:
        assert f"| {about} |" in page.HEAD


def test_the_measured_slopes_are_those_of_the_runs() -> None:
    rows = regret_plot.read(page.RUNS)
    text, report = page.render(), (DOCUMENT.parent / "regret.md").read_text(encoding="utf-8")
    for slope in regret_plot.slopes(rows, (10, 100, 1000)):
        shown = f"{slope.slope:.2f} [{slope.low:.2f}, {slope.high:.2f}]"
        quantity = "regret" if slope.quantity == "charged" else "violation"
        start = f"| {slope.n_clusters} | {quantity} | {slope.method} |"
        [line] = [x for x in report.splitlines() if x.startswith(start)]
        assert shown == line.split("|")[4 + regret_plot.ORDERS.index(slope.order)].strip()
        if slope.method == "plain update":
            [line] = re.findall(
                rf"^\| {slope.n_clusters} \| [^|]+ \| {slope.order} .*$", text, re.M
            )
            assert shown == line.split("|")[4 if quantity == "regret" else 6].strip()
    assert len(re.findall(r" \| 1/2 \|$", text, re.M)) == 9
    plain = [row for row in rows if row.method == "plain update"]
    assert all(row.violation <= row.bound_violation for row in plain)
    assert all(row.charged <= row.bound_charged for row in plain if row.order == "random")


def test_other_runs_give_another_table_and_none_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim = REGISTRY["C15"]
    lines = page.RUNS.read_text(encoding="utf-8").splitlines()
    some = [
        line for line in lines if not line.startswith(("100,", "1000,")) and ",64000," not in line
    ]
    (tmp_path / "regret.csv").write_text("\n".join(some) + "\n", encoding="utf-8")
    monkeypatch.setattr(page, "RUNS", tmp_path / "regret.csv")
    assert "| 10 | 1,000 to 32,000 | random | " in page.render([claim])
    monkeypatch.setattr(page, "RUNS", tmp_path / "none.csv")
    with pytest.raises(MissingFileError, match=r"none\.csv.*To fix this"):
        page.render([claim])


def test_the_program_writes_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "claims.md"
    assert page.main([str(path)]) == 0
    assert path.read_text(encoding="utf-8") == page.render()
    assert page.main([]) == 0
    assert capsys.readouterr().out == page.render()
    registry.load()


def test_no_paragraph_of_the_page_is_indented_into_a_block_of_code() -> None:
    text = (Path(__file__).parents[2] / "docs" / "claims.md").read_text(encoding="utf-8")
    assert re.findall(r"^ {4}[A-Z].*$", text, re.M) == []
