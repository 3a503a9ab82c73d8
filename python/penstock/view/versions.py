"""Versions and limits of this process, for reports of defects."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import resource
from pathlib import Path
from typing import Any, TextIO

from penstock import _core
from penstock.core.context import Context

PACKAGES = (
    *("numpy", "zarr", "numcodecs", "xarray", "dask", "h5py", "h5netcdf", "netCDF4", "pyarrow", "fsspec", "s3fs"),
    *("obstore", "tensorstore", "rasterio", "rioxarray", "pyproj", "ml_dtypes", "torch", "jax", "cupy", "mpi4py"),
)
_CGROUP = Path("/sys/fs/cgroup")


def show_versions(file: TextIO | None = None, *, as_json: bool = False) -> None:
    """Print the versions of Penstock, Python and the packages that it works with, and the limits of this process.

    Parameters
    ----------
    file
        The file to write to; by default standard output.
    as_json
        One JSON document.
    """
    found = {"versions": versions(), "limits": limits()}
    print(json.dumps(found, indent=2) if as_json else as_text(found), file=file)


def versions() -> dict[str, str | None]:
    """Versions of Penstock, Python, the system and packages; None: not installed."""
    made: dict[str, str | None] = {
        "penstock": _core.__version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "libc": " ".join(platform.libc_ver()),
    }
    for name in PACKAGES:
        try:
            made[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            made[name] = None
    return made


def limits() -> dict[str, Any]:
    """Processors, memory in bytes, and the number of open files for this process. None: no limit is known."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return {
        "processors": os.cpu_count(),
        "processors_allowed": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
        "processors_of_cgroup": _cgroup_processors(),
        "memory": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "memory_of_cgroup": _cgroup_number("memory.max"),
        "open_files": None if soft == resource.RLIM_INFINITY else soft,
        "open_files_at_most": None if hard == resource.RLIM_INFINITY else hard,
        "threads": Context().threads,
    }


def _cgroup_text(name: str) -> str:
    try:
        return (_CGROUP / name).read_text().strip()
    except OSError:
        return ""


def _cgroup_number(name: str) -> int | None:
    text = _cgroup_text(name)
    return int(text) if text.isdecimal() else None


def _cgroup_processors() -> float | None:
    quota, _, period = _cgroup_text("cpu.max").partition(" ")
    return int(quota) / int(period) if quota.isdecimal() and period.isdecimal() else None


def as_text(found: dict[str, Any]) -> str:
    """Titles, and a line for each value."""
    lines = []
    for title, part in found.items():
        lines.append(title.replace("_", " "))
        if isinstance(part, list):
            lines += [f"  {each}" for each in part]
            continue
        width = max(map(len, part), default=0)
        for name, value in part.items():
            shown = "-" if value is None else value
            if title == "ceilings":
                shown = f"{value / 1e9:.2f} GB/s"
            elif name.startswith("memory") and value is not None:
                shown = f"{value / 2**30:.1f} GiB"
            lines.append(f"  {name.replace('_', ' '):{width}}  {shown}")
    return "\n".join(lines)
