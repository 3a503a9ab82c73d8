"""The description of the machine in a result file: the processor, its cores, the software, but not the host's name."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import subprocess
from pathlib import Path

from penstock.view.demo import benchmark_array, processor

ROOT = Path(__file__).resolve().parents[2]
PEERS = ("zarr", "numcodecs", "tensorstore", "zarrs", "rasterio", "tifffile", "async-tiff", "h5py", "pyarrow")
PACKAGES = ("penstock", "numpy", *PEERS)


def describe() -> dict:
    return {
        "processor": processor(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "available_memory_bytes": benchmark_array.available_memory(),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "packages": {name: version(name) for name in PACKAGES},
    }


def version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def slug() -> str:
    """The machine as part of a file's name: `amd-epyc-2-cores`."""
    return re.sub(r"[^a-z0-9]+", "-", processor().lower()).strip("-")


def commit() -> str:
    """The commit that was measured, with `+` if the working tree differs from it.

    PENSTOCK_COMMIT names that of a copy of the files without their repository.
    """
    if given := os.environ.get("PENSTOCK_COMMIT"):
        return given
    try:
        described = subprocess.run(
            ["git", "describe", "--always", "--dirty=+", "--exclude=*"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return "uncommitted"
    return described.stdout.strip()
