"""The weighted means of `read_window` against the same in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from penstock import _core
from penstock.geo.resample import KERNELS, Taps, resample, store, taps


def along(values: npt.NDArray[Any], axis_taps: Taps, low: int) -> npt.NDArray[np.float64]:
    """Weighted sums along the last axis, whose first pixel is number `low`; taps beyond the edges count nothing."""
    size = values.shape[-1]
    made = np.zeros((*values.shape[:-1], len(axis_taps.first)))
    for k in range(axis_taps.weights.shape[1]):
        at = axis_taps.first + (k - low)
        weights = np.where((at >= 0) & (at < size), axis_taps.weights[:, k], 0.0)
        used = np.flatnonzero(weights)
        if used.size:
            made[..., used] += values[..., at[used]] * weights[used]
    return made


def down(values: npt.NDArray[Any], axis_taps: Taps, low: int) -> npt.NDArray[np.float64]:
    """As `along`, along the last axis but one."""
    size = values.shape[-2]
    made = np.zeros((*values.shape[:-2], len(axis_taps.first), values.shape[-1]))
    for k in range(axis_taps.weights.shape[1]):
        at = axis_taps.first + (k - low)
        weights = np.where((at >= 0) & (at < size), axis_taps.weights[:, k], 0.0)
        used = np.flatnonzero(weights)
        if used.size:
            made[..., used, :] += values[..., at[used], :] * weights[used, None]
    return made


def model(
    values: npt.NDArray[Any],
    valid: npt.NDArray[np.bool_] | None,
    rows: Taps,
    columns: Taps,
    low: tuple[int, int],
    by_axis: bool,
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    with np.errstate(invalid="ignore", divide="ignore"):
        if valid is None:
            across = along(np.ones(values.shape[-1]), columns, low[1])
            weight = along(np.ones(values.shape[-2]), rows, low[0])[:, None] * across
            return along(down(values, rows, low[0]), columns, low[1]) / weight, weight
        numbers, known = np.where(valid, values, 0), valid.astype(np.float64)
        if by_axis:
            total, weight = along(numbers, columns, low[1]), along(known, columns, low[1])
            total, weight = np.where(weight > 0, total / weight, 0.0), (weight > 0).astype(np.float64)
            total, weight = down(total, rows, low[0]), down(weight, rows, low[0])
        else:
            total = along(down(numbers, rows, low[0]), columns, low[1])
            weight = along(down(known, rows, low[0]), columns, low[1])
        return total / weight, weight


@pytest.mark.parametrize("dtype", ["u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_means_are_numpys(dtype, kernel):
    rng = np.random.default_rng(5)
    values = (rng.uniform(-100, 200, (2, 3, 41, 37)) * (dtype[0] != "u") + 7).astype(dtype)
    for (start, step, count), (left, across, width) in [
        ((0, 1, 41), (0, 1, 37)),
        ((-3.5, 2.25, 20), (4.25, 0.3, 60)),
        ((2, 7.7, 5), (-20, 13, 6)),
        ((50, 1, 4), (0, 1, 4)),
    ]:
        rows, columns = taps(kernel, start, step, count), taps(kernel, left, across, width)
        for valid in (None, rng.uniform(size=values.shape) < 0.6, np.zeros(values.shape, bool)):
            for by_axis in (False, True):
                got = resample(values, valid, rows, columns, (3, 2), by_axis)
                want = model(values, valid, rows, columns, (3, 2), by_axis)
                for a, b in zip(got, want, strict=True):
                    np.testing.assert_allclose(a, b, rtol=1e-13, atol=1e-300)
    one = rng.uniform(size=values.shape[-2:]) < 0.5
    rows, columns = taps(kernel, 0, 3, 13), taps(kernel, 0, 3, 12)
    shared = resample(values, np.broadcast_to(one, values.shape), rows, columns, (0, 0), True)
    np.testing.assert_allclose(shared[0], model(values, one, rows, columns, (0, 0), True)[0], rtol=1e-13)
    for by_axis in (False, True):
        of_each = resample(values, np.broadcast_to(one, values.shape), rows, columns, (0, 0), by_axis)
        of_all = resample(values, one[None], rows, columns, (0, 0), by_axis)
        for a, b in zip(of_all, of_each, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("dtype", ["u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8"])
def test_means_of_integers_are_rounded_and_cut_to_their_range(dtype):
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    means = np.array([[[0.5, 1.5, 2.4999, -0.5, -1.5, 2.0**65, -(2.0**65), 7.0, np.nan]]])
    weight = np.array([[[1.0] * 8 + [0.0]]])
    want = [1, 2, 2, 0, max(low, -1), high, low, 7, 3]
    assert store(means, weight, np.dtype(dtype), 3, None).tolist() == [[want]]
    apart = [each if each != 2 else 3 for each in want]  # the last one is what is missing
    assert store(means, weight, np.dtype(dtype), 3, 2).tolist() == [[apart]]
    assert store(means, weight, np.dtype(dtype), high, high)[0, 0, [5, 8]].tolist() == [high - 1, high]


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_means_of_floats_are_never_nodata(dtype):
    kind = np.dtype(dtype)
    means = np.array([[[1.0, -9.0, 1 + 2.0**-11 + 2.0**-40, np.nan, np.inf, 5.0]]])
    weight = np.array([[[1.0, 1, 1, 1, 1, 0]]])
    got = store(means, weight, kind, -9.0, -9.0)
    assert got.dtype == kind
    next_to = np.nextafter(kind.type(-9), kind.type(np.inf))
    np.testing.assert_array_equal(got[0, 0], [1, next_to, means[0, 0, 2].astype(dtype), np.nan, np.inf, -9])


def test_what_does_not_fit_is_refused():
    values, first, weights = np.zeros((1, 4, 4), "u1"), np.arange(2), np.ones((2, 1))
    for wrong in (
        {"means": np.empty((1, 2, 3))},
        {"weight": np.empty((2, 2, 2))},
        {"valid": np.ones((1, 4, 3), "u1")},
        {"values": np.zeros((1, 4, 4), "c8")},
        {"row_weights": np.ones((3, 1))},
    ):
        given = {"values": values, "valid": None, "rows": first, "row_weights": weights, "low_row": 0}
        given |= {"columns": first, "column_weights": weights, "low_column": 0, "by_axis": False}
        given |= {"means": np.empty((1, 2, 2)), "weight": np.empty((1, 2, 2))} | wrong
        with pytest.raises(ValueError, match=r"shape|flag|rows"):
            _core.weighted_means(**given)
