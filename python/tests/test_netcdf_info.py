"""`penstock info` of NetCDF and HDF5: dimensions, chunks, compression, attributes, as `ncdump -h` shows them.

Named so that it runs after the tests of HDF5: once netCDF4 has written a file, the filters of hdf5plugin fail in h5py.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
from penstock.__main__ import main

h5py = pytest.importorskip("h5py")
netCDF4 = pytest.importorskip("netCDF4")

KINDS = ["NETCDF4", "NETCDF3_CLASSIC", "NETCDF3_64BIT_DATA"]


@pytest.fixture
def show(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Any:
    def call(*arguments: str | Path) -> str:
        monkeypatch.setattr(sys, "argv", ["penstock", "info", *map(str, arguments)])
        assert main() == 0
        return capfd.readouterr().out

    return call


def write(path: Path, kind: str) -> None:
    with netCDF4.Dataset(path, "w", format=kind) as file:
        file.title = "Große Übersicht"
        file.history = "ü" * 500
        file.levels = np.arange(1000, dtype="i4")
        for name, length in {"time": None, "lat": 4, "lon": 5, "alone": 7}.items():
            file.createDimension(name, length)
        file.createVariable("time", "f8", ("time",)).units = "days since 2000-01-01"
        how = {"zlib": True, "complevel": 4, "chunksizes": (1, 4, 5)} if kind == "NETCDF4" else {}
        made = file.createVariable("t2m", "f4", ("time", "lat", "lon"), **how)
        made.units = "K"
        file["time"][:] = range(3)
        made[:] = np.zeros((3, 4, 5))


def dimensions(document: dict[str, Any]) -> dict[str, tuple[int, bool]]:
    return {each["name"]: (each["length"], each["unlimited"]) for each in document["dimensions"]}


@pytest.mark.parametrize("kind", KINDS)
def test_shows_dimensions_variables_and_attributes(tmp_path: Path, kind: str, show: Any) -> None:
    path = tmp_path / "x.nc"
    write(path, kind)
    text = show(path)
    lines = text.splitlines()
    assert "  time = 3, unlimited" in lines
    assert [each for each in lines if each.startswith("  alone")] == ["  alone = 7"]
    assert '  title: "Große Übersicht"' in lines
    assert max(map(len, lines)) < 250
    assert any("history" in each and "(500 characters)" in each for each in lines)
    assert any("levels" in each and "(1000 elements)" in each for each in lines)
    [variable] = [each for each in lines if " t2m" in each]
    assert "float32 (time=3, lat=4, lon=5)" in variable
    assert lines[lines.index(variable) + 1].strip("│ ") == 'units: "K"'
    if kind == "NETCDF4":
        assert "chunks (1, 4, 5)" in variable
        assert "zlib" in variable or "deflate" in variable
    document = json.loads(show(path, "--json"))
    with netCDF4.Dataset(path) as file:
        assert dimensions(document) == {name: (len(d), d.isunlimited()) for name, d in file.dimensions.items()}
    children = {each["name"]: each for each in document["children"]}
    assert children["t2m"]["dimension_names"] == ["time", "lat", "lon"]
    assert children["t2m"]["attributes"]["units"] == "K"
    assert document["attributes"]["levels"] == list(range(1000))
    assert len(document["attributes"]["history"]) == 500


def test_groups_define_their_own_dimensions(tmp_path: Path, show: Any) -> None:
    """Unlimited dimensions are as long as the longest variable, which may be in a subgroup."""
    path = tmp_path / "x.nc"
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("time", None)
        file.createDimension("lat", 4)
        file.createVariable("lat", "f4", ("lat",))
        file.createVariable("short", "i2", ("time",))[:] = [1, 2]
        inner = file.createGroup("forecast")
        inner.note = "inner"
        inner.createDimension("step", 2)
        inner.createDimension("lat", 9)
        inner.createVariable("w", "i2", ("time", "step", "lat"))[:5] = 1
    document = json.loads(show(path, "--json"))
    [below] = [each for each in document["children"] if each["kind"] == "group"]
    with netCDF4.Dataset(path) as file:
        for shown, group in ((document, file), (below, file["forecast"])):
            assert dimensions(shown) == {name: (len(d), d.isunlimited()) for name, d in group.dimensions.items()}
    assert dimensions(document)["time"] == (5, True)
    lines = [each.strip("│├└─ ") for each in show(path).splitlines()]
    assert lines[lines.index("forecast/") + 1 : lines.index("forecast/") + 6] == [
        "dimensions", "step = 2", "lat = 9", "attributes", 'note: "inner"',
    ]  # fmt: skip
    assert dimensions(json.loads(show(path / "forecast", "--json"))) == {"step": (2, False), "lat": (9, False)}


def test_datasets_that_grow_show_their_limits(tmp_path: Path, show: Any) -> None:
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("grows", (2, 3), "f4", maxshape=(None, 3), chunks=(1, 3))
        file.create_dataset("fixed", (2, 3), "f4", chunks=(1, 3))
    assert "maxshape    [null,3]" in show(path / "grows")
    assert json.loads(show(path / "grows", "--json"))["maxshape"] == [None, 3]
    assert "maxshape" not in json.loads(show(path / "fixed", "--json"))
    assert json.loads(show(path, "--json"))["dimensions"] == []


def test_dimensions_of_zarr_are_those_of_its_arrays(tmp_path: Path, show: Any) -> None:
    path = tmp_path / "x.zarr"
    group = ps.create_group(path)
    group.create_array("a", data=np.zeros((2, 3), "f4"), dimension_names=("y", "x"))
    group.create_array("b", data=np.zeros((2, 4), "f4"), dimension_names=("y", "x"))
    assert dimensions(json.loads(show(path, "--json"))) == {"y": (2, False)}
    assert "a  float32 (y=2, x=3)" in show(path)
