"""Two ranks of torch.distributed on this machine's CPU: the parts of a DTensor and of data sets that each of them has.

torch_ranks.py FOLDER RANK RANKS
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import penstock as ps
import penstock.torch
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Partial, Replicate, Shard


def rows_of(path: str) -> tuple[int, tuple[int, ...], str]:
    found = np.load(path, mmap_mode="r")
    return found.shape[0], found.shape[1:], found.dtype.str


def read_rows(path: str, low: int, high: int) -> np.ndarray:
    return np.load(path, mmap_mode="r")[low:high]


folder, rank, ranks = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=ranks)
try:
    mesh = init_device_mesh("cpu", (ranks,))
    values = np.load(folder / "values.npy")
    array = ps.open_shards(str(folder / "shard_*.npy"))
    for dim in (0, 1, -1):
        made = penstock.torch.load(array, mesh, [Shard(dim)])
        assert tuple(made.shape) == values.shape
        assert tuple(made.stride()) == (values.shape[1], 1)
        wanted = torch.from_numpy(values).chunk(ranks, dim)
        mine = wanted[rank] if rank < len(wanted) else torch.empty(0)
        assert torch.equal(made.to_local(), mine), "as torch.chunk cuts it"
        np.testing.assert_array_equal(made.full_tensor().numpy(), values)
    assert torch.equal(penstock.torch.load(array, mesh, [Replicate()]).to_local(), torch.from_numpy(values))
    total = penstock.torch.load(array, mesh, [Shard(0)]).sum()
    assert total.full_tensor().item() == values.sum()
    for wrong, kind in (([Partial()], ps.UnsupportedError), ([Shard(2)], ps.InvalidArgumentError)):
        try:
            penstock.torch.load(array, mesh, wrong)
        except kind:
            continue
        raise AssertionError(f"{wrong} is refused")

    rows = penstock.torch.Rows(array, 4)
    got = torch.cat(list(rows))
    each = len(values) // ranks
    assert torch.equal(got, torch.from_numpy(values[rank * each : (rank + 1) * each]))
    assert len(rows) == len(list(rows))
    loader = torch.utils.data.DataLoader(rows, batch_size=None, num_workers=2)
    assert sorted(torch.cat(list(loader)).tolist()) == sorted(got.tolist())
    shuffled = penstock.torch.Rows(array, 4, shuffle=True)
    first = torch.cat(list(shuffled))
    shuffled.set_epoch(1)
    assert not torch.equal(first, torch.cat(list(shuffled)))
    assert sorted(first.tolist()) == sorted(got.tolist())

    own = ps.open_shards(str(folder / "shard_*.npy"), metadata=rows_of, reader=read_rows)
    assert torch.equal(
        penstock.torch.load(own, mesh, [Shard(0)]).to_local(), torch.from_numpy(values).chunk(ranks)[rank]
    )
    loader = torch.utils.data.DataLoader(penstock.torch.Rows(own, 4), batch_size=None, num_workers=2)
    assert sorted(torch.cat(list(loader)).tolist()) == sorted(got.tolist())
    dist.barrier()
finally:
    dist.destroy_process_group()
print("passed")
