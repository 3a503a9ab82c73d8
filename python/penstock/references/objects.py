"""Arrays whose bytes are in objects of other formats: the result of opening HDF5, kerchunk references and manifests."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock import _core
from penstock.core import registry
from penstock.core.array import Array
from penstock.core.context import Context, current_context

_Packed = tuple[bytes, _core.Store | bytes, bytes, bool, int | None, bytes, tuple[int, int] | None, str]
_Column = npt.NDArray[np.unsignedinteger[Any]]


def pack_table(
    cells: int,
    offsets: Any,
    lengths: Any,
    *,
    numbers: Any = None,
    objects: Any = None,
    chains: Any = None,
) -> bytes:
    """A reference table in its saved form (see `reference_table.h`).

    Parameters
    ----------
    cells
        The number of cells of the array.
    offsets, lengths
        The ranges of the listed cells; length 0 is the whole object.
    numbers
        The numbers of the listed cells, in C order, ascending; None: 0, 1, 2, ...
    objects, chains
        Numbers of the object and of the chain; None: 0.
    """
    columns = (numbers, objects, offsets, lengths, chains)
    return _core.pack_table(
        cells, *(b"" if column is None else np.asarray(column, np.uint64).tobytes() for column in columns)
    )


@dataclass
class Object:
    """An object that references point to: a location in a store, or the bytes themselves."""

    name: str
    store: _core.Store | None = None
    key: str = ""
    data: bytes | None = None
    pinned: bool = False  # reads fail once it has changed
    path: str | None = None  # for a local file: the facts that a manifest can check
    stamp: tuple[int, int] | None = None  # size and modification time of a local file when its index was read
    crc32c: int | None = None  # checksum of all of its bytes, if a manifest has it
    storage_options: dict[str, Any] | None = None  # for an object with a remote URI, by which other processes find it
    remote_stamp: str | None = None  # for such an object: changes whenever the object changes

    def packed(self) -> _Packed:
        source = self.data if self.data is not None else self.store
        assert source is not None
        path, stamp = _encode(self.path or ""), self.remote_stamp or ""
        return _encode(self.name), source, _encode(self.key), self.pinned, self.crc32c, path, self.stamp, stamp


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


@dataclass
class Joined:
    """The locations of the cells of arrays that are joined along `axis`."""

    axis: int
    edges: npt.NDArray[np.uint64]  # from 0 to the length; empty: there are no cells
    decoded: npt.NDArray[np.uint64]  # the length along the axis to which each cell decodes: at least its own length
    shards: dict[str, Any] = field(default_factory=dict)  # the joined files: see `penstock.shards.files`

    def packed(self) -> tuple[int, bytes, bytes]:
        return self.axis, self.edges.astype("=u8").tobytes(), self.decoded.astype("=u8").tobytes()


@dataclass
class Described:
    """All arguments of `open_described`; a manifest saves them."""

    documents: dict[str, Any]  # Zarr metadata by name
    table: bytes
    objects: list[Object]
    format: str
    uri: str
    variants: list[tuple[list[int], tuple[int, ...] | None]] = field(default_factory=list)
    dimension_names: tuple[str | None, ...] | None = None
    missing: str = "error"
    joined: Joined | None = None


class ReferencedArray(Array):
    """An array whose chunks are in objects of another format. Read-only."""

    _described: Described | None = None  # None: only the engine opened it

    def __init__(
        self, made: _core.Array, described: Described | None, reopen: tuple[Callable[..., Any], tuple[Any, ...]]
    ):
        super().__init__(made)
        self._reopen = reopen
        if described is not None:
            described.table = b""  # the engine has it
            self._described = described

    @property
    def typed_attributes(self) -> dict[str, Any]:
        """The attributes with the types of the file (NumPy scalars and arrays), if the format has types."""
        return self.attrs.asdict()

    @property
    def storage(self) -> dict[str, Any]:
        """How a dataset of HDF5 is stored: `chunks`, `filters` (parameters by name), `maxshape`, `dtype`; else {}."""
        return {}

    @property
    def _joined(self) -> Joined | None:
        return None if self._described is None else self._described.joined

    def _shard_lengths(self) -> tuple[int, list[int]] | None:
        joined = self._joined
        lengths = None if joined is None else joined.shards.get("lengths")
        if joined is None or lengths is None or not self.shape:
            return super()._shard_lengths()
        return joined.axis, [int(each) for each in lengths]

    def _stamps(self) -> Callable[[list[str]], list[str]] | None:
        """Find the versions of remote objects when a manifest is saved; None: all known versions are already
        present.
        """
        return None

    def _opened_again_by(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """The function that opens the array in another process, and its arguments."""
        return self._reopen

    def __reduce__(self) -> tuple[Any, ...]:
        function, arguments = self._opened_again_by()
        if any(isinstance(each, _Unpicklable) for each in arguments):
            raise registry.not_reopened(self, "arrays")
        return function, arguments


class _Unpicklable:
    """Placeholder for data that another process cannot open again (bytes, open stores)."""


UNPICKLABLE = _Unpicklable()


def open_described(
    described: Described, context: Context | None, reopen: tuple[Callable[..., Any], tuple[Any, ...]]
) -> ReferencedArray:
    """The array for `described`."""
    made = _core.open_reference(
        current_context() if context is None else context,
        {name: json.dumps(document) for name, document in described.documents.items()},
        described.table,
        described.variants,
        [each.packed() for each in described.objects],
        described.format,
        _encode(described.uri),
        described.dimension_names,
        described.missing == "fill",
        None if described.joined is None else described.joined.packed(),
    )
    return ReferencedArray(made, described, reopen)
