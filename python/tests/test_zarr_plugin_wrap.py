"""`wrap`: zarr-python's arrays without its event loop; results, dtypes and exceptions equal zarr-python's own."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import pickle
import threading
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import penstock.zarr as pz
import pytest
import zarr
from conftest import matrix
from zarr.codecs import ZstdCodec
from zarr.core.buffer import cpu, default_buffer_prototype
from zarr.storage import LocalStore, MemoryStore, WrapperStore

if not hasattr(zarr.core.codec_pipeline, "FusedCodecPipeline"):
    pytest.skip("needs the synchronous pipeline of zarr-python 3.4", allow_module_level=True)

VALUES = np.random.default_rng(11).normal(size=(53, 41))


def pair(store: Any, **options: Any) -> tuple[Any, Any]:
    """An array of zarr-python, and the same array through `wrap`."""
    theirs = zarr.create_array(store, shape=VALUES.shape, chunks=(10, 10), dtype="f8", overwrite=True, **options)
    theirs[...] = VALUES
    return theirs, pz.wrap(theirs)


def outcome(call: Any) -> Any:
    try:
        return call()
    except Exception as error:
        return type(error), str(error)


def same(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray | np.generic):
        flags = isinstance(a, np.generic) or (a.flags.c_contiguous == b.flags.c_contiguous)
        return type(a) is type(b) and a.dtype == b.dtype and a.shape == b.shape and flags and a.tobytes() == b.tobytes()
    return bool(a == b)


KEYS: list[Any] = [
    ...,
    (),
    3,
    -1,
    53,
    (2, 3),
    (2, 3, 4),
    (..., 3),
    (2, ...),
    (..., ...),
    (2, 3, ...),
    slice(3, 40, 7),
    slice(None, None, -1),
    slice(5, 2),
    (slice(None), 40),
    (slice(None), 41),
    (slice(1, 9, 0), 1),
    None,
    True,
    1.5,
    "x",
    np.int64(3),
    np.array(3),
    [1, 2],
    ([1, 2], [3, 4]),
    ([1, 2], slice(3, 5)),
    VALUES > 1,
    np.array([True] * 53),
    (slice(-100, 100), slice(7, 8)),
]


@matrix
@pytest.mark.parametrize("shards", [None, (20, 20)])
@pytest.mark.parametrize("key", KEYS, ids=lambda key: type(key).__name__ if isinstance(key, np.ndarray) else str(key))
def test_brackets_return_what_zarr_python_returns(key, shards):
    theirs, ours = pair(MemoryStore(), shards=shards)
    assert same(outcome(lambda: ours[key]), outcome(lambda: theirs[key]))


@pytest.mark.parametrize(
    ("method", "selection"),
    [
        ("get_basic_selection", 3),
        ("get_basic_selection", (2, 3)),
        ("get_basic_selection", (slice(1, 30, 4), -1)),
        ("get_orthogonal_selection", ([1, 5, 5], slice(3, 8))),
        ("get_orthogonal_selection", (7, [1, 2])),
        ("get_orthogonal_selection", ([60], [1])),
        ("get_coordinate_selection", ([1, 5], [3, 8])),
        ("get_coordinate_selection", ([1, 500], [3, 8])),
        ("get_mask_selection", VALUES > 0.5),
        ("get_mask_selection", [True]),
        ("get_block_selection", (1, slice(0, 2))),
        ("get_block_selection", 9),
    ],
)
def test_methods_return_what_zarr_python_returns(method, selection):
    theirs, ours = pair(MemoryStore())
    assert same(outcome(lambda: getattr(ours, method)(selection)), outcome(lambda: getattr(theirs, method)(selection)))


@pytest.mark.parametrize("shards", [None, (20, 20)])
@pytest.mark.parametrize("kind", ["memory", "local", "sync"])
def test_writes_store_what_zarr_python_stores(tmp_path, kind, shards):
    stores = {
        "memory": MemoryStore,
        "local": lambda: LocalStore(tmp_path),
        "sync": lambda: WrapperStore(MemoryStore()),
    }
    _, ours = pair(stores[kind](), shards=shards)
    theirs, _ = pair(MemoryStore(), shards=shards)
    changes: list[Any] = [
        lambda a: a.__setitem__((slice(3, 9), 4), 7.5),
        lambda a: a.__setitem__(slice(2, 40, 3), np.arange(41.0)),
        lambda a: a.__setitem__(([1, 2], [3, 4]), [5, 6]),
        lambda a: a.set_orthogonal_selection(([1, 9], slice(None)), 2),
        lambda a: a.set_coordinate_selection(([1, 50], [3, 40]), [8, 9]),
        lambda a: a.set_mask_selection(VALUES > 1, 0),
        lambda a: a.set_block_selection((1, 1), -3),
        lambda a: a.__setitem__(..., np.zeros((3, 3))),
        lambda a: a.__setitem__(99, 1),
        lambda a: a.__setitem__(..., 0),
    ]
    for change in changes:
        got, want = (outcome(lambda a=a, change=change: change(a)) for a in (ours, theirs))
        # zarr-python's message has the inner chunk if it writes shards in parts.
        assert got == want or (shards is not None and got[0] is want[0])
        assert np.array_equal(ours[...], theirs[...])


@pytest.mark.parametrize("kind", ["memory", "local"])
def test_plain_writes_bypass_zarr_python(tmp_path, kind):
    _, ours = pair(MemoryStore() if kind == "memory" else LocalStore(tmp_path), shards=(20, 20))
    pz.stats(reset=True)
    ours[3:9, 4] = 7.5
    ours[...] = VALUES
    ours[2] = VALUES[0]
    assert pz.stats()["write"]["paths"] == {"array": 3}
    ours[1:3] = VALUES[:1]  # only some releases of zarr-python accept this shape
    want = VALUES.copy()
    want[2] = VALUES[0]
    want[1:3] = VALUES[:1]
    with zarr.config.set({"codec_pipeline.path": "zarr.core.codec_pipeline.BatchedCodecPipeline"}):
        assert np.array_equal(zarr.open_array(ours.store, mode="r")[...], want)


def test_a_read_only_array_refuses_as_zarr_python_does(tmp_path):
    pair(LocalStore(tmp_path))
    made = zarr.open_array(LocalStore(tmp_path, read_only=True), mode="r")
    want = outcome(lambda: made.__setitem__(3, 1))
    assert outcome(lambda: pz.wrap(made).__setitem__(3, 1)) == want


def test_other_buffers_out_and_fields_use_zarr_python():
    _, ours = pair(MemoryStore())
    prototype = default_buffer_prototype()
    out = prototype.nd_buffer.create(shape=(53,), dtype=np.dtype("f8"))
    ours.get_basic_selection((slice(None), 3), out=out)
    assert np.array_equal(out.as_numpy_array(), VALUES[:, 3])
    assert np.array_equal(ours.get_basic_selection(3, prototype=prototype), VALUES[3])
    fields = np.zeros(5, dtype=[("a", "i4"), ("b", "f8")])
    fields["a"] = np.arange(5)
    made = zarr.create_array(MemoryStore(), shape=(5,), chunks=(2,), dtype=fields.dtype)
    made[...] = fields
    wrapped = pz.wrap(made)
    assert same(outcome(lambda: wrapped["a"]), outcome(lambda: made["a"]))
    assert same(wrapped[1:3], made[1:3])
    of = [outcome(lambda a=a: a.get_basic_selection(slice(0, 3), fields="b")) for a in (wrapped, made)]
    assert same(*of)


@pytest.mark.parametrize("dtype", ["?", "i1", ">i4", "f2", "c16", "M8[s]", "S5", "U4"])
def test_every_dtype_equals_zarr_pythons(dtype):
    values = np.arange(20).astype("i8").astype(dtype)
    for zarr_format in (2, 3):
        made = zarr.create_array(MemoryStore(), shape=(20,), chunks=(6,), dtype=values.dtype, zarr_format=zarr_format)
        made[...] = values
        assert same(pz.wrap(made)[3:17:2], made[3:17:2])
        assert same(pz.wrap(made)[3], made[3])


STRUCTURES = [np.dtype([("a", f"{order}i2"), ("b", f"{order}f8")]) for order in "<>"]


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize(("stored", "out"), [("<f4", ">f4"), (">f4", "<f4"), (">f4", ">f4"), ("<c8", ">c8"),
                                             ("<M8[s]", ">M8[s]"), STRUCTURES])  # fmt: skip
def test_out_in_either_byte_order_receives_the_values(stored, out, wrapped):
    values = np.arange(35).astype("i8").astype("<f8" if isinstance(stored, np.dtype) else stored).reshape(5, 7)
    if isinstance(stored, np.dtype):
        values = np.rec.fromarrays([np.arange(35).reshape(5, 7), values], dtype=stored)
    made = zarr.create_array(MemoryStore(), shape=(5, 7), chunks=(2, 3), dtype=stored, zarr_format=2)
    made[...] = values
    with pz.enable():
        array = zarr.open_array(made.store, mode="r")
    array = pz.wrap(array) if wrapped else array
    for key in (..., (slice(1, 4), slice(0, 7, 2)), (2, slice(None)), slice(4, 5)):
        wanted = np.asarray(made[key])
        memory = np.zeros(wanted.shape, out)
        array.get_basic_selection(key, out=cpu.NDBuffer.from_numpy_array(memory))
        assert memory.tolist() == wanted.tolist()
        spread = np.zeros((*wanted.shape, 2), out)[..., 0]
        array.get_basic_selection(key, out=cpu.NDBuffer.from_numpy_array(spread))
        assert spread.tolist() == wanted.tolist()


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize(("dtype", "bits"), [("f2", ["7e01"]), ("f4", ["ffc00003"]), ("f8", ["fff8000000000000"]),
                                             ("c8", ["7fc00001", "ffc00000"])])  # fmt: skip
def test_a_nan_that_is_the_fill_value_has_its_bits(dtype, bits, zarr_format):
    fill = np.frombuffer(b"".join(bytes.fromhex(each)[::-1] for each in bits), f"<{dtype}")[0]
    options = {"shape": (5,), "chunks": (2,), "dtype": dtype, "fill_value": fill, "zarr_format": zarr_format}
    theirs = zarr.create_array(MemoryStore(), **options)
    with pz.enable():
        piped = zarr.create_array(MemoryStore(), **options)
    for array in (piped, pz.wrap(piped)):
        array[3] = theirs[3] = 1
        assert array[...].tobytes() == theirs[...].tobytes()
        assert array.oindex[[0, 3, 4]].tobytes() == theirs.oindex[[0, 3, 4]].tobytes()


def test_nans_among_the_fields_of_a_fill_value_have_their_bits():
    dtype = np.dtype([("a", "<f4"), ("b", "<i2")])
    fill = np.frombuffer(bytes.fromhex("0100c07f0700"), dtype)[0]
    made = zarr.create_array(MemoryStore(), shape=(3,), chunks=(2,), dtype=dtype, fill_value=fill)
    with pz.enable():
        piped = zarr.create_array(MemoryStore(), shape=(3,), chunks=(2,), dtype=dtype, fill_value=fill)
    assert made[...].tobytes() == fill.tobytes() * 3
    assert piped[...].tobytes() == pz.wrap(made)[...].tobytes() == fill.tobytes() * 3


def test_zero_dimensions_and_empty_arrays():
    scalar = zarr.create_array(MemoryStore(), shape=(), dtype="i4")
    scalar[...] = 5
    empty = zarr.create_array(MemoryStore(), shape=(0, 3), chunks=(1, 3), dtype="i4")
    for made, keys in ((scalar, [..., (), 0]), (empty, [..., slice(0, 0), 0, (slice(None), 1)])):
        for key in keys:
            assert same(outcome(lambda m=made, k=key: pz.wrap(m)[k]), outcome(lambda m=made, k=key: m[k]))


def test_missing_chunks_and_fortran_order_follow_the_config():
    made = zarr.create_array(MemoryStore(), shape=(4, 6), chunks=(2, 3), dtype="i4", fill_value=3)
    strict = pz.wrap(zarr.open_array(made.store, config={"read_missing_chunks": False}))
    with pytest.raises(zarr.errors.ChunkNotFoundError):
        strict[...]
    fortran = pz.wrap(zarr.open_array(made.store, config={"order": "F"}))
    assert fortran[...].flags.f_contiguous
    assert "selections, read: array" in str(pz.explain(fortran))


ORDERS: dict[str, dict[str, Any]] = {
    "Fortran order in memory": {"config": {"order": "F"}},
    "Fortran order, v2": {"zarr_format": 2, "order": "F"},
    "big-endian, v2": {"zarr_format": 2, "dtype": ">i4"},
    "big-endian and Fortran order, v2": {"zarr_format": 2, "dtype": ">i4", "order": "F"},
    "big-endian codec": {"serializer": zarr.codecs.BytesCodec(endian="big")},
    "text": {"dtype": str},
    "text, Fortran order": {"dtype": str, "config": {"order": "F"}},
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ORDERS)
def test_other_orders_and_text_bypass_zarr_python_both_ways(name, tmp_path):
    """Values, dtypes and layouts in memory equal zarr-python's; only what is requested so uses its code."""
    options = {"shape": (12, 10), "chunks": (5, 4), "dtype": "i4", **ORDERS[name]}
    made, held = (zarr.create_array(str(tmp_path / each), **options) for each in "ab")
    wrapped = pz.wrap(held)
    values = np.arange(120).reshape(12, 10)
    values = values.astype(made.metadata.dtype.to_native_dtype())
    pz.stats(reset=True)
    for array in (made, wrapped):
        array[...] = values
        array[2:7, ::3] = values[3:8, ::3]
        array[9] = values[0]
        array[4, 5] = "7" if "text" in name else 7
        array.set_orthogonal_selection(([1, 8], slice(2, 4)), values[:2, :2])
    assert pz.stats()["write"]["paths"] == {"array": 5}
    for key in (np.s_[...], np.s_[3:11, 1:9:2], np.s_[4], np.s_[:, 3], np.s_[4:5]):
        a, b = made[key], wrapped[key]
        assert a.dtype == b.dtype
        assert np.array_equal(a, b)
        assert (a.flags.c_contiguous, a.flags.f_contiguous) == (b.flags.c_contiguous, b.flags.f_contiguous)
    assert pz.stats()["read"]["paths"] == {"array": 5}
    assert made[4, 5] == wrapped[4, 5]
    assert type(made[4, 5]) is type(wrapped[4, 5])
    for kind, key in (("orthogonal", ([1, 8], slice(2, 9))), ("coordinate", ([1, 8], [2, 9])), ("block", (1, 2))):
        a, b = (getattr(array, f"get_{kind}_selection")(key) for array in (made, wrapped))
        assert a.dtype == b.dtype
        assert np.array_equal(a, b)
        assert (a.flags.c_contiguous, a.flags.f_contiguous) == (b.flags.c_contiguous, b.flags.f_contiguous)
    assert np.array_equal(made[...], zarr.open_array(str(tmp_path / "b"))[...])
    shown = str(pz.explain(wrapped))
    assert "selections, read: array" in shown
    assert "selections, written: array" in shown


