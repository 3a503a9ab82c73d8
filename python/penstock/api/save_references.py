"""`save_references`: what a group of references has, for other libraries."""

from __future__ import annotations

import os
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

    Parameters
    ----------
    group
        Of `open_virtual`, of an HDF5 file, or of references.
    path
        A path or a URI that can be written to: a file of kerchunk's JSON, or a folder of Parquet files where the
        name ends with ".parq" or ".parquet" (this needs pyarrow). Or a writable session of Icechunk, or its store:
        the group becomes virtual chunks of it; `session.commit()` keeps them. Files of this machine are named by
        their whole paths.
    format
        "json" or "parquet"; None: as the name says.
    storage_options
        As of `penstock.open`.

    Raises
    ------
    UnsupportedError
        What such references cannot say, by array: chunks of unequal lengths along a dimension, chunks
        with codecs of their own, codecs that numcodecs does not have, files in memory. `save_manifest` keeps all
        of these but the last. More than 10^7 references in JSON.
    InvalidArgumentError
        A member is not an array of references.
    """
    if format not in _FORMATS:
        raise InvalidArgumentError(f"format is 'json', 'parquet' or None, it is {format!r}")
    if is_icechunk(path):
        return save_in_icechunk(group, path)
    name = local_path(os.fspath(path)).rstrip("/")
    if format == "json" or (format is None and not _core.names_references(os.fsencode(name))):
        return write_named(name, [_core.kerchunk_json(group)], storage_options)

    def put(file: str, data: bytes) -> None:
        target = f"{name}/{file}"
        if "://" not in target:
            os.makedirs(os.path.dirname(target), exist_ok=True)
        write_named(target, [data], storage_options)

    parquet_files(group, put)
