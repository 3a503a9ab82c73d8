"""A model of the time to load a run of shards on a cluster, and measurements of this machine for it.

    python bench/scaling.py                          # the model's results for 1 to 1,000 nodes
    python bench/scaling.py --measure                # with this machine's times to open, to read, to parse a manifest
    python bench/scaling.py --files 100000 --tib 50 --stripes 4 --json

In a load, one rank reads what the files contain (every header, or a manifest) and sends it to the others; each rank
then opens the files of its tile and reads them. The slowest resource determines the time of a step: the metadata
server, the servers with a file's stripes, a node's network, a node's own copying. Steps follow each other. Other jobs
and failing disks are not modelled.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Machine:
    """A cluster and its file system. The defaults are a middle-sized Lustre of 2025 with 200 Gb/s to each node."""

    ranks_per_node: int = 8
    metadata_per_s: float = 100_000  # operations (open, stat, close) per second of the metadata servers
    metadata_latency_s: float = 0.5e-3  # of one operation, and of a small read
    in_flight: int = 64  # headers that a rank reads at the same time: io_concurrency of its context
    servers: int = 64  # servers that data are striped over
    server_bytes_per_s: float = 5e9
    stripe_bytes: float = 1 << 20
    network_bytes_per_s: float = 22e9  # of a node, out of the link's 25e9
    network_latency_s: float = 5e-6
    read_bytes_per_s: float = 8e9  # of a rank: pread into its memory, and decoding if needed
    header_s: float = 20e-6  # of a processor, to read and compare one file's header
    manifest_s: float = 1e-6  # of a processor, to parse one file's record
    manifest_bytes: float = 90  # size of one file's record


@dataclass(frozen=True)
class Run:
    """The files that are loaded."""

    files: int
    total_bytes: float
    stripes: int = 1  # number of servers that one file is on
    manifest: bool = True
    every_rank_looks: bool = False  # ranks do not share their results, as in a loop of np.load on every rank


@dataclass(frozen=True)
class Prediction:
    """Seconds of each step, and the limit of the reading."""

    nodes: int
    metadata_operations: float
    learn_s: float
    tell_s: float
    open_s: float
    read_s: float
    bound: str

    @property
    def total_s(self) -> float:
        return self.learn_s + self.tell_s + self.open_s + self.read_s


def predict(run: Run, nodes: int, machine: Machine | None = None) -> Prediction:
    """The model's result for one load.

    Raises ValueError if nodes, files or bytes are less than 1.
    """
    m = Machine() if machine is None else machine
    if min(nodes, run.files, run.stripes) < 1 or run.total_bytes < 1:
        raise ValueError("nodes, files, stripes and bytes are at least 1")
    ranks = nodes * m.ranks_per_node
    lookers = ranks if run.every_rank_looks else 1

    # Learning: an open, a read and a close for each header; the server does them for all ranks that read headers.
    if run.manifest:
        learn_operations = 2.0 * lookers
        learn = max(m.metadata_latency_s + run.files * m.manifest_s, learn_operations / m.metadata_per_s)
    else:
        learn_operations = 2.0 * run.files * lookers
        waits = run.files * 3 * m.metadata_latency_s / m.in_flight
        learn = max(waits, run.files * m.header_s, learn_operations / m.metadata_per_s)

    # Telling: a broadcast along a tree of ranks.
    rounds = math.ceil(math.log2(ranks)) if ranks > 1 and not run.every_rank_looks else 0
    told = run.files * m.manifest_bytes
    tell = rounds * (m.network_latency_s + told / m.network_bytes_per_s)
    if not run.every_rank_looks:
        tell += run.files * m.manifest_s if ranks > 1 else 0  # each rank parses what it received

    # Opening: a cut between tiles may split a file, so the ranks together open each file once, and once more per cut.
    opened = run.files + ranks - 1
    open_operations = 3.0 * opened
    per_rank = math.ceil(run.files / ranks) + 1
    opening = max(open_operations / m.metadata_per_s, per_rank * 3 * m.metadata_latency_s / m.in_flight)

    # Reading: the slowest of the servers with the stripes, the nodes' links and the ranks' copying.
    per_file = min(run.stripes, max(1, math.ceil(run.total_bytes / run.files / m.stripe_bytes)))
    used = min(m.servers, run.files * per_file)
    rates = {
        "servers": used * m.server_bytes_per_s,
        "network": nodes * m.network_bytes_per_s,
        "ranks": ranks * m.read_bytes_per_s,
    }
    bound = min(rates, key=lambda name: rates[name])
    read = run.total_bytes / rates[bound]
    return Prediction(nodes, learn_operations + open_operations, learn, tell, opening, read, bound)


def measure(files: int = 2000, rows: int = 64) -> dict[str, float]:
    """This machine's numbers for `Machine`, with a warm page cache, so that processors are measured."""
    import numpy as np
    import penstock as ps

    def best(work: object, turns: int = 5) -> float:
        assert callable(work)
        taken = []
        for _ in range(turns):
            begin = time.perf_counter()
            work()
            taken.append(time.perf_counter() - begin)
        return min(taken)

    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        values = np.zeros((rows, 8))
        for number in range(files):
            np.save(folder / f"shard_{number:06d}.npy", values)
        pattern, manifest = str(folder / "shard_*.npy"), folder / "all.shards"
        opened = ps.open_shards(pattern, context=ps.Context(threads=1, io_concurrency=1))
        ps.save_manifest(opened, manifest)
        found["header_s"] = (
            best(lambda: ps.open_shards(pattern, context=ps.Context(threads=1, io_concurrency=1))) / files
        )
        found["manifest_s"] = best(lambda: ps.open_shards(manifest)) / files
        found["manifest_bytes"] = os.path.getsize(manifest) / files

        def open_all() -> None:
            for path in paths:
                number = os.open(path, os.O_RDONLY)
                os.fstat(number)
                os.close(number)

        paths = [str(folder / f"shard_{number:06d}.npy") for number in range(files)]
        found["open_fstat_close_s"] = best(open_all) / files
        large = folder / "large.npy"
        np.save(large, np.zeros(32 << 20, np.uint8))
        array = ps.open(large, context=ps.Context(threads=1, io_concurrency=1))
        out = np.zeros(array.shape, array.dtype)
        found["read_bytes_per_s"] = out.nbytes / best(lambda: array.read(out=out))
        file = os.open(large, os.O_RDONLY)
        found["pread_bytes_per_s"] = out.nbytes / best(lambda: os.preadv(file, [out.data], 128))
        os.close(file)
        for kind, options in (("h5", {"dataset": "x"}), ("parquet", {"column": "x"})):
            try:
                ps.save_shards(values[:, 0], str(folder / f"{kind}_{{}}.{kind}"), rows=1)
            except ps.UnsupportedError:
                continue  # h5py or pyarrow is not installed
            wanted = str(folder / f"{kind}_*.{kind}")
            found[f"header_s_{kind}"] = best(lambda w=wanted, o=options: ps.open_shards(w, **o), 3) / rows
    return found


