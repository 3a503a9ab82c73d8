"""Files of every format through every kind of target that can name one: equal values, or a refusal with its reason.

The matrix: 8 formats x 23 kinds of targets; NetCDF also through xarray.
"""

from __future__ import annotations

import http.server
import io
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
import zarr

h5py = pytest.importorskip("h5py")
fsspec = pytest.importorskip("fsspec")
obstore = pytest.importorskip("obstore")
pa = pytest.importorskip("pyarrow")
import pyarrow.parquet as pq  # noqa: E402
from obstore.store import LocalStore, MemoryStore  # noqa: E402

VALUES = np.arange(60, dtype="i4").reshape(12, 5)
NAMES = {
    "nc": "x.nc",
    "h5": "x.h5",
    "npy": "x.npy",
    "npz": "x.npz",
    "tif": "x.tif",
    "zip": "x.zarr.zip",
    "parquet": "x.parquet",
    "arrow": "x.arrow",
}
OPTIONS: dict[str, dict[str, Any]] = {
    "nc": {"dataset": "v"},
    "h5": {"dataset": "v"},
    "parquet": {"columns": "v"},
    "arrow": {"columns": "v"},
}


def write(folder: Path) -> None:
    for name in ("nc", "h5"):
        with h5py.File(folder / f"x.{name}", "w") as file:
            made = file.create_dataset("v", data=VALUES, chunks=(4, 5), compression="gzip")
            for axis, scale in enumerate(("y", "x")):
                file[scale] = np.arange(VALUES.shape[axis])
                file[scale].make_scale(scale)
                made.dims[axis].attach_scale(file[scale])
    np.save(folder / "x.npy", VALUES)
    np.savez(folder / "x.npz", v=VALUES)
    ps.save(folder / "x.tif", VALUES)
    store = zarr.storage.ZipStore(folder / "x.zarr.zip", mode="w")
    zarr.create_array(store, data=VALUES)
    store.close()
    block = pa.FixedSizeListArray.from_arrays(VALUES.reshape(-1), 5)
    pq.write_table(pa.table({"v": block}), folder / "x.parquet")
    with pa.OSFile(str(folder / "x.arrow"), "wb") as sink, pa.ipc.new_file(sink, pa.schema([("v", block.type)])) as out:
        out.write_table(pa.table({"v": block}))


class WithoutRanges(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments: Any) -> None:
        pass


class WithRanges(WithoutRanges):
    def do_GET(self) -> None:
        asked = self.headers.get("Range", "").removeprefix("bytes=")
        path = Path(self.translate_path(self.path))
        if not asked or not path.is_file():
            return super().do_GET()
        data = path.read_bytes()
        first, _, last = asked.partition("-")
        begin = int(first) if first else max(0, len(data) - int(last))
        end = min(len(data), int(last) + 1 if first and last else len(data))
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {begin}-{end - 1}/{len(data)}")
        self.send_header("Content-Length", str(end - begin))
        self.end_headers()
        self.wfile.write(data[begin:end])
        return None


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made: Path = tmp_path_factory.mktemp("targets")
    write(made)
    return made


@pytest.fixture(scope="module")
def servers(folder: Path) -> Iterator[dict[str, str]]:
    running = {}
    for name, base in {"ranges": WithRanges, "no_ranges": WithoutRanges}.items():

        def make(*arguments: Any, base: Any = base) -> Any:
            return base(*arguments, directory=str(folder))

        running[name] = http.server.ThreadingHTTPServer(("127.0.0.1", 0), make)
        threading.Thread(target=running[name].serve_forever, daemon=True).start()
    yield {name: f"http://127.0.0.1:{server.server_port}" for name, server in running.items()}
    for server in running.values():
        server.shutdown()
        server.server_close()


