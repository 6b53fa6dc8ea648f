"""CoKe's step as its equations are printed, in NumPy loops: what the tensor code is compared with.

One list entry per head, of that head's own number of clusters: nothing is padded, and nothing of
the library is called but the table of published steps. Features come in as rows: the projector's,
then the predictor's where there is one.
"""

from types import SimpleNamespace

import numpy as np

from tests.train.printed_prices import ByPrices


def softmax(logits):
    e = np.exp(logits - logits.max())
    return e / e.sum()


def unit(v):
    return v / np.linalg.norm(v)


class Printed(ByPrices):
    """CoKe, image by image (paper, section 3 and appendix B.2)."""

    def __init__(self, method):
        config = method.config
        self.k, self.n, self.d = config.heads.clusters, method.n_samples, method.network.out_dim
        self.bounds, self.loss, self.options = config.assignment, config.loss, config.coke
        self.beta = method.beta
        self.frozen = config.optim.frozen_epochs
        self.large = 1 if self.options.views == "one" else 2
        start = method.centers.double().numpy()
        self.centers = [start[h, :k].copy() for h, k in enumerate(self.k)]
        self.past = [c.copy() for c in self.centers]
        self.sums = [np.zeros((k, self.d)) for k in self.k]
        self.labels = [np.full(self.n, -1) for _ in self.k]
        self.rho = [np.zeros(k) for k in self.k]
        self.rho_up = [np.zeros(k) for k in self.k]
        # Of each head and image: a cluster and its weight for each slot.
        self.averages = [[] for _ in self.k]
        self.epoch = 0

    @property
    def second_stage(self):
        return 0 < self.options.second_stage <= self.epoch

    @property
    def averaging(self):
        return self.second_stage and self.options.average

    def begin_epoch(self, epoch):
        """Eq. 12 for the epoch that is over; h = min(kappa k / (gamma' n), 0.02) as for SeCu."""
        closed = [self.running(head) for head in range(len(self.k))]
        over = epoch - self.options.second_stage
        average = self.options.average and self.options.second_stage > 0 and over >= 1
        for head, c in enumerate(closed):
            self.centers[head] = c
            past, got = self.past[head], np.abs(self.sums[head]).max(axis=1, keepdims=True) > 0
            self.past[head] = c.copy()
            if average:  # of a cluster that got something; the others keep theirs
                self.past[head] = np.where(got, (1 - 1 / over) * past + c / over, past)
            self.sums[head] = np.zeros_like(c)
        self.epoch = epoch
        if self.averaging and epoch == self.options.second_stage:
            for head, labels in enumerate(self.labels):
                idle = [(-1, 0.0)] * (self.options.slots - 1)
                self.averages[head] = [[(y, 1.0), *idle] for y in labels]
        self.set_steps(epoch)

    def running(self, head):
        """Eq. 13: directions of the sums of this epoch, and the former center where there is none.

        The center of a cluster is normalized once, from the sum; the count cancels.
        """
        pairs = zip(self.sums[head], self.centers[head], strict=True)
        return np.array([unit(s) if np.abs(s).max() > 0 else c for s, c in pairs])

    def assign(self, head, x):
        """Eqs. 10 and 17 with the prices of a chunk, then Eq. 18 for the chunk."""
        per_batch = self.options.centers == "batch" and not self.second_stage
        centers = self.running(head) if per_batch else self.past[head]
        scores = x @ centers.T
        return self.assign_by_prices(head, scores)

    def average(self, head, i, y):
        """Section 3.4: mean of the labels so far; the least makes room where no slot is left."""
        count = self.epoch - self.options.second_stage + 1
        if count == 1:
            self.averages[head][i] = [(y, 1.0), *[(-1, 0.0)] * (self.options.slots - 1)]
            return
        pairs = self.averages[head][i]
        weights = [weight for _, weight in pairs]
        found = [at for at, (cluster, weight) in enumerate(pairs) if cluster == y and weight > 0]
        at = found[0] if found else int(np.argmin(weights))
        if not found:
            weights[at] = 0.0
        total = sum(weights)
        weights = [weight * (1 - 1 / count) / total if total > 0 else 0.0 for weight in weights]
        weights[at] += 1 / count if total > 0 else 1.0
        clusters = [y if j == at else cluster for j, (cluster, _) in enumerate(pairs)]
        self.averages[head][i] = list(zip(clusters, weights, strict=True))

    def target(self, head, i, previous):
        """One-hot label of the epoch before, or appendix B.2.2 of the average."""
        if not self.averaging:
            return np.eye(self.k[head])[previous]
        pairs = [pair for pair in self.averages[head][i] if pair[1] > 0]
        p = softmax(np.array([weight for _, weight in pairs]) / self.options.smoothing)
        target = np.zeros(self.k[head])
        for (cluster, _), share in zip(pairs, p, strict=True):
            target[cluster] = share
        return target

    def step(self, ids, views):
        """Loss, and its gradient in each view's rows."""
        b, d, heads = len(ids), self.d, len(self.k)
        alpha, temperature = self.loss.tau, self.loss.temperature
        out = SimpleNamespace(loss=0.0, dx=[np.zeros_like(view) for view in views])
        parts = [(slice(0, d), 1 - self.beta), (slice(d, 2 * d), self.beta)]
        small = len(views) - self.large
        for head in range(heads):
            mean = sum(view[:, :d] for view in views[: self.large]) / self.large
            y = self.assign(head, mean)
            for i, row in enumerate(ids):
                previous = self.labels[head][row] if self.epoch > 0 else y[i]
                past, own = self.past[head], self.target(head, row, previous)
                q = [softmax(past @ views[v][i, :d] / temperature) for v in range(self.large)]
                for v, view in enumerate(views):
                    if self.large == 1:
                        target = own
                    elif v < self.large:
                        target = alpha * own + (1 - alpha) * q[1 - v]
                    else:
                        target = alpha * own + (1 - alpha) * (q[0] + q[1]) / 2
                    share = 1.0 / (heads * b * (self.large if v < self.large else small))
                    if small:
                        weight_of = self.options.crop_weight
                        share *= 1 - weight_of if v < self.large else weight_of
                    for part, weight in parts:
                        if weight == 0:
                            continue
                        p = softmax(past @ view[i, part] / temperature)
                        out.loss -= weight * share * float(target @ np.log(p))
                        slope = (p - target) @ past / temperature
                        out.dx[v][i, part] += weight * share * slope
            for i, row in enumerate(ids):
                self.labels[head][row] = y[i]
                self.sums[head][y[i]] += mean[i]
                if self.averaging:
                    self.average(head, row, y[i])
        return out
