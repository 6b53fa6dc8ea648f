"""CoKe's step as its released code has it, in NumPy: what ``coke.center_rule="released"`` is.

Written from a description of that code, for a single process, with whole arrays where
`printed_coke` has loops. It differs from the printed equations in the centers: the mean of an epoch
is brought to unit length at every batch that touches it, starts anew from the first such batch, and
in the second stage averages over epochs are brought to unit length too. Nothing of the library is
called.
"""

from types import SimpleNamespace

import numpy as np


def unit(rows):
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


def softmax(logits):
    e = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


class Released:
    """One list entry per head; ``eta`` is the published dual step, ``ratio`` the lower bound."""

    def __init__(self, method, eta):
        config = method.config
        self.k, self.eta, self.ratio = config.heads.clusters, eta, config.assignment.lower
        self.options, self.loss, self.beta = config.coke, config.loss, method.beta
        self.stage = config.coke.second_stage or 10**9
        start = method.centers.double().numpy()
        self.pre = [start[h, :k].copy() for h, k in enumerate(self.k)]
        self.cur = [c.copy() for c in self.pre]
        self.dual = [np.zeros(k) for k in self.k]
        self.counter = [np.zeros(k) for k in self.k]
        n = method.n_samples
        self.labels = [np.full(n, -1) for _ in self.k]
        # Averaged labels: weights of all clusters, of which few are not 0.
        self.weights = [np.zeros((n, k)) for k in self.k]
        self.slots = [[[] for _ in range(n)] for _ in self.k]  # clusters in the order of slots
        self.epoch = 0

    def end_epoch(self):
        """What the loss and, in the second stage, the labels of the next epoch are made with."""
        for h, k in enumerate(self.k):
            if self.epoch < self.stage:
                self.pre[h] = self.cur[h].copy()
            else:
                share = 1 / (self.epoch - self.stage + 1)
                new = unit(self.cur[h])
                self.pre[h] = unit((1 - share) * self.pre[h] + share * new)
                self.cur[h] = self.pre[h].copy()
            self.counter[h] = np.zeros(k)
        self.epoch += 1

    def assign(self, h, x):
        """Labels by centers and duals, then one step of the duals of this batch, then centers."""
        centers = self.pre[h] if self.epoch >= self.stage else self.cur[h]
        y = (x @ centers.T + self.dual[h]).argmax(axis=1)
        count = np.bincount(y, minlength=self.k[h])
        self.dual[h] = self.dual[h] - self.eta * count / len(x) + self.eta * self.ratio / self.k[h]
        if self.ratio < 1:
            self.dual[h] = np.maximum(self.dual[h], 0)
        touched = count > 0
        old = self.counter[h][touched]
        self.counter[h] = self.counter[h] + count
        new = self.counter[h][touched][:, None]
        sums = np.stack([x[y == c].sum(axis=0) for c in np.flatnonzero(touched)])
        moved = self.cur[h][touched] * (old[:, None] / new) + sums / new
        self.cur[h][touched] = unit(moved) if self.epoch < self.stage else moved
        return y

    def average(self, h, ids, y):
        """A label more in each average: the first slot of least weight makes room for it."""
        share = 1 / (self.epoch - self.stage + 1)
        for i, label in zip(ids, y, strict=True):
            weights, slots = self.weights[h][i].copy(), self.slots[h][i]
            if share == 1:
                weights[:] = 0
                slots[:] = [label]
            elif label not in slots and len(slots) < self.options.slots:
                slots.append(label)
            elif label not in slots:
                at = int(np.argmin(weights[slots]))
                weights = weights / (1 - weights[slots[at]])
                weights[slots[at]] = 0
                slots[at] = label
            weights *= 1 - share
            weights[label] += share
            self.weights[h][i] = weights

    def targets(self, h, ids, y, probabilities):
        """Soft targets of each view: large ones in turn, then one for all small crops."""
        stored = y if self.epoch == 0 else self.labels[h][ids]
        hard = np.eye(self.k[h])[stored]
        if len(probabilities) == 1:
            if self.epoch <= self.stage:
                return [hard]
            soft = np.where(self.weights[h][ids] > 0, 1.0, 0.0)
            soft = soft * np.exp(self.weights[h][ids] / self.options.smoothing)
            return [soft / soft.sum(axis=1, keepdims=True)]
        a = self.loss.tau
        first, second = probabilities
        small = a * hard + (1 - a) * (first + second) / 2
        return [a * hard + (1 - a) * second, a * hard + (1 - a) * first, small]

    def step(self, ids, views):
        """Loss, and its gradient in each view's rows: the projector's, then the predictor's."""
        b, d = len(ids), self.pre[0].shape[1]
        large = 1 if self.options.views == "one" else 2
        out = SimpleNamespace(loss=0.0, dx=[np.zeros_like(view) for view in views])
        small = len(views) - large
        for h in range(len(self.k)):
            past = self.pre[h].copy()
            scores = [view[:, :d] @ past.T / self.loss.temperature for view in views[:large]]
            x = sum(view[:, :d] for view in views[:large]) / large
            y = self.assign(h, x)
            targets = self.targets(h, ids, y, [softmax(s) for s in scores])
            for v, view in enumerate(views):
                target = targets[v] if v < large else targets[-1]
                share = 1.0 if not small else 0.5
                share /= large if v < large else small
                for at, weight in ((0, 1 - self.beta), (d, self.beta)):
                    if not weight:
                        continue
                    p = softmax(view[:, at : at + d] @ past.T / self.loss.temperature)
                    scale = weight * share / (len(self.k) * b)
                    out.loss -= scale * float((target * np.log(p)).sum())
                    slope = (p - target) @ past / self.loss.temperature
                    out.dx[v][:, at : at + d] += scale * slope
            self.labels[h][ids] = y
            if self.epoch >= self.stage:
                self.average(h, ids, y)
        return out
