"""NetCDF classic files (CDF-1, CDF-2, CDF-5) opened as groups, against netCDF4."""

from __future__ import annotations

import contextlib
import io
import os
import pickle
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
from support import netcdf_library
from support.http_server import HttpServer

netCDF4 = pytest.importorskip("netCDF4")

ROOT = Path(__file__).resolve().parents[2]
CORPUS = Path(os.environ.get("PENSTOCK_CORPUS", ROOT.parent / "shared" / "corpus")) / "hdf5"
KINDS = {"NETCDF3_CLASSIC": 1, "NETCDF3_64BIT_OFFSET": 2, "NETCDF3_64BIT_DATA": 5}
TYPES = ["i1", "S1", "i2", "i4", "f4", "f8"]
TYPES_5 = [*TYPES, "u1", "u2", "u4", "i8", "u8"]


def values(kind: str, shape: tuple[int, ...], seed: int = 0) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(seed)
    if kind == "S1":
        return rng.integers(32, 127, shape, "u1").view("S1")
    if kind[0] == "f":
        return rng.normal(size=shape).astype(kind)
    info = np.iinfo(kind)
    return rng.integers(info.min, info.max, shape, kind, endpoint=True)


def write(path: Path, kind: str, variables: dict[str, tuple[str, tuple[str, ...]]], records: int, sizes: Any) -> None:
    with netCDF4.Dataset(path, "w", format=kind) as file:
        file.set_auto_maskandscale(False)
        file.createDimension("time", None)
        for name, size in sizes.items():
            file.createDimension(name, size)
        for seed, (name, (dtype, dims)) in enumerate(variables.items()):
            made = file.createVariable(name, dtype, dims)
            made.set_auto_maskandscale(False)
            made.set_auto_chartostring(False)
            made.units = "K"
            shape = tuple(records if each == "time" else sizes[each] for each in dims)
            if 0 not in shape:
                made[...] = values(dtype, shape, seed)


def same_as_netcdf(path: Path, group: Any, selections: Any = (...,)) -> int:
    """Compare every variable of a file with netCDF4. Returns the number of variables."""
    with netCDF4.Dataset(path) as file:
        file.set_auto_maskandscale(False)
        file.set_auto_chartostring(False)
        assert set(group.keys()) == set(file.variables)
        for name, theirs in file.variables.items():
            ours = group[name]
            wanted = np.asarray(theirs[...])
            assert ours.dtype == wanted.dtype.newbyteorder("="), name
            assert (ours.dimension_names or ()) == theirs.dimensions
            assert ours.shape == wanted.shape
            for selection in selections:
                if isinstance(selection, tuple) and len(selection) != wanted.ndim:
                    continue
                try:
                    part = np.asarray(wanted[selection])
                except IndexError:
                    continue
                found = np.asarray(ours[selection])
                assert found.shape == part.shape
                assert found.tobytes() == part.astype(ours.dtype).tobytes(), name
            for attribute in theirs.ncattrs():
                given = theirs.getncattr(attribute)
                mine = ours.typed_attributes[attribute]
                if isinstance(given, str):
                    assert mine.replace("\0", "") == given
                else:
                    assert np.asarray(mine).dtype == np.asarray(given).dtype
                    np.testing.assert_array_equal(mine, given)
        return len(file.variables)


