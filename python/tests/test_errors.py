"""Errors: their class, the built-in that a user expects, and a message with the failure, its place and the array."""

from __future__ import annotations

import errno
import json
import os
import pickle
import shutil

import numpy as np
import penstock as ps
import pytest
from conftest import sharded, write
from penstock import _core
from penstock.core.errors import system_errors
from zarr.codecs import BytesCodec, Crc32cCodec, GzipCodec, ZstdCodec

VALUES = np.arange(64, dtype="<i4").reshape(8, 8)

BUILT_INS = {
    "invalid_argument": (ps.InvalidArgumentError, ValueError),
    "out_of_range": (ps.OutOfRangeError, IndexError),
    "not_found": (ps.NotFoundError, FileNotFoundError, KeyError),
    "corrupt_data": (ps.CorruptDataError, ValueError),
    "unsupported": (ps.UnsupportedError, NotImplementedError),
    "permission_denied": (ps.PermissionDeniedError, PermissionError, OSError),
    "io_error": (ps.StorageError, OSError),
    "version_changed": (ps.ConflictError, OSError),
    "conflict": (ps.ConflictError, OSError),
    "read_only": (ps.ReadOnlyError, PermissionError, ValueError),
    "cancelled": (ps.CancelledError,),
    "deadline_exceeded": (ps.DeadlineExceededError, TimeoutError),
    "resource_exhausted": (ps.ResourceExhaustedError, MemoryError),
    "internal": (ps.InternalError, RuntimeError),
}


@pytest.mark.parametrize("code", BUILT_INS)
def test_each_code_has_its_class_and_the_expected_built_in(code):
    with pytest.raises(ps.Error) as caught:
        _core._raise(code, "what went wrong: 4080")
    error = caught.value
    assert isinstance(error, BUILT_INS[code])
    assert all(isinstance(error, kind) for kind in BUILT_INS[code])
    assert str(error) == f"{code}: what went wrong: 4080"
    assert (error.code, error.message, error.notes) == (code, "what went wrong: 4080", ())


@pytest.mark.parametrize("code", BUILT_INS)
def test_a_pickled_error_keeps_code_message_and_notes(code):
    with pytest.raises(ps.Error) as caught:
        _core._raise(code, "wrong size")
    made = type(caught.value)("wrong size", "chunk (0, 1)", "array 'x'", code=code)
    for error in (made, pickle.loads(pickle.dumps(made))):
        assert type(error) is BUILT_INS[code][0]
        assert (error.code, error.message, error.notes) == (code, "wrong size", ("chunk (0, 1)", "array 'x'"))
        assert str(error) == f"{code}: wrong size\n  chunk (0, 1)\n  array 'x'"


def test_an_error_of_a_user_store_keeps_its_message_and_class():
    class Refused(ps.PermissionDeniedError):
        pass

    class Refusing:
        def get(self, key):
            raise Refused("the token has expired", "token 7")

    with pytest.raises(ps.PermissionDeniedError, match="the token has expired\n  token 7"):
        ps.open_array(Refusing())


def corrupted(key: str, change, values=VALUES, chunks=(4, 4), codecs=None) -> ps.Array:
    store = write(values, chunks, codecs)
    store[key] = change(store[key])
    return ps.open(store)


def test_a_broken_checksum_names_codec_chunk_key_range_and_array(tmp_path):
    path = tmp_path / "x.zarr"
    write(VALUES, (8, 8), sharded((4, 4), [BytesCodec(), Crc32cCodec()]), store=path)
    shard = path / "c" / "0" / "0"
    data = bytearray(shard.read_bytes())
    data[70] ^= 1
    shard.write_bytes(data)
    array = ps.open(path)
    with pytest.raises(ps.CorruptDataError) as caught:
        array[...]
    text = str(caught.value)
    assert text.startswith("corrupt_data: ")
    assert "crc32c" in text
    assert "chunk (1, 0)" in text  # zarr-python writes a shard's chunks in Morton order
    assert "'c/0/0'" in text
    assert "[68, 136)" in text
    assert f"array 'file://{path}'" in text
    assert caught.value.notes[-1] == f"array 'file://{path}'"
    # Intact chunks are still readable.
    np.testing.assert_array_equal(array[:4], VALUES[:4])


