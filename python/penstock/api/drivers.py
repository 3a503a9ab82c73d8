"""The public classes of nodes that the engine found: one function for each driver, which determines how its nodes are
pickled."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from penstock import _core
from penstock.api.request import OF_ALL_FORMATS, REFERENCES, Origin, Request, unused
from penstock.core.array import Array
from penstock.core.errors import InvalidArgumentError, UnsupportedError
from penstock.core.group import Group, wrap
from penstock.core.sizes import suggestion
from penstock.geo.tiff import TiffArray
from penstock.hdf5.file import open_node
from penstock.hdf5.source import Source
from penstock.hdf5.stored import source_in_store
from penstock.references import kerchunk as _kerchunk
from penstock.references.manifest import open_manifest_bytes
from penstock.shards.sharded_array import open_saved as open_files
from penstock.shards.sharded_array import sharded
from penstock.tabular.opening import open_target as open_table
from penstock.target.file_objects import in_memory
from penstock.target.reopening import remember


def open_found(request: Request, found: _core.Found) -> Array | Group:
    """Open a found node with its driver's function."""
    driver = found.driver
    if request.options:
        _check_options(request, driver)
    given = request.storage_options
    if given and driver not in ("reference", "folder") and len(request.own_options) < len(given):
        text = f"'{found.uri}' are not references: remote_options and remote_protocol are for what references name"
        raise InvalidArgumentError(text)
    return _driver(driver)[0](request, found)


def _check_options(request: Request, driver: str) -> None:
    """Refuse an option that the driver's function does not take."""
    _, refusal, known = _driver(driver)
    unknown = [option for option in request.options if option not in known]
    if unknown and refusal is None:
        request.refuse_options()
    if unknown:
        hint = suggestion(unknown[0], (*OF_ALL_FORMATS, *known))
        raise unused(InvalidArgumentError(f"{refusal} no option {unknown[0]!r}{hint}"), unknown[0])


def open_references(request: Request) -> Array | Group:
    """Open `reference://`: the references are the storage option `fo`, a dict or another target."""
    options = dict(request.storage_options or {})
    path = "/".join(part for part in (request.target[len(REFERENCES) :].strip("/"), request.path) if part)
    remote: dict[str, Any] = {
        name: options.pop(name) for name in ("remote_options", "remote_protocol") if name in options
    }
    fo, own = options.pop("fo", None), options.pop("target_options", None)
    if fo is None:
        raise InvalidArgumentError("reference:// needs storage_options={'fo': file or dict}")
    _check_options(request, "reference")
    missing, allow_local = _of_references(request)
    again = (REFERENCES, dict(request.storage_options or {}))
    if _is_reference_mapper(fo):
        fo = fo.fs.get_mapper(fo.root)  # the folder of Parquet files, with the file system's options
    elif isinstance(fo, Mapping):
        return _kerchunk.open_dict(
            fo, path, request.context, missing, allow_local, remote.get("remote_options"), remote.get("remote_protocol")
        )
    inner = replace(request, target=fo, path=path, storage_options={**(own or {}), **remote})
    found = inner.find()
    if found.driver == "reference":
        return _references(inner, found, again)
    return open_found(inner, found)


def _is_reference_mapper(fo: Any) -> bool:
    kind = f"{type(fo).__module__}.{type(fo).__qualname__}"
    return kind == "fsspec.implementations.reference.LazyReferenceMapper"


def open_by_name(request: Request) -> Array | Group | None:
    """Open a remote file that was not recognised as HDF5, if its name has such an ending: the error gives the
    reason."""
    target = request.target
    if not isinstance(target, str) or not _core.is_elsewhere(os.fsencode(target)):
        return None
    if _core.shard_format_by_name(os.fsencode(target.partition("?")[0])) != "hdf5":
        return None
    return open_node(Source.of(target, request.context, request.storage_options), request.path)


def _tiff(request: Request, found: _core.Found) -> Array | Group:
    if found.inner:
        return wrap(found.open())
    options = request.image.for_engine()
    made = TiffArray(found.open_tiff(options))
    if options is not None:
        made._options = options
    if not request.is_path:
        remember(made, request.target, request.path, request.storage_options)
    return made


def _folder(request: Request, found: _core.Found) -> Array | Group:
    if Origin.of(request, found).is_file:
        request.refuse_storage_options()
    node = wrap(found.open())
    remember(node, request.target, request.path, request.storage_options)
    return node


def _npy(request: Request, found: _core.Found) -> Array | Group:
    if Origin.of(request, found).is_file:
        request.refuse_storage_options()
    made = found.open()
    assert isinstance(made, _core.Array)
    return sharded(made, request.storage_options)


def _netcdf(request: Request, found: _core.Found) -> Array | Group:
    dataset = request.options.get("dataset")
    if dataset is not None:
        if found.inner:
            path = os.fsdecode(found.inner)
            text = f"path={path!r} and dataset={dataset!r} both name a variable: give one of them"
            raise InvalidArgumentError(text)
        found = found.within(os.fsencode(dataset.strip("/")))
    if Origin.of(request, found).is_file:
        request.refuse_storage_options()
    return wrap(found.open())


