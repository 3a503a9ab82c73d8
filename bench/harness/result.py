"""The result of a scenario: rows, ceilings, bars that were met or missed, and omitted readers with the reasons."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field

from .timing import Samples


@dataclass
class Row:
    who: str
    best_s: float | None = None
    median_s: float | None = None
    bytes_out: int | None = None  # decoded, per unit of work
    fraction_of_ceiling: float | None = None  # median over turns, each relative to the ceiling in the same turn
    requests: int | None = None
    bytes_read: int | None = None
    peak_bytes: int | None = None  # of memory beyond the result
    note: str = ""

    @property
    def rate(self) -> float | None:
        return self.bytes_out / self.best_s if self.bytes_out and self.best_s else None


@dataclass
class Bar:
    text: str
    value: float
    limit: float
    at_least: bool
    unit: str = ""

    @property
    def passed(self) -> bool:
        return self.value >= self.limit if self.at_least else self.value <= self.limit


@dataclass
class Result:
    scenario: str
    title: str
    rows: list[Row] = field(default_factory=list)
    ceilings: dict[str, float] = field(default_factory=dict)  # bytes per second, or seconds if the name contains that
    bars: list[Bar] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)  # reader: reason
    notes: list[str] = field(default_factory=list)
    failed: str = ""  # why the scenario did not run to its end

    def row(self, who: str) -> Row | None:
        return next((row for row in self.rows if row.who == who), None)

    def add(self, who: str, samples: Samples, **more) -> Row:
        row = Row(who, samples.best, samples.median, **more)
        self.rows.append(row)
        return row

    def add_row(self, who: str) -> Row:
        """A row without times, which the caller fills in."""
        row = Row(who)
        self.rows.append(row)
        return row

    def as_json(self) -> dict:
        value = asdict(self)
        for row, ours in zip(value["rows"], self.rows, strict=True):
            row["bytes_per_s"] = ours.rate
        for bar, ours in zip(value["bars"], self.bars, strict=True):
            bar["passed"] = ours.passed
        return value


def as_text(result: Result) -> str:
    lines = [f"{result.scenario}: {result.title}"]
    if result.failed:
        lines.append(f"  FAILED  {result.failed}")
    for row in result.rows:
        cells = [f"  {row.who:<28}"]
        if row.best_s is not None:
            cells.append(f"{duration(row.best_s):>10} best {duration(row.median_s or 0):>10} median")
        if row.rate:
            cells.append(f"{row.rate / 1e9:6.2f} GB/s")
        if row.fraction_of_ceiling is not None:
            cells.append(f"{row.fraction_of_ceiling:5.0%} of ceiling")
        if row.requests is not None:
            cells.append(f"{row.requests} requests")
        if row.bytes_read is not None:
            cells.append(f"{row.bytes_read / 1e6:.1f} MB read")
        if row.peak_bytes is not None:
            cells.append(f"{row.peak_bytes / 2**20:.1f} MiB beyond the result")
        lines.append("  ".join([*cells, row.note]).rstrip())
    for name, value in result.ceilings.items():
        shown = duration(value) if name.endswith("_s") else f"{value / 1e9:.2f} GB/s"
        lines.append(f"  ceiling {name.removesuffix('_s'):<20}{shown:>10}")
    for who, why in result.left_out.items():
        lines.append(f"  {who:<28}left out: {why}")
    for bar in result.bars:
        sign = ">=" if bar.at_least else "<="
        verdict = "pass" if bar.passed else "MISS"
        lines.append(
            f"  {verdict}  {bar.text}: {bar.value:.3g} {bar.unit} (bar {sign} {bar.limit:g})".replace("  (", " (")
        )
    lines += [f"  note: {note}" for note in result.notes]
    return "\n".join(lines)


def duration(seconds: float) -> str:
    if seconds < 1e-3:
        return f"{seconds * 1e6:.2f} us"
    return f"{seconds * 1e3:.2f} ms" if seconds < 1 else f"{seconds:.3f} s"
