"""SeCu's losses in plain Python loops, and a problem to try them on."""

import math

import numpy as np

PAD = -1e4
TEMPERATURES = [1e-3, 0.05, 1.0, 1e3]


def loop_log_softmax(scores, temperature):
    """Row by row, in Python floats."""
    scores = np.asarray(scores, np.float64)
    out = np.empty_like(scores)
    for at in np.ndindex(scores.shape[:-1]):
        logits = [float(s) / temperature for s in scores[at]]
        top = max(logits)
        log_z = top + math.log(math.fsum(math.exp(v - top) for v in logits))
        out[at] = [v - log_z for v in logits]
    return out


def loop_targets(labels, scores, temperature, tau):
    out = (1.0 - tau) * np.exp(loop_log_softmax(scores, temperature))
    for at in np.ndindex(labels.shape):
        out[(*at, labels[at])] += tau
    return out


def loop_cross_entropy(scores, targets, temperature):
    log_p = loop_log_softmax(scores, temperature)
    out = np.empty(scores.shape[:-1])
    for at in np.ndindex(out.shape):
        out[at] = -math.fsum(t * v for t, v in zip(targets[at], log_p[at], strict=True) if t)
    return out


def loop_center_loss(scores, labels, temperature):
    log_p = loop_log_softmax(scores, temperature)
    return np.array([-log_p[(*at, labels[at])] for at in np.ndindex(labels.shape)]).reshape(
        labels.shape
    )


def problem(shape=(2, 3, 5, 4), seed=0):
    """Cosine-like scores, labels and targets on the simplex."""
    rng = np.random.default_rng(seed)
    scores = rng.uniform(-1.0, 1.0, size=shape)
    labels = rng.integers(0, shape[-1], size=shape[:-1])
    targets = rng.dirichlet(np.ones(shape[-1]), size=shape[:-1]).reshape(shape)
    return scores, labels, targets