@pytest.mark.parametrize(("shape", "key"), [((), 0), ((0, 3), 0), ((4, 3), 9)])
def test_text_outside_of_an_array_is_refused_as_zarr_python_does(shape, key):
    theirs = zarr.create_array({}, shape=shape, dtype="str", chunks=tuple(max(1, n) for n in shape))
    with pytest.raises(IndexError) as expected:
        theirs[key] = "x"
    with pytest.raises(IndexError) as found:
        pz.wrap(theirs)[key] = "x"
    assert type(found.value) is type(expected.value)


def test_it_stays_valid_when_the_array_changes():
    _, ours = pair(MemoryStore())
    ours.resize((60, 41))
    assert ours.shape == (60, 41)
    assert ours[55, 0] == 0
    ours.append(np.ones((2, 41)))
    assert ours[61].tolist() == [1.0] * 41
    ours.attrs["unit"] = "m"
    assert dict(ours.attrs) == {"unit": "m"}
    assert isinstance(ours.update_attributes({"a": 1}), pz.Array)
    assert np.array_equal(ours[:53], VALUES)


def test_no_event_loop_is_used(monkeypatch):
    _, ours = pair(MemoryStore(), compressors=ZstdCodec())

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("an event loop was asked for")

    monkeypatch.setattr("zarr.core.array.sync", refuse)
    monkeypatch.setattr(asyncio, "to_thread", refuse)
    assert np.array_equal(ours[3:20, 5], VALUES[3:20, 5])
    assert np.array_equal(ours.oindex[[1, 2], [3]], VALUES[[1, 2]][:, [3]])
    assert np.array_equal(ours.vindex[[1, 2], [3, 4]], VALUES[[1, 2], [3, 4]])
    assert np.array_equal(ours.blocks[0, 1], VALUES[:10, 10:20])
    ours[2:4] = 1
    ours.vindex[[1, 2], [3, 4]] = 5
    assert ours[2, 4] == 5


