"""ProPos's step as its released code has it, for one process, in NumPy.

Written from a description of that code: version 1 (CIFAR-10) and version 2 (CIFAR-20 and
ImageNet-Dogs). The networks are a linear layer with batch normalization, and the predictor
FC-BN-ReLU-FC. Gradients are differences with an imaginary step, which have no rounding of their
own. Nothing of the library is called.

What version 2 does otherwise: both views go through each network as one batch, so that batch
normalization and the target see them together, and the target moves before the step instead of
between the loss and the optimizer.
"""

import math

import numpy as np

STEP = 1e-30


def unit(rows):
    return rows / np.sqrt((rows**2).sum(axis=1, keepdims=True))


def batch_norm(rows, weight, bias):
    mean = rows.mean(axis=0)
    var = ((rows - mean) ** 2).mean(axis=0)
    return (rows - mean) / np.sqrt(var + 1e-5) * weight + bias


def project(p, rows):
    rows = rows @ p["encoder.0.weight"].T + p["encoder.0.bias"]
    return batch_norm(rows, p["encoder.1.weight"], p["encoder.1.bias"])


def predict(p, rows):
    rows = rows @ p["predictor.0.weight"].T
    rows = batch_norm(rows, p["predictor.1.weight"], p["predictor.1.bias"])
    rows = rows * (rows.real > 0)
    return rows @ p["predictor.3.weight"].T + p["predictor.3.bias"]


def centers(rows, labels, k):
    """Directions of the means of unit features; an empty cluster is a row of zeros."""
    found = []
    for cluster in range(k):
        own = rows[labels == cluster]
        found.append(unit(own.mean(axis=0)[None])[0] if len(own) else np.zeros(rows.shape[1]))
    return np.array(found)


def cluster_loss(online, target, labels, tau):
    """Positives across the networks, negatives online, and -10 for whatever is empty."""
    k = len(online)
    logits = (online @ online.T / tau).astype(complex)
    for c in range(k):
        logits[c, c] = (online[c] * target[c]).sum() / tau
    empty = [c for c in range(k) if not (labels == c).any()]
    logits[:, empty] = -10
    losses = [np.log(np.exp(logits[c]).sum()) - logits[c, c] for c in range(k) if c not in empty]
    return sum(losses) / len(losses)


def alignment(predicted, target):
    return -2 * (unit(predicted) * unit(target)).sum() / len(predicted)


class Released:
    """Parameters by name, the average of the encoder's, SGD with momentum."""

    def __init__(self, theta, labels, k, options, total_steps, *, version):
        self.p = {name: value.copy() for name, value in theta.items()}
        self.average = {n: v.copy() for n, v in theta.items() if n.startswith("encoder")}
        self.speed = {name: np.zeros_like(value) for name, value in theta.items()}
        self.labels, self.k, self.o, self.total = labels, k, options, total_steps
        self.version, self.iteration = version, 0

    def follow(self):
        m = self.o.ema
        if self.o.ema_schedule == "cosine":
            m = 1 - (1 - m) * (math.cos(math.pi * self.iteration / self.total) + 1) / 2
        for name, value in self.average.items():
            self.average[name] = m * value + (1 - m) * self.p[name]

    def loss(self, p, y, views, noise, sigma, weight):
        """The released total, with the 2 that version 1 leaves out."""
        tau, total = self.o.temperature, 2.0
        if self.version == 1:
            for a, b in ((0, 1), (1, 0)):
                q, t = project(p, views[a]), unit(project(self.average, views[b]))
                total = total + 0.5 * alignment(predict(p, q + sigma * noise[a]), t)
                mu, mu_t = (centers(rows, y, self.k) for rows in (unit(q), t))
                total = total + 0.5 * weight * cluster_loss(mu, mu_t, y, tau)
            return total
        b = len(y)
        q = project(p, np.concatenate(views))
        t = unit(project(self.average, np.concatenate(views[::-1])))
        total = total + alignment(predict(p, q + sigma * np.concatenate(noise)), t)
        for half in (slice(0, b), slice(b, 2 * b)):
            mu, mu_t = (centers(rows, y, self.k) for rows in (unit(q)[half], t[half]))
            total = total + weight * cluster_loss(mu, mu_t, y, tau) / 2
        return total

    def step(self, ids, views, noise, *, warm, lr, momentum, decay):
        """Loss and gradients; then both networks move, in the order of the version."""
        self.iteration += 1
        y = self.labels[ids]
        args = (y, views, noise, *((self.o.sigma, self.o.psl_weight) if warm else (0.0, 0.0)))
        if self.version == 2:
            self.follow()
        value, grads = self.loss(self.p, *args), {}
        for name, tensor in self.p.items():
            grads[name] = np.empty(tensor.shape)
            for place in np.ndindex(tensor.shape):
                shifted = tensor.astype(complex)
                shifted[place] += 1j * STEP
                found = self.loss(self.p | {name: shifted}, *args)
                grads[name][place] = np.imag(found) / STEP
        if self.version == 1:
            self.follow()
        for name, tensor in self.p.items():
            rate = lr * (self.o.predictor_scale if name.startswith("predictor") else 1)
            self.speed[name] = momentum * self.speed[name] + grads[name] + decay * tensor
            self.p[name] = tensor - rate * self.speed[name]
        return float(np.real(value)), grads
