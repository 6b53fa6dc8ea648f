"""CoKe's losses against plain loops, their gradients, and Algorithm 2 as printed, which fails."""

import math

import numpy as np
import pytest
import torch

from dualclust.algos.core.errors import InvalidTypeError, InvalidValueError
from dualclust.algos.losses.coke import label_loss, smoothed_labels, two_view_loss, two_view_targets
from tests.compare import assert_close, assert_equal, to_numpy
from tests.problems import unit_rows

TEMPERATURES = [1e-3, 0.05, 1.0, 1e3]
TOLERANCE = {"float32": 3e-5, "float64": 1e-12}


def loop_softmax(row, temperature):
    """Probabilities and their logarithms, in Python floats."""
    logits = [float(s) / temperature for s in row]
    top = max(logits)
    log_z = top + math.log(math.fsum(math.exp(v - top) for v in logits))
    return [math.exp(v - log_z) for v in logits], [v - log_z for v in logits]


def loop_label_loss(scores, labels, temperature):
    """Eq. 14."""
    out = np.empty(labels.shape)
    for at in np.ndindex(labels.shape):
        out[at] = -loop_softmax(scores[at], temperature)[1][labels[at]]
    return out


def loop_two_views(scores, labels, temperature, alpha):
    """Targets and loss of Algorithm 2."""
    targets, loss = np.empty(scores.shape), np.zeros(labels.shape)
    for at in np.ndindex(labels.shape):
        for view in (0, 1):
            other, _ = loop_softmax(scores[(1 - view, *at)], temperature)
            _, log_p = loop_softmax(scores[(view, *at)], temperature)
            for k, p in enumerate(other):
                target = alpha * (k == labels[at]) + (1.0 - alpha) * p
                targets[(view, *at, k)] = target
                loss[at] -= 0.5 * target * log_p[k]
    return targets, loss


def loop_smoothed(weights, temperature):
    """Appendix B.2.2."""
    out = np.zeros(weights.shape)
    for at in np.ndindex(weights.shape[:-1]):
        support = [k for k, w in enumerate(weights[at]) if w > 0]
        z = math.fsum(math.exp(weights[at][k] / temperature) for k in support)
        for k in support:
            out[(*at, k)] = math.exp(weights[at][k] / temperature) / z
    return out


def problem(shape=(2, 5, 4), seed=0):
    rng = np.random.default_rng(seed)
    scores = rng.uniform(-1.0, 1.0, size=shape)
    return scores, rng.integers(0, shape[-1], size=shape[1:-1])


def near(actual, desired, xp, dtype):
    tol = TOLERANCE[dtype]
    assert_close(actual, xp.asarray(desired, dtype), rtol=tol, atol=tol)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("temperature", TEMPERATURES)
@pytest.mark.parametrize("shape", [(2, 5, 4), (2, 0, 4), (2, 3, 1), (2, 3, 5, 4)], ids=str)
def test_losses_are_the_loops(xp, shape, temperature, dtype):
    scores, labels = problem(shape)
    scores = scores.astype(dtype)
    s, y, options = xp.asarray(scores), xp.asarray(labels), {"temperature": temperature}
    expected = loop_label_loss(scores[0], labels, temperature)
    near(label_loss(s[0, ...], y, **options), expected, xp, dtype)
    for alpha in (0.0, 0.2, 1.0):
        targets, loss = loop_two_views(scores, labels, temperature, alpha)
        near(two_view_targets(y, s, alpha=alpha, **options), targets, xp, dtype)
        near(two_view_loss(s, s, y, alpha=alpha, **options), loss, xp, dtype)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("temperature", [0.05, 0.5, 1e3])
def test_smoothed_labels_are_the_loop(xp, rng, temperature, dtype):
    weights = rng.dirichlet(np.full(6, 0.5), size=(2, 7)) * (rng.random((2, 7, 6)) < 0.5)
    weights[0, 0] = 0.0
    found = smoothed_labels(xp.asarray(weights, dtype), temperature=temperature)
    near(found, loop_smoothed(weights.astype(dtype), temperature), xp, dtype)
    assert (to_numpy(found)[weights == 0] == 0).all()


def test_smoothing_keeps_a_one_hot_label_and_orders_the_others(xp):
    assert_equal(smoothed_labels(xp.asarray(np.eye(4))), xp.asarray(np.eye(4)))
    p = to_numpy(smoothed_labels(xp.asarray([[0.9, 0.1, 0.0, -0.5]])))
    assert p[0, 0] > p[0, 1] > p[0, 2] == p[0, 3] == 0.0
    np.testing.assert_allclose(p.sum(), 1.0, rtol=1e-15)
    flattest = to_numpy(smoothed_labels(xp.asarray([[1.0 - 1e-12, 1e-12]])))
    np.testing.assert_allclose(flattest[0, 0] / flattest[0, 1], math.exp(2.0), rtol=1e-9)


