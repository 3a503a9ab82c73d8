"""Datasets of many HDF5 files, or many datasets of one, as one array."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from penstock import _core
from penstock.core.array import Array
from penstock.core.context import Context
from penstock.core.errors import UnsupportedError
from penstock.hdf5.file import storage_of, typed_of, wrapped
from penstock.hdf5.source import Source
from penstock.references.objects import Described, Joined, Object
from penstock.shards.files import side_by_side
from penstock.shards.readers import join_arrays
from penstock.shards.saved import JoinedReferences
from penstock.shards.stamps import Stamps
from penstock.target.remote import to_reopen

_NONE = np.zeros(0, np.uint64)  # the engine has the edges


class JoinedDatasets(JoinedReferences):
    """Datasets that one table of references describes."""

    _find_stamps = Stamps(None)

    @property
    def typed_attributes(self) -> dict[str, Any]:
        """The attributes of the first dataset with the types of the file (NumPy scalars and arrays)."""
        return typed_of(self)

    @property
    def storage(self) -> dict[str, Any]:
        """How the first dataset is stored."""
        return storage_of(self)

    def _stamps(self) -> Stamps:
        return self._find_stamps


def open_datasets(
    files: Sequence[str],
    dataset: str | None,
    axis: int,
    allow_gaps: bool,
    context: Context,
    storage_options: Mapping[str, Any] | None,
    checksums: Mapping[str, int] | None = None,
) -> Array:
    """The datasets with these names, in the order of the files, and within a file in the order of the numbers in their
    names.

    Parameters
    ----------
    dataset
        A path, or a pattern ("shard_*"), which may match many in each file; None: the only one of the first file.
    checksums
        Checksums of files by their paths, for the manifest.
    """
    sources = [Source.of(path, context, storage_options) for path in files]
    name = os.fsencode((dataset or "").strip("/"))
    while True:
        places = [(*place, (checksums or {}).get(path)) for path, place in zip(files, _places(sources), strict=True)]
        needs_ranges = any(source.uri.startswith(("http:", "https:")) for source in sources)
        try:
            merged, parts, name, along, lengths = _core.open_hdf5_datasets(
                context, places, name, axis, allow_gaps, needs_ranges
            )
            break
        except UnsupportedError:
            in_memory = [source for source in sources if source.without_ranges()]
            if not in_memory:
                raise
    if merged is None:
        arrays = [wrapped(made, sources[which], os.fsdecode(path)) for which, path, made in parts]
        return join_arrays(arrays, along, context)
    shards = {
        "kind": "hdf5",
        "files": list(files),
        "dataset": dataset or os.fsdecode(name),
        "only": not dataset,
        "axis": along,
        "lengths": lengths,
    }
    objects = [
        Object(source.uri, storage_options=to_reopen(source.uri, storage_options))
        for source in sources
        if source.is_remote
    ]
    described = Described({}, b"", objects, merged.format, merged.uri, joined=Joined(along, _NONE, _NONE, shards))
    made = JoinedDatasets.of(merged, described)
    opened = {url: stamp for source in sources for url, stamp in source.stamps.items()}
    made._find_stamps = Stamps(storage_options, opened)
    return made


def _places(sources: list[Source]) -> list[tuple[_core.Store, bytes, int | None]]:
    """The store, the key and the known size of each file. Files that fsspec finds are looked up in parallel."""
    folders: dict[str, _core.Store] = {}
    if any(source.is_remote for source in sources):
        return side_by_side(Source.place, sources)
    return [source.place(folders) for source in sources]
