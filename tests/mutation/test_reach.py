"""Tests that can run a function: found by names, none left out that has a way to it."""

import pytest

from tests.mutation.reach import Reach

FILES = {
    "algos/__init__.py": "from .core import inner\n",
    "algos/core.py": """
import math
from ..backends import kernel
LIMIT = 3.0
def inner(x): return math.sqrt(x)
def alone(x): return x
@kernel
def fast(x): return x
class Box:
    def open(self): return alone(1)
def boxed(): return Box()
""",
    "backends/__init__.py": "def kernel(f): return f\n",
    "backends/numba_engine.py": "def fast(x): return helper(x)\ndef helper(x): return x\n",
    "dualclust/__init__.py": "from .algos import inner\n",
    "dualclust/lazy.py": "from .algos import core\ndef late(): return core.LIMIT\n",
    "tests/conftest.py": """
import pytest
from dualclust.algos.core import boxed
@pytest.fixture
def box(): return boxed()
""",
    "tests/started.py": "import subprocess\ndef start(): subprocess.run(['x'])\n",
    "tests/test_a.py": """
import pytest
import dualclust as dc
from dualclust.algos.core import fast
from tests.started import start
def test_name(): assert dc.inner(4.0) == 2.0
def test_fixture(box): assert box.open() == 1
@pytest.mark.usefixtures("box")
def test_asked(): pass
def test_engine(): assert fast(1) == 1
def test_process(): start()
def test_string(monkeypatch): monkeypatch.setattr("dualclust.algos.core.alone", None)
def test_late():
    from dualclust.lazy import late
    assert late() == 3.0
def test_other(): assert 1 + 1 == 2
TESTED = dc.inner(9.0)
class TestMore:
    def test_it(self): assert dc.inner(1.0) == 1.0
""",
}


@pytest.fixture(scope="module")
def reach(tmp_path_factory):
    root = tmp_path_factory.mktemp("repository")
    for name, text in FILES.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return Reach(root)


@pytest.mark.parametrize(
    ("module", "function", "tests"),
    [
        ("algos/core.py", "inner", {"test_name", "TestMore"}),
        ("algos/core.py", "alone", {"test_fixture", "test_asked", "test_string"}),
        ("algos/core.py", "Box.open", {"test_fixture", "test_asked"}),
        ("algos/core.py", "boxed", {"test_fixture", "test_asked"}),
        ("algos/core.py", "LIMIT", {"test_late"}),
        ("algos/core.py", "fast", {"test_engine"}),
        ("backends/numba_engine.py", "fast", {"test_engine"}),
        ("backends/numba_engine.py", "helper", {"test_engine"}),
        ("dualclust/lazy.py", "late", {"test_late"}),
    ],
)
def test_tests_that_can_run_it(reach, module, function, tests):
    found = {name.partition("::")[2] for name in reach.tests(module, function)}
    assert found == tests | {"test_process"}


def test_what_has_no_name_is_run_by_all_that_name_the_module(reach):
    found = {name.partition("::")[2] for name in reach.tests("algos/core.py", "")}
    assert found == {
        "TestMore", "test_name", "test_fixture", "test_asked", "test_string", "test_late",
        "test_engine", "test_process",
    }  # fmt: skip
