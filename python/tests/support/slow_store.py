"""A slow store, for programs of the tests too: without zarr-python and pytest, whose import takes a second."""

from __future__ import annotations

import time

import numpy as np
import penstock as ps


class Slow(ps.Store):
    """A store that takes some time to return a chunk, and that counts the calls in progress."""

    def __init__(self, values: dict[str, bytes], seconds: float = 0.02) -> None:
        self.values, self.seconds = values, seconds
        self.asked = 0
        self.inside = 0

    def get(self, key: str) -> bytes | None:
        self.asked += 1
        self.inside += 1
        try:
            if key != "zarr.json":
                time.sleep(self.seconds)
            return self.values.get(key)
        finally:
            self.inside -= 1


def stored(values: np.ndarray, chunks: tuple[int, ...]) -> dict[str, bytes]:
    """The objects of an array."""
    where: dict[str, bytes] = {}
    ps.create_array(where, data=values, chunks=chunks, codecs=["zstd"])
    return where
