"""`read_window`, compared with GDAL's reading of the same window, shape and resampling."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest

KINDS = ["nearest", "average", "bilinear"]
TRANSFORM = (10.0, 0.0, 1000.0, 0.0, -10.0, 5000.0)
# Bounds, and the shape of the result. Edges cut a pixel only if GDAL uses the whole pixel too.
WINDOWS = [
    ((1000, 1030, 4130, 5000), (40, 50)),
    ((1000, 1030, 4130, 5000), (397, 313)),
    ((1000, 1030, 4130, 5000), (3, 2)),
    ((1100, 1200, 2100, 2200), (100, 100)),
    ((1100, 1200, 2100, 2200), (50, 50)),
    ((1100, 1200, 2100, 2200), (48, 52)),
    ((1103, 1207, 2111, 2207), (27, 31)),
    ((1500, 1510, 1610, 1710), (130, 109)),
]


class Scene:
    """An image and its overviews in a file, and the same as our arrays."""

    def __init__(self, path: Path, dtype: str, nodata: Any) -> None:
        rasterio = pytest.importorskip("rasterio")
        rng = np.random.default_rng(11)
        values = rng.uniform(0, 200, (2, 397, 313)).astype(dtype)
        if nodata is not None:
            values[:, rng.uniform(size=(397, 313)) < 0.2] = nodata
        options = {"driver": "GTiff", "width": 313, "height": 397, "count": 2, "dtype": dtype, "nodata": nodata}
        options |= {"tiled": True, "blockxsize": 64, "blockysize": 64, "transform": rasterio.Affine(*TRANSFORM)}
        with rasterio.open(path, "w", **options) as file:
            file.write(values)
        with rasterio.open(path, "r+") as file:
            file.build_overviews([2, 4, 8], rasterio.enums.Resampling.average)
        self.path, self.nodata, self.dtype = path, nodata, np.dtype(dtype)
        self.array, self.overviews = stored(values), []
        for level in range(3):
            with rasterio.open(path, overview_level=level) as file:
                self.overviews.append(stored(file.read()))

    def read(self, bounds: Any, shape: Any, kind: str) -> np.ndarray[Any, Any]:
        """GDAL's result."""
        import rasterio

        with rasterio.open(self.path) as file:
            window = rasterio.windows.from_bounds(*bounds, file.transform)
            made: np.ndarray[Any, Any] = file.read(
                window=window, out_shape=(2, *shape), resampling=rasterio.enums.Resampling[kind]
            )
            return made

    def ours(self, bounds: Any, shape: Any, kind: str) -> np.ndarray[Any, Any]:
        known = {"transform": TRANSFORM, "nodata": self.nodata, "overviews": self.overviews}
        return ps.read_window(self.array, bounds, shape, kind, **known)


def stored(values: np.ndarray[Any, Any]) -> ps.Array:
    made = ps.create_array({}, shape=values.shape, dtype=values.dtype, chunks=(1, 64, 64))
    made[...] = values
    return made


@pytest.fixture(scope="module", params=[("uint8", None), ("float32", None), ("int16", -5), ("float64", -9.0)], ids=str)
def scene(request: Any, tmp_path_factory: Any) -> Scene:
    return Scene(tmp_path_factory.mktemp("window") / "scene.tif", *request.param)


def assert_equal(got: Any, want: Any, dtype: np.dtype[Any]) -> None:
    assert got.dtype == want.dtype == dtype
    assert got.shape == want.shape
    if dtype.kind == "f":
        np.testing.assert_allclose(got, want, rtol=2e-6)
    else:
        apart = np.abs(got.astype("i8") - want.astype("i8"))
        assert apart.max() <= 1  # halves may be rounded differently: GDAL adds in another order
        assert (apart > 0).mean() < 0.02


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("bounds", "shape"), WINDOWS, ids=range(len(WINDOWS)))
def test_windows_equal_gdals(scene, kind, bounds, shape):
    got, want = scene.ours(bounds, shape, kind), scene.read(bounds, shape, kind)
    if kind == "nearest":
        np.testing.assert_array_equal(got, want)
    else:
        assert_equal(got, want, scene.dtype)


