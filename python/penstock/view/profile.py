"""Profiles: how the time of reads and writes was spent, as a table and as a timeline of the workers."""

from __future__ import annotations

import html
import json
import os
from pathlib import Path
from types import TracebackType
from typing import Any

from penstock import _core
from penstock.core.context import Context, current_context
from penstock.core.errors import InvalidArgumentError
from penstock.core.sizes import counted
from penstock.view import markup
from penstock.view import timeline as _timeline

# The rows of the table: a name, the engine's stages in it, and the ceiling for comparison.
_ROWS = (
    ("Read", ("index", "fetch"), "pread"),
    ("Transfer", ("transfer",), "transfer"),
    ("Decode", ("decode",), "decode"),
    ("Scatter", ("scatter", "fill"), "memcpy"),
    ("Compute", ("compute",), "compute"),
    ("Encode", ("encode",), "encode"),
    ("Write", ("commit",), "pwrite"),
)
_OF_WRITES = ("Encode", "Write")
_OF_DEVICES = ("Transfer", "Compute")
_OF_ENCODED = ("Read", "Transfer")


class Profile:
    """The activity of a context within `with ps.profile() as p:`. Made by `penstock.profile`; filled when the block
    ends.

    `report` is a dict: `wall_ns`, `workers`, `reads`, `writes`, `store_requests`, `store_bytes`, `stages` (a list,
    summed over workers) and `events` (each piece of work of each worker, in nanoseconds since the profile began). For
    devices, `kernels` (a list: `name`, `busy_ns`, `launches`) and `device`: the nanoseconds of `wall_ns` in which at
    least one kernel ran (`computing_ns`), at least one copy ran (`copying_ns`), or neither (`waiting_ns`: for storage,
    the host or the caller; `storage_ns` is the part of it in which the host was reading from storage). `devices` has
    the same for each device that had work, by its ordinal. Events that are dropped beyond `max_events` count in all
    sums.

    `ceilings` holds the limits of this machine, in bytes per second: `pread` and `pwrite` (raw), `decode` and `encode`
    (effective) and `memcpy`. `measure_ceiling` fills in `memcpy`; the others depend on the data, so the caller sets
    them.

    Examples
    --------
    >>> a = ps.create_array("a.zarr", data=np.ones((1000, 1000)), chunks=(100, 1000))
    >>> with ps.profile() as p:
    ...     x = a[:500]
    >>> p.report["reads"], p.report["store_requests"] > 0
    (1, True)
    >>> [row["name"] for row in p.rows()]
    ['Read', 'Decode', 'Scatter', 'Total']
    >>> print(p.table())
    Stage            ms   raw GB/s  eff. GB/s  of ceiling
    Read ...
    1 read, 0 writes, ...
    >>> p.measure_ceiling()
    >>> p.ceilings["memcpy"] > 1e8
    True
    >>> p.save("read.html")
    """

    def __init__(self, context: Context | None = None, *, ceiling: bool = False, max_events: int = 1 << 20) -> None:
        self._context = context
        self._used: Context | None = None
        self._measure = ceiling
        self._max_events = max_events
        self.report: dict[str, Any] = {}
        self.ceilings: dict[str, float] = {}

    def __enter__(self) -> Profile:
        self._used = current_context() if self._context is None else self._context
        self._used._start_profile(self._max_events)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._used is not None
        self.report = self._used._stop_profile()
        if self._measure:
            self.measure_ceiling()

    def measure_ceiling(self) -> None:
        """Measure how fast this machine copies mapped memory, with as many threads as the profile had (16 at most)."""
        workers = max(1, int(self._finished()["workers"]))
        self.ceilings["memcpy"] = _core.copy_rate(workers)

    def rows(self, by: str | None = None) -> list[dict[str, Any]]:
        """The table's rows: `name`, `ms`, `raw` and `effective` (bytes per second or None), `fraction` (or None).

        A stage's time is the busy time of its workers, divided by their number. A device's time is that in which at
        least one of its streams had such work, by its own events. Raw counts encoded bytes from and to storage,
        effective counts decoded bytes: for Read and Transfer those that their bytes decode to, for Write those that
        were encoded. Rows of writing are absent if nothing was written.

        Parameters
        ----------
        by
            None: all together. "read": these rows for each read or write, each with its number as `read`, in the order
            in which they began. If a device's wave has chunks of several reads, its time is divided among them by
            bytes. Events without a read (which `stream` began before the profile) belong to read 0.

        Returns
        -------
        list of dict
            One for each row.

        Raises
        ------
        InvalidArgumentError
            The block has not ended, `by` is not valid, or events were dropped.
        """
        report = self._finished()
        if by is None:
            return self._rows(report)
        if by != "read":
            raise InvalidArgumentError(f"by is None or 'read', not {by!r}")
        if report["dropped_events"]:
            raise InvalidArgumentError(f"{report['dropped_events']} events were dropped: raise max_events")
        return [{"read": number, **row} for number, part in _by_read(report) for row in self._rows(part)]

    def _rows(self, report: dict[str, Any]) -> list[dict[str, Any]]:
        stages = {stage["what"]: stage for stage in report["stages"]}
        workers = max(1, int(report["workers"]))
        rows = []
        # Bytes that are transferred decoded are not decoded again; raw elements leave the host unchanged.
        decoded = sum(int(stages.get(what, {}).get("bytes_out", 0)) for what in ("decode", "transfer"))
        changed = int(stages.get("encode", {}).get("bytes_in", 0))
        for name, parts, ceiling in _ROWS:
            here = [stages[part] for part in parts if part in stages]
            if name in _OF_DEVICES and not any(stage["operations"] for stage in here):
                continue
            if name in _OF_WRITES and not report["writes"]:
                continue
            seconds = _seconds(here, report, workers)
            bytes_in, bytes_out = (sum(stage[what] for stage in here) for what in ("bytes_in", "bytes_out"))
            if name in _OF_WRITES:
                encoded, made = bytes_out, changed
            else:
                encoded, made = bytes_in, decoded if name in _OF_ENCODED else bytes_out
            speed = encoded if name in (*_OF_ENCODED, "Write") else made
            rows.append(self._row(name, seconds, encoded if name != "Scatter" else 0, made, speed, ceiling))
        filled = stages.get("fill", {}).get("bytes_out", 0)
        wall = report["wall_ns"] / 1e9
        stored = stages.get("commit", {}).get("bytes_out", 0)
        moved = decoded + filled + changed
        limit = "encode" if report["writes"] and not report["reads"] else "decode"
        rows.append(self._row("Total", wall, report["store_bytes"] + stored, moved, moved, limit))
        return rows

    def _row(self, name: str, seconds: float, raw: int, effective: int, speed: int, ceiling: str) -> dict[str, Any]:
        limit = self.ceilings.get(ceiling)
        return {
            "name": name,
            "ms": seconds * 1e3,
            "raw": raw / seconds if seconds and raw else None,
            "effective": effective / seconds if seconds and effective else None,
            "fraction": speed / seconds / limit if seconds and limit else None,
            "ceiling": ceiling,
        }

    def table(self) -> str:
        """Return the table as text: Read / Decode / Scatter / Total: ms, raw GB/s, effective GB/s, fraction of the
        ceiling if it is known.

        After writes also Encode and Write. After reads to a device, or its encoding, also Transfer and, below the
        table, the shares of time in which it computed, copied and waited, and the time of each kernel. After `stream`
        with tiles on a device also Compute: the caller's work on their streams, from the return of each tile.
        """

        def rate(value: float | None) -> str:
            return "-" if value is None else f"{value / 1e9:.2f}"

        lines = [f"{'Stage':<9}{'ms':>10}{'raw GB/s':>11}{'eff. GB/s':>11}{'of ceiling':>12}"]
        for row in self.rows():
            part = "-" if row["fraction"] is None else f"{row['fraction']:.0%} {row['ceiling']}"
            lines.append(
                f"{row['name']:<9}{row['ms']:>10.3f}{rate(row['raw']):>11}{rate(row['effective']):>11}{part:>12}"
            )
        report = self.report
        lines.append(
            f"{counted(report['reads'], 'read')}, {counted(report['writes'], 'write')}, "
            f"{counted(report['store_requests'], 'request')}, {counted(report['store_bytes'], 'byte')} read, "
            f"{counted(report['workers'], 'worker')}"
        )
        if any(event["worker"] >= _timeline.FIRST_STREAM for event in report["events"]):
            lines += _of_devices(report)
        if report["dropped_events"]:
            lines.append(f"the timeline lacks {report['dropped_events']} events; the sums have them")
        return "\n".join(lines)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the report to `path`, whose suffix chooses the form.

        `.json` is `report` with `ceilings`, `.html` a self-contained timeline of the workers, `.png` (or `.svg`) the
        same as a picture, which needs matplotlib.

        Parameters
        ----------
        path
            A local path.

        Raises
        ------
        InvalidArgumentError
            Another suffix, or the block has not ended.
        """
        target = Path(path)
        report = self._finished()
        if target.suffix == ".json":
            target.write_text(json.dumps({**report, "ceilings": self.ceilings}, indent=1) + "\n")
        elif target.suffix in (".html", ".htm"):
            target.write_text(_timeline.html(report, self.table()))
        elif target.suffix in (".png", ".svg"):
            _timeline.picture(target, report, self.table())
        else:
            raise InvalidArgumentError(f"a profile is saved as .json, .html or .png, not as '{target.name}'")

    def _finished(self) -> dict[str, Any]:
        if not self.report:
            raise InvalidArgumentError("the profile is empty before its `with` block has ended")
        return self.report

    def __repr__(self) -> str:
        if not self.report:
            return "<penstock.Profile not ended>"
        return (
            f"<penstock.Profile of {counted(self.report['reads'], 'read')}, {counted(self.report['writes'], 'write')}>"
        )

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """For IPython in a terminal: the table."""
        nested = cycle or not self.report or len(getattr(printer, "stack", ())) > 1
        printer.text(repr(self) if nested else self.table())

    def _repr_html_(self) -> str:
        """The HTML for notebooks: the table, with a bar for each stage's time."""
        if not self.report:
            return markup.page("penstock.Profile", "not ended: the `with` block is open")
        rows = self.rows()
        longest = max((row["ms"] for row in rows), default=0) or 1

        def rate(value: float | None) -> str:
            return "-" if value is None else f"{value / 1e9:.2f}"

        titles = "".join(
            f"<th>{title}</th>" for title in ("stage", "ms", "raw GB/s", "effective GB/s", "of ceiling", "")
        )
        lines = []
        for row in rows:
            part = "-" if row["fraction"] is None else f"{row['fraction']:.0%} {row['ceiling']}"
            numbers = (f"{row['ms']:.3f}", rate(row["raw"]), rate(row["effective"]), part)
            cells = "".join(f"<td class='n'>{html.escape(number)}</td>" for number in numbers)
            bar = f"<td><span class='bar' style='width:{140 * row['ms'] / longest:.0f}px'></span></td>"
            lines.append(f"<tr><td>{html.escape(row['name'])}</td>{cells}{bar}</tr>")
        report = self.report
        title = (
            f"{counted(report['reads'], 'read')}, {counted(report['writes'], 'write')}, "
            f"{counted(report['store_requests'], 'request')}, {_core.bytes_text(report['store_bytes'])} read, "
            f"{counted(report['workers'], 'worker')}"
        )
        table = f"<table class='facts'><tr>{titles}</tr>{''.join(lines)}</table>"
        return markup.page("penstock.Profile", title, table)


