"""`read_window` of unpacked images equals the windows of arrays that contain the physical values."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
from conftest import matrix
from rasterio_peers import QUIET, rasterio

pytestmark = QUIET

HEIGHT, WIDTH = 53, 71
TRANSFORM = (10.0, 0.0, 1000.0, 0.0, -10.0, 5000.0)
BANDS = {"alpha": 4}  # 3 for others
SCALES: dict[str, dict[str, list[float]]] = {
    "plain": {},
    "one scale": {"scales": [0.5] * 4, "offsets": [1.0] * 4},
    "scales of bands": {"scales": [0.1, 2, 1, 3], "offsets": [0, -3, 0.7, 5]},
}
VALIDITY = ["all valid", "nodata", "NaN", "mask", "alpha", "NODATA_VALUES"]
KINDS = ["nearest", "average", "bilinear"]
# Left, bottom, right, top in pixels of the image; rows and columns of the result.
WINDOWS: list[tuple[Any, Any]] = [
    (None, None),
    (None, (26, 35)),  # read from the overview
    (None, (13, 11)),
    (None, (106, 142)),
    ((5, 40, 37, 8), None),
    ((5.25, 40.5, 37.75, 8.125), (16, 16)),
    ((5.25, 40.5, 9.75, 36), (33, 40)),
    ((-10, 60, 30, 20), None),
    ((-10.5, 60, 80, -20), (23, 19)),
    ((100, 30, 120, 10), (4, 5)),
]


TYPES = ["u1", "u2", "i2", "i4", "i8", "f4", "f8", "c8"]


def write(path: Path, dtype: str, validity: str, scales: str, overviews: bool) -> None:
    bands = BANDS.get(validity, 3)
    rng = np.random.default_rng(7)
    values = rng.integers(0, 9, (bands, HEIGHT, WIDTH)).astype(dtype)
    values[:, 20:40, 30:50] = 3  # nodata, in all bands
    if dtype[0] in "fc":
        values[:, :9, :9] = np.nan
    options: dict[str, Any] = {each: list(what[:bands]) for each, what in SCALES[scales].items()}
    if validity in ("nodata", "NaN"):
        options["nodata"] = 3 if validity == "nodata" else float("nan")
    if validity == "mask":
        options["mask"] = rng.uniform(size=(HEIGHT, WIDTH)) < 0.7
    if validity == "alpha":
        values[3] = np.where(rng.uniform(size=(HEIGHT, WIDTH)) < 0.7, values[3], 0)
        options["alpha"] = True
    options["overviews"] = [2, 4] if overviews else None
    ps.save(path, values, tiles=16, transform=TRANSFORM, **options)
    if validity == "NODATA_VALUES":
        with rasterio.open(path, "r+", IGNORE_COG_LAYOUT_BREAK="YES") as file:
            file.update_tags(NODATA_VALUES="3 3 3")


def applies(dtype: str, validity: str, scales: str) -> bool:
    if validity == "NaN":
        return dtype[0] in "fc"
    if validity == "alpha":
        return dtype in ("u1", "u2")  # as in GDAL
    return validity == "all valid" or scales == "plain" or dtype in ("u1", "i2", "f4")


def queries() -> Iterator[tuple[Any, Any, str, dict[str, Any]]]:
    """Bounds, shape, resampling and options."""
    for (box, shape), kind, fill, nodata in itertools.product(WINDOWS, KINDS, (None, -7.5), (None, 4, np.nan)):
        bounds = None
        if box is not None:
            left, bottom, right, top = box
            bounds = (1000 + 10 * left, 5000 - 10 * bottom, 1000 + 10 * right, 5000 - 10 * top)
        options = {name: each for name, each in (("fill_value", fill), ("nodata", nodata)) if each is not None}
        yield bounds, shape, kind, options
        if bounds is not None and (box[0] > WIDTH or box[0] < 0):
            yield bounds, shape, kind, {**options, "boundless": True}


def outcome(*arguments: Any, **options: Any) -> Any:
    """The window, or the class of the error."""
    try:
        return ps.read_window(*arguments, **options)
    except ps.Error as error:
        return type(error)


def in_memory(values: np.ndarray[Any, Any]) -> ps.Array:
    made = ps.create_array({}, shape=values.shape, dtype=values.dtype, chunks=(1, 16, 16))
    made[...] = values
    return made


@matrix
@pytest.mark.parametrize("overviews", [False, True], ids=["no overviews", "overviews"])
@pytest.mark.parametrize(
    ("dtype", "validity", "scales"),
    [each for each in itertools.product(TYPES, VALIDITY, SCALES) if applies(*each)],
)
def test_windows_equal_those_of_arrays_of_the_values(tmp_path, dtype, validity, scales, overviews):
    write(tmp_path / "x.tif", dtype, validity, scales, overviews)
    image = ps.open(tmp_path / "x.tif", unpack=True)
    levels = [ps.open(tmp_path / "x.tif", unpack=True, level=n)[...] for n in range(1 + len(image.overviews))]
    assert len(levels) == (3 if overviews else 1)
    assert np.isnan(levels[0]).any() == (validity != "all valid" or dtype[0] in "fc")
    assert (image.nodata is None) == (validity == "all valid")
    plain, *coarser = map(in_memory, levels)
    refused = 0
    for bounds, shape, kind, options in queries():
        got = outcome(image, bounds, shape, kind, **options)
        known = {"transform": TRANSFORM, "nodata": image.nodata, "overviews": coarser, **options}
        want = outcome(plain, bounds, shape, kind, **known)
        what = f"{bounds} {shape} {kind} {options}"
        if isinstance(want, type):
            refused += 1
            assert got is want, what
        else:
            assert got.dtype == image.dtype, what
            np.testing.assert_array_equal(got, want, what)
    assert refused > 0


class Ranges(ps.Store):
    """A file that is read by ranges."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.requested: list[tuple[int, int]] = []

    def get(self, key: str) -> bytes | None:
        return self.data if key == "x.tif" else None

    def get_range(self, key: str, start: int, length: int) -> bytes | None:
        self.requested.append((start, length))
        return self.data[start : start + length] if key == "x.tif" else None


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("validity", ["nodata", "mask"])
def test_requests_equal_those_of_the_packed_image(tmp_path, kind, validity):
    values = np.random.default_rng(0).integers(0, 255, (2, 512, 512), dtype="u1")
    options = {"nodata": 3} if validity == "nodata" else {"mask": values[0] > 9}
    ps.save(tmp_path / "x.tif", values, tiles=64, scales=[2, 3], transform=(1, 0, 0, 0, -1, 512), **options)
    requested = []
    for unpack in (False, True):
        store = Ranges((tmp_path / "x.tif").read_bytes())
        a = ps.open(store, "x.tif", unpack=unpack, context=ps.Context(threads=1))
        store.requested.clear()
        for bounds, shape in [((70, 400, 150, 500), (80, 37)), ((0, 0, 512, 512), (64, 64)), ((60, 40, 90, 90), None)]:
            ps.read_window(a, bounds, shape, kind)
        requested.append(sorted(each for each in store.requested if each[0] > 0))  # without the requests for the header
    packed, unpacked = requested
    if kind == "nearest" and validity == "mask":  # the stored values of masked pixels are returned
        assert set(packed) < set(unpacked)
    else:
        assert packed == unpacked
    assert sum(length for _, length in unpacked) < (tmp_path / "x.tif").stat().st_size // 2


