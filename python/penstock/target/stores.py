"""The objects that `open` accepts as a store."""

from __future__ import annotations

import importlib
import inspect
import os
from collections.abc import Mapping
from typing import Any

from penstock import _core
from penstock.core.context import Context, current_context
from penstock.core.errors import UnsupportedError
from penstock.target import remote as _remote
from penstock.target.adapters.fsspec import FsspecAdapter
from penstock.target.adapters.icechunk import IcechunkAdapter
from penstock.target.adapters.objects import AsyncObjectAdapter, ObjectAdapter
from penstock.target.adapters.obstore import ObstoreAdapter
from penstock.target.adapters.pinned import PinnedFsspecAdapter, stamp_of
from penstock.target.adapters.zarr import ZarrAdapter, ZarrSyncAdapter
from penstock.target.options import unknown_option


def _is_zarr_store(target: Any) -> bool:
    return any(base.__module__ == "zarr.abc.store" and base.__name__ == "Store" for base in type(target).__mro__)


def _name_of(store: Any) -> str:
    """The store's own name, on one line, because each note of an error is one line."""
    return ", ".join(line.strip() for line in str(store).splitlines())


def store_of(target: Any, context: Context | None = None) -> _core.Store | None:
    """`target` as a store, or None if it is not one. `context`: for its reads (None: the current one)."""
    if type(target) is _core.Store:
        return target
    if isinstance(target, dict):
        return _core.dict_store(target)
    kind = type(target)
    name = f"{kind.__module__}.{kind.__qualname__}"
    label = f"{kind.__name__}:"
    if _is_zarr_store(target):
        if name == "zarr.storage._local.LocalStore":
            sync = (context or current_context())._sync_of_zarr
            return obeyed(_core.file_store(os.fsencode(target.root), sync), target.read_only)
        if name == "zarr.storage._memory.MemoryStore" and isinstance(target._store_dict, dict):
            from zarr.core.buffer import cpu

            return _core.dict_store(target._store_dict, cpu.Buffer.from_bytes, not target.read_only)
        if name == "zarr.storage._zip.ZipStore" and target.read_only and target.path is not None:
            return obeyed(_core.zip_store(os.fsencode(target.path.absolute()), context or current_context()), True)
        if name == "zarr.storage._obstore.ObjectStore":
            return _core.object_store(ObstoreAdapter(target.store, not target.read_only), _name_of(target), True)
        if _supports_sync(target):
            return _core.object_store(ZarrSyncAdapter(target), _name_of(target), False)
        adapter = IcechunkAdapter if name.startswith("icechunk.") else ZarrAdapter
        return _core.object_store(adapter(target), _name_of(target), True)
    if kind.__module__.split(".")[0] == "obstore":
        prefix = getattr(target, "prefix", None)
        if kind.__name__ == "LocalStore" and prefix is not None:
            return _core.file_store(os.fsencode(prefix), (context or current_context()).sync)
        return _core.object_store(ObstoreAdapter(target), label, True)
    if kind.__module__.split(".")[0] == "fsspec" and hasattr(target, "fs") and hasattr(target, "root"):
        return obeyed(fsspec_store(target.fs, target.root, context), getattr(target, "read_only", False))
    if callable(getattr(target, "get_sync", None)):
        return _core.object_store(ObjectAdapter(target), label, False)
    get = getattr(target, "get", None)
    if not callable(get) or isinstance(target, _core.Group):
        return None
    if inspect.iscoroutinefunction(get):
        return _core.object_store(AsyncObjectAdapter(target), label, True)
    return _core.object_store(ObjectAdapter(target), label, False)


def obeyed(store: _core.Store, read_only: bool) -> _core.Store:
    """The store, which refuses writes if the original object does."""
    return _core.read_only_store(store) if read_only else store


def _supports_sync(store: Any) -> bool:
    try:
        from zarr.abc import store as stores
    except ImportError:
        return False
    supports = getattr(stores, "_store_supports_sync_io", None)  # from zarr-python 3.4 on
    return supports is not None and bool(supports(store))


