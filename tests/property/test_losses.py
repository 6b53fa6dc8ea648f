"""What every loss keeps for any finite input: no NaN, and the symmetries of its equation."""

from functools import partial
from typing import NamedTuple

import array_api_compat as compat
import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dualclust.algos.losses.coke import label_loss, smoothed_labels, two_view_loss, two_view_targets
from dualclust.algos.losses.cross_entropy import log_softmax, soft_cross_entropy
from dualclust.algos.losses.information.joint import joint_distribution, joint_information_loss
from dualclust.algos.losses.information.mutual import (
    information_margin_loss,
    mean_entropy,
    mutual_information,
    prior_divergence,
)
from dualclust.algos.losses.information.pseudo_label import (
    pseudo_label_divergence,
    pseudo_label_loss,
    reverse_cross_entropy,
)
from dualclust.algos.losses.information.self_labeling import self_labeling_loss, transport_objective
from dualclust.algos.losses.secu import center_loss, mixed_targets
from tests.compare import to_numpy
from tests.examples import examples

LARGEST = {np.float32: 3.4e38, np.float64: 1.7e308}


class Batch(NamedTuple):
    """Two views' scores, and what else the losses need; arrays of one library."""

    scores: object
    other: object
    labels: object
    targets: object
    prior: object
    weights: object


def losses(batch, temperature):
    """Every loss of a batch, by name; those of a sample are (b,), those of a batch ()."""
    s, o, y, q, u, v = batch
    at = {"temperature": temperature}
    views = compat.array_namespace(s).stack([s, o])
    mixed = mixed_targets(y, frozen(o), tau=0.2, **at)
    return {
        "representation": soft_cross_entropy(s, mixed, **at),
        "soft": soft_cross_entropy(s, q, **at),
        "center": center_loss(s, frozen(s), y, **at),
        "label": label_loss(s, y, **at),
        "two views": two_view_loss(views, frozen(views), y, alpha=0.2, **at),
        "reverse": reverse_cross_entropy(s, q, **at),
        "entropy": mean_entropy(s, **at),
        "divergence": prior_divergence(s, u, **at),
        "information": mutual_information(s, **at),
        "margin": information_margin_loss(s, v, u, margin_weight=0.1, **at),
        "forward": pseudo_label_divergence(q, u),
        "network": pseudo_label_loss(s, q, v, margin_weight=0.1, **at),
        "joint": joint_information_loss(s, o, **at),
        "joint, even": joint_information_loss(s, o, entropy_weight=1.5, **at),
        "labeling": self_labeling_loss(s, q, **at),
        "transport": transport_objective(s, q / s.shape[0], u, sharpness=25.0, **at),
    }


def frozen(array):
    return array.detach() if compat.is_torch_array(array) else array


def in_library(batch, xp, dtype=None):
    labels = xp.asarray(batch.labels)
    rest = [xp.asarray(a, dtype) for i, a in enumerate(batch) if i != 2]
    return Batch(*rest[:2], labels, *rest[2:])


def on_simplex(raw):
    return raw / raw.sum(axis=-1, keepdims=True)


@st.composite
def any_batches(draw):
    """Finite scores of any size, ties, opposite extremes; targets and priors with zeros."""
    dtype = draw(st.sampled_from(list(LARGEST)))
    top = float(dtype(LARGEST[dtype]))
    width = np.finfo(dtype).bits
    tiny = float(np.finfo(dtype).smallest_subnormal)
    entry = st.one_of(
        st.floats(-top, top, width=width),
        st.floats(-1.0, 1.0, width=width),
        st.sampled_from([0.0, -0.0, 1.0, -1.0, top, -top, tiny]),
    )
    n, k = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    s, o = (draw(arrays(dtype, (n, k), elements=entry)) for _ in range(2))
    y = draw(arrays(np.int64, n, elements=st.integers(0, k - 1)))
    share = st.sampled_from([0.0, 0.0, 1.0, 0.25, 1e-30, 0.1])
    q, u = (
        draw(arrays(np.float64, (n, k), elements=share)),
        draw(arrays(np.float64, k, elements=share)),
    )
    q, u = (on_simplex(np.where(a.sum(axis=-1, keepdims=True) > 0, a, 1.0)) for a in (q, u))
    v = draw(arrays(dtype, (2, k), elements=st.floats(-(2.0**60), 2.0**60, width=width)))
    temperature = draw(st.sampled_from([1e-3, 1.0, 1e3]) | st.floats(1e-3, 1e3))
    return Batch(s, o, y, q.astype(dtype), u.astype(dtype), v), temperature


