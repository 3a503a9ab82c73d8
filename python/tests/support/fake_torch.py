"""The part of PyTorch that `penstock.torch.load` uses. Its tensors keep their memory; no GPU is involved."""

from __future__ import annotations

import sys
import types
from dataclasses import dataclass
from typing import Any

import pytest


class Tensor:
    """A consumer of DLPack: it keeps a capsule, on its own stream."""

    def __init__(self, producer: Any, stream: int) -> None:
        self.shape, self.capsule = producer.shape, producer.__dlpack__(stream=stream, max_version=(1, 0))
        self.address = producer._read.address


@dataclass
class Shard:
    dim: int


class Replicate:
    pass


class DTensor:
    @staticmethod
    def from_local(local: Tensor, *_: Any, **__: Any) -> Tensor:
        return local


@dataclass
class Mesh:
    """A mesh of one process, on the current device."""

    device_type: str = "cuda"
    shape: tuple[int, ...] = (1,)
    ndim: int = 1

    def get_coordinate(self) -> list[int]:
        return [0]


def install(patch: pytest.MonkeyPatch, stream: int) -> None:
    """Make this module `torch`, whose tensors are ordered on `stream`, and let `penstock.torch` be imported with it."""
    names = ("torch", "torch.utils", "torch.utils.data", "torch.cuda", "torch.distributed", "torch.distributed.tensor")
    made: dict[str, Any] = {name: types.ModuleType(name) for name in names}
    for name in names:
        patch.setitem(sys.modules, name, made[name])
        parent, _, own = name.rpartition(".")
        if parent:
            setattr(made[parent], own, made[name])
    made["torch"].Tensor, made["torch"].Size = Tensor, tuple
    made["torch"].from_dlpack = lambda producer: Tensor(producer, stream)
    made["torch.cuda"].current_device = lambda: 0
    made["torch.utils.data"].Dataset = made["torch.utils.data"].IterableDataset = object
    for each in (DTensor, Replicate, Shard):
        setattr(made["torch.distributed.tensor"], each.__name__, each)
    for name in ("penstock.torch", "penstock.interop.torch"):
        patch.delitem(sys.modules, name, raising=False)
