"""References: both of kerchunk's forms, compared with kerchunk, fsspec and zarr-python."""

from __future__ import annotations

import base64
import json
import os
import pickle
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
from support.http_server import HttpServer

ZGROUP = '{"zarr_format": 2}'


def zarray(shape: list[int], chunks: list[int], dtype: str = "<i4", **more: Any) -> str:
    document = {"zarr_format": 2, "shape": shape, "chunks": chunks, "dtype": dtype, "order": "C", "filters": None}
    return json.dumps({**document, "compressor": None, "fill_value": -1, **more})


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, np.ndarray[Any, Any], dict[str, Any]]:
    """Chunks of (2, 3) in two binary files, one chunk inline, one never written."""
    data = np.arange(24, dtype="<i4").reshape(4, 6)
    chunks = {(i, j): data[2 * i : 2 * i + 2, 3 * j : 3 * j + 3].tobytes() for i in range(2) for j in range(2)}
    (tmp_path / "one.bin").write_bytes(b"head" + chunks[0, 0])
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "two.bin").write_bytes(chunks[0, 1])
    refs = {
        ".zgroup": ZGROUP,
        ".zattrs": '{"title": "x"}',
        "x/.zarray": zarray([4, 6], [2, 3]),
        "x/.zattrs": '{"units": "m", "_ARRAY_DIMENSIONS": ["a", "b"]}',
        "x/0.0": ["one.bin", 4, 24],
        "x/0.1": ["sub/two.bin"],
        "x/1.0": "base64:" + base64.b64encode(chunks[1, 0]).decode(),
    }
    data[2:, 3:] = -1
    return tmp_path, data, refs


def save(folder: Path, document: Any) -> Path:
    path = folder / "refs.json"
    path.write_text(json.dumps(document))
    return path


@pytest.mark.parametrize("version", [0, 1])
def test_json_references(files, version):
    folder, data, refs = files
    path = save(folder, refs if version == 0 else {"version": 1, "refs": refs})
    group = ps.open(path)
    assert isinstance(group, ps.Group)
    assert group.format == "reference"
    assert group.attrs["title"] == "x"
    assert group.keys() == ["x"]
    array = group["x"]
    assert array.read_only
    assert array.attrs["units"] == "m"
    assert np.array_equal(array[...], data)
    assert np.array_equal(array[::-1, 1:5:2], data[::-1, 1:5:2])
    assert np.array_equal(ps.open(path, "x")[1], data[1])
    assert np.array_equal(ps.open("reference://x", storage_options={"fo": str(path)})[...], data)
    for node in (group, array):
        again = pickle.loads(pickle.dumps(node))
        assert again.uri == node.uri
    assert np.array_equal(pickle.loads(pickle.dumps(array))[...], data)
    with pytest.raises(ps.NotFoundError):
        group["y"]
    with pytest.raises(ps.Error):
        array[0] = 1


def test_references_in_a_dict(files, monkeypatch):
    folder, data, refs = files
    monkeypatch.chdir(folder)
    group = ps.open("reference://", storage_options={"fo": refs})
    assert np.array_equal(group["x"][...], data)
    with pytest.raises(TypeError, match="cannot pickle"):
        pickle.dumps(group["x"])


def test_missing_files_are_an_error_or_the_fill_value(files):
    folder, data, refs = files
    path = save(folder, refs)
    (folder / "sub" / "two.bin").unlink()
    array = ps.open(path)["x"]
    with pytest.raises(FileNotFoundError) as caught:
        array[...]
    for words in ("chunk (0, 1)", "sub/two.bin", "refs.json/x"):
        assert words in str(caught.value), words
    assert np.array_equal(array[:, :3], data[:, :3])
    data[:2, 3:] = -1
    filled = ps.open(path, missing="fill")["x"]
    assert np.array_equal(filled[...], data)
    assert np.array_equal(pickle.loads(pickle.dumps(filled))[...], data)
    (folder / "one.bin").unlink()
    data[:2] = -1
    assert np.array_equal(filled[...], data)
    with pytest.raises(ps.InvalidArgumentError, match="missing"):
        ps.open(path, missing="skip")


