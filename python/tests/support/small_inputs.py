"""Inputs of less than 1 MB that are as expensive as their formats allow, and a program that measures each.

Run as a program, it makes each input, opens it in a process of its own, and writes one JSON line a case: name, bytes,
seconds of CPU, peak memory above the start in bytes, and what came of it.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import resource
import struct
import sys
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

MOST_BYTES = 1_000_000
CASE_TIMEOUT = 20  # seconds, after which a case is killed
Action = Callable[[], object]
CASES: dict[str, Callable[[Path], Action]] = {}


def case(made: Callable[[Path], Action]) -> Callable[[Path], Action]:
    CASES[made.__name__] = made
    return made


def _named(name: str, made: Callable[[Path], Action]) -> None:
    CASES[name] = made


def _all(found: Any) -> Any:
    """What a user does first with a group or an array."""
    import penstock as ps

    if isinstance(found, ps.Group):
        names = list(found)
        with contextlib.suppress(ps.Error):
            dict(found.attrs)
        return len(names), [_first(found[name]) for name in names[:3]]
    return _first(found)


def _first(found: Any) -> Any:
    import penstock as ps

    if isinstance(found, ps.Group):
        return None
    repr(found)
    dict(found.attrs)
    return found[tuple(slice(0, 1) for _ in found.shape)]


# --- Zarr metadata ---

_V3 = {
    "zarr_format": 3, "node_type": "array", "shape": [4], "data_type": "uint8", "fill_value": 0, "attributes": {},
    "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4]}},
    "chunk_key_encoding": {"name": "default"}, "codecs": [{"name": "bytes"}],
}  # fmt: skip
_V2 = {
    "zarr_format": 2, "shape": [4], "chunks": [4], "dtype": "|u1", "order": "C", "compressor": None, "filters": None,
    "fill_value": 0,
}  # fmt: skip


def _deep(count: int, open_: str = "[", close: str = "]", inner: str = "1") -> str:
    return open_ * count + inner + close * count


_SHARDING = '{"name":"sharding_indexed","configuration":{"chunk_shape":[4],"index_codecs":[{"name":"bytes"}],"codecs":['


def _sharding(depth: int, width: int = 1) -> str:
    inner = ",".join([_SHARDING * depth + '{"name":"bytes"}' + "]}}" * depth] * width)
    return f"[{inner}]"


def _v3(text: str | None = None, member: str = "attributes", **more: Any) -> bytes:
    """An array's `zarr.json`; `text` is JSON in place of `member`."""
    made = json.dumps({**_V3, **more, **({} if text is None else {member: "@"})}, separators=(",", ":"))
    return (made if text is None else made.replace('"@"', text)).encode()