Target = tuple[Any, ...]
TARGETS: dict[str, Callable[[Path, str, dict[str, str]], Target]] = {
    "path": lambda folder, name, _: (str(folder / name),),
    "Path": lambda folder, name, _: (folder / name,),
    "uri": lambda folder, name, _: (f"file://{folder}/{name}",),
    "raw file": lambda folder, name, _: (open(folder / name, "rb", buffering=0),),  # noqa: SIM115
    "buffered file": lambda folder, name, _: (open(folder / name, "rb"),),  # noqa: SIM115
    "BytesIO": lambda folder, name, _: (io.BytesIO((folder / name).read_bytes()),),
    "bytes": lambda folder, name, _: ((folder / name).read_bytes(),),
    "memoryview": lambda folder, name, _: (memoryview((folder / name).read_bytes()),),
    "memmap": lambda folder, name, _: (np.memmap(folder / name, dtype="u1", mode="r"),),
    "fsspec file": lambda folder, name, _: (fsspec.open(str(folder / name)).open(),),
    "fsspec OpenFile": lambda folder, name, _: (fsspec.open(str(folder / name)),),
    "fsspec memory file": lambda folder, name, _: (in_memory(folder, name).open(f"/targets/{name}"),),
    "fsspec memory uri": lambda folder, name, _: (in_memory(folder, name) and f"memory://targets/{name}",),
    "fsspec mapper": lambda folder, name, _: (fsspec.get_mapper(str(folder)), name),
    "fsspec memory mapper": lambda folder, name, _: (
        in_memory(folder, name) and fsspec.get_mapper("memory://targets"),
        name,
    ),
    "dict": lambda folder, name, _: ({name: (folder / name).read_bytes()}, name),
    "obstore LocalStore": lambda folder, name, _: (LocalStore(folder), name),
    "obstore MemoryStore": lambda folder, name, _: (in_obstore(folder, name), name),
    "obstore reader": lambda folder, name, _: (obstore.open_reader(in_obstore(folder, name), name),),
    "zarr LocalStore": lambda folder, name, _: (zarr.storage.LocalStore(folder), name),
    "zarr MemoryStore": lambda folder, name, _: (in_zarr(folder, name), name),
    "zarr ObjectStore": lambda folder, name, _: (zarr.storage.ObjectStore(in_obstore(folder, name)), name),
    "http": lambda folder, name, servers: (f"{servers['ranges']}/{name}",),
    "http without ranges": lambda folder, name, servers: (f"{servers['no_ranges']}/{name}",),
}
# The directory of an archive can only be read from a local path: other targets are refused.
ELSEWHERE = [
    *("BytesIO", "bytes", "memoryview", "memmap", "fsspec memory file", "fsspec memory uri"),
    *("fsspec memory mapper", "dict"),
    *("obstore MemoryStore", "obstore reader", "zarr MemoryStore", "zarr ObjectStore", "http", "http without ranges"),
]
REFUSED = {(name, target): "zip archive" for name in ("npz", "zip") for target in ELSEWHERE}


def in_memory(folder: Path, name: str) -> Any:
    made = fsspec.filesystem("memory")
    made.pipe(f"/targets/{name}", (folder / name).read_bytes())
    return made


def in_obstore(folder: Path, name: str) -> Any:
    made = MemoryStore()
    obstore.put(made, name, (folder / name).read_bytes())
    return made


def in_zarr(folder: Path, name: str) -> Any:
    from zarr.core.buffer import cpu

    return zarr.storage.MemoryStore({name: cpu.Buffer.from_bytes((folder / name).read_bytes())})


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", NAMES)
def test_every_kind_of_name_opens_the_same_values(
    folder: Path, servers: dict[str, str], name: str, target: str
) -> None:
    where = TARGETS[target](folder, NAMES[name], servers)
    if (name, target) in REFUSED:
        with pytest.raises(ps.Error, match=REFUSED[name, target]):
            ps.open(*where, **OPTIONS.get(name, {}))
        return
    found = ps.open(*where, **OPTIONS.get(name, {}))
    assert np.array_equal(np.asarray(found[...]).reshape(VALUES.shape), VALUES)  # a TIFF has an axis of bands
    if name == "nc" and len(where) == 1:
        xarray = pytest.importorskip("xarray")
        assert np.array_equal(xarray.open_dataset(where[0], engine="penstock")["v"].values, VALUES)


class CountedReader:
    """A reader of obstore that counts the bytes that are read."""

    def __init__(self, data: bytes) -> None:
        self.size, self.read_bytes, self._file = len(data), 0, io.BytesIO(data)

    def read(self, size: int) -> bytes:
        self.read_bytes += size
        return self._file.read(size)

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()


