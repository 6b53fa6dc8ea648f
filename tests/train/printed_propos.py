"""ProPos's step as its equations are printed, in NumPy loops: what the tensor code is compared to.

The networks are one linear layer (encoder and projector in one) and a predictor FC-BN-ReLU-FC, so
that the whole step can be written out. Gradients are central differences of the printed loss.
Nothing of the library is called.
"""

import math

import numpy as np

EPS = 1e-5  # of batch normalization
STEP = 1e-6  # of the differences


def unit(v):
    return v / math.sqrt(float(v @ v))


def alignment(predicted, target):
    """Eq. 10: mean squared distance of unit vectors."""
    total = 0.0
    for p, t in zip(predicted, target, strict=True):
        gap = unit(p) - unit(t)
        total += float(gap @ gap)
    return total / len(predicted)


def prototypes(rows, labels, k):
    """Eq. 6 and 7 with one-hot posteriors: direction of the sum of unit features, or None."""
    found = []
    for cluster in range(k):
        own = [unit(row) for row, y in zip(rows, labels, strict=True) if y == cluster]
        found.append(unit(np.sum(own, axis=0)) if own else None)
    return found


def scattering(form, online, target, tau):
    """Eq. 4 ("same-view"), Eq. 28 ("cross-view"), as released ("mixed-view"), Eq. 5 second term."""
    there = [c for c, mu in enumerate(online) if mu is not None and target[c] is not None]
    losses = []
    for c in there:
        others = [j for j in there if j != c]
        if form == "uniformity":
            if others:
                pairs = [math.exp(online[c] @ online[j] / tau) for j in others]
                losses.append(math.log(sum(pairs)))
            continue
        positive = float(online[c] @ target[c]) / tau
        own = float(online[c] @ online[c]) / tau if form == "same-view" else positive
        seen = target if form == "cross-view" else online
        total = math.exp(own) + sum(math.exp(float(online[c] @ seen[j]) / tau) for j in others)
        losses.append(-positive + math.log(total))
    return sum(losses) / len(losses) if losses else 0.0


def linear(theta, rows):
    return [theta["encoder.weight"] @ row + theta["encoder.bias"] for row in rows]


def predictor(theta, rows):
    """FC, batch normalization by the rows' own mean and biased variance, ReLU, FC."""
    hidden = np.array([theta["predictor.0.weight"] @ row for row in rows])
    mean = hidden.mean(axis=0)
    var = ((hidden - mean) ** 2).mean(axis=0)
    out = []
    for h in hidden:
        z = (h - mean) / np.sqrt(var + EPS)
        z = theta["predictor.1.weight"] * z + theta["predictor.1.bias"]
        z = np.maximum(z, 0.0)
        out.append(theta["predictor.3.weight"] @ z + theta["predictor.3.bias"])
    return out


class Printed:
    """Parameters by name, the moving average of the encoder's, a queue, and SGD with momentum."""

    def __init__(self, theta, labels, k, options, total_steps):
        self.theta = {name: value.copy() for name, value in theta.items()}
        self.average = {n: v.copy() for n, v in theta.items() if n.startswith("encoder")}
        self.speed = {name: np.zeros_like(value) for name, value in theta.items()}
        self.labels, self.k, self.options, self.total = labels, k, options, total_steps
        self.queue, self.steps = [], 0

    def loss(self, theta, ids, views, noise, *, warm):
        """Eq. 12, over both orders of the views; before the warm-up's end Eq. 3 alone."""
        o = self.options
        q = [linear(theta, view) for view in views]
        k = [linear(self.average, view) for view in views]
        total = 0.0
        for a, b in ((0, 1), (1, 0)):
            base = [unit(row) for row in q[a]] if o.noise == "sphere" else q[a]
            scale = o.sigma if warm else 0.0
            positives = [row + scale * e for row, e in zip(base, noise[a], strict=True)]
            total += 0.5 * alignment(predictor(theta, positives), k[b])
            if warm and o.psl_weight:
                y = [self.labels[i] for i in ids]
                past = [row for row, _ in self.queue]
                y_past = [self.labels[i] for _, i in self.queue]
                mu = prototypes([*q[a], *past], [*y, *y_past], self.k)
                mu_target = prototypes([*k[b], *past], [*y, *y_past], self.k)
                total += 0.5 * o.psl_weight * scattering(o.psl, mu, mu_target, o.temperature)
        return total

    def gradient(self, *args, **kwargs):
        grads = {}
        for name, value in self.theta.items():
            grads[name] = np.zeros_like(value)
            for place in np.ndindex(value.shape):
                ends = []
                for sign in (1, -1):
                    theta = {n: v.copy() for n, v in self.theta.items()}
                    theta[name][place] += sign * STEP
                    ends.append(self.loss(theta, *args, **kwargs))
                grads[name][place] = (ends[0] - ends[1]) / (2 * STEP)
        return grads

    def step(self, ids, views, noise, *, warm, lr, momentum, decay):
        """One step: gradients, queue, SGD (predictor ten times as fast), then the average."""
        loss = self.loss(self.theta, ids, views, noise, warm=warm)
        grads = self.gradient(ids, views, noise, warm=warm)
        if self.options.queue and self.options.psl_weight:
            for view in views:
                self.queue += list(zip(linear(self.average, view), ids, strict=True))
            self.queue = self.queue[-self.options.queue :]
        for name, value in self.theta.items():
            rate = lr * (self.options.predictor_scale if name.startswith("predictor") else 1.0)
            self.speed[name] = momentum * self.speed[name] + grads[name] + decay * value
            value -= rate * self.speed[name]
        self.steps += 1
        m = self.options.ema
        if self.options.ema_schedule == "cosine":
            m = 1 - (1 - m) * (1 + math.cos(math.pi * self.steps / self.total)) / 2
        for name, value in self.average.items():
            value[...] = m * value + (1 - m) * self.theta[name]
        return loss, grads


def byol_loss(theta, average, views):
    """BYOL by itself: 2 - 2 cos between the prediction of one view and the other's target."""
    total = 0.0
    for a, b in ((0, 1), (1, 0)):
        predicted, target = predictor(theta, linear(theta, views[a])), linear(average, views[b])
        cosines = [
            float(p @ t) / math.sqrt(float(p @ p) * float(t @ t))
            for p, t in zip(predicted, target, strict=True)
        ]
        total += 0.5 * float(np.mean([2 - 2 * c for c in cosines]))
    return total
