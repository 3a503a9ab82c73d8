"""The cache of remote byte ranges in a folder: what this process and others request from the server."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import numpy as np
import penstock as ps
import pytest
from conftest import same, sharded, write
from support.http_server import HttpServer

VALUES = np.random.default_rng(7).integers(0, 1000, (256, 256)).astype("i4")
ARRAYS = {"plain": write(VALUES, (64, 64)), "sharded": write(VALUES, (128, 128), sharded((32, 32)))}
PART = np.s_[100:200, 10:250]


@pytest.fixture(params=ARRAYS)
def array(request):
    return request.param


@pytest.fixture
def server():
    files = {f"{name}/{key}": value for name, each in ARRAYS.items() for key, value in each.items()}
    with HttpServer(files) as running:
        yield running


def read(url: str, folder: Path, selection=np.s_[...], **options) -> np.ndarray:
    return ps.open(url, context=ps.Context(disk_cache=folder, **options))[selection]


def requests(server: HttpServer) -> list[str]:
    """The methods of the requests since the last call."""
    methods = [each.method for each in server.requests]
    server.forget()
    return methods


def in_another_process(program: str, *arguments: object) -> subprocess.Popen:
    return subprocess.Popen([sys.executable, "-c", program, *map(str, arguments)], text=True, stdout=subprocess.PIPE)


def test_a_second_pass_only_requests_versions(server, tmp_path, array):
    url = f"{server.url}/{array}"
    assert same(read(url, tmp_path), VALUES)
    assert requests(server).count("HEAD") == 0
    assert same(read(url, tmp_path), VALUES)
    seen = requests(server)
    assert seen
    assert set(seen) == {"HEAD"}
    assert same(read(url, tmp_path, PART), VALUES[PART])
    assert set(requests(server)) == {"HEAD"}
    program = (
        "import sys, penstock as ps; print(ps.open(sys.argv[1], context=ps.Context(disk_cache=sys.argv[2]))[...].sum())"
    )
    with in_another_process(program, url, tmp_path) as other:
        assert int(other.communicate()[0]) == VALUES.sum()
    assert set(requests(server)) == {"HEAD"}


def test_a_trusted_second_pass_requests_nothing(server, tmp_path):
    hole = dict(ARRAYS["plain"])
    del hole["c/1/1"]
    for key, value in hole.items():
        server.put(f"hole/{key}", value)
    expected = VALUES.copy()
    expected[64:128, 64:128] = 0

    def read_both() -> None:
        assert same(read(f"{server.url}/hole", tmp_path, disk_cache_trust=60), expected)
        assert same(read(f"{server.url}/sharded", tmp_path, disk_cache_trust=60), VALUES)

    read_both()
    assert requests(server)
    read_both()
    assert requests(server) == []
    assert same(read(f"{server.url}/hole", tmp_path), expected)  # all versions; the absent one by GET
    assert requests(server).count("GET") == 1


def test_trust_ends(server, tmp_path):
    url = f"{server.url}/plain"
    context = ps.Context(disk_cache=tmp_path, disk_cache_trust=0.3)
    assert same(ps.open(url, context=context)[...], VALUES)
    threading.Event().wait(0.35)
    requests(server)
    assert same(ps.open(url, context=context)[...], VALUES)
    assert set(requests(server)) == {"HEAD"}
    assert same(ps.open(url, context=context)[...], VALUES)
    assert requests(server) == []


def test_objects_that_changed_are_fetched_again(server, tmp_path, array):
    url = f"{server.url}/{array}"
    context = ps.Context(disk_cache=tmp_path, chunk_cache=0)
    opened = ps.open(url, context=context)
    assert same(opened[...], VALUES)
    new = {"plain": write(VALUES + 1, (64, 64)), "sharded": write(VALUES + 1, (128, 128), sharded((32, 32)))}[array]
    for key, value in new.items():
        server.put(f"{array}/{key}", value)
    assert same(opened[...], VALUES + 1)
    assert same(read(url, tmp_path), VALUES + 1)
    requests(server)
    assert same(read(url, tmp_path, PART), (VALUES + 1)[PART])
    assert set(requests(server)) == {"HEAD"}
    for key in new:
        if key != "zarr.json":
            del server.objects[f"/{array}/{key}"]
    assert same(opened[...], np.zeros_like(VALUES))


def test_eight_processes_fetch_each_range_once(server, tmp_path):
    program = """
