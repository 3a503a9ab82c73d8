"""The timeline of a profile as one HTML page: a lane for each worker, a colour for each stage."""

from __future__ import annotations

import html as _html
from pathlib import Path
from typing import Any

from penstock.core.errors import UnsupportedError
from penstock.core.sizes import counted

_COLOURS = {
    "plan": "#8a8f98",
    "index": "#b07cc6",
    "fetch": "#3f7fbf",
    "decode": "#d9822b",
    "scatter": "#3b9c6b",
    "fill": "#c9b458",
    "transfer": "#c05a7e",
    "encode": "#a8552a",
    "commit": "#2f4b7c",
    "compute": "#5b5ea6",
}
_WIDTH, _LANE, _LEFT, _TOP = 1200, 28, 84, 8
_MAX_BOXES = 20000
FIRST_STREAM = 1000
"""Workers from here on are streams of devices."""
_COPIES, _ENCODER, _FIRST_COMPUTE = FIRST_STREAM + 50, FIRST_STREAM + 60, FIRST_STREAM + 100

_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Penstock profile</title>
<style>
 body {{ font: 14px/1.4 system-ui, sans-serif; margin: 2em; color: #222; background: #fff }}
 pre {{ font: 13px/1.4 ui-monospace, monospace }} text {{ font-size: 12px; fill: #444 }}
 span.key {{ display: inline-block; margin-right: 1.2em }}
 span.key i {{ display: inline-block; width: .9em; height: .9em; margin-right: .4em; vertical-align: -.1em }}
</style>
<h1>Penstock profile</h1>
<p>{summary}</p>
<pre>{table}</pre>
<p>{legend}</p>
{svg}
<p>{note}</p>
</html>
"""


def html(report: dict[str, Any], table: str) -> str:
    """The page; it needs no other file."""
    events, shown = _shown(report)
    first, last = _extent(events)
    workers = sorted({e["worker"] for e in events})
    stages = [name for name in _COLOURS if any(e["what"] == name for e in events)]
    legend = "".join(f'<span class="key"><i style="background:{_COLOURS[s]}"></i>{s}</span>' for s in stages)
    note = f"Hover over a box for its bytes. {counted(len(events), 'event')}"
    note += f", neighbours merged to {len(shown)} boxes." if len(shown) < len(events) else "."
    if report["dropped_events"]:
        note += f" {report['dropped_events']} later events were dropped."
    summary = f"{counted(report['reads'], 'read')}, {counted(report['writes'], 'write')}, "
    summary += f"{counted(report['workers'], 'worker')}, "
    summary += f"{(last - first) / 1e6:.3f} ms."
    return _PAGE.format(
        summary=summary,
        table=_html.escape(table),
        legend=legend,
        svg=_svg(shown, workers, first, last),
        note=note,
    )


def _merge(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Fewer boxes: adjacent ones of one worker and stage are merged, with a growing gap allowed, until they are few."""
    gap = 0
    span = max((e["end_ns"] for e in events), default=0) - min((e["begin_ns"] for e in events), default=0)
    boxes = events
    while len(boxes) > _MAX_BOXES:
        gap = max(1, gap * 2, span // (8 * _MAX_BOXES))
        open_boxes: dict[tuple[int, str], dict[str, Any]] = {}
        boxes = []
        for event in events:
            key = (event["worker"], event["what"])
            box = open_boxes.get(key)
            if box is not None and event["begin_ns"] - box["end_ns"] <= gap:
                box["end_ns"] = max(box["end_ns"], event["end_ns"])
                box["bytes_in"] += event["bytes_in"]
                box["bytes_out"] += event["bytes_out"]
            else:
                open_boxes[key] = dict(event)
                boxes.append(open_boxes[key])
    return boxes


def lane_name(worker: int) -> str:
    """The owner of a lane: a worker of the host, or a stream of a device."""
    if worker < FIRST_STREAM:
        return f"worker {worker}"
    if worker < _COPIES:
        return f"stream {worker - FIRST_STREAM}"
    if _ENCODER <= worker < _FIRST_COMPUTE:
        return "encoder" if worker == _ENCODER else "encoder's copies"
    return "copies" if worker < _FIRST_COMPUTE else f"compute {worker - _FIRST_COMPUTE}"


def picture(target: Path, report: dict[str, Any], table: str) -> None:
    """The timeline as a picture in a format of matplotlib; the table is below it."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
        from matplotlib.patches import Patch
    except ImportError as error:
        raise UnsupportedError(
            f"a profile as {target.suffix} needs the package matplotlib ({error}); .html needs nothing",
        ) from error
    events, shown = _shown(report)
    first, last = _extent(events)
    workers = sorted({e["worker"] for e in events})
    lines = table.count("\n") + 1
    lanes, words = max(1, len(workers)) * 0.32, lines * 0.17
    height = lanes + words + 1.3
    figure = Figure(figsize=(11, height))
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0.08, (words + 0.75) / height, 0.9, lanes / height))
    for lane, worker in enumerate(workers):
        for stage, colour in _COLOURS.items():
            boxes = [b for b in shown if b["worker"] == worker and b["what"] == stage]
            spans = [((b["begin_ns"] - first) / 1e6, (b["end_ns"] - b["begin_ns"]) / 1e6) for b in boxes]
            if spans:
                axes.broken_barh(spans, (lane - 0.4, 0.8), facecolors=colour, linewidth=0)
    axes.set_xlim(0, (last - first) / 1e6)
    axes.set_ylim(max(1, len(workers)) - 0.5, -0.5)
    axes.set_yticks(range(len(workers)), [lane_name(worker) for worker in workers])
    axes.set_xlabel("ms")
    keys = [Patch(color=_COLOURS[stage], label=stage) for stage in _COLOURS if any(e["what"] == stage for e in events)]
    if keys:
        figure.legend(handles=keys, loc="upper center", ncols=len(keys), frameon=False)
    figure.text(0.02, 0.1 / height, table, family="monospace", fontsize=8, va="bottom")
    figure.savefig(target, dpi=160)


def _shown(report: dict[str, Any]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The events with a duration, in order, and the boxes that are drawn for them."""
    events = sorted((e for e in report["events"] if e["end_ns"] > e["begin_ns"]), key=lambda e: e["begin_ns"])
    return events, _merge(events)


def _extent(events: list[dict[str, Any]]) -> tuple[int, int]:
    first = min((e["begin_ns"] for e in events), default=0)
    return first, max((e["end_ns"] for e in events), default=first + 1)


def _svg(boxes: list[dict[str, Any]], workers: list[int], first: int, last: int) -> str:
    height = _TOP + _LANE * max(1, len(workers)) + 24
    lane_of = {worker: lane for lane, worker in enumerate(workers)}
    scale = (_WIDTH - _LEFT - 8) / max(1, last - first)
    parts = [f'<svg viewBox="0 0 {_WIDTH} {height}" width="100%" role="img" aria-label="timeline of the workers">']
    for worker, lane in lane_of.items():
        y = _TOP + lane * _LANE
        parts.append(f'<text x="4" y="{y + 17}">{lane_name(worker)}</text>')
        parts.append(f'<rect x="{_LEFT}" y="{y}" width="{_WIDTH - _LEFT - 8}" height="{_LANE - 4}" fill="#f3f4f6"/>')
    for box in boxes:
        x = _LEFT + (box["begin_ns"] - first) * scale
        width = max(0.3, (box["end_ns"] - box["begin_ns"]) * scale)
        y = _TOP + lane_of[box["worker"]] * _LANE
        milliseconds = (box["end_ns"] - box["begin_ns"]) / 1e6
        sizes = f"{counted(box['bytes_in'], 'byte')} in, {counted(box['bytes_out'], 'byte')} out"
        title = f"{box['what']} {milliseconds:.3f} ms, {sizes}"
        colour = _COLOURS.get(box["what"], "#000")
        parts.append(
            f'<rect x="{x:.2f}" y="{y}" width="{width:.2f}" height="{_LANE - 4}" fill="{colour}">'
            f"<title>{title}</title></rect>"
        )
    axis = _TOP + _LANE * max(1, len(workers)) + 14
    for tick in range(6):
        x = _LEFT + tick * (_WIDTH - _LEFT - 8) / 5
        anchor = "start" if tick == 0 else "end" if tick == 5 else "middle"
        parts.append(f'<text x="{x:.1f}" y="{axis}" text-anchor="{anchor}">{(last - first) * tick / 5e6:.2f} ms</text>')
    parts.append("</svg>")
    return "\n".join(parts)
