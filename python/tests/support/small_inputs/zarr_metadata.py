"""Zarr metadata and shard indexes of less than 1 MB that are as expensive as the format allows."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from support.small_inputs.cases import MOST_BYTES, Action, add_case, touch

_V3 = {
    "zarr_format": 3, "node_type": "array", "shape": [4], "data_type": "uint8", "fill_value": 0, "attributes": {},
    "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4]}},
    "chunk_key_encoding": {"name": "default"}, "codecs": [{"name": "bytes"}],
}  # fmt: skip
V2_DOCUMENT = {
    "zarr_format": 2, "shape": [4], "chunks": [4], "dtype": "|u1", "order": "C", "compressor": None, "filters": None,
    "fill_value": 0,
}  # fmt: skip


def nested_json(count: int, open_: str = "[", close: str = "]", inner: str = "1") -> str:
    return open_ * count + inner + close * count


_SHARDING = '{"name":"sharding_indexed","configuration":{"chunk_shape":[4],"index_codecs":[{"name":"bytes"}],"codecs":['


def _sharding(depth: int, width: int = 1) -> str:
    inner = ",".join([_SHARDING * depth + '{"name":"bytes"}' + "]}}" * depth] * width)
    return f"[{inner}]"


def v3(text: str | None = None, member: str = "attributes", **more: Any) -> bytes:
    """An array's `zarr.json`, in which `text` is the JSON of `member`."""
    made = json.dumps({**_V3, **more, **({} if text is None else {member: "@"})}, separators=(",", ":"))
    return (made if text is None else made.replace('"@"', text)).encode()


