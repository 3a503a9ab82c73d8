"""Batches for training: every chunk is decoded once an epoch, for any order of samples."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock import _core
from penstock.core import device as _device
from penstock.core.array import Array
from penstock.core.convert import as_dtype
from penstock.core.errors import CancelledError, InvalidArgumentError, UnsupportedError
from penstock.core.sizes import check_count, counted, either, parse_bytes
from penstock.core.tensor import Tensor

Arrays = Array | Sequence[Array] | Mapping[Any, Array]
_STATE_VERSION = 1
_DROP_LAST = 5  # the position of that option in the engine's arguments


def loader(
    arrays: Arrays,
    crop: Mapping[Any, int | None] | None = None,
    *,
    stride: Mapping[Any, int] | None = None,
    pad: Mapping[Any, int | tuple[int, int]] | None = None,
    samples: int | npt.ArrayLike | None = None,
    batch_size: int = 8,
    shuffle: bool = True,
    seed: int = 0,
    window: int | str | None = None,
    dtype: Any = None,
    scale: Any = None,
    offset: Any = None,
    along: Any = None,
    fill: Any = None,
    dims: Any = None,
    mask: bool = False,
    drop_last: bool = False,
    depth: int = 2,
    rank: int = 0,
    ranks: int = 1,
    device: str | None = None,
    sample: Mapping[Any, int | None] | None = None,
    world_size: int | None = None,
) -> Loader:
    """Return an iterable of shuffled batches of crops of arrays, which decodes each chunk once an epoch.

    Shuffling has two steps: blocks of chunks are put into random order, and samples are drawn from the blocks that the
    window holds. The order of an epoch depends only on the arguments, the seed and the epoch's number, not on the
    number of ranks; batch j goes to rank `j % ranks`. Since the order is known, chunks are read ahead by the context's
    threads and cached until their last sample has them. If the window is too small for that, the chunk that is needed
    last is dropped, and decoded again later.

    Parameters
    ----------
    arrays
        One array, a sequence, or a mapping: batches are a `Tensor`, a tuple, or a dict. Arrays share the axes of
        `crop`, on which they have the same length; their chunks may differ.
    crop
        The number of elements of a sample along each axis, by the dimension's name or number. None: one element, and
        batches do not have the dimension. Dimensions that are not named are complete. By default a sample is a row,
        `{0: None}`.
    stride
        The distance from one sample to the next along an axis; by default the crop, so that samples are adjacent. A
        remainder at the end that is shorter than a crop is omitted, unless `pad` covers it.
    pad
        How far samples may extend beyond the ends of an axis: a number, or one for each end. Elements there have the
        value `fill`.
    samples
        None: all samples of the grid. A number: the number of random crops, new ones in each epoch. An array of shape
        (samples, axes of `crop`): the start of each sample. The plan of an epoch takes memory: 8 bytes for each sample
        (32 if drawn along two axes) and 40 or more for each one of this rank, at most the context's memory limit.
    batch_size, shuffle, seed
        Samples of a batch; whether they are shuffled; the seed of their order.
    window
        Memory for chunks: bytes, or text such as "2GiB"; by default a quarter of the context's memory limit. They are
        decoded, except a small part of them, which was requested from a remote store and cannot be decoded yet.
        All ranks share it: each uses the window divided by `ranks`.
    dtype
        The dtype of the batches: any numeric dtype. This and the parameters down to `fill` may be a mapping from the
        arrays' keys to a setting for each.
    scale, offset
        Values become `value * scale + offset`, in float32 or float64 ("float32" if no dtype is given). Numbers, or one
        for each index of the dimension `along`.
    along
        The dimension, by name or number, along which `scale` and `offset` change.
    fill
        The value of elements beyond the ends of the axes; 0 by default.
    dims
        Names of the dimensions of arrays that have none: a sequence, or a mapping from the arrays' keys to sequences.
    mask
        Batches become pairs of the batch and a `Tensor` of booleans, (batch, *crop): False beyond the ends.
    drop_last
        Omit an incomplete last batch, and batches that only some ranks would have.
    depth
        Batches that are prepared in advance.
    rank, ranks
        The part of the batches that this process gets.
    device
        None or "cpu": batches are in host memory. "cuda:0" (or another number), or "cuda", the caller's current device:
        batches are in that device's memory. Chunks are decoded and samples put together on the host, and the copy is
        queued while the caller has an earlier batch; a consumer's stream waits for it, the host does not. The memory
        is used again when a batch is dropped, after the work that has been queued on it.
    sample, world_size
        Other names of `crop` and `ranks`.

    Returns
    -------
    Loader
        Iterating yields the batches of an epoch. `state_dict` has the position.

    Raises
    ------
    InvalidArgumentError
        No array has a dimension that `crop` names, the arrays differ in length along one, or an option is not valid.
    ResourceExhaustedError
        When an epoch begins: its plan takes more memory than the context's limit.

    Examples
    --------
    >>> x = ps.create_array({}, data=np.ones((10, 3, 128, 128), "u2"), chunks=(1, 3, 64, 64),
    ...                     dimension_names=("time", "band", "y", "x"))
    >>> y = ps.create_array({}, data=np.ones((10, 128, 128), "u1"), chunks=(1, 64, 64),
    ...                     dimension_names=("time", "y", "x"))
    >>> batches = ps.loader({"image": x, "label": y}, crop={"time": None, "y": 64, "x": 64}, batch_size=16,
    ...                     dtype={"image": "float32"}, scale={"image": 1e-4})
    >>> batches.samples, len(batches)
    (40, 3)
    >>> for epoch in range(2):
    ...     for batch in batches:
    ...         image = np.from_dlpack(batch["image"])     # torch.from_dlpack takes it too
    >>> image.shape, batch["label"].shape
    ((8, 3, 64, 64), (8, 64, 64))
    """
    keys, every = _as_list(arrays)
    names = [_names(array, given) for array, given in zip(every, _names_of_each(dims, keys), strict=True)]
    crop = either(crop=crop, sample=sample)
    ranks = ranks if world_size is None else either(ranks=None if ranks == 1 else ranks, world_size=world_size)
    for name, given in (("crop", crop), ("stride", stride), ("pad", pad)):
        if given is not None and not isinstance(given, Mapping):
            text = f"{name} must be a mapping from dimensions to numbers, such as {{'y': 64}}, got {given!r}"
            raise InvalidArgumentError(text)
    crop = {0: None} if crop is None else dict(crop)
    if not crop:
        raise InvalidArgumentError("crop has no axis: give the length of a sample along at least one")
    axes = _axes(crop, stride or {}, pad or {})
    places = [[_dimension(key, array, known) for key in crop] for array, known in zip(every, names, strict=True)]
    for i, key in enumerate(crop):
        if all(place[i] is None for place in places):
            known = "; ".join(
                ", ".join(map(repr, each)) or f"numbers below {a.ndim}" for each, a in zip(names, every, strict=True)
            )
            raise InvalidArgumentError(f"crop: no array has a dimension {key!r}; they have {known}")
    settings = zip(
        *(
            _of_each(value, name, keys)
            for name, value in (
                ("dtype", dtype),
                ("scale", scale),
                ("offset", offset),
                ("along", along),
                ("fill", fill),
            )
        ),
        strict=True,
    )
    parts = [
        _part(array, tuple(place), known, *of)
        for array, place, known, of in zip(every, places, names, settings, strict=True)
    ]
    count, origins = None, None
    if samples is not None and hasattr(samples, "__index__") and not isinstance(samples, np.ndarray):
        count = check_count(samples, "samples")
    elif samples is not None:
        origins = _origins(samples, len(crop))
    engine = (
        parts,
        axes,
        count,
        origins,
        check_count(batch_size, "batch_size"),
        bool(drop_last),
        bool(shuffle),
        _whole(seed, "seed") % 2**64,
        0 if window is None else parse_bytes(window, "window"),
        _whole(depth, "depth"),
        bool(mask),
        _device.device_number(device) if _device.is_device(device) else None,
    )
    shape = _Shape(keys, bool(mask), int(batch_size), int(seed), bool(shuffle))
    return Loader(engine, shape, rank, ranks)


@dataclass(frozen=True)
class _Shape:
    """The form in which batches are returned."""

    keys: list[Any]  # [None]: of one array; numbers: of a sequence
    mask: bool
    batch_size: int
    seed: int
    shuffle: bool

    def batch(self, values: list[Any], valid: Any) -> Any:
        tensors = [_tensor_of(each) for each in values]
        batch: Any = tuple(tensors)
        if self.keys == [None]:
            batch = tensors[0]
        elif self.keys != list(range(len(self.keys))):
            batch = dict(zip(self.keys, tensors, strict=True))
        return batch if valid is None else (batch, _tensor_of(valid))


class Loader:
    """Shuffled batches of samples: made by `penstock.loader`.

    Iterating yields this rank's batches of one epoch; the next iteration yields the next epoch. It can be pickled, and
    used in a forked process.

    Attributes
    ----------
    epoch
        The number of the current or next epoch.
    rank, ranks
        The part of the batches that this process gets.

    Examples
    --------
    Stop in the middle of an epoch and continue in another process:

    >>> x = ps.create_array({}, data=np.arange(20), chunks=(5,))
    >>> batches = ps.loader(x, batch_size=4, seed=1)
    >>> for batch in batches:
    ...     state = batches.state_dict()
    ...     break
    >>> again = ps.loader(x, batch_size=4, seed=1)
    >>> again.load_state_dict(state)
    >>> len(list(again)), again.epoch
    (4, 1)

    Half of the batches of epoch 7:

    >>> batches.set_epoch(7)
    >>> batches.set_rank(0, 2)
    >>> len(list(batches))
    3
    >>> batches.counts()["chunks_again"]
    0
    """

    def __init__(self, engine: tuple[Any, ...], shape: _Shape, rank: int, ranks: int) -> None:
        self._arguments, self._shape = engine, shape
        self.rank, self.ranks = 0, 1
        self.set_rank(rank, ranks)
        self.epoch = 0
        self._first = 0  # batch, of all ranks, that the next iteration begins with
        self._next = 0  # the batch, of all ranks, after those that were returned
        self._iteration: object = None  # the current one
        self._made: tuple[int, _core._Loader] | None = None
        self._samples = self._engine().samples

    def _engine(self) -> _core._Loader:
        if self._made is None or self._made[0] != os.getpid():  # threads do not survive a fork
            self._made = (os.getpid(), _core._Loader(*self._arguments))
        return self._made[1]

    @property
    def samples(self) -> int:
        """Samples of an epoch, of all ranks together."""
        return self._samples

    def __len__(self) -> int:
        """Batches of this rank in a whole epoch."""
        return self._engine().batches_of(0, self.rank, self.ranks)

    def __iter__(self) -> Iterator[Any]:
        engine, epoch, first = self._engine(), self.epoch, self._first
        # Before the start, so that an older iteration takes none of its batches.
        self._iteration = mine = (os.getpid(), object())
        engine.start(epoch, first, self.rank, self.ranks)
        self._next, self._first = first, 0
        while True:
            self._check_current(mine)
            try:
                found = engine.next()
            except CancelledError:
                self._check_current(mine)
                raise
            self._check_current(mine)
            if found is None:
                break
            self._next += self.ranks
            yield self._shape.batch(found[2], found[3])
        self.set_epoch(epoch + 1)

    def _share_of(self, number: int, count: int) -> Iterator[Any]:
        """Every `count`-th of this rank's batches of an epoch, from the batch `number` on: those of one worker.

        `drop_last` omits batches that only some ranks have, but not those that only some workers have.
        """
        first, epoch = self._first, self.epoch
        wanted = len(range(number, self._engine().batches_of(first, self.rank, self.ranks), count))
        arguments = (*self._arguments[:_DROP_LAST], False, *self._arguments[_DROP_LAST + 1 :])
        share = Loader(arguments, self._shape, self.rank + self.ranks * number, self.ranks * count)
        share.epoch, share._first = epoch, first
        yield from itertools.islice(share, wanted)
        self.set_epoch(epoch + 1)

    def _check_current(self, iteration: tuple[int, object]) -> None:
        if self._iteration is not iteration or os.getpid() != iteration[0]:
            raise InvalidArgumentError("another iteration of this loader has begun, or a fork: this one has ended")

    def set_epoch(self, epoch: int) -> None:
        """Set the number of the next epoch, which begins at its first batch: each epoch has an order of its own."""
        self.epoch = _whole(epoch, "epoch")
        self._first = self._next = 0

    def set_rank(self, rank: int, ranks: int) -> None:
        """Use another part of the batches, from the next iteration on.

        Raises
        ------
        InvalidArgumentError
            `rank` is not from 0 to `ranks` - 1.
        """
        if not 0 <= _whole(rank, "rank") < check_count(ranks, "ranks"):
            raise InvalidArgumentError(f"rank must be from 0 to {ranks - 1}, got {rank}")
        self.rank, self.ranks = int(rank), int(ranks)

    def state_dict(self) -> dict[str, Any]:
        """The position of the iteration, for `load_state_dict` of a loader with the same arguments and any number of
        ranks.

        Call it when all ranks have had the same number of batches.

        Returns
        -------
        dict
            Values that JSON can hold.
        """
        return {"epoch": self.epoch, "batch": self._next, **self._identity()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue at the position of a `state_dict`, with the next iteration.

        Parameters
        ----------
        state
            The result of `state_dict`.

        Raises
        ------
        InvalidArgumentError
            The state has other samples, another seed, `shuffle` or batch size: the order would not be the same.
        """
        given = {"shuffle": self._shape.shuffle, **_mapping(state, "state")}  # earlier states do not have it
        for name, value in self._identity().items():
            if given.get(name) != value:
                raise InvalidArgumentError(f"the state has {name} {given.get(name)!r}, this loader {value!r}")
        batch = _whole(given.get("batch"), "batch of the state")
        self.set_epoch(_whole(given.get("epoch"), "epoch of the state"))
        self._first = self._next = batch

    def _identity(self) -> dict[str, Any]:
        return {
            "version": _STATE_VERSION,
            "samples": self._samples,
            "batch_size": self._shape.batch_size,
            "seed": self._shape.seed,
            "shuffle": self._shape.shuffle,
            "lanes": self.counts()["lanes"],
            "blocks_open": self.counts()["blocks_open"],
        }

    def counts(self) -> dict[str, int]:
        """Return statistics of the window in this epoch.

        Returns
        -------
        dict
            `chunks_read` and `bytes_read`: decoded. `chunks_again`: of these, the ones decoded before in the same
            epoch, because the window was too small. `window_bytes`, `peak_window_bytes`: memory of decoded chunks.
            `blocks_open`: the number of blocks of chunks that samples are drawn from. `lanes`: the number of parts of
            the data set that are shuffled separately.
        """
        return self._engine().counts()

    def __repr__(self) -> str:
        rank = "" if self.ranks == 1 else f", rank {self.rank} of {self.ranks}"
        size = self._shape.batch_size
        return f"<penstock.Loader: {counted(self._samples, 'sample')} in batches of {size}, epoch {self.epoch}{rank}>"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_made": None, "_iteration": None}


