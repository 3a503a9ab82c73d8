"""From one format to another: `convert` chooses by the target's name."""

from __future__ import annotations

import contextlib
import difflib
import math
import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Literal, overload

from penstock import _core
from penstock.api import images
from penstock.api.copy import CopyJob, Progress, more_options
from penstock.api.hdf5_writer import ImageMembers, write_hdf5
from penstock.api.open import open
from penstock.api.rechunk import RechunkPlan, folder_of, plan_of
from penstock.api.save import save, save_npy
from penstock.api.shard_writer import MANIFEST, ShardWriter, save_shards
from penstock.api.written_values import warn_of_place
from penstock.core.array import Array
from penstock.core.context import Context, current_context
from penstock.core.errors import InvalidArgumentError, UnsupportedError
from penstock.core.group import Group
from penstock.core.progress import callback_of, progress_display
from penstock.core.sizes import check_count, either_bytes
from penstock.geo.placed import image_in
from penstock.shards.sharded_array import ShardedArray
from penstock.target.sniff import format_by_name

_OF_ONE_FILE = ("tiff", "hdf5", "npy")
_SHARD_BYTES = 64 << 20


def _name_of(target: Any) -> tuple[str, str | None]:
    """The name of a target, and its format."""
    name = os.fsdecode(target) if isinstance(target, str | os.PathLike) else ""
    return name, None if name.endswith("/") else format_by_name(name)


def is_one_file(target: Any) -> bool:
    """Whether the target's name is that of another format than Zarr."""
    return _name_of(target)[1] in _OF_ONE_FILE


def is_pattern(target: Any) -> bool:
    """Whether the target's name is that of many files: it has a field for their number."""
    name = _name_of(target)[0]
    return "{" in name and "}" in name


