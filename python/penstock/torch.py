"""Arrays as PyTorch's data sets.

    from penstock.torch import Batches, Crops, Loader

    loader = Loader(images, crop={"y": 64, "x": 64}, batch_size=16)     # shuffled, each chunk decoded once an epoch

    loader = torch.utils.data.DataLoader(Batches(a, samples, batch_size=8), batch_size=None, num_workers=2)
    loader = torch.utils.data.DataLoader(Crops(a, samples), batch_size=8, shuffle=True)

    loader = torch.utils.data.DataLoader(Rows(ps.open_shards("run/shard_*.npy"), 256), batch_size=None, num_workers=2)
    x = penstock.torch.load("run.zarr", mesh, [Shard(0)])

`Loader` is `penstock.loader` for PyTorch. `Batches` reads whole batches ahead and splits the samples among ranks and
workers; `Crops` leaves the choice to PyTorch's samplers; `Rows` gives each rank and worker consecutive rows, so that
few of them open each file. All pickle with the arrays' URIs, so that workers may be started by any method. `load`
returns a `DTensor`, of which each rank reads its own part.
"""

from penstock.interop.torch import Batches, Crops, Loader, Rows, as_tensor, load
from penstock.interop.torch import local_part as local_part

__all__ = ["Batches", "Crops", "Loader", "Rows", "as_tensor", "load"]
