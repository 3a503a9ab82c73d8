"""Draws the README's pictures and writes docs/speed.md: from a result file, and copies of the demo's pictures.

bench/report.py                                     # the newest file in results/
bench/report.py bench/results/FILE.json --output docs/img
bench/report.py --demo build/demo                   # also take the demo's pictures
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from pathlib import Path

import matplotlib.pyplot as plt
from penstock.view.demo import charts
from penstock.view.demo.charts import Bar

BENCH = Path(__file__).resolve().parent
ROOT = BENCH.parent
DEMO_PICTURES = ("timeline.png", "peers.png")
# The sections of docs/speed.md: name, title, prefixes of scenarios' names. The first that matches counts.
GROUPS = (
    ("first", "First and repeated reads", ("first_read",)),  # it has its own section
    ("remote", "Over HTTP", ("http_", "tiff_http", "remote_", "disk_cache", "latency")),
    ("zarr_python", "Under zarr-python", ("zarr_",)),
    ("tiff", "TIFF and COG", ("tiff_",)),
    ("hdf5", "HDF5", ("hdf5_one", "hdf5_gzip", "hdf5_raw")),
    ("files", "Many files, npy and Parquet", ("npy_", "parquet_", "shards_", "joined_", "virtual_", "hdf5_shards")),
    ("writing", "Writing and rechunking", ("write_", "replace_", "overwrite_", "appender", "rechunk")),
    ("training", "Training", ("loader",)),
    ("zarr", "Zarr", ("",)),
)
SECTIONS = ("zarr", "writing", "zarr_python", "tiff", "hdf5", "files", "training", "remote")
PEERS = (
    *("zarr", "tensorstore", "GDAL", "h5py", "async-tiff", "tifffile", "pyarrow", "np.load"),
    *("insitubatch", "xbatcher", "cubed", "obstore"),
)


def newest(folder: Path) -> Path:
    """The result with the latest date in it: all files of a checkout have the same age."""
    found = sorted(folder.glob("*.json"), key=lambda path: json.loads(path.read_text())["date"])
    if not found:
        raise FileNotFoundError(f"no result in {folder}: run `make bench`")
    return found[-1]


def rows_of(document: dict, scenario: str) -> dict[str, dict]:
    """The rows of a scenario by reader; empty if it did not run."""
    for result in document["results"]:
        if result["scenario"] == scenario and not result["failed"]:
            return {row["who"]: row for row in result["rows"]}
    return {}


def ceiling_of(document: dict, scenario: str, name: str) -> float | None:
    for result in document["results"]:
        if result["scenario"] == scenario:
            return result["ceilings"].get(name)
    return None


def throughput(document: dict) -> tuple[list[Bar], float | None]:
    """Whole reads, fastest first, as fractions of the ceiling of their own run on a common scale."""
    whole = rows_of(document, "peers_whole")
    rows = [
        Bar("Penstock" if who == "penstock a[:]" else who, row["bytes_per_s"] / 1e9, ours=who.startswith("penstock"))
        for who, row in whole.items()
    ]
    limit = ceiling_of(document, "peers_whole", "decode")
    return sorted(rows, key=lambda row: -row.value), limit / 1e9 if limit else None


def latency(document: dict) -> tuple[list[Bar], float | None]:
    """One small chunk from memory, in microseconds, fastest first."""
    rows = []
    for who, row in rows_of(document, "one_chunk_memory").items():
        rows.append(Bar("Penstock" if who == "penstock" else who, row["best_s"] * 1e6, ours=who == "penstock"))
    native = rows_of(document, "one_chunk_cpp").get("penstock")
    if native:
        rows.append(Bar("Penstock, C++", native["best_s"] * 1e6, ours=True))
    codec = ceiling_of(document, "one_chunk_memory", "codec_s")
    return sorted(rows, key=lambda row: row.value), codec * 1e6 if codec else None


def draw_speed(document: dict, path: Path) -> None:
    whole, limit = throughput(document)
    small, codec = latency(document)
    if not whole and not small:
        raise ValueError("the result holds neither whole reads nor small ones")
    figure, (left, right) = plt.subplots(1, 2, figsize=(12.4, 3.9), layout="constrained")
    if whole:
        charts.bars(left, whole, "GB/s", lines=[("libzstd alone", limit)] if limit else [])
    left.set_title("The whole benchmark array, a[:]\n", fontsize=10.5)
    left.set_xlabel("decoded bytes per second (GB/s), higher is better")
    if small:
        charts.bars(right, small, "µs", lines=[("libzstd alone", codec)] if codec else [], log=True)
    right.set_title("One 8 KiB chunk from memory\n", fontsize=10.5)
    right.set_xlabel("microseconds (logarithmic), lower is better")
    machine = document["machine"]
    packages = machine["packages"]
    versions = ", ".join(f"{name} {packages[name]}" for name in ("zarr", "zarrs", "tensorstore"))
    charts.caption(
        figure,
        f"{machine['processor']}; {document['threads']} threads each; all in turns in one run, best of each; "
        f"{versions}; commit {document['commit']}, {document['date'][:10]}",
    )
    charts.save(figure, path)


def draw_first_reads(document: dict, path: Path) -> None:
    """First and repeated reads, of real data and of consecutive numbers: GB/s of each library."""
    rows = rows_of(document, "first_read")
    figure, panels = plt.subplots(2, 2, figsize=(12.4, 4.6), layout="constrained", sharex="row")
    for axes, (data, when) in zip(panels.flat, FIRST_PANELS, strict=True):
        found = {who.split(":")[0]: row for who, row in rows.items() if who.endswith(f": {data}, {when}")}
        bars = [
            Bar("Penstock" if who == "penstock" else who, row["bytes_per_s"] / 1e9, ours=who == "penstock")
            for who, row in found.items()
        ]
        charts.bars(axes, sorted(bars, key=lambda bar: -bar.value), "GB/s")
        axes.set_title(FIRST_PANELS[data, when], fontsize=10.5)
    for axes in panels[1]:
        axes.set_xlabel("decoded bytes per second (GB/s), higher is better")
    charts.caption(figure, first_reads_caption(document))
    charts.save(figure, path)


FIRST_PANELS = {
    ("terrain", "first"): "Real terrain: first read of a process, with opening",
    ("terrain", "repeated"): "Real terrain: repeated reads",
    ("counting", "first"): "0, 1, 2, ...: first read of a process, with opening",
    ("counting", "repeated"): "0, 1, 2, ...: repeated reads",
}


def first_reads_caption(document: dict) -> str:
    machine = document["machine"]
    packages = machine["packages"]
    versions = ", ".join(f"{name} {packages[name]}" for name in ("zarr", "zarrs", "tensorstore"))
    return (
        f"{machine['processor']}; {document['threads']} threads each, in turns, best of each; "
        f"{versions}; commit {document['commit']}, {document['date'][:10]}"
    )


def first_reads_section(document: dict) -> list[str]:
    """The section of docs/speed.md about first and repeated reads."""
    (result,) = (each for each in document["results"] if each["scenario"] == "first_read")
    title, found = result["title"], [(result, bar) for bar in result["bars"]]
    return [
        "",
        "## First and repeated reads, real and counted data",
        "",
        "![GB/s of each library, for first and repeated reads of two arrays](img/speed_first.png)",
        "",
        f"{title[0].upper()}{title[1:]}, in chunks of 256 x 256 and shards. A first read",
        "is that of a new process: it opens the array and reads all of it into fresh memory; imports are not counted.",
        "Numbers that are counted up compress and decode in another way than real data, so both are shown.",
        "",
        " ".join((f"{first_reads_caption(document)}.", *(f"{note[0].upper()}{note[1:]}." for note in result["notes"]))),
        "",
        f'<details markdown="1"><summary>All {len(found)} rows</summary>',
        "",
        "| work | measured | target | |",
        "| --- | --- | --- | --- |",
        *[row.replace(f"| {title}: ", "| ") for row in table_rows(found)],
        "",
        "</details>",
    ]


def number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def section_of(scenario: str) -> str:
    return next(name for name, _, begins in GROUPS if scenario.startswith(begins))


def bars_of(document: dict, section: str) -> list[tuple[dict, dict]]:
    """(scenario's result, bar) of a section, in the order of the document."""
    of = [result for result in document["results"] if section_of(result["scenario"]) == section]
    return [(result, bar) for result in of for bar in result["bars"]]


def against_peers(document: dict, section: str) -> list[tuple[dict, dict]]:
    """The rows of a picture: speed relative to other libraries. The plug-in's rows are only in the table."""
    found = []
    for result, bar in bars_of(document, section):
        _, against, peer = bar["text"].partition(" against ")
        if bar["unit"] == "x" and against and any(name in peer for name in PEERS) and "plug-in" not in bar["text"]:
            found.append((result, bar))
    return found


def draw_section(document: dict, section: str, path: Path) -> bool:
    """Draw the ratios of a section on a logarithmic axis, with a mark for each target. False if it has none."""
    rows = against_peers(document, section)
    if not rows:
        return False
    figure, axes = plt.subplots(figsize=(9.6, 0.8 + 0.42 * len(rows)), layout="constrained")
    for place, (result, bar) in enumerate(reversed(rows)):
        colour = charts.OURS if bar["passed"] else charts.THEIRS
        axes.barh(place, bar["value"] - 1, left=1, height=0.4, color=colour)
        axes.plot([bar["limit"]] * 2, [place - 0.26, place + 0.26], color=charts.CEILING, linewidth=1.6)
        end = max(bar["value"], bar["limit"], 1) * 1.03
        axes.text(end, place, f"{number(bar['value'])} x", va="center", fontsize=9)
        label = f"{result['title']}: {bar['text'].removesuffix(', best runs')}"
        axes.text(1, place + 0.28, label, va="bottom", fontsize=8, color=charts.QUIET)
    axes.set_xscale("log")
    axes.set_ylim(-0.6, len(rows) - 0.2)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g} x")
    axes.xaxis.set_minor_formatter("")
    axes.axvline(1, color=charts.QUIET, linewidth=0.8)
    highest = max(max(bar["value"], bar["limit"]) for _, bar in rows)
    axes.set_xlim(min(0.8, *(bar["value"] * 0.9 for _, bar in rows)), max(highest * 1.3, 8))
    axes.set_xlabel("times as fast as the other library (logarithmic)")
    path.parent.mkdir(parents=True, exist_ok=True)
    with plt.rc_context({"svg.fonttype": "none"}):  # text instead of outlines: a tenth of the size
        figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
    return True