PEAK = """
import sys, numpy as np, penstock as ps

def peak():
    return next(int(line.split()[1]) << 10 for line in open("/proc/self/status") if line.startswith("VmHWM"))

a = ps.open(sys.argv[1], unpack=True)
for kind in ("nearest", "average", "bilinear"):
    ps.read_window(a, shape=(64, 64), resampling=kind, overviews=[])
before = peak()
made = ps.read_window(a, shape=(3000, 4000), resampling=sys.argv[2], overviews=[])
print(peak() - before - made.nbytes)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the peak is /proc's")
@pytest.mark.parametrize("kind", KINDS)
def test_memory_in_addition_to_the_result_is_bounded(tmp_path, kind):
    values = np.broadcast_to(np.arange(6000, dtype="u2"), (1, 4000, 6000))
    ps.save(tmp_path / "x.tif", values, nodata=3, scales=[2], overviews=None)
    run = [sys.executable, "-c", PEAK, str(tmp_path / "x.tif"), kind]
    more = int(subprocess.run(run, check=True, capture_output=True, text=True).stdout)
    assert more < 80 << 20, "the stored pixels are 48 MB, the result 96 MB"


def test_overviews_have_the_same_type(tmp_path):
    ps.save(tmp_path / "x.tif", np.zeros((1, 64, 64), "u1"), tiles=16, scales=[2], overviews=[2])
    image, small = (ps.open(tmp_path / "x.tif", unpack=True, level=level) for level in (0, 1))
    want = ps.read_window(image, shape=(32, 32))
    for overview in (small, in_memory(small[...])):
        np.testing.assert_array_equal(ps.read_window(image, shape=(32, 32), overviews=[overview]), want)
    np.testing.assert_array_equal(ps.read_window(in_memory(image[...]), shape=(32, 32), overviews=[small]), want)
    with pytest.raises(ps.InvalidArgumentError, match="differs"):
        ps.read_window(image, shape=(32, 32), overviews=[small.packed])
