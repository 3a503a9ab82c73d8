"""The attributes of arrays and groups, against zarr-python's."""

from __future__ import annotations

import copy
import io
import json
import pickle

import numpy as np
import penstock as ps
import pytest
import zarr
from conftest import sharded, write
from zarr.codecs import BytesCodec, GzipCodec, TransposeCodec

VALUES = np.arange(60, dtype="<f4").reshape(12, 5)


def test_an_array_has_the_attributes_of_its_metadata(tmp_path):
    path = tmp_path / "x.zarr"
    options = {"dimension_names": ("y", None), "attributes": {"unit": "K", "levels": [1, 2]}, "fill_value": 1.5}
    write(VALUES, (6, 4), sharded((3, 2)), store=path, **options)
    a, z = ps.open(path), zarr.open_array(path)
    assert a.shape == z.shape == (12, 5)
    assert a.dtype == z.dtype
    assert isinstance(a.dtype, np.dtype)
    assert (a.ndim, a.size, a.nbytes) == (2, 60, 240)
    assert a.chunks == z.chunks == (3, 2)
    assert a.shards == z.shards == (6, 4)
    assert a.fill_value == z.fill_value == 1.5
    assert type(a.fill_value) is np.float32
    assert dict(a.attrs) == {"unit": "K", "levels": [1, 2]}
    assert a.dimension_names == ("y", None)
    assert a.format == "zarr3"
    assert a.read_only is False
    assert a.uri == f"file://{path}"
    assert len(a) == 12
    assert repr(a) == f"<penstock.Array 'file://{path}' shape=(12, 5) dtype=float32 chunks=(3, 2) shards=(6, 4)>"


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_numbers_of_other_attributes_keep_their_text(tmp_path, zarr_format):
    path = tmp_path / "x.zarr"
    large = {"id": 2**70 + 1, "ids": [-(2**90), 3], "deep": {"n": 10**30}}
    zarr.create_array(path, shape=(4,), chunks=(2,), dtype="i4", zarr_format=zarr_format, attributes=large)
    a = ps.open(path)
    a.attrs["unit"] = "K"
    a.append(np.zeros(2, "i4"))
    a.resize((7,))
    del a.attrs["unit"]
    assert dict(zarr.open_array(path).attrs) == large
    group = ps.create_group(tmp_path / "g.zarr", zarr_format=zarr_format)
    name = "zarr.json" if zarr_format == 3 else ".zattrs"
    document = {"attributes": large, "zarr_format": 3, "node_type": "group"} if zarr_format == 3 else large
    (tmp_path / "g.zarr" / name).write_text(json.dumps(document))
    group.attrs["unit"] = "K"
    assert dict(zarr.open_group(tmp_path / "g.zarr").attrs) == {**large, "unit": "K"}


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_integers_of_more_than_64_bits_are_stored_exactly(zarr_format):
    large = {"id": 2**70 + 1, "ids": [-(2**90), 2**64 - 1, -(2**63)], "deep": {"n": 10**30}}
    store: dict[str, bytes] = {}
    a = ps.create_array(store, shape=(4,), dtype="i4", zarr_format=zarr_format, attributes=large)
    assert dict(a.attrs) == large
    a.attrs["next"] = 2**64
    assert dict(a.attrs) == dict(ps.open(store).attrs) == {**large, "next": 2**64}
    assert isinstance(ps.open(store).attrs["next"], int)
    group = ps.create_group({}, zarr_format=zarr_format, attributes=large)
    group.attrs.update(next=-(2**65))
    assert dict(group.attrs) == {**large, "next": -(2**65)}


def test_codecs_are_listed_as_the_metadata_writes_them():
    store = write(VALUES, (6, 4), [TransposeCodec(order=(1, 0)), BytesCodec(endian="big"), GzipCodec(level=3)])
    assert ps.open(store).codecs == [
        {"name": "transpose", "configuration": {"order": [1, 0]}},
        {"name": "bytes", "configuration": {"endian": "big"}},
        {"name": "gzip", "configuration": {"level": 3}},
    ]


def test_an_array_without_shards_and_names_has_none():
    a = ps.open(write(VALUES, (6, 4)))
    assert a.shards is None
    assert a.dimension_names is None
    assert dict(a.attrs) == {}
    assert a.uri.startswith("memory:")


