"""`convert`: every source to every format that can hold it."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
from penstock import _core
from penstock.api import hdf5_writer
from penstock.api.save import save_npy
from support.program import run_program
from test_names_and_formats import VALUES


@pytest.mark.parametrize("ending", [each for kind in (b"tiff", b"hdf5", b"npy") for each in _core.shard_endings(kind)])
def test_the_suffix_of_the_target_decides_its_format(tmp_path: Path, ending: str) -> None:
    kind = _core.shard_format_by_name(f"x{ending}".encode())
    if kind == "hdf5":
        pytest.importorskip("h5py")
    values = np.arange(40, dtype="u2").reshape(1, 5, 8)
    source = ps.create_array(tmp_path / "s.zarr", data=values)
    for name in (f"a{ending}", f"b{ending.upper()}"):
        made = ps.convert(source, tmp_path / name)
        assert (tmp_path / name).is_file()
        assert isinstance(made, ps.Group) == (kind == "hdf5")
        held = next(iter(dict(made.members()).values())) if isinstance(made, ps.Group) else made
        np.testing.assert_array_equal(held[...], values)


@pytest.mark.parametrize("ending", [".nc3", ".cdf", ".npz", ".raw", ".parquet", ".feather"])
def test_unknown_suffixes_are_refused(tmp_path: Path, ending: str) -> None:
    source = ps.create_array(tmp_path / "s.zarr", data=VALUES)
    with pytest.raises(ps.InvalidArgumentError, match="this would write a Zarr folder"):
        ps.convert(source, tmp_path / f"a{ending}")
    assert not (tmp_path / f"a{ending}").exists()


def test_many_files(tmp_path: Path) -> None:
    values = np.arange(1000, dtype="i4").reshape(100, 10)
    source = ps.create_array(tmp_path / "s.zarr", data=values, chunks=(30, 10))
    made = ps.convert(source, tmp_path / "a" / "x_{:03d}.npy", rows=40, verify=True)
    np.testing.assert_array_equal(made[...], values)
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == [
        "penstock.shards",
        "x_000.npy",
        "x_001.npy",
        "x_002.npy",
    ]
    assert [len(np.load(path)) for path in sorted((tmp_path / "a").glob("*.npy"))] == [40, 40, 20]
    with pytest.raises(ps.InvalidArgumentError, match="overwrite"):
        ps.convert(source, tmp_path / "a" / "x_{:03d}.npy")
    with pytest.raises(ps.InvalidArgumentError, match=r"penstock\.shards.*overwrite"):
        ps.convert(source, tmp_path / "a" / "y_{}.raw")
    ps.convert(source, tmp_path / "a" / "x_{:03d}.npy", shards=2, overwrite=True, verify=True)
    assert [len(np.load(path)) for path in sorted((tmp_path / "a").glob("*.npy"))] == [50, 50]
    raw = ps.convert(source, tmp_path / "b" / "x_{}.raw")
    assert (tmp_path / "b" / "x_0.raw").read_bytes() == values.tobytes()
    np.testing.assert_array_equal(raw[...], values)
    for options in ({"codecs": "zstd"}, {"dry_run": True}, {"resume": True}, {"path": "x"}):
        with pytest.raises(ps.InvalidArgumentError, match=f"no option '{next(iter(options))}'"):
            ps.convert(source, tmp_path / "c" / "x_{}.npy", **options)
    with pytest.raises(ps.InvalidArgumentError, match="rows"):
        ps.convert(source, tmp_path / "c.zarr", rows=3)
    assert not (tmp_path / "c").exists()
    done = verb(str(tmp_path / "s.zarr"), str(tmp_path / "d" / "x_{}.npy"), "--shards", "4")
    assert done.returncode == 0, done.stderr
    assert len(list((tmp_path / "d").glob("*.npy"))) == 4


def test_a_plan_and_an_interrupted_copy(tmp_path: Path) -> None:
    values = np.arange(64 * 64, dtype="f4").reshape(64, 64)
    ps.create_array(tmp_path / "a.zarr", data=values, chunks=(1, 64))
    plan = ps.convert(tmp_path / "a.zarr", tmp_path / "b.zarr", chunks=(64, 1), memory="4KiB", dry_run=True)
    assert [step.passes for step in plan.steps] == [2]
    command = (str(tmp_path / "a.zarr"), str(tmp_path / "b.zarr"), "--chunks", "64,1", "--memory", "4KiB")
    done = verb(*command, "--dry-run")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("two passes: ")
    assert json.loads(verb(*command, "--dry-run", "--json").stdout)["steps"][0]["passes"] == 2
    assert not (tmp_path / "b.zarr").exists()

    def stop(path: str, done: int, total: int) -> bool:
        return done < total * 3 // 4

    with pytest.raises(ps.CancelledError):
        ps.convert(tmp_path / "a.zarr", tmp_path / "b.zarr", chunks=(64, 1), memory="4KiB", threads=1, progress=stop)
    done = verb(*command, "--resume", "--verify", "--threads", "1")
    assert done.returncode == 0, done.stderr
    np.testing.assert_array_equal(ps.open(tmp_path / "b.zarr")[...], values)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.zarr", "b.zarr"]
    for target in ("c.npy", "c.tif"):
        for option in ("dry_run", "resume"):
            with pytest.raises(ps.InvalidArgumentError, match=f"no option '{option}'"):
                ps.convert(tmp_path / "a.zarr", tmp_path / target, **{option: True})


@pytest.mark.parametrize("name", ["memory", "memory_limit"])
def test_memory_is_that_of_the_blocks_of_npy_files(name: str, tmp_path: Path) -> None:
    values = np.arange(600 * 50, dtype="f8").reshape(600, 50)
    source = ps.create_array(tmp_path / "a.zarr", data=values, chunks=(10, 50))
    made = ps.convert(source, tmp_path / "a.npy", verify=True, **{name: "64KiB"})
    np.testing.assert_array_equal(made[...], values)
    done: list[int] = []
    save_npy(tmp_path / "b.npy", source, lambda now, _: done.append(now), 64 << 10)
    assert done[-1] == values.nbytes
    np.testing.assert_array_equal(np.load(tmp_path / "b.npy"), values)
    for target in ("b.tif", "b.h5", "b_{}.npy"):
        with pytest.raises(ps.InvalidArgumentError, match=f"no option '{name}'"):
            ps.convert(source, tmp_path / target, **{name: "64KiB"})
    for target in ("b.npy", "b.zarr"):
        with pytest.raises(ps.InvalidArgumentError, match=f"^invalid_argument: {name} must be a number of bytes"):
            ps.convert(source, tmp_path / target, overwrite=True, **{name: "much"})
    with pytest.raises(ps.InvalidArgumentError, match=f"^invalid_argument: {name} must be a number of bytes"):
        ps.rechunk(source, tmp_path / "b.zarr", (20, 20), **{name: "much"})
    with pytest.raises(ps.InvalidArgumentError, match="memory and memory_limit are names of one option"):
        ps.convert(source, tmp_path / "b.npy", memory=1, memory_limit=1)


def verb(*arguments: str) -> subprocess.CompletedProcess[str]:
    return run_program("convert", *arguments)


def test_units_and_names_are_written_to_hdf5(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    group = ps.create_group(tmp_path / "a.zarr", attributes={"title": "T", "list": [1, 2], "object": {"a": None}})
    time = np.arange(5, dtype="i4")
    group.create_array("time", data=time, dimension_names=("time",), attributes={"units": "days since 2000-01-01"})
    values = np.arange(60, dtype=">f4").reshape(5, 12)
    group.create_array("sub/t2m", data=values, dimension_names=("time", None), chunks=(2, 5), fill_value=-1)
    group.create_array("t2m", data=values, dimension_names=("time", "x"), chunks=(2, 5), fill_value=-1)
    group.create_array("text", data=np.array(["a", "ö"], object), dtype="str")
    made = ps.convert(tmp_path / "a.zarr", tmp_path / "b.nc", chunks={"time": 1}, verify=True)
    with h5py.File(tmp_path / "b.nc") as file:
        assert file.attrs["title"] == "T"
        assert file.attrs["list"].tolist() == [1, 2]
        assert file.attrs["object"] == '{"a": null}'
        assert file["t2m"].chunks == (1, 12)
        assert file["t2m"].fillvalue == -1
        assert file["t2m"].dims[0][0].name == "/time"
        assert file["time"].attrs["units"] == "days since 2000-01-01"
        assert file["text"].asstr()[:].tolist() == ["a", "ö"]
    assert made["t2m"].dimension_names == ("time", "x")
    assert made["sub/t2m"].shape == (5, 12)
    xarray = pytest.importorskip("xarray")
    with xarray.open_dataset(tmp_path / "b.nc", engine="h5netcdf") as shown:
        assert shown["t2m"].dims[0] == "time"
        assert str(shown["time"].values[1]).startswith("2000-01-02")


def test_a_failed_conversion_leaves_no_file(tmp_path: Path) -> None:
    pytest.importorskip("h5py")
    ps.create_array(tmp_path / "a.zarr", data=np.arange(3).astype("M8[s]"))
    with pytest.raises(ps.UnsupportedError, match="no type for datetime64"):
        ps.convert(tmp_path / "a.zarr", tmp_path / "b.h5")
    ps.create_array(tmp_path / "c.zarr", data=VALUES, chunks=(2, 8))
    victim = next(path for path in (tmp_path / "c.zarr").rglob("*") if path.is_file() and path.name != "zarr.json")
    victim.write_bytes(victim.read_bytes()[:-4])
    for name in ("d.h5", "d.npy", "d.tif"):
        with pytest.raises(ps.CorruptDataError):
            ps.convert(tmp_path / "c.zarr", tmp_path / name)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.zarr", "c.zarr"]
    wrong: list[tuple[str, dict[str, Any]]] = [
        ("x.npy", {"chunks": (2, 2)}),
        ("x.tif", {"codecs": "zstd"}),
        ("x.h5", {"shards": (2, 2)}),
        ("x.h5", {"compression": "lzf"}),
        ("x.zarr", {"crs": 4326}),
    ]
    for name, options in wrong:
        with pytest.raises(ps.InvalidArgumentError, match="no option"):
            ps.convert(tmp_path / "a.zarr", tmp_path / name, **options)


@pytest.mark.parametrize("pattern", ["x_{}.npy", "./x_{}.npy"])
def test_many_files_in_the_working_folder(tmp_path: Path, pattern: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    made = ps.convert(ps.create_array({}, data=VALUES), pattern, rows=1, verify=True)
    np.testing.assert_array_equal(made[...], VALUES)


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        ([[1], [1, 2]], "[[1], [1, 2]]"),
        (["a", None], '["a", null]'),
        (list(range(20_000)), list(range(20_000))),  # more than the header of an object can hold
        ("a\0b", "a\0b"),
        (None, None),
        ([], []),
    ],
)
def test_every_attribute_is_written_to_hdf5(tmp_path: Path, value: Any, stored: Any) -> None:
    pytest.importorskip("h5py")
    group = ps.create_group(tmp_path / "a.zarr", attributes={"k": value})
    group.create_array("x", data=np.arange(3), attributes={"k": value})
    made = ps.convert(group, tmp_path / "b.h5")
    assert made.attrs["k"] == stored
    assert made["x"].attrs["k"] == stored
    again = ps.convert(tmp_path / "b.h5", tmp_path / "c.h5")  # from the types of HDF5
    assert again["x"].attrs["k"] == stored


def test_lists_and_null_of_hdf5_are_attributes_of_the_copy(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = np.arange(3)
        for of in (file, file["x"]):
            lists = np.empty(2, object)
            lists[:] = [np.arange(2, dtype="i4"), np.arange(3, dtype="i4")]
            of.attrs.create("lists", lists, dtype=h5py.vlen_dtype("i4"))
            of.attrs["null"] = h5py.Empty("f8")
    made = ps.convert(tmp_path / "a.h5", tmp_path / "b.h5")
    for node in (made, made["x"]):
        assert node.attrs["lists"] == "[[0, 1], [0, 1, 2]]"
        assert node.attrs["null"] is None


@pytest.mark.parametrize("values", [np.array([["a", "bé"], ["", "x"]]), np.array("abc"), np.empty((0, 2), "U3")])
def test_text_of_fixed_length_is_compared_with_its_copy(tmp_path: Path, values: np.ndarray) -> None:
    pytest.importorskip("h5py")
    group = ps.create_group(tmp_path / "a.zarr")
    group.create_array("t", data=values)
    made = ps.convert(group, tmp_path / "b.h5", verify=True)
    np.testing.assert_array_equal(made["t"][...].astype(object), values.astype(object))


def test_another_text_in_the_copy_is_an_error() -> None:
    pytest.importorskip("h5py")
    source = ps.create_array({}, data=np.array(["a", "b"]))
    with pytest.raises(ps.CorruptDataError, match="other elements"):
        hdf5_writer._compare(source, ps.create_array({}, data=np.array(["a", "c"], object)))


def test_bytes_stay_bytes_in_hdf5(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    values = np.array([b"a", b"\xff\xfe"], object)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", data=values, dtype=h5py.string_dtype("ascii"))
    made = ps.convert(tmp_path / "a.h5", tmp_path / "b.h5", verify=True)
    assert made["x"][...].tolist() == values.tolist()
    with h5py.File(tmp_path / "b.h5") as file:
        assert h5py.check_string_dtype(file["x"].dtype).encoding == "ascii"


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"shape": 4, "dtype": "int4"}, "int4"),
        ({"shape": 4, "dtype": "float4_e2m1fn"}, "float4_e2m1fn"),
        ({"shape": 4, "dtype": "bfloat16"}, "bfloat16"),
        ({"shape": 4, "dtype": np.dtype([("a", "i4"), ("b", "U3")])}, "U3"),
        ({"shape": 4, "dtype": np.dtype([("a", "i4"), ("b", "M8[D]")])}, "M8"),
        ({"data": np.array(["a", "b\0c"], object)}, "NUL"),
    ],
)
def test_values_that_hdf5_does_not_have_are_refused(tmp_path: Path, options: dict[str, Any], word: str) -> None:
    pytest.importorskip("h5py")
    if options.get("dtype") in ("int4", "float4_e2m1fn", "bfloat16"):
        pytest.importorskip("ml_dtypes")
    source = ps.create_array({}, **options)
    with pytest.raises(ps.UnsupportedError, match=word):
        ps.convert(source, tmp_path / "b.h5")
    assert not list(tmp_path.iterdir())


def test_chunks_of_hdf5_are_given_as_for_copy(tmp_path: Path) -> None:
    pytest.importorskip("h5py")
    row, image = ps.create_array({}, data=np.arange(12.0)), ps.create_array({}, data=np.ones((8, 6)))
    for source, chunks, wanted in (
        (row, 5, (5,)),
        (row, np.int64(5), (5,)),
        (row, -1, (12,)),
        (image, -1, (8, 6)),
        (image, np.array([4, -1]), (4, 6)),
        (image, "96B", (4, 3)),
        (image, {0: 2}, (2, 6)),
    ):
        copied = ps.copy(source, {}, chunks=chunks)
        made = ps.convert(source, tmp_path / "a.h5", chunks=chunks, overwrite=True)
        assert made["data"].chunks == copied.chunks == wanted
    for source, chunks in ((row, 0), (row, (-5,)), (row, "auto"), (image, 5), (image, (4, 2.5)), (image, (0, 6))):
        for target in ({}, tmp_path / "b.h5"):
            with pytest.raises(ps.InvalidArgumentError, match="chunks"):
                ps.convert(source, target, chunks=chunks)
    assert [path.name for path in tmp_path.iterdir()] == ["a.h5"]


def test_an_array_in_memory_is_named_data(tmp_path: Path) -> None:
    pytest.importorskip("h5py")
    assert list(ps.convert(ps.create_array({}, data=VALUES), tmp_path / "a.h5")) == ["data"]


@pytest.mark.parametrize("name", ["b.h5", "b.npy", "b.tif"])
def test_progress_is_reported_and_may_stop_it(tmp_path: Path, name: str) -> None:
    if name == "b.h5":
        pytest.importorskip("h5py")
    told: list[tuple[int, int]] = []
    source = ps.create_array({}, data=np.ones((2, 64, 64)), chunks=(1, 64, 64))
    ps.convert(source, tmp_path / name, progress=lambda path, done, total: told.append((done, total)))
    assert told[-1] == (source.nbytes, source.nbytes)
    with pytest.raises(ps.CancelledError):
        ps.convert(source, tmp_path / name, overwrite=True, progress=lambda *_: False)


def test_georeferencing_is_copied_from_tiff_to_tiff(tmp_path: Path) -> None:
    ps.save(tmp_path / "a.tif", VALUES, crs=32633, transform=(10, 0, 5e5, 0, -10, 5e6), nodata=3)
    made = ps.convert(tmp_path / "a.tif", tmp_path / "b.tif", compress="zstd", verify=True)
    assert made.epsg == 32633
    assert tuple(made.transform)[:6] == (10, 0, 5e5, 0, -10, 5e6)
    assert made.nodata == 3


@pytest.mark.parametrize("dtype", ["u1", "u2", "f4"])
@pytest.mark.parametrize(
    ("bands", "options"),
    [
        (1, {"mask": True}),
        (3, {"photometric": "rgb"}),
        (3, {"photometric": "rgb", "mask": True}),
        (4, {"photometric": "rgb", "alpha": True}),
        (5, {"photometric": "rgb"}),
        (2, {"alpha": True}),
        (4, {}),
    ],
)
def test_colours_opacity_and_masks_are_copied_from_tiff_to_tiff(
    tmp_path: Path, dtype: str, bands: int, options: dict[str, Any]
) -> None:
    rasterio = pytest.importorskip("rasterio")
    values = (np.arange(bands * 40 * 50).reshape(bands, 40, 50) % 251).astype(dtype)
    if options.get("mask"):
        options = {**options, "mask": np.arange(2000).reshape(40, 50) % 3 != 0}
    ps.create_array(tmp_path / "a.tif", data=values, tiles=16, **options)
    ps.convert(tmp_path / "a.tif", tmp_path / "b.tif", verify=True)
    with rasterio.open(tmp_path / "a.tif") as wanted, rasterio.open(tmp_path / "b.tif") as found:
        assert found.colorinterp == wanted.colorinterp
        assert found.mask_flag_enums == wanted.mask_flag_enums
        np.testing.assert_array_equal(found.read_masks(), wanted.read_masks())
        np.testing.assert_array_equal(found.read(), values)
    ps.convert(ps.open(tmp_path / "a.tif", bands=[0]), tmp_path / "c.tif")
    assert ps.open(tmp_path / "c.tif").photometric == "minisblack"


@pytest.mark.parametrize("bits", [1, 4, 8, 12])
@pytest.mark.parametrize("photometric", ["miniswhite", "minisblack", "palette"])
def test_bits_and_their_meaning_are_copied_from_tiff_to_tiff(tmp_path: Path, bits: int, photometric: str) -> None:
    values = (np.arange(2000).reshape(1, 40, 50) % 2**bits).astype("u2" if bits > 8 else "u1")
    colours = {"colormap": np.arange(3 * 2**bits).reshape(-1, 3) % 65536} if photometric == "palette" else {}
    ps.create_array(tmp_path / "a.tif", data=values, bits=bits, photometric=photometric, **colours)
    made = ps.convert(tmp_path / "a.tif", tmp_path / "b.tif", verify=True)
    assert (made.photometric, made.tags["BitsPerSample"]) == (photometric, bits)
    np.testing.assert_array_equal(made.colormap, ps.open(tmp_path / "a.tif").colormap)
    wide = ps.create_array(tmp_path / "c.tif", data=ps.open(tmp_path / "a.tif"), dtype="u4", photometric="minisblack")
    assert wide.tags["BitsPerSample"] == 32
    if bits <= 8 and photometric != "palette":
        ps.convert(tmp_path / "a.tif", tmp_path / "d.tif", compress="jpeg")


def test_a_mask_of_an_image_can_be_omitted(tmp_path: Path) -> None:
    ps.create_array(tmp_path / "a.tif", data=np.ones((1, 8, 8), "u1"), mask=np.eye(8, dtype=bool))
    assert not ps.convert(tmp_path / "a.tif", tmp_path / "b.tif", mask=False).has_mask
    with pytest.warns(UserWarning, match="the mask of .* is not written to Zarr"):
        ps.convert(ps.open(tmp_path / "a.tif"), tmp_path / "b.zarr")


def test_a_nodata_value_that_no_pixel_can_have_is_omitted(tmp_path: Path) -> None:
    rasterio = pytest.importorskip("rasterio")
    options = {"driver": "GTiff", "width": 4, "height": 4, "count": 1, "dtype": "int16", "nodata": -30000}
    with rasterio.open(tmp_path / "a.tif", "w", **options) as file:
        file.write(np.zeros((1, 4, 4), "i2"))
    data = bytearray((tmp_path / "a.tif").read_bytes().replace(b"-30000", b"-99999"))
    (tmp_path / "a.tif").write_bytes(data)
    assert ps.open(tmp_path / "a.tif").nodata == -99999
    assert ps.convert(tmp_path / "a.tif", tmp_path / "b.tif").nodata is None


def test_texts_are_copied_from_tiff_to_tiff(tmp_path: Path) -> None:
    rasterio = pytest.importorskip("rasterio")
    texts = {
        "TIFFTAG_DOCUMENTNAME": "scene 7",
        "TIFFTAG_IMAGEDESCRIPTION": '{"level": 2}',
        "TIFFTAG_SOFTWARE": "written by hand",
        "TIFFTAG_DATETIME": "2026:11:29 12:00:00",
        "TIFFTAG_ARTIST": "A. Painter",
        "TIFFTAG_HOSTCOMPUTER": "host",
        "TIFFTAG_COPYRIGHT": "CC0",
    }
    with rasterio.open(tmp_path / "a.tif", "w", driver="GTiff", width=4, height=4, count=1, dtype="uint8") as file:
        file.write(np.zeros((1, 4, 4), "u1"))
        file.update_tags(sensor="MSI", **texts)
    made = ps.convert(tmp_path / "a.tif", tmp_path / "b.tif")
    assert made.gdal_metadata == {"sensor": "MSI"}
    assert (made.tags["Software"], made.tags["Copyright"]) == ("written by hand", "CC0")
    with rasterio.open(tmp_path / "b.tif") as file:
        assert {name: text for name, text in file.tags().items() if name != "AREA_OR_POINT"} == {
            **texts,
            "sensor": "MSI",
        }


PLACE = {"crs": 32633, "transform": (10, 0, 500000, 0, -10, 4600000)}
MEANING = {
    "nodata": -9999,
    "scales": [0.1, 0.1],
    "offsets": [2.0, 2.0],
    "units": ["m", "m"],
    "descriptions": ["red", "nir"],
    "attributes": {"sensor": "MSI"},
}


def scene(path: Path, dtype: str = "i2", **options: Any) -> Path:
    """A GeoTIFF of two bands; one pixel in nine is nodata."""
    values = np.arange(2 * 40 * 60).reshape(2, 40, 60).astype(dtype)
    if "nodata" in options:
        values[:, ::3, ::3] = options["nodata"]
    ps.save(path, values, tiles=16, **PLACE, **options)
    return path


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize(("dtype", "meaning"), [("i2", MEANING), ("f4", {"nodata": -1.5}), ("f8", {}), ("u1", {})])
def test_a_placed_image_becomes_a_dataset(
    tmp_path: Path, dtype: str, meaning: dict[str, Any], zarr_format: int
) -> None:
    """xarray's datasets of the TIFF and of the group are equal, with our engine and with their own engines."""
    xarray = pytest.importorskip("xarray")
    source = scene(tmp_path / "a.tif", dtype, **meaning)
    made = ps.convert(source, tmp_path / "a.zarr", zarr_format=zarr_format, chunks=(1, 16, 16), verify=True)
    assert isinstance(made, ps.Group)
    assert sorted(made) == ["band", "band_data", "spatial_ref", "x", "y"]
    assert made["band_data"].chunks == (1, 16, 16)
    np.testing.assert_array_equal(made["band_data"][...], ps.open(source)[...])
    wanted = xarray.open_dataset(source, engine="penstock", decode_coords="all").load()
    for engine in ("penstock", "zarr"):
        got = xarray.open_dataset(tmp_path / "a.zarr", engine=engine, decode_coords="all", consolidated=False).load()
        xarray.testing.assert_allclose(got, wanted, rtol=1e-6)  # xarray scales int16 as float64
        in_json = {k: list(v) if isinstance(v, tuple) else v for k, v in wanted["band_data"].attrs.items()}
        assert got["band_data"].attrs == in_json
        assert got["spatial_ref"].attrs == wanted["spatial_ref"].attrs
        encoding = wanted["band_data"].encoding
        assert got["band_data"].encoding.get("_FillValue") == encoding.get("_FillValue")
        if meaning.get("scales"):
            for name in ("scale_factor", "add_offset"):
                assert got["band_data"].encoding[name] == encoding[name]


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize(("dtype", "meaning"), [("i2", MEANING), ("f4", {"nodata": -1.5}), ("f4", {"nodata": "nan"})])
def test_a_scene_is_the_same_after_zarr(tmp_path: Path, dtype: str, meaning: dict[str, Any], zarr_format: int) -> None:
    if meaning["nodata"] == "nan":
        meaning = {"nodata": float("nan")}
    source = scene(tmp_path / "a.tif", dtype, **meaning)
    group = ps.convert(source, tmp_path / "a.zarr", zarr_format=zarr_format)
    for name, given in (("b.tif", group), ("c.tif", tmp_path / "a.zarr"), ("d.tif", tmp_path / "a.zarr" / "band_data")):
        ps.convert(given, tmp_path / name, verify=True)
        one, other = ps.open(source), ps.open(tmp_path / name)
        assert other.epsg == 32633
        for fact in ("transform", "scales", "offsets", "units", "descriptions", "area_or_point"):
            assert getattr(other, fact) == getattr(one, fact), fact
        assert other.nodata == one.nodata or (np.isnan(one.nodata) and np.isnan(other.nodata))
        assert other.gdal_metadata.get("sensor") == one.gdal_metadata.get("sensor")
        np.testing.assert_array_equal(other[...], one[...])


