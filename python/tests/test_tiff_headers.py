"""Headers that common writers do not write: odd values of tags, and directories with wrong offsets."""

from __future__ import annotations

import io
import json
import struct
import subprocess
import sys
import time
import zlib
from typing import Any

import numpy as np
import penstock as ps
import pytest
from tiff_bytes import image, tag, tiff_of


def sparse(dtype: str, nodata: str) -> Any:
    """The value of a tile that was never written."""
    kind = {"u": 1, "i": 2, "f": 3, "c": 6}[np.dtype(dtype).kind]
    tags = image(16, 16, bits=8 * np.dtype(dtype).itemsize) | {339: tag(3, kind), 42113: tag(2, nodata)}
    tags |= {322: tag(3, 16), 323: tag(3, 16), 324: tag(4, 0), 325: tag(4, 0)}
    array = ps.open(tiff_of(tags))
    assert array.dtype == np.dtype(dtype)
    values = array[...]
    assert (values[0] == values[0, 0, 0]).all() or np.isnan(values).all()
    assert array.fill_value == values[0, 0, 0] or np.isnan(values[0, 0, 0])
    return values[0, 0, 0]


@pytest.mark.parametrize(
    ("dtype", "nodata"),
    [
        ("f2", "-9999"),
        ("f2", "0.1"),
        ("f2", "inf"),
        ("f4", "-3.40282346638529e+38"),
        ("f8", "1e-300"),
        ("c8", "-5"),
        ("i8", "-9223372036854775808"),
        ("i8", "9223372036854775807"),
        ("i8", "-9007199254740993"),
        ("u8", "18446744073709551615"),
        ("u8", "9007199254740993"),
        ("i2", "-9999.0"),
        ("u1", "255"),
    ],
)
def test_sparse_tiles_are_exactly_nodata(dtype, nodata):
    got = sparse(dtype, nodata)
    kind = np.dtype(dtype)
    wanted = kind.type(int(float(nodata)) if kind.kind in "iu" and "." in nodata else
                       int(nodata) if kind.kind in "iu" else float(nodata))  # fmt: skip
    assert got == wanted


@pytest.mark.parametrize(("dtype", "nodata"), [("u1", "256"), ("u8", "-1"), ("i2", "0.5"), ("f2", "1e6"), ("f4", "x")])
def test_sparse_tiles_are_zero_if_the_type_has_no_such_value(dtype, nodata):
    assert sparse(dtype, nodata) == 0


@pytest.mark.parametrize("compression", [1, 5, 8, 32773, 34925, 50000, 34887])
@pytest.mark.parametrize("subsampling", [(1, 1), (2, 2), (4, 1)])
def test_luminance_and_chroma_without_jpeg_are_refused_by_name(compression, subsampling):
    tags = image(8, 8, 3) | {259: tag(3, compression), 262: tag(3, 6), 530: tag(3, *subsampling)}
    with pytest.raises(ps.UnsupportedError, match="YCbCr") as caught:
        ps.open(tiff_of(tags, bytes(8 * 8 * 3)))
    assert f"{subsampling[0]} x {subsampling[1]}" in str(caught.value)


@pytest.mark.parametrize("number", [65537, 65543, 2**32 - 1])
def test_numbers_of_compressions_are_not_truncated(number):
    with pytest.raises(ps.UnsupportedError, match=str(number)):
        ps.open(tiff_of(image(8, 8) | {259: tag(4, number)}, bytes(64)))


def test_numbers_of_colour_models_are_not_truncated():
    data = bytes(range(192))
    array = ps.open(tiff_of(image(8, 8, 3) | {262: tag(4, 65536 + 6)}, data))
    np.testing.assert_array_equal(array[...], np.moveaxis(np.frombuffer(data, "u1").reshape(8, 8, 3), -1, 0))
    assert array.photometric == str(65536 + 6)