def test_ranges_that_leave_their_file_are_named(files):
    folder, _, refs = files
    array = ps.open(save(folder, {**refs, "x/0.0": ["one.bin", 8, 24]}), missing="fill")["x"]
    with pytest.raises(ps.CorruptDataError) as caught:
        array[...]
    assert "one.bin" in str(caught.value)
    assert "[8, 32)" in str(caught.value)


def test_zarr_v3_documents(files):
    folder, data, refs = files
    document = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [4, 6],
        "data_type": "int32",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2, 3]}},
        "chunk_key_encoding": {"name": "default"},
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
        "fill_value": -1,
        "dimension_names": ["a", None],
    }
    three = {"zarr.json": '{"zarr_format":3,"node_type":"group"}', "g/x/zarr.json": document}
    three["g/zarr.json"] = three["zarr.json"]
    for key in ("0.0", "0.1", "1.0"):
        three["g/x/c/" + key.replace(".", "/")] = refs["x/" + key]
    array = ps.open(save(folder, {"version": 1, "refs": three}))["g/x"]
    assert array.dimension_names == ("a", None)
    assert np.array_equal(array[...], data)


def test_templates_and_generated_keys(tmp_path):
    data = np.arange(40, dtype="<i4")
    for i in range(5):
        (tmp_path / f"part_{i}.bin").write_bytes(b"." * 3 * i + data[8 * i : 8 * i + 8].tobytes())
    refs = {
        "version": 1,
        "templates": {"u": str(tmp_path), "f": "{{u}}/part_{{n}}.bin"},
        "gen": [
            {
                "key": "x/{{i + 1}}",
                "url": "{{f(n=i + 1)}}",
                "offset": "{{(i + 1) * 3}}",
                "length": "32",
                "dimensions": {"i": {"stop": 4}},
            }
        ],
        "refs": {"x/.zarray": zarray([40], [8]), "x/0": ["{{u}}/part_0.bin", 0, 32], ".zgroup": ZGROUP},
    }
    assert np.array_equal(ps.open(save(tmp_path, refs))["x"][...], data)
    for bad in ("{{v}}", "{{__import__('os')}}", "{{u.__class__}}", "{{2 ** 9}}", "{{f(}}", "{{(lambda: 1)()}}"):
        path = save(tmp_path, {**refs, "gen": [], "refs": {**refs["refs"], "x/0": [bad]}})
        with pytest.raises(ps.Error, match=r"template"):
            ps.open(path)
    circle = {**refs, "templates": {"u": "{{w}}", "w": "{{u}}", "f": ""}}
    with pytest.raises(ps.CorruptDataError, match="circles"):
        ps.open(save(tmp_path, circle))


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (["one.bin", 4], "needs text"),
        (["one.bin", -4, 3], "needs text"),
        (["one.bin", 0, 0], "names no bytes"),
        (["one.bin", True, 3], "needs text"),
        ("base64:!!", "not valid base64"),
        (7, "needs text"),
        ([["one.bin"]], "needs text"),
        (["one.bin", 0, 1 << 40], "codecs make at most"),
    ],
)
def test_wrong_references_are_refused(files, value, words):
    folder, _, refs = files
    group = ps.open(save(folder, {**refs, "x/0.0": value}))
    with pytest.raises(ps.CorruptDataError, match=words):
        group["x"]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ('"refs": {}, "refs": {}', "duplicate member"),
        ('"refs": {}, "gen": {}', "'gen'.* is a list"),
        ('"refs": {}, "gen": [{"key": "{{i}}", "url": "u", "dimensions": {"i": [1.5]}}]', "whole numbers"),
        ('"refs": {}, "gen": [{"key": "{{i}}", "url": "u", "dimensions": {"i": {"stop": "1"}}}]', "whole number"),
        (
            '"refs": {}, "gen": [{"key": "k", "url": "u", "offset": "x", "length": 1, "dimensions": {"i": [1]}}]',
            "not a number",
        ),
    ],
)
def test_documents_with_wrong_members_are_refused(tmp_path, more, words):
    path = tmp_path / "refs.json"
    path.write_text('{"version": 1, ' + more + "}")
    with pytest.raises(ps.CorruptDataError, match=words):
        ps.open(path)


