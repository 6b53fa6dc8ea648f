"""Settings: they come back from a file as they were, and every mistake is named."""

import dataclasses
import math
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dualclust.algos.core.errors import MissingFileError, UsageError
from dualclust.train.config import run as cfg
from dualclust.train.config.run import RunConfig, dump_config, from_mapping, load_config, override


def reread(config):
    return from_mapping(RunConfig, tomllib.loads(dump_config(config)))


def test_default_round_trip():
    assert reread(RunConfig()) == RunConfig()


finite = st.floats(min_value=0, exclude_min=True, max_value=1e300, allow_subnormal=True)


@given(
    lr=finite,
    tau=st.floats(0, 1),
    upper=st.floats(1, math.inf),
    source=st.text(st.characters(codec="utf-8"), min_size=1),
    clusters=st.lists(st.integers(2, 10**30), min_size=1, max_size=5, unique=True),
    seed=st.integers(0, 2**63 - 1),
)
def test_round_trip_is_exact(lr, tau, upper, source, clusters, seed):
    config = RunConfig(
        seed=seed,
        data=cfg.DataConfig(source),
        heads=cfg.HeadsConfig(tuple(clusters), clusters[-1]),
        assignment=cfg.AssignmentConfig(upper=upper),
        optim=cfg.OptimConfig(lr=lr),
        loss=cfg.LossConfig(tau=tau),
    )
    assert reread(config) == config


def test_round_trip_through_a_file(tmp_path):
    config = override(RunConfig(), ["assignment.upper=inf", "augment.scale=[0.9, 1.1]"])
    path = tmp_path / "config.toml"
    path.write_text(dump_config(config), encoding="utf-8")
    assert load_config(path) == config
    assert config.assignment.upper == math.inf


def test_an_empty_mapping_is_the_default():
    assert from_mapping(RunConfig, {}) == RunConfig()


def test_types_are_brought_to_the_annotation():
    config = from_mapping(RunConfig, {"optim": {"lr": 1}, "heads": {"clusters": [10, 3]}})
    assert type(config.optim.lr) is float
    assert config.heads.clusters == (10, 3)
    assert hash(config) != hash(RunConfig())
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.seed = 3


def test_override_reads_toml_and_falls_back_to_text():
    config = override(
        RunConfig(),
        [
            "optim.lr=1e-3",
            "heads.clusters=[7, 9]",
            "heads.target=9",
            'data.source="a b.npz"',
            "optim.name=adam",
            "augment.flip=true",
            " seed = 5 ",
        ],
    )
    assert config.optim == cfg.OptimConfig(name="adam", lr=1e-3)
    assert config.heads == cfg.HeadsConfig((7, 9), 9)
    assert (config.data.source, config.augment.flip, config.seed) == ("a b.npz", True, 5)


def test_override_cannot_smuggle_a_second_key():
    assert override(RunConfig(), ["data.source=1\nseed=9"]).seed == 0


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ("optim.lrr=1", "override: [optim] unknown key 'lrr'; did you mean 'lr'?"),
        ("epoch=3", "override: unknown key 'epoch'; did you mean 'epochs'?"),
        ("optm.lr=1", "override: unknown key 'optm'; did you mean 'optim'?"),
        ("optim.lr=-1", "override: [optim] lr must be a finite number above 0, got -1.0"),
        ("optim.lr=nan", "override: [optim] lr must be a finite number above 0, got nan"),
        ("optim.lr=true", "override: [optim] lr must be a number, got True (bool)"),
        ("optim.lr=fast", "override: [optim] lr must be a number, got 'fast' (str)"),
        ("optim.momentum=1", "[optim] momentum must be 0 or more and below 1, got 1.0"),
        ("optim.name=sdg", "name must be one of 'sgd', 'adam', 'adamw', 'lars', got \"sdg\""),
        ("optim.warmup_epochs=101", "warmup_epochs must be at most epochs=100, got 101"),
        ("seed=1.0", "override: seed must be an integer, got 1.0 (float)"),
        ("seed=true", "override: seed must be an integer, got True (bool)"),
        ("seed=-1", "override: seed must be an integer in [0, 2**63), got -1"),
        ("epochs=0", "override: epochs must be an integer, 1 or more, got 0"),
        ("batch_size=1", "override: batch_size must be an integer, 2 or more, got 1"),
        ("method=", "override: method must be a non-empty string, got"),
        ("augment.flip=1", "override: [augment] flip must be true or false, got 1 (int)"),
        ("augment.rotate=181", "rotate must be between 0 and 180 degrees, got 181.0"),
        ("augment.scale=[2, 1]", "scale must be [low, high] with low <= high, got [2.0, 1.0]"),
        ("augment.scale=[1]", "scale must be a list of 2 values, got [1]"),
        ("augment.crop=[0.5, 1.5]", "crop must be shares of the image's area, at most 1, got [0.5"),
        ("augment.crop=[0, 1]", "crop[0] must be a finite number above 0, got 0.0"),
        ("augment.ratio=[2, 1]", "ratio must be [low, high] with low <= high, got [2.0, 1.0]"),
        ("augment.blur_sigma=[2, 1]", "blur_sigma must be [low, high] with low <= high"),
        ("augment.jitter=[0.4, 0.4]", "jitter must be a list of 4 values, got [0.4, 0.4]"),
        ("augment.jitter=[0, 0, 0, 0.6]", "jitter[3] must be between 0 and 0.5 turns, got 0.6"),
        ("augment.mask=1", "mask must be 0 or more and below 1, got 1.0"),
        ("data.split=half", "split must be one of 'auto', 'train', 'test', 'unlabeled', "),
        ("data.classes=all", "classes must be one of 'fine', 'coarse', got"),
        ("data.resident=maybe", "resident must be one of 'auto', 'always', 'never', got"),
        ("data.size=-1", "size must be an integer, 0 or more, got -1"),
        ("data.imbalance=0.5", "imbalance must be a finite number, 1 or more, got 0.5"),
        ("augment.scale=1", "scale must be a list, got 1 (int)"),
        ("heads.clusters=[]", "clusters must be a non-empty list without repetition, got []"),
        ("heads.clusters=[9, 9]", "a non-empty list without repetition, got [9, 9]"),
        ("heads.clusters=[10, 1]", "clusters[1] must be an integer, 2 or more, got 1"),
        ("heads.target=5", "target must be one of clusters=[10, 20], got 5. To fix: add 5"),
        ("assignment.upper=0.9", "upper must be 1 or more (inf: no upper bound), got 0.9"),
        ("assignment.lower=1.01", "lower must be between 0 and 1, got 1.01"),
        ("assignment.kappa=0.1", "kappa_floor must be at most kappa=0.1, got 0.3"),
        ("optim=3", "override: optim must be a table, got 3"),
        ("optim.lr=1" + "0" * 400, "lr must be a number that a float can hold"),
        ("seed.x=1", "override 'seed.x=1' must look like key=value or table.key=value"),
        ("seed", "override 'seed' must look like key=value or table.key=value"),
        ("=3", "override '=3' must look like key=value or table.key=value"),
    ],
)
def test_every_mistake_is_named(item, message):
    with pytest.raises(UsageError) as caught:
        override(RunConfig(), [item])
    assert message in str(caught.value)


