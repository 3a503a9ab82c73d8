"""The computation on every shard: 75 dot products, as in the published study, with any installed library."""

from __future__ import annotations

from typing import Any

import numpy as np

DOTS = 75


class Cupy:
    name = "CuPy"

    def __init__(self) -> None:
        import cupy

        cupy.ones(2).dot(cupy.ones(2))  # needs more of CUDA's libraries than the import
        self._cupy = cupy

    def queue(self, data: Any, stream: int) -> None:
        with self._cupy.cuda.ExternalStream(stream):
            values = self._cupy.from_dlpack(data)
            for _ in range(DOTS):
                values.dot(values)

    def finish(self) -> None:
        self._cupy.cuda.Device().synchronize()


class Torch:
    name = "PyTorch"

    def __init__(self) -> None:
        import torch

        if not torch.cuda.is_available():
            raise ImportError("PyTorch finds no device")
        torch.ones(2, device="cuda").dot(torch.ones(2, device="cuda"))
        self._torch = torch

    def queue(self, data: Any, stream: int) -> None:
        with self._torch.cuda.stream(self._torch.cuda.ExternalStream(stream)):
            values = self._torch.from_dlpack(data)
            for _ in range(DOTS):
                self._torch.dot(values, values)

    def finish(self) -> None:
        self._torch.cuda.synchronize()


class Host:
    """NumPy, after a copy to the host: the fallback without a library for the device. Its times have no bars."""

    name = "NumPy on the host"

    def queue(self, data: Any, stream: int) -> None:
        values = data.numpy()
        for _ in range(DOTS):
            np.dot(values, values)

    def finish(self) -> None:
        pass


def choose(simulated: bool) -> tuple[Any, list[str]]:
    """The first library that works here, and the reasons why the ones before it do not."""
    missing = []
    for kind in () if simulated else (Cupy, Torch):
        try:
            return kind(), missing
        except Exception as error:
            missing.append(f"{kind.name}: {error}")
    if simulated:
        missing.append("CuPy and PyTorch need hardware")
    return Host(), missing
