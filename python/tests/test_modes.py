"""`mode="r"` is a promise: objects that are opened with it, and objects reached from them, do not write."""

from __future__ import annotations

import contextlib
import copy
import itertools
import os
import pickle
import subprocess
import sys
import tempfile
import traceback
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import obstore.store
import penstock as ps
import penstock.zarr
import pytest
import zarr
from conftest import ZARR_VERSION
from fsspec.implementations.asyn_wrapper import AsyncFileSystemWrapper
from penstock import _core
from penstock.core.attributes import Attributes
from penstock.target import portable as _portable

VALUES = np.arange(12, dtype="<i4").reshape(4, 3)
_numbers = itertools.count()

Op = Callable[[ps.Group, ps.Array], Any]


def _appended(a: ps.Array) -> None:
    with a.appender() as rows:
        rows.append(np.ones((1, 3), "<i4"))


def _set_attrs(node: Any) -> None:
    node.attrs = {"x": 1}


def _delete(mapping: Any, name: str) -> None:
    del mapping[name]


def _assign(mapping: Any, key: Any, value: Any) -> None:
    mapping[key] = value


OPS: dict[str, Op] = {
    "Array.__setitem__": lambda g, a: _assign(a, ..., 7),
    "Array.__setitem__, nothing": lambda g, a: _assign(a, slice(0, 0), 7),
    "Array.__setitem__, list": lambda g, a: _assign(a, [0, 2], 7),
    "Array.write": lambda g, a: a.write(np.s_[1], [7, 7, 7]),
    "Array.write_async": lambda g, a: a.write_async(np.s_[1], [7, 7, 7]).wait(30),
    "Array.oindex": lambda g, a: _assign(a.oindex, ([0], [1, 2]), 7),
    "Array.vindex": lambda g, a: _assign(a.vindex, ([0, 1], [1, 2]), 7),
    "Array.blocks": lambda g, a: _assign(a.blocks, 0, 7),
    "Array.set_basic_selection": lambda g, a: a.set_basic_selection(0, 7),
    "Array.set_orthogonal_selection": lambda g, a: a.set_orthogonal_selection(([0], [1]), 7),
    "Array.set_coordinate_selection": lambda g, a: a.set_coordinate_selection(([0], [1]), 7),
    "Array.set_mask_selection": lambda g, a: a.set_mask_selection(np.eye(4, 3, dtype=bool), 7),
    "Array.set_block_selection": lambda g, a: a.set_block_selection(0, 7),
    "Array.resize": lambda g, a: a.resize((2, 3)),
    "Array.append": lambda g, a: a.append(VALUES),
    "Array.appender": lambda g, a: _appended(a),
    "Array.attrs": lambda g, a: _set_attrs(a),
    "Group.attrs": lambda g, a: _set_attrs(g),
    "Group.__setitem__": lambda g, a: _assign(g, "new", VALUES),
    "Group.__setitem__, over another": lambda g, a: _assign(g, "a", VALUES),
    "Group.__delitem__": lambda g, a: _delete(g, "a"),
    "Group.create_array": lambda g, a: g.create_array("new", shape=3, dtype="u1"),
    "Group.create_group": lambda g, a: g.create_group("new"),
    "Group.require_group": lambda g, a: g.require_group("new"),
    "Group.require_array": lambda g, a: g.require_array("new", shape=3, dtype="u1"),
    "create_array": lambda g, a: ps.create_array(g, "a", data=VALUES, overwrite=True),
    "create_group": lambda g, a: ps.create_group(g, "new"),
    "save": lambda g, a: ps.save(g, VALUES, path="a"),
}
for _kind, _pick in (("array", lambda g, a: a.attrs), ("group", lambda g, a: g.attrs)):
    OPS |= {
        f"Attributes.__setitem__ of the {_kind}": lambda g, a, pick=_pick: _assign(pick(g, a), "x", 1),
        f"Attributes.__delitem__ of the {_kind}": lambda g, a, pick=_pick: _delete(pick(g, a), "old"),
        f"Attributes.update of the {_kind}": lambda g, a, pick=_pick: pick(g, a).update(x=1),
        f"Attributes.put of the {_kind}": lambda g, a, pick=_pick: pick(g, a).put({"x": 1}),
        f"Attributes.clear of the {_kind}": lambda g, a, pick=_pick: pick(g, a).clear(),
        f"Attributes.pop of the {_kind}": lambda g, a, pick=_pick: pick(g, a).pop("old"),
        f"Attributes.popitem of the {_kind}": lambda g, a, pick=_pick: pick(g, a).popitem(),
        f"Attributes.setdefault of the {_kind}": lambda g, a, pick=_pick: pick(g, a).setdefault("x", 1),
    }

