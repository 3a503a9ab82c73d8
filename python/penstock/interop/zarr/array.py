"""zarr-python's `Array` without its event loop.

The engine reads and writes a selection directly if it accepts it as zarr-python does. Everything else runs
zarr-python's own method, whose coroutine is driven on the calling thread: with Penstock's pipeline, a synchronous store
and synchronous codecs it never waits. So exceptions and casts are those of zarr-python's code.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import zarr
from zarr.core.array_spec import ArraySpec
from zarr.core.buffer import default_buffer_prototype

from penstock import _core
from penstock.core.data_types import cast
from penstock.core.errors import CorruptDataError, Error, InvalidArgumentError, OutOfRangeError
from penstock.interop.zarr import gpu as _gpu
from penstock.interop.zarr.fancy import KINDS, is_plain
from penstock.interop.zarr.opened import OpenedArray, plain_buffers
from penstock.interop.zarr.pipeline import CodecPipeline
from penstock.interop.zarr.reading import OF_STORES, read_gpu, read_plain
from penstock.interop.zarr.settings import count
from penstock.interop.zarr.without_loop import selection_method

_Array: Any = zarr.Array
_NUMBERS = frozenset((int, float))


def with_our_pipeline(async_array: Any) -> Any:
    """The same asynchronous array with Penstock's pipeline."""
    if isinstance(async_array.codec_pipeline, CodecPipeline):
        return async_array
    made = copy.copy(async_array)
    theirs, metadata, grid = made.codec_pipeline, made.metadata, made._chunk_grid
    values = {
        "array_array_codecs": theirs.array_array_codecs,
        "array_bytes_codec": theirs.array_bytes_codec,
        "bytes_bytes_codecs": theirs.bytes_bytes_codecs,
        "batch_size": theirs.batch_size,
        "codecs": tuple(theirs),
        "sync_transform": None,
    }
    # Not by `from_codecs`: its warnings were given when the array was opened.
    wanted = {field.name for field in dataclasses.fields(CodecPipeline)}
    spec = ArraySpec(
        shape=grid.chunk_shape if grid.is_regular else (1,) * len(metadata.shape),
        dtype=metadata.dtype,
        fill_value=metadata.fill_value,
        config=made.config,
        prototype=default_buffer_prototype(),
    )
    pipeline = CodecPipeline(**{name: value for name, value in values.items() if name in wanted})
    pipeline = pipeline.evolve_from_array_spec(spec)
    object.__setattr__(made, "codec_pipeline", pipeline)
    return made