@pytest.mark.parametrize("codec", [ZstdCodec(level=0), GzipCodec(level=1)])
def test_truncated_and_swapped_chunks_are_corrupt_data(codec):
    for change in (
        lambda data: data[:-3],
        lambda data: b"",
        lambda data: b"\x00" * len(data),
        lambda data: data + b"x",
    ):
        array = corrupted("c/0/1", change, codecs=[BytesCodec(), codec])
        with pytest.raises(ps.CorruptDataError, match="c/0/1"):
            array[...]
        np.testing.assert_array_equal(array[4:], VALUES[4:])


def test_chunks_of_the_wrong_size_are_corrupt_data():
    for change in (lambda data: data[:-1], lambda data: data + b"\0", lambda data: b""):
        with pytest.raises(ps.CorruptDataError, match="c/1/1"):
            corrupted("c/1/1", change, codecs=[BytesCodec()])[...]


def test_a_broken_shard_index_is_corrupt_data():
    for change in (lambda data: data[:20], lambda data: b"", lambda data: data[:-1] + bytes([data[-1] ^ 1])):
        with pytest.raises(ps.CorruptDataError, match="c/0/0"):
            corrupted("c/0/0", change, chunks=(8, 8), codecs=sharded((4, 4)))[...]


def test_errors_of_a_read_leave_the_array_usable_and_pickle():
    array = corrupted("c/0/0", lambda data: data[:5])
    for _ in range(3):
        with pytest.raises(ps.CorruptDataError) as caught:
            array[...]
    again = pickle.loads(pickle.dumps(caught.value))
    assert type(again) is ps.CorruptDataError
    assert str(again) == str(caught.value)
    assert (again.code, again.notes, again.message) == (caught.value.code, caught.value.notes, caught.value.message)
    np.testing.assert_array_equal(array[4:], VALUES[4:])


def test_an_absent_target_is_a_file_not_found_error(tmp_path):
    with pytest.raises(FileNotFoundError, match="nothing-here"):
        ps.open(tmp_path / "nothing-here")
    with pytest.raises(ps.NotFoundError):
        ps.open({})
    with pytest.raises(ps.NotFoundError, match="a/b"):
        ps.open(write(VALUES, (4, 4)), "a/b")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_denied_chunk_is_an_error_and_never_the_fill_value(tmp_path):
    path = tmp_path / "x.zarr"
    write(VALUES, (4, 4), store=path)
    (path / "c" / "0" / "0").chmod(0)
    with pytest.raises(PermissionError, match="c/0/0"):
        ps.open(path)[...]


def test_a_chunk_that_is_a_loop_of_links_is_an_error(tmp_path):
    path = tmp_path / "x.zarr"
    write(VALUES, (4, 4), store=path)
    shutil.rmtree(path / "c" / "0")
    (path / "c" / "0").symlink_to("0")  # a loop of links: an error, not an absent file
    with pytest.raises(OSError, match="c/0/0"):
        ps.open(path)[...]