# All other public names of the three classes: they only read. A new name belongs in one of the two sets.
READING = {
    "Array": """ndim size nbytes fill_value codecs read read_async flush plan shape dtype chunks shards dimension_names
        format uri read_only get_basic_selection get_orthogonal_selection get_coordinate_selection get_mask_selection
        get_block_selection info nchunks nbytes_stored compressors""",
    "Group": """uri format read_only consolidated keys members array_keys group_keys arrays groups tree info get items
        values""",
    "Attributes": """asdict get items keys values""",
}


def test_every_public_name_either_reads_or_is_in_the_matrix() -> None:
    writing = {name.partition(" ")[0].partition(",")[0] for name in OPS}
    for kind in (ps.Array, ps.Group, Attributes):
        reading = {f"{kind.__name__}.{name}" for name in READING[kind.__name__].split()}
        assert not reading & writing
        for name in dir(kind):
            if not name.startswith("_") or name in ("__setitem__", "__delitem__", "__iadd__", "__ior__"):
                known = f"{kind.__name__}.{name}" in reading | writing
                assert known or (kind is ps.Array and name == "__delitem__"), f"{kind.__name__}.{name}"


# --- where trees are stored: what `open` takes, the same for reading only, and the stored bytes ---


def _fill(target: Any, zarr_format: int) -> None:
    root = ps.open_group(target, mode="a") if zarr_format == 3 else ps.create_group(target, zarr_format=2)
    inner = root.create_group("g", attributes={"old": 1})
    inner.create_array("a", data=VALUES, chunks=(2, 3), attributes={"old": 1})


def _folder(path: Path) -> dict[str, bytes]:
    return {str(each.relative_to(path)): each.read_bytes() for each in path.rglob("*") if each.is_file()}


class Only:
    """A custom store that can only read."""

    def __init__(self, values: dict[str, bytes]) -> None:
        self.values = values

    def get(self, key: str) -> bytes | None:
        return self.values.get(key)

    def list(self, prefix: str) -> list[str]:
        return [key for key in self.values if key.startswith(prefix)]


class Own(Only):
    def set(self, key: str, value: bytes) -> None:
        self.values[key] = bytes(value)

    def delete(self, key: str) -> None:
        self.values.pop(key, None)


class Place:
    """A stored tree: what opens it, what opens it for reading only, and its bytes."""

    def __init__(self, target: Any, stored: Callable[[], dict[str, bytes]], only_read: dict[str, Any]) -> None:
        self.target, self.stored, self.only_read = target, stored, only_read


def _path(tmp: Path, zarr_format: int) -> Place:
    path = tmp / "tree.zarr"
    _fill(path, zarr_format)
    only = {
        "LocalStore": zarr.storage.LocalStore(path, read_only=True),
        "zarr group": zarr.open_group(path, mode="r", zarr_format=zarr_format),  # type: ignore[arg-type]
    }
    return Place(path, lambda: _folder(path), only)


def _uri(tmp: Path, zarr_format: int) -> Place:
    _fill(tmp / "tree.zarr", zarr_format)
    return Place(f"file://{tmp}/tree.zarr", lambda: _folder(tmp), {})


