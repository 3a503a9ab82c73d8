"""zarr-python, set up for the comparison: its pipelines by name, and its number of threads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

PIPELINES = {
    "fused": "zarr.core.codec_pipeline.FusedCodecPipeline",
    "default": "zarr.core.codec_pipeline.BatchedCodecPipeline",
}


def missing(pipeline: str) -> str:
    """Why this zarr-python does not have the pipeline; empty if it has."""
    import zarr
    import zarr.core.codec_pipeline

    name = PIPELINES[pipeline].rsplit(".", 1)[1]
    return "" if hasattr(zarr.core.codec_pipeline, name) else f"zarr-python {zarr.__version__} has no {name}"


@contextmanager
def configured(pipeline_path: str, threads: int) -> Iterator[None]:
    """zarr-python's settings while an array is opened: an array keeps the pipeline with which it was opened."""
    import zarr

    # The first of these sizes a thread pool that exists once per process: use the same number for all calls.
    settings: dict[str, Any] = {"threading.max_workers": threads, "codec_pipeline.path": pipeline_path}
    if not missing("fused"):
        settings["codec_pipeline.max_workers"] = threads
    with zarr.config.set(settings):
        yield
