"""Arrays as PyTorch's data sets.

`Loader` is `penstock.loader` for PyTorch. `Batches` reads whole batches ahead and splits the samples among ranks and
workers; `Crops` leaves the choice to PyTorch's samplers; `Rows` gives each rank and worker consecutive rows, so that
few of them open each file. All pickle with the arrays' URIs, so that workers may be started by any method. `load`
returns a `DTensor`, of which each rank reads its own part.

Examples
--------
>>> import torch, penstock.torch
>>> ps.save("run.zarr", np.ones((100, 20), "f4"))
>>> a = ps.open("run.zarr")
>>> for x in torch.utils.data.DataLoader(penstock.torch.Rows(a, 32), batch_size=None):
...     shape = x.shape
>>> shape
torch.Size([4, 20])
"""

from penstock.interop.torch import Batches, Crops, Loader, Rows, as_tensor, load
from penstock.interop.torch import local_part as local_part

__all__ = ["Batches", "Crops", "Loader", "Rows", "as_tensor", "load"]