def test_inside_a_running_loop_in_threads_and_after_a_fork():
    _, ours = pair(MemoryStore())

    async def work() -> Any:
        return ours[3:5], ours.oindex[[1], [2]]

    assert np.array_equal(asyncio.run(work())[0], VALUES[3:5])
    wrong: list[int] = []

    def read(row: int) -> None:
        wrong.extend(row for _ in range(50) if not np.array_equal(ours[row], VALUES[row]))

    threads = [threading.Thread(target=read, args=(row,)) for row in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    if hasattr(os, "fork"):
        child = os.fork()
        if child == 0:
            os._exit(0 if np.array_equal(ours[...], VALUES) and ours.oindex[[1], [2]][0, 0] == VALUES[1, 2] else 1)
        assert os.waitpid(child, 0)[1] == 0


test_inside_a_running_loop_in_threads_and_after_a_fork = pytest.mark.filterwarnings(
    "ignore:This process.*multi-threaded:DeprecationWarning"
)(test_inside_a_running_loop_in_threads_and_after_a_fork)


def test_pickles_and_ps_open(tmp_path):
    _, ours = pair(LocalStore(tmp_path))
    again = pickle.loads(pickle.dumps(ours))
    assert isinstance(again, pz.Array)
    assert np.array_equal(again[...], VALUES)
    assert np.array_equal(ps.open(ours)[...], VALUES)


def test_a_device_in_the_position_of_bypass_is_refused():
    with pytest.raises(ps.InvalidArgumentError, match=r"bypass is True, False or None, not 'cuda'; .*device="):
        pz.enable("cuda")
    assert not pz.is_enabled()


def test_bypass_makes_zarr_open_return_it(tmp_path):
    original = zarr.open
    with pz.enable(bypass=True):
        group = zarr.open_group(str(tmp_path), mode="w")
        made = group.create_array("a", shape=(10,), chunks=(5,), dtype="i4")
        assert isinstance(group, pz.Group)
        made[:] = 3
        for opened in (
            zarr.open(str(tmp_path), path="a", mode="r"),
            zarr.open_array(str(tmp_path), path="a"),
            zarr.open_group(str(tmp_path))["a"],
            dict(zarr.open_group(str(tmp_path)).members())["a"],
            zarr.create_array({}, shape=(2,), dtype="i4"),
        ):
            assert type(opened) is pz.Array
    assert zarr.open is original
    assert type(zarr.open(str(tmp_path), path="a", mode="r")) is zarr.Array
    assert isinstance(pz.open_array(str(tmp_path), path="a"), pz.Array)
    assert isinstance(pz.open_group(str(tmp_path))["a"], pz.Array)


def test_enable_and_disable():
    before = zarr.config.get("codec_pipeline.path")
    with pz.enable(strict=True):
        assert zarr.config.get("codec_pipeline.path") == "penstock.zarr.CodecPipeline"
        made = zarr.create_array({}, shape=(4,), dtype="i4")
        made[:] = 1
        text = zarr.create_array({}, shape=(4,), dtype="i4", chunks=(2,), serializer=OddCodec())
        with pytest.raises(ps.UnsupportedError, match=r"strict.*OddCodec"):
            text[:] = 1
    assert zarr.config.get("codec_pipeline.path") == before
    pz.enable()
    pz.disable()
    assert zarr.config.get("codec_pipeline.path") == before
    if importlib.util.find_spec("cupy") is None:
        with pytest.raises(ps.UnsupportedError, match="CuPy"):
            pz.enable(device="cuda")
    with pytest.raises(ps.InvalidArgumentError):
        pz.enable(device="cuda:1")


class OddCodec(zarr.codecs.BytesCodec):
    """A codec of a user."""


def test_explain_gives_the_reason(tmp_path):
    theirs, ours = pair(LocalStore(tmp_path))
    assert "call penstock.zarr.enable()" in str(pz.explain(theirs))
    found = pz.explain(ours).to_dict()
    assert [way["path"] for way in found["ways"]] == ["array", "array", "native", "native"]
    assert "zstd" in found["codecs"]
    with pz.enable():
        odd = zarr.create_array({}, shape=(4,), dtype="i4", chunks=(2,), serializer=OddCodec())
        assert "OddCodec is not one of zarr-python's" in str(pz.explain(odd))
        pz.stats(reset=True)
        odd[:] = 3
        assert odd[1] == 3
    assert pz.stats()["write"] == {"paths": {"zarr": 1}, "reasons": {"codec OddCodec is not one of zarr-python's": 1}}


FANCY: list[Any] = [
    ("orthogonal", ([3, 1, 1, -1], slice(2, 30, 3)), True),
    ("orthogonal", (np.array([True, False] * 26 + [True]), [40, 0]), True),
    ("orthogonal", ([5, 2], 7), True),
    ("orthogonal", (..., [7, 3, 9]), True),
    ("orthogonal", (slice(None, None, -1), [1]), False),
    ("orthogonal", (np.array([0.5]), 1), False),
    ("orthogonal", (2, 3), False),
    ("coordinate", ([3, 1, -1], [2, 2, 0]), True),
    ("coordinate", (np.array([[1, 2], [30, 4]]), np.array([7, 8])), True),
    ("coordinate", (3, 4), True),
    ("coordinate", ([3, 1], [2, 2, 0]), False),
    ("mask", VALUES > 1, True),
    ("mask", (VALUES > 1)[:5], False),
    ("block", (1, slice(0, 2)), True),
    ("block", (slice(0, 2, 2), 0), False),
    ("block", slice(99, 100), False),
    ("block", slice(-99, 1), False),
]


@pytest.mark.parametrize("shards", [None, (20, 20)])
@pytest.mark.parametrize(("kind", "selection", "served"), FANCY)
def test_lists_points_masks_and_blocks_bypass_zarr_python(kind, selection, served, shards):
    theirs, ours = pair(MemoryStore(), shards=shards)
    pz.stats(reset=True)
    want = outcome(lambda: getattr(theirs, f"get_{kind}_selection")(selection))
    pz.stats(reset=True)
    assert same(outcome(lambda: getattr(ours, f"get_{kind}_selection")(selection)), want)
    assert ("array" in pz.stats().get("read", {"paths": {}})["paths"]) == served
    if not isinstance(want, np.ndarray):
        return
    other, wrapped = pair(MemoryStore(), shards=shards)
    for value in (7.25, np.full(want.shape, 3.5), np.ones(want.shape, "i4")):
        getattr(other, f"set_{kind}_selection")(selection, value)
        getattr(wrapped, f"set_{kind}_selection")(selection, value)
        assert np.array_equal(wrapped[...], other[...])


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_reads_of_text_bypass_zarr_python(zarr_format):
    theirs = zarr.create_array(
        MemoryStore(), shape=(8, 5), chunks=(3, 2), dtype=str, zarr_format=zarr_format, fill_value="none"
    )
    theirs[:6] = "\u00e9" * 7
    theirs[2, 3] = "zz"
    ours = pz.wrap(theirs)
    keys: list[Any] = [..., 3, (2, 3), (slice(0, 3), 1), [1, 2], ([1, 2], [3, 3]), (..., -1), slice(None, None, -1), 9]
    for key in [*keys, np.arange(40).reshape(8, 5) % 2 == 0]:
        got, want = outcome(lambda key=key: ours[key]), outcome(lambda key=key: theirs[key])
        assert type(got) is type(want)
        assert np.array_equal(got, want) if isinstance(want, np.ndarray) else got == want
    pz.stats(reset=True)
    assert ours[...].dtype == theirs.dtype
    assert pz.stats()["read"]["paths"] == {"array": 1}


@pytest.mark.parametrize("wrapped", [False, True])
def test_values_that_a_codec_refuses_are_zarr_pythons_error(wrapped):
    scale = zarr.codecs.ScaleOffset(offset=0, scale=100)
    with pz.enable():
        made = zarr.create_array(MemoryStore(), shape=(3,), chunks=(3,), dtype="i1", filters=[scale], fill_value=0)
    made = pz.wrap(made) if wrapped else made
    with pytest.raises(ValueError, match="outside the range of dtype int8"):
        made[...] = np.array([0, 1, 2], "i1")


@pytest.mark.parametrize("dtype", ["M8[Y]", "m8[ns]", "i4", "f8"])
@pytest.mark.parametrize("write_empty", [False, True])
def test_a_v2_array_without_a_fill_value_reads_as_in_zarr_python(dtype, write_empty):
    config = {"write_empty_chunks": write_empty}
    store = zarr.storage.MemoryStore()
    z = zarr.create_array(store, shape=(4,), chunks=(2,), dtype=dtype, zarr_format=2, fill_value=None, config=config)
    wrapped = pz.wrap(z)
    np.testing.assert_array_equal(wrapped[:], z[:])
    wrapped[:2] = np.array(["NaT"] * 2, dtype) if np.dtype(dtype).kind in "mM" else np.zeros(2, dtype)
    np.testing.assert_array_equal(wrapped[:], z[:])


def test_every_path_to_a_node_of_a_group_is_wrapped(tmp_path):
    root = zarr.create_group(tmp_path)
    root.create_array("a", shape=(4,), dtype="i4")
    root.create_group("g")
    group = pz.open_group(tmp_path, mode="r+")
    assert isinstance(group.get_array("a"), pz.Array)
    assert isinstance(group.get_group("g"), pz.Group)
    assert all(isinstance(each, pz.Group) for each in group.require_groups("g", "h"))
    metadata = group.get_array("a").metadata
    made = dict(group.create_hierarchy({"h/b": metadata}))
    assert any(isinstance(node, pz.Array) for node in made.values())
    assert not any(type(node) in (zarr.Array, zarr.Group) for node in made.values())


def test_values_that_a_codec_refuses_do_not_fall_back_silently():
    codecs = [{"name": "scale_offset", "configuration": {"offset": 100, "scale": 1}}]
    with pz.enable(strict=True):
        array = zarr.create_array({}, shape=(4,), dtype="u1", filters=codecs, fill_value=100)
        with pytest.raises(ps.UnsupportedError, match=r"strict: this write .* a codec refuses the values"):
            array[:] = 1


@pytest.mark.parametrize("write", ["[]", "basic", "oindex", "vindex", "mask", "blocks"])
def test_documents_that_zarr_repairs_are_stored_before_chunks_are(tmp_path: Path, write: str) -> None:
    """Chunks of length 0, which old software wrote, are read as 1: the first write of such an array stores that."""
    pytest.importorskip("zarr.core.metadata.repair")
    zarr.create_array(tmp_path / "a.zarr", shape=(3,), chunks=(1,), dtype="i2", fill_value=0, zarr_format=2)
    document = tmp_path / "a.zarr" / ".zarray"
    stored = json.loads(document.read_text()) | {"chunks": [0]}
    document.write_text(json.dumps(stored))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        array = pz.wrap(zarr.open_array(tmp_path / "a.zarr", mode="r+"))
    for value in (7, 8):
        if write == "[]":
            array[1] = value
        elif write == "basic":
            array.set_basic_selection(1, value)
        elif write == "mask":
            array.set_mask_selection(np.arange(3) == 1, value)
        elif write == "blocks":
            array.blocks[1] = value
        else:
            getattr(array, write)[[1]] = value
        assert json.loads(document.read_text())["chunks"] == [1]
        assert array[:].tolist() == [0, value, 0]


def test_a_users_own_pipeline_is_used_without_the_event_loop() -> None:
    calls = []

    class Own(zarr.core.codec_pipeline.BatchedCodecPipeline):
        async def write(self, *args: Any, **kwargs: Any) -> Any:
            calls.append(1)
            return await super().write(*args, **kwargs)

    zarr.registry.register_pipeline(Own)
    with pz.enable(bypass=True), zarr.config.set({"codec_pipeline.path": f"{Own.__module__}.{Own.__qualname__}"}):
        array = zarr.create_array({}, shape=(4,), chunks=(2,), dtype="i4")
        array[:] = 1
        assert calls
        assert array[:].tolist() == [1] * 4