def test_a_reader_of_obstore_is_read_by_ranges(tmp_path: Path) -> None:
    values = np.random.default_rng(1).integers(0, 99, (4_000_000,), "i8")
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("group/x", data=values, chunks=(10_000,))
    memory = MemoryStore()
    obstore.put(memory, "x.h5", (tmp_path / "x.h5").read_bytes())
    real = obstore.open_reader(memory, "x.h5")
    real.seek(5)
    assert ps.open(real, "group/x")[1_234_567] == values[1_234_567]
    assert real.tell() == 5
    assert ps.open(real)["group"]["x"][7] == values[7]
    counted = type("ReadableFile", (CountedReader,), {"size": 0})((tmp_path / "x.h5").read_bytes())
    np.testing.assert_array_equal(ps.open(counted, "group/x")[3_000_000:3_000_500], values[3_000_000:3_000_500])
    assert counted.read_bytes < 1 << 20


@pytest.mark.parametrize("path", ["x.nc/v", "sub/x.nc/v", "sub/x.nc/inner/w"])
def test_a_variable_is_named_after_the_key_of_its_file(folder: Path, path: str) -> None:
    (folder / "sub").mkdir(exist_ok=True)
    with h5py.File(folder / "sub" / "x.nc", "w") as file:
        file["v"] = VALUES
        file["inner/w"] = VALUES
    memory, in_zarr_python = MemoryStore(), {}
    for name in ("x.nc", "sub/x.nc"):
        obstore.put(memory, name, (folder / name).read_bytes())
        in_zarr_python[name] = (folder / name).read_bytes()
    mapper = fsspec.get_mapper(str(folder))
    stores = (memory, LocalStore(folder), mapper, zarr.storage.LocalStore(folder), in_zarr_python)
    for target in (folder, str(folder), folder.as_uri(), *stores):
        found = ps.open(target, path)
        assert np.array_equal(found[...], VALUES)
        with pytest.raises(ps.NotFoundError):
            ps.open(target, path + "/nothing")
    file, _, inner = path.partition(".nc/")
    assert np.array_equal(ps.open(folder, f"{file}.nc", dataset=inner)[...], VALUES)
    assert isinstance(ps.open(folder, f"{file}.nc"), ps.Group)


@pytest.mark.parametrize("kind", ["file", "OpenFile", "mapper", "file system"])
def test_fsspec_with_a_server_without_ranges(folder: Path, servers: dict[str, str], kind: str) -> None:
    """An HDF5 file is fetched once, as a whole; of Zarr, each chunk is."""
    values = np.arange(100_000)
    with h5py.File(folder / "behind.nc", "w") as file:
        file.create_dataset("deep/v", data=values, chunks=(1000,))
    ps.create_array(folder / "behind.zarr", data=values, chunks=(10_000,), overwrite=True)
    fs = fsspec.filesystem("http")
    for server in servers.values():
        url = f"{server}/behind.nc"
        target: dict[str, tuple[Any, ...]] = {
            "file": (fs.open(url), "deep/v"),
            "OpenFile": (fsspec.open(url), "deep/v"),
            "mapper": (fs.get_mapper(server), "behind.nc/deep/v"),
            "file system": (fs, f"{url}/deep/v"),
        }
        np.testing.assert_array_equal(ps.open(*target[kind])[...], values)
    if kind == "mapper":
        np.testing.assert_array_equal(ps.open(fs.get_mapper(servers["no_ranges"]), "behind.zarr")[...], values)


def test_a_file_is_read_whole_up_to_a_limit_without_ranges(
    folder: Path, servers: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from penstock.target import without_ranges as _without_ranges

    values = np.arange(5 << 20, dtype="u1")  # more than is skipped to reach a range
    with h5py.File(folder / "large.nc", "w") as file:
        file["v"] = values
    assert np.array_equal(ps.open(f"{servers['no_ranges']}/large.nc", "v")[...], values)
    monkeypatch.setattr(_without_ranges, "_MOST_WHOLE_BYTES", 1000)
    with pytest.raises(ps.UnsupportedError, match="ignores ranges"):
        ps.open(f"{servers['no_ranges']}/large.nc", "v")
    assert np.array_equal(ps.open(f"{servers['ranges']}/large.nc", "v")[...], values)


def test_keys_that_no_store_has_are_not_found(folder: Path) -> None:
    for target in (LocalStore(folder), {}, in_obstore(folder, "x.nc"), fsspec.get_mapper(str(folder))):
        with pytest.raises(ps.NotFoundError):
            ps.open(target, "none.nc")


def test_objects_of_other_readers_are_refused_by_name(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["x"] = VALUES
        for target in (file, file["/"], file["x"]):
            with pytest.raises(ps.InvalidArgumentError, match=r"cannot open h5py's .* by the path"):
                ps.open(target)
