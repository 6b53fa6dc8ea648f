"""What a message tells its user to do is done, to the file that it is about, and helps."""

from __future__ import annotations

import pytest

from dualclust.cli.main import main
from tests.cluster.mistakes.remedies import FOLLOW, OUTSIDE
from tests.cluster.test_mistaken_files import CASES


@pytest.mark.parametrize(
    ("name", "way"), [(name, i) for name, ways in FOLLOW.items() for i in range(len(ways))]
)
def test_a_remedy_helps(tmp_path, capsys, monkeypatch, name, way) -> None:
    case, remedy = CASES[name], FOLLOW[name][way]
    monkeypatch.chdir(tmp_path)
    case.write(tmp_path)
    arguments = remedy if isinstance(remedy, str) else remedy(tmp_path)
    assert main(["cluster", *arguments.split(), "-k", "1"]) == 0, capsys.readouterr().err


def test_every_remedy_is_followed_or_outside() -> None:
    for name, case in CASES.items():
        remedy = case.message.partition("To fix this, ")[2]
        assert bool(FOLLOW.get(name)) != remedy.startswith(OUTSIDE), (name, remedy)
