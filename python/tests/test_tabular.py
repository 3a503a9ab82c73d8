"""Parquet and Arrow IPC files: their columns equal what pyarrow reads."""

from __future__ import annotations

import io
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
from penstock.tabular import opening
from penstock.tabular import table as _tabular
from support.http_server import HttpServer

pa = pytest.importorskip("pyarrow")
import pyarrow.parquet as pq  # noqa: E402

ROWS = 1000
TYPES = {
    **{
        name: getattr(pa, name)() for name in ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
    },
    **{name: getattr(pa, name)() for name in ("float16", "float32", "float64", "bool_", "date32")},
    "timestamp": pa.timestamp("us"),
    "duration": pa.duration("ns"),
    "binary": pa.binary(3),
}


def column(kind: Any, rows: int, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    if pa.types.is_boolean(kind):
        return pa.array(rng.integers(0, 2, rows).astype(bool))
    if pa.types.is_fixed_size_binary(kind):
        return pa.array([bytes(row) for row in rng.integers(0, 256, (rows, 3), np.uint8)], kind)
    if pa.types.is_floating(kind):
        return pa.array(rng.normal(size=rows).astype(kind.to_pandas_dtype()), kind)
    return (
        pa.array(rng.integers(0, 100, rows).astype("i8"))
        .cast(pa.int32() if kind == pa.date32() else pa.int64())
        .cast(kind)
    )


def table(rows: int = ROWS) -> Any:
    made = {name: column(kind, rows, i) for i, (name, kind) in enumerate(TYPES.items())}
    flat = np.arange(6 * rows, dtype="f4")
    made["block"] = pa.FixedSizeListArray.from_arrays(pa.FixedSizeListArray.from_arrays(flat, 3), 2)
    made["words"] = pa.array([2.5, 1.5, 0.5] * rows).slice(0, rows).dictionary_encode()
    return pa.table(made)


def write(path: Path, data: Any, form: str, rows: int = 300) -> Path:
    if form == "parquet":
        pq.write_table(data, path, row_group_size=rows)
    elif form == "file":
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, data.schema) as out:
            out.write_table(data, max_chunksize=rows)
    else:
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, data.schema) as out:
            out.write_table(data, max_chunksize=rows)
    return path


FORMS = ["parquet", "file", "stream"]


@pytest.mark.parametrize("form", FORMS)
def test_every_column_equals_pyarrows(tmp_path, form):
    data = table()
    if form == "stream":
        data = data.drop_columns(["words"])
    path = write(tmp_path / "x.dat", data, form)
    for name in data.column_names:
        array = ps.open(path, columns=name)
        if name == "block":
            wanted = np.arange(6 * ROWS, dtype="f4").reshape(ROWS, 2, 3)
        elif name == "words":
            wanted = np.array([2.5, 1.5, 0.5] * ROWS)[:ROWS]
        elif name == "binary":
            wanted = np.array(data[name].to_pylist()).view("V3")
        else:
            wanted = data[name].to_numpy().astype(array.dtype)
        assert array.shape == wanted.shape, name
        assert array[...].tobytes() == wanted.tobytes(), name
        assert array[250:650:7].tobytes() == wanted[250:650:7].tobytes(), name
        assert array.oindex[[999, 3]].tobytes() == wanted[[999, 3]].tobytes(), name
        assert array.read_only


@pytest.mark.parametrize("form", FORMS)
def test_several_columns_are_adjacent(tmp_path, form):
    rng = np.random.default_rng(0)
    data = {name: rng.normal(size=700) for name in "abc"}
    path = write(tmp_path / "x", pa.table(data), form)
    wanted = np.stack([data[name] for name in "ca"], axis=1)
    array = ps.open(path, columns=["c", "a"])
    assert array.attrs["columns"] == ["c", "a"]
    assert np.array_equal(array[...], wanted)
    assert np.array_equal(array[290:310, 1], wanted[290:310, 1])
    assert ps.open(path).shape == (700, 3)
    assert np.array_equal(pickle.loads(pickle.dumps(array))[5], wanted[5])
    assert np.array_equal(ps.open(path.read_bytes(), columns="b")[...], data["b"])
    assert ps.open(path, columns="a", dtype="float32").dtype == np.float32


