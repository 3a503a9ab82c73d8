"""zarr-python, set up to be compared with: its pipelines by name, and how many threads it may use."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

PIPELINES = {
    "fused": "zarr.core.codec_pipeline.FusedCodecPipeline",
    "default": "zarr.core.codec_pipeline.BatchedCodecPipeline",
}


def missing(pipeline: str) -> str:
    """Why this zarr-python lacks the pipeline; empty where it has it."""
    import zarr
    import zarr.core.codec_pipeline

    name = PIPELINES[pipeline].rsplit(".", 1)[1]
    return "" if hasattr(zarr.core.codec_pipeline, name) else f"zarr-python {zarr.__version__} has no {name}"


@contextmanager
def configured(pipeline_path: str, threads: int) -> Iterator[None]:
    """zarr-python's settings while an array is opened: an array keeps the pipeline that it was opened with."""
    import zarr

    # The first of these sizes a thread pool that exists once per process: give all callers the same number.
    settings: dict[str, Any] = {"threading.max_workers": threads, "codec_pipeline.path": pipeline_path}
    if not missing("fused"):
        settings["codec_pipeline.max_workers"] = threads
    with zarr.config.set(settings):
        yield
