"""Copies that the ranks of MPI share: `mpi_copies.py all|killed SOURCE FOLDER`."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import penstock.mpi
import pytest
from mpi4py import MPI

sys.path.insert(0, str(Path(__file__).parents[1]))


def every_kind(of: Path, folder: Path) -> None:
    from test_shared_copies import WORK

    for which, (name, chunks, options) in WORK.items():
        made = getattr(penstock.mpi, name)(of, folder / f"{which}.zarr", chunks=chunks, **options)
        assert isinstance(made, ps.Group)
    with pytest.raises(ps.InvalidArgumentError, match="already exists"):
        penstock.mpi.convert(of, folder / "direct.zarr")


def killed(folder: Path) -> None:
    """A rank dies when it reads the third shard, in the first run only."""
    mark = folder / "killed"

    def rows_of(path: str) -> tuple[int, tuple[int, ...], str]:
        found = np.load(path, mmap_mode="r")
        return found.shape[0], found.shape[1:], found.dtype.str

    def read_rows(path: str, low: int, high: int) -> Any:
        if path.endswith("p_2.npy") and not resumes:
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return np.load(path, mmap_mode="r")[low:high]

    resumes = MPI.COMM_WORLD.bcast(mark.exists(), root=0)
    of = ps.open_shards(str(folder / "p_*.npy"), metadata=rows_of, reader=read_rows)
    penstock.mpi.rechunk(of, folder / "t.zarr", (37, 7, 9), memory="256KiB", threads=1, resume=resumes)


if sys.argv[1] == "all":
    every_kind(Path(sys.argv[2]), Path(sys.argv[3]))
else:
    killed(Path(sys.argv[3]))
