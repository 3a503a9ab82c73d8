"""How fast is it? Ceilings of the machine, arrays from the page cache to decoded device memory, and latency."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import penstock as ps

from bench.gpu import arrays, facts, implementations, measure
from bench.gpu.results import LeftOutError, say
from bench.gpu.run import GB, Row, Run

BAR_GB_S = {"benchmark": 100.0}


def rows(run: Run) -> Iterator[Row]:
    """Rows with bars come first, because writing the other arrays may take the rest of the step's time."""
    yield "ceilings", partial(ceilings, run)
    judged = [name for name in run.specs if name in BAR_GB_S]
    for name in judged:
        yield name, partial(array, run, name)
    for name, codecs in (("raw", []), ("lz4", ["numcodecs.lz4"])):
        yield f"ten chunks, {name}", partial(latency, run, name, codecs)
    for name in run.specs:
        if name not in judged:
            yield name, partial(array, run, name)
    for name, codecs in (("zstd", ["zstd"]), ("lz4", ["numcodecs.lz4"])):
        yield f"written, {name}", partial(written, run, name, codecs)
    for compress, predictor in (("deflate", 1), ("lzw", 2), ("deflate", 2)):
        yield f"TIFF, {compress}, predictor {predictor}", partial(tiff, run, compress, predictor)


def ceilings(run: Run) -> None:
    """Copies and the page cache, then at once the PCIe link and clocks: idle devices lower both."""
    size = 1 << 20 if run.small else 256 << 20
    rates = run.driver.copy_rates(size, 2 if run.small else 8)
    path = arrays.ensure(run.folder, next(iter(run.specs.values())))
    rates["pread"] = measure.pread_rate(arrays.files(path), run.options.threads)
    for name, each in rates.items():
        run.results.measured(name, each / GB, "GB/s")
    try:
        run.results.write("fact", under_load=facts.of_nvml())
    except OSError as error:
        run.results.left_out(f"clocks and PCIe link under load: {error}")


def ceiling(run: Run, name: str) -> float | None:
    """A rate in GB/s that `ceilings` measured, in this run or in an earlier one of these results."""
    return run.results.value("bars", "ceilings", name)


def limit_of(run: Run, ratio: float) -> float | None:
    """The decoded GB/s that the slower of the page cache and PCIe allows for data of this ratio."""
    known = [each for each in (ceiling(run, "to_device"), ceiling(run, "pread")) if each is not None]
    return ratio * min(known) if known else None


def array(run: Run, name: str) -> None:
    spec = run.specs[name]
    opened, context = run.open(name)
    path = arrays.path_of(run.folder, spec)
    grown = {"before": context.usage()["device_wave_bytes"]}
    measure.check(opened, spec)
    read = implementations.penstock_read(opened)
    warm = measure.best_of(run.turns, read, warm_ups=2)
    grown["after"] = context.usage()["device_wave_bytes"]  # it grows in the first reads, which wait for it
    ratio = arrays.ratio(path, spec)
    limit = limit_of(run, ratio)
    run.results.measured(
        "warm",
        spec.nbytes / warm["best_s"] / GB,
        "GB/s",
        limit=limit,
        bar=BAR_GB_S.get(name),
        ratio=ratio,
        nbytes=spec.nbytes,
        seconds=warm,
        device_wave_bytes=grown,
    )
    profile = measure.profiled(context, read)
    rates = {row: ceiling(run, each) for row, each in (("pread", "pread"), ("transfer", "to_device"))}
    profile.ceilings = {row: rate * GB for row, rate in rates.items() if rate is not None}
    stages = measure.stages(profile.report)
    table = profile.table().splitlines()
    run.results.write("found", title=spec.title, ratio=ratio, stages=stages, table=table)
    say(f"    {spec.title}: ratio {ratio:.2f}; a kernel runs {stages['kernel_share']:.0%} of the time")
    if name == "benchmark":
        say("    " + "\n    ".join(table))
        copies, most = stages["transfer"]["bytes_per_s_while_decoding"], ceiling(run, "to_device")
        if copies and most:
            run.results.measured("copies of the PCIe rate", copies / GB / most, "x", bar=0.9)
    if name == "benchmark_raw" and (whole := run.results.value("bars", "benchmark", "warm")):
        slower = warm["best_s"] / spec.nbytes * whole * GB
        run.results.write("found", uncompressed_takes=slower)
        say(f"    uncompressed takes {slower:.2f} times as long (published: about 2)")
    dropped = measure.best_of(1, read, lambda: arrays.drop_page_cache(path), warm_ups=0)
    run.results.measured("dropped page cache", spec.nbytes / dropped["best_s"] / GB, "GB/s", limit=limit)
    if name == "benchmark":
        run.draw(profile, spec.title)