def _tensor_of(values: npt.NDArray[Any] | _core._DeviceRead) -> Tensor:
    return Tensor(values) if isinstance(values, np.ndarray) else _device.DeviceTensor(values)


def _no_array(given: Any) -> InvalidArgumentError:
    text = f"arrays must be a penstock.Array, or a sequence or mapping of some, got {type(given).__name__}"
    if isinstance(given, str | os.PathLike):
        text += ": penstock.open opens a path"
    return InvalidArgumentError(text)


def _as_list(arrays: Arrays) -> tuple[list[Any], list[Array]]:
    if isinstance(arrays, Array):
        return [None], [arrays._opened()]
    if isinstance(arrays, Mapping):
        keys, every = list(arrays), list(arrays.values())
    elif isinstance(arrays, Sequence):
        keys, every = list(range(len(arrays))), list(arrays)
    else:
        raise _no_array(arrays)
    given: Any = arrays
    wrong = [each for each in every if not isinstance(each, Array)]
    if not every or wrong:
        raise _no_array(given if isinstance(given, str) or not every else wrong[0])
    return keys, [each._opened() for each in every]


def _mapping(value: Any, name: str) -> dict[Any, Any]:
    """A setting for each axis; None: none."""
    if value is not None and not isinstance(value, Mapping):
        raise InvalidArgumentError(f"{name} must be a mapping, such as {{'time': 1}}, got {value!r}")
    return dict(value or {})


