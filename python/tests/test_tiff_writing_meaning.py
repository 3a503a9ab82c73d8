"""Tags with the meaning of pixels, byte by byte: as `repr`, `struct` and `xml.sax` write the same values."""

from __future__ import annotations

import itertools
import math
import struct
import sys
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

import numpy as np
import penstock as ps
import pytest

TRANSFORMS = [
    (10, 0, 5e5, 0, -10, 5e6),
    (0.1, 0, 1 / 3, 0, -0.25, 90),
    (3, 1, 7, -1, -3, 5),
    (10, 0, 0, 0, 10, 0),
    (-1, 0, 5, 0, -1, 5),
]
TEXTS = ["", "a", 'me & "you"', "it's", "both ' and \"", "<x>&amp;", "é𝄞", "tab\tline\nreturn\r"]


def tags_of(path: Path) -> dict[int, tuple[int, int, bytes]]:
    """Type, count and bytes of each tag in the first directory of a classic little-endian file."""
    data = path.read_bytes()
    assert data[:4] == b"II*\0"
    (at,) = struct.unpack_from("<I", data, 4)
    (count,) = struct.unpack_from("<H", data, at)
    out = {}
    for i in range(count):
        tag, kind, values, where = struct.unpack_from("<HHII", data, at + 2 + 12 * i)
        size = {2: 1, 3: 2, 4: 4, 12: 8}[kind] * values
        begin = at + 2 + 12 * i + 8 if size <= 4 else where
        out[tag] = (kind, values, data[begin : begin + size])
    return out


def text(value: str) -> tuple[int, int, bytes]:
    data = value.encode() + b"\0"
    return 2, len(data), data


def doubles(*values: float) -> tuple[int, int, bytes]:
    return 12, len(values), struct.pack(f"<{len(values)}d", *values)


def written(path: Path, dtype: str = "u1", bands: int = 1, **options) -> dict[int, tuple[int, int, bytes]]:
    ps.save(path, np.zeros((bands, 20, 20), dtype), overwrite=True, **options)
    return tags_of(path)


def test_nodata_of_every_type_is_its_number(tmp_path):
    limits = [2**63 - 1, -(2**63), 2**64 - 1, 2**63, 65535, -128]
    floats = [math.nan, math.inf, -math.inf, -0.0, 0.1, 1e-7, 1e15, 1e16, 3.4e38, 1e300, -9999.0, 5e-324]
    refused = 0
    dtypes = ["u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8", "c8", "c16"]
    for dtype, value in itertools.product(dtypes, limits + floats):
        kind = np.dtype(dtype)
        if kind.kind in "iu":
            fits = not math.isnan(value) and not math.isinf(value) and value == int(value)
            fits = fits and np.iinfo(kind).min <= value <= np.iinfo(kind).max
            wanted = str(int(value)) if fits else ""
        else:
            with np.errstate(over="ignore"):
                held = np.array(float(value), kind).real
            fits = math.isinf(value) or not np.isinf(held)
            wanted = repr(float(held))
        if fits:
            assert written(tmp_path / "x.tif", dtype, nodata=value)[42113] == text(wanted)
        else:
            refused += 1
            with pytest.raises(ps.InvalidArgumentError, match="is not a value of"):
                written(tmp_path / "x.tif", dtype, nodata=value)
    assert refused > 60


def test_exact_integers_of_numpy_are_nodata(tmp_path):
    assert written(tmp_path / "x.tif", "i8", nodata=np.int64(2**63 - 1))[42113] == text("9223372036854775807")
    assert written(tmp_path / "x.tif", "u8", nodata=np.uint64(2**64 - 1))[42113] == text("18446744073709551615")


