"""Masks, JPEG and samples of odd width in written TIFFs, read again by GDAL (by rasterio), tifffile and Penstock."""

from __future__ import annotations

import numpy as np
import penstock as ps
import pytest
from tiff_writing_cases import UTM, check_cog, check_gdal_finds_a_cog, check_layout, halved, picture

ODD_BITS = [1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 15, 16, 17, 24, 31, 32]


def bounded(bits: int, shape: tuple[int, ...]) -> np.ndarray:
    """Values that need all bits."""
    dtype = np.uint8 if bits <= 8 else np.uint16 if bits <= 16 else np.uint32
    return np.random.default_rng(bits).integers(0, 1 << bits, shape).astype(dtype)


@pytest.mark.parametrize("bits", ODD_BITS)
def test_samples_of_any_width_are_read_alike_everywhere(tmp_path, bits):
    rasterio = pytest.importorskip("rasterio")
    tifffile = pytest.importorskip("tifffile")
    pytest.importorskip("imagecodecs")
    path = tmp_path / "x.tif"
    for interleave, compress, bands in [
        ("pixel", "deflate", 3),
        ("band", "lzw", 2),
        ("pixel", "packbits", 1),
        ("band", "none", 3),
        ("pixel", "zstd", 2),
    ]:
        values = bounded(bits, (bands, 61, 45))
        ps.save(path, values, tiles=32, bits=bits, interleave=interleave, compress=compress)
        ours = ps.open(path)
        assert ours.dtype == values.dtype
        np.testing.assert_array_equal(ours[...], values)
        np.testing.assert_array_equal(ps.open(path, level=1)[...], halved(values))
        with rasterio.open(path) as file:
            np.testing.assert_array_equal(file.read(), values)
            if bits not in (8, 16, 32):
                assert file.tags(1, ns="IMAGE_STRUCTURE")["NBITS"] == str(bits)
        with tifffile.TiffFile(path) as file:
            assert file.pages[0].bitspersample == bits
            theirs = file.pages[0].asarray()
            theirs = np.moveaxis(theirs, -1, 0) if bands > 1 and interleave == "pixel" else theirs
            if bits != 24 or int(tifffile.__version__.split(".")[0]) >= 2026:  # tifffile 2025.5 reverses their bytes
                np.testing.assert_array_equal(theirs.reshape(values.shape), values)


def test_masked_arrays_become_nodata_in_rows_too(tmp_path):
    path, values = tmp_path / "x.tif", np.ma.masked_less(np.arange(32 * 32).reshape(1, 32, 32), 40)
    how = {"shape": values.shape, "dtype": "i2", "tiles": 16, "overwrite": True}
    with ps.create_array(path, nodata=-1, **how) as made:
        made[:, :16] = values[:, :16]
        made[:, 16:] = values[:, 16:]
    np.testing.assert_array_equal(ps.load(path), values.filled(-1))
    with ps.create_array(path, **how) as made:
        with pytest.raises(ps.InvalidArgumentError, match="masked elements"):
            made[:, :16] = values[:, :16]
        made[:, 16:] = values[:, 16:]
    with ps.create_array(path, mask=True, **how) as made:
        made.write(..., values, ~values.mask[0])
    np.testing.assert_array_equal(ps.open(path, mask=True)[0] == 0, values.mask[0])


@pytest.mark.parametrize("nodata", [float("nan"), -1, 300, "none"])
def test_nodata_that_masked_values_cannot_have_is_refused(tmp_path, nodata):
    values = np.ma.masked_equal(np.arange(12, dtype="u1").reshape(3, 4), 3)
    with pytest.raises(ps.InvalidArgumentError, match="is not a value of uint8"):
        ps.save(tmp_path / "a.tif", values, nodata=nodata)


def test_values_of_too_many_bits_are_refused_with_their_place(tmp_path):
    values = np.zeros((1, 40, 40), "u1")
    values[0, 35, 3] = 9
    with pytest.raises(ps.InvalidArgumentError, match="row 3, column 3 of the tile needs more than the 3 bits"):
        ps.save(tmp_path / "x.tif", values, tiles=32, bits=3)
    assert not (tmp_path / "x.tif").exists()
    for bits, dtype, words in [
        (9, "u1", "9 bits are not uint8"),
        (1, "u2", "samples of 1 bit are not uint16"),
        (8, "u2", "8 bits are not uint16"),
        (4, "i1", "not int8"),
        (4, "f4", "not float32"),
        (40, "u8", "not uint64"),
    ]:
        with pytest.raises(ps.InvalidArgumentError, match=words):
            ps.save(tmp_path / "x.tif", np.zeros((1, 16, 16), dtype), bits=bits)
    with pytest.raises(ps.InvalidArgumentError, match="predictors do not support samples of 4 bits"):
        ps.save(tmp_path / "x.tif", np.zeros((1, 16, 16), "u1"), bits=4, predictor=2)