_MANY = 60_000
_V3_CASES: dict[str, Callable[[], bytes]] = {
    "deep_lists": lambda: _v3(_deep(490_000)),
    "deep_objects": lambda: _v3(_deep(160_000, '{"a":', "}")),
    "deep_lists_512": lambda: _v3('{"a":[' + ",".join([_deep(400)] * 1200) + "]}"),
    "members": lambda: _v3("{" + ",".join(f'"{i:06d}":{i}' for i in range(_MANY)) + "}"),
    "equal_members": lambda: _v3("{" + ",".join('"a":1' for i in range(150_000)) + "}"),
    "long_text": lambda: _v3('{"a":"' + "x" * 900_000 + '"}'),
    "escapes": lambda: _v3('{"a":"' + "\\u0041" * 160_000 + '"}'),
    "surrogates": lambda: _v3('{"a":"' + "\\ud83d\\ude00" * 80_000 + '"}'),
    "long_number": lambda: _v3('{"a":' + "1" * 900_000 + "}"),
    "long_fraction": lambda: _v3('{"a":0.' + "1" * 900_000 + "}"),
    "long_exponent": lambda: _v3('{"a":1e' + "1" * 900_000 + "}"),
    "numbers": lambda: _v3('{"a":[' + ",".join(["1"] * 450_000) + "]}"),
    "fractions": lambda: _v3('{"a":[' + ",".join(["1.7976931348623157e308"] * 40_000) + "]}"),
    "empty_lists": lambda: _v3('{"a":[' + ",".join(["[]"] * 300_000) + "]}"),
    "empty_objects": lambda: _v3('{"a":[' + ",".join(["{}"] * 300_000) + "]}"),
    "not_closed": lambda: b"[" * 990_000,
    "blanks": lambda: b" " * 900_000 + _v3(),
    "rank": lambda: _v3(shape=[1] * 200_000, chunk_grid=_grid([1] * 9)),
    "rank_both": lambda: _v3(
        shape=[1] * 200_000, chunk_grid=_grid([1] * 200_000)
    ),
    "codecs": lambda: _v3(codecs=[{"name": "bytes"}] * 40_000),
    "codecs_transpose": lambda: _v3(
        codecs=[{"name": "transpose", "configuration": {"order": [0]}}] * 14_000 + [{"name": "bytes"}]
    ),
    "codecs_gzip": lambda: _v3(
        codecs=[{"name": "bytes"}] + [{"name": "gzip", "configuration": {"level": 1}}] * 17_000
    ),
    "codecs_crc": lambda: _v3(codecs=[{"name": "bytes"}] + [{"name": "crc32c"}] * 40_000),
    "sharding_deep": lambda: _v3(_sharding(6_000), "codecs"),
    "sharding_wide": lambda: _v3(_sharding(1, 6_000), "codecs"),
    "shard_of_many": lambda: _v3(shape=[1 << 40], chunk_grid=_grid([1 << 30]), codecs=_shard_of([1])),
    "shard_of_too_many": lambda: _v3(shape=[1 << 62], chunk_grid=_grid([1 << 60]), codecs=_shard_of([1])),
    "huge_shape": lambda: _v3(shape=[1 << 62], chunk_grid=_grid([1 << 20])),
    "huge_chunk": lambda: _v3(shape=[1 << 40], chunk_grid=_grid([1 << 40])),
    "huge_product": lambda: _v3(shape=[1 << 32] * 8, chunk_grid=_grid([1 << 32] * 8)),
    "names": lambda: _v3(dimension_names=["x"] * 200_000),
    "fill_text": lambda: _v3(fill_value="0x" + "f" * 900_000),
    "fill_list": lambda: _v3(fill_value=[0] * 400_000),
    "fill_bytes": lambda: _v3(data_type={"name": "null_terminated_bytes", "configuration": {"length_bytes": 1 << 30}},
                              fill_value=""),
    "text_length": lambda: _v3(data_type={"name": "fixed_length_utf32", "configuration": {"length_bytes": 1 << 30}},
                               fill_value=""),
    "raw_bits": lambda: _v3(data_type="r8589934592", fill_value=[0]),
    "fields": lambda: _v3(
        data_type={"name": "structured", "configuration": {"fields": [[f"f{i}", "uint8"] for i in range(50_000)]}},
        fill_value="",
    ),
    "equal_fields": lambda: _v3(
        data_type={"name": "structured", "configuration": {"fields": [["f", "uint8"]] * 50_000}}, fill_value=""
    ),
    "rectilinear_runs": lambda: _v3(
        shape=[1 << 40],
        chunk_grid={"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": [[[1, 1 << 40]]]}},
    ),
    "rectilinear_many": lambda: _v3(
        shape=[300_000],
        chunk_grid={"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": [[1] * 300_000]}},
    ),
    "rectilinear_run_pairs": lambda: _v3(
        shape=[100_000 * 100_000],
        chunk_grid={
            "name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": [[[1, 100_000]] * 60_000]}
        },
    ),
    "consolidated": lambda: json.dumps(
        {
            "zarr_format": 3, "node_type": "group", "attributes": {},
            "consolidated_metadata": {
                "kind": "inline", "must_understand": False, "metadata": {f"a{i}": _V3 for i in range(3_000)}
            },
        }
    ).encode(),
    "consolidated_deep": lambda: json.dumps(
        {
            "zarr_format": 3, "node_type": "group", "attributes": {},
            "consolidated_metadata": {
                "kind": "inline", "must_understand": False,
                "metadata": {
                    "/".join(["a"] * i): {"zarr_format": 3, "node_type": "group"} for i in range(1, 880)
                },
            },
        }
    ).encode(),
    "consolidated_inside": lambda: _consolidated_inside(1_500),
}  # fmt: skip


def _consolidated_inside(depth: int) -> bytes:
    head = '{"zarr_format":3,"node_type":"group","consolidated_metadata":{"kind":"inline","metadata":{"a":'
    return (head * depth + '{"zarr_format":3,"node_type":"group"}' + "}}}" * depth).encode()


def _grid(chunk: list[int]) -> dict[str, Any]:
    return {"name": "regular", "configuration": {"chunk_shape": chunk}}


def _shard_of(chunk: list[int]) -> list[Any]:
    configuration = {"chunk_shape": chunk, "codecs": [{"name": "bytes"}], "index_codecs": [{"name": "bytes"}]}
    return [{"name": "sharding_indexed", "configuration": configuration}]


