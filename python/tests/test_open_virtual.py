"""`open_virtual`: many files as one group, compared with NumPy and xarray's `open_mfdataset`."""

from __future__ import annotations

import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
from conftest import matrix
from support.http_server import HttpServer

xr = pytest.importorskip("xarray")
h5py = pytest.importorskip("h5py")
pytest.importorskip("h5netcdf")

ENGINES = ("h5netcdf", "scipy", "zarr")


def _piece(rng: np.random.Generator, start: int, count: int, axis: int = 0) -> Any:
    shape, dims = [3, 5], ["lat", "lon"]
    shape.insert(axis, count)
    dims.insert(axis, "time")
    return xr.Dataset(
        {
            "t2m": (dims, rng.standard_normal(shape).astype("f4"), {"units": "K", "long_name": "temperature"}),
            "count": (("time",), rng.integers(0, 1000, count).astype("i4"), {"units": "1"}),
            "orography": (("lat", "lon"), np.arange(15, dtype="f8").reshape(3, 5), {"units": "m"}),
        },
        coords={
            "time": ("time", np.arange(start, start + count, dtype="f8"), {"units": "days since 2000-01-01"}),
            "lat": ("lat", np.linspace(-1, 1, 3)),
            "lon": ("lon", np.linspace(0, 4, 5)),
        },
        attrs={"title": "pieces"},
    )


def _write(piece: Any, path: Path, engine: str, encoding: dict[str, Any] | None = None) -> str:
    piece = piece.copy()
    if engine == "zarr":
        piece.to_zarr(path, consolidated=True, encoding=encoding)
    else:
        piece.to_netcdf(path, engine=engine, encoding=encoding, unlimited_dims=["time"] if encoding else [])
    return str(path)


def _files(folder: Path, engine: str, lengths: list[int], axis: int = 0, encodings: Any = None) -> list[str]:
    rng, start, out = np.random.default_rng(7), 0, []
    ending = "zarr" if engine == "zarr" else "nc"
    for number, count in enumerate(lengths):
        encoding = encodings[number % len(encodings)] if encodings else None
        out.append(_write(_piece(rng, start, count, axis), folder / f"run_{number}.{ending}", engine, encoding))
        start += count
    return out


def _expected(files: list[str], engine: str) -> Any:
    options = {"combine": "nested", "concat_dim": "time", "data_vars": "minimal", "coords": "minimal"}
    return xr.open_mfdataset(files, engine=engine, compat="override", join="override", **options)


def _deflated(chunks: tuple[int, ...]) -> dict[str, Any]:
    return {"t2m": {"zlib": True, "shuffle": True, "chunksizes": chunks}}


MATRIX = [
    ("h5netcdf", 0, None),
    ("h5netcdf", 0, [_deflated((2, 3, 5))]),
    ("h5netcdf", 1, [_deflated((2, 2, 3))]),
    ("h5netcdf", 2, None),
    ("h5netcdf", 0, [_deflated((2, 3, 5)), _deflated((3, 3, 5))]),  # different chunks along the axis
    ("h5netcdf", 0, [_deflated((2, 3, 5)), None]),  # different filters: joined, not merged
    ("scipy", 0, None),
    ("scipy", 1, None),
    ("zarr", 0, None),
]


@matrix
@pytest.mark.parametrize(("engine", "axis", "encodings"), MATRIX)
@pytest.mark.parametrize("lengths", [[4, 1, 6], [2, 2, 2]])
def test_equals_open_mfdataset(tmp_path: Path, engine: str, axis: int, encodings: Any, lengths: list[int]) -> None:
    files = _files(tmp_path, engine, lengths, axis, encodings)
    with _expected(files, engine) as expected:
        pattern = str(tmp_path / "run_*.*")
        group = ps.open_virtual(pattern, concat="time")
        assert sorted(group.keys()) == sorted(map(str, expected.variables))
        assert group.read_only
        assert group.attrs["title"] == "pieces"
        raw = _expected_raw(files, engine)
        for name in group:
            np.testing.assert_array_equal(group[name][...], raw[name].values, err_msg=name)
            assert group[name].dimension_names == raw[name].dims
        part = group["t2m"][1:4, 1:3, 2:]
        np.testing.assert_array_equal(part, raw["t2m"].values[1:4, 1:3, 2:])
        for target in (pattern, files):
            opened = xr.open_dataset(target, engine="penstock", concat="time")
            xr.testing.assert_identical(opened.load(), expected.compute())


