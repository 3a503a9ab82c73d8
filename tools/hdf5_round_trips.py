"""Counts the round trips, requests and bytes of opening and listing HDF5 files over a network.

    tools/hdf5_round_trips.py FILE_OR_FOLDER ... [--latency SECONDS] [--jobs N]

Each file is opened by its URL on a server that counts, and all of its groups are listed. The limits are two round trips
more than the file has levels of groups, and 1.25 MiB plus twice the bytes of its metadata. The metadata are all bytes
of the file except the stored bytes of its datasets, as h5py counts them. Prints the files that exceed a limit, with
h5py's description of how they were written, and a summary.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import penstock as ps

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "python" / "tests"))

from support.http_server import HttpServer  # type: ignore[import-not-found]  # noqa: E402 - of the tests

ALLOWANCE = 1280 << 10
MAGIC = b"\x89HDF\r\n\x1a\n"


@dataclass
class Measured:
    path: Path
    size: int
    levels: int
    members: int
    waves: int
    requests: int
    fetched: int
    metadata: int
    how: str

    @property
    def misses(self) -> list[str]:
        out = []
        if self.waves > self.levels + 2:
            out.append("round trips")
        if self.fetched > 2 * self.metadata + ALLOWANCE:
            out.append("bytes")
        return out


def is_hdf5(path: Path) -> bool:
    with path.open("rb") as stream:
        begin = stream.read(8 + (64 << 10))
    return any(begin[at : at + 8] == MAGIC for at in (0, 512, 1024, 2048, 4096, 8192))


def list_groups(group: Any, path: Path, inner: str = "", level: int = 1) -> tuple[int, int]:
    """The levels of groups and the number of members. Opens only groups: h5py tells which members are groups."""
    levels, members = level, 0
    with h5py.File(path) as file:
        at = file[inner or "/"]
        groups = {name for name in at if at.get(name, getclass=True, getlink=False) is h5py.Group}
    for name in list(group):
        members += 1
        if name not in groups or level == 32:
            continue
        below, inside = list_groups(group[name], path, f"{inner}/{name}", level + 1)
        levels, members = max(levels, below), members + inside
    return levels, members


def metadata_bytes(path: Path) -> tuple[int, str]:
    """Bytes of the file that are not stored values, and how it was written."""
    stored, seen = 0, set()
    with h5py.File(path) as file:
        plist = file.id.get_create_plist()
        how = f"superblock {plist.get_version()[0]}"
        if plist.get_file_space_strategy()[0] == h5py.h5f.FSPACE_STRATEGY_PAGE:
            how += f", pages of {plist.get_file_space_page_size()} bytes"
        if plist.get_userblock():
            how += f", user block of {plist.get_userblock()} bytes"

        def visit(name: str, node: Any) -> None:
            nonlocal stored
            if isinstance(node, h5py.Dataset):
                address = h5py.h5o.get_info(node.id).addr
                if address not in seen:
                    seen.add(address)
                    stored += node.id.get_storage_size()

        file.visititems(visit)
    return path.stat().st_size - stored, how


def measure(path: Path, latency: float) -> Measured | str:
    try:
        metadata, how = metadata_bytes(path)
    except Exception as error:  # h5py raises exceptions of any type if a file is damaged
        return f"h5py: {str(error)[:80]}"
    content = path.read_bytes()
    with HttpServer({path.name: content}, latency) as server:
        try:
            group = ps.open(f"{server.url}/{path.name}")
            if not isinstance(group, ps.Group):
                return "an array"
            levels, members = list_groups(group, path)
        except ps.Error as error:
            return f"penstock: {str(error).partition(chr(10))[0][:80]}"
        except Exception as error:  # from h5py, which determines which members are groups
            return f"h5py: {str(error)[:80]}"
        fetched = 0
        for each in server.requests:
            wanted = each.headers.get("range")
            if wanted is None:
                continue
            begin, _, end = wanted.removeprefix("bytes=").partition("-")
            last = int(end) if end else len(content) - 1
            fetched += int(end) if not begin else max(0, min(last, len(content) - 1) - int(begin) + 1)
        return Measured(path, len(content), levels, members, server.waves, len(server.requests), fetched, metadata, how)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--latency", type=float, default=0.05)
    parser.add_argument("--jobs", type=int, default=4)
    options = parser.parse_args()
    paths = []
    for each in options.files:
        paths += sorted(each.rglob("*")) if each.is_dir() else [each]
    paths = [each for each in paths if each.is_file() and is_hdf5(each)]
    with ThreadPoolExecutor(options.jobs) as pool:
        found = list(pool.map(lambda path: measure(path, options.latency), paths))
    left_out = Counter(each for each in found if isinstance(each, str))
    measured = [each for each in found if isinstance(each, Measured)]
    print("| file | levels | members | round trips | requests | fetched | metadata | misses | written |")
    print("|---|---|---|---|---|---|---|---|---|")
    for each in sorted(measured, key=lambda one: (one.waves - one.levels, one.fetched), reverse=True):
        if each.misses:
            print(
                f"| {each.path.name} | {each.levels} | {each.members} | {each.waves} | {each.requests} | "
                f"{each.fetched:,} | {each.metadata:,} | {', '.join(each.misses)} | {each.how} |"
            )
    beyond = Counter(max(0, each.waves - each.levels) for each in measured)
    print(f"\n{len(measured)} files listed; round trips beyond the levels of groups: {dict(sorted(beyond.items()))}")
    print(f"{sum(not each.misses for each in measured)} within both limits")
    for reason, count in left_out.most_common():
        print(f"left out, {count}: {reason}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