def _local_store(tmp: Path, zarr_format: int) -> Place:
    _fill(tmp, zarr_format)
    return Place(zarr.storage.LocalStore(tmp), lambda: _folder(tmp), {})


def _zip(tmp: Path, zarr_format: int) -> Place:
    path = tmp / "tree.zip"
    _fill(path, zarr_format)
    store = zarr.storage.ZipStore(path, mode="r")
    fs = fsspec.filesystem("zip", fo=str(path), mode="r")
    return Place(path, lambda: {"": path.read_bytes()}, {"ZipStore": store, "fsspec's zip": fs.get_mapper("")})


def _dict(tmp: Path, zarr_format: int) -> Place:
    values: dict[str, bytes] = {}
    _fill(values, zarr_format)
    return Place(values, lambda: dict(values), {"MappingProxyType": types.MappingProxyType(values)})


def _own(tmp: Path, zarr_format: int) -> Place:
    store = Own({})
    _fill(store, zarr_format)
    locked = Own(store.values)
    locked.read_only = True  # type: ignore[attr-defined]
    return Place(store, lambda: dict(store.values), {"no set": Only(store.values), "read_only": locked})


def _memory_store(tmp: Path, zarr_format: int) -> Place:
    values: dict[str, Any] = {}
    _fill(zarr.storage.MemoryStore(values), zarr_format)
    read = {
        "MemoryStore": zarr.storage.MemoryStore(values, read_only=True),
        "LoggingStore": zarr.storage.LoggingStore(zarr.storage.MemoryStore(values, read_only=True)),
    }
    return Place(zarr.storage.MemoryStore(values), lambda: {key: each.to_bytes() for key, each in values.items()}, read)


def _object_store(tmp: Path, zarr_format: int) -> Place:
    store = obstore.store.MemoryStore()
    _fill(zarr.storage.ObjectStore(store), zarr_format)

    def stored() -> dict[str, bytes]:
        paths = [each["path"] for batch in store.list() for each in batch]
        return {path: bytes(store.get(path).bytes()) for path in paths}

    return Place(store, stored, {"ObjectStore": zarr.storage.ObjectStore(store, read_only=True)})


def _fsspec(tmp: Path, zarr_format: int) -> Place:
    fs = fsspec.filesystem("memory")
    root = f"/modes{next(_numbers)}"
    mapper = fs.get_mapper(root)
    _fill(mapper, zarr_format)
    locked = fsspec.FSMap(root, fs)
    locked.read_only = True
    wrapped = AsyncFileSystemWrapper(fs, asynchronous=True)
    store = zarr.storage.FsspecStore(wrapped, path=root, read_only=True)
    return Place(
        mapper, lambda: {key: mapper[key] for key in mapper}, {"read_only mapper": locked, "FsspecStore": store}
    )


PLACES = [_path, _uri, _local_store, _zip, _dict, _own, _memory_store, _object_store, _fsspec]


# --- how an array and its group are reached ---


def _child(g: ps.Group) -> tuple[ps.Group, ps.Array]:
    return g["g"], g["g/a"]  # type: ignore[return-value]


REACHED: dict[str, Callable[[Any, str | None], tuple[ps.Group, ps.Array]]] = {
    "open": lambda t, mode: (ps.open(t, "g", mode=mode), ps.open(t, "g/a", mode=mode)),  # type: ignore[dict-item, return-value]
    "open_group, open_array": lambda t, mode: (ps.open_group(t, "g", mode=mode), ps.open_array(t, "g/a", mode=mode)),
    "children": lambda t, mode: _child(ps.open_group(t, mode=mode)),
    "members": lambda t, mode: (lambda m: (m["g"], m["g/a"]))(dict(ps.open_group(t, mode=mode).members(None))),  # type: ignore[return-value]
    "groups, arrays": lambda t, mode: (lambda g: (g, dict(g.arrays())["a"]))(
        dict(ps.open_group(t, mode=mode).groups())["g"]
    ),
}
COPIED: dict[str, Callable[[Any], Any]] = {
    "pickle": lambda node: pickle.loads(pickle.dumps(node)),
    "deepcopy": copy.deepcopy,
    "packed": lambda node: _portable.unpack(_portable.pack(node)) if isinstance(node, ps.Array) else copy.copy(node),
}


