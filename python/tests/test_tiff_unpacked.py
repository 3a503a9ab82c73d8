"""`unpack=True`: the physical values of pixels, compared with rasterio's masked arrays and rioxarray's decoding."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
from tiff_bytes import image, tag, tiff_of

rasterio = pytest.importorskip("rasterio")
WHERE = rasterio.Affine(10.0, 0.0, 500000.0, 0.0, -10.0, 5000000.0)
SHAPE = (3, 61, 47)
FILES: dict[str, dict[str, Any]] = {
    "plain": {},
    "nodata": {"nodata": 7},
    "scaled": {"nodata": 7, "scales": (0.5, 2.0, 1.0), "offsets": (1.0, -3.0, 0.0)},
    "offset": {"offsets": (0.0, 0.0, -273.15)},
    "mask": {"mask": True},
    "mask and nodata": {"mask": True, "nodata": 7, "scales": (0.1,) * 3, "offsets": (0.0,) * 3},
    "floats": {"dtype": "float32", "nodata": -9999.0},
    "scaled floats": {"dtype": "float32", "nodata": 7.0, "scales": (0.25,) * 3, "offsets": (9.0,) * 3},
    "NaN": {"dtype": "float64", "nodata": float("nan")},
    "wide": {"dtype": "int32", "nodata": -1},
    "bytes": {"dtype": "uint8", "nodata": 0},
}
SELECTIONS: dict[str, Any] = {
    "all": ...,
    "band": 1,
    "last band": -1,
    "rows": np.s_[:, 3:9],
    "backwards": np.s_[::-1, ::-2, 40:3:-5],
    "pixel": np.s_[2, 5, 7],
    "row": np.s_[0, 5],
    "new axes": np.s_[None, 1:, None, 4],
    "nothing": np.s_[2:2],
    "bands": np.s_[[2, 0]],
    "columns": np.s_[:, 4:8, [9, 3, 3]],
    "points": ([0, 2, 1], [5, 6, 60], [7, 1, 0]),
}


@pytest.fixture(scope="module", params=FILES)
def path(request: Any, tmp_path_factory: Any) -> Path:
    options = dict(FILES[request.param])
    dtype, mask = options.get("dtype", "uint16"), options.get("mask")
    values = np.random.default_rng(1).integers(0, 30, SHAPE).astype(dtype)
    if dtype.startswith("float"):
        values[:, 5:9] = options["nodata"]
    made: Path = tmp_path_factory.mktemp("unpack") / "x.tif"
    driver = {"driver": "GTiff", "width": SHAPE[2], "height": SHAPE[1], "count": 3, "dtype": dtype, "tiled": True}
    driver |= {"blockxsize": 16, "blockysize": 16, "nodata": options.get("nodata"), "transform": WHERE}
    with rasterio.Env(GDAL_TIFF_INTERNAL_MASK=True):
        with rasterio.open(made, "w", **driver) as to:
            to.write(values)
            to.scales = options.get("scales", (1.0,) * 3)
            to.offsets = options.get("offsets", (0.0,) * 3)
            if mask:
                to.write_mask(values[0] > 9)
        with rasterio.open(made, "r+") as to:
            to.build_overviews([2], rasterio.enums.Resampling.nearest)
    return made


@pytest.mark.parametrize("name", SELECTIONS)
def test_plans_count_what_reads_fetch(path: Path, name: str) -> None:
    context = ps.Context(chunk_cache=0)
    array = ps.open(path, unpack=True, context=context)
    plan = array.plan(SELECTIONS[name])
    with ps.profile(context) as profile:
        array.read(SELECTIONS[name])
    assert isinstance(plan, ps.Plan)
    assert plan.fetched_bytes == profile.report["store_bytes"]
    assert plan.decoded_bytes >= plan.returned_bytes
    assert plan.touched == array.packed.plan(SELECTIONS[name]).touched
    with rasterio.open(path) as file:
        has_mask = rasterio.enums.MaskFlags.per_dataset in file.mask_flag_enums[0]
    assert ("mask: plan for" in plan) == (has_mask and plan.returned_bytes > 0)


def by_rasterio(path: Path, level: int | None = None) -> np.ndarray:
    with rasterio.open(path) as file:  # overviews do not have the scales
        scales, offsets = np.array(file.scales)[:, None, None], np.array(file.offsets)[:, None, None]
    with rasterio.open(path, **({} if level is None else {"overview_level": level})) as file:
        stored = file.read(masked=True)
        return np.where(np.ma.getmaskarray(stored), np.nan, stored.data.astype("f8") * scales + offsets)


def test_values_equal_rasterios(path):
    array = ps.open(path, unpack=True)
    wanted = by_rasterio(path)
    assert array.shape == SHAPE
    assert array[...].dtype == array.dtype
    np.testing.assert_allclose(array[...], wanted, rtol=1e-15)
    np.testing.assert_allclose(ps.open(path, unpack=True, level=1)[...], by_rasterio(path, 0), rtol=1e-15)
    np.testing.assert_allclose(ps.open(path, unpack=True, bands=[2, 0])[...], wanted[[2, 0]], rtol=1e-15)
    np.testing.assert_array_equal(ps.open(path).unpacked(), array[...])


@pytest.mark.parametrize("name", SELECTIONS)
def test_any_selection_is_unpacked(path, name):
    array, key = ps.open(path, unpack=True), SELECTIONS[name]
    whole = array[...]
    wanted = whole[key]
    np.testing.assert_array_equal(array[key], wanted)
    np.testing.assert_array_equal(array.read(key), wanted)
    assert np.shape(array[key]) == wanted.shape
    out = np.empty(wanted.shape)
    assert array.read(key, out=out) is out
    np.testing.assert_array_equal(out, wanted)


def test_reads_report_their_progress(path):
    array, calls = ps.open(path, unpack=True), []
    for selection in (np.s_[:, 3:], ps.oindex[[0, 2], [1, 5]]):
        calls.clear()
        array.read(selection, progress=lambda *now: calls.append(now))
        assert calls[-1][0] == calls[-1][1] > 0

    def fail(done, total):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        array.read(progress=fail)


def test_threads_are_checked_as_for_other_arrays(path):
    array = ps.open(path, unpack=True)
    for selection in (np.s_[:, 3:], ps.oindex[[0, 2], [1, 5]]):
        assert array.read(selection, threads=2**40).shape == array.read(selection).shape
        for wrong in (0, -1, "x"):
            with pytest.raises(ps.InvalidArgumentError, match="threads must be"):
                array.read(selection, threads=wrong)


def test_lists_of_both_kinds_are_unpacked(path):
    array = ps.open(path, unpack=True)
    whole = array[...]
    np.testing.assert_array_equal(array.oindex[[2, 0], 5:9, [3, 1]], whole[np.ix_([2, 0], range(5, 9), [3, 1])])
    np.testing.assert_array_equal(array.oindex[1, [4, 4], :], whole[1][[4, 4]])
    np.testing.assert_array_equal(array.vindex[[2, 0], [5, -1], [3, 1]], whole[[2, 0], [5, -1], [3, 1]])
    mask = np.random.default_rng(4).uniform(size=SHAPE) < 0.1
    np.testing.assert_array_equal(array[mask], whole[mask])
    with pytest.raises(ps.UnsupportedError, match="blocks"):
        array.read(ps.block_index[0, 0, 0] if hasattr(ps, "block_index") else ps.blocks[0, 0, 0])


def test_values_equal_rioxarrays_within_its_precision(path):
    rioxarray = pytest.importorskip("rioxarray")
    wanted = rioxarray.open_rasterio(path, mask_and_scale=True)
    np.testing.assert_allclose(ps.open(path, unpack=True)[...], wanted.values, rtol=3e-7, atol=1e-5)


def test_dtype_and_attributes_describe_the_values(path):
    packed, array = ps.open(path), ps.open(path, unpack=True)
    assert array.transform == packed.transform
    assert array.overviews == packed.overviews
    assert array.scales == (1.0,) * 3
    assert array.offsets == (0.0,) * 3
    assert array.nodata is None if packed.nodata is None and not packed.has_mask else np.isnan(array.nodata)
    assert array.dtype.kind == "f"
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(array))[...], array[...])
    np.testing.assert_array_equal(np.from_dlpack(array), array[...])
    np.testing.assert_array_equal(np.asarray(array), array[...])


def test_windows_of_unpacked_images_average_valid_pixels(path):
    array = ps.open(path, unpack=True)
    got = ps.read_window(array, shape=(20, 15), resampling="average")
    assert got.shape == (3, 20, 15)
    assert got.dtype == array.dtype
    whole = array[...]
    assert np.nanmin(got) >= np.nanmin(whole)
    np.testing.assert_array_equal(ps.read_window(array), whole)


def test_complex_numbers_stay_complex():
    tags = image(2, 1, bits=64) | {339: tag(3, 6), 42112: tag(2, '<G><Item sample="0" role="scale">2</Item></G>')}
    array = ps.open(tiff_of(tags, np.array([1 + 2j, 3 - 4j], "c8").tobytes()), unpack=True)
    assert array.dtype == np.complex128
    assert array[0, 0].tolist() == [2 + 4j, 6 - 8j]


def test_masks_take_precedence_over_nodata_as_in_gdal(path):
    """A pixel that the mask shows is a value, even if it equals nodata."""
    xr = pytest.importorskip("xarray")
    pytest.importorskip("rioxarray")
    ours = xr.open_dataset(path, engine="penstock").band_data.values
    theirs = xr.open_dataset(path, engine="rasterio").band_data.values
    np.testing.assert_array_equal(np.isnan(ours), np.isnan(theirs))
    got = ps.read_window(ps.open(path), shape=(30, 23), resampling="nearest")
    assert got.shape == (3, 30, 23)


def test_means_exclude_only_masked_pixels(tmp_path):
    values = np.arange(64, dtype="u2").reshape(1, 8, 8)
    with rasterio.Env(GDAL_TIFF_INTERNAL_MASK=True):
        options = {"driver": "GTiff", "width": 8, "height": 8, "count": 1, "dtype": "uint16", "nodata": 40}
        with rasterio.open(tmp_path / "x.tif", "w", transform=WHERE, **options) as to:
            to.write(values)
            to.write_mask(values[0] >= 16)
        with rasterio.open(tmp_path / "x.tif") as file:
            wanted = file.read(out_shape=(1, 4, 4), resampling=rasterio.enums.Resampling.average)
    got = ps.read_window(ps.open(tmp_path / "x.tif"), shape=(4, 4), resampling="average")
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("nodata", ["-9999", "256", "nan", "inf", "1.5"])
def test_nodata_that_the_type_cannot_hold_excludes_nothing(nodata):
    array = ps.open(tiff_of(image(2, 2) | {42113: tag(2, nodata)}, bytes([7, 1, 2, 255])), unpack=True)
    assert array.nodata is None
    assert array[0].tolist() == [[7, 1], [2, 255]]
    window = ps.read_window(array.packed, shape=(1, 1), resampling="average", transform=(1, 0, 0, 0, -1, 0))
    assert window.tolist() == [[[66]]]


def values_of(data: bytes) -> tuple[Any, Any]:
    with rasterio.MemoryFile(data) as memory, memory.open() as file:
        return file.read(), file.read_masks() != 0


@pytest.mark.parametrize("nodata", [None, "3"])
@pytest.mark.parametrize(("item", "applies"), [("1 2 3", True), ("1 2", False), ("9 x 3", True), ("1 2 300", True)])
def test_gdals_nodata_values_exclude_pixels_in_all_bands(nodata, item, applies):
    text = f'<GDALMetadata><Item name="NODATA_VALUES">{item}</Item></GDALMetadata>'
    tags = image(4, 1, 3) | {262: tag(3, 2), 42112: tag(2, text)} | ({42113: tag(2, nodata)} if nodata else {})
    data = tiff_of(tags, bytes([1, 2, 3, 1, 2, 4, 9, 2, 3, 3, 3, 3]))
    stored, valid = values_of(data)
    array = ps.open(data, unpack=True)
    np.testing.assert_array_equal(array.packed[...], stored)
    np.testing.assert_array_equal(array[...], np.where(valid, stored, np.float32("nan")))
    np.testing.assert_array_equal(array.vindex[[2, 0], [0, 0], [0, 2]], array[...][[2, 0], [0, 0], [0, 2]])
    chosen = ps.open(data, unpack=True, bands=[2])
    np.testing.assert_array_equal(chosen[...], array[2:])
    assert (array.nodata is None) == (not applies and nodata is None)
    got = ps.read_window(array.packed, shape=(1, 1), resampling="average", transform=(1, 0, 0, 0, -1, 0))
    means = [np.floor(band[seen].mean() + 0.5) for band, seen in zip(stored, valid, strict=True)]
    moved = [mean + 1 if nodata and mean == float(nodata) else mean for mean in means]  # so that it is not nodata
    assert got[:, 0, 0].tolist() == moved


def test_other_formats_have_no_such_options(tmp_path):
    ps.save(tmp_path / "x.zarr", np.arange(4))
    np.save(tmp_path / "x.npy", np.arange(4))
    for name, options in [
        ("x.zarr", {"level": 3}),
        ("x.zarr", {"mask": True}),
        ("x.zarr", {"bands": [9]}),
        ("x.zarr", {"unpack": True}),
        ("x.npy", {"page": 1}),
    ]:
        with pytest.raises(ps.InvalidArgumentError, match=r"options of TIFFs"):
            ps.open(tmp_path / name, **options)
    with pytest.raises(ps.NotFoundError):
        ps.open(tmp_path / "nothing", level=1)
    with pytest.raises(ps.InvalidArgumentError, match="layout"):
        ps.open(tiff_of(image(2, 1), b"ab"), unpack=True, layout="native")
    with pytest.raises(ps.UnsupportedError, match="device"):
        ps.open(tiff_of(image(2, 1), b"ab"), unpack=True, device="cuda")


def test_save_has_the_option_overwrite(tmp_path):
    values = np.arange(12, dtype="u1").reshape(1, 3, 4)
    ps.save(tmp_path / "x.tif", values, overwrite=True)
    ps.save(tmp_path / "x.tif", values + 1, overwrite=True)
    np.testing.assert_array_equal(ps.open(tmp_path / "x.tif")[...], values + 1)
    with pytest.raises(ps.Error):
        ps.save(tmp_path / "x.tif", values, overwrite=False)


DTYPES = ["u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8", "c8", "c16"]
CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "nodata": {"nodata": 100},
    "NaN": {"nodata": float("nan")},
    "scaled": {"scales": [0.1, 1, -2.5], "offsets": [0, 3.3, -1e3], "nodata": 100},
    "alike": {"scales": [0.25] * 3},
    "mask": {"mask": True, "scales": [1, 2, 3]},
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_values_of_every_type_equal_numpys(tmp_path, dtype, case):
    rng, kind, options = np.random.default_rng(7), np.dtype(dtype), dict(CASES[case])
    stored = rng.integers(1, 120, (3, 50, 40)).astype(kind)
    if kind.kind == "c":
        stored += 1j * (rng.random(stored.shape) < 0.5)
    if case == "NaN":
        if kind.kind not in "fc":
            return
        stored[:, 10:30] = np.nan
    stored[:, :9, 5:20] = 100
    valid = np.ones(stored.shape, bool)
    if "nodata" in options:
        valid = ~np.isnan(stored) if case == "NaN" else stored != 100
    if options.get("mask"):
        options["mask"] = rng.random(stored.shape[1:]) < 0.7
        valid &= options["mask"]
    if "scales" in options:
        wanted = stored.astype("c16" if kind.kind == "c" else "f8")
        wanted = wanted * np.array(options["scales"])[:, None, None]
        wanted = wanted + np.array(options.get("offsets", [0] * 3))[:, None, None]
    else:
        wanted = stored if kind.kind in "fc" else stored.astype("f4" if kind.itemsize <= 2 else "f8")
    wanted = np.where(valid, wanted, np.asarray(np.nan, wanted.dtype))
    for interleave, compress in (("pixel", "deflate"), ("band", "lzw"), ("pixel", None)):
        where = tmp_path / "x.tif"
        ps.save(where, stored, tiles=16, interleave=interleave, compress=compress, overwrite=True, **options)
        array = ps.open(where, unpack=True)
        for key in (..., np.s_[::-1, 3:44:7, ::-2], np.s_[1], np.s_[:, 20, 10], np.s_[2, None, 5:30]):
            got = np.asarray(array[key])
            assert got.dtype == wanted.dtype
            np.testing.assert_array_equal(got, wanted[key])


def test_rows_that_were_never_written_are_missing(tmp_path):
    to = ps.create_array(tmp_path / "x.tif", shape=(2, 64, 64), dtype="i2", nodata=-5, tiles=16, scales=[2, 3])
    to[:, 16:32] = np.ones((2, 16, 64), "i2")
    to.close()
    got = ps.open(tmp_path / "x.tif", unpack=True)[...]
    np.testing.assert_array_equal(got[:, 16:32], np.broadcast_to([[[2.0]], [[3.0]]], (2, 16, 64)))
    assert np.isnan(np.delete(got, np.s_[16:32], axis=1)).all()


def test_means_of_large_unpacked_images_equal_their_values(tmp_path):
    stored = np.random.default_rng(0).integers(0, 100, (3, 1100, 1100)).astype("u1")
    ps.save(tmp_path / "x.tif", stored, nodata=5, scales=[1, 2, 3], overviews=None, tiles=512)
    array = ps.open(tmp_path / "x.tif", unpack=True)
    ps.save(tmp_path / "x.zarr", array[...])
    wanted = ps.read_window(ps.open(tmp_path / "x.zarr"), shape=(700, 300), resampling="average", nodata=np.nan)
    np.testing.assert_array_equal(ps.read_window(array, shape=(700, 300), resampling="average"), wanted)
