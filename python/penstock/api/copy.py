"""Copying arrays and groups from store to store."""

from __future__ import annotations

import json
import os
import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from penstock import _core
from penstock.api.create_options import AUTO, check_format, check_name, codecs_of, format_below
from penstock.api.hdf5_writer import compare_start, nodes_below
from penstock.api.open import open, open_array
from penstock.api.written_values import warn_of_place
from penstock.core.array import Array
from penstock.core.attributes import to_json
from penstock.core.chunking import rule_text
from penstock.core.context import Context, current_context
from penstock.core.errors import InvalidArgumentError, NotFoundError
from penstock.core.group import Group
from penstock.core.progress import ProgressLine, callback_of, progress_display
from penstock.core.sizes import check_threads, parse_bytes
from penstock.hdf5.grown import grown_shapes
from penstock.target.place import check_path, place_of

Progress = Callable[[str, int, int], Any]


def copy(
    source: Any,
    target: Any,
    path: str = "",
    *,
    chunks: Any = None,
    shards: Any = None,
    codecs: Any = None,
    zarr_format: int | None = None,
    overwrite: bool = False,
    resume: bool = False,
    durable: bool = False,
    memory: int | str | None = None,
    scratch: str | os.PathLike[str] | None = None,
    verify: bool = False,
    threads: int | None = None,
    progress: Progress | bool | None = None,
    context: Context | None = None,
    storage_options: Mapping[str, Any] | None = None,
    target_options: Mapping[str, Any] | None = None,
) -> Array | Group:
    """Copy an array, or a group and everything in it, and open the copy, which is Zarr for every format of the source.

    All of the source's metadata is read and checked against the options before anything is written. Datasets of HDF5
    that are not arrays (of references, without a dataspace) are omitted; a warning names them.

    Arrays that keep their chunks, shards, codecs and format are copied byte for byte. Others are decoded and encoded
    again, in blocks of whole chunks of the source and whole objects of the destination. `penstock.rechunk` shows its
    plan, and refuses to decode a chunk twice.

    Parameters
    ----------
    source
        An open array or group, or a target of `penstock.open`.
    target, path
        A target of `penstock.open` or an open group, and the path within it.
    chunks, shards
        Lengths for the new arrays, as in `create_array`: (64, 64), {"time": 1}, -1, "8MiB"; None: the source's, but
        about 1 MiB if it is not Zarr and its chunks decode to less than 16 KiB or more than 32 MiB. In a group, a name
        applies to the arrays that have the dimension. New chunks without `shards` make an array without shards.
        `shards` may be "auto", or False: none.
    codecs
        As in `create_array`; None: the source's, or "auto" if the source is not Zarr.
    zarr_format
        2 or 3; None: that of the group if `target` is an open one, else the source's.
    overwrite
        Replace an array or group that exists at the target. It is kept until the copy is complete if the store can do
        so (files, dicts); in other stores it is erased after all checks.
    resume
        Continue an interrupted copy: metadata is written first, and existing objects are not copied again. The node at
        the target must have the same metadata. Not for groups of other formats than Zarr.
    durable
        Return only when the copy is on the storage device, if the store reports that.
    memory
        For the blocks of arrays that are encoded again: bytes, or text such as "2GiB"; by default half of the context's
        memory limit. If that is too little to decode each chunk once, chunks are decoded more often unless `scratch` is
        given.
    scratch
        A folder for a file, as large as the array's elements, that holds incomplete blocks.
    verify
        Read the copy and the source, and compare them; `CorruptDataError` if elements differ.
    threads
        Decoding and encoding workers; None: the context's.
    progress
        True: a line on stderr, or a bar in a notebook, for each array. A function: called as
        `progress(path, done_bytes, total_bytes)` on any thread; False stops the copy.
    context
        Threads, caches and limits; None: the current one.
    storage_options, target_options
        For the source's and the target's URI, as for `open`.

    Returns
    -------
    Array or Group
        The copy, opened.

    Raises
    ------
    InvalidArgumentError
        A node exists at the target and neither `overwrite` nor `resume` is given; an option that does not fit the
        source.
    UnsupportedError
        Zarr does not have the source's data type, or the codecs do not accept it; `resume` of a group of another format
        than Zarr.
    CorruptDataError
        A chunk of the source cannot be decoded; with `verify`, elements differ.
    CancelledError
        `progress` returned False.
    ReadOnlyError, PermissionDeniedError
        The target cannot be written to.

    Examples
    --------
    >>> ps.save("run.zarr", t=np.zeros((100, 50)), p=np.ones(100))
    >>> run = ps.copy("run.zarr", "packed.zarr", codecs="zstd", verify=True)
    >>> list(run)
    ['p', 't']

    Into one archive, and one array of it into memory:

    >>> ps.copy("run.zarr", "run.zip")["t"].shape
    (100, 50)
    >>> in_memory = {}
    >>> ps.copy("run.zip", in_memory).attrs
    {}
    """
    more = more_options(memory, scratch) | {"verify": bool(verify), "overwrite": overwrite, "resume": resume}
    more |= {"durable": durable, "threads": threads, "progress": progress}
    job = CopyJob(
        source, target, path, chunks, shards, codecs, zarr_format, more, context, storage_options, target_options
    )
    warn_of_place(job.source)
    job.run()
    return job.open()


