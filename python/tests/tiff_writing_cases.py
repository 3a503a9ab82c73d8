"""Shared by the tests of written TIFFs: values, expected overviews, and the promises of COGs."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

DTYPES = ["u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8", "c8", "c16"]
COMPRESSIONS = ["none", "packbits", "lzw", "deflate", "zstd", "lzma"]
LEVELS = {"lzma": 0}  # the usual level takes 94 MiB for each tile
UTM = (10.0, 0.0, 500000.0, 0.0, -10.0, 4000000.0)


def picture(dtype: str, shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    """Smooth values with some noise, over most of the type's range."""
    random = np.random.default_rng(seed)
    steps = random.integers(-3, 4, shape).cumsum(-1).cumsum(-2)
    kind = np.dtype(dtype).kind
    if kind in "iu":
        return (steps * 41).astype(dtype)
    if kind == "c":
        return (steps * 0.37 + 1j * steps[..., ::-1] * 1.5).astype(dtype)
    return (steps / 7).astype(dtype)


def halved(values: np.ndarray, nodata: float | None = None) -> np.ndarray:
    """The mean of each four pixels of (band, y, x), without nodata and NaN; integers are rounded, halves up."""
    padded = np.pad(values, [(0, 0), (0, values.shape[1] % 2), (0, values.shape[2] % 2)], mode="edge")
    four = np.stack([padded[:, y::2, x::2] for y in (0, 1) for x in (0, 1)])
    exact = four.astype(object if values.dtype.kind in "iu" else np.complex128 if values.dtype.kind == "c" else float)
    there = np.ones(four.shape, bool) if values.dtype.kind in "iu" else ~np.isnan(four)
    if nodata is not None:
        there &= four != nodata
    count = there.sum(0)
    total = np.where(there, exact, 0).sum(0)
    some = np.maximum(count, 1)
    mean = (2 * total + some) // (2 * some) if values.dtype.kind in "iu" else total / some
    out = np.where(count > 0, mean, nodata if nodata is not None else four[0]).astype(values.dtype)
    first = np.take_along_axis(four, there.argmax(0)[None], 0)[0]
    if nodata is not None:
        out = np.where((count > 0) & (out == nodata), first, out)
    return out


def predictors(dtype: str, compress: str) -> list[Any]:
    if compress in ("none", "packbits"):
        return ["auto"]
    kind = np.dtype(dtype).kind
    return [1] if kind == "c" else [1, 2] if kind in "iu" else [1, 2, 3]


def check_cog(path: Path) -> None:
    cogeo = pytest.importorskip("rio_cogeo")
    valid, errors, warnings = cogeo.cog_validate(path, strict=True, quiet=True)
    assert (valid, errors, warnings) == (True, [], [])


def check_layout(path: Path, bands_apart: bool) -> None:
    """Assert that the promises at the start of the file are kept for every tile, read by tifffile."""
    tifffile = pytest.importorskip("tifffile")
    data = path.read_bytes()
    with tifffile.TiffFile(path) as file:
        header = 16 if file.is_bigtiff else 8
        size = int(data[header + 30 : header + 36])
        text = data[header + 43 : header + 43 + size].decode()
        assert text.endswith("KNOWN_INCOMPATIBLE_EDITION=NO\n ")
        assert ("INTERLEAVE=BAND\n" in text) == bands_apart
        pages = list(file.pages)
        first = header + 43 + size
        assert pages[0].offset == first + first % 2
        offsets = [page.offset for page in pages]
        assert offsets == sorted(offsets)
        end = max(offsets)
        for page in reversed(pages):
            for offset, count in zip(page.dataoffsets, page.databytecounts, strict=True):
                if count == 0:
                    assert offset == 0
                    continue
                assert offset - 4 >= end, "tiles follow one another, those of the smallest overview first"
                assert int.from_bytes(data[offset - 4 : offset], "little") == count
                assert data[offset + count : offset + count + 4] == data[offset + count - 4 : offset + count]
                end = offset + count + 4
        assert end == len(data)


def check_gdal_finds_a_cog(path: Path) -> None:
    """Run GDAL's own validator, which checks every tile's leader and trailer. It is part of the system's Python."""
    python = "/usr/bin/python3"
    known = [python, "-c", "import osgeo_utils.samples.validate_cloud_optimized_geotiff"]
    if not os.path.exists(python) or subprocess.run(known, capture_output=True, check=False).returncode != 0:
        pytest.skip("python3-gdal is not installed")
    program = (
        "import sys; from osgeo_utils.samples import validate_cloud_optimized_geotiff as v;"
        "w, e, d = v.validate(sys.argv[1], full_check=True); assert not w and not e, (w, e)"
    )
    done = subprocess.run([python, "-c", program, path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
