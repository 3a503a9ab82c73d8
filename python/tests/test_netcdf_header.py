"""Headers of NetCDF classic files (CDF-1, CDF-2, CDF-5), compared with netCDF4; values are at the header's offsets."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
from penstock import _core
from support import netcdf_library

netCDF4 = pytest.importorskip("netCDF4")

ROOT = Path(__file__).resolve().parents[2]
CORPUS = Path(os.environ.get("PENSTOCK_CORPUS", ROOT.parent / "shared" / "corpus")) / "hdf5"
FORMATS = {"NETCDF3_CLASSIC": 1, "NETCDF3_64BIT_OFFSET": 2, "NETCDF3_64BIT_DATA": 5}


def header_of(data: bytes, first: int = 64) -> dict[str, Any]:
    """The header, parsed from as few of the file's first bytes as possible."""
    while True:
        found = _core.netcdf_describe(data[:first], len(data))
        if isinstance(found, str):
            return dict(json.loads(found))
        assert first < found <= len(data)
        first = found


def values_of(data: bytes, header: dict[str, Any], variable: dict[str, Any]) -> np.ndarray[Any, Any]:
    lengths = {name: (length, is_record) for name, length, is_record in header["dimensions"]}
    shape = [lengths[name][0] for name in variable["dimensions"]]
    records = bool(shape) and lengths[variable["dimensions"][0]][1]
    step, count = (header["record_bytes"], header["records"]) if records else (0, 1)
    starts = [variable["offset"] + i * step for i in range(count)]
    stored = b"".join(data[start : start + variable["bytes"]] for start in starts)
    stored += bytes(count * variable["bytes"] - len(stored))  # netCDF reads zeros beyond the end of a file
    return np.frombuffer(stored, variable["dtype"]).reshape(shape)


def check(path: Path, data: bytes) -> int:
    """Compare a file with netCDF4. Returns the number of variables."""
    header = header_of(data)
    with netCDF4.Dataset(path) as file:
        file.set_auto_maskandscale(False)
        file.set_auto_chartostring(False)
        assert FORMATS[file.data_model] == header["version"]
        dimensions = [[name, len(each), each.isunlimited()] for name, each in file.dimensions.items()]
        assert dimensions == header["dimensions"]
        assert list(file.variables) == [each["name"] for each in header["variables"]]
        same_attributes(file, header["attributes"])
        for variable in header["variables"]:
            theirs = file[variable["name"]]
            assert list(theirs.dimensions) == variable["dimensions"]
            same_attributes(theirs, variable["attributes"])
            found = values_of(data, header, variable)
            wanted = np.asarray(theirs[...])
            assert found.astype(wanted.dtype).tobytes() == wanted.tobytes(), variable["name"]
    return len(header["variables"])


def same_attributes(node: Any, found: dict[str, Any]) -> None:
    assert node.ncattrs() == list(found)
    for name in node.ncattrs():
        wanted = node.getncattr(name)
        if isinstance(wanted, str):
            assert found[name].replace("\0", "") == wanted.replace("\0", ""), name
        else:
            np.testing.assert_array_equal(found[name], wanted)


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("records", [0, 1, 5])
@pytest.mark.parametrize("variables", [1, 3])
def test_values_are_at_the_offsets_of_the_header(tmp_path, kind, records, variables):
    """Records of several variables are interleaved; those of a single record variable have no padding."""
    path = tmp_path / "x.nc"
    with netCDF4.Dataset(path, "w", format=kind) as file:
        file.createDimension("time", None)
        file.createDimension("y", 3)
        file.title = "grün" if kind != "NETCDF3_CLASSIC" else "plain"
        file.numbers = np.array([1, 2, 3], "i2")
        file.one = np.float32(2.5)
        file.createVariable("fixed", "f8", ("y",))[:] = np.arange(3) / 3
        for i, dtype in enumerate(["i2", "i1", "f4"][:variables]):
            made = file.createVariable(f"v{i}", dtype, ("time", "y"))
            made.units = "K"
            if records:
                made[:] = np.arange(records * 3).reshape(records, 3) + i
    assert check(path, path.read_bytes()) == variables + 1


def test_damaged_headers_are_refused(tmp_path):
    path = tmp_path / "x.nc"
    with netCDF4.Dataset(path, "w", format="NETCDF3_CLASSIC") as file:
        file.createDimension("x", 3)
        file.createVariable("v", "i4", ("x",)).units = "K"
    data = path.read_bytes()
    header = header_of(data)
    for length in range(header["variables"][0]["offset"]):
        with pytest.raises(ps.CorruptDataError):
            header_of(data[:length], length)
    for at in range(4, header["variables"][0]["offset"]):
        damaged = data[:at] + b"\xff" + data[at + 1 :]
        try:
            header_of(damaged)
        except (ps.CorruptDataError, ps.UnsupportedError):
            continue


@pytest.mark.skipif(not CORPUS.is_dir(), reason="PENSTOCK_CORPUS is not here")
def test_the_corpus_is_read_as_by_netcdf():
    compared = 0
    for path in sorted(CORPUS.rglob("*")):
        if not path.is_file() or path.stat().st_size > 1 << 26:
            continue
        data = path.read_bytes()
        if data[:3] != b"CDF" or data[3:4] not in (b"\1", b"\2", b"\5"):
            continue
        if not netcdf_library.opens(path):
            continue
        if path.name.startswith("bad_unlimited"):  # two record dimensions: netCDF reads one of them with length 0
            with pytest.raises(ps.CorruptDataError, match="two record dimensions"):
                header_of(data)
            continue
        compared += bool(check(path, data) >= 0)
    assert compared > 80
