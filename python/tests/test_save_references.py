"""What `save_references` writes, read by Penstock, by fsspec and xarray, and by Icechunk: source x export x reader."""

from __future__ import annotations

import base64
import json
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest

h5py = pytest.importorskip("h5py")
xr = pytest.importorskip("xarray")

ROWS = [4, 4, 4]


def _file(path: Path, first: int, rows: int, **how: Any) -> None:
    rng = np.random.default_rng(first)
    with h5py.File(path, "w") as file:
        time = file.create_dataset("time", data=np.arange(first, first + rows, dtype="f8"))
        time.make_scale("time")
        time.attrs["units"] = "days since 2000-01-01"
        x = file.create_dataset("x", data=np.arange(6.0))
        x.make_scale("x")
        for name, kind in (("a", "<i4"), ("b", ">f4"), ("flag", "u1")):
            values = rng.integers(0, 9, (rows, 6)).astype(kind)
            made = file.create_dataset(name, data=values, chunks=(2, 3), **how)
            made.dims[0].attach_scale(time)
            made.dims[1].attach_scale(x)
            made.attrs["long_name"] = f"variable {name}"
        lacking = file.create_dataset("sparse", (rows, 6), "i2", chunks=(2, 3), fillvalue=-7)
        lacking[1, 4] = 5
        lacking.dims[0].attach_scale(time)
        lacking.dims[1].attach_scale(x)


def _hdf5(folder: Path, **how: Any) -> ps.Group:
    for i, rows in enumerate(ROWS):
        _file(folder / f"{i}.h5", 4 * i, rows, **how)
    return ps.open_virtual(str(folder / "*.h5"), concat="time")


def _characters(folder: Path) -> ps.Group:
    """As NetCDF-4 stores variables of type char."""
    for i, rows in enumerate(ROWS):
        _file(folder / f"{i}.h5", 4 * i, rows)
        with h5py.File(folder / f"{i}.h5", "a") as file:
            character = h5py.h5t.C_S1.copy()
            character.set_strpad(h5py.h5t.STR_NULLTERM)
            chunked = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            chunked.set_chunk((1, 6))
            space = h5py.h5s.create_simple((rows, 6))
            made = h5py.Dataset(h5py.h5d.create(file.id, b"letters", character, space, chunked))
            made[...] = np.random.default_rng(i).integers(65, 70, (rows, 6)).astype("u1").view("S1")
            for d, name in enumerate(("time", "x")):
                made.dims[d].attach_scale(file[name])
    return ps.open_virtual(str(folder / "*.h5"), concat="time")


def _one_file(folder: Path) -> ps.Group:
    _file(folder / "one.h5", 0, 5, compression="gzip", shuffle=True)
    made: ps.Group = ps.open(folder / "one.h5")
    return made


def _through(suffix: str) -> Callable[[Path], ps.Group]:
    def make(folder: Path) -> ps.Group:
        group = _hdf5(folder, compression="gzip")
        if suffix == "manifest":
            ps.save_manifest(group, folder / "in.manifest")
        else:
            ps.save_references(group, folder / f"in.{suffix}")
        found: ps.Group = ps.open(folder / f"in.{suffix}")
        return found

    return make


def _contiguous(folder: Path) -> ps.Group:
    """More than one block; the number of rows has no divisor that would give blocks of the engine's size."""
    rng = np.random.default_rng(0)
    with h5py.File(folder / "c.h5", "w") as file:
        for name, shape in (("rows", (1003, 1007)), ("prime", (400_009,)), ("long row", (3, 1 << 18)), ("one", (5, 7))):
            made = file.create_dataset(name, data=rng.random(shape, "f4"))
            for d, dim in enumerate(shape):
                if str(dim) not in file:
                    file.create_dataset(str(dim), data=np.arange(float(dim))).make_scale(str(dim))
                made.dims[d].attach_scale(file[str(dim)])
        file.create_dataset("nothing", ())[...] = 3
    made_group: ps.Group = ps.open(folder / "c.h5")
    return made_group


def _netcdf(path: Path, first: int, rows: int, unlimited: bool = True, wide: int = 6) -> None:
    rng = np.random.default_rng(first)
    data = {
        "time": ("time", np.arange(first, first + rows, dtype="f8"), {"units": "days since 2000-01-01"}),
        "x": ("x", np.arange(float(wide))),
        "fixed": ("x", np.arange(wide, dtype="i2")),
        "text": (("time", "x"), rng.integers(65, 70, (rows, wide)).astype("u1").view("S1")),
    }
    for name, kind in (("a", "<i4"), ("b", ">f4"), ("flag", "i1")):
        data[name] = (("time", "x"), rng.integers(0, 9, (rows, wide)).astype(kind), {"long_name": f"variable {name}"})
    dims = ["time"] if unlimited else []
    xr.Dataset(data).to_netcdf(path, engine="scipy", format="NETCDF3_64BIT", unlimited_dims=dims)


