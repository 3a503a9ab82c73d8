"""One array, read or decoded a few times, in a separate process: for profilers, and for measuring effects of the
environment.

python -m bench.gpu.once ARRAY.zarr [--turns 3] [--nvcomp] [--resident]      # prints one line of JSON

`--resident`: the encoded chunks of one shard are on the device, and only its kernels run.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any


def read(path: Path, turns: int, nvcomp: bool) -> dict[str, Any]:
    """Seconds of the first read, with opening, and of the later ones."""
    import penstock as ps

    begin = time.perf_counter()
    array = ps.open(str(path), context=ps.Context(decoder="nvcomp" if nvcomp else None))
    seconds = []
    for _ in range(turns + 1):
        array.read(device="cuda").synchronize()
        seconds.append(time.perf_counter() - begin)
        begin = time.perf_counter()
    return {"first_s": seconds[0], "best_s": min(seconds[1:]), "nbytes": array.nbytes}


def decode(path: Path, turns: int, nvcomp: bool) -> dict[str, Any]:
    """Milliseconds of each kernel in the best turn."""
    from bench.gpu import arrays
    from bench.gpu.decoders import Wave

    document = json.loads((path / "zarr.json").read_text())
    (elements,) = document["chunk_grid"]["configuration"]["chunk_shape"]
    (chunk_elements,) = document["codecs"][0]["configuration"]["chunk_shape"]
    item_bytes = {"float32": 4, "int16": 2}[document["data_type"]]
    chunks = arrays.shard_chunks(path, elements // chunk_elements)
    wave = Wave(arrays.device_codecs(arrays.inner_codecs(path)), chunks, chunk_elements * item_bytes, nvcomp)
    best = wave.best(turns)
    return {"kernels_ms": best, "best_s": sum(best.values()) / 1e3, "nbytes": elements * item_bytes}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--nvcomp", action="store_true")
    parser.add_argument("--resident", action="store_true")
    options = parser.parse_args()
    run = decode if options.resident else read
    print(json.dumps(run(options.path, options.turns, options.nvcomp)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
