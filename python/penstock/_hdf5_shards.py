"""Datasets of many HDF5 files, or many datasets of one, as one array: one index of all their chunks."""

from __future__ import annotations

import fnmatch
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock import _core
from penstock._array import Array
from penstock._context import Context
from penstock._errors import ConflictError, InvalidArgumentError, NotFoundError, _make
from penstock._hdf5 import Source, import_h5py, open_node
from penstock._hdf5_index import describe_dataset
from penstock._references import Described, Joined, Object, pack_table, unpack_table
from penstock._shard_files import JoinedReferences, describe_all, refuse_others
from penstock._shard_readers import join_arrays

_WILD = "*?["
_FIRST_BYTES = 1 << 16
_THREADS = 4  # more of them only wait for h5py's lock
# Parameters of codecs that only say how hard an encoder tried.
_EFFORT = frozenset({"level", "clevel", "acceleration"})


@dataclass
class _Shard:
    """One dataset."""

    name: str
    source: Source
    path: str
    described: Described

    @property
    def zarray(self) -> dict[str, Any]:
        made: dict[str, Any] = self.described.documents[".zarray"]
        return made


def open_datasets(
    files: Sequence[str],
    dataset: str | None,
    axis: int,
    allow_holes: bool,
    context: Context,
    storage_options: Mapping[str, Any] | None,
    checksums: Mapping[str, int] | None = None,
) -> Array:
    """The datasets of these names, in the order of the files, and of the numbers in their names within a file.

    Parameters
    ----------
    dataset
        A name, or a pattern ("shard_*"), which may match many in each file.
    checksums
        Of files by their paths, for the manifest.
    """
    import_h5py()
    if not dataset:
        raise _make(InvalidArgumentError, "HDF5 files hold datasets by name: give dataset=")
    name = dataset.strip("/")
    sources = [Source.of(path, context, storage_options) for path in files]
    before = [source.stamp() for source in sources]
    found = describe_all(list(files), [partial(_look, source, name, allow_holes) for source in sources], _THREADS)
    shards = [shard for each in found for shard in each]
    described = _check(shards, axis) and _merged(shards, axis % len(shards[0].zarray["shape"]))
    if not described:
        return join_arrays([open_node(shard.source, shard.path) for shard in shards], axis, context)
    assert isinstance(described, Described)
    for each in described.objects:
        each.crc32c = (checksums or {}).get(each.name)
    assert described.joined is not None
    described.joined.shards = {"kind": "hdf5", "files": list(files), "dataset": dataset, "axis": axis}
    made = JoinedReferences.open(described, context)
    changed = [path for path, source, was in zip(files, sources, before, strict=True) if source.stamp() != was]
    if changed:
        raise _make(ConflictError, f"'{changed[0]}' changed while its index was read")
    return made


def _look(source: Source, name: str, allow_holes: bool) -> list[_Shard]:
    """The datasets of one file. Its beginning is read first, outside of h5py's lock: other files' waits overlap."""
    if isinstance(source.target, str) and source.uri != source.target and os.path.isfile(source.target):
        source.read_at(0, _FIRST_BYTES)
    with source.opened() as file:
        object_ = source.file_object()
        shards = []
        for path in _paths(file, name, allow_holes):
            found = file.get(path)
            if found is None:
                raise _make(NotFoundError, f"the file has no '{path}'")
            if not hasattr(found, "dtype") or not hasattr(found, "chunks"):
                raise _make(InvalidArgumentError, f"'{path}' is no dataset")
            uri = f"{source.uri}/{path}"
            shards.append(_Shard(uri, source, path, describe_dataset(found, object_, uri, source.read_at)))
        return shards


