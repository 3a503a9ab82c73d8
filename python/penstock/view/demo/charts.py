"""The pictures of the demo and the README, drawn with matplotlib."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.collections import PolyCollection
from matplotlib.colors import LightSource, Normalize
from matplotlib.patches import Rectangle
from matplotlib.ticker import FuncFormatter

from penstock.view.timeline import lane_name

INK, QUIET, GRID = "#1f2933", "#66727f", "#dde3ea"
OURS, OURS_LIGHT, THEIRS, CEILING = "#0b7285", "#3bb2c4", "#b6c2cf", "#c92a2a"
STAGE_COLOURS = {
    "plan": "#868e96",
    "index": "#7048e8",
    "fetch": "#f08c00",
    "transfer": "#c05a7e",
    "decode": OURS,
    "scatter": "#74b816",
    "fill": "#adb5bd",
    "compute": "#5b5ea6",
}
STAGE_NAMES = {
    "index": "Read index",
    "fetch": "Read",
    "transfer": "Transfer",
    "decode": "Decode",
    "scatter": "Scatter",
    "plan": "Plan",
    "fill": "Fill",
    "compute": "Compute",
}

plt.rcParams.update(
    {
        "figure.facecolor": "white",
        "font.family": "DejaVu Sans",
        "font.size": 10,
        "text.color": INK,
        "axes.edgecolor": QUIET,
        "axes.labelcolor": INK,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.titlesize": 11,
        "axes.titleweight": "bold",
        "axes.titlelocation": "left",
        "xtick.color": QUIET,
        "ytick.color": INK,
        "svg.hashsalt": "penstock",  # the same drawing gives the same file
    }
)


@dataclass(frozen=True)
class Bar:
    label: str
    value: float
    ours: bool = False
    note: str = ""


def save(figure: Any, path: Path, *, photographic: bool = False) -> None:
    """As PNG, and, unless it is mostly pixels anyway, as SVG, too."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110 if photographic else 160, metadata={"Software": None})
    if not photographic:
        figure.savefig(path.with_suffix(".svg"), metadata={"Date": None})
    plt.close(figure)


def bars(
    axes: Any, rows: Sequence[Bar], unit: str, *, lines: Iterable[tuple[str, float]] = (), log: bool = False
) -> None:
    """Horizontal bars, first row on top, each with its value; `lines` are vertical marks such as a ceiling."""
    places = np.arange(len(rows))[::-1]
    colours = [OURS if row.ours else THEIRS for row in rows]
    axes.barh(places, [row.value for row in rows], color=colours, height=0.66, zorder=3)
    axes.set_yticks(places, [row.label for row in rows])
    for tick, row in zip(axes.get_yticklabels(), rows, strict=True):
        tick.set_fontweight("bold" if row.ours else "normal")
    largest = max([row.value for row in rows] + [value for _, value in lines])
    if log:
        axes.set_xscale("log")
        smallest = min([row.value for row in rows] + [value for _, value in lines])
        axes.set_xlim(smallest / 2.2, largest * 4)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    else:
        axes.set_xlim(0, largest * 1.2)
    for place, row in zip(places, rows, strict=True):
        text = f"{row.value:.2f}" if row.value < 10 else f"{row.value:,.0f}"
        axes.annotate(
            f"{text} {unit}" + (f"  {row.note}" if row.note else ""),
            (row.value, place),
            xytext=(5, 0),
            textcoords="offset points",
            va="center",
            fontsize=9,
            fontweight="bold" if row.ours else "normal",
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1, "alpha": 0.85},
            zorder=5,
        )
    for label, value in lines:
        axes.axvline(value, color=CEILING, linestyle=(0, (4, 3)), linewidth=1.4, zorder=4)
        axes.annotate(
            label,
            (value, len(rows) - 0.42),
            xytext=(0, 3),
            textcoords="offset points",
            color=CEILING,
            fontsize=9,
            ha="center" if not log else "left",
            va="bottom",
            annotation_clip=False,
        )
    axes.set_ylim(-0.6, len(rows) - 0.4)
    axes.grid(axis="x", color=GRID, zorder=0)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)


def peers(path: Path, rows: Sequence[Bar], ceiling: float | None, title: str, footnote: str) -> None:
    """Throughput compared with other libraries, in GB/s of decoded bytes."""
    figure, axes = plt.subplots(figsize=(8.6, 1.7 + 0.46 * len(rows)), layout="constrained")
    bars(axes, rows, "GB/s", lines=[("libzstd alone", ceiling)] if ceiling else [])
    axes.set_xlabel("decoded bytes per second (GB/s), higher is better")
    figure.suptitle(title, x=0.01, ha="left", fontweight="bold", fontsize=12)
    caption(figure, footnote)
    save(figure, path)


