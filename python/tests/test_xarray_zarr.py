"""xarray's engine for Zarr, compared with xarray's own."""

from __future__ import annotations

import base64
import json
import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
import zarr
from conftest import LONG, ZARR_VERSION, as_bytes, matrix
from zarr.codecs import BytesCodec

xr = pytest.importorskip("xarray")
pytestmark = [
    pytest.mark.filterwarnings("ignore:Failed to open Zarr store with consolidated"),
    pytest.mark.filterwarnings("ignore:.*Zarr format 3 specification"),
]
OURS, THEIRS = "penstock", "zarr"


def weather() -> Any:
    """A dataset with all that CF decoding handles: times, packing, missing values, text, coordinates, scalars."""
    rng = np.random.default_rng(1)
    temperature = rng.normal(280, 10, (31, 13, 17)).astype("f4")
    temperature[3, 4, 5] = np.nan
    rain = rng.uniform(0, 40, (31, 13, 17))
    rain[7, :, 2] = np.nan
    made = xr.Dataset(
        {
            "t2m": (("time", "lat", "lon"), temperature, {"units": "K", "long_name": "temperature"}),
            "rain": (("time", "lat", "lon"), rain, {"units": "mm"}),
            "flags": (("lat", "lon"), rng.integers(0, 255, (13, 17), dtype="u1")),
            "seen": (("lat",), rng.integers(0, 2, 13).astype(bool)),
            "station": (("lat",), np.array([f"Ort {i} ü" for i in range(13)], dtype=object)),
            "code": (("lat",), np.array([f"S{i}" for i in range(13)], dtype="U4")),
            "lasted": (("time",), np.arange(31).astype("timedelta64[h]").astype("timedelta64[ns]")),
            "wave": (("lon",), np.arange(17) * (1 + 2j)),
            "count": ((), np.int32(7)),
        },
        coords={
            "time": np.datetime64("2015-01-01", "ns") + np.arange(31) * np.timedelta64(1, "D"),
            "lat": np.linspace(60, 30, 13),
            "lon": np.linspace(-10, 30, 17),
            "height": ((), 2.0, {"units": "m"}),
            "area": (("lat", "lon"), rng.uniform(size=(13, 17))),
        },
        attrs={"title": "weather", "levels": [1, 2, 3], "nested": {"a": 1.5}},
    )
    made["rain"].encoding = {"dtype": "i2", "scale_factor": 0.01, "add_offset": 1.0, "_FillValue": -32768}
    made["t2m"].encoding = {"_FillValue": np.float32(9999)}
    made["flags"].encoding = {"_FillValue": np.uint8(255)}
    made["time"].encoding = {"units": "hours since 2014-12-31", "calendar": "proleptic_gregorian", "dtype": "i4"}
    return made


@pytest.fixture(scope="session", params=["v2", "v3", "v3 shards", "v2 consolidated", "v3 consolidated"])
def stored(request: Any, tmp_path_factory: Any) -> Path:
    """The dataset as xarray and zarr-python write it."""
    path = tmp_path_factory.mktemp("xarray") / "weather.zarr"
    ds = weather()
    chunks: dict[str, Any] = {"chunks": (10, 5, 17)}
    if "shards" in request.param:
        chunks = {"chunks": (5, 5, 17), "shards": (20, 15, 17)}
    encoding = {"t2m": chunks, "rain": chunks}
    ds.to_zarr(path, zarr_format=int(request.param[1]), consolidated="consolidated" in request.param, encoding=encoding)
    return path


def plain(value: Any) -> Any:
    """An attribute or an encoding in a form that compares equal: NaN, arrays and codecs included."""
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, np.ndarray | np.generic):
        return (str(value.dtype), value.shape, value.tolist() if value == value else "nan")
    if isinstance(value, BytesCodec) and ZARR_VERSION < (3, 4):
        return "bytes"  # zarr-python sets its byte order only sometimes for items of single bytes
    return "nan" if isinstance(value, float) and value != value else value


