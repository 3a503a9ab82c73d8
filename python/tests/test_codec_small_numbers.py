"""cast_value and scale_offset of integers of 2 and 4 bits, bfloat16 and floats of 8, 6 and 4 bits.

zarr-python does not cast these types. The reference is the text of the registration: all finite numbers of a type as
fractions, and ml_dtypes for the default rounding.
"""

from __future__ import annotations

import bisect
import functools
from fractions import Fraction
from typing import Any

import numpy as np
import penstock as ps
import pytest
from hypothesis import given
from hypothesis import strategies as st
from penstock import testing
from penstock.core.data_types import NAMED_TYPES

ml_dtypes = pytest.importorskip("ml_dtypes")
pytestmark = pytest.mark.filterwarnings("ignore:(invalid|overflow).*:RuntimeWarning")

BYTES = {"name": "bytes", "configuration": {"endian": "little"}}
ROUNDINGS = ["nearest-even", "towards-zero", "towards-positive", "towards-negative", "nearest-away"]
INTEGERS, FLOATS = NAMED_TYPES[:4], NAMED_TYPES[4:]
BITS = {"bfloat16": 16, "float6_e2m3fn": 6, "float6_e3m2fn": 6, "float4_e2m1fn": 4}


def type_of(name: str) -> np.dtype[Any]:
    return np.dtype(getattr(ml_dtypes, name, name))


def every_number(name: str) -> np.ndarray:
    bits = BITS.get(name, 8 if name in FLOATS else int(name[-1]))
    return np.arange(1 << bits, dtype="u2" if bits == 16 else "u1").view(type_of(name))


def cast(array: np.ndarray, target: str, **settings: Any) -> np.ndarray:
    codecs = [{"name": "cast_value", "configuration": {"data_type": target, **settings}}, BYTES]
    return np.frombuffer(testing.encode(array, codecs), type_of(target))


@functools.cache
def numbers(name: str) -> tuple[list[Fraction], list[int]]:
    """The magnitudes of a float type in ascending order, their bits, and the magnitude that would come next."""
    bits = BITS.get(name, 8)
    codes = np.arange(1 << (bits if name == "float8_e8m0fnu" else bits - 1), dtype="u2" if bits == 16 else "u1")
    values = codes.view(type_of(name)).astype("f8")
    good = np.isfinite(values)
    made = [Fraction(value) for value in values[good]]
    following = made[-1] * 2 if name == "float8_e8m0fnu" else 2 * made[-1] - made[-2]
    return [*made, following], codes[good].tolist()


def expected(value: float, name: str, rounding: str, mode: str | None) -> float | None:
    """The value that the registration requires; None for an error."""
    magnitudes, codes = numbers(name)
    info = ml_dtypes.finfo(type_of(name))
    has_inf = np.isinf(np.array(np.inf).astype(type_of(name)).astype("f8")) if name != "float8_e8m0fnu" else False
    if not np.isfinite(value):
        return value if has_inf else None
    wanted, sign = abs(Fraction(value)), -1.0 if np.signbit(value) else 1.0
    only_positive = name == "float8_e8m0fnu"
    if only_positive and (sign < 0 or wanted < magnitudes[0]):
        return float(magnitudes[0]) if mode == "clamp" else None
    at = bisect.bisect_right(magnitudes, wanted) - 1
    if at < len(codes) and wanted > magnitudes[at]:
        down, up = wanted - magnitudes[at], magnitudes[at + 1] - wanted
        away = {
            "nearest-even": down > up or (down == up and codes[at] % 2 == 1),
            "nearest-away": down >= up,
            "towards-zero": False,
            "towards-positive": sign > 0,
            "towards-negative": sign < 0,
        }[rounding]
        at += away
    if at < len(codes):
        return sign * float(magnitudes[at])
    if mode != "clamp":
        return None
    return sign * (np.inf if has_inf else float(info.max))


VALUES = st.one_of(
    st.floats(width=32, allow_nan=False),
    st.floats(-70_000, 70_000, width=32),
    st.floats(-8, 8, width=32),
    st.integers(-600, 600).map(lambda i: i / 16),
)