def test_gdal_finds_the_georeferencing_after_zarr(tmp_path: Path) -> None:
    rasterio = pytest.importorskip("rasterio")
    ps.convert(scene(tmp_path / "a.tif", **MEANING), tmp_path / "a.zarr")
    ps.convert(tmp_path / "a.zarr", tmp_path / "b.tif")
    with rasterio.open(tmp_path / "a.tif") as one, rasterio.open(tmp_path / "b.tif") as other:
        for fact in ("crs", "transform", "nodata", "scales", "offsets", "units", "descriptions", "dtypes"):
            assert getattr(other, fact) == getattr(one, fact), fact
        assert other.tags()["sensor"] == "MSI"


def test_an_image_group_is_replaced_after_all_is_written(tmp_path: Path) -> None:
    source, target = scene(tmp_path / "a.tif"), tmp_path / "a.zarr"
    ps.convert(source, target)
    with pytest.raises(ps.InvalidArgumentError):
        ps.convert(source, target)
    with pytest.raises(ps.Error):
        ps.convert(source, target, codecs=["no such codec"], overwrite=True)
    assert ps.open(target)["band_data"].shape == (2, 40, 60)
    ps.convert(source, target, zarr_format=2, overwrite=True)
    assert ps.open(target).format == "zarr2"
    ps.save(tmp_path / "plain.tif", VALUES)
    ps.convert(tmp_path / "plain.tif", target, overwrite=True)
    assert isinstance(ps.open(target), ps.Array)  # without georeferencing, an image becomes an array


