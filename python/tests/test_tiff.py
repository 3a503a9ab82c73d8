"""TIFF against its reference writers: the matrix of what they write, the values of real files, and damaged files."""

from __future__ import annotations

import hashlib
import io
import itertools
import json
import pickle
import struct
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
from conftest import either, matrix
from tiff_bytes import image, tag, tiff_of

ROOT = Path(__file__).resolve().parents[2]
SELECTION = ROOT / "tests" / "data" / "tiff"

DTYPES = ["u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8", "c8", "c16"]
LAYOUTS: dict[str, dict[str, Any]] = {
    "tiles": {"tile": (32, 48)},
    "strips": {"rowsperstrip": 13},
    "one strip": {},
}
CODECS: dict[str, dict[str, Any]] = {
    "none": {},
    "deflate": {"compression": "zlib"},
    "lzw": {"compression": "lzw"},
    "zstd": {"compression": "zstd"},
    "packbits": {"compression": "packbits"},
    "lzma": {"compression": "lzma", "compressionargs": {"level": 0}},
}


def picture(dtype: str, shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    """Smooth values with some noise, over most of the type's range."""
    random = np.random.default_rng(seed)
    steps = random.integers(-3, 4, shape).cumsum(-1).cumsum(-2 if len(shape) > 1 else -1)
    kind = np.dtype(dtype).kind
    if kind in "iu":
        return (steps * 41).astype(dtype)
    if kind == "c":
        return (steps * 0.37 + 1j * steps[..., ::-1] * 1.5).astype(dtype)
    return (steps / 7).astype(dtype)


def band_first(values: np.ndarray, planar: bool) -> np.ndarray:
    if values.ndim == 2:
        return values[None]
    return values if planar else np.moveaxis(values, -1, 0)


@matrix
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_files_of_tifffile_have_their_values(tmp_path, codec, layout):
    tifffile = pytest.importorskip("tifffile")
    pytest.importorskip("imagecodecs")
    read = 0
    dtypes = DTYPES[::3] if codec == "lzma" else DTYPES  # lzma is slow to write
    matrix = [
        (dtype, order, big, samples)
        for dtype, order, samples in itertools.product(dtypes, "<>", ("gray", "rgb", "planes", "two", "five"))
        for big in either(codec, layout, dtype, order, samples)
    ]
    for dtype, order, big, samples in matrix:
        predictors = [1]
        kind = np.dtype(dtype).kind
        if codec in ("deflate", "lzw", "zstd"):
            predictors += [2] * (kind in "iu") + [3] * (kind == "f")
        shape = {
            "gray": (83, 111),
            "rgb": (83, 111, 3),
            "planes": (3, 83, 111),
            "two": (61, 67, 2),
            "five": (31, 67, 5),
        }[samples]
        planar = samples == "planes"
        values = picture(dtype, shape)
        for predictor in predictors:
            path = tmp_path / "x.tif"
            tifffile.imwrite(
                path,
                values,
                byteorder=order,
                bigtiff=big,
                photometric="minisblack",
                predictor=predictor,
                planarconfig=None if samples == "gray" else "separate" if planar else "contig",
                metadata=None,
                **LAYOUTS[layout],
                **CODECS[codec],
            )
            array = ps.open(path)
            wanted = band_first(values, planar)
            label = f"{codec} {layout} {order}{dtype} {samples} p{predictor}"
            assert array.shape == wanted.shape, label
            assert array.dtype == wanted.dtype, label
            np.testing.assert_array_equal(array[...], wanted, err_msg=label)
            np.testing.assert_array_equal(array[:, 5:40, 7:60], wanted[:, 5:40, 7:60], err_msg=label)
            np.testing.assert_array_equal(array[:, ::-3, 50:2:-2], wanted[:, ::-3, 50:2:-2], err_msg=label)
            rows = [3, 1, 30]
            np.testing.assert_array_equal(array.oindex[:, rows, :], wanted[:, rows, :], err_msg=label)
            native = ps.open(path, layout="native")
            assert native.shape == values.shape, label
            np.testing.assert_array_equal(native[...], values, err_msg=label)
            if samples == "five":
                np.testing.assert_array_equal(ps.open(path, bands=[3, 0])[...], wanted[[3, 0]], err_msg=label)
            read += 1
    assert read >= 10 * len(dtypes)


@pytest.mark.parametrize("bits", [1, 2, 3, 4, 5, 7, 8, 9, 10, 12, 14, 15, 16, 24, 31])
def test_odd_widths_are_unpacked(tmp_path, bits):
    """The test packs the strips: most significant bit first, each row from a byte boundary."""
    width, height, samples = 37, 11, 2
    random = np.random.default_rng(bits)
    values = random.integers(0, 1 << bits, (height, width, samples), dtype=np.uint32)
    rows = []
    for row in values.reshape(height, -1):
        text = "".join(f"{int(value):0{bits}b}" for value in row)
        text += "0" * (-len(text) % 8)
        rows.append(int(text, 2).to_bytes(len(text) // 8, "big"))
    data = b"".join(rows)
    if bits == 16:  # these have a byte order
        data = values.astype(">u2").tobytes()
    path = tmp_path / "x.tif"
    path.write_bytes(plain_tiff(data, width, height, samples, bits))
    array = ps.open(path)
    assert array.dtype == np.dtype(f"u{1 if bits <= 8 else 2 if bits <= 16 else 4}")
    np.testing.assert_array_equal(array[...], np.moveaxis(values, -1, 0))
    np.testing.assert_array_equal(array[1, 2:9, 3:30:4], values[2:9, 3:30:4, 1])


@pytest.mark.parametrize("is_signed", [False, True], ids=["unsigned", "signed"])
@pytest.mark.parametrize("bits", [*range(1, 8), *range(9, 16), *range(17, 32), *range(33, 64)])
def test_rows_of_any_length_are_unpacked_to_their_last_bit(bits, is_signed):
    """Numbers whose bits are all set are next to others, so that a bit too many or too few would show."""
    random = np.random.default_rng(bits)
    least, most = (-(1 << bits - 1), (1 << bits - 1) - 1) if is_signed else (0, (1 << bits) - 1)
    for width in [1, 2, 3, 7, 8, 9, 23, 64, 71]:
        values = random.integers(least, most, (2, width), dtype="i8" if is_signed else "u8", endpoint=True)
        values[0, ::2] = -1 if is_signed else most
        rows = ("".join(f"{int(value) % (1 << bits):0{bits}b}" for value in row) for row in values)
        data = b"".join(
            int(row.ljust(-(-len(row) // 8) * 8, "0"), 2).to_bytes(-(-len(row) // 8), "big") for row in rows
        )
        array = ps.open(plain_tiff(data, width, 2, 1, bits, {339: 2 if is_signed else 1}), layout="native")
        np.testing.assert_array_equal(array[...], values, err_msg=f"{width} numbers")


def plain_tiff(
    data: bytes, width: int, height: int, samples: int, bits: int, extra: dict[int, int] | None = None
) -> bytes:
    """A big-endian TIFF of one uncompressed strip; all samples have the same number of bits."""
    tags = {256: width, 257: height, 259: 1, 262: 1, 277: samples, 278: height, 279: len(data), 284: 1} | (extra or {})
    count = len(tags) + 2
    body = 8 + 2 + 12 * count + 4
    out = b"MM\0*" + struct.pack(">I", 8) + struct.pack(">H", count)
    entries = [(tag, struct.pack(">HHII", tag, 4, 1, value)) for tag, value in tags.items()]
    depth = (
        struct.pack(">HHI", 258, 3, samples) + struct.pack(">HH", bits, bits if samples > 1 else 0)
        if samples <= 2
        else struct.pack(">HHIHH", 258, 3, 1, bits, 0)
    )
    entries += [(258, depth), (273, struct.pack(">HHII", 273, 4, 1, body))]
    return out + b"".join(entry for _, entry in sorted(entries)) + struct.pack(">I", 0) + data


def mask_file(planes: np.ndarray, flags: dict[int, int]) -> bytes:
    """A file with masks, and GDAL's metadata that assigns them to bands."""
    tifffile = pytest.importorskip("tifffile")
    items = "".join(f'<Item name="INTERNAL_MASK_FLAGS_{band}">{each}</Item>' for band, each in flags.items())
    to = io.BytesIO()
    metadata = f"<GDALMetadata>{items}</GDALMetadata>"
    layout = {"photometric": "minisblack", "planarconfig": "separate" if len(planes) > 1 else None}
    tifffile.imwrite(to, planes.squeeze(), metadata=None, extratags=[(42112, 2, 0, metadata, False)], **layout)
    return to.getvalue()


def test_fill_order_reverses_the_bits(tmp_path):
    values = np.arange(48, dtype="u1").reshape(6, 8)
    reversed_bits = np.packbits(np.unpackbits(values.reshape(-1, 1), axis=1)[:, ::-1], axis=1).tobytes()
    (tmp_path / "x.tif").write_bytes(plain_tiff(reversed_bits, 8, 6, 1, 8, {266: 2}))
    np.testing.assert_array_equal(ps.open(tmp_path / "x.tif")[0], values)


def test_bytes_and_file_objects_are_files(tmp_path):
    data = plain_tiff(bytes(range(48)), 8, 6, 1, 8)
    wanted = np.arange(48, dtype="u1").reshape(1, 6, 8)
    np.testing.assert_array_equal(ps.open(data)[...], wanted)
    np.testing.assert_array_equal(ps.open(io.BytesIO(data))[...], wanted)
    (tmp_path / "no_name_of_a_tiff").write_bytes(data)
    with (tmp_path / "no_name_of_a_tiff").open("rb") as file:
        np.testing.assert_array_equal(ps.open(file)[...], wanted)
    array = ps.open(tmp_path / "no_name_of_a_tiff", layout="native")
    assert array.format == "tiff"
    assert array.read_only
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(array))[...], wanted[0])


def test_a_file_that_changed_after_it_was_opened_is_refused(tmp_path):
    path = tmp_path / "x.tif"
    path.write_bytes(plain_tiff(bytes(range(48)), 8, 6, 1, 8))
    array = ps.open(path)
    path.write_bytes(plain_tiff(bytes(48), 8, 6, 1, 8) + b"more")
    with pytest.raises(ps.ConflictError):
        array[...]


def test_truncated_and_damaged_files_are_refused_or_read():
    data = plain_tiff(bytes(range(48)), 8, 6, 1, 8)
    for length in range(8, len(data)):
        with pytest.raises(ps.Error):
            ps.open(data[:length])[...]
    random = np.random.default_rng(5)
    refused = 0
    for _ in range(2000):
        damaged = bytearray(data)
        for _ in range(random.integers(1, 5)):
            damaged[random.integers(4, len(data) - 48)] = random.choice([0, 1, 0x7F, 0xFF, random.integers(256)])
        try:
            array = ps.open(bytes(damaged))
            if array.nbytes < 1 << 20:
                array[...]
        except ps.Error:
            refused += 1
    assert refused > 500


def test_overviews_masks_and_georeferencing_are_as_rasterio_shows_them(tmp_path):
    rasterio = pytest.importorskip("rasterio")
    from rasterio.enums import Resampling

    values = picture("u2", (2, 300, 260))
    path = tmp_path / "x.tif"
    with rasterio.Env(GDAL_TIFF_INTERNAL_MASK=True):
        with rasterio.open(
            path, "w", driver="GTiff", width=260, height=300, count=2, dtype="uint16", crs="EPSG:32633",
            transform=rasterio.Affine(10, 0, 500000, 0, -10, 4600000), nodata=7, tiled=True, blockxsize=64,
            blockysize=64, compress="deflate", predictor=2, interleave="pixel",
        ) as to:  # fmt: skip
            to.write(values)
            to.scales, to.offsets = (0.5, 2.0), (1.0, -3.0)
            to.set_band_description(1, "red")
            to.update_tags(KIND="test")
            to.write_mask(values[0] > 0)
        with rasterio.open(path, "r+") as to:
            to.build_overviews([2, 4], Resampling.nearest)
    array = ps.open(path)
    np.testing.assert_array_equal(array[...], values)
    with rasterio.open(path) as source:
        assert array.transform == source.transform
        assert array.bounds == tuple(source.bounds)
        assert array.nodata == source.nodata
        assert array.scales == source.scales
        assert array.offsets == source.offsets
        assert array.descriptions == ("red", None)
        assert array.gdal_metadata["KIND"] == "test"
        assert array.epsg == 32633
        for level, factor in ((1, 2), (2, 4)):
            reduced = ps.open(path, level=level)
            assert reduced.shape[1:] == array.overviews[level - 1]
            with rasterio.open(path, overview_level=level - 1) as small:
                np.testing.assert_array_equal(reduced[...], small.read())
                assert reduced.transform[0] == pytest.approx(10 * factor, rel=0.01)
        assert array.has_mask
        mask = ps.open(path, mask=True)
        assert mask.shape == (1, 300, 260)
        np.testing.assert_array_equal(mask[0], source.dataset_mask())
    np.testing.assert_allclose(array.unpacked(masked=False)[1], values[1] * 2.0 - 3.0)
    x = array.coords()["x"]
    assert x[0] == 500005
    assert len(x) == 260


def test_overviews_and_masks_of_sidecar_files_are_as_rasterio_shows_them(tmp_path):
    rasterio = pytest.importorskip("rasterio")
    from rasterio.enums import Resampling

    values = picture("u2", (2, 300, 260))
    path = tmp_path / "x.tif"
    with rasterio.Env(GDAL_TIFF_INTERNAL_MASK=False, TIFF_USE_OVR=True):
        with rasterio.open(
            path, "w", driver="GTiff", width=260, height=300, count=2, dtype="uint16", crs="EPSG:32633",
            transform=rasterio.Affine(10, 0, 500000, 0, -10, 4600000), tiled=True, blockxsize=64, blockysize=64,
        ) as to:  # fmt: skip
            to.write(values)
            to.write_mask(values[0] > 0)
        with rasterio.open(path, "r+") as to:
            to.build_overviews([2, 4, 8], Resampling.nearest)
    assert (tmp_path / "x.tif.ovr").exists()
    assert (tmp_path / "x.tif.msk").exists()
    array = ps.open(path)
    np.testing.assert_array_equal(array[...], values)
    assert array.overviews == ((150, 130), (75, 65), (38, 33))
    assert array.has_mask
    with rasterio.open(path) as source:
        np.testing.assert_array_equal(ps.open(path, mask=True)[0], source.dataset_mask())
    for level in (1, 2, 3):
        small = ps.open(path, level=level)
        with rasterio.open(path, overview_level=level - 1) as source:
            np.testing.assert_array_equal(small[...], source.read())
            np.testing.assert_array_equal(ps.open(path, level=level, bands=[1])[0], source.read(2))
        assert small.epsg == 32633
        assert small.overviews == array.overviews
        assert small.bounds == pytest.approx(array.bounds)
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(small))[...], small[...])
        assert small.has_mask
        with rasterio.open(path, overview_level=level - 1) as source:
            np.testing.assert_array_equal(ps.open(path, level=level, mask=True)[0], source.dataset_mask())
    got = ps.read_window(array, shape=(75, 65), resampling="average")
    with rasterio.open(path) as source:
        wanted = source.read(out_shape=(2, 75, 65), resampling=Resampling.average)
    valid = ps.open(path, level=2, mask=True)[0] != 0
    assert np.abs(got.astype("i8") - wanted)[:, valid].max() <= 1
    assert (got[:, ~valid] == 0).all()
    everywhere = ps.open({name: (tmp_path / name).read_bytes() for name in ("x.tif", "x.tif.ovr")}, "x.tif", level=2)
    np.testing.assert_array_equal(everywhere[...], ps.open(path, level=2)[...])
    with pytest.raises(ps.NotFoundError):
        ps.open(path, level=4)
    (tmp_path / "x.tif.ovr").write_bytes(b"II*\0 and no more")
    assert ps.open(path).overviews == ()
    with pytest.raises(ps.CorruptDataError):
        ps.open(path, level=1)


@pytest.mark.parametrize("scheme", ["", "zip:", "zip://"])
def test_members_of_archives_are_opened_by_path(tmp_path, scheme):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("x.tif", plain_tiff(bytes(range(100)), 10, 10, 1, 8))
    assert ps.open(f"{scheme}{tmp_path}/a.zip/x.tif")[0, 9, 9] == 99


STRIPES = np.array([255, 0] * 50, "u1").reshape(1, 10, 10)


def test_sidecar_files_are_read_when_they_are_needed(tmp_path):
    path = tmp_path / "x.tif"
    path.write_bytes(plain_tiff(bytes(range(100)), 10, 10, 1, 8))
    array = ps.open(path)
    (tmp_path / "x.tif.msk").write_bytes(mask_file(STRIPES, {1: 2}))
    (tmp_path / "x.tif.ovr").write_bytes(plain_tiff(bytes(25), 5, 5, 1, 8))
    assert array.has_mask
    assert array.overviews == ((5, 5),)


def test_a_mask_of_another_size_in_a_sidecar_file_is_ignored(tmp_path):
    path = tmp_path / "x.tif"
    path.write_bytes(plain_tiff(bytes(range(100)), 10, 10, 1, 8))
    (tmp_path / "x.tif.msk").write_bytes(mask_file(STRIPES[:, ::2, ::2], {1: 2}))
    array = ps.open(path)
    assert not array.has_mask
    np.testing.assert_array_equal(ps.open(path, unpack=True)[0], array[0])
    with pytest.raises(ps.NotFoundError, match="no mask"):
        ps.open(path, mask=True)
    (tmp_path / "x.tif.msk").write_bytes(mask_file(STRIPES, {1: 2}))
    np.testing.assert_array_equal(ps.open(path, mask=True)[0].reshape(-1), [255, 0] * 50)


def test_metadata_of_masks_takes_bounded_time_and_memory(tmp_path):
    path = tmp_path / "x.tif"
    path.write_bytes(tiff_of(image(10, 10) | {277: tag(4, 2**32 - 1)}, bytes(100)))
    (tmp_path / "x.tif.msk").write_bytes(mask_file(STRIPES, {1: 2}))
    with pytest.raises(ps.Error):
        ps.open(path, mask=True)[...]
    path.write_bytes(tiff_of(image(10, 10, 1), bytes(100)))
    noted = tag(2, '<Item name="INTERNAL_MASK_FLAGS_1"' * 500_000 + "2<Item")
    (tmp_path / "x.tif.msk").write_bytes(tiff_of(image(10, 10) | {42112: noted}, bytes(100)))
    assert not ps.open(path).has_mask


def check_masks(path, is_of_band):
    """Compare the masks of the bands, and the pixels that means exclude, with rasterio's."""
    rasterio = pytest.importorskip("rasterio")
    with rasterio.open(path) as source:
        values, wanted = source.read(), source.read_masks()
    array = ps.open(path)
    np.testing.assert_array_equal(array[...], values)
    assert array.has_mask == any(is_of_band)
    for band, has_mask in enumerate(is_of_band):
        if has_mask:
            np.testing.assert_array_equal(ps.open(path, mask=True, bands=[band])[0], wanted[band])
    if all(is_of_band):
        mask = ps.open(path, mask=True)
        np.testing.assert_array_equal(np.broadcast_to(mask[...], wanted.shape), wanted)
    elif any(is_of_band):
        with pytest.raises(ps.UnsupportedError, match=f"but not of band {is_of_band.index(False)}"):
            ps.open(path, mask=True)
    else:
        with pytest.raises(ps.NotFoundError, match="no mask"):
            ps.open(path, mask=True)
    shown = np.where(wanted != 0, values.astype("f4"), np.nan)
    unpacked = ps.open(path, unpack=True)
    assert (unpacked.nodata is None) == (wanted == 255).all()
    np.testing.assert_array_equal(unpacked[...], shown)
    np.testing.assert_array_equal(unpacked[1, 5:9, ::-3], shown[1, 5:9, ::-3])
    np.testing.assert_array_equal(unpacked.oindex[[2, 0], 3:5, [7, 1]], shown[[2, 0], 3:5][..., [7, 1]])
    np.testing.assert_array_equal(unpacked.vindex[[2, 0], [3, 5], [7, 1]], shown[[2, 0], [3, 5], [7, 1]])
    np.testing.assert_array_equal(ps.open(path, bands=[2, 1], unpack=True)[...], shown[[2, 1]])
    xarray = pytest.importorskip("xarray")
    with xarray.open_dataset(path, engine="penstock") as dataset:
        np.testing.assert_array_equal(dataset.band_data, shown)
        np.testing.assert_array_equal(dataset.band_data[1:, 4:6], shown[1:, 4:6])
        np.testing.assert_array_equal(dataset.band_data[1], shown[1])
        points = {"band": xarray.DataArray([2, 1], dims="p"), "x": xarray.DataArray([7, 1], dims="p")}
        np.testing.assert_array_equal(dataset.band_data.isel({**points, "y": 3}).values, shown[[2, 1], 3, [7, 1]])
    place = (1, 0, 0, 0, -1, 0)
    got = ps.read_window(array, shape=(5, 5), resampling="average", fill_value=255, transform=place)
    blocks = np.nanmean(shown.reshape(3, 5, 2, 5, 2).swapaxes(2, 3).reshape(3, 5, 5, 4), axis=-1)
    # A mean that equals nodata is changed by 1.
    assert np.abs(got - np.nan_to_num(blocks, nan=255)).max() <= 1.5


@pytest.mark.filterwarnings("ignore:Mean of empty slice", "ignore::rasterio.errors.NotGeoreferencedWarning")
@pytest.mark.parametrize("nodata", [None, 7])
@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("flags", [{}, {1: 2}, {2: 2}, {1: 0, 3: 0}, {1: 2, 2: 0}, {1: 8, 2: 1, 3: 4}])
def test_bands_have_the_masks_that_a_sidecar_file_assigns(tmp_path, flags, count, nodata):
    rasterio = pytest.importorskip("rasterio")
    random = np.random.default_rng(count)
    path, layout = tmp_path / "x.tif", {"driver": "GTiff", "width": 10, "height": 10, "count": 3, "dtype": "uint8"}
    with rasterio.open(path, "w", nodata=nodata, **layout) as to:
        to.write(random.integers(5, 9, (3, 10, 10)).astype("u1"))
    (tmp_path / "x.tif.msk").write_bytes(mask_file(random.integers(0, 2, (count, 10, 10), "u1") * 255, flags))
    check_masks(path, [band in flags and (flags[band] & 2 != 0 or band <= count) for band in (1, 2, 3)])


@pytest.mark.filterwarnings("ignore:Mean of empty slice", "ignore::rasterio.errors.NotGeoreferencedWarning")
@pytest.mark.parametrize("dtype", ["u1", "?"])
@pytest.mark.parametrize("planar", ["separate", "contig"])
@pytest.mark.parametrize("masks", [[3], [2], [2, 3], [1, 3], [3, 1], ["u2", 1], ["small", 3]])
def test_the_first_internal_mask_that_fits_is_the_images(tmp_path, masks, planar, dtype):
    """One band for all, or one for each, of a byte or less; other images are not masks."""
    tifffile = pytest.importorskip("tifffile")
    path, random = tmp_path / "x.tif", np.random.default_rng(0)
    with tifffile.TiffWriter(path) as to:
        to.write(random.integers(5, 9, (10, 10, 3)).astype("u1"), photometric="rgb", metadata=None)
        for bands in masks:
            size = 5 if bands == "small" else 10
            plane = random.integers(0, 2, (bands if isinstance(bands, int) else 1, size, size), "u1") * 255
            plane = plane.astype("u2") if bands == "u2" else plane.astype(dtype)
            config = None if len(plane) == 1 else "separate" if dtype == "?" else planar
            plane = np.moveaxis(plane, 0, -1).copy() if config == "contig" else plane.squeeze()
            to.write(plane, photometric="minisblack", planarconfig=config, subfiletype=1, metadata=None)
    with tifffile.TiffFile(path, mode="r+") as file:
        for page in file.pages[1:]:
            page.tags["NewSubfileType"].overwrite(4)
    check_masks(path, [any(each in (1, 3) for each in masks)] * 3)


@pytest.mark.parametrize("flags", ["000", "222", "020"])
@pytest.mark.parametrize("interleave", ["pixel", "band"])
def test_a_mask_for_each_band_in_a_sidecar_file_is_as_rasterio_shows_it(tmp_path, flags, interleave):
    rasterio = pytest.importorskip("rasterio")
    from rasterio.enums import Resampling

    path, values = tmp_path / "x.tif", picture("u1", (3, 70, 90))
    planes = np.random.default_rng(0).integers(0, 2, values.shape, "u1") * 255
    layout = {"driver": "GTiff", "width": 90, "height": 70, "count": 3, "dtype": "uint8", "interleave": interleave}
    place = {"crs": "EPSG:32633", "transform": rasterio.Affine(10, 0, 500000, 0, -10, 4600000)}
    with rasterio.open(path, "w", **layout, **place, tiled=True, blockxsize=32, blockysize=32) as to:
        to.write(values)
    with rasterio.open(f"{path}.msk", "w", **layout, compress="deflate") as to:
        to.write(planes)
        to.update_tags(**{f"INTERNAL_MASK_FLAGS_{i + 1}": flag for i, flag in enumerate(flags)})
    for file in (path, f"{path}.msk"):
        with rasterio.open(file, "r+") as to:
            to.build_overviews([2], Resampling.nearest)
    array = ps.open(path)
    assert array.has_mask
    with rasterio.open(path) as source:
        wanted = source.read_masks()
        window = source.read(masked=True, out_shape=(3, 23, 30), resampling=Resampling.average)
    with rasterio.open(path, overview_level=0) as source:
        small = source.read_masks()
    if flags == "222":
        np.testing.assert_array_equal(ps.open(path, mask=True)[0], wanted[0])
    else:
        np.testing.assert_array_equal(ps.open(path, mask=True)[...], wanted)
        np.testing.assert_array_equal(ps.open(path, mask=True, bands=[2, 1])[...], wanted[[2, 1]])
        np.testing.assert_array_equal(ps.open(path, mask=True, level=1)[...], small)
        with pytest.raises(ps.OutOfRangeError, match="band 3"):
            ps.open(path, mask=True, bands=[3])
    shown = np.where(wanted != 0, values.astype("f4"), np.nan)
    unpacked = ps.open(path, unpack=True)
    np.testing.assert_array_equal(unpacked[...], shown)
    np.testing.assert_array_equal(unpacked[1, 5:9, ::-3], shown[1, 5:9, ::-3])
    np.testing.assert_array_equal(unpacked.oindex[[2, 0], 3:5, [7, 1]], shown[[2, 0], 3:5][..., [7, 1]])
    np.testing.assert_array_equal(unpacked.vindex[[2, 0], [3, 5], [7, 1]], shown[[2, 0], [3, 5], [7, 1]])
    np.testing.assert_array_equal(ps.open(path, bands=[1], unpack=True)[0], shown[1])
    got = ps.read_window(array, shape=(23, 30), resampling="average", fill_value=0)
    assert np.abs(got.astype("i8") - window.filled(0)).max() <= 1
    xarray = pytest.importorskip("xarray")
    with xarray.open_dataset(path, engine="penstock") as shown_by:
        np.testing.assert_array_equal(shown_by.band_data, shown)
        np.testing.assert_array_equal(shown_by.band_data[2, 4:6], shown[2, 4:6])
        points = {"band": xarray.DataArray([2, 0], dims="p"), "x": xarray.DataArray([7, 1], dims="p")}
        np.testing.assert_array_equal(shown_by.band_data.isel({**points, "y": 3}).values, shown[[2, 0], 3, [7, 1]])


@pytest.mark.parametrize("bigtiff", [False, True])
def test_subifds_are_pages_below_a_page_as_tifffile_shows_them(tmp_path, bigtiff):
    tifffile = pytest.importorskip("tifffile")
    path = tmp_path / "x.tif"
    small, raw, depth = picture("u1", (20, 30)), picture("u2", (40, 60), 1), picture("f4", (40, 60), 2)
    with tifffile.TiffWriter(path, bigtiff=bigtiff) as to:
        to.write(small, subfiletype=1, subifds=3, metadata=None)
        to.write(raw, subfiletype=0, tile=(16, 16), metadata=None)
        to.write(depth, subfiletype=0, metadata=None)
        to.write(raw[::2, ::2], subfiletype=1, metadata=None)
        to.write(small + 1, metadata=None)
    with tifffile.TiffFile(path) as file:
        below = [page.asarray() for page in file.pages[0].pages]
        offsets = tuple(page.offset for page in file.pages[0].pages)
    assert ps.open(path).tags["SubIFDs"] == offsets
    for i, wanted in enumerate(below):
        array = ps.open(path, page=(0, i))
        np.testing.assert_array_equal(array[0], wanted)
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(array))[0], wanted)
        assert (array.dtype, array.overviews) == (wanted.dtype, ())
    np.testing.assert_array_equal(ps.open(path, page=[1])[0], small + 1)
    xarray = pytest.importorskip("xarray")
    with xarray.open_dataset(path, engine="penstock", page=(0, 1)) as shown:
        np.testing.assert_array_equal(shown.band_data[0], depth)
    for page, why in (((0, 3), "SubIFD 3 of an image that has 3"), ((0, 1, 0), "has 0"), ((1, 0), "has 0")):
        with pytest.raises(ps.NotFoundError, match=why):
            ps.open(path, page=page)
    for options in ({"page": ()}, {"page": (0, 1), "ifd": 0}, {"page": (0, -1)}):
        with pytest.raises(ps.InvalidArgumentError):
            ps.open(path, **options)


