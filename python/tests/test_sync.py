"""`Context(sync=)` reaches every way to files of this machine: the system calls of a program are recorded."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from conftest import matrix
from power_cuts import RENAME, SYNC_ALL, SYNC_FILE, read_log, run

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="records system calls of Linux")

PRELUDE = """
import os
import numpy as np
import penstock as ps
folder = os.path.join(os.environ["POWER_ROOT"], "data")
os.makedirs(folder)
def fill(where):
    ps.create_array(where, path="a.zarr", data=np.arange(40, dtype="i4"), chunks=(10,))
"""

ARRAYS = {
    "plug-in": """
import zarr
ps.zarr.enable(strict=True)
b = zarr.create_array(folder, name="a.zarr", shape=(40,), chunks=(10,), dtype="i4")
""",
    "wrap": """
import zarr
b = ps.zarr.wrap(zarr.create_array(folder, name="a.zarr", shape=(40,), chunks=(10,), dtype="i4"))
""",
}
WRITE = "b[:] = np.arange(40)\n"

WAYS = {
    "path": (None, "fill(folder)"),
    "fsspec's mapper": ("fsspec", "fill(__import__('fsspec').get_mapper(folder))"),
    "obstore": ("obstore", "from obstore.store import LocalStore; fill(LocalStore(folder))"),
    "zarr-python's store": ("zarr", "from zarr.storage import LocalStore; fill(LocalStore(folder))"),
    "plug-in": ("zarr", ARRAYS["plug-in"] + WRITE),
    "wrap": ("zarr", ARRAYS["wrap"] + WRITE),
}


def changes(script: str, tmp_path: Path) -> tuple[int, int]:
    """Objects that got their names by a rename, and syncs, of the chunks that a program wrote."""
    root = tmp_path / "root"
    root.mkdir()
    run(PRELUDE + script, root, log=tmp_path / "log")
    operations = read_log(tmp_path / "log")
    renamed = sum(op.what == RENAME and "/c/" in op.second for op in operations)
    return renamed, sum(op.what in (SYNC_FILE, SYNC_ALL) for op in operations)


@matrix
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("sync", [None, "none", "objects"])
def test_writes_wait_for_the_device_as_the_context_says(way: str, sync: str | None, tmp_path: Path) -> None:
    needs, script = WAYS[way]
    if needs is not None:
        pytest.importorskip(needs)
    # zarr-python's own store does not wait, so writes through it wait only if that is requested.
    is_of_zarr = needs == "zarr"
    waits = sync == "objects" or (sync is None and not is_of_zarr)
    renamed, syncs = changes(f"ps.Context(sync={sync!r}).__enter__()\n{script}", tmp_path)
    assert renamed == 4
    assert (syncs >= 4) == waits, syncs
    assert waits or syncs == 0


@pytest.mark.parametrize("way", ARRAYS)
def test_an_array_of_zarr_python_follows_the_current_context(way: str, tmp_path: Path) -> None:
    pytest.importorskip("zarr")
    again = "with ps.Context(sync='objects'):\n    b[:] = np.arange(1, 41)\n"
    renamed, syncs = changes(ARRAYS[way] + WRITE + again, tmp_path)
    assert renamed == 8
    assert syncs >= 4