@pytest.mark.parametrize("temperature", [1e-3, 1.0, 1e3, 1e30])
def test_smoothed_labels_of_any_size_stay_on_their_support(xp, temperature):
    w = np.asarray([[1e37, 0.0, 1.0], [-1e37, 0.0, 1e-37], [0.0, -1.0, -1e37]])
    p = to_numpy(smoothed_labels(xp.asarray(w, "float32"), temperature=temperature))
    assert (p[w <= 0] == 0).all()
    np.testing.assert_allclose(p.sum(axis=1), [1.0, 1.0, 0.0], rtol=1e-6)


def test_the_target_of_a_view_comes_from_the_other(xp):
    scores, labels = problem()
    s, y = xp.asarray(scores), xp.asarray(labels)
    options = {"temperature": 0.1, "alpha": 0.2}
    before = to_numpy(two_view_targets(y, s, **options))
    changed = scores.copy()
    changed[0] = -changed[0]
    after = to_numpy(two_view_targets(y, xp.asarray(changed), **options))
    np.testing.assert_array_equal(after[0], before[0])
    assert (after[1] != before[1]).any()


def test_a_stored_label_alone_is_the_mean_of_both_label_losses(xp):
    scores, labels = problem()
    s, y = xp.asarray(scores), xp.asarray(labels)
    both = two_view_loss(s, s, y, temperature=0.1, alpha=1.0)
    one, two = (label_loss(s[j, ...], y, temperature=0.1) for j in (0, 1))
    assert_close(both, 0.5 * (one + two))


def test_the_softmax_form_is_the_distance_form_on_the_sphere_only(xp, rng):
    """Claim S3a: off the sphere the squared norms of the centers do not cancel."""
    y = rng.integers(0, 4, size=6)
    for on_sphere in (True, False):
        x, c = rng.normal(size=(6, 3)), rng.normal(size=(4, 3))
        x, c = (unit_rows(x), unit_rows(c)) if on_sphere else (x, c)
        distances = -0.5 * ((x[:, None] - c) ** 2).sum(axis=-1)
        a = to_numpy(label_loss(xp.asarray(x @ c.T), xp.asarray(y), temperature=0.3))
        b = to_numpy(label_loss(xp.asarray(distances), xp.asarray(y), temperature=0.3))
        assert np.allclose(a, b, rtol=1e-10) == on_sphere


# Gradients -------------------------------------------------------------------------------------


def leaf(array, dtype=torch.float64):
    return torch.tensor(array, dtype=dtype, requires_grad=True)


@pytest.mark.parametrize("temperature", [0.05, 1.0, 1e3])
def test_gradients_match_finite_differences(temperature):
    scores, labels = problem((2, 4, 3))
    s, y = leaf(scores), torch.from_numpy(labels)
    frozen = s.detach() + 0.1
    tol = {"eps": 1e-6 * min(temperature, 1.0), "atol": 1e-4 / min(temperature, 1.0)}
    assert torch.autograd.gradcheck(
        lambda s: label_loss(s[0], y, temperature=temperature), (s,), **tol
    )
    assert torch.autograd.gradcheck(
        lambda s: two_view_loss(s, frozen, y, temperature=temperature, alpha=0.2), (s,), **tol
    )


@pytest.mark.parametrize("temperature", TEMPERATURES)
def test_the_gradient_of_two_views_is_prediction_minus_target(temperature):
    scores, labels = problem()
    s = leaf(scores)
    y = torch.from_numpy(labels)
    two_view_loss(s, s.detach(), y, temperature=temperature, alpha=0.2).sum().backward()
    targets, _ = loop_two_views(scores, labels, temperature, 0.2)
    p = np.stack([[loop_softmax(row, temperature)[0] for row in view] for view in scores])
    np.testing.assert_allclose(
        s.grad.numpy(), 0.5 * (p - targets) / temperature, rtol=1e-9, atol=1e-14 / temperature
    )


def printed_algorithm_2(s, y, temperature, alpha, detach=False):
    """The loss as its listing says: logarithms of softmaxes, targets of live views."""
    e_1, e_2 = torch.exp(s[0] / temperature), torch.exp(s[1] / temperature)
    p_1, p_2 = (e / e.sum(dim=-1, keepdim=True) for e in (e_1, e_2))
    onehot = torch.eye(s.shape[-1], dtype=s.dtype)[y]
    q_1, q_2 = (p.detach() if detach else p for p in (p_1, p_2))
    y_1, y_2 = alpha * onehot + (1 - alpha) * q_2, alpha * onehot + (1 - alpha) * q_1
    return 0.5 * (-y_1 * p_1.log() - y_2 * p_2.log()).sum(dim=-1)


