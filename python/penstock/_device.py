"""Reads into the memory of CUDA devices, and the tensors that come of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from penstock import _core, _tensor
from penstock._errors import ExportError, InvalidArgumentError, UnsupportedError, _make
from penstock._job import Job

if TYPE_CHECKING:
    from penstock._array import Array, Selection

CUDA, CUDA_MANAGED = 2, 13
"""DLPack's device types."""
LEGACY = 1
"""The legacy default stream, as DLPack and the driver number it."""


class DeviceTensor(_tensor.Tensor):
    """A `penstock.Tensor` in device memory: a read that may still be under way, and the memory that it fills.

    Whatever hands the memory on (`__dlpack__`, `__cuda_array_interface__`, `order`) first waits for storage and the
    host's part of the work, then makes the consumer's stream wait for the device; only `numpy` and `synchronize` wait
    for the device here. Errors come out of the first of these that can know: what fails on the host out of all of them,
    a chunk that fails on the device out of `synchronize` and `numpy`; its elements have all bits set.
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
        """NumPy's, or ml_dtypes' where NumPy has none."""
        return self._read.dtype

    @property
    def device(self) -> str:
        """`cuda:0` and its like."""
        return f"cuda:{self._read.device}"

    @property
    def strides(self) -> tuple[int, ...]:
        """In bytes."""
        return self._read.strides

    @property
    def done(self) -> bool:
        """True when the device is done."""
        return self._read.done

    def order(self, stream: Any) -> None:
        """Make a stream wait for the values, and the memory wait for that stream before it is used again."""
        self._read.order(as_stream(stream))

    def synchronize(self) -> DeviceTensor:
        """Wait for the device; raises what went wrong there."""
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
        """A capsule of these values, ordered on the consumer's `stream`, as the array API standard says.

        Parameters
        ----------
        stream
            The consumer's: None or 1 is the legacy default stream, 2 the per-thread one, -1 none at all (the consumer
            has ordered itself, by `order`, say). 0 is refused.
        dl_device
            None, this device, or the host's (1, 0), which makes a copy.
        copy
            True is refused on the device: the consumer can copy on its stream.
        """
        host = dl_device is not None and (int(dl_device[0]), int(dl_device[1])) == _tensor.CPU
        if host:
            if copy is False:
                raise _make(ExportError, "device memory comes to the host by a copy only")
            _tensor.check_request(stream, dl_device)
            return _tensor.export(self.numpy(), max_version, _tensor.IS_COPIED)
        here = self.__dlpack_device__()
        if dl_device is not None and (int(dl_device[0]), int(dl_device[1])) != here:
            raise _make(
                ExportError, f"the values are on DLPack's device {here}: asked for {tuple(map(int, dl_device))}"
            )
        if copy:
            raise _make(ExportError, "device memory is handed on without a copy: copy it on your stream")
        _tensor.check_type(self.dtype)
        wanted = consumers_stream(stream)
        if wanted is None:
            self._read.wait()
        else:
            self._read.order(wanted)
        versioned = max_version is not None and max_version[0] >= 1
        return _core._dlpack_capsule(
            self._read, self._read.address, self.dtype, self.shape, self.strides, here, 0, versioned
        )

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Version 3. Its stream is the legacy default one, on which the values are ordered: consumers wait for it."""
        self._read.order(LEGACY)
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self._read.address, False),
            "strides": self.strides,
            "version": 3,
            "stream": LEGACY,
        }


@dataclass
class _Out:
    """Device memory of somebody else."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    device: int
    keep: Any


def is_device(device: Any) -> bool:
    """True where `device` names anything but the host."""
    return device is not None and str(device) != "cpu"


def checked_name(device: Any) -> str:
    """ "cuda" or "cuda:1", as it was given."""
    name = str(device)
    kind, colon, number = name.partition(":")
    if kind != "cuda" or (colon and not number.isdigit()):
        raise _make(InvalidArgumentError, f"device is 'cpu', 'cuda' or 'cuda:0' and its like, not {device!r}")
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
            raise _make(UnsupportedError, f"__cuda_stream__ of version {version}: this release knows version 0")
    elif isinstance(stream, int) and not isinstance(stream, bool):
        handle = stream
    else:
        handle = getattr(stream, "ptr", None)  # CuPy
        if handle is None:
            handle = getattr(stream, "cuda_stream", None)  # torch
        if handle is None:
            raise _make(
                InvalidArgumentError, f"stream is a handle, or of CuPy, torch or __cuda_stream__, not {stream!r}"
            )
        handle = int(handle) or LEGACY  # their default streams are 0, and mean the legacy one
    if handle <= 0:
        raise _make(
            InvalidArgumentError, f"stream {handle} is ambiguous: give 1 (legacy), 2 (per thread) or a stream's handle"
        )
    return int(handle)


def consumers_stream(stream: Any) -> int | None:
    """DLPack's `stream`: a handle; None where the consumer asks for no order."""
    if stream is None:
        return LEGACY
    if isinstance(stream, bool) or not isinstance(stream, int):
        raise TypeError(f"stream is an int or None, not {type(stream).__name__}")
    if stream == -1:
        return None
    if stream == 0:
        raise _make(
            InvalidArgumentError, "DLPack's stream 0 is ambiguous: 1 is the legacy default stream, 2 the per-thread"
        )
    return stream


