"""Zarr over HTTP, from a test server that can be slow or wrong."""

from __future__ import annotations

import json
import multiprocessing
import os
import socket
import threading
import time

import numpy as np
import penstock as ps
import pytest
import zarr
from conftest import as_bytes, same, sharded, write
from support.http_server import ROUND_TRIP, HttpServer, Reply, Request

VALUES = np.arange(64 * 64, dtype="f4").reshape(64, 64)
SHARDED = write(VALUES, (32, 32), sharded((8, 8)))
PLAIN = write(VALUES, (16, 16))
LONG_VALUES = np.arange(512 * 512, dtype="f4").reshape(512, 512)
LONG = write(LONG_VALUES, (256, 256), sharded((64, 64)))
"""Its shards are longer than what is read whole for a part of it."""
PART = np.s_[:, 130:400]
"""Of all four shards of LONG, half or three quarters of the chunks."""


def below(prefix: str, files: dict[str, bytes]) -> dict[str, bytes]:
    return {f"{prefix}/{key}": value for key, value in files.items()}


@pytest.fixture
def server():
    arrays = {"data/sharded.zarr": SHARDED, "data/plain.zarr": PLAIN, "data/long.zarr": LONG}
    with HttpServer({key: value for at, files in arrays.items() for key, value in below(at, files).items()}) as running:
        yield running


def test_a_cold_sharded_read_takes_two_round_trips(server):
    server.latency = ROUND_TRIP
    a = ps.open(f"{server.url}/data/long.zarr")
    assert server.waves == 1  # only zarr.json
    server.forget()
    assert same(a[PART], LONG_VALUES[PART])
    assert server.waves == 2
    assert len(server.requests) == 8  # the indexes of four shards, then each shard's chunks in one request
    server.forget()
    assert same(a[3:5, 2:60], LONG_VALUES[3:5, 2:60])
    assert server.waves == 1  # the indexes are cached
    assert len(server.requests) == 1


def test_whole_shards_take_one_round_trip(server):
    """A whole shard is fetched with its index; so is a short shard, for any selection."""
    server.latency = ROUND_TRIP
    a = ps.open(f"{server.url}/data/long.zarr")
    server.forget()
    assert same(a[...], LONG_VALUES)
    assert server.waves == 1
    assert len(server.requests) == 4
    assert not any("range" in each.headers for each in server.requests)
    server.forget()
    assert same(a[PART], LONG_VALUES[PART])
    assert server.waves == 1  # from the cached indexes
    assert all(each.headers["range"].startswith("bytes=") for each in server.requests)
    a = ps.open(f"{server.url}/data/sharded.zarr")
    server.forget()
    assert same(a[3:5, 2:60], VALUES[3:5, 2:60])
    assert server.waves == 1
    assert len(server.requests) == 2


def test_whole_shards_and_parts_of_others_are_read_together(server):
    server.latency = ROUND_TRIP
    a = ps.open(f"{server.url}/data/long.zarr")
    server.forget()
    assert same(a[200:512, 0:256], LONG_VALUES[200:512, 0:256])
    assert server.waves == 2  # the second shard, and the index of the first
    assert len(server.requests) == 3


def test_two_levels_of_shards_take_one_more_round_trip(server):
    values = np.arange(512 * 512, dtype="i4").reshape(512, 512)
    inner = sharded((32, 32))
    for key, value in write(values, (512, 512), sharded((256, 256), inner)).items():
        server.put(f"nested/{key}", value)
    server.latency = ROUND_TRIP
    a = ps.open(f"{server.url}/nested")
    server.forget()
    assert same(a[:, :400], values[:, :400])
    assert server.waves == 3
    a = ps.open(f"{server.url}/nested")
    server.forget()
    assert same(a[...], values)
    assert server.waves == 1


def test_absent_chunks_and_shards_of_whole_reads_are_the_fill_value(server):
    values = LONG_VALUES.copy()
    values[:256, :256] = 7
    values[300:400, 300:400] = 7
    for key, value in write(values, (256, 256), sharded((64, 64)), fill_value=7).items():
        server.put(f"holes/{key}", value)
    a = ps.open(f"{server.url}/holes")
    server.forget()
    assert same(a[...], values)
    assert len(server.requests) == 4
    assert [each.path for each in server.requests if each.path not in server.objects] == ["/holes/c/0/0"]


