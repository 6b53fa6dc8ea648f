"""A PyTorch file whose tensor promises more numbers than its own entry of the archive holds."""

from __future__ import annotations

import zipfile

import numpy as np
import pytest

from dualclust.algos.core.errors import InvalidValueError
from dualclust.common.formats import open_rows

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("kept", [476, 240, 120, 119])
def test_an_entry_that_is_too_short_is_refused(tmp_path, kept) -> None:
    """Bytes of other entries follow, which must not be taken for the rows."""
    x = np.arange(120, dtype=np.float32).reshape(40, 3)
    torch.save(torch.from_numpy(x), tmp_path / "whole.pt")
    assert (open_rows(tmp_path / "whole.pt").rows(0, 40) == x).all()
    with (
        zipfile.ZipFile(tmp_path / "whole.pt") as old,
        zipfile.ZipFile(tmp_path / "X.pt", "w") as new,
    ):
        for info in old.infolist():
            content = old.read(info)
            if info.filename.endswith("/data/0"):
                assert len(content) == 480
                content = content[:kept]
            new.writestr(info.filename, content)
        new.writestr("whole/behind", bytes(5000))
    with pytest.raises(InvalidValueError, match="promises more numbers than are there"):
        open_rows(tmp_path / "X.pt")
