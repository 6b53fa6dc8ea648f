"""GATCluster as its released code has it, in NumPy: windows, targets and losses.

Written from a description of that code. The layers are those of `printed_gatcluster`, where both
agree; what differs is written out here with the code's EPS. Nothing of the library is called.
"""

from types import SimpleNamespace

import numpy as np

from tests.train import printed_gatcluster as printed

EPS = 1e-5
LAMBDA = 0.05


def row_balanced(x, power):
    """Targets: powers over masses, then over row sums, with EPS added to each."""
    shares = x**power / (x.sum(axis=0) + EPS)
    return shares / (shares.sum(axis=1, keepdims=True) + EPS)


def window(raw, height, width):
    """Center from every second of three numbers, size from the last."""
    theta = printed.sigmoid(raw)
    center, size = theta[::2], theta[-1]
    points = np.array(
        [[i / (height - 1), j / (width - 1)] for i in range(height) for j in range(width)]
    )
    far = ((points - center) ** 2).sum(axis=1)
    return np.exp(-far / (2 * LAMBDA * size + EPS)).reshape(height, width)


def cross_entropy(p, target):
    """Binary; away from 0 and 1 the clamp of its logarithms does nothing."""
    return -(target * np.log(p) + (1 - target) * np.log(1 - p))


def pairs(x, r):
    u = x / (np.sqrt((x**2).sum(axis=1, keepdims=True)) + EPS)
    d = u @ u.T
    lower = np.tril_indices(len(x))
    return cross_entropy(d[lower], r[lower].astype(float)).mean()


def entropy(x):
    p = x.mean(axis=0)
    p = np.where(p.real < EPS, EPS, p)
    return (p * np.log(p)).sum()


class Released(printed.Printed):
    """The same networks and loop; other windows, targets and losses."""

    def forward(self, images, p, moved=None):
        def layer(x, name, at, active=True):
            x = printed.conv(x, p[f"{name}.{at}.weight"])
            x = self.norm(x, p, f"{name}.{at + 1}", moved)
            return printed.relu(x) if active else x

        branch = "predictor."
        f = layer(layer(images, "encoder", 0), branch + "to_clusters", 0)
        labels = layer(f, branch + "label_conv", 0, self.options.label_relu)
        before = layer(f, branch + "window_conv", 0) if self.options.window_conv else f
        raw = before.reshape(len(f), -1) @ p[branch + "window_layer.weight"].T
        raw = raw + p[branch + "window_layer.bias"]
        attended = np.array(
            [(window(raw[i], *f.shape[2:]) * labels[i]).sum(axis=(1, 2)) for i in range(len(f))]
        )
        pooled = labels.mean(axis=(2, 3))
        return self.head(pooled, p, "label_head"), self.head(attended, p, "attention_head")

    def targets(self, plain):
        x = self.forward(plain, self.p)[0]
        sharp = row_balanced(x, 2)
        r, guarded = printed.relation(sharp, self.k, self.options.min_share)
        return SimpleNamespace(l=x, t=row_balanced(x, 1), ta=sharp, r=r, guarded=guarded)

    def loss(self, images, part, p, moved):
        o = self.options
        x, la = self.forward(images, p, moved)
        similar = -(x * part.t).sum(axis=1).mean()
        attention = cross_entropy(la, part.ta).mean()
        total = o.relation * pairs(x, part.r) + o.transformation * similar
        return total + o.attention * attention + o.entropy * (entropy(x) + entropy(la))
