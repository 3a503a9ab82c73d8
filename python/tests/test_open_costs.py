"""What `open` requests from storage, for each format: opens, stats and reads of local files, and requests over HTTP.

The numbers are exact. A change that needs more requests must change these tables.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
from support.http_server import HttpServer

h5py = pytest.importorskip("h5py")
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

_DATA = Path(__file__).parents[2] / "tests/data/fuzz"
_EXAMPLES = Path(__file__).parents[2] / "examples"
_CALLS = "open,openat,stat,lstat,newfstatat,statx,access,faccessat,faccessat2,readlink,read,pread64"
_LINE = re.compile(r"^\d+ +(?P<call>\w+)\((?P<arguments>.*)")
_MARK = "/there-is-no-such-folder/"

# (opens, stats, reads) of a local file. Reads that find the end of a file count, `fstat` does not.
LOCAL = {
    "v3.zarr/a": (1, 1, 1),
    "v2.zarr/a": (3, 1, 2),
    "v3.zarr": (1, 1, 1),
    "v2.zarr": (5, 2, 2),
    "consolidated.zarr": (4, 1, 2),
    "scene.tif": (1, 0, 1),
    "picture": (1, 1, 1),
    "x.npy": (1, 0, 1),
    "rows": (1, 1, 1),
    "x.npz": (2, 4, 5),
    "x.h5": (1, 0, 1),
    "unnamed": (1, 1, 1),
    "classic.nc": (1, 0, 1),
    "refs.json": (1, 0, 1),
    "refs.parq": (1, 1, 1),
    "files.json": (1, 1, 1),
    "saved.manifest": (1, 1, 1),
    "arrays.manifest": (4, 12, 4),  # of three arrays
    "group.manifest": (1, 0, 1),
    "v3.zarr.zip": (2, 2, 5),
    "x.parquet": (3, 5, 3),
    "x.arrow": (3, 4, 7),
    # three files as one array
    "rows_*.npy": (4, 2, 3),
    "raw_*.f4": (4, 8, 4),
    "part_*.zarr": (4, 8, 3),
    "part_*.tif": (5, 4, 4),
    "part_*.h5": (5, 3, 7),
}
# The same over HTTP: the number of requests.
REMOTE = {
    "v3.zarr/a": 1,
    "v2.zarr/a": 5,
    "v3.zarr": 1,
    "v2.zarr": 5,
    "consolidated.zarr": 5,
    "scene.tif": 1,
    "picture": 6,
    "x.npy": 1,
    "rows": 6,
    "x.h5": 1,
    "unnamed": 6,
    "classic.nc": 1,
    "refs.json": 1,
    "refs.parq": 2,
    "files.json": 1,
    "saved.manifest": 1,
    "group.manifest": 1,
    "x.parquet": 3,
    "x.arrow": 3,
    # `open_shards`, of one file and of a manifest
    "raw_0.f4": 2,
    "files.json as shards": 1,
    "files.binary as shards": 1,
    "saved.manifest as shards": 1,
    # three files as one array, given by name
    "rows_{}.npy": 3,
    "raw_{}.f4": 3,
    "part_{}.zarr": 3,
    "part_{}.tif": 3,
    "part_{}.h5": 3,
    "t_{}.parquet": 6,
}
# Archives are opened by a path of this machine: the number of requests until they are refused.
REFUSED = {"x.npz": 6, "v3.zarr.zip": 6}
# Options of `open_shards`, by the ending.
_SHARDS: dict[str, dict[str, Any]] = {
    "f4": {"dtype": "<f4", "row_shape": (3,)},
    "h5": {"dataset": "x"},
    "parquet": {"column": "x"},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One file or folder of each format."""
    root = tmp_path_factory.mktemp("costs")
    values = np.arange(12, dtype="<f4").reshape(4, 3)
    for version in (2, 3):
        group = ps.create_group(root / f"v{version}.zarr", zarr_format=version, attributes={"a": 1})
        group.create_array("a", data=values, zarr_format=version)
    shutil.copytree(root / "v2.zarr", root / "consolidated.zarr")
    ps.consolidate_metadata(root / "consolidated.zarr")
    shutil.copy(_EXAMPLES / "scene.tif", root / "scene.tif")
    shutil.copy(_EXAMPLES / "scene.tif", root / "picture")
    np.save(root / "x.npy", values)
    shutil.copy(root / "x.npy", root / "rows")
    np.savez(root / "x.npz", a=values)
    shutil.copy(_DATA / "hdf5_file/old", root / "x.h5")
    shutil.copy(_DATA / "hdf5_file/old", root / "unnamed")
    shutil.copy(_DATA / "netcdf_header/cdf1", root / "classic.nc")
    array = {"zarr_format": 2, "shape": [6], "chunks": [6], "dtype": "|u1", "compressor": None, "fill_value": 0}
    documents = {".zgroup": {"zarr_format": 2}, "a/.zarray": {**array, "order": "C", "filters": None}}
    refs = {key: json.dumps(document) for key, document in documents.items()}
    (root / "refs.json").write_text(json.dumps({"version": 1, "refs": {**refs, "a/0": ["data", 0, 6]}}))
    (root / "data").write_bytes(b"abcdef")
    (root / "refs.parq").mkdir()
    (root / "refs.parq/.zmetadata").write_text(json.dumps({"metadata": documents, "record_size": 10}))
    ps.save_manifest(ps.open_shards([root / "x.npy"]), root / "files.json")
    ps.save_manifest(ps.open_shards([root / "x.npy"]), root / "files.binary")
    ps.save_manifest(ps.open(root / "refs.json")["a"], root / "saved.manifest")
    for i in range(3):
        np.save(root / f"rows_{i}.npy", values)
        values.tofile(root / f"raw_{i}.f4")
        ps.save(root / f"part_{i}.zarr", values)
        shutil.copy(root / "scene.tif", root / f"part_{i}.tif")
        with h5py.File(root / f"part_{i}.h5", "w") as file:
            file["x"], file["row"] = values, np.arange(4 * i, 4 * i + 4)
            file["row"].make_scale("row")
            file["x"].dims[0].attach_scale(file["row"])
    ps.save_manifest(ps.open_shards(str(root / "part_*.zarr")), root / "arrays.manifest")
    ps.save_manifest(ps.open_virtual([root / f"part_{i}.h5" for i in range(3)], concat="row"), root / "group.manifest")
    shutil.make_archive(str(root / "v3.zarr"), "zip", root / "v3.zarr")
    table = pa.table({"x": values[:, 0]})
    pq.write_table(table, root / "x.parquet")
    with pa.ipc.new_file(root / "x.arrow", table.schema) as writer:
        writer.write_table(table)
    for i in range(3):
        shutil.copy(root / "x.parquet", root / f"t_{i}.parquet")
    return root