def assert_same(ours: Any, theirs: Any) -> None:
    """Assert that everything is equal: values bit by bit, types, attributes, encodings, names, indexes."""
    xr.testing.assert_identical(ours, theirs)
    assert set(ours.variables) == set(theirs.variables)
    assert set(ours.coords) == set(theirs.coords)
    assert set(ours.indexes) == set(theirs.indexes)
    for name in theirs.variables:
        left, right = ours.variables[name], theirs.variables[name]
        assert left.dtype == right.dtype, name
        assert left.dims == right.dims
        assert plain(left.attrs) == plain(right.attrs), name
        assert plain(left.encoding) == plain(right.encoding), name
        a, b = left.values, right.values
        assert a.tolist() == b.tolist() if a.dtype.kind in "OT" else a.tobytes() == b.tobytes(), name


def both(path: Any, **options: Any) -> tuple[Any, Any]:
    return tuple(xr.open_dataset(path, engine=engine, **options) for engine in (OURS, THEIRS))  # type: ignore


def test_the_engine_is_found_by_its_name():
    assert "penstock" in xr.backends.list_engines(), "run make build: the package's entry points are not installed"


@matrix
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"mask_and_scale": False},
        {"mask_and_scale": {"rain": False}},
        {"decode_times": False},
        {"decode_cf": False},
        {"decode_coords": False},
        {"decode_coords": "all"},
        {"decode_timedelta": True},
        {"decode_timedelta": False},
        {"drop_variables": ["rain", "time"]},
        {"drop_variables": "flags"},
        {"consolidated": False},
        {"cache": False},
        {"create_default_indexes": False},
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore:.*timedelta:FutureWarning")
def test_a_dataset_equals_xarrays_own(stored, options):
    assert_same(*both(stored, **options))


def test_cftime_is_requested_as_in_xarray(stored):
    pytest.importorskip("cftime")
    decoder = xr.coders.CFDatetimeCoder(use_cftime=True)
    ours, theirs = both(stored, decode_times=decoder)
    assert_same(ours, theirs)
    assert type(ours.time.values[0]).__module__.startswith("cftime")


def test_only_the_chunks_of_a_selection_are_read_on_demand(tmp_path):
    weather()[["t2m"]].to_zarr(
        tmp_path / "a.zarr", zarr_format=3, consolidated=False, encoding={"t2m": {"chunks": (10, 5, 17)}}
    )
    asked: list[str] = []

    class Watched(ps.Store):
        def get(self, key: str) -> bytes | None:
            asked.append(key)
            found = tmp_path / "a.zarr" / key
            return found.read_bytes() if found.is_file() else None

        def list(self, prefix: str) -> list[str]:
            files = [str(p.relative_to(tmp_path / "a.zarr")) for p in (tmp_path / "a.zarr").rglob("*") if p.is_file()]
            return [key for key in files if key.startswith(prefix)]

    ds = xr.open_dataset(Watched(), engine=OURS)
    assert not [key for key in asked if key.startswith("t2m/c/")]
    part = ds.t2m.sel(time="2015-01-16", lat=slice(60, 55))
    assert part.shape == (3, 17)
    assert not [key for key in asked if key.startswith("t2m/c/")]
    part.load()
    assert {key for key in asked if key.startswith("t2m/c/")} == {"t2m/c/1/0/0"}


SELECTIONS = [
    lambda a: a.sel(time="2015-01-16"),
    lambda a: a.sel(time="2015-01"),
    lambda a: a.sel(time=slice("2015-01-05", "2015-01-20", 3), lat=slice(55, 35)),
    lambda a: a.sel(lat=[41.2, 59.0], lon=7.4, method="nearest"),
    lambda a: a.isel(time=5),
    lambda a: a.isel(time=-1, lat=-2, lon=-3),
    lambda a: a.isel(time=slice(None, None, -3), lon=slice(14, 2, -4)),
    lambda a: a.isel(time=slice(5, 5)),
    lambda a: a.isel(time=[7, 1, 1, 30], lat=[0, 12], lon=slice(1, 9, 2)),
    lambda a: a.isel(time=[7, 1], lat=3, lon=[-1, -2, 5]),
    lambda a: a.isel(lat=np.arange(13) % 3 == 0),
    lambda a: a.isel(time=xr.DataArray([1, 5, 9], dims="p"), lat=xr.DataArray([0, 3, 12], dims="p")),
    lambda a: a.isel(time=xr.DataArray([[1, 5], [9, 30]], dims=("p", "q")), lon=xr.DataArray([3, 0], dims="q")),
    lambda a: (
        a.isel(lat=[2, 5, 9]).isel(lon=slice(3, 12)).isel(lat=xr.DataArray([1, 0], dims="k"), lon=slice(None, None, 2))
    ),
    lambda a: a.isel(time=xr.DataArray([1, 5, 9], dims="p"), lat=xr.DataArray([0, 3, 12], dims="p")).isel(
        p=[2, 0], lon=4
    ),
    lambda a: a.sel(
        lat=xr.DataArray([40.0, 52.0], dims="spot"), lon=xr.DataArray([0.0, 21.0], dims="spot"), method="nearest"
    ),
    lambda a: a.transpose("lon", "time", "lat").isel(lon=3),
    lambda a: a.where(a.lat > 50, drop=True),
    lambda a: a.isel(time=0).isel(lat=0).isel(lon=0),
]


