"""GATCluster's targets, pairs and windows: invariances, bounds, finite results for any input."""

import math

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dualclust.algos.losses.gatcluster.attention import (
    Gaussian,
    attended_features,
    attention_map,
    full_gaussian,
    isotropic_gaussian,
)
from dualclust.algos.losses.gatcluster.relations import (
    relation_error,
    relation_gradient,
    relation_loss,
)
from dualclust.algos.losses.gatcluster.tasks import (
    attention_loss,
    balanced_targets,
    entropy_loss,
    gatcluster_loss,
    transformation_loss,
)
from tests.compare import to_numpy
from tests.examples import examples
from tests.libraries import LIBRARIES, ONE_EACH

NUMPY = LIBRARIES[0]
WIDTHS = {"float16": 16, "float32": 32, "float64": 64}


@st.composite
def batches(draw):
    """Dyadic logits of ordinary size, labels and targets of one batch; sums of logits are exact."""
    n, k = draw(st.integers(1, 7)), draw(st.integers(1, 5))
    logits = draw(arrays(np.int64, (n, k), elements=st.integers(-64, 64))) / 16.0
    labels = draw(arrays(np.int64, n, elements=st.integers(0, k - 1)))
    weights = draw(arrays(np.int64, (n, k), elements=st.integers(0, 8))) + np.eye(n, k) + 1e-3
    return logits, labels, weights / weights.sum(axis=1, keepdims=True)


def results(xp, logits, labels, targets):
    """(per batch, per sample, per sample and cluster), as NumPy."""
    x, y, t = xp.asarray(logits), xp.asarray(labels), xp.asarray(targets)
    found = relation_gradient(x, y, rows=2)
    batch = [relation_loss(x, y), found.value, relation_error(x, y, 8), entropy_loss(x)]
    batch += list(gatcluster_loss(x, x, y, t, t))
    rows = [transformation_loss(x, t), attention_loss(x, t)]
    cells = [balanced_targets(x), balanced_targets(x, sharpness=2.0), found.gradient]
    return tuple([to_numpy(v) for v in part] for part in (batch, rows, cells))


def assert_near(found, expected):
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-9)


@given(batch=batches(), data=st.data())
@examples(40)
def test_order_of_samples_and_names_of_clusters_do_not_matter(xp, batch, data):
    logits, labels, targets = batch
    n, k = logits.shape
    rows = np.array(data.draw(st.permutations(range(n))))
    columns = np.array(data.draw(st.permutations(range(k))))
    names = np.array(data.draw(st.permutations(range(8))))
    before = results(xp, logits, labels, targets)
    after = results(xp, logits[rows][:, columns], names[labels[rows]], targets[rows][:, columns])
    assert_near(after[0], before[0])
    assert_near(after[1], [v[rows] for v in before[1]])
    assert_near(after[2], [v[rows][:, columns] for v in before[2]])


@given(batch=batches(), data=st.data())
@examples(40)
def test_a_shift_of_a_row_changes_nothing(xp, batch, data):
    logits, labels, targets = batch
    shift = data.draw(arrays(np.int64, (len(labels), 1), elements=st.integers(-(2**20), 2**20)))
    for a, b in zip(
        results(xp, logits + shift / 16.0, labels, targets),
        results(xp, logits, labels, targets),
        strict=True,
    ):
        assert_near(a, b)


@given(batch=batches())
@examples(40)
def test_a_batch_twice_has_the_same_targets_and_entropy(xp, batch):
    logits, *_ = batch
    twice = np.concatenate([logits, logits])
    for sharpness in (1.0, 2.0):
        options = {"sharpness": sharpness, "empty": 1e-30}
        once = to_numpy(balanced_targets(xp.asarray(logits), **options))
        found = to_numpy(balanced_targets(xp.asarray(twice), **options))
        np.testing.assert_allclose(found, np.concatenate([once, once]), rtol=1e-10, atol=1e-300)
    a, b = (float(entropy_loss(xp.asarray(x))) for x in (logits, twice))
    assert a == pytest.approx(b, rel=1e-12, abs=1e-14)


