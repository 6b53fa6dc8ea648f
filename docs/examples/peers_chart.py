"""Draw the times of peers over ours, from the table of docs/guides/peers.md.

``python docs/examples/peers_chart.py docs/images`` draws the figure, in seconds.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import NamedTuple

PAGE = Path(__file__).parents[1] / "guides" / "peers.md"


class Bar(NamedTuple):
    """One peer at one task."""

    task: str
    peer: str
    ratio: float


def bars(text: str) -> list[Bar]:
    """Read the rows of the table; a row without a task is of the task above."""
    found, task = [], ""
    for line in text.splitlines():
        cells = [cell.strip().replace("**", "") for cell in line.strip().strip("|").split("|")]
        if len(cells) != 4 or not re.fullmatch(r"[\d.]+", cells[3]):
            continue
        task = cells[0] or task
        peer = cells[2].partition(": ")[0]
        found.append(Bar(task, peer, float(cells[3])))
    return found


def main(folder: Path, *, small: bool = False) -> list[Bar]:
    """Write ``peers.png``; returns what is drawn."""
    from matplotlib.figure import Figure

    found = bars(PAGE.read_text(encoding="utf-8"))
    figure = Figure(figsize=(9, 0.42 * len(found) + 1.1), layout="constrained")
    axes = figure.subplots()
    for place, bar in enumerate(found):
        color = "C0" if bar.ratio >= 1 else "C3"
        axes.barh(place, bar.ratio - 1, left=1, color=color, height=0.62)
        side = {"ha": "left"} if bar.ratio >= 1 else {"ha": "right"}
        axes.text(bar.ratio, place, f" {bar.ratio:g} ", va="center", fontsize="small", **side)
    heads = [
        f"{bar.task}: {bar.peer}" if not i or bar.task != found[i - 1].task else bar.peer
        for i, bar in enumerate(found)
    ]
    axes.set_yticks(range(len(found)), heads, fontsize="small")
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlim(0.2, 400)
    axes.set_xticks([1, 10, 100], ["1", "10", "100"])
    axes.axvline(1, color="0.2", linewidth=1)
    figure.supxlabel("time of the peer over time of dualclust (red: the peer is faster)")
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(folder / "peers.png", dpi=60 if small else 110)
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    main(parser.parse_args().folder)
