"""`penstock doctor`: reports the state of this machine."""

from __future__ import annotations

import json
import math
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from penstock import _core
from penstock.api.create import create_array
from penstock.cli.output import fail, show
from penstock.cli.parser import Parser
from penstock.core.errors import Error
from penstock.core.sizes import counted
from penstock.view.versions import as_text, devices, libraries, limits, versions

_FEW_FILES = 1024
_DECODED_BYTES = 128 << 20
_HDF5 = b"\x89HDF\r\n\x1a\n"
# A file that xarray opens -> its first bytes; None is a folder.
_BEGINNINGS = {"x.zarr": None, "x.nc": _HDF5, "x.h5": _HDF5, "x.tif": b"II*\0"}


def xarray_engines() -> dict[str, str]:
    """Which of xarray's engines opens which file if none is named."""
    try:
        from xarray.backends import plugins
    except ImportError:
        return {}
    made = {}
    with tempfile.TemporaryDirectory() as folder:  # some engines look at the file
        for name, beginning in _BEGINNINGS.items():
            path = Path(folder, name)
            if beginning is None:
                path.mkdir()
            else:
                path.write_bytes(beginning)
            try:
                made[name] = str(plugins.guess_engine(str(path)))
            except (ValueError, OSError) as error:
                made[name] = f"none ({str(error).splitlines()[0]})"
    return made


def ceilings() -> dict[str, float]:
    """Bytes a second: a copy in memory by one thread, and by all; decoding of zstd chunks by all, best of three."""
    source = np.random.default_rng(0).integers(0, 64, _DECODED_BYTES // 8, np.int64)
    array = create_array({}, data=source.view("i4").reshape(-1, 1 << 18), chunks=(1, 1 << 18))
    return {
        "copy": _core.copy_rate(1),
        "copy_all_threads": _core.copy_rate(),
        "decode_zstd": array.nbytes / _best(lambda: array[...]),
    }


def _best(work: Any) -> float:
    taken = []
    for _ in range(3):
        begin = time.perf_counter()
        work()
        taken.append(time.perf_counter() - begin)
    return min(taken)


def verdict(found: dict[str, Any]) -> list[str]:
    """Advice for this machine, in words."""
    said = []
    of = found["limits"]
    if of["open_files"] is not None and of["open_files"] < _FEW_FILES:
        said.append(
            f"Only {counted(of['open_files'], 'file')} may be open: raise `ulimit -n` for arrays of many files."
        )
    shares = [of[name] for name in ("processors_allowed", "processors_of_cgroup") if of[name] is not None]
    if shares and math.ceil(min(shares)) < of["threads"]:
        said.append(
            f"A context has {counted(of['threads'], 'thread')}, this process may use {min(shares):g} of the "
            f"processors: Context(threads={math.ceil(min(shares))}) avoids waiting."
        )
    if found["devices"]["count"] == 0:
        said.append(f"No GPU is used: {found['devices']['why_none'] or 'the driver shows none'}.")
    wanted = {"zarr": "to use Penstock within zarr-python", "xarray": "for xarray's engine", "h5py": "to write HDF5"}
    missing = [f"{name} ({why})" for name, why in wanted.items() if found["versions"][name] is None]
    if missing:
        said.append("Not installed: " + ", ".join(missing) + ".")
    return said or ["All is well."]


def diagnose() -> dict[str, Any]:
    """Everything that `penstock doctor` shows."""
    found = {
        "versions": versions(),
        "libraries": libraries(),
        "limits": limits(),
        "devices": devices(),
        "xarray_engines": xarray_engines(),
        "ceilings": ceilings(),
    }
    return found | {"verdict": verdict(found)}


def main(arguments: list[str]) -> int:
    """Run the verb; returns the exit status."""
    parser = Parser("doctor", description="Versions, limits, devices and speeds of this machine")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    try:
        given = parser.parse_args(arguments)
    except Error as error:
        return fail(error, "--json" in arguments, 2)
    except SystemExit as ended:
        return int(ended.code or 0)
    try:
        found = diagnose()
        show(json.dumps(found, indent=2) if given.json else as_text(found))
    except Error as error:
        return fail(error, given.json)
    return 0
