"""Links that the site adds to a page: to a decision by its number, to a measurement by its file."""

from __future__ import annotations

import re

FOUND = re.compile(
    r"^```.*?^```$|^#.*?$|!?\[[^\]]*\]\([^)]*\)"  # a block of code, a heading, a link: as they are
    r"|`benchmarks/results/(?P<result>\w+)\.md`|`[^`\n]*`"
    r"|\bdecision\s(?P<number>\d+)\b|(?P<percent>(?<=\d) %)",
    re.M | re.S,
)


def linked(text: str, page: str, names: set[str]) -> str:
    """Turn "decision 24" and `benchmarks/results/NAME.md` into links, and keep "2 %" on one line.

    `page` and `names` are paths of pages from the folder of the site's sources. What has no page
    remains text, as in blocks of code, in headings and inside of links.
    """
    up = "../" * page.count("/")
    decisions = {name[10:14]: name for name in names if re.match(r"decisions/\d{4}-", name)}

    def link(match: re.Match[str]) -> str:
        if match["percent"]:
            return "\u00a0%"
        if match["number"]:
            to = decisions.get(match["number"].zfill(4), "")
        else:
            to = f"benchmarks/{match['result']}.md"
        return f"[{match[0]}]({up}{to})" if to in names else match[0]

    return FOUND.sub(link, text)