def _refuses_all(place: Place, before: dict[str, bytes], group: ps.Group, array: ps.Array, hint: bool) -> None:
    assert group.read_only
    assert array.read_only
    for name, op in OPS.items():
        with pytest.raises(ps.ReadOnlyError) as refused:
            op(group, array)
        assert isinstance(refused.value, PermissionError)
        assert isinstance(refused.value, ValueError)
        if hint:
            assert 'mode "r+"' in str(refused.value), name
        assert place.stored() == before, name
    np.testing.assert_array_equal(array[...], VALUES)
    assert dict(group.attrs) == dict(array.attrs) == {"old": 1}


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("make", PLACES, ids=lambda each: each.__name__[1:])
class TestMatrix:
    def test_mode_r_refuses_every_change(self, make: Any, zarr_format: int, tmp_path: Path) -> None:
        place = make(tmp_path, zarr_format)
        before = place.stored()
        for reach in REACHED.values():
            _refuses_all(place, before, *reach(place.target, "r"), True)
        if make in (_path, _uri, _zip):
            for again in COPIED.values():
                group, array = REACHED["open"](place.target, "r")
                _refuses_all(place, before, again(group), again(array), True)

    def test_read_only_stores_are_obeyed(self, make: Any, zarr_format: int, tmp_path: Path) -> None:
        place = make(tmp_path, zarr_format)
        before = place.stored()
        for target in place.only_read.values():
            for name in ("open", "children"):
                for mode in (None, "r"):
                    _refuses_all(place, before, *REACHED[name](target, mode), False)
            for mode in ("r+", "a"):
                for opener in (ps.open, ps.open_group):
                    with pytest.raises(ps.ReadOnlyError, match="g"):
                        opener(target, "g", mode=mode)
                with pytest.raises(ps.ReadOnlyError, match="a"):
                    ps.open_array(target, "g/a", mode=mode)
            with pytest.raises(ps.ReadOnlyError):
                ps.open_group(target, "g", mode="w")
            with pytest.raises(ps.ReadOnlyError):
                ps.create_array(target, "g/a", data=VALUES, overwrite=True)
            with pytest.raises(ps.ReadOnlyError):
                ps.copy(VALUES_SOURCE, target, "g/a", overwrite=True)
            with pytest.raises(ps.Error):
                ps.consolidate_metadata(target)
            assert place.stored() == before

    def test_other_modes_make_every_change(self, make: Any, zarr_format: int, tmp_path: Path) -> None:
        for number, (name, op) in enumerate(OPS.items()):
            folder = tmp_path / str(number)
            folder.mkdir()
            place = make(folder, zarr_format)
            before = place.stored()
            mode = (None, "r+", "a")[number % 3]
            group, array = list(REACHED.values())[number % len(REACHED)](place.target, mode)
            assert not group.read_only
            assert not array.read_only
            op(group, array)
            if "nothing" not in name:
                assert place.stored() != before, name


VALUES_SOURCE = ps.create_array({}, data=VALUES)


# --- formats that can only be read ---