def _netcdf_file(unlimited: bool, rows: int = 5, wide: int = 6) -> Callable[[Path], ps.Group]:
    def make(folder: Path) -> ps.Group:
        _netcdf(folder / "c.nc", 0, rows, unlimited, wide)
        made: ps.Group = ps.open(folder / "c.nc")
        return made

    return make


def _netcdf_files(folder: Path) -> ps.Group:
    """Records of a MiB and more: a cell is one record."""
    for i, rows in enumerate(ROWS):
        _netcdf(folder / f"{i}.nc", 4 * i, rows, wide=300_000)
    return ps.open_virtual(str(folder / "*.nc"), concat="time")


SOURCES: dict[str, Callable[[Path], ps.Group]] = {
    "hdf5": _hdf5,
    "hdf5 gzip": lambda folder: _hdf5(folder, compression="gzip"),
    "hdf5 shuffle gzip": lambda folder: _hdf5(folder, compression="gzip", shuffle=True),
    "hdf5 fletcher32": lambda folder: _hdf5(folder, fletcher32=True),
    "hdf5 characters": _characters,
    "one file": _one_file,
    "kerchunk json": _through("json"),
    "kerchunk parquet": _through("parq"),
    "manifest": _through("manifest"),
    "hdf5 contiguous": _contiguous,
    "netcdf records": _netcdf_file(True),
    "netcdf many records": _netcdf_file(True, 3000, 4),
    "netcdf fixed": _netcdf_file(False),
    "netcdf fixed large": _netcdf_file(False, 997, 601),
    "netcdf files": _netcdf_files,
}


def _store_of(target: Path) -> Any:
    """fsspec's file system of references as a store for zarr-python."""
    import fsspec
    import zarr

    filesystem = fsspec.filesystem("reference", fo=str(target), remote_protocol="file", asynchronous=True)
    return zarr.storage.FsspecStore(filesystem, read_only=True, path="")


def _repository(folder: Path) -> Any:
    """A repository of Icechunk in memory, with virtual chunks in the folder's files."""
    icechunk = pytest.importorskip("icechunk")
    config = icechunk.RepositoryConfig.default()
    prefix = f"file://{folder}/"
    config.set_virtual_chunk_container(
        icechunk.VirtualChunkContainer(prefix, icechunk.local_filesystem_store(str(folder)))
    )
    allowed = icechunk.containers_credentials({prefix: None})
    return icechunk.Repository.create(
        icechunk.in_memory_storage(), config=config, authorize_virtual_chunk_access=allowed
    )


def _check_by_us(target: Any, group: Mapping[str, Any]) -> None:
    again = ps.open(target)
    assert sorted(again) == sorted(group)
    for name in group:
        ours, theirs = again[name], group[name]
        np.testing.assert_array_equal(ours[...], theirs[...], err_msg=name)
        assert ours.dtype == theirs.dtype
        assert ours.dimension_names == theirs.dimension_names
        assert ours.attrs.asdict().get("long_name") == theirs.attrs.asdict().get("long_name")


def _check_by_xarray(target: Any, group: Mapping[str, Any], zarr_format: int) -> None:
    how = {"engine": "zarr", "consolidated": False, "zarr_format": zarr_format, "decode_cf": False}
    with xr.open_dataset(target, **how) as opened:
        assert sorted(map(str, opened.variables)) == sorted(group)
        for name in group:
            np.testing.assert_array_equal(opened[name].values, group[name][...], err_msg=name)
            assert opened[name].dims == (group[name].dimension_names or ())


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("suffix", ["json", "parq"])
def test_is_read_by_us_and_by_fsspec(tmp_path: Path, source: str, suffix: str) -> None:
    pytest.importorskip("fsspec")
    group = SOURCES[source](tmp_path)
    target = tmp_path / f"out.{suffix}"
    ps.save_references(group, target)
    _check_by_us(target, group)
    if suffix == "parq":
        pytest.importorskip("pandas", reason="fsspec reads references in Parquet by pandas")
        pytest.importorskip("fastparquet", reason="fsspec reads references in Parquet by fastparquet")
    _check_by_xarray(_store_of(target), group, 2)


