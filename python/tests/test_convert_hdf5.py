"""`convert` to HDF5: attributes, text, bytes, chunks, and what HDF5 does not have."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
from penstock.api import hdf5_writer
from support.program import run_program
from test_names_and_formats import VALUES


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


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_ascii_text_of_hdf5_is_text_in_zarr(tmp_path: Path, zarr_format: int) -> None:
    """Old netCDF files declare ASCII, also for UTF-8. xarray shows the same for the file and its copy."""
    h5py, xarray = pytest.importorskip("h5py"), pytest.importorskip("xarray")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = np.arange(3)
        file["x"].make_scale("x")
        for name, values in {"text": [b"a", "é".encode(), b""], "bytes": [b"a", b"\xff\xfe", b"c"]}.items():
            made = file.create_dataset(name, data=np.array(values, object), dtype=h5py.string_dtype("ascii"))
            made.dims[0].attach_scale(file["x"])
    copy = ps.convert(tmp_path / "a.h5", tmp_path / "b.zarr", zarr_format=zarr_format, verify=True)
    assert copy["text"][...].tolist() == ["a", "é", ""]
    assert copy["bytes"][...].tolist() == [b"a", b"\xff\xfe", b"c"]
    shown = [xarray.open_dataset(tmp_path / name, engine="penstock")["text"] for name in ("a.h5", "b.zarr")]
    assert shown[0].values.tolist() == shown[1].values.tolist() == ["a", "é", ""]


def test_ascii_text_equals_the_text_of_its_copy(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", data=np.array([b"a", "é".encode()], object), dtype=h5py.string_dtype("ascii"))
    source = ps.open(tmp_path / "a.h5", "x")
    hdf5_writer.compare_start(source, np.array(["a", "é", "longer"], object))
    with pytest.raises(ps.CorruptDataError, match="other elements"):
        hdf5_writer.compare_start(source, np.array(["a", "e", "longer"], object))


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_ascii_text_of_hdf5_is_saved_as_text(tmp_path: Path, zarr_format: int) -> None:
    h5py = pytest.importorskip("h5py")
    ascii_text = h5py.string_dtype("ascii")
    values: dict[str, Any] = {"text": [b"a", "é".encode()], "bytes": [b"a", b"\xff"], "one": b"q", "none": []}
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for name, each in values.items():
            file.create_dataset(name, data=np.array(each, object), dtype=ascii_text)
    source = ps.open_group(tmp_path / "a.h5")
    found = {name: ps.create_array({}, data=source[name], zarr_format=zarr_format)[...] for name in values}
    assert found["text"].tolist() == ["a", "é"]
    assert found["bytes"].tolist() == [b"a", b"\xff"]
    assert found["one"] == "q"
    assert found["none"].dtype == ps.create_array({}, data=np.array([], object))[...].dtype
    kept = ps.create_array({}, data=source["text"], dtype="bytes", zarr_format=zarr_format)
    assert kept[...].tolist() == [b"a", "é".encode()]


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


@pytest.mark.parametrize(
    ("target", "shape"),
    [("x.h5", (2, 1_200_000)), ("x.h5", (6, 100_000)), ("x_{}.h5", (6, 100_000))],
    ids=["in a chunk", "in the end", "many files"],
)
def test_hdf5_that_cannot_be_written_is_an_error_that_leaves_nothing(
    tmp_path: Path, target: str, shape: tuple[int, int]
) -> None:
    pytest.importorskip("h5py")
    values, most = np.random.default_rng(0).integers(0, 256, shape, "u1"), 500_000
    ps.create_array(tmp_path / "a.zarr", data=values, chunks=(1, shape[1]), codecs=[])
    words = ["convert", str(tmp_path / "a.zarr"), str(tmp_path / "b" / target)]
    done = subprocess.run(  # as on a full device: HDF5 ended the process when it closed the file
        [sys.executable, "-m", "penstock", *words], capture_output=True, text=True, timeout=120, check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (most, most)),
    )  # fmt: skip
    name = target.replace("{}", "0")
    assert done.stderr == f"penstock: io_error: writing '{tmp_path}/b/{name}' failed: File too large\n"
    assert done.returncode == 1
    assert list((tmp_path / "b").iterdir()) == []


@pytest.mark.parametrize("target", ["b.h5", "b.nc", "b.zarr"])
def test_datasets_that_cannot_be_read_are_omitted_and_named(tmp_path: Path, target: str) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["g/a"], file["g/null"] = VALUES, h5py.Empty("f4")
    with pytest.warns(UserWarning, match="not copied from .*: 'g/null' "):
        made = ps.convert(tmp_path / "a.h5", tmp_path / target, verify=True)
    assert list(made["g"]) == ["a"]


def test_the_program_prints_warnings_as_messages(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["a"], file["null"] = VALUES, h5py.Empty("f4")
    done = run_program("convert", "a.h5", "a.zarr", cwd=tmp_path)
    assert done.returncode == 0
    assert done.stderr.startswith("penstock: not copied from 'file://")
    assert done.stderr.count("\n") == 1


def test_folders_of_hdf5_files_are_created_or_named(tmp_path: Path) -> None:
    pytest.importorskip("h5py")
    np.save(tmp_path / "a.npy", VALUES)
    assert np.array_equal(ps.convert(tmp_path / "a.npy", tmp_path / "b" / "c" / "a.h5")["a"][...], VALUES)
    with pytest.raises(ps.StorageError, match=r"a.npy/c.h5' failed: (Not a directory|File exists)"):
        ps.convert(tmp_path / "a.npy", tmp_path / "a.npy" / "c.h5")


@pytest.mark.parametrize("kind", ["<M8[s]", "<M8[10ms]", "<m8[D]"])
def test_times_have_h5pys_type(tmp_path: Path, kind: str) -> None:
    """An opaque type with NumPy's type as its tag, which Penstock and h5py read as times."""
    h5py = pytest.importorskip("h5py")
    values = np.array([[1, -5], [np.iinfo("i8").min, 2**40]], "i8").astype(kind)
    ps.create_array(tmp_path / "x.zarr", data=values, chunks=(1, 2))
    ps.convert(tmp_path / "x.zarr", tmp_path / "x.h5", verify=True)
    ps.convert(tmp_path / "x.h5", tmp_path / "y.h5", verify=True)
    for name in ("x.h5", "y.h5"):
        ((member, found),) = ps.open_group(tmp_path / name).arrays()
        assert found.dtype == np.dtype(kind)
        np.testing.assert_array_equal(found[...], values)
        with h5py.File(tmp_path / name) as file:
            np.testing.assert_array_equal(file[member][...], values)