def test_colours_are_copied_from_tiff_to_tiff_unless_given(tmp_path: Path) -> None:
    colours = np.arange(768, dtype="u2").reshape(256, 3)
    ps.save(tmp_path / "a.tif", VALUES.astype("u1"), colormap=colours)
    made = ps.convert(tmp_path / "a.tif", tmp_path / "b.tif", verify=True)
    np.testing.assert_array_equal(made.colormap, ps.open(tmp_path / "a.tif").colormap)
    assert ps.convert(tmp_path / "a.tif", tmp_path / "c.tif", photometric="minisblack").colormap is None
    ps.create_array(tmp_path / "d.tif", data=ps.open(tmp_path / "a.tif"), dtype="f4")
    assert ps.open(tmp_path / "d.tif").dtype == np.float32


def netcdf(path: Path, kind: str) -> Path:
    netcdf4 = pytest.importorskip("netCDF4")
    pyproj = pytest.importorskip("pyproj")
    with netcdf4.Dataset(path, "w", format=kind) as file:
        file.title = "T"
        for name, size in (("time", 2), ("y", 4), ("x", 5)):
            file.createDimension(name, size)
        file.createVariable("x", "f8", ("x",))[:] = 500005 + 10.0 * np.arange(5)
        file.createVariable("y", "f4", ("y",))[:] = 4000.5 - 10 * np.arange(4)
        time = file.createVariable("time", "i4", ("time",))
        time.units = "days since 2000-01-01"
        time[:] = [0, 1]
        file.createVariable("crs", "S1", ()).setncatts(pyproj.CRS.from_epsg(32633).to_cf())
        for name, dtype in (("t", "i2"), ("f", "f4")):
            variable = file.createVariable(name, dtype, ("time", "y", "x"), fill_value=-99)
            variable.setncatts({"grid_mapping": "crs", "units": "K", "long_name": "temperature"})
            if name == "t":
                variable.setncatts({"scale_factor": 0.5, "add_offset": 10.0})
            variable[:] = np.arange(40).reshape(2, 4, 5)
    return path


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("kind", ["NETCDF4", "NETCDF3_CLASSIC", "NETCDF3_64BIT_OFFSET"])
def test_netcdf_means_the_same_as_zarr(tmp_path: Path, kind: str, zarr_format: int) -> None:
    xarray = pytest.importorskip("xarray")
    source = netcdf(tmp_path / "a.nc", kind)
    ps.convert(source, tmp_path / "a.zarr", zarr_format=zarr_format, verify=True)
    wanted = xarray.open_dataset(source, engine="netcdf4", decode_coords="all").load()
    for engine in ("penstock", "zarr"):
        got = xarray.open_dataset(tmp_path / "a.zarr", engine=engine, decode_coords="all", consolidated=False).load()
        xarray.testing.assert_identical(got, wanted)


