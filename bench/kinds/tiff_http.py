"""Opens a COG over HTTP and reads from it, cold each time, from a server that answers late: compared with GDAL and
async-tiff.

The time depends on the number of consecutive round trips, so times are also shown in round trips, with the requests.
"""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import numpy as np
from harness.range_server import COUNT, serving
from harness.result import Bar, Result
from harness.setting import Setting
from harness.timing import in_turns, once

from kinds.tiff import written

Bounds = tuple[slice, slice]


def run(scenario: dict, setting: Setting) -> Result:
    result = Result(scenario["name"], scenario["title"])
    readers: dict[str, Callable[[str, Bounds, int], np.ndarray]] = {}
    for name, (module, read) in READERS.items():
        if importlib.util.find_spec(module):
            readers[name] = read
        else:
            result.left_out[name] = f"{module} is not installed"
    if "GDAL vsicurl" not in readers:
        return result  # it writes the file
    path, latency = cog(scenario, setting.folder), scenario["latency_ms"] / 1e3
    import rasterio

    with rasterio.open(path) as file:
        expected = file.read()
    with serving(path.parent, latency) as root:
        url = f"{root}/{path.name}"
        for part, bounds in scenario["reads"].items():
            pick: Bounds = (slice(*bounds[0]), slice(*bounds[1]))
            contestants: dict[str, Callable[[], float]] = {}
            requests = {}
            for name, read in readers.items():
                before = count(root)
                if not np.array_equal(read(url, pick, setting.threads), expected[:, *pick]):
                    result.failed = f"{name} reads wrong values"
                requests[name] = count(root) - before
                contestants[name] = once(lambda read=read, pick=pick: read(url, pick, setting.threads))
            samples = in_turns(contestants, scenario["turns"])
            for name, taken in samples.items():
                note = f"{requests[name]} requests, {taken.best / latency:.2f} round trips"
                result.add(f"{name}, {part}", taken, bytes_out=expected[:, *pick].nbytes, note=note)
            ours = samples["penstock"].best
            if most := scenario["round_trips"].get(part):
                text = f"opening and reading {part}, in round trips"
                result.bars.append(Bar(text, ours / latency, most, at_least=False))
            others = {name: taken.best for name, taken in samples.items() if name != "penstock"}
            fastest = min(others, key=lambda name: others[name])
            text = f"{part}: penstock against {fastest}"
            result.bars.append(Bar(text, others[fastest] / ours, scenario["at_least_of_peers"], True, "x"))
    return result


def cog(scenario: dict, folder: Path) -> Path:
    """The scene in the layout of GDAL's own driver, with overviews."""
    import rasterio
    from rasterio.shutil import copy

    made = folder / f"{scenario['name']}_cog.tif"
    options = {"blocksize": scenario["tile"], "compress": scenario["compression"], "num_threads": "all_cpus"}
    copy(written(rasterio, scenario, folder), made, driver="COG", overview_resampling="nearest", **options)
    return made


def count(root: str) -> int:
    with urlopen(root + COUNT) as answer:
        return int(answer.read())


def penstock(url: str, pick: Bounds, threads: int) -> np.ndarray:
    import penstock as ps

    with ps.Context(threads=threads):
        return ps.open(url)[:, *pick]


def gdal(url: str, pick: Bounds, threads: int) -> np.ndarray:
    """Read with the settings that GDAL recommends for COGs, and without its cache from the last turn."""
    import rasterio
    from rasterio.windows import Window

    fresh = {"CPL_VSIL_CURL_NON_CACHED": f"/vsicurl/{url}", "GDAL_DISABLE_READDIR_ON_OPEN": "EMPTY_DIR"}
    advice = {"GDAL_HTTP_MERGE_CONSECUTIVE_RANGES": "YES", "GDAL_HTTP_MULTIRANGE": "YES", "VSI_CACHE": False}
    with rasterio.Env(**fresh, **advice), rasterio.open(url, num_threads=threads) as file:
        rows, columns = pick
        window = Window(columns.start, rows.start, columns.stop - columns.start, rows.stop - rows.start)
        made: np.ndarray = file.read(window=window)
        return made


def async_tiff(url: str, pick: Bounds, threads: int) -> np.ndarray:
    """Read tiles and move them to bands with NumPy, because it does not return arrays."""
    from async_tiff import TIFF
    from async_tiff.store import HTTPStore

    root, _, name = url.rpartition("/")

    async def read() -> np.ndarray:
        tiff = await TIFF.open(name, store=HTTPStore.from_url(root, client_options={"allow_http": True}))
        ifd: Any = tiff.ifds[0]
        rows, columns = pick
        high, wide, bands = ifd.tile_height, ifd.tile_width, ifd.samples_per_pixel
        places = [
            (x, y)
            for y in range(rows.start // high, -(-rows.stop // high))
            for x in range(columns.start // wide, -(-columns.stop // wide))
        ]
        tiles = await tiff.fetch_tiles(places, 0)
        decoded = await asyncio.gather(*(tile.decode() for tile in tiles))
        made = np.empty((bands, rows.stop - rows.start, columns.stop - columns.start), "u1")
        for (x, y), tile in zip(places, decoded, strict=True):
            values = np.asarray(tile).reshape(high, wide, bands)
            top, left = max(rows.start, y * high), max(columns.start, x * wide)
            bottom, right = min(rows.stop, (y + 1) * high), min(columns.stop, (x + 1) * wide)
            part = values[top - y * high : bottom - y * high, left - x * wide : right - x * wide]
            into = made[:, top - rows.start : bottom - rows.start, left - columns.start : right - columns.start]
            into[...] = np.moveaxis(part, -1, 0)
        return made

    return asyncio.run(read())


READERS: dict[str, tuple[str, Callable[[str, Bounds, int], np.ndarray]]] = {
    "penstock": ("penstock", penstock),
    "GDAL vsicurl": ("rasterio", gdal),
    "async-tiff": ("async_tiff", async_tiff),
}
