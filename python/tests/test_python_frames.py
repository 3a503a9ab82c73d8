"""Reads of remote and local files do not run Python: no Python function is called for a chunk or a request."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, MutableMapping
from pathlib import Path
from types import CodeType
from typing import Any

import numpy as np
import penstock as ps
import pytest
from support import http_server
from support.http_server import HttpServer

h5py = pytest.importorskip("h5py")
monitoring = getattr(sys, "monitoring", None)
pytestmark = pytest.mark.skipif(monitoring is None, reason="sys.monitoring, which sees all threads, is of Python 3.12")

TOOL = 4
VALUES = np.arange(64 * 50, dtype="i4").reshape(64, 50)


def calls_of(work: Callable[[], Any]) -> list[str]:
    """The Python functions that `work` starts, on any thread, except those of a server in this process."""
    seen: list[tuple[int, CodeType]] = []
    events = monitoring.events
    monitoring.use_tool_id(TOOL, "penstock's tests")
    try:
        monitoring.register_callback(
            TOOL, events.PY_START, lambda code, offset: seen.append((threading.get_ident(), code))
        )
        monitoring.set_events(TOOL, events.PY_START)
        work()
    finally:
        monitoring.set_events(TOOL, 0)
        monitoring.register_callback(TOOL, events.PY_START, None)
        monitoring.free_tool_id(TOOL)
    serves = {thread for thread, code in seen if code.co_filename == http_server.__file__}
    return [
        f"{Path(code.co_filename).parent.name}/{Path(code.co_filename).name}:{code.co_qualname}"
        for thread, code in seen
        if thread not in serves and code.co_filename != __file__
    ]


def check(array: Any) -> None:
    assert calls_of(lambda: array[0:64, 0:50]) == []
    np.testing.assert_array_equal(array[...], VALUES)
    assert calls_of(lambda: array[1:2, 0:50]) == []


@pytest.fixture
def content(tmp_path: Path) -> bytes:
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("v", data=VALUES, chunks=(1, 50), compression="gzip")
    return path.read_bytes()


def test_reads_of_a_local_file(tmp_path: Path, content: bytes) -> None:
    check(ps.open(tmp_path / "x.h5", "v"))


def test_reads_over_http(content: bytes) -> None:
    with HttpServer({"x.h5": content}) as server:
        check(ps.open(f"{server.url}/x.h5", "v"))
        requests = len(server.requests)
        assert requests >= 2


def test_reads_of_references_over_http(tmp_path: Path, content: bytes) -> None:
    with HttpServer({"x.h5": content}) as server:
        ps.save_references(ps.open(f"{server.url}/x.h5"), tmp_path / "x.json")
        before = len(server.requests)
        check(ps.open(tmp_path / "x.json", "v"))
        assert len(server.requests) > before


def test_reads_of_a_manifest_over_http(tmp_path: Path, content: bytes) -> None:
    with HttpServer({"x.h5": content}) as server:
        ps.save_manifest(ps.open(f"{server.url}/x.h5"), tmp_path / "x.manifest")
        check(ps.open(tmp_path / "x.manifest", "v"))


class Store(MutableMapping[str, Any]):
    """A store in Python."""

    def __init__(self) -> None:
        self.content: dict[str, Any] = {}

    def __getitem__(self, key: str) -> Any:
        return self.content[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self.content[key] = value

    def __delitem__(self, key: str) -> None:
        del self.content[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.content)

    def __len__(self) -> int:
        return len(self.content)


def test_functions_on_other_threads_are_counted() -> None:
    """A store in Python runs functions for each chunk."""
    store = Store()
    ps.create_array(store, data=VALUES, chunks=(1, 50))
    opened = ps.open(store, context=ps.Context(threads=2))
    assert len(calls_of(lambda: opened[...])) >= 64
