from __future__ import annotations

from pathlib import Path
from typing import Any

from . import Peer, Shape, Source


class Penstock(Peer):
    name = "penstock"
    sync: str | None = None

    def __init__(self, threads: int) -> None:
        super().__init__(threads)
        self._context: Any = None

    def unavailable(self, source: Source) -> str:
        try:
            import penstock
        except ImportError as error:
            return f"not built: {error}"
        return "" if hasattr(penstock, "open") else "not built"

    def open(self, source: Source) -> Any:
        import penstock as ps

        with self.active():
            return ps.open(source if isinstance(source, dict) else str(source))

    def create(self, path: Path, shape: Shape, dtype: str, chunks: Shape, shards: Shape | None) -> Any:
        import penstock as ps

        zstd = {"name": "zstd", "configuration": {"level": 0, "checksum": False}}
        with self.active():
            return ps.create_array(
                str(path), shape=shape, dtype=dtype, chunks=chunks, shards=shards, codecs=[zstd], overwrite=True
            )

    def active(self) -> Any:
        """The context of all arrays that this peer opens: profiles are taken of it."""
        import penstock as ps

        if self._context is None:
            self._context = ps.Context(threads=self.threads, sync=self.sync)
        return self._context


class PenstockUnflushed(Penstock):
    name = "penstock unflushed"
    sync = "none"