@given(batch=batches(), floor=st.floats(1e-12, 0.49))
@examples(40)
def test_losses_keep_their_bounds(xp, batch, floor):
    logits, labels, targets = batch
    x, y, t = xp.asarray(logits), xp.asarray(labels), xp.asarray(targets)
    k, slack = logits.shape[1], 1e-9
    pairs = float(relation_loss(x, y, floor=floor))
    assert -math.log1p(-floor) - slack <= pairs <= -math.log(floor) + slack
    assert 0.0 <= float(relation_error(x, y, k)) <= 1.0 + slack
    assert -math.log(k) - slack <= float(entropy_loss(x)) <= slack
    moved, attended = to_numpy(transformation_loss(x, t)), to_numpy(attention_loss(x, t))
    assert (moved >= -1.0 - slack).all()
    assert (moved <= 0.0).all()
    # No label feature is better than the target itself.
    best = to_numpy(attention_loss(xp.asarray(np.log(targets)), t))
    assert (attended >= best - slack).all()
    assert (best >= -slack).all()


@given(batch=batches(), rows=st.integers(1, 9), floor=st.floats(1e-6, 0.49))
@examples(40)
def test_any_block_gives_the_same_value_and_gradient(xp, batch, rows, floor):
    logits, labels, _ = batch
    x, y = xp.asarray(logits), xp.asarray(labels)
    found = relation_gradient(x, y, floor=floor, rows=rows)
    whole = relation_gradient(x, y, floor=floor)
    assert float(found.value) == pytest.approx(float(whole.value), rel=1e-9)
    np.testing.assert_allclose(
        to_numpy(found.gradient), to_numpy(whole.gradient), rtol=1e-9, atol=1e-9
    )


@given(
    raw=arrays(np.float64, 5, elements=st.floats(-8, 8)),
    size=st.tuples(st.integers(1, 7), st.integers(1, 7)),
    log_scale=st.floats(-3, 3),
)
@examples(40)
def test_windows_scale_mirror_and_stay_inside(xp, raw, size, log_scale):
    window = full_gaussian(xp.asarray(raw))
    a, scale = to_numpy(attention_map(window, size)), 2.0**log_scale
    wider = Gaussian(window.mean, window.variances * scale, window.correlation)
    b = to_numpy(attention_map(wider, size, alpha=0.1 / scale))
    np.testing.assert_allclose(b, a, rtol=1e-8, atol=1e-300)
    mirrored = full_gaussian(xp.asarray(raw * [-1, -1, 1, 1, 1]))
    c = to_numpy(attention_map(mirrored, size))
    np.testing.assert_allclose(c, a[::-1, ::-1], rtol=1e-8, atol=1e-300)
    assert (a >= 0).all()
    assert (a <= 1).all()


# Any finite input ------------------------------------------------------------------------------


@st.composite
def finite_arrays(draw, *shapes):
    """Arrays of one dtype with any finite entries: of any size, subnormal, equal, at the ends."""
    name = draw(st.sampled_from(list(WIDTHS)))
    top = float(np.finfo(name).max)
    entry = st.one_of(
        st.floats(-top, top, width=WIDTHS[name]),
        st.floats(-30, 30, width=WIDTHS[name]),
        st.sampled_from(
            [0.0, -0.0, 1.0, -1e4, top, -top, float(np.finfo(name).smallest_subnormal)]
        ),
    )
    return [draw(arrays(name, shape, elements=entry)) for shape in shapes]


@st.composite
def finite_batches(draw):
    n, k = draw(st.integers(1, 5)), draw(st.integers(1, 5))
    logits, other = draw(finite_arrays((n, k), (n, k)))
    labels = draw(arrays(np.int64, n, elements=st.integers(0, k - 1)))
    targets = np.eye(k, dtype=logits.dtype)[draw(arrays(np.int64, n, elements=labels_of(k)))]
    soft = draw(st.floats(0, 1))
    targets = ((1 - soft) * targets + soft / k).astype(logits.dtype)
    options = {"sharpness": draw(st.sampled_from([0.5, 1.0, 2.0, 1e3]))}
    options["empty"] = draw(st.sampled_from([1e-30, 1e-5, 1.0]))
    return logits, other, labels, targets, options, draw(st.sampled_from([1e-12, 1e-5, 0.4]))


def labels_of(k):
    return st.integers(0, k - 1)


def assert_finite_with_gradients(call, *leaves):
    for part in call(*leaves):
        assert bool(part.isfinite().all()), f"value {part}"
        if not part.requires_grad:  # a correlation of 0
            continue
        for x in leaves:
            x.grad = None
        part.sum().backward(retain_graph=True)
        for x in leaves:
            assert x.grad is None or bool(x.grad.isfinite().all()), f"gradient {x.grad}"