def _expected_raw(files: list[str], engine: str) -> Any:
    pieces = [xr.open_dataset(each, engine=engine, decode_cf=False).load() for each in files]
    joined = xr.concat(pieces, "time", data_vars="minimal", coords="minimal", compat="override", join="override")
    return joined


def test_files_are_put_in_order_by_the_coordinate(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    starts = {"c": 0, "a": 3, "b": 8}
    for name, start in starts.items():
        _write(_piece(rng, start, 3 if start < 8 else 2), tmp_path / f"{name}.nc", "h5netcdf")
    pattern = str(tmp_path / "*.nc")
    with pytest.raises(ps.InvalidArgumentError, match=r"'time' is not in order: 9.* and then 0.*b\.nc.*c\.nc.*sort="):
        ps.open_virtual(pattern, concat="time")
    made = ps.open_virtual(pattern, concat="time", sort="values")
    np.testing.assert_array_equal(made["time"][...], [0, 1, 2, 3, 4, 5, 8, 9])
    as_named = ps.open_virtual(pattern, concat="time", sort=False)
    np.testing.assert_array_equal(as_named["time"][...], [3, 4, 5, 8, 9, 0, 1, 2])
    with xr.open_mfdataset(pattern, engine="h5netcdf", combine="by_coords", data_vars="minimal") as expected:
        opened = xr.open_dataset(pattern, engine="penstock", concat="time", sort="values")
        xr.testing.assert_equal(opened.load(), expected.compute())
    _write(_piece(rng, 4, 2), tmp_path / "d.nc", "h5netcdf")
    with pytest.raises(ps.InvalidArgumentError, match="not in order"):
        ps.open_virtual(pattern, concat="time", sort="values")


def _refusal(tmp_path: Path, change: Any, **options: Any) -> str:
    rng = np.random.default_rng(2)
    first = _write(_piece(rng, 0, 2), tmp_path / "first.nc", "h5netcdf")
    second = _write(change(_piece(rng, 2, 2)), tmp_path / "second.nc", "h5netcdf")
    with pytest.raises(ps.InvalidArgumentError) as caught:
        ps.open_virtual([first, second], concat="time", **options)
    return str(caught.value)


def _with_attribute(piece: Any, name: str, value: Any) -> Any:
    piece["t2m"].attrs[name] = value
    return piece


def _other_orography(piece: Any) -> Any:
    piece["orography"] = piece["orography"] + 1
    return piece


REFUSED = [
    (lambda piece: piece.drop_vars("count"), {}, "count", "missing"),
    (lambda piece: piece.assign(more=("time", np.zeros(2))), {}, "more", "missing"),
    (lambda piece: piece.assign(t2m=piece["t2m"].astype("f8")), {}, "t2m", "float64"),
    (lambda piece: piece.transpose("lat", "time", "lon"), {}, "t2m", r"dimensions \(lat, time, lon\)"),
    (lambda piece: piece.isel(lon=slice(0, 4)), {}, "t2m", "shape"),
    (lambda piece: _with_attribute(piece, "scale_factor", 2.0), {}, "t2m", "scale_factor"),
    (lambda piece: _with_attribute(piece, "units", "Celsius"), {}, "t2m", "units"),
    (lambda piece: _with_attribute(piece, "note", "x"), {"attributes": "all"}, "t2m", "attributes"),
    (_other_orography, {"compare": "values"}, "orography", "other values"),
]


@pytest.mark.parametrize(("change", "options", "variable", "what"), REFUSED)
def test_errors_name_the_variable_and_both_files(
    tmp_path: Path, change: Any, options: dict[str, Any], variable: str, what: str
) -> None:
    text = _refusal(tmp_path, change, **options)
    assert f"'{variable}'" in text
    assert re.search(what, text)
    assert "first.nc" in text
    assert "second.nc" in text


def test_missing_variables_are_the_fill_value(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    pieces = [_piece(rng, 0, 2), _piece(rng, 2, 3).drop_vars("count"), _piece(rng, 5, 1)]
    files = [_write(each, tmp_path / f"{i}.nc", "h5netcdf") for i, each in enumerate(pieces)]
    made = ps.open_virtual(files, concat="time", missing="fill")
    fill = made["count"].fill_value
    expected = [*pieces[0]["count"].values, fill, fill, fill, *pieces[2]["count"].values]
    np.testing.assert_array_equal(made["count"][...], expected)
    chosen = ps.open_virtual(files, concat="time", variables=["t2m", "time"])
    assert list(chosen) == ["t2m", "time"]


def test_the_dimension_must_be_in_the_files(tmp_path: Path) -> None:
    file = _write(_piece(np.random.default_rng(4), 0, 2), tmp_path / "a.nc", "h5netcdf")
    with pytest.raises(ps.InvalidArgumentError, match=r"no variable of '.*a\.nc' has the dimension 'step'"):
        ps.open_virtual([file], concat="step")
    with pytest.raises(ps.NotFoundError):
        ps.open_virtual(str(tmp_path / "*.grib"), concat="time")
    (tmp_path / "b.nc").write_bytes(b"\x89HDF\r\n\x1a\nnot really")
    with pytest.raises(ps.Error, match=r"b\.nc"):
        ps.open_virtual(str(tmp_path / "*.nc"), concat="time")


def test_opens_keys_of_stores(tmp_path: Path) -> None:
    files = _files(tmp_path, "h5netcdf", [2, 3])
    shelf = {f"run/{Path(each).name}": Path(each).read_bytes() for each in files}
    expected = ps.open_virtual(files, concat="time")["t2m"][...]
    made = ps.open_virtual("run/*.nc", concat="time", store=shelf)
    np.testing.assert_array_equal(made["t2m"][...], expected)
    with pytest.raises(TypeError, match="cannot pickle"):
        pickle.dumps(made)


def test_pickles_and_notices_changes(tmp_path: Path) -> None:
    files = _files(tmp_path, "h5netcdf", [2, 3])
    made = ps.open_virtual(files, concat="time")
    again = pickle.loads(pickle.dumps(made))
    np.testing.assert_array_equal(again["t2m"][...], made["t2m"][...])
    array = pickle.loads(pickle.dumps(made["t2m"]))
    np.testing.assert_array_equal(array[...], made["t2m"][...])
    _write(_piece(np.random.default_rng(9), 2, 3), Path(files[1]), "h5netcdf")
    with pytest.raises(ps.ConflictError, match=r"run_1\.nc"):
        made["t2m"][...]


@pytest.mark.parametrize("given", ["pattern", "list", "mapper"])
def test_files_over_fsspec_notice_changes(tmp_path: Path, given: str) -> None:
    memory = pytest.importorskip("fsspec").filesystem("memory")
    files = _files(tmp_path, "h5netcdf", [2, 3])
    for each in files:
        memory.pipe(f"/virtual/run/{Path(each).name}", Path(each).read_bytes())
    names = [f"memory://virtual/run/{Path(each).name}" for each in files]
    where: dict[str, Any] = {"store": memory.get_mapper("/virtual")} if given == "mapper" else {}
    target = {"pattern": "memory://virtual/run/*.nc", "list": names, "mapper": "run/*.nc"}[given]
    made, other = (ps.open_virtual(target, concat="time", **where) for _ in range(2))
    expected = made["t2m"][...]
    np.testing.assert_array_equal(expected, ps.open_virtual(files, concat="time")["t2m"][...])
    _write(_piece(np.random.default_rng(9), 2, 3), Path(files[1]), "h5netcdf")
    memory.pipe("/virtual/run/run_1.nc", Path(files[1]).read_bytes())
    with pytest.raises(ps.ConflictError, match=r"run_1\.nc' has changed"):
        made["t2m"][...]
    np.testing.assert_array_equal(made["t2m"][:2], expected[:2])
    with pytest.raises(ps.ConflictError, match=r"run_1\.nc' changed since it was opened"):
        ps.save_manifest(other, tmp_path / "run.manifest")
    assert not (tmp_path / "run.manifest").exists()
    memory.rm("/virtual/run/run_1.nc")
    with pytest.raises(ps.ConflictError, match=r"run_1\.nc' was removed"):
        made["t2m"][...]


def test_the_metadata_of_a_remote_file_of_64_kib_are_one_request(tmp_path: Path) -> None:
    for i in range(2):
        with h5py.File(tmp_path / f"{i}.h5", "w") as file:
            for k in range(30):
                file[f"v{k:02}"] = np.arange(100.0)
            file["time"] = np.arange(3) + 3 * i
            file["time"].make_scale("time")
            file["x"] = np.arange(3.0)
            file["x"].dims[0].attach_scale(file["time"])
        assert 16 << 10 < (tmp_path / f"{i}.h5").stat().st_size < 64 << 10
    with HttpServer({f"{i}.h5": (tmp_path / f"{i}.h5").read_bytes() for i in range(2)}) as server:
        ps.open_virtual([f"{server.url}/{i}.h5" for i in range(2)], concat="time", variables=["time", "x"])
        assert len(server.requests) == 4, "with one for the coordinate of each file"


def test_a_request_compares_the_versions_of_files_over_asynchronous_fsspec(tmp_path: Path) -> None:
    pytest.importorskip("aiohttp")
    files = _files(tmp_path, "h5netcdf", [2, 3])
    with HttpServer({Path(each).name: Path(each).read_bytes() for each in files}) as server:
        urls = [f"{server.url}/{Path(each).name}" for each in files]
        how = {"block_size": 1 << 16}  # the engine does not have this option
        made = ps.open_virtual(urls, concat="time", storage_options=how)
        assert [each.path for each in server.requests if each.method == "HEAD"] == ["/run_0.nc", "/run_1.nc"]
        server.forget()
        expected = made["t2m"][:2]
        assert [each.method for each in server.requests] == ["GET", "HEAD"]
        server.put("run_1.nc", server.objects["/run_1.nc"] + b"more")
        np.testing.assert_array_equal(made["t2m"][:2], expected)
        with pytest.raises(ps.ConflictError, match=r"run_1\.nc' has changed"):
            made["t2m"][...]


@pytest.mark.parametrize("name", ["run.json", "run.parq"])
def test_references_to_changed_files_are_not_saved(tmp_path: Path, name: str) -> None:
    if name.endswith(".parq"):
        pytest.importorskip("pyarrow")
    files = _files(tmp_path, "h5netcdf", [2, 2])
    made = ps.open_virtual(files, concat="time")
    _write(_piece(np.random.default_rng(9), 2, 3), Path(files[1]), "h5netcdf")
    with pytest.raises(ps.ConflictError, match=r"run_1\.nc' changed after it was opened"):
        ps.save_references(made, tmp_path / name)
    assert not (tmp_path / name).exists()


@pytest.mark.parametrize("engine", ["h5netcdf", "zarr"])
def test_a_name_may_be_that_of_one_file(tmp_path: Path, engine: str) -> None:
    (file,) = _files(tmp_path, engine, [3])
    with xr.open_dataset(file, engine="penstock", concat="time") as opened, _expected([file], engine) as expected:
        xr.testing.assert_identical(opened.load(), expected.load())
    found = ps.open_virtual(file, concat="time")["t2m"]
    np.testing.assert_array_equal(found[...], ps.open_virtual([file], concat="time")["t2m"][...])


@pytest.mark.parametrize("form", ["NETCDF4", "NETCDF3_64BIT"])
def test_contiguous_files_are_chunks_of_dask(tmp_path: Path, form: str) -> None:
    pytest.importorskip("dask")
    files = []
    for number in range(3):
        files.append(str(tmp_path / f"{number}.nc"))
        values = np.full((4, 5), float(number))
        xr.Dataset({"v": (("time", "x"), values)}).to_netcdf(files[-1], engine="netcdf4", format=form)
    with xr.open_dataset(files, engine="penstock", concat="time", chunks={}) as opened:
        assert opened["v"].chunks == ((4, 4, 4), (5,))
        np.testing.assert_array_equal(opened["v"].values[:, 0], np.repeat([0.0, 1.0, 2.0], 4))


def test_variables_are_chosen_by_name(tmp_path: Path) -> None:
    files = _files(tmp_path, "h5netcdf", [2, 2])
    assert list(ps.open_virtual(files, concat="time", variables="t2m")) == ["t2m"]
    assert set(ps.open_virtual(files, concat="time", variables=["t2m", "time"])) == {"t2m", "time"}
    assert list(ps.open_virtual(files, concat="time", variables=["t2m", "lat"], drop_variables="lat")) == ["t2m"]
    with pytest.raises(ps.NotFoundError, match="no file has the variable 'tm2'"):
        ps.open_virtual(files, concat="time", variables=["t2m", "tm2"])


def test_the_fill_values_of_a_coordinate_may_differ(tmp_path: Path) -> None:
    """HDF5's default is 0, that of NetCDF another number."""
    with h5py.File(tmp_path / "0.nc", "w") as file:
        file["time"] = np.arange(2, dtype="i4")
        file["time"].make_scale("time")
    later = xr.Dataset(coords={"time": np.arange(2, 5, dtype="i4")})
    later.to_netcdf(tmp_path / "1.nc", engine="netcdf4", format="NETCDF3_64BIT")
    files = [tmp_path / "0.nc", tmp_path / "1.nc"]
    np.testing.assert_array_equal(ps.open_virtual(files, concat="time")["time"][...], np.arange(5))
    np.testing.assert_array_equal(ps.open_virtual(files[::-1], concat="time", sort="values")["time"][...], np.arange(5))


def test_text_is_joined(tmp_path: Path) -> None:
    files = []
    for i, names in enumerate((["a", "bcd"], ["", "é", "x" * 50])):
        piece = xr.Dataset({"name": ("time", np.array(names, object))}, coords={"time": np.arange(len(names)) + 10 * i})
        files.append(_write(piece, tmp_path / f"{i}.nc", "h5netcdf"))
    made = ps.open_virtual(files, concat="time")
    assert [str(each) for each in made["name"][...]] == ["a", "bcd", "", "é", "x" * 50]


def test_regular_files_are_runs_of_references(tmp_path: Path) -> None:
    """References of many regular files are stored as runs: a saved reference takes less than 2 bytes."""
    for i in range(40):
        with h5py.File(tmp_path / f"{i:03}.h5", "w") as file:
            data = np.arange(5000, dtype="i4").reshape(500, 10) + i
            file.create_dataset("x", data=data, chunks=(1, 10))
            file["time"] = np.arange(500) + 500 * i
            file["time"].make_scale("time")
            file["x"].dims[0].attach_scale(file["time"])
    made = ps.open_virtual(str(tmp_path / "*.h5"), concat="time")
    assert made["x"].shape == (20000, 10)
    np.testing.assert_array_equal(made["x"][::499, 0], [i % 500 * 10 + i // 500 for i in range(0, 20000, 499)])
    without_times = ps.open_virtual(str(tmp_path / "*.h5"), concat="time", variables="x")
    ps.save_manifest(without_times, tmp_path / "x.manifest")
    assert (tmp_path / "x.manifest").stat().st_size < 2 * 20000


@pytest.mark.parametrize(("engine", "axis", "encodings"), [MATRIX[0], MATRIX[2], MATRIX[4]])
def test_saves_a_manifest_of_the_group(tmp_path: Path, engine: str, axis: int, encodings: Any) -> None:
    files = _files(tmp_path, engine, [4, 1, 6], axis, encodings)
    group = ps.open_virtual(files, concat="time")
    ps.save_manifest(group, tmp_path / "run.manifest")
    again = ps.open(tmp_path / "run.manifest")
    assert isinstance(again, ps.Group)
    assert sorted(again) == sorted(group)
    assert again.attrs.asdict() == group.attrs.asdict()
    for name in group:
        np.testing.assert_array_equal(again[name][...], group[name][...], err_msg=name)
        assert again[name].dimension_names == group[name].dimension_names
        assert again[name].attrs.asdict().keys() == group[name].attrs.asdict().keys()
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(again["t2m"]))[1:3], group["t2m"][1:3])
    assert sorted(pickle.loads(pickle.dumps(again))) == sorted(group)
    np.testing.assert_array_equal(ps.open(tmp_path / "run.manifest", "t2m")[...], group["t2m"][...])
    with pytest.raises(ps.NotFoundError):
        again["other"]
    saved = (tmp_path / "run.manifest").read_bytes()
    for damaged in (saved[:-1], saved + b"x", saved.replace(b'"bytes":', b'"bytez":', 1)):
        (tmp_path / "bad.manifest").write_bytes(damaged)
        with pytest.raises(ps.CorruptDataError):
            ps.open(tmp_path / "bad.manifest")
    with pytest.raises(ps.InvalidArgumentError, match="manifest of a group"):
        ps.open_shards(tmp_path / "run.manifest")
    _write(_piece(np.random.default_rng(9), 4, 1, axis), Path(files[1]), engine)
    with pytest.raises(ps.ConflictError, match=r"run_1\.nc"):
        ps.open(tmp_path / "run.manifest")["t2m"]


def test_only_references_have_manifests(tmp_path: Path) -> None:
    files = _files(tmp_path, "zarr", [2, 3])
    with pytest.raises(ps.InvalidArgumentError, match=r"not an array of references.*\n.*member 'count'"):
        ps.save_manifest(ps.open_virtual(files, concat="time"), tmp_path / "x.manifest")
    other = []
    for number, chunks in enumerate([(3, 4), (3, 2)]):
        variable = xr.Variable(("time", "x"), np.zeros((3, 4)), encoding={"chunksizes": chunks})
        other.append(tmp_path / f"other_{number}.nc")
        xr.Dataset({"v": variable}, coords={"time": np.arange(3) + 3 * number}).to_netcdf(other[-1], engine="h5netcdf")
    with pytest.raises(ps.InvalidArgumentError, match=r"chunks outside the joined dimension(.|\n)*member 'v'"):
        ps.save_manifest(ps.open_virtual(other, concat="time"), tmp_path / "x.manifest")
    with pytest.raises(ps.InvalidArgumentError, match="chunks outside axis 0"):
        ps.save_manifest(ps.open_shards(other, dataset="v"), tmp_path / "x.manifest")
    assert not (tmp_path / "x.manifest").exists()


def test_netcdf_classic_files_have_manifests(tmp_path: Path) -> None:
    group = ps.open_virtual(_files(tmp_path, "scipy", [2, 3]), concat="time")
    ps.save_manifest(group, tmp_path / "x.manifest")
    again = ps.open(tmp_path / "x.manifest")
    assert sorted(again) == sorted(group)
    for name in group:
        np.testing.assert_array_equal(again[name][...], group[name][...], err_msg=name)
        assert again[name].attrs.asdict() == group[name].attrs.asdict()
    alone = ps.open(tmp_path / "run_0.nc", "t2m")
    ps.save_manifest(alone, tmp_path / "one.manifest")
    np.testing.assert_array_equal(ps.open(tmp_path / "one.manifest")[...], alone[...])


@pytest.mark.parametrize("kind", ["NETCDF3_CLASSIC", "NETCDF3_64BIT_DATA"])
def test_interleaved_records_have_manifests(tmp_path: Path, kind: str) -> None:
    """Variables whose records alternate in each file: files are read as a whole, and saved as references to records."""
    netCDF4 = pytest.importorskip("netCDF4")
    rng = np.random.default_rng(5)
    files, parts = [], []
    for i, count in enumerate([4, 1, 6]):
        files.append(str(tmp_path / f"run_{i}.nc"))
        parts.append(rng.random((count, 3)))
        with netCDF4.Dataset(files[-1], "w", format=kind) as file:
            file.createDimension("time", None)
            file.createDimension("x", 3)
            times = file.createVariable("time", "f8", ("time",))
            first, second = (file.createVariable(name, "f8", ("time", "x")) for name in ("first", "second"))
            second.units = "K"
            times[:] = 10 * i + np.arange(count)
            first[:] = parts[-1]
            second[:] = -parts[-1]
    group = ps.open_virtual(files, concat="time")
    values = np.concatenate(parts)
    np.testing.assert_array_equal(group["second"][...], -values)
    ps.save_manifest(group, tmp_path / "run.manifest")
    again = ps.open(tmp_path / "run.manifest")
    for name, expected in (("first", values), ("second", -values)):
        np.testing.assert_array_equal(again[name][...], expected)
        np.testing.assert_array_equal(again[name][3:9:2, 1], expected[3:9:2, 1])
    assert again["second"].attrs["units"] == "K"
    ps.save_references(group, tmp_path / "run.json")
    np.testing.assert_array_equal(ps.open(tmp_path / "run.json", allow_local=True)["second"][...], -values)


@pytest.mark.parametrize(("axis", "encodings"), [(0, None), (0, [_deflated((2, 3, 5))]), (1, [_deflated((2, 2, 3))])])
def test_exports_kerchunk_json(tmp_path: Path, axis: int, encodings: Any) -> None:
    pytest.importorskip("fsspec")
    files = _files(tmp_path, "h5netcdf", [4, 2, 6], axis, encodings)
    group = ps.open_virtual(files, concat="time", variables=["t2m", "time", "orography", "lat", "lon"])
    target = tmp_path / "run.json"
    if group["t2m"].chunks[axis] not in (1, 2):
        with pytest.raises(ps.UnsupportedError, match=r"unequal lengths(.|\n)*t2m"):
            ps.save_references(group, target)
        assert not target.exists()
        return
    ps.save_references(group, target)
    again = ps.open(target)
    for name in group:
        np.testing.assert_array_equal(again[name][...], group[name][...], err_msg=name)
    storage_options = {"fo": str(target), "remote_protocol": "file", "asynchronous": True}
    import fsspec
    import zarr

    filesystem = fsspec.filesystem("reference", **storage_options)
    store = zarr.storage.FsspecStore(filesystem, read_only=True, path="")
    with xr.open_dataset(store, engine="zarr", consolidated=False, zarr_format=2, decode_cf=False) as opened:
        np.testing.assert_array_equal(opened["t2m"].values, group["t2m"][...])
        assert opened["t2m"].dims == group["t2m"].dimension_names


def test_datatrees_of_many_files(tmp_path: Path) -> None:
    """Each group is joined by itself; a group without the dimension is taken from the first file."""
    xr = pytest.importorskip("xarray")
    netCDF4 = pytest.importorskip("netCDF4")
    files = []
    for i, count in enumerate([2, 3]):
        files.append(str(tmp_path / f"run_{i}.nc"))
        with netCDF4.Dataset(files[-1], "w") as file:
            file.createDimension("time", None)
            file.createVariable("time", "f8", ("time",))[:] = 10.0 * i + np.arange(count)
            ice = file.createGroup("ocean/ice")
            ice.createVariable("depth", "f4", ("time",))[:] = 100 * i + np.arange(count)
            file["ocean"].note = "no variables"
            still = file.createGroup("grid")
            still.createDimension("x", 3)
            still.createVariable("x", "i4", ("x",))[:] = [1, 2, 3]
    for target in (str(tmp_path / "run_*.nc"), files):
        tree = xr.open_datatree(target, engine="penstock", concat="time", decode_times=False)
        assert set(tree.groups) == {"/", "/ocean", "/ocean/ice", "/grid"}
        np.testing.assert_array_equal(tree["time"], [0, 1, 10, 11, 12])
        np.testing.assert_array_equal(tree["ocean/ice/depth"], [0, 1, 100, 101, 102])
        np.testing.assert_array_equal(tree["grid/x"], [1, 2, 3])
        assert tree["ocean"].attrs == {"note": "no variables"}
    with xr.open_datatree(files[0], engine="penstock", decode_times=False) as one:
        assert one["ocean/ice/depth"].sizes == {"time": 2}
