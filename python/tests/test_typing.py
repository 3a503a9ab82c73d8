"""The types that mypy infers for the package's results."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import penstock as ps
import pytest

pytest.importorskip("mypy")

CODE = """\
import numpy as np
import penstock as ps

a = ps.open_array("x.zarr")
reveal_type(a)
reveal_type(a[1:2])
reveal_type(a.read())
reveal_type(a.read(device="cpu"))
reveal_type(a.read(device="cuda:0"))
reveal_type(a.read(out=np.empty(3, np.float32)))
reveal_type(ps.encode("zstd", a[:]))
reveal_type(a.nchunks)
reveal_type(ps.open("x.tif"))
reveal_type(ps.open("x.tif", unpack=True))
"""
WANTED = [
    "penstock.core.array.Array",
    "numpy.ndarray[builtins.tuple[Any, ...], numpy.dtype[Any]]",
    "numpy.ndarray[builtins.tuple[Any, ...], numpy.dtype[Any]]",
    "numpy.ndarray[builtins.tuple[Any, ...], numpy.dtype[Any]]",
    "penstock.core.device.DeviceTensor",
    "numpy.ndarray[",
    "builtins.bytes",
    "builtins.int",
    "penstock.core.array.Array | penstock.core.group.Group",
    "penstock.geo.unpacked.UnpackedArray",
]


def test_mypy_infers_what_reads_return(tmp_path: Path):
    (tmp_path / "user.py").write_text(CODE)
    # With the settings and the cache of `make check`, because analysing NumPy's types alone takes 20 s.
    done = subprocess.run(
        [sys.executable, "-m", "mypy", str(tmp_path / "user.py")],
        capture_output=True,
        text=True,
        cwd=Path(ps.__file__).parents[2],
        env={"PATH": "/usr/bin"},
        timeout=300,
        check=False,
    )
    revealed = [line.split('"')[1] for line in done.stdout.splitlines() if "Revealed type is" in line]
    assert len(revealed) == len(WANTED), done.stdout + done.stderr
    for found, wanted in zip(revealed, WANTED, strict=True):
        assert found.replace("builtins.", "").startswith(wanted.replace("builtins.", "")), (found, wanted)
