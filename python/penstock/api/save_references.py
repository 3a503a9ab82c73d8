"""`save_references`: the references of a group in other libraries' forms."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from typing import Any

from penstock import _core
from penstock.core.errors import InvalidArgumentError
from penstock.core.group import Group
from penstock.references.icechunk import is_icechunk, save_in_icechunk
from penstock.references.parquet import parquet_files
from penstock.shards.names import write_named
from penstock.target.local import local_path

_FORMATS = (None, "json", "parquet")


def save_references(
    group: Group,
    path: Any,
    *,
    format: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> None:
    """Save the locations of a group's chunks, so that other libraries can open it: fsspec, xarray, Icechunk.

    Arrays with codecs or lists that numcodecs does not have, and datasets of HDF5 that are not readable, are omitted; a
    warning names them.

    Parameters
    ----------
    group
        From `open_virtual`, from an HDF5 file, or of references.
    path
        A path or a URI that can be written to: a file of kerchunk's JSON, or a folder of Parquet files if the name ends
        with ".parq" or ".parquet" (this needs pyarrow). Or a writable session of Icechunk, or its store: the group
        becomes virtual chunks of it; `session.commit()` keeps them. Local files are named by their full paths.
    format
        "json" or "parquet"; None: by the name's ending.
    storage_options
        As for `penstock.open`.

    Raises
    ------
    UnsupportedError
        Such references cannot express an array, which is named: it has chunks of unequal lengths along a dimension,
        chunks with codecs of their own, or files in memory. No array remains that they can express. `save_manifest`
        supports all arrays except those of files in memory. More than 10^7 references in JSON.
    InvalidArgumentError
        `group` is an array, or a member is not an array of references.
    ConflictError
        A local file changed since it was opened.

    Examples
    --------
    For programs that read kerchunk's references:

    >>> import h5py, json, pathlib
    >>> with h5py.File("run.nc", "w") as file:
    ...     _ = file.create_dataset("t", data=np.arange(6.0).reshape(2, 3), chunks=(1, 3))
    >>> ps.save_references(ps.open("run.nc"), "run.json")
    >>> sorted(json.loads(pathlib.Path("run.json").read_text())["refs"])
    ['.zattrs', '.zgroup', 't/.zarray', 't/.zattrs', 't/0.0', 't/1.0']
    >>> ps.open("run.json")["t"][1]
    array([3., 4., 5.])
    """
    if format not in _FORMATS:
        raise InvalidArgumentError(f"format must be 'json', 'parquet' or None, got {format!r}")
    if not isinstance(group, Group):
        raise InvalidArgumentError(f"save_references saves a group, got {type(group).__name__}: open the group of it")
    if is_icechunk(path):
        return save_in_icechunk(group, path)
    name = local_path(os.fspath(path)).rstrip("/")
    if format == "json" or (format is None and not _core.names_references(os.fsencode(name))):
        text, omitted = _core.kerchunk_json(group)
        write_named(name, [text], storage_options)
        return _warn_of(group, omitted)

    def put(file: str, data: bytes) -> None:
        target = f"{name}/{file}"
        if "://" not in target:
            os.makedirs(os.path.dirname(target), exist_ok=True)
        write_named(target, [data], storage_options)

    _warn_of(group, parquet_files(group, put))


def _warn_of(group: Group, omitted: list[tuple[str, str]]) -> None:
    if omitted:
        named = "; ".join(f"'{path}' ({why})" for path, why in omitted)
        warnings.warn(f"not exported from '{group.uri}': {named}", stacklevel=3)
