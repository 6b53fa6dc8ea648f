"""Faults in runs of one process: each ends with its cause, and the work goes on to the same bytes.

`make faults` does the same to real processes, some hundreds of times.
"""

from __future__ import annotations

import random
import shutil
from contextlib import nullcontext

import pytest

from dualclust.cli.main import main
from tests.faults.disk import ERRORS, Disk, Killed, failing, killing, on_disk, removing
from tests.faults.kinds import KINDS
from tests.faults.tasks import TASKS, without_pictures

SAMPLED = {
    "SIGTERM": 3,
    "SIGINT": 2,
    "SIGTERM twice": 2,
    "full disk": 2,
    "read-only": 1,
    "quota": 1,
    "out of memory in a step": 1,
    "folder gone": 2,
    "clock set back": 1,
    "slow disk": 1,
    "slow disk and SIGTERM": 1,
}
"""How many of each kind here, where they differ from a kill only in what they raise or send."""

CASES = [(kind, number) for kind, n in SAMPLED.items() for number in range(n)]


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """The tasks, what each leaves undisturbed, and its number of operations on the disk."""
    home, found = tmp_path_factory.mktemp("lab"), {}
    for name, kind in TASKS.items():
        place, whole = home / f"input-{name}", home / f"whole-{name}"
        place.mkdir()
        whole.mkdir()
        task, disk = kind(place), Disk(-1, failing(0))
        warm = home / f"warm-{name}"
        warm.mkdir()
        assert run(task, warm) == 0  # kernels that are compiled go to the disk too, this once
        assert run(task, whole, on_disk(disk)) == 0
        found[name] = task, task.left(whole), disk.count
    return found


def run(task, folder, during=None) -> int:
    with without_pictures(), during or nullcontext():
        return main(task.command(folder))


def go_on(task, folder) -> None:
    """At most two more commands: a signal may have come before anything was saved."""
    assert 0 in (run(task, folder), run(task, folder))


@pytest.mark.parametrize("name", TASKS)
def test_killed_at_any_operation_on_the_disk(lab, tmp_path, capsys, name) -> None:
    task, expected, count = lab[name]
    assert count >= 30
    for at in random.Random(name).sample(range(count), 5):
        folder = tmp_path / f"{at}"
        folder.mkdir()
        with pytest.raises(Killed):
            run(task, folder, on_disk(Disk(at, killing(really=False))))
        go_on(task, folder)
        assert task.left(folder) == expected, f"killed at operation {at}"
        assert not list(folder.rglob(".*.tmp-*")), f"killed at operation {at}"


@pytest.mark.parametrize(("name", "number"), CASES)
def test_a_fault_has_its_exit_code_and_costs_nothing(lab, tmp_path, capsys, name, number) -> None:
    kind = KINDS[name]
    of = kind.tasks[number % len(kind.tasks)]
    task, expected, count = lab[of]
    folder = tmp_path / f"1-{of}"
    folder.mkdir()
    plan = kind.draw(random.Random(f"{name}/{number}"), count, folder)
    code, said = run(task, folder, plan.during()), capsys.readouterr().err
    assert code in kind.codes, said
    if code:
        assert all(words in said for words in kind.says), said
        assert not list(folder.rglob(".*.tmp-*"))
    go_on(task, folder)
    assert task.left(folder) == expected


@pytest.mark.parametrize("name", TASKS)
def test_a_folder_gone_at_any_operation_is_not_made_again(lab, tmp_path, capsys, name) -> None:
    """It would have no settings: then neither the same command nor a resumption goes on."""
    task, expected, count = lab[name]
    # The last operations too: they write results, and remove the lock.
    for at in [*random.Random(name).sample(range(count), 5), *range(count - 3, count)]:
        folder = tmp_path / f"{at}"
        folder.mkdir(exist_ok=True)
        code = run(task, folder, on_disk(Disk(at, removing(folder))))
        said = capsys.readouterr().err
        assert code in (0, 73), f"gone at operation {at}: {said}"
        go_on(task, folder)
        assert task.left(folder) == expected, f"gone at operation {at}"


def test_the_errors_of_a_disk_are_four() -> None:
    assert set(ERRORS) == {"full disk", "quota", "read-only", "broken disk"}


def test_a_fault_that_is_not_noticed_would_show(lab, tmp_path) -> None:
    """Another result is told from the expected one: what goes on must not begin anew elsewhere."""
    task, expected, _ = lab["cluster"]
    assert run(task, tmp_path) == 0
    shutil.copy(tmp_path / "out" / "labels.npy", tmp_path / "state")
    assert task.left(tmp_path) != expected
