"""`save_references`: what a group of references has, for other libraries."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from penstock import _core
from penstock.core.group import Group
from penstock.shards.names import write_named
from penstock.target.local import local_path


def save_references(
    group: Group, path: str | os.PathLike[str], *, storage_options: Mapping[str, Any] | None = None
) -> None:
    """Save where the chunks of a group of references are as kerchunk's JSON, which fsspec, xarray and others open.

    Args:
        group: Of `open_virtual`, of a local HDF5 file, or of references.
        path: A path or a URI that can be written to. Files of this machine are named by their whole paths.
        storage_options: As of `penstock.open`.

    Raises:
        UnsupportedError: What such references cannot say, by array: chunks of unequal lengths along a dimension, chunks
            with codecs of their own, codecs that numcodecs does not have. `save_manifest` keeps all of these.
        InvalidArgumentError: A member is not an array of references.
    """
    write_named(local_path(os.fspath(path)), [_core.kerchunk_json(group)], storage_options)