def _zarr(name: str, objects: Callable[[], dict[str, bytes]]) -> None:
    def make(folder: Path) -> Action:
        import penstock as ps

        made = objects()
        assert sum(len(key) + len(value) for key, value in made.items()) < MOST_BYTES
        return lambda: _all(ps.open(made))

    _named(name, make)


for _name, _made in _V3_CASES.items():
    _zarr(f"zarr3_{_name}", lambda made=_made: {"zarr.json": made(), "c/0": b"\0" * 100})  # type: ignore[misc]


def _v2(**more: Any) -> bytes:
    return json.dumps({**_V2, **more}).encode()


_V2_CASES: dict[str, Callable[[], dict[str, bytes]]] = {
    "filters": lambda: {".zarray": _v2(filters=[{"id": "shuffle", "elementsize": 1}] * 20_000)},
    "filters_delta": lambda: {".zarray": _v2(filters=[{"id": "delta", "dtype": "|u1"}] * 20_000), "0": bytes(4)},
    "fields": lambda: {".zarray": _v2(dtype=[[f"f{i}", "|u1"] for i in range(50_000)])},
    "fields_deep": lambda: {
        ".zarray": _v2(dtype="@").replace(b'"@"', _deep(80_000, '[["a",', "]]", '"|u1"').encode())
    },
    "fields_shape": lambda: {".zarray": _v2(dtype=[["f", "|u1", [1 << 31, 1 << 31]]])},
    "fields_shapes": lambda: {".zarray": _v2(dtype=[["f", "|u1", [1] * 300_000]])},
    "item_size": lambda: {".zarray": _v2(dtype="|S2147483647", fill_value="")},
    "attributes": lambda: {".zarray": _v2(), ".zattrs": b'{"a":' + _deep(450_000).encode() + b"}"},
    "consolidated": lambda: {
        ".zmetadata": json.dumps(
            {"zarr_consolidated_format": 1, "metadata": {".zgroup": {"zarr_format": 2}}
             | {f"a{i}/.zarray": _V2 for i in range(5_000)}}
        ).encode(),
        ".zgroup": b'{"zarr_format":2}',
    },
    "consolidated_deep": lambda: {
        ".zmetadata": json.dumps(
            {"zarr_consolidated_format": 1, "metadata": {"/".join(["a"] * i) + "/.zgroup": {"zarr_format": 2}
                                                         for i in range(1, 880)} | {".zgroup": {"zarr_format": 2}}}
        ).encode(),
        ".zgroup": b'{"zarr_format":2}',
    },
    "group_of_many": lambda: {".zgroup": b'{"zarr_format":2}'}
    | {f"a{i}/.zarray": _v2() for i in range(5_500)},
}  # fmt: skip
for _name, _made2 in _V2_CASES.items():
    _zarr(f"zarr2_{_name}", _made2)


# --- zip archives ---


def _zip(name: str, fill: Callable[[zipfile.ZipFile], None], edit: Callable[[bytes], bytes] | None = None) -> None:
    def make(folder: Path) -> Action:
        import penstock as ps

        path = folder / "x.zip"
        with zipfile.ZipFile(path, "w") as file:
            fill(file)
        if edit is not None:
            path.write_bytes(edit(path.read_bytes()))
        return lambda: _all(ps.open(path))

    _named(f"zip_{name}", make)


def _arrays(count: int, method: int = zipfile.ZIP_STORED) -> Callable[[zipfile.ZipFile], None]:
    def fill(file: zipfile.ZipFile) -> None:
        file.writestr(".zgroup", '{"zarr_format":2}')
        for i in range(count):
            file.writestr(f"a{i}/.zarray", _v2(), method)

    return fill


_zip("of_arrays", _arrays(3_400))
_zip("of_deflated_arrays", _arrays(3_800, zipfile.ZIP_DEFLATED))
_zip("of_groups", lambda file: [file.writestr(f"g{i}/.zgroup", '{"zarr_format":2}') for i in range(7_000)] and None)
_zip("of_empty", lambda file: [file.writestr(f"{i}", b"") for i in range(10_000)] and None)
_zip("of_one_name", lambda file: _quiet(file, "zarr.json", 6_000))
_zip("deep", lambda file: [file.writestr("a/" * i + "zarr.json", b"{}") for i in range(680)] and None)
_zip("bomb", lambda file: file.writestr("zarr.json", b" " * 900_000_000, zipfile.ZIP_DEFLATED, 9))
_zip("bzip2_bomb", lambda file: file.writestr("zarr.json", b" " * 500_000_000, zipfile.ZIP_BZIP2))
_zip("long_name", lambda file: file.writestr("a/" * 32_000 + "zarr.json", b"{}"))
_zip("many_ends", lambda file: file.writestr("zarr.json", _v3()), lambda raw: raw + b"PK\5\6" * 200_000)