@matrix
@pytest.mark.parametrize("select", SELECTIONS, ids=range(len(SELECTIONS)))
@pytest.mark.parametrize("name", ["t2m", "rain"])
def test_selections_equal_xarrays(stored, name, select):
    ours, theirs = both(stored, cache=False)
    got, want = select(ours[name]), select(theirs[name])
    xr.testing.assert_identical(got, want)
    assert got.dtype == want.dtype
    assert got.values.tobytes() == want.values.tobytes()


@pytest.mark.parametrize("name", ["station", "code", "seen", "wave", "count", "flags", "lasted"])
def test_elements_of_every_kind_equal_xarrays(stored, name):
    ours, theirs = both(stored, cache=False, decode_timedelta=True)
    for key in ({}, dict.fromkeys(ours[name].dims, 1), {dim: [2, 0] for dim in ours[name].dims}):
        got, want = ours[name].isel(key), theirs[name].isel(key)
        assert got.dtype == want.dtype
        assert got.values.tolist() == want.values.tolist()
        assert got.values.dtype == want.values.dtype


@pytest.mark.parametrize("points", [False, True])
def test_empty_backward_slices_are_empty(stored: Path, points: bool) -> None:
    t2m = xr.open_dataset(stored, engine=OURS).t2m
    select: dict[str, Any] = {"time": slice(0, 0, -1), "lat": ("p", [1, 2]) if points else 0}
    got = t2m.isel({**select, "lon": ("p", [3, 4])} if points else select)
    assert got.load().shape == ((0, 2) if points else (0, 17))


def test_only_the_fill_value_of_v2_is_a_missing_value(tmp_path):
    for version in (2, 3):
        path = tmp_path / f"{version}.zarr"
        group = zarr.create_group(path, zarr_format=version)
        names = {"dimension_names": ("x",)} if version == 3 else {"attributes": {"_ARRAY_DIMENSIONS": ["x"]}}
        made = group.create_array("a", shape=(9,), chunks=(4,), dtype="i4", fill_value=-1, **names)
        made[:3] = 5
        assert_same(*both(path, consolidated=False))
        ours = xr.open_dataset(path, engine=OURS, consolidated=False)
        assert ours.a.dtype == ("f8" if version == 2 else "i4")
        asked = {"engine": OURS, "consolidated": False}
        assert xr.open_dataset(path, use_zarr_fill_value_as_mask=False, **asked).a.dtype == "i4"
        assert np.isnan(xr.open_dataset(path, use_zarr_fill_value_as_mask=True, **asked).a[8])


@pytest.mark.parametrize("dtype", ["?", "i1", "u8", "f2", "f8", "c8", "M8[s]", "m8[ms]", "S5", "U3"])
@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("decode", [True, False])
def test_arrays_of_other_writers_are_shown_alike(tmp_path, dtype, version, decode):
    if version == 3 and np.dtype(dtype).kind in "SU":
        pytest.skip("text of fixed length in v3 is zarr-python's own and warned of")
    group = zarr.create_group(tmp_path / "g.zarr", zarr_format=version)
    names = {"dimension_names": ("x",)} if version == 3 else {"attributes": {"_ARRAY_DIMENSIONS": ["x"]}}
    made = group.create_array("a", shape=(7,), chunks=(3,), dtype=np.dtype(dtype), **names)
    made[:] = np.arange(7).astype(dtype)
    assert_same(*both(tmp_path / "g.zarr", consolidated=False, decode_cf=decode))


