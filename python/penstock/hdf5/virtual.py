"""Datasets whose bytes lie in other files: virtual ones that put datasets one behind the other, and external ones."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock import _core
from penstock.core.errors import CorruptDataError, UnsupportedError
from penstock.hdf5.links import find
from penstock.hdf5.merge import merge
from penstock.hdf5.source import Source
from penstock.hdf5.types import StoredType
from penstock.references.objects import Described, Object, contiguous_blocks, pack_table

_MOST_SOURCES = 100_000

Describe = Callable[[Any, Object, str, Callable[[int, int], bytes], int], Described]


def _refuse(what: str) -> UnsupportedError:
    error = UnsupportedError(f"virtual HDF5 datasets {what} are not readable")
    assert isinstance(error, UnsupportedError)
    return error


def _solid(space: Any, shape: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The first position and the lengths of a selection that is a box without holes."""
    from h5py import h5s

    if space.get_select_type() == h5s.SEL_ALL:
        return (0,) * len(shape), shape
    if space.is_regular_hyperslab():
        parts = space.get_regular_hyperslab()
        if any(int(n) == h5s.UNLIMITED for part in parts[2:] for n in part):
            raise _refuse("that grow with their sources (unlimited mappings)")
    low, high = space.get_select_bounds()
    counts = tuple(int(b) - int(a) + 1 for a, b in zip(low, high, strict=True))
    if space.get_select_npoints() != math.prod(counts):
        raise _refuse("that take every n-th element, or points, of a source")
    return tuple(int(a) for a in low), counts


def _find_file(name: str, main: str | None) -> str | None:
    """The file that a mapping names: next to the file that names it, or where it says. None: there is none."""
    if main is None:
        raise _refuse("in files that are not opened by a path")
    for path in (os.path.join(os.path.dirname(main), name), name):
        if os.path.isfile(path):
            return os.path.abspath(path)
    return None


def describe_virtual(
    dataset: Any, plist: Any, zarray: dict[str, Any], file: Object, uri: str, describe: Describe, depth: int
) -> Described:
    """A virtual dataset that is whole datasets, one behind the other along one axis, with gaps or without.

    Sources that are not there are the fill value, as HDF5 has it.
    """
    if depth:  # they could name each other, and themselves
        raise _refuse("of virtual datasets")
    count = plist.get_virtual_count()
    if count > _MOST_SOURCES:
        raise _refuse(f"of {count} mappings")
    shape = tuple(dataset.shape)
    boxes = []
    for i in range(count):
        name = plist.get_virtual_filename(i)
        if "%" in name or "%" in plist.get_virtual_dsetname(i):
            raise _refuse("whose sources are a pattern of names (printf mappings)")
        boxes.append((*_solid(plist.get_virtual_vspace(i), shape), i))
    axes = {d for low, counts, _ in boxes for d in range(len(shape)) if (low[d], counts[d]) != (0, shape[d])}
    if len(axes) > 1 or not shape:
        raise _refuse("whose sources do not follow each other along one axis")
    axis = axes.pop() if axes else 0
    parts: list[Described] = []
    end = 0
    for low, counts, i in sorted(boxes):
        if low[axis] < end:
            raise _refuse("whose sources overlap")
        if low[axis] > end:
            parts.append(_gap(zarray, shape, axis, low[axis] - end))
        parts.append(_source(plist, i, counts, axis, zarray, file, describe, depth))
        end = low[axis] + counts[axis]
    if end > shape[axis]:
        raise CorruptDataError(f"a mapping ends at {end} of dimension {axis}, which has {shape[axis]}")
    if end < shape[axis] or not parts:
        parts.append(_gap(zarray, shape, axis, shape[axis] - end))
    made = merge(parts, axis)
    if made is None:
        raise _refuse("whose sources have other chunks, filters or byte orders than each other")
    made.documents[".zarray"]["fill_value"] = zarray["fill_value"]
    made.uri = uri
    return made


def _gap(zarray: dict[str, Any], shape: tuple[int, ...], axis: int, length: int) -> Described:
    """Elements that no source has."""
    whole = [length if d == axis else n for d, n in enumerate(shape)]
    document = {**zarray, "shape": whole, "chunks": [max(1, n) for n in whole]}
    return Described({".zarray": document, ".zattrs": {}}, pack_table(0 if 0 in whole else 1, [], []), [], "hdf5", "")