def test_only_requested_row_groups_are_decoded(tmp_path, monkeypatch):
    from penstock.tabular import table as _tabular

    path = write(tmp_path / "x", pa.table({"a": np.arange(1000)}), "parquet", 100)
    seen: list[int] = []
    read = _tabular.ParquetBatches.read
    monkeypatch.setattr(
        _tabular.ParquetBatches,
        "read",
        lambda self, which, columns: (seen.append(which), read(self, which, columns))[1],
    )
    array = ps.open(path, columns="a")
    assert seen == []
    assert array[250:430].tolist() == list(range(250, 430))
    assert sorted(seen) == [2, 3, 4]


@pytest.mark.parametrize("form", FORMS)
def test_nulls_are_refused_or_filled(tmp_path, form):
    values = pa.array([1.0, None, 3.0, None, 5.0])
    whole = pa.array([1, None, 3, 4, None], pa.int16())
    truth = pa.array([True, None, False, True, True])
    blocks = pa.array([[1, 2], None, [3, None], [5, 6], [7, 8]], pa.list_(pa.int32(), 2))
    data = pa.table({"f": values, "i": whole, "b": truth, "l": blocks}).slice(1)
    path = write(tmp_path / "x", data, form, 2)
    with pytest.raises(ps.InvalidArgumentError, match=r"column 'f' has 1 null in row group 0"):
        ps.open(path, columns="f")[...]
    assert np.array_equal(ps.open(path, columns="f", nulls=np.nan)[...], [np.nan, 3, np.nan, 5], equal_nan=True)
    assert ps.open(path, columns="i", nulls=-1)[...].tolist() == [-1, 3, 4, -1]
    assert ps.open(path, columns="b", nulls=False)[...].tolist() == [False, False, True, True]
    assert ps.open(path, columns="l", nulls=0)[...].tolist() == [[0, 0], [3, 0], [5, 6], [7, 8]]
    for bad in (1.5, "x", 1 << 40):
        with pytest.raises(ps.InvalidArgumentError, match="nulls="):
            ps.open(path, columns="i", nulls=bad)


class Counted(io.BytesIO):
    """Counts the bytes that are read from it."""

    count = 0

    def read(self, size: int | None = -1) -> bytes:
        found = super().read(size)
        Counted.count += len(found)
        return found


