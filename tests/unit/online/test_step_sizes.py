"""Step rules: the measured ones, the published settings, and what is refused."""

import dataclasses
import math
import sys

import pytest

from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.core.errors import InvalidTypeError, InvalidValueError
from dualclust.algos.online.step_sizes import (
    MAX_MOVE,
    MAX_STEP,
    PUBLISHED,
    StepRule,
    measured_steps,
    published_steps,
    theorem_steps,
)
from tests.refusals import is_refusal, message_of


@pytest.mark.parametrize("k", [1, 10, 100, 1000, 10_000])
@pytest.mark.parametrize("lower", [0.0, 0.4, 0.9])
def test_a_starved_cluster_rises_by_kappa_in_a_pass(k, lower):
    n = 100 * k
    rule = measured_steps(SizeBounds.from_ratios(k, n_samples=n, lower=lower), kappa=1.5)
    gamma = (lower or 1.0) * n / k
    assert rule.step_size == pytest.approx(min(1.5 / gamma, MAX_STEP), rel=1e-12)
    assert rule.step_size * rule.chunk_size / k <= MAX_MOVE * (1 + 1e-12)
    assert rule.step_size * (rule.chunk_size + 1) / k > MAX_MOVE * (1 - 1e-12)


def test_kappa_halves_with_each_pass_down_to_its_floor():
    bounds = SizeBounds.from_ratios(10, n_samples=100_000)
    steps = [measured_steps(bounds, epoch=e).step_size * 9000 for e in range(7)]
    assert steps == pytest.approx([3.4, 1.7, 0.85, 0.425, 0.3, 0.3, 0.3])
    assert measured_steps(bounds, epoch=10**6).step_size * 9000 == pytest.approx(0.3)


def test_a_small_cluster_does_not_get_a_large_step():
    assert (
        measured_steps(SizeBounds.from_ratios(100, n_samples=500, lower=0.4)).step_size == MAX_STEP
    )


def test_two_bounds_halve_the_step():
    one = measured_steps(SizeBounds.from_ratios(10, n_samples=10_000))
    two = measured_steps(SizeBounds.from_ratios(10, n_samples=10_000, upper=1.1))
    assert two.step_size == one.step_size / 2
    above = measured_steps(SizeBounds.from_ratios(10, n_samples=10_000, lower=0.0, upper=1.1))
    assert above.step_size == pytest.approx(3.4 / 1000)


@pytest.mark.parametrize(
    "bounds",
    [
        SizeBounds.from_ratios(10, n_samples=10_000, lower=1.0),
        SizeBounds.from_ratios(10, n_samples=10_000, lower=1.0, upper=1.0),
        SizeBounds.from_counts([300, 700], n_samples=1000),
        SizeBounds.for_stream(7, lower=1.0),
    ],
)
def test_no_slack_frees_the_sign(bounds):
    assert measured_steps(bounds, n_samples=10_000).free_sign
    assert not measured_steps(SizeBounds.from_ratios(10, n_samples=10_000, lower=0.999)).free_sign


def test_a_stream_needs_a_length():
    with pytest.raises(InvalidValueError, match="n_samples must be given: the bounds are of a st"):
        measured_steps(SizeBounds.for_stream(3))
    assert measured_steps(SizeBounds.for_stream(3), n_samples=900) == measured_steps(
        SizeBounds.from_ratios(3, n_samples=900)
    )


@pytest.mark.parametrize("n", [90, 9000])
def test_steps_are_proportional_to_the_scale_of_the_scores(n):
    bounds = SizeBounds.from_ratios(3, n_samples=n)
    plain, scaled = measured_steps(bounds), measured_steps(bounds, scale=0.25)
    assert scaled == dataclasses.replace(plain, step_size=plain.step_size / 4)


@pytest.mark.parametrize("options", [{"epoch": 1000}, {"kappa": 1e-300}])
def test_without_a_floor_steps_become_very_small(options):
    step = measured_steps(
        SizeBounds.from_ratios(3, n_samples=90), kappa_floor=0.0, **options
    ).step_size
    assert 0.0 < step < 1e-290


