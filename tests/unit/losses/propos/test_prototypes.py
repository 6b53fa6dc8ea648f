"""Prototypes against plain loops, where the printed fraction is 0/0, and what a step costs."""

import math

import numpy as np
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from dualclust.algos.core.directions import unit_directions
from dualclust.algos.core.errors import DeviceMismatchError, DualclustError
from dualclust.algos.losses.propos.prototypes import (
    Prototypes,
    PrototypeSums,
    batch_prototypes,
    moving_average,
    normalize_sums,
    prototype_sums,
    update_prototypes,
    weighted_sums,
)
from dualclust.algos.losses.propos.scattering import (
    perturbed,
    positive_sampling_alignment,
    psl_mixed_view,
)
from tests.compare import assert_close, assert_equal, assert_same_kind, to_numpy
from tests.problems import unit_rows
from tests.refusals import assert_refused

EPS = {"float32": 2.0**-23, "float64": 2.0**-52}
WAITING = ("_local_scalar_dense", "item", "nonzero", "unique", "masked_select", "equal")


def loop_prototypes(x, weights):
    """Eq. 6 entry by entry; None where the fraction is 0/0."""
    (b, d), k = x.shape, weights.shape[1]
    prototypes = []
    for c in range(k):
        total = [0.0] * d
        for i in range(b):
            length = math.sqrt(sum(float(v) ** 2 for v in x[i]))
            for j in range(d):
                total[j] += weights[i, c] * x[i, j] / length
        length = math.sqrt(sum(v * v for v in total))
        prototypes.append([v / length for v in total] if length > 1e-9 else None)
    return prototypes


def problem(seed=0, b=30, k=5, d=4):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(b, d)), rng.integers(0, k, size=b)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_prototypes_are_the_loop(xp, dtype):
    x, y = problem()
    y[y == 3] = 2  # cluster 3 is empty
    found = batch_prototypes(xp.asarray(x, dtype), xp.asarray(y), n_clusters=5)
    expected = loop_prototypes(x.astype(dtype), np.eye(5)[y])
    assert to_numpy(found.valid).tolist() == [row is not None for row in expected]
    rows = np.asarray([row or [0.0] * 4 for row in expected])
    assert_close(found.vectors, xp.asarray(rows, dtype), rtol=16 * EPS[dtype], atol=4 * EPS[dtype])


def test_soft_weights_are_the_loop(xp, rng):
    x, _ = problem()
    weights = rng.dirichlet(np.ones(5), size=30)
    sums = weighted_sums(xp.asarray(x), xp.asarray(weights))
    found = normalize_sums(sums)
    assert_close(found.vectors, xp.asarray(loop_prototypes(x, weights)), rtol=1e-12)
    assert_close(sums.mass, xp.asarray(weights.sum(axis=0)), rtol=1e-14)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_results_are_of_the_kind_of_the_features(xp, dtype):
    x, y = problem()
    features, labels = xp.asarray(x, dtype), xp.asarray(y)
    found = batch_prototypes(features, labels, n_clusters=30)
    assert_same_kind(found.vectors, features)
    assert_same_kind(found.valid, xp.asarray(np.zeros(30, bool)))
    assert_same_kind(moving_average(features, features, momentum=0.5), features)
    moved = update_prototypes(found, found, momentum=0.5)
    assert_same_kind(moved.vectors, features)
    sums = prototype_sums(features, labels, n_clusters=30)
    assert_same_kind(sums.sums, xp.asarray(np.zeros((30, 4))))
    norms = np.linalg.norm(to_numpy(found.vectors).astype(np.float64), axis=1)
    np.testing.assert_allclose(norms[to_numpy(found.valid)], 1.0, rtol=4 * EPS[dtype])
    assert (norms[~to_numpy(found.valid)] == 0.0).all()


