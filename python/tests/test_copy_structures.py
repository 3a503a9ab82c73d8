"""Structures of HDF5 as copies store them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest

h5py = pytest.importorskip("h5py")

PADDED = np.dtype([("a", "i1"), ("b", "f8"), ("c", "i2")], align=True)
NESTED = np.dtype([("n", PADDED), ("d", "u1")], align=True)


@pytest.mark.parametrize("dtype", [PADDED, NESTED])
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_structures_with_gaps_are_copied_without_them(tmp_path: Path, dtype: np.dtype[Any], zarr_format: int) -> None:
    values = np.zeros((40, 3), dtype)
    inner = values["n"] if dtype is NESTED else values
    inner["a"] = np.arange(120).reshape(40, 3) % 100
    inner["b"] = np.random.default_rng(0).random((40, 3))
    inner["c"] = -np.arange(120).reshape(40, 3)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("v", data=values, chunks=(7, 3), fillvalue=values[3, 1])
    copied = ps.copy(tmp_path / "x.h5", tmp_path / "x.zarr", zarr_format=zarr_format, chunks=(8, 2), verify=True)["v"]
    found = copied[...]
    assert copied.dtype.itemsize == {PADDED: 11, NESTED: 12}[dtype]
    assert found.dtype.names == dtype.names
    np.testing.assert_array_equal(found.astype(dtype), values)
    np.testing.assert_array_equal(np.asarray(copied.fill_value).astype(dtype), values[3, 1])
    zarr = pytest.importorskip("zarr")
    np.testing.assert_array_equal(zarr.open_array(tmp_path / "x.zarr" / "v")[...].astype(dtype), values)