def test_dicts_contain_only_what_json_allows(files, monkeypatch):
    folder, data, refs = files
    monkeypatch.chdir(folder)
    numbers = {**refs, "x/0.0": ["one.bin", np.int64(4), np.uint8(24)], "x/.zarray": json.loads(refs["x/.zarray"])}
    assert np.array_equal(ps.open(numbers, "x")[...], data)
    with pytest.raises(ps.InvalidArgumentError, match="base64:"):
        ps.open("reference://", storage_options={"fo": {**refs, "x/1.0": b"bytes"}})
    with pytest.raises(ps.InvalidArgumentError, match="not a document of references"):
        ps.open("reference://", storage_options={"fo": {**refs, "x/1.0": 1.5j}})


def test_names_that_are_not_utf8(files):
    folder, data, refs = files
    name = os.fsdecode(b"odd\xff\xfe.bin")
    (folder / "one.bin").rename(folder / name)
    array = ps.open(save(folder, {**refs, "x/0.0": [name, 4, 24]}), "x")
    assert np.array_equal(array[...], data)
    ps.save_manifest(array, folder / "x.manifest")
    again = ps.open(folder / "x.manifest")
    assert np.array_equal(again[...], data)
    assert np.array_equal(pickle.loads(pickle.dumps(again))[...], data)


def test_manifests_name_the_wrong_member(files):
    folder, data, refs = files
    path = folder / "x.manifest"
    ps.save_manifest(ps.open(save(folder, refs), "x"), path)
    saved = path.read_bytes()
    line, table = saved.split(b"\n", 1)
    document = json.loads(line)
    for change in (
        {"objects": 1},
        {"objects": [{"name": "x", "path": 1}]},
        {"objects": [{"name": "x", "data": "!"}]},
        {"objects": [{**document["objects"][0], "stamp": "now"}]},
        {"table": {**document["table"], "crc32": 0}},
        {"table": {**document["table"], "bytes": 0}},
        {"documents": {}},
        {"dimension_names": None, "variants": [1]},
        {"format": None},
    ):
        path.write_bytes(json.dumps({**document, **change}).encode() + b"\n" + table)
        with pytest.raises(ps.CorruptDataError):
            ps.open(path)
    for end in range(0, len(saved), 7):
        path.write_bytes(saved[:end])
        with pytest.raises(ps.Error):
            ps.open(path)
    path.write_bytes(saved)
    assert np.array_equal(ps.open(path)[...], data)
    (folder / "one.bin").write_bytes(b"changed")
    with pytest.raises(ps.ConflictError, match=r"one\.bin"):
        ps.open(path)


def test_documents_that_are_not_references(tmp_path):
    for text, error in {
        '{"a": 1}': ps.CorruptDataError,
        '{"version": 2, "refs": {}}': ps.UnsupportedError,
        '{"version": 1, "refs": {': ps.CorruptDataError,
        '{"version": 1, "refs": []}': ps.CorruptDataError,
        '{"penstock_manifest": 9}': ps.UnsupportedError,
        '{"penstock_manifest": 1}': ps.UnsupportedError,
        '{"penstock_manifest": 1, "kind": "references"}\n': ps.CorruptDataError,
    }.items():
        path = tmp_path / "x.json"
        path.write_text(text)
        with pytest.raises(error):
            ps.open(path)


def test_manifests_are_movable_with_their_files(files):
    folder, data, refs = files
    array = ps.open(save(folder, refs))["x"]
    ps.save_manifest(array, folder / "x.manifest")
    again = ps.open(folder / "x.manifest")
    assert np.array_equal(again[...], data)
    assert again.attrs["units"] == "m"
    moved = folder.parent / (folder.name + "_moved")
    shutil.copytree(folder, moved, copy_function=shutil.copy2)
    assert np.array_equal(ps.open(moved / "x.manifest")[...], data)
    (moved / "one.bin").unlink()
    assert np.array_equal(ps.open(moved / "x.manifest", missing="fill")[2:], data[2:])
    with pytest.raises(FileNotFoundError):
        ps.open(moved / "x.manifest")[...]
    with pytest.raises(ps.InvalidArgumentError):
        ps.save_manifest(ps.create_array({}, shape=(2,), dtype="i4", chunks=(2,)), folder / "y")


