"""Shards that are written, loaded into cuPyNumeric and verified: a test for a new cluster.

    python -m penstock.legate                            # all three, in a folder of its own
    python -m penstock.legate write --shard-dir /scratch/run --num-shards 64 --shape 4000000,8
    python -m penstock.legate read --shard-dir /scratch/run --over-decompose 4
    python -m penstock.legate clean --shard-dir /scratch/run

`LEGATE_CONFIG="--cpus 4"` selects the processors; on several nodes, Legate's launcher starts it on each. Every element
is computed from its position and the seed, so that verification is an expression of cuPyNumeric's, evaluated where the
tiles are: no rank holds the whole array.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import Any

import cupynumeric
import numpy as np
from legate.core import get_legate_runtime

from penstock.api.shard_writer import MANIFEST, ShardWriter
from penstock.api.shards import open_shards
from penstock.core.errors import Error, InvalidArgumentError, NotFoundError
from penstock.core.sizes import counted
from penstock.core.tiles import tiles
from penstock.interop.legate.load import load, processors, this_rank, whole_files

_META = "_demo.json"
_PATTERN = "shard_{:05d}.npy"
_MODULUS, _STEP = 113, 7_919  # values fit every type
_PIECE_ROWS = 1 << 16


def expected(numbers: Any, seed: int, dtype: np.dtype[Any]) -> Any:
    """The elements at these positions of the flattened array; `numbers` is NumPy's or cuPyNumeric's, 64-bit."""
    values = (numbers * _STEP + seed) % _MODULUS
    return values > _MODULUS // 2 if dtype.kind == "b" else values.astype(dtype)


def shape_of(text: str) -> tuple[int, ...]:
    """The shape in a text such as `4000000,8`."""
    try:
        shape = tuple(int(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of lengths") from None
    if min(shape) < 1:
        raise argparse.ArgumentTypeError(f"lengths are at least 1: {text!r}")
    return shape


def row_counts(total: int, shards: int, uniform: bool, seed: int) -> list[int]:
    """The number of rows of each shard: as equal as possible, or cut at random positions that depend on the seed."""
    if not 1 <= shards <= total:
        raise InvalidArgumentError(f"shards must be between 1 and the number of rows ({total}), got {shards}")
    if uniform:
        edges = [total * i // shards for i in range(shards + 1)]
    else:
        edges = [0, *sorted(random.Random(seed).sample(range(1, total), shards - 1)), total]
    return [high - low for low, high in itertools.pairwise(edges)]


def _is_first() -> bool:
    return int(get_legate_runtime().node_id) == 0


def _fence() -> None:
    get_legate_runtime().issue_execution_fence(block=True)


def _say(text: str) -> None:
    if _is_first():
        print(text, flush=True)


def _meta(folder: str) -> dict[str, Any] | None:
    try:
        with open(os.path.join(folder, _META), encoding="utf-8") as file:
            found = json.load(file)
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def _clean(folder: str) -> int:
    """Remove the files of `write`, and the folder if nothing else is in it. Returns the number of files."""
    meta = _meta(folder)
    if meta is None:
        return 0
    names = [_PATTERN.format(number) for number in range(int(meta["num_shards"]))] + [MANIFEST, _META]
    there = [name for name in names if os.path.isfile(os.path.join(folder, name))]
    for name in there:
        os.unlink(os.path.join(folder, name))
    if not os.listdir(folder):
        os.rmdir(folder)
    return len(there)


def write(given: argparse.Namespace) -> int:
    """Run the verb `write`: rank 0 writes, and the others wait."""
    shape, dtype = given.shape, np.dtype(given.dtype)
    if dtype.kind not in "biuf":
        raise InvalidArgumentError(f"the demo writes numbers and booleans, not {dtype}")
    rows = row_counts(shape[0], given.num_shards, given.uniform, given.seed)
    if _is_first():
        if removed := _clean(given.shard_dir):
            print(f"removed {counted(removed, 'file')} of an earlier run")
        os.makedirs(given.shard_dir, exist_ok=True)
        inner = math.prod(shape[1:])
        meta = {"seed": given.seed, "num_shards": len(rows), "shape": list(shape), "dtype": dtype.str}
        # Written first, so that `clean` can remove the files even if this process ends early.
        with open(os.path.join(given.shard_dir, _META), "w", encoding="utf-8") as file:
            json.dump(meta, file)
        start = 0
        with ShardWriter(os.path.join(given.shard_dir, _PATTERN)) as writer:
            for count in rows:
                made = np.empty((count, *shape[1:]), dtype)
                for at in range(0, count, _PIECE_ROWS):
                    stop = min(count, at + _PIECE_ROWS)
                    numbers = np.arange((start + at) * inner, (start + stop) * inner)
                    made[at:stop] = expected(numbers, given.seed, dtype).reshape(-1, *shape[1:])
                writer.write(made)
                start += count
        lengths = f"{counted(len(rows), 'shard')} of {min(rows)} to {counted(max(rows), 'row')}"
        print(f"wrote {lengths}, {shape} {dtype}, to {given.shard_dir}")
    _fence()
    return 0


def read(given: argparse.Namespace) -> int:
    """Run the verb `read`: load, and verify unless `--no-verify` is given."""
    manifest = os.path.join(given.shard_dir, MANIFEST)
    if not os.path.isdir(given.shard_dir):
        raise NotFoundError(f"there is no folder '{given.shard_dir}': run `write` first")
    array = open_shards(manifest if os.path.isfile(manifest) else os.path.join(given.shard_dir, "shard_*.npy"))
    target, count = processors()
    cut = tiles(array.shape, count, over_decompose=given.over_decompose)
    rows = cut[0][0].stop
    one_each = whole_files(array, 0, rows) is not None and given.fast_path
    _say(f"{array.shape} {array.dtype}, {array.nbytes / 2**20:.1f} MiB, on {count} of {target.name}")
    _say(f"{counted(len(cut), 'tile')} of {counted(rows, 'row')}{', each of them one file' if one_each else ''}")
    begin = time.perf_counter()
    loaded = load(array, over_decompose=given.over_decompose, fast_path=given.fast_path)
    taken = time.perf_counter() - begin
    _say(f"loaded in {taken:.3f} s, {array.nbytes / taken / 1e9:.2f} GB/s")
    meta = _meta(given.shard_dir)
    seed = given.seed if given.seed is not None else (meta or {}).get("seed")
    if not given.verify:
        _say("verification: skipped, as requested")
        return 0
    if seed is None:
        _say(f"verification: skipped, there is no {_META} and no --seed")
        return 0
    numbers = cupynumeric.arange(array.size, dtype=np.int64)
    wanted = expected(numbers, int(seed), array.dtype).reshape(array.shape)
    if bool((loaded == wanted).all()):
        _say("verification: passed")
        return 0
    wrong = int((loaded != wanted).sum())
    _say(f"verification: FAILED, {wrong} of {array.size} elements are not what seed {seed} makes")
    return 1


def clean(given: argparse.Namespace) -> int:
    """Run the verb `clean`: remove what `write` wrote, and nothing else."""
    if _is_first():
        print(f"removed {counted(_clean(given.shard_dir), 'file')} from {given.shard_dir}")
    _fence()
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m penstock.legate", description=(__doc__ or "").splitlines()[0])
    verbs = parser.add_subparsers(dest="verb")
    folder = argparse.ArgumentParser(add_help=False)
    folder.add_argument("--shard-dir", required=True)
    writing = verbs.add_parser("write", parents=[folder], help="write shards, from rank 0")
    writing.add_argument("--num-shards", type=int, default=4)
    writing.add_argument("--shape", type=shape_of, default=(4_000_000, 8), help="of all shards together: rows,...")
    writing.add_argument("--dtype", default="float32")
    writing.add_argument("--seed", type=int, default=0)
    writing.add_argument("--uniform", action="store_true", help="shards of equal lengths")
    reading = verbs.add_parser("read", parents=[folder], help="load the shards and verify them")
    reading.add_argument("--seed", type=int, help="the seed of the writer; default: the noted one")
    reading.add_argument("--no-verify", dest="verify", action="store_false")
    reading.add_argument("--over-decompose", type=int, default=1, metavar="K", help="tiles for each processor")
    reading.add_argument("--no-fast-path", dest="fast_path", action="store_false")
    verbs.add_parser("clean", parents=[folder], help="remove the written files")
    return parser


def main(arguments: Sequence[str]) -> int:
    """Run a verb, or all of them. Returns the exit status: 0, 1 (failed) or 2 (usage)."""
    given = _parser().parse_args(list(arguments))
    try:
        if given.verb is not None:
            return {"write": write, "read": read, "clean": clean}[given.verb](given)
        folder = ["--shard-dir", os.path.join(tempfile.gettempdir(), "penstock_legate_demo")]
        for verb in ("write", "read"):
            if status := main([verb, *folder]):
                return status
        return main(["clean", *folder])
    except Error as error:
        # Every rank prints its error: it may be the only one without the shards.
        print(f"{this_rank()}: {error}", file=sys.stderr, flush=True)
        return 1
