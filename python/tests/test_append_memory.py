"""A stream of appends keeps at most two shards in memory, regardless of how many it writes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import penstock as ps
import pytest

MIB = 1 << 20
SHARD = 16 * MIB
SHARDS = 10

# The values are incompressible, so that encoded shards have their largest size. Ten shards are appended at once from
# existing memory, or in batches of rows that are smaller than a shard.
CODE = r"""
import json, re, sys
import numpy as np, penstock as ps
where, pieces = sys.argv[1], int(sys.argv[2])
context = ps.Context(threads=2)
shape = (64, 512, 128)
a = ps.create_array(
    where, shape=(0, *shape[1:]), chunks=(8, 64, 128), shards=shape, dtype="u4", codecs=["zstd"], context=context
)
rng = np.random.default_rng(0)
x = rng.integers(0, 2**32, (10 * 64, *shape[1:]), dtype="u4")
a.append(x[:64])  # the memory that a context keeps is allocated now
peak = lambda: int(re.search(r"VmHWM:\s+(\d+)", open("/proc/self/status").read())[1]) << 10
before = peak()
if pieces == 1:
    a.append(x)
else:
    with a.appender(queue=2 * 64 * 512 * 128 * 4) as rows:
        for at in range(0, len(x), pieces):
            rows.append(x[at : at + pieces])
print(json.dumps({"grown": peak() - before, "shape": a.shape, **context.usage()}))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/status")
@pytest.mark.parametrize("pieces", [1, 24])
def test_at_most_two_shards_are_in_memory(tmp_path: Path, pieces: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CODE, str(tmp_path / "x"), str(pieces)], capture_output=True, check=True, text=True
    )
    found = json.loads(done.stdout)
    assert found["shape"][0] == 64 * (SHARDS + 1)
    # In addition to the encoded shards, an appender has the rows of two shards: one is filled while the other is
    # written.
    limit = 2 * SHARD + (2 * SHARD if pieces != 1 else 0) + 8 * MIB
    assert found["grown"] < limit, f"{found['grown'] / MIB:.1f} MiB"
    # Address space is reserved for the largest encoded size of a cell, but only what is used of it is touched.
    assert SHARD < found["peak_encoded_bytes"] <= 4 * SHARD
    last = ps.open(tmp_path / "x")[-3:]
    wanted = np.random.default_rng(0).integers(0, 2**32, (10 * 64, 512, 128), dtype="u4")[-3:]
    np.testing.assert_array_equal(last, wanted)