import sys, penstock as ps
context = ps.Context(threads=2, disk_cache=sys.argv[1])
print(sum(int(ps.open(url, context=context)[...].sum()) for url in sys.argv[2:]))
"""
    server.script = lambda request, reply: setattr(reply, "delay", 0.05 if request.method == "GET" else 0)
    urls = [f"{server.url}/{array}" for array in ARRAYS]
    started = [in_another_process(program, tmp_path, *urls) for _ in range(8)]
    for each in started:
        with each:
            assert int(each.communicate()[0]) == VALUES.sum() * len(urls)
    fetched = [(each.path, each.headers.get("range")) for each in server.requests if each.method == "GET"]
    assert sorted(fetched) == sorted(set(fetched))
    assert {path for path, _ in fetched} == {f"/{array}/{key}" for array, files in ARRAYS.items() for key in files}


def test_flipped_bytes_are_fetched_again(server, tmp_path):
    url = f"{server.url}/sharded"
    read(url, tmp_path)
    files = [each for each in tmp_path.iterdir() if each.suffix in (".ranges", ".records")]
    rng = np.random.default_rng(1)
    assert {each.suffix for each in files} == {".ranges", ".records"}
    damaged = 0
    for _ in range(30):
        file = files[rng.integers(len(files))]
        whole = bytearray(file.read_bytes())
        whole[rng.integers(len(whole))] ^= 1 << int(rng.integers(8))
        file.write_bytes(whole)
        context = ps.Context(disk_cache=tmp_path, disk_cache_trust=1000)
        assert same(ps.open(url, context=context)[...], VALUES)
        damaged += context.usage()["disk_cache_damaged"]
        files = [each for each in tmp_path.iterdir() if each.suffix in (".ranges", ".records")]
    assert damaged > 0


def test_every_flipped_byte_is_fetched_again(server, tmp_path):
    buffer = io.BytesIO()
    np.save(buffer, VALUES[0, :5])
    server.put("x.npy", buffer.getvalue())

    def read_npy(folder: Path) -> int:
        """The number of requests for bytes."""
        server.forget()
        context = ps.Context(threads=1, disk_cache=folder, disk_cache_trust=1000)
        assert same(ps.open(f"{server.url}/x.npy", context=context)[...], VALUES[0, :5])
        return requests(server).count("GET")

    assert read_npy(tmp_path / "whole") > 0
    assert read_npy(tmp_path / "whole") == 0
    files = {each.name: each.read_bytes() for each in (tmp_path / "whole").iterdir()}
    assert {Path(name).suffix for name, value in files.items() if value} == {".ranges", ".records"}
    for name, value in files.items():
        for at in range(len(value)):
            folder = tmp_path / f"{at}{Path(name).suffix}"
            folder.mkdir()
            for other, whole in files.items():
                (folder / other).write_bytes(whole)
            damaged = bytearray(value)
            damaged[at] ^= 1 << at % 8
            (folder / name).write_bytes(damaged)
            assert read_npy(folder) > 0, (name, at)
            shutil.rmtree(folder)


def test_files_stay_below_the_limit(server, tmp_path):
    values = np.random.default_rng(3).integers(0, 255, (4 << 20,), dtype="u1")
    for key, value in write(values, (64 << 10,)).items():
        server.put(f"long/{key}", value)
    context = ps.Context(disk_cache=tmp_path, disk_cache_limit="2MiB")
    a = ps.open(f"{server.url}/long", context=context)
    for _ in range(3):
        assert same(a[...], values)
        assert sum(each.stat().st_size for each in tmp_path.iterdir()) <= 2 << 20
    assert context.usage()["disk_cache_bytes"] > 1 << 20
    last = np.s_[-(64 << 10) :]
    assert same(a[last], values[last])
    requests(server)
    assert same(read(f"{server.url}/long", tmp_path, last, disk_cache_limit="2MiB"), values[last])
    assert requests(server)[-1] == "HEAD"


def test_a_folder_that_cannot_be_used_is_a_single_warning(server, tmp_path):
    in_the_way = tmp_path / "file"
    in_the_way.write_text("no folder")
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        a = ps.open(f"{server.url}/plain", context=ps.Context(disk_cache=in_the_way))
        for _ in range(3):
            assert same(a[...], VALUES)
    assert [each.category for each in seen] == [RuntimeWarning]
    assert "disk cache" in str(seen[0].message)
    with pytest.raises(ValueError, match="limit"):
        ps.Context(disk_cache=tmp_path, disk_cache_limit=1000)
    with pytest.raises(ValueError, match="trust"):
        ps.Context(disk_cache=tmp_path, disk_cache_trust=-1)


def test_a_full_disk_is_one_warning(server, tmp_path):
    """A limit on the size of files has the effect of a full disk."""
    program = """
import resource, signal, sys, warnings, penstock as ps
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (40000, 40000))
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    context = ps.Context(disk_cache=sys.argv[2])
    a = ps.open(sys.argv[1], context=context)
    sums = {int(a[...].sum()) for _ in range(3)}
assert len(sums) == 1
assert len(seen) == 1 and "disk cache" in str(seen[0].message), seen
print(sums.pop())
"""
    with in_another_process(program, f"{server.url}/plain", tmp_path) as other:
        assert int(other.communicate()[0]) == VALUES.sum()


def test_forked_children_have_a_cache_of_their_own(server, tmp_path):
    context = ps.Context(disk_cache=tmp_path)
    a = ps.open(f"{server.url}/plain", context=context)
    assert same(a[:64], VALUES[:64])
    requests(server)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        os._exit(0 if same(a[...], VALUES) else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert requests(server).count("GET") == 12
    assert same(a[...], VALUES)
    assert requests(server).count("GET") == 0


def test_other_formats_are_served_too(server, tmp_path):
    scene = Path(__file__).parents[2] / "examples" / "scene.tif"
    server.put("scene.tif", scene.read_bytes())
    expected = ps.open(scene)[...]
    url = f"{server.url}/scene.tif"
    assert same(read(url, tmp_path), expected)
    requests(server)
    assert same(read(url, tmp_path), expected)
    asked = [(each.method, each.path) for each in server.requests]
    assert {method for method, path in asked if path == "/scene.tif"} == {"HEAD"}
    assert [path for method, path in asked if method == "GET" and path in server.objects] == []
    requests(server)
    read(url, tmp_path, disk_cache_trust=100)
    requests(server)
    assert same(read(url, tmp_path, disk_cache_trust=100), expected)
    assert requests(server) == []
