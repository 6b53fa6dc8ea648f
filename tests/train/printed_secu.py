"""SeCu's step as its equations are printed, in NumPy loops: what the tensor code is compared with.

One list entry per head, of that head's own number of clusters: nothing is padded, and nothing of
the library is called.
"""

import math
from types import SimpleNamespace

import numpy as np

from dualclust.algos.steps import PUBLISHED
from tests.problems import unit_rows


def softmax(logits):
    e = np.exp(logits - logits.max())
    return e / e.sum()


class Printed:
    """SeCu with size bounds, sample by sample (facts 1.1 to 1.3; supplement, section 2)."""

    def __init__(self, method):
        config = method.config
        self.k, self.n = config.heads.clusters, method.labels.shape[1]
        self.bounds, self.loss = config.assignment, config.loss
        self.w = [method.centers.detach().double().numpy()[h, :k] for h, k in enumerate(self.k)]
        self.w = [w.copy() for w in self.w]
        self.labels = [np.full(self.n, -1) for _ in self.k]
        self.rho = [np.zeros(k) for k in self.k]
        self.rho_up = [np.zeros(k) for k in self.k]
        self.begin_epoch(0)

    def begin_epoch(self, epoch):
        """Keep the centers; h = min(kappa k / (gamma' n), 0.02), halved where both duals act."""
        self.epoch = epoch
        self.past = [unit_rows(w) for w in self.w]
        b = self.bounds
        kappa = max(b.kappa * 0.5**epoch, b.kappa_floor)
        self.h = [min(kappa * k / ((b.lower or 1.0) * self.n), 0.02) for k in self.k]
        if 0 < b.lower < 1 and any(b.upper < k for k in self.k):
            self.h = [h / 2 for h in self.h]
        self.chunk = min(max(1, int(0.02 * k / h)) for k, h in zip(self.k, self.h, strict=True))

    def assign(self, head, scores):
        """Labels by the prices of their chunk, then one dual step for the chunk."""
        k, m_batch = self.k[head], len(scores)
        h, chunk, free = self.h[head], self.chunk, self.bounds.lower == 1
        if self.bounds.steps != "measured":
            h, chunk = PUBLISHED[self.bounds.steps].eta / m_batch, m_batch
        rho, rho_up, labels = self.rho[head], self.rho_up[head], []
        for first in range(0, m_batch, chunk):
            counts = np.zeros(k)
            block = scores[first : first + chunk]
            for s in block:
                y = int(np.argmax(s + rho - rho_up))
                counts[y] += 1
                labels.append(y)
            rho = rho - h * (counts - len(block) * self.bounds.lower / k)
            if not free:
                rho = np.maximum(0.0, rho)
                most = min(self.bounds.upper / k, 1.0)
                rho_up = np.maximum(0.0, rho_up + h * (counts - len(block) * most))
        self.rho[head], self.rho_up[head] = rho, rho_up
        return labels

    def step(self, ids, x):
        """Losses and gradients for features x of shape (2 views, b, d)."""
        heads, b = len(self.k), len(ids)
        share = 1.0 / (heads * 2 * b)
        out = SimpleNamespace(
            representation=0.0,
            centers=0.0,
            dx=np.zeros_like(x),
            dw=[np.zeros_like(w) for w in self.w],
        )
        for head, k in enumerate(self.k):
            w = unit_rows(self.w[head])
            y = self.assign(head, (x[0] @ w.T + x[1] @ w.T) / 2)
            previous = self.labels[head][ids].copy() if self.epoch > 0 else np.array(y)
            self.labels[head][ids] = y
            d_unit = np.zeros_like(w)
            for view in (0, 1):
                for i in range(b):
                    # Representation loss: past centers, past label, the other view.
                    past = self.past[head]
                    p = softmax(past @ x[view, i] / self.loss.temperature)
                    q = softmax(past @ x[1 - view, i] / self.loss.temperature)
                    target = self.loss.tau * np.eye(k)[previous[i]] + (1 - self.loss.tau) * q
                    out.representation -= share * float(target @ np.log(p))
                    out.dx[view, i] += share * (p - target) @ past / self.loss.temperature
                    # Center loss: live centers, present label, only its own column moves.
                    p = softmax(w @ x[view, i] / self.loss.center_temperature)
                    out.centers -= share * math.log(p[y[i]])
                    pull = (1 - p[y[i]]) * x[view, i] / self.loss.center_temperature
                    d_unit[y[i]] -= share * pull
            norm = np.linalg.norm(self.w[head], axis=1, keepdims=True)
            out.dw[head] = (d_unit - (d_unit * w).sum(axis=1, keepdims=True) * w) / norm
        out.loss = out.representation + out.centers
        return out