@pytest.mark.parametrize("source", SOURCES)
def test_is_read_from_icechunk(tmp_path: Path, source: str) -> None:
    pytest.importorskip("icechunk")
    group = SOURCES[source](tmp_path)
    repository = _repository(tmp_path)
    session = repository.writable_session("main")
    with warnings.catch_warnings(record=True) as omitted:
        warnings.simplefilter("always", UserWarning)
        ps.save_references(group, session)
    session.commit("references")
    store = repository.readonly_session("main").store
    expected = {name: group[name] for name in group if not any(f"'{name}'" in str(each.message) for each in omitted)}
    assert set(group) - set(expected) <= {"letters", "text"}  # single characters, which Zarr 3 does not have
    _check_by_us(store, expected)
    _check_by_xarray(store, expected, 3)


def _packed(path: Path) -> Any:
    """A NetCDF file with missing values of several kinds, and with values that equal HDF5's default fill value, 0."""
    rng = np.random.default_rng(0)
    zeros = rng.integers(0, 3, (4, 6))
    data = xr.Dataset(
        {
            "plain": (("t", "x"), zeros.astype("f4")),
            "nan": (("t", "x"), np.where(zeros == 1, np.nan, zeros)),
            "number": (("t", "x"), np.where(zeros == 1, np.nan, zeros), {"units": "m"}),
            "packed": (("t", "x"), np.where(zeros == 1, np.nan, zeros / 10)),
            "flag": ("x", zeros[0].astype("u1")),
            "one": ((), 0),
        },
        {"t": np.arange(4.0), "x": np.arange(6)},
    )
    encoding = {
        "plain": {"_FillValue": None},
        "nan": {"chunksizes": (2, 3), "zlib": True},
        "number": {"dtype": "i2", "_FillValue": -1},
        "packed": {"dtype": "i2", "_FillValue": -99, "scale_factor": 0.1, "add_offset": 1.0},
        "x": {"_FillValue": None},
    }
    data.to_netcdf(path, engine="h5netcdf", encoding=encoding)
    with h5py.File(path, "a") as file:  # one chunk of four is stored, the others are the fill value
        for name, fill in (("zeros", 0), ("sevens", 7)):
            gaps = file.create_dataset(name, (4, 6), "i4", chunks=(2, 3), fillvalue=fill)
            gaps[0, 0] = 5
            gaps.attrs["_FillValue"] = np.int32(fill + 5 * (fill == 0))
            for d, dimension in enumerate("tx"):
                gaps.dims[d].attach_scale(file[dimension])
    return ps.open(path)


@pytest.mark.parametrize("suffix", ["json", "parq", "manifest"])
def test_missing_values_are_those_of_the_source(tmp_path: Path, suffix: str) -> None:
    """To xarray, the fill value of Zarr 2 is the missing value, and kerchunk's references have no other."""
    group = _packed(tmp_path / "x.nc")
    target = tmp_path / f"out.{suffix}"
    (ps.save_manifest if suffix == "manifest" else ps.save_references)(group, target)
    with (
        xr.open_dataset(tmp_path / "x.nc", engine="h5netcdf") as expected,
        xr.open_dataset(target, engine="penstock") as ours,
    ):
        xr.testing.assert_identical(ours.load(), expected.load())
    if suffix == "manifest":
        return
    pytest.importorskip("fsspec")
    if suffix == "parq":
        pytest.importorskip("fastparquet", reason="fsspec reads references in Parquet by fastparquet")
    how = {"engine": "zarr", "consolidated": False, "zarr_format": 2}
    with (
        xr.open_dataset(tmp_path / "x.nc", engine="h5netcdf") as expected,
        xr.open_dataset(_store_of(target), **how) as theirs,
    ):
        xr.testing.assert_identical(theirs.load(), expected.load())


def test_missing_values_in_icechunk_are_those_of_the_source(tmp_path: Path) -> None:
    pytest.importorskip("icechunk")
    group = _packed(tmp_path / "x.nc")
    repository = _repository(tmp_path)
    session = repository.writable_session("main")
    ps.save_references(group, session)
    session.commit("references")
    store = repository.readonly_session("main").store
    with xr.open_dataset(tmp_path / "x.nc", engine="h5netcdf") as expected:
        for how in ({"engine": "zarr", "consolidated": False}, {"engine": "penstock"}):
            with xr.open_dataset(store, **how) as opened:
                xr.testing.assert_identical(opened.load(), expected.load())


