"""Remote documents cause no read of a local file, whatever form its location has.

A canary file is watched by inotify (which also reports the engine's own opens), by an audit hook, and by its bytes.
"""

from __future__ import annotations

import ctypes
import io
import json
import os
import struct
import subprocess
import sys
import urllib.parse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
from support.http_server import HttpServer, Reply, Request
from test_cli import program, run

pytest.importorskip("fsspec")

SECRET = b"TOP SECRET"
_hooked: list[str] = []
_watched = "penstock-canary"


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open" and _watched in str(arguments[0]):
        _hooked.append(str(arguments[0]))


sys.addaudithook(_hook)


class Canary:
    """A file with a secret, in its own folder, that records each open and read."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / _watched
        self.folder.mkdir()
        self.path = self.folder / "canary.bin"
        self.path.write_bytes(SECRET)
        (folder / "link.bin").symlink_to(self.path)
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._watch = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        assert self._watch >= 0
        for path in (self.path, self.folder / "second.json", self.folder / "a.zip"):
            path.touch()
            assert self._libc.inotify_add_watch(self._watch, os.fsencode(path), 0x20 | 0x1) > 0  # open, access
        _hooked.clear()

    def reads(self) -> int:
        """How often the file was opened or read since the last call."""
        count = len(_hooked)
        _hooked.clear()
        try:
            events = os.read(self._watch, 1 << 16)
        except BlockingIOError:
            return count
        at = 0
        while at < len(events):
            (length,) = struct.unpack_from("I", events, at + 12)
            at, count = at + 16 + length, count + 1
        return count

    def close(self) -> None:
        os.close(self._watch)


def spellings(canary: Canary, url: str) -> list[str]:
    """Ways to name the canary; `url` is the URL of a server."""
    path = str(canary.path)
    up = "../" * 30
    quoted = urllib.parse.quote(path)
    encoded = "".join(f"%{byte:02x}" for byte in path.encode())
    slashes = path.replace("/", "%2F")
    absolute = [
        path,
        f"/{path}",
        f"//{path}",
        f"/.{path}",
        f"/../..{path}",
        f"{up}{path[1:]}",
        f"./{up}{path[1:]}",
        path.replace("/", "\\"),
        path.replace("/", "\N{FULLWIDTH SOLIDUS}"),
        path.replace("/", "\N{DIVISION SLASH}"),
        path.replace("/", "/./"),
        path.replace("/", "//"),
        slashes,
        encoded,
        f"{'%2e%2e/' * 30}{path[1:]}",
        f"{'..%2f' * 30}{path[1:]}",
        f"\\\\?\\{path}",
        f"\\\\localhost{path}",
        f"~/../../../..{path}",
        f"~root/../../..{path}",
        f"$HOME/../../../..{path}",
        f"${{PWD}}/{up}{path[1:]}",
        f" {path}",
        f"{path} ",
        f"\t{path}",
        f"{path}?x=1",
        f"{path}#x",
        str(canary.folder.parent / "link.bin"),
        f"/proc/self/root{path}",
        f"/proc/self/cwd/{up}{path[1:]}",
        f"/dev/../{path}",
    ]
    files = [
        "file:{}", "file:/{}", "file://{}", "file:///{}", "file:////{}", "FILE://{}", "File://{}", "fIlE:{}",
        "file://localhost{}", "file://LOCALHOST{}", "file://127.0.0.1{}", "file://host.invalid{}", "file://.{}",
        "file:\\\\{}", "file:/%2f{}", "%66ile://{}", " file://{}", "file ://{}", "file\N{ZERO WIDTH SPACE}://{}",
        "\N{FULLWIDTH LATIN SMALL LETTER F}ile://{}", "url:file://{}", "local://{}", "LOCAL://{}", "local:{}",
        "asynclocal://{}", "dir://{}", "dir:{}", "dir::file://{}", "dir://{}::file:///", "generic://{}",
        "async_wrapper://{}", "asyncwrapper::file://{}", "async_wrapper::file://{}", "dask://{}", "dvc://{}",
        "git://{}", "git:///{}::file:///", "lfs://{}", "libarchive://{}", "tar://{}", "zip://{}", "zip:{}", "ZIP:{}",
        "zip://x::file://{}", "zip://x::{}", "tar://x::file://{}", "libarchive://x::file://{}", "zip:///x!{}",
        "reference://x::file://{}", "reference::file://{}", "reference://{}", "simplecache::file://{}",
        "SIMPLECACHE::FILE://{}", "simplecache::{}", "simplecache://{}", "simplecache::local://{}",
        "filecache::file://{}", "blockcache::file://{}", "cached::file://{}", "cached::{}",
        "simplecache::filecache::file://{}", "simplecache::dir::file://{}", "simplecache::simplecache::{}",
        "unknown://{}", "unknown::file://{}", "pipe:{}", "pipe:cat {}", "| cat {}", "data:file://{}", "arrow_hdfs://{}",
        "memory://{}", "memory://x::file://{}", "obstore+file://{}", "file+http://{}", "s3+file://{}",
        "::file://{}", "file://{}::", "::{}", "::::{}", "simplecache:: file://{}", "x://y::file://{}", "None://{}",
    ]  # fmt: skip
    chains = [
        "{0}/x::file://{1}", "{0}/x::{1}", "{0}::file://{1}", "simplecache::{0}/x::file://{1}",
        "simplecache::{0}/x::{1}", "zip://x::{0}/a.zip::file://{1}", "reference://x::{0}/second.json",
        "reference://0::{0}/second.json", "simplecache::reference://x::{0}/second.json", "dir://{1}::{0}",
        "{0}/../../../../..{1}", "{0}/%2e%2e/%2e%2e{1}", "{0}/redirect", "{0}/redirect?to=file:{1}", "{0}@file:{1}",
        "file://{1}::{0}/x", "file://{1}#{0}", "file:{1}#::{0}", "local://{1}::{0}/x", "{0}/redirect/local",
    ]  # fmt: skip
    return [
        *absolute,
        *(each.format(path) for each in files),
        *(each.format(quoted) for each in ("FILE://{}", "file:{}", "local://{}", "simplecache::file://{}")),
        *(each.format(slashes) for each in ("file://{}", "file:///{}", "dir::file://{}")),
        *(each.format(encoded) for each in ("file://{}", "file:///{}")),
        *(each.format(url, path) for each in chains),
    ]


ZARRAY = {
    "zarr_format": 2, "shape": [10], "chunks": [10], "dtype": "|u1", "order": "C", "compressor": None, "filters": None,
    "fill_value": 0,
}  # fmt: skip


def _refs(more: dict[str, Any]) -> dict[str, Any]:
    return {".zgroup": '{"zarr_format": 2}', "x/.zarray": json.dumps(ZARRAY), **more}


Documents = dict[str, bytes]  # documents by name below a folder


def _json_v0(name: str, saved: Any) -> Documents:
    return {"d.json": json.dumps(_refs({"x/0": [name, 0, 10]})).encode()}


def _json_whole(name: str, saved: Any) -> Documents:
    return {"d.json": json.dumps({"version": 1, "refs": _refs({"x/0": [name]})}).encode()}


def _json_template(name: str, saved: Any) -> Documents:
    refs = _refs({"x/0": ["{{u}}", 0, 10]})
    return {"d.json": json.dumps({"version": 1, "templates": {"u": name}, "refs": refs}).encode()}


def _json_generated(name: str, saved: Any) -> Documents:
    rule = {"key": "x/{{i}}", "url": "{{a}}" + name[1:], "dimensions": {"i": [0], "a": [name[:1]]}}
    return {"d.json": json.dumps({"version": 1, "refs": _refs({}), "gen": [rule]}).encode()}


def _parquet(name: str, saved: Any) -> Documents:
    import pyarrow as pa
    import pyarrow.parquet as pq

    metadata = {".zgroup": {"zarr_format": 2}, "x/.zarray": ZARRAY}
    sink = io.BytesIO()
    pq.write_table(pa.table({"path": [name], "offset": [0], "size": [10]}), sink)
    document = json.dumps({"metadata": metadata, "record_size": 1}).encode()
    return {"d.parq/.zmetadata": document, "d.parq/x/refs.0.parq": sink.getvalue()}


def _edited(saved: bytes, edit: Callable[[dict[str, Any]], None]) -> bytes:
    line, newline, rest = saved.partition(b"\n")
    document = json.loads(line)
    edit(document)
    return json.dumps(document).encode() + newline + rest


def _manifest_name(name: str, saved: Any) -> Documents:
    return {"d.json": _edited(saved["references"], lambda to: to.update(objects=[{"name": name}]))}


def _manifest_path(name: str, saved: Any) -> Documents:
    objects = [{"name": "n", "path": name, "stamp": None}]
    return {"d.json": _edited(saved["references"], lambda to: to.update(objects=objects))}


def _shards_root(name: str, saved: Any) -> Documents:
    root = name.replace("/canary.bin", "").replace("%2Fcanary.bin", "")
    return {"d.json": json.dumps({**saved["shards"], "root": root}).encode()}


def _shards_key(name: str, saved: Any) -> Documents:
    shards = [{**saved["shards"]["shards"][0], "key": name}]
    return {"d.json": json.dumps({**saved["shards"], "root": ".", "shards": shards}).encode()}


def _tables(name: str, saved: Any) -> Documents:
    def edit(to: dict[str, Any]) -> None:
        to["shards"]["files"] = [name]
        to["tables"] = [[to["tables"][0][0], saved["stamp"], None]]

    return {"d.json": _edited(saved["tables"], edit)}


def _arrays(name: str, saved: Any) -> Documents:
    return {"d.json": _edited(saved["arrays"], lambda to: to["shards"][0].update(path=name))}


def _hdf5(write: Callable[[Any], None]) -> Documents:
    h5py = pytest.importorskip("h5py")
    sink = io.BytesIO()
    with h5py.File(sink, "w") as file:
        write(file)
    return {"d.h5": sink.getvalue()}


def _hdf5_virtual(name: str, saved: Any) -> Documents:
    def write(file: Any) -> None:
        import h5py

        layout = h5py.VirtualLayout((10,), "u1")
        layout[:] = h5py.VirtualSource(name.replace("%", "%%"), "x", (10,))  # "%b" is a number
        file.create_virtual_dataset("x", layout)

    return _hdf5(write)


def _hdf5_external(name: str, saved: Any) -> Documents:
    return _hdf5(lambda file: file.create_dataset("x", (10,), "u1", external=[(name, 0, 10)]))


def _hdf5_link(name: str, saved: Any) -> Documents:
    def write(file: Any) -> None:
        import h5py

        file["x"] = h5py.ExternalLink(name, "x")

    return _hdf5(write)


KINDS = [
    _json_v0, _json_whole, _json_template, _json_generated, _parquet, _manifest_name, _manifest_path, _shards_root,
    _shards_key, _tables, _arrays, _hdf5_virtual, _hdf5_external, _hdf5_link,
]  # fmt: skip
HDF5 = [_hdf5_virtual, _hdf5_external, _hdf5_link]


def _key(kind: Callable[..., Documents]) -> str:
    return "d.parq" if kind is _parquet else "d.h5" if kind in HDF5 else "d.json"


@pytest.fixture
def canary(tmp_path: Path) -> Iterator[Canary]:
    made = Canary(tmp_path)
    yield made
    made.close()


@pytest.fixture
def saved(tmp_path: Path, canary: Canary) -> dict[str, Any]:
    """A manifest of each kind, as the library writes it, with the canary's size and modification time."""
    pytest.importorskip("pyarrow")
    folder = tmp_path / "saved"
    folder.mkdir()
    values = np.zeros(10, "u1")
    (folder / "r.json").write_text(json.dumps(_refs({"x/0": ["b.bin", 0, 10]})))
    (folder / "b.bin").write_bytes(bytes(10))
    ps.save_manifest(ps.open(folder / "r.json", "x"), folder / "references")
    ps.save_shards(values, folder / "s_{}.npy", rows=10)
    ps.save_manifest(ps.open_shards(folder / "s_*.npy"), folder / "shards.json")
    ps.save_shards(values, folder / "t_{}.parquet", rows=10, manifest="tables")
    ps.save_shards(values, folder / "z_{}.zarr", rows=10, manifest="arrays")
    made = {name: (folder / name).read_bytes() for name in ("references", "tables", "arrays")}
    shards = json.loads((folder / "shards.json").read_bytes())
    shards["shards"] = [{"key": "canary.bin", "length": 10, "offset": 0}]
    status = canary.path.stat()
    return {**made, "shards": shards, "stamp": [status.st_size, status.st_mtime_ns]}


