"""DLPack from the host engine: every argument of the standard, and how other libraries import it."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Any

import ml_dtypes
import numpy as np
import penstock as ps
import pytest
from conftest import write
from dlpack_fields import dlpack_fields

PLAIN = ["bool", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"]
SMALL = [
    "bfloat16",
    "float8_e3m4",
    "float8_e4m3",
    "float8_e4m3b11fnuz",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
]


def of(name: str) -> np.dtype[Any]:
    return np.dtype(getattr(ml_dtypes, name) if name in SMALL else name)


def some(name: str, shape: tuple[int, ...] = (7, 5)) -> np.ndarray[Any, Any]:
    bits = np.random.default_rng(3).integers(0, 2 if name == "bool" else 120, shape)
    return bits.astype("f4").astype(of(name)) if name in SMALL else bits.astype(name)


def stored(values: np.ndarray[Any, Any]) -> ps.Array:
    made = ps.create_array({}, shape=values.shape, dtype=values.dtype, chunks=(4, 5))
    made[...] = values
    return made


@pytest.mark.parametrize("name", PLAIN)
@pytest.mark.parametrize("shape", [(7, 5), (), (0, 3), (1,)], ids=str)
def test_numpy_imports_tensors_without_a_copy(name, shape):
    values = some(name, shape)
    got = np.from_dlpack(ps.Tensor(values))
    assert got.dtype == values.dtype
    assert got.shape == shape
    assert got.tobytes() == values.tobytes()
    if values.size:
        assert np.shares_memory(got, values)


@pytest.mark.parametrize("view", [np.s_[::2], np.s_[:, ::-1], np.s_[3:, 1:4], np.s_[2], np.s_[None, :, 2]], ids=str)
def test_strides_of_every_sign_are_exported(view):
    values = some("i4")[view]
    got = np.from_dlpack(ps.Tensor(values))
    assert got.strides == values.strides
    np.testing.assert_array_equal(got, values)


def test_an_array_is_read_when_it_is_exported():
    values = some("f4", (11, 13))
    a = ps.open(write(values, (4, 5)))
    assert a.__dlpack_device__() == (1, 0)
    got = np.from_dlpack(a)
    np.testing.assert_array_equal(got, values)
    assert got.ctypes.data % 64 == 0
    assert dlpack_fields(a.__dlpack__(max_version=(1, 0)))["flags"] == 2  # a copy that belongs to the consumer
    with pytest.raises(BufferError, match="always makes a copy") as caught:
        a.__dlpack__(copy=False)
    assert isinstance(caught.value, ps.Error)


def test_consumers_keep_the_engines_memory_alive():
    values = np.arange(1 << 20, dtype="f4")
    a = ps.open(write(values, (1 << 17,)))
    got = np.from_dlpack(a)
    del a
    gc.collect()
    np.testing.assert_array_equal(got, values)


@pytest.mark.parametrize("name", PLAIN + SMALL)
@pytest.mark.parametrize("versioned", [True, False])
def test_capsules_describe_the_memory(name, versioned):
    values = some(name)
    capsule = ps.Tensor(values).__dlpack__(max_version=(1, 1) if versioned else None)
    fields = dlpack_fields(capsule)
    assert fields["name"] == ("dltensor_versioned" if versioned else "dltensor")
    assert fields["address"] == values.view("u1").ctypes.data
    assert fields["device"] == (1, 0)
    assert fields["shape"] == (7, 5)
    assert fields["strides"] == (5, 1)
    assert fields["byte_offset"] == 0
    kinds = {"b": 6, "i": 0, "u": 1, "f": 2, "c": 5}
    codes = {"bfloat16": 4, **{each: 7 + i for i, each in enumerate(SMALL[1:])}}
    code = codes[name] if name in SMALL else kinds[values.dtype.kind]
    assert fields["type"] == (code, 8 * values.dtype.itemsize, 1)
    assert fields["bytes"] == values.tobytes()
    if versioned:
        assert fields["version"] == (1, 1)
        assert fields["flags"] == 0


def test_a_copy_is_made_on_request():
    values = some("i2")
    tensor = ps.Tensor(values)
    assert np.shares_memory(np.from_dlpack(tensor), values)
    capsule = tensor.__dlpack__(max_version=(1, 0), copy=True)
    fields = dlpack_fields(capsule)
    assert fields["flags"] == 2
    assert fields["address"] != values.ctypes.data
    assert fields["bytes"] == values.tobytes()
    assert dlpack_fields(tensor.__dlpack__(max_version=(1, 0), copy=False))["address"] == values.ctypes.data


def test_read_only_memory_is_marked_or_refused():
    values = some("i2")
    values.flags.writeable = False
    assert dlpack_fields(ps.Tensor(values).__dlpack__(max_version=(1, 0)))["flags"] == 1
    with pytest.raises(BufferError, match="read-only"):
        ps.Tensor(values).__dlpack__()
    assert dlpack_fields(ps.Tensor(values).__dlpack__(copy=True))["name"] == "dltensor"


def test_arguments_without_a_meaning_for_host_memory():
    tensor = ps.Tensor(some("i2"))
    tensor.__dlpack__(stream=None, dl_device=(1, 0))
    tensor.__dlpack__(stream=-1)
    with pytest.raises(ValueError, match="streams"):
        tensor.__dlpack__(stream=1)
    with pytest.raises(BufferError, match="host memory"):
        tensor.__dlpack__(dl_device=(2, 0))
    with pytest.raises(TypeError):
        tensor.__dlpack__(1)


@pytest.mark.parametrize(
    "values",
    [
        np.array(["a", "b"], object),
        np.array(["a", "b"]),
        np.array([b"a"]),
        np.array([1], "M8[s]"),
        np.zeros(2, [("x", "i4")]),
        np.zeros(2, ml_dtypes.int4),
        np.zeros(2, ml_dtypes.float4_e2m1fn),
    ],
    ids=lambda values: str(values.dtype),
)
def test_types_unknown_to_dlpack_are_refused_by_name(values):
    with pytest.raises((BufferError, ps.UnsupportedError), match="DLPack has no data type"):
        ps.Tensor(values).__dlpack__()
    with pytest.raises(ValueError, match="order"):
        ps.Tensor(np.zeros(2, ">i4" if np.little_endian else "<i4"))


def test_masked_elements_are_refused():
    values = np.arange(3.0)
    with pytest.raises(ps.InvalidArgumentError, match="masked elements"):
        ps.Tensor(np.ma.masked_array(values, [False, True, False]))
    assert np.shares_memory(ps.Tensor(np.ma.masked_array(values)).numpy(), values)


def test_arrays_of_types_without_export_are_not_read():
    class Refusing(ps.Store):
        def __init__(self, keys: dict[str, bytes]) -> None:
            self.keys = keys

        def get(self, key: str) -> bytes | None:
            assert "c/" not in key
            return self.keys.get(key)

    a = ps.open(Refusing(write(np.arange(4).astype("M8[s]"), (2,))))
    with pytest.raises(BufferError, match="datetime64"):
        a.__dlpack__()


class Kept(np.ndarray):  # an ndarray to which weak references are possible
    pass


@pytest.mark.parametrize("versioned", [True, False])
def test_memory_lives_as_long_as_a_capsule_or_its_consumer(versioned):
    values = Kept((7, 5), "i4")
    seen = weakref.ref(values)
    capsule = ps.Tensor(values).__dlpack__(max_version=(1, 0) if versioned else None)
    del values
    gc.collect()
    assert seen() is not None
    del capsule
    gc.collect()
    assert seen() is None


def test_consumers_may_release_on_any_thread():
    values = Kept((7, 5), "i4")
    seen = weakref.ref(values)
    held = [np.from_dlpack(ps.Tensor(values))]
    del values
    thread = threading.Thread(target=held.clear)
    thread.start()
    thread.join()
    gc.collect()
    assert seen() is None


def test_tensors_have_reprs_and_become_ndarrays():
    values = some("bfloat16")
    tensor = ps.Tensor(values)
    assert repr(tensor) == "<penstock.Tensor shape=(7, 5) dtype=bfloat16 device=cpu>"
    assert (tensor.ndim, tensor.size, tensor.nbytes, len(tensor)) == (2, 35, 70, 7)
    with pytest.raises(TypeError, match="without dimensions"):
        len(ps.Tensor(np.float32(1)))
    assert tensor.numpy() is values
    assert np.shares_memory(np.asarray(tensor), values)
    assert not np.shares_memory(np.array(tensor), values)
    assert np.asarray(tensor, "f4").dtype == "f4"
    assert ps.Tensor(tensor).numpy() is values
    with pytest.raises(ValueError, match="copy"):
        np.asarray(tensor, dtype="f4", copy=False)


class TestTorch:
    @pytest.fixture(autouse=True)
    def torch(self) -> Any:
        return pytest.importorskip("torch")

    @pytest.mark.parametrize(
        "name", [n for n in PLAIN if n not in ("u2", "u4", "u8")] + ["bfloat16", "float8_e4m3fn", "float8_e5m2"]
    )
    def test_every_supported_type(self, torch, name):
        values = some(name)
        for source in (ps.Tensor(values), stored(values)):
            try:
                got = torch.from_dlpack(source)
            except (RuntimeError, BufferError) as error:
                if name.startswith("float8"):
                    pytest.skip(f"this torch takes no {name} from DLPack: {error}")
                raise
            assert tuple(got.shape) == values.shape
            assert got.view(torch.uint8).numpy().tobytes() == values.tobytes()

    def test_a_torch_tensor_shares_the_memory(self, torch):
        values = some("bfloat16", (64,))
        got = torch.from_dlpack(ps.Tensor(values))
        assert got.dtype == torch.bfloat16
        got[3] = 2.5
        assert float(values[3]) == 2.5


class TestJax:
    @pytest.fixture(autouse=True)
    def jax(self) -> Any:
        return pytest.importorskip("jax")

    @pytest.mark.parametrize("name", ["bool", "i1", "i4", "u1", "u4", "f2", "f4", "c8", "bfloat16", "float8_e4m3fn"])
    def test_jax_reads_each_of_its_types(self, jax, name):
        values = some(name)
        for source in (ps.Tensor(values), stored(values)):
            got = jax.dlpack.from_dlpack(source)
            assert got.shape == values.shape
            assert np.asarray(got).tobytes() == values.tobytes()