def profile(context: Context | None = None, *, ceiling: bool = False, max_events: int = 1 << 20) -> Profile:
    """Record the activity of a context: how the time of reads and writes was spent.

    Parameters
    ----------
    context
        None: the current one. Arrays use the context with which they were opened. One recording at a time.
    ceiling
        Measure the machine's memcpy rate at the end.
    max_events
        Events that are stored for the timeline; sums are exact beyond.

    Returns
    -------
    Profile
        A context manager: it records within the `with` block, and has the results afterwards.

    Raises
    ------
    ConflictError
        On entry of the block: the context already records.

    Examples
    --------
    >>> ps.save("a.zarr", np.ones((1000, 1000)))
    >>> a = ps.open("a.zarr")
    >>> with ps.profile(ceiling=True) as p:
    ...     x = a[...]
    >>> print(p.table())
    Stage            ms   raw GB/s  eff. GB/s  of ceiling
    Read ...
    Total ...
    >>> p.save("read.json")
    """
    return Profile(context, ceiling=ceiling, max_events=max_events)


def _of_devices(report: dict[str, Any]) -> list[str]:
    """The lines below the table: the time of devices, and their kernels, the longest first."""
    wall = max(1, int(report["wall_ns"]))
    parts = ", ".join(
        f"{what} {report['device'][f'{what}_ns'] / wall:.0%}" for what in ("computing", "copying", "waiting")
    )
    kernels = sorted(report["kernels"], key=lambda kernel: -int(kernel["busy_ns"]))
    lines = [f"device: {parts} (for storage {report['device']['storage_ns'] / wall:.0%})"]
    if len(report["devices"]) > 1:
        for ordinal, one in report["devices"].items():
            own = ", ".join(f"{what} {one[f'{what}_ns'] / wall:.0%}" for what in ("computing", "copying", "waiting"))
            lines.append(f"cuda:{ordinal}: {own} (for storage {one['storage_ns'] / wall:.0%})")
    if kernels:
        times = ", ".join(
            f"{kernel['name'].removeprefix('penstock_')} {kernel['busy_ns'] / 1e6:.3f} ({kernel['launches']})"
            for kernel in kernels
        )
        lines.append(f"kernels, ms (launches): {times}")
    return lines