def test_shards_with_many_replaced_chunks_are_read_by_their_index(server):
    """A shard that is longer than the limit of its chunks is not fetched whole, and a truncated one is named."""
    key = "/data/long.zarr/c/1/1"
    whole = server.objects[key]
    server.put(key, whole[: -16 * 16 - 4].ljust(4 << 20, b"x") + whole[-16 * 16 - 4 :])
    a = ps.open(f"{server.url}/data/long.zarr")
    assert same(a[...], LONG_VALUES)
    server.put(key, whole[:-1])
    with pytest.raises(ps.CorruptDataError, match=r"c/1/1', last 260 bytes"):
        ps.open(f"{server.url}/data/long.zarr")[...]


def test_an_unsharded_read_takes_one_round_trip(server):
    server.latency = ROUND_TRIP
    a = ps.open(f"{server.url}/data/plain.zarr")
    server.forget()
    assert same(a[...], VALUES)
    assert server.waves == 1
    assert len(server.requests) == 16


def test_version_2_opens_in_two_round_trips(server):
    """zarr.json is requested first, then all documents that version 2 may have, together."""
    files = {}
    group = zarr.create_group(zarr.storage.MemoryStore(files), zarr_format=2)
    group.create_array("x", data=VALUES, chunks=(16, 16))
    zarr.consolidate_metadata(group.store)
    for key, value in files.items():
        server.put(f"old/{key}", value.to_bytes())
    server.latency = ROUND_TRIP
    opened = ps.open(f"{server.url}/old")
    assert server.waves == 2
    assert opened.consolidated
    x = opened["x"]
    assert server.waves == 2
    assert same(x[...], VALUES)
    server.forget()
    assert ps.open(f"{server.url}/old/x").shape == VALUES.shape
    assert server.waves == 2


def test_connections_are_kept_and_shared_by_the_arrays_of_a_context(server):
    with ps.Context(io_concurrency=4):
        for _ in range(5):
            a = ps.open(f"{server.url}/data/plain.zarr")
            assert same(a[...], VALUES)
    assert server.connections <= 4


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_groups_open_over_http_with_and_without_consolidated_metadata(server, zarr_format):
    store = zarr.storage.MemoryStore({})
    root = zarr.create_group(store, zarr_format=zarr_format, attributes={"title": "x"})
    for name in ("a", "b"):
        root.create_array(name, data=VALUES, chunks=(16, 16))
    for key, value in as_bytes(store).items():
        server.put(f"bare/{key}", value)
    group = ps.open(f"{server.url}/bare")
    assert group.attrs["title"] == "x"
    assert same(group["b"][...], VALUES)
    with pytest.raises(ps.UnsupportedError, match="cannot list its keys"):
        group.keys()
    zarr.consolidate_metadata(store)
    for key, value in as_bytes(store).items():
        server.put(f"whole/{key}", value)
    server.forget()
    group = ps.open(f"{server.url}/whole/")
    assert sorted(group.keys()) == ["a", "b"]
    opened = len(server.requests)
    a = group["a"]
    assert len(server.requests) == opened  # it was in the consolidated metadata
    assert same(a[...], VALUES)


def test_missing_chunks_are_the_fill_value_and_refused_ones_are_not(server):
    a = ps.open(f"{server.url}/data/plain.zarr")
    del server.objects["/data/plain.zarr/c/1/2"]
    assert a[20, 40] == 0
    assert a[20, 20] == VALUES[20, 20]

    def deny(request: Request, reply: Reply) -> None:
        if request.path.endswith("c/1/1"):
            reply.status = 403

    server.script = deny
    with pytest.raises(PermissionError, match="c/1/1"):
        a[20, 20]
    assert a[0, 0] == VALUES[0, 0]