def speed_page(document: dict) -> str:
    """The text of docs/speed.md: every target, met or missed, and the reasons for missed ones."""
    machine, packages = document["machine"], document["machine"]["packages"]
    bars = [(result, bar) for result in document["results"] for bar in result["bars"]]
    met = sum(bar["passed"] for _, bar in bars)
    lines = [
        "# Measured speed",
        "",
        "`bench/report.py` writes this page from the newest file in [bench/results](../bench/results). Each row is a",
        "ratio, or a difference, of what was measured in turns in one run; [bench/](../bench/README.md) describes how.",
        "A target is what we set out to reach. Results of other machines differ: `make bench` measures yours.",
        "",
        f"{machine['processor']}; {document['threads']} threads each; commit {document['commit']}, "
        f"{document['date'][:10]}; {met} of {len(bars)} targets met.",
        "",
        ", ".join(f"{name} {version}" for name, version in sorted(packages.items()) if version) + ".",
        "",
        "Pictures show the rows that compare with other libraries. The red mark is the target; a gray row missed it.",
    ]
    lines += first_reads_section(document)
    missed: dict[str, str] = {}
    titles = {name: title for name, title, _ in GROUPS}
    for section in SECTIONS:
        found = bars_of(document, section)
        if not found:
            continue
        lines += ["", f"## {titles[section]}", ""]
        if against_peers(document, section):
            lines += [f"![{titles[section]}: times as fast as other libraries](img/speed_{section}.svg)", ""]
        # Closed at first, so that the pictures are seen together. GitHub shows this element too.
        lines += [f'<details markdown="1"><summary>All {len(found)} rows</summary>', ""]
        lines += ["| work | measured | target | |", "| --- | --- | --- | --- |"]
        lines += [*table_rows(found), "", "</details>"]
        missed |= {result["scenario"]: result["title"] for result, bar in found if not bar["passed"]}
    failed = [result for result in document["results"] if result["failed"]]
    if failed:
        lines += ["", "## What did not run", ""]
        lines += [f"- {result['title']}: {result['failed']}" for result in failed]
    if missed:
        lines += ["", "## Missed targets, and why", ""]
    for scenario, title in missed.items():
        known = json.loads((BENCH / "scenarios" / f"{scenario}.json").read_text())
        lines.append(f"- **{title}**: {known.get('if_missed', 'not explained yet.')}")
    return "\n".join(lines) + "\n"


