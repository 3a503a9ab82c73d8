"""The cases that loaders of sharded arrays must support: one array from many files, and separate rows for each
processor.

`docs/guide/shards.md` covers the other cases: one `.npy` file, one HDF5 file, and kernels.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
from penstock.core.tiles import tiles

PROCESSORS = [1, 3, 4, 7, 16, 1000]


def check(array: ps.Array, values: np.ndarray, processors: int, over_decompose: int) -> None:
    """Assert that every processor has exactly its rows, and that no launch is empty."""
    cut = tiles(array.shape, processors, over_decompose=over_decompose)
    assert 1 <= len(cut) <= processors * over_decompose
    assert len({part[0].stop - part[0].start for part in cut[:-1]}) <= 1, "the last one alone is short"
    out = np.full_like(values, 99)
    for part in cut:
        assert part[0].stop > part[0].start
        array.read(part, out=out[part])
    np.testing.assert_array_equal(out, values)


def uniform(folder: Path) -> tuple[ps.Array, np.ndarray]:
    """Eight `.npy` shards of 1,000 rows and 8 columns."""
    values = np.arange(64_000, dtype="f4").reshape(-1, 8)
    for number, part in enumerate(np.split(values, 8)):
        np.save(folder / f"shard_{number:04d}.npy", part)
    return ps.open_shards(str(folder)), values


def unequal(folder: Path) -> tuple[ps.Array, np.ndarray]:
    """Shards of unequal lengths, some without rows."""
    values = np.arange(3000, dtype="f8").reshape(-1, 3, 2)
    for number, part in enumerate(np.split(values, [7, 7, 208, 209, 400, 480])):
        np.save(folder / f"shard_{number:04d}.npy", part)
    return ps.open_shards(str(folder / "shard_*.npy")), values


def raw(folder: Path) -> tuple[ps.Array, np.ndarray]:
    """Raw binary shards, described by a sidecar file."""
    values = np.arange(5000, dtype="<i2").reshape(-1, 4)
    for number, part in enumerate(np.split(values, [100, 101, 900])):
        (folder / f"part_{number}.bin").write_bytes(part.tobytes())
    (folder / "_meta.json").write_text(json.dumps({"dtype": "<i2", "trailing_shape": [4]}))
    return ps.open_shards(str(folder / "part_*.bin")), values


def stores(folder: Path) -> tuple[ps.Array, np.ndarray]:
    """Sixteen Zarr stores."""
    values = np.arange(1600, dtype="f4").reshape(-1, 5)
    for number, part in enumerate(np.split(values, 16)):
        made = ps.create_array(folder / f"run_{number}.zarr", shape=part.shape, dtype="f4", chunks=(6, 5))
        made[:] = part
    return ps.open_shards(str(folder / "run_*.zarr")), values


@pytest.mark.parametrize("case", [uniform, unequal, raw, stores])
@pytest.mark.parametrize("over_decompose", [1, 3])
def test_every_processor_has_its_rows(tmp_path: Path, case: Any, over_decompose: int) -> None:
    array, values = case(tmp_path)
    for processors in PROCESSORS:
        check(array, values, processors, over_decompose)


def test_tiles_of_whole_files_equal_other_tiles(tmp_path: Path) -> None:
    array, values = uniform(tmp_path)
    cut = tiles(array.shape, 8)
    for number, part in enumerate(cut):
        alone = ps.open(tmp_path / f"shard_{number:04d}.npy")
        np.testing.assert_array_equal(array[part], alone[...])
        np.testing.assert_array_equal(alone[...], values[part])
    assert len(array.plan(cut[3]).split("fetch '")) == 2, "one file, and no other"


def test_the_guide_names_jobs_of_other_libraries() -> None:
    page = (Path(__file__).parents[2] / "docs" / "guide" / "shards.md").read_text()
    for words in ("cupynumeric.load", "legate.io.hdf5.from_file", "not a loader's job"):
        assert words in page
