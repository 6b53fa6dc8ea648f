"""Networks that map an image or an embedding to a feature vector: an encoder, then a projector.

The encoder is what transfers; the clustering loss sees the projector's output. Features leave
without normalization, for the method to normalize as its paper asks. Batch statistics are taken per
view, in one pass (`run_views`).

====================  =============================================================================
name                  encoder
====================  =============================================================================
``digits-cnn``        three 3 × 3 convolutions for small gray images, flattened: a forward and
                      backward pass of 256 digits takes about 12 ms on one CPU core
``mnist-cnn``         three 3 × 3 convolutions of stride 2, flattened, for gray images of 28 pixels
``vgg4-28``, ``-32``  VGG4 of MI + margin for gray 28 × 28 and colored 32 × 32 images
``vgg4-96``           VGG4 with stride 2, for 96 × 96
``resnet18-cifar``    ResNet-18 for images of about 32 pixels: a 3 × 3 stem of stride 1 and no
                      max-pooling; also ``resnet34-cifar``, ``resnet50-cifar``
``resnet18-stl``      ResNet-18 for 96 pixels: that stem with a 2 × 2 max-pooling, as SeCu has it;
                      also ``resnet34-stl``, ``resnet50-stl``
``resnet18``          ResNet-18 for 224 pixels, its 7 × 7 stem of stride 2; also ``resnet34``,
                      ``resnet50``. Parameters of all are named as in torchvision
``gat-...``           GATCluster's encoders, which return a map; see `attention_branches`
``pixels``            of images: their pixels as rows, for `methods.graph`
``none``              of embeddings: nothing, the projector is all there is
``mlp``               of embeddings: one hidden layer of `width` units
====================  =============================================================================
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import nn

from ...algos.core.errors import DualclustError, InvalidValueError, UsageError
from ...common.devices import kind_of
from ...common.memory import memory_error
from ..config.run import NetworkConfig
from ..state.seeding import generator
from .attention_branches import GAT_LAYERS, GAT_SMALL, map_encoder
from .libraries import library_of
from .normalization import BatchNorm, begin_groups, groups
from .resnets import DEPTHS, STEMS, resnet
from .small import VGG4, embedding_mlp, identity, pixels, small_cnn, vgg4

__all__ = [
    "NETWORKS",
    "OWN",
    "Network",
    "build_network",
    "in_groups",
    "mlp",
    "own_name",
    "run_views",
]


class Network(nn.Module):
    """An encoder, a projector, and where the method wants one a predictor.

    Attributes
    ----------
    encoder : nn.Module. (b, c, h, w) images or (b, d) embeddings to (b, `encoder_dim`).
    projector : nn.Module. (b, `encoder_dim`) to (b, `out_dim`), not normalized.
    predictor : nn.Module or None. (b, `out_dim`) to (b, `out_dim`); not part of `forward`.
    own_encoder : str. Class of an encoder of the user's own; empty where it is one of ours.
    encoder_mode : ``"train"`` or ``"eval"``. Whether the encoder follows the mode of the network,
        or stays in evaluation.
    one_pass : bool. Whether `run_views` may put views into one pass.
    blocks : bool. Whether they then lie one after the other, as channels last in memory wants.
    compiler : str or None. The backend of `torch.compile`, where `compile_with` was called.
    or_plain : bool. Whether a pass that cannot be compiled is done without, as are all that follow.
    compile_error : str. What the compiler said then; empty: nothing.
    autocast : torch.dtype or None. Lower precision of the passes; what they return has the dtype of
        the parameters, so that nothing outside the network is computed in it.
    """

    place: torch.Tensor

    def __init__(self, encoder: nn.Module, encoder_dim: int, config: NetworkConfig) -> None:
        super().__init__()
        self.encoder_dim = encoder_dim
        self.out_dim = config.out_dim if config.layers else encoder_dim
        self.encoder = encoder
        self.own_encoder = ""
        self.encoder_mode = "train"
        widths = [encoder_dim, *[config.hidden] * (config.layers - 1), self.out_dim]
        projector = mlp(widths, last_norm=config.last_norm) if config.layers else nn.Identity()
        self.projector: nn.Module = projector
        self.predictor: nn.Module | None = None
        if config.predictor:
            self.predictor = mlp([self.out_dim, config.predictor, self.out_dim])
        # Says device and dtype where nothing learns: of a graph in front of no encoder.
        self.register_buffer("place", torch.zeros(0), persistent=False)
        self.autocast: torch.dtype | None = None
        self.compiler: str | None = None
        self.or_plain, self.compile_error = False, ""
        self.blocks = False
        self.lengths: dict[torch.Size, int] = {}
        self.one_pass = not any(
            isinstance(layer, nn.modules.batchnorm._BatchNorm) for layer in encoder.modules()
        )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Map (b, c, h, w) images, or (b, d) embeddings, to (b, out_dim) features."""
        return self.in_precision(lambda x: self.projector(self.encoder(x)), images)

    def train(self, mode: bool = True) -> Network:
        """Set the mode of all parts; the encoder stays in evaluation where `encoder_mode` says."""
        super().train(mode)
        if self.encoder_mode == "eval":
            self.encoder.eval()
        return self

    def compile_with(self, compiler: str, *, or_plain: bool = False) -> None:
        """Compile passes in training by a backend of `torch.compile`; a copy needs it anew.

        Each shape takes the compiler about as long. So of all batches of images of one shape those
        are compiled that are as long as the first; the last of an epoch may be shorter. Nothing is
        compiled in evaluation.
        """
        self.compiler, self.or_plain, self.lengths = compiler, or_plain, {}
        self.compile(backend=compiler, dynamic=False)

    def __call__(self, images: torch.Tensor) -> torch.Tensor:
        """Do a pass, compiled where `compile_with` says."""
        if self.compiler is not None and self.training and self._has_first_length(images):
            for part in (self.encoder, self.projector):
                begin_groups(part)
            try:
                return super().__call__(images)  # type: ignore[no-any-return]
            except Exception as error:
                if not self.or_plain or not _of_compiler(error):
                    raise
                # Compiling comes before computing, of the backward pass as well: nothing has run.
                self.compiler = None
                self.compile_error = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        return self._call_impl(images)  # type: ignore[no-any-return, no-untyped-call]

    def _has_first_length(self, images: torch.Tensor) -> bool:
        length = len(images)  # to ask for it fixes it, where a pass is traced for any length
        return self.lengths.setdefault(images.shape[1:], length) == length

    def predict(self, features: torch.Tensor) -> torch.Tensor:
        """Map (b, out_dim) features to the predictor's, (b, out_dim)."""
        if self.predictor is None:
            msg = "the network has no predictor. To fix this, set network.predictor above 0"
            raise UsageError(msg)
        return self.in_precision(self.predictor, features)

    def in_precision(
        self, function: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor
    ) -> torch.Tensor:
        """Apply a function under `autocast`, where that is set; the result has the dtype of x."""
        if self.autocast is None:
            return function(x)
        with kind_of(x.device).autocast(x.device, self.autocast):
            return function(x).to(x.dtype)