def more_options(memory: int | str | None, scratch: str | os.PathLike[str] | None) -> dict[str, Any]:
    """Options of the engine's copy that limit its memory and threads."""
    return {
        "memory": None if memory is None else max(1, parse_bytes(memory, "memory")),
        "scratch": None if scratch is None else os.fsencode(scratch),
    }


def place_of_copy(
    target: Any, path: str, options: Mapping[str, Any] | None, context: Context, zarr_format: int | None
) -> tuple[_core.Store, bytes, int | None]:
    """The store and path of a new node, and its format: that of the group if the target is an open one."""
    if not isinstance(target, Group):
        check_name(target, path, options)
        return *place_of(target, path, options, context), zarr_format
    path = check_path(path)
    target._check_format()
    own = format_below(target, 3 if zarr_format is None else zarr_format)
    if zarr_format not in (None, own):
        raise InvalidArgumentError(f"zarr_format is {zarr_format}, the group '{target.uri}' has {own}")
    if options:
        raise InvalidArgumentError(f"target_options are for URIs, not for the group '{target.uri}'")
    store, inside = _core.place_of_group(target)
    return store, b"/".join(part for part in (inside, os.fsencode(path)) if part), own


class CopyJob:
    """A copy whose arguments were checked."""

    def __init__(
        self,
        source: Any,
        target: Any,
        path: str,
        chunks: Any,
        shards: Any,
        codecs: Any,
        zarr_format: int | None,
        more: dict[str, Any],
        context: Context | None,
        storage_options: Mapping[str, Any] | None = None,
        target_options: Mapping[str, Any] | None = None,
    ) -> None:
        self.context = current_context() if context is None else context
        if not isinstance(self.context, _core.Context):
            raise TypeError(f"context must be a penstock.Context, not {type(context).__name__}")
        if not isinstance(source, Array | Group):
            source = open(source, context=self.context, storage_options=storage_options)
        self.source = source._opened() if isinstance(source, Array) else source
        if zarr_format is not None:
            check_format(zarr_format)
        self.store, self.inside, zarr_format = place_of_copy(target, path, target_options, self.context, zarr_format)
        made_as = zarr_format or (2 if source.format == "zarr2" else 3)
        is_auto = isinstance(shards, str) and shards == AUTO
        self.options: dict[str, Any] = {
            "chunks": None if chunks is None else rule_text(chunks, "chunks"),
            "auto_shards": is_auto,
            "no_shards": shards is False,
            "shards": None if shards is None or shards is False or is_auto else rule_text(shards, "shards"),
            "zarr_format": zarr_format,
            **more,
            **{name: bool(more[name]) for name in ("overwrite", "resume", "durable")},
            "threads": check_threads(more["threads"]) or None,
            "progress": _line(more["progress"]),
        }
        if codecs is not None:
            self.options["codecs"] = codecs_of(codecs, AUTO, AUTO, AUTO, made_as).get("codecs") or AUTO

    def run(self, **options: Any) -> Mapping[str, Any]:
        """The engine's counts."""
        options = {**self.options, **options}
        if isinstance(self.source, Group) and type(self.source) is not Group:
            return _copy_members(self.source, self.store, self.inside, options, self.context)
        return _core.copy(self.source, self.store, self.inside, options)

    def open(self) -> Array | Group:
        """The copy."""
        return open(self.store, self.inside.decode("utf-8", "surrogateescape"), context=self.context)