def _of_each(value: Any, name: str, keys: list[Any]) -> list[Any]:
    """One setting for each array: from a mapping with the arrays' keys, or the same for all."""
    if not isinstance(value, Mapping):
        return [value] * len(keys)
    unknown = [key for key in value if key not in keys]
    if unknown:
        raise InvalidArgumentError(f"{name}: there is no array {unknown[0]!r}; arrays are {keys}")
    return [value.get(key) for key in keys]


def _names_of_each(dims: Any, keys: list[Any]) -> list[Any]:
    return _of_each(dims, "dims", keys)


def _names(array: Array, given: Sequence[str] | None) -> list[str | None]:
    if given is None:
        return list(array.dimension_names or [])
    if isinstance(given, str) or not hasattr(given, "__len__") or len(given) != array.ndim:
        raise InvalidArgumentError(
            f"dims: {given!r} are not the names of {counted(array.ndim, 'dimension')}", f"array '{array.uri}'"
        )
    return list(given)


def _dimension(key: Any, array: Array, names: list[str | None]) -> int | None:
    """The dimension of an array for an axis; None: the array does not have it."""
    if key in names:
        if names.count(key) > 1:
            raise InvalidArgumentError(f"two dimensions have the name {key!r}: give dims", f"array '{array.uri}'")
        return names.index(key)
    if not isinstance(key, str) and hasattr(key, "__index__"):
        number = int(key.__index__())
        return number % array.ndim if -array.ndim <= number < array.ndim else None
    return None