def _quiet(file: zipfile.ZipFile, name: str, count: int) -> None:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(count):
            file.writestr(name, b"{}")


# --- .npy and .npz ---


def _npy_header(text: str, version: int = 2) -> bytes:
    body = text.encode() + b"\n"
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<I", len(body)) + body + bytes(64)


_NPY_CASES: dict[str, Callable[[], str]] = {
    "fields": lambda: repr({"descr": [(f"f{i}", "|u1") for i in range(45_000)], "fortran_order": False, "shape": (1,)}),
    "equal_fields": lambda: repr({"descr": [("f", "|u1")] * 60_000, "fortran_order": False, "shape": (1,)}),
    "deep": lambda: "{'descr': " + _deep(400_000) + ", 'fortran_order': False, 'shape': (1,)}",
    "deep_fields": lambda: (
        "{'descr': " + _deep(70_000, "[('a', ", ")]", "'|u1'") + ", 'fortran_order': False, 'shape': (1,)}"
    ),
    "rank": lambda: repr({"descr": "|u1", "fortran_order": False, "shape": (1,) * 300_000}),
    "members": lambda: "{" + ", ".join(f"'{i}': 0" for i in range(70_000)) + "}",
    "equal_members": lambda: "{" + ", ".join("'descr': '|u1'" for _ in range(55_000)) + "}",
    "long_text": lambda: "{'descr': '" + "|" * 900_000 + "', 'fortran_order': False, 'shape': (1,)}",
    "escapes": lambda: "{'descr': '" + "\\x41" * 230_000 + "', 'fortran_order': False, 'shape': (1,)}",
    "blanks": lambda: " " * 900_000 + repr({"descr": "|u1", "fortran_order": False, "shape": (1,)}),
    "long_number": lambda: "{'descr': '|u1', 'fortran_order': False, 'shape': (" + "9" * 900_000 + ",)}",
    "huge_shape": lambda: repr({"descr": "|u1", "fortran_order": False, "shape": (1 << 62,)}),
    "not_closed": lambda: "{" * 990_000,
    "texts": lambda: "{'descr': " + "'a' " * 240_000 + "}",
    "field_titles": lambda: repr(
        {"descr": [((f"t{i}", f"f{i}"), "|u1") for i in range(28_000)], "fortran_order": False, "shape": (1,)}
    ),
    "field_shapes": lambda: repr({"descr": [("f", "|u1", (1,) * 300_000)], "fortran_order": False, "shape": (1,)}),
}


def _npy(name: str, text: Callable[[], str]) -> None:
    def make(folder: Path) -> Action:
        import penstock as ps

        path = folder / "x.npy"
        path.write_bytes(_npy_header(text()))
        return lambda: _all(ps.open(path))

    _named(f"npy_{name}", make)


for _name, _text in _NPY_CASES.items():
    _npy(_name, _text)


@case
def npz_bomb(folder: Path) -> Action:
    import penstock as ps

    path = folder / "x.npz"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("x.npy", _npy_header(" " * 700_000_000), zipfile.ZIP_DEFLATED, 9)
    return lambda: _all(ps.open(path))


@case
def npz_of_many(folder: Path) -> Action:
    import penstock as ps

    path = folder / "x.npz"
    with zipfile.ZipFile(path, "w") as file:
        for i in range(4_000):
            file.writestr(f"{i}.npy", _npy_header(repr({"descr": "|u1", "fortran_order": False, "shape": (1,)}), 2))
    return lambda: _all(ps.open(path, "7"))


# --- TIFF ---


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
            return _all(found)

        return act

    _named(f"tiff_{name}", make)


def _chain_of_ifds(count: int, tags: list[tuple[int, int, int, bytes]], last: int = 0) -> bytes:
    size = len(_ifd(tags, 0))
    out = [b"II*\0" + _u(24) + bytes(16)]
    out += [_ifd(tags, 24 + (i + 1) * size if i + 1 < count else last) for i in range(count)]
    return b"".join(out)


def _one_tag(tag: int, kind: int, payload: bytes, count: int | None = None) -> bytes:
    """One image with one more tag, whose payload stands at the end."""
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