def overlapping(directories: int, entries: int, *, sub: bool = False) -> bytes:
    """Directories that begin a few bytes after each other and overlap, each an overview of the first."""
    first = image(8, 8) | {279: tag(4, 64), 273: tag(4, 8)}
    step = 24  # distance of two directories: a count and one entry
    starts = [4096 + step * i for i in range(directories)]
    if sub:
        first[330] = tag(4, *starts)
    out = bytearray(tiff_of(first, bytes(range(64))).ljust(4096, b"\0"))
    assert len(out) == 4096
    body = bytearray(step * directories + 2 + 12 * entries + 4)
    for i in range(directories):
        struct.pack_into("<HHHII", body, step * i, entries, 254, 4, 1, 1)
    out += body
    if not sub:
        at = struct.unpack_from("<I", out, 4)[0]
        struct.pack_into("<I", out, at + 2 + 12 * len(first), starts[0])
        for i in range(directories):  # the offset of the next directory, after all entries
            end = starts[i] + 2 + 12 * entries
            struct.pack_into("<I", out, end, starts[(i + 1) % directories])
    return bytes(out)


@pytest.mark.parametrize("sub", [False, True], ids=["chain", "SubIFDs"])
def test_overlapping_directories_take_bounded_time_and_memory(tmp_path, sub):
    """A file of less than a megabyte, with 65,535 entries in each directory."""
    path = tmp_path / "x.tif"
    path.write_bytes(overlapping(250 if sub else 400, 65535, sub=sub))
    assert path.stat().st_size < 1 << 20
    program = (
        "import json, sys, time, penstock as ps\n"
        # ru_maxrss is not used because it starts with the parent's value.
        "status = lambda: dict(line.split(':') for line in open('/proc/self/status'))\n"
        "peak = lambda: int(status()['VmHWM'].split()[0]) * 1024\n"
        "before, start = peak(), time.perf_counter()\n"
        "a = ps.open(sys.argv[1])\n"
        "print(json.dumps([peak() - before, time.perf_counter() - start, a[0].tolist()]))\n"
    )
    made = subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True, check=True, timeout=60)
    grown, seconds, values = json.loads(made.stdout)
    assert values == np.arange(64).reshape(8, 8).tolist(), "the first image is whole"
    assert grown < 32 << 20
    assert seconds < 1


@pytest.mark.parametrize("sub", [False, True], ids=["chain", "SubIFDs"])
def test_overviews_without_pixels_are_ignored(sub):
    a = ps.open(overlapping(2, 1, sub=sub))
    assert a.overviews == ()
    values = np.arange(64).reshape(1, 8, 8)
    np.testing.assert_array_equal(ps.read_window(a, shape=(4, 4)), values[:, 1::2, 1::2])


def test_images_with_other_bands_are_not_overviews(tmp_path):
    rasterio, tifffile = pytest.importorskip("rasterio"), pytest.importorskip("tifffile")
    with tifffile.TiffWriter(tmp_path / "x.tif") as file:
        file.write(np.zeros((16, 16, 3), "u1"), photometric="rgb")
        file.write(np.zeros((8, 8), "u1"), subfiletype=1, photometric="minisblack")
        file.write(np.zeros((4, 4, 3), "u1"), subfiletype=1, photometric="rgb")
    with rasterio.open(tmp_path / "x.tif") as file:
        assert file.overviews(1) == [4]
    a = ps.open(tmp_path / "x.tif")
    assert a.overviews == ((4, 4),)
    assert ps.read_window(a, shape=(5, 5), resampling="average").shape == (3, 5, 5)


