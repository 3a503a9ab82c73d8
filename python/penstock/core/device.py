"""Reads into the memory of CUDA devices, and the tensors that they return."""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from penstock import _core
from penstock.core import tensor as _tensor
from penstock.core.convert import as_dtype, check_cast
from penstock.core.errors import ExportError, InvalidArgumentError, UnsupportedError
from penstock.core.job import Job, run_in_thread

if TYPE_CHECKING:
    from penstock.core.array import Array, Progress, Selection

CUDA, CUDA_MANAGED = 2, 13
"""DLPack's device types."""
LEGACY = 1
"""The legacy default stream, by the number that DLPack and the driver use."""
PER_THREAD = 2
"""The default stream of the calling thread: in another thread, this number means another stream."""
LOOK_EVERY = 0.1
"""Seconds. A driver does not report that its device has faulted: an awaiting task queries it this often."""


class DeviceTensor(_tensor.Tensor):
    """A `penstock.Tensor` in device memory: a read that may still be under way, and the memory that it fills.

    Every export of the memory (`__dlpack__`, `__cuda_array_interface__`, `order`) first waits for storage and the
    host's part of the work, then makes the consumer's stream wait for the device; only `numpy` and `synchronize` wait
    for the device on the calling thread. All of these raise a failure on the host. `synchronize` and `numpy` raise the
    failure of a chunk on the device; its elements have all bits set.
    """

    __slots__ = ("_out", "_read")

    def __init__(self, read: _core._DeviceRead, out: Any = None) -> None:
        self._read = read
        self._out = out

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes in elements."""
        return self._read.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's dtype, or that of ml_dtypes if NumPy has none."""
        return self._read.dtype

    @property
    def device(self) -> str:
        """`cuda:0`, or another number."""
        return f"cuda:{self._read.device}"

    @property
    def strides(self) -> tuple[int, ...]:
        """Strides in bytes."""
        return self._read.strides

    @property
    def done(self) -> bool:
        """True when the device is done or has failed."""
        return self._read.done

    def order(self, stream: Any) -> None:
        """Make a stream wait for the values, and the memory wait for that stream before it is used again."""
        self._read.order(as_stream(stream))

    def release(self, stream: Any) -> None:
        """End the use of the memory: it may be used again after the work that a stream holds now.

        Without this call the memory waits for all work that the device's context received until the tensor was dropped,
        also of other libraries; and dropping the tensor breaks the capture of a CUDA graph. The memory is returned when
        the tensor and all arrays that share its memory were dropped.

        Parameters
        ----------
        stream
            A handle, a stream of CuPy or torch, or an object with `__cuda_stream__`. For work on several
            streams, one call for each; the later streams wait for the earlier ones.

        Raises
        ------
        InvalidArgumentError
            Stream 0. Exporting the tensor afterwards raises it, too.
        """
        self._read.release(as_stream(stream))

    def synchronize(self) -> DeviceTensor:
        """Wait for the device; raises its failures."""
        self._read.synchronize()
        return self

    def numpy(self) -> npt.NDArray[Any]:
        """The values in a new ndarray on the host, once the device is done."""
        made = np.empty(self.shape, self.dtype)
        self._read.copy_to_host(made.ctypes.data)
        return made

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        if copy is False:
            raise ValueError("the values are in device memory: an ndarray of them is always a copy")
        made = self.numpy()
        return made if dtype is None else made.astype(dtype, copy=False)

    def __dlpack_device__(self) -> tuple[int, int]:
        """(2, number): memory of a CUDA device."""
        return (CUDA, self._read.device)

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[Any, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """Return a capsule of these values, ordered on the consumer's `stream`, as in the array API standard.

        Parameters
        ----------
        stream
            The consumer's: None or 1 is the legacy default stream, 2 the per-thread one, -1 none (the consumer has
            ordered itself, for example by `order`). 0 is refused.
        dl_device
            None, this device, or the host's (1, 0), which makes a copy.
        copy
            True: a copy that the consumer owns, made on its stream; with stream -1 it is complete on return.
        """
        return self._export(stream, max_version, dl_device, copy)

    def _export(
        self,
        stream: Any,
        max_version: tuple[int, int] | None,
        dl_device: tuple[Any, int] | None,
        copy: bool | None,
        fresh: bool = False,
    ) -> Any:
        """`fresh`: no other object refers to the memory, so it is a copy already."""
        host = dl_device is not None and (int(dl_device[0]), int(dl_device[1])) == _tensor.CPU
        if host:
            if copy is False:
                raise ExportError("device memory comes to the host by a copy only")
            _tensor.check_request(stream, dl_device)
            return _tensor.export(self.numpy(), max_version, _tensor.IS_COPIED)
        here = self.__dlpack_device__()
        if dl_device is not None and (int(dl_device[0]), int(dl_device[1])) != here:
            raise ExportError(f"the values are on DLPack's device {here}, not {tuple(map(int, dl_device))}")
        _tensor.check_type(self.dtype)
        wanted, read = consumers_stream(stream), self._read
        if copy and not fresh:
            read = read.copy(wanted)
        elif wanted is None:
            read.mark_exported()
        else:
            read.order(wanted)
        flags = _tensor.IS_COPIED if copy or fresh else 0
        versioned = max_version is not None and max_version[0] >= 1
        return _core._dlpack_capsule(read, read.address, self.dtype, self.shape, read.strides, here, flags, versioned)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Version 3. Its stream is the legacy default one, on which the values are ordered: consumers wait for it.

        Types that NumPy does not have (bfloat16 and floats of eight bits) have no such interface (AttributeError):
        consumers then use DLPack.
        """
        if not _has_typestr(self.dtype):
            raise AttributeError(f"__cuda_array_interface__ has no name for {self.dtype}: take the values by DLPack")
        self._read.order(LEGACY)
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self._read.address, False),
            "strides": self.strides,
            "version": 3,
            "stream": LEGACY,
        }


def _has_typestr(dtype: np.dtype[Any]) -> bool:
    if dtype.names is not None:
        return True
    try:
        return np.dtype(dtype.str) == dtype
    except TypeError:
        return False


@dataclass
class _Out:
    """Device memory of another library."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    device: int
    keep: Any
    after: int | None = None  # the stream whose work the read has to wait for


def is_device(device: Any) -> bool:
    """True if `device` names a device other than the host."""
    return device is not None and str(device) != "cpu"


def checked_name(device: Any) -> str:
    """ "cuda" or "cuda:1", as given."""
    name = str(device)
    kind, colon, number = name.partition(":")
    if kind != "cuda" or (colon and not number.isdigit()):
        raise InvalidArgumentError(f"device is 'cpu', 'cuda' or 'cuda:0' and its like, not {device!r}")
    return name


def device_number(device: Any) -> int:
    """The number of "cuda:1", or of the caller's current device for "cuda"."""
    number = checked_name(device).partition(":")[2]
    return int(number) if number else _core._current_device()


def as_stream(stream: Any) -> int:
    """The handle of a stream: a number, or an object of CuPy, torch, or with `__cuda_stream__`."""
    if hasattr(stream, "__cuda_stream__"):
        found = stream.__cuda_stream__
        version, handle = found() if callable(found) else found
        if version != 0:
            raise UnsupportedError(f"__cuda_stream__ of version {version}: this release supports version 0")
        handle = int(handle) or LEGACY  # an object distinguishes the meanings of stream 0: it is the runtime's default
    elif isinstance(stream, int) and not isinstance(stream, bool):
        handle = stream
    else:
        handle = getattr(stream, "ptr", None)  # CuPy
        if handle is None:
            handle = getattr(stream, "cuda_stream", None)  # torch
        if handle is None:
            raise InvalidArgumentError(f"stream is a handle, or of CuPy, torch or __cuda_stream__, not {stream!r}")
        handle = int(handle) or LEGACY  # their default streams are 0, which means the legacy one
    if handle <= 0:
        raise InvalidArgumentError(
            f"stream {handle} is ambiguous: give 1 (legacy), 2 (per thread) or a stream's handle"
        )
    return int(handle)


def consumers_stream(stream: Any) -> int | None:
    """DLPack's `stream`: a handle; None if the consumer requests no order."""
    if stream is None:
        return LEGACY
    if isinstance(stream, bool) or not isinstance(stream, int):
        raise TypeError(f"stream is an int or None, not {type(stream).__name__}")
    if stream == -1:
        return None
    if stream == 0:
        raise InvalidArgumentError("DLPack's stream 0 is ambiguous: 1 is the legacy default stream, 2 the per-thread")
    return stream


def out_of(out: Any, dtype: np.dtype[Any], stream: int | None) -> _Out:
    """The device memory behind `out`, for writing values of `dtype`.

    By DLPack, whose producer orders it on a stream and which has all types; otherwise by `__cuda_array_interface__`.
    """
    interface = not hasattr(out, "__dlpack__")
    if interface and getattr(out, "__cuda_array_interface__", None) is None:
        raise InvalidArgumentError(
            f"out is device memory, with __dlpack__ or __cuda_array_interface__; it is a {type(out).__name__}",
        )
    if interface:
        return _of_interface(out, out.__cuda_array_interface__, dtype, stream)
    if hasattr(type(out), "__dlpack_device__") and not is_device_value(out):
        raise InvalidArgumentError(f"out is not device memory: it is a {type(out).__name__} on the host")
    # Its producer orders the memory on our stream or, without one, on the legacy stream, for which the read then waits.
    after = LEGACY if stream is None else stream
    capsule = _capsule_of(out, after)
    address, shape, strides, kind, (device_type, device) = _core._dlpack_view(capsule)
    if device_type not in (CUDA, CUDA_MANAGED):
        raise InvalidArgumentError(f"out is not device memory: DLPack's device type is {device_type}")
    if kind != _core._dlpack_type(dtype):
        raise InvalidArgumentError(f"out has {_type_name(kind)}, the values are {dtype}")
    return _Out(address, shape, strides, device, (out, capsule), after)


def _capsule_of(producer: Any, stream: int) -> Any:
    try:
        return producer.__dlpack__(stream=stream, max_version=(1, 1))
    except TypeError:  # it does not accept versions
        return producer.__dlpack__(stream=stream)


def _of_interface(out: Any, found: dict[str, Any], dtype: np.dtype[Any], stream: int | None) -> _Out:
    address, read_only = found["data"]
    if read_only:
        raise InvalidArgumentError("out is read-only")
    if np.dtype(found["typestr"]) != dtype:
        raise InvalidArgumentError(f"out has dtype {np.dtype(found['typestr'])}, the array {dtype}")
    shape = tuple(found["shape"])
    strides = found.get("strides")
    if strides is None:
        strides = tuple(
            np.empty(0, dtype).itemsize * int(np.prod(shape[d + 1 :], dtype=np.int64)) for d in range(len(shape))
        )
    device = _core._device_of(address) if address else _core._current_device()
    if device is None:
        raise InvalidArgumentError("out.__cuda_array_interface__ does not point to device memory")
    return _Out(address, shape, tuple(strides), device, out, _interface_stream(found) if stream is None else stream)


def _interface_stream(found: dict[str, Any]) -> int | None:
    """The stream that a consumer of `__cuda_array_interface__` waits for; None: none. Before version 3 the interface
    does not have it, and its users work on the legacy default stream.
    """
    if found.get("version", 0) < 3:
        return LEGACY
    stream: int | None = found.get("stream")
    return stream


# NumPy's own types among those that DLPack has.
_NUMPYS_OWN = ("b1", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16")


def is_device_value(value: Any) -> bool:
    """True if `value` reports that it is in a device's memory."""
    if isinstance(value, np.ndarray):
        return False
    if hasattr(type(value), "__dlpack_device__"):
        return int(value.__dlpack_device__()[0]) in (CUDA, CUDA_MANAGED)
    return getattr(value, "__cuda_array_interface__", None) is not None


def described(value: Any) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Shape and dtype of a value for which `is_device_value` is true, without exporting it."""
    if not hasattr(value, "dtype"):
        found = value.__cuda_array_interface__
        return tuple(found["shape"]), np.dtype(found["typestr"])
    dtype = value.dtype
    if not isinstance(dtype, np.dtype):
        dtype = as_dtype(str(dtype).rpartition(".")[2])  # torch.float32
    return tuple(int(size) for size in value.shape), dtype


@dataclass
class Value:
    """Device memory with values to be written or copied; ordered on the context's write stream, and on `stream` if
    there is one.
    """

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype[Any]
    device: int
    stream: int | None
    keep: Any

    def spread(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Its strides when it is repeated to `shape`, as NumPy broadcasts."""
        own, strides = self.shape, self.strides
        while len(own) > len(shape) and own[0] == 1:
            own, strides = own[1:], strides[1:]
        missing = len(shape) - len(own)
        if missing < 0 or any(n not in (1, wanted) for n, wanted in zip(own, shape[missing:], strict=True)):
            raise InvalidArgumentError(f"could not broadcast a value of shape {self.shape} into shape {shape}")
        repeated = zip(own, shape[missing:], strides, strict=True)
        return (0,) * missing + tuple(0 if n == 1 and wanted != 1 else step for n, wanted, step in repeated)


def _order_of(value: Any, ours: int) -> int | None:
    """A stream in whose order a value may be copied without waiting: later changes of the value are ordered after it.

    None: not known. `ours`, for values that do not change.
    """
    library = type(value).__module__.partition(".")[0]
    if library == "torch":
        return as_stream(sys.modules["torch"].cuda.current_stream(value.device))
    if library == "cupy":
        return as_stream(sys.modules["cupy"].cuda.get_current_stream())
    is_constant = library in ("jax", "jaxlib") or (isinstance(value, DeviceTensor) and value._out is None)
    return ours if is_constant else None


def value_of(value: Any, context: _core.Context, stream: Any = None, queues: bool = False) -> Value:
    """The memory of a value for which `is_device_value` is true. `stream` is the caller's, if its producer does not
    name one. `queues`: the values are used in the order of the result's stream, unless that is None.
    """
    handle = None if stream is None else as_stream(stream)
    if hasattr(type(value), "__dlpack_device__"):
        device = int(value.__dlpack_device__()[1])
        ours = _core._write_stream(context, device)
        if queues:
            handle = _order_of(value, ours) if handle is None else handle
            ours = ours if handle is None else handle
        capsule = _capsule_of(value, ours)
        address, shape, strides, kind, _ = _core._dlpack_view(capsule, False)
        return Value(address, shape, strides, _dtype_of_dlpack(kind), device, handle, (value, capsule))
    found = value.__cuda_array_interface__
    dtype, shape = np.dtype(found["typestr"]), tuple(found["shape"])
    strides = found.get("strides")
    if strides is None:
        strides = tuple(dtype.itemsize * math.prod(shape[d + 1 :]) for d in range(len(shape)))
    address = found["data"][0]
    device_found = _core._device_of(address) if address else _core._current_device()
    if device_found is None:
        raise InvalidArgumentError("the value's __cuda_array_interface__ does not point to device memory")
    if handle is None:
        handle = _interface_stream(found)
    return Value(address, shape, tuple(strides), dtype, device_found, handle, value)


def to_host(value: Any, context: _core.Context, stream: Any = None) -> npt.NDArray[Any]:
    """A new ndarray with the values that are in a device's memory."""
    if isinstance(value, DeviceTensor):
        return value.numpy()
    there = value_of(value, context, stream)
    made = np.empty(there.shape, there.dtype)
    _core._device_to_host(
        context, there.device, there.address, there.shape, there.strides, there.dtype, made.ctypes.data, there.stream
    )
    return made


def _type_name(kind: tuple[int, int]) -> str:
    try:
        return f"dtype {_dtype_of_dlpack(kind)}"
    except UnsupportedError:
        return f"DLPack's type {kind}"


def _dtype_of_dlpack(kind: tuple[int, int]) -> np.dtype[Any]:
    for dtype in itertools.chain(map(np.dtype, _NUMPYS_OWN), _tensor.named_dtypes()):
        if _core._dlpack_type(dtype) == kind:
            return dtype
    text = f"neither NumPy nor ml_dtypes, if it is installed, has values of DLPack's type {kind} (code, bits)"
    raise UnsupportedError(text)


def read(
    array: Array,
    selection: Selection,
    out: Any,
    device: Any,
    stream: Any,
    dtype: np.dtype[Any] | None,
    threads: int,
    check: bool,
    wait: bool,
    progress: Progress | None,
) -> DeviceTensor:
    """`Array.read` into device memory. With `out` and `wait`, or `progress`, all is queued on the device on return."""
    if progress is None:
        made = start(array, selection, out, device, stream, dtype, threads, check)
    else:
        made = _follow(start(array, selection, out, device, stream, dtype, threads, False), progress)
        if check:
            made._read.outcome()
    if out is not None and wait:
        try:
            if stream is None:
                made._read.wait()
            else:
                made._read.order(as_stream(stream))
        except BaseException:
            del made  # as in `_follow`: an interrupted read ends here
            raise
    return made


def start(
    array: Array,
    selection: Selection,
    out: Any,
    device: Any,
    stream: Any,
    wanted: np.dtype[Any] | None,
    threads: int,
    check: bool,
) -> DeviceTensor:
    """A read that has begun. Nothing is written before the work that `stream` holds now is done."""
    number = device_number(device)
    if wanted is not None:
        if not wanted.isnative:
            raise InvalidArgumentError(f"device memory is in this machine's byte order, {wanted} is not")
        check_cast(array, wanted)
    handle = None if stream is None else as_stream(stream)
    target = _Out(0, (), (), number, None)
    if out is not None:
        target = out_of(out, array.dtype if wanted is None else wanted, handle)
        if target.device != number:
            raise InvalidArgumentError(f"out is on cuda:{target.device}, the read is for cuda:{number}")
        handle = target.after
    selection, fields = array._prepare(selection)
    if fields is not None:
        raise UnsupportedError("fields of structures are read on the host only", f"array '{array.uri}'")
    begun = _core._read_to_device(
        array,
        selection,
        number,
        handle,
        target.address,
        target.shape,
        target.strides,
        target.keep,
        threads,
        check,
        None if wanted == array.dtype else wanted,
    )
    return DeviceTensor(begun, out)


def _follow(made: DeviceTensor, progress: Progress) -> DeviceTensor:
    """Call `progress` until all is queued on the device: at once, about ten times a second, and at the end."""
    read = made._read
    pause = 0.0
    try:
        while not read.wait_for(pause):
            if progress(*read.progress) is False:
                read.cancel()
                break
            pause = 0.1
        read.wait()
        progress(read.progress[1], read.progress[1])
    except BaseException:
        read.cancel()
        if made._out is not None:
            # Not kept by the traceback: their end waits until nothing writes to the caller's memory.
            del made, read
        raise
    return made


class _DeviceTicket:
    """A device read in the form for a `Job`: it ends when all is queued on the device."""

    def __init__(self, tensor: DeviceTensor) -> None:
        self._tensor = tensor

    @property
    def done(self) -> bool:
        return self._tensor._read.queued

    @property
    def progress(self) -> tuple[int, int]:
        return self._tensor._read.progress

    def cancel(self) -> None:
        self._tensor._read.cancel()

    def wait_for(self, seconds: float) -> bool:
        return self._tensor._read.wait_for(seconds)

    def result(self) -> Any:
        self._tensor._read.wait()
        return self._tensor

    def on_done(self, then: Callable[[], None]) -> None:
        self._tensor._read.on_queued(then)


def read_async(
    array: Array,
    selection: Selection,
    out: Any,
    device: Any,
    stream: Any,
    dtype: np.dtype[Any] | None,
    threads: int,
    progress: Progress | None,
) -> Job:
    """`Array.read_async` into device memory."""
    made = start(array, selection, out, device, stream, dtype, threads, False)
    if progress is not None:
        return run_in_thread(lambda report: _follow(made, report), progress)
    return Job(_DeviceTicket(made), lambda made: made, LOOK_EVERY)
