"""Which method to look at first, by figures that need no class; or why none is preferred.

A figure without classes can only say that something comes back, not that it is right: k-means on
pixels comes back as well. A method is therefore preferred only where its clusters come back with
other seeds, where other methods find them, too, and where nothing speaks against it:

1. There are three methods or more, k-means among them, since two agree with each other alike; and
   every one has at least two runs, which differ in their seeds alone.
2. A method with an alarm in a last epoch, an empty cluster, or bounds that move more than
   `MOST_MOVED` of the samples is left out, and so is one that does not *repeat itself*: whose runs
   have a mean ARI with each other below `LEAST_REPEATED`. That is told.
3. Of the others the one is preferred that is *found by others* most: with the largest mean ARI of
   its runs with those of all other methods, if the next one is further away than twice the standard
   error that the seeds of both leave.

Losses are never compared: those of two methods are in different units. Methods of one family agree
with each other because they are alike, which lifts both of them alike; see the notes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .groups import Group, groups_of
from .matching import Agreements
from .stored import StoredRun

__all__ = ["LEAST_REPEATED", "MOST_MOVED", "Candidate", "Preference", "prefer"]

LEAST_REPEATED = 0.75
"""ARI of a method's runs with each other below which its clusters do not come back; as for k."""

MOST_MOVED = 0.1
"""Share of samples that only the bounds moved, above which bounds contradict the data."""

CAVEAT = (
    "No class was read. Agreement is evidence, not proof: methods that share a flaw agree as well, "
    "and those of one family (secu and coke) agree because they are alike. Look at the galleries "
    "before you rely on it."
)


class Candidate(NamedTuple):
    """A method with the figures by which it is judged.

    Attributes
    ----------
    name : str. Of its group of runs.
    runs : tuple of str. Their names.
    repeated : float. Mean ARI of its runs with each other; NaN of one run.
    found : float. Mean ARI of its runs with those of other methods; NaN where there are none.
    error : float. Standard error of `found` over its runs; 0 of one run.
    against : str. What speaks against it; empty where nothing does.
    """

    name: str
    runs: tuple[str, ...]
    repeated: float
    found: float
    error: float
    against: str


class Preference(NamedTuple):
    """What is preferred, and why.

    Attributes
    ----------
    method : str or None. Name of a group of runs.
    run : str or None. The run of that method with which all others agree most.
    verdict : str. One sentence, in any case.
    notes : tuple of str. Sentences: who was left out and why, and what the choice is worth.
    candidates : tuple of Candidate. Every method.
    """

    method: str | None
    run: str | None
    verdict: str
    notes: tuple[str, ...]
    candidates: tuple[Candidate, ...]

    @property
    def reason(self) -> str:
        """The verdict and the notes as one text."""
        return " ".join((self.verdict, *self.notes))


def prefer(runs: Sequence[StoredRun], agreements: Agreements) -> Preference:
    """Choose a method without classes, where that is honest.

    Parameters
    ----------
    runs : sequence of StoredRun
    agreements : Agreements
        Of the same runs, from `matching.agreements_of`.
    """
    groups = groups_of(runs)
    candidates = tuple(_candidate(group, groups, runs, agreements) for group in groups)
    why = _unfit(runs, groups, agreements)
    if why:
        return Preference(None, None, f"No method is preferred: {why}.", (), candidates)
    left = sorted((c for c in candidates if not c.against), key=lambda c: -c.found)
    told = tuple(f"{c.name} is left out: {c.against}." for c in candidates if c.against)
    if len(left) < 2:
        why = f"{left[0].name} alone is left" if left else "none is left"
        return Preference(None, None, f"No method is preferred: {why}.", told, candidates)
    best, rest = left[:2]
    error = math.hypot(best.error, rest.error)
    if best.found - rest.found <= 2 * error:
        why = (
            f"{best.name} and {rest.name} are as good as each other: other methods agree with them "
            f"by ARI {best.found:.2f} and {rest.found:.2f}, and seeds move that by {error:.2f}. "
            f"More seeds may tell"
        )
        return Preference(None, None, f"No method is preferred: {why}.", told, candidates)
    group = groups[candidates.index(best)]
    run = max(group.members, key=lambda i: float(np.nansum(agreements.ari[i])))
    verdict = (
        f"{best.name} is preferred: its {len(group.members)} runs come back (ARI "
        f"{best.repeated:.2f} with each other), and other methods agree with them most (ARI "
        f"{best.found:.2f}; next {rest.name}, {rest.found:.2f}). Look at {runs[run].name} first."
    )
    return Preference(best.name, runs[run].name, verdict, (*told, CAVEAT), candidates)


def _unfit(runs: Sequence[StoredRun], groups: list[Group], agreements: Agreements) -> str:
    """Why these runs cannot be judged without classes; empty where they can."""
    going = sum(run.found is None and "not finite" not in run.alarms for run in runs)
    single = [group.name for group in groups if len(group.members) < 2]
    clusters = sorted({run.n_clusters for run in runs})
    if going:
        return f"{going} of {len(runs)} runs have not ended"
    if len(groups) < 3:
        return (
            f"there {'is one method' if len(groups) == 1 else 'are two methods'}, and two agree "
            f"with each other alike: three or more can tell, k-means among them"
        )
    if len(clusters) > 1:
        told = " and ".join(map(str, clusters))
        return f"the runs have {told} clusters, and agreement depends on that"
    labeled = [i for i, run in enumerate(runs) if run.found is not None]
    if np.isnan(agreements.ari[np.ix_(labeled, labeled)]).any():
        return "not all runs are of the same samples"
    if single:
        return (
            f"chance cannot be told from merit by one run of a method ({', '.join(single)}). Two "
            f"or more seeds of each can tell: dualclust compare --seeds 3"
        )
    return ""


def _candidate(
    group: Group, groups: list[Group], runs: Sequence[StoredRun], agreements: Agreements
) -> Candidate:
    own, ari = list(group.members), agreements.ari
    others = [i for other in groups if other is not group for i in other.members]
    among = [ari[i, j] for i in own for j in own if i < j]
    each = [_mean(ari[i, others]) for i in own]
    known = [value for value in each if not math.isnan(value)]
    error = float(np.std(known, ddof=1)) / math.sqrt(len(known)) if len(known) > 1 else 0.0
    against = next((why for i in own if (why := _against(runs[i]))), "")
    repeated = _mean(np.asarray(among))
    if not against and repeated < LEAST_REPEATED:
        against = (
            f"its clusters do not come back with another seed (ARI {repeated:.2f}, and "
            f"{LEAST_REPEATED} is asked for)"
        )
    names = tuple(runs[i].name for i in own)
    return Candidate(group.name, names, repeated, _mean(np.asarray(each)), error, against)


def _against(run: StoredRun) -> str:
    """What speaks against a run whatever the others say."""
    if run.alarms:
        return f"{run.name} ended with an alarm ({', '.join(run.alarms)})"
    if run.found is None:
        return f"{run.name} has no labels"
    sizes = np.bincount(run.found.labels, minlength=run.n_clusters)
    if empty := int((sizes == 0).sum()):
        return f"{run.name} has {empty} of {run.n_clusters} clusters empty"
    moved = float((run.found.labels != run.found.nearest).mean())
    if moved > MOST_MOVED:
        return f"bounds alone moved {moved:.0%} of the samples of {run.name}"
    return ""


def _mean(values: NDArray[np.float64]) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else math.nan
