"""Codecs that run in Python: numcodecs' rarer ones and those that users registered, compared with zarr-python."""

from __future__ import annotations

import json
import os
import threading
import warnings
from collections.abc import Iterator
from typing import Any

import numcodecs
import numcodecs.abc
import numcodecs.registry
import numpy as np
import penstock as ps
import pytest
import zarr
import zarr.registry
from zarr.abc.codec import ArrayArrayCodec, BytesBytesCodec
from zarr.codecs import numcodecs as zarr_numcodecs

DATA = np.random.default_rng(1).normal(size=(20, 30)).cumsum(0)

pytestmark = pytest.mark.filterwarnings("ignore")


class Reversed(numcodecs.abc.Codec):
    """Reverses the bytes and adds a number that counts calls."""

    codec_id = "penstock_test_reversed"
    calls = 0

    def encode(self, buf: Any) -> bytes:
        return bytes(memoryview(numcodecs.compat.ensure_contiguous_ndarray(buf)).cast("B"))[::-1]

    def decode(self, buf: Any, out: Any = None) -> bytes:
        Reversed.calls += 1
        return bytes(buf)[::-1]


class Failing(Reversed):
    codec_id = "penstock_test_failing"

    def decode(self, buf: Any, out: Any = None) -> bytes:
        raise ValueError("no, not this one")


class Short(Reversed):
    codec_id = "penstock_test_short"

    def decode(self, buf: Any, out: Any = None) -> bytes:
        return bytes(buf)[:-1]


class Interrupted(Reversed):
    codec_id = "penstock_test_interrupted"

    def decode(self, buf: Any, out: Any = None) -> bytes:
        raise KeyboardInterrupt


class Negated(ArrayArrayCodec):
    """A codec of zarr-python that works on arrays and changes their type: it stores negative int64."""

    is_fixed_size = True

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Negated:
        return cls()

    def to_dict(self) -> dict[str, Any]:
        return {"name": "penstock_test_negated", "configuration": {}}

    def resolve_metadata(self, chunk_spec: Any) -> Any:
        from dataclasses import replace

        from zarr.dtype import Int64

        return replace(chunk_spec, dtype=Int64(), fill_value=0)

    def _decode_sync(self, chunk_data: Any, chunk_spec: Any) -> Any:
        stored = chunk_data.as_numpy_array()
        assert stored.dtype == np.dtype("i8")
        return chunk_spec.prototype.nd_buffer.from_numpy_array((-stored).astype(chunk_spec.dtype.to_native_dtype()))

    def _encode_sync(self, chunk_data: Any, chunk_spec: Any) -> Any:
        return chunk_spec.prototype.nd_buffer.from_numpy_array(-chunk_data.as_numpy_array().astype("i8"))

    async def _decode_single(self, chunk_data: Any, chunk_spec: Any) -> Any:
        return self._decode_sync(chunk_data, chunk_spec)

    async def _encode_single(self, chunk_data: Any, chunk_spec: Any) -> Any:
        return self._encode_sync(chunk_data, chunk_spec)

    def compute_encoded_size(self, input_byte_length: int, chunk_spec: Any) -> int:
        return input_byte_length


class OnlyLater(BytesBytesCodec):
    """A codec of zarr-python without a synchronous form."""

    is_fixed_size = True

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> OnlyLater:
        return cls()

    def to_dict(self) -> dict[str, Any]:
        return {"name": "penstock_test_later", "configuration": {}}

    async def _decode_single(self, chunk_data: Any, chunk_spec: Any) -> Any:
        return chunk_data

    async def _encode_single(self, chunk_data: Any, chunk_spec: Any) -> Any:
        return chunk_data

    def compute_encoded_size(self, input_byte_length: int, chunk_spec: Any) -> int:
        return input_byte_length


@pytest.fixture(autouse=True, scope="module")
def registered() -> Iterator[None]:
    mine = (Reversed, Failing, Short, Interrupted)
    for codec in mine:
        numcodecs.registry.register_codec(codec)
    zarr.registry.register_codec("penstock_test_negated", Negated)
    zarr.registry.register_codec("penstock_test_later", OnlyLater)
    yield
    for codec in mine:
        numcodecs.registry.codec_registry.pop(codec.codec_id, None)


