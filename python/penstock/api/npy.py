"""`.npy` files, and the options that they do not support."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock import _core
from penstock.api.request import unused
from penstock.core.context import Context
from penstock.core.errors import InvalidArgumentError, UnsupportedError
from penstock.shards.sharded_array import ShardedArray, sharded


def refuse_options(options: Mapping[str, Any], mmap: bool, manifest: Any, what: str) -> None:
    """Refuse options that have no effect on these files."""
    if options:
        name = next(iter(options))
        raise unused(InvalidArgumentError(f"{what} take no option {name!r}"), name)
    if mmap:
        raise UnsupportedError(f"{what} cannot be mapped: mmap=True is for .npy and raw files")
    if manifest is not None:
        raise UnsupportedError(f"{what} have no manifest of their own: they are .npy, raw, HDF5, Parquet or Arrow")


def open_npy(
    store: _core.Store,
    key: bytes,
    context: Context,
    storage_options: Mapping[str, Any] | None,
    options: Mapping[str, Any],
) -> ShardedArray:
    refuse_options(options, False, None, ".npy files")
    return sharded(_core.open_contiguous(store, context, key, None), storage_options)
