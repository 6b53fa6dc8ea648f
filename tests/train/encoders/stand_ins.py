"""Encoders for tests: a module of one's own, and libraries of a few lines.

timm needs torchvision, which the environment of the suite has not. Tests put `timm` of this module
into ``sys.modules``: a stand-in with the calls that dualclust makes, and no more. What the real
libraries do is tested where they are installed (`test_libraries`).
"""

from __future__ import annotations

from types import ModuleType

import torch
from torch import nn


class Edges(nn.Module):
    """A small encoder that is a function of its seed, as one that has learned is of its data."""

    def __init__(self, width: int = 6, seed: int = 0) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            self.layers = nn.Sequential(
                nn.Conv2d(1, width, 3, stride=2, padding=1),
                nn.BatchNorm2d(width),
                nn.ReLU(),
                nn.Flatten(),
            )
        self.samples = 0

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        self.samples += len(images)
        rows: torch.Tensor = self.layers(images)
        return rows


class Tiny(nn.Module):
    """What the stand-in of timm builds: three channels, 8 × 8 pixels, a classifier where wanted."""

    def __init__(self, num_classes: int) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 3, stride=2, padding=1)
        self.fc = nn.Linear(64, num_classes) if num_classes else nn.Identity()

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        assert images.shape[1:] == (3, 8, 8)
        rows: torch.Tensor = self.fc(torch.relu(self.stem(images)).flatten(1))
        return rows


def timm() -> dict[str, ModuleType]:
    """Modules ``timm`` and ``timm.data``, with one model, ``tiny``, whose weights are all 0.1."""

    def create_model(name: str, *, pretrained: bool, num_classes: int) -> nn.Module:
        if name != "tiny":
            msg = f"Unknown model ({name})"
            raise RuntimeError(msg)
        made = Tiny(num_classes)
        if pretrained:
            nn.init.constant_(made.stem.weight, 0.1)
        return made

    def resolve_model_data_config(model: nn.Module) -> dict[str, object]:
        return {"input_size": (3, 8, 8), "mean": (0.5, 0.4, 0.3), "std": (0.2, 0.2, 0.25)}

    root, data = ModuleType("timm"), ModuleType("timm.data")
    vars(root)["create_model"] = create_model
    vars(data)["resolve_model_data_config"] = resolve_model_data_config
    return {"timm": root, "timm.data": data}
