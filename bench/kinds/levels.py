"""Writes an image with its coarser levels in one pass, in turns with the image alone.

The image alone is written by the same appender, and by an assignment. ome-zarr tools write the image, read it back and
write the levels; the row "image, read back, levels" does that with the arrays of the same library and NumPy's means.
All files are new, and earlier writes are on storage when the clock starts.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
from harness.result import Bar, Result
from harness.setting import Setting
from harness.timing import in_turns, once, paired


def run(scenario: dict, setting: Setting) -> Result:
    result = Result(scenario["name"], scenario["title"])
    image = picture(tuple(scenario["shape"]), scenario["dtype"])
    chunks = tuple(scenario["chunks"])
    with ps.Context(threads=setting.threads, sync="none"):
        for resampling in scenario["resampling"]:
            ways = {
                "image alone": lambda path: with_levels(path, image, chunks, "nearest", 1),
                "image alone, assigned": lambda path: assigned(path, image, chunks),
                f"levels, {resampling}": lambda path, how=resampling: with_levels(path, image, chunks, how, None),
                "image, read back, levels": lambda path: read_back(path, image, chunks),
            }
            made = {
                name: new_files(setting.folder / f"levels-{name.split(',')[0].replace(' ', '-')}.zarr", way)
                for name, way in ways.items()
            }
            samples = in_turns(made, scenario["turns"])
            for name, taken in samples.items():
                result.add(f"{name} ({resampling})" if "levels, " not in name else name, taken, bytes_out=image.nbytes)
            ours = samples[f"levels, {resampling}"]
            ratio = 1 / paired(ours, samples["image alone"])
            text = f"{resampling}: image and levels against the image alone, median of turns"
            result.bars.append(Bar(text, ratio, scenario["at_most"], at_least=False, unit="x"))
    check(setting.folder / "levels-check.zarr", image, chunks, result)
    return result


def picture(shape: tuple[int, ...], dtype: str) -> np.ndarray[Any, Any]:
    """Planes with gradients and noise of a few bits."""
    rng = np.random.default_rng(3)
    y, x = np.arange(shape[-2])[:, None], np.arange(shape[-1])[None, :]
    smooth = 1000 + 400 * np.sin(y / 90) * np.cos(x / 70)
    out = np.empty(shape, dtype)
    for plane in out.reshape(-1, *shape[-2:]):
        plane[...] = smooth + rng.integers(0, 16, shape[-2:], dtype="i2")
    return out


def with_levels(path: Path, image: np.ndarray[Any, Any], chunks: tuple[int, ...], how: str, levels: int | None) -> None:
    ps.create_levels(path, data=image, chunks=chunks, resampling=how, levels=levels, codecs=["zstd"]).close()


def assigned(path: Path, image: np.ndarray[Any, Any], chunks: tuple[int, ...]) -> None:
    ps.create_array(path, data=image, chunks=chunks, codecs=["zstd"])


def read_back(path: Path, image: np.ndarray[Any, Any], chunks: tuple[int, ...]) -> None:
    group = ps.create_group(path)
    below = group.create_array("0", data=image, chunks=chunks, codecs=["zstd"])
    number = 0
    while max(below.shape[-2:]) > max(chunks[-2:]):
        number += 1
        values = below[...]
        rows, columns = values.shape[-2] // 2, values.shape[-1] // 2
        halves = values.reshape(*values.shape[:-2], rows, 2, columns, 2).mean((-3, -1), dtype="f4")
        halves = halves.astype(image.dtype)
        below = group.create_array(str(number), data=halves, chunks=chunks, codecs=["zstd"])


def new_files(path: Path, work: Callable[[Path], None]) -> Callable[[], float]:
    timed = once(lambda: work(path))

    def write() -> float:
        shutil.rmtree(path, ignore_errors=True)
        os.sync()
        try:
            return timed()
        finally:
            shutil.rmtree(path, ignore_errors=True)

    return write


def check(path: Path, image: np.ndarray[Any, Any], chunks: tuple[int, ...], result: Result) -> None:
    """Compare the first two levels with the image."""
    shutil.rmtree(path, ignore_errors=True)
    with_levels(path, image, chunks, "nearest", None)
    group = ps.open_group(path)
    wanted = image[..., ::2, ::2]
    if not (np.array_equal(group["0"][...], image) and np.array_equal(group["1"][...], wanted)):
        result.failed = "a level has other values"
    shutil.rmtree(path, ignore_errors=True)
