"""A nested state, such as an optimizer's, as tensors and JSON, and back without loss.

A checkpoint keeps tensors in one file and everything else in another. An optimizer's state mixes
both, under integer keys and in tuples, which JSON does not have.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import torch

from ...algos.core.errors import CheckpointError, InvalidTypeError

__all__ = ["JSON", "check_json", "pack", "unpack"]

JSON: TypeAlias = Any


def pack(state: Any, prefix: str = "state") -> tuple[dict[str, torch.Tensor], JSON]:
    """Split a nested state, such as an optimizer's, into tensors and JSON, without loss.

    Parameters
    ----------
    state : dict (keys: str or int), list, tuple, tensor, str, int, float, bool or None, nested.
    prefix : str. Start of the tensors' names, so that several states share one checkpoint.

    Returns
    -------
    tensors : dict from name to tensor; names are paths, such as ``"state.state.0.exp_avg"``.
    tree : JSON value that refers to the tensors by name.

    Raises
    ------
    InvalidTypeError
        If a value or a key has another type.

    Examples
    --------
    >>> tensors, tree = pack({0: {"step": torch.tensor(3.0), "betas": (0.9, 0.99)}})
    >>> unpack(tensors, tree)
    {0: {'step': tensor(3.), 'betas': (0.9, 0.99)}}
    """
    tensors: dict[str, torch.Tensor] = {}

    def visit(value: Any, path: str) -> JSON:
        if isinstance(value, torch.Tensor):
            while path in tensors:  # the keys 0 and "0" give one path
                path += "'"
            tensors[path] = value
            return {"tensor": path}
        if isinstance(value, Mapping):
            for key in value:
                if isinstance(key, bool) or not isinstance(key, (str, int)):
                    msg = f"{path} has the key {key!r}; keys must be str or int"
                    raise InvalidTypeError(msg)
            return {"dict": [[key, visit(item, f"{path}.{key}")] for key, item in value.items()]}
        if isinstance(value, (list, tuple)):
            items = [visit(item, f"{path}.{i}") for i, item in enumerate(value)]
            return {"tuple": items} if isinstance(value, tuple) else items
        check_json(value, path)
        return value

    return tensors, visit(state, prefix)


def unpack(tensors: Mapping[str, torch.Tensor], tree: JSON) -> Any:
    """Put together again what `pack` split.

    Raises
    ------
    CheckpointError
        If `tree` refers to a tensor that is not there, or was not made by `pack`.
    """
    if isinstance(tree, list):
        return [unpack(tensors, item) for item in tree]
    if not isinstance(tree, dict):
        return tree
    match tree:
        case {"tensor": str(name)} if name in tensors:
            return tensors[name]
        case {"dict": list(pairs)} if all(map(_is_pair, pairs)):
            return {key: unpack(tensors, item) for key, item in pairs}
        case {"tuple": list(items)}:
            return tuple(unpack(tensors, item) for item in items)
    msg = (
        f"the state refers to {str(tree)[:200]}, which the checkpoint does not hold. "
        f"To fix this, go on from another checkpoint of the run"
    )
    raise CheckpointError(msg)


def _is_pair(pair: JSON) -> bool:
    return isinstance(pair, list) and len(pair) == 2 and type(pair[0]) in (str, int)


def check_json(value: JSON, path: str) -> None:
    """Refuse what JSON would change: `path` names the value in the message.

    Raises
    ------
    InvalidTypeError
        If `value` holds anything but str, int, float, bool, None, list, and dict with str keys.
    """
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                msg = f"{path} has the key {key!r}; JSON keeps only str keys. To fix: pack it"
                raise InvalidTypeError(msg)
            check_json(item, f"{path}.{key}")
    elif isinstance(value, list):
        for i, item in enumerate(value):
            check_json(item, f"{path}[{i}]")
    # By exact type: NumPy's float is a float, but would come back as another one.
    elif value is not None and type(value) not in (str, int, float, bool):
        msg = f"{path} is a {type(value).__name__}, which cannot be saved without loss"
        raise InvalidTypeError(msg)