@pytest.mark.parametrize("kind", [None, "Area", "Point"])
@pytest.mark.parametrize("system", [None, 32633, 4326, "EPSG:4326+5773"])
def test_georeferencing_is_written_as_geotiff_tags(tmp_path, system, kind):
    if isinstance(system, str):
        pytest.importorskip("pyproj")
    for transform in [None, *TRANSFORMS]:
        tags = written(tmp_path / "x.tif", crs=system, transform=transform, area_or_point=kind)
        point = kind == "Point"
        if transform is None:
            assert not {33550, 33922, 34264} & set(tags)
        else:
            a, b, c, d, e, f = transform
            if point:
                c, f = c + (a + b) / 2, f + (d + e) / 2
            if b == d == 0 and a > 0 > e:
                assert tags[33550] == doubles(a, -e, 0)
                assert tags[33922] == doubles(0, 0, 0, c, f, 0)
            else:
                assert tags[34264] == doubles(a, b, 0, c, d, e, 0, f, 0, 0, 0, 0, 0, 0, 0, 1)
        if system is None and not point:
            assert 34735 not in tags
            continue
        entries = struct.unpack(f"<{tags[34735][1]}H", tags[34735][2])
        keys = {entries[i]: entries[i + 1 : i + 4] for i in range(4, len(entries), 4)}
        assert list(keys) == sorted(keys)
        assert entries[3] == len(keys)
        assert keys.pop(1025) == (0, 1, 2 if point else 1)
        keys.pop(1026, None)  # the name, which pyproj has
        heights = {4096: (0, 1, 5773)} if isinstance(system, str) else {}
        codes = {
            None: {},
            32633: {1024: (0, 1, 1), 3072: (0, 1, 32633)},
            4326: {1024: (0, 1, 2), 2048: (0, 1, 4326)},
        }[4326 if heights else system]
        assert keys == codes | heights
        assert entries[:3] == (1, 1, 1 if heights else 0)


def test_metadata_is_written_as_gdals_xml(tmp_path):
    def twice(value: str) -> str:
        return escape(escape(value, {'"': "&quot;"}))

    for value in TEXTS:
        tags = written(tmp_path / "x.tif", "i2", 2, attributes={value: value}, descriptions=[value, None])
        lines = [
            "<GDALMetadata>",
            f"  <Item name={quoteattr(value)}>{twice(value)}</Item>",
            f'  <Item name="DESCRIPTION" sample="0" role="description">{twice(value)}</Item>',
            "</GDALMetadata>",
        ]
        assert tags[42112] == text("\n".join(lines) + "\n")


def test_numbers_of_bands_are_written_as_in_python(tmp_path):
    for value in (1, 0.1, 1e-7, math.nan, -math.inf, 1e22, 1e15, 5e-324, np.float32(0.1)):
        tags = written(tmp_path / "x.tif", "f4", 2, scales=[value, None], offsets=[None, value], units=["m", None])
        lines = [
            "<GDALMetadata>",
            '  <Item name="UNITTYPE" sample="0" role="unittype">m</Item>',
            f'  <Item name="SCALE" sample="0" role="scale">{float(value)!r}</Item>',
            f'  <Item name="OFFSET" sample="1" role="offset">{float(value)!r}</Item>',
            "</GDALMetadata>",
        ]
        assert tags[42112] == text("\n".join(lines) + "\n")


def test_colours_are_written_by_channel(tmp_path):
    colors = np.arange(30).reshape(10, 3) * 1000
    tags = written(tmp_path / "x.tif", colormap=colors)
    table = np.zeros((256, 3), "<u2")
    table[:10] = colors
    assert tags[320] == (3, 768, table.T.tobytes())
    with pytest.raises(ps.InvalidArgumentError, match="at most 16 colours for samples of 4 bits, it has 17"):
        written(tmp_path / "x.tif", bits=4, colormap=np.zeros((17, 3), int))


def test_systems_that_need_no_pyproj(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyproj", None)
    for crs, key in ((32633, 3072), ("epsg:3857", 3072), (4326, 2048), ("EPSG:32760", 3072)):
        tags = written(tmp_path / "x.tif", crs=crs)
        entries = struct.unpack(f"<{tags[34735][1]}H", tags[34735][2])
        code = int(str(crs).lower().removeprefix("epsg:"))
        assert entries[4:] == (1024, 0, 1, 1 if key == 3072 else 2, 1025, 0, 1, 1, key, 0, 1, code)
        assert 34737 not in tags
    for crs in (2056, "EPSG:32661", "WGS 84", 3.5, None.__class__):
        with pytest.raises(ps.UnsupportedError, match="pyproj, which is needed for"):
            written(tmp_path / "x.tif", crs=crs)
