"""Indexes of HDF5 datasets, one behind the other."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.references.objects import (
    Described,
    Joined,
    Object,
    describe_contiguous,
    move_table,
    pack_table,
    unpack_table,
)

_Numbers = npt.NDArray[np.uint64]

# Parameters of codecs that only say how hard an encoder tried.
_EFFORT = frozenset({"level", "clevel", "acceleration"})


def _decoding(zarray: dict[str, Any]) -> Any:
    """What decides how a chunk decodes."""
    filters = [{k: v for k, v in each.items() if k not in _EFFORT} for each in zarray["filters"] or []]
    return zarray["dtype"], filters


def merge(parts: list[Described], axis: int) -> Described | None:
    """One index of the chunks of all parts, which follow each other along `axis` and have one shape around it.

    The name is the caller's to give, attributes are the first part's. None where they are not stored alike enough:
    other filters, other chunks around `axis`, other fill values where chunks are missing, or joined already.
    """
    if any(part.joined is not None for part in parts):
        return None
    full = [part for part in parts if len(unpack_table(part.table)[2])]
    first = full[0] if full else next((each for each in parts if 0 not in _zarray(each)["shape"]), parts[0])
    zarray = dict(_zarray(first))
    chunk: tuple[int, ...] = tuple(zarray["chunks"])
    rank = len(chunk)
    for part in full:
        theirs = _zarray(part)
        if _decoding(theirs) != _decoding(zarray):
            return None
        if any(theirs["chunks"][d] != chunk[d] for d in range(rank) if d != axis):
            return None
    merged = _Merge(chunk, tuple(zarray["shape"]), axis)
    for part in parts:
        merged.add(part)
    fills = [_zarray(part)["fill_value"] for part in parts if 0 not in _zarray(part)["shape"]]
    if merged.has_gaps and any(fill != fills[0] for fill in fills):
        return None
    zarray["shape"] = [*zarray["shape"]]
    zarray["shape"][axis] = merged.length
    if fills:
        zarray["fill_value"] = fills[0]
    made = merged.described(zarray, parts[0].documents[".zattrs"])
    if made is not None:
        made.typed_attributes, made.dimension_names = parts[0].typed_attributes, parts[0].dimension_names
    return made


def _zarray(of: Described) -> dict[str, Any]:
    made: dict[str, Any] = of.documents[".zarray"]
    return made


NEVER = np.uint64(0xFFFFFFFFFFFFFFFF)


@dataclass
class Alike:
    """The bytes of datasets that differ in their lengths alone, one file after the other."""

    rows: _Numbers  # of each file
    starts: _Numbers  # of contiguous ones, of each file: where the first byte is, or NEVER
    entries: _Numbers  # listed chunks of each file
    cells: _Numbers  # in the grid of the file
    offsets: _Numbers
    lengths: _Numbers


def merge_alike(first: Described, of: Alike, objects: list[Object], axis: int, item_bytes: int) -> Described | None:
    """As `merge`, of files that are all stored as `first` is: without a look at each."""
    if len(of.starts):
        return _merge_contiguous(first, of, objects, axis, item_bytes)
    zarray = dict(_zarray(first))
    chunk: list[int] = zarray["chunks"]
    grid = [-(-n // c) for n, c in zip(zarray["shape"], chunk, strict=True)]
    step, inner = np.uint64(chunk[axis]), np.uint64(math.prod(grid[axis + 1 :]))
    counts = (of.rows + step - np.uint64(1)) // step
    total = int(counts.sum())
    which = np.repeat(np.arange(len(of.rows)), of.entries.astype(np.int64))
    outer, along = np.divmod(of.cells // inner, counts[which])
    along += (np.cumsum(counts) - counts)[which]
    numbers = (outer * np.uint64(total) + along) * inner + of.cells % inner
    columns = [which.astype(np.uint64), of.offsets, of.lengths]
    if axis != 0:
        order = np.argsort(numbers, kind="stable")
        numbers, columns = numbers[order], [each[order] for each in columns]
    cells = total * math.prod(n for d, n in enumerate(grid) if d != axis)
    table = pack_table(cells, columns[1], columns[2], numbers=numbers, objects=columns[0])
    repeats = counts.astype(np.int64)
    own = np.arange(total, dtype=np.uint64) - np.repeat(np.cumsum(counts) - counts, repeats)
    ends = np.minimum((own + np.uint64(1)) * step, np.repeat(of.rows, repeats))
    ends += np.repeat(np.cumsum(of.rows) - of.rows, repeats)
    zarray["shape"] = [*zarray["shape"]]
    zarray["shape"][axis] = int(of.rows.sum())
    joined = Joined(axis, np.concatenate([np.zeros(1, np.uint64), ends]), np.full(total, step, np.uint64))
    documents = {".zarray": zarray, ".zattrs": first.documents[".zattrs"]}
    made = Described(documents, table, objects, "hdf5", "", joined=joined)
    made.typed_attributes, made.dimension_names = first.typed_attributes, first.dimension_names
    return made


def _merge_contiguous(
    first: Described, of: Alike, objects: list[Object], axis: int, item_bytes: int
) -> Described | None:
    blocks: dict[int, Any] = {}
    parts = []
    for rows, start, file in zip(of.rows.tolist(), of.starts.tolist(), objects, strict=True):
        shape = [*_zarray(first)["shape"]]
        shape[axis] = rows
        part = Described({**first.documents}, b"", [file], "hdf5", "")
        part.typed_attributes, part.dimension_names = first.typed_attributes, first.dimension_names
        chunks: Any = [max(1, n) for n in shape]
        if start == NEVER:
            part.table = pack_table(0 if 0 in shape else 1, [], [])
        else:
            if rows not in blocks:
                blocks[rows] = describe_contiguous(shape, item_bytes, 0)
            chunks, table, part.variants = blocks[rows]
            part.table = move_table(table, start)
        part.documents[".zarray"] = {**_zarray(first), "shape": shape, "chunks": chunks}
        parts.append(part)
    return merge(parts, axis)


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