def _hdf5(request: Request, found: _core.Found) -> Array | Group:
    dataset = request.options.get("dataset")
    inner = os.fsdecode(found.inner)
    if dataset or inner.startswith("/") or inner.endswith("/"):
        inner = "/".join(part for part in (inner, dataset or "") if part).strip("/")
        found = found.within(os.fsencode(inner))
    origin = Origin.of(request, found)
    if in_memory(request.target):
        source = Source.of(request.target, request.context, None)
    elif origin.name is not None and origin.is_file:
        source = Source.of_file(origin.name, request.context)
    elif origin.name is not None:
        source = Source.of(origin.name, request.context, request.storage_options)
    else:
        source, is_same = source_in_store(request.target, found, request.context)
        node = open_node(source, inner, found=found if is_same else None)
        return _checked(node, dataset, source)
    is_same = origin.is_file or source.is_reached_by_engine
    if is_same:
        source.use(found)
    return _checked(open_node(source, inner, found=found if is_same else None), dataset, source)


def _checked(node: Array | Group, dataset: str | None, source: Source) -> Array | Group:
    if dataset is not None and not isinstance(node, Array):
        raise InvalidArgumentError(f"'{dataset}' is a group of the file, not a dataset", f"in '{source.uri}'")
    return node


def _of_references(request: Request) -> tuple[str, bool | None]:
    missing = request.options.get("missing", "error")
    if missing not in ("error", "fill"):
        raise InvalidArgumentError(f"missing must be 'error' or 'fill', got {missing!r}")
    return missing, request.options.get("allow_local")


def _manifest(request: Request, found: _core.Found) -> Array | Group:
    """A manifest of `.npy` or raw files, or of references."""
    missing, allow_local = _of_references(request)
    if in_memory(request.target):
        raise UnsupportedError("a manifest is not opened from bytes: open it by its path")
    name, inner = Origin.of(request, found).name, os.fsdecode(found.inner)
    if name is None:
        return wrap(found.open())
    made: Array | Group
    if found.driver == "manifest":
        options = request.storage_options
        made = open_files(found.content(), name, request.context, options, missing, allow_local=allow_local)
    else:
        made = open_manifest_bytes(
            found.content(), name, request.context, missing, request.storage_options, allow_local
        )
    if not inner:
        return made
    if isinstance(made, Array):
        raise InvalidArgumentError(f"the manifest is one array, it has no path '{inner}'", f"opening '{name}'")
    return made[inner]


def _references(
    request: Request, found: _core.Found, again: tuple[str, Mapping[str, Any]] | None = None
) -> Array | Group:
    """Kerchunk's references. `again`: the target and storage options by which another process opens them."""
    missing, allow_local = _of_references(request)
    if in_memory(request.target):
        text = "references are not opened from bytes: use 'reference://' with storage_options={'fo': json.loads(...)}"
        raise UnsupportedError(text)
    origin = Origin.of(request, found)
    if again is None and origin.name is not None:
        again = origin.name, dict(request.storage_options or {})
    return _kerchunk.open_found(
        found, origin.name, again, request.context, request.storage_options, missing, allow_local
    )


def _table(request: Request, found: _core.Found) -> Array | Group:
    inner, origin = os.fsdecode(found.inner), Origin.of(request, found)
    if origin.name is None or in_memory(request.target):
        return open_table(found.content(), inner, request.context, None, **request.options)
    options = None if origin.is_file else request.storage_options
    return open_table(origin.name, inner, request.context, options, **request.options)


_Opener = Callable[[Request, _core.Found], Array | Group]
_OF_HDF5, _OF_REFERENCES = frozenset({"dataset"}), frozenset({"missing", "allow_local"})
# The function of each driver, how errors refuse other options, and the options of its own.
_DRIVERS: dict[str, tuple[_Opener, str | None, frozenset[str]]] = {
    "tiff": (_tiff, None, frozenset()),
    "folder": (_folder, None, frozenset()),
    "npy": (_npy, ".npy files take", frozenset()),
    "netcdf": (_netcdf, "NetCDF files have", _OF_HDF5),
    "hdf5": (_hdf5, "HDF5 files have", _OF_HDF5),
    "manifest": (_manifest, "manifests take", _OF_REFERENCES),
    "references": (_manifest, "manifests take", _OF_REFERENCES),
    "reference": (_references, "references have", _OF_REFERENCES),
    "table": (_table, "Parquet or Arrow files have", frozenset({"columns", "nulls", "dtype"})),
}


def _driver(name: str) -> tuple[_Opener, str | None, frozenset[str]]:
    """The row of a driver. A driver that was added to a context opens its nodes through the engine."""
    return _DRIVERS.get(name) or (lambda request, found: wrap(found.open()), None, frozenset())