def _formats(tmp: Path) -> Iterator[tuple[str, Any]]:
    np.save(tmp / "x.npy", VALUES)
    yield "npy", ps.open(tmp / "x.npy")
    ps.save(tmp / "x.tif", VALUES.astype("u1")[None])
    yield "tiff", ps.open(tmp / "x.tif")
    yield "tiff bytes", ps.open((tmp / "x.tif").read_bytes())
    np.save(tmp / "s_0.npy", VALUES)
    np.save(tmp / "s_1.npy", VALUES)
    yield "shards", ps.open_shards(str(tmp / "s_*.npy"))
    ps.save_manifest(ps.open_shards(str(tmp / "s_*.npy")), tmp / "m.json")
    yield "manifest", ps.open(tmp / "m.json")
    with contextlib.suppress(ImportError):
        import h5py

        with h5py.File(tmp / "x.h5", "w") as file:
            file["g/a"] = VALUES
        yield "hdf5 array", ps.open(tmp / "x.h5", "g/a")
        yield "hdf5 group", ps.open(tmp / "x.h5")
    references = {"version": 1, "refs": {".zgroup": '{"zarr_format": 2}', "a/.zarray": _ZARRAY, "a/0.0": "base64:AAE="}}
    import json

    (tmp / "refs.json").write_text(json.dumps(references))
    yield "references", ps.open(tmp / "refs.json")
    yield "referenced array", ps.open(tmp / "refs.json", "a")
    with contextlib.suppress(ImportError):
        import pyarrow as pa
        import pyarrow.parquet as pq

        pq.write_table(pa.table({"a": [1.0, 2.0]}), tmp / "x.parquet")
        yield "parquet", ps.open(tmp / "x.parquet")


_ZARRAY = (
    '{"zarr_format": 2, "shape": [1, 2], "chunks": [1, 2], "dtype": "|u1", "compressor": null, "fill_value": 0, '
    '"order": "C", "filters": null}'
)


def test_read_only_formats_report_it(tmp_path: Path) -> None:
    opened = dict(_formats(tmp_path))
    before = _folder(tmp_path)
    assert len(opened) >= 7
    for name, node in opened.items():
        assert node.read_only, name
        ops: list[Callable[[], Any]] = []
        if isinstance(node.attrs, Attributes):
            ops += [lambda n=node: n.attrs.update(x=1), lambda n=node: _set_attrs(n)]
        else:  # attributes of HDF5 are a mapping without item assignment
            assert isinstance(node.attrs, types.MappingProxyType)
        if isinstance(node, ps.Array):
            ops += [lambda n=node: _assign(n, ..., n[...]), lambda n=node: n.resize(n.shape)]
            ops += [lambda n=node: n.append(n[...]), lambda n=node: n.appender()]
        else:
            ops += [lambda n=node: _assign(n, "new", VALUES), lambda n=node: _delete(n, next(iter(n)))]
            ops += [lambda n=node: n.create_group("new"), lambda n=node: n.create_array("new", data=VALUES)]
        for op in ops:
            with pytest.raises(ps.ReadOnlyError):
                op()
    assert _folder(tmp_path) == before


@pytest.mark.parametrize("mode", ["r+", "a"])
@pytest.mark.parametrize("name", ["x.npy", "x.tif", "x.h5", "refs.json", "m.json"])
def test_read_only_formats_refuse_modes_that_write(tmp_path: Path, name: str, mode: str) -> None:
    dict(_formats(tmp_path))
    assert ps.open(tmp_path / name, mode="r").read_only
    with pytest.raises(ps.ReadOnlyError, match="s_0.npy" if name == "m.json" else name):
        ps.open(tmp_path / name, mode=mode)


# --- modes that create ---


@pytest.mark.parametrize("opener", [ps.open, ps.open_array])
@pytest.mark.parametrize("mode", ["w", "w-", "x"])
def test_open_and_open_array_name_the_call_that_creates(tmp_path: Path, opener: Any, mode: str) -> None:
    ps.save(tmp_path / "a.zarr", VALUES)
    before = _folder(tmp_path)
    with pytest.raises(ps.InvalidArgumentError, match=r"create_array\(.*open_group"):
        opener(tmp_path / "a.zarr", mode=mode)
    assert _folder(tmp_path) == before


