"""What users of other libraries pass: their arguments, their tables, their mistakes."""

from __future__ import annotations

import inspect
import re

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.decomposition import TruncatedSVD
from sklearn.exceptions import ConvergenceWarning

from dualclust import ConstrainedKMeans
from dualclust.algos.core.errors import InfeasibleBoundsError, InvalidTypeError, InvalidValueError
from dualclust.estimators._other_names import NAMES

ROWS = np.random.default_rng(0).integers(-999, 999, size=(60, 3)) / 512.0  # exact in float32


def test_every_argument_of_kmeans_is_one_of_ours() -> None:
    theirs, ours = (set(inspect.signature(c).parameters) for c in (KMeans, ConstrainedKMeans))
    assert theirs <= ours


@pytest.mark.parametrize(
    "options",
    [
        {"algorithm": "elkan"},
        {"copy_x": False},
        {"n_init": "auto"},
        {"algorithm": "lloyd", "copy_x": True, "verbose": 0, "n_init": 1},
    ],
)
def test_what_changes_no_result_in_kmeans_changes_none_here(options) -> None:
    want = ConstrainedKMeans(4, lower=0.9, random_state=0).fit(ROWS.copy())
    rows = ROWS.copy()
    found = clone(ConstrainedKMeans(4, lower=0.9, random_state=0, **options)).fit(rows)
    np.testing.assert_array_equal(found.labels_, want.labels_)
    np.testing.assert_array_equal(rows, ROWS)


@pytest.mark.parametrize(
    ("init", "starts"), [("k-means++", 1), ("random", 10), ("function", 10), ("centers", 1)]
)
def test_auto_takes_as_many_starts_as_kmeans_does(init, starts, capsys) -> None:
    given = {"function": lambda x, k, random_state: x[random_state.permutation(len(x))[:k]]}
    given |= {"centers": ROWS[:4]}
    options = {"init": given.get(init, init), "random_state": 0, "verbose": True}
    auto = ConstrainedKMeans(4, n_init="auto", **options).fit(ROWS)
    assert [line.split(":")[0] for line in capsys.readouterr().out.splitlines()] == [
        f"start {i + 1}" for i in range(starts)
    ]
    many = ConstrainedKMeans(4, n_init=starts, **options).fit(ROWS)
    np.testing.assert_array_equal(auto.labels_, many.labels_)


def test_silence_is_the_default(capsys) -> None:
    ConstrainedKMeans(3, random_state=0).fit(ROWS)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"algorithm": "full"}, "algorithm must be one of 'lloyd', 'elkan', got 'full'"),
        ({"verbose": -1}, "verbose must be"),
        ({"n_init": "many"}, "n_init must be"),
    ],
)
def test_other_values_are_named(options, text) -> None:
    with pytest.raises((InvalidValueError, InvalidTypeError), match=text):
        ConstrainedKMeans(3, **options).fit(ROWS)


@pytest.mark.parametrize("name", NAMES)
def test_a_name_of_another_library_is_told_in_ours(name) -> None:
    with pytest.raises(TypeError, match=rf"has no argument {name}\. To fix this, use ") as caught:
        ConstrainedKMeans(3, **{name: 20})
    said = re.search(r"use (\w+)", str(caught.value)).group(1)
    assert said in inspect.signature(ConstrainedKMeans).parameters or said == "a"
    with pytest.raises(TypeError, match="has no argument anything"):
        ConstrainedKMeans(3, anything=1)


# Tables ------------------------------------------------------------------------------------------


class Column:
    """A column of a table, as much of it as is asked for: `to_numpy` gives objects."""

    def __init__(self, entries) -> None:
        self.entries = entries

    def __getitem__(self, part):
        return Column(self.entries[part])

    def to_numpy(self):
        array = np.empty(len(self.entries), dtype=object)
        array[:] = self.entries
        return array


class Table:
    """A table of such columns."""

    def __init__(self, **columns) -> None:
        self.columns, self.of = list(columns), columns

    def __getitem__(self, name):
        return Column(self.of[name])

    def to_numpy(self):
        return np.stack([self[name].to_numpy() for name in self.columns], axis=1)


def columns_of_lists():
    """A column and a table of one column: of our own, and of pandas and polars, if installed."""
    lists = [row.astype(np.float32) for row in ROWS]
    yield "arrays", Column(lists), Table(embedding=lists)
    yield "lists", Column(ROWS.tolist()), Table(embedding=ROWS.tolist())


def check_column(column, table) -> None:
    want = ConstrainedKMeans(4, lower=0.9, random_state=0).fit(ROWS)
    for rows in (column, table):
        found = ConstrainedKMeans(4, lower=0.9, random_state=0).fit(rows)
        np.testing.assert_array_equal(found.labels_, want.labels_)
        np.testing.assert_array_equal(found.predict(rows), want.predict(ROWS))
        assert found.n_features_in_ == 3


@pytest.mark.parametrize(("kind", "column", "table"), list(columns_of_lists()))
def test_a_column_of_lists_is_a_matrix(kind, column, table) -> None:
    check_column(column, table)


def test_columns_of_lists_of_pandas() -> None:
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"embedding": list(ROWS.astype(np.float32))})
    check_column(table["embedding"], table)
    with pytest.raises(InvalidTypeError, match=r"pass X\['embedding'\]"):
        ConstrainedKMeans(3).fit(table.assign(id=1))


