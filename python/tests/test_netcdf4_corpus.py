"""NetCDF-4 files of other projects, from the corpus next to the project, compared with netCDF4."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest

netCDF4 = pytest.importorskip("netCDF4")

ROOT = Path(__file__).resolve().parents[2]
CORPUS = Path(os.environ.get("PENSTOCK_CORPUS", ROOT.parent / "shared" / "corpus")) / "hdf5"
MAGIC = b"\x89HDF\r\n\x1a\n"
MARKS = (b"_NCProperties", b"_Netcdf4Dimid")
# Its root group has variables of five elements without scales. netCDF4 assigns them the dimension `time` of another
# group, which has length three, and reads three elements.
OTHERWISE = {"nc4_groups.nc"}

pytestmark = pytest.mark.skipif(not CORPUS.is_dir(), reason="PENSTOCK_CORPUS is not here")


def is_netcdf4(path: Path) -> bool:
    if not path.is_file() or "cve" in str(path) or path.name in OTHERWISE:
        return False
    with path.open("rb") as stream:
        if stream.read(len(MAGIC)) != MAGIC:
            return False
    return "Unidata" in str(path) or any(mark in path.read_bytes() for mark in MARKS)


def comparable(value: Any) -> Any:
    """Values without the differences between the two libraries: padding, complex numbers, byte order."""
    out = np.asarray(value)
    if out.dtype.kind == "T":
        out = out.astype(object)
    if out.dtype.names == ("r", "i"):
        return np.asarray(out["r"] + 1j * out["i"])
    if out.dtype.names is not None:
        return {name: comparable(out[name]) for name in out.dtype.names}
    if out.dtype.kind == "O":
        items = [each if isinstance(each, str) else comparable(each) for each in out.ravel()]
        return out.shape, [each if isinstance(each, str) else each.tolist() for each in items]
    return out.astype(out.dtype.newbyteorder("="))


def assert_same(ours: Any, theirs: Any, what: str) -> None:
    assert_equal(comparable(ours), comparable(theirs), what)


def assert_equal(ours: Any, theirs: Any, what: str) -> None:
    assert type(ours) is type(theirs), what
    if isinstance(theirs, np.ndarray):
        assert ours.dtype == theirs.dtype, what
        np.testing.assert_array_equal(ours, theirs, err_msg=what)
    elif isinstance(theirs, dict):
        assert ours.keys() == theirs.keys(), what
        for name in theirs:
            assert_equal(ours[name], theirs[name], f"{what}: {name}")
    else:
        assert ours == theirs, what


def compare(ours: ps.Group, theirs: Any, where: str) -> int:
    theirs.set_auto_maskandscale(False)
    theirs.set_auto_chartostring(False)
    assert set(ours.keys()) == {*theirs.variables, *theirs.groups}, where
    count = 0
    for name, below in theirs.groups.items():
        count += compare(ours[name], below, f"{where}/{name}")
    for name, variable in theirs.variables.items():
        what = f"{where}/{name}"
        array = ours[name]
        assert ours.dimension_names(name) == variable.dimensions, what
        try:
            wanted = variable[...]
        except (IndexError, RuntimeError, TypeError):
            continue  # netCDF4 cannot read it: a group and its parent have dimensions of one name
        assert_same(array[...], wanted, what)
        for attribute in variable.ncattrs():
            try:
                given = variable.getncattr(attribute)
            except KeyError:
                continue  # netCDF4 cannot read its type
            mine = array.typed_attributes[attribute]
            if isinstance(given, str):
                assert str(mine).rstrip("\0") == given.rstrip("\0"), f"{what}: {attribute}"
            else:
                assert_same(np.reshape(mine, np.shape(given)), given, f"{what}: {attribute}")
        count += 1
    return count


@pytest.mark.filterwarnings("ignore")
def test_netcdf4_files_of_the_corpus_equal_netcdf4() -> None:
    files = variables = 0
    for path in sorted(each for each in CORPUS.rglob("*") if is_netcdf4(each)):
        try:
            theirs = netCDF4.Dataset(path)
        except OSError:
            continue  # netCDF4 cannot open it
        with theirs:
            variables += compare(ps.open_group(path), theirs, path.name)
        files += 1
    assert files >= 30
    assert variables >= 250