@pytest.mark.parametrize("opener", [ps.open, ps.open_array])
def test_mode_a_opens_and_creates_nothing(tmp_path: Path, opener: Any) -> None:
    with pytest.raises(ps.NotFoundError, match="open_group"):
        opener(tmp_path / "a.zarr", mode="a")
    assert not (tmp_path / "a.zarr").exists()
    ps.save(tmp_path / "a.zarr", VALUES)
    opener(tmp_path / "a.zarr", mode="a")[0] = 5
    assert np.array_equal(opener(tmp_path / "a.zarr")[0], [5, 5, 5])


@pytest.mark.parametrize("mode", ["rw", "", "R", "wb"])
@pytest.mark.parametrize("opener", [ps.open, ps.open_array, ps.open_group])
def test_an_unknown_mode_is_refused(opener: Any, mode: str) -> None:
    with pytest.raises(ps.InvalidArgumentError, match="mode must be"):
        opener({}, mode=mode)


# The outcome is that of zarr.open_group, for each mode and each kind of existing node.
@pytest.mark.parametrize("mode", ["r", "r+", "a", "w", "w-"])
@pytest.mark.parametrize("there", ["nothing", "group", "array"])
def test_open_group_behaves_like_zarr_python(tmp_path: Path, mode: Any, there: str) -> None:
    outcomes = []
    for name in ("ours", "theirs"):
        path = tmp_path / name
        if there == "group":
            ps.create_group(path).create_array("a", data=VALUES)
        elif there == "array":
            ps.save(path, VALUES)
        try:
            made: Any = ps.open_group(path, mode=mode) if name == "ours" else zarr.open_group(path, mode=mode)
        except Exception:
            outcomes.append(None)
        else:
            outcomes.append((sorted(made.keys()), made.read_only))
    if (mode, there) == ("a", "array"):
        assert outcomes[0] is None  # refused, although some releases of zarr-python replace the array by a group
        assert np.array_equal(ps.open_array(tmp_path / "ours")[...], VALUES)
    else:
        assert outcomes[0] == outcomes[1]


# --- other functions that open ---


def test_xarrays_engine_opens_for_reading(tmp_path: Path) -> None:
    xr = pytest.importorskip("xarray")
    xr.Dataset({"a": (("y", "x"), VALUES)}).to_zarr(tmp_path / "d.zarr", consolidated=False)
    from penstock.interop.xarray.lazy import Place as Opened

    node = Opened(str(tmp_path / "d.zarr"), "a").open()
    assert node.read_only
    with pytest.raises(ps.ReadOnlyError):
        node[...] = 0


@pytest.mark.skipif(ZARR_VERSION < (3, 4), reason="arrays are wrapped in zarr 3.4 and later")
@pytest.mark.parametrize("store", ["path", "LocalStore", "MemoryStore"])
def test_arrays_of_the_plug_in_obey_their_mode(tmp_path: Path, store: str) -> None:
    target: Any = tmp_path / "z.zarr"
    if store == "LocalStore":
        target = zarr.storage.LocalStore(target)
    elif store == "MemoryStore":
        target = zarr.storage.MemoryStore()
    zarr.open_group(target, mode="w").create_array("a", data=VALUES, chunks=(2, 3))
    group = penstock.zarr.open_group(target, mode="r")
    arrays = [
        penstock.zarr.open_array(target, path="a", mode="r"),
        penstock.zarr.wrap(zarr.open_array(target, path="a", mode="r")),
        group["a"],
    ]
    for array in arrays:
        assert array.read_only
        for op in (
            lambda a: _assign(a, ..., 7),
            lambda a: _assign(a.oindex, ([0], [1]), 7),
            lambda a: _assign(a.vindex, ([0], [1]), 7),
            lambda a: _assign(a, ..., VALUES),
            lambda a: a.append(VALUES),
            lambda a: a.resize((8, 3)),
            lambda a: a.update_attributes({"x": 1}),
        ):
            with pytest.raises(ValueError, match="read-only"):
                op(array)
        assert np.array_equal(array[...], VALUES)
        opened = ps.open(array)
        assert opened.read_only
        with pytest.raises(ps.ReadOnlyError):
            opened[...] = 7
    with pytest.raises(ValueError, match="read-only"):
        del group["a"]
    writable = penstock.zarr.open_array(target, path="a", mode="r+")
    writable[...] = 7
    assert np.array_equal(arrays[0][...], np.full((4, 3), 7))


