"""Settings at the edge of what fits together: the last that is taken, the first that is not."""

from dataclasses import fields

import pytest

from dualclust.algos.core.errors import UsageError
from dualclust.train.config import run as cfg
from dualclust.train.config.encoder import EncoderConfig
from dualclust.train.config.linear import LinearConfig
from dualclust.train.config.methods.coke import CokeOptions
from dualclust.train.config.methods.mi_margin import MiMarginOptions
from dualclust.train.config.methods.secu import SecuOptions
from dualclust.train.config.run import RunConfig, dump_config, from_mapping, override
from tests.train.config.test_defaults import records

TESTED = ["data.test=test", "evaluation.probe=true"]


@pytest.mark.parametrize(
    ("taken", "refused", "message"),
    [
        (["epochs=9", "optim.warmup_epochs=9"], ["epochs=9", "optim.warmup_epochs=10"], "at most"),
        (["epochs=9", "starts.epochs=8"], ["epochs=9", "starts.epochs=9"], "below epochs=9, got 9"),
        (
            ["assignment.kappa=0.4", "assignment.kappa_floor=0.4"],
            ["assignment.kappa=0.4", "assignment.kappa_floor=0.5"],
            r"at most kappa=0\.4, got 0\.5",
        ),
        (["augment.crop=[0.5, 0.5]"], ["augment.crop=[0.6, 0.5]"], "low <= high"),
        (["augment.crop=[0.5, 1.0]"], ["augment.crop=[0.5, 1.01]"], "at most 1"),
        ([*TESTED, "linear.epochs=3"], ["data.test=test", "linear.epochs=3"], r"table \[linear\]"),
        (
            [*TESTED, "linear.epochs=3"],
            ["evaluation.probe=true", "data.test=none", "linear.epochs=3"],
            r"table \[linear\]",
        ),
    ],
    ids=lambda value: value[-1] if isinstance(value, list) else "",
)
def test_the_last_that_fits_and_the_first_that_does_not(taken, refused, message):
    override(RunConfig(), taken)
    with pytest.raises(UsageError, match=message):
        override(RunConfig(), refused)


def test_crops_of_linear_evaluation_are_named_by_their_table():
    with pytest.raises(UsageError, match=r"^linear\.crop must be \[low, high\]"):
        LinearConfig(crop=(0.5, 0.2))
    for flip in (False, True):
        view = LinearConfig(crop=(0.2, 0.5), flip=flip).view()
        assert view == cfg.AugmentConfig(crop=(0.2, 0.5), flip=flip)


def test_objectives_have_the_settings_that_they_read():
    MiMarginOptions(objective="mi_d", extra_weight=0.0)
    MiMarginOptions(objective="iic", average=2)
    MiMarginOptions(objective="seeds", supervised=0.1, supervised_weight=0.1)
    for wrong in (
        {"objective": "iic", "average": 3},
        {"objective": "mi_d", "extra_weight": 0.1},
        {"objective": "seeds", "supervised": 0.1, "supervised_weight": 0.0},
        {"objective": "seeds", "supervised": 0.0, "supervised_weight": 0.1},
    ):
        with pytest.raises(UsageError):
            MiMarginOptions(**wrong)


def test_a_second_stage_averages_one_view_alone():
    for right in (
        {"second_stage": 1, "average": True, "views": "one"},
        {"second_stage": 0, "average": True, "views": "two"},
        {"second_stage": 1, "average": False, "views": "two"},
    ):
        CokeOptions(**right)
    with pytest.raises(UsageError, match="average must be false"):
        CokeOptions(second_stage=1, average=True, views="two")


def test_a_run_has_the_table_of_its_method_alone():
    config = from_mapping(RunConfig, {"method": "secu", "secu": {"alpha": 3.0}})
    assert config.options(SecuOptions) is config.secu
    assert config.options(SecuOptions).alpha == 3.0
    assert RunConfig().secu == SecuOptions()
    assert config.coke is None
    assert config.options(CokeOptions) == CokeOptions()
    with pytest.raises(UsageError, match="LinearConfig holds the settings of no method: "):
        config.options(LinearConfig)


def test_an_empty_list_is_written_unless_it_is_the_default():
    assert "log" not in dump_config(RunConfig())
    assert 'log = ["wandb"]\n' in dump_config(override(RunConfig(), ['log=["wandb"]']))
    assert "flip = true\n" in dump_config(override(RunConfig(), ["augment.flip=true"]))


@pytest.mark.parametrize(("name", "record"), sorted(records().items()))
def test_every_record_checks_each_of_its_settings(name, record):
    for spec in fields(record):
        with pytest.raises(UsageError, match=rf"^(linear\.)?{spec.name} must be"):
            record(**{spec.name: object()})


@pytest.mark.parametrize(
    ("candidates", "target", "message"),
    [
        ((5, 10), 10, None),
        ((5, 10, 20), 5, None),
        ((), 20, None),
        ((10,), 10, "a rising list of two or more, or empty"),
        ((10, 5), 10, "a rising list of two or more, or empty"),
        ((5, 5, 10), 10, "a rising list of two or more, or empty"),
        ((5, 10), 20, r"candidates must be some of clusters=\[5, 10, 20\], with target=20 among"),
        ((10, 30), 10, "candidates must be some of clusters"),
    ],
)
def test_candidates_are_heads_with_the_target_among_them(candidates, target, message):
    given = {"clusters": (5, 10, 20), "target": target, "candidates": candidates}
    if message is None:
        assert cfg.HeadsConfig(**given).candidates == candidates
        return
    with pytest.raises(UsageError, match=message):
        cfg.HeadsConfig(**given)


def test_a_digest_has_64_digits_or_none():
    assert len(EncoderConfig(digest="0" * 64).digest) == 64
    assert EncoderConfig(digest="").digest == ""
    for length in (1, 63, 65):
        with pytest.raises(UsageError, match="digest must be empty, or 64 hexadecimal digits"):
            EncoderConfig(digest="0" * length)
