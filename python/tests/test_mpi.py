"""Tiles over MPI ranks, with a real launcher on this machine."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import penstock as ps
import pytest

LAUNCHER = shutil.which("mpirun") or ""
if not LAUNCHER:
    pytest.skip("mpirun is not here (Debian: openmpi-bin)", allow_module_level=True)
pytest.importorskip("mpi4py")

PROGRAM = Path(__file__).parent / "programs" / "mpi_ranks.py"
CASES = re.findall(r"^def (\w+)\(comm", PROGRAM.read_text(), re.MULTILINE)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mpi")
    values = np.random.default_rng(5).integers(0, 1000, (23, 11)).astype("i4")
    np.save(folder / "values.npy", values)
    for name in ("a.zarr", "damaged.zarr"):
        ps.create_array(folder / name, shape=values.shape, dtype="i4", chunks=(1, 11), codecs=["crc32c"])[:] = values
    # The last row is in the last rank's tile, whatever their number.
    chunk = folder / "damaged.zarr" / "c" / "22" / "0"
    chunk.write_bytes(bytes([chunk.read_bytes()[0] ^ 1]) + chunk.read_bytes()[1:])
    ps.create_array(folder / "few.zarr", shape=(2, 3), dtype="f4", chunks=(1, 3))[:] = 1
    return folder


@pytest.mark.parametrize("ranks", [1, 2, 3, 5])
def test_every_rank_passes_every_case(ranks: int, folder: Path) -> None:
    command = [
        *(LAUNCHER, "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", str(ranks)),
        *("--mca", "btl", "self,vader", "--mca", "plm", "isolated"),
        *(sys.executable, str(PROGRAM), str(folder)),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    passed = re.findall(r"\[(\d+): (\w+)\]", done.stdout)
    assert sorted(passed) == sorted((str(rank), case) for rank in range(ranks) for case in CASES)