def timeline(path: Path, report: Mapping[str, Any], title: str, footnote: str) -> None:
    """The activity of each worker over time: the whole read above, a short part of it below."""
    events = [event for event in report["events"] if event["end_ns"] > event["begin_ns"]]
    if not events:
        raise ValueError("the profile has no events")
    start = min(event["begin_ns"] for event in events)
    stop = max(event["end_ns"] for event in events)
    workers = sorted({event["worker"] for event in events})
    decodes = sorted(event["end_ns"] - event["begin_ns"] for event in events if event["what"] == "decode")
    typical = decodes[len(decodes) // 2] if decodes else (stop - start) / 20
    window = min(stop - start, max(12 * typical, 1))
    middle = start + (stop - start) / 2 - window / 2

    figure, (whole, piece) = plt.subplots(
        2, 1, figsize=(10, 2.6 + 0.75 * len(workers)), layout="constrained", gridspec_kw={"hspace": 0.12}
    )
    for axes, begin, end, unit in ((whole, start, stop, 1e6), (piece, middle, middle + window, 1e6)):
        draw_events(axes, events, workers, start, unit, 0.0 if axes is whole else 0.5)
        axes.set_xlim((begin - start) / unit, (end - start) / unit)
        axes.set_yticks(range(len(workers)), [lane_name(worker) for worker in workers])
        axes.set_ylim(len(workers) - 0.45, -0.55)
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
        axes.set_xlabel("milliseconds since the read began")
    mark = ((middle - start) / 1e6, (middle + window - start) / 1e6)
    whole.plot(mark, (-0.5, -0.5), color=CEILING, linewidth=4, solid_capstyle="butt", clip_on=False, zorder=6)
    whole.set_title("The whole read", fontsize=10)
    piece.set_title(f"{window / 1e6:.1f} ms of it, at the red mark", fontsize=10)
    used = [what for what in STAGE_COLOURS if any(event["what"] == what for event in events)]
    handles = [Rectangle((0, 0), 1, 1, color=STAGE_COLOURS[what]) for what in used]
    figure.legend(
        handles,
        [STAGE_NAMES[what] for what in used],
        loc="outside upper right",
        ncols=len(used),
        frameon=False,
        fontsize=9,
        handlelength=1.2,
    )
    figure.suptitle(title, x=0.01, ha="left", fontweight="bold", fontsize=12)
    caption(figure, footnote)
    save(figure, path)


def draw_events(
    axes: Any, events: Sequence[Mapping[str, Any]], workers: Sequence[int], start: int, unit: float, edges: float
) -> None:
    rows = {worker: row for row, worker in enumerate(workers)}
    for what, colour in STAGE_COLOURS.items():
        boxes = []
        for event in events:
            if event["what"] == what:
                left, right = (event["begin_ns"] - start) / unit, (event["end_ns"] - start) / unit
                low, high = rows[event["worker"]] - 0.36, rows[event["worker"]] + 0.36
                boxes.append([(left, low), (right, low), (right, high), (left, high)])
        if boxes:
            axes.add_collection(
                PolyCollection(
                    boxes, facecolors=colour, edgecolors="white", linewidths=edges, zorder=3, rasterized=True
                )
            )


def elevation(path: Path, heights: np.ndarray[Any, Any], about: Mapping[str, Any], chunks: Sequence[int]) -> None:
    """A shaded relief map, with the borders of the chunks that it was read from."""
    west, east, south, north = about["west"], about["east"], about["south"], about["north"]
    rows, columns = heights.shape
    metres_per_degree = 111_200
    narrowing = float(np.cos(np.radians((north + south) / 2)))  # of a degree of longitude
    # The lowest third of the colours is sea.
    low, high = float(heights.min()) - 440, float(heights.max()) + 60
    shaded = LightSource(azdeg=315, altdeg=42).shade(
        heights.astype(float),
        cmap=matplotlib.colormaps["gist_earth"],
        blend_mode="soft",
        vert_exag=3,
        dx=metres_per_degree * narrowing * (east - west) / columns,
        dy=metres_per_degree * (north - south) / rows,
        vmin=low,
        vmax=high,
    )
    figure, axes = plt.subplots(figsize=(8.4, 6.9), layout="constrained")
    axes.imshow(shaded, extent=(west, east, south, north), aspect=1 / narrowing)
    for row in range(chunks[0], rows, chunks[0]):
        axes.axhline(north + (south - north) * row / rows, color="white", linewidth=0.5, alpha=0.45)
    for column in range(chunks[1], columns, chunks[1]):
        axes.axvline(west + (east - west) * column / columns, color="white", linewidth=0.5, alpha=0.45)
    bar = figure.colorbar(ScalarMappable(Normalize(low, high), "gist_earth"), ax=axes, shrink=0.8, pad=0.02)
    bar.ax.set_ylim(heights.min(), heights.max())
    bar.set_label("elevation (m)")
    bar.outline.set_visible(False)
    degrees = FuncFormatter(lambda value, _: f"{abs(value):.2f}°")
    axes.xaxis.set_major_formatter(degrees)
    axes.yaxis.set_major_formatter(degrees)
    axes.set_xlabel("longitude (° W)")
    axes.set_ylabel("latitude (° N)")
    figure.suptitle(about["title"], x=0.01, ha="left", fontweight="bold", fontsize=12)
    caption(figure, about["footnote"])
    save(figure, path, photographic=True)


def caption(figure: Any, text: str) -> None:
    figure.supxlabel(text, x=0.01, ha="left", fontsize=8, color=QUIET)