@pytest.mark.parametrize("shape", [(5, 32, 41), (2, 3, 4, 16, 20), (4, 16, 20, 3)], ids=["slices", "hyper", "rgb"])
@pytest.mark.parametrize("dtype", ["u1", "u2", "f4"])
def test_images_of_a_stack_of_imagej_are_pages(tmp_path, shape, dtype):
    tifffile = pytest.importorskip("tifffile")
    colours = shape[-1] == 3
    if colours and dtype != "u1":
        pytest.skip("ImageJ's colours are bytes")
    path = tmp_path / "x.tif"
    values = np.random.default_rng(0).integers(0, 255, shape).astype(dtype)
    tifffile.imwrite(path, values, imagej=True, truncate=True)
    with pytest.raises(ps.NotFoundError, match="directory 1 of a TIFF that has 1"):
        ps.open(path, ifd=1)
    images = values.reshape(-1, *shape[-3:]) if colours else values.reshape(-1, *shape[-2:])
    for number, wanted in enumerate(images):
        for source in (path, path.read_bytes()):
            np.testing.assert_array_equal(ps.open(source, page=number, layout="native")[...], wanted)
    np.testing.assert_array_equal(
        ps.open(path, page=2)[0, 3:9, 5:8], (images[2, ..., 0] if colours else images[2])[3:9, 5:8]
    )
    for wrong in ({"page": len(images)}, {"page": 1, "level": 1}, {"page": 1, "mask": True}, {"page": (1, 0)}):
        with pytest.raises(ps.NotFoundError):
            ps.open(path, **wrong)
    whole = path.read_bytes()
    with pytest.raises(ps.CorruptDataError):
        ps.open(whole[: len(whole) - images[0].nbytes // 2], page=len(images) - 1)[...]


def test_only_stacks_that_imagej_describes_are_stacks(tmp_path):
    tifffile = pytest.importorskip("tifffile")
    values = np.zeros((3, 16, 16), "u1")
    for description, options in [
        ("ImageJ=1.53t\nimages=3\n", {"rowsperstrip": 4}),
        ("ImageJ=1.53t\nimages=3\n", {"compression": "zlib"}),
        ("ImageJ=1.53t\nimages=3\n", {"tile": (16, 16)}),
        ("ImageJ=1.53t\nimages=-3\n", {}),
        ("ImageJ=1.53t\nslices=3\n", {}),
        ("images=3\n", {}),
    ]:
        tifffile.imwrite(tmp_path / "x.tif", values[0], description=description, metadata=None, **options)
        with pytest.raises(ps.NotFoundError, match="page 1 of a TIFF that has 1"):
            ps.open(tmp_path / "x.tif", page=1)


def test_stacks_of_imagej_may_be_larger_than_4_gib(tmp_path):
    path = tmp_path / "x.tif"
    number, size, begin = 70000, 256 * 256, 4096
    what = {270: tag(2, f"ImageJ=1.53t\nimages={number}\n"), 273: tag(4, begin), 279: tag(4, size)}
    path.write_bytes(tiff_of(image(256, 256) | what))
    with path.open("r+b") as file:
        file.seek(begin + (number - 1) * size)
        file.write(bytes(range(256)) * 256)
    assert path.stat().st_size > 1 << 32
    np.testing.assert_array_equal(ps.open(path, page=number - 1)[0], np.tile(np.arange(256, dtype="u1"), (256, 1)))


def test_subifds_in_a_loop_or_outside_the_file_end(tmp_path):
    path = tmp_path / "x.tif"
    path.write_bytes(plain_tiff(bytes(100), 10, 10, 1, 8, {330: 8}))  # the offset of the directory itself
    assert ps.open(path, page=(0, 0, 0, 0)).shape == (1, 10, 10)
    with pytest.raises(ps.CorruptDataError):
        ps.open(path, page=(0,) * 5000)
    path.write_bytes(plain_tiff(bytes(100), 10, 10, 1, 8, {330: 1 << 30}))
    with pytest.raises(ps.CorruptDataError):
        ps.open(path, page=(0, 0))


def test_missing_pages_levels_and_masks_are_not_found():
    data = plain_tiff(bytes(range(48)), 8, 6, 1, 8)
    for options in ({"page": 1}, {"level": 1}, {"mask": True}, {"ifd": 3}):
        with pytest.raises(ps.NotFoundError):
            ps.open(data, **options)
    with pytest.raises(ps.OutOfRangeError):
        ps.open(data, bands=[1])


# --- real files ---


def selection() -> list[dict[str, Any]]:
    path = SELECTION / "oracle.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def digest(values: np.ndarray) -> str:
    little = np.ascontiguousarray(values.astype(values.dtype.newbyteorder("<")))
    return hashlib.sha256(little.tobytes()).hexdigest()


@pytest.mark.parametrize("record", selection(), ids=lambda record: record["path"])
def test_a_file_of_the_selection_reads_as_gdal_reads_it(record):
    array = ps.open(SELECTION / record["path"])
    values = array[...]
    assert list(values.shape) == record["shape"]
    assert digest(values.astype(record["dtype"])) == record["sha256"]
    identity = [1.0, 0.0, 0.0, 0.0, 1.0, 0.0]
    assert list(array.transform or identity)[:6] == pytest.approx(record["transform"])


def test_the_selection_is_complete():
    assert len(selection()) >= 12


def test_bands_are_counted_from_one_by_band_alone(tmp_path):
    """In rasterio `read(1)` is the first band; Penstock's warns, once per process."""
    tifffile = pytest.importorskip("tifffile")
    values = np.arange(3 * 8 * 9, dtype="u1").reshape(3, 8, 9)
    tifffile.imwrite(tmp_path / "planes.tif", values, photometric="rgb", planarconfig="separate")
    tifffile.imwrite(tmp_path / "pixels.tif", values.transpose(1, 2, 0), photometric="rgb")
    for name, layout in itertools.product(("planes.tif", "pixels.tif"), ("band", "native")):
        a = ps.open(tmp_path / name, layout=layout)
        for number in (1, 2, np.int64(3)):
            np.testing.assert_array_equal(a.band(number), values[number - 1], strict=True)
            assert a.band(number, dtype="f4").dtype == np.float32
        for number in (0, 4, -1):
            with pytest.raises(ps.OutOfRangeError, match="counted from 1 to 3"):
                a.band(number)
        with pytest.raises(TypeError):
            a.band(1.0)
    code = f"""if True:
        import warnings, numpy as np, penstock as ps
        a = ps.open({str(tmp_path / "planes.tif")!r})
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            a[1], a.read(), a.read(np.s_[1:2]), a.read((1, 0)), a.read(...), a.band(1)
            assert not said
            assert (a.read(1) == a[1]).all() and (a.read(np.int64(2)) == a[2]).all()
            ps.open({str(tmp_path / "pixels.tif")!r}).read(0)
        print(len(said), said[0].filename, said[0].message)
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.startswith("1 <string> read(n) of an image counts from 0"), done
