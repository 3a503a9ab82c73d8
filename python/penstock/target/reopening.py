"""What another process needs to open an array or a group again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.core.array import Array
from penstock.core.group import Group
from penstock.core.registry import OpenedFrom
from penstock.target import remote as _remote


def remember(node: Array | Group, target: Any, path: str, storage_options: Mapping[str, Any] | None) -> None:
    """Give a node that was opened or created at `path` of `target` what its pickle contains."""
    node._storage_options = _remote.to_reopen_here(target, storage_options)
    if node._storage_options is not None or node.uri.startswith(("file:", "zip:")):
        return
    place = getattr(target, "store_path", target)  # of zarr-python's arrays and groups
    if hasattr(place, "store") and isinstance(getattr(place, "path", None), str):
        target, path = place.store, "/".join(part for part in (place.path, path) if part)
    if _opens_again(target):
        node._opened_from = OpenedFrom(target, path, dict(storage_options or {}) or None, node.uri)


def _opens_again(target: Any) -> bool:
    """Whether a pickle of the target refers to the same objects: remote URIs, and stores of fsspec and obstore."""
    if isinstance(target, str):
        return _remote.to_reopen(target, None) is not None and not target.startswith("memory:")
    store = getattr(target, "store", target)  # zarr-python's ObjectStore has one of obstore
    if type(store).__module__.startswith("obstore"):
        return type(store).__name__ in ("S3Store", "GCSStore", "AzureStore", "HTTPStore")
    fs = getattr(store, "fs", None)
    return callable(getattr(fs, "cat_file", None)) and not is_in_memory(fs)


def is_in_memory(fs: Any) -> bool:
    """Whether the files of an fsspec file system are in the memory of this process."""
    while fs is not None:
        protocol = getattr(fs, "protocol", ())
        if "memory" in ({protocol} if isinstance(protocol, str) else set(protocol)):
            return True
        fs = getattr(fs, "fs", None)
    return False