def test_big_endian_arrays_read_in_native_order():
    a = ps.open(write(VALUES.astype(">f4"), (6, 4), [BytesCodec(endian="big")]))
    assert a.dtype == np.dtype("=f4")
    np.testing.assert_array_equal(a[...], VALUES)


@pytest.mark.parametrize(
    ("dtype", "fill"),
    [("f4", np.nan), ("f8", np.inf), ("f2", -np.inf), ("?", True), ("i8", -(2**63)), ("u8", 2**64 - 1), ("c8", 1 - 2j)],
)
def test_fill_values_of_all_kinds(dtype, fill):
    a = ps.open(write(np.zeros(3, dtype), (2,), fill_value=fill))
    np.testing.assert_equal(a.fill_value, np.dtype(dtype).type(fill))
    assert a.fill_value.dtype == np.dtype(dtype)


def test_len_of_a_0d_array_is_refused_as_numpy_does():
    a = ps.open(write(np.array(3.0), ()))
    with pytest.raises(TypeError, match="unsized"):
        len(a)
    with pytest.raises(TypeError, match="0-d"):
        iter(a)


def test_numpy_takes_arrays():
    a = ps.open(write(VALUES, (6, 4)))
    np.testing.assert_array_equal(np.asarray(a), VALUES)
    assert np.asarray(a, dtype="f8").dtype == np.float64
    np.testing.assert_array_equal(np.sum(a), VALUES.sum())
    with pytest.raises(ValueError, match="copy"):
        np.asarray(a, copy=False)


def test_masked_arrays_of_numpy_take_arrays():
    a = ps.open(write(VALUES, (6, 4)))
    assert not np.ma.is_masked(a)
    for made in (np.ma.array(a), np.ma.masked_array(a, mask=VALUES > 7), np.ma.masked_equal(a, VALUES[0, 1])):
        assert made.shape == VALUES.shape
        np.testing.assert_array_equal(made.data, VALUES)
    np.testing.assert_array_equal(np.ma.masked_array(a, mask=VALUES > 7).filled(0), np.where(VALUES > 7, 0, VALUES))


def test_iterating_gives_the_rows():
    a = ps.open(write(VALUES, (5, 4)))
    rows = list(a)
    assert len(rows) == 12
    np.testing.assert_array_equal(np.stack(rows), VALUES)


def test_arrays_and_groups_opened_by_path_pickle(tmp_path):
    zarr.create_group(tmp_path / "g.zarr", attributes={"x": 1})
    write(VALUES, (6, 4), store=tmp_path / "g.zarr" / "a")
    g = ps.open(tmp_path / "g.zarr")
    for a in (g["a"], ps.open(tmp_path / "g.zarr", "a"), ps.open(zarr.storage.LocalStore(tmp_path / "g.zarr"), "a")):
        again = pickle.loads(pickle.dumps(a))
        assert again.uri == a.uri
        np.testing.assert_array_equal(again[...], VALUES)
    assert dict(pickle.loads(pickle.dumps(g)).attrs) == {"x": 1}


def folder_of_fsspec(path: object) -> object:
    """A file system that is not one of local files itself."""
    fsspec = pytest.importorskip("fsspec")
    return fsspec.filesystem("dir", path=str(path), fs=fsspec.filesystem("file"))


def test_arrays_and_groups_of_file_systems_pickle(tmp_path):
    from fsspec.implementations.asyn_wrapper import AsyncFileSystemWrapper

    fs = folder_of_fsspec(tmp_path)
    group = ps.create_group(fs.get_mapper("g.zarr"), attributes={"x": 1})
    made = group.create_array("deep/a", data=VALUES)
    store = zarr.storage.FsspecStore(AsyncFileSystemWrapper(fs, asynchronous=True), path="g.zarr")
    nodes = [
        group, made, group["deep"], group["deep/a"], ps.open(fs, "g.zarr/deep/a"), ps.open(store, "deep")["a"],
        ps.open(zarr.open_group(store, mode="r")["deep"], "a"), *group["deep"].values(),
        ps.create_array(fs.get_mapper("g.zarr"), "deep/a", data=VALUES, overwrite=True),
    ]  # fmt: skip
    for node in nodes:
        again = pickle.loads(pickle.dumps(node))
        assert again.uri == node.uri
        if isinstance(again, ps.Array):
            np.testing.assert_array_equal(again[...], VALUES)
            assert again.read_only == node.read_only
        else:
            assert list(again) == list(node)
    with pytest.raises(ps.ReadOnlyError):
        pickle.loads(pickle.dumps(ps.open(fs, "g.zarr/deep/a", mode="r")))[0, 0] = 1


