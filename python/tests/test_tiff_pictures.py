"""TIFFs whose tiles are compressed images (JPEG, CCITT, WebP, LERC, JPEG 2000, JPEG XL), and other readers."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
from test_tiff import band_first, picture, plain_tiff

pytestmark = pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")


def opened(path: Path, **options: Any) -> ps.Array:
    """Open the file, or skip the test if this build does not have the codec."""
    try:
        return ps.open(path, **options)
    except ps.UnsupportedError as error:
        if "is not readable in this build" not in error.message and "is not readable here" not in error.message:
            raise
        pytest.skip(f"without the codec's library: {error.message}")


def rasterio_version() -> tuple[int, ...]:
    return tuple(int(part) for part in pytest.importorskip("rasterio").__version__.split(".")[:2])


def written(path: Path, values: np.ndarray, **options: Any) -> np.ndarray:
    """Write (band, y, x) with GDAL and return what it reads."""
    rasterio = pytest.importorskip("rasterio")
    bands, height, width = values.shape
    common = {"driver": "GTiff", "width": width, "height": height, "count": bands, "dtype": values.dtype.name}
    with rasterio.open(path, "w", **common, **options) as file:
        file.write(values)
    with rasterio.open(path) as file:
        read: np.ndarray = file.read()
        return read


LAYOUTS: dict[str, dict[str, Any]] = {
    "tiles": {"tiled": True, "blockxsize": 64, "blockysize": 48},
    "strips": {"blockysize": 16},
    "odd strips": {"blockysize": 8},
}


def photo(bands: int, height: int = 150, width: int = 131) -> np.ndarray:
    """Smooth values with edges, so that lossy codecs have an effect."""
    y, x = np.mgrid[:height, :width]
    planes = [
        127 + 80 * np.sin(x / (7 + 3 * band)) * np.cos(y / 11) + 40 * ((x // 20 + y // 15) % 2) for band in range(bands)
    ]
    return np.clip(planes, 0, 255).astype("u1")


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    ("bands", "options"),
    [
        (1, {}),
        (3, {"photometric": "YCBCR"}),
        (3, {"photometric": "RGB"}),
        (3, {"interleave": "band", "photometric": "RGB"}),
        (4, {"photometric": "RGB"}),
        (3, {"photometric": "YCBCR", "endianness": "BIG", "bigtiff": "YES"}),
        *((3, {"photometric": "YCBCR", "jpegtablesmode": mode}) for mode in range(4)),
        *((3, {"photometric": "YCBCR", "jpeg_quality": quality}) for quality in (20, 95, 100)),
    ],
    ids=str,
)
def test_jpeg_equals_gdals(tmp_path, layout, bands, options):
    if layout == "odd strips" and options.get("photometric") == "YCBCR":
        options = options | {"blockysize": 32}
    else:
        options = options | LAYOUTS[layout]
    options = {"interleave": "pixel"} | LAYOUTS[layout] | options
    path = tmp_path / "x.tif"
    wanted = written(path, photo(bands), compress="JPEG", **options)
    a = opened(path)
    assert a.compression == "jpeg"
    if options.get("photometric") == "YCBCR" and rasterio_version() < (1, 5):
        # The libjpeg in those wheels interpolates colours differently from libjpeg-turbo.
        pytest.importorskip("imagecodecs")
        wanted = np.moveaxis(pytest.importorskip("tifffile").imread(path), -1, 0)
    np.testing.assert_array_equal(a[...], wanted)
    np.testing.assert_array_equal(a[:, 40:90, 3:70], wanted[:, 40:90, 3:70])
    np.testing.assert_array_equal(ps.open(path, bands=[bands - 1])[...], wanted[-1:])


@pytest.mark.parametrize("subsampling", [(1, 1), (2, 1), (2, 2), (4, 1)], ids=str)
def test_subsampled_jpeg_equals_tifffiles(tmp_path, subsampling):
    tifffile = pytest.importorskip("tifffile")
    pytest.importorskip("imagecodecs")
    path = tmp_path / "x.tif"
    values = np.moveaxis(photo(3), 0, -1)
    options = {"photometric": "ycbcr", "subsampling": subsampling, "compression": "jpeg", "tile": (64, 64)}
    tifffile.imwrite(path, values, metadata=None, **options)
    np.testing.assert_array_equal(opened(path, layout="native")[...], tifffile.imread(path))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("lossless", [True, False])
@pytest.mark.parametrize("bands", [3, 4])
def test_webp_equals_gdals(tmp_path, layout, lossless, bands):
    path = tmp_path / "x.tif"
    values = photo(bands)
    wanted = written(path, values, compress="WEBP", webp_lossless=lossless, interleave="pixel", **LAYOUTS[layout])
    got = opened(path)[...]
    np.testing.assert_array_equal(got, wanted)
    if lossless:
        np.testing.assert_array_equal(got, values)


@pytest.mark.parametrize("packed", ["LERC", "LERC_DEFLATE", "LERC_ZSTD"])
def test_lerc_with_a_mask_for_each_sample_equals_gdals(tmp_path, packed):
    values = picture("f4", (2, 20, 30))
    values[0, 3:9] = np.nan
    path = tmp_path / "x.tif"
    wanted = written(path, values, compress=packed, interleave="pixel")
    try:
        got = ps.open(path)[...]
    except ps.UnsupportedError as error:
        if "LERC with a mask for each of 2 samples of a pixel" not in str(error):
            raise
    else:
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("layout", ["tiles", "strips"])
@pytest.mark.parametrize("packed", ["LERC", "LERC_DEFLATE", "LERC_ZSTD"])
def test_lerc_equals_gdals(tmp_path, packed, layout):
    path = tmp_path / "x.tif"
    for dtype, interleave, endian, error in itertools.product(
        ["u1", "i1", "u2", "i2", "u4", "i4", "f4", "f8"], ["pixel", "band"], ["LITTLE", "BIG"], [0, 0.5]
    ):
        values = picture(dtype, (2, 90, 70))
        if dtype[0] == "f" and interleave == "band":  # libtiff before 4.6 has one mask for all samples of a tile
            values[:, 5:20, 30:44] = np.nan
        common = {"interleave": interleave, "endianness": endian, **LAYOUTS[layout]}
        wanted = written(path, values, compress=packed, max_z_error=error, **common)
        got = opened(path)[...]
        np.testing.assert_array_equal(got, wanted, err_msg=f"{dtype} {interleave} {endian} {error}")
        if error == 0:
            np.testing.assert_array_equal(got, values)


@pytest.mark.parametrize("fill_order", [1, 2])
@pytest.mark.parametrize("packed", ["CCITTRLE", "CCITTFAX3", "CCITTFAX4"])
def test_ccitt_equals_gdals(tmp_path, packed, fill_order):
    path = tmp_path / "x.tif"
    rng = np.random.default_rng(3)
    values = (rng.integers(-1, 2, (1, 230, 301)).cumsum(-1).cumsum(-2) > 0).astype("u1")
    values[:, 100:140] = 0
    for layout in LAYOUTS.values():
        wanted = written(path, values, compress=packed, nbits=1, **layout)
        np.testing.assert_array_equal(wanted, values)
        if fill_order == 2:
            reverse_bits(path)
        np.testing.assert_array_equal(opened(path)[...], values)


def reverse_bits(path: Path) -> None:
    """Convert a little-endian TIFF of FillOrder 1 to FillOrder 2."""
    tifffile = pytest.importorskip("tifffile")
    data = bytearray(path.read_bytes())
    with tifffile.TiffFile(path) as file:
        page = file.pages[0]
        for offset, count in zip(page.dataoffsets, page.databytecounts, strict=True):
            bits = np.unpackbits(np.frombuffer(data[offset : offset + count], "u1").reshape(-1, 1), axis=1)
            data[offset : offset + count] = np.packbits(bits[:, ::-1], axis=1).tobytes()
        # A tag that decoders ignore, at whose place in the directory the new one is written.
        at = page.tags["PlanarConfiguration"].offset
        entry = page.tags["PlanarConfiguration"]
        assert entry.value == 1
        data[at : at + 2] = (266).to_bytes(2, "little")
        data[at + 8 : at + 10] = (2).to_bytes(2, "little")
    path.write_bytes(data)


@pytest.mark.parametrize("codec", ["jpeg2000", "jpegxl", "webp"])
@pytest.mark.parametrize(
    ("dtype", "shape"),
    [("u1", (83, 111)), ("u1", (83, 111, 3)), ("u1", (83, 111, 4)), ("u2", (83, 111)), ("u2", (83, 111, 3)),
     ("i2", (83, 111)), ("f4", (83, 111)), ("u1", (3, 83, 111)), ("u2", (83, 111, 5))],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("lossless", [True, False])
def test_files_of_tifffile_have_their_values(tmp_path, codec, dtype, shape, lossless):
    tifffile = pytest.importorskip("tifffile")
    pytest.importorskip("imagecodecs")
    planar = shape[0] == 3
    values = picture(dtype, shape) if dtype[0] != "f" else np.clip(picture(dtype, shape) / 50, 0, 1)
    fits = {
        "jpeg2000": dtype != "f4",
        "jpegxl": dtype != "i2" and shape[-1] != 5,  # tifffile reads five samples as a sequence of images
        "webp": dtype == "u1" and shape[-1] in (3, 4),
    }
    if not fits[codec]:
        pytest.skip(f"{codec} has no {dtype} of {shape}")
    path = tmp_path / "x.tif"
    arguments = {"lossless": lossless} if codec != "jpeg2000" or lossless else {"level": 60}
    if codec == "jpeg2000":
        arguments = {"level": 0 if lossless else 50}
    options = {"planarconfig": "separate" if planar else "contig" if len(shape) == 3 else None, "tile": (48, 64)}
    tifffile.imwrite(path, values, photometric="minisblack" if shape[-1] not in (3, 4) or planar else "rgb",
                     metadata=None, compression=codec, compressionargs=arguments, **options)  # fmt: skip
    a = opened(path)
    wanted = band_first(tifffile.imread(path), planar)
    got = a[...]
    assert got.dtype == wanted.dtype
    if lossless:
        np.testing.assert_array_equal(got, band_first(values, planar))
    elif dtype == "f4":
        np.testing.assert_allclose(got, wanted, atol=1e-3)
    else:
        # Decoders of lossy JPEG XL and JPEG 2000 may differ in the last bit.
        apart = np.abs(got.astype("i8") - wanted.astype("i8"))
        assert apart.max() <= (1 if dtype[1] == "1" else 64)


def test_a_stream_of_another_size_is_refused(tmp_path):
    tifffile = pytest.importorskip("tifffile")
    pytest.importorskip("imagecodecs")
    values = np.moveaxis(photo(3, 64, 64), 0, -1)
    for codec in ("jpeg", "webp", "jpeg2000", "jpegxl", "lerc"):
        path = tmp_path / f"{codec}.tif"
        tifffile.imwrite(path, values, photometric="rgb", metadata=None, compression=codec, tile=(64, 64))
        opened(path)[...]
        for tag, size in (("TileWidth", 80), ("TileWidth", 48), ("TileLength", 80), ("TileLength", 48)):
            data = bytearray(path.read_bytes())
            with tifffile.TiffFile(path) as file:
                at = file.pages[0].tags[tag].offset + 8
                sides = (file.pages[0].tags["ImageWidth"].offset + 8, file.pages[0].tags["ImageLength"].offset + 8)
            data[at : at + 2] = size.to_bytes(2, "little")
            for side in sides:  # so that it stays one tile
                data[side : side + 2] = (48).to_bytes(2, "little")
            (tmp_path / "wrong.tif").write_bytes(data)
            if codec == "jpeg" and (tag, size) == ("TileLength", 48):
                continue  # rows below the tile are ignored: some writers pad
            with pytest.raises(ps.CorruptDataError):
                ps.open(tmp_path / "wrong.tif")[...]


@pytest.mark.parametrize("codec", ["jpeg", "webp", "jpeg2000", "jpegxl", "lerc", "CCITTFAX4"])
def test_damaged_streams_are_refused_or_read(tmp_path, codec):
    path = tmp_path / "x.tif"
    if codec.startswith("CC"):
        written(path, (photo(1) > 127).astype("u1"), compress=codec, nbits=1, tiled=True, blockxsize=64, blockysize=64)
    else:
        tifffile = pytest.importorskip("tifffile")
        pytest.importorskip("imagecodecs")
        values = np.moveaxis(photo(3, 64, 64), 0, -1)
        tifffile.imwrite(path, values, photometric="rgb", metadata=None, compression=codec, tile=(64, 64))
    (whole,) = (opened(path)[...],)
    data = path.read_bytes()
    rng = np.random.default_rng(1)
    refused = 0
    for _ in range(300):
        damaged = bytearray(data)
        for at in rng.integers(len(data) // 3, len(data), rng.integers(1, 6)):
            damaged[at] = rng.integers(256)
        try:
            assert ps.open(bytes(damaged))[...].shape == whole.shape
        except ps.Error:
            refused += 1
    for length in rng.integers(len(data) // 3, len(data), 50):
        with pytest.raises(ps.Error):
            ps.open(data[:length])[...]
    assert refused > 5 or codec in ("jpeg2000", "CCITTFAX4")  # whose damaged codes mostly decode as others


@pytest.mark.parametrize(
    ("number", "name"), [(6, "old_jpeg"), (32809, "thunderscan"), (34676, "sgilog"), (34933, "png"), (12345, "unknown")]
)
def test_other_compressions_are_refused_by_name(number, name):
    with pytest.raises(ps.UnsupportedError, match=rf"compression {number} \({name}\)"):
        ps.open(plain_tiff(bytes(48), 8, 6, 1, 8, {259: number}))


def test_samples_that_a_compression_lacks_are_refused():
    with pytest.raises(ps.UnsupportedError, match=r"compression 7 \(jpeg\) of 1 sample of 16 bits"):
        ps.open(plain_tiff(bytes(512), 16, 16, 1, 16, {259: 7}))