def test_erratum_the_printed_fraction_of_an_empty_and_of_a_cancelling_cluster(xp):
    """Claim P5: Eq. 6 is 0/0 there, and NaN from then on."""
    x, y = np.asarray([[1.0, 0.0], [3.0, 4.0], [-6.0, -8.0]]), np.asarray([0, 1, 1])
    with np.errstate(invalid="ignore"):
        unit = unit_rows(x)
        sums = np.stack([unit[y == k].sum(axis=0) for k in range(3)])
        printed = sums / np.linalg.norm(sums, axis=1, keepdims=True)
    assert np.isnan(printed[1:]).all()
    found = batch_prototypes(xp.asarray(x), xp.asarray(y), n_clusters=3)
    assert_equal(found.vectors, xp.asarray([[1.0, 0.0], [0.0, 0.0], [0.0, 0.0]]))
    assert to_numpy(found.valid).tolist() == [True, False, False]


def test_features_that_cancel_but_for_rounding_are_masked(xp):
    angles = np.asarray([0.1, 0.1 + 2 * np.pi / 3, 0.1 + 4 * np.pi / 3])
    x = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype("float32")
    assert np.linalg.norm(x.sum(axis=0)) > 0.0
    found = batch_prototypes(xp.asarray(x), xp.asarray([0, 0, 0]), n_clusters=1)
    assert not to_numpy(found.valid).any()
    nearly = x.copy()
    nearly[0] *= np.float32(-1.0)  # no longer balanced
    assert to_numpy(batch_prototypes(xp.asarray(nearly), xp.asarray([0, 0, 0]), n_clusters=1).valid)


def test_empty_clusters_more_change_nothing(xp):
    x, y = problem()
    few = batch_prototypes(xp.asarray(x), xp.asarray(y), n_clusters=5)
    many = batch_prototypes(xp.asarray(x), xp.asarray(y), n_clusters=9)
    np.testing.assert_allclose(to_numpy(many.vectors)[:5], to_numpy(few.vectors), rtol=1e-15)
    assert not to_numpy(many.valid)[5:].any()


def test_labels_of_no_cluster_and_rows_of_zeros_take_no_part(xp):
    x, y = problem()
    whole = batch_prototypes(xp.asarray(x), xp.asarray(y), n_clusters=5)
    more = np.concatenate([x, [[1e9, 0, 0, 0], [0, 5, 0, 0], [0, 0, 0, 0]]])
    labels = np.concatenate([y, [-1, 5, 0]])
    found = batch_prototypes(xp.asarray(more), xp.asarray(labels), n_clusters=5)
    assert_close(found.vectors, whole.vectors, atol=1e-15)
    sums = prototype_sums(xp.asarray(more), xp.asarray(labels), n_clusters=5)
    assert_equal(sums.mass, xp.asarray(np.bincount(y, minlength=5).astype(float)))


def test_two_ranks_are_one(xp):
    """Claim P5: emptiness is judged by all ranks' samples, not by those of each."""
    x, y = problem(b=8, k=6)
    features, labels = xp.asarray(x), xp.asarray(y)
    a = prototype_sums(features[:4, :], labels[:4], n_clusters=6)
    b = prototype_sums(features[4:, :], labels[4:], n_clusters=6)
    assert (to_numpy(a.mass) > 0).tolist() != (to_numpy(b.mass) > 0).tolist()
    both = normalize_sums(PrototypeSums(a.sums + b.sums, a.mass + b.mass))
    whole = batch_prototypes(features, labels, n_clusters=6)
    assert_close(both.vectors, whole.vectors, atol=1e-15)
    assert_equal(both.valid, whole.valid)


def test_erratum_a_batch_of_fewer_samples_than_clusters_covers_not_all(xp):
    """Claim P6: with K > |B| some cluster is masked, always."""
    x, _ = problem(b=5)
    found = batch_prototypes(xp.asarray(x), xp.asarray([0, 1, 2, 3, 4]), n_clusters=6)
    assert int(to_numpy(found.valid).sum()) == 5


@pytest.mark.parametrize("size", [1e-300, 1e-150, 1.0, 1e150, 1e300])
def test_directions_of_any_size(xp, size):
    row = xp.asarray([[3.0 * size, -4.0 * size], [0.0, -0.0]])
    found = unit_directions(row)
    if size > 1e-153:
        np.testing.assert_allclose(to_numpy(found.vectors)[0], [0.6, -0.8], rtol=4e-16)
        assert to_numpy(found.valid).tolist() == [True, False]
    else:  # its gradient, 1 / size, would overflow
        assert to_numpy(found.valid).tolist() == [False, False]