def _by_read(report: dict[str, Any]) -> list[tuple[int, dict[str, Any]]]:
    """A report for each read and write, from its events."""
    parts: dict[int, list[dict[str, Any]]] = {}
    for event in report["events"]:
        parts.setdefault(event["read"], []).append(event)
    return [(number, _report_of(parts[number], int(report["workers"]))) for number in sorted(parts)]


def _report_of(events: list[dict[str, Any]], workers: int) -> dict[str, Any]:
    stages: dict[str, dict[str, Any]] = {}
    for event in events:
        sums = stages.setdefault(
            event["what"], {"what": event["what"], "busy_ns": 0, "operations": 0, "bytes_in": 0, "bytes_out": 0}
        )
        sums["busy_ns"] += event["end_ns"] - event["begin_ns"]
        sums["operations"] += 1
        sums["bytes_in"] += event["bytes_in"]
        sums["bytes_out"] += event["bytes_out"]
    writes = int("encode" in stages or "commit" in stages)
    return {
        "wall_ns": max(event["end_ns"] for event in events) - min(event["begin_ns"] for event in events),
        "workers": workers,
        "stages": list(stages.values()),
        "events": events,
        "dropped_events": 0,
        "store_bytes": sum(stages[what]["bytes_in"] for what in ("index", "fetch") if what in stages),
        "reads": 1 - writes,
        "writes": writes,
    }


def _seconds(stages: list[dict[str, Any]], report: dict[str, Any], workers: int) -> float:
    """The time of these stages: the host's part divided by its workers, the devices' while at least one stream was
    busy.

    If events are missing in the timeline, the devices' part is the sum over their streams.
    """
    kinds = {stage["what"] for stage in stages}
    spans = sorted(
        (event["begin_ns"], event["end_ns"])
        for event in report["events"]
        if event["what"] in kinds and event["worker"] >= _timeline.FIRST_STREAM
    )
    busy = sum(stage["busy_ns"] for stage in stages)
    if not spans:
        return float(busy / workers / 1e9)
    if report["dropped_events"]:
        return float(busy / 1e9)
    there = 0
    end = 0
    for begin, stop in spans:
        there += max(0, stop - max(begin, end))
        end = max(end, stop)
    here = busy - sum(stop - begin for begin, stop in spans)
    return float((there + here / workers) / 1e9)
