"""Measures inputs: `python -m support.small_inputs [NAME ...]`.

Each case makes and opens its input in a separate process. Prints one JSON line per case: name, bytes, seconds of CPU,
growth of the peak memory in bytes, and the outcome.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import sys
from pathlib import Path

from support.small_inputs.cases import CASE_TIMEOUT, CASES
from support.small_inputs.zarr_metadata import v3


def _peak_reset() -> int:
    Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS")


def _status(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) * 1024
    return 0


def _cpu_seconds() -> float:
    """CPU time of all threads, which hardly depends on the machine's load."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _measure(name: str, folder: Path, out: int) -> None:
    """Measure one case. Runs in a separate process."""
    import warnings

    import penstock as ps

    warnings.simplefilter("ignore")
    ps.open({"zarr.json": v3()})[...]  # type: ignore[index]
    action = CASES[name](folder)
    size = sum(each.stat().st_size for each in folder.rglob("*") if each.is_file())
    import gc

    gc.collect()
    before = _peak_reset()
    begin = _cpu_seconds()
    try:
        action()
        outcome = "read"
    except (ps.Error, OSError, KeyError, ValueError, IndexError) as error:
        outcome = f"{type(error).__name__}: {str(error)[:100]!r}"
    except BaseException as error:
        outcome = f"!{type(error).__name__}: {str(error)[:200]!r}"
    took = _cpu_seconds() - begin
    line = {"name": name, "bytes": size, "seconds": round(took, 3), "memory": max(0, _status("VmHWM") - before)}
    os.write(out, (json.dumps({**line, "outcome": outcome}) + "\n").encode())


def main(names: list[str]) -> None:
    """Measures each case in a forked process, so that modules are imported once."""
    import gc
    import signal
    import tempfile
    import warnings

    import numpy  # noqa: F401
    import penstock  # noqa: F401

    for module in ("h5py", "pyarrow", "pyarrow.parquet", "pyarrow.feather", "fsspec", "penstock.references.templates"):
        with contextlib.suppress(ImportError):
            __import__(module)
    warnings.simplefilter("ignore")  # this process has no other running threads when it forks
    gc.freeze()  # what is imported is in no child's collection
    for name in names or list(CASES):
        with tempfile.TemporaryDirectory() as folder:
            child = os.fork()
            if child == 0:
                limit = _status("VmSize") + (4 << 30)
                resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
                signal.alarm(CASE_TIMEOUT)
                try:
                    _measure(name, Path(folder), 1)
                except BaseException as error:
                    print(json.dumps({"name": name, "outcome": f"!not made: {error!r:.200}"}), flush=True)
                os._exit(0)
            _, status = os.waitpid(child, 0)
            if status != 0:
                print(json.dumps({"name": name, "outcome": f"!killed by signal {status & 127}"}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