def test_nczarr_stores_dimension_names_elsewhere(tmp_path):
    group = zarr.create_group(tmp_path / "n.zarr", zarr_format=2, attributes={"_NCProperties": "x", "title": "t"})
    made = group.create_array(
        "v", shape=(4, 6), chunks=(2, 6), dtype="i2", attributes={"units": "m", "_nczarr_attr": {}}
    )
    made[...] = np.arange(24).reshape(4, 6)
    document = tmp_path / "n.zarr" / "v" / ".zarray"
    content = json.loads(document.read_text())
    content["_NCZARR_ARRAY"] = {"dimrefs": ["/time", "/sub/x"]}
    document.write_text(json.dumps(content))
    ours, theirs = both(tmp_path / "n.zarr", consolidated=False)
    assert_same(ours, theirs)
    assert ours.v.dims == ("time", "x")
    assert ours.attrs == {"title": "t"}


def test_an_array_without_dimension_names_is_refused_by_name(tmp_path):
    zarr.create_group(tmp_path / "g.zarr").create_array("bare", shape=(3,), dtype="i2")
    with pytest.raises(KeyError, match="bare"):
        xr.open_dataset(tmp_path / "g.zarr", engine=OURS, consolidated=False)


def hierarchy() -> Any:
    ds = weather()
    return xr.DataTree.from_dict(
        {
            "/": ds[["count"]],
            "/coarse": ds.isel(lat=slice(None, None, 2))[["t2m"]],
            "/coarse/deep": ds[["lasted"]],
            "/empty": xr.Dataset(),
        }
    )


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("consolidated", [True, False])
@pytest.mark.parametrize("group", [None, "coarse", "/coarse/"])
@pytest.mark.filterwarnings("ignore:.*timedelta:FutureWarning")
def test_trees_and_groups_equal_xarrays(tmp_path, version, consolidated, group):
    path = tmp_path / "tree.zarr"
    hierarchy().to_zarr(path, zarr_format=version, consolidated=consolidated)
    options = {"consolidated": consolidated, "group": group}
    ours, theirs = (xr.open_datatree(path, engine=engine, **options) for engine in (OURS, THEIRS))
    assert sorted(node.path for node in ours.subtree) == sorted(node.path for node in theirs.subtree)
    for node in theirs.subtree:
        assert_same(ours[node.path].to_dataset(inherit=False), node.to_dataset(inherit=False))
    if group != "/coarse/":  # xarray's keys keep the slash
        ours, theirs = (xr.open_groups(path, engine=engine, **options) for engine in (OURS, THEIRS))
        assert set(ours) == set(theirs)
        for name in theirs:
            assert_same(ours[name], theirs[name])
    assert_same(*both(path, **options))


def test_absent_groups_and_variables_are_named(tmp_path):
    hierarchy().to_zarr(tmp_path / "tree.zarr", consolidated=False)
    with pytest.raises(KeyError, match="nowhere"):
        xr.open_dataset(tmp_path / "tree.zarr", engine=OURS, group="nowhere")
    with pytest.raises(FileNotFoundError, match=r"absent\.zarr"):
        xr.open_dataset(tmp_path / "absent.zarr", engine=OURS)
    with pytest.raises(ValueError, match="array"):
        xr.open_dataset(tmp_path / "tree.zarr", engine=OURS, group="coarse/t2m")
    with pytest.raises(KeyError, match="consolidated"):
        xr.open_dataset(tmp_path / "tree.zarr", engine=OURS, consolidated=True)
    with pytest.raises(KeyError, match="format 2"):
        xr.open_dataset(tmp_path / "tree.zarr", engine=OURS, zarr_format=2)
    with pytest.raises(ps.UnsupportedError, match="mode"):
        xr.open_dataset(tmp_path / "tree.zarr", engine=OURS, mode="w")


def test_drop_variables_works_and_foreign_options_are_ignored(stored: Path) -> None:
    ours = xr.open_dataset(stored, engine=OURS, variable=["rain", "count"], lock=False, cache_members=False)
    xr.testing.assert_identical(ours, xr.open_dataset(stored, engine=THEIRS)[["rain", "count"]])
    assert list(xr.open_dataset(stored, engine=OURS, variable="rain").data_vars) == ["rain"]
    with pytest.raises(KeyError, match="nothing"):
        xr.open_dataset(stored, engine=OURS, variable="nothing")


