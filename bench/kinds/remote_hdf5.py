"""A large HDF5 file with network latency: opening all of its variables, and one value of one of them."""

from __future__ import annotations

import importlib
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from harness.range_server import serving
from harness.result import Bar, Result
from harness.setting import Setting

VALUE = ("v100", 3, 4)


def run(scenario: dict, setting: Setting) -> Result:
    result = Result(scenario["name"], scenario["title"])
    try:
        import fsspec  # noqa: F401 - peers read by it
        import h5py  # noqa: F401 - the file is written by it
    except ImportError as error:
        result.left_out["all"] = str(error)
        return result
    path = setting.folder / f"goes_{scenario['variables']}.nc"
    if not path.exists():
        write(path, scenario["variables"])
    manifest, references = path.with_suffix(".manifest"), path.with_suffix(".json")
    with serving(path.parent, scenario["latency_s"]) as server:
        url = f"{server}/{path.name}"
        save(url, manifest, references)
        ways: dict[str, Callable[[], Any]] = {
            "penstock": lambda: by_penstock(url),
            "penstock, manifest": lambda: by_penstock(str(manifest)),
            "penstock, manifest on the server": lambda: by_penstock(f"{server}/{manifest.name}"),
            "h5py over fsspec": lambda: by_file(url, "h5py", {}),
            "h5netcdf over fsspec's block cache": lambda: by_file(url, "h5netcdf", {"cache_type": "blockcache"}),
            "pyfive over fsspec": lambda: by_file(url, "pyfive", {}),
            "zarr, kerchunk's references on the server": lambda: by_references(f"{server}/{references.name}"),
        }
        values = set()
        for name, open_by in ways.items():
            try:
                importlib.import_module(name.split()[0].rstrip(","))
            except ImportError as error:
                result.left_out[name] = str(error)
                continue
            for what, work in (("all variables", walk), ("one value", one_value)):
                took = []
                for _ in range(scenario["turns"]):
                    began = time.perf_counter()
                    with opened(open_by()) as group:
                        found = work(group)
                    took.append(time.perf_counter() - began)
                row = result.add_row(f"{name}: {what}")
                row.best_s, row.median_s = min(took), statistics.median(took)
                values.add((what, found))
    if len(values) != 2:
        result.failed = f"readers found different things: {values}"
    best = {row.who: row.best_s for row in result.rows}
    for what in ("all variables", "one value"):
        ours = best[f"penstock: {what}"]
        result.bars.append(Bar(f"{what}, of h5py", ours / best[f"h5py over fsspec: {what}"], 0.1, False, "x"))
        # The manifest to compare with is one that users have today, next to its file as a DMR++ document is. Our own
        # manifests have no bar: a file cannot be read in as few round trips, because each address is in the response to
        # the previous request.
        peer = "zarr, kerchunk's references on the server"
        if f"{peer}: {what}" in best:
            result.bars.append(Bar(f"{what}, of {peer}", ours / best[f"{peer}: {what}"], 1.2, False, "x"))
    return result


def save(url: str, manifest: Path, references: Path) -> None:
    import penstock as ps

    group = ps.open(url)
    ps.save_manifest(group, manifest)
    ps.save_references(group, references)


def by_penstock(target: str) -> Any:
    import penstock as ps

    return ps.open(target)


def by_file(url: str, package: str, options: dict[str, Any]) -> Any:
    import fsspec

    stream = fsspec.open(url, **options).open()
    how = {"phony_dims": "access"} if package == "h5netcdf" else {}
    return importlib.import_module(package).File(stream, "r", **how)


def by_references(url: str) -> Any:
    """Read as VirtualiZarr and kerchunk do."""
    import fsspec
    import zarr

    how = {"asynchronous": True}
    files = fsspec.filesystem(
        "reference", fo=url, remote_protocol="http", remote_options=how, skip_instance_cache=True, **how
    )
    return zarr.open_group(zarr.storage.FsspecStore(files, read_only=True), mode="r", zarr_format=2)


@contextmanager
def opened(group: Any) -> Iterator[Any]:
    yield group
    if hasattr(group, "close"):
        group.close()


def walk(group: Any) -> tuple[int, int]:
    """Visit variables and attributes."""
    variables = attributes = 0
    members = group.variables if hasattr(group, "variables") else group
    for name in members:
        each = members[name]
        _ = each.shape, each.dtype
        variables += 1
        attributes += sum(str(key).startswith("note") for key in each.attrs)
    return variables, attributes


def one_value(group: Any) -> float:
    name, row, column = VALUE
    return float(group[name][row, column])


def write(path: Path, variables: int) -> None:
    """Write metadata between values, as libraries do by default."""
    import h5py

    rng = np.random.default_rng(0)
    with h5py.File(path, "w") as file:
        for number in range(variables):
            values = rng.integers(0, 1 << 15, (400, 500), "i2")
            made = file.create_dataset(
                f"v{number}", data=values, chunks=(50, 50), compression="gzip", compression_opts=1
            )
            for note in range(22):
                made.attrs[f"note_{note}"] = "text " * 20


if __name__ == "__main__":
    raise SystemExit("run by bench/run.py")