@pytest.mark.parametrize("beside", [{254: tag(4, 1)}, image(4, 4, 2)], ids=["no pixels", "other bands"])
def test_a_sidecar_image_that_does_not_fit_is_not_an_overview(tmp_path, beside):
    (tmp_path / "x.tif").write_bytes(tiff_of(image(8, 8), bytes(range(64))))
    (tmp_path / "x.tif.ovr").write_bytes(tiff_of(beside, bytes(32)))
    a = ps.open(tmp_path / "x.tif")
    assert a.overviews == ()
    assert ps.read_window(a, shape=(4, 4)).shape == (1, 4, 4)
    with pytest.raises(ps.NotFoundError, match="level 1"):
        ps.open(tmp_path / "x.tif", level=1)


def test_a_page_after_overlapping_directories_is_refused():
    data = overlapping(400, 65535)
    begin = time.perf_counter()
    with pytest.raises(ps.CorruptDataError, match="they overlap"):
        ps.open(data, ifd=300)
    assert time.perf_counter() - begin < 2


def test_overlapping_values_are_omitted():
    """A hundred tags that share fifteen megabytes."""
    tags = image(8, 8) | {279: tag(4, 64), 273: tag(4, 8)}
    data = bytearray(tiff_of(tags | {60000 + i: tag(7, b"abcde") for i in range(100)}, bytes(64)))
    large = 15 << 20
    at = struct.unpack_from("<I", data, 4)[0]
    for i in range(struct.unpack_from("<H", data, at)[0]):
        if struct.unpack_from("<H", data, at + 2 + 12 * i)[0] >= 60000:
            struct.pack_into("<I", data, at + 2 + 12 * i + 4, large)
    array = ps.open(bytes(data) + bytes(large))
    held = sum(len(value) for value in array.tags.values() if isinstance(value, bytes))
    assert large <= held <= 2 * len(data) + 2 * large + (64 << 10)


@pytest.mark.parametrize("height", [2**31 - 1, 2**32 - 1])
def test_a_strip_of_more_rows_than_file_bytes_is_not_divided(height):
    """Otherwise, it would have as many cells as rows."""
    tags = image(2**20 + 3, 7) | {257: tag(4, height), 278: tag(4, height), 273: tag(4, 8), 279: tag(4, 64)}
    begin = time.perf_counter()
    array = ps.open(tiff_of(tags))
    assert array.chunks[1] == height
    with pytest.raises(ps.CorruptDataError):
        array[0, 0]
    assert time.perf_counter() - begin < 1


PLACES = {
    "scale": {33550: tag(12, 2, 2, 0)},
    "points": {33922: tag(12, 1, 1, 0, 10, 20, 0)},
    "matrix": {34264: tag(12, 3, 0, 0, 100, 0, -3, 0, 200, *[0] * 7, 1)},
    "no scale": {33550: tag(12, 0, 0, 0)},
    "centres": {34735: tag(3, 1, 1, 0, 1, 1025, 0, 1, 2)},
}


@pytest.mark.parametrize(
    "names",
    [
        ("scale", "points", "matrix"),
        ("scale", "points", "matrix", "centres"),
        ("scale", "matrix"),
        ("points", "matrix"),
        ("no scale", "points", "matrix"),
        ("scale",),
        ("scale", "centres"),
        ("no scale", "points"),
        ("matrix",),
    ],
)
def test_of_several_georeferencing_tags_gdals_choice_is_used(names):
    rasterio = pytest.importorskip("rasterio")
    tags = image(2, 2)
    for name in names:
        tags |= PLACES[name]
    data = tiff_of(tags, b"abcd")
    with rasterio.MemoryFile(data) as memory, memory.open() as file:
        wanted = tuple(file.transform)[:6]
    assert tuple(ps.open(data).transform or (1, 0, 0, 0, 1, 0))[:6] == wanted


