"""MI + margin and its baselines as their equations are printed, in NumPy: nothing of the library.

A linear classifier on rows of features, so that gradients go all the way to its weights.
"""

import numpy as np


def softmax(z):
    e = np.exp(z - z.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def em(sigma, lam, beta=1.0, tol=1e-14, most=400_000):
    """Algorithm 1 with N = M / beta, until it stands still."""
    m, k = sigma.shape
    y = sigma.copy()
    for _ in range(most):
        s = y / y.sum(axis=0)
        new = (sigma + lam * m / beta / k * s) / (1 + lam * m / beta / k * s.sum(1))[:, None]
        if np.abs(new - y).max() < tol:
            return new
        y = new
    raise AssertionError


def energy(sigma, y, lam, beta=1.0):
    """Lemma B.1."""
    m, k = sigma.shape
    return -beta / m * (sigma * np.log(y)).sum() - lam / k * np.log(y.mean(axis=0)).sum()


def split_labels(sigma, w, tau):
    """argmin of mean H(y, sigma) - tau mean H(y) + w KL(mean y || u), by damped substitution."""
    k = sigma.shape[1]
    price = np.zeros(k)
    for _ in range(4000):
        y = softmax((np.log(sigma) + price) / tau)
        price = 0.5 * price - 0.5 * w * np.log(k * y.mean(axis=0))
    return y


def loss_of_sigma(objective, sigma, y, w):
    """Loss of the network for fixed labels y."""
    k = sigma.shape[1]
    if objective == "mi_margin":
        return -np.mean(
            [sum(s[j] * np.log(t[j]) for j in range(k)) for s, t in zip(sigma, y, strict=True)]
        )
    if objective == "mi_d":
        mean = sigma.mean(axis=0)
        return -np.mean((sigma * np.log(sigma)).sum(axis=1)) + w * (mean * np.log(k * mean)).sum()
    return -np.mean((y * np.log(sigma)).sum(axis=1))  # sela, mi_adm


def iic_loss(p, q, weight):
    """Ji et al., with the joint made symmetric and a weight on the entropies of its margins."""
    joint = sum(np.outer(a, b) for a, b in zip(p, q, strict=True)) / len(p)
    joint = (joint + joint.T) / 2
    row, column = joint.sum(axis=1), joint.sum(axis=0)
    total = 0.0
    for c in range(len(joint)):
        for d in range(len(joint)):
            marginal = weight * (np.log(row[c]) + np.log(column[d]))
            total += joint[c, d] * (np.log(joint[c, d]) - marginal)
    return -total


class Printed:
    """The step: labels of the batch, loss, and gradients of v and its bias.

    Gradients are central differences of the loss with the labels held fixed.
    """

    def __init__(self, options, weight, bias):
        self.o, self.v, self.c = options, weight.copy(), bias.copy()

    def total(self, v, c, views, y, seeds):
        o = self.o
        p = [softmax(x @ v.T + c) for x in views]
        drawn = p[: max(1, o.average)]
        sigma = sum(drawn) / len(drawn)
        if o.objective == "iic":
            loss = iic_loss(*drawn, o.entropy_weight)
        elif o.objective == "seeds":
            loss = 0.0
        else:
            loss = loss_of_sigma(o.objective, sigma, y, o.fairness_weight)
        if o.objective == "mi_margin":
            for extra in p[max(1, o.average) :]:
                loss += o.extra_weight * loss_of_sigma("mi_margin", extra, y, None)
            loss *= o.beta
        given = [i for i in range(len(seeds)) if seeds[i] >= 0]
        if given:
            wrong = [-np.log(sigma[i, seeds[i]]) for i in given]
            loss += o.supervised_weight * sum(wrong) / len(given)
        return loss + o.margin_weight * sum(a * a for a in v.ravel())

    def labels(self, views, stored):
        o = self.o
        drawn = [softmax(x @ self.v.T + self.c) for x in views[: max(1, o.average)]]
        sigma = sum(drawn) / len(drawn)
        k = sigma.shape[1]
        if o.objective == "mi_margin":
            return em((1 - o.floor) * sigma + o.floor / k, o.balance, o.beta)
        if o.objective == "mi_adm":
            return split_labels(sigma, o.fairness_weight, o.smoothing)
        return np.eye(k)[stored]

    def step(self, views, stored, seeds, h=1e-5):
        y = self.labels(views, stored)
        loss = self.total(self.v, self.c, views, y, seeds)
        grads = []
        for which in ("v", "c"):
            start = getattr(self, which)
            grad = np.zeros_like(start)
            for at in np.ndindex(start.shape):
                ends = []
                for sign in (1, -1):
                    moved = start.copy()
                    moved[at] += sign * h
                    both = {"v": self.v, "c": self.c, which: moved}
                    ends.append(self.total(both["v"], both["c"], views, y, seeds))
                grad[at] = (ends[0] - ends[1]) / (2 * h)
            grads.append(grad)
        return y, loss, *grads