SELECTIONS = [
    ...,
    (slice(3, 7), slice(1, None), slice(None)),
    (slice(None, None, 3), 0, slice(None, None, -1)),
    (-1, slice(None), 2),
    (slice(None), 2, 3),
    (slice(2, 2), slice(None), slice(None)),
    (4,),
    (slice(8, 1, -2),),
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("records", [0, 1, 11])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_equals_netcdf4(tmp_path, kind, records, count):
    """Types, fixed and record variables, files of one and of many record variables, selections."""
    path = tmp_path / "x.nc"
    sizes = {"y": 3, "x": 5}
    for start, dtype in enumerate(TYPES_5 if KINDS[kind] == 5 else TYPES):
        types = TYPES_5 if KINDS[kind] == 5 else TYPES
        variables = {"fixed": (dtype, ("y", "x")), "scalar": (dtype, ()), "grid": (dtype, ("y",))}
        for i in range(count):
            dims = [("time", "y", "x"), ("time",), ("time", "x", "y")][i % 3]
            variables[f"record{i}"] = (types[(start + i) % len(types)], dims)
        write(path, kind, variables, records, sizes)
        group = ps.open(path)
        assert group.format == "netcdf"
        assert same_as_netcdf(path, group, SELECTIONS) == 3 + count
        path.unlink()


def test_large_interleaved_records(tmp_path):
    """Cells of many short records, of one long record, and of a part of a record; points far apart."""
    path = tmp_path / "x.nc"
    write(
        path,
        "NETCDF3_64BIT_OFFSET",
        {"t": ("f8", ("time",)), "small": ("i2", ("time", "x")), "c": ("S1", ("time", "x"))},
        50_000,
        {"x": 7},
    )
    group = ps.open(path)
    chosen: list[Any] = [..., (slice(None, None, 977),), (slice(40_000, 40_010), slice(None)), (slice(None), 3)]
    same_as_netcdf(path, group, chosen)
    assert group["t"].chunks[0] > 1000
    picked = np.array([49_999, 0, 17, 17, 30_000])
    np.testing.assert_array_equal(group["small"].oindex[picked, :], group["small"][...][picked])
    path.unlink()
    write(
        path,
        "NETCDF3_64BIT_DATA",
        {"t": ("f8", ("time",)), "big": ("i8", ("time", "y", "x"))},
        5,
        {"y": 3, "x": 100_000},
    )
    group = ps.open(path)
    assert group["big"].chunks == (1, 1, 100_000)
    same_as_netcdf(path, group, [..., (slice(None), 1, slice(7, 99_000, 1000)), (2, slice(None), -1)])


def test_attributes_and_fill_values(tmp_path):
    path = tmp_path / "x.nc"
    with netCDF4.Dataset(path, "w", format="NETCDF3_CLASSIC") as file:
        file.title = "grün"
        file.empty = ""
        file.numbers = np.array([1, 2, 3], "i2")
        file.one = np.float32(2.5)
        file.createDimension("x", 2)
        made = file.createVariable("v", "f4", ("x",), fill_value=np.float32(-9))
        made.missing_value = np.array([np.nan], "f4")
        file.createVariable("default", "i2", ("x",))
    group = ps.open(path)
    assert group.attrs["title"] == "grün"
    assert group.attrs["empty"] == ""
    assert group.attrs["numbers"] == [1, 2, 3]
    typed = group.typed_attributes
    assert typed["numbers"].dtype == np.int16
    assert typed["one"].dtype == np.float32
    assert typed["one"] == 2.5
    assert group["v"].fill_value == -9
    assert group["default"].fill_value == -32767  # NC_FILL_SHORT
    assert np.isnan(group["v"].typed_attributes["missing_value"])
    np.testing.assert_array_equal(group["default"][...], [-32767, -32767])


def stream(path: Path) -> None:
    """Replace the number of records by the mark for an unknown number."""
    data = bytearray(path.read_bytes())
    width = 8 if data[3] == 5 else 4
    data[4 : 4 + width] = b"\xff" * width
    path.write_bytes(data)


@pytest.mark.parametrize("kind", KINDS)
def test_the_number_of_records_follows_from_the_file_size(tmp_path, kind):
    path = tmp_path / "x.nc"
    write(path, kind, {"a": ("i2", ("time", "x")), "b": ("f8", ("time",))}, 6, {"x": 3})
    wanted = ps.open(path)["a"][...]
    stream(path)
    np.testing.assert_array_equal(ps.open(path)["a"][...], wanted)
    assert ps.open(path)["b"].shape == (6,)


def test_values_past_the_end_are_an_error(tmp_path):
    path = tmp_path / "x.nc"
    write(path, "NETCDF3_CLASSIC", {"a": ("i4", ("time", "x")), "b": ("f8", ("time",))}, 6, {"x": 3})
    whole = ps.open(path)["a"][...]
    data = path.read_bytes()
    path.write_bytes(data[: len(data) - 50])  # records of 20 bytes
    group = ps.open(path)
    np.testing.assert_array_equal(group["a"][:3], whole[:3])
    with pytest.raises(ps.CorruptDataError, match=r"'a': bytes \[\d+, \d+\)"):
        group["a"][5]
    with pytest.raises(ps.CorruptDataError, match="'a'"):
        group["a"][...]
    with pytest.raises(ps.CorruptDataError, match="'b'"):
        group["b"][3:]
    # A contiguous variable that is truncated.
    write(path, "NETCDF3_CLASSIC", {"a": ("i4", ("x",))}, 0, {"x": 300})
    whole = ps.open(path)["a"][...]
    path.write_bytes(path.read_bytes()[:-100])
    np.testing.assert_array_equal(ps.open(path)["a"][:275], whole[:275])
    with pytest.raises(ps.CorruptDataError, match="'a'"):
        ps.open(path)["a"][...]


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    path = tmp_path / "x.nc"
    write(path, "NETCDF3_64BIT_DATA", {"a": ("i8", ("time", "x")), "b": ("f4", ("x",))}, 6, {"x": 3})
    return path


def test_every_way_to_name_a_variable(sample, monkeypatch):
    monkeypatch.chdir(sample.parent)
    wanted = ps.open(sample)["a"][...]
    data = sample.read_bytes()
    other = sample.with_name("no_ending")
    shutil.copy(sample, other)
    obstore = pytest.importorskip("obstore.store")
    memory = obstore.MemoryStore()
    memory.put("deep/x.nc", data)
    targets: list[tuple[Any, str]] = [
        (sample, "a"),
        (str(sample) + "/a", ""),
        (sample.as_uri(), "a"),
        (sample.as_uri() + "/a", ""),
        ("x.nc/a", ""),
        (other, "a"),
        (f"{other}/a", ""),
        (data, "a"),
        (bytearray(data), "a"),
        (io.BytesIO(data), "a"),
        ({"deep/x.nc": data}, "deep/x.nc/a"),
        (memory, "deep/x.nc/a"),
    ]
    for target, path in targets:
        np.testing.assert_array_equal(ps.open(target, path)[...], wanted)
    for target, path in [(data, ""), (io.BytesIO(data), ""), ({"deep/x.nc": data}, "deep/x.nc"), (memory, "deep/x.nc")]:
        np.testing.assert_array_equal(ps.open(target, path)["a"][...], wanted)
    assert list(ps.open_group(sample)) == ["a", "b"]
    assert ps.open_array(f"{sample}/b").shape == (3,)


def test_an_archive_may_contain_files(sample):
    import zipfile

    archive = sample.with_suffix(".zip")
    with zipfile.ZipFile(archive, "w") as file:
        file.write(sample, "in/x.nc")
    np.testing.assert_array_equal(ps.open(archive, "in/x.nc/a")[...], ps.open(sample)["a"][...])
    assert list(ps.open(archive, "in/x.nc")) == ["a", "b"]


def test_absent_files_and_variables(sample):
    group = ps.open(sample)
    assert "nothing" not in group
    assert "a" in group
    with pytest.raises(ps.NotFoundError, match="no variable 'nothing'"):
        group["nothing"]
    with pytest.raises(ps.NotFoundError):
        ps.open(f"{sample}/nothing")
    with pytest.raises(ps.InvalidArgumentError, match="no option 'columns'"):
        ps.open(sample, columns=["a"])
    with pytest.raises(ps.InvalidArgumentError, match="both"):
        ps.open(sample, "a", dataset="a")
    np.testing.assert_array_equal(ps.open(sample, dataset="a")[...], group["a"][...])


def test_files_are_only_read(sample):
    group = ps.open(sample)
    before = sample.read_bytes()
    with pytest.raises(ps.ReadOnlyError):
        group["a"][0] = 1
    with pytest.raises(ps.ReadOnlyError):
        group.attrs["x"] = 1
    with pytest.raises(ps.ReadOnlyError):
        group["c"] = np.zeros(3)
    with pytest.raises(ps.ReadOnlyError):
        ps.open(sample, mode="r+")
    assert sample.read_bytes() == before
    assert sorted(each.name for each in sample.parent.iterdir()) == ["x.nc"]


def test_a_file_that_changes_is_a_conflict(sample):
    array = ps.open(sample)["a"]
    array[0]
    sample.write_bytes(sample.read_bytes() + b"\0\0\0\0")
    with pytest.raises(ps.ConflictError):
        array[1]


def test_pickles_by_its_path(sample):
    group = ps.open(sample)
    again = pickle.loads(pickle.dumps(group["a"]))
    np.testing.assert_array_equal(again[...], group["a"][...])
    assert type(again) is type(group["a"])
    assert list(pickle.loads(pickle.dumps(group))) == ["a", "b"]


def test_copies_to_zarr(sample, tmp_path):
    ps.copy(ps.open(sample), tmp_path / "out.zarr")
    copied = ps.open(tmp_path / "out.zarr")
    np.testing.assert_array_equal(copied["a"][...], ps.open(sample)["a"][...])
    assert copied["a"].dimension_names == ("time", "x")
    assert copied["a"].attrs["units"] == "K"


def test_joins_files(tmp_path):
    variables = {"a": ("i8", ("time", "x")), "b": ("f4", ("time",))}
    wanted = []
    for i in range(3):
        write(tmp_path / f"{i}.nc", "NETCDF3_64BIT_DATA", variables, 4 + i, {"x": 3})
        wanted.append(ps.open(tmp_path / f"{i}.nc")["a"][...])
    pattern = str(tmp_path / "*.nc")
    np.testing.assert_array_equal(ps.open_shards(pattern, dataset="a")[...], np.concatenate(wanted))
    np.testing.assert_array_equal(ps.open_shards(pattern, path="a")[5:9, 1], np.concatenate(wanted)[5:9, 1])
    with HttpServer({f"d/{i}.nc": (tmp_path / f"{i}.nc").read_bytes() for i in range(3)}) as server:
        names = [f"{server.url}/d/{i}.nc" for i in range(3)]
        np.testing.assert_array_equal(ps.open_shards(names, dataset="a")[...], np.concatenate(wanted))


def test_over_http_in_few_requests(sample):
    """One request for a short header; opening the group's variables needs no further ones."""
    many = sample.with_name("many.nc")
    with netCDF4.Dataset(many, "w", format="NETCDF3_CLASSIC") as file:
        file.createDimension("x", 3)
        for i in range(1500):
            made = file.createVariable(f"variable_{i}", "f4", ("x",))
            made.long_name = f"the {i}th variable"
            made[:] = [i, 1, 2]
    with HttpServer({each.name: each.read_bytes() for each in (sample, many)}) as server:
        for name, most in (("x.nc", 2), ("many.nc", 3)):
            server.forget()
            group = ps.open(f"{server.url}/{name}")
            members = dict(group.members())
            assert len(server.requests) <= most
        server.forget()
        assert members["variable_700"][...].tolist() == [700, 1, 2]
        assert len(server.requests) == 1
        assert ps.open(f"{server.url}/x.nc/b").shape == (3,)


def cli(*arguments: str) -> str:
    program = os.environ.get("PENSTOCK_CLI")
    if program is None:
        pytest.skip("PENSTOCK_CLI is not set")
    environment = {**os.environ, "PATH": "/nowhere"}  # without Python
    done = subprocess.run([program, *arguments], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_program_needs_no_python(sample, tmp_path):
    assert "netcdf" in cli("info", str(sample))
    tree = cli("tree", str(sample))
    assert "a" in tree
    assert "int64" in tree
    assert "time" in cli("info", f"{sample}/a")
    assert "x.nc" in cli("plan", f"{sample}/a")
    cli("check", str(sample))
    cli("read", f"{sample}/a", "-o", str(tmp_path / "a.npy"))
    np.testing.assert_array_equal(np.load(tmp_path / "a.npy"), ps.open(sample)["a"][...])
    cli("copy", str(sample), str(tmp_path / "out.zarr"))
    np.testing.assert_array_equal(ps.open(tmp_path / "out.zarr/a")[...], ps.open(sample)["a"][...])


def test_hostile_headers(tmp_path):
    """Sizes that a header only claims use no memory; empty names, and long ones of many variables, are refused."""
    path = tmp_path / "x.nc"
    name = struct.pack(">I", 1) + b"x\0\0\0"
    dims = struct.pack(">II", 10, 1) + name + struct.pack(">I", 0x7FFFFFFF)
    variable = name + struct.pack(">III", 1, 0, 0) + bytes(4) + struct.pack(">III", 6, 0xFFFFFFFF, 200)
    path.write_bytes(b"CDF\1" + bytes(4) + dims + bytes(8) + struct.pack(">II", 11, 1) + variable)
    array = ps.open(path)["x"]
    assert array.shape == (0x7FFFFFFF,)
    with pytest.raises(ps.CorruptDataError, match="'x'"):
        array[5]
    path.write_bytes(path.read_bytes().replace(name, bytes(4)))
    with pytest.raises(ps.CorruptDataError):
        ps.open(path)
    dims = struct.pack(">II", 10, 1) + struct.pack(">I", 100_000) + b"d" * 100_000 + struct.pack(">I", 1)
    variable = name + struct.pack(">II", 1, 0) + bytes(8) + struct.pack(">III", 1, 4, 100)
    path.write_bytes(b"CDF\1" + bytes(4) + dims + bytes(8) + struct.pack(">II", 11, 100) + 100 * variable)
    with pytest.raises(ps.CorruptDataError, match="names of"):
        ps.open(path)


@pytest.mark.skipif(not CORPUS.is_dir(), reason="PENSTOCK_CORPUS is not here")
def test_the_corpus_equals_netcdf4():
    compared, refused = 0, []
    for path in sorted(CORPUS.rglob("*")):
        if not path.is_file() or path.stat().st_size > 1 << 26:
            continue
        with path.open("rb") as stream_:
            if stream_.read(4) not in (b"CDF\1", b"CDF\2", b"CDF\5"):
                continue
        if path.name in netcdf_library.REFUSED_LATE:
            with pytest.raises(ps.CorruptDataError):
                _read_all(path)
        elif not netcdf_library.opens(path):
            with contextlib.suppress(ps.CorruptDataError, ps.UnsupportedError):
                _read_all(path)  # the library checks sizes that this reader does not use
        else:
            try:
                _read_all(path)
            except ps.CorruptDataError as error:
                refused.append((path.name, str(error)))
            else:
                compared += same_as_netcdf(path, ps.open(path))
    assert compared > 200
    unexpected = [each for each in refused if not each[0].startswith("bad_") and "the file ends" not in each[1]]
    assert unexpected == []


def _read_all(path: Path) -> None:
    for _, array in ps.open(path).arrays():
        array[...]
