"""TIFFs with given tags, byte by byte: files that no writer makes."""

from __future__ import annotations

import struct
from typing import Any

_CODES = {1: "B", 2: "s", 3: "H", 4: "I", 5: "I", 7: "s", 9: "i", 11: "f", 12: "d", 16: "Q"}


def tag(kind: int, *values: Any) -> tuple[int, int, bytes]:
    """(type, count, bytes) of a value, little-endian."""
    if kind in (2, 7):
        text = b"".join(each.encode() + b"\0" if isinstance(each, str) else each for each in values)
        return kind, len(text), text
    return kind, len(values) // (2 if kind == 5 else 1), struct.pack(f"<{len(values)}{_CODES[kind]}", *values)


def tiff_of(tags: dict[int, tuple[int, int, bytes]], data: bytes = b"") -> bytes:
    """A file of one directory, with `data` after its first 8 bytes: one strip, unless the tags differ."""
    tags = dict(tags)
    if data:
        tags.setdefault(279, tag(4, len(data)))
        tags.setdefault(273, tag(4, 8))
    at = 8 + len(data) + len(data) % 2
    behind = at + 2 + 12 * len(tags) + 4
    entries, values = b"", b""
    for number in sorted(tags):
        kind, count, value = tags[number]
        if len(value) > 4:
            field = struct.pack("<I", behind + len(values))
            values += value + b"\0" * (len(value) % 2)
        else:
            field = value.ljust(4, b"\0")
        entries += struct.pack("<HHI", number, kind, count) + field
    head = struct.pack("<2sHI", b"II", 42, at) + data + b"\0" * (len(data) % 2)
    return head + struct.pack("<H", len(tags)) + entries + struct.pack("<I", 0) + values


def image(width: int, height: int, samples: int = 1, bits: int = 8) -> dict[int, tuple[int, int, bytes]]:
    """The tags that every image has."""
    return {
        256: tag(4, width),
        257: tag(4, height),
        258: tag(3, *[bits] * samples),
        259: tag(3, 1),
        262: tag(3, 1),
        277: tag(3, samples),
        278: tag(4, height),
    }