def test_a_manifest_may_not_have_any_number_of_chains(files):
    folder, _, refs = files
    path = folder / "x.manifest"
    ps.save_manifest(ps.open(save(folder, refs))["x"], path)
    line, rest = path.read_bytes().split(b"\n", 1)
    document = {**json.loads(line), "variants": [[[], None]] * 100_000}
    path.write_bytes(json.dumps(document).encode() + b"\n" + rest)
    with pytest.raises(ps.CorruptDataError, match="100000 chains"):
        ps.open(path)


def test_parquet_references(files, monkeypatch):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    folder, data, refs = files
    out = folder / "refs.parq"
    (out / "x").mkdir(parents=True)
    metadata = {".zgroup": json.loads(ZGROUP), "x/.zarray": json.loads(refs["x/.zarray"]), "x/.zattrs": {"units": "m"}}
    (out / ".zmetadata").write_text(json.dumps({"metadata": metadata, "record_size": 3}))
    inline = base64.b64decode(refs["x/1.0"][7:])
    table = pa.table(
        {
            "path": ["../../one.bin", "../../sub/two.bin", None],
            "offset": [4, 0, 0],
            "size": [24, 0, 0],
            "raw": pa.array([None, None, inline], pa.binary()),
        }
    )
    pq.write_table(table, out / "x" / "refs.0.parq")
    monkeypatch.setitem(sys.modules, "pyarrow", None)  # the engine reads the files
    array = ps.open(out)["x"]
    assert np.array_equal(array[...], data)
    assert np.array_equal(pickle.loads(pickle.dumps(array))[...], data)


@pytest.mark.parametrize("options", [None, {"remote_options": {"headers": {"X-Key": "1"}}}])
def test_files_over_http_are_read_by_the_engine_itself(files, options, monkeypatch):
    folder, data, refs = files
    for library in ("fsspec.core", "obstore.store"):
        monkeypatch.setitem(sys.modules, library, None)
    objects = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.bin")}
    with HttpServer(objects) as server:
        remote = {
            key: [f"{server.url}/{value[0]}", *value[1:]] if isinstance(value, list) else value
            for key, value in refs.items()
        }
        (folder / "remote.json").write_text(json.dumps(remote))
        assert np.array_equal(ps.open(folder / "remote.json", "x", storage_options=options)[...], data)
        agents = {request.headers["user-agent"].split("/")[0] for request in server.requests}
        assert agents == {"penstock"}
        assert all(request.headers.get("x-key") == ("1" if options else None) for request in server.requests)


@pytest.fixture
def memory(files):
    """The same files in fsspec's memory, below memory://refs."""
    fsspec = pytest.importorskip("fsspec")
    folder, data, refs = files
    there = fsspec.filesystem("memory")
    for path in folder.rglob("*.bin"):
        there.pipe(f"/refs/{path.relative_to(folder)}", path.read_bytes())
        path.write_bytes(b"another")
    there.pipe("/refs/r.json", json.dumps(refs).encode())
    yield there, folder, data, refs
    there.rm("/refs", recursive=True)


def test_remote_references_are_relative_to_their_document(memory, monkeypatch):
    there, folder, data, refs = memory
    monkeypatch.chdir(folder)  # this folder has files of the same names
    group = ps.open("memory://refs/r.json")
    assert group.format == "reference"
    assert np.array_equal(group["x"][...], data)
    assert np.array_equal(pickle.loads(pickle.dumps(group["x"]))[...], data)
    assert np.array_equal(ps.open("reference://x", storage_options={"fo": "memory://refs/r.json"})[...], data)
    there.pipe(
        "/refs/below/r.json",
        json.dumps({**refs, "x/0.0": ["../one.bin", 4, 24], "x/0.1": ["memory://refs/sub/two.bin"]}).encode(),
    )
    assert np.array_equal(ps.open("memory://refs/below/r.json", "x")[...], data)
    with pytest.raises(ps.NotFoundError):
        ps.open("memory://refs/nothing.json")