@pytest.mark.parametrize("options", [{"epoch": 1100}, {"kappa": 1e-310}])
def test_steps_that_would_be_0_are_refused(options):
    bounds = SizeBounds.from_ratios(3, n_samples=90)
    with pytest.raises(InvalidValueError, match=r"kappa must give a step above 0 after .* passes"):
        measured_steps(bounds, kappa_floor=0.0, **options)


@pytest.mark.parametrize(
    ("name", "eta", "batch", "ratio"),
    [
        ("coke-cifar", 0.1, 128, 0.9),
        ("coke-imagenet", 20.0, 1024, 0.4),
        ("secu-cifar", 0.1, 128, 0.9),
        ("secu-imagenet", 20.0, 1024, 0.4),
    ],
)
def test_published_settings(name, eta, batch, ratio):
    assert published_steps(name) == StepRule(eta, batch, mean_over_chunk=True)
    assert PUBLISHED[name][:3] == (eta, batch, ratio)
    assert PUBLISHED[name].source.startswith(("CoKe", "SeCu"))


def test_no_published_setting_is_missing_here():
    assert set(PUBLISHED) == {"coke-cifar", "coke-imagenet", "secu-cifar", "secu-imagenet"}
    with pytest.raises(TypeError):
        PUBLISHED["mine"] = PUBLISHED["coke-cifar"]


def test_an_unknown_name_is_answered_with_the_known_ones():
    text = message_of(InvalidValueError, published_steps, "secu")
    assert text == (
        "name must be one of 'coke-cifar', 'coke-imagenet', 'secu-cifar', 'secu-imagenet', "
        "got 'secu'. To fix this, pass one of these"
    )
    text = message_of(InvalidValueError, published_steps, "secu_cifar")
    assert text.endswith(", got 'secu_cifar'. To fix this, pass 'secu-cifar'")


def test_theorem_steps():
    rule = theorem_steps(5000, tau=3.0)
    assert rule == StepRule(3.0 / math.sqrt(10_000), 1, l1_radius=3.0)


@pytest.mark.parametrize(
    ("error", "options"),
    [
        (InvalidValueError, {"step_size": 0.0}),
        (InvalidValueError, {"step_size": -1.0}),
        (InvalidValueError, {"step_size": math.nan}),
        (InvalidValueError, {"step_size": math.inf}),
        (InvalidTypeError, {"step_size": "0.1"}),
        (InvalidValueError, {"step_size": 0.1, "chunk_size": 0}),
        (InvalidTypeError, {"step_size": 0.1, "chunk_size": 1.5}),
        (InvalidValueError, {"step_size": 0.1, "l1_radius": 0.0}),
        (InvalidValueError, {"step_size": 0.1, "l1_radius": 1.0, "free_sign": True}),
    ],
)
def test_invalid_rules_are_refused(error, options):
    with pytest.raises(error):
        StepRule(**options)


@pytest.mark.parametrize(
    ("error", "options"),
    [
        (InvalidValueError, {"kappa": 0.0}),
        (InvalidValueError, {"kappa": math.nan}),
        (InvalidValueError, {"kappa": math.inf}),
        (InvalidValueError, {"kappa_floor": 4.0}),
        (InvalidValueError, {"epoch": -1}),
        (InvalidTypeError, {"epoch": 0.5}),
        (InvalidValueError, {"n_samples": 0}),
        (InvalidValueError, {"scale": 0.0}),
        (InvalidValueError, {"scale": math.inf}),
    ],
)
def test_invalid_options_of_measured_steps_are_refused(error, options):
    with pytest.raises(error):
        measured_steps(SizeBounds.from_ratios(3, n_samples=90), **options)


@pytest.mark.parametrize("tau", [0.0, math.inf, math.nan, -1.0])
def test_an_invalid_tau_is_refused(tau):
    with pytest.raises(InvalidValueError):
        theorem_steps(100, tau)