class Array(_Array):  # type: ignore[misc]
    """A `zarr.Array` that reads and writes on the calling thread if its store and codecs are synchronous.

    Made by `penstock.zarr.wrap`, `open_array` and `open_group`. It has all of zarr-python's methods, with the same
    results and exceptions.

    Examples
    --------
    >>> import zarr, penstock.zarr
    >>> ps.save("x.zarr", np.arange(600.0).reshape(30, 20))
    >>> a = penstock.zarr.open_array("x.zarr", mode="r+")
    >>> a[2, :3]
    array([40., 41., 42.])
    >>> a.oindex[[0, 2], 1] = -1
    >>> isinstance(a, zarr.Array)
    True
    """

    def _penstock_engine(self) -> OpenedArray:
        cached: OpenedArray | None = self.__dict__.get("_penstock")
        if cached is not None and cached.serves(self._async_array):
            return cached
        made = OpenedArray(self._async_array)
        self.__dict__["_penstock"] = made
        return made

    def _penstock_read(self, selection: Any, scalar: bool) -> Any:
        """A plain selection; `NotImplemented` if zarr-python must read or refuse it."""
        engine = self._penstock_engine()
        if engine.reads and plain_buffers():
            return read_plain(engine, selection, scalar)
        return read_gpu(self, engine, selection) if _gpu.gpu_buffers() else NotImplemented

    def __getitem__(self, selection: Any) -> Any:
        found = self._penstock_read(selection, False)
        return super().__getitem__(selection) if found is NotImplemented else found

    def __setitem__(self, selection: Any, value: Any) -> None:
        if not self._penstock_write(selection, value):
            super().__setitem__(selection, value)

    def _penstock_value(self, value: Any) -> Any:
        """`value` if its elements need no cast by zarr-python; None otherwise."""
        engine = self._penstock_engine()
        dtype, native = engine.dtype, engine.native
        if type(value) is np.ndarray:
            if value.dtype != dtype:
                return None
            return value if engine.plain else cast(value, native)
        if (type(value) in _NUMBERS and dtype.kind in "iufc") or (type(value) is str and dtype.kind == "T"):
            try:
                return np.asarray(value, dtype=native)
            except (TypeError, ValueError, OverflowError):
                return None
        return None

    def _penstock_write(self, selection: Any, value: Any) -> bool:
        """Write a plain selection with a value of the same shape and dtype, without zarr-python's code."""
        engine = self._penstock_engine()
        if not engine.writes or not plain_buffers():
            return False
        value = self._penstock_value(value)
        if value is None:
            return False
        assert engine.array is not None
        try:
            if engine.dtype.kind == "T":
                written = is_plain(selection) and value.shape in ((), engine.array._resolve(selection)[1])
                if written:
                    engine.array._write(selection, value, engine.threads, None, False, engine.keeps_empty)
            else:
                written = _core.write_plain(engine.array, selection, value, engine.keeps_empty)
        except (CorruptDataError, InvalidArgumentError, OutOfRangeError, *OF_STORES):
            return False  # the pipeline finds the error, too, and reports it with zarr-python's message
        if written:
            count("write", "array")
        return written

    def _penstock_read_fancy(self, kind: str, selection: Any) -> Any:
        """Lists, points, masks and blocks; `NotImplemented` if zarr-python must read or refuse them."""
        engine = self._penstock_engine()
        if engine.array is None or not engine.reads or engine.order != "C" or not plain_buffers():
            return NotImplemented
        try:
            chosen = KINDS[kind](engine.array, selection)
            if chosen is None or not chosen.shape or 0 in chosen.shape:
                return NotImplemented
            with engine.reading():
                found = engine.array._read(chosen, engine.threads, None)
        except Error:
            return NotImplemented
        count("read", "array")
        return cast(np.asarray(found), engine.dtype)

    def _penstock_write_fancy(self, kind: str, selection: Any, value: Any) -> bool:
        engine = self._penstock_engine()
        if not engine.writes or not plain_buffers():
            return False
        value = self._penstock_value(value)
        if value is None:
            return False
        assert engine.array is not None
        try:
            chosen = KINDS[kind](engine.array, selection)
            if chosen is None or not chosen.shape or 0 in chosen.shape or value.shape not in ((), chosen.shape):
                return False
            engine.array._write(chosen, value, engine.threads, None, False, engine.keeps_empty)
        except Error:
            return False
        count("write", "array")
        return True

    def get_basic_selection(
        self, selection: Any = ..., *, out: Any = None, prototype: Any = None, fields: Any = None
    ) -> Any:
        if out is None and prototype is None and fields is None:
            found = self._penstock_read(selection, True)
            if found is not NotImplemented:
                return found
        return _basic(self, selection, out=out, prototype=prototype, fields=fields)

    get_basic_selection.__doc__ = zarr.Array.get_basic_selection.__doc__

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_penstock"}

    def with_config(self, config: Any) -> Any:
        return Array(with_our_pipeline(super().with_config(config)._async_array))

    def update_attributes(self, new_attributes: Any) -> Any:
        return Array(with_our_pipeline(super().update_attributes(new_attributes)._async_array))


def _get_method(kind: str) -> Callable[..., Any]:
    otherwise = selection_method(f"get_{kind}_selection")

    def method(self: Array, selection: Any, *, out: Any = None, fields: Any = None, prototype: Any = None) -> Any:
        if out is None and fields is None and prototype is None:
            found = self._penstock_read_fancy(kind, selection)
            if found is not NotImplemented:
                return found
        return otherwise(self, selection, out=out, fields=fields, prototype=prototype)

    return method


def _set_method(kind: str) -> Callable[..., Any]:
    otherwise = selection_method(f"set_{kind}_selection")

    def method(self: Array, selection: Any, value: Any, *, fields: Any = None, prototype: Any = None) -> None:
        if fields is None and prototype is None and self._penstock_write_fancy(kind, selection, value):
            return
        otherwise(self, selection, value, fields=fields, prototype=prototype)

    return method


def _mask_method(made: Callable[..., Any]) -> Callable[..., Any]:
    """The same with zarr-python's name for the first argument."""

    def method(self: Array, mask: Any, *args: Any, **kwargs: Any) -> Any:
        return made(self, mask, *args, **kwargs)

    return method


def _set_basic(self: Array, selection: Any, value: Any, *, fields: Any = None, prototype: Any = None) -> None:
    if fields is None and prototype is None and self._penstock_write(selection, value):
        return
    _otherwise_basic(self, selection, value, fields=fields, prototype=prototype)


_basic = selection_method("get_basic_selection")
_otherwise_basic = selection_method("set_basic_selection")


def _add_methods() -> None:
    made: dict[str, Callable[..., Any]] = {"set_basic_selection": _set_basic}
    for kind in KINDS:
        for name, method in (
            (f"get_{kind}_selection", _get_method(kind)),
            (f"set_{kind}_selection", _set_method(kind)),
        ):
            made[name] = _mask_method(method) if kind == "mask" else method
    for name, method in made.items():
        method.__name__, method.__qualname__ = name, f"Array.{name}"
        method.__doc__ = getattr(zarr.Array, name).__doc__
        setattr(Array, name, method)


_add_methods()
Array.__module__ = "penstock.zarr"