def fsspec_store(fs: Any, root: str, context: Context | None = None) -> _core.Store:
    """The store of a folder of an fsspec file system. `context`: of its writes (None: the current one)."""
    name = f"{type(fs).__module__}.{type(fs).__qualname__}"
    if name == "fsspec.implementations.local.LocalFileSystem":
        sync = (context or current_context()).sync
        return obeyed(_core.file_store(os.fsencode(fs._strip_protocol(root)), sync), getattr(fs, "read_only", False))
    adapter = FsspecAdapter(fs, fs._strip_protocol(root))
    return _core.object_store(adapter, fs.unstrip_protocol(adapter.root or "/"), adapter.is_asynchronous)


def fsspec_file(fs: Any, path: str, context: Context | None = None) -> tuple[_core.Store, bytes]:
    """The folder that a path of an fsspec file system is in, as a store, and its name there."""
    folder, _, name = path.rstrip("/").rpartition("/")
    return fsspec_store(fs, folder, context), os.fsencode(name)


def remote_stamp(fs: Any, path: str) -> str | None:
    """The size of an fsspec file, and the identification of its version; None if neither is known."""
    try:
        info = fs.info(path)
    except FileNotFoundError:
        return "gone"
    except Exception:  # some servers do not support that request
        return None
    return stamp_of(info)


def pinned_store(fs: Any, path: str, stamp: str | None) -> _core.Store:
    """The store of a folder of an fsspec file system, for reads of `path` only, in the version of this stamp."""
    if stamp is None or stamp == "gone" or not hasattr(fs, "invalidate_cache"):
        return fsspec_store(fs, path.rpartition("/")[0])
    root, _, name = fs._strip_protocol(path).rpartition("/")
    adapter = PinnedFsspecAdapter(fs, root, {name: stamp})
    return _core.object_store(adapter, fs.unstrip_protocol(adapter.root or "/"), adapter.is_asynchronous)


def place_of_others(
    uri: str,
    storage_options: Mapping[str, Any] | None,
    reason: str = "",
    is_folder: bool = False,
    context: Context | None = None,
) -> tuple[_core.Store, bytes]:
    """The store and path of a URI that fsspec or obstore has to open, in this order, as in zarr-python and xarray.

    If it may be a file, the store is that of its folder. `storage_options` are those of the library. `reason` is why
    the engine does not serve it. Chains (`simplecache::https://...`, `zip://x::s3://...`) are fsspec's.
    """
    scheme, _, rest = uri.partition("://")
    options = dict(storage_options or {})
    reasons = [reason] if reason else []
    try:
        core = importlib.import_module("fsspec.core")
    except ImportError:
        reasons.append("fsspec is not installed")
    else:
        try:
            fs, path = core.url_to_fs(uri, **options)
            return (fsspec_store(fs, path, context), b"") if is_folder else fsspec_file(fs, path, context)
        except TypeError as error:
            kind = core.get_filesystem_class(scheme.partition("::")[0])
            raise unknown_option(error, scheme, kind, options) or error from None
        except (ImportError, ValueError) as error:  # the scheme does not exist, or a package for it is missing
            reasons.append(f"fsspec: {error}")
    try:
        from obstore.store import from_url
    except ImportError:
        reasons.append("obstore is not installed")
    else:
        try:
            folder, name = uri, ""
            if not is_folder and rest.rstrip("/").count("/") > 1:  # an account and a container may precede it
                folder, _, name = uri.rstrip("/").rpartition("/")
            opened = ObstoreAdapter(from_url(folder, **_remote.for_obstore(uri, options)))
            return _core.object_store(opened, folder, True), os.fsencode(name)
        except Exception as error:
            reasons.append(f"obstore: {error}".partition("\n")[0])
    message = f"no store for '{scheme}:': '{uri}' ({'; '.join(reasons)}); fsspec or obstore would serve it"
    raise UnsupportedError(message)
