"""GATCluster as its equations are printed, in NumPy: what the tensor code is compared with.

Nothing of the library is called. Gradients are differences with an imaginary step, which have no
rounding of their own: every formula below is written so that it takes complex parameters.

Four forms are the library's, each stated where it is defined: the variance of a window is
``v + (1 - v) sigmoid(r)``, the attention feature is the sum over positions, targets have no EPS
beside a mass, and Eq. 7 takes the logarithm of ``f + (1 - 2 f) q``, q the agreement of a pair.
"""

from types import SimpleNamespace

import numpy as np

STEP = 1e-30


def relu(x):
    return x * (x.real > 0)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(x):
    e = np.exp(x - x.real.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def conv(x, w):
    """Valid cross-correlation of (b, c, h, w) with (o, c, i, j)."""
    _, _, rows, columns = w.shape
    h, b = x.shape[2] - rows + 1, x.shape[3] - columns + 1
    out = 0
    for i in range(rows):
        for j in range(columns):
            out = out + np.einsum("bchw,oc->bohw", x[:, :, i : i + h, j : j + b], w[:, :, i, j])
    return out


def pairs_loss(x, r, f):
    """Eq. 7 with floor f over the pairs of the lower triangle, the diagonal among them."""
    y = x / np.sqrt((x**2).sum(axis=1, keepdims=True))
    total, count = 0, 0
    for i in range(len(x)):
        for j in range(i + 1):
            count += 1
            d = y[i] @ y[j] if i != j else 1.0
            total = total - np.log(f + (1 - 2 * f) * (d if r[i, j] else 1 - d))
    return total / count


def targets(x, power):
    """Eq. 5 (power 1) and Eq. 11 (power 2), entry by entry."""
    z = x.sum(axis=0)
    t = np.empty_like(x)
    for i in range(len(x)):
        for h in range(x.shape[1]):
            t[i, h] = x[i, h] ** power / z[h]
        t[i] /= t[i].sum()
    return t


def relation(t, k, min_share):
    """Eq. 6 by the best of many k-means, with the guard of the released code."""
    rng, best = np.random.default_rng(0), (np.inf, None)
    for _ in range(300):
        centers = t[rng.choice(len(t), k, replace=False)]
        for _ in range(100):
            far = ((t[:, None] - centers) ** 2).sum(axis=2)
            c = far.argmin(axis=1)
            new = [t[c == j].mean(axis=0) if (c == j).any() else centers[j] for j in range(k)]
            if np.array_equal(new, centers):
                break
            centers = np.array(new)
        best = min(best, (far.min(axis=1).sum(), c.tolist()))
    c = np.array(best[1])
    sizes = np.bincount(c, minlength=k)
    guarded = (sizes == 0).any() or sizes.min() < min_share * len(t) / k
    return (np.eye(len(t), dtype=bool) if guarded else c[:, None] == c), guarded


def window(raw, h, w, alpha, v):
    """Eq. 9 point by point, for (mu_x, mu_y, delta) or (mu_x, mu_y, d_x, d_y, rho)."""
    mu = sigmoid(raw[:2])
    if len(raw) == 3:
        d = v + (1 - v) * sigmoid(raw[2])
        sigma = np.array([[d, 0], [0, d]])
    else:
        d = v + (1 - v) * sigmoid(raw[2:4])
        cross = 0.95 * np.tanh(raw[4]) * np.sqrt(d[0] * d[1])
        sigma = np.array([[d[0], cross], [cross, d[1]]])
    inverse = np.array([[sigma[1, 1], -sigma[0, 1]], [-sigma[1, 0], sigma[0, 0]]])
    inverse = inverse / (sigma[0, 0] * sigma[1, 1] - sigma[0, 1] * sigma[1, 0])
    a = np.empty((h, w), dtype=complex)
    for x in range(h):
        for y in range(w):
            u = np.array([x / (h - 1), y / (w - 1)]) - mu
            a[x, y] = np.exp(-(u @ inverse @ u) / alpha)
    return a


class Printed:
    """A network of one convolution and the branches; targets, losses, and plain SGD."""

    def __init__(self, method):
        self.options, self.k = method.options, method.bounds[0].n_clusters
        state = method.network.state_dict()
        every = {name: t.double().numpy().copy() for name, t in state.items()}
        self.running = {name: v for name, v in every.items() if "running" in name}
        self.p = {name: v for name, v in every.items() if "running" not in name}

    def norm(self, x, p, name, moved):
        if moved is None:
            mean, var = self.running[f"{name}.running_mean"], self.running[f"{name}.running_var"]
        else:
            mean = x.mean(axis=(0, 2, 3))
            var = ((x - mean[:, None, None]) ** 2).mean(axis=(0, 2, 3))
            n = x.size / x.shape[1]
            moved[f"{name}.running_mean"] = mean.real
            moved[f"{name}.running_var"] = var.real * n / (n - 1)
        z = (x - mean[:, None, None]) / np.sqrt(var + 1e-5)[:, None, None]
        return z * p[f"{name}.weight"][:, None, None] + p[f"{name}.bias"][:, None, None]

    def head(self, x, p, name):
        for i in range(self.options.head_layers):
            x = relu(x) if i else x
            at = f"predictor.{name}.{2 * i}"
            x = x @ p[f"{at}.weight"].T + p[f"{at}.bias"]
        return softmax(x)

    def forward(self, images, p, moved=None):
        """Label features of both branches; `moved` collects batch statistics in training."""

        def layer(x, name, at, active=True):
            x = self.norm(conv(x, p[f"{name}.{at}.weight"]), p, f"{name}.{at + 1}", moved)
            return relu(x) if active else x

        o, branch = self.options, "predictor."
        f = layer(layer(images, "encoder", 0), branch + "to_clusters", 0)
        labels = layer(f, branch + "label_conv", 0, o.label_relu)
        before = layer(f, branch + "window_conv", 0) if o.window_conv else f
        raw = before.reshape(len(f), -1) @ p[branch + "window_layer.weight"].T
        raw = raw + p[branch + "window_layer.bias"]
        h, w = f.shape[2:]
        attended = [
            (window(raw[i], h, w, o.alpha, o.min_variance) * labels[i]).sum(axis=(1, 2))
            for i in range(len(f))
        ]
        return (
            self.head(labels.mean(axis=(2, 3)), p, "label_head"),
            self.head(np.array(attended), p, "attention_head"),
        )

    def targets(self, plain):
        """What a large batch learns by, in evaluation mode."""
        x = self.forward(plain, self.p)[0]
        sharp = targets(x, 2)
        r, guarded = relation(sharp, self.k, self.options.min_share)
        return SimpleNamespace(l=x, t=targets(x, 1), ta=sharp, r=r, guarded=guarded)

    def parts(self, order):
        size = self.options.sub_batch
        if self.options.drop_remainder:
            return [order[i : i + size] for i in range(0, len(order) - size + 1, size)]
        return np.array_split(order, -(-len(order) // size))

    def loss(self, images, part, p, moved):
        """Eq. 12 on a part of a large batch."""
        o = self.options
        x, la = self.forward(images, p, moved)
        l_t = -(x * part.t).sum() / len(x)
        l_r = pairs_loss(x, part.r, o.floor)
        l_a = -(part.ta * np.log(la) + (1 - part.ta) * np.log(1 - la)).mean()
        l_e = sum((m.mean(axis=0) * np.log(m.mean(axis=0))).sum() for m in (x, la))
        return o.relation * l_r + o.transformation * l_t + o.attention * l_a + o.entropy * l_e

    def step(self, images, every, rows, rate):
        """Loss and gradients of a part; then one step of gradient descent."""
        part = SimpleNamespace(t=every.t[rows], ta=every.ta[rows], r=every.r[np.ix_(rows, rows)])
        moved = {}
        value = self.loss(images[rows], part, self.p, moved).real
        gradients = {}
        for name, tensor in self.p.items():
            found = np.empty(tensor.size)
            for i in range(tensor.size):
                shifted = tensor.astype(complex).reshape(-1)
                shifted[i] += 1j * STEP
                p = self.p | {name: shifted.reshape(tensor.shape)}
                found[i] = self.loss(images[rows], part, p, {}).imag / STEP
            gradients[name] = found.reshape(tensor.shape)
        for name, statistic in moved.items():
            self.running[name] += 0.1 * (statistic - self.running[name])
        for name, gradient in gradients.items():
            self.p[name] = self.p[name] - rate * gradient
        return value, gradients
