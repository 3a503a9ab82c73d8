"""Makes the demo's real data set: matplotlib's elevation sample as a sharded Zarr v3 array, written by zarr-python.

Run by hand when the data set should change; its result is in the repository.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import shutil
from pathlib import Path

import matplotlib
import numpy as np
import zarr
from zarr.codecs import BloscCodec, Crc32cCodec

TARGET = (
    Path(__file__).resolve().parent.parent
    / "python"
    / "penstock"
    / "view"
    / "demo"
    / "data"
    / "jacksboro_fault_dem.zarr"
)
SOURCE = Path(matplotlib.get_data_path()) / "sample_data" / "jacksboro_fault_dem.npz"


def main() -> None:
    with np.load(SOURCE) as source:
        heights = source["elevation"]
        corner = {name: float(source[name]) for name in ("xmin", "xmax", "ymin", "ymax")}
    shutil.rmtree(TARGET, ignore_errors=True)
    array = zarr.create_array(
        store=str(TARGET),
        shape=heights.shape,
        chunks=(48, 64),
        shards=(192, 256),
        dtype=heights.dtype,
        compressors=[BloscCodec(cname="zstd", clevel=9, shuffle="bitshuffle", typesize=2), Crc32cCodec()],
        fill_value=-9999,
        dimension_names=("latitude", "longitude"),
        attributes={
            "title": "Elevation at the Jacksboro fault",
            "units": "m",
            "source": f"matplotlib {matplotlib.__version__}, sample_data/{SOURCE.name}",
            "source_sha256": hashlib.sha256(SOURCE.read_bytes()).hexdigest(),
            "license": "matplotlib licence, see LICENSE.matplotlib next to this array",
            # The file's ymin is the northern edge: its rows run south.
            "west": corner["xmin"],
            "east": corner["xmax"],
            "north": max(corner["ymin"], corner["ymax"]),
            "south": min(corner["ymin"], corner["ymax"]),
        },
    )
    array[...] = heights
    licence = [file for file in importlib.metadata.files("matplotlib") or () if file.name == "LICENSE"]
    shutil.copyfile(str(licence[0].locate()), TARGET.parent / "LICENSE.matplotlib")
    total = sum(file.stat().st_size for file in TARGET.rglob("*") if file.is_file())
    print(f"{TARGET}: {total} bytes for {heights.nbytes}")


if __name__ == "__main__":
    main()
