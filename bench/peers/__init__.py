"""All contestants: one adapter each, with the same three functions.

A `Peer` opens a path or a dict of objects and reads selections of it into new NumPy arrays, with the given number of
threads. `unavailable` returns the reason why it cannot take part; no peer is omitted silently.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

Source = Path | dict[str, bytes]
Shape = tuple[int, ...]


class Peer:
    name = ""
    reads_values = True  # false for one that only shows the cost of a call

    def __init__(self, threads: int) -> None:
        self.threads = threads

    def unavailable(self, source: Source) -> str:
        """The reason why this peer cannot read such a source; empty if it can."""
        raise NotImplementedError

    def open(self, source: Source) -> Any:
        """An object whose `[selection]` reads."""
        raise NotImplementedError

    def create(self, path: Path, shape: Shape, dtype: str, chunks: Shape, shards: Shape | None) -> Any:
        """A new v3 array at `path`, zstd level 0, whose `[selection] = values` writes."""
        raise NotImplementedError

    def active(self) -> AbstractContextManager[Any]:
        """Settings that must be active while it opens and reads."""
        return nullcontext()


def by_name(name: str, threads: int) -> Peer:
    from . import penstock_peer, plugin_peer, tensorstore_peer, zarr_python_peer, zarrs_python_peer

    peers = {
        "penstock": penstock_peer.Penstock,
        "penstock unflushed": penstock_peer.PenstockUnflushed,
        "tensorstore": tensorstore_peer.TensorStore,
        "tensorstore unflushed": tensorstore_peer.TensorStoreUnflushed,
        "zarrs-python": zarrs_python_peer.ZarrsPython,
        "zarr-python fused": zarr_python_peer.Fused,
        "zarr-python default": zarr_python_peer.Default,
        "penstock plug-in": plugin_peer.Plugin,
        "penstock wrap": plugin_peer.Wrap,
        "pipeline that does nothing": plugin_peer.Nothing,
    }
    return peers[name](threads)


NAMES = ("penstock", "tensorstore", "zarrs-python", "zarr-python fused", "zarr-python default")
