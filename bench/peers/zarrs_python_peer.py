from __future__ import annotations

import importlib.util
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from penstock.view.demo import zarr_python

from . import Peer, Shape, Source
from .zarr_python_peer import create_array

PIPELINE = "zarrs.ZarrsCodecPipeline"


class ZarrsPython(Peer):
    """zarr-python with the codec pipeline of zarrs; it reads paths only and falls back silently for the rest."""

    name = "zarrs-python"

    def unavailable(self, source: Source) -> str:
        if not importlib.util.find_spec("zarrs"):
            return "not installed"
        return "it does not read memory stores (zarr-python's own pipeline would)" if isinstance(source, dict) else ""

    def open(self, source: Source) -> Any:
        import zarr
        import zarrs  # noqa: F401  (registers the pipeline)

        with self.active():
            array = zarr.open_array(str(source), mode="r")
        used = type(array._async_array.codec_pipeline).__name__
        if used != PIPELINE.rsplit(".", 1)[1]:
            raise RuntimeError(f"zarr-python chose {used} in place of zarrs")
        return array

    def create(self, path: Path, shape: Shape, dtype: str, chunks: Shape, shards: Shape | None) -> Any:
        import zarrs  # noqa: F401

        with self.active():
            return create_array(path, shape, dtype, chunks, shards)

    def active(self) -> AbstractContextManager[Any]:
        return zarr_python.configured(PIPELINE, self.threads)
