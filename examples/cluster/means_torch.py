"""The mean of each column of many shards. torchrun starts it for each device: see means_torch.sh."""

import os
import sys

import numpy as np
import penstock as ps
import penstock.torch
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard

kind = "cuda" if torch.cuda.is_available() else "cpu"
if kind == "cuda":
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
mesh = init_device_mesh(kind, (int(os.environ["WORLD_SIZE"]),))
run = ps.open_shards(sys.argv[1])
x = penstock.torch.load(run, mesh, [Shard(0)])  # a DTensor
means = x.sum(0).full_tensor().cpu().numpy() / run.shape[0]
if dist.get_rank() == 0:
    print("means:", *np.round(means, 6))
dist.destroy_process_group()