def copy_members(source: Group, target: str, options: dict[str, Any]) -> Mapping[str, Any]:
    """Copy a group whose members Python opens to a URI, for the command line program; returns the engine's counts."""
    context = current_context()
    store, inside = place_of(target, "", None, context)
    return _copy_members(source, store, inside, options, context)


def _copy_members(
    source: Group, store: _core.Store, inside: bytes, options: dict[str, Any], context: Context
) -> Mapping[str, Any]:
    """Copy a group whose members Python opens (HDF5): everything is opened and checked before the first write.

    Of a copy that several processes share, this is the stage `options["part"]`, as for the engine's groups: "prepare"
    creates the groups and "finish" sets the lengths of grown arrays; each other stage is that of every array.
    """
    stage, number, _ = options.get("part") or ("whole", 0, 1)
    if options["overwrite"] and options["resume"]:
        raise InvalidArgumentError("a copy either overwrites its destination or resumes, not both")
    makes_metadata = stage in ("whole", "prepare")
    resumes = options["resume"] or not makes_metadata
    zarr_format = options["zarr_format"] or 3
    nodes, left_out = nodes_below(source, lambda array: _without_a_type(array.dtype, zarr_format))
    if left_out and makes_metadata and not options.get("check_only"):
        warnings.warn(f"not copied from '{source.uri}': {'; '.join(left_out)}", stacklevel=4)
    _check_names([node for _, node in nodes if isinstance(node, Array)], options)
    checks = {**options, "overwrite": False, "check_only": True, "progress": None}
    steps: list[tuple[Any, ...]] = []
    for path, node in nodes:
        if isinstance(node, Array):
            planned = _core.copy(node, _core.dict_store({}), b"", _for_array(checks, node))
            steps += [(path, *step[1:]) for step in planned["steps"]]
    if options.get("check_only"):
        return {"arrays": len(steps), "steps": steps}
    zarr_format = options["zarr_format"] or 3
    grown = grown_shapes(nodes)
    fresh = _core.replace(store, inside) if options["overwrite"] else None
    to, root = (store, inside) if fresh is None else (fresh.store, b"")
    overwrite = bool(options["overwrite"]) and fresh is None
    options = {**options, "overwrite": False}
    done: Counter[str] = Counter()
    steps = []

    def make_group(at: bytes, node: Group, overwrite: bool = False) -> None:
        done["groups"] += 1
        if not resumes or not _is_group(to, at, zarr_format, context):
            _core.create_group(to, context, at, zarr_format, overwrite, to_json(dict(node.attrs)))

    try:
        if makes_metadata:
            make_group(root, source, overwrite)
        for name, node in nodes:
            at = b"/".join(part for part in (root, os.fsencode(name)) if part)
            if isinstance(node, Group):
                if makes_metadata:
                    make_group(at, node)
                continue
            wanted = _for_array(options, node)
            shape = grown.get(name)
            if shape is not None and resumes and (made := _grown_copy(node, to, at, shape, wanted, context)):
                # Arrays grow when all their elements are copied.
                if options["verify"] and number == 0 and stage in ("whole", "compare"):
                    compare_start(node, made)
                done["arrays"] += 1
                continue
            copied = dict(_core.copy(node, to, at, {**wanted, "progress": _named(options["progress"], name)}))
            steps += [(name, *step[1:]) for step in copied.pop("steps")]
            done.update(copied)
            if shape is not None and stage in ("whole", "finish"):
                open_array(to, os.fsdecode(at), context=context).resize(shape)
        if fresh is not None:
            fresh.commit()
    finally:
        if fresh is not None:
            fresh.discard()
    return {**done, "steps": steps}