def table_rows(bars: list[tuple[dict, dict]]) -> list[str]:
    lines = []
    for result, bar in bars:
        unit = f" {bar['unit']}".rstrip().replace(" us", " µs")
        sign = "≥" if bar["at_least"] else "≤"
        outcome = "" if bar["passed"] else "missed"
        measured, limit = f"{number(bar['value'])}{unit}", f"{sign} {number(bar['limit'])}"
        lines.append(f"| {result['title']}: {bar['text']} | {measured} | {limit} | {outcome} |")
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("result", nargs="?", type=Path, help="default: the newest in bench/results")
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "img")
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "speed.md")
    parser.add_argument("--demo", type=Path, help="folder of the demo's pictures, to be copied as demo_*.png")
    options = parser.parse_args()
    document = json.loads((options.result or newest(BENCH / "results")).read_text())
    draw_speed(document, options.output / "speed.png")
    print(options.output / "speed.png")
    draw_first_reads(document, options.output / "speed_first.png")
    print(options.output / "speed_first.png")
    for section in SECTIONS:
        if draw_section(document, section, options.output / f"speed_{section}.svg"):
            print(options.output / f"speed_{section}.svg")
    options.page.write_text(speed_page(document))
    print(options.page)
    if options.demo:
        for name in DEMO_PICTURES:
            shutil.copyfile(options.demo / name, options.output / f"demo_{name}")
            print(options.output / f"demo_{name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