def check_no_nan(xp, case):
    batch, temperature = case
    batch = in_library(batch, xp)
    for name, loss in losses(batch, temperature).items():
        assert np.isfinite(to_numpy(loss)).all(), name
    at = {"temperature": temperature}
    for array in (
        log_softmax(batch.scores, **at),
        smoothed_labels(batch.scores, **at),
        joint_distribution(batch.scores, batch.other, **at),
    ):
        assert np.isfinite(to_numpy(array)).all()


def check_no_nan_in_gradients(case):
    batch, temperature = case
    tensors = [torch.from_numpy(a.copy()) for a in batch]
    for i in (0, 1, 3, 5):
        tensors[i].requires_grad_()
    every = losses(Batch(*tensors), temperature)
    for name, loss in every.items():
        wanted = [tensors[i] for i in (0, 1, 3, 5)]
        found = torch.autograd.grad(loss.sum(), wanted, allow_unused=True, retain_graph=True)
        # A target's derivative is the logarithm itself, which a sum of rows may overflow.
        for tensor, gradient in zip(wanted, found, strict=True):
            if gradient is not None:
                assert not bool(gradient.isnan().any()), (name, tensor)


EXTREME = Batch(
    np.asarray([[3.4e38, -3.4e38], [-3.4e38, 3.4e38]], np.float32),
    np.asarray([[-3.4e38, 3.4e38], [-3.4e38, -3.4e38]], np.float32),
    np.asarray([1, 0]),
    np.asarray([[0.0, 1.0], [1.0, 0.0]], np.float32),
    np.asarray([0.0, 1.0], np.float32),
    np.asarray([[1e17, -1e17], [0.0, 0.0]], np.float32),
)


@example(case=(EXTREME, 1e-3))
@example(case=(EXTREME, 1e3))
@given(case=any_batches())
@examples(40)
def test_finite_input_gives_finite_losses(xp, case):
    check_no_nan(xp, case)


@example(case=(EXTREME, 1e-3))
@example(case=(EXTREME, 1e3))
@given(case=any_batches())
@examples(40)
def test_finite_input_gives_gradients_without_nan(case):
    check_no_nan_in_gradients(case)


@pytest.mark.slow
@given(case=any_batches())
@settings(max_examples=10_000)
def test_finite_input_gives_finite_losses_in_many_cases(xp, case):
    check_no_nan(xp, case)


@pytest.mark.slow
@given(case=any_batches())
@settings(max_examples=10_000)
def test_finite_input_gives_gradients_without_nan_in_many_cases(case):
    check_no_nan_in_gradients(case)


@st.composite
def batches(draw, min_rows=1):
    """Ordinary scores: multiples of 1/16, so that shifts and doublings are exact."""
    n, k = draw(st.integers(min_rows, 6)), draw(st.integers(1, 5))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    s, o = (rng.integers(-32, 33, size=(n, k)) / 16.0 for _ in range(2))
    q, u = rng.dirichlet(np.ones(k), size=n), rng.dirichlet(np.ones(k))
    batch = Batch(s, o, rng.integers(0, k, n), q, u, rng.normal(size=(3, k)))
    return batch, draw(st.sampled_from([0.05, 0.25, 1.0, 8.0]))


def assert_same(found, expected, rows=None):
    assert set(found) == set(expected)
    for name, value in expected.items():
        a, b = to_numpy(found[name]), to_numpy(value)
        b = b if rows is None or b.ndim == 0 else b[rows]
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-11, err_msg=name)


@given(case=batches(), data=st.data())
@examples(40)
def test_the_names_of_the_clusters_do_not_matter(xp, case, data):
    batch, temperature = case
    order = data.draw(st.permutations(range(batch.scores.shape[1])))
    place = np.argsort(order)
    s, o, y, q, u, v = batch
    moved = Batch(s[:, order], o[:, order], place[y], q[:, order], u[order], v[:, order])
    assert_same(
        losses(in_library(moved, xp), temperature), losses(in_library(batch, xp), temperature)
    )


@given(case=batches(), data=st.data())
@examples(40)
def test_the_order_of_the_samples_does_not_matter(xp, case, data):
    batch, temperature = case
    rows = data.draw(st.permutations(range(batch.scores.shape[0])))
    s, o, y, q, u, v = batch
    moved = Batch(s[rows], o[rows], y[rows], q[rows], u, v)
    assert_same(
        losses(in_library(moved, xp), temperature),
        losses(in_library(batch, xp), temperature),
        rows,
    )


@given(case=batches(), shift=st.integers(-64, 64))
@examples(40)
def test_a_shift_of_a_samples_scores_changes_nothing(xp, case, shift):
    batch, temperature = case
    by = shift * np.arange(1, batch.scores.shape[0] + 1)[:, None]
    moved = batch._replace(scores=batch.scores + by, other=batch.other - by)
    assert_same(
        losses(in_library(moved, xp), temperature), losses(in_library(batch, xp), temperature)
    )