def _axes(
    crop: Mapping[Any, int | None], stride: Mapping[Any, int], pad: Mapping[Any, int | tuple[int, int]]
) -> list[tuple[int, bool, int, int, int]]:
    for name, given in (("stride", stride), ("pad", pad)):
        unknown = [key for key in given if key not in crop]
        if unknown:
            raise InvalidArgumentError(f"{name}: {unknown[0]!r} is not an axis of crop, which has {list(crop)}")
    made = []
    for key, length in crop.items():
        beyond: Any = pad.get(key, 0)
        ends = [beyond, beyond] if np.ndim(beyond) == 0 else list(beyond)
        if len(ends) != 2:
            raise InvalidArgumentError(f"pad of {key!r} must be a number, or one for each end, got {beyond!r}")
        before, after = ends
        made.append(
            (
                1 if length is None else check_count(length, f"crop of {key!r}"),
                length is not None,
                check_count(stride[key], f"stride of {key!r}") if key in stride else 0,
                _whole(before, f"pad of {key!r}"),
                _whole(after, f"pad of {key!r}"),
            )
        )
    return made


def _part(
    array: Array,
    place: tuple[int | None, ...],
    names: list[str | None],
    dtype: Any,
    scale: Any,
    offset: Any,
    along: Any,
    fill: Any,
) -> tuple[Any, ...]:
    """The engine's options for one array."""
    if array.dtype.kind in "OT":
        raise UnsupportedError(
            f"batches have elements of fixed size, {array.dtype} has none: take its values with `a[...]`",
            f"array '{array.uri}'",
        )
    scaled = scale is not None or offset is not None
    made = as_dtype(dtype) if dtype is not None else array.dtype
    if dtype is None and scaled and array.dtype not in (np.float32, np.float64):
        made = np.dtype("float32")
    number = 0
    if along is not None:
        found = _dimension(along, array, names)
        if found is None:
            raise InvalidArgumentError(f"along: there is no dimension {along!r}", f"array '{array.uri}'")
        number = found
    numbers = [_numbers(scale, "scale"), _numbers(offset, "offset")]
    if along is None and any(len(each) > 1 for each in numbers):
        raise InvalidArgumentError(
            "scale and offset of several numbers need `along`: the dimension that they belong to"
        )
    if any(given is not None and not each for given, each in zip((scale, offset), numbers, strict=True)):
        raise InvalidArgumentError("scale and offset are numbers, or sequences of some")
    return (array, place, made.newbyteorder("="), *numbers, number, _padding(fill, made, array))


