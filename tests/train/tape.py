"""What a CUDA graph does, on any device: record the operations of a step, and do them again.

A replay runs the recorded operations on the recorded memory: what lay outside the step is the very
memory (so that in-place changes last), what was made within is made again.
"""

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from tests.second_device import each_tensor, tensors


def memory(tensor):
    """Which memory a tensor lies in: autograd hands out other objects with the same."""
    return tensor.untyped_storage()._cdata


class Tape(TorchDispatchMode):
    """Records while it is active; `before` holds what lay outside as it was."""

    def __init__(self):
        super().__init__()
        self.calls, self.made, self.before = [], set(), {}

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        for leaf in tensors((*args, *kwargs.values())):
            if memory(leaf) not in self.made and memory(leaf) not in self.before:
                whole = torch.empty(0, dtype=leaf.dtype).set_(leaf.untyped_storage())
                self.before[memory(leaf)] = whole, whole.clone()
        out = function(*args, **kwargs)
        self.made.update(m for leaf in tensors([out]) if (m := memory(leaf)) not in self.before)
        self.calls.append((function, args, kwargs, out))  # all kept: no memory comes twice
        return out

    def replay(self):
        again = {}

        def current(value):
            storage = again.get(memory(value))
            if storage is None:
                return value
            here = storage, value.storage_offset(), value.shape, value.stride()
            return torch.empty(0, dtype=value.dtype).set_(*here)

        with torch.no_grad():
            for function, args, kwargs, out in self.calls:
                named = {name: each_tensor(current, value) for name, value in kwargs.items()}
                new = function(*each_tensor(current, args), **named)
                for a, b in zip(tensors([out]), tensors([new]), strict=True):
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
