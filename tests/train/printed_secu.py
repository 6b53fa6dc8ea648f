"""SeCu's step as its equations are printed, in NumPy loops: what the tensor code is compared with.

One list entry per head, of that head's own number of clusters: nothing is padded, and nothing of
the library is called.
"""

import math
from types import SimpleNamespace

import numpy as np

from tests.problems import unit_rows
from tests.train.printed_prices import ByPrices


def softmax(logits):
    e = np.exp(logits - logits.max())
    return e / e.sum()


def f(q):
    return q * math.log(q) if q > 0 else 0.0


class Printed(ByPrices):
    """SeCu, sample by sample (supplement, sections 1 and 2), for any number of terms."""

    def __init__(self, method):
        config = method.config
        self.options = config.secu
        self.k, self.n = config.heads.clusters, method.labels.shape[1]
        self.bounds, self.loss = config.assignment, config.loss
        self.w = [method.centers.detach().double().numpy()[h, :k] for h, k in enumerate(self.k)]
        self.w = [w.copy() for w in self.w]
        self.labels = [np.full(self.n, -1) for _ in self.k]
        self.rho = [np.zeros(k) for k in self.k]
        self.rho_up = [np.zeros(k) for k in self.k]
        self.counts = [np.zeros(k, dtype=int) for k in self.k]
        self.moved = 0  # labels that the entropy has changed
        self.begin_epoch(0)

    def begin_epoch(self, epoch):
        """Keep the centers; h = min(kappa k / (gamma' n), 0.02), halved where both duals act."""
        self.epoch = epoch
        self.past = [unit_rows(w) for w in self.w]
        self.set_steps(epoch)

    def assign(self, head, scores, previous):
        if self.options.constraint == "entropy":
            return self.assign_by_entropy(head, scores, previous)
        return self.assign_by_prices(head, scores)

    def assign_by_entropy(self, head, scores, previous):
        """The move that is worth most, for each sample at the counts before the batch."""
        n, counts, labels = self.n, self.counts[head], []
        alpha, seen = self.options.alpha * n, counts.sum()
        for s, old in zip(scores, previous, strict=True):
            cost = -s
            for j in range(self.k[head]):
                if old >= 0 and j != old:
                    cost[j] += alpha * (f((counts[old] - 1) / n) - f(counts[old] / n))
                if (old >= 0 and j != old) or (old < 0 and self.options.first_pass == "exact"):
                    cost[j] += alpha * (f((counts[j] + 1) / n) - f(counts[j] / n))
                if old < 0 and self.options.first_pass == "published" and seen:
                    base = seen + 1
                    cost[j] += alpha * (f((counts[j] + 1) / base) - f(counts[j] / base))
            labels.append(int(np.argmin(cost)))
            self.moved += labels[-1] != int(np.argmax(s))
        after = counts.copy()
        for y, old in zip(labels, previous, strict=True):
            after[y] += 1
            if old >= 0:
                after[old] -= 1
        self.counts[head] = after
        return labels

    def step(self, ids, x):
        """Losses and gradients for features x of shape (terms, b, d): views, then predictions."""
        heads, terms, b = len(self.k), len(x), len(ids)
        share = 1.0 / (heads * terms * b)
        out = SimpleNamespace(
            representation=0.0,
            centers=0.0,
            dx=np.zeros_like(x),
            dw=[np.zeros_like(w) for w in self.w],
        )
        for head, k in enumerate(self.k):
            w = unit_rows(self.w[head])
            stored = self.labels[head][ids].copy()
            y = self.assign(head, sum(x[t] @ w.T for t in range(terms)) / terms, stored)
            previous = stored if self.epoch > 0 else np.array(y)
            self.labels[head][ids] = y
            d_unit = np.zeros_like(w)
            for t in range(terms):
                for i in range(b):
                    # Representation loss: past centers, past label, the other view as projected.
                    past = self.past[head]
                    p = softmax(past @ x[t, i] / self.loss.temperature)
                    q = softmax(past @ x[1 - t % 2, i] / self.loss.temperature)
                    target = self.loss.tau * np.eye(k)[previous[i]] + (1 - self.loss.tau) * q
                    out.representation -= share * float(target @ np.log(p))
                    out.dx[t, i] += share * (p - target) @ past / self.loss.temperature
                    if self.options.centers == "certified":
                        continue
                    # Center loss: live centers, present label, only its own column moves.
                    p = softmax(w @ x[t, i] / self.loss.center_temperature)
                    out.centers -= share * math.log(p[y[i]])
                    pull = (1 - p[y[i]]) * x[t, i] / self.loss.center_temperature
                    d_unit[y[i]] -= share * pull
            norm = np.linalg.norm(self.w[head], axis=1, keepdims=True)
            out.dw[head] = (d_unit - (d_unit * w).sum(axis=1, keepdims=True) * w) / norm
        out.loss = out.representation + out.centers
        return out
