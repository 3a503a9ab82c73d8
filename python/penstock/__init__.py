"""Reads and writes chunked N-dimensional arrays; reads are as fast as the decompressor.

Examples
--------
>>> import numpy as np
>>> import penstock as ps
>>> ps.save("data.zarr", np.arange(600.0).reshape(30, 20))
>>> a = ps.open("data.zarr")      # an Array or a Group
>>> a[10:12, ::8]                 # a numpy.ndarray
array([[200., 208., 216.],
       [220., 228., 236.]])
>>> print(a.plan())               # what a read would fetch and decode
plan for 'file:///...data.zarr': 1 of 1 cell
0 index reads, 1 request, ...
  decode chunk (0, 0) from all, direct
"""

import importlib
from typing import TYPE_CHECKING, Any

from penstock._core import __version__
from penstock.api.convert import convert
from penstock.api.copy import copy
from penstock.api.create import create_array
from penstock.api.groups import consolidate_metadata, create_group, open_group
from penstock.api.levels import LevelAppender, create_levels
from penstock.api.load_tiles import load_tiles
from penstock.api.one_chunk import decode, encode
from penstock.api.open import open, open_array
from penstock.api.rechunk import RechunkPlan, RechunkStep, rechunk
from penstock.api.save import load, save
from penstock.api.save_references import save_references
from penstock.api.shard_writer import ShardWriter, save_shards
from penstock.api.shards import open_shards
from penstock.api.virtual import open_virtual
from penstock.core.appender import Appender
from penstock.core.array import Array
from penstock.core.batches import batches
from penstock.core.context import Context, current_context
from penstock.core.errors import (
    CancelledError,
    ConflictError,
    CorruptDataError,
    DeadlineExceededError,
    Error,
    ExportError,
    InternalError,
    InvalidArgumentError,
    NotFoundError,
    OutOfRangeError,
    OutputError,
    PermissionDeniedError,
    ReadOnlyError,
    ResourceExhaustedError,
    StorageError,
    UnsupportedError,
)
from penstock.core.group import Group
from penstock.core.indexing import block_index as blocks
from penstock.core.indexing import oindex, vindex
from penstock.core.job import Job
from penstock.core.loader import Loader, loader
from penstock.core.plan import Plan
from penstock.core.stream import stream
from penstock.core.tensor import Tensor
from penstock.core.tile_stream import Stream, Tile
from penstock.core.tiles import tiles
from penstock.geo.tiff import TiffArray
from penstock.geo.unpacked import UnpackedArray
from penstock.geo.window import read_window
from penstock.geo.writing import TiffWriter
from penstock.references.manifest import save_manifest
from penstock.target.store import Store
from penstock.view import arrays as _arrays  # noqa: F401  registers the functions that make reprs
from penstock.view import groups as _groups  # noqa: F401
from penstock.view.profile import Profile, profile
from penstock.view.versions import show_versions

if TYPE_CHECKING:
    from penstock import dask as dask
    from penstock import jax as jax
    from penstock import legate as legate
    from penstock import mpi as mpi
    from penstock import testing as testing
    from penstock import torch as torch
    from penstock import xarray as xarray
    from penstock import zarr as zarr

# Loaded at first use: each needs a package of its own.
_MODULES = frozenset({"dask", "jax", "legate", "mpi", "testing", "torch", "xarray", "zarr"})


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"penstock.{name}")
    raise AttributeError(f"module 'penstock' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, *_MODULES, *(name for name in globals() if name.startswith("__"))})


__all__ = [
    "Appender",
    "Array",
    "CancelledError",
    "ConflictError",
    "Context",
    "CorruptDataError",
    "DeadlineExceededError",
    "Error",
    "ExportError",
    "Group",
    "InternalError",
    "InvalidArgumentError",
    "Job",
    "LevelAppender",
    "Loader",
    "NotFoundError",
    "OutOfRangeError",
    "OutputError",
    "PermissionDeniedError",
    "Plan",
    "Profile",
    "ReadOnlyError",
    "RechunkPlan",
    "RechunkStep",
    "ResourceExhaustedError",
    "ShardWriter",
    "StorageError",
    "Store",
    "Stream",
    "Tensor",
    "TiffArray",
    "TiffWriter",
    "Tile",
    "UnpackedArray",
    "UnsupportedError",
    "__version__",
    "batches",
    "blocks",
    "consolidate_metadata",
    "convert",
    "copy",
    "create_array",
    "create_group",
    "create_levels",
    "current_context",
    "decode",
    "encode",
    "load",
    "load_tiles",
    "loader",
    "oindex",
    "open",
    "open_array",
    "open_group",
    "open_shards",
    "open_virtual",
    "profile",
    "read_window",
    "rechunk",
    "save",
    "save_manifest",
    "save_references",
    "save_shards",
    "show_versions",
    "stream",
    "tiles",
    "vindex",
]
