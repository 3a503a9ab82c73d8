"""Penstock's manifests of less than 1 MB that are as expensive as the format allows."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from support.small_inputs.cases import Action, add_case, case, touch
from support.small_inputs.kerchunk_references import references_of
from support.small_inputs.zarr_metadata import nested_json


def _saved_references(folder: Path) -> tuple[dict[str, Any], bytes]:
    import penstock as ps

    (folder / "r.json").write_text(json.dumps(references_of({"x/0": ["b.bin", 0, 4]})))
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
        return lambda: touch(ps.open(folder / "m"))

    add_case(f"manifest_{name}", make)


def _with_table(document: dict[str, Any], plain: bytes, zeros: int = 0) -> bytes:
    """The table of these bytes and a number of zeros. One MiB of zeros is compressed, and its stream repeated."""
    block = bytes(1 << 20)
    count, rest = divmod(zeros, len(block))
    pack = zlib.compressobj(9, wbits=-15)
    begin = pack.compress(plain) + pack.flush(zlib.Z_FULL_FLUSH)
    repeated = pack.compress(block) + pack.flush(zlib.Z_FULL_FLUSH)
    end = pack.compress(bytes(rest)) + pack.flush()
    check = zlib.adler32(plain)
    for _ in range(count):
        check = zlib.adler32(block, check)
    check = zlib.adler32(bytes(rest), check)
    packed = b"\x78\xda" + begin + count * repeated + end + check.to_bytes(4, "big")
    document["table"] = {
        "bytes": len(packed), "plain_bytes": len(plain) + zeros, "crc32": zlib.crc32(packed), "codec": "zlib",
    }  # fmt: skip
    return packed


def _runs(document: dict[str, Any], table: bytes) -> bytes:
    document["joined"] = {"axis": 0, "cells": [[1, 1 << 40]], "decoded": [[1, 1 << 40]]}
    document["shards"] = {}
    return _with_table(document, struct.pack("<8sQQ5B3x", b"PSREFS01", 0, 1 << 60, 0, 0, 0, 0, 0))


def _large_table(document: dict[str, Any], table: bytes) -> bytes:
    entries = 90_000_000
    document["documents"][".zarray"]["shape"] = [4 * entries]
    return _with_table(document, struct.pack("<8sQQ5B3x", b"PSREFS01", entries, entries, 0, 0, 8, 0, 0), 8 * entries)


_manifest("runs", _runs)
_manifest("large_table", _large_table)
_manifest("table_of_zeros", lambda document, _: _with_table(document, b"", 900_000_000))
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

    (folder / "m").write_bytes(b'{"penstock_manifest": 1, "documents": ' + nested_json(450_000).encode() + b"}\n")
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
        return lambda: touch(ps.open(folder / "m.json"))

    add_case(f"shards_{name}", make)


_shards(
    "many",
    lambda to: to.update(shape=[19_000], shards=[{"key": f"{i}", "length": 1, "offset": 0} for i in range(19_000)]),
)
_shards("equal", lambda to: to.update(shape=[19_000], shards=[{"key": "a", "length": 1, "offset": 0}] * 19_000))
_shards("empty", lambda to: to.update(shape=[0], shards=[{"key": "a", "length": 0, "offset": 0}] * 19_000))
_shards("huge", lambda to: to.update(shape=[1 << 62], shards=[{"key": "a", "length": 1 << 62, "offset": 0}]))
_shards("fields", lambda to: to.update(descr=[[f"f{i}", "|u1"] for i in range(50_000)]))
