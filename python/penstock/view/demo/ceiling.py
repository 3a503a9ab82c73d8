"""This machine's limits, measured on the spot by the program `penstock_ceiling` (bench/ceiling.cc).

It is a process of its own that runs one command at a time, so that a limit and a reader can be measured in turns while
both keep their memory warm.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from .benchmark_array import EncodedChunk


@dataclass(frozen=True)
class Measured:
    """One pass over all chunks."""

    seconds: float
    encoded_bytes: int
    decoded_bytes: int

    @property
    def raw(self) -> float:
        """Encoded bytes per second."""
        return self.encoded_bytes / self.seconds

    @property
    def effective(self) -> float:
        """Decoded bytes per second."""
        return self.decoded_bytes / self.seconds


def find() -> Path | None:
    """The program, next to its sources or on PATH; None if it was not built."""
    named = os.environ.get("PENSTOCK_CEILING")
    if named:
        return Path(named)
    checkout = Path(__file__).resolve().parents[4]
    built = checkout / "build" / "release" / "bench" / "penstock_ceiling"
    if built.exists():
        return built
    on_path = shutil.which("penstock_ceiling")
    return Path(on_path) if on_path else None


class Ceiling:
    """The running program; a context manager."""

    def __init__(self, program: Path, chunks: Iterable[EncodedChunk], threads: int) -> None:
        self._process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        files: dict[Path, int] = {}
        lines = [f"threads {threads}"]
        for chunk in chunks:
            if chunk.file not in files:
                files[chunk.file] = len(files)
                lines.append(f"file {chunk.file}")
            lines.append(f"chunk {files[chunk.file]} {chunk.offset} {chunk.length} {chunk.decoded}")
        self._send(lines)

    def tiles(self, *geometry: int) -> None:
        """Declare the chunks as tiles: width, height, samples, bytes of a sample, predictor; then the image's width and
        height."""
        self._send(["tiles " + " ".join(map(str, geometry))])

    def measure(self, what: str) -> Measured:
        """One pass of `pread`, `decode`, `fresh` (decode into new pages), `memcpy`, `chain` (both) or `encode`."""
        nanoseconds, encoded, decoded = self._ask(what)
        return Measured(nanoseconds / 1e9, encoded, decoded)

    def per_chunk(self, what: str, repeats: int) -> float:
        """Seconds per chunk on one thread.

        `one` decodes it; `range` is stat and pread; `whole` is open, fstat, read and close.
        """
        return self._ask(f"{what} {repeats}")[0] / 1e9

    def __enter__(self) -> Ceiling:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def _ask(self, command: str) -> list[int]:
        self._send([command])
        assert self._process.stdout is not None
        words = self._process.stdout.readline().split()
        if not words or words[0] != command.split()[0]:
            raise RuntimeError(f"penstock_ceiling did not answer '{command}' (see its message above)")
        return [int(word) for word in words[1:]]

    def _send(self, lines: list[str]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("".join(line + "\n" for line in lines))
        self._process.stdin.flush()