@pytest.mark.parametrize(
    "name", ["{}/one.bin", "file://{}/one.bin", "local://{}/one.bin", "simplecache::file://{}/one.bin"]
)
def test_remote_references_name_no_local_files(memory, name):
    there, folder, data, refs = memory
    (folder / "one.bin").write_bytes(b"head" + data[:2, :3].tobytes())
    there.pipe("/refs/r.json", json.dumps({**refs, "x/0.0": [name.format(folder), 4, 24]}).encode())
    with pytest.raises(ps.UnsupportedError, match=r"one\.bin'.*a file of this machine"):
        ps.open("memory://refs/r.json", "x")
    if name.startswith("{}"):
        there.pipe(
            "/refs/r.json",
            json.dumps(
                {**refs, "x/0.0": [name.format(folder), 4, 24], "x/0.1": ["memory://refs/sub/two.bin"]}
            ).encode(),
        )
        allowed = ps.open("memory://refs/r.json", "x", storage_options={"remote_protocol": "file"})
        assert np.array_equal(allowed[...], data)


def test_names_without_a_scheme_are_of_the_remote_protocol(memory):
    _there, folder, data, refs = memory
    path = save(folder, {**refs, "x/0.0": ["refs/one.bin", 4, 24], "x/0.1": ["/refs/sub/two.bin"]})
    array = ps.open(path, "x", storage_options={"remote_protocol": "memory"})
    assert np.array_equal(array[...], data)
    assert np.array_equal(pickle.loads(pickle.dumps(array))[...], data)
    options = {"fo": str(path), "remote_protocol": "memory"}
    assert np.array_equal(ps.open("reference://x", storage_options=options)[...], data)


def test_pickled_groups_keep_their_permissions(memory):
    there, folder, data, refs = memory
    (folder / "one.bin").write_bytes(b"head" + data[:2, :3].tobytes())
    there.pipe("/refs/r.json", json.dumps({**refs, "x/0.0": [str(folder / "one.bin"), 4, 24]}).encode())
    group = ps.open("memory://refs/r.json", allow_local=True)
    assert np.array_equal(pickle.loads(pickle.dumps(group))["x"][...], data)
    inner = ps.open("reference://", storage_options={"fo": "memory://refs/r.json"}, allow_local=True)
    assert np.array_equal(pickle.loads(pickle.dumps(inner["x"]))[...], data)
    assert np.array_equal(dict(pickle.loads(pickle.dumps(inner)).arrays())["x"][...], data)


@pytest.mark.parametrize("name", ["r.parq", "r"])
@pytest.mark.parametrize("more", [{}, {"zarr_consolidated_format": 1}], ids=["plain", "as Zarr"])
def test_remote_parquet_references(memory, name, more):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    there, _folder, data, refs = memory
    metadata = {".zgroup": json.loads(ZGROUP), "x/.zarray": json.loads(refs["x/.zarray"])}
    there.pipe(f"/refs/{name}/.zmetadata", json.dumps({"metadata": metadata, "record_size": 2, **more}).encode())
    first = {"path": ["../../one.bin", "memory://refs/sub/two.bin"], "offset": [4, 0], "size": [24, 0]}
    raw = pa.array([base64.b64decode(refs["x/1.0"][7:]), None], pa.binary())
    for record, table in enumerate(
        [pa.table(first), pa.table({"path": [None, None], "offset": [0, 0], "size": [0, 0], "raw": raw})]
    ):
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink)
        there.pipe(f"/refs/{name}/x/refs.{record}.parq", sink.getvalue().to_pybytes())
    for given in ({}, {"missing": "fill"}, {"storage_options": {"remote_protocol": "memory"}}):
        array = ps.open(f"memory://refs/{name}", "x", **given)
        assert array.format == "reference"
        if "storage_options" not in given:  # without them, relative names would start at the root of the protocol
            assert np.array_equal(array[...], data)
            assert np.array_equal(pickle.loads(pickle.dumps(array))[...], data)
    assert ps.open(f"memory://refs/{name}").format == "reference"


