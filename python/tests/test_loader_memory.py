"""A warm `penstock.loader` makes no large allocation, and few small ones: its memory, and that of its batches, is used
again.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "tests/support/allocations/large_allocations.c"
PROGRAM = """
import ctypes, os, sys
import numpy as np
import penstock as ps

counter = ctypes.CDLL(os.environ["LD_PRELOAD"])
counter.large_allocations_begin.argtypes = [ctypes.c_size_t]
counter.large_allocations_end.restype = ctypes.c_long
case, folder = sys.argv[1:]
images = np.random.default_rng(0).integers(0, 1000, (64, 2, 128, 128)).astype("u2")
labels = (images[:, 0] > 500).astype("u1")
with ps.Context(threads=2):
    x = ps.create_array(folder + "/x", data=images, chunks=(2, 2, 64, 64), dimension_names="tcyx", codecs=["zstd"])
    y = ps.create_array(folder + "/y", data=labels, chunks=(4, 32, 64), dimension_names="tyx", codecs=["gzip"])
crop = {"t": None, "y": 48, "x": 48}
# The window holds a third of the chunks: they are read all the time, and their memory is used again.
how = {"batch_size": 32, "window": 1 << 20, "stride": {"y": 40, "x": 40}}
if case == "one array":
    batches = ps.loader(x, crop, **how)
elif case == "scaled":
    batches = ps.loader(x, crop, dtype="f4", scale=1e-3, **how)
else:
    batches = ps.loader({"image": x, "label": y}, crop, dtype={"image": "f4"}, mask=True, **how)

def epoch(counts):
    total = 0.0
    for number, batch in enumerate(batches):
        if counts is not None and number == 2:
            counter.large_allocations_begin(16 << 10)
        if counts is not None and number == 14:
            counts.append(counter.large_allocations_end())
        batch = batch[0] if isinstance(batch, tuple) else batch
        for each in batch.values() if isinstance(batch, dict) else [batch]:
            total += float(np.from_dlpack(each).reshape(-1)[0])
    assert number >= 15, number
    return total

for _ in range(3):
    epoch(None)
read = batches.counts()["chunks_read"]
found = []
while len(found) < 4 and 0 not in found:  # on a busy machine more reads than before may be interrupted at a time
    epoch(found)
print(min(found))
assert batches.counts()["chunks_read"] > read / 2 > 50
"""

SMALL = """
import ctypes, os, sys
import numpy as np
import penstock as ps

counter = ctypes.CDLL(os.environ["LD_PRELOAD"])
counter.large_allocations_begin.argtypes = [ctypes.c_size_t]
counter.large_allocations_end.restype = ctypes.c_long
values = np.random.default_rng(0).integers(0, 1000, (512, 32, 32)).astype("f4")
with ps.Context(threads=2):
    x = ps.create_array(sys.argv[1] + "/x", data=values, chunks=(4, 32, 32), codecs=["zstd"])
batches = ps.loader(x, batch_size=32, window=32 * 4 * values[0].nbytes)

def epoch():
    for number, _ in enumerate(batches):
        if number == 2:
            begun = batches.counts()["chunks_read"]
            counter.large_allocations_begin(1)
        if number == 14:
            return counter.large_allocations_end() / (batches.counts()["chunks_read"] - begun)

for _ in range(3):
    list(batches)
print(min(epoch() for _ in range(4)))
"""


@pytest.fixture(scope="module")
def counter(tmp_path_factory: pytest.TempPathFactory) -> str:
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if not sys.platform.startswith("linux") or compiler is None:
        pytest.skip("counting allocations needs Linux and a C compiler")
    out = str(tmp_path_factory.mktemp("counter") / "large_allocations.so")
    subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-o", out, str(SOURCE), "-ldl"], check=True)
    return out


@pytest.mark.parametrize("case", ["one array", "scaled", "image, label and mask"])
def test_twelve_warm_batches_make_no_large_allocation(case: str, counter: str, tmp_path: Path) -> None:
    env = {**os.environ, "LD_PRELOAD": counter, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", PROGRAM, case, str(tmp_path)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == 0


def test_a_warm_chunk_makes_few_allocations_of_any_size(counter: str, tmp_path: Path) -> None:
    env = {**os.environ, "LD_PRELOAD": counter, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", SMALL, str(tmp_path)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 12
