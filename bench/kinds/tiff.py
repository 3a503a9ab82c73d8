"""GeoTIFFs: compared with GDAL (both of its drivers) and tifffile, and with the compression's library alone.

The ceiling is the compression's library, the predictor and the move of pixels to bands in plain loops, into warm
memory. The time of the library alone is reported next to it. LZW has no library: its ceiling is a look-up and a copy
for each code, with codes that were extracted before.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
from harness.result import Bar, Result
from harness.setting import Setting
from harness.timing import in_turns, once, paired
from penstock.view.demo.benchmark_array import EncodedChunk

from kinds.memory import probe

WINDOW = 256
ALONE = {"inflate_tiles": "inflate_plain", "decode_tiles": "decode", "lzw_tiles": "lzw"}


def run(scenario: dict, setting: Setting) -> Result:
    result = Result(scenario["name"], scenario["title"])
    try:
        import rasterio
    except ImportError:
        result.left_out["GDAL"] = "rasterio is not installed"
        return result
    warnings.simplefilter("ignore", rasterio.errors.NotGeoreferencedWarning)
    path = written(rasterio, scenario, setting.folder)
    if scenario["work"] == "memory":
        return memory(scenario, setting, result, path)
    works = {
        "whole": whole,
        "window": window,
        "window_opened": window,
        "window_again": window,
        "window_opened_again": window,
        "window_patches": window,
        "open": open_all,
    }
    contestants = works[scenario["work"]](scenario, setting, result, path)
    if result.failed:
        return result
    limit = scenario.get("ceiling")
    if limit is None:
        samples = in_turns(contestants, scenario["turns"])
    else:
        with setting.ceiling(tiles_of(path, scenario)) as ceiling:
            ceiling.tiles(*geometry(scenario))
            alone = ALONE[limit]
            contestants[f"ceiling {limit}"] = lambda: ceiling.measure(limit).seconds
            contestants[f"ceiling {alone}"] = lambda: ceiling.measure(alone).seconds
            samples = in_turns(contestants, scenario["turns"])
        for each in (limit, alone):
            result.ceilings[f"{each}_s"] = samples[f"ceiling {each}"].best
    taken = bytes_of(scenario)
    for name, sample in samples.items():
        if not name.startswith("ceiling "):
            row = result.add(name, sample, bytes_out=taken) if taken else result.add(name, sample)
            if limit:
                row.fraction_of_ceiling = paired(sample, samples[f"ceiling {limit}"])
    peers = [name for name in samples if name != "penstock" and not name.startswith("ceiling ")]
    best = min(peers, key=lambda name: samples[name].best)
    ratio = samples[best].best / samples["penstock"].best
    result.bars.append(Bar(f"penstock against {best}, best runs", ratio, scenario["at_least_of_peers"], True, "x"))
    if limit and "at_least_of_ceiling" in scenario:
        fraction = paired(samples["penstock"], samples[f"ceiling {limit}"])
        text = f"penstock against {limit} alone, median of turns"
        result.bars.append(Bar(text, fraction, scenario["at_least_of_ceiling"], True, "x"))
    return result


def memory(scenario: dict, setting: Setting, result: Result, path: Path) -> Result:
    """Peak memory beyond the result, with each reader in a separate process."""
    for name in ("penstock", "GDAL GTiff"):
        found = probe("tiff", name, str(setting.threads), str(path), timeout=scenario["timeout_s"])
        if "error" in found:
            result.failed = f"{name}: {found['error']}"
            return result
        result.add_row(name).peak_bytes = found["peak_bytes"]
        if name == "penstock":
            mib = found["peak_bytes"] / 2**20
            result.bars.append(Bar("Penstock's peak beyond the result", mib, scenario["at_most_mib"], False, "MiB"))
    return result


def geometry(scenario: dict) -> tuple[int, ...]:
    bands, height, width = scenario["shape"]
    item = np.dtype(scenario["dtype"]).itemsize
    return scenario["tile"], scenario["tile"], bands, item, scenario["predictor"], width, height


def bytes_of(scenario: dict) -> int:
    bands, height, width = scenario["shape"]
    item = np.dtype(scenario["dtype"]).itemsize
    if scenario["work"] == "whole":
        return int(bands * height * width * item)
    return 0 if scenario["work"] == "open" else int(scenario["windows"] * bands * WINDOW * WINDOW * item)


def whole(scenario: dict, setting: Setting, result: Result, path: Path) -> dict[str, Callable[[], float]]:
    import rasterio

    array = ps.open(path, context=ps.Context(threads=setting.threads))
    out, theirs = np.empty(array.shape, array.dtype), np.empty(array.shape, array.dtype)

    def gdal(driver: str) -> Callable[[], None]:
        def work() -> None:  # opened again, without its cache from the last turn
            with rasterio.open(path, driver=driver, num_threads=setting.threads) as file:
                file.read(out=theirs)

        return work

    contestants = {"penstock": once(lambda: array.read(out=out))}
    drivers = {"GDAL GTiff": "GTiff", "GDAL LIBERTIFF": "LIBERTIFF"}
    for name, driver in drivers.items():
        try:
            gdal(driver)()
        except rasterio.errors.RasterioError as error:
            result.left_out[name] = str(error)
            continue
        array.read(out=out)
        if not np.array_equal(out, theirs):
            result.failed = f"penstock and {name} read different values"
            return {}
        contestants[name] = once(gdal(driver))
    try:
        import imagecodecs  # noqa: F401
        import tifffile
    except ImportError:
        result.left_out["tifffile"] = "tifffile or imagecodecs is not installed"
    else:
        contestants["tifffile"] = once(lambda: tifffile.imread(path, maxworkers=setting.threads))
    return contestants


def window(scenario: dict, setting: Setting, result: Result, path: Path) -> dict[str, Callable[[], float]]:
    """Windows that were not read before: at other positions in each turn, the same for all readers within it. Or
    windows that both readers have read before and may have cached. Or patches at random positions, other ones in each
    turn, of a file that stays open.

    Results cached in an earlier turn would not be reads: GDAL caches the decoded tiles of an open file, which is opened
    again before the clock starts, Penstock those of a context, which is cleared. Windows of one turn may share tiles,
    each of which GDAL decodes once while the file is open.
    """
    import rasterio
    from rasterio.windows import Window

    context = ps.Context(threads=setting.threads)
    _, height, width = scenario["shape"]
    opened = scenario["work"].startswith("window_opened")

    def places(turn: int) -> list[tuple[int, int]]:
        corners = np.random.default_rng(turn).integers(0, (height - WINDOW, width - WINDOW), (scenario["windows"], 2))
        return [(int(y), int(x)) for y, x in corners]

    def anew() -> Any:
        context.clear()
        return ps.open(path, context=context)

    def ours(where: list[tuple[int, int]], array: Any) -> list[np.ndarray]:
        read = []
        for y, x in where:
            a = ps.open(path, context=context) if opened else array
            read.append(a[:, y : y + WINDOW, x : x + WINDOW])
        return read

    def gdal(where: list[tuple[int, int]], file: Any) -> list[np.ndarray]:
        read = []
        for y, x in where:
            if opened:
                with rasterio.open(path) as file:
                    read.append(file.read(window=Window(x, y, WINDOW, WINDOW)))
            else:
                read.append(file.read(window=Window(x, y, WINDOW, WINDOW)))
        return read

    def timed(work: Callable[..., Any], opener: Callable[[], Any]) -> Callable[[], float]:
        turns = itertools.count(2)

        def turn() -> float:
            where, file = places(next(turns)), opener()
            seconds = once(lambda: work(where, file))()
            if hasattr(file, "close"):
                file.close()
            return seconds

        return turn

    with rasterio.open(path) as file:
        if not all(map(np.array_equal, ours(places(1), ps.open(path, context=context)), gdal(places(1), file))):
            result.failed = "penstock and GDAL read different values"
    if scenario["work"].endswith(("_again", "_patches")):
        mine, theirs = ps.open(path, context=context), rasterio.open(path)

        def kept(work: Callable[..., Any], file: Any) -> Callable[[], float]:
            turns = itertools.count(2) if scenario["work"].endswith("_patches") else itertools.repeat(1)

            def turn() -> float:
                where = places(next(turns))
                return once(lambda: work(where, file))()

            for _ in range(3):
                turn()
            return turn

        return {"penstock": kept(ours, mine), "GDAL GTiff": kept(gdal, theirs)}
    return {
        "penstock": timed(ours, anew),
        "GDAL GTiff": timed(gdal, lambda: rasterio.open(path)),
    }


def open_all(scenario: dict, setting: Setting, result: Result, path: Path) -> dict[str, Callable[[], float]]:
    import rasterio

    data = path.read_bytes()
    files = [path.with_name(f"{scenario['name']}_{i}.tif") for i in range(scenario["files"])]
    for file in files:
        file.write_bytes(data)

    def ours() -> list[Any]:
        found = []
        for file in files:
            a = ps.open(file)
            found.append((a.shape[::-1][:2], a.dtype, a.epsg, tuple(a.transform)[:6], a.nodata))
        return found

    def gdal() -> list[Any]:
        found = []
        for file in files:
            with rasterio.open(file) as f:
                kind = np.dtype(f.dtypes[0])
                found.append(((f.width, f.height), kind, f.crs.to_epsg(), tuple(f.transform)[:6], f.nodata))
        return found

    if ours() != gdal():
        result.failed = "penstock and GDAL say different things"
    contestants = {"penstock": once(ours), "GDAL GTiff": once(gdal)}
    try:
        import tifffile
    except ImportError:
        result.left_out["tifffile"] = "it is not installed"
        return contestants

    def pages() -> list[Any]:
        found = []
        for file in files:
            with tifffile.TiffFile(file) as f:
                found.append((f.pages[0].shape, f.pages[0].geotiff_tags))
        return found

    contestants["tifffile"] = once(pages)
    return contestants


def tiles_of(path: Path, scenario: dict) -> list[EncodedChunk]:
    import tifffile

    with tifffile.TiffFile(path) as file:
        page = file.pages[0]
        decoded = page.tilewidth * page.tilelength * page.samplesperpixel * page.dtype.itemsize
        return [
            EncodedChunk(path, offset, count, decoded)
            for offset, count in zip(page.dataoffsets, page.databytecounts, strict=True)
        ]


def written(rasterio: Any, scenario: dict, folder: Path) -> Path:
    """A scene like a photograph: smooth, with noise in the low bits."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{scenario['name']}.tif"
    bands, height, width = scenario["shape"]
    dtype = np.dtype(scenario["dtype"])
    rng = np.random.default_rng(0)
    options = {"driver": "GTiff", "width": width, "height": height, "count": bands, "dtype": dtype.name}
    options |= {"tiled": True, "blockxsize": scenario["tile"], "blockysize": scenario["tile"], "interleave": "pixel"}
    options |= {"compress": scenario["compression"], "predictor": scenario["predictor"], "num_threads": "all_cpus"}
    if scenario["predictor"] == 1:
        del options["predictor"]
    options |= {"crs": "EPSG:32633", "transform": rasterio.Affine(10, 0, 500000, 0, -10, 4600000)}
    with rasterio.open(path, "w", **options) as file:
        step = scenario["tile"]
        x = np.arange(width)
        for top in range(0, height, step):
            y = np.arange(top, min(top + step, height))[:, None]
            for band in range(bands):
                smooth = 100 + 60 * np.sin(x / (190 + 40 * band)) * np.cos(y / 230) + rng.normal(0, 2, (len(y), width))
                scaled = smooth * (200 if dtype == np.uint16 else 1)
                values = np.round(scaled, 2) if dtype.kind == "f" else scaled.clip(0, np.iinfo(dtype).max)
                window = rasterio.windows.Window(0, top, width, len(y))
                file.write(values.astype(dtype), band + 1, window=window)
    return path
