"""`.npy` files, members of `.npz` files, and manifests of such files."""

from __future__ import annotations

import builtins
import os
from collections.abc import Mapping
from typing import Any

from penstock import _core
from penstock.core.context import Context
from penstock.core.errors import InvalidArgumentError, NotFoundError, UnsupportedError, system_errors
from penstock.shards.sharded_array import ShardedArray, open_manifest, sharded
from penstock.target.local import local_path
from penstock.target.place import file_place, place_of
from penstock.target.sniff import NPY_MAGIC


def refuse_options(options: Mapping[str, Any], mmap: bool, manifest: Any, what: str) -> None:
    """Options that would do nothing."""
    if options:
        raise InvalidArgumentError(f"{what} take no option {next(iter(options))!r}")
    if mmap:
        raise UnsupportedError(f"{what} cannot be mapped: mmap=True is for .npy and raw files")
    if manifest is not None:
        raise UnsupportedError(f"{what} have no manifest of their own: they are .npy, raw, HDF5, Parquet or Arrow")


def open_single(
    target: Any,
    path: str,
    context: Context,
    storage_options: Mapping[str, Any] | None,
    options: Mapping[str, Any],
) -> ShardedArray | None:
    """A `.npy` file, a member of an `.npz` file, or a manifest; None where `target` is something else."""
    if isinstance(target, os.PathLike):
        target = os.fsdecode(target)
    if isinstance(target, bytes | bytearray | memoryview):
        data = bytes(target) if not path and bytes(memoryview(target)[:6]) == NPY_MAGIC else None
        return None if data is None else open_npy(_core.dict_store({"bytes": data}), b"bytes", context, None, options)
    name = path or target
    if not isinstance(name, str) or (not isinstance(target, str) and not path.endswith(".npy")):
        return None
    if not isinstance(target, str):
        return open_npy(*place_of(target, path, storage_options, context), context, storage_options, options)
    target = local_path(target)
    if target.endswith(".npz") and "://" not in target and not os.path.isdir(target):
        return _open_member(target, path, context, options)
    if path:
        if not path.endswith(".npy"):
            return None
        return open_npy(*place_of(target, path, storage_options, context), context, storage_options, options)
    if "://" in target:
        if not target.endswith(".npy"):
            return None
    else:
        if not os.path.isfile(target):
            return None
        with system_errors(f"opening '{target}'"), builtins.open(target, "rb") as file:
            begin = file.read(64)
        if not target.endswith(".npy") or _core.is_manifest(begin):
            return open_begun(target, begin, context, storage_options, options)
    return _open_npy_file(target, context, storage_options, options)


def open_begun(
    target: str,
    begin: bytes,
    context: Context,
    storage_options: Mapping[str, Any] | None,
    options: Mapping[str, Any],
) -> ShardedArray | None:
    """The file or object that begins so, where it is a `.npy` file or a manifest of files."""
    if _core.is_manifest(begin):
        known = dict(options)
        missing, allow_local = known.pop("missing", "error"), known.pop("allow_local", None)
        refuse_options(known, False, None, "manifests")
        return open_manifest(
            target, context=context, storage_options=storage_options, missing=missing, allow_local=allow_local
        )
    if not begin.startswith(NPY_MAGIC):
        return None
    return _open_npy_file(target, context, storage_options, options)


def _open_npy_file(
    target: str, context: Context, storage_options: Mapping[str, Any] | None, options: Mapping[str, Any]
) -> ShardedArray:
    store, key = file_place(target if "://" in target else os.path.abspath(target), storage_options)
    return open_npy(store, os.fsencode(key), context, storage_options, options)


def open_npy(
    store: _core.Store,
    key: bytes,
    context: Context,
    storage_options: Mapping[str, Any] | None,
    options: Mapping[str, Any],
) -> ShardedArray:
    refuse_options(options, False, None, ".npy files")
    return sharded(_core.open_contiguous(store, context, key, None), storage_options)


def _open_member(archive: str, name: str, context: Context, options: Mapping[str, Any]) -> ShardedArray:
    store = _core.zip_store(os.fsencode(os.path.abspath(archive)), context)
    members = [key for key in store.list("", False) if key.endswith(".npy")]
    if not name:
        if len(members) != 1:
            if not members:
                raise NotFoundError(f"'{archive}' holds no arrays")
            names = ", ".join(repr(each.removesuffix(".npy")) for each in members[:20])
            raise InvalidArgumentError(f"'{archive}' holds {len(members)} arrays: give path= one of {names}")
        name = members[0]
    key = name if name in members else f"{name}.npy"
    return open_npy(store, os.fsencode(key), context, None, options)