@pytest.mark.parametrize("kind", ["NETCDF4", "NETCDF3_CLASSIC"])
def test_a_variable_of_netcdf_becomes_a_geotiff(tmp_path: Path, kind: str) -> None:
    source = netcdf(tmp_path / "a.nc", kind)
    variable = ps.open(source)["t"]
    made = ps.convert(variable, tmp_path / "a.tif", verify=True)
    assert made.epsg == 32633
    assert tuple(made.transform)[:6] == (10, 0, 500000, 0, -10, 4005.5)
    assert (made.nodata, made.scales, made.offsets) == (-99, (0.5, 0.5), (10, 10))
    assert (made.units, made.descriptions) == (("K", "K"), ("temperature", "temperature"))
    with pytest.raises(ps.UnsupportedError, match="choose one"):
        ps.convert(source, tmp_path / "b.tif")  # t and f


def test_coordinates_lead_to_a_transform_in_metres(tmp_path: Path) -> None:
    """Kilometres and packed coordinates; the rows of GDAL's files begin in the south."""
    pyproj = pytest.importorskip("pyproj")
    group = ps.create_group(tmp_path / "a.zarr")
    attributes = pyproj.CRS.from_epsg(32633).to_cf()
    group.create_array("m", data=np.int8(0), attributes={**attributes, "GeoTransform": "0 1000 0 40000 0 -1000"})
    group.create_array("x", data=np.arange(5.0) + 0.5, dimension_names=("x",), attributes={"units": "km"})
    packed = {"units": "km", "scale_factor": 0.5, "add_offset": 36.5}
    group.create_array("y", data=np.arange(4, dtype="i2") * 2, dimension_names=("y",), attributes=packed)
    group.create_array("v", data=VALUES[:4, :5], dimension_names=("y", "x"), attributes={"grid_mapping": "m: x y"})
    made = ps.convert(group["v"], tmp_path / "a.tif")
    assert made.epsg == 32633
    assert tuple(made.transform)[:6] == (1000, 0, 0, 0, 1000, 36000)