def test_files_of_file_systems_pickle(tmp_path):
    fs = folder_of_fsspec(tmp_path)
    ps.save(tmp_path / "x.tif", VALUES[None])
    image = ps.open(fs, "x.tif")
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(image))[0], VALUES)
    parts = ps.open_shards([ps.create_array(fs.get_mapper(name), data=VALUES) for name in ("a.zarr", "b.zarr")])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(parts))[...], np.concatenate([VALUES, VALUES]))


def test_arrays_in_memory_explain_why_they_do_not_pickle():
    group = ps.create_group({})
    group.create_array("a", data=np.arange(3))
    npy = io.BytesIO()
    np.save(npy, np.arange(3))
    files = pytest.importorskip("fsspec").filesystem("memory").get_mapper("/pickles")
    nodes = (ps.open(write(VALUES, (6, 4))), group, group["a"], ps.open(npy.getvalue()))
    for node in (*nodes, ps.create_array(files, data=VALUES, overwrite=True)):
        for again in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match=r"cannot pickle or copy <penstock.*opened by path.*penstock\.copy"):
                again(node)


def test_other_modes_are_refused():
    with pytest.raises(ValueError, match="mode"):
        ps.open({}, mode="w")


def test_a_path_that_is_not_utf8_opens(tmp_path):
    import os

    path = os.fsencode(tmp_path) + b"/a\xff.zarr"
    write(VALUES, (6, 4), store=tmp_path / "plain.zarr")
    os.rename(tmp_path / "plain.zarr", path)
    a = ps.open(os.fsdecode(path))
    np.testing.assert_array_equal(a[...], VALUES)
    assert os.fsencode(a.uri).endswith(b"a\xff.zarr")


@pytest.mark.parametrize("kind", ["array", "group"])
def test_attributes_that_are_null_are_empty_and_can_be_set(kind):
    stored: dict[str, bytes] = {}
    if kind == "array":
        ps.create_array(stored, data=VALUES)
    else:
        ps.open_group(stored, mode="w")
    optional = {"attributes": None} | ({"storage_transformers": None} if kind == "array" else {})
    stored["zarr.json"] = json.dumps(json.loads(bytes(stored["zarr.json"])) | optional).encode()
    node = ps.open(stored, mode="r+")
    assert dict(node.attrs) == {}
    node.attrs["unit"] = "K"
    assert dict(ps.open(stored).attrs) == {"unit": "K"}
    assert json.loads(bytes(stored["zarr.json"]))["attributes"] == {"unit": "K"}


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_halves_of_pairs_are_kept_as_in_python(tmp_path, zarr_format):
    """Text that has no UTF-8: Python's json module reads and writes such escapes, and so does zarr-python."""
    odd = {"a\udcff": "\ud800 x \udfff", "nul": ["\0\ud83d", {"\udead": 1}], "pair": "\U0001f600"}
    group = zarr.create_group(tmp_path / "g", attributes=odd, zarr_format=zarr_format)
    group.create_array("a", shape=(2,), dtype="i4", attributes=odd)
    a = ps.open(tmp_path / "g")["a"]
    assert dict(a.attrs) == dict(ps.open(tmp_path / "g").attrs) == odd
    a.attrs["new"] = "\udfff"
    a.resize((3,))
    odd["new"] = "\udfff"
    assert dict(a.attrs) == dict(zarr.open_array(tmp_path / "g" / "a").attrs) == odd
    ps.copy(tmp_path / "g", tmp_path / "copy")
    ps.consolidate_metadata(tmp_path / "copy")
    assert dict(zarr.open_group(tmp_path / "copy", mode="r")["a"].attrs) == odd
    assert dict(ps.open(tmp_path / "copy")["a"].attrs) == odd
    assert str(a.info)
    assert a._repr_html_()
