"""What several tests of the estimators start from."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits


@pytest.fixture(scope="module")
def digits():
    return load_digits().data.astype(np.float32)
