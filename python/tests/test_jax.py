"""Arrays over eight JAX devices, which are simulated on the CPU."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import penstock as ps
import pytest

pytest.importorskip("jax")

PROGRAM = Path(__file__).parent / "programs" / "jax_devices.py"


def test_every_device_has_its_part(tmp_path: Path) -> None:
    # In a separate process: the number of devices is set before JAX is imported, and forking with JAX's threads is
    # unsafe.
    values = np.arange(24 * 16, dtype="f4").reshape(24, 16)
    ps.create_array(tmp_path / "a.zarr", shape=values.shape, dtype="f4", chunks=(5, 7))[:] = values
    ps.save_shards(values, tmp_path / "part_{}.npy", rows=7)
    ps.create_array(tmp_path / "wide.zarr", shape=(8,), dtype="f8", chunks=(3,))[:] = np.arange(8) + 0.5
    ps.create_array(tmp_path / "text.zarr", shape=(8,), dtype="string", chunks=(3,))
    done = subprocess.run([sys.executable, str(PROGRAM), str(tmp_path)], capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[-1] == "passed"