def _numbers(given: Any, name: str) -> tuple[float, ...]:
    """The numbers of `scale` or `offset`; none if it is not given."""
    if given is None:
        return ()
    try:
        found = np.asarray(given)
        if found.dtype.kind in "SUTmMc" or any(each is None for each in found.flat):
            raise TypeError  # NumPy would take text, times, the real parts of complex numbers, and NaN for None
        return tuple(found.astype(np.float64).reshape(-1).tolist())
    except (TypeError, ValueError, OverflowError):
        raise InvalidArgumentError(f"{name} must be a number, or a sequence of some, got {given!r}") from None


def _padding(fill: Any, dtype: np.dtype[Any], array: Array) -> bytes:
    """The bytes of `fill` in the batches. Integers and booleans must have its value; floats round it."""
    if fill is None:
        return b""
    refusal = InvalidArgumentError(f"fill {fill!r} is not a value of {dtype}", f"array '{array.uri}'")
    try:
        given = np.asarray(fill)
        if given.size != 1 or (given.dtype.kind == "c" and dtype.kind != "c"):
            raise refusal
        with np.errstate(invalid="ignore"):
            made = given.astype(dtype, casting="unsafe")
    except (TypeError, ValueError, OverflowError):
        raise refusal from None
    if dtype.kind in "biu" and not (given.dtype.kind in "biuf" and np.array_equal(made, given)):
        raise refusal
    return made.tobytes()


def _origins(samples: npt.ArrayLike, axes: int) -> bytes:
    try:
        found = np.asarray(samples)
    except ValueError:  # lists of several lengths
        raise InvalidArgumentError(f"samples must be whole numbers of shape (samples, {axes})") from None
    if found.ndim == 1 and axes == 1:
        found = found[:, np.newaxis]
    if found.ndim != 2 or found.shape[1] != axes or found.dtype.kind not in "iu":
        raise InvalidArgumentError(
            f"samples must be whole numbers of shape (samples, {axes}), they are {found.dtype} of shape {found.shape}"
        )
    if found.shape[0] == 0:
        raise InvalidArgumentError("samples must not be empty")
    return np.ascontiguousarray(found, np.int64).tobytes()


def _whole(value: Any, name: str) -> int:
    """A whole number of at least 0 that the engine can count to. A seed may be larger."""
    if not hasattr(value, "__index__") or isinstance(value, bool) or value.__index__() < 0:
        raise InvalidArgumentError(f"{name} must be a whole number of at least 0, got {value!r}")
    if value.__index__() >= 2**64 and name != "seed":
        raise InvalidArgumentError(f"{name} must be less than 2^64, got {value!r}")
    return int(value.__index__())