@pytest.mark.parametrize("status", [429, 500, 503])
def test_requests_are_repeated_when_a_server_fails(server, status):
    seen: set[tuple[str, str | None]] = set()

    def fail_once(request: Request, reply: Reply) -> None:
        key = (request.path, request.headers.get("range"))
        if key not in seen:
            seen.add(key)
            reply.status = status
            reply.headers["Retry-After"] = "0"

    server.script = fail_once
    assert same(ps.open(f"{server.url}/data/sharded.zarr")[...], VALUES)


def test_resets_and_truncation_never_reach_the_values(server):
    turn = 0

    def break_off(request: Request, reply: Reply) -> None:
        nonlocal turn
        turn += 1
        if turn % 3 == 0:
            reply.reset = True
        elif turn % 3 == 1 and len(reply.body) > 1:
            reply.cut_after = len(reply.body) // 2

    server.script = break_off
    a = ps.open(f"{server.url}/data/sharded.zarr", storage_options={"retries": 20})
    for _ in range(3):
        assert same(a[...], VALUES)


def test_requests_that_keep_failing_are_named(server):
    a = ps.open(f"{server.url}/data/plain.zarr", storage_options={"retries": 1})

    def refuse(_: Request, reply: Reply) -> None:
        reply.reset = True

    server.script = refuse
    with pytest.raises(
        ps.StorageError, match=r"after 2 attempts\n  chunk \(1, 2\)\n  reading 'plain.zarr/c/1/2', all\n"
    ):
        a[20, 40]


def test_an_answer_that_is_not_http_is_an_error_of_the_server():
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def greet() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(b"SSH-2.0-x\r\n")

        threading.Thread(target=greet, daemon=True).start()
        with pytest.raises(ps.StorageError, match=r"HTTP/0\.9"):
            ps.open(f"http://127.0.0.1:{listening.getsockname()[1]}/x.zarr", storage_options={"retries": 0})


def test_a_server_that_ignores_ranges_is_read_right_or_refused(server):
    def whole(request: Request, reply: Reply) -> None:
        if reply.status == 206:
            reply.status, reply.body = 200, server.objects[request.path]
            del reply.headers["Content-Range"]

    server.script = whole
    assert same(ps.open(f"{server.url}/data/sharded.zarr")[...], VALUES)
    big = np.random.default_rng(1).random((8, 1 << 17))
    for key, value in write(big, big.shape, sharded((1, 1 << 17))).items():
        server.put(f"big/{key}", value)
    a = ps.open(f"{server.url}/big")
    with pytest.raises(ps.UnsupportedError, match="the server ignores byte ranges"):
        a[...]


def test_a_rewrite_during_a_read_is_never_mixed(server):
    other = -LONG_VALUES
    after = write(other, (256, 256), sharded((64, 64)))
    a = ps.open(f"{server.url}/data/long.zarr")
    changed = threading.Event()

    def rewrite(request: Request, reply: Reply) -> None:
        # Once, between the requests for the indexes and those for the chunks.
        if request.headers.get("range", "").startswith("bytes=-") or changed.is_set():
            return
        changed.set()
        server.objects.update({f"/data/long.zarr/{key}": value for key, value in after.items()})
        reply.__dict__.update(server.answer(request).__dict__)

    server.script = rewrite
    got = a[PART]
    assert changed.is_set()
    for i in range(0, 512, 256):
        for j in (slice(0, 126), slice(126, 270)):
            block = np.s_[i : i + 256, j]
            assert same(got[block], LONG_VALUES[PART][block]) or same(got[block], other[PART][block])
    assert same(a[...], other)


def test_an_object_that_keeps_changing_is_a_conflict(server):
    a = ps.open(f"{server.url}/data/long.zarr")

    def change(request: Request, reply: Reply) -> None:
        reply.headers["ETag"] = f'"{request.number}"'
        if "if-match" in request.headers:
            reply.status = 412

    server.script = change
    with pytest.raises(ps.ConflictError, match="kept changing"):
        a[PART]


def test_without_versions_the_index_is_requested_each_time(server):
    def forget(_: Request, reply: Reply) -> None:
        reply.headers.pop("ETag", None)

    server.script = forget
    server.latency = ROUND_TRIP
    a = ps.open(f"{server.url}/data/long.zarr")
    for _ in range(2):
        server.forget()
        assert same(a[PART], LONG_VALUES[PART])
        assert len(server.requests) == 8
        assert server.waves == 2