def latency(run: Run, name: str, codecs: list[Any]) -> None:
    """Ten chunks of 8 KiB from the page cache until the device is done."""
    values = (np.arange(10 * 2048) // 16).astype("i4")
    uri = run.folder / f"latency-{name}.zarr"
    shutil.rmtree(uri, ignore_errors=True)
    made = ps.create_array(str(uri), shape=values.shape, dtype="i4", chunks=(2048,), codecs=codecs)
    made[...] = values
    ratio = values.nbytes / sum(size for file, size in arrays.sizes(uri).items() if file != "zarr.json")
    opened = ps.open(str(uri), context=run.context())
    np.testing.assert_array_equal(opened.read(device="cuda").numpy(), values)
    best = measure.best_of(
        3 if run.small else 200, lambda: measure.timed(lambda: opened.read(device="cuda").synchronize())
    )
    run.results.measured("best", best["best_s"] * 1e6, "µs", ratio=ratio)
    run.results.measured("median", best["median_s"] * 1e6, "µs", bar=150, at_least=False, ratio=ratio)


def written(run: Run, name: str, codecs: list[Any]) -> None:
    """Values in device memory to files in the page cache, encoded by the device and by the host's cores."""
    chunk, chunks = (4096, 4) if run.small else (256_000, 256)
    values = arrays.rounded(chunk * chunks)
    folder = run.folder / f"written-{name}"
    shutil.rmtree(folder, ignore_errors=True)

    def create(title: str, with_codecs: list[Any]) -> Any:
        made = ps.create_array(
            str(folder / f"{title}.zarr"), shape=values.shape, dtype="f4", chunks=(chunk,), codecs=with_codecs
        )
        return ps.open(made.uri, mode="r+", context=run.context())

    source = create("source", [])
    source[...] = values
    tensor = source.read(device="cuda").synchronize()
    for encoder in ("device", "host"):
        to = create(encoder, codecs)
        best = measure.best_of(
            run.turns,
            lambda to=to, encoder=encoder: measure.timed(lambda: to.write(..., tensor, encoder=encoder)),
            None,
            1,
        )
        np.testing.assert_array_equal(to[...], values)
        stored = sum(size for file, size in arrays.sizes(folder / f"{encoder}.zarr").items() if file != "zarr.json")
        rate = values.nbytes / best["best_s"] / GB
        run.results.measured(f"encoded by the {encoder}", rate, "GB/s", ratio=values.nbytes / stored, seconds=best)
    shutil.rmtree(folder)


def tiff(run: Run, compress: str, predictor: int) -> None:
    """Whole images, from the page cache until the device is done: Penstock and nvTIFF on the same files."""
    side = 256 if run.small else 8192
    values = np.random.default_rng(5).integers(0, 9, (3, side, side)).cumsum(-1).astype("u1")
    path = run.folder / f"image-{compress}-{predictor}.tif"
    how = None if predictor == 1 else predictor
    run.folder.mkdir(parents=True, exist_ok=True)
    ps.save(path, values, compress=compress, predictor=how, tiles=256, overviews=None)
    opened = ps.open(path, layout="native", context=run.context())
    wanted = opened[...]
    np.testing.assert_array_equal(opened.read(device="cuda").numpy(), wanted)
    ours = measure.best_of(run.turns, implementations.penstock_read(opened))
    limit = limit_of(run, wanted.nbytes / path.stat().st_size)
    run.results.measured("penstock", wanted.nbytes / ours["best_s"] / GB, "GB/s", limit=limit)
    try:
        theirs = measure.best_of(run.turns, implementations.nvtiff(path, wanted, run.driver.synchronize))
    except implementations.Unavailable as why:
        raise LeftOutError(f"nvTIFF: {why}") from None
    run.results.measured("nvtiff", wanted.nbytes / theirs["best_s"] / GB, "GB/s", limit=limit)
    run.results.measured("of nvTIFF", theirs["best_s"] / ours["best_s"], "x")
