"""Tensors: decoded values that other array libraries take over without a copy."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock import _core
from penstock.core import registry
from penstock.core.data_types import NAMED_TYPES, as_ndarray, cast, unmasked
from penstock.core.errors import ExportError, InvalidArgumentError, UnsupportedError

CPU = (1, 0)
"""DLPack's device of ordinary memory."""
READ_ONLY, IS_COPIED = 1, 2
"""DLPack's flags."""

_POOLED_BYTES = 1 << 20  # results of at least this size are in recycled memory, which is aligned to pages
_ALIGNMENT = 64  # the alignment that JAX accepts without a copy


class Tensor:
    """Decoded values in memory that other libraries take over by DLPack, without a copy.

    `Tensor(values)` exports an ndarray (or a value that `numpy.asarray` accepts without a copy) in all data types that
    DLPack has a code for, including bfloat16 and floats of eight bits, which NumPy does not export. The memory lives as
    long as a consumer uses it.

    Parameters
    ----------
    values
        An ndarray, or a value that `numpy.asarray` accepts without a copy; another `Tensor`.

    Raises
    ------
    InvalidArgumentError
        The bytes of the elements are not in the machine's order, or elements are masked.

    Examples
    --------
    >>> t = ps.Tensor(np.arange(6, dtype="f4").reshape(2, 3))
    >>> t.shape, t.dtype, t.device
    ((2, 3), dtype('float32'), 'cpu')
    >>> np.shares_memory(np.from_dlpack(t), t.numpy())          # as torch.from_dlpack(t) does
    True

    Types that NumPy does not have, such as bfloat16:

    >>> import ml_dtypes
    >>> import jax.numpy as jnp
    >>> jnp.from_dlpack(ps.Tensor(np.ones(4, ml_dtypes.bfloat16))).dtype
    dtype(bfloat16)
    """

    __slots__ = ("_values",)

    def __init__(self, values: npt.ArrayLike) -> None:
        found = values._values if isinstance(values, Tensor) else as_host(values)
        if not found.dtype.isnative:
            raise InvalidArgumentError(f"a tensor's bytes are in this machine's order, {found.dtype} is not")
        self._values: npt.NDArray[Any] = found

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes in elements."""
        return self._values.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's, or that of ml_dtypes if NumPy has none."""
        return self._values.dtype

    @property
    def device(self) -> str:
        """`cpu`."""
        return "cpu"

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a tensor without dimensions")
        return self.shape[0]

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.size * self.dtype.itemsize

    def numpy(self) -> npt.NDArray[Any]:
        """Return the values as an ndarray: the same memory."""
        return self._values

    def _repr_html_(self) -> str:
        """The HTML for notebooks: facts, no values."""
        made: str = registry.call("tensor_html", self)
        return made

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        if copy is None:
            return self._values if dtype is None else self._values.astype(dtype, copy=False)
        if copy:
            return self._values.astype(self.dtype if dtype is None else dtype)
        if dtype is not None and np.dtype(dtype) != self.dtype:
            raise ValueError(f"{self.dtype} becomes {np.dtype(dtype)} by a copy only")
        return self._values

    def __dlpack_device__(self) -> tuple[int, int]:
        """(1, 0): ordinary memory."""
        return CPU

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[Any, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """Return a capsule of these values, as in the array API standard.

        Parameters
        ----------
        stream
            None or -1: host memory has no streams, and the values are complete.
        max_version
            The highest version that the consumer supports. From (1, 0) on the capsule has a version and flags for
            read-only memory and for a copy.
        dl_device
            None or the host's, (1, 0).
        copy
            True: a copy that the consumer owns. False or None: the memory itself.

        Raises
        ------
        ExportError
            (a BufferError) The type has no code in DLPack, or the device is another one; read-only memory for a
            consumer that cannot receive that flag.
        """
        check_request(stream, dl_device)
        values = aligned_copy(self._values) if copy else self._values
        return export(values, max_version, IS_COPIED if copy else 0)

    def __repr__(self) -> str:
        return f"<penstock.Tensor shape={self.shape} dtype={self.dtype} device={self.device}>"


def as_host(values: Any, dtype: np.dtype[Any] | None = None) -> npt.NDArray[Any]:
    """`numpy.asarray(values, dtype)`; by DLPack if the producer has no NumPy dtype for its values.

    This serves PyTorch's tensors of bfloat16 and of floats with eight bits: the array uses their memory, in the dtype
    of ml_dtypes. With `dtype` it is cast.

    Raises
    ------
    InvalidArgumentError
        Elements are masked.
    """
    try:
        plain: npt.NDArray[Any] = unmasked(as_ndarray(values, dtype))
        return plain
    except (TypeError, BufferError, RuntimeError):
        if not hasattr(type(values), "__dlpack__"):
            raise
        found = by_dlpack(values)
        if found is None:
            raise
    return found if dtype is None else cast(found, dtype)


def as_items(value: Any, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """`value` as an ndarray of that dtype, cast as in NumPy's assignment: integers of a list that the dtype does not
    have are an error, those of an array wrap.

    Raises
    ------
    InvalidArgumentError
        Elements are masked.
    """
    if isinstance(value, np.ndarray):
        return cast(unmasked(value), dtype)
    items = np.empty((), dtype) if isinstance(value, np.generic) else as_host(value, dtype)
    if isinstance(value, np.generic) or items.dtype != dtype:
        # `asarray` accepts more scalars (times are not integers), and chooses a unit for times without one.
        items = np.empty(items.shape, dtype)
        items[...] = value
    return items


class _Shown:
    """The memory of a DLPack capsule for NumPy, with a reference to its producer."""

    def __init__(self, owner: Any, interface: dict[str, Any]) -> None:
        self.owner = owner
        self.__array_interface__ = interface


def by_dlpack(values: Any, writable: bool = False) -> npt.NDArray[Any] | None:
    """The values in host memory that a DLPack producer exports; None if they are elsewhere, or of unknown type.

    `writable`: as an array that can be written to. Memory that the producer exports as read-only is refused.
    """
    try:
        capsule = values.__dlpack__(max_version=(1, 1))
    except TypeError:
        capsule = values.__dlpack__()
    address, shape, strides, kind, (device, _) = _core._dlpack_view(capsule, writable)
    if device != CPU[0]:
        return None
    dtype = next((known for known in named_dtypes() if _core._dlpack_type(known) == kind), None)
    if dtype is None:
        return None
    if math.prod(shape) == 0:
        return np.empty(shape, dtype)
    # DLPack before version 1 does not report whether they may be written to: the array is read-only.
    interface = {
        "version": 3,
        "shape": shape,
        "strides": strides,
        "typestr": f"|V{dtype.itemsize}",
        "data": (address, not writable),
    }
    return np.asarray(_Shown((values, capsule), interface)).view(dtype)


def named_dtypes() -> Iterator[np.dtype[Any]]:
    """The named types that the installed version of ml_dtypes defines."""
    for name in NAMED_TYPES:
        with contextlib.suppress(UnsupportedError):
            yield _core.numpy_dtype(name)


def check_request(stream: Any, dl_device: tuple[Any, int] | None) -> None:
    """Refuse streams and devices that host memory does not have."""
    if stream is not None and stream != -1:
        raise InvalidArgumentError(f"host memory has no streams: stream must be None, got {stream!r}")
    if dl_device is not None and (int(dl_device[0]), int(dl_device[1])) != CPU:
        raise ExportError(f"the values are in host memory, DLPack's device {CPU}, not {tuple(map(int, dl_device))}")


def export(values: npt.NDArray[Any], max_version: tuple[int, int] | None, flags: int) -> Any:
    """A capsule over an ndarray's memory, which lives until the consumer releases the capsule."""
    versioned = max_version is not None and max_version[0] >= 1
    if not values.flags.writeable:
        if not versioned:
            raise ExportError("the memory is read-only, for which DLPack has no flag before version 1: export a copy")
        flags |= READ_ONLY
    check_type(values.dtype)
    address = values.ctypes.data
    return _core._dlpack_capsule(values, address, values.dtype, values.shape, values.strides, CPU, flags, versioned)


def check_type(dtype: np.dtype[Any]) -> None:
    """Refuse types without a code in DLPack."""
    if dtype.kind in "OSTUmM" or dtype.names is not None:
        hint = " (view it as int64)" if dtype.kind in "mM" else ""
        raise ExportError(f"DLPack has no data type for {dtype}{hint}")


def aligned_empty(shape: tuple[int, ...], dtype: np.dtype[Any], of: _core.Array | None = None) -> npt.NDArray[Any]:
    """An ndarray in C order on memory that every consumer accepts without a copy, recycled by the context of `of`."""
    count = math.prod(shape) * dtype.itemsize
    if of is not None and count >= _POOLED_BYTES:
        return _core.new_output(of, dtype, shape)
    memory = np.empty(count + _ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % _ALIGNMENT
    return memory[start : start + count].view(dtype).reshape(shape)


def aligned_copy(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    made = aligned_empty(values.shape, values.dtype)
    made[...] = values
    return made
