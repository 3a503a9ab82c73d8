"""Arrays for HDF5 files, and the comparison with h5py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import penstock
import pytest

h5py = pytest.importorskip("h5py")


def numbered(number: int, shape: tuple[int, ...] = (24, 18), dtype: Any = "<i4") -> np.ndarray:
    return (np.arange(np.prod(shape)).reshape(shape) + 1000 * (number + 1)).astype(dtype)


def reads_as_h5py(path: Path, name: str = "v") -> penstock.Array:
    """Assert that the dataset has the values that h5py reads, as a whole and in parts."""
    with h5py.File(path) as file:
        expected = file[name][...]
    a = penstock.open(path, name)
    assert isinstance(a, penstock.Array)
    assert a.shape == expected.shape
    np.testing.assert_array_equal(a[...], expected)
    random = np.random.default_rng(5)
    for _ in range(8):
        where = []
        for length in expected.shape:
            first, last = sorted(random.integers(0, length + 1, 2))
            where.append(slice(first, last, int(random.integers(1, 4))))
        np.testing.assert_array_equal(a[tuple(where)], expected[tuple(where)])
    if expected.size:
        points = tuple(random.integers(0, length, 20) for length in expected.shape)
        if points:
            np.testing.assert_array_equal(a.vindex[points], expected[points])
            rows = random.integers(0, expected.shape[0], 5)
            np.testing.assert_array_equal(a.oindex[rows], expected[rows])
    return a
