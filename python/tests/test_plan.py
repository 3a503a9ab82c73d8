"""`Array.plan`: a text with numbers."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest


@pytest.fixture
def array(tmp_path: Path) -> ps.Array:
    values = np.arange(400 * 600, dtype="f8").reshape(400, 600)
    return ps.create_array(tmp_path / "a.zarr", data=values, chunks=(100, 60), codecs=[{"name": "bytes"}])


def test_attributes_equal_the_numbers_in_the_text(array: ps.Array) -> None:
    plan = array.plan(np.s_[:10, :90])
    assert isinstance(plan, ps.Plan)
    assert isinstance(plan, str)
    assert "2 of 40 cells" in plan
    assert repr(plan) == str(plan)
    assert plan.requests == 2
    assert plan.chunks_touched == 2
    assert plan.touched == ((0, 0), (0, 1))
    assert plan.returned_bytes == 10 * 90 * 8
    assert plan.decoded_bytes >= plan.returned_bytes
    assert plan.amplification == plan.decoded_bytes / plan.returned_bytes
    assert plan.complete
    assert plan.fetched_bytes <= 2 * 100 * 60 * 8
    assert pickle.loads(pickle.dumps(plan)) == str(plan)
    assert array.plan(np.s_[:0]).amplification == 1
    assert array.plan(np.s_[[1, 5], 3]).chunks_touched == 1
    assert "selects 1 point\n" in array.plan(ps.vindex[[1], [3]])
    assert array.plan(array[...] > 1e9).chunks_touched == 0
    with pytest.raises(ps.OutOfRangeError, match="it has no fields"):
        array.plan("x")


def test_fetched_bytes_equal_those_of_a_read(tmp_path: Path) -> None:
    values = np.random.default_rng(0).integers(0, 50, (200, 300)).astype("i4")
    for shards in (None, (100, 120)):
        a = ps.create_array(tmp_path / f"{shards}.zarr", data=values, chunks=(50, 60), shards=shards)
        for selection in (np.s_[...], np.s_[10:20], np.s_[:, 70], np.s_[60:130, 100:299:3]):
            plan = a.plan(selection)
            context = ps.Context(chunk_cache=0)
            with ps.profile(context=context) as profile:
                ps.open_array(tmp_path / f"{shards}.zarr", context=context)[selection]
            index = next((s["bytes_in"] for s in profile.report["stages"] if s["what"] == "index"), 0)
            assert plan.fetched_bytes <= profile.report["store_bytes"] - index + 1
            assert plan.fetched_bytes > 0


def test_advice_names_better_chunks(tmp_path: Path) -> None:
    shape = (64, 256, 256)
    maps = ps.create_array(tmp_path / "maps.zarr", data=np.ones(shape, "f4"), chunks=(1, 256, 256))
    plan = maps.plan(np.s_[:, 7, 9])
    assert plan.amplification == 256 * 256
    assert plan.advise().startswith("This reads 0.0015 % of each of 64 chunks, and decodes all of them.")
    command = plan.advise().rpartition("--chunks ")[2]
    chunks = tuple(map(int, command.split(",")))
    assert chunks[0] == 64
    assert chunks[0] * chunks[1] * chunks[2] <= 256 * 256
    better = ps.rechunk(maps, tmp_path / "series.zarr", chunks)
    assert better.plan(np.s_[:, 7, 9]).decoded_bytes * 32 <= plan.decoded_bytes
    assert maps.plan(np.s_[3]).advise().startswith("Nothing to improve")
    many = ps.create_array(tmp_path / "many.zarr", data=np.arange(200 * 10.0).reshape(200, 10), chunks=(1, 10))
    assert "200 requests return" in many.plan().advise()


def test_advice_counts_only_requests_whose_sizes_are_known() -> None:
    made: dict[str, bytes] = {}
    values = np.random.default_rng(0).integers(0, 256, (150, 100_000), "u1")
    array = ps.create_array(made, data=values, chunks=(1, 100_000))
    assert array.plan().advise().startswith("Nothing to improve")

    class Sizeless(ps.Store):
        def get(self, key: str) -> bytes | None:
            return made.get(key)

    plan = ps.open_array(Sizeless()).plan()
    assert (plan.requests, plan.fetched_bytes) == (150, 0)
    assert plan.advise().startswith("Nothing to improve")
    absent = ps.create_array({}, shape=(150, 8), dtype="f4", chunks=(1, 8)).plan()
    assert "0 bytes each" not in absent.advise()


# By the text of the selection of whole chunks: it, and one that has elements of the same chunks.
SELECTIONS: dict[str, tuple[Any, Any]] = {
    "[:, 200:300, :64]": (np.s_[:, 200:300, :64], np.s_[:, 210, 3]),
    "[50:100, 100:200, :64]": (np.s_[50:100, 100:200, :64], np.s_[60:90, 150, -123]),
    "[50:100, :200, 64:128]": (np.s_[50:100, :200, 64:128], np.s_[90:55:-5, ..., 5:195:90, 120]),
    "[:100, 300:, 64:128]": (np.s_[:100, 300:, 64:128], np.s_[::30, 301, 70]),
    "[:]": (np.s_[:], np.s_[::50, ::100, ::64]),
}


@pytest.mark.parametrize(("whole", "selections"), SELECTIONS.items(), ids=SELECTIONS)
def test_advice_names_the_selection_of_whole_chunks(whole: str, selections: tuple[Any, Any]) -> None:
    a = ps.create_array({}, data=np.ones((120, 350, 130), "f8"), chunks=(50, 100, 64))
    same, plan = map(a.plan, selections)
    assert f" Read {whole} once, " in plan.advise()
    assert (same.touched, same.decoded_bytes) == (plan.touched, plan.decoded_bytes)
    assert same.advise().startswith("Nothing to improve")


def test_advice_counts_the_elements_of_chunks_at_the_edge(tmp_path: Path) -> None:
    a = ps.create_array({}, data=np.ones((10, 20), "f4"), chunks=(1000, 1000))
    assert " Read [:] once, which decodes the same chunks and returns all of their elements (800 B)" in (
        a.plan(np.s_[0]).advise()
    )
    assert " once, " not in a.plan().advise(), "it is that selection"
    assert a.plan(np.s_[0]).advise().endswith(': ps.rechunk(a, "NEW.zarr", (10, 20))')
    b = ps.create_array(tmp_path / "a b.zarr", data=np.ones((10, 20), "f4"), chunks=(1000, 1000))
    assert f"penstock rechunk '{b.uri}' NEW.zarr --chunks 10,20" in b.plan(np.s_[0]).advise()


def test_advice_names_no_selection_where_no_box_has_these_chunks() -> None:
    a = ps.create_array({}, data=np.ones((400, 10000), "f8"), chunks=(10, 10000))
    advice = a.plan(np.s_[::30, 3]).advise()  # every third chunk
    assert advice.startswith("This reads 0.001 % of each of 14 chunks")
    assert " once, " not in advice
    assert " once, " not in a.plan(ps.oindex[[3, 300], [5]]).advise()
    ragged = ps.create_array({}, data=np.ones((400, 10000), "f8"), chunks=([100, 300], 10000))
    assert " once, " not in ragged.plan(np.s_[:, 3]).advise()


def test_notebooks_show_the_touched_chunks(array: ps.Array) -> None:
    shown = array.plan(np.s_[:10, :90])._repr_html_()
    assert shown.count("#1f6feb") == 2
    assert shown.count("<rect") == 40
    large = ps.create_array({}, shape=(10**6, 10**6, 3), dtype="u1", chunks=(10, 10, 1))
    shown = large.plan(np.s_[5, :100])._repr_html_()
    assert shown.count("<rect") == 48 * 48
    assert len(shown) < 1 << 20
    for hostile in (array.plan(np.s_[0, 0]), ps.create_array({}, shape=(), dtype="f4").plan()):
        assert "<script" not in hostile._repr_html_()


def test_names_are_escaped(tmp_path: Path) -> None:
    a = ps.create_array(tmp_path / "<script>.zarr", data=np.ones((4, 4)))
    assert "<script" not in a.plan()._repr_html_()
