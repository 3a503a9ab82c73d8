"""Which path an array's reads and writes take, and why."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import zarr
from zarr.core.array_spec import ArraySpec
from zarr.core.buffer import default_buffer_prototype

from penstock.core.errors import InvalidArgumentError
from penstock.interop.zarr import gpu as _gpu
from penstock.interop.zarr.array import Array
from penstock.interop.zarr.pipeline import CodecPipeline
from penstock.interop.zarr.settings import type_name

_WAYS = {
    "native": "the engine fetches, decodes and scatters; one call for all chunks",
    "sync": "the engine decodes and scatters; the store's synchronous methods are called",
    "async": "the store's coroutines are gathered; the engine decodes and scatters off the event loop",
    "array": "the engine reads or writes on the calling thread, past zarr-python",
    "device": "encoded bytes go to the GPU and become zarr-python's GPU buffer there",
    "zarr": "zarr-python's own code",
}


@dataclass(frozen=True)
class Way:
    """The path of one kind of operation: `path` as in `stats`, and why it is not a faster one."""

    operation: str
    path: str
    reason: str


@dataclass(frozen=True, repr=False)
class Explanation:
    """The result of `explain`; `str` of it is readable text.

    Examples
    --------
    >>> import zarr, penstock.zarr
    >>> z = zarr.create_array("x.zarr", shape=(100, 50), chunks=(10, 50), dtype="f4")
    >>> found = penstock.zarr.explain(z)                # opened without `enable`
    >>> found.ways[0].path, found.to_dict()["store"]
    ('zarr', 'LocalStore')
    """

    array: str
    store: str
    codecs: str
    ways: tuple[Way, ...]

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)

    def __str__(self) -> str:
        lines = [self.array, f"  store:  {self.store}", f"  codecs: {self.codecs}"]
        for way in self.ways:
            lines.append(f"  {way.operation}: {way.path}: {_WAYS[way.path]}")
            if way.reason:
                lines.append(f"    because {way.reason}")
        return "\n".join(lines)

    __repr__ = __str__


class Explanations(dict[str, Explanation]):
    """The result of `explain` for a group: an `Explanation` for each array in it, by path; `str` of it is readable
    text.

    Examples
    --------
    >>> import zarr, penstock.zarr
    >>> g = zarr.create_group("run.zarr")
    >>> z = g.create_array("t", shape=(10,), dtype="f4")
    >>> list(penstock.zarr.explain(g))
    ['t']
    """

    def __str__(self) -> str:
        return "\n".join(map(str, self.values()))

    __repr__ = __str__


def explain(array: Any) -> Explanation | Explanations:
    """Return, for each kind of operation on `array`, the path that it takes and why it is not a faster one.

    For a `zarr.Group`: the same for every array in it.

    Parameters
    ----------
    array
        A `zarr.Array` or `zarr.Group`; also one of `wrap`.

    Returns
    -------
    Explanation or Explanations
        `str` of it is readable text.

    Raises
    ------
    InvalidArgumentError
        `array` is neither.

    Examples
    --------
    >>> import zarr, penstock.zarr
    >>> with penstock.zarr.enable():
    ...     z = zarr.create_array("x.zarr", shape=(100, 50), chunks=(10, 50), dtype="f4")
    >>> print(penstock.zarr.explain(z))
    Array 'file://x.zarr'
      store:  LocalStore (native)
      codecs: bytes(little) | zstd(level=0)
      reads: native: the engine fetches, decodes and scatters; one call for all chunks
      writes: native: ...
    """
    if isinstance(array, zarr.Group):
        members = array.members(max_depth=None)
        return Explanations({path: _explain(node) for path, node in members if isinstance(node, zarr.Array)})
    if not isinstance(array, zarr.Array | zarr.AsyncArray):
        text = f"explain takes a zarr.Array or a zarr.Group, got {type_name(array)}"
        raise InvalidArgumentError(text)
    return _explain(array)


def _explain(array: Any) -> Explanation:
    inner = getattr(array, "_async_array", array)
    pipeline, metadata, store = inner.codec_pipeline, inner.metadata, inner.store_path.store
    shown = f"{type(array).__name__} '{inner.store_path}'"
    store_shown = f"{type(store).__name__}"
    if not isinstance(pipeline, CodecPipeline):
        reason = (
            f"its pipeline is {type(pipeline).__name__}: call penstock.zarr.enable() before opening, or "
            "penstock.zarr.wrap(array)"
        )
        ways = tuple(Way(operation, "zarr", reason) for operation in ("reads", "writes"))
        return Explanation(shown, store_shown, " | ".join(type(codec).__name__ for codec in pipeline), ways)

    grid = getattr(inner, "_chunk_grid", None) or metadata.chunk_grid  # before zarr-python 3.2 the metadata's own
    spec = ArraySpec(
        shape=grid.chunk_shape if getattr(grid, "is_regular", True) else (1,) * len(metadata.shape),
        dtype=metadata.dtype,
        fill_value=metadata.fill_value,
        config=inner.config,
        prototype=default_buffer_prototype(),
    )
    program, route = pipeline._program(spec), pipeline._route(store)
    codecs = " | ".join(type(codec).__name__ for codec in pipeline)
    if program.core is not None:
        codecs = program.core.codecs_text
    store_shown += f" ({route.path}{': ' + route.reason if route.reason else ''})"

    found: list[Way] = []
    names, reasons = ("reads", "writes"), (program.reason, program.write_reason)
    gpu, on_gpu = False, ""
    if _gpu.gpu_buffers() and program.core is not None:
        gpu, on_gpu = True, f"zarr-python's buffers are those of the GPU; {program.core.device_path}"
    if isinstance(array, Array):
        engine = array._penstock_engine()
        loop = "on the calling thread" if engine.drives else "on zarr-python's event loop"
        if gpu:
            found.append(Way("selections, read", "device", on_gpu))
        elif engine.array is not None:
            found.append(Way("selections, read", "array", ""))
        else:
            found.append(Way("selections, read", "zarr" if program.core is None else route.path, engine.reason))
        if engine.writes and not gpu:
            found.append(Way("selections, written", "array", ""))
        names = (f"other reads, {loop}", f"{'other ' if engine.writes else ''}writes, {loop}")
    for name, reason in zip(names, reasons, strict=True):
        if gpu and "writes" not in name:
            found.append(Way(name, "device", on_gpu))
            continue
        found.append(Way(name, "zarr" if reason else route.path, reason or route.reason))
    return Explanation(shown, store_shown, codecs, tuple(found))
