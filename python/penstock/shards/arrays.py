"""Manifests of shards that are arrays on their own: Zarr, TIFF, members of `.npz` files, `.npy` in both orders."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from penstock import _core
from penstock.core import registry
from penstock.core.array import Array
from penstock.core.errors import ConflictError, InvalidArgumentError, UnsupportedError
from penstock.shards.names import write_atomically
from penstock.shards.raw import descr_text
from penstock.shards.readers import JoinedArray, SavedPart

KIND = "arrays"
_ALONE = ("zarr2", "zarr3", "tiff", "npy")  # formats of arrays that a path can name


def stamp_of(path: str) -> list[int]:
    """Size and modification time. Raises ConflictError if the file does not exist."""
    try:
        status = os.stat(_core.metadata_of_shard(os.fsencode(path)))
    except OSError as failure:
        raise ConflictError(f"'{path}' was removed since the manifest was saved: {failure.strerror}") from failure
    return [status.st_size, status.st_mtime_ns]


def save_parts(manifest: str, parts: Sequence[ArrayOfManifest], axis: int) -> None:
    """Write the manifest of shards that are joined along `axis`."""
    name = os.path.abspath(manifest)
    write_atomically(name, [_manifest_of(parts, axis, os.path.dirname(name))])


def _manifest_of(parts: Sequence[ArrayOfManifest], axis: int, folder: str) -> bytes:
    """The manifest of shards as bytes, for a file in `folder`."""
    shards = [
        (
            os.fsencode(part.path),
            part.stamp[0],
            part.stamp[1],
            part.crc32c,
            part.format,
            list(part.shape),
            descr_text(part.dtype),
            list(part.chunks),
        )
        for part in parts
    ]
    return _core.write_saved_arrays(shards, axis, os.fsencode(folder))


def save_joined(array: JoinedArray, manifest: str) -> None:
    """The same for an open array. Raises if its shards cannot be found by their paths in another process."""
    parts = [_as_saved(part) for part in array._parts]
    if None in parts:
        part = array._parts[parts.index(None)]
        why = f"'{part.name}' is not what opening a local path gives"
        if isinstance(part, SavedPart) and part.array().format == "hdf5":
            why = (
                f"HDF5 datasets have a manifest if their chunks outside axis {array._joined_along} and their fill "
                "values are the same, and none is virtual"
            )
        raise InvalidArgumentError(f"'{array.uri}' is of arrays that no manifest describes: {why}")
    if "://" in manifest:
        raise UnsupportedError(f"manifests of such shards are files of this machine, not '{manifest}'")
    save_parts(manifest, [part for part in parts if part is not None], array._joined_along)


def _as_saved(part: Any) -> ArrayOfManifest | None:
    """A part as a manifest describes it; None if a local path and no option do not name it."""
    if isinstance(part, ArrayOfManifest) or not isinstance(part, SavedPart):
        return part if isinstance(part, ArrayOfManifest) else None
    array = part.array()
    path = array.uri.removeprefix("file://")
    if path == array.uri or array.format not in _ALONE or not os.path.exists(path):
        return None
    if getattr(array, "_options", None) is not None:  # another page or level of a TIFF
        return None
    stamp = stamp_of(path)
    again: Array = registry.call("open_array", path)
    if (again.format, again.shape, again.dtype) != (array.format, array.shape, array.dtype):
        raise ConflictError(f"'{path}' changed since it was opened: it is {again.dtype} {again.shape}")
    return part_of(array, path, stamp)


def part_of(array: Array, path: str, stamp: list[int], crc32c: int | None = None) -> ArrayOfManifest:
    """The shard at `path` for `array`, in the version of this stamp."""
    made = ArrayOfManifest(path, array.shape, array.dtype, array.chunks, stamp, crc32c, array.format)
    made._array = array
    return made


def saved_parts(array: JoinedArray) -> list[ArrayOfManifest] | None:
    """The shards of a joined array, if a manifest can describe each of them."""
    parts = [part for part in array._parts if isinstance(part, ArrayOfManifest)]
    return parts if len(parts) == len(array._parts) else None


def open_saved(context: _core.Context, saved: bytes, axis: int, **place: Any) -> JoinedArray:
    """The array of such a manifest, whose shards are joined along `axis`. `place`: as for `_core.read_saved_arrays`."""
    made = _core.open_saved_references(context, saved, **place, find_objects=lambda wanted: [None] * len(wanted))
    assert isinstance(made, _core.Array)
    return JoinedArray.of(made, lambda: [_part(*each) for each in _core.read_saved_arrays(saved, **place)[1]], axis)


def _part(
    path: bytes,
    size: int,
    time: int,
    crc32c: int | None,
    format: str,
    shape: tuple[int, ...],
    descr: str,
    chunks: tuple[int, ...],
) -> ArrayOfManifest:
    fields = [tuple(field) for field in json.loads(descr)] if descr.startswith("[") else descr
    return ArrayOfManifest(os.fsdecode(path), shape, np.dtype(fields), chunks, [size, time], crc32c, format)


class ArrayOfManifest(SavedPart):
    """A shard that a manifest describes."""

    def __init__(
        self,
        path: str,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        chunks: tuple[int, ...],
        stamp: list[int],
        crc32c: int | None,
        format: str,
    ) -> None:
        super().__init__(path, shape, dtype, chunks)
        self.path, self.stamp, self.crc32c, self.format = path, stamp, crc32c, format

    @classmethod
    def join(cls, parts: Sequence[Any], axis: int, context: _core.Context) -> _core.Array:
        """The engine opens them in parallel, as those of a manifest."""
        place: dict[str, Any] = {"document": b"", "allow_local": None, "expected": [], "missing_is_fill": False}
        saved = _manifest_of(parts, axis, "/")
        return open_saved(context, saved, axis, folder=b"/", **place)

    def open(self) -> Array:
        self.check_stamp()
        made: Array = registry.call("open_array", self.path)
        return made

    def check_stamp(self) -> None:
        """Raise ConflictError if the shard has changed since the manifest was saved."""
        if stamp_of(self.path) != self.stamp:
            raise ConflictError(f"'{self.path}' changed since the manifest was saved: save it again")