def test_references_of_kerchunk_mask_their_fill_value(tmp_path: Path) -> None:
    """kerchunk moves `_FillValue` of a NetCDF file into the metadata's `fill_value`."""
    np.array([3, -1, 0], "<i2").tofile(tmp_path / "i.bin")
    np.array([3, np.nan, 0], "<f4").tofile(tmp_path / "f.bin")

    def array(dtype: str, fill: Any) -> str:
        made = {"zarr_format": 2, "shape": [3], "chunks": [3], "dtype": dtype, "order": "C", "filters": None}
        return json.dumps({**made, "compressor": None, "fill_value": fill})

    references: dict[str, Any] = {".zgroup": '{"zarr_format": 2}'}
    for name, dtype, fill in (("i", "<i2", -1), ("f", "<f4", "NaN"), ("none", "<i2", None)):
        references[f"{name}/.zarray"] = array(dtype, fill)
        references[f"{name}/.zattrs"] = '{"_ARRAY_DIMENSIONS": ["x"], "units": "m"}'
        references[f"{name}/0"] = [str(tmp_path / ("f.bin" if name == "f" else "i.bin")), 0, 12 if name == "f" else 6]
    target = tmp_path / "k.json"
    target.write_text(json.dumps({"version": 1, "refs": references}))
    with xr.open_dataset(target, engine="penstock") as opened:
        np.testing.assert_array_equal(opened["i"].values, [3, np.nan, 0])
        np.testing.assert_array_equal(opened["f"].values, np.array([3, np.nan, 0], "f4"))
        np.testing.assert_array_equal(opened["none"].values, np.array([3, -1, 0], "i2"))
        assert opened["i"].encoding["_FillValue"] == -1
        assert opened["i"].attrs == {"units": "m"}
        assert "_FillValue" not in opened["none"].encoding
    for name, options in (("3.zarr", {"zarr_format": 3}), ("2.zarr", {"zarr_format": 2}), ("copy.nc", {})):
        ps.convert(target, tmp_path / name, **options)
        engine: dict[str, Any] = {"engine": "zarr", "consolidated": False} if options else {"engine": "h5netcdf"}
        with xr.open_dataset(tmp_path / name, **engine) as copied:
            for variable, values in (("i", [3, np.nan, 0]), ("f", [3, np.nan, 0]), ("none", [3, -1, 0])):
                np.testing.assert_array_equal(copied[variable].values, values, err_msg=name)
                assert copied[variable].dims == ("x",)
                assert copied[variable].attrs == {"units": "m"}
    with xr.open_dataset(_store_of(target), engine="zarr", consolidated=False, zarr_format=2) as theirs:
        np.testing.assert_array_equal(theirs["i"].values, [3, np.nan, 0])


def test_icechunk_gets_all_arrays_that_it_can_have(tmp_path: Path) -> None:
    pytest.importorskip("icechunk")
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("a", data=np.arange(6), chunks=(3,))
        file.create_dataset("names", data=np.array([b"ab", b"cde"]), chunks=(1,))
    with h5py.File(tmp_path / "texts.h5", "w") as file:
        file.create_dataset("names", data=np.array([b"ab", b"cde"]), chunks=(1,))
    repository = _repository(tmp_path)
    session = repository.writable_session("main")
    with pytest.warns(UserWarning, match="'names'"):
        ps.save_references(ps.open(tmp_path / "x.h5"), session)
    session.commit("references")
    found = ps.open(repository.readonly_session("main").store)
    assert list(found) == ["a"]
    np.testing.assert_array_equal(found["a"][...], np.arange(6))
    with pytest.raises(ps.UnsupportedError, match="no array"):
        ps.save_references(ps.open(tmp_path / "texts.h5"), repository.writable_session("main"))


