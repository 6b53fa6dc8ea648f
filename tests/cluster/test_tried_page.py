"""The table of docs/formats.md holds every file and call that the tests try, and no other."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from tests.cluster.mistakes.remedies import FOLLOW
from tests.cluster.test_mistaken_files import CASES as MISTAKES
from tests.cluster.test_tried_files import CASES as READ
from tests.cluster.tried.calls import CALLS
from tests.cluster.written_formats import FILES

PAGE = Path(__file__).parents[2] / "docs" / "formats.md"


def code(name: str) -> str:
    return f"`{name}`"


def table() -> list[str]:
    """The lines of the table."""
    by_program = defaultdict(list)
    for name, case in READ.items():
        by_program[case.by].append(code(name.partition("-")[2]))
    rows = [
        f"| {by} | read | {', '.join(names)} |"
        for by, names in sorted(by_program.items(), key=lambda item: item[0].lower())
    ]
    rows.append(f"| each format's own library | read | {', '.join(map(code, FILES))} |")
    followed = [name for name in MISTAKES if name in FOLLOW]
    rest = [name for name in MISTAKES if name not in FOLLOW]
    for what, names in (
        ("refused; the remedy was followed and ends right", followed),
        ("refused; the remedy lies outside, as to copy a file again", rest),
    ):
        rows.append(
            f"| damaged or mistaken files | {what} | {', '.join(f'`{n}`' for n in names)} |"
        )
    rows.append(
        f"| calls | refused; the remedies were followed and end right | {', '.join(CALLS)} |"
    )
    return rows


def test_the_table_is_that_of_the_tests() -> None:
    text = PAGE.read_text()
    section = text.partition("## Tried\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")][1:]
    assert lines == table(), "\n".join(table())
    n = len(READ) + len(FILES) + len(MISTAKES) + len(CALLS)
    assert n >= 150
    assert f"{n} files and calls" in section


def test_names_are_told_apart() -> None:
    assert len({(case.by, name.partition("-")[2]) for name, case in READ.items()}) == len(READ)