# --- kerchunk's references ---


def _kerchunk(name: str, document: Callable[[], Any]) -> None:
    def make(folder: Path) -> Action:
        import penstock as ps

        path = folder / "d.json"
        made = document()
        path.write_text(made if isinstance(made, str) else json.dumps(made))
        return lambda: _all(ps.open(path, "x"))

    _named(f"kerchunk_{name}", make)


def _refs(more: dict[str, Any], **zarray: Any) -> dict[str, Any]:
    return {".zgroup": '{"zarr_format": 2}', "x/.zarray": json.dumps({**_V2, **zarray}), **more}


def _levels(width: int, depth: int, spelled: str = "{{{{t{}}}}}") -> dict[str, str]:
    return {"t0": "x" * 10, **{f"t{i}": spelled.format(i - 1) * width for i in range(1, depth)}}


def _versioned(refs: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"version": 1, "refs": refs, **more}


_kerchunk("templates", lambda: _versioned(_refs({"x/0": ["{{t8}}"]}), templates=_levels(10, 9)))
_kerchunk("templates_wide", lambda: _versioned(_refs({"x/0": ["{{t2}}"]}), templates=_levels(30_000, 3)))
_kerchunk(
    "templates_called",
    lambda: _versioned(_refs({"x/0": ["{{t7(a=1)}}"]}), templates=_levels(10, 9, "{{{{t{}(a=2)}}}}")),
)
_kerchunk(
    "templates_in_refs",
    lambda: _versioned(
        _refs({f"x/{i}": ["{{u}}", 0, 1] for i in range(25_000)}, shape=[25_000], chunks=[1]),
        templates={"u": "x" * 100_000},
    ),
)
_kerchunk("templates_circle", lambda: _versioned(_refs({"x/0": ["{{a}}"]}), templates={"a": "{{a}}{{a}}{{a}}{{a}}"}))
_kerchunk("templates_long_expression", lambda: _versioned(_refs({"x/0": ["{{" + "1+" * 400_000 + "1}}"]})))
_kerchunk("templates_products", lambda: _versioned(_refs({"x/0": ["{{" + "*".join(["9" * 4_000] * 200) + "}}"]})))
_kerchunk("templates_brackets", lambda: _versioned(_refs({"x/0": ["{{" + _deep(400_000, "(", ")") + "}}"]})))
_kerchunk("templates_not_closed", lambda: _versioned(_refs({"x/0": ["{{" * 400_000]})))
_kerchunk("templates_many_places", lambda: _versioned(_refs({"x/0": ["{{a}}" * 180_000]}), templates={"a": "b"}))
_kerchunk(
    "generated",
    lambda: _versioned(
        _refs({}, shape=[10**7], chunks=[1]),
        gen=[
            {"key": "x/{{i}}", "url": "u", "offset": "{{i}}", "length": "1", "dimensions": {"i": {"stop": 9_999_999}}}
        ],
    ),
)
_kerchunk(
    "generated_often",
    lambda: _versioned(
        _refs({}, shape=[10**7], chunks=[1]),
        gen=[{"key": "x/{{i}}", "url": "u", "dimensions": {"i": {"stop": 90_000}}}] * 100,
    ),
)
_kerchunk(
    "generated_long",
    lambda: _versioned(
        _refs({}, shape=[10**7], chunks=[1]),
        templates={"u": "x" * 500_000},
        gen=[{"key": "x/{{i}}", "url": "{{u}}{{i}}", "dimensions": {"i": {"stop": 90_000}}}],
    ),
)
_kerchunk(
    "generated_dimensions",
    lambda: _versioned(
        _refs({}), gen=[{"key": "x/0", "url": "u", "dimensions": {f"d{i}": [0] for i in range(50_000)}}]
    ),
)
_kerchunk(
    "generated_huge",
    lambda: _versioned(_refs({}), gen=[{"key": "x/0", "url": "u", "dimensions": {"i": {"stop": 10**30}}}]),
)
_kerchunk("chunks", lambda: _refs({f"x/{i}": ["u", i, 1] for i in range(36_000)}, shape=[40_000], chunks=[1]))
_kerchunk("objects", lambda: _refs({f"x/{i}": [f"u{i}", i, 1] for i in range(30_000)}, shape=[40_000], chunks=[1]))
_kerchunk("folders", lambda: _refs({f"x/{i}": [f"{i}/u", i, 1] for i in range(30_000)}, shape=[40_000], chunks=[1]))
_kerchunk("inlined", lambda: _refs({f"x/{i}": "a" for i in range(50_000)}, shape=[60_000], chunks=[1]))
_kerchunk("huge_grid", lambda: _refs({"x/0": ["u", 0, 1]}, shape=[1 << 62], chunks=[1]))
_kerchunk("huge_product", lambda: _refs({"x/0.0.0": ["u", 0, 1]}, shape=[1 << 40] * 3, chunks=[1] * 3))
_kerchunk("deep", lambda: '{"version": 1, "refs": ' + _deep(480_000) + "}")
_kerchunk("deep_keys", lambda: _refs({"/".join(["a"] * i) + "/.zgroup": '{"zarr_format": 2}' for i in range(1, 900)}))
_kerchunk("groups", lambda: _refs({f"g{i}/.zgroup": '{"zarr_format": 2}' for i in range(18_000)}))
_kerchunk("long_key_numbers", lambda: _refs({"x/" + "9" * 900_000: ["u", 0, 1]}))