def _read(target: str, **options: Any) -> bytes:
    """The bytes of the array that a document refers to; empty if it is refused."""
    try:
        found = ps.open(target, **options)
        return bytes(np.asarray(found["x"][...] if isinstance(found, ps.Group) else found[...]))
    except (ps.Error, OSError) as error:
        return b"" if SECRET not in str(error).encode() else SECRET


@pytest.fixture
def server(canary: Canary) -> Iterator[HttpServer]:
    def redirect(request: Request, reply: Reply) -> None:
        if request.path.startswith("/redirect"):
            scheme = "local" if request.path.endswith("local") else "file"
            reply.status, reply.headers["Location"] = 302, f"{scheme}://{canary.path}"

    second = _refs({"x/0": [f"file://{canary.path}", 0, 10], "x": [str(canary.path)], "0": [f"file://{canary.path}"]})
    with HttpServer({"second.json": json.dumps(second).encode()}) as made:
        made.script = redirect
        yield made


@pytest.mark.parametrize("origin", ["http", "memory", "simplecache"])
@pytest.mark.parametrize("kind", KINDS, ids=lambda each: each.__name__.strip("_"))
def test_a_remote_document_reads_no_local_file(canary, saved, server, kind, origin):
    import fsspec

    names = spellings(canary, server.url)
    assert len(set(names)) >= 130
    memory = fsspec.filesystem("memory")
    if origin != "http":
        names = names[:: 2 if origin == "memory" else 7]
    found = []
    for number, name in enumerate(names):
        for key, document in kind(name, saved).items():
            server.put(f"/{number}/{key}", document)
            memory.pipe(f"/canary/{number}/{key}", document)
        key = _key(kind)
        base = {"http": server.url, "memory": "memory://canary", "simplecache": f"simplecache::{server.url}"}[origin]
        canary.reads()
        if _read(f"{base}/{number}/{key}") == SECRET or canary.reads():
            found.append(name)
    memory.rm("/canary", recursive=True)
    assert not found


