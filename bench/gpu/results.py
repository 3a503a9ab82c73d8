"""The format of results: a file of JSON lines, each of which is on disk before the next measurement.

The kinds of line: `run` (what ran where), `fact` (of the machine), `begun` and `done` (a row), `child` (a program that
a row runs), `measured` (a number, with the model's prediction and the limit that follows from the data), `found` (other
results of a row), `failed` and `left_out` (with the reason).
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PREDICTIONS = Path(__file__).with_name("predictions.json")


class LeftOutError(Exception):
    """A row cannot be measured here, for the reason in the text. This is not a failure."""


@dataclass
class UnderWay:
    """A row: whether it is done, its deadline (in seconds of time.time(); 0: none), and the process group of the
    program that it runs (0: none)."""

    row: str = ""
    done: bool = True
    until: float = 0.0
    child: int = 0


class Results:
    """The lines of one step's process or of its guard, appended to `path`. `judged`: numbers are compared with bars."""

    def __init__(self, path: Path, judged: bool) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path, self.judged = path, judged
        self.step, self.row = "", ""
        predictions = json.loads(PREDICTIONS.read_text())
        self._predictions, self._kernels_ms = predictions["values"], predictions["kernels_ms"]
        self._file = path.open("a")
        self._begin = self.size()

    @property
    def folder(self) -> Path:
        return self.path.parent

    def write(self, kind: str, **fields: Any) -> None:
        """Append a line, and return when it is on disk."""
        line = {"kind": kind, "step": self.step, "row": self.row, "at": round(time.time(), 3), **fields}
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()
        os.fsync(self._file.fileno())

    def measured(
        self,
        name: str,
        value: float,
        unit: str,
        *,
        limit: float | None = None,
        bar: float | None = None,
        at_least: bool = True,
        **more: Any,
    ) -> None:
        """Write a number and show it next to the model's prediction and its limit.

        `limit`: the most that the machine allows for this data. `bar`: the number to reach, or with `at_least=False`
        not to exceed. A bar beyond the limit is not compared: no software can reach it.
        """
        predicted = self._predictions.get(f"{self.step}/{self.row}/{name}")
        reachable = bar is not None and (limit is None or (bar <= limit if at_least else bar >= limit))
        met = None
        if bar is not None and self.judged and reachable:
            met = value >= bar if at_least else value <= bar
        self.write(
            "measured",
            name=name,
            value=value,
            unit=unit,
            predicted=predicted,
            limit=limit,
            bar=bar,
            at_least=at_least,
            met=met,
            **more,
        )
        shown = [f"  {self.row}, {name}: {value:.4g} {unit}"]
        shown.append(f"model {predicted[0]:g} to {predicted[1]:g}" if predicted else "no model")
        if limit is not None:
            shown.append(f"limit {limit:.4g}")
        if bar is not None:
            verdict = {True: "met", False: "MISSED", None: "not judged" if reachable else "beyond the limit"}[met]
            shown.append(f"bar {'≥' if at_least else '≤'} {bar:g}: {verdict}")
        say(" | ".join(shown))

    def predicted_kernels(self, array: str) -> dict[str, list[float]]:
        """Milliseconds that the model predicts for kernels that decode an array: least and most."""
        return self._kernels_ms.get(array, {})

    def left_out(self, why: str) -> None:
        self.write("left_out", why=why)
        say(f"  left out    {self.row}: {why}")

    def failed(self, why: str, **more: Any) -> None:
        self.write("failed", why=why, **more)
        say(f"  FAILED      {self.row}: {why.partition(chr(10))[0]}")

    def size(self) -> int:
        return self.path.stat().st_size

    def written(self, since: int | None = None) -> list[dict[str, Any]]:
        """The lines in the file from a byte on, of all processes; None: since this object was created."""
        with self.path.open("rb") as file:
            file.seek(self._begin if since is None else since)
            whole = [line for line in file.read().split(b"\n")[:-1] if line]
        return [json.loads(line) for line in whole]

    def under_way(self, since: int, seconds: float) -> UnderWay:
        """The last row that began, from the lines after byte `since`. A row may take `row_seconds`, plus the time that
        it gives to the programs that it runs."""
        out = UnderWay()
        for line in self.written(since):
            if line["kind"] == "begun":
                out = UnderWay(line["row"], done=False, until=line["at"] + seconds)
            elif line["kind"] == "child":
                out.until, out.child = out.until + line["seconds"], line["group"]
            elif line["kind"] == "done":
                out.done, out.until, out.child = True, 0.0, 0
        return out

    def value(self, step: str, row: str, name: str) -> float | None:
        """The latest number that this run, or an earlier run with the same file, has measured."""
        wanted = ("measured", step, row, name)
        for line in reversed(self.written(0)):
            if (line["kind"], line["step"], line["row"], line.get("name")) == wanted:
                return line["value"]
        return None


def say(line: str) -> None:
    print(line, flush=True)