SCRIPT = """
import json, os, sys
import pyarrow.parquet, pyarrow.ipc
import penstock as ps

root, mark, shards, *names = sys.argv[1:]
shards = json.loads(shards)
ps.open(root + "/v3.zarr/a")
for name in [*names, ""]:
    try:
        os.open(mark + name, os.O_RDONLY)
    except OSError:
        pass
    if "*" in name:
        ps.open_shards(root + "/" + name, context=ps.Context(), **shards.get(name.rpartition(".")[2], {}))
    elif name:
        ps.open(root + "/" + name, context=ps.Context())
"""


@pytest.fixture(scope="module")
def calls(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Counter[str]]:
    """The system calls with paths below the folder, for opening each of them."""
    tracer = shutil.which("strace")
    if tracer is None:
        pytest.skip("counting system calls needs strace")
    log = tmp_path_factory.mktemp("trace") / "log"
    traced = [tracer, "-f", "-qq", "-y", "-e", f"trace={_CALLS}", "-o", str(log)]
    program = [sys.executable, "-c", SCRIPT, str(folder), _MARK, json.dumps(_SHARDS), *LOCAL]
    done = subprocess.run([*traced, *program], capture_output=True, text=True, timeout=300)
    if "Operation not permitted" in done.stderr:
        pytest.skip("this machine does not allow strace")
    assert done.returncode == 0, done.stderr
    out: dict[str, Counter[str]] = {}
    now = ""
    for call, arguments in _calls(log):
        if _MARK in arguments:
            now = arguments.partition(_MARK)[2].partition('"')[0]
            out[now] = Counter()
        elif now and str(folder) in arguments:
            out[now][call] += 1
    return out


def _calls(log: Path) -> Iterator[tuple[str, str]]:
    """(open, stat or read, arguments) of each line of a log."""
    for line in log.read_text(errors="replace").splitlines():
        found = _LINE.match(line)
        if found is None:
            continue
        call, arguments = found["call"], found["arguments"]
        if call in ("open", "openat"):
            yield "open", arguments
        elif call in ("read", "pread64"):
            yield "read", arguments
        elif '""' not in arguments:  # an empty path: the call is of an open file
            yield "stat", arguments


@pytest.mark.parametrize("name", LOCAL)
def test_opens_stats_and_reads_of_a_file(name: str, calls: dict[str, Counter[str]]) -> None:
    counted = calls[name]
    assert (counted["open"], counted["stat"], counted["read"]) == LOCAL[name]


@pytest.mark.parametrize("name", REMOTE)
def test_requests_over_http(name: str, folder: Path) -> None:
    objects = {str(each.relative_to(folder)): each.read_bytes() for each in folder.rglob("*") if each.is_file()}
    with HttpServer(objects) as server:
        options = _SHARDS.get(name.rpartition(".")[2], {})
        manifest, _, is_shards = name.partition(" as ")
        if "{}" in name:
            ps.open_shards([f"{server.url}/{name.format(i)}" for i in range(3)], context=ps.Context(), **options)
        elif is_shards or name.endswith(".f4"):
            allowed = {"allow_local": True} if manifest == "saved.manifest" else {}
            ps.open_shards(f"{server.url}/{manifest}", context=ps.Context(), **options, **allowed)
        elif name == "saved.manifest":
            ps.open(f"{server.url}/{name}", context=ps.Context(), allow_local=True)
        else:
            ps.open(f"{server.url}/{name}", context=ps.Context())
        assert len(server.requests) == REMOTE[name], [(each.method, each.target) for each in server.requests]


@pytest.mark.parametrize("name", REFUSED)
def test_requests_for_an_archive_over_http(name: str, folder: Path) -> None:
    with HttpServer({name: (folder / name).read_bytes()}) as server:
        with pytest.raises(ps.UnsupportedError, match="is a zip archive"):
            ps.open(f"{server.url}/{name}", context=ps.Context())
        assert len(server.requests) == REFUSED[name], [(each.method, each.target) for each in server.requests]