def test_the_first_of_a_repeated_tag_is_used(tmp_path):
    rasterio, tifffile = pytest.importorskip("rasterio"), pytest.importorskip("tifffile")
    tifffile.imwrite(tmp_path / "x.tif", np.zeros((4, 4), "u1"), description="ours")
    with tifffile.TiffFile(tmp_path / "x.tif") as file:
        assert len([each for each in file.pages[0].tags if each.code == 270]) == 2
        assert file.pages[0].tags[270].value == "ours"
    with rasterio.open(tmp_path / "x.tif") as file:
        assert file.tags()["TIFFTAG_IMAGEDESCRIPTION"] == "ours"
    assert ps.open(tmp_path / "x.tif").tags["ImageDescription"] == "ours"


ROWS = [bytes(range(1, 5)), bytes(range(5, 9)), bytes(range(9, 13))]


def strips(
    data: list[bytes], counts: list[int], rows: int = 1, compression: int = 1, more: dict[int, Any] | None = None
) -> bytes:
    """4 x 3 bytes in strips of `rows` rows, with the given byte counts."""
    at, offsets = 8, []
    for each in data:
        offsets.append(at)
        at += len(each)
    tags = image(4, 3) | {259: tag(3, compression), 278: tag(4, rows), 273: tag(4, *offsets), 279: tag(4, *counts)}
    return tiff_of(tags | (more or {}), b"".join(data))


DEFLATED = [zlib.compress(each) for each in ROWS]


@pytest.mark.parametrize(
    ("file", "rows"),
    [
        (strips([b"".join(ROWS)], [0], 3), 3),
        (strips([b"".join(ROWS)], [7], 3), 3),
        (strips([zlib.compress(b"".join(ROWS))], [0], 3, 8), 3),
        (strips(ROWS, [4, 2, 4]), 3),
        (strips(ROWS, [4, 4, 1]), 3),
        (strips(ROWS, [4, 4]), 2),
        (strips(ROWS, [4]), 1),
        (strips(ROWS[:2], [4, 4]), 2),
        (strips(ROWS, [4, 4, 0]), 2),
        (strips(DEFLATED, [len(DEFLATED[0]), len(DEFLATED[1])], 1, 8), 2),
    ],
    ids=[
        "none of a lone strip",
        "too few of a lone strip",
        "none of a lone compressed strip",
        "too few in the middle",
        "too few at the end",
        "two for three strips",
        "one for three strips",
        "two offsets for three strips",
        "none of many",
        "two for three compressed strips",
    ],
)
def test_wrong_byte_counts_lose_no_pixels(tmp_path, file, rows):
    """As in GDAL, strips without a count do not exist, unless there is only one."""
    wanted = np.arange(1, 13, dtype="u1").reshape(3, 4)
    wanted[rows:] = 0
    np.testing.assert_array_equal(ps.open(file)[0], wanted)
    rasterio = pytest.importorskip("rasterio")
    (tmp_path / "x.tif").write_bytes(file)
    with rasterio.open(tmp_path / "x.tif") as source:
        np.testing.assert_array_equal(source.read(1), wanted)


def test_a_single_strip_without_a_count_has_to_exist():
    with pytest.raises(ps.CorruptDataError):
        ps.open(strips([b"".join(ROWS)], [0], 3, more={273: tag(4, 500)}))[...]


@pytest.mark.parametrize(("compression", "data"), [(1, bytes([1] * 12)), (32773, bytes([0xFD, 1] * 3))])
def test_predictors_are_ignored_as_in_libtiff(tmp_path, compression, data):
    file = strips([data], [len(data)], 3, compression, {317: tag(3, 2)})
    np.testing.assert_array_equal(ps.open(file)[...], np.ones((1, 3, 4), "u1"))
    rasterio = pytest.importorskip("rasterio")
    (tmp_path / "x.tif").write_bytes(file)
    with rasterio.open(tmp_path / "x.tif") as source:
        np.testing.assert_array_equal(source.read(), np.ones((1, 3, 4), "u1"))


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("1.#INF", np.inf), ("-1.#INF00", -np.inf), ("1.#QNAN", np.nan), ("-1.#IND", np.nan), ("-1.#QNAN0", np.nan)],
)
def test_nodata_as_microsofts_runtime_wrote_it(text, wanted):
    np.testing.assert_equal(float(sparse("f4", text)), wanted)
    tags = image(1, 1, bits=32) | {339: tag(3, 3), 42113: tag(2, text)}
    np.testing.assert_equal(ps.open(tiff_of(tags, bytes(4))).nodata, wanted)