@pytest.mark.parametrize(
    ("names", "attributes"),
    [(("lon", "lat"), ({}, {})), (("a", "b"), ({"units": "degrees_east"}, {})), (("a", "b"), ({"axis": "X"}, {}))],
)
def test_rows_along_x_have_a_transform(tmp_path: Path, names: tuple[str, str], attributes: tuple[Any, Any]) -> None:
    group = ps.create_group(tmp_path / "a.zarr")
    for name, line, facts in zip(names, (10 + 2.0 * np.arange(5), 60 - np.arange(4.0)), attributes, strict=True):
        group.create_array(name, data=line, dimension_names=(name,), attributes=facts)
    group.create_array("v", data=VALUES[:5, :4], dimension_names=names)
    made = ps.convert(group["v"], tmp_path / "a.tif")
    assert made.xy(1, 2) == (12, 58)
    assert tuple(made.transform)[:6] == (0, 2, 9, -1, 0, 60.5)


def test_a_single_row_has_the_place_of_its_coordinate(tmp_path: Path) -> None:
    """As xarray writes a selection: the grid mapping's GeoTransform is that of the whole image."""
    group = ps.create_group(tmp_path / "a.zarr")
    group.create_array("spatial_ref", data=np.int8(0), attributes={"GeoTransform": "500 10 0 900 0 -10"})
    group.create_array("y", data=np.array([845.0]), dimension_names=("y",))
    group.create_array("x", data=505 + 10.0 * np.arange(3, 8), dimension_names=("x",))
    attributes = {"grid_mapping": "spatial_ref"}
    group.create_array("v", data=VALUES[:1, :5], dimension_names=("y", "x"), attributes=attributes)
    made = ps.convert(group["v"], tmp_path / "a.tif")
    assert tuple(made.transform)[:6] == (10, 0, 530, 0, -10, 850)


