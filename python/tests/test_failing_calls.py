"""One system call of an operation fails: the operation succeeds or reports the error, and the object is the old or the
new one.

Every call in turn, of each kind, with each error: some 450 runs in one process (`tests/support/power/power_log.c`).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from power_cuts import run

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="fails system calls of Linux")

SCRIPT = r"""
import ctypes, errno, json, os, pathlib, shutil
import numpy as np
import penstock as ps

root = pathlib.Path(os.environ["POWER_ROOT"])
shim = ctypes.CDLL(os.environ["LD_PRELOAD"])
shim.power_calls.restype = ctypes.c_long
NAME = str(root / "a")


def array(**options):
    zeros = np.zeros((12, 64), "i4")
    return ps.create_array(NAME, shape=(12, 64), dtype="i4", codecs=["bytes"], data=zeros, **options)


def values():
    return ps.open(NAME)[...].tolist()


def fill(a, value):
    a[...] = np.full(a.shape, value, "i4")


def of_chunks():  # each chunk is old or new
    all = np.asarray(values())
    assert all.shape == (12, 64)
    for row in range(0, 12, 2):
        if np.ptp(all[row:row + 2]) != 0:
            raise ValueError(f"the chunk of row {row} is neither old nor new")
    return sorted(set(all.ravel().tolist()))


def shards():
    return sorted({int(v) for path in root.glob("s_*.npy") for v in np.load(path).ravel()[[0, -1]]})


def archive():
    try:
        return ps.open(NAME + ".zip", "a")[...].tolist()
    except ps.NotFoundError:
        return None


def append():
    ps.open(NAME, mode="r+").append(np.ones((5, 64), "i4"))


def consolidate():
    ps.consolidate_metadata(str(root))


def make_group():
    ps.create_array(ps.create_group(str(root), attributes={"v": 0}), "a", shape=(4,), dtype="i4")


def write_shards(value):
    with ps.ShardWriter(str(root / "s_{}.npy")) as writer:
        for _ in range(2):
            writer.write(np.full((4, 64), value, "i4"))


def write_zip(value):
    ps.create_array(NAME + ".zip", "a", shape=(4, 64), dtype="i4", data=np.full((4, 64), value, "i4"), overwrite=True)


def overwrite_zip():
    ps.open(NAME + ".zip", "a", mode="r+")[...] = np.full((4, 64), 2, "i4")


def clear_second_of_two():  # leaves room between the entries and the directory, where the next directory is written
    ones = np.ones((8, 64), "i4")
    ps.create_array(NAME + ".zip", "a", shape=(8, 64), dtype="i4", chunks=(4, 64), codecs=["bytes"], data=ones)
    ps.open(NAME + ".zip", "a", mode="r+")[4:] = 0


def clear_first():
    ps.open(NAME + ".zip", "a", mode="r+")[:4] = 0


# name: (before, what may fail, the state that is looked at, states of parts may be mixed)
OPERATIONS = {
    "chunks": (lambda: array(chunks=(2, 64)), lambda: fill(ps.open(NAME, mode="r+"), 1), of_chunks, True),
    "new chunks": (lambda: ps.create_array(NAME, shape=(12, 64), dtype="i4", chunks=(2, 64), codecs=["bytes"]),
                   lambda: fill(ps.open(NAME, mode="r+"), 1), of_chunks, True),
    "shard": (lambda: array(chunks=(2, 64), shards=(12, 64)),
              lambda: ps.open(NAME, mode="r+").__setitem__(np.s_[2:4], np.ones((2, 64), "i4")), values, False),
    "append": (lambda: array(chunks=(5, 64)), append, values, False),
    "create": (lambda: None, lambda: ps.create_array(NAME, shape=(4,), dtype="i4", attributes={"v": 1}),
               lambda: dict(ps.open(NAME).attrs) if os.path.exists(NAME + "/zarr.json") else None, False),
    "attributes": (make_group, lambda: ps.open(NAME, mode="r+").attrs.update(v=1),
                   lambda: dict(ps.open(NAME).attrs), False),
    "consolidate": (make_group, consolidate, lambda: ps.open(str(root)).consolidated, False),
    "shards": (lambda: write_shards(1), lambda: write_shards(2), shards, True),
    "new zip": (lambda: None, lambda: write_zip(1), archive, True),
    "zip": (lambda: write_zip(1), overwrite_zip, archive, False),
    "zip that is cut": (clear_second_of_two, clear_first, archive, False),
}
CALLS = ("write", "fsync", "rename", "open", "mkdir", "truncate")
ERRORS = {"EIO": errno.EIO, "ENOSPC": errno.ENOSPC, "EINTR": errno.EINTR, "short": 0}
wrong, runs, failed = [], 0, 0


def clear():
    for each in root.iterdir():
        shutil.rmtree(each) if each.is_dir() else each.unlink()


for name, (before, act, look, mixed) in OPERATIONS.items():
    clear(); before(); old = look()
    act(); new = look()
    for call in CALLS:
        for kind, code in ERRORS.items():
            if kind == "short" and call != "write" or kind == "EINTR" and call not in ("write", "fsync", "open"):
                continue
            for n in range(1, 200):
                shim.power_fail(b"none", 0, 0)
                clear(); before()
                shim.power_fail(call.encode(), n, code)
                reported = None
                try:
                    act()
                except ps.Error as failure:
                    reported = str(failure)  # not the frames, which hold the store
                reached = shim.power_calls() >= n
                shim.power_fail(b"none", 0, 0)
                if not reached:
                    break
                runs += 1
                failed += reported is not None
                where = f"{name}, {call} {n}, {kind}"
                try:
                    now = look()
                except Exception as failure:
                    wrong.append(f"{where}: {type(failure).__name__}: {failure}")
                    continue
                whole = now == new if reported is None else now in (old, new)
                if not whole and not (mixed and reported is not None):
                    wrong.append(f"{where}: {'reported' if reported else 'silent'}, neither old nor new")
                stray = [p.name for p in root.rglob("*") if "tmp" in p.name or p.name.endswith((".part", ".old"))]
                if stray:
                    wrong.append(f"{where}: left {stray}")
print(json.dumps({"wrong": wrong, "runs": runs, "failed": failed}))
"""


def test_a_call_that_fails_leaves_the_old_or_the_new_object(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    found = json.loads(run(SCRIPT, root).splitlines()[-1])
    assert found["runs"] > 300, found
    assert found["failed"] > 200, found
    assert not found["wrong"], f"{len(found['wrong'])} of {found['runs']}: {found['wrong'][:10]}"
