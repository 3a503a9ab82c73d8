"""Datasets of many HDF5 files, or many datasets of one, as one array: one index of all their chunks."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from penstock import _core
from penstock.core.array import Array
from penstock.core.context import Context
from penstock.core.errors import ConflictError, InvalidArgumentError, NotFoundError
from penstock.core.group import Group
from penstock.hdf5.file import open_node
from penstock.hdf5.index import describe_dataset
from penstock.hdf5.links import encoded, find, names_in
from penstock.hdf5.merge import Alike, merge, merge_alike
from penstock.hdf5.source import Source, import_h5py
from penstock.hdf5.types import StoredType
from penstock.references.objects import Described, Object
from penstock.shards.files import complain, describe_all, refuse_others
from penstock.shards.readers import join_arrays
from penstock.shards.saved import JoinedReferences

_WILD = "*?["
_FIRST_BYTES = 1 << 16
_THREADS = 4  # more of them only wait for h5py's lock


@dataclass
class _Shard:
    """One dataset."""

    name: str
    source: Source
    path: str
    described: Described
    holder: Source  # the file that it lies in, which `source` may only link to
    held: tuple[int, ...] | None  # the stamp of that file

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
    sources = [Source.of(path, context, storage_options) for path in files]
    dataset = dataset or _only_dataset(sources[0])
    name = dataset.strip("/")
    before = [source.stamp() for source in sources]
    described, lengths = _describe_alike(sources, name, axis, context)
    shards: list[_Shard] = []
    if described is None:
        found = describe_all(list(files), [partial(_look, source, name, allow_holes) for source in sources], _THREADS)
        shards = [shard for each in found for shard in each]
        if _check(shards, axis):
            along = axis % len(shards[0].zarray["shape"])
            described = merge([shard.described for shard in shards], along)
            lengths = [int(shard.zarray["shape"][along]) for shard in shards]
        if described is None:
            return join_arrays([open_node(shard.source, shard.path) for shard in shards], axis, context)
        described.uri = _uri([shard.name for shard in shards])
    for each in described.objects:
        each.crc32c = (checksums or {}).get(each.name)
    assert described.joined is not None
    described.joined.shards = {
        "kind": "hdf5",
        "files": list(files),
        "dataset": dataset,
        "axis": axis,
        "lengths": lengths,
    }
    made = JoinedReferences.open(described, context)
    changed = [path for path, source, was in zip(files, sources, before, strict=True) if source.stamp() != was]
    changed += [shard.holder.uri for shard in shards if shard.holder.stamp() != shard.held]
    if changed:
        raise ConflictError(f"'{changed[0]}' changed while its index was read")
    return made


def _uri(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} ... {names[-1].rpartition('/')[2]}"


def _describe_alike(
    sources: list[Source], name: str, axis: int, context: Context
) -> tuple[Described | None, list[int]]:
    """One index of files of this machine that are all stored as the first one is, which alone h5py looks at, and their
    lengths.

    None where they are not, or one cannot be read: who looks at each of them finds out which.
    """
    local = all(isinstance(each.target, str) and each.uri != each.target for each in sources)
    if len({each.uri for each in sources}) != len(sources) or len(sources) < 2:
        return None, []
    if not local or any(letter in name for letter in _WILD):
        return None, []
    try:
        first = _look(sources[0], name, False)[0].described
    except Exception:  # it is named with all others that cannot be read
        return None, []
    shape = first.documents[".zarray"]["shape"]
    if not -len(shape) <= axis < len(shape) or first.joined is not None or len(first.objects) != 1:
        return None, []
    axis %= len(shape)
    if 0 in shape[:axis] + shape[axis + 1 :] or first.objects[0].path is None:
        return None, []
    keys = [os.fsencode(each.target[1:]) for each in sources]
    columns = _core.hdf5_shards(_core.file_store(b"/"), context, keys, name, axis)
    if columns is None:
        return None, []
    alike = Alike(*(np.frombuffer(each, np.uint64) for each in columns))
    if not alike.rows.any():
        return None, []
    stores: dict[str, _core.Store] = {}
    objects = []
    for source in sources:
        folder, key = os.path.split(source.target)
        store = stores.get(folder) or stores.setdefault(folder, _core.file_store(os.fsencode(folder)))
        try:
            status = os.stat(source.target)
        except OSError:
            return None, []
        stamp = (status.st_size, status.st_mtime_ns)
        objects.append(Object(source.target, store, key, pinned=True, path=source.target, stamp=stamp))
    made = merge_alike(first, alike, objects, axis, StoredType(first.documents[".zarray"]["dtype"]).numpy.itemsize)
    if made is None:
        return None, []
    made.uri = _uri([f"{source.uri}/{name}" for source in (sources[0], sources[-1])])
    return made, [int(each) for each in alike.rows]


def _look(source: Source, name: str, allow_holes: bool) -> list[_Shard]:
    """The datasets of one file. Its beginning is read first, outside of h5py's lock: other files' waits overlap."""
    if isinstance(source.target, str) and source.uri != source.target and os.path.isfile(source.target):
        source.read_at(0, _FIRST_BYTES)
    objects: dict[str, tuple[Source, tuple[int, ...] | None, Object]] = {}
    if source.is_remote:
        objects[source.uri] = source, None, source.file_object()  # of what it is before it is looked at
    with source.opened() as file:
        shards = []
        for path in _paths(file, name, allow_holes):
            found = find(file, path)
            if found is None:
                raise NotFoundError(f"the file has no '{path}'")
            if not hasattr(found, "dtype") or not hasattr(found, "chunks"):
                raise InvalidArgumentError(f"'{path}' is not a dataset")
            uri = f"{source.uri}/{path}"
            holder = source.holder(file, found)
            if holder.uri not in objects:
                objects[holder.uri] = holder, holder.stamp(), holder.file_object()
            holder, held, object_ = objects[holder.uri]
            described = describe_dataset(found, object_, uri, holder.read_at)
            shards.append(_Shard(uri, source, path, described, holder, held))
        return shards


def _paths(file: Any, name: str, allow_holes: bool) -> list[str]:
    """The datasets that a name or a pattern stands for, in the order of the numbers in them."""
    if not any(letter in name for letter in _WILD) or encoded(name) in file:
        return [name]
    h5py = import_h5py()
    found = [""]
    for part in name.split("/"):
        below = []
        for base in found:
            group = file[encoded(base)] if base else file
            if isinstance(group, h5py.Group):
                names = [each for each in names_in(group) if fnmatch.fnmatchcase(each, part)]
                below += [f"{base}/{each}" if base else each for each in names]
        found = below
    found = [each for each in found if not _is_other(file, each)]
    if not found:
        raise NotFoundError(f"the file has no dataset '{name}'")
    shelf = _core.dict_store(dict.fromkeys(found, b""), None, False)
    return [os.fsdecode(key) for key in _core.find_shards(shelf, os.fsencode(name), allow_holes)]


def _is_other(file: Any, path: str) -> bool:
    """Whether a group or a named type is at `path`. What cannot be read may be a dataset: opening it raises."""
    from h5py import h5g

    try:
        return bool(h5g.get_objinfo(file.id, encoded(path)).type != h5g.DATASET)
    except (KeyError, OSError, RuntimeError, ValueError):
        return False


def _native(dtype: Any) -> Any:
    """A stored type without its byte order."""
    if isinstance(dtype, str):
        return dtype.lstrip("<>|=")
    return [[name, _native(inner), *shape] for name, inner, *shape in dtype]


# Attributes by which the same stored value means another: `hdf5_attributes.cc` has the same list.
_MEANING = ("scale_factor", "add_offset", "_FillValue", "missing_value", "_Unsigned", "units", "calendar")


def _refuse_other_meanings(shards: list[_Shard]) -> None:
    """Joined, all values are under the first dataset's attributes."""

    def said(shard: _Shard, name: str) -> str:
        value = (shard.described.typed_attributes or {}).get(name)
        return "none" if value is None else repr(np.asarray(value).tolist())

    for name in _MEANING:
        first = said(shards[0], name)
        others = [f"'{shard.name}' has {said(shard, name)}" for shard in shards if said(shard, name) != first]
        if others:
            what = f"{len(others)} of {len(shards)} datasets have another '{name}' than '{shards[0].name}' ({first})"
            raise InvalidArgumentError(complain(what, others))


def _only_dataset(source: Source) -> str:
    """The name of a file's one dataset. Raises InvalidArgumentError if it has several, and names them."""
    group = open_node(source, "")
    assert isinstance(group, Group)
    names: list[str] = [path for path, node in group.members(max_depth=None) if isinstance(node, Array)]
    if len(names) == 1:
        return names[0]
    found = f"it holds {', '.join(map(repr, names[:20]))}" if names else "it holds none"
    text = f"HDF5 files hold datasets by name: give dataset= ({found})"
    raise InvalidArgumentError(text, f"in '{source.uri}'")


def _check(shards: list[_Shard], axis: int) -> bool:
    """Refuses datasets that do not go together. False where they do, but only one by one: text of variable length."""
    names = [shard.name for shard in shards]
    shapes = [tuple(shard.zarray["shape"]) for shard in shards]
    types = [_native(shard.zarray["dtype"]) for shard in shards]
    refuse_others(names, shapes, types, axis)
    _refuse_other_meanings(shards)
    return not any(shard.zarray["dtype"] == "|O" for shard in shards)
