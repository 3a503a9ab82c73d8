"""What is assigned is cast as NumPy's `x[...] = value` casts it, or refused as NumPy refuses it.

20 types x 20 types x 6 forms of the value x 4 ways of writing: 9,600 assignments, compared with NumPy's; and 1,444
through zarr-python's arrays, compared with zarr-python's own.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import penstock as ps
import pytest

NAMES = (
    *("?", "i1", "u1", "i2", ">i4", "u4", "i8", "f2", "f4", ">f8", "c8", "c16"),
    *("S4", "U6", "T", "M8[s]", "M8[D]", "M8", "m8[s]", "m8[ms]"),
)
pytestmark = pytest.mark.filterwarnings("ignore")


def dtype_of(name: str) -> np.dtype[Any]:
    return np.dtypes.StringDType() if name == "T" else np.dtype(name)


def values_of(name: str) -> np.ndarray[Any, Any]:
    dtype = dtype_of(name)
    if dtype.kind in "mM":
        return np.array([1, 2, 3], "i8").view(dtype)
    if dtype.kind in "SUT":
        return np.array(["1", "2", "3"]).astype(dtype)
    return np.array([1, 0, 3]).astype(dtype)


def forms(name: str) -> dict[str, Any]:
    values = values_of(name)
    return {
        "array": values,
        "0-d": values[:1].reshape(()),
        "scalar": values[0],
        "list": list(values),
        "Python's": values.tolist()[0],
        "Python's list": values.tolist(),
    }


def wrote_all(target: Any, value: Any) -> None:
    target[...] = value


def wrote_slice(target: Any, value: Any) -> None:
    target[0:3] = value


def wrote_reversed(target: Any, value: Any) -> None:
    target[::-1] = value


def wrote_points(target: Any, value: Any) -> None:
    target[np.array([0, 2, 1])] = value


WAYS = (wrote_all, wrote_slice, wrote_reversed, wrote_points)


def outcome(work: Callable[[], Any]) -> Any:
    """The values, or that it was refused."""
    try:
        return str(work())
    except (TypeError, ValueError, OverflowError, RuntimeError):  # the last of NumPy's times to short text
        return "refused"


def native_of(dtype: Any) -> Any:
    """The dtype in native byte order: NumPy 2.4 and older cast text to big-endian numbers with swapped bytes."""
    return dtype.newbyteorder("=") if dtype.kind in "iufcmM" else dtype


@pytest.mark.parametrize("to", NAMES)
def test_values_are_cast_as_numpys_assignment_casts_them(to: str) -> None:
    dtype = dtype_of(to)
    native = native_of(dtype)
    stored: Any = ps.create_array({}, shape=(3,), dtype=dtype)
    bad = []
    for name, way in itertools.product(NAMES, WAYS):
        for form, value in forms(name).items():

            def numpys(way: Any = way, value: Any = value) -> Any:
                cast = np.zeros(3, native)
                cast[...] = value  # NumPy's lists of indices take some of what this refuses
                made = np.zeros(3, native)
                way(made, cast)
                return made.tolist()

            def ours(way: Any = way, value: Any = value) -> Any:
                stored[...] = np.zeros(3, dtype)
                way(stored, value)
                return stored[...].tolist()

            wanted, found = outcome(numpys), outcome(ours)
            if wanted != found:
                bad.append(f"{name} {form} {way.__name__}: {found} is not {wanted}")
    assert bad == []


@pytest.mark.parametrize("to", [name for name in NAMES if name != "M8"])
def test_values_are_cast_as_zarrs_own_arrays_cast_them(to: str) -> None:
    """Through the plug-in; where zarr-python refuses, so do we, or the other way round only as NumPy does."""
    zarr = pytest.importorskip("zarr")
    import penstock.zarr as pz

    dtype = dtype_of(to)
    own, plugged = (zarr.create_array({}, shape=(3,), chunks=(2,), dtype=dtype) for _ in range(2))
    with pz.enable():
        plugged = zarr.create_array({}, shape=(3,), chunks=(2,), dtype=dtype)
    bad = []
    for name, way in itertools.product([name for name in NAMES if name != "M8"], (wrote_all, wrote_slice)):
        for form in ("array", "scalar"):
            value = forms(name)[form]

            def work(array: Any, way: Any = way, value: Any = value) -> Any:
                array[...] = np.zeros(3, dtype)
                way(array, value)
                return array[...].tolist()

            wanted, found = outcome(lambda work=work: work(own)), outcome(lambda work=work: work(plugged))
            if wanted != found:
                bad.append(f"{name} {form} {way.__name__}: {found} is not {wanted}")
    assert bad == []


def test_appended_and_created_values_are_cast_so_too() -> None:
    for to, name in itertools.product(NAMES, NAMES):
        values, dtype = values_of(name), dtype_of(to)
        stored: Any = ps.create_array({}, shape=(0,), dtype=dtype)

        def appended(stored: Any = stored, values: Any = values) -> Any:
            stored.append(values)
            return stored[...].tolist()

        def numpys(values: Any = values, dtype: Any = dtype) -> Any:
            made = np.zeros(3, native_of(dtype))
            made[...] = values
            return made.tolist()

        assert outcome(appended) == outcome(numpys), f"{name} to {to}"
