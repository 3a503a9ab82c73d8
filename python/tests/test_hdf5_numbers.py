"""Numbers of HDF5 files that are not machine types: integers and floats of unusual widths and fields."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest

h5py = pytest.importorskip("h5py")

from h5py import h5a, h5d, h5p, h5s, h5t  # noqa: E402

LAYOUTS = ["contiguous", "chunked", "compact"]
FLOATS = {  # bytes, (sign, exponent, exponent bits, mantissa, mantissa bits), bias, the type it is converted to
    "24 bits": (3, (23, 16, 7, 0, 16), 63, "<f4"),
    "float8 e5m2": (1, (7, 2, 5, 0, 2), 15, "<f4"),
    "float8 e4m3": (1, (7, 3, 4, 0, 3), 7, "<f4"),
    "48 bits": (6, (47, 36, 11, 0, 36), 1023, "<f8"),
    "another bias": (2, (15, 10, 5, 0, 10), 20, "<f4"),
    "gaps": (4, (30, 20, 7, 2, 10), 63, "<f4"),
}


def integer_type(size: int, order: int, signed: bool, precision: int, offset: int) -> Any:
    tid = (h5t.STD_I64LE if signed else h5t.STD_U64LE).copy()
    tid.set_order(order)
    tid.set_precision(precision)
    tid.set_offset(0)
    tid.set_size(size)
    tid.set_offset(offset)
    return tid


def float_type(size: int, fields: tuple[int, ...], bias: int, order: int) -> Any:
    tid = h5t.IEEE_F64LE.copy()
    tid.set_fields(*fields)
    tid.set_precision(8 * size)
    tid.set_size(size)
    tid.set_ebias(bias)
    tid.set_order(order)
    return tid


def write(path: Path, tid: Any, values: np.ndarray, layout: str, fill: Any = None) -> np.ndarray:
    """Writes one dataset `x`; returns what libhdf5 reads of it as 64-bit numbers."""
    plist = h5p.create(h5p.DATASET_CREATE)
    if layout == "chunked":
        plist.set_chunk((5,))
        plist.set_shuffle()
        plist.set_deflate(1)
    if layout == "compact":
        plist.set_layout(h5d.COMPACT)
    if fill is not None:
        plist.set_fill_value(np.asarray(fill, values.dtype))
    with h5py.File(path, "w") as file:
        made = h5d.create(file.id, b"x", tid, h5s.create_simple(values.shape), plist)
        if fill is None:
            made.write(h5s.ALL, h5s.ALL, values)
        read = np.zeros_like(values)
        made.read(h5s.ALL, h5s.ALL, read)
    return read


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("size", "order"), list(itertools.product([3, 5, 6, 7, 9], [h5t.ORDER_LE, h5t.ORDER_BE])))
def test_integers_of_every_width(tmp_path: Path, size: int, order: int, layout: str) -> None:
    bits = min(8 * size, 64)  # libhdf5 cannot write types with more unused bits
    for signed, (precision, offset) in itertools.product([True, False], [(bits, 0), (bits - 5, 3), (bits - 4, 0)]):
        low = -(1 << (precision - 1)) if signed else 0
        high = (1 << (precision - 1 if signed else precision)) - 1
        values = np.array([low, high, 0, 1, high // 3, low // 7, high - 1], np.int64 if signed else np.uint64)
        wanted = write(tmp_path / "x.h5", integer_type(size, order, signed, precision, offset), values, layout)
        assert wanted.tolist() == values.tolist()
        array = ps.open(tmp_path / "x.h5", "x")
        assert array.dtype == np.dtype(f"{'i' if signed else 'u'}{4 if precision <= 32 else 8}")
        assert array[...].tolist() == wanted.tolist()
        assert array[2:6:2].tolist() == wanted[2:6:2].tolist()


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("order", [h5t.ORDER_LE, h5t.ORDER_BE])
@pytest.mark.parametrize("kind", FLOATS)
def test_floats_of_every_form(tmp_path: Path, kind: str, order: int, layout: str) -> None:
    size, fields, bias, dtype = FLOATS[kind]
    values = np.array([0.0, -0.0, 1.0, -1.5, 0.1, 3.14159, 100.0, 1e-3, np.inf, -np.inf, np.nan, 2.0**-9])
    wanted = write(tmp_path / "x.h5", float_type(size, fields, bias, order), values, layout)
    array = ps.open(tmp_path / "x.h5", "x")
    assert array.dtype == np.dtype(dtype)
    assert np.array_equal(array[...].astype("f8"), wanted, equal_nan=True)


def test_bfloat16_of_swapped_byte_order(tmp_path: Path) -> None:
    values = np.array([1.0, -2.5, 1e30, 0.0])
    wanted = write(tmp_path / "x.h5", float_type(2, (15, 7, 8, 0, 7), 127, h5t.ORDER_BE), values, "contiguous")
    assert ps.open(tmp_path / "x.h5", "x")[...].astype("f8").tolist() == wanted.tolist()


def test_complex_numbers_of_unusual_floats_are_groups_of_their_parts(tmp_path: Path) -> None:
    half = float_type(4, (31, 23, 8, 0, 23), 100, h5t.ORDER_LE)
    stored, memory = h5t.create(h5t.COMPOUND, 8), h5t.create(h5t.COMPOUND, 8)
    for i, name in enumerate((b"r", b"i")):
        stored.insert(name, 4 * i, half)
        memory.insert(name, 4 * i, h5t.IEEE_F32LE)
    values = np.array([1 + 2j, 3 - 1j, 0.5], "c8")
    with h5py.File(tmp_path / "x.h5", "w") as file:
        made = h5d.create(file.id, b"x", stored, h5s.create_simple(values.shape))
        made.write(h5s.ALL, h5s.ALL, values, mtype=memory)
    group = ps.open(tmp_path / "x.h5", "x")
    assert group["r"][...].tolist() == values.real.tolist()
    assert group["i"][...].tolist() == values.imag.tolist()


@pytest.mark.parametrize("layout", ["contiguous", "chunked"])
def test_fill_values_are_converted(tmp_path: Path, layout: str) -> None:
    values = np.zeros(7, np.int64)
    write(tmp_path / "x.h5", integer_type(3, h5t.ORDER_BE, True, 24, 0), values, layout, -5)
    array = ps.open(tmp_path / "x.h5", "x")
    assert array.fill_value == -5
    assert array[...].tolist() == [-5] * 7
    write(tmp_path / "y.h5", float_type(3, (23, 16, 7, 0, 16), 63, h5t.ORDER_LE), np.zeros(7), layout, 2.5)
    assert ps.open(tmp_path / "y.h5", "x")[...].tolist() == [2.5] * 7


def test_numbers_are_copied_and_saved(tmp_path: Path) -> None:
    values = np.arange(-50, 50, dtype=np.int64)
    write(tmp_path / "x.h5", integer_type(3, h5t.ORDER_LE, True, 24, 0), values, "chunked")
    array = ps.open(tmp_path / "x.h5", "x")
    ps.copy(array, tmp_path / "x.zarr")
    assert ps.open(tmp_path / "x.zarr")[...].tolist() == values.tolist()
    ps.save_manifest(array, tmp_path / "x.json")
    assert ps.open(tmp_path / "x.json")[...].tolist() == values.tolist()


@pytest.mark.parametrize("layout", ["contiguous", "chunked"])
def test_many_numbers_that_become_narrower(tmp_path: Path, layout: str) -> None:
    """Numbers of 12 bytes become 8: stored cells are longer than decoded ones."""
    values = np.arange(-20_000, 20_000, dtype=np.int64)
    write(tmp_path / "x.h5", integer_type(12, h5t.ORDER_LE, True, 64, 0), values, layout)
    assert ps.open(tmp_path / "x.h5", "x")[...].tolist() == values.tolist()


def test_wider_numbers_are_refused_by_name(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        wide = h5t.STD_I64LE.copy()
        wide.set_size(16)
        wide.set_precision(100)
        h5d.create(file.id, b"wide", wide, h5s.create_simple((2,)))
        binary128 = h5t.IEEE_F64LE.copy()
        binary128.set_size(16)
        binary128.set_precision(128)
        binary128.set_fields(127, 112, 15, 0, 112)
        binary128.set_ebias(16383)
        h5d.create(file.id, b"binary128", binary128, h5s.create_simple((2,)))
        h5d.create(file.id, b"d_floating", vax_type(8, (63, 55, 8, 0, 55), 129), h5s.create_simple((2,)))
    for name, words in {
        "binary128": "IEEE binary128",
        "wide": "integers of 100 bits in 16 bytes",
        "d_floating": "VAX floats of 64 bits",
    }.items():
        with pytest.raises(ps.UnsupportedError, match=words):
            ps.open(tmp_path / "x.h5", name)


def vax_type(size: int, fields: tuple[int, ...], bias: int) -> Any:
    return float_type(size, fields, bias, h5t.ORDER_VAX)


@pytest.mark.parametrize("layout", ["contiguous", "chunked"])
@pytest.mark.parametrize(
    ("like", "fields", "bias"),
    [("<f4", (31, 23, 8, 0, 23), 129), ("<f8", (63, 52, 11, 0, 52), 1025)],
    ids=["F_floating", "G_floating"],
)
def test_floats_of_vax(tmp_path: Path, like: str, fields: tuple[int, ...], bias: int, layout: str) -> None:
    """The bits of a number are those that IEEE 754 has for four times the number, in words from the highest one."""
    values = np.array([0.0, 1.0, -1.5, 0.1, 3.14159, -1e-30, 1e37], like)
    tid = vax_type(values.itemsize, fields, bias)
    items = np.ascontiguousarray((4 * values).view("<u2").reshape(values.size, -1)[:, ::-1])
    plist = h5p.create(h5p.DATASET_CREATE)
    if layout == "chunked":
        plist.set_chunk((5,))
        plist.set_deflate(1)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        made = h5d.create(file.id, b"x", tid, h5s.create_simple(values.shape), plist)
        made.write(h5s.ALL, h5s.ALL, items, mtype=tid)
        attribute = h5a.create(file.id, b"a", tid, h5s.create_simple(values.shape))
        attribute.write(items, mtype=tid)
        read = np.zeros(values.shape)
        made.read(h5s.ALL, h5s.ALL, read, mtype=h5t.NATIVE_DOUBLE)
    assert read.tolist() == values.tolist()
    group = ps.open(tmp_path / "x.h5")
    assert group["x"].dtype == np.float64
    assert group["x"][...].tolist() == values.tolist()
    assert group.attrs["a"] == values.tolist()
    assert group.typed_attributes["a"].tolist() == values.tolist()


def test_vax_has_numbers_where_ieee_754_has_infinities(tmp_path: Path) -> None:
    """libhdf5 reads NaN there. A sign with an exponent of 0 is a reserved operand."""
    tid = vax_type(4, (31, 23, 8, 0, 23), 129)
    items = np.array([[0x7FFF, 0xFFFF], [0x7F80, 0], [0x0001, 0], [0x0080, 0], [0x8000, 0]], "<u2")
    with h5py.File(tmp_path / "x.h5", "w") as file:
        made = h5d.create(file.id, b"x", tid, h5s.create_simple((5,)))
        made.write(h5s.ALL, h5s.ALL, items, mtype=tid)
    found = ps.open(tmp_path / "x.h5", "x")[...]
    assert found[:4].tolist() == [(2 - 2.0**-23) * 2.0**126, 2.0**126, 0.0, 2.0**-128]
    assert np.isnan(found[4])
