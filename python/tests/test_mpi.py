"""Tiles over MPI ranks, with a real launcher on one machine."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import penstock as ps
import pytest
from device_support import LIBRARY

LAUNCHER = shutil.which("mpirun") or ""
if not LAUNCHER:
    pytest.skip("mpirun is not here (Debian: openmpi-bin)", allow_module_level=True)
pytest.importorskip("mpi4py")

NEEDS = {"h5": "h5py", "parquet": "pyarrow"}
PROGRAM = Path(__file__).parent / "programs" / "mpi_ranks.py"
ON_DEVICES = "gpus_of_their_own"
CASES = [each for each in re.findall(r"^def (\w+)\(comm", PROGRAM.read_text(), re.MULTILINE) if each != ON_DEVICES]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mpi")
    values = np.random.default_rng(5).integers(0, 1000, (23, 11)).astype("i4")
    np.save(folder / "values.npy", values)
    for name in ("a.zarr", "damaged.zarr"):
        ps.create_array(folder / name, shape=values.shape, dtype="i4", chunks=(1, 11), codecs=["crc32c"])[:] = values
    # The last row is in the last rank's tile for any number of ranks.
    chunk = folder / "damaged.zarr" / "c" / "22" / "0"
    chunk.write_bytes(bytes([chunk.read_bytes()[0] ^ 1]) + chunk.read_bytes()[1:])
    ps.create_array(folder / "few.zarr", shape=(2, 3), dtype="f4", chunks=(1, 3))[:] = 1
    ps.save_shards(values, folder / "part_{}.npy", rows=6)
    (folder / "lacking").mkdir()
    for number in range(3):
        os.link(folder / f"part_{number}.npy", folder / "lacking" / f"part_{number}.npy")
    for suffix in (
        "raw",
        "zarr",
        "npz",
        *(each for each in ("h5", "parquet") if importlib.util.find_spec(NEEDS[each])),
    ):
        ps.save_shards(values, folder / f"part_{{}}.{suffix}", shards=3)
    return folder


def run(ranks: int, folder: Path, environment: dict[str, str]) -> list[tuple[str, str]]:
    command = [
        *(LAUNCHER, "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", str(ranks)),
        *("--mca", "btl", "self,vader", "--mca", "plm", "isolated"),
        *(sys.executable, str(PROGRAM), str(folder)),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=os.environ | environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return sorted(re.findall(r"\[(\d+): (\w+)\]", done.stdout))


@pytest.mark.parametrize("ranks", [1, 2, 3, 5])
def test_every_rank_passes_every_case(ranks: int, folder: Path) -> None:
    assert run(ranks, folder, {}) == sorted((str(rank), case) for rank in range(ranks) for case in CASES)


def test_ranks_have_gpus_of_their_own(folder: Path) -> None:
    if not LIBRARY.exists():
        pytest.skip(f"the fake CUDA driver is not built: {LIBRARY}")
    passed = run(3, folder, {"PENSTOCK_CUDA_DRIVER": str(LIBRARY)})
    assert passed == [(str(rank), ON_DEVICES) for rank in range(3)]
