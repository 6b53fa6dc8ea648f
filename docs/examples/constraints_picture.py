"""Draw four kinds of constraints on clusters: fair shares, skills of teams, pairs, rows left out.

Each panel has the clusters that the estimator finds; the title says what would be else.

``python docs/examples/constraints_picture.py docs/images`` draws the figure, in seconds.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dualclust import ConstrainedKMeans


class Panel(NamedTuple):
    """Rows, the marker of each, clusters, a title, and pairs that are drawn as lines."""

    rows: NDArray[np.float64]
    marks: NDArray[np.int64]
    labels: NDArray[np.int64]
    title: str
    together: NDArray[np.int64]
    apart: NDArray[np.int64]

    @property
    def n_out(self) -> int:
        """Rows that are in no cluster."""
        return int((self.labels < 0).sum())


NONE = np.zeros((0, 2), dtype=np.int64)


def panels(n: int) -> list[Panel]:
    """Solve the four problems, on n rows each."""
    rng = np.random.default_rng(0)
    sizes: dict[str, Any] = {"lower": 0.8, "upper": 1.2, "random_state": 0}

    rows = rng.normal(size=(n, 2))
    side = (rows[:, 0] + 0.3 * rng.normal(size=n) > 0.0).astype(np.int64)
    free = ConstrainedKMeans(4, **sizes).fit(rows).labels_
    fair = ConstrainedKMeans(4, **sizes, group_bounds=(0.8, 1.2)).fit(rows, groups=side)
    least = min(np.bincount(free[side == g], minlength=4).min() for g in (0, 1))
    found = [
        Panel(
            rows,
            side,
            fair.labels_,
            f"fair clusters: of either group at least {fair.group_counts_.min()} rows\n"
            f"in each cluster; without groups {least}",
            NONE,
            NONE,
        )
    ]

    skills = np.arange(24) % 3
    wishes = rng.normal(size=(24, 2))
    teams = ConstrainedKMeans(4, min_count=6, max_count=6, group_bounds=(1.0, 1.0), random_state=0)
    teams.fit(wishes, groups=skills)
    title = f"teams of six: of each skill {teams.group_counts_.min()} in each team"
    found.append(Panel(wishes, skills, teams.labels_, title, NONE, NONE))

    pupils = rng.normal(size=(60, 2))
    order = rng.permutation(60)[:32].reshape(-1, 2)
    friends, brothers = order[:8], order[8:]
    classes = ConstrainedKMeans(3, min_count=20, max_count=20, random_state=0)
    classes.fit(pupils, must_link=friends, cannot_link=brothers)
    title = "school classes of 20: friends together (lines),\nbrothers apart (dotted)"
    plain = np.zeros(60, dtype=np.int64)
    found.append(Panel(pupils, plain, classes.labels_, title, friends, brothers))

    rows = np.concatenate([rng.normal(c, 0.7, size=(n // 3, 2)) for c in ((0, 0), (5, 0), (2, 4))])
    rows[:6] = rng.uniform(-9.0, 14.0, size=(6, 2))
    kept = ConstrainedKMeans(3, lower=0.7, max_out=6, n_init=8, random_state=0).fit(rows)
    marks = np.where(kept.labels_ < 0, 3, 0)
    found.append(Panel(rows, marks, kept.labels_, "six rows stay out (crosses)", NONE, NONE))
    return found


def main(folder: Path, *, small: bool = False) -> list[Panel]:
    """Write ``constraints.png``; returns what it draws."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 7.4), layout="constrained")
    found = panels(60 if small else 240)
    for panel, axes in zip(found, figure.subplots(2, 2).flat, strict=True):
        for pairs, style in ((panel.together, "-"), (panel.apart, ":")):
            for pair in pairs:
                axes.plot(*panel.rows[pair].T, color="0.4", linestyle=style, linewidth=1, zorder=1)
        for mark, shape in enumerate("o^sx"):
            here = panel.marks == mark
            colors = np.where(panel.labels < 0, 7, panel.labels)[here]
            axes.scatter(
                *panel.rows[here].T, c=colors, marker=shape, cmap="tab10", vmin=0, vmax=9, s=28
            )
        axes.set_title(panel.title, fontsize="medium")
        axes.set(xticks=[], yticks=[])
    figure.savefig(folder / "constraints.png", dpi=110)
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    main(parser.parse_args().folder)
