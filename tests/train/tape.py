"""What a CUDA graph does, on any device: record the operations of a step, and do them again.

A replay runs the recorded operations on the recorded memory: what lay outside the step is the very
memory (so that in-place changes last), what was made within is made again.
"""

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map


def memory(tensor):
    """Which memory a tensor lies in: autograd hands out other objects with the same."""
    return tensor.untyped_storage()._cdata


def tensors(tree):
    return [leaf for leaf in tree_flatten(tree)[0] if isinstance(leaf, torch.Tensor)]


class Tape(TorchDispatchMode):
    """Records while it is active; `before` holds what lay outside as it was."""

    def __init__(self):
        super().__init__()
        self.calls, self.made, self.before = [], set(), {}

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        for leaf in tensors((args, kwargs)):
            if memory(leaf) not in self.made and memory(leaf) not in self.before:
                whole = torch.empty(0, dtype=leaf.dtype).set_(leaf.untyped_storage())
                self.before[memory(leaf)] = whole, whole.clone()
        out = function(*args, **kwargs)
        self.made |= {memory(leaf) for leaf in tensors(out)} - self.before.keys()
        self.calls.append((function, args, kwargs, out))  # all kept: no memory comes twice
        return out

    def replay(self):
        again = {}

        def current(leaf):
            if not isinstance(leaf, torch.Tensor) or memory(leaf) not in again:
                return leaf
            here = again[memory(leaf)], leaf.storage_offset(), leaf.shape, leaf.stride()
            return torch.empty(0, dtype=leaf.dtype).set_(*here)

        with torch.no_grad():
            for function, args, kwargs, out in self.calls:
                new = function(*tree_map(current, args), **tree_map(current, kwargs))
                for a, b in zip(tensors(out), tensors(new), strict=True):
                    if memory(a) in self.made:
                        again[memory(a)] = b.untyped_storage()
            self.result.copy_(current(self.result))


def capture(function):
    """As `torch.cuda.graph`: returns what replays the function, and its result."""
    tape = Tape()
    with tape:
        result = tape.result = function()
    with torch.no_grad():
        for whole, old in tape.before.values():
            whole.copy_(old)
    return tape, result
