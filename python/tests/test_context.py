"""Contexts and profiles."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import zipfile
from collections import UserDict

import numpy as np
import penstock as ps
import pytest
from conftest import sharded, write
from support.http_server import HttpServer

VALUES = np.arange(40_000, dtype="<i4").reshape(200, 200)


def test_with_makes_a_context_current_in_its_block_only():
    default = ps.current_context()
    outer, inner = ps.Context(threads=1), ps.Context(threads=2)
    seen = []
    with outer:
        assert ps.current_context() is outer
        with inner, outer:
            assert ps.current_context() is outer
        thread = threading.Thread(target=lambda: seen.append(ps.current_context()))
        thread.start()
        thread.join()
        assert ps.current_context() is outer
    assert ps.current_context() is default
    # The default of Python without a GIL: https://docs.python.org/3.14/library/threading.html
    inherits = getattr(sys.flags, "thread_inherit_context", 0)
    assert seen[0] is (outer if inherits else default)


def test_a_context_has_the_requested_threads():
    assert ps.Context(threads=3).threads == 3
    assert ps.Context().threads >= 1
    assert repr(ps.Context(threads=3)) == "<penstock.Context threads=3>"


@pytest.mark.parametrize("threads", [np.int64(2), 2**40])
def test_threads_of_one_call_are_any_whole_number(threads):
    a = ps.create_array({}, data=np.ones((4, 3)), chunks=(2, 2))
    assert a.read(threads=threads).sum() == ps.copy(a, {}, chunks=(1, 1), threads=threads)[...].sum() == 12
    a.appender(threads=threads).close()
    for wrong in (0, 2.0, "2"):
        with pytest.raises(ps.InvalidArgumentError, match="threads must be"):
            ps.copy(a, {}, threads=wrong)


def test_too_many_threads_are_refused():
    for threads in (1025, 2**32):
        with pytest.raises(ps.InvalidArgumentError, match="at most 1024 threads"):
            ps.Context(threads=threads)
    assert ps.Context(io_concurrency=2**32)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system has no affinity of processes")
def test_a_context_has_one_thread_for_each_processor_that_the_process_may_use():
    code = """if True:
        import os
        import penstock as ps

        allowed = os.sched_getaffinity(0)
        print(ps.Context().threads <= len(allowed))
        os.sched_setaffinity(0, {min(allowed)})
        print(ps.Context().threads)
    """
    env = {name: value for name, value in os.environ.items() if name != "PENSTOCK_THREADS"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == ["True", "1"]


def test_indexes_are_cached_once_and_cleared_on_demand(context):
    store = write(VALUES, (200, 200), sharded((10, 10)))
    array = ps.open(store)
    for row in range(50):
        array[row]
    usage = context.usage()
    assert usage["index_misses"] == 1
    assert usage["index_hits"] >= 49
    assert usage["index_bytes"] > 0
    context.clear()
    assert context.usage()["index_bytes"] == 0
    np.testing.assert_array_equal(array[...], VALUES)


def test_a_memory_limit_that_is_too_small_is_explained():
    array = ps.open(write(VALUES, (200, 200)), context=ps.Context(threads=1, memory_limit=1000))
    with pytest.raises(MemoryError) as caught:
        array[::2]
    assert isinstance(caught.value, ps.ResourceExhaustedError)


def test_a_profile_counts_every_byte_and_shows_it(context, tmp_path):
    array = ps.open(write(VALUES, (100, 100), sharded((50, 50))))
    with ps.profile() as p:
        array[...]
        array[:3]
    assert p.report["reads"] == 2
    stages = {stage["what"]: stage for stage in p.report["stages"]}
    assert stages["decode"]["operations"] == 16 + 4
    assert stages["decode"]["bytes_out"] == 20 * 50 * 50 * 4
    assert p.report["store_requests"] > 0
    assert p.report["wall_ns"] > 0
    table = p.table()
    for word in ("Read", "Decode", "Scatter", "Total", "GB/s", "2 reads"):
        assert word in table
    p.ceilings = {"decode": 1e9, "pread": 1e9, "memcpy": 1e9}
    assert "%" in p.table()
    rows = {row["name"]: row for row in p.rows()}
    assert rows["Total"]["effective"] > 0
    assert rows["Decode"]["fraction"] == pytest.approx(rows["Decode"]["effective"] / 1e9)

    assert "Encode" not in rows

    p.save(tmp_path / "p.json")
    saved = json.loads((tmp_path / "p.json").read_text())
    assert saved["ceilings"]["decode"] == 1e9
    assert len(saved["events"]) == len(p.report["events"]) > 0
    p.save(str(tmp_path / "p.html"))
    page = (tmp_path / "p.html").read_text()
    assert page.count("<rect") >= len(p.report["events"])
    assert "http" not in page.replace("http://www.w3.org", "")
    assert "decode" in page
    with pytest.raises(ps.InvalidArgumentError, match=r"as \.json, \.html or \.png, not as 'p\.txt'"):
        p.save(tmp_path / "p.txt")


def test_a_profile_as_a_picture(context, tmp_path, monkeypatch):
    array = ps.open(write(VALUES, (100, 100), sharded((50, 50))))
    with ps.profile() as p:
        array[...]
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "matplotlib.figure", None)
        with pytest.raises(ps.UnsupportedError, match=r"\.png needs the package matplotlib"):
            p.save(tmp_path / "p.png")
    assert not (tmp_path / "p.png").exists()
    pytest.importorskip("matplotlib")
    p.save(tmp_path / "p.png")
    made = (tmp_path / "p.png").read_bytes()
    assert made.startswith(b"\x89PNG")
    assert int.from_bytes(made[16:20], "big") == 11 * 160
    p.save(tmp_path / "p.svg")
    assert "<svg" in (tmp_path / "p.svg").read_text()


def test_a_profile_of_a_write_shows_encoding_and_storing(context, tmp_path):
    array = ps.create_array(
        tmp_path / "w.zarr", shape=(100, 100), dtype="float32", chunks=(50, 50), shards=(100, 100), codecs="zstd"
    )
    with ps.profile() as p:
        array[...] = VALUES[:100, :100]
        array[:50, :50] = 3  # a part of a shard: its other chunks are read first
    assert (p.report["reads"], p.report["writes"]) == (0, 2)
    stages = {stage["what"]: stage for stage in p.report["stages"]}
    assert stages["encode"]["operations"] == 4 + 1
    assert stages["encode"]["bytes_in"] == 5 * 50 * 50 * 4
    assert stages["commit"]["operations"] == 2
    size = next(path for path in (tmp_path / "w.zarr" / "c").rglob("*") if path.is_file()).stat().st_size
    first = stages["commit"]["bytes_out"] - size
    assert stages["fetch"]["bytes_in"] == p.report["store_bytes"] == first > size
    rows = {row["name"]: row for row in p.rows()}
    assert rows["Write"]["raw"] > 0
    assert rows["Encode"]["effective"] > rows["Total"]["effective"] > 0
    assert "2 writes" in p.table()
    p.save(tmp_path / "p.html")
    assert "commit" in (tmp_path / "p.html").read_text()


def test_a_context_has_only_one_profile_at_a_time(context):
    with ps.profile(), pytest.raises(ps.ConflictError), ps.profile():
        pass
    with ps.profile() as p:
        pass
    assert p.report["reads"] == 0
    assert "0 reads" in p.table()


def test_a_profile_that_has_not_ended_has_no_table(context):
    p = ps.profile()
    with pytest.raises(ps.InvalidArgumentError):
        p.table()


def test_a_profile_may_measure_the_machine(context):
    array = ps.open(write(VALUES, (100, 100)))
    with ps.profile(ceiling=True) as p:
        array[:, ::2]
    assert p.ceilings["memcpy"] > 1e8
    assert "memcpy" in p.table()


def test_a_plan_queries_the_sizes_of_a_bounded_number_of_objects(tmp_path):
    a = ps.create_array(tmp_path / "a.zarr", shape=(2 * 10**9,), dtype="u1", chunks=(1000,))

    def unknown(selection: slice) -> int:
        found = re.search(r"\((\d+) of unknown size\)", str(a.plan(selection)))
        return int(found[1]) if found else 0

    assert unknown(np.s_[: 10**7]) == 0  # 10,000 chunks
    assert 900_000 < unknown(np.s_[: 10**9]) < 960_000  # all chunks are counted, and the sizes of some are requested
    assert unknown(np.s_[:]) >= 10**6  # the plan counts some of the chunks, and requests no sizes


def test_a_plan_sums_the_bytes_of_whole_objects(tmp_path):
    made = write(VALUES, (50, 100))
    del made["c/3/1"]
    for key, value in made.items():
        (tmp_path / "folder" / key).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "folder" / key).write_bytes(value)
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        for key, value in made.items():
            archive.writestr(key, value)
    chunks = {key: len(value) for key, value in made.items() if key.startswith("c/")}
    assert len(chunks) == 7
    with HttpServer({f"x/{key}": value for key, value in made.items()}) as server:
        for where in (made, tmp_path / "folder", tmp_path / "x.zip", f"{server.url}/x"):
            array = ps.open(where)
            assert f"8 requests, {sum(chunks.values())} bytes, 8 of them whole objects" in array.plan()
            upper = sum(size for key, size in chunks.items() if key.startswith("c/0"))
            assert f"2 requests, {upper} bytes, 2 of them whole objects" in array.plan(np.s_[:50])
    assert "8 of them whole objects (8 of unknown size)" in ps.open(Sizeless(made)).plan()


class Sizeless(UserDict):
    """A mapping without sizes: the length of a value is only known after it is read."""


def test_a_plan_is_text():
    array = ps.open(write(VALUES, (100, 100), sharded((50, 50))))
    text = array.plan(np.s_[:50, :50])
    assert isinstance(text, str)
    assert "c/0/0" in text
    assert len(array.plan().splitlines()) > len(array.plan(max_lines=1).splitlines())
    with pytest.raises(IndexError):
        array.plan(200)


@pytest.mark.parametrize("encoder", ["gpu", 3])
def test_other_encoders_are_refused(encoder):
    array = ps.create_array({}, data=VALUES)
    message = f"encoder must be 'auto', 'host' or 'device', got '{encoder}'"
    for call in (
        lambda: ps.Context(encoder=encoder),
        lambda: array.write(..., VALUES, encoder=encoder),
        lambda: array.write_async(..., VALUES, encoder=encoder),
    ):
        with pytest.raises(ps.InvalidArgumentError, match=message):
            call()
