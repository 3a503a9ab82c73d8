"""`read_window` reads overviews and masks from the same store as the array."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest

FILE = Path(__file__).resolve().parents[2] / "tests/data/tiff/cogeotiff__rio-tiler/cog_uint8_rgb_mask.tif"


class Counting(ps.Store):
    """One file in a Python store, with a count of the requested ranges."""

    def __init__(self, path: Path = FILE) -> None:
        self.data, self.asked = path.read_bytes(), 0

    def get(self, key: str) -> bytes | None:
        return self.data if key == "scene.tif" else None

    def get_range(self, key: str, start: int, length: int) -> bytes | None:
        if key != "scene.tif":
            return None
        self.asked += length
        return self.data[start : start + length]


def places() -> dict[str, Any]:
    made: dict[str, Any] = {
        "bytes": (FILE.read_bytes(),),
        "file object": (io.BytesIO(FILE.read_bytes()),),
        "dict": ({"scene.tif": FILE.read_bytes()}, "scene.tif"),
        "store": (Counting(), "scene.tif"),
    }
    try:
        import fsspec

        fs = fsspec.filesystem("memory")
        fs.pipe("/penstock-window/scene.tif", FILE.read_bytes())
        made["fsspec"] = (fs.get_mapper("/penstock-window"), "scene.tif")
    except ImportError:
        pass
    try:
        import obstore

        store = obstore.store.MemoryStore()
        obstore.put(store, "scene.tif", FILE.read_bytes())
        made["obstore"] = (store, "scene.tif")
    except ImportError:
        pass
    return made


@pytest.mark.parametrize("kind", ["nearest", "average", "bilinear"])
@pytest.mark.parametrize("place", ["bytes", "file object", "dict", "store", "fsspec", "obstore"])
def test_windows_do_not_depend_on_the_location(place, kind):
    known = places()
    if place not in known:
        pytest.skip(f"{place} is not installed")
    wanted = ps.read_window(ps.open(FILE), shape=(60, 50), resampling=kind)
    assert wanted.any()
    np.testing.assert_array_equal(ps.read_window(ps.open(*known[place]), shape=(60, 50), resampling=kind), wanted)


def test_small_windows_read_the_overview_only(tmp_path):
    values = np.random.default_rng(3).integers(0, 255, (1, 2048, 2048), dtype="u1")
    ps.save(tmp_path / "x.tif", values, tiles=256, transform=(1, 0, 0, 0, -1, 0))
    store = Counting(tmp_path / "x.tif")
    a = ps.open(store, "scene.tif")
    assert a.overviews
    ps.read_window(a, shape=(256, 256), resampling="average")
    assert store.asked < len(store.data) // 8, "the image itself was read"


@pytest.mark.parametrize("level", [1, 2])
def test_overviews_have_masks_and_overviews_of_their_own(level):
    """The mask of an overview belongs to the overview, not to the image."""
    rasterio = pytest.importorskip("rasterio")
    a = ps.open(FILE, level=level)
    got = ps.read_window(a, shape=(32, 32), resampling="average")
    assert got.any()
    with rasterio.open(FILE, overview_level=level - 1) as file:
        wanted = file.read(out_shape=(3, 32, 32), resampling=rasterio.enums.Resampling.average)
        valid = file.dataset_mask(out_shape=(32, 32), resampling=rasterio.enums.Resampling.nearest) != 0
    apart = np.abs(got.astype(int) - wanted)[:, valid]
    assert np.median(apart) <= 1


def test_windows_of_masks_are_masks():
    rasterio = pytest.importorskip("rasterio")
    mask = ps.open(FILE, mask=True)
    got = ps.read_window(mask, shape=(64, 64))
    assert got.shape == (1, 64, 64)
    assert set(np.unique(got)) == {0, 255}
    with rasterio.open(FILE) as file:
        wanted = file.dataset_mask(out_shape=(64, 64))
    assert (got[0] == wanted).mean() > 0.99
    np.testing.assert_array_equal(ps.read_window(mask), mask[...])


def test_windows_use_the_arrays_own_context():
    """In the counts of the context, reads of the overview are reads of the array."""
    context = ps.Context(threads=1)
    a = ps.open(FILE, context=context)
    ps.read_window(a, shape=(32, 32), resampling="average")
    level = a._image(level=1)
    assert level is a._image(level=1), "opened once"
    assert repr(level.uri) == repr(a.uri)


def test_images_of_a_file_that_was_replaced_are_refused(tmp_path):
    path = tmp_path / "scene.tif"
    path.write_bytes(FILE.read_bytes())
    a = ps.open(path)
    path.write_bytes(FILE.read_bytes() + b"more")
    with pytest.raises(ps.ConflictError):
        ps.read_window(a, shape=(32, 32), resampling="average")
