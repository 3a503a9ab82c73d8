"""xarray's benchmarks of reading files (`asv_bench/benchmarks/dataset_io.py`), timed by pytest-benchmark.

A suite of `tools/test_peers.py`. pytest runs in the folder `asv_bench` of xarray's sources. Benchmarks that write, and
the one of a backend without files, are left out.
"""

from __future__ import annotations

import inspect
import itertools
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path.cwd()))
from benchmarks import dataset_io

# By default all engines that xarray finds, most of which do not write files.
ENGINES = ("netcdf4", "h5netcdf", "scipy")
dataset_io._ENGINES = ENGINES
LEFT_OUT = ("IOReadCustomEngine",)


def benchmarks() -> list[Any]:
    found = []
    for name, kind in inspect.getmembers(dataset_io, inspect.isclass):
        if not name.startswith("IORead") or name in LEFT_OUT:
            continue
        for method, function in inspect.getmembers(kind, inspect.isfunction):
            if method.startswith("time_"):
                parameters = getattr(function, "params", ())
                if parameters and parameters[0] != ENGINES and "engine" in function.param_names:
                    parameters = (ENGINES, *parameters[1:])
                for values in itertools.product(*parameters):
                    label = "-".join([f"{name}.{method}", *map(str, values)])
                    found.append(pytest.param(kind, method, values, id=label))
    return found


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("kind", "method", "values"), benchmarks())
def test_benchmark(kind: Any, method: str, values: Any, benchmark: Any, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    made = kind()
    made.setup(*values)
    benchmark.pedantic(getattr(made, method), args=values, rounds=5, warmup_rounds=1)
