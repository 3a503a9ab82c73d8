"""Arrays as PyTorch's data sets.

    from penstock.torch import Batches, Crops

    loader = torch.utils.data.DataLoader(Batches(a, samples, batch_size=8), batch_size=None, num_workers=2)
    loader = torch.utils.data.DataLoader(Crops(a, samples), batch_size=8, shuffle=True)

The first reads whole batches ahead and splits the samples among ranks and workers; the second leaves the choice to
PyTorch's samplers. Both pickle by the arrays' URIs, so that workers may be started in any way.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch.utils import data

from penstock._array import Array
from penstock._batches import Arrays, CropReader, Sample, batches
from penstock._errors import InvalidArgumentError, _make
from penstock._tensor import Tensor

__all__ = ["Batches", "Crops", "as_tensor"]


def as_tensor(values: Any) -> torch.Tensor:
    """What `torch.from_dlpack` makes of an array, a tensor or an ndarray; bfloat16 and all.

    Unsigned integers of 16 bits and more, and float8, need a PyTorch that takes them from DLPack.
    """
    source = values if hasattr(values, "__dlpack__") and not isinstance(values, np.ndarray) else Tensor(values)
    return torch.from_dlpack(source)


class Crops(data.Dataset):  # type: ignore[misc]
    """Crops of arrays by number: `crops[i]` is the tensor of sample i.

    `samples` as in `penstock.batches`; None: the rows of one array (what `a[i]` is). A loader that asks for several
    (`batch_size=8`) has them read together. `transform` is called on each tensor.
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
        both = as_tensor(self._reader.start([self._samples[i] for i in indices]).wait())
        return [each if self._transform is None else self._transform(each) for each in both]


class Batches(data.IterableDataset):  # type: ignore[misc]
    """Whole batches of crops, read ahead. A loader takes them with `batch_size=None`.

    The samples are dealt out to ranks (`rank` of `world_size`, by default those of torch.distributed where it runs) and
    to a loader's workers: each is read once. All ranks get the same number of batches: what is left over, fewer samples
    than there are ranks, is left out in that epoch.

    `shuffle` draws a new order from `seed` in each epoch; `set_epoch` says which one it is, as samplers' does.
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
    ) -> None:
        CropReader(arrays, dtype)  # says what is wrong here, not in a worker
        self._arrays = arrays
        self._samples = samples if samples is not None else _rows_of(arrays)
        self._batch_size, self._dtype, self._drop_last, self._depth = batch_size, dtype, drop_last, depth
        self._shuffle, self._seed, self.epoch = shuffle, seed, 0
        self._rank, self._world_size = _ranks(rank, world_size)

    def set_epoch(self, epoch: int) -> None:
        """Say which epoch comes: shuffling draws another order in each. Call it before iterating."""
        self.epoch = epoch

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
        # Whole batches to a worker, so that there are as many batches as without workers.
        size = self._batch_size
        starts = range(worker.id * size, len(mine), worker.num_workers * size)
        return [one for start in starts for one in mine[start : start + size]]

    def __iter__(self) -> Iterator[torch.Tensor]:
        samples = (self._samples[i] for i in self._mine())
        options: dict[str, Any] = {"depth": self._depth, "drop_last": self._drop_last}
        for batch in batches(self._arrays, samples, self._batch_size, self._dtype, **options):
            yield as_tensor(batch)

    def __len__(self) -> int:
        """Batches of this rank, of all of its workers together."""
        each, size = len(self._samples) // self._world_size, self._batch_size
        return each // size if self._drop_last else -(-each // size)


def _rows_of(arrays: Arrays) -> Sequence[Sample]:
    if not isinstance(arrays, Array) or not arrays.shape:
        raise _make(InvalidArgumentError, "samples may be left out for one array with rows: say what to read of each")
    return range(arrays.shape[0])


def _ranks(rank: int | None, world_size: int | None) -> tuple[int, int]:
    if (rank is None) != (world_size is None):
        raise _make(InvalidArgumentError, "rank and world_size go together")
    if rank is None or world_size is None:
        running = torch.distributed.is_available() and torch.distributed.is_initialized()
        return (torch.distributed.get_rank(), torch.distributed.get_world_size()) if running else (0, 1)
    if not 0 <= rank < world_size:
        raise _make(InvalidArgumentError, f"rank must be from 0 to {world_size - 1}, it is {rank}")
    return rank, world_size