def test_moving_average_has_its_two_ends_and_contracts(xp, rng):
    """Eq. 11, claim P10."""
    a, v = xp.asarray(rng.normal(size=(3, 2))), xp.asarray(rng.normal(size=(3, 2)))
    assert_equal(moving_average(a, v, momentum=1.0), a)
    assert_equal(moving_average(a, v, momentum=0.0), v)
    first = np.linalg.norm(to_numpy(a) - to_numpy(v))
    for _ in range(10):
        a = moving_average(a, v, momentum=0.7)
    assert math.isclose(np.linalg.norm(to_numpy(a) - to_numpy(v)), first * 0.7**10, rel_tol=1e-12)


def test_updated_prototypes_are_the_loop(xp, rng):
    old, new = unit_rows(rng.normal(size=(5, 3))), unit_rows(rng.normal(size=(5, 3)))
    new[4] = -old[4]  # cancels at one half
    old_valid = np.asarray([True, True, False, False, True])
    new_valid = np.asarray([True, False, True, False, True])
    old[~old_valid], new[~new_valid] = 0.0, 0.0
    found = update_prototypes(
        Prototypes(xp.asarray(old), xp.asarray(old_valid)),
        Prototypes(xp.asarray(new), xp.asarray(new_valid)),
        momentum=0.5,
    )
    expected = np.stack([unit_rows(old[0] + new[0]), old[1], new[2], np.zeros(3), old[4]])
    assert_close(found.vectors, xp.asarray(expected), atol=1e-15)
    assert to_numpy(found.valid).tolist() == [True, True, True, False, True]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_momentum_one_freezes_prototypes(xp, rng, dtype):
    old, new = (
        Prototypes(xp.asarray(unit_rows(rng.normal(size=(50, 3))), dtype), xp.asarray([True] * 50))
        for _ in range(2)
    )
    assert_equal(update_prototypes(old, new, momentum=1.0).vectors, old.vectors)
    replaced = update_prototypes(old, new, momentum=0.0).vectors
    assert_close(replaced, new.vectors, rtol=2 * EPS[dtype])


def test_gradients():
    x, y = problem(b=9, k=4, d=3)
    y = torch.from_numpy(np.where(y == 3, 0, y))  # one empty cluster
    features = torch.from_numpy(x).requires_grad_()
    weights = torch.from_numpy(np.random.default_rng(1).dirichlet(np.ones(3), size=9))
    torch.autograd.gradcheck(lambda f: batch_prototypes(f, y, n_clusters=4).vectors, features)
    torch.autograd.gradcheck(
        lambda f, w: normalize_sums(weighted_sums(f, w)).vectors,
        (features, weights.requires_grad_()),
    )
    old = Prototypes(torch.eye(4, 3, dtype=torch.float64), torch.tensor([True] * 3 + [False]))
    torch.autograd.gradcheck(
        lambda f: (
            update_prototypes(old, batch_prototypes(f, y, n_clusters=4), momentum=0.9).vectors
        ),
        features,
    )


def test_masked_clusters_give_no_gradient():
    features = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 0.0], [0.6, 0.8]], requires_grad=True)
    found = batch_prototypes(features, torch.tensor([0, 0, 1, 2]), n_clusters=4)
    (found.vectors * torch.tensor([[3.0, -7.0]])).sum().backward()
    assert found.valid.tolist() == [False, False, True, False]
    assert (features.grad[:3] == 0).all()
    assert (features.grad[3] != 0).all()


def test_autocast_leaves_the_products_alone():
    """In bfloat16 a product of matrices has 8 bits; the check sees it on the plain formula."""
    x, y = problem(b=200, d=64)
    features, labels = torch.from_numpy(x).float(), torch.from_numpy(y)
    one_hot = torch.nn.functional.one_hot(labels, 5).float()
    expected = batch_prototypes(features, labels, n_clusters=5)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = batch_prototypes(features, labels, n_clusters=5)
        plain = one_hot.T @ torch.nn.functional.normalize(features)
    assert_equal(found.vectors, expected.vectors)
    assert plain.dtype == torch.bfloat16
    plain = torch.nn.functional.normalize(plain.float())
    assert (plain - expected.vectors).abs().max() > 1e-4