@pytest.mark.parametrize(
    ("change", "kind", "word"),
    [
        (lambda m: m | {"zarr_format": 4}, ps.Error, "zarr_format"),
        (lambda m: m | {"data_type": "int3"}, ps.UnsupportedError, "int3"),
        (lambda m: m | {"shape": [-1, 8]}, ps.CorruptDataError, "shape"),
        (lambda m: m | {"codecs": [{"name": "frobnicate"}]}, ps.UnsupportedError, "frobnicate"),
        (lambda m: m | {"storage_transformers": [{"name": "odd"}]}, ps.UnsupportedError, "storage_transformers|odd"),
        (lambda m: m | {"new_thing": {"a": 1}}, ps.UnsupportedError, "new_thing"),
        (lambda m: {k: v for k, v in m.items() if k != "fill_value"}, ps.CorruptDataError, "fill_value"),
        (
            lambda m: m | {"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [0, 4]}}},
            ps.Error,
            "chunk",
        ),
    ],
)
def test_metadata_that_cannot_be_read_is_refused_by_name(change, kind, word):
    store = write(VALUES, (4, 4))
    store["zarr.json"] = json.dumps(change(json.loads(store["zarr.json"]))).encode()
    with pytest.raises(kind, match=word):
        ps.open(store)


def test_optional_extensions_of_metadata_are_ignored():
    store = write(VALUES, (4, 4))
    metadata = json.loads(store["zarr.json"]) | {"hint": {"must_understand": False, "a": 1}}
    store["zarr.json"] = json.dumps(metadata).encode()
    np.testing.assert_array_equal(ps.open(store)[...], VALUES)


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"nul", b'{"zarr_format": 3}', b"\xff\xfe", b"{" * 100_000])
def test_invalid_metadata_is_refused(text):
    with pytest.raises(ps.Error) as caught:
        ps.open({"zarr.json": text})
    assert isinstance(caught.value, ValueError | NotImplementedError)


def test_a_shape_larger_than_memory_is_refused_before_it_is_allocated():
    store = write(VALUES, (4, 4))
    store["zarr.json"] = json.dumps(json.loads(store["zarr.json"]) | {"shape": [2**30, 2**30]}).encode()
    array = ps.open(store)
    with pytest.raises(MemoryError):
        array[...]
    np.testing.assert_array_equal(array[:8, :8], VALUES)


@pytest.mark.parametrize(
    ("target", "kind"),
    [
        ("gopher://bucket/x.zarr", ps.UnsupportedError),
        (b"PK\x03\x04", ps.UnsupportedError),
        (7, ps.InvalidArgumentError),
        (None, ps.InvalidArgumentError),
        ("", ps.InvalidArgumentError),
    ],
)
def test_errors_explain_why_a_target_does_not_open(target, kind):
    with pytest.raises(kind):
        ps.open(target)


def test_unknown_options_are_refused_with_a_message():
    array = ps.open(write(VALUES, (4, 4)))
    with pytest.raises(ps.InvalidArgumentError, match="streams belong to devices"):
        array.read(stream=5)
    with pytest.raises(ps.UnsupportedError):
        ps.open("x", storage_options={"anon": True})
    with pytest.raises(ValueError, match="threads"):
        array.read(threads=0)


def test_an_array_that_was_never_opened_is_a_type_error():
    with pytest.raises(TypeError):
        ps.Array.__new__(ps.Array)[0]


def test_errors_of_the_system_are_penstock_errors(tmp_path):
    file = tmp_path / "file"
    file.write_bytes(b"x")
    values = np.arange(12.0)
    written = ps.save_shards(values, tmp_path / "n_{}.npy", rows=6)
    for suffix in (".npy", ".npz", ".raw", ".h5", ".parquet", ".arrow"):
        with pytest.raises(ps.StorageError, match="file/s_0"):
            ps.save_shards(values, file / ("s_{}" + suffix), rows=6, name="v")
    (tmp_path / "folder").mkdir()
    with pytest.raises(ps.StorageError, match=f"writing '{tmp_path}/folder' failed: Is a directory") as caught:
        ps.save_manifest(ps.open_shards(written), tmp_path / "folder")
    assert caught.value.errno == errno.EISDIR


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (errno.EACCES, ps.PermissionDeniedError),
        (errno.ENOENT, ps.NotFoundError),
        (errno.EMFILE, ps.ResourceExhaustedError),
        (errno.ENOSPC, ps.StorageError),
    ],
)
def test_errors_of_the_system_have_their_kinds(number, kind, tmp_path):
    path = tmp_path / "x.h5"
    text = f"opening '{path}' failed: {os.strerror(number)}$"
    with pytest.raises(kind, match=text), system_errors(f"opening '{path}'"):
        raise OSError(number, os.strerror(number), str(path))