def _of_compiler(error: Exception) -> bool:
    """Whether an error is that of a compiler, which is loaded only where something is compiled."""
    known = sys.modules.get("torch._dynamo.exc")
    return known is not None and isinstance(error, known.TorchDynamoException)


def mlp(widths: Sequence[int], *, last_norm: bool = False) -> nn.Sequential:
    """Linear layers with batch normalization and ReLU between them, and nothing after the last.

    Parameters
    ----------
    widths : ints. Lengths of the input, the hidden layers and the output.
    last_norm : bool. Batch normalization after the last layer.
    """
    layers: list[nn.Module] = []
    for i, (before, after) in enumerate(pairwise(widths)):
        last = i == len(widths) - 2
        normed = last_norm or not last
        # The batch normalization that follows makes a bias idle.
        layers.append(nn.Linear(before, after, bias=not normed))
        layers += [BatchNorm(after)] if normed else []
        layers += [] if last else [nn.ReLU(inplace=True)]
    return nn.Sequential(*layers)


def run_views(
    network: nn.Module,
    function: Callable[[torch.Tensor], torch.Tensor],
    views: Sequence[torch.Tensor],
) -> torch.Tensor:
    """Apply a function of a network to several views: (v, b, ...), batch statistics per view.

    Views of one size go through in one pass, where the network's normalization can tell them
    apart: half the kernels, and the same numbers as a pass for each. A network with PyTorch's own
    batch normalization gets a pass for each view.

    Parameters
    ----------
    network : nn.Module. The module that `function` runs.
    function : callable. Maps a batch of images to a batch of rows.
    views : sequence of (b, c, h, w) tensors.
    """
    shapes = {view.shape for view in views}
    if len(views) == 1 or len(shapes) > 1 or not getattr(network, "one_pass", False):
        return torch.stack([function(view) for view in views])
    return in_groups(network, function, views)