def test_control_characters_of_attributes_become_blanks(tmp_path: Path) -> None:
    attributes = {"history": "a\x1bb\0", "scale_factor": 0.5}
    ps.create_array(tmp_path / "a.zarr", data=VALUES, dimension_names=("y", "x"), attributes=attributes)
    made = ps.convert(tmp_path / "a.zarr", tmp_path / "a.tif")
    assert made.scales == (0.5,)
    assert made.gdal_metadata["history"].rstrip() == "a b"


def test_masks_and_physical_values_of_a_tiff_keep_their_place(tmp_path: Path) -> None:
    mask = np.ones((40, 60), bool)
    mask[:5] = False
    how = {"nodata": 255, "scales": [0.5], "offsets": [1.0], "units": ["m"], "descriptions": ["height"]}
    ps.save(tmp_path / "a.tif", np.arange(2400, dtype="u2").reshape(1, 40, 60), mask=mask, **how, **PLACE)
    whole = ps.open(tmp_path / "a.tif")
    ps.save(tmp_path / "b.tif", ps.open(tmp_path / "a.tif", mask=True))
    made = ps.open(tmp_path / "b.tif")
    np.testing.assert_array_equal(made[0], np.where(mask, 255, 0))
    assert (made.crs, made.transform, made.nodata, made.scales) == (whole.crs, whole.transform, None, (1.0,))
    unpacked = ps.open(tmp_path / "a.tif", unpack=True)
    ps.save(tmp_path / "b.tif", unpacked)
    made = ps.open(tmp_path / "b.tif")
    np.testing.assert_array_equal(made[...], unpacked[...])
    assert (made.crs, made.transform, made.scales, made.offsets) == (whole.crs, whole.transform, (1.0,), (0.0,))
    assert (made.units, made.descriptions) == (whole.units, whole.descriptions)
    assert np.isnan(made.nodata)
    ps.save(tmp_path / "c.tif", np.zeros((3, 40, 60), "u1"))
    with pytest.raises(ps.InvalidArgumentError, match="transpose"):
        ps.save(tmp_path / "b.tif", ps.open(tmp_path / "c.tif", layout="native"))


