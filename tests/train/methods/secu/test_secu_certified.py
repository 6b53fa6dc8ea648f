"""SeCu with certified centers: solved for the labels of the epoch before, with their proof."""

import numpy as np
import pytest
import torch

from tests.problems import unit_rows
from tests.train.printed_secu import Printed, softmax
from tests.train.secu_methods import compare_state, draw_views, make, on_features

CERTIFIED = ["secu.centers=certified", "loss.center_temperature=0.3"]


def printed_pull(x, y, w, others, temperature):
    """Sum of (1 - p_iy) x_i over the samples of each cluster: the direction of Eq. 4."""
    pull = np.zeros_like(w)
    for i in range(len(x)):
        logits = others @ x[i] / temperature
        logits[y[i]] = w[y[i]] @ x[i] / temperature  # its own center moves, the others are held
        pull[y[i]] += (1 - softmax(logits)[y[i]]) * x[i]
    return pull


def test_certified_centers_solve_the_printed_equation(rng):
    method = on_features(make(changes=CERTIFIED))
    x = draw_views(rng, np.arange(120))[0]
    for head, k in enumerate(method.config.heads.clusters):
        nearest = np.argmax(x @ method.centers[head, :k].numpy().T, axis=1)
        method.labels[head] = torch.from_numpy(nearest)
    before = method.centers.numpy().copy()
    method.solve_centers(torch.from_numpy(x))
    solved = 0
    for head, k in enumerate(method.config.heads.clusters):
        y, w = method.labels[head].numpy(), method.centers[head, :k].numpy()
        pull = printed_pull(x, y, w, before[head, :k], 0.3)
        gap, certified, interior = method.certificate[head].numpy()
        used = np.bincount(y, minlength=k) > 0
        gaps = (np.linalg.norm(pull, axis=1) - (pull * w).sum(1)) / 0.3  # -grad f . (T(w) - w)
        gaps /= np.maximum(np.bincount(y, minlength=k), 1)
        assert certified + interior <= used.sum()
        assert gaps[used].max() == pytest.approx(gap, rel=1e-6, abs=1e-12)
        fixed = used & (gaps <= 1e-8)
        assert fixed.sum() == certified
        np.testing.assert_allclose(w[fixed], unit_rows(pull[fixed]), atol=2e-4)
        np.testing.assert_allclose(w[~used], unit_rows(before[head, :k])[~used], rtol=1e-12)
        assert (method.centers[head, k:] == 0).all()
        solved += certified
    assert solved >= 10


def test_a_step_on_certified_centers_is_the_printed_one(rng):
    method = on_features(make(changes=CERTIFIED))
    printed = Printed(method)
    assert len(method.parameter_groups()) == 1
    for epoch in range(3):
        x = draw_views(rng, np.arange(120))
        before = method.centers.clone()
        method.begin_epoch(epoch, lambda function, x=x, **_: torch.from_numpy(x[0]))
        assert (epoch == 0) == torch.equal(method.centers, before)
        printed.w = [method.centers[h, :k].numpy().copy() for h, k in enumerate(printed.k)]
        printed.begin_epoch(epoch)
        assert bool(method.report()) == (epoch > 0)
        for ids in np.array_split(rng.permutation(120), 4):
            x = draw_views(rng, ids)
            leaf = [torch.tensor(view, requires_grad=True) for view in x]
            loss = method.step(torch.from_numpy(ids), tuple(leaf))
            loss.backward()
            expected = printed.step(ids, x)
            assert loss.item() == pytest.approx(expected.loss, rel=1e-10)
            compare_state(method, printed)
            for view in (0, 1):
                np.testing.assert_allclose(
                    leaf[view].grad.numpy(), expected.dx[view], rtol=1e-8, atol=1e-13
                )