def _source(
    plist: Any,
    which: int,
    counts: tuple[int, ...],
    axis: int,
    zarray: dict[str, Any],
    file: Object,
    describe: Describe,
    depth: int,
) -> Described:
    import h5py

    name, path = plist.get_virtual_filename(which), plist.get_virtual_dsetname(which)
    found = file.path if name == "." else _find_file(name, file.path)
    if name == "." and found is None:
        raise _refuse("in files that are not opened by a path")
    if found is None:
        return _gap(zarray, counts, axis, counts[axis])
    source = Source(found, None, None, f"file://{found}")  # type: ignore[arg-type]
    with source.opened() as opened:
        dataset = find(opened, path)
        if not isinstance(dataset, h5py.Dataset):
            return _gap(zarray, counts, axis, counts[axis])
        theirs = tuple(dataset.shape)
        _, taken = _solid(plist.get_virtual_srcspace(which), theirs)
        if taken != theirs:
            raise _refuse("that take a part of a source")
        holder = source.holder(opened, dataset)
        object_ = file if name == "." and holder is source else holder.file_object()
        made = describe(dataset, object_, f"{source.uri}/{path}", holder.read_at, depth + 1)
    document = made.documents[".zarray"]
    if _native(document["dtype"]) != _native(zarray["dtype"]):
        raise _refuse(f"of {zarray['dtype']} whose sources are {document['dtype']}")
    if theirs != counts:
        if (*theirs[:axis], 1, *theirs[axis:]) != counts:
            raise _refuse(f"that show a source of shape {theirs} as {counts}")
        _insert(made, axis)
    document["fill_value"] = zarray["fill_value"]
    made.documents[".zattrs"] = {}
    return made


def _native(dtype: Any) -> Any:
    return dtype.lstrip("<>|=") if isinstance(dtype, str) else str(dtype).replace(">", "<")


def _insert(of: Described, axis: int) -> None:
    """A dimension of one element: chunks keep their numbers and their bytes."""
    document = of.documents[".zarray"]
    document["shape"].insert(axis, 1)
    document["chunks"] = [*document["chunks"][:axis], 1, *document["chunks"][axis:]]
    of.variants = [
        (skipped, None if shape is None else (*shape[:axis], 1, *shape[axis:])) for skipped, shape in of.variants
    ]


def describe_external(dataset: Any, stored: StoredType, zarray: dict[str, Any], file: Object, made: Described) -> None:
    """A contiguous dataset in other files: each has a stretch of its bytes."""
    from h5py import h5f

    if file.path is None:
        raise UnsupportedError("external HDF5 datasets are readable in files that are opened by a path")
    shape = tuple(zarray["shape"])
    item = stored.numpy.itemsize
    total = item * math.prod(shape)
    ends: list[int] = []
    places: list[tuple[str, int]] = []
    for name, offset, size in dataset.external:
        begin = ends[-1] if ends else 0
        if begin >= total:
            break
        path = os.path.abspath(name) if os.path.isfile(name) else os.path.join(os.path.dirname(file.path), name)
        ends.append(total if size == h5f.UNLIMITED else min(total, begin + int(size)))
        places.append((os.path.normpath(path), int(offset)))
    if total and (not ends or ends[-1] < total):
        raise CorruptDataError(f"external files have {ends[-1] if ends else 0} bytes of {total}")
    row = item * math.prod(shape[1:]) if shape else item
    step = math.gcd(*ends) if len(ends) > 1 else 0
    if step % max(1, row):
        raise UnsupportedError("external HDF5 datasets whose files cut rows are not readable")
    most = min(1 << 20, _largest_divisor(step // row, max(1, (1 << 20) // row)) * row) if step else 1 << 20
    cell, offsets, lengths, axis = contiguous_blocks(shape, item, most)
    if step and math.prod(cell) * item > step:
        raise UnsupportedError("external HDF5 datasets whose files are short are not readable")
    which = np.searchsorted(np.array(ends, np.uint64), offsets, side="right") if ends else np.zeros(0, np.int64)
    starts = np.array([0, *ends[:-1]], np.uint64)
    into = np.array([offset for _, offset in places] or [0], np.uint64)
    at: npt.NDArray[np.uint64] = offsets
    if len(offsets):
        at = offsets - starts[which] + into[which]
    names: dict[str, int] = {}
    numbers = np.array([names.setdefault(path, len(names)) for path, _ in places] or [0], np.uint64)
    chains = None
    made.variants = []
    if axis is not None:
        last = shape[axis] % cell[axis]
        made.variants.append(([], (*cell[:axis], last, *cell[axis + 1 :])))
        chains = (lengths != lengths[0]).astype(np.uint64) if shape[axis] > cell[axis] else None
    zarray["chunks"] = cell
    made.table = pack_table(len(offsets), at, lengths, objects=numbers[which] if len(offsets) else None, chains=chains)
    made.objects = [_external_object(path) for path in names][: len(offsets)]


def _largest_divisor(of: int, most: int) -> int:
    return next(n for n in range(min(of, most), 0, -1) if of % n == 0)


def _external_object(path: str) -> Object:
    folder, name = os.path.split(path)
    stamp = None
    if os.path.isfile(path):
        status = os.stat(path)
        stamp = (status.st_size, status.st_mtime_ns)
    return Object(path, _core.file_store(os.fsencode(folder)), name, pinned=stamp is not None, path=path, stamp=stamp)