def test_the_printed_targets_must_be_detached():
    """Claim C24: the values agree, and the gradients only with a stop-gradient."""
    scores, labels = problem()
    y = torch.from_numpy(labels)
    gradients = []
    for loss in (
        lambda s: two_view_loss(s, s.detach(), y, temperature=0.5, alpha=0.2),
        lambda s: printed_algorithm_2(s, y, 0.5, 0.2, detach=True),
        lambda s: printed_algorithm_2(s, y, 0.5, 0.2),
    ):
        s = leaf(scores)
        values = loss(s)
        np.testing.assert_allclose(
            values.detach().numpy(), loop_two_views(scores, labels, 0.5, 0.2)[1], rtol=1e-12
        )
        values.sum().backward()
        gradients.append(s.grad.numpy())
    np.testing.assert_allclose(gradients[0], gradients[1], rtol=1e-9, atol=1e-13)
    assert np.abs(gradients[0] - gradients[2]).max() > 0.1


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_printed_logarithm_of_a_softmax_fails_where_it_underflows(dtype):
    scores, labels = problem()
    y, temperature = torch.from_numpy(labels), 1e-3
    s = leaf(scores, dtype)
    # As a softmax that is itself safe would give it.
    p = torch.softmax(s / temperature, dim=-1)
    printed = -(p.flip(0).detach() * p.log()).sum(dim=-1)
    assert bool(printed.isnan().any())
    assert bool(printed_algorithm_2(s, y, temperature, 0.2).isnan().any())
    ours = two_view_loss(s, s.detach(), y, temperature=temperature, alpha=0.2)
    ours.sum().backward()
    assert bool(ours.isfinite().all())
    assert bool(s.grad.isfinite().all())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_float32(dtype):
    scores, labels = problem()
    half, y = torch.from_numpy(scores).to(dtype), torch.from_numpy(labels)
    full = half.float()
    options = {"temperature": 0.05, "alpha": 0.2}
    assert_equal(label_loss(half[0], y, temperature=0.05), label_loss(full[0], y, temperature=0.05))
    assert_equal(two_view_targets(y, half, **options), two_view_targets(y, full, **options))
    assert_equal(two_view_loss(half, half, y, **options), two_view_loss(full, full, y, **options))
    assert_equal(smoothed_labels(half.abs()), smoothed_labels(full.abs()))
    s = half.clone().requires_grad_()
    two_view_loss(s, s.detach(), y, **options).sum().backward()
    assert s.grad.dtype == dtype
    assert bool(s.grad.isfinite().all())


def test_autocast_changes_no_bit():
    scores, labels = problem()
    s, y = torch.from_numpy(scores).float(), torch.from_numpy(labels)
    options = {"temperature": 0.05, "alpha": 0.2}
    outside = two_view_loss(s, s, y, **options), label_loss(s[0], y, temperature=0.05)
    with torch.autocast("cpu", torch.bfloat16):
        inside = two_view_loss(s, s, y, **options), label_loss(s[0], y, temperature=0.05)
    for a, b in zip(inside, outside, strict=True):
        assert_equal(a, b)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64"])
def test_labels_of_any_integer_dtype(xp, dtype):
    scores, labels = problem()
    s, y, same = xp.asarray(scores), xp.asarray(labels, dtype), xp.asarray(labels)
    options = {"temperature": 0.1, "alpha": 0.2}
    assert_equal(
        label_loss(s[0, ...], y, temperature=0.1), label_loss(s[0, ...], same, temperature=0.1)
    )
    assert_equal(two_view_loss(s, s, y, **options), two_view_loss(s, s, same, **options))


# What is refused -------------------------------------------------------------------------------


def test_shapes_and_numbers_that_do_not_fit(xp):
    scores, labels = problem()
    s, y = xp.asarray(scores), xp.asarray(labels)
    options = {"temperature": 0.1, "alpha": 0.2}
    for wrong in (s[0, ...], xp.asarray(np.zeros((3, 5, 4)))):
        with pytest.raises(InvalidValueError, match=r"must have shape \(2, ..., b, k\)"):
            two_view_targets(y, wrong, **options)
    with pytest.raises(InvalidValueError, match=r"labels must have shape \(5,\), got \(3,\)"):
        two_view_targets(y[:3], s, **options)
    with pytest.raises(InvalidValueError, match=r"labels must have shape \(5,\), got \(3,\)"):
        label_loss(s[0, ...], y[:3], temperature=0.1)
    with pytest.raises(InvalidValueError, match="frozen_scores must have shape"):
        two_view_loss(s, s[:, :3, :], y, **options)
    with pytest.raises(InvalidValueError, match=r"must lie in \[0, 1\]"):
        two_view_targets(y, s, temperature=0.1, alpha=1.5)
    for call in (
        lambda: label_loss(s[0, ...], y, temperature=0.0),
        lambda: two_view_loss(s, s, y, temperature=-1.0, alpha=0.2),
        lambda: smoothed_labels(s, temperature=math.nan),
    ):
        with pytest.raises(InvalidValueError, match=r"temperature must lie in \(0, inf\)"):
            call()
    with pytest.raises(InvalidTypeError, match="weights must have a real floating dtype"):
        smoothed_labels(y)