def in_groups(
    network: nn.Module,
    function: Callable[[torch.Tensor], torch.Tensor],
    parts: Sequence[torch.Tensor],
) -> torch.Tensor:
    """Apply a function of a network to g parts of one shape in one pass: (g, b, ...).

    Parameters are those of `run_views`; batch statistics are those of each part.
    """
    count = len(parts)
    if getattr(network, "blocks", False):
        with groups(network, count, blocks=True):
            out = function(torch.cat(tuple(parts)))
        return out.reshape(count, -1, *out.shape[1:])
    with groups(network, count):
        out = function(torch.stack(tuple(parts), 1).flatten(0, 1))
    return out.reshape(-1, count, *out.shape[1:]).movedim(1, 0)


class _Encoder(NamedTuple):
    """How to make an encoder: (width, shape of a sample) to (module, encoder_dim)."""

    build: Callable[[int, tuple[int, ...]], tuple[nn.Module, int]]
    standard_width: int
    axes: int = 3


def check_name(name: str) -> None:
    """Refuse a name that is neither of `NETWORKS`, nor of a library, nor of a user's own module.

    Raises
    ------
    UsageError
    """
    if name in NETWORKS or library_of(name) is not None or name.startswith(OWN):
        return
    close = difflib.get_close_matches(name, NETWORKS)
    hint = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(NETWORKS)}."
    fix = f"set network.name={close[0]}" if close else "set network.name to one of these"
    msg = f"network.name {name!r} is unknown; {hint} To fix this, {fix}"
    raise UsageError(msg)


