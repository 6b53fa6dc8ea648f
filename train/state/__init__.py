"""What makes a run repeatable: its state on the disk, and the streams of its random numbers.

`checkpoint` saves and verifies the state after each epoch, `packing` splits a nested state into
tensors and JSON, and `seeding` names every stream of random numbers by the run's seed.
"""

from .checkpoint import (
    Checkpoint,
    CheckpointWarning,
    check_begun,
    checkpoint_folder,
    has_epoch,
    is_begun,
    latest_checkpoint,
    load_checkpoint,
    save_checkpoint,
)
from .packing import pack, unpack
from .seeding import generator, permutation

__all__ = [
    "Checkpoint",
    "CheckpointWarning",
    "check_begun",
    "checkpoint_folder",
    "generator",
    "has_epoch",
    "is_begun",
    "latest_checkpoint",
    "load_checkpoint",
    "pack",
    "permutation",
    "save_checkpoint",
    "unpack",
]