def test_an_array_without_names_of_dimensions_can_be_omitted(tmp_path: Path) -> None:
    ps.save(tmp_path / "a.zarr", plain=np.ones((2, 3)))
    ps.open(tmp_path / "a.zarr").create_array("named", data=np.ones(3), dimension_names=["x"])
    with pytest.raises(ps.NotFoundError, match="drop_variables='plain' omits it"):
        xr.open_dataset(tmp_path / "a.zarr", engine=OURS)
    assert list(xr.open_dataset(tmp_path / "a.zarr", engine=OURS, drop_variables="plain")) == ["named"]


OF_IMAGES: list[dict[str, Any]] = [
    {"page": 1}, {"level": 1}, {"bands": [0]}, {"open_kwargs": {"overview_level": 0}}, {"convention": "plain"},
    {"masked": True}, {"parse_coordinates": False}, {"default_name": "t"}, {"band_as_variable": True},
]  # fmt: skip


@pytest.mark.parametrize("given", OF_IMAGES, ids=str)
def test_options_of_images_are_refused(tmp_path: Path, stored: Path, given: dict[str, Any]) -> None:
    with pytest.raises(ps.InvalidArgumentError, match=f"{next(iter(given))} is an option of TIFFs"):
        xr.open_dataset(stored, engine=OURS, **given)
    weather()[["rain"]].to_zarr(tmp_path / "one.zarr", consolidated=False)
    for options in (given, {"zarr_format": 2}, {"consolidated": False}):
        with pytest.raises(ps.InvalidArgumentError, match="not supported for many files"):
            xr.open_dataset(tmp_path / "*.zarr", engine=OURS, concat="time", **options)


@pytest.mark.parametrize(
    "given", [{"sort": "values"}, {"missing": "fill"}, {"attributes": "all"}, {"compare": "values"}], ids=str
)
def test_options_of_many_files_need_concat(stored: Path, given: dict[str, Any]) -> None:
    for opens in (xr.open_dataset, xr.open_datatree):
        with pytest.raises(ps.InvalidArgumentError, match=f"{next(iter(given))} is an option for many files"):
            opens(stored, engine=OURS, **given)


def test_an_open_group_is_shown(stored: Path) -> None:
    ours = xr.open_dataset(ps.open(stored), engine=OURS)
    xr.testing.assert_identical(ours, xr.open_dataset(stored, engine=THEIRS))
    xr.testing.assert_identical(pickle.loads(pickle.dumps(ours)), ours)
    assert sorted(xr.open_datatree(ps.open(stored), engine=OURS).data_vars) == sorted(ours.data_vars)
    with pytest.raises(ValueError, match="is an array"):
        xr.open_dataset(ps.open(stored)["t2m"], engine=OURS)