def test_options_become_headers(server):
    options = {"headers": {"X-Test": "1"}, "token": "t", "timeout": 5, "connect_timeout": 2.5, "retries": 0}
    ps.open(f"{server.url}/data/plain.zarr", storage_options=options)
    assert server.requests[0].headers["x-test"] == "1"
    assert server.requests[0].headers["authorization"] == "Bearer t"
    for bad in ({"timeout": 0}, {"headers": {"a": "b\r\nc: d"}}, {"retries": -1}, {"token": 3}):
        with pytest.raises(ps.InvalidArgumentError, match=next(iter(bad))):
            ps.open(f"{server.url}/data/plain.zarr", storage_options=bad)


def test_passwords_come_from_a_netrc_file(server, tmp_path):
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login me password secret\n")
    ps.open(f"{server.url}/data/plain.zarr", storage_options={"netrc": netrc})
    assert server.requests[0].headers["authorization"] == "Basic bWU6c2VjcmV0"


def test_slow_servers_time_out(server):
    a = ps.open(f"{server.url}/data/plain.zarr", storage_options={"timeout": 1, "retries": 0})
    server.latency = 5
    with pytest.raises(TimeoutError):
        a[0, 0]


def test_a_cancelled_read_ends_at_once(server):
    a = ps.open(f"{server.url}/data/plain.zarr")
    server.latency = 5
    begin = time.perf_counter()
    job = a.read_async()
    time.sleep(0.1)
    job.cancel()
    with pytest.raises(ps.CancelledError):
        job.wait()
    assert time.perf_counter() - begin < 3


def test_invalid_urls_are_penstock_errors():
    for uri in ("http://[::1/x.zarr", "http://", "http://host:99999/x.zarr", "http://host/a b.zarr"):
        with pytest.raises(ps.Error):
            ps.open(uri)


def test_pickled_arrays_open_again_with_their_options(server):
    import pickle

    a = ps.open(f"{server.url}/data/plain.zarr", storage_options={"headers": {"X-Test": "1"}})
    data = pickle.dumps(a)
    server.forget()
    assert same(pickle.loads(data)[...], VALUES)
    assert all(each.headers["x-test"] == "1" for each in server.requests)


def _read_in_child(array: ps.Array, to: object) -> None:
    to.put(same(array[...], VALUES))  # type: ignore[attr-defined]


def test_a_forked_child_has_its_own_connections(server):
    a = ps.open(f"{server.url}/data/sharded.zarr")
    assert same(a[...], VALUES)
    fork = multiprocessing.get_context("fork")
    answers = fork.Queue()
    children = [fork.Process(target=_read_in_child, args=(a, answers)) for _ in range(3)]
    for child in children:
        child.start()
    assert same(a[...], VALUES)
    assert all(answers.get(timeout=30) for _ in children)
    for child in children:
        child.join(30)
        assert child.exitcode == 0
    assert same(a[...], VALUES)


def test_memory_is_bounded_whatever_the_server_claims(server):
    def boast(request: Request, reply: Reply) -> None:
        if "c/" in request.path:
            reply.length = str(1 << 50)

    a = ps.open(f"{server.url}/data/plain.zarr", storage_options={"retries": 0})
    server.script = boast
    with pytest.raises(ps.CorruptDataError, match=r"the object is \d+ bytes"):
        a[0, 0]


def test_names_are_encoded_and_stay_below_the_root(server):
    for key, value in PLAIN.items():
        server.put(f"da ta/ä%/x.zarr/{key}", value)
    assert same(ps.open(f"{server.url}/da%20ta/%C3%A4%25/x.zarr")[...], VALUES)
    with pytest.raises(ps.InvalidArgumentError):
        ps.open(f"{server.url}/data/plain.zarr", "../plain.zarr")


def test_the_program_reads_urls(server):
    import subprocess
    import sys

    environment = {**os.environ, "NO_PROXY": "127.0.0.1"}
    command = [sys.executable, "-m", "penstock", "info", "--json", f"{server.url}/data/plain.zarr"]
    out = subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout
    assert json.loads(out)["shape"] == [64, 64]