@pytest.mark.parametrize("kind", HDF5, ids=lambda each: each.__name__.strip("_"))
def test_a_local_hdf5_file_names_local_files_and_a_remote_one_never(canary, saved, server, tmp_path, kind):
    (document,) = kind(str(canary.path), saved).values()
    (tmp_path / "d.h5").write_bytes(document)
    server.put("d.h5", document)
    canary.reads()
    assert (_read(str(tmp_path / "d.h5")) == SECRET) == (kind is _hdf5_external)  # the others expect an HDF5 file
    assert canary.reads()
    assert _read(f"{server.url}/d.h5", allow_local=True) == b""
    assert not canary.reads()


@pytest.mark.parametrize(
    "kind", [each for each in KINDS if each not in HDF5], ids=lambda each: each.__name__.strip("_")
)
def test_a_local_document_and_an_allowed_one_read_local_files(canary, saved, server, tmp_path, kind):
    for key, document in kind(str(canary.path), saved).items():
        path = tmp_path / "documents" / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(document)
        server.put(key, document)
    key = "d.parq" if kind is _parquet else "d.json"
    local = str(tmp_path / "documents" / key)
    canary.reads()
    is_chunk = kind not in (_manifest_name, _shards_key, _tables, _arrays)  # of other formats, or without a file
    assert (_read(local) == SECRET) == is_chunk
    assert bool(canary.reads()) == (kind not in (_manifest_name, _shards_key, _arrays))
    if is_chunk:
        assert _read(f"{server.url}/{key}", allow_local=True) == SECRET
    _read(local, allow_local=False)
    canary.reads()
    assert _read(local, allow_local=False) == b""
    assert not canary.reads()