def test_a_record_made_by_hand_is_held_to_the_same_rules():
    with pytest.raises(
        UsageError, match=r"^lr must be a finite number above 0, got 0\.0\. To fix this, set it"
    ):
        cfg.OptimConfig(lr=0)
    with pytest.raises(UsageError, match=r"^optim must be an instance of OptimConfig, got"):
        RunConfig(optim={"lr": 1})


def test_where_is_named():
    with pytest.raises(UsageError, match=r"^recipe: \[loss\] unknown key 'temp'"):
        from_mapping(RunConfig, {"loss": {"temp": 1}}, where="recipe")
    with pytest.raises(UsageError, match=r"^config\.toml: unknown key 'zzz'; known: method, seed"):
        from_mapping(RunConfig, {"zzz": 1})


def test_a_date_is_not_a_number():
    with pytest.raises(UsageError, match="seed must be an integer, got datetime"):
        override(RunConfig(), ["seed=2020-01-01"])


def test_a_missing_key_is_named():
    @dataclasses.dataclass(frozen=True)
    class Needs(cfg.Checked):
        size: int

    with pytest.raises(
        UsageError, match=r"^config\.toml: missing key 'size'\. To fix this, set it"
    ):
        from_mapping(Needs, {})


def test_missing_file(tmp_path):
    with pytest.raises(MissingFileError, match=r"no configuration file at .*none\.toml"):
        load_config(tmp_path / "none.toml")


@pytest.mark.parametrize("content", [b"seed = ", b"\xff\xfe", b"x = " + b"[" * 100_000])
def test_a_file_that_is_not_toml(tmp_path, content):
    path = tmp_path / "config.toml"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=r"config\.toml: not a TOML file"):
        load_config(path)


def test_tables_that_may_be_left_out_are_read_and_written():
    views = {"crop": [0.2, 1.0], "jitter": [0.4, 0.4, 0.2, 0.1], "blur": 1.0}
    config = from_mapping(RunConfig, {"augment": views, "second": {"solarize": 0.2}})
    assert config.second == cfg.AugmentConfig(solarize=0.2)
    assert config.small is None
    assert reread(config) == config


def test_a_table_of_another_method_is_refused():
    with pytest.raises(UsageError, match=r"the table \[propos\] belongs to another method"):
        from_mapping(RunConfig, {"method": "secu", "propos": {}})
    with pytest.raises(
        UsageError, match=r"method must be one of coke, .*, got 'sceu'\. .*, pass 'secu'"
    ):
        from_mapping(RunConfig, {"method": "sceu"})


def test_importing_the_settings_does_not_load_torch():
    import subprocess
    import sys

    code = "import dualclust.train.config.run, sys; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_long_value_is_cut_in_a_message():
    for length, shown in ((198, f"'{'x' * 198}'"), (199, f"'{'x' * 196}...")):
        with pytest.raises(UsageError) as caught:
            from_mapping(RunConfig, {"epochs": "x" * length})
        assert f"epochs must be an integer, got {shown} (str)" in str(caught.value)