@given(case=batches(), power=st.integers(-8, 8))
@examples(40)
def test_scores_and_temperature_have_one_unit(xp, case, power):
    batch, temperature = case
    scale = 2.0**power
    moved = batch._replace(scores=scale * batch.scores, other=scale * batch.other)
    assert_same(
        losses(in_library(moved, xp), scale * temperature),
        losses(in_library(batch, xp), temperature),
    )


@given(case=batches(), data=st.data())
@examples(40)
def test_a_column_far_below_changes_no_loss_of_a_sample(xp, case, data):
    batch, temperature = case
    n = batch.scores.shape[0]
    far = np.full((n, 1), -1e5)
    s, o, y, q, u, v = batch
    wider = Batch(
        np.hstack([s, far]), np.hstack([o, far]), y, np.hstack([q, 0.0 * far]),
        np.append(u, 0.0), np.hstack([v, np.zeros((3, 1))]),
    )  # fmt: skip
    before = losses(in_library(batch, xp), temperature)
    after = losses(in_library(wider, xp), temperature)
    assert_same(after, before)


@given(case=batches())
@examples(40)
def test_the_signs_and_bounds_of_information(xp, case):
    batch, temperature = case
    found = losses(in_library(batch, xp), temperature)
    k = np.log(batch.scores.shape[1])
    tol = 1e-11
    for name in ("soft", "center", "label", "two views", "reverse", "labeling", "network"):
        assert (to_numpy(found[name]) >= -tol).all(), name
    for name in ("entropy", "information"):
        assert -tol <= float(found[name]) <= k + tol, name
    for name in ("divergence", "forward", "margin"):
        assert float(found[name]) >= -tol, name
    assert -k - tol <= float(found["joint"]) <= tol
    # The joint of one view with itself tells no more than the samples do.
    s = xp.asarray(batch.scores)
    same = -float(joint_information_loss(s, s, temperature=temperature))
    assert same <= float(mutual_information(s, temperature=temperature)) + tol


@given(case=batches())
@examples(40)
def test_half_precision_stays_near(case):
    batch, temperature = case
    exact = losses(Batch(*(torch.from_numpy(a) for a in batch)), temperature)
    for dtype in (torch.float16, torch.bfloat16):
        half = Batch(*(torch.from_numpy(a) if a.dtype == np.int64 else torch.from_numpy(a).to(dtype)
                       for a in batch))  # fmt: skip
        full = Batch(*(a if a.dtype == torch.int64 else a.float() for a in half))
        found, raised = losses(half, temperature), losses(full, temperature)
        for name, loss in found.items():
            assert loss.dtype == torch.float32, name
            scale = 1.0 + abs(exact[name]).max()
            slack = 0.05 if name in {"transport"} else 1e-6
            torch.testing.assert_close(loss, raised[name], rtol=slack, atol=slack * float(scale))


@given(case=batches())
@examples(40)
def test_float16_of_numpy_is_computed_in_float32(case):
    batch, temperature = case
    half = Batch(*(a if a.dtype == np.int64 else a.astype(np.float16) for a in batch))
    full = Batch(*(a if a.dtype == np.int64 else a.astype(np.float32) for a in half))
    found, raised = losses(half, temperature), losses(full, temperature)
    for name in set(found) - {"transport"}:
        assert found[name].dtype == np.float32, name
        np.testing.assert_array_equal(found[name], raised[name], err_msg=name)


@given(case=batches())
@examples(40)
def test_two_view_targets_are_distributions_that_swap_with_the_views(xp, case):
    batch, temperature = case
    at = {"temperature": temperature, "alpha": 0.2}
    y = xp.asarray(batch.labels)
    views = np.stack([batch.scores, batch.other])
    target = partial(two_view_targets, y, **at)
    found = to_numpy(target(xp.asarray(views)))
    np.testing.assert_allclose(found.sum(axis=-1), 1.0, rtol=1e-13)
    assert (found >= 0).all()
    np.testing.assert_array_equal(to_numpy(target(xp.asarray(views[::-1].copy()))), found[::-1])


@given(
    weights=arrays(np.float64, (4, 5), elements=st.integers(0, 8).map(lambda i: i / 8)),
    order=st.permutations(range(5)),
)
@examples(40)
def test_smoothed_labels_keep_support_and_order(xp, weights, order):
    p = to_numpy(smoothed_labels(xp.asarray(weights)))
    np.testing.assert_array_equal(p > 0, weights > 0)
    np.testing.assert_allclose(p.sum(axis=1), (weights > 0).any(axis=1), rtol=1e-14)
    assert ((p[:, :, None] > p[:, None, :]) == (weights[:, :, None] > weights[:, None, :])).all()
    moved = to_numpy(smoothed_labels(xp.asarray(weights[:, order])))
    np.testing.assert_allclose(moved, p[:, order], rtol=1e-14)