def test_properties_that_a_target_cannot_store_are_named(tmp_path: Path) -> None:
    pyproj = pytest.importorskip("pyproj")
    group = ps.create_group(tmp_path / "a.zarr")
    pole = {
        "grid_mapping_name": "rotated_latitude_longitude",
        "grid_north_pole_latitude": 39.25,
        "grid_north_pole_longitude": -162.0,
    }
    assert pyproj.CRS.from_cf(pole)
    group.create_array("rotated", data=np.int8(0), attributes={**pole, "gcps": "{}", "GeoTransform": "0 1 0 0 0 -1"})
    group.create_array("v", data=VALUES, dimension_names=("y", "x"), attributes={"grid_mapping": "rotated"})
    with pytest.warns(UserWarning, match="not written") as told:
        made = ps.convert(group["v"], tmp_path / "v.tif")
    assert made.crs is None
    texts = [str(each.message) for each in told]
    assert any("ground control points" in text for text in texts)
    assert any("coordinate system" in text for text in texts)
    mask = np.ones((40, 60), bool)
    with pytest.warns(UserWarning, match="the mask of"):
        ps.convert(scene(tmp_path / "m.tif", mask=mask), tmp_path / "m.zarr")


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("nodata", [0.0, -2.5, float("nan")])
def test_complex_images_keep_their_nodata(tmp_path: Path, nodata: float, zarr_format: int) -> None:
    values = np.array([[1 + 2j, nodata], [3, 4 - 1j]], "c8")
    ps.save(tmp_path / "a.tif", values, nodata=nodata, **PLACE)
    made = ps.convert(tmp_path / "a.tif", tmp_path / "a.zarr", zarr_format=zarr_format)
    back = ps.convert(made, tmp_path / "b.tif", verify=True)
    np.testing.assert_equal(back.nodata, nodata)
    xarray = pytest.importorskip("xarray")
    for engine in ("zarr", "penstock"):
        with xarray.open_dataset(tmp_path / "a.zarr", engine=engine, consolidated=False, mask_and_scale=False) as shown:
            np.testing.assert_equal(complex(shown["band_data"].attrs["_FillValue"]), complex(nodata))


