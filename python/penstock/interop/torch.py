"""Arrays as PyTorch's data sets. The public names are in `penstock.torch`."""

from __future__ import annotations

import itertools
import random
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch.utils import data

from penstock.api.open import open_array
from penstock.core.array import Array
from penstock.core.batches import Arrays, CropReader, Sample, batches
from penstock.core.errors import InvalidArgumentError, UnsupportedError
from penstock.core.loader import loader
from penstock.core.sizes import counted, either
from penstock.core.tensor import Tensor

__all__ = ["Batches", "Crops", "Loader", "Rows", "as_tensor", "load"]


def as_tensor(values: Any) -> torch.Tensor:
    """Return `torch.from_dlpack` of an array, a tensor or an ndarray, also of bfloat16.

    Unsigned integers of 16 bits and more, and float8, need a PyTorch that accepts them from DLPack. Values with
    negative strides are copied, because PyTorch does not have such tensors.

    Parameters
    ----------
    values
        An open `Array`, which is read, a `penstock.Tensor`, an ndarray, or an object with `__dlpack__`.

    Returns
    -------
    torch.Tensor
        On the memory of `values`; of an `Array` on new memory.

    Raises
    ------
    ExportError
        The type has no code in DLPack.

    Examples
    --------
    >>> import torch, penstock.torch
    >>> a = ps.create_array({}, data=np.arange(6, dtype="f4").reshape(2, 3))
    >>> penstock.torch.as_tensor(a)
    tensor([[0., 1., 2.],
            [3., 4., 5.]])
    """
    if isinstance(values, np.ndarray) and any(stride < 0 for stride in values.strides):
        values = values.copy()
    source = values if hasattr(values, "__dlpack__") and not isinstance(values, np.ndarray) else Tensor(values)
    return torch.from_dlpack(source)


class Crops(data.Dataset):  # type: ignore[misc]
    """Crops of arrays by number: `crops[i]` is the tensor of sample i.

    If a loader requests several (`batch_size=8`), they are read together.

    Parameters
    ----------
    arrays, dtype
        As for `penstock.batches`.
    samples
        As for `penstock.batches`; None: the rows of one array (`a[i]`).
    transform
        Called on each tensor.

    Examples
    --------
    >>> import torch, penstock.torch
    >>> a = ps.create_array("a.zarr", data=np.ones((3, 128, 128), "f4"), chunks=(3, 64, 64))
    >>> samples = [np.s_[:, y : y + 32, 0:32] for y in range(0, 96, 8)]
    >>> crops = penstock.torch.Crops(a, samples)
    >>> len(crops), crops[0].shape
    (12, torch.Size([3, 32, 32]))
    >>> next(iter(torch.utils.data.DataLoader(crops, batch_size=4, shuffle=True))).shape
    torch.Size([4, 3, 32, 32])
    """

    def __init__(
        self,
        arrays: Arrays,
        samples: Sequence[Sample] | None = None,
        dtype: npt.DTypeLike | None = None,
        transform: Callable[[torch.Tensor], Any] | None = None,
    ) -> None:
        self._reader = CropReader(arrays, dtype)
        self._samples = samples if samples is not None else _rows_of(arrays)
        self._transform = transform

    def __len__(self) -> int:
        return len(self._samples)

    def __getitem__(self, index: int) -> Any:
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        """The tensors of several samples, read together."""
        both = as_tensor(self._reader.read([self._samples[i] for i in indices]))
        return [each if self._transform is None else self._transform(each) for each in both]