@pytest.mark.parametrize("name", FLOATS)
@given(value=VALUES, rounding=st.sampled_from(ROUNDINGS), mode=st.sampled_from([None, "clamp"]))
def test_floats_are_cast_as_registered(name, value, rounding, mode):
    settings = {"rounding": rounding} | ({"out_of_range": mode} if mode else {})
    want = expected(value, name, rounding, mode)
    array = np.array([value], "f4")
    if want is None:
        with pytest.raises(ps.InvalidArgumentError, match="cannot hold every value"):
            cast(array, name, **settings)
    else:
        assert cast(array, name, **settings).astype("f8")[0] == want


@pytest.mark.parametrize("name", INTEGERS)
@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_integers_of_few_bits_are_rounded_clamped_and_wrapped(name, rounding):
    rule = {
        "nearest-even": np.rint,
        "towards-zero": np.trunc,
        "towards-positive": np.ceil,
        "towards-negative": np.floor,
        "nearest-away": lambda x: np.trunc(x + np.copysign(0.5, x)),
    }[rounding]
    width = int(name.removeprefix("u").removeprefix("int"))
    least, most = (0, 2**width - 1) if name.startswith("u") else (-(2 ** (width - 1)), 2 ** (width - 1) - 1)
    for value in np.arange(-80, 80) / 4:
        array = np.array([value], "f8")
        whole = int(rule(value))
        clamped = cast(array, name, rounding=rounding, out_of_range="clamp").astype("i8")[0]
        assert clamped == min(max(whole, least), most)
        wrapped = cast(array, name, rounding=rounding, out_of_range="wrap").astype("i8")[0]
        assert (wrapped - whole) % 2**width == 0
        assert least <= wrapped <= most
        if least <= whole <= most:
            assert cast(array, name, rounding=rounding).astype("i8")[0] == whole
        else:
            with pytest.raises(ps.InvalidArgumentError):
                cast(array, name, rounding=rounding)


@pytest.mark.parametrize("endian", ["little", "big"])
@pytest.mark.parametrize("wide", ["float32", "float64", "int64", "uint8", "bfloat16", "float8_e5m2"])
@pytest.mark.parametrize("name", INTEGERS + FLOATS)
def test_every_number_survives_a_round_trip(name, wide, endian):
    """Arrays of the small type stored as a wide one, and arrays of the wide type stored as the small one."""
    values = every_number(name)
    exact = values.astype("f8")
    there = exact.astype(type_of(wide)) if type_of(wide).kind not in "iu" else None
    if there is None:
        good = np.isfinite(exact) & (np.trunc(exact) == exact) & (np.abs(exact) < 2**53)
        good &= (exact >= 0) & (exact < 256) if wide == "uint8" else True
    else:
        good = (there.astype("f8") == exact) & np.isfinite(exact)
    values = values[good & (exact != 0)]  # zero has no sign in this type
    codecs = [
        {"name": "cast_value", "configuration": {"data_type": wide}},
        {"name": "bytes", "configuration": {"endian": endian}},
    ]
    encoded = testing.encode(values, codecs)
    stored = np.frombuffer(encoded, type_of(wide).newbyteorder("<>"[endian == "big"]) if wide[0] in "fui" else "u1")
    if "8" not in wide[-4:] and wide not in ("bfloat16", "float8_e5m2"):
        np.testing.assert_array_equal(stored.astype("f8"), values.astype("f8"))
    back = testing.decode(encoded, codecs, name, values.shape)
    np.testing.assert_array_equal(np.asarray(back).view(type_of(name)).astype("f8"), values.astype("f8"))


def test_values_that_a_type_lacks_are_errors_unless_mapped():
    nan = np.array([np.nan], "f4")
    with pytest.raises(ps.InvalidArgumentError):
        cast(nan, "float4_e2m1fn")
    assert cast(nan, "float4_e2m1fn", scalar_map={"encode": [["NaN", 6]]}).astype("f4")[0] == 6
    assert np.isnan(cast(nan, "float8_e4m3fn").astype("f4")[0])
    infinite = np.array([np.inf], "f4")
    with pytest.raises(ps.InvalidArgumentError):
        cast(infinite, "float8_e4m3fn", out_of_range="clamp")
    assert np.isinf(cast(infinite, "bfloat16").astype("f4")[0])
    assert np.signbit(cast(np.array([-0.0], "f4"), "bfloat16").astype("f4")[0])


