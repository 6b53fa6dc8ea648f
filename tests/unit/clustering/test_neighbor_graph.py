"""The spectral embedding of a graph of neighbors against a plain transcription of its equations."""

import numpy as np
import pytest
import torch

from dualclust.algos.clustering.neighbor_graph import (
    DENSE,
    FLOOR,
    neighbor_coordinates,
    neighbor_graph,
)
from dualclust.algos.core.errors import InvalidValueError
from dualclust.algos.scores.sources import feature_source


def blobs(n, k=3, d=6, spread=0.5, seed=0):
    rng = np.random.default_rng(seed)
    classes = np.arange(n) % k
    return 4 * rng.normal(size=(k, d))[classes] + spread * rng.normal(size=(n, d)), classes


def transcription(x, q, m):
    """Directions, weights, eigenvalues and rows of unit length, with dense matrices alone."""
    rows = x - x.mean(axis=0)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    cosines = rows @ rows.T
    a, placed = np.zeros_like(cosines), np.zeros_like(cosines)
    for i, row in enumerate(cosines):
        near = np.argsort(-row)[: m + 1]
        placed[i, near] = np.maximum(row[near], FLOOR)
        near = near[near != i]
        a[i, near] = np.maximum(row[near], FLOOR)
    w = (a + a.T) / 2
    degrees = w.sum(axis=1)
    values, vectors = np.linalg.eigh(w / np.sqrt(degrees[:, None] * degrees))
    v = vectors[:, ::-1][:, :q] / np.sqrt(degrees)[:, None]
    f = placed @ v
    return values[::-1][:q], f / np.linalg.norm(f, axis=1, keepdims=True)


@pytest.mark.parametrize("n", [60, DENSE + 88])
def test_against_the_equations(n):
    x, _ = blobs(n, spread=3.0)
    values, expected = transcription(x, 4, 9)
    source = feature_source(x)
    graph = neighbor_graph(source, 4, n_neighbors=9)
    assert graph.n_parts == 1
    np.testing.assert_allclose(graph.eigenvalues, values, atol=1e-8)
    found = neighbor_coordinates(graph, source)
    # The sign of an eigenvector is free: cosines between rows are not.
    np.testing.assert_allclose(found @ found.T, expected @ expected.T, atol=1e-6)


def test_the_walk_leaves_its_eigenvectors_as_they_are():
    x, _ = blobs(700, spread=3.0)
    graph = neighbor_graph(feature_source(x), 5)
    assert graph.eigenvalues[0] == pytest.approx(1.0, abs=1e-9)
    first = graph.vectors[:, 0]
    np.testing.assert_allclose(first, np.full(700, first[0]), rtol=1e-5)
    assert (graph.vectors[np.abs(graph.vectors).argmax(axis=0), np.arange(5)] > 0).all()


def test_a_row_has_one_place_whatever_stands_beside_it():
    x, _ = blobs(150, spread=2.0)
    graph = neighbor_graph(feature_source(x[:100]), 3)
    together = neighbor_coordinates(graph, feature_source(x))
    alone = [neighbor_coordinates(graph, feature_source(x[i : i + 1])) for i in (0, 99, 149)]
    np.testing.assert_allclose(np.concatenate(alone), together[[0, 99, 149]], atol=1e-9)
    np.testing.assert_allclose(np.linalg.norm(together, axis=1), 1.0)


def test_parts_without_an_edge_between_them_are_told_apart():
    x, classes = blobs(90, spread=0.01)
    source = feature_source(x)
    graph = neighbor_graph(source, 3, n_neighbors=5)
    assert graph.n_parts == 3
    coordinates = neighbor_coordinates(graph, source)
    same = classes[:, None] == classes
    np.testing.assert_allclose(coordinates @ coordinates.T, same.astype(float), atol=1e-6)


def test_many_rows_are_placed_by_few():
    x, classes = blobs(400, spread=0.3)
    source = feature_source(x)
    graph = neighbor_graph(source, 3, n_neighbors=5, most=60)
    assert graph.rows.shape == (60, 6)
    coordinates = neighbor_coordinates(graph, source)
    assert coordinates.shape == (400, 3)
    centers = np.stack([coordinates[classes == c].mean(axis=0) for c in range(3)])
    assert ((coordinates @ centers.T).argmax(axis=1) == classes).all()


def test_float32_rows_of_torch_stay_there_and_agree():
    x, _ = blobs(200, spread=2.0)
    x = x.astype(np.float32)
    here, there = feature_source(x), feature_source(torch.asarray(x))
    expected = neighbor_coordinates(neighbor_graph(here, 3), here)
    found = neighbor_coordinates(neighbor_graph(there, 3), there)
    assert found.dtype == torch.float32
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-3)


def test_equal_rows_and_a_row_at_the_mean_have_a_place():
    x = np.concatenate([np.eye(4), -np.eye(4), np.zeros((3, 4))])
    source = feature_source(x)
    found = neighbor_coordinates(neighbor_graph(source, 3, n_neighbors=4), source)
    assert np.isfinite(found).all()


def test_fewer_rows_than_neighbors():
    x, _ = blobs(6)
    graph = neighbor_graph(feature_source(x), 2, n_neighbors=15)
    assert graph.n_neighbors == 5
    assert neighbor_coordinates(graph, feature_source(x[:0])).shape == (0, 2)


@pytest.mark.parametrize(
    ("q", "options", "message"),
    [
        (6, {}, "n_vectors must be below the number of rows in the graph, 6, got 6"),
        (0, {}, "n_vectors must be at least 1"),
        (2, {"n_neighbors": 0}, "n_neighbors must be at least 1"),
        (2, {"most": 1}, "most must be at least 2"),
    ],
)
def test_what_cannot_be_is_refused(q, options, message):
    x, _ = blobs(6)
    with pytest.raises(InvalidValueError, match=message):
        neighbor_graph(feature_source(x), q, **options)
