"""Rows of a stream, and tensors: what comes in decides what comes out."""

from __future__ import annotations

import numpy as np
import pytest

from dualclust import ConstrainedKMeans
from dualclust.algos.core.errors import InvalidTypeError, InvalidValueError
from dualclust.estimators import _inputs


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_a_stream_comes_near_its_bounds_and_near_a_fit(digits, metric) -> None:
    options = {"lower": 0.9, "upper": 1.1, "metric": metric, "random_state": 0}
    model, rng = ConstrainedKMeans(10, **options), np.random.default_rng(0)
    for _ in range(10):
        order = rng.permutation(len(digits))
        for start in range(0, len(digits), 100):
            batch = digits[order[start : start + 100]]
            model.partial_fit(batch)
            assert model.labels_.shape == (len(batch),)
    assert model.counts_.sum() == 10 * len(digits)
    share = model.counts_ / model.counts_.mean()
    assert share.min() >= 0.85
    assert share.max() <= 1.15
    assert model.n_iter_ == 180
    whole = ConstrainedKMeans(10, **options).fit(digits)
    assert model.score(digits) >= 1.15 * whole.score(digits)


def test_a_stream_goes_on_from_a_fit(digits) -> None:
    model = ConstrainedKMeans(10, lower=0.9, random_state=0).fit(digits[:1000])
    before = model.cluster_centers_
    model.partial_fit(digits[1000:1100])
    assert model.counts_.sum() == 1100
    moved = np.linalg.norm(model.cluster_centers_ - before, axis=1)
    assert 0 < moved.max() < 0.2 * np.linalg.norm(before, axis=1).max()
    again = ConstrainedKMeans(10, lower=0.9, random_state=0).fit(digits[:1000])
    model.fit(digits[:1000])
    np.testing.assert_array_equal(model.cluster_centers_, again.cluster_centers_)
    assert model.partial_fit(digits[1000:1100]).counts_.sum() == 1100


def test_a_stream_has_shares_only(digits) -> None:
    whole = ConstrainedKMeans(10, min_count=5)
    assert not hasattr(whole, "partial_fit")
    assert hasattr(ConstrainedKMeans(10, lower=0.5), "partial_fit")
    with pytest.raises(AttributeError, match="has no attribute 'partial_fit'") as caught:
        whole.partial_fit(digits)
    assert isinstance(caught.value.__cause__, InvalidTypeError)
    assert "min_count must be None for partial_fit, got 5" in str(caught.value.__cause__)
    with pytest.raises(InvalidValueError, match="n_samples=5 should be >= n_clusters=10"):
        ConstrainedKMeans(10).partial_fit(digits[:5])


# Tensors -----------------------------------------------------------------------------------------


def devices():
    torch = pytest.importorskip("torch")
    return ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_tensors_in_tensors_out(digits, metric) -> None:
    torch = pytest.importorskip("torch")
    options = {"lower": 0.9, "upper": 1.1, "metric": metric, "random_state": 0}
    want = ConstrainedKMeans(10, **options).fit(digits)
    for device in devices():
        x = torch.from_numpy(digits).to(device)
        model = ConstrainedKMeans(10, **options).fit(x)
        results = {
            "labels_": model.labels_,
            "predict": model.predict(x),
            "bounded": model.predict(x, bounded=True),
            "fit_predict": ConstrainedKMeans(10, **options).fit_predict(x),
            "transform": model.transform(x),
            "centers": model.cluster_centers_,
            "prices": model.prices_,
        }
        for name, result in results.items():
            assert isinstance(result, torch.Tensor), name
            assert result.device.type == device, name
        assert results["labels_"].dtype == results["predict"].dtype == torch.int64
        assert isinstance(model.score(x), float)
        assert model.inertia_ == pytest.approx(want.inertia_, rel=0.02)
        assert int(model.counts_.min()) >= 161
        # Rows of the other library are taken, too, and answered in kind.
        # At most k - 1 rows tie at the prices, and go as the last bit of a product says.
        assert (model.predict(digits) != results["predict"].cpu().numpy()).sum() < 10
        np.testing.assert_allclose(
            model.transform(digits), results["transform"].cpu().numpy(), rtol=1e-3, atol=1e-3
        )
        back = want.predict(x)
        assert back.device.type == device
        assert (back.cpu().numpy() != want.predict(digits)).sum() < 10


def test_tensors_of_half_precision_and_with_gradients(digits) -> None:
    torch = pytest.importorskip("torch")
    x = torch.from_numpy(digits[:300]).requires_grad_()
    model = ConstrainedKMeans(5, lower=0.9, random_state=0).fit(x)
    assert not model.transform(x).requires_grad
    half = ConstrainedKMeans(5, lower=0.9, random_state=0).fit(x.detach().half())
    np.testing.assert_array_equal(half.labels_.numpy(), model.labels_.numpy())
    stream = ConstrainedKMeans(5, lower=0.9, random_state=0).partial_fit(x)
    assert isinstance(stream.cluster_centers_, torch.Tensor)


def test_tensors_are_checked(digits) -> None:
    torch = pytest.importorskip("torch")
    x = torch.from_numpy(digits)
    model = ConstrainedKMeans(3, random_state=0).fit(x[:50])
    with pytest.raises(InvalidValueError, match="X has 7 features, but ConstrainedKMeans is exp"):
        model.predict(x[:, :7])
    with pytest.raises(InvalidValueError, match="X must be finite"):
        model.predict(x / 0.0)
    with pytest.raises(InvalidValueError, match=r"X must have shape \(n_samples, n_features\)"):
        model.fit(x[0])
    with pytest.raises(InvalidTypeError, match="X must have a real floating dtype"):
        model.fit(x.int())
    with pytest.raises(InvalidValueError, match="at least one row"):
        model.predict(x[:0])


@pytest.mark.parametrize("n_kept", [27, 26])
def test_rows_are_of_unit_length_kept_or_not(monkeypatch, n_kept):
    """Nine rows of three, one of them zero: few are scaled at once, many in each pass."""
    rows = np.random.default_rng(0).normal(size=(9, 3))
    rows[4] = 0.0
    monkeypatch.setattr(_inputs, "KEPT_ENTRIES", n_kept)
    source = _inputs.row_source(rows, "cosine")
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    unit = rows / np.where(lengths == 0.0, 1.0, lengths)
    for _ in range(2):
        np.testing.assert_allclose(source.rows(2, 6), unit[2:6], rtol=1e-15)
        np.testing.assert_allclose(source.take(np.asarray([8, 4])), unit[[8, 4]], rtol=1e-15)
    assert source.largest == 2.0
