"""What the site changes in the text of a page, and what it must leave: code, headings, formulas."""

from __future__ import annotations

import importlib.util
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
spec = importlib.util.spec_from_file_location("site_wording", DOCS / "site" / "wording.py")
assert spec is not None
assert spec.loader is not None
wording = importlib.util.module_from_spec(spec)
spec.loader.exec_module(wording)


def test_numbers_stay_whole_in_text_and_tables_alone() -> None:
    text = "# 1e-4\n\nto 1e-4, `1e-4`, 0.9 +- 0.1, 5 % [a](b-1-2.md) $1-2$\n\n| 1.8e-02 to +4-5 |\n"
    text += "$$\n1e-4\n$$\n```\n7 +- 1, 1e-4\n```\n    1-2\n"
    whole = '<span class="whole">{}</span>'.format
    found = wording.whole_numbers(text)
    expected = text.replace("to 1e-4", f"to {whole('1e-4')}").replace(
        "0.9 +- 0.1", "0.9\u00a0±\u00a00.1"
    )
    expected = expected.replace("5 %", "5\u00a0%").replace("1.8e-02", whole("1.8e-02"))
    assert found == expected.replace("+4-5", whole("+4-5"))


def test_pages_and_decisions_that_a_text_names_are_links() -> None:
    page = DOCS / "about" / "changelog.md"
    text = "# decision 9\n`docs/gpu.md` (docs/scale.md), "
    text += "decisions 9 and 11, decision 9999, `decision 9`"
    nine, eleven = (
        "[{}](../decisions/{})".format(*d)
        for d in (("9", "0009-candidates.md"), ("11", "0011-blocks.md"))
    )
    assert wording.linked_pages(text, page, DOCS) == (
        "# decision 9\n[`docs/gpu.md`](../gpu.md) ([docs/scale.md](../scale.md)), "
        f"decisions {nine} and {eleven}, decision 9999, `decision 9`"
    )
    left = "`docs/none.md` docs/claims.md#S4 [decision 9](x.md) docs/gpu.mdx"
    assert wording.linked_pages(left, page, DOCS) == left
    assert (
        wording.linked_pages("decision 9", DOCS / "decisions/0009-candidates.md", DOCS)
        == "decision 9"
    )
    page = wording.numbered("# Title\n# b", "0009-candidates.md")
    assert page == "---\norphan: true\n---\n\n# 9. Title\n# b"
    assert wording.numbered("# Title", "README.md") == "# Title"
