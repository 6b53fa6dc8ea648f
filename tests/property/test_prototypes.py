"""What leaves prototypes and their losses unchanged, and finite for every finite input."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dualclust.algos.losses.propos.prototypes import (
    Prototypes,
    batch_prototypes,
    normalize_sums,
    update_prototypes,
    weighted_sums,
)
from dualclust.algos.losses.propos.scattering import (
    perturbed,
    positive_sampling_alignment,
    prototypical_alignment,
    prototypical_uniformity,
    psl_cross_view,
    psl_mixed_view,
    psl_same_view,
)
from tests.compare import assert_close, assert_equal, to_numpy
from tests.examples import examples
from tests.libraries import ONE_EACH

FORMS = (psl_same_view, psl_cross_view, psl_mixed_view, prototypical_alignment)
TOP = {"float32": 3e38, "float64": 1.7e308}


@st.composite
def batches(draw):
    """Two views of ordinary features, labels with empty clusters, and their number."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    b, k, d = draw(st.integers(1, 20)), draw(st.integers(1, 6)), draw(st.integers(2, 6))
    x = rng.normal(size=(2, b, d)) + draw(st.sampled_from([0.0, 1.0]))
    return x, rng.integers(0, k, size=b), k, rng


def losses(xp, x, y, k, temperature=0.5):
    mu, target = (batch_prototypes(xp.asarray(v), xp.asarray(y), n_clusters=k) for v in x)
    values = [float(f(mu, target, temperature=temperature)) for f in FORMS]
    values.append(float(prototypical_uniformity(mu, temperature=temperature)))
    values.append(float(positive_sampling_alignment(xp.asarray(x[0]), xp.asarray(x[1]))))
    return mu, np.asarray(values)


