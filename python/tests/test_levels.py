"""An image and its levels, written in one pass and read by level and by window."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, MutableMapping
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
import zarr
from conftest import matrix


def four(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """(…, y, x, 4): the pixels that are reduced to one; at an odd edge, the last pixel is repeated."""
    pad = [(0, 0)] * (x.ndim - 2) + [(0, x.shape[-2] % 2), (0, x.shape[-1] % 2)]
    x = np.pad(x, pad, mode="edge")
    return np.stack([x[..., ::2, ::2], x[..., ::2, 1::2], x[..., 1::2, ::2], x[..., 1::2, 1::2]], -1)


def mean(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    with np.errstate(all="ignore"):
        means = np.nanmean(four(x.astype("c16" if x.dtype.kind == "c" else "f8")), -1)
    return (np.floor(means + 0.5) if x.dtype.kind in "iu" else means).astype(x.dtype)


def mode(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    of = four(x)
    flat = of.reshape(-1, 4).tolist()
    return np.array([Counter(each).most_common(1)[0][0] for each in flat], x.dtype).reshape(of.shape[:-1])


RULES: dict[str, Callable[[Any], Any]] = {"mean": mean, "nearest": lambda x: x[..., ::2, ::2], "mode": mode}


@matrix
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("dtype", ["u1", "i2", ">u4", "f2", "f4", "f8", "c8"])
def test_levels_equal_numpys(rule: str, dtype: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    for number, shape in enumerate([(37, 21), (5, 19, 30), (2, 3, 16, 9)]):
        x = rng.integers(0, 5, shape).astype(dtype)
        where = tmp_path / f"{number}.zarr"
        chunks = (2,) * (len(shape) - 2) + (4, 8)
        with ps.create_levels(
            where, shape=(0, *shape[1:]), dtype=dtype, chunks=chunks, levels=4, resampling=rule, queue="64KiB"
        ) as w:
            at = 0
            while at < shape[0]:
                step = int(rng.integers(0, 5))
                w.append(x[at : at + step])
                at += step
                if rng.integers(0, 5) == 0:
                    w.flush()
        expected = x
        for level in range(4):
            a = ps.open(where, level=level)
            np.testing.assert_array_equal(a[...], expected)
            theirs = zarr.open_array(str(where / str(level)), mode="r")
            np.testing.assert_array_equal(theirs[...], expected)
            expected = RULES[rule](expected)


@pytest.mark.parametrize(
    ("dtype", "rule", "says"),
    [("bfloat16", "mean", "have no mean"), ("c16", "mode", "have no mode"), ("string", "nearest", "have no levels")],
)
def test_types_without_a_rule_are_refused(dtype: str, rule: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(ps.UnsupportedError, match=says):
        ps.create_levels(tmp_path / "a", shape=(0, 4), dtype=dtype, chunks=(2, 2), resampling=rule)


def test_nan_is_excluded_from_means(tmp_path: Path) -> None:
    x = np.array([[1, np.nan, np.nan, np.nan], [3, np.nan, np.nan, np.nan]], "f4")
    ps.create_levels(tmp_path / "a", data=x, chunks=(2, 2), levels=2).close()
    np.testing.assert_array_equal(ps.open(tmp_path / "a", level=1)[...], [[2, np.nan]])


def test_masked_rows_are_refused(tmp_path: Path) -> None:
    rows = np.ma.masked_array(np.zeros((2, 8, 8)), np.arange(128).reshape(2, 8, 8) == 100)
    with pytest.raises(ps.InvalidArgumentError, match="masked elements"):
        ps.create_levels(tmp_path / "a.zarr", data=rows, chunks=(1, 4, 4))
    assert not (tmp_path / "a.zarr").exists()
    with ps.create_levels(tmp_path / "b.zarr", shape=(0, 8, 8), dtype="f8", chunks=(1, 4, 4)) as w:
        with pytest.raises(ps.InvalidArgumentError, match="masked elements"):
            w.append(rows)
        w.append(np.ma.masked_array(np.ones((2, 8, 8))))
    assert float(ps.open(tmp_path / "b.zarr")["0"][...].min()) == 1


def test_attributes_are_ome_zarr_s(tmp_path: Path) -> None:
    """As in OME-NGFF 0.5: axes in order, one scale for each dataset, then a translation."""
    x = np.zeros((2, 3, 40, 50), "u2")
    group = ps.create_levels(
        tmp_path / "a", data=x, chunks=(1, 1, 16, 16), name="cells", attributes={"owner": "lab"}
    ).close()
    ome = zarr.open_group(str(tmp_path / "a"), mode="r").attrs.asdict()["ome"]
    assert dict(group.attrs)["ome"] == ome
    assert group.attrs["owner"] == "lab"
    assert ome["version"] == "0.5"
    (image,) = ome["multiscales"]
    assert image["name"] == "cells"
    assert image["axes"] == [
        {"name": "t", "type": "time"},
        {"name": "c", "type": "channel"},
        {"name": "y", "type": "space"},
        {"name": "x", "type": "space"},
    ]
    assert [each["path"] for each in image["datasets"]] == ["0", "1", "2"]
    for number, each in enumerate(image["datasets"]):
        factor = 2.0**number
        scale, *rest = each["coordinateTransformations"]
        assert scale == {"type": "scale", "scale": [1, 1, factor, factor]}
        middle = (factor - 1) / 2
        assert rest == ([{"type": "translation", "translation": [0, 0, middle, middle]}] if number else [])


def test_attributes_are_geozarr_s(tmp_path: Path) -> None:
    x = np.arange(40 * 50, dtype="f4").reshape(40, 50)
    ps.create_levels(tmp_path / "a", data=x, chunks=(16, 16), convention="geozarr", resampling="nearest").close()
    attributes = ps.open(tmp_path / "a").attrs
    (convention,) = attributes["zarr_conventions"]
    assert convention["uuid"] == "d35379db-88df-4056-af3a-620245f8e347"
    layout = attributes["multiscales"]["layout"]
    assert [each["asset"] for each in layout] == ["0", "1", "2"]
    assert [each.get("derived_from") for each in layout] == [None, "0", "1"]
    assert [each["transform"]["scale"] for each in layout] == [[1, 1], [2, 2], [2, 2]]
    np.testing.assert_array_equal(ps.open(tmp_path / "a", level=2)[...], x[::4, ::4])


@pytest.mark.parametrize("convention", ["ome", "geozarr"])
def test_windows_are_read_from_the_best_level(convention: str, tmp_path: Path) -> None:
    x = np.random.default_rng(2).integers(0, 1000, (1, 64, 96)).astype("u2")
    appender = ps.create_levels(tmp_path / "a", data=x, chunks=(1, 16, 16), convention=convention)
    assert repr(appender).endswith("a', 4 levels>")
    group = appender.close()
    levels = [ps.open(tmp_path / "a", level=number) for number in range(4)]
    for shape in [(64, 96), (32, 48), (8, 12)]:
        mine = ps.read_window(group, shape=shape, resampling="average")
        np.testing.assert_array_equal(
            mine, ps.read_window(levels[0], shape=shape, resampling="average", overviews=levels[1:])
        )
    np.testing.assert_array_equal(ps.read_window(group, shape=(16, 24), resampling="nearest"), levels[2][...])
    if convention == "ome":  # its scale defines where pixels are: pixel (r, c) is around (c, r)
        part = ps.read_window(group, bounds=(15.5, 7.5, 31.5, 23.5), shape=(16, 16))
        np.testing.assert_array_equal(part, x[:, 8:24, 16:32])


def test_transformations_of_all_levels_follow_those_of_each() -> None:
    """Source: OME-Zarr 0.5, "multiscales" metadata."""
    store: dict[str, bytes] = {}
    steps = [{"type": "scale", "scale": [2, 2]}, {"type": "translation", "translation": [1, 3]}]
    shared = [{"type": "scale", "scale": [5, 10]}, {"type": "translation", "translation": [7, 0]}]
    image = {"datasets": [{"path": "0", "coordinateTransformations": steps}], "coordinateTransformations": shared}
    group = ps.create_group(store, attributes={"ome": {"version": "0.5", "multiscales": [image]}})
    x = np.arange(64, dtype="u1").reshape(8, 8)
    ps.create_array(group, "0", data=x)
    # y of row r is (r * 2 + 1) * 5 + 7, x of column c (c * 2 + 3) * 10
    left, top = 30 + 20 * 2 - 10, 12 + 10 * 3 - 5
    np.testing.assert_array_equal(ps.read_window(group, (left, top, left + 60, top + 20)), x[3:5, 2:5])
    image["coordinateTransformations"] = [{"type": "scale", "scale": [5]}]
    ps.create_group(store, attributes={"ome": {"version": "0.5", "multiscales": [image]}}, overwrite=True)
    with pytest.raises(ps.CorruptDataError, match="different lengths"):
        ps.open(store, level=0)


class Fails(MutableMapping[str, bytes]):
    """A store that refuses chunks of level 2."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}

    def __getitem__(self, key: str) -> bytes:
        return self.objects[key]

    def __setitem__(self, key: str, value: bytes) -> None:
        if key.startswith("2/c/"):
            raise OSError(28, "No space left on device")
        self.objects[key] = bytes(value)

    def __delitem__(self, key: str) -> None:
        del self.objects[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.objects)

    def __len__(self) -> int:
        return len(self.objects)


