"""Files that GDAL writes with all combinations of its options have the values that rasterio and rioxarray show.

Drivers x profiles x bands x types x nodata x masks x codecs: 6,842 files. About ninety are tested, chosen by
PENSTOCK_SEED, among them each pair of two options; one in forty in `make test-long`; all of them with PENSTOCK_SWEEP=1.
"""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
from conftest import LONG
from rasterio_peers import QUIET, rasterio, xr

pytestmark = QUIET

TYPES = ("uint8", "int8", "uint16", "int16", "uint32", "int32", "float32", "float64")
LOSSY = ("JPEG", "WEBP")
CODECS = ("NONE", "DEFLATE", "LZW", "ZSTD", "LZMA", "LERC", "LERC_DEFLATE", "LERC_ZSTD", *LOSSY)
OPTIONS: list[tuple[str, dict[str, Any]]] = [
    ("COG", {"blocksize": 128}),
    ("COG", {"blocksize": 128, "add_alpha": "NO"}),
    ("COG", {"blocksize": 128, "overviews": "NONE", "predictor": "YES"}),
    ("GTiff", {"profile": "BASELINE"}),
    ("GTiff", {"profile": "GeoTIFF", "tiled": True, "blockxsize": 64, "blockysize": 64}),
    ("GTiff", {"interleave": "BAND", "alpha": "YES"}),
]
SIZE = (150, 170)
PARTS = 40


@dataclass(frozen=True)
class Case:
    """The options with which a file is written."""

    driver: str
    options: dict[str, Any]
    bands: int
    dtype: str
    nodata: int | None
    mask: str  # "internal", "msk" (a sidecar file) or "" (none)
    codec: str

    @property
    def is_possible(self) -> bool:
        if self.codec in LOSSY and self.dtype != "uint8":
            return False
        by_pixel = self.options.get("interleave") != "BAND"
        if self.codec == "JPEG" and by_pixel and self.bands > 4:
            return False
        if self.codec == "WEBP" and not (by_pixel and self.bands in (3, 4)):
            return False
        return not (self.mask and self.nodata is not None) and not (self.mask == "msk" and self.driver == "COG")


def cases() -> Iterator[Case]:
    axes = (OPTIONS, range(1, 6), TYPES, (None, 2), ("", "internal", "msk"), CODECS)
    for (driver, options), *rest in itertools.product(*axes):
        case = Case(driver, options, *rest)
        if case.is_possible:
            yield case


def write(path: Path, case: Case) -> None:
    y, x = np.mgrid[: SIZE[0], : SIZE[1]]
    noise = np.random.default_rng(case.bands)
    bands = [((y * (band + 1) + x * 2) // 3 + noise.integers(0, 3, SIZE)) % 120 for band in range(case.bands)]
    values = np.stack(bands).astype(case.dtype)
    values[:, :8, :8] = 2  # nodata in all bands
    where = {"crs": "EPSG:32633", "transform": rasterio.Affine(10, 0, 5e5, 0, -10, 5e6)}
    shape = {"height": SIZE[0], "width": SIZE[1], "count": case.bands, "dtype": case.dtype, "nodata": case.nodata}
    options = {**where, **shape, "driver": case.driver, "compress": case.codec, **case.options}
    with rasterio.Env(GDAL_TIFF_INTERNAL_MASK=case.mask != "msk"), rasterio.open(path, "w", **options) as file:
        file.write(values)
        if case.mask:
            file.write_mask(((y + x) % 7 != 0).astype("u1") * 255)


def chosen() -> list[Case]:
    every = list(cases())
    if os.environ.get("PENSTOCK_SWEEP"):
        return every
    chance = random.Random(os.environ.get("PENSTOCK_SEED", ""))
    return chance.sample(every, len(every) // PARTS) if LONG else covering(every, chance)


def covering(every: list[Case], chance: random.Random) -> list[Case]:
    """Few cases, in which each pair of values of two options occurs that occurs in `every`."""
    pairs = [
        set(itertools.combinations(((of.name, str(getattr(case, of.name))) for of in fields(case)), 2))
        for case in every
    ]
    missing = set().union(*pairs)
    numbers, kept = list(range(len(every))), []
    chance.shuffle(numbers)
    for least in (12, 8, 5, 3, 2, 1):  # cases with many new pairs first
        for number in numbers:
            if len(pairs[number] & missing) >= least:
                missing -= pairs[number]
                kept.append(every[number])
    return kept


def assert_near(got: Any, wanted: Any, atol: float, what: str) -> None:
    np.testing.assert_allclose(np.asarray(got, "f8"), np.asarray(wanted, "f8"), 0, atol, err_msg=what)


@pytest.mark.timeout(3600)
def test_files_of_gdal_equal_rasterios_and_rioxarrays(tmp_path: Path) -> None:
    assert sum(1 for _ in cases()) == 6842
    coarse = tuple(map(int, rasterio.__gdal_version__.split(".")[:2])) < (3, 11)  # whose JPEG colours differ
    for case in chosen():
        if case.codec == "JPEG" and coarse:
            continue
        path = tmp_path / "a.tif"
        write(path, case)
        near = 3 if case.codec in LOSSY else 0
        array = ps.open(path)
        with rasterio.open(path) as file:
            assert array.nodata == file.nodata, case
            assert array.epsg == (file.crs.to_epsg() if file.crs else None), case
            assert_near(array[...], file.read(), near, str(case))
            missing = file.read(masked=True).astype("f8").filled(np.nan)
            assert_near(ps.open(path, unpack=True)[...], missing, near, str(case))
            half = (SIZE[0] // 2, SIZE[1] // 2)
            wanted = file.read(out_shape=(file.count, *half), resampling=rasterio.enums.Resampling.average)
        rounded = 1 if np.dtype(case.dtype).kind in "iu" else 1e-4
        assert_near(ps.read_window(array, shape=half, resampling="average"), wanted, near + rounded, str(case))
        with xr.open_dataset(path, engine="penstock") as ours, xr.open_dataset(path, engine="rasterio") as theirs:
            assert ours.rio.crs == theirs.rio.crs, case
            assert_near(ours.band_data, theirs.band_data, near, str(case))
            for axis in ("x", "y", "band"):
                np.testing.assert_array_equal(ours[axis], theirs[axis], err_msg=str(case))
            for name in ours.band_data.attrs.keys() | theirs.band_data.attrs.keys():
                assert str(ours.band_data.attrs.get(name)) == str(theirs.band_data.attrs.get(name)), (name, case)
        for written in tmp_path.iterdir():
            written.unlink()