def test_relative_paths_and_the_home_folder_are_resolved(stored: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    want = xr.load_dataset(stored, engine=THEIRS)
    monkeypatch.setenv("HOME", str(stored.parent))
    monkeypatch.chdir(stored.parent)
    lazy = [pickle.dumps(xr.open_dataset(name, engine=OURS)) for name in (stored.name, f"~/{stored.name}")]
    monkeypatch.chdir("/")
    for each in lazy:
        xr.testing.assert_identical(pickle.loads(each).load(), want)


def test_dataarrays_open_if_there_is_one_variable(tmp_path):
    weather()[["rain"]].to_zarr(tmp_path / "one.zarr", consolidated=False)
    ours, theirs = (xr.open_dataarray(tmp_path / "one.zarr", engine=engine) for engine in (OURS, THEIRS))
    xr.testing.assert_identical(ours, theirs)


def test_a_dataset_written_again_is_equal(stored, tmp_path):
    ours = xr.open_dataset(stored, engine=OURS, drop_variables=["station"])  # xarray writes text of v2 incorrectly
    ours.to_zarr(tmp_path / "again.zarr", zarr_format=zarr.open_group(stored).metadata.zarr_format, consolidated=False)
    again = xr.open_dataset(tmp_path / "again.zarr", engine=THEIRS, consolidated=False)
    for name in ours.variables:
        for key in ("chunks", "shards", "dtype", "compressors", "filters", "serializer", "scale_factor", "_FillValue"):
            assert plain(again[name].encoding.get(key)) == plain(ours[name].encoding.get(key)), (name, key)
    xr.testing.assert_identical(again, ours)


@pytest.mark.parametrize("kind", ["path", "str", "uri", "dict", "zarr memory", "zarr local", "zip"])
def test_every_kind_of_store_opens(tmp_path, kind):
    ds = weather()
    where: Any = tmp_path / "a.zarr"
    if kind in ("dict", "zarr memory"):
        where = zarr.storage.MemoryStore()
        ds.to_zarr(where, consolidated=False)
        where = as_bytes(where) if kind == "dict" else where
    elif kind == "zip":
        where = tmp_path / "a.zarr.zip"
        with zarr.storage.ZipStore(where, mode="w") as store:
            ds.to_zarr(store, consolidated=False)
    else:
        ds.to_zarr(where, consolidated=False)
        where = {"str": str(where), "uri": f"file://{where}", "zarr local": zarr.storage.LocalStore(where)}.get(
            kind, where
        )
    ours = xr.open_dataset(where, engine=OURS)
    xr.testing.assert_identical(ours.load(), xr.open_dataset(where, engine=OURS, cache=False))
    np.testing.assert_array_equal(ours.t2m, ds.t2m)


@pytest.mark.parametrize("chain", ["simplecache::file://{}/a.zarr", "zip://::file://{}/a.zip", "zip::file://{}/a.zip"])
def test_chained_urls_of_fsspec_open(tmp_path, chain):
    pytest.importorskip("fsspec")
    weather().to_zarr(tmp_path / "a.zarr", consolidated=False)
    shutil.make_archive(str(tmp_path / "a"), "zip", tmp_path / "a.zarr")
    ours, theirs = both(chain.format(tmp_path), consolidated=False)
    assert_same(ours, theirs)
    assert_same(pickle.loads(pickle.dumps(ours)), theirs)


def test_storage_options_reach_the_store(tmp_path):
    pytest.importorskip("fsspec")
    weather().to_zarr(tmp_path / "a.zarr", consolidated=False)
    ours = xr.open_dataset(
        "dir://a.zarr", engine=OURS, storage_options={"path": str(tmp_path), "target_protocol": "file"}
    )
    assert_same(ours, xr.open_dataset(tmp_path / "a.zarr", engine=THEIRS))


def test_the_name_decides_what_can_be_opened(stored, tmp_path, monkeypatch):
    guess = xr.backends.list_engines()["penstock"].guess_can_open
    assert not guess(stored), "xarray's own engine opens it"
    monkeypatch.setenv("PENSTOCK_XARRAY_GUESS", "1")
    assert guess(stored)
    assert guess(str(stored) + "/")
    assert guess("s3://bucket/x.zarr.zip")
    assert guess("s3://bucket/x.GTIFF?version=1")
    assert not guess("x.grib")
    assert not guess(b"bytes")
    assert not guess(tmp_path)


def test_lazy_arrays_pickle_as_their_location(stored):
    ours = xr.open_dataset(stored, engine=OURS, cache=False)
    data = pickle.dumps(ours)
    assert len(data) < ours.nbytes / 4
    again = pickle.loads(data)
    xr.testing.assert_identical(again, ours)
    assert again.isel(time=3).equals(ours.isel(time=3))


def test_dask_never_confuses_two_states_of_a_dataset(tmp_path: Path) -> None:
    pytest.importorskip("dask")
    ps.create_group(tmp_path / "x.zarr").create_array("v", data=np.arange(4.0), dimension_names=("x",))
    before = xr.open_dataset(tmp_path / "x.zarr", engine="penstock").chunk(x=2).persist(scheduler="synchronous")
    ps.open(tmp_path / "x.zarr")["v"][...] = 9
    again = xr.open_dataset(tmp_path / "x.zarr", engine="penstock")
    after = again.chunk(x=2)
    assert after.v.data.name == again.chunk(x=2).v.data.name
    np.testing.assert_array_equal((after - before).v.compute(scheduler="synchronous"), 9 - np.arange(4.0))


def test_closing_is_harmless(stored):
    with xr.open_dataset(stored, engine=OURS) as ours:
        ours.t2m.load()
    ours.close()
    assert pickle.loads(pickle.dumps(ours)).t2m.equals(ours.t2m)


class TestDask:
    @pytest.fixture(autouse=True)
    def dask(self) -> Any:
        return pytest.importorskip("dask")

    @matrix
    @pytest.mark.parametrize("chunks", [{}, "auto", {"time": 10}, -1, {"time": 7, "lon": 4}], ids=str)
    @pytest.mark.filterwarnings("ignore:The specified chunks separate")
    def test_chunks_equal_xarrays(self, stored, chunks):
        text = ["station"] if chunks == "auto" else []  # Dask cannot determine the size of text
        ours, theirs = both(stored, chunks=chunks, drop_variables=text)
        for name in theirs.variables:
            assert ours[name].chunks == theirs[name].chunks, name
        xr.testing.assert_identical(ours.compute(), theirs.compute())

    @pytest.mark.parametrize("scheduler", ["threads", "processes"])
    def test_threads_and_processes_of_dask_read_it(self, stored, scheduler, dask, request):
        if scheduler == "processes" and "shards" not in request.node.name:
            pytest.skip("starting processes takes long: once tells what there is to tell")
        ours, theirs = both(stored, chunks={})
        with dask.config.set(scheduler=scheduler, num_workers=2):
            xr.testing.assert_allclose(ours.rain.mean("time").compute(), theirs.rain.mean("time").compute())

    def test_many_files_become_one_dataset(self, tmp_path):
        ds = weather()
        paths = []
        for i, part in enumerate((slice(0, 10), slice(10, 31))):
            ds.isel(time=part).drop_vars(["station", "code"]).to_zarr(tmp_path / f"{i}.zarr", consolidated=False)
            paths.append(tmp_path / f"{i}.zarr")
        options = {"combine": "by_coords", "data_vars": "minimal", "coords": "minimal", "compat": "override"}
        ours, theirs = (xr.open_mfdataset(paths, engine=engine, **options) for engine in (OURS, THEIRS))
        xr.testing.assert_identical(ours.compute(), theirs.compute())
        assert ours.sizes["time"] == 31


def test_values_load_asynchronously(stored):
    import asyncio

    ours, theirs = both(stored, cache=False)
    if not hasattr(ours, "load_async"):
        pytest.skip("this xarray has no load_async")
    for select in (SELECTIONS[0], SELECTIONS[8], SELECTIONS[11]):
        got = asyncio.run(select(ours.rain).load_async())
        xr.testing.assert_identical(got, select(theirs.rain).load())


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_workers_of_dask_distributed_read_it(stored, request):
    distributed = pytest.importorskip("distributed")
    if not LONG and request.node.callspec.id not in ("v2", "v3 shards"):
        pytest.skip("runs in `make test-long`: starting a worker takes seconds, and it opens as this process does")
    ours, theirs = both(stored, chunks={})
    options = {"n_workers": 1, "threads_per_worker": 2, "processes": True, "dashboard_address": None}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster):
        got = ours[["t2m", "rain"]].sel(time="2015-01-16").compute()
    xr.testing.assert_identical(got, theirs[["t2m", "rain"]].sel(time="2015-01-16").compute())


