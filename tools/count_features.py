"""Counts the lines of each feature in C++ and in Python, of one commit: the table of docs/design/0037-one-way-in.md.

Files belong to the first feature whose pattern their path matches. Tests, bindings, integrations
with other libraries and the program are not counted.

count_features.py [COMMIT...]
"""

from __future__ import annotations

import re
import subprocess
import sys

FEATURES = {
    "references, kerchunk, manifests": r"reference|kerchunk|manifest|open_saved|format/parquet|location_rule|icechunk"
    r"|locations\.py|shards/(saved|stamps)\.py|merge_|compose_",
    "HDF5, NetCDF": r"hdf5|netcdf|driver/chunk_codecs",
    "TIFF: meaning, windows, new files": r"tiff|geo_|georeference|/geo/|gdal|sidecar|number_text|window|unpack"
    r"|valid|level",
    "casts": r"array/conver|cuda/move/convert|[/_]convert\.py",
    "joined arrays, many files as a group": r"joined|virtual|datasets|time_units|source_store|array_source"
    r"|source_layout|format/source|readers\.py|shards/arrays\.py",
    "shards: finding, opening, writing": r"shard_(files|writer|names|table|request)|scan_shards|open_shards|save_shards"
    r"|shards\.(h|py)|/shards/|for_each_file|_sharded_array|_shards\.py|_shard_readers|map_shards|known_shards|format/(npy|raw)|driver/np[yz]|one_chunk|api/npy\.py",
    "tiles, streams, batches, loader": r"tiles|stream|loader|crop|batch(es|_job)|sample_space|epoch_order",
    "opening, creating, targets": r"src/driver/|penstock/(open|create|array_writer|place|extend/(driver|scheme))\.h"
    r"|src/api/(open|create|place|remote_place|zarr_nodes|metadata_edit)|python/penstock/(target|api)/"
    r"|penstock/_(adapters|create|file_objects|open|place|portable|remote|single_file|stores|copy)\.py",
}
CPP = re.compile(r"^(src|include)/.*\.(cc|h|cu|cuh)$")
PYTHON = re.compile(r"^python/penstock/.*\.py$")
LEFT_OUT = re.compile(r"_test\.cc$|_fixture\.h$|penstock/(view|interop|xarray|zarr|legate|demo|cli)/|/(torch|demo)")


def feature_of(path: str) -> str | None:
    """The feature that a file belongs to; None: no feature of the table."""
    return next((name for name, pattern in FEATURES.items() if re.search(pattern, path)), None)


def count(commit: str) -> dict[str, tuple[int, int]]:
    """The lines of each feature, in C++ and in Python."""
    listed = subprocess.run(["git", "ls-tree", "-r", "--name-only", commit], capture_output=True, text=True, check=True)
    paths = [
        path
        for path in listed.stdout.splitlines()
        if (CPP.search(path) or PYTHON.search(path)) and not LEFT_OUT.search(path)
    ]
    named = {path: feature for path in paths if (feature := feature_of(path)) is not None}
    names = "".join(f"{commit}:{path}\n" for path in named)
    read = subprocess.run(["git", "cat-file", "--batch"], input=names.encode(), capture_output=True, check=True).stdout
    out = dict.fromkeys(FEATURES, (0, 0))
    at = 0
    for path, feature in named.items():
        end = read.index(b"\n", at)
        size = int(read[at:end].split()[2])
        lines = read[end + 1 : end + 1 + size].count(b"\n")
        at = end + size + 2
        cpp, python = out[feature]
        out[feature] = (cpp, python + lines) if PYTHON.search(path) else (cpp + lines, python)
    return out


def main() -> int:
    commits = sys.argv[1:] or ["HEAD"]
    counts = [count(commit) for commit in commits]
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