def stored(data: np.ndarray[Any, Any] = DATA, **options: Any) -> dict[str, bytes]:
    store: dict[str, Any] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = zarr.create_array(store, shape=data.shape, dtype=data.dtype, chunks=(8, 9), **options)
        made[...] = data
    return {key: bytes(value.to_bytes()) for key, value in store.items()}


def with_codec(name: str) -> dict[str, bytes]:
    """An array without compression whose metadata has another codec after `bytes`."""
    plain = stored(compressors=None)
    text = plain["zarr.json"].decode()
    assert '"bytes"' in text
    place = text.index('"bytes"')
    end = text.index("}", text.index("}", place) + 1) + 1
    plain["zarr.json"] = (text[:end] + ', {"name": "' + name + '", "configuration": {}}' + text[end:]).encode()
    return plain


@pytest.mark.parametrize(
    ("codec", "wanted"),
    [
        (zarr_numcodecs.PCodec(level=8), "PCodec("),
        (zarr_numcodecs.ZFPY(mode=4, tolerance=1e-3), "zfpy(tolerance=0.001)"),
        (zarr_numcodecs.ZFPY(mode=3, precision=20), "zfpy(precision=20)"),
    ],
    ids=["pcodec", "zfpy-tolerance", "zfpy-precision"],
)
@pytest.mark.parametrize("dtype", ["f4", "f8", "i4"])
def test_array_codecs_of_numcodecs_read_as_in_zarr_python(codec, wanted, dtype):
    data = (DATA * 100).astype(dtype)
    keys = stored(data, serializer=codec)
    a = ps.open(keys)
    assert a._codecs_text.startswith(wanted)
    assert ("via Python" in a._codecs_text) == (not wanted.startswith("zfpy"))
    expected = zarr.open_array(
        zarr.storage.MemoryStore({k: zarr.core.buffer.cpu.Buffer.from_bytes(v) for k, v in keys.items()})
    )
    np.testing.assert_array_equal(a[...], expected[...])
    np.testing.assert_array_equal(a[3:17:2, ::-4], expected[...][3:17:2, ::-4])
    out = np.full(data.shape, -1, dtype, order="F")
    a.read(out=out)
    np.testing.assert_array_equal(out, expected[...])


def test_plans_show_that_python_decodes():
    a = ps.open(stored(serializer=zarr_numcodecs.PCodec(level=3)))
    assert "via Python" in a._codecs_text
    assert "via Python" not in ps.open(stored())._codecs_text


def test_a_users_numcodecs_codec_is_found(tmp_path):
    keys = with_codec("penstock_test_reversed")
    for key in keys:
        if key != "zarr.json":
            keys[key] = keys[key][::-1]
    np.testing.assert_array_equal(ps.open(keys)[...], DATA)
    keys["zarr.json"] = keys["zarr.json"].replace(b"penstock_test_reversed", b"numcodecs.penstock_test_reversed")
    np.testing.assert_array_equal(ps.open(keys)[...], DATA)


def test_chains_get_the_types_that_codecs_of_zarr_python_make():
    """A user's codec converts int32 to int64, then follow a native delta of int64, a transpose and zstd."""
    data = (DATA * 100).astype("i4")
    keys = stored(data, filters=[Negated(), zarr.codecs.TransposeCodec(order=(1, 0))])
    a = ps.open(keys)
    assert a._codecs_text.startswith("<") or "via Python | transpose(1, 0) | bytes(little)" in a._codecs_text
    np.testing.assert_array_equal(a[...], data)
    np.testing.assert_array_equal(a[5, 3:9], data[5, 3:9])


def test_reads_with_many_threads_and_callers():
    context = ps.Context(threads=4)
    keys = with_codec("penstock_test_reversed")
    for key in keys:
        if key != "zarr.json":
            keys[key] = keys[key][::-1]
    a = ps.open(keys, context=context)
    wrong: list[int] = []

    def work(seed: int) -> None:
        for _ in range(20):
            if not np.array_equal(a.read(threads=1 + seed % 4), DATA):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    job = a.read_async()
    np.testing.assert_array_equal(job.wait(), DATA)


