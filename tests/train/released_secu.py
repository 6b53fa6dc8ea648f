"""SeCu's assignments as its released code has them, in NumPy: by size and by entropy.

Written from a description of that code, for one process, with whole arrays where `printed_secu` has
loops. Losses are the same in both, and taken from there; what is written out here is what the
supplement does not print, or prints otherwise: scores are similarities and not log-probabilities,
the dual of the lower bound is clamped only below a ratio of 1, and the entropy variant with its
first epoch. Nothing of the library is called.
"""

import numpy as np

from tests.train import printed_secu


def f(q):
    return np.where(q > 0, q * np.log(np.where(q > 0, q, 1.0)), 0.0)


class Released(printed_secu.Printed):
    """`eta` is the published dual step, the same for all heads."""

    def __init__(self, method, eta):
        super().__init__(method)
        self.eta, self.ratio = eta, method.config.assignment.lower

    def assign_by_prices(self, head, scores):
        """All labels of a batch by one dual, then one update with the batch's own length."""
        k, dual = self.k[head], self.rho[head]
        cost = -scores - dual
        labels = cost.argmin(axis=1)
        count = np.bincount(labels, minlength=k)
        dual = dual - self.eta * (count / len(scores) - self.ratio / k)
        self.rho[head] = np.maximum(dual, 0) if self.ratio < 1 else dual
        return labels.tolist()

    def assign_by_entropy(self, head, scores, previous):
        """Labels by the change of alpha sum f(q) that each would make; then the counts move."""
        counts, n, k = self.counts[head].astype(float), self.n, self.k[head]
        alpha = self.options.alpha * n
        cost = -scores.copy()
        if previous[0] < 0:  # the first epoch; the base is one more than what has been seen
            seen = counts.sum()
            if seen:
                q = counts / (seen + 1)
                cost += alpha * (f(q + 1 / (seen + 1)) - f(q))
        else:
            q = counts / n
            joining, leaving = f(q + 1 / n) - f(q), f(q - 1 / n) - f(q)
            own = np.eye(k, dtype=bool)[previous]
            cost += alpha * np.where(own, 0.0, leaving[previous][:, None] + joining)
        labels = cost.argmin(axis=1)
        self.moved += int((labels != scores.argmax(axis=1)).sum())
        gained = np.bincount(labels, minlength=k)
        lost = np.bincount(previous[previous >= 0], minlength=k)
        self.counts[head] = self.counts[head] + gained - lost
        return labels.tolist()
