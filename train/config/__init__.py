"""The settings of a training run: frozen records that check themselves, read from and kept as TOML.

`RunConfig` holds all settings of a run and `load_config` reads it; the records of its tables are in
`run`, `augment`, `encoder`, `optim`, `linear` and `starts`, those of each method in
`config.methods`. `schema` makes records check themselves, and `constraints` names the rules.
Nothing loads torch.
"""

from .augment import AugmentConfig
from .encoder import EncoderConfig
from .linear import LinearConfig
from .methods import METHOD_OPTIONS, register_options
from .optim import OptimConfig
from .run import (
    AssignmentConfig,
    DataConfig,
    EvaluationConfig,
    ExecutionConfig,
    HeadsConfig,
    LossConfig,
    NetworkConfig,
    RunConfig,
    load_config,
)
from .schema import Checked, Rule, dump_config, from_mapping, override
from .starts import StartsConfig

__all__ = [
    "METHOD_OPTIONS",
    "AssignmentConfig",
    "AugmentConfig",
    "Checked",
    "DataConfig",
    "EncoderConfig",
    "EvaluationConfig",
    "ExecutionConfig",
    "HeadsConfig",
    "LinearConfig",
    "LossConfig",
    "NetworkConfig",
    "OptimConfig",
    "Rule",
    "RunConfig",
    "StartsConfig",
    "dump_config",
    "from_mapping",
    "load_config",
    "override",
    "register_options",
]
