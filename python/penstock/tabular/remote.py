"""Files on web servers as pyarrow reads them: by the engine's transport, without fsspec."""

from __future__ import annotations

import io
import json
import os
import threading
import zlib
from collections.abc import Mapping
from typing import Any

from penstock import _core
from penstock.core.array import Array
from penstock.core.context import current_context
from penstock.target.place import place_of
from penstock.target.remote import serves

# A request takes as long as this many bytes. Shorter reads, such as those of footers, share requests.
_LEAST_BYTES = 64 << 10


def is_served(uri: str, storage_options: Mapping[str, Any] | None) -> bool:
    """Whether the engine reads tables at this URI: on web servers. Buckets may need credentials that fsspec finds."""
    return uri.startswith(("http://", "https://")) and serves(uri, storage_options)


class RemoteObject:
    """The bytes of one version of an object. Reading another version raises `ConflictError`. Thread-safe.

    Finding the version and the size takes one request, which may raise the errors of `penstock.open`.
    """

    def __init__(self, uri: str, storage_options: Mapping[str, Any] | None) -> None:
        store, key = place_of(uri, "", storage_options)
        plain = {"dtype": "|u1", "shape": None, "row_shape": None, "offset": 0, "fortran_order": False, "rows": [None]}
        made = _core.open_shards(store, current_context(), [key], 0, plain)
        file = json.loads(_core.save_manifest(made, b"", True, []))["shards"][0]
        self.is_pinned = "version" in file
        self.stamp = int(file["length"]), zlib.crc32(json.dumps(file.get("version")).encode())
        self.size = self.stamp[0]
        self._items = Array(made)
        self._lock = threading.Lock()
        self._begin, self._window = 0, b""  # the last bytes that were fetched for a short read

    def open(self) -> RemoteFile:
        """A file with a position of its own."""
        return RemoteFile(self)

    def forget(self) -> None:
        """Fetch bytes again from now on, so that reads notice another version."""
        with self._lock:
            self._window = b""

    def read(self, begin: int, end: int) -> bytes:
        """The bytes of a range within the object."""
        if end - begin >= _LEAST_BYTES:
            return self._items[begin:end].tobytes()
        with self._lock:
            known, window = self._begin, self._window
        if begin < known or end > known + len(window):
            known = min(begin, max(0, self.size - _LEAST_BYTES))
            window = self._items[known : min(self.size, known + _LEAST_BYTES)].tobytes()
            with self._lock:
                self._begin, self._window = known, window
        return window[begin - known : end - known]


class RemoteFile(io.RawIOBase):
    """An object as a file that is read."""

    def __init__(self, of: RemoteObject) -> None:
        super().__init__()
        self._of, self._at = of, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._at = offset + (0, self._at, self._of.size)[whence]
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        begin, end = min(self._at, self._of.size), self._of.size
        if size is not None and size >= 0:
            end = min(end, begin + size)
        self._at = end
        return self._of.read(begin, end) if begin < end else b""