def test_half_precision_is_computed_in_more():
    x, y = problem(b=200)
    features, labels = torch.from_numpy(x).bfloat16(), torch.from_numpy(y)
    found = batch_prototypes(features, labels, n_clusters=5)
    assert found.vectors.dtype == torch.float32
    exactly = batch_prototypes(features.double(), labels, n_clusters=5)
    np.testing.assert_allclose(found.vectors, exactly.vectors, rtol=1e-6, atol=1e-7)


class Operations(TorchDispatchMode):
    """The names of what reaches the dispatcher."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.names.append(function.name().removeprefix("aten::").partition(".")[0])
        return function(*args, **(kwargs or {}))

    @property
    def waiting(self):
        return {name for name in self.names if any(word in name for word in WAITING)}


def training_step(x, noise, labels, average):
    """Prototypes of two views, both losses, the backward pass and the moving average."""
    features = torch.nn.Parameter(x)
    mu = batch_prototypes(features, labels, n_clusters=7)
    target = batch_prototypes(x, labels, n_clusters=7)
    v = perturbed(features, noise, sigma=0.001)
    loss = psl_mixed_view(mu, target, temperature=0.5) + positive_sampling_alignment(v, x)
    loss.backward()
    return update_prototypes(average, target, momentum=0.9)


def test_a_training_step_reads_no_value_back():
    x, y = problem()
    arguments = torch.from_numpy(x), torch.from_numpy(x), torch.from_numpy(y)
    start = Prototypes(torch.zeros(7, 4, dtype=torch.float64), torch.zeros(7, dtype=torch.bool))
    with Operations() as seen:
        training_step(*arguments, start)
    assert seen.waiting == set()
    assert len(seen.names) <= 500  # measured: 485
    with FakeTensorMode(allow_non_fake_inputs=True) as fake:
        found = training_step(*(fake.from_tensor(a) for a in (*arguments,)), start)
    assert found.vectors.shape == (7, 4)


def test_the_count_sees_a_value_read_back():
    x = torch.arange(3.0)
    for read in (lambda: float(x.sum()), lambda: bool((x > 0).all()), lambda: x.nonzero()):
        with Operations() as seen:
            read()
        assert seen.waiting


def test_the_operations_do_not_grow_with_the_clusters():
    x, y = problem()
    features, labels = torch.from_numpy(x), torch.from_numpy(y)
    counts = []
    for k in (5, 500):
        with Operations() as seen:
            batch_prototypes(features, labels, n_clusters=k)
        counts.append(len(seen.names))
    assert counts[0] == counts[1]


X, Y = np.ones((3, 2)), np.zeros(3, np.int64)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: batch_prototypes(X, Y[:2], n_clusters=2), "labels"),
        (lambda: batch_prototypes(X, Y * 1.0, n_clusters=2), "labels"),
        (lambda: batch_prototypes(X, Y, n_clusters=0), "n_clusters"),
        (lambda: batch_prototypes(X[0], Y, n_clusters=2), "features"),
        (lambda: batch_prototypes(Y, Y, n_clusters=2), "features"),
        (lambda: unit_directions(np.ones((3, 0))), "x must have"),
        (lambda: weighted_sums(X, X[:2]), "weights"),
        (lambda: moving_average(X, X[:2], momentum=0.5), "value"),
        (lambda: moving_average(X, X, momentum=1.5), "momentum"),
        (lambda: normalize_sums(PrototypeSums(X, X[:2, 0])), "mass"),
    ],
)
def test_errors_name_the_argument(call, message):
    assert_refused(DualclustError, message, call)


def test_arrays_of_two_libraries_are_refused():
    with pytest.raises(DeviceMismatchError, match="labels"):
        batch_prototypes(X, torch.from_numpy(Y), n_clusters=2)


def test_an_empty_batch_has_no_prototype(xp):
    found = batch_prototypes(xp.asarray(np.zeros((0, 3))), xp.asarray(Y[:0]), n_clusters=2)
    assert not to_numpy(found.valid).any()
    assert_equal(found.vectors, xp.asarray(np.zeros((2, 3))))