@pytest.mark.parametrize("compression", [None, "zstd"])
def test_arrow_files_are_opened_without_their_data_and_read_by_column(tmp_path, compression):
    rng = np.random.default_rng(0)
    data = pa.table({name: rng.normal(size=100_000) for name in "abc"})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, data.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as out:
        out.write_table(data, max_chunksize=30_000)
    saved = sink.getvalue().to_pybytes()
    Counted.count = 0
    batches = _tabular.ArrowFileBatches(lambda: pa.PythonFile(Counted(saved), mode="r"))
    assert batches.rows == [30_000, 30_000, 30_000, 10_000]
    assert Counted.count < 20_000
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, data.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as out:
        out.write_table(data, max_chunksize=30_000)
    stream = sink.getvalue().to_pybytes()
    assert _tabular.ArrowStreamBatches(lambda: pa.PythonFile(Counted(stream), mode="r")).rows == batches.rows
    assert Counted.count < 30_000
    for end in range(len(stream) - 20, len(stream) - 400_000, -7919):
        with pytest.raises(ps.CorruptDataError):
            ps.open(stream[:end], columns="b")[...]
    found = [batches.read(i, ["b"]).column(0) for i in range(4)]
    assert np.array_equal(np.concatenate([each.to_numpy() for each in found]), data["b"].to_numpy())
    assert Counted.count < len(saved) / 2
    for at in range(len(saved) - 400, len(saved)):  # the footer: refused, or read as it is
        damaged = bytearray(saved)
        damaged[at] ^= 0x55
        try:
            ps.open(bytes(damaged), columns="b")[...]
        except ps.Error:
            continue


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_long_row_groups_are_decoded_in_batches(tmp_path, monkeypatch, threads):
    monkeypatch.setattr(_tabular, "_MOST_BYTES", 8_000)
    monkeypatch.setattr(_tabular, "_PIECE_BYTES", 2_000)
    rng = np.random.default_rng(0)
    data = pa.table({"x": rng.normal(size=3_333), "y": pa.array([None, 5, 7] * 1111, pa.int32())})
    path = write(tmp_path / "x.parquet", data, "parquet", 2_000)
    pq.write_table(data.slice(0, 500), tmp_path / "y.parquet")
    x = data["x"].to_numpy()
    y = np.array([np.nan, 5, 7] * 1111)
    array = ps.open(path, columns="x")
    assert array.chunks[0] == 250
    for key in (np.s_[:], np.s_[1990:2010], np.s_[3000:], np.s_[1500], np.s_[::-1], np.s_[10:20]):
        assert np.array_equal(array.read(key, threads=threads), x[key])
    both = ps.open(path, columns=["x", "y"], dtype="f8", nulls=np.nan)
    assert np.array_equal(both.read(threads=threads), np.stack([x, y], 1), equal_nan=True)
    joined = ps.open_shards([path, tmp_path / "y.parquet"], column="x")
    ps.save_manifest(joined, tmp_path / "m")
    for each in (joined, pickle.loads(pickle.dumps(joined)), ps.open_shards(tmp_path / "m")):
        assert np.array_equal(each.read(threads=threads), np.concatenate([x, x[:500]]))
        assert np.array_equal(each.read(np.s_[1700:3400], threads=threads), np.concatenate([x, x[:500]])[1700:3400])
    with pytest.raises(ps.InvalidArgumentError, match="nulls= replaces"):
        ps.open(path, columns="y")[...]
    path.write_bytes(path.read_bytes()[:-1] + b"2")
    for each in (array, joined):
        with pytest.raises(ps.Error):
            each[...]