@pytest.mark.parametrize("kind", KINDS)
def test_images_of_files_have_their_bounds(scene, kind):
    if not hasattr(ps, "TiffArray"):
        pytest.skip("this build opens no TIFF")
    a = ps.open(scene.path)
    for bounds, shape in WINDOWS:
        np.testing.assert_array_equal(ps.read_window(a, bounds, shape, kind), scene.ours(bounds, shape, kind))
    np.testing.assert_array_equal(ps.read_window(a), a[...])


@pytest.mark.parametrize("nodata", [None, 5])
@pytest.mark.parametrize("kind", ["average", "bilinear"])
def test_large_windows_are_resampled_in_strips(kind, nodata):
    """A strip has 2^21 source pixels: a quarter of the window fits in one, the whole window needs more than three."""
    values = np.random.default_rng(2).integers(0, 250, (2, 1792, 2000)).astype("u1")
    a, where = stored(values), {"transform": (1, 0, 0, 0, -1, 1792), "nodata": nodata}
    whole = ps.read_window(a, shape=(448, 1000), resampling=kind, **where)
    parts = [ps.read_window(a, (0, top - 448, 2000, top), (112, 1000), kind, **where) for top in (1792, 1344, 896, 448)]
    np.testing.assert_array_equal(whole, np.concatenate(parts, 1))


def test_without_bounds_it_is_the_image_itself(scene):
    np.testing.assert_array_equal(ps.read_window(scene.array, transform=TRANSFORM), scene.array[...])
    for where in ({}, {"transform": (1, 0.5, 0, 0.5, -1, 4)}):  # also if it is not georeferenced, or rotated
        np.testing.assert_array_equal(ps.read_window(scene.array, **where), scene.array[...])
    for kind in KINDS:
        half = ps.read_window(scene.array, shape=(397, 313), resampling=kind, transform=TRANSFORM)
        np.testing.assert_array_equal(half, scene.array[...])


@pytest.mark.parametrize("kind", KINDS)
def test_pixels_outside_the_image_have_the_fill_value(kind):
    values = np.arange(1, 13, dtype="i2").reshape(1, 3, 4)
    a, there = stored(values), {"transform": (1, 0, 0, 0, -1, 3), "resampling": kind}
    got = ps.read_window(a, (-2, -1, 5, 5), (6, 7), fill_value=-7, **there)
    want = np.full((1, 6, 7), -7, "i2")
    want[:, 2:5, 2:6] = values
    if kind != "bilinear":  # the bilinear kernel reaches over the edge
        np.testing.assert_array_equal(got, want)
    assert (got[:, 0] == -7).all()
    np.testing.assert_array_equal(got[:, 3, 3:5], want[:, 3, 3:5])
    beyond = ps.read_window(a, (50, 50, 60, 60), (2, 2), fill_value=-7, boundless=True, **there)
    assert (beyond == -7).all()


@pytest.mark.parametrize("kind", KINDS)
def test_windows_beyond_the_image_need_a_fill_value(kind):
    a, there = stored(np.ones((1, 3, 4), "i2")), {"transform": (1, 0, 0, 0, -1, 3), "resampling": kind}
    with pytest.raises(ps.InvalidArgumentError, match=r"\(50.0, .* are outside the image .* another CRS"):
        ps.read_window(a, (50.0, 50, 60, 60), (2, 2), fill_value=-7, **there)
    with pytest.raises(ps.InvalidArgumentError, match="are outside the image"):  # they only touch
        ps.read_window(a, (4, 0, 6, 3), (2, 2), nodata=-1, **there)
    with pytest.raises(ps.InvalidArgumentError, match="fill_value="):
        ps.read_window(a, (50, 50, 60, 60), (2, 2), boundless=True, **there)
    for boundless in (False, True):
        with pytest.raises(ps.InvalidArgumentError, match=r"exceed the image .* fill_value="):
            ps.read_window(a, (-2, 0, 4, 3), (3, 6), boundless=boundless, **there)
        got = ps.read_window(a, (-2, 0, 4, 3), (3, 6), boundless=boundless, nodata=-1, **there)
        assert (got[..., 0] == -1).all()
    rounded = ps.read_window(a, (-1e-9, 0, 4, 3 + 1e-9), (3, 4), **there)
    np.testing.assert_array_equal(rounded, a[...])