@pytest.mark.parametrize("compression", [1, 8])
@pytest.mark.parametrize("extra", [(1,), (16, 3), (8,)])
@pytest.mark.parametrize("samples", [1, 3])
def test_bits_of_more_samples_than_exist_are_ignored(compression, extra, samples):
    values = np.arange(8 * 8 * samples, dtype="u1").reshape(8, 8, samples)
    data = values.tobytes() if compression == 1 else zlib.compress(values.tobytes())
    tags = image(8, 8, samples) | {258: tag(3, *[8] * samples, *extra), 259: tag(3, compression)}
    tags[339] = tag(3, *[1] * samples, *[3 for _ in extra])
    np.testing.assert_array_equal(ps.open(tiff_of(tags, data))[...], np.moveaxis(values, 2, 0))


@pytest.mark.parametrize("bits", [(8, 8, 1), (8, 1, 8), (8, 16, 8, 8)])
def test_samples_of_unequal_bits_are_refused(bits):
    tags = image(8, 8, 3) | {258: tag(3, *bits)}
    with pytest.raises(ps.UnsupportedError, match="BitsPerSample"):
        ps.open(tiff_of(tags, bytes(192)))


@pytest.mark.parametrize("kinds", [(1, 1), (1, 4), (4, 1), (1, 3), (3, 1)])
@pytest.mark.parametrize("form", ["tiles", "strips", "strip"])
def test_offsets_and_byte_counts_of_type_byte_are_read(kinds, form):
    # A tile that has only the image's rows: its length must fit in a byte.
    values = np.arange(96, dtype="u1").reshape((6, 16) if form == "tiles" else (16, 6))
    height, width = values.shape
    data = values.tobytes()
    tags = image(width, height)
    parts = {"tiles": 1, "strips": 4, "strip": 1}[form]
    step = len(data) // parts
    places, lengths = (324, 325) if form == "tiles" else (273, 279)
    if form == "tiles":
        del tags[278]
        tags |= {322: tag(3, 16), 323: tag(3, 16)}
    else:
        tags[278] = tag(4, height // parts)

    def numbers(kind: int, *values: int) -> tuple[int, int, bytes]:
        return (1, len(values), bytes(values)) if kind == 1 else tag(kind, *values)

    tags[places] = numbers(kinds[0], *[8 + i * step for i in range(parts)])
    tags[lengths] = numbers(kinds[1], *[step] * parts)
    file = tiff_of(tags, data)
    np.testing.assert_array_equal(ps.open(file)[0], values)
    np.testing.assert_array_equal(pytest.importorskip("tifffile").imread(io.BytesIO(file)), values)


@pytest.mark.parametrize("nodata", [0.1, -9999.9, -3.4e38, -3.4028234663852886e38, 1e-50, float("nan"), float("inf")])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int16"])
def test_nodata_is_rounded_to_the_pixels_type_as_in_gdal(tmp_path, dtype, nodata):
    """A text with more digits than float32 has denotes the number that the pixels have."""
    rasterio = pytest.importorskip("rasterio")
    nodata = -9999 if dtype == "int16" else nodata
    shape = {"width": 4, "height": 4, "count": 1, "dtype": dtype, "nodata": nodata}
    with rasterio.open(tmp_path / "a.tif", "w", transform=rasterio.Affine(10, 0, 0, 0, -10, 0), **shape):
        pass
    with rasterio.open(tmp_path / "a.tif") as file:
        np.testing.assert_equal(ps.open(tmp_path / "a.tif").nodata, file.nodata)
