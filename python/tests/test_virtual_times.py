"""`open_virtual` of files whose times count from different dates: equal to what xarray decodes, or refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
from conftest import matrix

h5py = pytest.importorskip("h5py")
xr = pytest.importorskip("xarray")

CALENDARS = ["standard", "proleptic_gregorian", "noleap", "all_leap", "360_day"]
PAIRS = [
    ("days since 2000-01-01", "days since 2000-03-01"),
    ("days since 2000-03-01", "days since 1999-12-30 12:00:00"),
    ("hours since 1850-01-01", "days since 2000-02-28T06:00"),
    ("seconds since 1970-01-01 00:00:00 UTC", "hours since 2000-01-01 01:30:00 -02:30"),
    ("minutes since 2000-1-1", "seconds since 2000-1-1 00:00:30"),
]


def write(path: Path, units: str, times: Any, calendar: str | None = "standard", **attributes: Any) -> str:
    with h5py.File(path, "w") as file:
        time = file.create_dataset("time", data=times)
        time.make_scale("time")
        time.attrs["units"] = units
        if calendar is not None:
            time.attrs["calendar"] = calendar
        for name, value in attributes.items():
            time.attrs[name] = value
        x = file.create_dataset("x", data=np.arange(len(times)))
        x.dims[0].attach_scale(time)
    return str(path)


@matrix
@pytest.mark.parametrize("calendar", CALENDARS)
@pytest.mark.parametrize("dtype", ["f8", "i8", "i4"])
@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_is_equal_to_what_xarray_decodes(tmp_path: Path, calendar: str, dtype: str, first: str, second: str) -> None:
    pytest.importorskip("cftime")
    files = [
        write(tmp_path / "0.nc", first, np.array([0, 1], dtype), calendar),
        write(tmp_path / "1.nc", second, np.array([90, 96], dtype), calendar),
    ]
    made, refused = None, ""
    try:
        made = ps.open_virtual(files, concat="time", sort=False)
    except ps.InvalidArgumentError as error:
        refused = str(error)
    if made is None:
        assert dtype.startswith("i"), refused
        assert "not a number of the dtype in those units" in refused
        assert "0.nc" in refused
        assert "1.nc" in refused
        return
    assert made["time"].attrs["units"] == first
    how = {"engine": "h5netcdf", "decode_times": xr.coders.CFDatetimeCoder(use_cftime=True)}
    expected = np.concatenate([xr.open_dataset(each, **how)["time"].values for each in files])
    decoded = xr.coders.CFDatetimeCoder(use_cftime=True).decode(
        xr.Variable("time", made["time"][...], {"units": first, "calendar": calendar})
    )
    apart = [abs((a - b).total_seconds()) for a, b in zip(decoded.values, expected, strict=True)]
    assert max(apart) < (1e-3 if dtype == "f8" else 1e-9)
    np.testing.assert_array_equal(made["x"][...], [0, 1, 0, 1])


def test_the_same_date_in_different_spellings(tmp_path: Path) -> None:
    files = [
        write(tmp_path / "0.nc", "days since 2000-01-01", np.arange(3)),
        write(tmp_path / "1.nc", "days since 2000-1-1 00:00:00", np.arange(3, 6)),
    ]
    np.testing.assert_array_equal(ps.open_virtual(files, concat="time")["time"][...], np.arange(6))


def test_files_are_ordered_by_their_decoded_times(tmp_path: Path) -> None:
    files = [
        write(tmp_path / "0.nc", "days since 2000-02-01", np.arange(3)),
        write(tmp_path / "1.nc", "days since 2000-01-01", np.arange(3)),
    ]
    made = ps.open_virtual(files, concat="time", sort="values")
    np.testing.assert_array_equal(made["time"][...], [-31, -30, -29, 0, 1, 2])
    with pytest.raises(ps.InvalidArgumentError, match="not in order"):
        ps.open_virtual(files, concat="time")
    opened = xr.open_dataset(files, engine="penstock", concat="time", sort="values")
    assert str(opened["time"].values[0])[:10] == "2000-01-01"


def refusal(files: list[str], **options: Any) -> str:
    with pytest.raises(ps.InvalidArgumentError) as caught:
        ps.open_virtual(files, concat="time", **options)
    return str(caught.value)


def test_refusals_name_the_files_and_the_remedy(tmp_path: Path) -> None:
    first = write(tmp_path / "0.nc", "days since 2000-01-01", np.arange(3))
    later = "days since 2000-02-01"
    text = refusal([first, write(tmp_path / "scaled.nc", later, np.arange(3), scale_factor=2.0)])
    assert "'scale_factor'" in text
    text = refusal([first, write(tmp_path / "filled.nc", later, np.array([0, -1]), _FillValue=-1)])
    assert "a time that is missing" in text
    large = -9223372036854775806  # netCDF's fill value, which no double equals
    text = refusal([first, write(tmp_path / "large.nc", later, np.array([0, large]), _FillValue=np.int64(large))])
    assert "a time that is missing" in text
    text = refusal([first, write(tmp_path / "zone.nc", "days since 2000-02-01+01:00", np.arange(3))])
    assert "'units'" in text
    text = refusal([first, write(tmp_path / "other.nc", later, np.arange(3), "noleap")])
    assert "'calendar'" in text or "'units'" in text
    text = refusal([first, write(tmp_path / "months.nc", "months since 2000-01-01", np.arange(3))])
    assert "months since 2000-01-01" in text
    bounded = write(tmp_path / "bounded.nc", later, np.arange(3), bounds="time_bnds")
    with h5py.File(bounded, "a") as file:
        file.create_dataset("time_bnds", data=np.zeros((3, 2))).dims[0].attach_scale(file["time"])
    text = refusal([first, bounded], missing="fill")
    assert "'time_bnds'" in text
    assert "drop_variables" in text
    made = ps.open_virtual([first, bounded], concat="time", drop_variables="time_bnds")
    np.testing.assert_array_equal(made["time"][...], [0, 1, 2, 31, 32, 33])


def test_other_variables_are_not_converted(tmp_path: Path) -> None:
    files = []
    for i, units in enumerate(("hours since 2000-01-01", "hours since 2000-01-02")):
        files.append(write(tmp_path / f"{i}.nc", "days since 2000-01-01", np.arange(3) + 3 * i))
        with h5py.File(files[-1], "a") as file:
            made = file.create_dataset("reference", data=np.zeros(3))
            made.dims[0].attach_scale(file["time"])
            made.attrs["units"] = units
    text = refusal(files)
    assert "'reference'" in text
    assert "omit 'reference'" in text
    assert ps.open_virtual(files, concat="time", drop_variables="reference")["x"].shape == (6,)
