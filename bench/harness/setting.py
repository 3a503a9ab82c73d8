"""The settings that a run passes to every scenario."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from peers import Peer, Source, by_name
from penstock.view.demo.benchmark_array import EncodedChunk
from penstock.view.demo.ceiling import Ceiling

from .result import Result


@dataclass
class Setting:
    folder: Path  # arrays and profiles; reused between runs
    threads: int
    ceiling_program: Path
    build: Path  # the folder of the micro benchmarks
    say: Callable[[str], None]

    def ceiling(self, chunks: Iterable[EncodedChunk], threads: int | None = None) -> Ceiling:
        return Ceiling(self.ceiling_program, chunks, threads or self.threads)

    def peers(self, names: Iterable[str], source: Source, result: Result) -> list[Peer]:
        """The peers that can take part; the others are recorded in `result`."""
        present = []
        for name in names:
            peer = by_name(name, self.threads)
            why = peer.unavailable(source)
            if why:
                result.left_out[name] = why
            else:
                present.append(peer)
        return present
