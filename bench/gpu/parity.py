"""The device gives the host's bytes: codecs, kinds of content, layouts and selections. Run under compute-sanitizer too.

python -m bench.gpu.parity [FOLDER]      # prints how many reads were compared
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps


class DifferenceError(AssertionError):
    """The device gave other bytes than the host."""


def blosc(cname: str, shuffle: str) -> dict[str, Any]:
    settings = {"cname": cname, "clevel": 5, "shuffle": shuffle, "typesize": 4, "blocksize": 0}
    return {"name": "blosc", "configuration": settings}


CODECS: list[Any] = [
    [],
    ["zstd"],
    [{"name": "zstd", "configuration": {"level": 9, "checksum": True}}],
    ["gzip"],
    ["numcodecs.zlib"],
    ["numcodecs.lz4"],
    [blosc("zstd", "shuffle")],
    [blosc("lz4", "bitshuffle")],
    [blosc("blosclz", "shuffle")],
    ["zstd", "crc32c"],
]
SELECTIONS = (np.s_[...], np.s_[::3, 5:90:7], np.s_[::-1, 13], np.s_[170:, :])


def contents() -> dict[str, np.ndarray]:
    random = np.random.default_rng(7)
    size = 180 * 150
    return {
        "ramp": np.arange(size, dtype="f4"),
        "walk": random.standard_normal(size).cumsum().astype("f4"),
        "noise": (1000 * random.standard_normal(size)).astype(">i2"),
        "steps": np.repeat(random.integers(0, 9, size // 50), 50).astype("u1"),
    }


def compare(folder: Path, context: ps.Context | None = None) -> int:
    """Reads everything both ways. Returns the number of comparisons; raises DifferenceError at the first difference."""
    compared = 0
    for number, codecs in enumerate(CODECS):
        for name, values in contents().items():
            expected = values.reshape(180, 150)
            uri = str(folder / f"{number}-{name}.zarr")
            made = ps.create_array(
                uri,
                shape=expected.shape,
                dtype=values.dtype,
                chunks=(17, 31),
                shards=(51, 124),
                codecs=codecs,
                fill_value=3,
            )
            made[:170] = expected[:170]
            opened = ps.open(uri, context=context) if context else ps.open(uri)
            for selection in SELECTIONS:
                device = opened.read(selection, device="cuda", check=True).numpy()
                host = np.ascontiguousarray(made[selection])
                if device.tobytes() != host.tobytes():
                    raise DifferenceError(f"{codecs} {name} {selection}")
                compared += 1
    return compared


def main() -> int:
    if len(sys.argv) > 1:
        print(f"{compare(Path(sys.argv[1]))} reads compared")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        print(f"{compare(Path(folder))} reads compared")
    return 0


if __name__ == "__main__":
    sys.exit(main())