def test_a_stream_and_a_job_of_a_read_only_array_work(tmp_path: Path) -> None:
    ps.save(tmp_path / "a.zarr", VALUES)
    a = ps.open_array(tmp_path / "a.zarr", mode="r")
    assert np.array_equal(a.read_async().wait(), VALUES)
    with ps.stream(a) as tiles:
        assert sum(int(np.asarray(tile.data).sum()) for tile in tiles) == VALUES.sum()
    assert np.array_equal(ps.copy(a, {})[...], VALUES)


def test_without_a_mode_the_store_decides_what_is_written(tmp_path: Path) -> None:
    ps.save(tmp_path / "a.zarr", VALUES)
    for opener in (ps.open, ps.open_array):
        opener(tmp_path / "a.zarr")[0] = 9
    ps.open_group(tmp_path / "g.zarr", mode="w")
    ps.open_group(tmp_path / "g.zarr").create_group("x")


def _refuses_without_permission(path: str) -> None:
    node = ps.open(path)
    name = path.rpartition("/")[2]
    assert node.read_only
    for mode in ("r+", "a"):
        with pytest.raises(ps.PermissionDeniedError, match=name):
            ps.open(path, mode=mode)
    with pytest.raises(ps.PermissionDeniedError, match=name):
        node.attrs["x"] = 1


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
@pytest.mark.parametrize("name", ["a.zarr", "g.zarr", "a.zip"])
def test_a_folder_or_archive_without_permission_is_read_only(name: str) -> None:
    with tempfile.TemporaryDirectory() as folder:  # pytest's folder is only accessible to its user
        path = f"{folder}/{name}"
        if name == "g.zarr":
            ps.create_group(path)
        else:
            ps.save(path, VALUES)
        everything = [Path(folder), *Path(folder).rglob("*")]
        for each in everything:
            each.chmod(0o555 if each.is_dir() else 0o444)
        child = os.fork()
        if child == 0:
            try:
                if os.geteuid() == 0:  # root may write everything
                    os.setresuid(65534, 65534, 65534)
                _refuses_without_permission(path)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        for each in everything:
            each.chmod(0o755 if each.is_dir() else 0o644)
        assert status == 0


def test_the_command_line_opens_read_only_places(tmp_path: Path) -> None:
    ps.save(tmp_path / "a.zarr", VALUES)
    before = _folder(tmp_path)
    for verb in (["info"], ["check"], ["plan"], ["read"]):
        run = subprocess.run(
            [sys.executable, "-m", "penstock", *verb, str(tmp_path / "a.zarr")], capture_output=True, text=True
        )
        assert run.returncode == 0, run.stderr
    assert _folder(tmp_path) == before
    run = subprocess.run(
        [sys.executable, "-m", "penstock", "copy", str(tmp_path / "a.zarr"), "http://127.0.0.1:9/x", "--overwrite"],
        capture_output=True,
        text=True,
    )
    assert run.returncode == 1
    assert "read_only: this store cannot be written to: http://127.0.0.1:9" in run.stderr


def test_core_modes_are_the_same_for_nodes_of_the_engine() -> None:
    a = ps.create_array({}, data=VALUES)
    _core.set_mode(a, "r")
    with pytest.raises(ps.ReadOnlyError):
        a[0] = 1


def test_an_open_node_is_not_a_target(tmp_path):
    ps.save(tmp_path / "a.zarr", x=np.ones(3))
    group = ps.open(tmp_path / "a.zarr")
    for node in (group, group["x"]):
        with pytest.raises(ps.InvalidArgumentError, match="is open already"):
            ps.open(node)