@pytest.mark.parametrize("scheme", ["file", "FILE", "local", "ftp", "gopher", "dict", "scp", "data"])
def test_a_redirect_leads_to_http_only(canary, scheme):
    def redirect(request: Request, reply: Reply) -> None:
        reply.status, reply.headers["Location"] = 302, f"{scheme}://{canary.path}"

    with HttpServer({}) as server:
        server.script = redirect
        for name in ("d.json", "x.npy", "x.h5", "x.zarr", "x.tif"):
            with pytest.raises((ps.Error, OSError)):
                ps.open(f"{server.url}/{name}")
    assert not canary.reads()


def test_references_in_a_dict_are_trusted(canary):
    refs = _refs({"x/0": [str(canary.path), 0, 10]})
    assert _read("reference://", storage_options={"fo": refs}) == SECRET
    assert canary.reads()
    assert _read("reference://", storage_options={"fo": refs}, allow_local=False) == b""
    assert not canary.reads()


def test_documents_as_bytes_are_refused_by_name(canary, saved):
    for document in (_json_v0(str(canary.path), None)["d.json"], saved["references"]):
        for target in (document, io.BytesIO(document)):
            with pytest.raises(ps.UnsupportedError, match="not opened from bytes"):
                ps.open(target)
    assert not canary.reads()


def test_refusals_name_the_file_and_the_remedy(canary, server):
    server.put("d.json", _json_v0(f"simplecache::file://{canary.path}", None)["d.json"])
    with pytest.raises(ps.UnsupportedError, match=r"names 'simplecache::file:.*canary\.bin'.*allow_local=True"):
        ps.open(f"{server.url}/d.json", "x")
    with pytest.raises(ps.InvalidArgumentError, match="allow_local"):
        ps.open(f"{server.url}/d.json", "x", allow_local="yes")


def test_the_program_needs_a_flag(canary, server):
    server.put("d.json", _json_v0(str(canary.path), None)["d.json"])
    url = f"{server.url}/d.json"
    refused = subprocess.run([*program(), "info", url], capture_output=True, text=True, check=False)
    assert "--allow-local" in refused.stdout
    assert not canary.reads()
    assert "allow" not in run("info", url, "--allow-local").stdout
