"""The decoders alone: encoded chunks are on the device, and one wave of them is launched repeatedly."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import penstock as ps
from penstock import _core


class Wave:
    """Encoded chunks on device 0, each of `chunk_bytes` decoded bytes, and the launches that decode them."""

    def __init__(self, codecs: list[Any], chunks: list[bytes], chunk_bytes: int, nvcomp: bool = False) -> None:
        self.chunks, self.chunk_bytes = len(chunks), chunk_bytes
        if nvcomp:
            ps.Context(decoder="nvcomp")  # finds and loads the library, once per process
        self._wave = _core._ResidentWave(json.dumps(codecs), chunks, [chunk_bytes] * len(chunks), 0, nvcomp)

    @property
    def nbytes(self) -> int:
        return self.chunks * self.chunk_bytes

    def best(self, turns: int) -> dict[str, float]:
        """Milliseconds of each kernel in the fastest of `turns` launches of the wave, after one that does not count.

        Kernels that run more than once in a wave are summed. Raises CorruptDataError if a chunk did not decode.
        """
        fastest: list[float] = []
        for turn in range(turns + 1):
            taken = self._wave.decode()
            if turn and (not fastest or sum(taken) < sum(fastest)):
                fastest = taken
        wrong = [status for status in self._wave.statuses() if status]
        if wrong:
            raise ps.CorruptDataError(_core._describe_status(wrong[0]))
        out: dict[str, float] = {}
        for kernel, ms in zip(self._wave.kernels, fastest, strict=True):
            name = kernel.removeprefix("penstock_")
            out[name] = out.get(name, 0.0) + ms
        return out

    def check(self, expected: np.ndarray) -> None:
        """Check the first and the last chunk against `expected`, the values of all chunks; after `best`."""
        wanted = expected.view("u1").reshape(-1, self.chunk_bytes)
        for chunk in {0, self.chunks - 1}:
            if self._wave.output(chunk) != wanted[chunk % len(wanted)].tobytes():
                raise AssertionError(f"chunk {chunk} decodes to other bytes")
