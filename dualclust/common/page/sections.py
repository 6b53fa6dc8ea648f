"""What a page says in the slots of the shared parts: links, words for rows, sizes allowed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

__all__ = ["allowed_sizes", "shared_fields", "tiles_html"]


def shared_fields(
    nav: Sequence[tuple[str, str]],
    *,
    rows: str,
    find: str,
    orders: Sequence[str],
    sizes_note: str,
    known: bool = True,
    meta: str = "",
) -> dict[str, str]:
    """Return fields of the shared parts (`document.template_of`) as HTML.

    Parameters
    ----------
    nav : sequence of (id, words)
        The links at the top, to sections.
    rows : str
        What rows are called, in the plural and small: ``"rows"`` or ``"samples"``.
    find : str
        What clusters are found by, besides their number.
    orders : sequence of str
        What bars can be ordered by; the first is shown at the start.
    sizes_note : str
        HTML below the sizes.
    known : bool
        False where sections of clusters are shown by the script alone, once there are labels.
    meta : str
        More HTML for the head.

    Examples
    --------
    >>> fields = shared_fields([("map", "Map")], rows="rows", find="text", orders=["size"],
    ...                        sizes_note="")
    >>> fields["nav"], fields["Rows"], fields["known"]
    ('<a href="#map">Map</a>', 'Rows', '')
    """
    return {
        "nav": "\n".join(f'<a href="#{name}">{words}</a>' for name, words in nav),
        "rows": rows,
        "Rows": rows.capitalize(),
        "find": find,
        "orders": "".join(f'<option value="{name}">by {name}</option>' for name in orders),
        "sizes_note": sizes_note,
        "known": "" if known else " data-known hidden",
        "meta": meta,
    }


def tiles_html(tiles: Iterable[tuple[str, str, str]]) -> str:
    """Return figures as tiles: the name of each, its value, and a remark."""
    return "".join(
        f"<div class=tile><dt>{name}</dt><dd><b>{value}</b><span>{more}</span></dd></div>"
        for name, value, more in tiles
    )


def allowed_sizes(low: int, high: int, n: int) -> str:
    """Return the words for bounds on the sizes of clusters of n rows.

    Examples
    --------
    >>> [allowed_sizes(*bounds, 10) for bounds in [(0, 10), (0, 4), (1, 10), (1, 4)]]
    ['none', 'at most 4', 'at least 1', '1 to 4']
    """
    if low <= 0 and high >= n:
        return "none"
    if low <= 0:
        return f"at most {high:,}"
    return f"at least {low:,}" if high >= n else f"{low:,} to {high:,}"