@case
def kerchunk_group_of_arrays(folder: Path) -> Action:
    import penstock as ps

    refs: dict[str, Any] = {".zgroup": '{"zarr_format": 2}', "g/.zgroup": '{"zarr_format": 2}'}
    for i in range(1_500):
        refs |= {f"g/a{i}/.zarray": json.dumps(_V2), f"g/a{i}/0": ["u", 0, 4]}
    path = folder / "d.json"
    path.write_text(json.dumps(refs))
    return lambda: [ps.open(path, "g")[f"a{i}"].shape for i in range(50)]  # type: ignore[index]


def _parquet(name: str, record_size: int, rows: int, value: Any = None, records: int = 1, **zarray: Any) -> None:
    def make(folder: Path) -> Action:
        import penstock as ps
        import pyarrow as pa
        import pyarrow.parquet as pq

        target = folder / "d.parq"
        (target / "x").mkdir(parents=True)
        metadata = {".zgroup": {"zarr_format": 2}, "x/.zarray": {**_V2, **zarray}}
        (target / ".zmetadata").write_text(json.dumps({"metadata": metadata, "record_size": record_size}))
        table = {
            "path": pa.nulls(rows, pa.string()) if value is None else pa.repeat(value, rows),
            "offset": pa.repeat(0, rows), "size": pa.repeat(1, rows), "raw": pa.nulls(rows, pa.binary()),
        }  # fmt: skip
        for record in range(records):
            pq.write_table(pa.table(table), target / "x" / f"refs.{record}.parq", compression="zstd")
        return lambda: _all(ps.open(target, "x"))

    _named(f"kerchunk_parquet_{name}", make)


_parquet("few", 10, 10, "u", shape=[40], chunks=[1])
_parquet("huge_grid", 1, 1, "u", shape=[1 << 40], chunks=[1])
_parquet("huge_record", 1 << 60, 1, "u", shape=[1 << 62], chunks=[1])
_parquet("nulls", 1 << 40, 20_000_000, shape=[1 << 40], chunks=[1])
_parquet("values", 1 << 40, 5_000_000, "u", shape=[1 << 40], chunks=[1])
_parquet("long_values", 1 << 40, 200, "u" * 500_000, shape=[1 << 40], chunks=[1])
_parquet("records", 1, 1, "u", 300, shape=[300], chunks=[1])


# --- our manifests ---


def _saved_references(folder: Path) -> tuple[dict[str, Any], bytes]:
    import penstock as ps

    (folder / "r.json").write_text(json.dumps(_refs({"x/0": ["b.bin", 0, 4]})))
    (folder / "b.bin").write_bytes(bytes(4))
    ps.save_manifest(ps.open(folder / "r.json", "x"), folder / "m")  # type: ignore[arg-type]
    line, _, table = (folder / "m").read_bytes().partition(b"\n")
    return json.loads(line), table


def _manifest(name: str, edit: Callable[[dict[str, Any], bytes], bytes | None]) -> None:
    def make(folder: Path) -> Action:
        import penstock as ps

        document, table = _saved_references(folder)
        made = edit(document, table)
        (folder / "m").write_bytes(json.dumps(document).encode() + b"\n" + (table if made is None else made))
        return lambda: _all(ps.open(folder / "m"))

    _named(f"manifest_{name}", make)


def _with_table(document: dict[str, Any], plain: bytes) -> bytes:
    packed = zlib.compress(plain, 9)
    document["table"] = {
        "bytes": len(packed), "plain_bytes": len(plain), "crc32": zlib.crc32(packed), "codec": "zlib",
    }  # fmt: skip
    return packed


