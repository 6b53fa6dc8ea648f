"""Words that are frequent in the texts of a cluster, and less so in all of them.

A word counts once for each row. Words are ordered by the likelihood ratio of their counts inside
and outside of the cluster (Dunning 1993), those that are rarer inside left out.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence

__all__ = ["frequent_words"]

MOST = 6
"""Words of a cluster."""

LEAST_ROWS = 2
"""Rows of the cluster that must hold a word."""

LEAST_RATIO = 5.4
"""Logarithm of the likelihood ratio of a word: chance alone reaches it once in a thousand words."""

LONGEST = 24
"""Letters of a word on the page."""


def frequent_words(texts: Sequence[str], labels: Sequence[int]) -> dict[int, list[str]]:
    """Return the words of each cluster that has some, the most telling first.

    Parameters
    ----------
    texts : n texts, as the user shows them. Addresses and paths hold no words.
    labels : n ints. Their clusters.

    Examples
    --------
    >>> texts = ["a red house", "the red door"] * 3 + ["a blue sea", "the blue ship"] * 3
    >>> frequent_words(texts, [0] * 6 + [1] * 6)
    {0: ['red'], 1: ['blue']}
    """
    everywhere, inside = Counter[str](), dict[int, Counter[str]]()
    rows = Counter(labels)
    for text, label in zip(texts, labels, strict=True):
        words = set(_words(text))
        everywhere.update(words)
        inside.setdefault(label, Counter()).update(words)
    n, found = len(texts), {}
    for label, counts in sorted(inside.items()):
        own, rest = rows[label], n - rows[label]
        ratios = {
            word: _likelihood_ratio(count, own, everywhere[word] - count, rest)
            for word, count in counts.items()
            if count >= LEAST_ROWS and count * rest > (everywhere[word] - count) * own
        }
        telling = sorted(word for word, ratio in ratios.items() if ratio >= LEAST_RATIO)
        if telling:
            found[label] = sorted(telling, key=lambda word: -ratios[word])[:MOST]
    return found


def _words(text: str) -> Iterable[str]:
    if re.match(r"\S+$", text) and re.search(r"[/\\]|\.\w{2,4}$", text):
        return []
    words = re.findall(r"[^\W\d_]{3,}", text.casefold())
    return (word for word in words if len(word) <= LONGEST)


def _likelihood_ratio(a: int, n: int, b: int, m: int) -> float:
    """Return how much likelier a of n and b of m are with a share of each than with one for all."""

    def log_likelihood(count: int, of: int, share: float) -> float:
        some = count * math.log(share) if count else 0.0
        return some + ((of - count) * math.log1p(-share) if count < of else 0.0)

    both = (a + b) / (n + m)
    apart = log_likelihood(a, n, a / n) + (log_likelihood(b, m, b / m) if m else 0.0)
    return apart - log_likelihood(a, n, both) - log_likelihood(b, m, both)