def test_palettes_have_a_colour_for_each_value(tmp_path):
    rasterio = pytest.importorskip("rasterio")
    colors = np.arange(48).reshape(16, 3) * 1000
    values = bounded(4, (1, 20, 20))
    ps.save(tmp_path / "x.tif", values, bits=4, colormap=colors)
    ours = ps.open(tmp_path / "x.tif")
    np.testing.assert_array_equal(ours[...], values)
    assert np.asarray(ours.colormap).shape == (16, 3)
    with rasterio.open(tmp_path / "x.tif") as file:
        theirs = np.array([file.colormap(1)[i][:3] for i in range(16)])
        assert np.abs(theirs - colors / 257).max() <= 1
    with pytest.raises(ps.InvalidArgumentError, match="at most 16"):
        ps.save(tmp_path / "y.tif", values, bits=4, colormap=np.zeros((17, 3), int))


def some_mask(shape: tuple[int, int]) -> np.ndarray:
    y, x = np.mgrid[: shape[0], : shape[1]]
    disc = (y - shape[0] / 2) ** 2 + (x - shape[1] / 2) ** 2 < (min(shape) / 2.3) ** 2
    return disc & (np.random.default_rng(4).random(shape) < 0.9)


def halved_mask(mask: np.ndarray) -> np.ndarray:
    padded = np.pad(mask, [(0, mask.shape[0] % 2), (0, mask.shape[1] % 2)])
    return padded[::2, ::2] | padded[1::2, ::2] | padded[::2, 1::2] | padded[1::2, 1::2]