@pytest.mark.parametrize("kind", ["average", "bilinear"])
def test_results_of_one_pixel_each_are_those_pixels(kind):
    values = np.array([[[1, -1, 2**62 + 1], [3, 2**62 + 3, -1]]], "i8")  # a mean in doubles would round these
    a, where = stored(values), {"transform": (1, 0, 0, 0, -1, 2), "resampling": kind}
    shapes = [(2, 3)] if kind == "bilinear" else [(2, 3), (6, 6)]
    for rows, columns in shapes:
        want = values.repeat(rows // 2, 1).repeat(columns // 3, 2)
        np.testing.assert_array_equal(ps.read_window(a, shape=(rows, columns), **where), want)
        got = ps.read_window(a, shape=(rows, columns), nodata=-1, fill_value=7, **where)
        np.testing.assert_array_equal(got, np.where(want == -1, 7, want))
        got = ps.read_window(a, (-3, 0, 0, 2), (rows, columns), nodata=-1, boundless=True, **where)
        np.testing.assert_array_equal(got, np.full((1, rows, columns), -1))


def test_missing_pixels_are_excluded_from_means():
    values = np.array([[[1, -1, 5, 7], [3, -1, -1, -1]]], "f4")
    where = {"transform": (1, 0, 0, 0, -1, 2), "nodata": -1}
    got = ps.read_window(stored(values), shape=(1, 2), resampling="average", **where)
    assert got.tolist() == [[[2.0, 6.0]]]
    nan = np.where(values == -1, np.float32("nan"), values)
    where["nodata"] = float("nan")
    assert ps.read_window(stored(nan), shape=(1, 2), resampling="average", **where).tolist() == [[[2.0, 6.0]]]


def test_a_mean_never_becomes_nodata():
    where = {"transform": (1, 0, 0, 0, -1, 1), "nodata": 5, "resampling": "average", "shape": (1, 1)}
    assert ps.read_window(stored(np.array([[[4, 6]]], "u1")), **where).tolist() == [[[6]]]
    assert ps.read_window(stored(np.array([[[4, 6]]], "f4")), **where)[0, 0, 0] > 5


def test_south_up_images_have_their_first_row_at_the_bottom():
    values = np.arange(12, dtype="i2").reshape(1, 3, 4)
    got = ps.read_window(stored(values), (1, 1, 3, 3), transform=(1, 0, 0, 0, 1, 0))
    np.testing.assert_array_equal(got, values[:, 1:3, 1:3])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mirrored", [False, True], ids=["south up", "south up, east first"])
def test_bounds_are_those_that_the_image_has(tmp_path, kind, mirrored):
    values = np.arange(192, dtype="i2").reshape(1, 12, 16)
    ps.save(tmp_path / "x.tif", values, transform=(-1 if mirrored else 1, 0, 5, 0, 1, 7))
    a = ps.open(tmp_path / "x.tif")
    assert a.bounds[1] > a.bounds[3]
    whole = ps.read_window(a, shape=(4, 4), resampling=kind)
    np.testing.assert_array_equal(ps.read_window(a, a.bounds, (4, 4), kind), whole)
    left, bottom, right, top = a.bounds
    ordered = (min(left, right), top, max(left, right), bottom)
    np.testing.assert_array_equal(ps.read_window(a, ordered, (4, 4), kind), whole)


def test_indexes_of_a_palette_have_no_mean(tmp_path):
    values = np.where(np.random.default_rng(0).random((1, 64, 64)) < 0.5, 10, 90).astype("u1")
    where = {"transform": (1, 0, 0, 0, -1, 64), "colormap": np.zeros((256, 3), int)}
    ps.save(tmp_path / "x.tif", values, tiles=32, **where)
    small = ps.open(tmp_path / "x.tif", level=1)
    assert set(np.unique(small[...])) == {10, 90}
    for kind in ("average", "bilinear"):
        for a in (ps.open(tmp_path / "x.tif"), small, ps.open(tmp_path / "x.tif", unpack=True)):
            with pytest.raises(ps.UnsupportedError, match="palette"):
                ps.read_window(a, shape=(20, 20), resampling=kind)
    assert set(np.unique(ps.read_window(ps.open(tmp_path / "x.tif"), shape=(20, 20)))) == {10, 90}
    with pytest.raises(ps.InvalidArgumentError, match="palette"):
        ps.save(tmp_path / "y.tif", values, resampling="average", **where)


def test_only_chunks_under_the_window_are_read(tmp_path):
    asked: list[str] = []
    keys: dict[str, bytes] = {}
    ps.create_array(keys, shape=(1, 256, 256), dtype="u1", chunks=(1, 32, 32))[...] = 1

    class Watched(ps.Store):
        def get(self, key: str) -> bytes | None:
            asked.append(key)
            return keys.get(key)

    a = ps.open(Watched())
    ps.read_window(a, (64, 64, 96, 96), (8, 8), "average", transform=(1, 0, 0, 0, 1, 0))
    assert {key for key in asked if key.startswith("c/")} == {"c/0/2/2"}


@pytest.mark.parametrize("kind", KINDS)
def test_windows_do_not_depend_on_the_class_of_the_array(tmp_path, kind):
    values = np.random.default_rng(1).integers(0, 99, (2, 30, 40)).astype("i2")
    where: dict[str, Any] = {"bounds": (5, 3, 45, 28), "shape": (10, 13), "resampling": kind, "fill_value": -3}
    where |= {"transform": (1, 0, 0, 0, -1, 30), "nodata": 7}
    ps.save(tmp_path / "a.zarr", values[:1])
    ps.save(tmp_path / "b.zarr", values[1:])
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["v"] = values
    arrays = {
        "HDF5": ps.open(tmp_path / "x.h5", "v"),
        "joined": ps.open_shards([tmp_path / "a.zarr", tmp_path / "b.zarr"]),
        "reader": ps.open_shards(
            [str(tmp_path / name) for name in ("a.zarr", "b.zarr")],
            metadata=lambda path: (1, (30, 40), "i2"),
            reader=lambda path, start, stop: ps.open(path)[start:stop],
        ),
    }
    want = ps.read_window(stored(values), **where)
    assert (want == -3).any()
    for name, a in arrays.items():
        assert type(a) is not ps.Array, name
        np.testing.assert_array_equal(ps.read_window(a, **where), want, name)


@pytest.mark.parametrize("dtype", ["O", "T"])
def test_text_has_windows_of_nearest_pixels(dtype):
    if dtype == "T" and not hasattr(np.dtypes, "StringDType"):
        pytest.skip("this NumPy has no text of variable length")
    values = np.array([[f"{row} {column}" for column in range(6)] for row in range(4)], object)
    a = ps.create_array({}, shape=(4, 6), dtype=str if dtype == "O" else "T", chunks=(2, 2))
    a[...] = values
    where = {"transform": (1, 0, 0, 0, -1, 4)}
    got = ps.read_window(a, shape=(2, 3), **where)
    assert got.dtype == a.dtype
    np.testing.assert_array_equal(got, values[1::2, 1::2])
    got = ps.read_window(a, (-1, 1, 2, 5), (4, 3), fill_value="none", **where)
    want = np.full((4, 3), "none", object)
    want[1:, 1:] = values[:3, :2]
    np.testing.assert_array_equal(got, want)
    got = ps.read_window(a, (8, 8, 9, 9), fill_value="none", boundless=True, **where)
    assert got.tolist() == [["none"]]
    with pytest.raises(ps.InvalidArgumentError, match="fill_value="):
        ps.read_window(a, (-1, 1, 2, 5), **where)
    with pytest.raises(ps.UnsupportedError, match="nearest"):
        ps.read_window(a, shape=(2, 3), resampling="average", **where)


def test_arrays_without_windows_are_refused():
    a = stored(np.zeros((1, 4, 4), "c8"))
    there = {"transform": (1, 0, 0, 0, -1, 4)}
    for arguments, options, text in [
        (((0, 0, 1, 1),), {}, "transform"),
        (((0, 0, 1, 1), (2, 2), "cubic"), there, "cubic"),
        (((1, 0, 0, 1),), there, "bounds"),
        (((0, 0, float("inf"), 1),), there, "bounds"),
        (((0, 0, 1, 1), (0, 2)), there, "shape"),
    ]:
        with pytest.raises(ValueError, match=text):
            ps.read_window(a, *arguments, **options)
    with pytest.raises(ps.UnsupportedError, match="nearest"):
        ps.read_window(a, None, (2, 2), "average", **there)
    with pytest.raises(ps.UnsupportedError, match="rotated"):
        ps.read_window(a, (0, 0, 1, 1), transform=(1, 0.1, 0, 0, -1, 4))


@pytest.mark.parametrize("kind", KINDS)
def test_windows_outside_a_masked_image_are_the_fill_value(tmp_path, kind):
    ps.save(tmp_path / "x.tif", np.ones((1, 32, 32), "u1"), mask=np.eye(32) > 0, transform=(1, 0, 0, 0, -1, 32))
    got = ps.read_window(ps.open(tmp_path / "x.tif"), (100, 0, 110, 9), (3, 3), kind, fill_value=7, boundless=True)
    np.testing.assert_array_equal(got, np.full((1, 3, 3), 7, "u1"))


def test_other_objects_than_open_arrays_are_refused(tmp_path):
    ps.save(tmp_path / "a.tif", np.zeros((1, 8, 8), "u1"), crs=32633, transform=(1, 0, 0, 0, -1, 8))
    for given in (str(tmp_path / "a.tif"), np.zeros((1, 8, 8))):
        with pytest.raises(ps.InvalidArgumentError, match="takes an array or a group that is open"):
            ps.read_window(given)
    image = ps.open(tmp_path / "a.tif")
    for bounds in ((0, 0, 8), "wide", (0, 0, 8, None)):
        with pytest.raises(ps.InvalidArgumentError, match="bounds must be"):
            ps.read_window(image, bounds)
    with pytest.raises(ps.InvalidArgumentError, match="shape must be"):
        ps.read_window(image, shape=8)


@pytest.mark.parametrize("places", [[(1, 7, 0), (2, 6, 0)], np.ones((2, 4)), [1, 2, 3], np.ones((2, 2, 2))])
def test_positions_of_samples_are_pairs(tmp_path, places):
    """Lists of x and of y, or positions with a height, would be other pairs."""
    ps.save(tmp_path / "a.tif", np.arange(64, dtype="u1").reshape(1, 8, 8), transform=(1, 0, 0, 0, -1, 8))
    image = ps.open(tmp_path / "a.tif")
    with pytest.raises(ps.InvalidArgumentError, match="pairs"):
        image.sample(places)
    assert image.sample((1.5, 7.5)).tolist() == [[1]]
    assert image.sample([]).shape == (0, 1)


@pytest.mark.parametrize("kind", KINDS)
def test_each_band_has_its_own_nodata(tmp_path, kind):
    values = np.full((2, 32, 32), 6, "u1")
    values[:, :, ::2] = 8
    values[0, :16, :16], values[1, :16, :16] = 9, 7
    ps.save(tmp_path / "a.tif", values, transform=(1, 0, 0, 0, -1, 32))
    bands = "".join(
        f'<PAMRasterBand band="{band}"><NoDataValue>{nodata}</NoDataValue></PAMRasterBand>'
        for band, nodata in ((1, 9), (2, 7))
    )
    (tmp_path / "a.tif.aux.xml").write_text(f"<PAMDataset>{bands}</PAMDataset>")
    image = ps.open(tmp_path / "a.tif")
    for shape in ((32, 64), (16, 32)):  # the pixels themselves, and resampled ones
        got = ps.read_window(image, (0, 0, 64, 32), shape, kind)
        assert got[:, 0, 0].tolist() == got[:, 0, -1].tolist() == [9, 7]
        if kind == "average":  # a mean never becomes nodata
            assert got[:, -1, 0].tolist() == ([7, 8] if shape == (16, 32) else [8, 8])
    (tmp_path / "a.tif.aux.xml").write_text(f"<PAMDataset>{bands[: len(bands) // 2]}</PAMDataset>")
    with pytest.raises(ps.InvalidArgumentError, match="It has no nodata value: give fill_value="):
        ps.read_window(ps.open(tmp_path / "a.tif"), (0, 0, 64, 32), (32, 64), kind)


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_windows_of_an_image_in_a_group_have_its_place(tmp_path, zarr_format):
    values = np.arange(1024, dtype="f4").reshape(1, 32, 32)
    ps.save(tmp_path / "a.tif", values, crs=32633, transform=TRANSFORM, nodata=33)
    made = ps.convert(tmp_path / "a.tif", tmp_path / "a.zarr", zarr_format=zarr_format)
    assert isinstance(made, ps.Group)
    window = (990, 4900, 1040, 5000), (5, 3), "average"
    expected = ps.read_window(ps.open(tmp_path / "a.tif"), *window)
    for image in (made, made["band_data"], ps.open(tmp_path / "a.zarr" / "band_data")):
        np.testing.assert_array_equal(ps.read_window(image, *window), expected)
    with pytest.raises(ps.NotFoundError, match="name no levels"):
        ps.read_window(ps.create_group({}))