def build_network(
    config: NetworkConfig,
    shape: Sequence[int],
    *,
    seed: int = 0,
    encoder: nn.Module | None = None,
) -> Network:
    """Build a network with fresh parameters, a function of `seed` alone.

    Parameters
    ----------
    config : name, width and lengths; see `config.NetworkConfig`.
    shape : ints. Shape of one sample: (c, h, w) of images, (d,) of embeddings.
    seed : int. Seed of the parameters; the global random state is left alone.
    encoder : nn.Module, optional. An encoder of one's own in place of ``config.name``, with the
        parameters it has; it maps a batch of samples to (b, encoder_dim).

    Returns
    -------
    network : `Network` on the CPU, in training mode, float32.

    Raises
    ------
    UsageError
        If ``config.name`` is not in `NETWORKS`, or the encoder does not return rows of features.
    InvalidValueError
        If a size is below 1.

    Examples
    --------
    >>> network = build_network(NetworkConfig(), (1, 8, 8))
    >>> network(torch.zeros(4, 1, 8, 8)).shape
    torch.Size([4, 64])
    """
    if len(shape) not in (1, 3) or min(shape) < 1:
        msg = f"shape must be (c, h, w) or (d,), all above 0, got {tuple(shape)}"
        raise InvalidValueError(msg)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(generator(seed, "network").initial_seed())
        if encoder is not None:
            network = Network(encoder, _output_length(encoder, shape), config)
            network.own_encoder = own_name(encoder)
            return network
        if config.name.startswith(OWN):
            msg = (
                f"network.name={config.name!r}: the encoder is a module of your own, which no file "
                f"holds. To fix this, pass it from Python: resume(folder, network=...)"
            )
            raise UsageError(msg)
        check_name(config.name)
        known = NETWORKS[config.name]
        if len(shape) != known.axes:
            what = "images" if known.axes == 3 else "embeddings"
            fit = ", ".join(name for name, other in NETWORKS.items() if other.axes == len(shape))
            msg = (
                f"network.name {config.name!r} takes {what}, and a sample has shape "
                f"{tuple(shape)}. To fix this, set network.name to one of {fit}"
            )
            raise UsageError(msg)
        module, dim = known.build(config.width or known.standard_width, tuple(shape))
        return Network(module, dim, config)


OWN = "own:"
"""What ``network.name`` begins with where the encoder is a module of the user's own."""


def own_name(encoder: nn.Module) -> str:
    """Return the full name of the class of a module."""
    return f"{type(encoder).__module__}.{type(encoder).__qualname__}"


def _output_length(encoder: nn.Module, shape: Sequence[int]) -> int:
    """Features that a user's encoder returns, by asking it."""
    training = encoder.training
    parameter = next(encoder.parameters(), torch.zeros(()))
    encoder.eval()
    some = torch.zeros(2, *shape, dtype=parameter.dtype, device=parameter.device)
    try:
        with torch.no_grad():
            rows = encoder(some)
    except Exception as error:  # whatever is in a module of somebody's own
        if isinstance(error, DualclustError) or memory_error(error, "") is not None:
            raise
        msg = (
            f"the encoder {own_name(encoder)} fails on a batch of shape {tuple(some.shape)}: "
            f"{type(error).__name__}: {' '.join(str(error).split())}. To fix this, look at its "
            f"forward; the side of pictures in files is data.size"
        )
        raise UsageError(msg) from error
    encoder.train(training)
    if not isinstance(rows, torch.Tensor) or rows.ndim != 2 or len(rows) != 2:
        got = tuple(rows.shape) if isinstance(rows, torch.Tensor) else type(rows).__name__
        msg = (
            f"network must map a batch of shape (2, {', '.join(map(str, shape))}) to rows of "
            f"features (2, d), got {got}. To fix this, end it with a pooling or nn.Flatten()"
        )
        raise UsageError(msg)
    return int(rows.shape[1])


NETWORKS: dict[str, _Encoder] = {
    "digits-cnn": _Encoder(partial(small_cnn, "digits-cnn"), standard_width=32),
    "mnist-cnn": _Encoder(partial(small_cnn, "mnist-cnn"), standard_width=16),
    **{name: _Encoder(partial(vgg4, name), spec.width) for name, spec in VGG4.items()},
    **{
        f"resnet{depth}" + ("" if stem == "imagenet" else f"-{stem}"): _Encoder(
            partial(resnet, depth, stem), standard_width=64
        )
        for stem in STEMS
        for depth in DEPTHS
    },
    "pixels": _Encoder(pixels, standard_width=1),
    "none": _Encoder(identity, standard_width=1, axes=1),
    "mlp": _Encoder(embedding_mlp, standard_width=512, axes=1),
    **{
        name: _Encoder(partial(map_encoder, name), standard_width=16 if name in GAT_SMALL else 64)
        for name in GAT_LAYERS
    },
}
"""The encoders by the names that `network.name` takes."""
