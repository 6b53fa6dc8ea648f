"""Training takes the embeddings of every file that `dualclust cluster` reads."""

from __future__ import annotations

import numpy as np
import pytest

from dualclust.algos.core.errors import InvalidValueError, MissingFileError
from dualclust.train.data.look import look_at
from dualclust.train.data.samples import EmbeddingData, load_source
from tests.cluster.written_formats import FILES, D, N, X

# Files that need no option, and those whose array is named behind a colon.
TAKEN = {
    name: (write, more)
    for name, (write, more) in FILES.items()
    if "--" not in more and name not in ("pattern", "no-suffix", "W.bin.gz")
}


@pytest.mark.parametrize("name", TAKEN)
def test_the_rows_of_the_file(tmp_path, name) -> None:
    write, more = TAKEN[name]
    write(tmp_path / name)
    source = f"{tmp_path / name}{more}"
    data = load_source(source)
    assert isinstance(data, EmbeddingData)
    np.testing.assert_array_equal(data.rows.numpy(), X)
    assert data.labels is None
    assert (found := look_at(source)).kind == "embeddings"
    assert (found.n, found.dim) == (N, D)


def test_labels_lie_beside_the_file(tmp_path) -> None:
    FILES["ZF.npz"][0](tmp_path / "ZF.npz")
    np.save(tmp_path / "ZF_labels.npy", np.arange(N) % 3)
    for source in (tmp_path / "ZF.npz", f"{tmp_path / 'ZF.npz'}:X"):
        np.testing.assert_array_equal(load_source(source).labels.numpy(), np.arange(N) % 3)


def test_what_cannot_be_read_is_refused(tmp_path) -> None:
    np.savez(tmp_path / "X.npz", a=X, b=X)
    with pytest.raises(InvalidValueError, match=r"name one: .*X\.npz:a"):
        load_source(tmp_path / "X.npz")
    (tmp_path / "X.csv").write_bytes(b"")
    with pytest.raises(InvalidValueError, match=r"is empty \(0 bytes\)"):
        load_source(tmp_path / "X.csv")
    with pytest.raises(MissingFileError, match="no data at"):
        load_source(tmp_path / "gone.csv:a")