def _runs(document: dict[str, Any], table: bytes) -> bytes:
    document["joined"] = {"axis": 0, "cells": [[1, 1 << 40]], "decoded": [[1, 1 << 40]]}
    document["shards"] = {}
    return _with_table(document, struct.pack("<8sQQ5B3x", b"PSREFS01", 0, 1 << 60, 0, 0, 0, 0, 0))


def _large_table(document: dict[str, Any], table: bytes) -> bytes:
    entries = 90_000_000
    document["documents"][".zarray"]["shape"] = [4 * entries]
    return _with_table(
        document, struct.pack("<8sQQ5B3x", b"PSREFS01", entries, entries, 0, 0, 8, 0, 0) + bytes(8 * entries)
    )


_manifest("runs", _runs)
_manifest("large_table", _large_table)
_manifest("table_of_zeros", lambda document, _: _with_table(document, bytes(900_000_000)))
_manifest(
    "objects",
    lambda document, _: document.update(
        objects=[{"name": f"{i}", "path": f"{i}", "stamp": None} for i in range(20_000)]
    ),
)
_manifest(
    "inlined",
    lambda document, _: document.update(
        objects=[{"name": f"{i}", "data": base64.b64encode(b"x").decode()} for i in range(20_000)]
    ),
)
_manifest("variants", lambda document, _: document.update(variants=[[[0], [1]]] * 60_000))
_manifest("variants_1000", lambda document, _: document.update(variants=[[[0] * 100, [4]]] * 1_000))
_manifest("deep", lambda document, _: document.update(uri="x"))


@case
def manifest_deep_documents(folder: Path) -> Action:
    import penstock as ps

    (folder / "m").write_bytes(b'{"penstock_manifest": 1, "documents": ' + _deep(450_000).encode() + b"}\n")
    return lambda: ps.open(folder / "m")


def _shards(name: str, edit: Callable[[dict[str, Any]], object]) -> None:
    def make(folder: Path) -> Action:
        import penstock as ps

        document: dict[str, Any] = {
            "penstock_shards": 1, "root": ".", "format": "npy", "descr": "|u1", "fortran_order": False, "shape": [10],
            "axis": 0, "shards": [{"key": "a.npy", "length": 10, "offset": 128}],
        }  # fmt: skip
        edit(document)
        (folder / "m.json").write_text(json.dumps(document))
        return lambda: _all(ps.open(folder / "m.json"))

    _named(f"shards_{name}", make)


_shards(
    "many",
    lambda to: to.update(shape=[19_000], shards=[{"key": f"{i}", "length": 1, "offset": 0} for i in range(19_000)]),
)
_shards("equal", lambda to: to.update(shape=[19_000], shards=[{"key": "a", "length": 1, "offset": 0}] * 19_000))
_shards("empty", lambda to: to.update(shape=[0], shards=[{"key": "a", "length": 0, "offset": 0}] * 19_000))
_shards("huge", lambda to: to.update(shape=[1 << 62], shards=[{"key": "a", "length": 1 << 62, "offset": 0}]))
_shards("fields", lambda to: to.update(descr=[[f"f{i}", "|u1"] for i in range(50_000)]))


# --- HDF5, Parquet and Arrow ---


def _hdf5(name: str, fill: Callable[[Any], Any]) -> None:
    def make(folder: Path) -> Action:
        import h5py
        import penstock as ps

        path = folder / "x.h5"
        with h5py.File(path, "w", libver="latest") as file:
            fill(file)
        return lambda: _all(ps.open(path))

    _named(f"hdf5_{name}", make)


def _hdf5_groups(file: Any) -> None:
    for i in range(3_500):
        file.create_group(f"g{i}")


def _hdf5_deep(file: Any) -> None:
    at = file
    for _ in range(1_500):
        at = at.create_group("g")


def _hdf5_circle(file: Any) -> None:
    for i in range(50):
        file[f"a{i}"] = file["/"]


_hdf5("groups", _hdf5_groups)
_hdf5("deep", _hdf5_deep)
_hdf5("circle", _hdf5_circle)
_hdf5("attributes", lambda file: [file.attrs.__setitem__(f"a{i}", i) for i in range(6_000)])
_hdf5("huge_grid", lambda file: file.create_dataset("x", (1 << 62,), "u1", chunks=(1,), maxshape=(1 << 62,)))
_hdf5("huge_2d", lambda file: file.create_dataset("x", (1 << 40, 1 << 20), "u1", chunks=(1, 1), maxshape=(None, None)))
_hdf5("fields", lambda file: file.create_dataset("x", (1,), [(f"f{i}", "u1") for i in range(1_500)]))