@given(problem=batches())
@examples(30)
def test_the_order_of_samples_changes_nothing(xp, problem):
    x, y, k, rng = problem
    order = rng.permutation(len(y))
    mu, before = losses(xp, x, y, k)
    again, after = losses(xp, x[:, order], y[order], k)
    assert_close(again.vectors, mu.vectors, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(after, before, rtol=1e-10, atol=1e-10)


@given(problem=batches())
@examples(30)
def test_the_names_of_clusters_change_nothing(xp, problem):
    x, y, k, rng = problem
    names = rng.permutation(k)
    mu, before = losses(xp, x, y, k)
    again, after = losses(xp, x, names[y], k)
    np.testing.assert_allclose(to_numpy(again.vectors)[names], to_numpy(mu.vectors), atol=1e-14)
    np.testing.assert_allclose(after, before, rtol=1e-12, atol=1e-12)


@given(problem=batches())
@examples(30)
def test_prototypes_turn_with_the_features_and_losses_stay(xp, problem):
    x, y, k, rng = problem
    rotation, _ = np.linalg.qr(rng.normal(size=(x.shape[2],) * 2))
    mu, before = losses(xp, x, y, k)
    again, after = losses(xp, x @ rotation, y, k)
    np.testing.assert_allclose(to_numpy(again.vectors), to_numpy(mu.vectors) @ rotation, atol=1e-10)
    np.testing.assert_allclose(after, before, rtol=1e-9, atol=1e-9)


@given(problem=batches(), exponent=st.integers(-400, 900))
@examples(30)
def test_a_power_of_two_of_the_features_changes_no_bit(xp, problem, exponent):
    x, y, k, _ = problem
    x = np.where(np.abs(x) < 1e-6, 1e-6, x)
    mu, before = losses(xp, x, y, k)
    again, after = losses(xp, np.ldexp(x, exponent), y, k)
    assert_equal(again.vectors, mu.vectors)
    assert_equal(xp.asarray(after), xp.asarray(before))


@given(problem=batches())
@examples(30)
def test_lengths_of_single_features_change_nothing(xp, problem):
    x, y, k, rng = problem
    lengths = np.exp(rng.normal(scale=5.0, size=(2, len(y), 1)))
    mu, before = losses(xp, x, y, k)
    again, after = losses(xp, x * lengths, y, k)
    assert_close(again.vectors, mu.vectors, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(after, before, rtol=1e-9, atol=1e-9)


@given(problem=batches(), more=st.integers(1, 5), temperature=st.floats(1e-3, 1e3))
@examples(30)
def test_empty_clusters_more_change_nothing(xp, problem, more, temperature):
    x, y, k, _ = problem
    _, before = losses(xp, x, y, k, temperature)
    _, after = losses(xp, x, y, k + more, temperature)
    np.testing.assert_allclose(after, before, rtol=1e-12, atol=1e-12 / temperature)


@given(problem=batches(), temperature=st.floats(1e-3, 1e3))
@examples(30)
def test_losses_keep_their_ranges(xp, problem, temperature):
    x, y, k, _ = problem
    mu, (same, cross, mixed, alignment, _, psa) = losses(xp, x, y, k, temperature)
    largest = 2.0 / temperature + np.log(max(int(to_numpy(mu.valid).sum()), 1))
    for value in (same, cross, mixed):
        assert -1e-9 / temperature <= value <= largest * (1 + 1e-9)
    assert abs(alignment) <= (1 + 1e-12) / temperature
    assert 0.0 <= psa <= 4.0 * (1 + 1e-15)


@st.composite
def extremes(draw):
    """Finite entries of any size, in two views; labels of clusters and of none; soft weights."""
    dtype = draw(st.sampled_from(list(TOP)))
    width = 32 if dtype == "float32" else 64
    top = float(np.dtype(dtype).type(TOP[dtype]))
    tiny = float(np.finfo(dtype).smallest_subnormal)
    root = float(np.dtype(dtype).type(np.sqrt(float(np.finfo(dtype).smallest_normal))))
    special = [0.0, -0.0, 1.0, -1.0, top, -top, tiny, root, -2.0 * root]
    entry = st.one_of(st.floats(-top, top, width=width), st.sampled_from(special))
    b, d, k = draw(st.integers(1, 5)), draw(st.integers(1, 4)), draw(st.integers(1, 4))
    x = draw(arrays(np.dtype(dtype), (2, b, d), elements=entry))
    if draw(st.booleans()):  # cancelling, or the same
        x[:, -1] = draw(st.sampled_from([1, -1])) * x[:, 0]
    y = draw(arrays(np.int64, b, elements=st.integers(-1, k - 1)))
    share = st.one_of(st.floats(0.0, 1.0, width=width), st.sampled_from([tiny, root]))
    weights = draw(arrays(np.dtype(dtype), (b, k), elements=share))
    temperature = draw(st.one_of(st.floats(1e-3, 1e3), st.sampled_from([1e-3, 0.5, 1e3])))
    return x, y, weights, k, temperature


def everything_is_finite(problem):
    x, y, weights, k, temperature = problem
    views = [torch.from_numpy(v.copy()).requires_grad_() for v in x]
    w, labels = torch.from_numpy(weights.copy()).requires_grad_(), torch.from_numpy(y)
    for soft in (False, True):
        if soft:
            mu, target = (normalize_sums(weighted_sums(v, w), dtype=v.dtype) for v in views)
        else:
            mu, target = (batch_prototypes(v, labels, n_clusters=k) for v in views)
        moved = update_prototypes(mu, target, momentum=0.5)
        start = Prototypes(torch.zeros_like(mu.vectors), torch.zeros_like(mu.valid))
        moved = update_prototypes(start, moved, momentum=0.9)
        values = [f(mu, moved, temperature=temperature) for f in FORMS]
        values.append(prototypical_uniformity(mu, temperature=temperature))
        values.append(positive_sampling_alignment(*views))
        v = perturbed(views[0], torch.ones_like(views[0]), sigma=0.001)
        values.append(positive_sampling_alignment(v, views[1]))
        for value in values:
            assert torch.isfinite(value)
            leaves = [*views, w]
            for gradient in torch.autograd.grad(
                value, leaves, retain_graph=True, allow_unused=True
            ):
                assert gradient is None or torch.isfinite(gradient).all()


@given(problem=extremes())
@examples(40)
def test_values_and_gradients_are_finite(problem):
    everything_is_finite(problem)


@pytest.mark.slow
@given(problem=extremes())
@settings(max_examples=10_000)
def test_values_and_gradients_are_finite_at_length(problem):
    everything_is_finite(problem)


def judge_values(xp, problem):
    x, y, _, k, temperature = problem
    mu, values = losses(xp, x, y, k, temperature)
    assert np.isfinite(values).all()
    rows, valid = to_numpy(mu.vectors).astype(np.float64), to_numpy(mu.valid)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), valid.astype(float), rtol=1e-6)


@given(problem=extremes())
@examples(40)
def test_values_are_finite_on_every_library(xp, problem):
    judge_values(xp, problem)


@pytest.mark.slow
@pytest.mark.parametrize("xp", ONE_EACH, ids=lambda library: library.name, indirect=True)
@given(problem=extremes())
@settings(max_examples=10_000)
def test_values_are_finite_on_every_library_at_length(xp, problem):
    judge_values(xp, problem)
