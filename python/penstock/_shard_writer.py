"""Arrays written as many files."""

from __future__ import annotations

import io
import itertools
import json
import math
import os
from collections.abc import Callable
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock import _core
from penstock._errors import InvalidArgumentError, UnsupportedError, _make
from penstock._shards import descr_text, open_shards, save_manifest, write_atomically

MANIFEST = "penstock.shards"
_PIECE = 16 << 20


class ShardWriter:
    """Writes shards one after the other: `with ShardWriter("run/shard_{:05d}.npy") as w: w.write(rows)`.

    A file appears under its name when all of it is written. Leaving the `with` block without an exception writes the
    manifest, with the checksum of each file, beside the files: until then there is none, or the one of an earlier run.
    """

    def __init__(self, pattern: str, *, manifest: str | None = MANIFEST) -> None:
        """`pattern` has one `{}`, for the shard's number; its suffix says the format: `.npy`, `.raw` (or `.bin`) or
        `.zarr`. `manifest` is a name in the same folder (of `.npy` and raw files); None: none is written."""
        try:
            names = {pattern.format(number) for number in (0, 1, 10)}
        except (IndexError, KeyError, ValueError) as failure:
            raise _make(InvalidArgumentError, f"'{pattern}' is no pattern with one {{}}: {failure}") from None
        if len(names) != 3:
            raise _make(InvalidArgumentError, f"'{pattern}' gives shards of different numbers one name")
        self.pattern, self.manifest = pattern, manifest
        self.suffix = os.path.splitext(pattern)[1].lower()
        if self.suffix not in _WRITERS:
            raise _make(UnsupportedError, f"shards are written as {', '.join(_WRITERS)}, not as '{self.suffix}'")
        self.paths: list[str] = []
        self._checksums: list[int] = []
        self._like: tuple[Any, ...] | None = None

    def write(self, values: npt.ArrayLike) -> str:
        """Write the next shard, of at least one dimension, and return its path."""
        made = np.asanyarray(values)
        if made.ndim == 0:
            raise _make(InvalidArgumentError, "a shard has at least one dimension")
        if made.dtype.hasobject:
            raise _make(UnsupportedError, f"items of {made.dtype} cannot be written without pickling them")
        like = (made.dtype, made.shape[1:])
        if self._like is None:
            self._like = like
        elif like != self._like:
            raise _make(
                InvalidArgumentError,
                f"the shards so far are {self._like[0]} (*, {self._like[1]}), this one is {like[0]} (*, {like[1]})",
            )
        path = self.pattern.format(len(self.paths))
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        self._checksums.append(_WRITERS[self.suffix](path, made))
        self.paths.append(path)
        return path

    def close(self) -> None:
        """Write the manifest."""
        if not self.paths or self._like is None:
            return
        folder = os.path.dirname(self.pattern)
        dtype, trailing = self._like
        settings: dict[str, Any] = {}
        if self.suffix in (".raw", ".bin"):
            settings = {"dtype": dtype, "row_shape": trailing}
            text = descr_text(dtype)
            sidecar = {"dtype": json.loads(text) if text.startswith("[") else text, "row_shape": list(trailing)}
            write_atomically(os.path.join(folder, "_meta.json"), [json.dumps(sidecar).encode()])
        if self.manifest is not None and self.suffix != ".zarr":
            opened = open_shards(self.paths, **settings)
            save_manifest(opened, os.path.join(folder, self.manifest), checksums=self._checksums)

    def __enter__(self) -> ShardWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()


def _pieces(header: bytes, made: npt.NDArray[Any]) -> Any:
    yield header
    rows = max(1, _PIECE // max(1, made.dtype.itemsize * math.prod(made.shape[1:])))
    for at in range(0, len(made), rows):
        data = np.ascontiguousarray(made[at : at + rows])
        if data.nbytes:
            yield data.reshape(-1).view(np.uint8).data


def _write_file(path: str, header: bytes, made: npt.NDArray[Any]) -> int:
    total = 0

    def counted() -> Any:
        nonlocal total
        for piece in _pieces(header, made):
            total = _core.crc32c(piece, total)
            yield piece

    write_atomically(path, counted())
    return total


def _write_npy(path: str, made: npt.NDArray[Any]) -> int:
    header = io.BytesIO()
    described = {"descr": np.lib.format.dtype_to_descr(made.dtype), "fortran_order": False, "shape": made.shape}
    np.lib.format.write_array_header_2_0(header, described)
    return _write_file(path, header.getvalue(), made)


def _write_raw(path: str, made: npt.NDArray[Any]) -> int:
    return _write_file(path, b"", made)


def _write_zarr(path: str, made: npt.NDArray[Any]) -> int:
    from penstock._create import save

    save(path, made)
    return 0


_WRITERS: dict[str, Callable[[str, npt.NDArray[Any]], int]] = {
    ".npy": _write_npy,
    ".raw": _write_raw,
    ".bin": _write_raw,
    ".zarr": _write_zarr,
}


def save_shards(
    values: Any,
    pattern: str,
    *,
    rows: int | None = None,
    shards: int | None = None,
    manifest: str | None = MANIFEST,
) -> list[str]:
    """Write an array (also a `penstock.Array`, a shard at a time) as many files, cut along its first axis.

    Parameters
    ----------
    values
        NumPy's, Penstock's, or whatever NumPy takes; at least one dimension.
    pattern
        The files' names, with one `{}` for the number: "run/shard_{:05d}.npy". `.npy`, `.raw`, `.bin` or `.zarr`.
    rows, shards
        Of each shard but the last; or how many shards, of as equal lengths as can be. One of the two.
    manifest
        As `ShardWriter`.

    Returns
    -------
    list of paths
    """
    source = values if hasattr(values, "shape") and hasattr(values, "dtype") else np.asanyarray(values)
    if not source.shape:
        raise _make(InvalidArgumentError, "an array without dimensions has no rows")
    total = source.shape[0]
    if (rows is None) == (shards is None):
        raise _make(InvalidArgumentError, "give rows= of each shard or the number of shards=")
    if (rows is not None and rows < 1) or (shards is not None and shards < 1):
        raise _make(InvalidArgumentError, "rows and shards are at least 1")
    if rows is not None:
        edges = [*range(0, total, rows), total] if total else [0, 0]
    else:
        assert shards is not None
        edges = [total * i // shards for i in range(shards + 1)]
    with ShardWriter(pattern, manifest=manifest) as writer:
        for low, high in itertools.pairwise(edges):
            writer.write(np.asarray(source[low:high]))
    return writer.paths