def judge_losses(batch):
    logits, other, labels, targets, options, floor = batch
    y, t = torch.from_numpy(labels), torch.from_numpy(targets)
    x, a = (torch.tensor(v, requires_grad=True) for v in (logits, other))
    assert_finite_with_gradients(
        lambda x, a: (
            *gatcluster_loss(x, a, y, t, t, floor=floor),
            balanced_targets(x, **options),
            transformation_loss(x, t),
            attention_loss(x, t),
            entropy_loss(x),
            relation_loss(x, y, floor=floor),
            relation_error(x, y, logits.shape[1]),
        ),
        x,
        a,
    )
    for part in relation_gradient(x.detach(), y, floor=floor, rows=2):
        assert bool(part.isfinite().all())


@st.composite
def finite_windows(draw):
    size = draw(st.tuples(st.integers(1, 5), st.integers(1, 5)))
    (raw,) = draw(finite_arrays((2, 5)))
    v, c = draw(st.sampled_from([1e-6, 1e-4, 0.5])), draw(st.sampled_from([0.0, 0.95, 0.999999]))
    return raw, size, v, c, draw(st.sampled_from([1e-6, 0.1, 1e6]))


def judge_windows(window):
    raw, size, v, c, alpha = window
    features = torch.ones(2, 3, *size)

    def call(raw):
        full = full_gaussian(raw, min_variance=v, max_correlation=c)
        round_ = isotropic_gaussian(raw[:, :3], min_variance=v)
        maps = [attention_map(g, size, alpha=alpha) for g in (full, round_)]
        return *full, *round_, *maps, attended_features(features, maps[0])

    assert_finite_with_gradients(call, torch.tensor(raw, requires_grad=True))


FAR = np.array([[1e300, -1e300, 0.0], [-1e308, 1e308, 1e308]])


def test_the_check_of_finite_results_can_fail():
    x = torch.tensor([[200.0, 0.0]], requires_grad=True)
    for printed in (
        lambda x: (torch.softmax(x, 1) * torch.softmax(x, 1).log(),),  # Eq. 8: 0 log 0
        lambda x: ((x[0, 1] ** 2).sqrt(),),  # a finite value without a finite slope
    ):
        with pytest.raises(AssertionError):
            assert_finite_with_gradients(printed, x)


@given(batch=finite_batches())
@example(batch=(FAR, FAR, np.array([0, 1]), np.eye(3)[:2], {}, 1e-12))
@example(batch=(FAR[:1], FAR[:1], np.array([0]), np.eye(3)[1:2], {}, 1e-12))
@examples(40)
def test_losses_are_finite_for_any_finite_input(batch):
    judge_losses(batch)


@given(window=finite_windows())
@examples(40)
def test_windows_are_finite_for_any_finite_input(window):
    judge_windows(window)


@pytest.mark.slow
@given(batch=finite_batches())
@settings(max_examples=10_000)
def test_losses_are_finite_for_any_finite_input_at_length(batch):
    judge_losses(batch)


@pytest.mark.slow
@given(window=finite_windows())
@settings(max_examples=10_000)
def test_windows_are_finite_for_any_finite_input_at_length(window):
    judge_windows(window)


def judge_values(xp, batch):
    logits, _, labels, targets, options, floor = batch
    if logits.dtype == np.float16:  # the standard has no such type
        logits, targets = logits.astype(np.float32), targets.astype(np.float32)
    x, y, t = xp.asarray(logits), xp.asarray(labels), xp.asarray(targets)
    with np.errstate(over="ignore"):  # differences of the largest floats, made finite below
        found = [
            *gatcluster_loss(x, x, y, t, t, floor=floor),
            *relation_gradient(x, y, floor=floor),
            balanced_targets(x, **options),
        ]
    for part in found:
        assert np.isfinite(to_numpy(part)).all()


def judge_maps(xp, window):
    raw, size, v, c, alpha = window
    raw = xp.asarray(raw.astype(np.float32) if raw.dtype == np.float16 else raw)
    full = full_gaussian(raw, min_variance=v, max_correlation=c)
    for g in (full, isotropic_gaussian(raw[:, :3], min_variance=v)):
        for part in (*g, attention_map(g, size, alpha=alpha)):
            assert np.isfinite(to_numpy(part)).all()


@given(batch=finite_batches(), window=finite_windows())
@examples(40)
def test_values_are_finite_on_every_library(xp, batch, window):
    judge_values(xp, batch)
    judge_maps(xp, window)


@pytest.mark.slow
@pytest.mark.parametrize("xp", ONE_EACH, ids=lambda library: library.name, indirect=True)
@given(batch=finite_batches(), window=finite_windows())
@settings(max_examples=10_000)
def test_values_are_finite_on_every_library_at_length(xp, batch, window):
    judge_values(xp, batch)
    judge_maps(xp, window)