def _paths(file: Any, name: str, allow_holes: bool) -> list[str]:
    """The datasets that a name or a pattern stands for, in the order of the numbers in them."""
    if not any(letter in name for letter in _WILD) or name in file:
        return [name]
    h5py = import_h5py()
    found = [""]
    for part in name.split("/"):
        below = []
        for base in found:
            group = file[base] if base else file
            if isinstance(group, h5py.Group):
                names = [each for each in group if fnmatch.fnmatchcase(each, part)]
                below += [f"{base}/{each}" if base else each for each in names]
        found = below
    found = [each for each in found if file.get(each, getclass=True) is h5py.Dataset]
    if not found:
        raise _make(NotFoundError, f"the file has no dataset '{name}'")
    shelf = _core.dict_store(dict.fromkeys(found, b""), None, False)
    return [os.fsdecode(key) for key in _core.find_shards(shelf, os.fsencode(name), allow_holes)]


def _native(dtype: Any) -> Any:
    """A stored type without its byte order."""
    if isinstance(dtype, str):
        return dtype.lstrip("<>|=")
    return [[name, _native(inner), *shape] for name, inner, *shape in dtype]


def _check(shards: list[_Shard], axis: int) -> bool:
    """Refuses datasets that do not go together. False where they do, but only one by one: text of variable length."""
    names = [shard.name for shard in shards]
    shapes = [tuple(shard.zarray["shape"]) for shard in shards]
    types = [_native(shard.zarray["dtype"]) for shard in shards]
    refuse_others(names, shapes, types, axis)
    return not any(shard.zarray["dtype"] == "|O" for shard in shards)


def _decoding(zarray: dict[str, Any]) -> Any:
    """What decides how a chunk decodes."""
    filters = [{k: v for k, v in each.items() if k not in _EFFORT} for each in zarray["filters"] or []]
    return zarray["dtype"], filters


def _merged(shards: list[_Shard], axis: int) -> Described | None:
    """One index of all chunks; None where the datasets are not stored alike enough for that."""
    full = [shard for shard in shards if len(unpack_table(shard.described.table)[2])]
    first = full[0] if full else next((s for s in shards if 0 not in s.zarray["shape"]), shards[0])
    zarray = dict(first.zarray)
    chunk: tuple[int, ...] = tuple(zarray["chunks"])
    rank = len(chunk)
    for shard in full:
        theirs = shard.zarray["chunks"]
        if _decoding(shard.zarray) != _decoding(zarray):
            return None
        if any(theirs[d] != chunk[d] for d in range(rank) if d != axis):
            return None
    merge = _Merge(chunk, tuple(zarray["shape"]), axis)
    for shard in shards:
        merge.add(shard.described)
    fills = [shard.zarray["fill_value"] for shard in shards if 0 not in shard.zarray["shape"]]
    if merge.has_gaps and any(fill != fills[0] for fill in fills):
        return None
    zarray["shape"] = [*zarray["shape"]]
    zarray["shape"][axis] = merge.length
    if fills:
        zarray["fill_value"] = fills[0]
    described = shards[0].described
    made = merge.described(zarray, described.documents[".zattrs"])
    if made is None:
        return None
    made.uri = shards[0].name if len(shards) == 1 else f"{shards[0].name} ... {shards[-1].name.rpartition('/')[2]}"
    made.typed_attributes, made.dimension_names = described.typed_attributes, described.dimension_names
    return made