def test_only_complete_levels_are_named() -> None:
    store = Fails()
    w = ps.create_levels(store, shape=(0, 16, 16), dtype="u1", chunks=(1, 16, 16), levels=3)
    w.append(np.ones((2, 16, 16)))
    assert "ome" not in ps.open(store).attrs
    with pytest.raises(OSError, match="No space left") as failed:
        w.close()
    assert "2/c/0/0/0" in str(failed.value)
    names = [each["path"] for each in ps.open(store).attrs["ome"]["multiscales"][0]["datasets"]]
    assert names == ["0", "1"]
    with pytest.raises(ps.NotFoundError, match="name 2 levels"):
        ps.open(store, level=2)


class FailsAtFirst(Fails):
    """A store that refuses a few chunks of level 1, and then accepts them."""

    refusals = 5

    def __setitem__(self, key: str, value: bytes) -> None:
        if key.startswith("1/c/") and self.refusals > 0:
            self.refusals -= 1
            raise OSError(28, "No space left on device")
        self.objects[key] = bytes(value)


@pytest.mark.parametrize("shape", [(40, 16, 16), (80, 16)])
def test_rows_that_are_appended_again_after_an_error_exist_once(shape: tuple[int, ...]) -> None:
    store = FailsAtFirst()
    values = np.random.default_rng(0).integers(0, 200, shape).astype("u1")
    w = ps.create_levels(store, shape=(0, *shape[1:]), dtype="u1", chunks=(1, *shape[1:]), levels=3)
    failures = 0
    for at in range(0, shape[0], 2):
        for _ in range(20):
            try:
                w.append(values[at : at + 2])
                break
            except OSError:
                failures += 1
        time.sleep(0.002)  # the thread of level 1 fails meanwhile
    for _ in range(20):
        try:
            w.flush()
            break
        except OSError:
            failures += 1
    w.close()
    assert failures > 0
    assert store.refusals == 0
    for level in range(3):
        np.testing.assert_array_equal(ps.open(store, level=level)[...], values)
        values = mean(values)