_MANY = 60_000
_V3_CASES: dict[str, Callable[[], bytes]] = {
    "deep_lists": lambda: v3(nested_json(490_000)),
    "deep_objects": lambda: v3(nested_json(160_000, '{"a":', "}")),
    "deep_lists_512": lambda: v3('{"a":[' + ",".join([nested_json(400)] * 1200) + "]}"),
    "members": lambda: v3("{" + ",".join(f'"{i:06d}":{i}' for i in range(_MANY)) + "}"),
    "equal_members": lambda: v3("{" + ",".join('"a":1' for i in range(150_000)) + "}"),
    "long_text": lambda: v3('{"a":"' + "x" * 900_000 + '"}'),
    "escapes": lambda: v3('{"a":"' + "\\u0041" * 160_000 + '"}'),
    "surrogates": lambda: v3('{"a":"' + "\\ud83d\\ude00" * 80_000 + '"}'),
    "long_number": lambda: v3('{"a":' + "1" * 900_000 + "}"),
    "long_fraction": lambda: v3('{"a":0.' + "1" * 900_000 + "}"),
    "long_exponent": lambda: v3('{"a":1e' + "1" * 900_000 + "}"),
    "numbers": lambda: v3('{"a":[' + ",".join(["1"] * 450_000) + "]}"),
    "fractions": lambda: v3('{"a":[' + ",".join(["1.7976931348623157e308"] * 40_000) + "]}"),
    "empty_lists": lambda: v3('{"a":[' + ",".join(["[]"] * 300_000) + "]}"),
    "empty_objects": lambda: v3('{"a":[' + ",".join(["{}"] * 300_000) + "]}"),
    "not_closed": lambda: b"[" * 990_000,
    "blanks": lambda: b" " * 900_000 + v3(),
    "rank": lambda: v3(shape=[1] * 200_000, chunk_grid=_grid([1] * 9)),
    "rank_both": lambda: v3(
        shape=[1] * 200_000, chunk_grid=_grid([1] * 200_000)
    ),
    "codecs": lambda: v3(codecs=[{"name": "bytes"}] * 40_000),
    "codecs_transpose": lambda: v3(
        codecs=[{"name": "transpose", "configuration": {"order": [0]}}] * 14_000 + [{"name": "bytes"}]
    ),
    "codecs_gzip": lambda: v3(
        codecs=[{"name": "bytes"}] + [{"name": "gzip", "configuration": {"level": 1}}] * 17_000
    ),
    "codecs_crc": lambda: v3(codecs=[{"name": "bytes"}] + [{"name": "crc32c"}] * 40_000),
    "sharding_deep": lambda: v3(_sharding(6_000), "codecs"),
    "sharding_wide": lambda: v3(_sharding(1, 6_000), "codecs"),
    "shard_of_many": lambda: v3(shape=[1 << 40], chunk_grid=_grid([1 << 30]), codecs=_shard_of([1])),
    "shard_of_too_many": lambda: v3(shape=[1 << 62], chunk_grid=_grid([1 << 60]), codecs=_shard_of([1])),
    "huge_shape": lambda: v3(shape=[1 << 62], chunk_grid=_grid([1 << 20])),
    "huge_chunk": lambda: v3(shape=[1 << 40], chunk_grid=_grid([1 << 40])),
    "huge_product": lambda: v3(shape=[1 << 32] * 8, chunk_grid=_grid([1 << 32] * 8)),
    "names": lambda: v3(dimension_names=["x"] * 200_000),
    "fill_text": lambda: v3(fill_value="0x" + "f" * 900_000),
    "fill_list": lambda: v3(fill_value=[0] * 400_000),
    "fill_bytes": lambda: v3(data_type={"name": "null_terminated_bytes", "configuration": {"length_bytes": 1 << 30}},
                              fill_value=""),
    "text_length": lambda: v3(data_type={"name": "fixed_length_utf32", "configuration": {"length_bytes": 1 << 30}},
                               fill_value=""),
    "raw_bits": lambda: v3(data_type="r8589934592", fill_value=[0]),
    "fields": lambda: v3(
        data_type={"name": "structured", "configuration": {"fields": [[f"f{i}", "uint8"] for i in range(50_000)]}},
        fill_value="",
    ),
    "equal_fields": lambda: v3(
        data_type={"name": "structured", "configuration": {"fields": [["f", "uint8"]] * 50_000}}, fill_value=""
    ),
    "rectilinear_runs": lambda: v3(
        shape=[1 << 40],
        chunk_grid={"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": [[[1, 1 << 40]]]}},
    ),
    "rectilinear_many": lambda: v3(
        shape=[300_000],
        chunk_grid={"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": [[1] * 300_000]}},
    ),
    "rectilinear_run_pairs": lambda: v3(
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
        return lambda: touch(ps.open(made))

    add_case(name, make)


for _name, _made in _V3_CASES.items():
    _zarr(f"zarr3_{_name}", lambda made=_made: {"zarr.json": made(), "c/0": b"\0" * 100})  # type: ignore[misc]


def v2(**more: Any) -> bytes:
    return json.dumps({**V2_DOCUMENT, **more}).encode()


_V2_CASES: dict[str, Callable[[], dict[str, bytes]]] = {
    "filters": lambda: {".zarray": v2(filters=[{"id": "shuffle", "elementsize": 1}] * 20_000)},
    "filters_delta": lambda: {".zarray": v2(filters=[{"id": "delta", "dtype": "|u1"}] * 20_000), "0": bytes(4)},
    "fields": lambda: {".zarray": v2(dtype=[[f"f{i}", "|u1"] for i in range(50_000)])},
    "fields_deep": lambda: {
        ".zarray": v2(dtype="@").replace(b'"@"', nested_json(80_000, '[["a",', "]]", '"|u1"').encode())
    },
    "fields_shape": lambda: {".zarray": v2(dtype=[["f", "|u1", [1 << 31, 1 << 31]]])},
    "fields_shapes": lambda: {".zarray": v2(dtype=[["f", "|u1", [1] * 300_000]])},
    "item_size": lambda: {".zarray": v2(dtype="|S2147483647", fill_value="")},
    "attributes": lambda: {".zarray": v2(), ".zattrs": b'{"a":' + nested_json(450_000).encode() + b"}"},
    "consolidated": lambda: {
        ".zmetadata": json.dumps(
            {"zarr_consolidated_format": 1, "metadata": {".zgroup": {"zarr_format": 2}}
             | {f"a{i}/.zarray": V2_DOCUMENT for i in range(5_000)}}
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
    | {f"a{i}/.zarray": v2() for i in range(5_500)},
}  # fmt: skip
for _name, _made2 in _V2_CASES.items():
    _zarr(f"zarr2_{_name}", _made2)