@pytest.mark.parametrize("way", ["zarr", "tif"])
def test_the_crs_of_control_points_is_not_the_images(tmp_path: Path, way: str) -> None:
    rasterio = pytest.importorskip("rasterio")
    points = [rasterio.control.GroundControlPoint(r, c, 10 + c, 50 - r) for r, c in ((0, 0), (0, 8), (6, 0))]
    profile = {"driver": "GTiff", "width": 8, "height": 6, "count": 1, "dtype": "int32"}
    with rasterio.open(tmp_path / "a.tif", "w", **profile, gcps=points, crs="EPSG:4326") as file:
        file.write(VALUES, 1)
    of = tmp_path / "a.tif" if way == "tif" else ps.convert(tmp_path / "a.tif", tmp_path / "a.zarr")
    with pytest.warns(UserWarning, match="ground control points"):
        made = ps.convert(of, tmp_path / "b.tif", verify=True)
    assert (made.crs, made.transform) == (None, None)


def test_the_part_of_a_crs_that_has_keys_is_written(tmp_path: Path) -> None:
    pyproj = pytest.importorskip("pyproj")
    wkt = pyproj.CRS.from_user_input("EPSG:32632+5773").to_wkt().replace("5773", "99999").replace("EGM96", "own")
    assert pyproj.CRS.from_wkt(wkt).is_compound
    group = ps.create_group(tmp_path / "a.zarr")
    group.create_array("crs", data=np.int8(0), attributes={"crs_wkt": wkt, "GeoTransform": "0 1 0 0 0 -1"})
    group.create_array("v", data=VALUES, dimension_names=("y", "x"), attributes={"grid_mapping": "crs"})
    with pytest.warns(UserWarning, match="the whole coordinate system .* is not written: the vertical system"):
        made = ps.convert(group["v"], tmp_path / "v.tif")
    assert made.epsg == 32632


def test_the_verb(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    group = ps.create_group(tmp_path / "a.zarr")
    group.create_array("x", data=VALUES, dimension_names=("y", "x"))

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return run_program("convert", *arguments, cwd=tmp_path)

    done = run("a.zarr", "b.h5", "--chunks", "y=2", "--verify")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "b.h5: a group in hdf5\n"
    with h5py.File(tmp_path / "b.h5") as file:
        assert file["x"].chunks == (2, 8)
    assert run("a.zarr", "b.h5").returncode == 1
    assert run("a.zarr", "c.h5", "--chunks", "z=2").returncode == 1
    assert run("a.zarr", "c.zarr", "--chunks", "z").returncode == 2
    assert run("a.zarr").returncode == 2
    assert run("--help").returncode == 0
    done = run("b.h5", "c.zarr", "--codec", "zstd:5", "--json", "--verify", "--memory", "1MiB")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["format"] == "zarr3"
    np.testing.assert_array_equal(ps.open(tmp_path / "c.zarr")["x"][...], VALUES)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.zarr", "b.h5", "c.zarr"]


@pytest.mark.parametrize("kinds", ["i8 f8", "f8 i8", "i4 f4", "u2 f2", "i2 i8", "f4 c8"])
def test_numbers_of_different_types_are_compared_as_numbers(tmp_path: Path, kinds: str) -> None:
    values = np.array([0, 1, 5, 7])
    first, second = (
        ps.create_array(tmp_path / str(i), data=values.astype(kind)) for i, kind in enumerate(kinds.split())
    )
    _core.compare(first, second)
    second[2] = 6
    with pytest.raises(ps.CorruptDataError, match=r"element \(2\)"):
        _core.compare(first, second)


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
@pytest.mark.parametrize("order", [1, -1])
def test_a_negative_number_differs_from_a_large_one(tmp_path: Path, bits: int, order: int) -> None:
    signed = np.array([0, 1, -1, 7], dtype=f"i{bits // 8}")
    pair = [signed, signed.view(f"u{bits // 8}")][::order]
    first, second = (ps.create_array(tmp_path / str(i), data=each) for i, each in enumerate(pair))
    with pytest.raises(ps.CorruptDataError, match=r"element \(2\)"):
        _core.compare(first, second)
    first[2] = second[2] = 5
    _core.compare(first, second)
    first[1] = 6
    with pytest.raises(ps.CorruptDataError, match=r"element \(1\)"):
        _core.compare(first, second)


def test_two_threads_write_one_file(tmp_path: Path) -> None:
    pytest.importorskip("h5py")
    from penstock.api.hdf5_writer import write_hdf5

    source = ps.create_array(tmp_path / "s.zarr", data=np.arange(12))
    target = str(tmp_path / "t.h5")
    both = threading.Barrier(2, timeout=60)  # each has its draft open
    with ThreadPoolExecutor(2) as threads:
        done = [threads.submit(write_hdf5, source, target, None, True, lambda *_: both.wait() >= 0) for _ in range(2)]
    assert [each.result() for each in done] == [None, None]
    np.testing.assert_array_equal(ps.open(target)["s"][...], np.arange(12))
    assert sorted(os.listdir(tmp_path)) == ["s.zarr", "t.h5"]


def test_options_that_do_not_fit_are_named(tmp_path):
    a = ps.create_array({}, data=np.zeros((3, 4)))
    with pytest.raises(ps.InvalidArgumentError, match="did you mean 'chunks'"):
        ps.convert(a, {}, chunk=2)
    pytest.importorskip("h5py")
    with pytest.raises(ps.InvalidArgumentError, match="are for 3 dimensions, the array has 2"):
        ps.convert(a, tmp_path / "x.h5", chunks=(1, 2, 3))
    assert not list(tmp_path.iterdir())
