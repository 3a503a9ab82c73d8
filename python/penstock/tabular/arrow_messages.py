"""The offsets and lengths of record batches in Arrow IPC files and streams, from their messages: no data is read.

Source: Arrow's columnar format, "Serialization and Interprocess Communication", and its File.fbs and Message.fbs.
"""

from __future__ import annotations

import struct
from typing import Any

from penstock.core.errors import CorruptDataError, UnsupportedError
from penstock.core.sizes import counted

_MAGIC = b"ARROW1"
_CONTINUES = b"\xff\xff\xff\xff"
_DICTIONARY, _RECORD_BATCH = 2, 3  # of MessageHeader
_BLOCK = struct.Struct("<qi4xq")  # offset, bytes of metadata, bytes of the body


class _Table:
    """A table of a flatbuffer: fields by their number."""

    def __init__(self, data: bytes, at: int) -> None:
        self.data, self.at = data, at
        self.fields = at - self._unpack("<i", at)

    @classmethod
    def root(cls, data: bytes) -> _Table:
        return cls(data, struct.unpack_from("<I", data)[0])

    def _unpack(self, form: str, at: int) -> int:
        if at < 0:
            raise struct.error("an offset before the beginning")
        made: int = struct.unpack_from(form, self.data, at)[0]
        return made

    def _place(self, field: int) -> int | None:
        entry = 4 + 2 * field
        inside = entry < self._unpack("<H", self.fields)
        offset = self._unpack("<H", self.fields + entry) if inside else 0
        return self.at + offset if offset else None

    def number(self, field: int, form: str) -> int:
        place = self._place(field)
        return 0 if place is None else self._unpack(form, place)

    def table(self, field: int) -> _Table | None:
        place = self._place(field)
        return None if place is None else _Table(self.data, place + self._unpack("<I", place))

    def blocks(self, field: int) -> list[tuple[int, int, int]]:
        place = self._place(field)
        if place is None:
            return []
        place += self._unpack("<I", place)
        count = self._unpack("<I", place)
        if count * _BLOCK.size > len(self.data):
            raise struct.error("more blocks than there is room for")
        return [_BLOCK.unpack_from(self.data, place + 4 + i * _BLOCK.size) for i in range(count)]


def _rows(message: bytes) -> int:
    root = _Table.root(message)
    header = root.table(2)
    if root.number(1, "<B") != _RECORD_BATCH or header is None:
        raise struct.error("no record batch")
    rows = header.number(0, "<q")
    if rows < 0:
        raise struct.error(f"a batch of {counted(rows, 'row')}")
    return rows


def is_big_endian(schema: bytes) -> bool:
    """Whether the numbers after a schema's message are big-endian."""
    try:
        header = _Table.root(schema).table(2)
        return header is not None and header.number(0, "<h") == 1
    except struct.error as error:
        raise CorruptDataError(f"the schema of the Arrow stream is damaged: {error}") from error


def rows_of_file(source: Any) -> list[int]:
    """For each record batch of a file, in the order of its footer."""
    try:
        size = source.size()
        source.seek(max(0, size - 10))
        tail = source.read(10)
        length = struct.unpack_from("<i", tail)[0]
        if tail[4:] != _MAGIC or not 0 < length <= size - 10:
            raise struct.error("no footer")
        source.seek(size - 10 - length)
        footer = source.read(length)
        out = []
        for offset, metadata, _ in _Table.root(footer).blocks(3):
            if not 0 <= offset <= size - metadata or metadata < 8:
                raise struct.error("a batch outside of the file")
            source.seek(offset)
            message = source.read(metadata)
            out.append(_rows(message[8:] if message.startswith(_CONTINUES) else message[4:]))
        return out
    except struct.error as error:
        raise CorruptDataError(f"the messages of the Arrow file are damaged: {error}") from error


def batches_of_stream(source: Any) -> list[tuple[int, int]]:
    """(offset, rows) of each record batch of a stream, from the position of `source`, after its schema."""
    out: list[tuple[int, int]] = []
    try:
        size, place = source.size(), source.tell()
        while True:
            source.seek(place)
            prefix = source.read(8)
            skip = 8 if prefix.startswith(_CONTINUES) else 4  # the older form has no mark
            if len(prefix) < skip:
                return out
            length = struct.unpack_from("<i", prefix, skip - 4)[0]
            if length == 0:
                return out
            if not 0 < length <= size - place - skip:
                raise struct.error("a message that exceeds the file")
            source.seek(place + skip)
            message = source.read(length)
            root = _Table.root(message)
            body = root.number(3, "<q")
            if not 0 <= body <= size - place - skip - length:
                raise struct.error("a body that exceeds the file")
            kind = root.number(1, "<B")
            if kind == _DICTIONARY:
                raise UnsupportedError("Arrow streams with dictionaries are not readable, files with them are")
            if kind == _RECORD_BATCH:
                out.append((place, _rows(message)))
            place += skip + length + body
    except struct.error as error:
        raise CorruptDataError(f"the messages of the Arrow stream are damaged: {error}") from error