def test_columns_of_lists_of_polars() -> None:
    polars = pytest.importorskip("polars")
    for kind in (polars.List(polars.Float32), polars.Array(polars.Float32, 3)):
        table = polars.DataFrame({"embedding": polars.Series(ROWS.tolist(), dtype=kind)})
        check_column(table["embedding"], table)
        with pytest.raises(InvalidTypeError, match=r"pass X\['embedding'\]"):
            ConstrainedKMeans(3).fit(table.with_columns(id=polars.lit(1)))


def test_wrong_columns_of_lists_are_named() -> None:
    lists = ROWS.tolist()
    mixed = Table(id=list(range(60)), embedding=lists)
    with pytest.raises(InvalidTypeError, match="got 2 columns, of which 'embedding' holds lists"):
        ConstrainedKMeans(3).fit(mixed)
    ConstrainedKMeans(3, random_state=0).fit(mixed["embedding"])  # what the message says
    for wrong, found in ((lists[0][:2], "a list of 2"), (None, "None"), (1.5, "1.5")):
        entries = [*lists[:7], wrong, *lists[8:]]
        with pytest.raises(InvalidValueError, match=f"got {found} in row 7"):
            ConstrainedKMeans(3).fit(Column(entries))
    with pytest.raises(InvalidTypeError, match="X must hold lists of numbers"):
        ConstrainedKMeans(3).fit(Column([["a", "b"]] * 60))


@pytest.mark.parametrize("kind", [scipy.sparse.csr_matrix, scipy.sparse.coo_array])
def test_sparse_rows_are_refused_by_streams_with_remedies_that_work(kind) -> None:
    rows = kind(np.where(np.abs(ROWS) > 1.0, ROWS, 0.0))
    with pytest.raises(InvalidTypeError, match="X must be dense here, got a sparse ma") as caught:
        ConstrainedKMeans(3).partial_fit(rows)
    assert "X.toarray()" in str(caught.value)
    assert "TruncatedSVD(100).fit_transform(X)" in str(caught.value)
    ConstrainedKMeans(3, random_state=0).partial_fit(rows.toarray())
    ConstrainedKMeans(3, random_state=0).partial_fit(TruncatedSVD(2).fit_transform(rows))
    ConstrainedKMeans(3, random_state=0).fit(rows)  # which the message says


# Mistakes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", [{}, {"min_count": 5}])
def test_equal_rows_are_warned_of_as_kmeans_does(sizes) -> None:
    rows = np.ones((30, 4))
    text = r"Number of distinct clusters \(1\) found smaller than n_clusters \(3\)"
    for model in (ConstrainedKMeans(3, random_state=0, **sizes), KMeans(3, random_state=0)):
        with pytest.warns(ConvergenceWarning, match=text):
            model.fit(rows)
    ConstrainedKMeans(1, random_state=0).fit(rows)  # what the message says
    rows[:5] += 1.0
    rows[5:10] -= 1.0
    ConstrainedKMeans(3, random_state=0, **sizes).fit(rows)


@pytest.mark.parametrize(
    ("weights", "remedy"),
    [
        (np.r_[-1.0, np.ones(59)], "drop the rows of a weight below 0, or set it to 0"),
        (np.r_[np.nan, np.ones(59)], "drop or impute the entries that are not finite"),
        (np.full(60, 1e308), "divide the weights by their largest, as their sum overflows"),
        (np.zeros(60), "leave it out"),
    ],
)
def test_weights_are_refused_with_the_remedy_of_their_cause(weights, remedy) -> None:
    with pytest.raises(InvalidValueError, match=f"To fix this, {remedy}"):
        ConstrainedKMeans(3).fit(ROWS, sample_weight=weights)


def test_the_remedies_of_weights_help() -> None:
    model = ConstrainedKMeans(3, random_state=0)
    weights = np.r_[-1.0, np.ones(59)]
    model.fit(ROWS[weights >= 0], sample_weight=weights[weights >= 0])
    model.fit(ROWS, sample_weight=np.maximum(weights, 0.0))
    model.fit(ROWS, sample_weight=np.full(60, 1e308) / 1e308)


def test_sizes_in_samples_are_told_from_shares_where_other_rows_come() -> None:
    model = ConstrainedKMeans(4, min_count=14, max_count=16, random_state=0).fit(ROWS)
    with pytest.raises(InfeasibleBoundsError, match="give lower and upper in place of min_count"):
        model.predict(ROWS[:20], bounded=True)
    shares = ConstrainedKMeans(4, lower=14 / 15, upper=16 / 15, random_state=0).fit(ROWS)
    counts = np.bincount(shares.predict(ROWS[:20], bounded=True), minlength=4)
    assert counts.sum() == 20
    assert counts.min() >= 4
    fixed = ConstrainedKMeans(4, lower=[2.0, 2.0, 0.5, 0.5])
    with pytest.raises(InfeasibleBoundsError) as caught:
        fixed.fit(ROWS)
    assert "in place of" not in str(caught.value)


def test_a_pair_of_rows_is_told_from_a_row_and_a_cluster() -> None:
    with pytest.raises(InvalidValueError, match="a pair is a row and a cluster, not two rows"):
        ConstrainedKMeans(5).fit(ROWS, forbidden=[[1, 58]])