class _Merge:
    """Puts the chunks of one dataset behind those of another."""

    _MOST_CHAINS = 60000

    def __init__(self, chunk: tuple[int, ...], shape: tuple[int, ...], axis: int) -> None:
        self.chunk, self.axis = chunk, axis
        self.grid = [-(-n // c) for n, c in zip(shape, chunk, strict=True)]
        self.length = self.cells = 0
        self.has_gaps = False
        self._edges: list[npt.NDArray[np.uint64]] = [np.zeros(1, np.uint64)]
        self._decoded: list[npt.NDArray[np.uint64]] = []
        self._places: list[tuple[npt.NDArray[np.uint64], tuple[int, ...], int]] = []
        self._columns: list[list[npt.NDArray[np.uint64]]] = []
        self._chains: dict[tuple[tuple[int, ...], tuple[int, ...]], int] = {((), chunk): 0}
        self._objects: dict[str, int] = {}
        self._kept: list[Object] = []

    def add(self, of: Described) -> None:
        zarray, axis = of.documents[".zarray"], self.axis
        shape = zarray["shape"]
        if 0 in shape:
            self.length += shape[axis]
            return
        numbers, objects, offsets, lengths, chains = unpack_table(of.table)
        step = zarray["chunks"][axis] if len(offsets) else self.chunk[axis]
        rows = shape[axis]
        count = -(-rows // step)
        grid = tuple(count if d == axis else n for d, n in enumerate(self.grid))
        decoded = np.full(count, step, np.uint64)
        shapes = [tuple(zarray["chunks"]), *(tuple(s or zarray["chunks"]) for _, s in of.variants)]
        masks = [(), *(tuple(sorted(skipped)) for skipped, _ in of.variants)]
        known = np.array(
            [
                self._chains.setdefault((mask, each), len(self._chains)) if len(offsets) else 0
                for mask, each in zip(masks, shapes, strict=True)
            ],
            np.uint64,
        )
        if len(offsets):
            along = np.unravel_index(numbers.astype(np.int64), grid)[axis]
            made = np.array([each[axis] for each in shapes], np.uint64)
            decoded[along] = made[chains.astype(np.int64)]
            which = np.array([self._object(each) for each in of.objects], np.uint64)
            self._columns.append([which[objects.astype(np.int64)], offsets, lengths, known[chains.astype(np.int64)]])
            self._places.append((numbers, grid, self.cells))
        self.has_gaps = self.has_gaps or len(offsets) < math.prod(grid)
        ends = np.minimum(np.arange(1, count + 1, dtype=np.uint64) * np.uint64(step), np.uint64(rows))
        self._edges.append(ends + np.uint64(self.length))
        self._decoded.append(decoded)
        self.length += rows
        self.cells += count

    def _object(self, each: Object) -> int:
        if each.data is not None:  # the bytes themselves, which have no name of their own
            each = Object(f"{each.name} {len(self._kept)}", data=each.data)
        number = self._objects.setdefault(each.name, len(self._kept))
        if number == len(self._kept):
            self._kept.append(each)
        return number

    def described(self, zarray: dict[str, Any], attributes: dict[str, Any]) -> Described | None:
        if len(self._chains) > self._MOST_CHAINS:
            return None
        documents = {".zarray": zarray, ".zattrs": attributes}
        variants: list[tuple[list[int], tuple[int, ...] | None]] = [
            (list(mask), shape) for (mask, shape), number in self._chains.items() if number
        ]
        inner = math.prod(n for d, n in enumerate(self.grid) if d != self.axis)
        cells = self.cells * inner if 0 not in zarray["shape"] else 0
        if not self._columns:
            table = pack_table(cells, [], [])
        else:
            numbers = np.concatenate([self._number(*each) for each in self._places])
            columns = [np.concatenate(each) for each in zip(*self._columns, strict=True)]
            if self.axis != 0:
                order = np.argsort(numbers, kind="stable")
                numbers, columns = numbers[order], [each[order] for each in columns]
            objects, offsets, lengths, chains = columns
            table = pack_table(cells, offsets, lengths, numbers=numbers, objects=objects, chains=chains)
        nothing = np.zeros(0, np.uint64)
        joined = Joined(self.axis, nothing, nothing)
        if cells:
            joined = Joined(self.axis, np.concatenate(self._edges), np.concatenate(self._decoded))
        return Described(documents, table, self._kept, "hdf5", "", variants, joined=joined)

    def _number(self, numbers: npt.NDArray[np.uint64], grid: tuple[int, ...], before: int) -> npt.NDArray[np.uint64]:
        """Where a dataset's chunks stand among all."""
        at = list(np.unravel_index(numbers.astype(np.int64), grid))
        at[self.axis] = at[self.axis] + before
        whole = tuple(self.cells if d == self.axis else n for d, n in enumerate(self.grid))
        return np.ravel_multi_index(tuple(at), whole).astype(np.uint64)