def test_references_with_a_fill_value_that_is_a_number():
    """kerchunk and VirtualiZarr write `"_FillValue": NaN` among the attributes of v2."""
    meta = {"zarr_format": 2, "shape": [2], "chunks": [2], "dtype": "<f8", "order": "C"}
    meta |= {"compressor": None, "filters": None, "fill_value": None}
    refs = {
        ".zgroup": '{"zarr_format": 2}',
        "v/.zarray": json.dumps(meta),
        "v/.zattrs": '{"_ARRAY_DIMENSIONS": ["x"], "_FillValue": NaN}',
        "v/0": "base64:" + base64.b64encode(np.array([1.5, np.nan]).tobytes()).decode(),
    }
    opened = xr.open_dataset("reference://", engine="penstock", storage_options={"fo": {"version": 1, "refs": refs}})
    np.testing.assert_array_equal(opened["v"].values, [1.5, np.nan])
    assert np.isnan(opened["v"].encoding["_FillValue"])


def test_a_group_of_a_store_that_refuses_keys_without_metadata():
    """Icechunk's store raises an error for a key that is not one of Zarr's: the group is not a TIFF."""

    class Strict(zarr.storage.MemoryStore):
        async def get(self, key, prototype=None, byte_range=None):
            if key == "g":
                raise ValueError(f"invalid zarr key: {key}")
            return await super().get(key, prototype, byte_range)

    store = Strict()
    made = xr.Dataset({"v": ("x", [1, 2, 3])})
    made.to_zarr(store, group="g", consolidated=False)
    xr.testing.assert_identical(xr.open_dataset(store, group="g", engine="penstock").load(), made)