def halved_where(values: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """The mean of the valid pixels of each four, or of all four if none is valid."""
    as_floats = np.where(mask, values.astype(float), np.nan)
    with np.errstate(invalid="ignore"):
        some = halved(as_floats)
    edges = halved(values)
    return np.where(np.isnan(some), edges, np.floor(np.nan_to_num(some) + 0.5)).astype(values.dtype)


def check_masked(path, values: np.ndarray, mask: np.ndarray) -> None:
    rasterio = pytest.importorskip("rasterio")
    number = 0
    overviews = len(ps.open(path).overviews)
    while True:
        ours = ps.open(path, level=number)
        np.testing.assert_array_equal(ours[...], values)
        np.testing.assert_array_equal(ps.open(path, level=number, mask=True)[0], np.where(mask, 255, 0))
        level = {} if number == 0 else {"overview_level": number - 1}
        with rasterio.open(path, **level) as file:
            np.testing.assert_array_equal(file.read(), values)
            np.testing.assert_array_equal(file.dataset_mask(), np.where(mask, 255, 0))
            assert file.mask_flag_enums[0] == [rasterio.enums.MaskFlags.per_dataset]
        if number == overviews:
            return
        number += 1
        values, mask = halved_where(values, mask), halved_mask(mask)


@pytest.mark.parametrize("interleave", ["pixel", "band"])
@pytest.mark.parametrize("big", [False, True])
def test_masks_and_overviews_equal_gdals(tmp_path, interleave, big):
    path = tmp_path / "x.tif"
    values, mask = picture("i2", (3, 203, 150)), some_mask((203, 150))
    ps.save(path, values, mask=mask, tiles=32, interleave=interleave, bigtiff=big, crs=32633, transform=UTM)
    assert ps.open(path).has_mask
    check_masked(path, values, mask)
    check_cog(path)
    check_layout(path, interleave == "band")


@pytest.mark.parametrize("interleave", ["pixel", "band"])
@pytest.mark.parametrize(("bands", "dtype"), [(4, "uint8"), (2, "uint8"), (2, "uint16")])
def test_means_are_of_opaque_pixels_as_gdals(tmp_path, bands, dtype, interleave):
    rasterio = pytest.importorskip("rasterio")
    values = np.random.default_rng(bands).integers(0, np.iinfo(dtype).max, (bands, 160, 96)).astype(dtype)
    values[-1][np.random.default_rng(1).random((160, 96)) < 0.6] = 0
    values[-1, :64] = 255
    colors = {"photometric": "RGB" if bands == 4 else "MINISBLACK", "alpha": "YES"}
    shape = {"height": 160, "width": 96, "count": bands, "dtype": dtype, "transform": rasterio.Affine(*UTM)}
    with rasterio.open(tmp_path / "theirs.tif", "w", driver="GTiff", **shape, **colors) as file:
        file.write(values)
        file.build_overviews([2], rasterio.enums.Resampling.average)
    with rasterio.open(tmp_path / "theirs.tif", overview_level=0) as file:
        theirs = file.read()
    opaque = (values[-1] != 0).reshape(80, 2, 48, 2).any((1, 3))
    how = {"alpha": True, "tiles": 32, "interleave": interleave}
    ps.save(tmp_path / "ours.tif", values, **how)
    with ps.create_array(tmp_path / "rows.tif", shape=values.shape, dtype=dtype, **how) as rows:
        for y in (96, 0, 64, 128, 32):
            rows[:, y : y + 32] = values[:, y : y + 32]
    names = ["ours.tif", "rows.tif"]
    if interleave == "band":
        names.append("bands.tif")
        with ps.create_array(tmp_path / "bands.tif", shape=values.shape, dtype=dtype, **how) as rows:
            for band, y in ((0, 0), (bands - 1, 32), (bands - 1, 0)):
                rows[band, y : y + 32] = values[band, y : y + 32]
            rows[0, 32:] = values[0, 32:]
            for band in range(1, bands - 1):
                rows[band] = values[band]
            rows[bands - 1, 64:] = values[bands - 1, 64:]
    for name in names:
        made = ps.open(tmp_path / name, level=1)[...]
        np.testing.assert_array_equal(made[:, opaque], theirs[:, opaque])
        np.testing.assert_array_equal(made[-1] != 0, opaque)


def test_alpha_does_not_change_other_means(tmp_path):
    values = picture("u1", (4, 64, 64))
    values[-1, 8:40] = 0
    for options in ({"nodata": 7}, {"mask": np.ones((64, 64), bool)}):
        for alpha in (False, True):
            ps.save(tmp_path / f"{alpha}.tif", values, alpha=alpha, tiles=32, photometric="rgb", **options)
        np.testing.assert_array_equal(ps.open(tmp_path / "True.tif", level=1), ps.open(tmp_path / "False.tif", level=1))


def test_gdals_own_validator_finds_a_cog_with_a_mask(tmp_path):
    path = tmp_path / "x.tif"
    ps.save(path, picture("u1", (3, 700, 600)), mask=some_mask((700, 600)), tiles=128, crs=32633, transform=UTM)
    check_gdal_finds_a_cog(path)


def test_masked_rows_may_be_written_in_any_order(tmp_path):
    path = tmp_path / "x.tif"
    values, mask = picture("u2", (2, 160, 100)), some_mask((160, 100))
    with ps.create_array(path, shape=values.shape, dtype="u2", tiles=32, mask=True) as a:
        for y in (96, 0, 64, 128, 32):
            a.write(np.s_[:, y : y + 32], values[:, y : y + 32], mask[y : y + 32])
    check_masked(path, values, mask)
    with ps.create_array(path, shape=values.shape, dtype="u2", tiles=32, mask=True, overwrite=True) as a:
        a[:, 32:64] = values[:, 32:64]
    there = np.zeros((160, 100), bool)
    there[32:64] = True
    np.testing.assert_array_equal(ps.open(path, mask=True)[0] == 255, there)
    np.testing.assert_array_equal(ps.open(path, mask=True, level=1)[0] == 255, halved_mask(there))


def test_masks_that_do_not_fit_are_refused(tmp_path):
    values = np.zeros((2, 32, 32), "u1")
    with pytest.raises(ps.InvalidArgumentError, match="the mask has the shape"):
        ps.save(tmp_path / "x.tif", values, mask=np.ones((32, 31), bool))
    with pytest.raises(ps.InvalidArgumentError, match="bool or integers"):
        ps.save(tmp_path / "x.tif", values, mask=np.ones((32, 32)))
    with pytest.raises(ps.InvalidArgumentError, match="needs data="):
        ps.create_array(tmp_path / "x.tif", shape=(32, 32), dtype="u1", mask=np.ones((32, 32), bool))
    with ps.create_array(tmp_path / "x.tif", shape=(2, 32, 32), dtype="u1", interleave="band", mask=True) as a:
        with pytest.raises(ps.InvalidArgumentError, match="share a mask: all 2"):
            a[0] = values[0]
        a[...] = values
    with ps.create_array(tmp_path / "y.tif", shape=(32, 32), dtype="u1") as a:
        with pytest.raises(ps.InvalidArgumentError, match="without a mask"):
            a.write(np.s_[:], values[0], np.ones((32, 32), bool))
        a[:] = 1


def photograph(bands: int, high: int = 300, wide: int = 260) -> np.ndarray:
    y, x = np.mgrid[:high, :wide]
    smooth = np.stack([128 + 90 * np.sin(x / (31 + 9 * b)) * np.cos(y / (40 - 6 * b)) for b in range(bands)])
    return (smooth + np.random.default_rng(1).normal(0, 1.5, smooth.shape)).clip(0, 255).astype("u1")


@pytest.mark.parametrize("interleave", ["pixel", "band"])
@pytest.mark.parametrize("bands", [1, 2, 3, 4])
def test_jpeg_is_close_to_the_values_and_alike_for_others(tmp_path, bands, interleave):
    rasterio = pytest.importorskip("rasterio")
    tifffile = pytest.importorskip("tifffile")
    pytest.importorskip("imagecodecs")
    path = tmp_path / "x.tif"
    values = photograph(bands)
    try:
        ps.save(path, values, tiles=64, compress="jpeg", interleave=interleave)
    except ps.UnsupportedError as missing:
        pytest.skip(f"JPEG is not written here: {missing}")
    for number, level in enumerate([values, halved(values)]):
        ours = ps.open(path, level=number)[...].astype(int)
        assert np.abs(ours - level).mean() < 3
        with rasterio.open(path, **({} if number == 0 else {"overview_level": 0})) as file:
            theirs = file.read().astype(int)
            assert file.profile["compress"].lower() == "jpeg"
            assert bands != 3 or interleave == "band" or file.profile["photometric"].lower() == "ycbcr"
        # Another libjpeg may round chroma differently by one or two; that of older builds of GDAL does not smooth it at
        # all.
        bound = 4
        if bands == 3 and interleave == "pixel":
            with tifffile.TiffFile(path) as file:
                others = np.moveaxis(file.series[0].levels[number].asarray().astype(int), -1, 0)
            assert np.abs(ours - others).max() <= bound
            bound = max(bound, np.abs(others - theirs).max())
        assert np.abs(ours - theirs).max() <= bound
    check_cog(path)
    sizes = []
    for quality in (30, 75, 95):
        ps.save(path, values, tiles=64, compress="jpeg", level=quality, interleave=interleave)
        sizes.append(path.stat().st_size)
    assert sizes == sorted(sizes)
    assert sizes[0] < 0.7 * sizes[2]


def test_jpeg_with_a_mask_is_a_cog(tmp_path):
    rasterio = pytest.importorskip("rasterio")
    path = tmp_path / "x.tif"
    mask = some_mask((300, 260))
    try:
        ps.save(path, photograph(3), mask=mask, tiles=128, compress="jpeg", crs=32633, transform=UTM)
    except ps.UnsupportedError as missing:
        pytest.skip(f"JPEG is not written here: {missing}")
    check_cog(path)
    with rasterio.open(path) as file:
        np.testing.assert_array_equal(file.dataset_mask() == 255, mask)
    check_gdal_finds_a_cog(path)


def test_values_that_jpeg_cannot_store_are_refused(tmp_path):
    for values, options, words in [
        (np.zeros((1, 16, 16), "u2"), {}, "JPEG supports uint8"),
        (np.zeros((5, 16, 16), "u1"), {}, "at most 4 bands"),
        (np.zeros((1, 16, 16), "u1"), {"bits": 4}, "JPEG supports uint8"),
        (np.zeros((1, 16, 16), "u1"), {"level": 101}, "1 to 100"),
        (np.zeros((1, 16, 16), "u1"), {"predictor": 2}, "predictor"),
        (np.zeros((3, 16, 16), "u1"), {"photometric": "minisblack"}, "must be RGB"),
        (np.zeros((1, 16, 16), "u1"), {"colormap": np.zeros((9, 3), int)}, "palette indexes"),
    ]:
        with pytest.raises((ps.InvalidArgumentError, ps.UnsupportedError), match=words):
            ps.save(tmp_path / "x.tif", values, compress="jpeg", **options)


@pytest.mark.parametrize(
    ("value", "source", "dtype"),
    [(300, "f4", "u1"), (float("nan"), "f8", "i2"), (-1, "i4", "u1"), (float("inf"), "f2", "u4"), (2.0**63, "f8", "i8"),
     (1j, "c8", "f4")],
)  # fmt: skip
def test_values_that_the_dtype_does_not_have_are_refused(tmp_path, value, source, dtype):
    values = np.full((2, 700, 900), 3, source)
    values[-1, -1, -1] = value
    path = tmp_path / "a.tif"
    for data in (values, ps.create_array({}, data=values)):
        with pytest.raises(ps.InvalidArgumentError, match=r"does not have|are not written as"):
            ps.save(path, data, dtype=dtype)
    assert not path.exists()
    values[-1, -1, -1] = 7
    if source != "c8":
        ps.save(path, values, dtype=dtype)
        np.testing.assert_array_equal(ps.open(path)[...], values)
        ps.save(path, np.ma.masked_equal(values, 7), dtype=dtype, nodata=9)
        assert ps.open(path)[-1, -1, -1] == 9
