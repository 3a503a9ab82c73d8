"""Versions, devices and limits of this process, for reports of defects."""

from __future__ import annotations

import importlib.metadata
import json
import platform
import re
import resource
from pathlib import Path
from typing import Any, TextIO

from penstock import _core
from penstock.core.context import Context
from penstock.core.errors import Error

PACKAGES = (
    *("numpy", "zarr", "numcodecs", "xarray", "dask", "h5py", "h5netcdf", "netCDF4", "pyarrow", "fsspec", "s3fs"),
    *("obstore", "tensorstore", "rasterio", "rioxarray", "pyproj", "ml_dtypes", "torch", "jax", "cupy", "mpi4py"),
)
_ROOT = ""  # of the files that describe control groups
_NVIDIA = Path("/proc/driver/nvidia/version")


def show_versions(file: TextIO | None = None, *, as_json: bool = False) -> None:
    """Print the versions of Penstock, Python, the packages that it works with and the libraries that this build uses,
    the devices and their driver, and the limits of this process.

    Loads these libraries and starts the CUDA driver: processes that are forked later cannot use it.

    Parameters
    ----------
    file
        The file to write to; by default standard output.
    as_json
        One JSON document.

    Examples
    --------
    >>> import io, json
    >>> text = io.StringIO()
    >>> ps.show_versions(text, as_json=True)
    >>> json.loads(text.getvalue())["versions"]["penstock"] == ps.__version__
    True
    """
    found = {"versions": versions(), "libraries": libraries(), "devices": devices(), "limits": limits()}
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


def libraries() -> dict[str, str | None]:
    """Versions of the libraries of this build, in C; None: it does not use it, or this machine does not have it."""
    return _core.linked_libraries()


def devices() -> dict[str, Any]:
    """The CUDA devices: `count`, `names`, the version of `cuda` that the driver supports, that of the `driver`, and
    `why_none`."""
    driver = re.search(r"Kernel Module.*?\s(\d+\.[\d.]+)", _text_of(_NVIDIA))
    made: dict[str, Any] = {
        "count": 0, "names": [], "cuda": None, "driver": driver[1] if driver else None, "why_none": None,
    }  # fmt: skip
    try:
        number = _core._cuda_version()
        made |= {
            "count": _core._device_count(),
            "names": _core._device_names(),
            "cuda": f"{number // 1000}.{number % 1000 // 10}",
        }
    except Error as error:
        made["why_none"] = error.message
    return made


def limits() -> dict[str, Any]:
    """Processors, memory in bytes, and the number of open files for this process. None: no limit is known."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return {
        **_core._process_limits(_ROOT),
        "open_files": None if soft == resource.RLIM_INFINITY else soft,
        "open_files_at_most": None if hard == resource.RLIM_INFINITY else hard,
        "threads": Context().threads,
    }


def _text_of(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


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
            shown = "-" if value is None or value == [] else value
            if isinstance(shown, list):
                shown = ", ".join(map(str, shown))
            if title == "ceilings":
                shown = f"{value / 1e9:.2f} GB/s"
            elif name.startswith("memory") and value is not None:
                shown = f"{value / 2**30:.1f} GiB"
            lines.append(f"  {name.replace('_', ' '):{width}}  {shown}")
    return "\n".join(lines)