class Batches(data.IterableDataset):  # type: ignore[misc]
    """Whole batches of crops, read ahead. A loader takes them with `batch_size=None`.

    The samples are distributed to ranks and to a loader's workers: each is read once. All ranks get the same number of
    batches: the remaining samples, fewer than there are ranks, are omitted in that epoch.

    Parameters
    ----------
    arrays, batch_size, dtype, drop_last, depth
        As for `penstock.batches`.
    samples
        As for `penstock.batches`; None: the rows of one array.
    shuffle, seed
        Draw a new order from `seed` in each epoch; `set_epoch` sets its number, as for samplers.
    rank, world_size
        The part of the samples that this process gets; by default those of torch.distributed if it runs, else 0 of 1.
    device
        As for `penstock.batches`; a loader's workers and CUDA need `multiprocessing_context="spawn"`.

    Examples
    --------
    >>> import torch, penstock.torch
    >>> a = ps.create_array("a.zarr", data=np.ones((3, 128, 128), "f4"), chunks=(3, 64, 64))
    >>> samples = [np.s_[:, y : y + 32, 0:32] for y in range(0, 96, 8)]
    >>> batches = penstock.torch.Batches(a, samples, batch_size=8, shuffle=True)
    >>> for epoch in range(2):
    ...     batches.set_epoch(epoch)
    ...     shapes = [x.shape for x in torch.utils.data.DataLoader(batches, batch_size=None)]
    >>> shapes
    [torch.Size([8, 3, 32, 32]), torch.Size([4, 3, 32, 32])]
    """

    def __init__(
        self,
        arrays: Arrays,
        samples: Sequence[Sample] | None = None,
        batch_size: int = 8,
        dtype: npt.DTypeLike | None = None,
        shuffle: bool = False,
        seed: int = 0,
        drop_last: bool = False,
        depth: int = 2,
        rank: int | None = None,
        world_size: int | None = None,
        device: str | None = None,
    ) -> None:
        CropReader(arrays, dtype)  # reports errors here, not in a worker
        if batch_size < 1 or depth < 0:
            raise InvalidArgumentError(f"batch_size is at least 1 and depth at least 0: {batch_size}, {depth}")
        self._device = device
        self._arrays = arrays
        self._samples = samples if samples is not None else _rows_of(arrays)
        self._batch_size, self._dtype, self._drop_last, self._depth = batch_size, dtype, drop_last, depth
        self._shuffle, self._seed, self._epoch = shuffle, seed, _shared_number()
        self._rank, self._world_size = _ranks(rank, world_size)

    @property
    def epoch(self) -> int:
        """The epoch that the next iteration has."""
        return int(self._epoch)

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch: shuffling draws another order in each. Call it before iterating. Workers of a loader see it,
        also persistent ones.
        """
        self._epoch.fill_(epoch)

    def _mine(self) -> list[int]:
        """Numbers of this rank's and this worker's samples, in order."""
        order = list(range(len(self._samples)))
        if self._shuffle:
            random.Random(f"{self._seed}/{self.epoch}").shuffle(order)
        each = len(order) // self._world_size
        mine = order[self._rank : each * self._world_size : self._world_size]
        worker = data.get_worker_info()
        if worker is None:
            return mine
        # Whole batches for each worker, so that there are as many batches as without workers.
        size = self._batch_size
        starts = range(worker.id * size, len(mine), worker.num_workers * size)
        return [one for start in starts for one in mine[start : start + size]]

    def __iter__(self) -> Iterator[torch.Tensor]:
        samples = (self._samples[i] for i in self._mine())
        options: dict[str, Any] = {"depth": self._depth, "drop_last": self._drop_last, "device": self._device}
        for batch in batches(self._arrays, samples, self._batch_size, self._dtype, **options):
            yield as_tensor(batch)

    def __len__(self) -> int:
        """Batches of this rank, of all of its workers together."""
        each, size = len(self._samples) // self._world_size, self._batch_size
        return each // size if self._drop_last else -(-each // size)


class Rows(data.IterableDataset):  # type: ignore[misc]
    """Batches of rows that follow each other, read ahead: for arrays of many shards. A loader takes them with
    `batch_size=None`.

    Each rank has rows // world_size consecutive rows, each worker whole batches of them; the remaining rows, fewer than
    there are ranks, are omitted. The last batch of a rank may be short.

    Rows stay together within their batches.

    Parameters
    ----------
    array
        One array with rows.
    batch_size
        Rows of a batch.
    shuffle, seed
        Draw a new order of the batches from `seed` in each epoch.
    depth
        Batches that are read while the caller has one.
    rank, world_size
        The part of the rows that this process gets; by default those of torch.distributed if it runs, else 0 of 1.

    Examples
    --------
    >>> import torch, penstock.torch
    >>> paths = ps.save_shards(np.arange(40.0).reshape(20, 2), "run/shard_{:02d}.npy", rows=5)
    >>> rows = penstock.torch.Rows(ps.open_shards("run/shard_*.npy"), 8)
    >>> rows.set_epoch(1)
    >>> len(rows), next(iter(rows)).shape
    (3, torch.Size([8, 2]))
    """

    def __init__(
        self,
        array: Array,
        batch_size: int,
        shuffle: bool = False,
        seed: int = 0,
        depth: int = 2,
        rank: int | None = None,
        world_size: int | None = None,
    ) -> None:
        _rows_of(array)
        if batch_size < 1 or depth < 0:
            raise InvalidArgumentError(f"batch_size is at least 1 and depth at least 0: {batch_size}, {depth}")
        as_tensor(np.zeros(0, array.dtype))  # reports here types that PyTorch does not have
        self._array, self._batch_size, self._depth = array, batch_size, depth
        self._shuffle, self._seed, self._epoch = shuffle, seed, _shared_number()
        self._rank, self._world_size = _ranks(rank, world_size)

    @property
    def epoch(self) -> int:
        """The epoch that the next iteration has."""
        return int(self._epoch)

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch: shuffling draws another order in each. Call it before iterating. Workers of a loader see it,
        also persistent ones.
        """
        self._epoch.fill_(epoch)

    def _mine(self) -> list[slice]:
        each = self._array.shape[0] // self._world_size
        begin = self._rank * each
        starts = range(begin, begin + each, self._batch_size)
        batches = [slice(at, min(at + self._batch_size, begin + each)) for at in starts]
        worker = data.get_worker_info()
        if worker is not None:
            per_worker = -(-len(batches) // worker.num_workers)
            batches = batches[worker.id * per_worker : (worker.id + 1) * per_worker]
        if self._shuffle:
            random.Random(f"{self._seed}/{self.epoch}").shuffle(batches)
        return batches

    def __iter__(self) -> Iterator[torch.Tensor]:
        waiting, ahead = iter(self._mine()), deque[Any]()
        try:
            while True:
                more = itertools.islice(waiting, self._depth + 1 - len(ahead))
                ahead.extend(self._array.read_async(each) for each in more)
                if not ahead:
                    break
                yield as_tensor(np.asarray(ahead.popleft().wait()))
        finally:
            for job in ahead:
                job.cancel()

    def __len__(self) -> int:
        """Batches of this rank, of all of its workers together."""
        return -(-(self._array.shape[0] // self._world_size) // self._batch_size)


class Loader(data.IterableDataset):  # type: ignore[misc]
    """The batches of `penstock.loader` as tensors of PyTorch; it has the arguments of `penstock.loader`.

    It can be iterated directly, in one process, with the engine's threads. A `DataLoader` takes it with
    `batch_size=None`; its workers take turns, so that the order stays the same. `rank` and `world_size` (or `ranks`)
    are given together; by default they are those of torch.distributed if it runs. With several ranks, batches that
    only some of them would have are omitted (`drop_last`). `state_dict` and `load_state_dict` are those of
    `penstock.Loader`, for iterations without workers.

    Parameters
    ----------
    arguments, options
        Those of `penstock.loader`, except `device`.
    device
        The device that tensors are moved to, on its current stream; None: host memory.

    Examples
    --------
    >>> import torch, penstock.torch
    >>> images = ps.create_array({}, data=np.ones((10, 3, 128, 128), "u1"), chunks=(1, 3, 64, 64))
    >>> batches = penstock.torch.Loader(images, crop={0: None, 2: 64, 3: 64}, batch_size=16, dtype="float32")
    >>> for x in batches:
    ...     position = batches.state_dict()
    >>> x.shape, x.dtype
    (torch.Size([8, 3, 64, 64]), torch.float32)
    >>> batches.load_state_dict(position)
    >>> batches.set_epoch(3)
    """

    def __init__(self, *arguments: Any, device: str | None = None, **options: Any) -> None:
        name = "ranks" if options.get("ranks") is not None else "world_size"
        count = either(ranks=options.pop("ranks", None), world_size=options.pop("world_size", None))
        rank, ranks = _ranks(options.pop("rank", None), count, name)
        if ranks > 1:
            options.setdefault("drop_last", True)
        self._loader = loader(*arguments, rank=rank, ranks=ranks, **options)
        self._rank, self._world_size, self._device = rank, ranks, device

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch; by default, each iteration is the next one.

        The workers of a `DataLoader` iterate over copies: call this before each epoch, or all have the same order.
        Persistent workers count on their own, and do not see this call.

        Parameters
        ----------
        epoch
            A number from 0 on.
        """
        self._loader.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """The position of the iteration."""
        return self._loader.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue at that position, with any number of ranks."""
        self._loader.load_state_dict(state)

    def __len__(self) -> int:
        """Batches of this rank, of all of its workers together."""
        self._loader.set_rank(self._rank, self._world_size)
        return len(self._loader)

    def __iter__(self) -> Iterator[Any]:
        worker = data.get_worker_info()
        self._loader.set_rank(self._rank, self._world_size)
        mine = self._loader if worker is None else self._loader._share_of(worker.id, worker.num_workers)
        for batch in mine:
            yield self._moved(batch)

    def _moved(self, batch: Any) -> Any:
        if isinstance(batch, dict):
            return {key: self._moved(each) for key, each in batch.items()}
        if isinstance(batch, tuple):
            return tuple(self._moved(each) for each in batch)
        made = as_tensor(batch)
        return made if self._device is None else made.to(self._device)


def local_part(
    shape: Sequence[int], mesh_shape: Sequence[int], coordinates: Sequence[int], dims: Sequence[int | None]
) -> tuple[slice, ...]:
    """The part of an array that one rank of a mesh has.

    `dims` has, for each dimension of the mesh, the dimension of the array that it divides, or None (replicated). Parts
    are those of torch.chunk and `ps.tiles`: ceil, the last ones shorter or without rows.
    """
    bounds = [(0, length) for length in shape]
    for ranks, at, dim in zip(mesh_shape, coordinates, dims, strict=True):
        if dim is None:
            continue
        low, high = bounds[dim]
        each = -(-(high - low) // ranks)
        bounds[dim] = (min(low + at * each, high), min(low + (at + 1) * each, high))
    return tuple(slice(low, high) for low, high in bounds)


def load(source: Any, mesh: Any, placements: Sequence[Any], *, threads: int | None = None) -> Any:
    """Return a `DTensor` of which each rank has read only its own part. Every rank of the mesh must call it.

    Parameters
    ----------
    source
        An open `Array`, or a target of `open_array`. Every rank must see the same data.
    mesh
        A `DeviceMesh`. On "cuda" each rank reads into the memory of its current device.
    placements
        `Shard(dim)` or `Replicate()` for each dimension of the mesh.
    threads
        Decoding workers of this rank's read; None: the context's.

    Returns
    -------
    torch.distributed.tensor.DTensor
        On "cuda" when all is queued on the device, ordered on the current stream. A chunk that fails there later is
        raised by the next read, or by `synchronize` of the context.

    Raises
    ------
    UnsupportedError
        Another placement, or a type that PyTorch lacks.
    InvalidArgumentError
        The placements do not fit the mesh or the array, or this rank is not of the mesh.
    Error
        This rank's part cannot be read.

    Examples
    --------
    A program with one process; `torchrun` starts one on each GPU:

    >>> import torch, penstock.torch
    >>> from torch.distributed.device_mesh import init_device_mesh
    >>> from torch.distributed.tensor import Shard
    >>> torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    >>> ps.save("run.zarr", np.ones((8, 4), "f4"))
    >>> x = penstock.torch.load("run.zarr", init_device_mesh("cpu", (1,)), [Shard(0)])
    >>> x.shape, x.to_local().shape
    (torch.Size([8, 4]), torch.Size([8, 4]))
    >>> torch.distributed.destroy_process_group()
    """
    from torch.distributed.tensor import DTensor, Replicate, Shard

    array = source if isinstance(source, Array) else open_array(source)
    dims: list[int | None] = []
    for each in placements:
        if type(each) not in (Shard, Replicate):
            raise UnsupportedError(f"arrays are loaded as Shard or Replicate, not {each}")
        dim = each.dim if isinstance(each, Shard) else None
        if dim is not None and not -array.ndim <= dim < array.ndim:
            raise InvalidArgumentError(f"{each} is of no dimension of an array with {array.ndim}")
        dims.append(None if dim is None else dim % array.ndim)
    if len(dims) != mesh.ndim:
        raise InvalidArgumentError(f"{counted(len(dims), 'placement')} for a mesh of {counted(mesh.ndim, 'dimension')}")
    coordinates = mesh.get_coordinate()
    if coordinates is None:
        raise InvalidArgumentError("this rank is not of the mesh")
    part = local_part(array.shape, tuple(mesh.shape), coordinates, dims)
    device = f"cuda:{torch.cuda.current_device()}" if mesh.device_type == "cuda" else "cpu"
    local = as_tensor(array.read(part, device=device, threads=threads))
    strides = [1] * array.ndim
    for d in range(array.ndim - 2, -1, -1):
        strides[d] = strides[d + 1] * max(1, array.shape[d + 1])
    shape = torch.Size(array.shape)
    return DTensor.from_local(local, mesh, placements, run_check=False, shape=shape, stride=tuple(strides))


def _rows_of(arrays: Arrays) -> Sequence[Sample]:
    if not isinstance(arrays, Array) or not arrays.shape:
        raise InvalidArgumentError("samples are optional for one array with rows only: give the selections to read")
    return range(arrays.shape[0])


def _shared_number() -> torch.Tensor:
    """A number, 0 at first, that a loader's workers share with this process."""
    return torch.zeros((), dtype=torch.int64, device="cpu").share_memory_()


def _ranks(rank: int | None, world_size: int | None, name: str = "world_size") -> tuple[int, int]:
    """Rank and number of ranks. `name`: of the second argument."""
    if (rank is None) != (world_size is None):
        given, missing = ("rank", name) if world_size is None else (name, "rank")
        raise InvalidArgumentError(f"{given} is given without {missing}: both are given, or neither")
    if rank is None or world_size is None:
        running = torch.distributed.is_available() and torch.distributed.is_initialized()
        return (torch.distributed.get_rank(), torch.distributed.get_world_size()) if running else (0, 1)
    if not 0 <= rank < world_size:
        raise InvalidArgumentError(f"rank must be from 0 to {world_size - 1}, got {rank}")
    return rank, world_size


for _each in (Crops, Batches, Loader, Rows):  # pickles name the public module
    _each.__module__ = "penstock.torch"
