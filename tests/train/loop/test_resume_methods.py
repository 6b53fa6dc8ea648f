"""Every method: killed in the middle of an epoch, at steps drawn at random, and resumed."""

import random
from contextlib import contextmanager

import pytest
from torch.optim.optimizer import register_optimizer_step_post_hook

from dualclust.train.loop import resume, train
from tests.train.runs import Interrupted, assert_same_run, contents, tiny_recipe, write_images

SETTINGS = [
    "epochs=3",
    "batch_size=32",
    "evaluation.every=1",
    "evaluation.views=1",
    "assignment.rounding=outward",
    "network.width=4",
]
CASES = {
    "secu": ["heads.clusters=[10, 20]"],
    "secu entropy": ["heads.clusters=[10, 20]", "secu.constraint=entropy"],
    "coke": [],
    "propos": [],
    "gatcluster": ["gatcluster.repeats=2"],
    "mi_margin": ["mi_margin.restart=0.5"],
}


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return write_images(tmp_path_factory.mktemp("data") / "images.npz", n=97)


@pytest.fixture(scope="module")
def straight(source, tmp_path_factory):
    """Runs that nobody interrupted, by case, and how many optimizer steps they took."""
    made = {}

    def get(case):
        if case not in made:
            folder, count = tmp_path_factory.mktemp("straight") / "run", [0]
            with at_each_step(lambda: count.__setitem__(0, count[0] + 1)):
                train(settings(case, source), folder)
            made[case] = folder, count[0]
        return made[case]

    return get


def settings(case, source):
    return tiny_recipe(f"{case.partition(' ')[0]}_digits", source, *SETTINGS, *CASES[case])


@contextmanager
def at_each_step(function):
    handle = register_optimizer_step_post_hook(lambda *_: function())
    try:
        yield
    finally:
        handle.remove()


def interrupted_after(steps):
    """A function that stops the process, as far as it can see, at one of its calls."""
    left = [steps]

    def stop():
        left[0] -= 1
        if left[0] == 0:
            raise Interrupted

    return at_each_step(stop)


def check(case, draw, source, straight, folder):
    expected, total = straight(case)
    step = random.Random(f"{case} {draw}").randrange(total // 3 + 1, total + 1)
    with interrupted_after(step), pytest.raises(Interrupted):
        train(settings(case, source), folder)
    assert len(list((folder / "checkpoints").glob("epoch-*"))) in (1, 2)
    resume(folder)
    assert_same_run(folder, expected)


@pytest.mark.parametrize("draw", range(1))
@pytest.mark.parametrize("case", CASES)
def test_killed_at_a_random_step(case, draw, source, straight, tmp_path):
    check(case, draw, source, straight, tmp_path / "run")


@pytest.mark.slow
@pytest.mark.parametrize("draw", range(1, 20))
@pytest.mark.parametrize("case", CASES)
def test_killed_at_many_random_steps(case, draw, source, straight, tmp_path):
    check(case, draw, source, straight, tmp_path / "run")


@pytest.mark.parametrize("case", CASES)
def test_the_seed_changes_the_run(case, source, straight, tmp_path):
    """What is compared above is not blind."""
    from dualclust.train.config.run import override

    train(override(settings(case, source), ["seed=1"]), tmp_path / "run")
    ours, theirs = contents(tmp_path / "run")["state"], contents(straight(case)[0])["state"]
    assert sum(ours[name] != theirs[name] for name in ours) > len(ours) / 2
