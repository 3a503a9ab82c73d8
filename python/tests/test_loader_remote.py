"""Loaders of arrays in remote stores request chunks before there is memory for their elements."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator

import numpy as np
import penstock as ps
import pytest
from support.http_server import HttpServer

CHUNK_BYTES = 4 * 4 * 250  # four samples


def served(values: np.ndarray, server: HttpServer, **options: object) -> ps.Array:
    objects: dict[str, bytes] = {}
    ps.create_array(objects, data=values, chunks=(4, *values.shape[1:]), **options)
    for key, value in objects.items():
        server.put("a/" + key, value)
    return ps.open_array(server.url + "/a")


@pytest.fixture
def server() -> Iterator[HttpServer]:
    with HttpServer() as made:
        yield made


def numbered(samples: int, compressible: bool) -> np.ndarray:
    values = np.zeros((samples, 250), "f4")
    if not compressible:
        values[:] = np.random.default_rng(0).standard_normal(values.shape)
    values[:, 0] = np.arange(samples)
    return values


def test_more_requests_are_in_flight_than_decoded_chunks_fit_into_memory(server: HttpServer) -> None:
    values = numbered(400, compressible=True)
    a = served(values, server, codecs=["zstd"])
    loader = ps.loader(a, batch_size=4, window=16 * CHUNK_BYTES)  # ten chunks of it are read ahead
    server.latency = 0.1
    server.forget()
    got = np.concatenate([batch.numpy() for batch in loader])
    np.testing.assert_array_equal(got[np.argsort(got[:, 0])], values)
    requests = Counter(each.path for each in server.requests)
    assert len(requests) == 100
    assert set(requests.values()) == {1}
    in_wave = Counter(each.wave for each in server.requests)
    # At first all memory is free.
    assert max(count for wave, count in in_wave.items() if wave > 2) > 12, in_wave
    assert loader.counts()["peak_window_bytes"] <= 11 * CHUNK_BYTES  # the other part is for encoded bytes
    assert loader.counts()["chunks_again"] == 0


def test_incompressible_chunks_are_counted_as_they_are(server: HttpServer) -> None:
    values = numbered(200, compressible=False)
    a = served(values, server, codecs=["zstd"])
    loader = ps.loader(a, batch_size=4, window=16 * CHUNK_BYTES)
    server.latency = 0.1
    server.forget()
    got = np.concatenate([batch.numpy() for batch in loader])
    np.testing.assert_array_equal(got[np.argsort(got[:, 0])], values)
    assert max(Counter(each.wave for each in server.requests).values()) <= 16


@pytest.mark.parametrize("codecs", [[], ["zstd"]], ids=["raw", "zstd"])
@pytest.mark.parametrize("shards", [None, (32, 250)], ids=["chunks", "shards"])
def test_values_are_those_of_the_array(server: HttpServer, codecs: list[str], shards: tuple[int, int] | None) -> None:
    values = numbered(203, compressible=False)
    values[64:96] = 0  # chunks that are not stored
    a = served(values, server, codecs=codecs, shards=shards)
    labels = ps.create_array({}, data=np.arange(203), chunks=50)
    loader = ps.loader({"x": a, "y": labels}, batch_size=5, window=24 * CHUNK_BYTES)
    for _ in range(2):
        seen = 0
        for batch in loader:
            rows = batch["y"].numpy()
            np.testing.assert_array_equal(batch["x"].numpy(), values[rows])
            seen += len(rows)
        assert seen == 203


def test_chunks_that_all_fit_are_read_in_the_first_epoch_only(server: HttpServer) -> None:
    values = numbered(100, compressible=True)
    loader = ps.loader(served(values, server), batch_size=10, window=values.nbytes)
    assert sum(len(batch) for batch in loader) == 100
    server.forget()
    assert sum(len(batch) for batch in loader) == 100
    assert loader.counts()["chunks_read"] == 0
    assert not server.requests


@pytest.mark.parametrize("kind", ["damaged", "unreachable"])
def test_errors_name_the_chunk(server: HttpServer, kind: str) -> None:
    a = served(numbered(400, compressible=False), server, codecs=["zstd"])
    if kind == "damaged":
        server.put("a/c/41/0", b"not what zstd wrote")
    else:

        def refuse(request, reply) -> None:  # type: ignore[no-untyped-def]
            if request.path == "/a/c/41/0":
                reply.status, reply.body = 403, b""

        server.script = refuse
    loader = ps.loader(a, batch_size=4, window=16 * CHUNK_BYTES)
    with pytest.raises(ps.Error, match="c/41/0"):
        list(loader)
    server.script = None
    server.put("a/c/41/0", server.objects["/a/c/40/0"])
    assert sum(len(batch) for batch in loader) == 400


@pytest.mark.parametrize("batches", [0, 1, 7])
def test_an_iteration_that_ends_early_leaves_nothing_behind(server: HttpServer, batches: int) -> None:
    a = served(numbered(400, compressible=True), server, codecs=["zstd"])
    server.latency = 0.02
    for _ in range(3):
        loader = ps.loader(a, batch_size=4, window=16 * CHUNK_BYTES)
        iteration = iter(loader)
        for _ in range(batches):
            next(iteration)
        del iteration
        assert sum(len(batch) for batch in loader) == 400
    del loader
    names = [each.name for each in threading.enumerate()]
    assert not [name for name in names if "loader" in name]
