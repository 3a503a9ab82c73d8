"""zarr-python's `Array` without its event loop.

The engine reads and writes a selection directly if it accepts it as zarr-python does. Everything else runs
zarr-python's own method, whose coroutine is driven on the calling thread: with Penstock's pipeline, a synchronous store
and synchronous codecs it never waits. So exceptions and casts are those of zarr-python's code.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import json
import os
from collections.abc import Callable, Coroutine
from types import FunctionType
from typing import Any

import numpy as np
import zarr
from zarr.abc.store import Store
from zarr.core import codec_pipeline
from zarr.core.array_spec import ArraySpec
from zarr.core.buffer import default_buffer_prototype
from zarr.core.config import config
from zarr.registry import get_ndbuffer_class

from penstock import _core
from penstock.core.data_types import cast
from penstock.core.device import PER_THREAD
from penstock.core.errors import (
    CorruptDataError,
    DeadlineExceededError,
    Error,
    InternalError,
    InvalidArgumentError,
    OutOfRangeError,
    PermissionDeniedError,
    StorageError,
    UnsupportedError,
)
from penstock.interop.zarr import gpu as _gpu
from penstock.interop.zarr.fancy import KINDS, is_plain
from penstock.interop.zarr.originals import originals
from penstock.interop.zarr.pipeline import CodecPipeline, direct
from penstock.interop.zarr.program import EXPORTED, chunk_order, exact_fill, exported, foreign_codec
from penstock.interop.zarr.route import Route
from penstock.interop.zarr.settings import count, current_context, type_name

_Array: Any = zarr.Array
_OF_STORES = (StorageError, PermissionDeniedError, DeadlineExceededError)
_NUMBERS = frozenset((int, float))
_PLAIN_BUFFERS = ("zarr.buffer.cpu.Buffer", "zarr.buffer.cpu.NDBuffer")


def _drive(coroutine: Coroutine[Any, Any, Any], loop: Any = None, timeout: float | None = None) -> Any:
    """Run a coroutine that never waits, on this thread."""
    before, direct.on = direct.on, True
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    finally:
        direct.on = before
    coroutine.close()
    raise InternalError("a read or write without an event loop wanted to wait for one")


def _plain_buffers() -> bool:
    """Whether arrays are created in host memory: they are unless other buffers are configured."""
    values = config.config
    return (values.get("buffer"), values.get("ndbuffer")) == _PLAIN_BUFFERS


def _with_exact_fill(document: str, fill: Any) -> str:
    """The same document with the bits of a NaN that is the fill value."""
    if "NaN" not in document:
        return document
    members = json.loads(document)
    exact = exact_fill(fill, members["fill_value"])
    return document if exact == members["fill_value"] else json.dumps({**members, "fill_value": exact})


class _Engine:
    """One array, opened by the engine; valid as long as its metadata and its store do not change."""

    __slots__ = (
        "array",
        "drives",
        "dtype",
        "keeps_empty",
        "metadata",
        "native",
        "order",
        "plain",
        "reason",
        "route",
        "threads",
        "writes",
    )

    def __init__(self, async_array: Any) -> None:
        self.metadata = async_array.metadata
        pipeline, store = async_array.codec_pipeline, async_array.store_path.store
        self.route = Route(store)
        self.array: _core.Array | None = None
        self.threads = 0 if self.route.path == "native" else 1
        self.drives = (
            self.route.path != "async"
            and issubclass(type(store), Store)
            and isinstance(pipeline, CodecPipeline)
            and getattr(pipeline, "sync_transform", None) is not None
        )
        self.dtype: np.dtype[Any] = self.metadata.dtype.to_native_dtype()
        self.native = self.dtype if self.dtype.kind == "T" else self.dtype.newbyteorder("=")
        self.keeps_empty = async_array.config.write_empty_chunks
        self.order = self.metadata.order if self.metadata.zarr_format == 2 else async_array.config.order
        self.plain = self.order == "C" and self.dtype.isnative
        """Whether the engine's elements have the order and bytes of zarr-python's."""
        self.reason = self._open(async_array)
        self.writes = self._may_write(async_array)

    @property
    def reads(self) -> bool:
        """Whether plain reads need no code of zarr-python. The pipeline reads from stores that wait."""
        return self.array is not None and not self.route.waits

    def _may_write(self, async_array: Any) -> bool:
        """Whether plain writes need no code of zarr-python."""
        pipeline, store = async_array.codec_pipeline, async_array.store_path.store
        return (
            self.array is not None
            and (self.route.values is not None or self.route.native_writes)
            and not store.read_only
            and getattr(self.metadata, "_stored_document", None) is None
            and (self.dtype.char in EXPORTED or self.dtype.kind == "T")
            and isinstance(pipeline, CodecPipeline)
            and chunk_order(tuple(pipeline)) in (None, "morton")
        )

    def serves(self, async_array: Any) -> bool:
        return async_array.metadata is self.metadata and self.route.serves(async_array.store_path.store)

    def _open(self, async_array: Any) -> str:
        """Open the array, or return the reason why it cannot be opened."""
        metadata = self.metadata
        if self.route.core is None:
            return self.route.reason
        if not issubclass(type(self.route.store), Store):
            return f"{type(self.route.store).__name__} is not a zarr.abc.store.Store"
        if metadata.zarr_format == 2:
            codecs = [*(metadata.filters or ()), *filter(None, [metadata.compressor])]
        else:
            codecs = list(metadata.codecs)
        foreign = foreign_codec(codecs)
        if foreign:
            return foreign
        if not getattr(async_array.config, "read_missing_chunks", True):
            return "missing chunks are to be errors"
        dtype = self.dtype
        if dtype.hasobject and dtype.kind != "T":
            return f"items that are Python objects: {metadata.dtype}"
        try:
            documents = {
                name: value.to_bytes().decode()
                for name, value in metadata.to_buffer_dict(default_buffer_prototype()).items()
            }
            main = ".zarray" if metadata.zarr_format == 2 else "zarr.json"
            documents[main] = _with_exact_fill(documents[main], metadata.fill_value)
            path = os.fsencode(async_array.store_path.path)
            self.array = _core.open_described(self.route.core, current_context(), path, documents)
        except Error as error:
            return f"{error.code}: {error.message or str(error).splitlines()[0]}"
        except Exception as error:  # zarr-python refuses to serialise it
            return f"its metadata cannot be written as JSON: {error}"
        if self.array.dtype != self.native:
            reason = f"its arrays in memory have dtype {dtype}, the engine makes {self.array.dtype}"
            self.array = None
            return reason
        return ""


def _without_loop(method: Any) -> Any:
    """The method with `sync` exchanged for `_drive`."""
    made = FunctionType(
        method.__code__,
        {**method.__globals__, "sync": _drive},
        method.__name__,
        method.__defaults__,
        method.__closure__,
    )
    made.__kwdefaults__ = method.__kwdefaults__
    return made


def _selection_method(name: str) -> Callable[..., Any]:
    theirs = getattr(zarr.Array, name)
    ours = _without_loop(theirs)

    def method(self: Array, *args: Any, **kwargs: Any) -> Any:
        # A document that zarr-python repairs is read and stored again before chunks are: this would wait.
        repairs = getattr(self.metadata, "_stored_document", None) is not None
        return (ours if self._penstock_engine().drives and not repairs else theirs)(self, *args, **kwargs)

    method.__name__, method.__qualname__ = name, f"Array.{name}"
    method.__doc__ = theirs.__doc__
    return method


def _read_shaped(engine: _Engine, selection: Any) -> Any:
    """Text, arrays in Fortran order, and items in the other byte order. Single elements are left to zarr-python."""
    assert engine.array is not None
    shape = engine.array._resolve(selection)[1] if is_plain(selection) else ()
    if not shape:
        return NotImplemented
    if engine.order == "C" or engine.dtype.kind == "T":
        found = engine.array._read(selection, engine.threads, None)
    else:
        found = np.empty(shape, engine.array.dtype, order="F")
        engine.array._read_into(selection, exported(found), engine.threads, None)
    return np.asarray(cast(np.asarray(found), engine.dtype), order="K" if engine.order == "C" else "F")


def _read_plain(engine: _Engine, selection: Any, scalar: bool) -> Any:
    assert engine.array is not None
    try:
        if engine.dtype.kind == "T" or not engine.plain:
            found = _read_shaped(engine, selection)
        else:
            found = _core.read_plain(engine.array, selection, scalar, engine.threads)
    except OutOfRangeError:
        return NotImplemented
    except (CorruptDataError, *_OF_STORES):
        return NotImplemented  # the pipeline finds the error, too, and reports it with zarr-python's message
    if found is not NotImplemented:
        count("read", "array")
    return found


def _read_gpu(array: Array, engine: _Engine, selection: Any) -> Any:
    """A new array in GPU memory, decoded there; `NotImplemented` if zarr-python must read or refuse it.

    Returns when all is queued on the device, ordered on CuPy's current stream. A later failure on the device is raised
    by the next read, or by `synchronize` of the context.
    """
    if engine.route.path == "async":
        return _read_gpu_on_loop(array, engine, selection)
    if engine.array is None or not engine.plain or engine.dtype.kind == "T" or not is_plain(selection):
        return NotImplemented
    try:
        shape = engine.array._resolve(selection)[1]
        if not shape or 0 in shape:
            return NotImplemented
        out = _gpu.empty(shape, engine.dtype)
        place = _gpu.memory_of(out)
        assert place.stream is not None
        read = _core._read_to_device(
            engine.array, selection, place.device, place.stream, place.address, shape, place.strides, out,
            engine.threads, False,
        )  # fmt: skip
    except OutOfRangeError:
        return NotImplemented  # zarr-python has its own message; damage found by an earlier read is raised here
    try:
        read.order(place.stream)
    except (CorruptDataError, StorageError):
        with contextlib.suppress(CorruptDataError, StorageError):
            read.outcome()  # nothing writes to `out` any longer
        return NotImplemented  # the pipeline finds the error, too
    count("read", "device")
    return out


def _read_gpu_on_loop(array: Array, engine: _Engine, selection: Any) -> Any:
    """As `_read_gpu`, for a store that has only coroutines: zarr-python's event loop reads into memory of this thread,
    in the order of its stream."""
    if not engine.plain or engine.dtype.kind == "T" or not is_plain(selection):
        return NotImplemented
    if not isinstance(array.async_array.codec_pipeline, CodecPipeline):
        return NotImplemented  # zarr-python's pipeline has no order with the memory of this thread
    try:
        shape = np.broadcast_to(np.empty((), np.uint8), engine.metadata.shape)[selection].shape
    except (IndexError, ValueError):
        return NotImplemented  # zarr-python has its own message
    if not shape or 0 in shape:
        return NotImplemented
    out = get_ndbuffer_class().create(shape=shape, dtype=engine.dtype)
    place = _gpu.memory_of(out.as_ndarray_like())
    if place.stream == PER_THREAD:
        place.stream = None  # the loop's threads cannot name it
    before = _gpu.target.set(place)
    try:
        return _Array.get_basic_selection(array, selection, out=out)
    finally:
        _gpu.target.reset(before)


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

    def _penstock_engine(self) -> _Engine:
        cached: _Engine | None = self.__dict__.get("_penstock")
        if cached is not None and cached.serves(self._async_array):
            return cached
        made = _Engine(self._async_array)
        self.__dict__["_penstock"] = made
        return made

    def __getitem__(self, selection: Any) -> Any:
        engine = self._penstock_engine()
        if engine.reads and _plain_buffers():
            found = _read_plain(engine, selection, False)
            if found is not NotImplemented:
                return found
        elif _gpu.gpu_buffers():
            found = _read_gpu(self, engine, selection)
            if found is not NotImplemented:
                return found
        return super().__getitem__(selection)

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
        if not engine.writes or not _plain_buffers():
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
        except (CorruptDataError, InvalidArgumentError, OutOfRangeError, *_OF_STORES):
            return False  # the pipeline finds the error, too, and reports it with zarr-python's message
        if written:
            count("write", "array")
        return written

    def _penstock_read_fancy(self, kind: str, selection: Any) -> Any:
        """Lists, points, masks and blocks; `NotImplemented` if zarr-python must read or refuse them."""
        engine = self._penstock_engine()
        if engine.array is None or not engine.reads or engine.order != "C" or not _plain_buffers():
            return NotImplemented
        try:
            chosen = KINDS[kind](engine.array, selection)
            if chosen is None or not chosen.shape or 0 in chosen.shape:
                return NotImplemented
            found = engine.array._read(chosen, engine.threads, None)
        except Error:
            return NotImplemented
        count("read", "array")
        return cast(np.asarray(found), engine.dtype)

    def _penstock_write_fancy(self, kind: str, selection: Any, value: Any) -> bool:
        engine = self._penstock_engine()
        if not engine.writes or not _plain_buffers():
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
            engine = self._penstock_engine()
            if engine.reads and _plain_buffers():
                found = _read_plain(engine, selection, True)
                if found is not NotImplemented:
                    return found
            elif _gpu.gpu_buffers():
                found = _read_gpu(self, engine, selection)
                if found is not NotImplemented:
                    return found
        return _basic(self, selection, out=out, prototype=prototype, fields=fields)

    get_basic_selection.__doc__ = zarr.Array.get_basic_selection.__doc__

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_penstock"}

    def with_config(self, config: Any) -> Any:
        return wrap(super().with_config(config))

    def update_attributes(self, new_attributes: Any) -> Any:
        return wrap(super().update_attributes(new_attributes))


def _get_method(kind: str) -> Callable[..., Any]:
    otherwise = _selection_method(f"get_{kind}_selection")

    def method(self: Array, selection: Any, *, out: Any = None, fields: Any = None, prototype: Any = None) -> Any:
        if out is None and fields is None and prototype is None:
            found = self._penstock_read_fancy(kind, selection)
            if found is not NotImplemented:
                return found
        return otherwise(self, selection, out=out, fields=fields, prototype=prototype)

    return method


def _set_method(kind: str) -> Callable[..., Any]:
    otherwise = _selection_method(f"set_{kind}_selection")

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


_basic = _selection_method("get_basic_selection")
_otherwise_basic = _selection_method("set_basic_selection")


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


def _with_our_pipeline(async_array: Any) -> Any:
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


def can_wrap() -> bool:
    """Return True if this zarr-python has the synchronous methods that `wrap` needs: 3.4 and later."""
    return hasattr(codec_pipeline, "FusedCodecPipeline")


def wrap(array: Any) -> Any:
    """Return the same `zarr.Array`, or `zarr.Group` of such arrays, which reads and writes without zarr-python's event
    loop.

    Parameters
    ----------
    array
        A `zarr.Array` or `zarr.Group`.

    Returns
    -------
    penstock.zarr.Array or penstock.zarr.Group
        A view of the same storage.

    Raises
    ------
    InvalidArgumentError
        `array` is neither; the message names what opens it.
    UnsupportedError
        zarr-python is older than 3.4.

    Examples
    --------
    >>> import zarr, penstock.zarr
    >>> z = zarr.create_array("x.zarr", data=np.arange(12.0).reshape(3, 4))
    >>> a = penstock.zarr.wrap(z)
    >>> a[1]
    array([4., 5., 6., 7.])
    """
    if isinstance(array, Array | Group):
        return array
    if isinstance(array, zarr.Group):
        return wrap_node(array)
    if not isinstance(array, zarr.Array):
        text = f"wrap takes a zarr.Array or a zarr.Group, got {type_name(array)}"
        if isinstance(array, str | os.PathLike):
            text += ": penstock.zarr.open_array and open_group open a path"
        raise InvalidArgumentError(text)
    if not can_wrap():
        raise UnsupportedError(f"wrap needs the synchronous ways of zarr-python 3.4, this is {zarr.__version__}")
    return Array(_with_our_pipeline(array._async_array))


class Group(zarr.Group):
    """A `zarr.Group` whose arrays are `penstock.zarr.Array`.

    Examples
    --------
    >>> import penstock.zarr
    >>> ps.save("run.zarr", t=np.arange(4.0), p=np.ones(4))
    >>> run = penstock.zarr.open_group("run.zarr")
    >>> run["t"][1:3]
    array([1., 2.])
    """

    def __getitem__(self, path: str) -> Any:
        return wrap_node(super().__getitem__(path))

    def get(self, path: str, default: Any = None) -> Any:
        return wrap_node(super().get(path, default))

    def members(self, *args: Any, **kwargs: Any) -> Any:
        return tuple((name, wrap_node(node)) for name, node in super().members(*args, **kwargs))

    def arrays(self) -> Any:
        for name, node in super().arrays():
            yield name, wrap(node)

    def array_values(self) -> Any:
        for node in super().array_values():
            yield wrap(node)

    def require_groups(self, *names: str) -> Any:
        return tuple(map(wrap_node, super().require_groups(*names)))

    def create_hierarchy(self, nodes: Any, *, overwrite: bool = False) -> Any:
        for name, node in super().create_hierarchy(nodes, overwrite=overwrite):
            yield name, wrap_node(node)

    def groups(self) -> Any:
        for name, node in super().groups():
            yield name, wrap_node(node)

    def group_values(self) -> Any:
        for node in super().group_values():
            yield wrap_node(node)


def _made_by(name: str) -> Callable[..., Any]:
    theirs = getattr(zarr.Group, name)

    def method(self: Group, *args: Any, **kwargs: Any) -> Any:
        return wrap_node(theirs(self, *args, **kwargs))

    method.__name__, method.__qualname__, method.__doc__ = name, f"Group.{name}", theirs.__doc__
    return method


for _name in (
    "array",
    "create",
    "create_array",
    "create_dataset",
    "create_group",
    "empty",
    "empty_like",
    "full",
    "full_like",
    "get_array",
    "get_group",
    "ones",
    "ones_like",
    "require_array",
    "require_dataset",
    "require_group",
    "zeros",
    "zeros_like",
):
    if hasattr(zarr.Group, _name):
        setattr(Group, _name, _made_by(_name))
Group.__module__ = "penstock.zarr"


def wrap_node(node: Any) -> Any:
    """An array or group of zarr-python in the class here; all else, and arrays with a user's pipeline, unchanged."""
    if isinstance(node, zarr.Array):
        module = type(node._async_array.codec_pipeline).__module__
        return wrap(node) if module.partition(".")[0] in ("zarr", "penstock") else node
    if isinstance(node, zarr.Group) and not isinstance(node, Group):
        return Group(node._async_group)
    return node