def test_files_at_the_root_of_a_remote_store(memory):
    there, _, data, refs = memory
    there.pipe("/root.bin", b"head" + data[:2, :3].tobytes())
    try:
        a = ps.open({**refs, "x/0.0": ["memory://root.bin", 4, 24]})["x"]
        assert np.array_equal(a[:2, :3], data[:2, :3])
    finally:
        there.rm("/root.bin")


def test_fsspecs_references_in_parquet_files_name_their_folder(memory):
    """kerchunk gives them to xarray as an object."""
    reference = pytest.importorskip("fsspec.implementations.reference")
    there, folder, data, _ = memory
    ps.save_references(ps.open("memory://refs/r.json"), folder / "r.parq")
    there.put(str(folder / "r.parq"), "/refs/r.parq", recursive=True)
    fo = reference.LazyReferenceMapper("/refs/r.parq", there, engine="pyarrow")
    assert np.array_equal(ps.open("reference://x", storage_options={"fo": fo})[...], data)


def test_xarrays_engine_does_not_give_references_to_fsspec(memory, monkeypatch):
    xarray = pytest.importorskip("xarray")
    _, folder, data, _ = memory
    ps.save_references(ps.open("memory://refs/r.json"), folder / "r.parq")

    def refuse(url: str, **options: Any) -> Any:
        assert not url.startswith("reference:"), url
        return url_to_fs(url, **options)

    url_to_fs = sys.modules["fsspec.core"].url_to_fs
    monkeypatch.setattr("fsspec.core.url_to_fs", refuse)
    opened = xarray.open_dataset(
        "reference://", engine="penstock", mask_and_scale=False, storage_options={"fo": str(folder / "r.parq")}
    )
    assert np.array_equal(opened["x"].values, data)


def test_remote_json_references_need_no_suffix(memory):
    there, _folder, data, refs = memory
    there.pipe("/refs/plain", json.dumps(refs).encode())
    assert np.array_equal(ps.open("memory://refs/plain", "x")[...], data)
    options = {"remote_protocol": "memory"}
    there.pipe(
        "/refs/plain", json.dumps({**refs, "x/0.0": ["refs/one.bin", 4, 24], "x/0.1": ["/refs/sub/two.bin"]}).encode()
    )
    assert np.array_equal(ps.open("memory://refs/plain", "x", storage_options=options)[...], data)


def test_kerchunks_references_of_an_hdf5_file(tmp_path):
    h5py = pytest.importorskip("h5py")
    hdf = pytest.importorskip("kerchunk.hdf")
    path = tmp_path / "x.h5"
    rng = np.random.default_rng(1)
    wanted = {"a": rng.normal(size=(50, 41)).astype("<f4"), "b": rng.integers(0, 9, (30,), ">i2".replace(">", "<"))}
    with h5py.File(path, "w") as file:
        file.create_dataset("a", data=wanted["a"], chunks=(8, 9), compression="gzip", shuffle=True)
        file.create_dataset("b", data=wanted["b"])
    try:
        refs = hdf.SingleHdf5ToZarr(str(path), inline_threshold=100).translate()
    except Exception as error:  # the release of kerchunk may not support this zarr-python
        pytest.skip(f"kerchunk cannot translate here: {error}")
    group = ps.open(save(tmp_path, json.loads(json.dumps(refs))))
    for name, data in wanted.items():
        assert np.array_equal(group[name][...], data), name


ROOT = Path(__file__).resolve().parents[2]
CORPUS = Path(os.environ.get("PENSTOCK_CORPUS", ROOT.parent / "shared" / "corpus")) / "virtual"


@pytest.mark.skipif(not CORPUS.is_dir(), reason="PENSTOCK_CORPUS is not here")
def test_the_corpus_opens_or_is_refused_with_a_message():
    opened = read = 0
    folders = [each.parent for each in CORPUS.rglob(".zmetadata")]
    for path in sorted([*CORPUS.rglob("*ref*.json"), *folders]):
        try:
            node = ps.open(path)
        except ps.Error:
            continue
        opened += 1
        for name, child in node.members() if isinstance(node, ps.Group) else []:
            try:
                values = child[...] if isinstance(child, ps.Array) else None
            except ps.Error:
                continue
            assert values is None or values.dtype == np.uint8, name
            read += 1
    assert opened >= 5
    assert read >= 3
