"""The device reads Zarr arrays of version 2 as the host does; against the fake driver, not on a GPU.

These run in a separate process.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
from device_support import FakeCuda, cuda, fake_cuda_library

__all__ = ["cuda", "fake_cuda_library"]


@pytest.mark.parametrize("order", "CF")
@pytest.mark.parametrize("dtype", ["<i4", ">i4", ">u2", "<f8", ">f4", "|b1", "|u1"])
def test_zarr_v2_arrays_are_read_as_on_the_host(cuda: FakeCuda, tmp_path: Path, order: str, dtype: str) -> None:
    numcodecs, zarr = pytest.importorskip("numcodecs"), pytest.importorskip("zarr")
    kind = np.dtype(dtype)
    filters: list[Any] = [None, [numcodecs.Shuffle(kind.itemsize)]]
    if kind.kind in "iu":
        filters += [[numcodecs.Delta(dtype)], [numcodecs.Delta(dtype, "<i8")]]
    if kind.kind == "b":
        filters += [[numcodecs.PackBits()]]
    compressors = [None, numcodecs.Zlib(1), numcodecs.LZ4(), numcodecs.Blosc("zlib", 5, 1), numcodecs.Zstd(1)]
    values = np.random.default_rng(3).integers(0, 2 if kind.kind == "b" else 200, (23, 17)).astype(kind)
    for i, (some, compressor) in enumerate(itertools.product(filters, compressors)):
        path = str(tmp_path / f"{i}.zarr")
        made = zarr.create_array(
            path,
            shape=values.shape,
            dtype=kind,
            chunks=(7, 5),
            order=order,
            zarr_format=2,
            filters=some or (),
            compressors=compressor,
        )
        made[:20] = values[:20]
        opened = ps.open(path)
        selection = (np.s_[...], np.s_[::-2, 3:])[i % 2]  # both of each compressor: their number is odd
        found = opened.read(selection, device="cuda", check=True).numpy()
        np.testing.assert_array_equal(found, opened[selection], err_msg=f"{some} {compressor}")