def test_a_codec_that_fails_is_a_corrupt_chunk_with_its_name():
    a = ps.open(with_codec("penstock_test_failing"))
    with pytest.raises(
        ps.CorruptDataError, match=r"codec 'penstock_test_failing' cannot decode this: .*no, not this one"
    ) as failed:
        a[...]
    assert any("via Python" in note for note in failed.value.notes)
    a = ps.open(with_codec("penstock_test_short"))
    with pytest.raises(ps.CorruptDataError, match="chunk decoded to 575 bytes, its shape needs 576"):
        a[...]


def test_a_ctrl_c_within_a_codec_reaches_the_caller():
    a = ps.open(with_codec("penstock_test_interrupted"))
    with pytest.raises((KeyboardInterrupt, ps.CancelledError)):
        a.read(threads=1)


def test_unknown_and_asynchronous_codecs_are_refused_by_name():
    with pytest.raises(ps.UnsupportedError, match="no codec 'penstock_test_none'"):
        ps.open(with_codec("penstock_test_none"))
    with pytest.raises(
        ps.UnsupportedError, match="codec 'penstock_test_later' of zarr-python works asynchronously only"
    ):
        ps.open(with_codec("penstock_test_later"))


def test_pickles_are_loaded_only_on_request():
    keys = with_codec("numcodecs.pickle")
    with pytest.raises(ps.UnsupportedError, match=r"codec 'pickle' runs programs.*allow_pickle=True"):
        ps.open(keys)
    for key in keys:
        if key != "zarr.json":
            keys[key] = bytes(numcodecs.Pickle().encode(np.array([keys[key]], object)))
    opened = ps.open(keys, context=ps.Context(allow_pickle=True))
    assert "Pickle" in opened._codecs_text


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_decodes_through_python():
    a = ps.open(stored(serializer=zarr_numcodecs.PCodec(level=3)))
    first = a[...]
    child = os.fork()
    if child == 0:
        os._exit(0 if np.array_equal(a[...], first) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize("codec", ["vlen-utf8", "vlen-bytes", "vlen-array", "fixedscaleoffset", "packbits"])
@pytest.mark.parametrize("dtype", ["string", "variable_length_bytes", "bool", "float32", "int64", "r16"])
def test_a_codec_that_does_not_match_the_type_is_refused_by_name(tmp_path, dtype, codec):
    """With a chunk that text codecs could decode: never values of another type, never a StorageError."""
    fills = {"string": "", "variable_length_bytes": "", "bool": False, "r16": [0, 0]}
    document = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [2],
        "data_type": dtype,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2]}},
        "chunk_key_encoding": {"name": "default"},
        "codecs": [{"name": codec}],
        "fill_value": fills.get(dtype, 0),
    }
    (tmp_path / "c").mkdir()
    (tmp_path / "zarr.json").write_text(json.dumps(document))
    (tmp_path / "c" / "0").write_bytes(b"\2\0\0\0" + b"\1\0\0\0a" + b"\1\0\0\0b")
    if (dtype, codec) in (("string", "vlen-utf8"), ("variable_length_bytes", "vlen-bytes"), ("r16", "vlen-bytes")):
        made = ps.open(tmp_path)[:].tolist()
        assert made == (["a", "b"] if dtype == "string" else [b"a", b"b"] if dtype != "r16" else [b"a\0", b"b\0"])
        return
    with pytest.raises((ps.CorruptDataError, ps.UnsupportedError), match=codec if "vlen" in codec else ""):
        ps.open(tmp_path)[:]


@pytest.mark.parametrize("codec", ["vlen-utf8", "vlen-bytes", "numcodecs.vlen-utf8", "numcodecs.vlen-bytes"])
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_text_codecs_for_numbers_are_refused_at_creation(codec, zarr_format):
    store: dict[str, bytes] = {}
    given = {"id": codec.removeprefix("numcodecs.")} if zarr_format == 2 else {"name": codec}
    with pytest.raises((ps.UnsupportedError, ps.InvalidArgumentError), match="vlen-"):
        ps.create_array(store, shape=(4,), dtype="f4", filters=[given], zarr_format=zarr_format)
    assert not store