def open_array(*args: Any, **kwargs: Any) -> Array:
    """Open an array as `zarr.open_array` does, as a `penstock.zarr.Array`.

    Parameters
    ----------
    args, kwargs
        Those of `zarr.open_array`.

    Returns
    -------
    penstock.zarr.Array

    Raises
    ------
    UnsupportedError
        zarr-python is older than 3.4.

    Examples
    --------
    >>> import penstock.zarr
    >>> ps.save("x.zarr", np.arange(12.0).reshape(3, 4))
    >>> penstock.zarr.open_array("x.zarr", mode="r")[1]
    array([4., 5., 6., 7.])
    """
    made: Array = wrap(originals.open_array(*args, **kwargs))
    return made


def open_group(*args: Any, **kwargs: Any) -> Group:
    """Open a group as `zarr.open_group` does; its arrays are `penstock.zarr.Array`.

    Parameters
    ----------
    args, kwargs
        Those of `zarr.open_group`.

    Returns
    -------
    penstock.zarr.Group

    Examples
    --------
    >>> import penstock.zarr
    >>> ps.save("run.zarr", t=np.arange(4.0))
    >>> penstock.zarr.open_group("run.zarr", mode="r")["t"][1:3]
    array([1., 2.])
    """
    made = wrap_node(originals.open_group(*args, **kwargs))
    assert isinstance(made, Group)
    return made
