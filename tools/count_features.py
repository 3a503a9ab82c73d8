"""Counts files, includes and the lines of each feature in commits, for the tables of docs/design/0037-one-way-in.md.

A file belongs to the first feature whose pattern matches its path. Tests are not counted. Features exclude bindings,
integrations with other libraries and the program.

count_features.py [COMMIT...]
"""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

FEATURES = {
    "references, kerchunk, manifests": r"reference|kerchunk|manifest|open_saved|format/parquet|location_rule|icechunk"
    r"|locations\.py|shards/(saved|stamps)\.py|merge_|compose_",
    "HDF5, NetCDF": r"hdf5|netcdf|driver/chunk_codecs",
    "TIFF: meaning, windows, new files": r"tiff|geo_|georeference|/geo/|gdal|sidecar|number_text|window|unpack"
    r"|valid|level",
    "casts": r"array/conver|cuda/move/convert|[/_]convert\.py",
    "joined arrays, many files as a group": r"joined|virtual|datasets|time_units|source_store|array_source"
    r"|source_layout|format/source|readers\.py|shards/arrays\.py|closed_parts|join_as",
    "shards: finding, opening, writing": r"shard_(files|writer|names|table|request)|scan_shards|open_shards|save_shards"
    r"|shards\.(h|py)|/shards/|for_each_file|_sharded_array|_shards\.py|_shard_readers|map_shards|known_shards|format/(npy|raw)|driver/np[yz]|one_chunk|api/npy\.py",
    "tiles, streams, batches, loader": r"tiles|stream|loader|crop|batch(es|_job)|sample_space|epoch_order",
    "opening, creating, targets": r"src/driver/|penstock/(open|create|array_writer|place|extend/(driver|scheme))\.h"
    r"|src/api/(open|create|place|remote_place|zarr_nodes|metadata_edit)|python/penstock/(target|api)/"
    r"|penstock/_(adapters|create|file_objects|open|place|portable|remote|single_file|stores|copy)\.py",
}
CPP = re.compile(r"^(src|include)/.*\.(cc|h|cu|cuh)$")
PYTHON = re.compile(r"^python/penstock/.*\.py$")
CODE = re.compile(r"^(src|include|cli)/.*(?<!_test)\.(cc|h|cu|cuh)$")
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)
LEFT_OUT = re.compile(r"_test\.cc$|_fixture\.h$|penstock/(view|interop|xarray|zarr|legate|demo|cli)/|/(torch|demo)")


def feature_of(path: str) -> str | None:
    """The feature of a file; None if it belongs to none of the table."""
    return next((name for name, pattern in FEATURES.items() if re.search(pattern, path)), None)


def texts_of(commit: str) -> dict[str, str]:
    """The C++ and Python sources of a commit, without tests."""
    listed = subprocess.run(["git", "ls-tree", "-r", "--name-only", commit], capture_output=True, text=True, check=True)
    paths = [path for path in listed.stdout.splitlines() if CODE.search(path) or PYTHON.search(path)]
    names = "".join(f"{commit}:{path}\n" for path in paths)
    read = subprocess.run(["git", "cat-file", "--batch"], input=names.encode(), capture_output=True, check=True).stdout
    out = {}
    at = 0
    for path in paths:
        end = read.index(b"\n", at)
        size = int(read[at:end].split()[2])
        out[path] = read[end + 1 : end + 1 + size].decode()
        at = end + size + 2
    return out


def count(texts: dict[str, str]) -> dict[str, tuple[int, int]]:
    """The lines of each feature, in C++ and in Python."""
    out = dict.fromkeys(FEATURES, (0, 0))
    for path, text in texts.items():
        feature = feature_of(path)
        if feature is None or LEFT_OUT.search(path) or not (CPP.search(path) or PYTHON.search(path)):
            continue
        lines = text.count("\n")
        cpp, python = out[feature]
        out[feature] = (cpp, python + lines) if PYTHON.search(path) else (cpp + lines, python)
    return out


def sizes(texts: dict[str, str]) -> dict[str, str]:
    """The numbers of files, lines and includes."""
    code = {path: text for path, text in texts.items() if CODE.search(path)}
    python = {path: text for path, text in texts.items() if PYTHON.search(path)}
    src = {tuple(path.split("/")[1:]): text for path, text in code.items() if path.startswith("src/")}
    folders = {path[0] for path in src}
    pairs = {(path[0], named.split("/")[0]) for path, text in src.items() for named in INCLUDE.findall(text)}
    api = {path: text for path, text in src.items() if path[0] == "api"}
    driver = {path: text for path, text in src.items() if path[0] == "driver"}
    of_api = [named.split("/")[0] for text in api.values() for named in INCLUDE.findall(text)]

    def lines(of: dict[Any, str]) -> str:
        return f"{sum(text.count(chr(10)) for text in of.values()):,}"

    return {
        "files, and lines, of `src`, `include` and `cli`": f"{len(code)}, {lines(code)}",
        "files in `src/api` itself, in its folders": f"{sum(len(path) == 2 for path in api)}, "
        f"{sum(len(path) > 2 for path in api)}",
        "lines in `src/api`": lines(api),
        "includes within `src/api`": str(of_api.count("api")),
        "includes from `src/api` to formats and stores": str(of_api.count("format") + of_api.count("store")),
        "files in `src/driver`, lines": f"{len(driver)}, {lines(driver)}",
        "pairs of folders where one includes from the other": str(
            sum(first != second and second in folders for first, second in pairs)
        ),
        "Python: modules, lines": f"{len(python)}, {lines(python)}",
    }


def main() -> int:
    commits = sys.argv[1:] or ["HEAD"]
    texts = [texts_of(commit) for commit in commits]
    found = [sizes(each) for each in texts]
    print(f"| | {' | '.join(commits)} |")
    print("|---" * (1 + len(commits)) + "|")
    for name in found[0]:
        print(f"| {name} | {' | '.join(each[name] for each in found)} |")
    print()
    counts = [count(each) for each in texts]
    heads = [f"C++ {commit} | Python {commit}" for commit in commits]
    print(f"| feature | {' | '.join(heads)} |")
    print("|---" * (1 + 2 * len(commits)) + "|")
    for name in FEATURES:
        cells = " | ".join(f"{each[name][0]:,} | {each[name][1]:,}" for each in counts)
        print(f"| {name} | {cells} |")
    sums = " | ".join(f"{sum(a for a, _ in c.values()):,} | {sum(b for _, b in c.values()):,}" for c in counts)
    print(f"| all of these | {sums} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