@overload
def convert(
    source: Any,
    target: Any,
    *,
    dry_run: Literal[True],
    path: str = ...,
    chunks: Any = ...,
    shards: Any = ...,
    rows: int | None = ...,
    codecs: Any = ...,
    zarr_format: int | None = ...,
    memory: int | str | None = ...,
    memory_limit: int | str | None = ...,
    scratch: str | os.PathLike[str] | None = ...,
    overwrite: bool = ...,
    resume: bool = ...,
    verify: bool = ...,
    consolidate: bool = ...,
    threads: int | None = ...,
    progress: Progress | bool | None = ...,
    context: Context | None = ...,
    storage_options: Mapping[str, Any] | None = ...,
    target_options: Mapping[str, Any] | None = ...,
    **options: Any,
) -> RechunkPlan: ...
@overload
def convert(
    source: Any,
    target: Any,
    *,
    dry_run: Literal[False] = ...,
    path: str = ...,
    chunks: Any = ...,
    shards: Any = ...,
    rows: int | None = ...,
    codecs: Any = ...,
    zarr_format: int | None = ...,
    memory: int | str | None = ...,
    memory_limit: int | str | None = ...,
    scratch: str | os.PathLike[str] | None = ...,
    overwrite: bool = ...,
    resume: bool = ...,
    verify: bool = ...,
    consolidate: bool = ...,
    threads: int | None = ...,
    progress: Progress | bool | None = ...,
    context: Context | None = ...,
    storage_options: Mapping[str, Any] | None = ...,
    target_options: Mapping[str, Any] | None = ...,
    **options: Any,
) -> Array | Group: ...
def convert(
    source: Any,
    target: Any,
    *,
    dry_run: bool = False,
    path: str = "",
    chunks: Any = None,
    shards: Any = None,
    rows: int | None = None,
    codecs: Any = None,
    zarr_format: int | None = None,
    memory: int | str | None = None,
    memory_limit: int | str | None = None,
    scratch: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    resume: bool = False,
    verify: bool = False,
    consolidate: bool = False,
    threads: int | None = None,
    progress: Progress | bool | None = None,
    context: Context | None = None,
    storage_options: Mapping[str, Any] | None = None,
    target_options: Mapping[str, Any] | None = None,
    **options: Any,
) -> Array | Group | RechunkPlan:
    """Write an array or a group in another format, which the target's name determines, and open it.

    Parameters
    ----------
    source
        An open array or group, or a target of `penstock.open`.
    target
        `.tif` and other names of TIFFs: a Cloud Optimized GeoTIFF of one array, or of the only image of a group, with
        its coordinate system, transform, nodata, scales, offsets, units and names of bands; of a TIFF also with its
        mask, colours, opacity and texts. `.h5`, `.nc` and other names of HDF5 files: an HDF5 file of an array or a
        group, written by h5py, with attributes and, for dimensions that are named, scales as in netCDF-4. In `.nc`
        files, a variable with the name of a dimension that is not its first one is stored under netCDF's name. `.npy`:
        one array. A name with one `{}`: many files of one array, with a manifest, as `penstock.save_shards` writes them
        (`.npy`, `.raw`, ...). Every other name is Zarr: arrays and groups, with attributes and names of dimensions. In
        Zarr and HDF5, a TIFF with a georeference, or with scales, becomes a group: `band_data`, its coordinates and its
        grid mapping `spatial_ref`. Datasets of HDF5 files that cannot be read are omitted; a warning names them.
    path
        Within a Zarr target.
    chunks
        As for `penstock.copy`; also for HDF5, where the default is each array's own.
    shards, codecs, zarr_format, memory, memory_limit, scratch, resume
        For Zarr, as for `penstock.rechunk`. `memory` (or `memory_limit`) is also that of the blocks of `.npy` files,
        and `shards` the number of many files; or
    rows
        Rows of each of many files. By default files have about 64 MiB, and whole chunks.
    dry_run
        For Zarr: check all arguments and return the plan; nothing is written.
    overwrite
        Replace an existing target, after all is written.
    verify
        Read both sides and compare them; `CorruptDataError` if elements differ.
    consolidate
        For Zarr groups: also store the metadata of all nodes at the root, as `penstock.consolidate_metadata` does. The
        copy of a consolidated group always is.
    threads, progress, target_options
        As for `penstock.copy`. For one file of another format, `threads` are those of a source that is opened here,
        and of the writer.
    context
        Threads, caches and limits; None: the current one.
    storage_options
        For the source's URI, as for `open`.
    options
        For TIFF: those of `create_array` (`crs`, `transform`, `compress`, ...). For many files: of `ShardWriter`.

    Returns
    -------
    Array or Group
        The target, opened. With `dry_run` a `RechunkPlan`.

    Raises
    ------
    InvalidArgumentError
        The target exists; an option that the format does not have (of TIFFs, a TypeError).
    UnsupportedError
        The format cannot hold the source.
    CorruptDataError
        A chunk of the source cannot be decoded; with `verify`, elements differ.
    CancelledError
        `progress` returned False.

    Examples
    --------
    >>> ps.save("scene.tif", np.zeros((2, 64, 64), "u2"), crs=32633, transform=(10, 0, 5e5, 0, -10, 5e6))
    >>> list(ps.convert("scene.tif", "scene.zarr"))     # also for xarray and rioxarray
    ['band', 'band_data', 'spatial_ref', 'x', 'y']
    >>> ps.convert("scene.zarr", "again.tif", verify=True).epsg
    32633

    To and from HDF5 (NetCDF4), by h5py:

    >>> import h5py
    >>> ps.save("run.zarr", t=np.arange(6.0).reshape(2, 3))
    >>> ps.convert("run.zarr", "run.h5")["t"].format
    'hdf5'
    >>> ps.convert("run.h5", "packed.zarr", codecs="zstd")["t"].shape
    (2, 3)
    """
    name, format = _name_of(target)
    of_zarr = {"shards": shards, "codecs": codecs, "zarr_format": zarr_format}
    of_zarr |= {"memory": memory, "memory_limit": memory_limit, "scratch": scratch}
    memory = either_bytes(memory=memory, memory_limit=memory_limit)
    of_copy = {"resume": resume or None, "dry_run": dry_run or None, "consolidate": consolidate or None}
    if is_pattern(target):
        of_zarr = {"path": path or None, "chunks": chunks, **of_zarr, **of_copy}
        unused = [key for key, value in of_zarr.items() if value is not None and key != "shards"]
        if unused:
            raise InvalidArgumentError(f"many files have no option {unused[0]!r}")
        if target_options:
            raise InvalidArgumentError(f"target_options are for URIs, not for '{name}'")
        if context is None and threads is not None:
            context = Context(threads=check_count(threads, "threads"))
        if not isinstance(source, Array | Group):
            source = open(source, context=context, storage_options=storage_options)
        told = _reported(progress)
        return _write_shards(source, name, rows, shards, overwrite, verify, context, told, options)
    if rows is not None:
        raise InvalidArgumentError("rows needs many files: a target with '{}' in its name")
    if not is_one_file(target):
        if options:
            unknown = next(iter(options))
            known = (*of_zarr, *of_copy, "chunks", "overwrite", "verify", "progress")
            close = difflib.get_close_matches(unknown, known, 1)
            hint = f": did you mean {close[0]!r}?" if close else ""
            raise InvalidArgumentError(f"Zarr has no option {unknown!r}{hint}")
        if scratch is None:
            of_zarr["scratch"] = folder_of(target)
        if shards is None and isinstance(source, ShardedArray):
            of_zarr["shards"] = False  # its files must not become Zarr's shards
        if not isinstance(source, Array | Group):
            source = open(source, context=context, storage_options=storage_options)
        more: dict[str, Any] = {
            **more_options(memory, of_zarr["scratch"]),
            "verify": bool(verify),
            "overwrite": overwrite,
            "resume": resume,
            "durable": False,
            "threads": threads,
            "progress": progress,
        }
        placed = images.is_placed(source)
        if consolidate and not placed:
            check_group(source)
        if placed and resume:
            raise UnsupportedError(f"a copy of an image with its georeference cannot be resumed: '{source.uri}'")
        if placed and not dry_run:
            image = images.write_image(
                source,
                target,
                path,
                how={"chunks": chunks, "shards": shards, "codecs": codecs, "zarr_format": zarr_format},
                more=more,
                context=context,
                target_options=target_options,
            )
            return consolidated(image, context) if consolidate else image
        job = CopyJob(
            source,
            target,
            path,
            chunks,
            of_zarr["shards"],
            codecs,
            zarr_format,
            more,
            context,
            storage_options,
            target_options,
        )
        if dry_run:
            return plan_of(job)
        warn_of_place(job.source)
        job.run()
        made = job.open()
        return consolidated(made, context) if consolidate and isinstance(made, Group) else made
    ending = os.path.splitext(name)[1].lower()
    of_blocks = ("memory", "memory_limit") if format == "npy" else ()
    unused = [key for key, value in {**of_zarr, **of_copy}.items() if value is not None and key not in of_blocks]
    if path or unused or (chunks is not None and format != "hdf5"):
        raise InvalidArgumentError(f"'{ending}' files have no option {(unused or ['path' if path else 'chunks'])[0]!r}")
    if "://" in name:
        raise UnsupportedError(f"'{ending}' files are written to this machine, not to '{name}'")
    if os.path.exists(name) and not overwrite:
        raise InvalidArgumentError(f"'{name}' already exists: overwrite it")
    if target_options:
        raise InvalidArgumentError(f"target_options are for URIs, not for '{name}'")
    if context is None and threads is not None:
        context = Context(threads=check_count(threads, "threads"))
    if not isinstance(source, Array | Group):
        source = open(source, context=context, storage_options=storage_options)
    told = _reported(progress)
    if format == "hdf5":
        if options:
            raise InvalidArgumentError(f"HDF5 has no option {next(iter(options))!r}")
        of_image = None
        if images.is_placed(source):
            of_image = ImageMembers(images.NAME, images.attributes_in_group(source), images.coordinates_of(source))
        write_hdf5(source, name, chunks, verify, told, of_image)
        return open(name, context=context)
    if format == "npy" and options:
        raise InvalidArgumentError(f".npy has no option {next(iter(options))!r}")
    if isinstance(source, Group):
        found = image_in(source) if format == "tiff" else None
        if found is None:
            raise UnsupportedError(f"a '{ending}' file holds one array, '{source.uri}' is a group: choose one of it")
        source = found
    reported = None if told is None else partial(told, "")
    with context or contextlib.nullcontext():
        if format == "npy":
            save_npy(name, source, memory=memory, progress=reported)
        else:
            save(name, source, progress=reported, **options)
    made = open(name, context=context)
    if verify and isinstance(made, Array):
        _core.compare(source, made)
    return made