def out_of(out: Any, dtype: np.dtype[Any], stream: int | None) -> _Out:
    """The device memory behind `out`, for writing."""
    found = getattr(out, "__cuda_array_interface__", None)
    if found is not None:
        return _of_interface(out, found, dtype)
    if not hasattr(out, "__dlpack__"):
        raise _make(
            InvalidArgumentError,
            f"out is device memory, with __cuda_array_interface__ or __dlpack__; it is a {type(out).__name__}",
        )
    # Its producer makes the memory safe on our stream; without one on the legacy stream, which the read then waits for.
    try:
        capsule = out.__dlpack__(stream=LEGACY if stream is None else stream, max_version=(1, 1))
    except TypeError:
        capsule = out.__dlpack__(stream=LEGACY if stream is None else stream)
    address, shape, strides, kind, (device_type, device) = _core._dlpack_view(capsule)
    if device_type not in (CUDA, CUDA_MANAGED):
        raise _make(InvalidArgumentError, f"out is not device memory: DLPack's device type is {device_type}")
    if kind != _core._dlpack_type(dtype):
        raise _make(InvalidArgumentError, f"out has DLPack's type {kind}, the array is {dtype}")
    return _Out(address, shape, strides, device, (out, capsule))


def _of_interface(out: Any, found: dict[str, Any], dtype: np.dtype[Any]) -> _Out:
    address, read_only = found["data"]
    if read_only:
        raise _make(InvalidArgumentError, "out is read-only")
    if np.dtype(found["typestr"]) != dtype:
        raise _make(InvalidArgumentError, f"out has dtype {np.dtype(found['typestr'])}, the array {dtype}")
    shape = tuple(found["shape"])
    strides = found.get("strides")
    if strides is None:
        strides = tuple(
            np.empty(0, dtype).itemsize * int(np.prod(shape[d + 1 :], dtype=np.int64)) for d in range(len(shape))
        )
    device = _core._device_of(address) if address else _core._current_device()
    if device is None:
        raise _make(InvalidArgumentError, "out.__cuda_array_interface__ does not point to device memory")
    return _Out(address, shape, tuple(strides), device, out)


def read(
    array: Array, selection: Selection, out: Any, device: Any, stream: Any, threads: int, check: bool
) -> DeviceTensor:
    """`Array.read` into device memory. With `out`, everything is queued on the device when it returns."""
    made = start(array, selection, out, device, stream, threads, check)
    if out is not None:
        if stream is None:
            made._read.wait()
        else:
            made._read.order(as_stream(stream))
    return made


def start(
    array: Array, selection: Selection, out: Any, device: Any, stream: Any, threads: int, check: bool
) -> DeviceTensor:
    """A read that has begun. Nothing is written before what `stream` holds now is done."""
    number = device_number(device)
    handle = None if stream is None else as_stream(stream)
    target = _Out(0, (), (), number, None)
    if out is not None:
        target = out_of(out, array.dtype, handle)
        if target.device != number:
            raise _make(InvalidArgumentError, f"out is on cuda:{target.device}, the read goes to cuda:{number}")
        if handle is None and not hasattr(out, "__cuda_array_interface__"):
            handle = LEGACY  # where its producer made it safe
        elif handle is None:
            handle = out.__cuda_array_interface__.get("stream")  # none: nothing to wait for
    selection, fields = array._prepare(selection)
    if fields is not None:
        raise _make(UnsupportedError, "fields of structures are read on the host only", f"array '{array.uri}'")
    begun = _core._read_to_device(
        array, selection, number, handle, target.address, target.shape, target.strides, target.keep, threads, check
    )
    return DeviceTensor(begun, out)


class _DeviceTicket:
    """A device read as a `Job` sees it: it ends when all is queued on the device."""

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


def read_async(array: Array, selection: Selection, out: Any, device: Any, stream: Any, threads: int) -> Job:
    """`Array.read_async` into device memory."""
    return Job(_DeviceTicket(start(array, selection, out, device, stream, threads, False)), lambda made: made)
