"""Inputs of less than 1 MB that are as expensive as their formats allow: a module for each format, and a program."""

from support.small_inputs import (  # registers the cases
    kerchunk_references,
    manifests,
    npy_files,
    tables,
    tiff_files,
    zarr_metadata,
    zip_archives,
)
from support.small_inputs.cases import CASES, MOST_BYTES

__all__ = [
    "CASES",
    "MOST_BYTES",
    "kerchunk_references",
    "manifests",
    "npy_files",
    "tables",
    "tiff_files",
    "zarr_metadata",
    "zip_archives",
]
