"""Penstock inside of zarr-python: as its codec pipeline, and as arrays that bypass its event loop."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from penstock.view.demo import zarr_python

from . import Shape, Source
from .zarr_python_peer import ZarrPython


class Plugin(ZarrPython):
    """zarr-python with `penstock.zarr.CodecPipeline`."""

    name = "penstock plug-in"
    path = "penstock.zarr.CodecPipeline"

    def unavailable(self, source: Source) -> str:
        try:
            import penstock.zarr  # noqa: F401
        except ImportError as error:
            return str(error)
        return ""

    def active(self) -> AbstractContextManager[Any]:
        return zarr_python.configured(self.path, self.threads)


class Wrap(Plugin):
    """`penstock.zarr.wrap` around an array of zarr-python."""

    name = "penstock wrap"

    def open(self, source: Source) -> Any:
        import penstock.zarr

        return penstock.zarr.wrap(super().open(source))

    def create(self, path: Path | Any, shape: Shape, dtype: str, chunks: Shape, shards: Shape | None) -> Any:
        import penstock.zarr

        return penstock.zarr.wrap(super().create(path, shape, dtype, chunks, shards))


class Nothing(Plugin):
    """zarr-python with a pipeline that does nothing: the cost of a read outside of the pipeline."""

    name = "pipeline that does nothing"
    reads_values = False
    path = "peers.null_pipeline.NullPipeline"

    def unavailable(self, source: Source) -> str:
        from . import null_pipeline  # noqa: F401  (registers it)

        return ""
