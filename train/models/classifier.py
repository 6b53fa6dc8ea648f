"""From pixels to scores: normalization, the network, and what the method reads off its rows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ...algos.core.errors import (
    CheckpointError,
    DualclustError,
    MissingExtraError,
    UsageError,
)
from ..networks.attention_branches import Branches
from ..networks.libraries import LIBRARIES, Pixels, library_of
from ..networks.neighbors import NeighborPlaces
from ..networks.network import Network, build_network
from ..networks.pretrained import Pretrained, Standardized
from .spec import ModelSpec

__all__ = ["Classifier", "Outputs", "build_classifier"]

MOST_NUMBERS = 2**27
"""Of a sample that an encoder of the user's own is asked about: 0.5 GB of float32."""


class Outputs(NamedTuple):
    """What a classifier says of samples.

    Attributes
    ----------
    scores : (b, k) tensor. The label is the largest.
    features : (b, d) tensor. What the scores were made of.
    """

    scores: Tensor
    features: Tensor


class Classifier(nn.Module):
    """A network in evaluation mode with its normalization and its centers.

    Parameters
    ----------
    network : Network. For the readout "label-branch", its predictor is the `Branches`, and for
        "neighbors" the `NeighborPlaces`.
    readout : str. See `ModelSpec`.
    centers : (k, d) tensor.
    mean, std : (c,) or (d,) float32 tensors. As `data.ImageData` and `data.EmbeddingData` have
        them.

    Notes
    -----
    A sample's outputs do not depend on the others of its batch, but for rounding.
    """

    centers: Tensor
    mean: Tensor
    std: Tensor

    def __init__(
        self, network: Network, readout: str, centers: Tensor, mean: Tensor, std: Tensor
    ) -> None:
        super().__init__()
        self.network, self.readout = network, readout
        for name, tensor in (("centers", centers), ("mean", mean), ("std", std)):
            self.register_buffer(name, tensor)
        parameter = next(network.parameters(), None)
        self.dtype = network.place.dtype if parameter is None else parameter.dtype

    def forward(self, samples: Tensor) -> tuple[Tensor, Tensor]:
        """Scores (b, k) and features (b, d) of (b, c, h, w) pixels, or of (b, d) embeddings."""
        return self.read(self.network(self.normalized(samples)))

    def encoded(self, samples: Tensor) -> Tensor:
        """Rows of the encoder, in front of the projector: (b, encoder_dim)."""
        rows: Tensor = self.network.encoder(self.normalized(samples))
        return rows

    def normalized(self, samples: Tensor) -> Tensor:
        """Bring samples to mean 0 and standard deviation 1, as the training samples were."""
        x = samples.to(torch.float32)
        if x.ndim == 4:
            x = (x * (1 / 255) - self.mean[:, None, None]) / self.std[:, None, None]
        else:
            x = (x - self.mean) / self.std
        return x.to(self.dtype)

    def read(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Scores and features of the rows of the network."""
        if self.readout == "label-branch":
            rows = self.network.in_precision(self._branches().label_logits, rows)
        if rows.dtype.itemsize < 4:
            rows = rows.float()
        if self.readout == "neighbors":
            assert self.network.predictor is not None
            features = self.network.predictor(rows)
            return features @ self.centers.T, features
        if self.readout == "directions":
            features = F.normalize(rows, dim=-1)
            return features @ self.centers.T, features
        features = torch.softmax(rows, dim=1)
        if self.readout == "label-branch":
            return features, features
        return features.clamp(min=torch.finfo(features.dtype).tiny).log(), features

    def probabilities(self, scores: Tensor, temperature: float) -> Tensor:
        """Softmax of scores (b, k), or the scores themselves where they are probabilities."""
        if self.readout == "label-branch":
            return scores
        cosines = self.readout in ("directions", "neighbors")
        divided = scores / temperature if cosines else scores
        return torch.softmax(divided, dim=1)

    def _branches(self) -> Branches:
        branches = self.network.predictor
        assert isinstance(branches, Branches)
        return branches


def build_classifier(
    spec: ModelSpec, tensors: Mapping[str, Tensor], encoder: nn.Module | None = None
) -> Classifier:
    """Build a classifier and give it its numbers.

    Parameters
    ----------
    spec : ModelSpec
    tensors : mapping from name to tensor. ``network.*`` as of the network's state; ``centers``,
        ``mean`` and ``std``.
    encoder : nn.Module, optional. The encoder of the user's own that `spec` names, or the module of
        timm or transformers where these are not installed. Its parameters are overwritten.

    Returns
    -------
    classifier : Classifier. On the CPU, in evaluation mode, without gradients.

    Raises
    ------
    UsageError
        If `spec` names an encoder of the user's own and none is given, or the other way round.
    MissingExtraError
        If it names one of timm or transformers, which is not installed, and no module is given.
    CheckpointError
        If the tensors are not those of the network.

    Notes
    -----
    Shapes are compared before anything is allocated: what is built takes no more memory than
    `tensors` do.
    """
    _check_encoder(spec, encoder)
    encoder = _of_library(spec, tensors, encoder)
    state = {
        name.removeprefix("network."): tensor
        for name, tensor in tensors.items()
        if name.startswith("network.")
    }
    layers = max(spec.network.layers, spec.branches.head_layers if spec.branches else 0)
    if layers > len(state):
        msg = f"the network has {layers} layers, and the file holds {len(state)} tensors"
        raise CheckpointError(msg)
    with _explained():
        _compare(_without_memory(spec, encoder).state_dict(), state)
        network = _network(spec, encoder)
    _compare(network.state_dict(), state, dtypes=True)
    _check_widths(spec, network, tensors["centers"])
    network.load_state_dict(state, strict=True)
    if spec.autocast:
        network.autocast = torch.bfloat16
    centers, mean, std = (tensors[name].clone() for name in ("centers", "mean", "std"))
    found = Classifier(network, spec.readout, centers, mean, std)
    return found.eval().requires_grad_(False)


def _network(spec: ModelSpec, encoder: nn.Module | None) -> Network:
    if spec.encoder is not None and spec.encoder.frozen:
        encoder = _standardized(spec, encoder)
    network = build_network(spec.network, spec.input.shape, encoder=encoder)
    return _with_predictor(spec, network).to(getattr(torch, spec.dtype))


def _standardized(spec: ModelSpec, encoder: nn.Module | None) -> nn.Module:
    """A frozen encoder with room for what its features are divided by."""
    bare = _bare(spec, encoder)
    d = bare.encoder_dim
    return Standardized(bare.encoder, torch.zeros(d), torch.ones(d))


def _bare(spec: ModelSpec, encoder: nn.Module | None) -> Network:
    """The network without what follows its encoder."""
    alone = replace(spec.network, layers=0, predictor=0)
    return build_network(alone, spec.input.shape, encoder=encoder)


def _of_library(
    spec: ModelSpec, tensors: Mapping[str, Tensor], encoder: nn.Module | None
) -> nn.Module | None:
    """Build the encoder of a library again, or take the module of it that was passed."""
    found = library_of(spec.network.name)
    if found is None or spec.encoder is None:
        return encoder
    library, name = found
    said, build = spec.encoder, LIBRARIES[library].rebuild
    with _explained():
        height, width = said.size
        if height * width * len(said.mean) > MOST_NUMBERS or len(said.mean) not in (1, 3):
            msg = f"its encoder takes pixels of {said.size} in {len(said.mean)} channels"
            raise CheckpointError(msg)
        if encoder is None:  # the file's own, which may say any size or name
            with torch.device("meta"):
                empty = build(name, said.architecture).state_dict()
            there = sum(t.numel() for n, t in tensors.items() if n.startswith("network."))
            if sum(t.numel() for t in empty.values()) > there:
                msg = "its encoder has more parameters than the file"
                raise CheckpointError(msg)
        encoder = build(name, said.architecture) if encoder is None else encoder
        return Pretrained(encoder, Pixels((height, width), said.mean, said.std), said.architecture)


def _with_predictor(spec: ModelSpec, network: Network) -> Network:
    if spec.graph is not None:
        graph = spec.graph
        network.predictor = NeighborPlaces(
            graph.rows, network.out_dim, graph.vectors, graph.neighbors
        )
    if spec.branches is not None:
        shape = getattr(network.encoder, "map_shape", (network.out_dim, 1, 1))
        network.predictor = Branches(shape, spec.n_clusters, spec.branches)
    return network


def _without_memory(spec: ModelSpec, encoder: nn.Module | None) -> Network:
    """The network with shapes alone, but for an encoder of the user's own, which is there."""
    if encoder is None:
        with torch.device("meta"):
            return _network(spec, None)
    if math.prod(spec.input.shape) > MOST_NUMBERS:
        msg = f"a sample has shape {spec.input.shape}, more than {MOST_NUMBERS} numbers"
        raise CheckpointError(msg)
    # Nothing but the encoder, which says how long its rows are.
    length = _bare(spec, encoder).encoder_dim
    with torch.device("meta"):
        if spec.encoder is not None and spec.encoder.frozen:
            encoder = Standardized(encoder, torch.zeros(length), torch.ones(length))
        return _with_predictor(spec, Network(encoder, length, spec.network))


def _check_widths(spec: ModelSpec, network: Network, centers: Tensor) -> None:
    """Refuse centers, or rows of log-probabilities, that are no scores of k clusters."""
    k = spec.n_clusters
    length = network.out_dim if spec.graph is None else spec.graph.vectors
    if spec.readout in ("directions", "neighbors") and centers.shape[1] != length:
        msg = f"centers have {centers.shape[1]} numbers, and the network's rows {length}"
        raise CheckpointError(msg)
    if spec.readout == "log-probabilities" and network.out_dim != k:
        msg = f"the network's rows have {network.out_dim} numbers for {k} clusters"
        raise CheckpointError(msg)


def _check_encoder(spec: ModelSpec, encoder: nn.Module | None) -> None:
    if encoder is None and spec.own_network:
        msg = (
            f"the encoder is a module of its author's own, {spec.own_network}, and the file "
            f"holds its parameters alone. To fix this, pass the module: "
            f"dualclust.load(path, network={spec.own_network.rpartition('.')[2]}(...))"
        )
        raise UsageError(msg)
    if encoder is not None and not spec.own_network and library_of(spec.network.name) is None:
        msg = (
            f"the network is {spec.network.name!r}, which needs no module of one's own. "
            f"To fix this, leave network out"
        )
        raise UsageError(msg)


def _compare(
    ours: Mapping[str, Tensor], theirs: Mapping[str, Tensor], *, dtypes: bool = False
) -> None:
    """Refuse a file whose tensors are not those of the network, naming the first."""
    for name in sorted(ours.keys() | theirs.keys()):
        a, b = (tuple(s[name].shape) if name in s else "no such tensor" for s in (ours, theirs))
        if a != b:
            msg = f"the network needs {name} of shape {a}, and the file has {b}"
            raise CheckpointError(msg)
        if dtypes and ours[name].dtype != theirs[name].dtype:
            kinds = ours[name].dtype, theirs[name].dtype
            msg = f"the network needs {name} in {kinds[0]}, and the file has {kinds[1]}"
            raise CheckpointError(msg)


@contextmanager
def _explained() -> Iterator[None]:
    """Turn whatever a network of absurd sizes raises into one error."""
    try:
        yield
    except DualclustError as error:
        if isinstance(error, CheckpointError | MissingExtraError):
            raise
        raise CheckpointError(str(error)) from error
    except (RuntimeError, ValueError, OverflowError, MemoryError, TypeError) as error:
        msg = f"no network has the sizes that the file says: {error}"
        raise CheckpointError(msg) from error
