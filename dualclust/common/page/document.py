"""One HTML file of a template, a style, scripts and data, which loads and runs nothing else.

A content security policy with the hashes of the style and the script forbids all others, and every
address but images inside the file. Text of the user is escaped where it stands in HTML; in the
data, no letter of it can end the element that holds the data.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib.resources import files
from typing import Any

__all__ = ["SHARED", "json_text", "page_text", "read_part", "script_of", "template_of"]

SHARED = "dualclust.common.page"
"""Where the shared parts, style and scripts are."""

_PART = re.compile(r"\{\{> (\w+)\}\}")


def page_text(
    template: str, fields: Mapping[str, str], *, style: str, script: str, data: Mapping[str, Any]
) -> str:
    r"""Return the page.

    Parameters
    ----------
    template : str
        HTML with ``{{name}}`` where a field goes; besides those of `fields`, it names ``policy``,
        ``style``, ``script`` and ``data``.
    fields : mapping from name to HTML
        Whoever makes it has escaped what comes from the user.
    style, script : str
    data : mapping
        What the script reads, as JSON.

    Examples
    --------
    >>> page = page_text("<p>{{words}}</p>{{data}}", {"words": "a &lt; b"}, style="", script="",
    ...                  data={"name": "</script>"})
    >>> page
    '<p>a &lt; b</p>{"name":"\\u003c/script\\u003e"}'
    """
    policy = (
        f"default-src 'none'; img-src data:; style-src 'sha256-{_hash(style)}'; "
        f"script-src 'sha256-{_hash(script)}'; base-uri 'none'; form-action 'none'"
    )
    own = {"policy": policy, "style": style, "script": script, "data": json_text(data)}
    every = own | dict(fields)
    parts = template.split("{{")
    return parts[0] + "".join(
        every[key] + rest for key, rest in (part.split("}}", 1) for part in parts[1:])
    )


def json_text(data: Any) -> str:
    """Return JSON that can stand inside a script element."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    for letter in "<>&\u2028\u2029":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text.encode("utf-8", "replace").decode()


def template_of(package: str, name: str) -> str:
    """Return a template of a package, with the shared parts where it says ``{{> part}}``.

    Parts are the files of ``common/page/parts``: ``head`` and ``foot`` of every page, and sections
    about clusters. Their slots are filled by `sections.shared_fields`.
    """
    return _PART.sub(
        lambda found: read_part(SHARED, f"parts/{found[1]}.html").rstrip("\n"),
        read_part(package, name),
    )


@lru_cache
def read_part(package: str, name: str) -> str:
    """Return a file of a package: a template, a style or a script."""
    return files(package).joinpath(name).read_text(encoding="utf-8")


def script_of(parts: Sequence[tuple[str, str]]) -> str:
    """Return scripts as one function, so that none of their names is global.

    Parameters
    ----------
    parts : sequence of (package, name)
        In their order.
    """
    body = "".join(read_part(*part) for part in parts)
    return f'"use strict";\n(() => {{\n{body}}})();\n'


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