def test_parquet_has_more_rows_than_one_file(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    from penstock.references.parquet import parquet_files

    group = _hdf5(tmp_path)
    for rows in (1, 5, 12):
        folder = tmp_path / f"{rows}.parq"

        def put(name: str, data: bytes, folder: Path = folder) -> None:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(data)

        parquet_files(group, put, rows)
        assert len(list((folder / "a").iterdir())) == -(-12 // rows)
        _check_by_us(folder, group)


def test_writes_to_a_uri_and_takes_a_format(tmp_path: Path) -> None:
    pytest.importorskip("fsspec")
    group = _hdf5(tmp_path)
    ps.save_references(group, "memory://exports/out.parq")
    ps.save_references(group, tmp_path / "named.anything", format="parquet")
    assert (tmp_path / "named.anything" / ".zmetadata").exists()
    _check_by_us(tmp_path / "named.anything", group)
    found = ps.open("memory://exports/out.parq", allow_local=True)
    np.testing.assert_array_equal(found["a"][...], group["a"][...])
    ps.save_references(group, tmp_path / "x.parq", format="json")
    assert json.loads((tmp_path / "x.parq").read_text())["version"] == 1
    with pytest.raises(ps.InvalidArgumentError, match="format must be"):
        ps.save_references(group, tmp_path / "x", format="zarr")  # type: ignore[arg-type]


@pytest.mark.parametrize("suffix", ["json", "parq"])
def test_arrays_that_references_cannot_represent_are_refused(tmp_path: Path, suffix: str) -> None:
    for i, rows in enumerate((3, 4)):
        _file(tmp_path / f"{i}.h5", 4 * i, rows)
    group = ps.open_virtual(str(tmp_path / "*.h5"), concat="time", variables=["time", "a"])
    with pytest.raises(ps.UnsupportedError, match=r"unequal lengths(.|\n)*'a'"):
        ps.save_references(group, tmp_path / f"out.{suffix}")
    assert not (tmp_path / f"out.{suffix}").exists()
    with pytest.raises(ps.InvalidArgumentError, match="not references"):
        ps.save_references(ps.create_group(tmp_path / "z.zarr"), tmp_path / f"out.{suffix}")
    with pytest.raises(ps.UnsupportedError, match="without a location"):
        ps.save_references(ps.open((tmp_path / "0.h5").read_bytes()), tmp_path / f"out.{suffix}")


def _lists(name: str) -> Any:
    lists = h5py.vlen_dtype
    return {
        "numbers": lists("<i4"),
        "lists": lists(lists("<i4")),
        "text": lists(h5py.string_dtype()),
        "structures": lists(np.dtype([("a", "<i2"), ("b", "<f4")])),
    }[name]


@pytest.mark.parametrize("name", ["lists", "text", "structures"])
def test_lists_that_numcodecs_does_not_have_are_refused(tmp_path: Path, name: str) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("x", (3,), _lists(name))
    for target in ("x.json", "x.parq"):
        with pytest.raises(ps.UnsupportedError, match=r"numcodecs' lists(.|\n)*'x'"):
            ps.save_references(ps.open_group(tmp_path / "x.h5"), tmp_path / target)
        assert not (tmp_path / target).exists()


@pytest.mark.parametrize("target", ["x.json", "x.parq", "icechunk"])
def test_the_other_arrays_are_exported(tmp_path: Path, target: str) -> None:
    """Numbers within structures with text, lists of lists, and datasets that cannot be read do not hide the others."""
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("a/b", data=np.arange(6), chunks=(3,))
        file.create_dataset("lists", (3,), _lists("lists"))
        file.create_dataset("table", (3,), np.dtype([("text", h5py.string_dtype()), ("n", "<i4")]))
        time = h5py.h5t.UNIX_D32LE.copy()
        h5py.h5d.create(file.id, b"time", time, h5py.h5s.create_simple((2,)))
    to: Any = tmp_path / target
    if target == "icechunk":
        pytest.importorskip("icechunk")
        to = _repository(tmp_path).writable_session("main")
    elif target == "x.parq":
        pytest.importorskip("pyarrow")
    with pytest.warns(UserWarning, match="not exported") as caught:
        ps.save_references(ps.open_group(tmp_path / "x.h5"), to)
    (text,) = [str(each.message) for each in caught if "not exported" in str(each.message)]
    assert all(f"'{name}' (" in text for name in ("lists", "table/n", "time"))
    assert caught[0].filename == __file__
    found = ps.open(to.store if target == "icechunk" else to, **({} if target == "icechunk" else {"allow_local": True}))
    assert found.keys() == ["a", "table"]
    # JSON and Parquet hold the text itself; chunks of Icechunk are references to bytes of the file.
    assert found["table"].keys() == ([] if target == "icechunk" else ["text"])
    assert ("'table/text' (" in text) == (target == "icechunk")
    np.testing.assert_array_equal(found["a/b"][...], np.arange(6))


def test_lists_of_numbers_are_numcodecs_own(tmp_path: Path) -> None:
    numcodecs = pytest.importorskip("numcodecs")
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("x", (3,), _lists("numbers"))[1] = [5, 6]
    ps.save_references(ps.open_group(tmp_path / "x.h5"), tmp_path / "x.json")
    refs = json.loads((tmp_path / "x.json").read_text())["refs"]
    (codec,) = json.loads(refs["x/.zarray"])["filters"]
    values = numcodecs.get_codec(codec).decode(base64.b64decode(refs["x/0"].removeprefix("base64:")))
    assert [each.tolist() for each in values] == [[], [5, 6], []]


def test_an_array_is_refused(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["x"] = np.arange(3)
    with pytest.raises(ps.InvalidArgumentError, match="saves a group"):
        ps.save_references(ps.open(tmp_path / "x.h5", "x"), tmp_path / "x.json")  # type: ignore[arg-type]