@case
def parquet_columns(folder: Path) -> Action:
    import penstock as ps
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({f"c{i}": [1] for i in range(3_000)}), folder / "x.parquet", compression="none")
    return lambda: _all(ps.open(folder / "x.parquet", columns="c0"))


@case
def parquet_row_groups(folder: Path) -> Action:
    import penstock as ps
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"c0": list(range(6_000))}), folder / "x.parquet", row_group_size=1)
    return lambda: _all(ps.open(folder / "x.parquet", columns="c0"))


@case
def parquet_rows(folder: Path) -> Action:
    import penstock as ps
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"c0": pa.repeat(1, 5_000_000)}), folder / "x.parquet")
    return lambda: ps.open(folder / "x.parquet", columns="c0").shape


@case
def arrow_columns(folder: Path) -> Action:
    import penstock as ps
    import pyarrow as pa
    import pyarrow.feather as feather

    feather.write_feather(
        pa.table({f"c{i}": [1] for i in range(2_500)}), folder / "x.arrow", compression="uncompressed"
    )
    return lambda: _all(ps.open(folder / "x.arrow", columns="c0"))


@case
def arrow_batches(folder: Path) -> Action:
    import penstock as ps
    import pyarrow as pa

    schema = pa.schema([("c0", pa.int64())])
    with pa.OSFile(str(folder / "x.arrow"), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
        for _ in range(3_000):
            writer.write_batch(pa.record_batch([[1]], schema=schema))
    return lambda: _all(ps.open(folder / "x.arrow", columns="c0"))


@case
def arrow_nested(folder: Path) -> Action:
    import penstock as ps
    import pyarrow as pa

    kind: Any = pa.int8()
    for _ in range(50):
        kind = pa.struct([("a", kind), ("b", pa.int8())])
    schema = pa.schema([(f"c{i}", kind) for i in range(60)])
    with pa.OSFile(str(folder / "x.arrow"), "wb") as sink, pa.ipc.new_file(sink, schema):
        pass
    return lambda: _all(ps.open(folder / "x.arrow", columns="c0"))


# --- the program ---


def _peak_reset() -> int:
    Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS")


def _status(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) * 1024
    return 0


def _cpu_seconds() -> float:
    """Of all threads: what a busy machine does not change much."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _measure(name: str, folder: Path, out: int) -> None:
    """Runs in a process of its own."""
    import warnings

    import penstock as ps

    warnings.simplefilter("ignore")
    ps.open({"zarr.json": _v3()})[...]  # type: ignore[index]
    action = CASES[name](folder)
    size = sum(each.stat().st_size for each in folder.rglob("*") if each.is_file())
    import gc

    gc.collect()
    before = _peak_reset()
    begin = _cpu_seconds()
    try:
        action()
        outcome = "read"
    except (ps.Error, OSError, KeyError, ValueError, IndexError) as error:
        outcome = f"{type(error).__name__}: {str(error)[:100]!r}"
    except BaseException as error:
        outcome = f"!{type(error).__name__}: {str(error)[:200]!r}"
    took = _cpu_seconds() - begin
    line = {"name": name, "bytes": size, "seconds": round(took, 3), "memory": max(0, _status("VmHWM") - before)}
    os.write(out, (json.dumps({**line, "outcome": outcome}) + "\n").encode())


def main(names: list[str]) -> None:
    """Measures each case in a forked process, so that modules are imported once."""
    import signal
    import tempfile
    import warnings

    import numpy  # noqa: F401
    import penstock  # noqa: F401

    for module in ("h5py", "pyarrow", "pyarrow.parquet", "pyarrow.feather", "fsspec", "penstock._kerchunk_templates"):
        with contextlib.suppress(ImportError):
            __import__(module)
    warnings.simplefilter("ignore")  # no thread of ours runs when it forks
    for name in names or list(CASES):
        with tempfile.TemporaryDirectory() as folder:
            child = os.fork()
            if child == 0:
                limit = _status("VmSize") + (4 << 30)
                resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
                signal.alarm(CASE_TIMEOUT)
                try:
                    _measure(name, Path(folder), 1)
                except BaseException as error:
                    print(json.dumps({"name": name, "outcome": f"!not made: {error!r:.200}"}), flush=True)
                os._exit(0)
            _, status = os.waitpid(child, 0)
            if status != 0:
                print(json.dumps({"name": name, "outcome": f"!killed by signal {status & 127}"}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
