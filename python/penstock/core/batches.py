"""Batches of crops for training, read ahead while the caller computes."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock import _core
from penstock.core import device as _device
from penstock.core.array import Array
from penstock.core.convert import as_dtype
from penstock.core.errors import InvalidArgumentError
from penstock.core.sizes import counted
from penstock.core.tensor import Tensor, aligned_empty

Arrays = Array | Sequence[Array] | Mapping[Any, Array]
_MOST = 2**63 - 1  # of batches and samples that the engine counts
Sample = Any
"""The array and the selection to read: `(which, selection)`, or the selection alone for a single array."""


def batches(
    arrays: Arrays,
    samples: Iterable[Sample],
    batch_size: int = 8,
    dtype: npt.DTypeLike | None = None,
    device: str | None = None,
    depth: int = 2,
    drop_last: bool = False,
    check: bool = False,
) -> Iterator[Tensor]:
    """Read crops of arrays, `batch_size` at a time, ahead of the loop that trains on them.

    A batch is one read: a chunk that several of its crops need is fetched and decoded once.

    Parameters
    ----------
    arrays
        One array, a sequence or a mapping of arrays.
    samples
        Pairs of an array's index or key and a selection of it; only selections if `arrays` is one array. Consumed
        lazily: it may be infinite. The crops of one batch have the same shape.
    batch_size
        Crops of a batch.
    dtype
        The dtype of the batches: any numeric dtype; "bfloat16" and similar types need the package ml_dtypes. None: the
        dtype of the arrays, which must then be the same for all.
    device
        None or "cpu". "cuda:0" (or another number), or "cuda": the batches are decoded, cast and assembled in that
        device's memory, which is reused when they are dropped. A failure on the device is raised by a batch's
        `synchronize` or `numpy`, unless `check` is true.
    depth
        Batches that are read while the caller has one.
    drop_last
        Omit an incomplete last batch.
    check
        For devices: wait for each batch before it is returned, and raise its failures.

    Yields
    ------
    Tensor
        Of shape (crops, *shape of a crop), in the order of the samples.

    Raises
    ------
    InvalidArgumentError
        The arrays have several dtypes and none is given, a cast is not possible, or crops of a batch differ in shape.
    Error
        As for `Array.read`, when the batch is requested.

    Examples
    --------
    >>> scenes = [ps.create_array({}, data=np.full((3, 100, 100), i, "u2"), chunks=(3, 50, 50)) for i in range(2)]
    >>> samples = [(i % 2, np.s_[:, 10 * i : 10 * i + 32, 0:32]) for i in range(6)]
    >>> for batch in ps.batches(scenes, samples, batch_size=4, dtype="float32"):
    ...     x = np.from_dlpack(batch)                      # torch.from_dlpack takes it too
    ...     print(x.shape, x.dtype, x[:, 0, 0, 0])
    (4, 3, 32, 32) float32 [0. 1. 0. 1.]
    (2, 3, 32, 32) float32 [0. 1.]
    """
    if not hasattr(batch_size, "__index__") or batch_size < 1 or not hasattr(depth, "__index__") or depth < 0:
        raise InvalidArgumentError(f"batch_size must be 1 or more and depth 0 or more: {batch_size!r}, {depth!r}")
    batch_size, depth = min(int(batch_size), _MOST), min(int(depth), _MOST)
    reader = CropReader(arrays, dtype)
    if _device.is_device(device):
        number = _device.device_number(device)
        return reader.batches_on_device(iter(samples), batch_size, depth, drop_last, number, check)
    return reader.batches(iter(samples), batch_size, depth, drop_last)


class CropReader:
    """Reads batches: holds the arrays, the stored type and the type of the batches."""

    def __init__(self, arrays: Arrays, dtype: npt.DTypeLike | None) -> None:
        self._arrays: Any = [arrays] if isinstance(arrays, Array) else arrays
        self.alone = isinstance(arrays, Array)
        every = list(self._arrays.values()) if isinstance(self._arrays, Mapping) else list(self._arrays)
        if not every or not all(isinstance(each, Array) for each in every):
            raise InvalidArgumentError("arrays must be a penstock.Array, or a sequence or mapping of some")
        stored = {each.dtype for each in every}
        if dtype is None and len(stored) > 1:
            names = ", ".join(sorted(map(str, stored)))
            raise InvalidArgumentError(f"the arrays are of {names}: set the dtype of the batches")
        for each in every:
            _check_cast(each, each.dtype if dtype is None else as_dtype(dtype))
        self._stored = stored.pop() if len(stored) == 1 else None
        self._dtype = self._stored if dtype is None else as_dtype(dtype)
        self._first: Array = every[0]
        for each in every:
            each._opened()

    def read(self, samples: Sequence[Sample]) -> Tensor:
        """The crops of one batch, in host memory."""
        return next(self.batches(iter(samples), len(samples), 0, False))

    def batches(self, samples: Iterator[Sample], size: int, depth: int, drop_last: bool) -> Iterator[Tensor]:
        """Batches in host memory, which the engine reads ahead."""
        crops = partial(next, self._crops(samples, size), None)
        if self._stored is not None:
            for values in _all_of(_core._Batches(crops, size, depth, drop_last)):
                yield self._as_tensor([values])
            return
        # Arrays of several dtypes: NumPy converts each crop.
        alone = _all_of(_core._Batches(crops, 1, min(size * (depth + 1) - 1, _MOST), False))
        while (parts := list(itertools.islice(alone, size))) and not (drop_last and len(parts) < size):
            yield self._as_tensor(parts)

    def batches_on_device(
        self, samples: Iterator[Sample], size: int, depth: int, drop_last: bool, device: int, check: bool
    ) -> Iterator[Tensor]:
        """Batches in a device's memory, which the engine reads ahead."""
        crops = partial(next, self._crops(samples, size), None)
        for read in _all_of(_core._Batches(crops, size, depth, drop_last, device, self._dtype, check)):
            yield _device.DeviceTensor(read)

    def _as_tensor(self, parts: Sequence[npt.NDArray[Any]]) -> Tensor:
        """The parts of a batch, one after the other, in its dtype."""
        assert self._dtype is not None
        if len(parts) == 1 and parts[0].dtype == self._dtype:
            return Tensor(parts[0])
        made = aligned_empty((sum(map(len, parts)), *parts[0].shape[1:]), self._dtype, self._first)
        at = 0
        for part in parts:
            np.copyto(made[at : at + len(part)], part, casting="unsafe")  # the types are checked
            at += len(part)
        return Tensor(made)

    def _crops(self, samples: Iterator[Sample], size: int) -> Iterator[tuple[Array, Any]]:
        """The array and the selection of each sample. The crops of each batch have one shape."""
        first: tuple[int, ...] = ()
        for number, sample in enumerate(samples):
            array, selection = self._crop(sample)
            shape = array._resolve(selection)[1]
            first = shape if number % size == 0 else first
            if shape != first:
                raise InvalidArgumentError(
                    f"the crops of a batch have one shape: {first} and, for sample {sample!r}, {shape}",
                )
            yield array, selection

    def _crop(self, sample: Sample) -> tuple[Array, Any]:
        if self.alone:
            return self._selected(self._arrays[0], sample)
        if not (isinstance(sample, tuple) and len(sample) == 2):
            raise InvalidArgumentError(f"a sample is (which array, selection), this one is {sample!r}")
        try:
            array = self._arrays[sample[0]]
        except (KeyError, IndexError, TypeError):
            known = counted(len(self._arrays), "array")
            raise InvalidArgumentError(f"sample {sample!r} names none of the arrays ({known})") from None
        return self._selected(array, sample[1])

    @staticmethod
    def _selected(array: Array, sample: Any) -> tuple[Array, Any]:
        selection, fields = array._prepare(sample)
        if fields is not None:
            message = f"samples have whole elements, not the fields {fields!r}"
            raise InvalidArgumentError(message, f"array '{array.uri}'")
        return array, selection


def _all_of(ahead: _core._Batches) -> Iterator[Any]:
    try:
        while (values := ahead.next()) is not None:
            yield values
    finally:
        ahead.cancel()


def _check_cast(array: Array, dtype: np.dtype[Any]) -> None:
    if dtype == array.dtype:
        return
    numbers = array.dtype.kind in "biuf" or _is_small_float(array.dtype)
    to_float = numbers and (dtype.kind == "f" or _is_small_float(dtype))
    plain = array.dtype.kind in "biufcmM" and dtype.kind in "biufcmM"
    if not to_float and not (plain and np.can_cast(array.dtype, dtype, "same_kind")):
        raise InvalidArgumentError(f"{array.dtype} cannot become {dtype}", f"array '{array.uri}'")


def _is_small_float(dtype: np.dtype[Any]) -> bool:
    return "float" in dtype.name and dtype.kind not in "fc"
