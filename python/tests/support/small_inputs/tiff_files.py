"""TIFF files and their sidecar files of less than 1 MB that are as expensive as the format allows."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

from support.small_inputs.cases import Action, add_case, touch


def _ifd(tags: list[tuple[int, int, int, bytes]], next_: int) -> bytes:
    """(tag, type, count, four bytes) of a little-endian classic directory."""
    body = b"".join(
        struct.pack("<HHI", tag, kind, count) + value.ljust(4, b"\0")[:4] for tag, kind, count, value in tags
    )
    return struct.pack("<H", len(tags)) + body + struct.pack("<I", next_)


def _u(value: int) -> bytes:
    return struct.pack("<I", value)


_IMAGE = [
    (256, 3, 1, _u(4)), (257, 3, 1, _u(4)), (258, 3, 1, _u(8)), (259, 3, 1, _u(1)), (262, 3, 1, _u(1)),
    (273, 4, 1, _u(8)), (277, 3, 1, _u(1)), (278, 3, 1, _u(4)), (279, 4, 1, _u(16)),
]  # fmt: skip


def _tiff(name: str, body: Callable[[], bytes], beside: Callable[[], bytes] | None = None) -> None:
    def make(folder: Path) -> Action:
        import penstock as ps

        path = folder / "x.tif"
        path.write_bytes(body())
        if beside is not None:
            (folder / "x.tif.aux.xml").write_bytes(beside())

        def act() -> object:
            found: Any = ps.open(path)
            for name in ("crs", "gcps", "tags", "pages", "description", "metadata", "transform", "nodata", "levels"):
                with contextlib.suppress(ps.Error, AttributeError):
                    value = getattr(found, name)
                    if callable(value):
                        value()
            return touch(found)

        return act

    add_case(f"tiff_{name}", make)


def _chain_of_ifds(count: int, tags: list[tuple[int, int, int, bytes]], last: int = 0) -> bytes:
    size = len(_ifd(tags, 0))
    out = [b"II*\0" + _u(24) + bytes(16)]
    out += [_ifd(tags, 24 + (i + 1) * size if i + 1 < count else last) for i in range(count)]
    return b"".join(out)


def _one_tag(tag: int, kind: int, payload: bytes, count: int | None = None) -> bytes:
    """A file of one image with one additional tag, whose payload is at the end."""
    tags = [*_IMAGE, (tag, kind, len(payload) if count is None else count, b"")]
    at = 24 + len(_ifd(tags, 0))
    tags[-1] = (*tags[-1][:3], _u(at))
    return b"II*\0" + _u(24) + bytes(16) + _ifd(sorted(tags), 0) + payload


_XML_BOMB = (
    b'<!DOCTYPE a [<!ENTITY l0 "' + b"x" * 1000 + b'">'
    + b"".join(f'<!ENTITY l{i} "{f"&l{i - 1};" * 10}">'.encode() for i in range(1, 9))
    + b"]>"
)  # fmt: skip


def _xml_quadratic(root: str) -> bytes:
    return (
        f'<!DOCTYPE a [<!ENTITY l "{"x" * 400_000}">]><{root}><Item name="a">{"&l;" * 150_000}</Item></{root}>'.encode()
    )


_tiff("directories", lambda: _chain_of_ifds(8_000, _IMAGE))
_tiff("small_directories", lambda: _chain_of_ifds(60_000, [(254, 4, 1, _u(0))]))
_tiff("loop", lambda: _chain_of_ifds(8_000, _IMAGE, 24))
_tiff("tags", lambda: b"II*\0" + _u(24) + bytes(16) + _ifd([(i, 3, 1, _u(1)) for i in range(65_535)], 0))
_tiff("equal_tags", lambda: b"II*\0" + _u(24) + bytes(16) + _ifd([(270, 2, 4, b"abc\0")] * 65_535, 0))
_tiff("offsets", lambda: _one_tag(324, 4, struct.pack("<I", 8) * 240_000, 240_000))
_tiff("huge_count", lambda: _one_tag(270, 2, b"abc\0", 0xFFFFFFF0))
_tiff("description", lambda: _one_tag(270, 2, b"x" * 900_000 + b"\0"))
_tiff(
    "metadata_items",
    lambda: _one_tag(
        42112,
        2,
        b"<GDALMetadata>" + b"".join(b'<Item name="%d">x</Item>' % i for i in range(30_000)) + b"</GDALMetadata>\0",
    ),
)
_tiff(
    "metadata_samples",
    lambda: _one_tag(
        42112,
        2,
        b"<GDALMetadata>"
        + b"".join(b'<Item name="a" sample="%d">x</Item>' % i for i in range(24_000))
        + b"</GDALMetadata>\0",
    ),
)
_tiff("metadata_deep", lambda: _one_tag(42112, 2, b"<GDALMetadata>" + b"<a>" * 140_000 + b"</a>" * 140_000 + b"\0"))
_tiff(
    "metadata_bomb",
    lambda: _one_tag(42112, 2, _XML_BOMB + b'<GDALMetadata><Item name="a">' + b"&l8;" + b"</Item></GDALMetadata>\0"),
)
_tiff("metadata_quadratic", lambda: _one_tag(42112, 2, _xml_quadratic("GDALMetadata") + b"\0"))
_tiff(
    "metadata_attributes",
    lambda: _one_tag(
        42112, 2, b"<GDALMetadata><Item " + b" ".join(b'a%d="x"' % i for i in range(60_000)) + b"/></GDALMetadata>\0"
    ),
)
_tiff("beside_bomb", lambda: _chain_of_ifds(1, _IMAGE), lambda: _XML_BOMB + b"<PAMDataset><SRS>&l8;</SRS></PAMDataset>")
_tiff("beside_deep", lambda: _chain_of_ifds(1, _IMAGE), lambda: b"<PAMDataset>" + b"<a>" * 300_000)
_tiff(
    "beside_items",
    lambda: _chain_of_ifds(1, _IMAGE),
    lambda: (
        b"<PAMDataset>"
        + b"".join(
            b'<PAMRasterBand band="%d"><Metadata><MDI key="a">x</MDI></Metadata></PAMRasterBand>' % (i % 9)
            for i in range(11_000)
        )
        + b"</PAMDataset>"
    ),
)
_tiff(
    "beside_gcps",
    lambda: _chain_of_ifds(1, _IMAGE),
    lambda: (
        b"<PAMDataset><GCPList Projection='x'>"
        + b"".join(b'<GCP Pixel="1" Line="1" X="1" Y="1"/>' for _ in range(25_000))
        + b"</GCPList></PAMDataset>"
    ),
)
_tiff(
    "beside_wkt",
    lambda: _chain_of_ifds(1, _IMAGE),
    lambda: b"<PAMDataset><SRS>" + b"GEOGCS[" * 130_000 + b"</SRS></PAMDataset>",
)
_tiff(
    "geokeys",
    lambda: _one_tag(
        34735, 3, struct.pack("<4H", 1, 1, 0, 65_535) + struct.pack("<4H", 1024, 0, 1, 1) * 65_535, 4 * 65_536
    ),
)
_tiff(
    "geokeys_of_text",
    lambda: _one_tag(
        34735, 3, struct.pack("<4H", 1, 1, 0, 65_535) + struct.pack("<4H", 1026, 34737, 60_000, 0) * 65_535, 4 * 65_536
    ),
)
_tiff("tie_points", lambda: _one_tag(33922, 12, struct.pack("<6d", *range(6)) * 20_000, 120_000))
_tiff("huge_image", lambda: _chain_of_ifds(1, [(256, 4, 1, _u(0xFFFFFFFF)), (257, 4, 1, _u(0xFFFFFFFF)), *_IMAGE[2:]]))
_tiff("samples", lambda: _chain_of_ifds(1, [*_IMAGE[:6], (277, 3, 1, _u(65_535)), *_IMAGE[7:]]))
_tiff("sub_directories", lambda: _one_tag(330, 4, b"".join(_u(24) for _ in range(230_000)), 230_000))