def test_scalars_are_mapped_in_every_form_that_fill_values_have():
    for text in ("NaN", "0x7fc00001", "0xffc00000"):
        assert cast(np.array([np.nan, 1], "f4"), "uint8", scalar_map={"encode": [[text, 7]]}).tolist() == [7, 1]
    for text in ("Infinity", "+Infinity", "0x7f800000"):
        assert cast(np.array([np.inf], "f4"), "uint8", scalar_map={"encode": [[text, 9]]}).tolist() == [9]
    made = cast(np.array([3], "u1"), "bfloat16", scalar_map={"encode": [[3, "0x3f80"]]})
    assert made.astype("f4").tolist() == [1]
    for bad in ("0x1ffffffff", "0x", "0xzz", "nan", [1], None, True):
        with pytest.raises(ps.CorruptDataError, match="scalar_map"):
            cast(np.array([1], "f4"), "uint8", scalar_map={"encode": [[bad, 7]]})


def test_a_type_may_be_an_object():
    array = np.array([1.0], "f4")
    assert cast(array, "uint8").tolist() == [1]
    for kind in ({"name": "uint8"}, {"name": "uint8", "configuration": {}}):
        codecs = [{"name": "cast_value", "configuration": {"data_type": kind}}, BYTES]
        assert testing.encode(array, codecs) == b"\1"
    for kind in ({"name": "uint8", "configuration": {"a": 1}}, {}, 5, None):
        codecs = [{"name": "cast_value", "configuration": {"data_type": kind}}, BYTES]
        with pytest.raises(ps.CorruptDataError, match="data_type"):
            testing.encode(array, codecs)


@pytest.mark.parametrize("name", [name for name in FLOATS if name != "float8_e8m0fnu"])
def test_scale_offset_of_small_floats_rounds_each_step(name):
    kind = type_of(name)
    values = every_number(name)
    values = values[np.isfinite(values.astype("f4"))]
    limit = float(ml_dtypes.finfo(kind).max)
    for offset, scale in ((0.0, 1.0), (1.0, 2.0), (-0.5, 0.5), (2.0, 1.5)):
        codecs = [{"name": "scale_offset", "configuration": {"offset": offset, "scale": scale}}, BYTES]
        exact = (values.astype("f8") - offset) * scale
        between = np.abs(values.astype("f8") - offset)
        fits = (np.abs(exact) <= limit) & (between <= limit)
        want = ((values - kind.type(offset)) * kind.type(scale))[fits]
        got = np.frombuffer(testing.encode(values[fits], codecs), kind)
        np.testing.assert_array_equal(got.astype("f4"), want.astype("f4"))
        over = values[exact > 2 * limit]
        if over.size and not np.isinf(np.array(np.inf).astype(kind).astype("f4")):
            with pytest.raises(ps.InvalidArgumentError, match="cannot hold every result"):
                testing.encode(over, codecs)


@pytest.mark.parametrize("name", INTEGERS)
def test_scale_offset_of_few_bits_is_exact_or_an_error(name):
    width = int(name.removeprefix("u").removeprefix("int"))
    least, most = (0, 2**width - 1) if name.startswith("u") else (-(2 ** (width - 1)), 2 ** (width - 1) - 1)
    for offset, scale in ((0, 1), (1, 1), (0, min(2, most)), (1, min(3, most))):
        codecs = [{"name": "scale_offset", "configuration": {"offset": offset, "scale": scale}}, BYTES]
        for value in range(least, most + 1):
            one = np.array([value], type_of(name))
            steps = (value - offset, (value - offset) * scale)
            if all(least <= step <= most for step in steps):
                stored = testing.encode(one, codecs)
                assert np.frombuffer(stored, type_of(name)).astype("i8")[0] == steps[1]
                back = testing.decode(stored, codecs, name, (1,))
                assert np.asarray(back).view(type_of(name)).astype("i8")[0] == value
            else:
                with pytest.raises(ps.InvalidArgumentError):
                    testing.encode(one, codecs)


def test_arrays_of_small_numbers_are_written_and_read(tmp_path):
    values = np.linspace(-4, 4, 60, dtype="f4").reshape(6, 10)
    for name in ("bfloat16", "float8_e5m2", "int4"):
        codecs = [{"name": "cast_value", "configuration": {"data_type": name, "rounding": "nearest-away"}}, BYTES]
        a = ps.create_array(
            tmp_path / name, shape=values.shape, dtype="f4", chunks=(4, 4), codecs=codecs, fill_value=1.0
        )
        a[...] = values
        want = values.astype(type_of(name)).astype("f4")
        np.testing.assert_allclose(ps.open(tmp_path / name)[...], want, atol=1.0 if name == "int4" else 0.5)