def _is_group(store: _core.Store, at: bytes, zarr_format: int, context: Context) -> bool:
    """Whether a group of that format exists there: False if nothing does."""
    try:
        there = open(store, os.fsdecode(at), context=context, use_consolidated=False)
    except NotFoundError:
        return False
    if isinstance(there, Array):
        raise InvalidArgumentError(f"'{there.uri}' is an array, not a group")
    if there.format != f"zarr{zarr_format}":
        raise InvalidArgumentError(f"'{there.uri}' is Zarr v{there.format[-1]}, the copy is v{zarr_format}")
    return True


def _grown_copy(
    source: Array, store: _core.Store, at: bytes, shape: tuple[int, ...], options: dict[str, Any], context: Context
) -> Array | None:
    """The complete copy of an array that an interrupted copy has given its shape in netCDF."""
    try:
        there = open(store, os.fsdecode(at), context=context, use_consolidated=False)
    except NotFoundError:
        return None
    if not isinstance(there, Array) or there.shape != shape:
        return None
    # The metadata that the copy would create, in memory.
    plain = {"part": ("prepare", 0, 1), "memory": 1 << 20, "threads": 1, "resume": False, "progress": None}
    in_memory: dict[str, Any] = {}
    _core.copy(source, _core.dict_store(in_memory), b"", {**options, **plain, "decode_once": False, "scratch": None})
    made = open_array(in_memory, context=context)
    return there if _storage_of(made) == _storage_of(there) else None  # the engine reports what differs


def _storage_of(array: Array) -> tuple[Any, ...]:
    return array.dtype, array.chunks, array.shards, array.format


def _without_a_type(dtype: np.dtype[Any], zarr_format: int) -> str:
    """Why Zarr has no data type for a dtype; empty if it has one."""
    metadata: Mapping[str, Any] = dtype.metadata or {}
    vlen = metadata.get("vlen")
    if isinstance(vlen, np.dtype) and (vlen.hasobject or vlen.subdtype is not None):
        return "Zarr stores lists of single items of a fixed size only"
    if zarr_format != 2 and vlen is not None:
        return "Zarr v3 has no data type for lists of variable length"
    return "Zarr has no data type for long doubles" if _has_long_doubles(dtype) else ""


def _has_long_doubles(dtype: np.dtype[Any]) -> bool:
    if dtype.subdtype is not None:
        return _has_long_doubles(dtype.subdtype[0])
    if dtype.fields is not None:
        return any(_has_long_doubles(field[0]) for field in dtype.fields.values())
    return dtype == np.longdouble


def _names_in(rule: Any) -> list[str]:
    """The dimensions that a rule for lengths names."""
    return list(json.loads(rule)) if isinstance(rule, str) and rule.startswith("{") else []


def _has(array: Array, name: str) -> bool:
    return name in (array.dimension_names or ()) or (name.isdecimal() and int(name) < array.ndim)


def _check_names(arrays: list[Array], options: dict[str, Any]) -> None:
    for name in (name for key in ("chunks", "shards") for name in _names_in(options[key])):
        if not any(_has(array, name) for array in arrays):
            raise InvalidArgumentError(f"no array that is copied has a dimension {name!r}")


def _for_array(options: dict[str, Any], array: Array) -> dict[str, Any]:
    """The options without names of dimensions that the array does not have."""
    made = dict(options)
    for key in ("chunks", "shards"):
        if names := _names_in(options[key]):
            rule = json.loads(options[key])
            made[key] = json.dumps({name: rule[name] for name in names if _has(array, name)})
    return made


def _named(progress: Callable[..., Any] | None, path: str) -> Callable[..., Any] | None:
    """The function for one array, whose path within the group is `path`."""
    return None if progress is None else lambda _, done, total: progress(path, done, total)


def _line(progress: Progress | bool | None) -> Callable[..., Any] | None:
    """The function of the engine for `progress`: a display for each array for True."""
    if progress is not True:
        return callback_of(progress, "copying")
    lines: dict[str, ProgressLine] = {}

    def show(path: str, done: int, total: int) -> None:
        if path not in lines:
            lines[path] = progress_display(f"copying {path}".rstrip())
        lines[path](done, total)

    return show