def table(run: Run, nodes: Sequence[int], machine: Machine) -> str:
    """The predictions as text."""
    lines = ["nodes  metadata ops   learn s    tell s    open s    read s   total s  bound by"]
    for count in nodes:
        p = predict(run, count, machine)
        lines.append(
            f"{p.nodes:5d}  {p.metadata_operations:12,.0f}  {p.learn_s:8.3f}  {p.tell_s:8.3f}  {p.open_s:8.3f}  "
            f"{p.read_s:8.3f}  {p.total_s:8.3f}  {p.bound}"
        )
    return "\n".join(lines)


def main(arguments: Sequence[str]) -> int:
    """Print the model's result. Returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--tib", type=float, default=20.0, help="of all files together")
    parser.add_argument("--stripes", type=int, default=1, help="servers that one file lies on")
    parser.add_argument("--nodes", type=int, nargs="+", default=[1, 10, 100, 1000])
    parser.add_argument("--measure", action="store_true", help="take this machine's processors for the nodes'")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(list(arguments))
    machine, measured = Machine(), {}
    if given.measure:
        measured = measure()
        known = {field.name for field in dataclasses.fields(Machine)}
        machine = dataclasses.replace(machine, **{k: v for k, v in measured.items() if k in known})
    total = given.tib * 2**40
    ways = {
        "with a manifest, read by one rank": Run(given.files, total, given.stripes),
        "without, headers read by one rank": Run(given.files, total, given.stripes, manifest=False),
        "headers read by every rank": Run(given.files, total, given.stripes, manifest=False, every_rank_looks=True),
    }
    if given.json:
        found = {
            name: [dataclasses.asdict(predict(run, count, machine)) for count in given.nodes]
            for name, run in ways.items()
        }
        print(
            json.dumps({"measured": measured, "machine": dataclasses.asdict(machine), "predictions": found}, indent=1)
        )
        return 0
    for name, value in measured.items():
        print(f"measured {name:20s} {value:.4g}")
    for name, run in ways.items():
        print(f"\n{given.files:,} files, {given.tib:g} TiB, {given.stripes} stripes each: {name}")
        print(table(run, given.nodes, machine))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