def _reported(progress: Any) -> Callable[[str, int, int], Any] | None:
    """The function for progress: that of the caller, or a line on stderr."""
    if progress is not True:
        return callback_of(progress, "converting")
    line = progress_display("converting")
    return lambda _, done, total: line(done, total)


def check_group(source: Array | Group) -> None:
    """Refuse `consolidate` for arrays."""
    if isinstance(source, Array):
        raise InvalidArgumentError(f"consolidate is for groups, '{source.uri}' is an array")


def consolidated(group: Group, context: Context | None) -> Group:
    """The group with the metadata of all its nodes, which is stored at its root."""
    store, inside = _core.place_of_group(group)
    return Group(_core.consolidate_metadata(store, current_context() if context is None else context, inside))


def _write_shards(
    source: Array | Group,
    pattern: str,
    rows: int | None,
    shards: Any,
    overwrite: bool,
    verify: bool,
    context: Context | None,
    told: Callable[[str, int, int], Any] | None,
    options: dict[str, Any],
) -> Array | Group:
    """Many files of one array, and their manifest, which is opened."""
    if isinstance(source, Group):
        raise UnsupportedError(f"many files hold one array, '{source.uri}' is a group: choose one of it")
    if rows is None and shards is None and source.ndim > 0:
        row_bytes = max(1, source.dtype.itemsize * math.prod(source.shape[1:]))
        whole = max(1, (source.chunks or (1,))[0])
        rows = whole * max(1, _SHARD_BYTES // (whole * row_bytes))
    writer = ShardWriter(pattern, **options)._writer
    manifest = os.path.join(os.fsdecode(writer.folder), MANIFEST)
    there = [*map(os.fsdecode, writer.left_over(0)), *([manifest] if os.path.exists(manifest) else [])]
    if there and not overwrite:
        raise InvalidArgumentError(f"'{there[0]}' already exists: overwrite it")
    with contextlib.nullcontext() if context is None else context:
        reported = None if told is None else partial(told, "")
        save_shards(source, pattern, rows=rows, shards=shards, progress=reported, **options)
    made = open(manifest, context=context)
    if verify and isinstance(made, Array):
        _core.compare(source, made)
    return made