def test_threads_may_append_to_the_levels_of_one_image() -> None:
    w = ps.create_levels({}, shape=(0, 64), dtype="u2", chunks=(16, 16), levels=3)

    def append(value: int) -> None:
        for number in range(40):
            w.append(np.full((1 + number % 3, 64), value, "u2"))

    threads = [threading.Thread(target=append, args=(value,)) for value in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    g = w.close()
    rows = 4 * sum(1 + number % 3 for number in range(40))
    assert [g[str(level)].shape for level in range(3)] == [(rows, 64), (rows // 2, 32), (rows // 4, 16)]
    lines = g["0"][...]
    assert (lines == lines[:, :1]).all()
    assert np.bincount(lines[:, 0]).tolist() == [rows // 4] * 4


END = """
import sys, numpy as np, penstock as ps
w = ps.create_levels(sys.argv[1], shape=(0, 8), dtype="u1", chunks=(4, 4), levels=2)
w.append(np.full((5, 8), 7))
"""


def test_a_program_that_ends_names_its_levels(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", END, str(tmp_path / "a")], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert ps.open(tmp_path / "a", level=1)[...].tolist() == [[7] * 4] * 3


KILLED = """
import sys, numpy as np, penstock as ps
w = ps.create_levels(sys.argv[1], shape=(0, 64, 64), dtype="u1", chunks=(1, 16, 16), levels=3)
print("begun", flush=True)
for t in range(60):
    w.append(np.full((1, 64, 64), t % 200 + 1))
w.close()
"""


@pytest.mark.parametrize("seed", range(int(os.environ.get("PENSTOCK_LEVEL_KILLS", "5"))))
def test_a_killed_program_leaves_no_named_level_that_is_incomplete(seed: int, tmp_path: Path) -> None:
    path = tmp_path / "a"
    command = [sys.executable, "-c", KILLED, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "begun\n"
        time.sleep(random.Random(seed).random() * 0.4)
        running.kill()
    group = ps.open(path)
    named = [each["path"] for each in group.attrs.get("ome", {}).get("multiscales", [{}])[0].get("datasets", [])]
    base = group["0"]
    expected = (np.arange(base.shape[0]) % 200 + 1).astype("u1")
    assert (base[...] == expected[:, None, None]).all(), "the shape names rows that are stored"
    for name in named:
        level = group[name]
        assert level.shape[0] == 60
        assert (level[...] == expected[:, None, None]).all()


def test_invalid_options_are_refused(tmp_path: Path) -> None:
    for options, match in [
        ({"dtype": "u1", "resampling": "cubic"}, "resampling"),
        ({"dtype": "u1", "convention": "cog"}, "convention"),
        ({"dtype": "?"}, "mean|average"),
        ({"dtype": "u1", "levels": 0}, "levels"),
        ({"dtype": "u1", "shape": (4, 8)}, "begin with 0"),
        ({}, "give data"),
    ]:
        given = {"shape": (0, 8), "chunks": (4, 4), **options}
        with pytest.raises(ps.Error, match=match):
            ps.create_levels(tmp_path / "a", overwrite=True, **given)  # type: ignore[arg-type]
    store: dict[str, bytes] = {}
    ps.create_group(store)
    with pytest.raises(ps.NotFoundError, match="name 0 levels"):
        ps.open(store, level=0)
    wrong: list[Any] = [{"ome": {"multiscales": [{"datasets": [{"path": p}]}]}} for p in ("../x", "/x", "", "a//b", 3)]
    wrong += [{"multiscales": bad} for bad in (3, {}, {"layout": 3}, [{"datasets": 3}], [3])]
    for attributes in wrong:
        ps.create_group(store, attributes=attributes, overwrite=True)
        with pytest.raises(ps.CorruptDataError, match="levels do not"):
            ps.open(store, level=0)


@matrix
@pytest.mark.parametrize(
    "wrong",
    [{"resampling": "median"}, {"convention": "other"}, {"dtype": "c16", "resampling": "mode"}, {"codecs": ["nosuch"]}],
    ids=str,
)
def test_a_wrong_option_changes_nothing(wrong: dict[str, Any], tmp_path: Path) -> None:
    ps.save(tmp_path / "x.zarr", np.arange(6))
    options = {"shape": (0, 8, 8), "dtype": "u2", "chunks": (1, 4, 4), "overwrite": True}
    with pytest.raises(ps.Error):
        ps.create_levels(tmp_path / "x.zarr", **(options | wrong))
    assert ps.load(tmp_path / "x.zarr").tolist() == list(range(6))
    with pytest.raises(ps.Error):
        ps.create_levels(tmp_path / "y.zarr", **(options | wrong | {"overwrite": False}))
    assert not (tmp_path / "y.zarr").exists()
    ps.create_levels(tmp_path / "x.zarr", **options).close()
    assert list(ps.open(tmp_path / "x.zarr")) == ["0", "1"]


@pytest.mark.parametrize(("given", "stored"), [("f8", "f4"), ("i2", "f4"), (">i4", "i2"), ("f4", "u1")])
@pytest.mark.parametrize(
    ("shape", "chunks"), [((9000, 1000), (300, 500)), ((61, 300, 500), (1, 300, 500))], ids=["rows", "planes"]
)
def test_rows_of_another_dtype_are_cast(
    given: str, stored: str, shape: tuple[int, ...], chunks: tuple[int, ...]
) -> None:
    """More rows than a step of 16 MiB; dtypes that the engine converts, and dtypes that NumPy casts before."""
    x = (np.arange(np.prod(shape)) % 200).astype(given).reshape(shape)
    target: dict[str, bytes] = {}
    ps.create_levels(target, data=x, dtype=stored, chunks=chunks, levels=2, resampling="nearest").close()
    made = ps.open_group(target)
    np.testing.assert_array_equal(made["0"][...], x.astype(stored))
    np.testing.assert_array_equal(made["1"][...], x.astype(stored)[..., ::2, ::2])