def test_a_rule_cannot_be_changed():
    rule = StepRule(0.1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        rule.step_size = 0.2
    with pytest.raises(InvalidValueError):
        dataclasses.replace(rule, chunk_size=0)


def test_the_measured_rule_by_hand():
    """k = 100, n = 10^5, 0.9 of the mean size: h = 3.4 / 900, and chunks of 0.02 * 100 / h."""
    rule = measured_steps(SizeBounds.from_ratios(100, n_samples=100_000, lower=0.9))
    assert rule == dataclasses.replace(StepRule(0.5, 529), step_size=rule.step_size)
    assert rule.step_size == pytest.approx(3.4 / 900, rel=1e-14)
    small = measured_steps(SizeBounds.from_ratios(100, n_samples=500, lower=0.4))
    assert small == StepRule(0.02, 100)
    assert dataclasses.astuple(StepRule(0.5)) == (0.5, 1, False, False, math.inf)


def test_a_small_kappa_is_its_own_floor():
    bounds = SizeBounds.from_ratios(10, n_samples=10_000, lower=1.0)
    steps = [measured_steps(bounds, kappa=0.1, epoch=e).step_size for e in (0, 3)]
    assert steps == pytest.approx([1e-4, 1e-4], rel=1e-12)


def test_a_chunk_is_no_longer_than_the_pass():
    bounds = SizeBounds.from_ratios(10, n_samples=100)
    rule = measured_steps(bounds, kappa=1e-6)
    assert rule.chunk_size == 100


def test_one_upper_bound_halves_the_step_unless_there_is_no_slack():
    n = 10_000
    plain = measured_steps(SizeBounds.from_ratios(10, n_samples=n)).step_size
    one = [1.1, *[math.inf] * 9]
    assert measured_steps(SizeBounds.from_ratios(10, n_samples=n, upper=one)).step_size == plain / 2
    both = measured_steps(SizeBounds.from_ratios(10, n_samples=n, lower=1.0, upper=1.0))
    assert both.step_size == pytest.approx(3.4 / 1000, rel=1e-12)


def test_shares_that_add_up_to_1_but_for_rounding_leave_no_slack():
    n = 4 * 10**12
    for lacking, free in ((0, True), (3, True), (6, False)):
        bounds = SizeBounds.from_counts([n - lacking], n_samples=n)
        assert measured_steps(bounds).free_sign is free


def test_the_smallest_step_that_there_is():
    bounds = SizeBounds.from_ratios(1, n_samples=1, lower=0.0)
    rule = measured_steps(bounds, kappa=sys.float_info.min)
    assert (rule.step_size, rule.chunk_size) == (sys.float_info.min, 1)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"kappa": 0.0}, "kappa must lie in (0, inf), got 0.0"),
        ({"scale": 0.0}, "scale must lie in (0, inf), got 0.0"),
        ({"kappa_floor": 4.0}, "kappa_floor must lie in [0, 3.4], got 4.0"),
        ({"kappa_floor": -0.1}, "kappa_floor must lie in [0, 3.4], got -0.1"),
        ({"epoch": -1}, "epoch must be at least 0, got -1"),
        ({"n_samples": 0}, "n_samples must be at least 1, got 0"),
    ],
)
def test_options_of_measured_steps_are_named(options, text):
    bounds = SizeBounds.from_ratios(3, n_samples=90)
    assert is_refusal(message_of(InvalidValueError, measured_steps, bounds, **options), text)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: theorem_steps(0, 1.0), "n_samples must be at least 1, got 0"),
        (lambda: theorem_steps(9, 0.0), "tau must lie in (0, inf), got 0.0"),
        (lambda: StepRule(0.0), "step_size must lie in (0, inf), got 0.0"),
        (lambda: StepRule(0.5, l1_radius=0.0), "l1_radius must lie in (0, inf), got 0.0"),
    ],
)
def test_rules_that_are_refused_are_named(call, text):
    assert is_refusal(message_of(InvalidValueError, call), text)