MEMORY = """
import sys
import numpy as np, penstock as ps

def most():
    with open("/proc/self/status") as file:
        return int(file.read().split("VmHWM:")[1].split()[0]) * 1024

array = ps.open(sys.argv[1], columns="x")
out = np.ones(array.shape, array.dtype)
array.read(np.s_[:10])
before = most()
array.read(out=out, threads=2)
assert out[-1] == 11_999_999
print(most() - before)
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="Linux says how much memory was used")
def test_memory_does_not_depend_on_a_row_groups_length(tmp_path):
    rows = 12_000_000
    pq.write_table(pa.table({"x": np.arange(rows, dtype="f8")}), tmp_path / "x.parquet", row_group_size=rows)
    command = [sys.executable, "-c", MEMORY, str(tmp_path / "x.parquet")]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
    assert int(done.stdout) < 64 << 20


def test_nulls_of_integers_become_nan(tmp_path):
    data = pa.table({"i": pa.array([1, None, 3] * 100), "f": pa.array([0.5, 1.5, None] * 100, pa.float32())})
    path = write(tmp_path / "x.dat", data, "parquet", 120)
    alone = np.array([1, np.nan, 3] * 100)
    assert np.array_equal(ps.open(path, columns="i", dtype="f8", nulls=np.nan)[...], alone, equal_nan=True)
    both = ps.open(path, columns=["i", "f"], dtype="f8", nulls=np.nan)[...]
    assert np.array_equal(both, np.stack([alone, [0.5, 1.5, np.nan] * 100], 1), equal_nan=True)


@pytest.mark.parametrize("form", FORMS)
def test_shards_of_different_types_are_cast_from_their_own(tmp_path, form):
    """A column that is int64 in one file, and float64 or float32 in the next."""
    kinds = [pa.int64(), pa.float64(), pa.float32(), pa.int8(), pa.uint16()]
    for i, kind in enumerate(kinds):
        data = pa.table({"x": pa.array([1, 2, 3, 100 + i], kind), "y": pa.array([i, 5, 6, 7], kinds[-1 - i])})
        write(tmp_path / f"{i}.tab", data, form, 3)
    files = [str(tmp_path / f"{i}.tab") for i in range(len(kinds))]
    wanted = np.array([[1, 2, 3, 100 + i] for i in range(len(kinds))], "f8").reshape(-1)
    others = np.array([[i, 5, 6, 7] for i in range(len(kinds))], "f8").reshape(-1)
    array = ps.open_shards(files, column="x", dtype="f8")
    assert np.array_equal(array[...], wanted)
    ps.save_manifest(array, tmp_path / "manifest")
    assert np.array_equal(ps.open_shards(tmp_path / "manifest")[...], wanted)
    both = ps.open_shards(files, columns=["x", "y"], dtype="f8")
    assert np.array_equal(both[...], np.stack([wanted, others], 1))
    for i, unit in enumerate(["s", "us"]):
        write(tmp_path / f"t{i}.tab", pa.table({"t": pa.array([5 + i, 7], pa.timestamp(unit))}), form)
    times = ps.open_shards([str(tmp_path / "t0.tab"), str(tmp_path / "t1.tab")], column="t", dtype="M8[ns]")
    assert times[...].astype("i8").tolist() == [5 * 10**9, 7 * 10**9, 6000, 7000]


@pytest.mark.parametrize("form", FORMS)
def test_files_without_rows(tmp_path, form):
    path = write(tmp_path / "x", pa.table({"a": np.zeros(0, "f4")}), form)
    assert ps.open(path, columns="a")[...].shape == (0,)
    assert ps.open(path)[...].shape == (0, 1)


def test_unsupported_columns_are_refused_by_name(tmp_path):
    data = pa.table({"text": ["a"], "list": [[1]], "record": [{"a": 1}], "f": [1.0], "i": [1], "n": pa.nulls(1)})
    path = write(tmp_path / "x", data, "parquet")
    for name in ("text", "list", "record", "n"):
        with pytest.raises(ps.UnsupportedError, match=f"column '{name}'"):
            ps.open(path, columns=name)
    with pytest.raises(ps.NotFoundError, match="no column 'z'"):
        ps.open(path, columns="z")
    with pytest.raises(ps.InvalidArgumentError, match=r"differ; dtype="):
        ps.open(path, columns=["f", "i"])
    assert ps.open(path, columns=["f", "i"], dtype="f8")[...].tolist() == [[1.0, 1.0]]
    with pytest.raises(ps.InvalidArgumentError, match="does not become"):
        ps.open(path, columns="f", dtype="i4")
    with pytest.raises(ps.InvalidArgumentError, match="have no option 'dataset'"):
        ps.open(path, dataset="x")
    with pytest.raises(ps.Error):
        ps.open(path, columns="f")[0] = 1


def test_damaged_and_changed_files(tmp_path):
    path = write(tmp_path / "x", pa.table({"a": np.arange(1000.0)}), "parquet", 100)
    array = ps.open(path, columns="a")
    good = path.read_bytes()
    path.write_bytes(good[:2000] + bytes(50) + good[2050:])
    with pytest.raises(ps.ConflictError, match="changed since"):
        array[...]
    for cut in (10, len(good) // 2, len(good) - 3):
        path.write_bytes(good[:cut])
        with pytest.raises(ps.Error):
            ps.open(path, columns="a")[...]


def test_a_file_that_changes_is_always_a_conflict(tmp_path, monkeypatch):
    path = write(tmp_path / "x", pa.table({"a": np.arange(1000.0)}), "parquet", 100)
    other = write(tmp_path / "y", pa.table({"a": np.arange(1000.0)[::-1]}), "parquet", 100).read_bytes()
    array, status, good = ps.open(path, columns="a"), path.stat(), path.read_bytes()
    path.write_bytes(bytes(len(good)))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    with pytest.raises(ps.ConflictError, match="changed since"):
        array[...]
    path.unlink()
    with pytest.raises(ps.ConflictError, match="was removed since"):
        array[...]

    path.write_bytes(good)
    describe = _tabular.batches_of

    def replace_after(target):
        made = describe(target)
        path.write_bytes(other)
        return made

    monkeypatch.setattr(opening, "batches_of", replace_after)
    with pytest.raises(ps.ConflictError, match="changed while its footer was read"):
        ps.open(path, columns="a")


@pytest.mark.parametrize("form", ["parquet", "arrow", "stream"])
def test_files_on_web_servers_are_read_by_the_engine(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "fsspec.core", None)

    def written(values: Any) -> bytes:
        made, sink = pa.table({"x": values}), io.BytesIO()
        if form == "parquet":
            pq.write_table(made, sink, row_group_size=300)
        else:
            with (pa.ipc.new_file if form == "arrow" else pa.ipc.new_stream)(sink, made.schema) as writer:
                writer.write_table(made, max_chunksize=300)
        return sink.getvalue()

    values = np.random.default_rng(0).random(50_000)
    with HttpServer({"t/x": written(values)}) as server:
        url = f"{server.url}/t/x"
        array = ps.open_shards([url], format="parquet" if form == "parquet" else "arrow", column="x")
        np.testing.assert_array_equal(array[250:950], values[250:950])
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(array))[-5:], values[-5:])
        ps.save_manifest(array, tmp_path / "m")
        server.forget()
        again = ps.open(tmp_path / "m")
        assert not server.requests
        np.testing.assert_array_equal(again[40_000:40_010], values[40_000:40_010])
        with pytest.raises(ps.InvalidArgumentError, match="does not have these storage options"):
            ps.open(tmp_path / "m", storage_options={"block_size": 1 << 16})
        server.forget()
        array[0], again[40_300]
        assert [each.method for each in server.requests] == ["GET", "GET"]
        assert all("if-match" in each.headers for each in server.requests)
        server.put("t/x", written(values + 1))
        for each in (array, again, ps.open(tmp_path / "m")):
            with pytest.raises(ps.ConflictError, match="has changed since"):
                each[0]
        del server.objects["/t/x"]
        with pytest.raises(ps.ConflictError, match="was removed since"):
            ps.open(tmp_path / "m")[0]


ROOT = Path(__file__).resolve().parents[2]
OTHERS = ROOT / "tests/data/arrow/apache__arrow-testing/data/arrow-ipc-stream/integration"


def big_endian_stream(rows: int, batches: int) -> bytes:
    """A stream as a big-endian machine writes it: Java wrote its schema on one, and its batches contain swapped
    numbers. The messages themselves are little-endian on all machines."""
    begin = (OTHERS / "1.0.0-bigendian" / "generated_primitive_no_batches.stream").read_bytes()
    source = pa.BufferReader(begin)
    made = pa.ipc.read_message(source).serialize().to_pybytes()
    schema = pa.ipc.read_schema(pa.BufferReader(made))
    rng = np.random.default_rng(rows)
    for _ in range(batches):
        columns = []
        for field in schema:
            missing = rng.integers(0, 2, rows).astype(bool) if field.nullable else np.zeros(rows, bool)
            kind = field.type
            if pa.types.is_integer(kind) or pa.types.is_floating(kind):
                values = np.frombuffer(rng.bytes(rows * kind.bit_width // 8), kind.to_pandas_dtype())
                columns.append(pa.array(values, kind, mask=missing))
            elif pa.types.is_boolean(kind):
                columns.append(pa.array(rng.integers(0, 2, rows).astype(bool), mask=missing))
            elif pa.types.is_fixed_size_binary(kind):
                columns.append(pa.array([rng.bytes(kind.byte_width) for _ in range(rows)], kind, mask=missing))
            else:
                columns.append(pa.array([b"" if pa.types.is_binary(kind) else ""] * rows, kind))
        made += pa.record_batch(columns, schema).serialize().to_pybytes()
    return made + b"\xff\xff\xff\xff\x00\x00\x00\x00"


@pytest.mark.parametrize("batches", [0, 1, 3])
def test_big_endian_streams_have_their_values(batches: int, tmp_path: Path) -> None:
    data = big_endian_stream(17, batches)
    (tmp_path / "x.arrow").write_bytes(data)
    wanted = pa.ipc.open_stream(data).read_all()
    for target in (data, tmp_path / "x.arrow"):
        for field in wanted.schema:
            if pa.types.is_binary(field.type) or pa.types.is_string(field.type):
                continue
            null: Any = b"" if pa.types.is_fixed_size_binary(field.type) else 0
            null = False if pa.types.is_boolean(field.type) else null
            options = {"nulls": null} if field.nullable and null != b"" else {}
            if field.nullable and null == b"":
                continue
            found = ps.open(target, columns=field.name, **options)[...]
            column = wanted[field.name]
            values = [null if each is None else each for each in column.to_pylist()]
            assert np.array_equal(found, np.array(values, found.dtype), equal_nan=found.dtype.kind == "f"), field


def test_streams_of_other_writers_have_their_values() -> None:
    """From a big-endian machine, and from releases before Arrow 0.15, whose messages begin with their length."""
    path = OTHERS / "1.0.0-bigendian" / "generated_null.stream"
    wanted = pa.ipc.open_stream(path.read_bytes()).read_all()["f1"].fill_null(0).to_numpy()
    assert np.array_equal(ps.open(path, columns="f1", nulls=0)[...], wanted)
    old = ps.open(OTHERS / "0.14.1" / "generated_primitive_no_batches.stream", columns="int32_nonnullable")
    assert (old.shape, old.dtype) == ((0,), np.dtype("i4"))


CORPUS = Path(os.environ.get("PENSTOCK_CORPUS", ROOT.parent / "shared" / "corpus")) / "arrow_parquet"


@pytest.mark.skipif(not CORPUS.is_dir(), reason="PENSTOCK_CORPUS is not here")
def test_the_corpus_equals_pyarrows_reading():
    equal = refused = 0
    for path in sorted(each for each in CORPUS.rglob("*") if each.suffix in (".parquet", ".arrow_file", ".stream")):
        head = path.read_bytes()[:8]
        try:
            if head.startswith(b"PAR1"):
                wanted = pq.read_table(path)
            elif head.startswith(b"ARROW1"):
                wanted = pa.ipc.open_file(path.read_bytes()).read_all()
            else:
                wanted = pa.ipc.open_stream(io.BytesIO(path.read_bytes())).read_all()
        except (pa.ArrowException, OSError, ValueError):
            wanted = None
        for name in wanted.column_names if wanted is not None else [None]:
            null: Any = None
            if wanted is not None and wanted.column_names.count(name) == 1 and wanted[name].null_count:
                null = False if pa.types.is_boolean(wanted.schema.field(name).type) else 0
            options = {} if null is None else {"nulls": null}
            try:
                found = ps.open(path, columns=name, **options)[...] if name else ps.open(path)[...]
            except ps.Error:
                refused += 1
                continue
            if wanted is None:
                continue
            if found.dtype.kind in "mMV" or (null is not None and found.ndim > 1):
                continue
            values = [null if each is None else each for each in wanted[name].to_pylist()]
            assert np.array_equal(found, np.array(values).reshape(found.shape).astype(found.dtype), equal_nan=True), (
                path,
                name,
            )
            equal += 1
    assert equal > 350
    assert refused > 0
