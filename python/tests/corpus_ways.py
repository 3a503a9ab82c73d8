"""Every array of the corpus, and every way in which a user reads it.

`ps.open(path)[...]` is compared with the formats' reference readers elsewhere (test_corpus, test_tiff_corpus,
test_hdf5_corpus, test_tabular). Here every other way of reading must give the same values, bit for bit, or refuse.

`python python/tests/corpus_ways.py FILE` writes the table of docs/formats/corpus.md.
"""

from __future__ import annotations

import io
import os
import re
import sys
import tempfile
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import penstock as ps

ROOT = Path(__file__).resolve().parents[2]
CORPUS = Path(os.environ.get("PENSTOCK_CORPUS", ROOT.parent / "shared" / "corpus"))
AREAS = ("zarr", "tiff", "hdf5", "npy", "arrow_parquet", "virtual")
# Files that are designed to crash a process: test_hdf5_corpus reads them in separate processes.
FATAL = ("cve", "fuzz", "hdf5-pickles")
MOST_BYTES = 1 << 24
ONE_OF = 1 if os.environ.get("PENSTOCK_SWEEP") == "1" else 3
"""One of this many files is read."""


@dataclass(frozen=True)
class Item:
    """A file or the folder of a Zarr array; `member` is the path of the array in it."""

    area: str
    path: Path
    member: str = ""
    column: str = ""
    null: Any = None
    """The value for a column's nulls."""

    def __str__(self) -> str:
        name = str(self.path.relative_to(CORPUS))
        return f"{name}:{self.member or self.column}" if self.member or self.column else name

    def open(self, target: Any = None) -> Any:
        """The array, opened from its path or from another target with the same content."""
        options = {"columns": self.column, "nulls": self.null} if self.column else {}
        return ps.open(self.path if target is None else target, self.member, **options)


def targets(area: str, one_of: int) -> Iterator[Path]:
    """One in `one_of` of the targets that a user would open: files, and Zarr nodes that are not in another one."""
    for path in _all_targets(area):
        name = str(path.relative_to(CORPUS)).encode("utf-8", "surrogateescape")
        if zlib.crc32(name) % one_of == 0:
            yield path


def _all_targets(area: str) -> Iterator[Path]:
    folders: set[Path] = set()
    for path in sorted((CORPUS / area).rglob("*")):
        if any(word in str(path).lower() for word in FATAL) or any(parent in folders for parent in path.parents):
            continue
        if path.is_dir() and any((path / name).exists() for name in ("zarr.json", ".zarray", ".zgroup")):
            folders.add(path)
            yield path
        elif path.is_file() and path.suffix.lower() in (
            *(".tif", ".tiff", ".h5", ".hdf5", ".nc", ".nc4", ".npy", ".npz", ".parquet", ".arrow", ".stream"),
            *(".arrow_file", ".feather", ".zip"),
        ):
            yield path


def items(area: str, one_of: int) -> Iterator[Item]:
    """The arrays of the targets, and each target that does not open."""
    for path in targets(area, one_of):
        if path.suffix == ".npz":
            with zipfile.ZipFile(path) as archive:
                yield from (Item(area, path, name.removesuffix(".npy")) for name in archive.namelist())
            continue
        if area == "arrow_parquet":
            yield from (Item(area, path, "", *column) for column in columns(path) or [("",)])
            continue
        try:
            node = ps.open(path)
        except Exception:
            yield Item(area, path)
            continue
        if isinstance(node, ps.Array):
            yield Item(area, path)
        else:
            yield from (Item(area, path, name) for name in members(node))


def columns(path: Path) -> list[tuple[str, Any]]:
    """The names of a table's columns, each with a null of its type; empty if pyarrow does not read the file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    def null(of: pa.DataType) -> Any:
        if pa.types.is_boolean(of):
            return False
        if pa.types.is_duration(of):
            return np.timedelta64("NaT")
        if pa.types.is_temporal(of):
            return np.datetime64("NaT")
        return np.void(bytes(of.byte_width)) if pa.types.is_fixed_size_binary(of) else 0

    try:
        if path.suffix == ".parquet":
            schema = pq.read_schema(path)
        else:
            with pa.memory_map(str(path)) as file:
                schema = (pa.ipc.open_stream if path.suffix == ".stream" else pa.ipc.open_file)(file).schema
        return [(each.name, null(each.type)) for each in schema]
    except (pa.ArrowException, OSError, ValueError):
        return []


def members(group: ps.Group, prefix: str = "", depth: int = 0) -> Iterator[str]:
    """Paths of a group's arrays, and of members that do not open."""
    for name in group:
        try:
            child = group[name]
        except Exception:
            yield prefix + name
            continue
        if isinstance(child, ps.Array):
            yield prefix + name
        elif depth < 8:
            yield from members(child, f"{prefix}{name}/", depth + 1)


NO_NEIGHBOURS = {"virtual HDF5 dataset shows": "it shows data of other files, and bytes have no files next to them"}

# Refusals that are expected of each way, with the reason. The table in docs/formats/corpus.md shows these.
KNOWN_REFUSALS = {
    "bytes": NO_NEIGHBOURS,
    "BytesIO": NO_NEIGHBOURS,
    "references": {
        "references to shards are not readable": "a reference names a whole chunk; the chunks of a shard have none",
    },
    "C++ alone": {
        "no codec|does not round": "the codec is Python's",
    },
    "GPU's code on the CPU": {
        "items of variable length": "elements of variable length are not read into device memory",
    },
    "xarray": {
        "conflicting sizes for dimension": "dimensions of one name have different lengths",
        "has no dimension names|_ARRAY_DIMENSIONS|dimension_names": "the array has no dimension names",
    },
}


@dataclass
class Outcome:
    """The outcomes of one way of reading, for all arrays of an area."""

    equal: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


def same(found: Any, wanted: Any) -> bool:
    """Whether both are equal: numbers bit for bit, texts and objects by value."""
    found, wanted = np.asarray(found), np.asarray(wanted)
    if found.shape != wanted.shape:
        return False
    if wanted.dtype.names is not None:  # the bytes between the fields are not compared
        return found.dtype == wanted.dtype and all(same(found[name], wanted[name]) for name in wanted.dtype.names)
    if wanted.dtype.kind in "OT" or found.dtype.kind in "OT":
        return all(
            same(a, b) if isinstance(b, np.ndarray) else a == b or (a != a and b != b)
            for a, b in zip(found.ravel(), wanted.ravel(), strict=True)
        )
    return found.dtype == wanted.dtype and found.tobytes() == wanted.tobytes()


def reason(error: BaseException) -> str:
    """The message of a refusal without names and numbers, which differ between files."""
    text = getattr(error, "message", str(error)).split("\n")[0]
    text = re.sub(r"(/[^\s'\"]+)+", "…", text)
    text = re.sub(r"<.*>", "<…>", text)
    text = re.sub(r"'[^']*'|\"[^\"]*\"|\{[^}]*\}", "…", text)
    return re.sub(r"(?<![\w-])-?\d[\d.,x]*", "N", text)[:100]


# --- the ways: each returns the values, or None if a user would not use it for such an item ---


def by_path(item: Item) -> Any:
    return item.open()[...]


def by_uri(item: Item) -> Any:
    return item.open(f"file://{item.path}")[...]


def in_one_name(item: Item) -> Any:
    return ps.open(f"{item.path}/{item.member}")[...] if item.member and item.path.suffix != ".npz" else None


def from_bytes(item: Item) -> Any:
    return item.open(item.path.read_bytes())[...] if one_file(item) else None


def from_file(item: Item) -> Any:
    if not one_file(item):
        return None
    with item.path.open("rb") as stream:
        return item.open(stream)[...]


def from_stream(item: Item) -> Any:
    return item.open(io.BytesIO(item.path.read_bytes()))[...] if one_file(item) else None


def from_dict(item: Item) -> Any:
    if not item.path.is_dir():
        return None
    return item.open({name: path.read_bytes() for name, path in objects(item.path)})[...]


def from_zip(item: Item) -> Any:
    if not item.path.is_dir():
        return None
    with tempfile.TemporaryDirectory() as folder:
        archive = Path(folder) / "x.zip"
        with zipfile.ZipFile(archive, "w") as made:
            for name, path in objects(item.path):
                made.write(path, name)
        return item.open(archive)[...]


def by_references(item: Item) -> Any:
    """Every object of a Zarr array as a reference to its file."""
    if not item.path.is_dir():
        return None
    documents = ("zarr.json", ".zarray", ".zattrs", ".zgroup", ".zmetadata")
    refs: dict[str, Any] = {}
    for name, path in objects(item.path):
        is_document = name.rpartition("/")[2] in documents
        refs[name] = path.read_text("utf-8", "surrogateescape") if is_document else [str(path)]
    return item.open({"version": 1, "refs": refs})[...]


def reversed_twice(item: Item) -> Any:
    """The values after two reversals, which read by strided copies."""
    a = item.open()
    if not a.shape:
        return None
    turn = tuple(slice(None, None, -1) for _ in a.shape)
    return a[turn][turn]


def by_points(item: Item) -> Any:
    """All elements one by one, by `vindex`."""
    a = item.open()
    if not a.shape or not 0 < a.size <= 10_000:
        return None
    return a.vindex[tuple(np.indices(a.shape).reshape(len(a.shape), -1))].reshape(a.shape)


def by_command_line(item: Item) -> Any:
    """The output of `penstock read`: through C++ if it has a driver for the format, otherwise through this package."""
    from penstock.__main__ import main

    def run(target: str, out: str) -> int:
        with mock.patch.object(sys, "argv", ["penstock", "read", target, "-o", out]):
            return main()

    return _written(item, run)


def by_cpp(item: Item) -> Any:
    """The output of the program for formats that it reads without Python."""
    from penstock import _core

    def run(target: str, out: str) -> int:
        with mock.patch.dict(os.environ, {"PENSTOCK_VERB_IN_PYTHON": "1"}):  # otherwise, the program starts Python
            return _core.cli_main([b"penstock", b"read", os.fsencode(target), b"-o", os.fsencode(out)])

    return _written(item, run) if item.area in ("zarr", "tiff", "npy") else None


def _written(item: Item, run: Callable[[str, str], int]) -> Any:
    dtype = item.open().dtype
    if dtype.kind in "OTV" or not dtype.itemsize or dtype.name in ("bfloat16", "int4", "uint4", "int2", "uint2"):
        return None  # NumPy does not load such elements from a .npy file
    if item.path.suffix == ".npz" or item.column:
        return None  # the program cannot select members of .npz files or columns
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out.npy"
        with Path(folder, "said").open("w+") as said:
            standard_error = os.dup(2)
            os.dup2(said.fileno(), 2)
            try:
                status = run(f"{item.path}/{item.member}" if item.member else str(item.path), str(out))
            finally:
                os.dup2(standard_error, 2)
                os.close(standard_error)
            said.seek(0)
            if status != 0:
                raise ps.Error(f"the program ends with {status}: {said.read()}")
        return np.load(out)


def on_device(item: Item) -> Any:
    """The GPU's code, run by the host on the fake CUDA driver, which `PENSTOCK_CUDA_DRIVER` names."""
    return item.open().read(device="cuda", check=True).numpy()


def is_no_variable(array: Any) -> bool:
    """Whether the array holds lists or references of HDF5, which xarray's engine omits."""
    stored = array.storage["dtype"].base.metadata or {}
    return "reference" in stored or isinstance(stored.get("vlen"), np.dtype)


def by_xarray(item: Item) -> Any:
    import xarray as xr

    is_group = (item.area == "zarr" and item.member) or (item.area == "hdf5" and not item.path.name.endswith(".tif"))
    if not is_group:
        return None  # TIFFs: test_xarray_tiff
    group, _, name = item.member.rpartition("/")
    others = [each for each in ps.open(item.path, group) if each != name]  # the other members may be unreadable
    options = {"decode_cf": False, "chunks": None, "group": group or None, "drop_variables": others}
    with xr.open_dataset(item.path, engine="penstock", **options) as found:
        if name not in found.variables and is_no_variable(item.open()):
            return None
        values = found.variables[name].values
    # xarray reads ASCII text of variable length in HDF5 as text; all other ways read it as bytes.
    is_ascii = values.dtype.kind == "U" and item.open().dtype.kind == "O"
    return np.char.encode(values, "ascii").astype(object) if is_ascii else values


WAYS: dict[str, Callable[[Item], Any]] = {
    "path": by_path,
    "`file:` URI": by_uri,
    "path/member": in_one_name,
    "bytes": from_bytes,
    "open file": from_file,
    "BytesIO": from_stream,
    "dict": from_dict,
    "zip": from_zip,
    "references": by_references,
    "negative steps": reversed_twice,
    "points": by_points,
    "command line": by_command_line,
    "C++ alone": by_cpp,
    "xarray": by_xarray,
}


DEVICE_WAYS: dict[str, Callable[[Item], Any]] = {"GPU's code on the CPU": on_device}
"""With the fake CUDA driver only."""


def one_file(item: Item) -> bool:
    return item.path.is_file() and item.path.suffix not in (".zip", ".npz")


def objects(folder: Path) -> Iterator[tuple[str, Path]]:
    return ((str(path.relative_to(folder)), path) for path in sorted(folder.rglob("*")) if path.is_file())


def walk(area: str, ways: dict[str, Callable[[Item], Any]], one_of: int) -> tuple[dict[str, Outcome], Counter[str]]:
    """The outcomes of each way, and the refusals of `ps.open(path)` itself by reason, for one in `one_of` targets."""
    out = {name: Outcome() for name in ways}
    refused: Counter[str] = Counter()
    for item in items(area, one_of):
        try:
            a = item.open()
            if not isinstance(a, ps.Array) or a.nbytes > MOST_BYTES:
                continue
            wanted = a[...]
        except ps.Error as error:
            refused[f"{type(error).__name__}: {reason(error)}"] += 1
            continue
        for name, way in ways.items():
            try:
                found = way(item)
            except Exception as error:
                known = KNOWN_REFUSALS.get(name, {})
                why = next((why for pattern, why in known.items() if re.search(pattern, str(error))), None)
                if why is not None:
                    out[name].refused[why] += 1
                else:
                    out[name].wrong.append(f"{item}: {type(error).__name__}: {error}")
            else:
                if found is None:
                    continue
                if same(found, wanted):
                    out[name].equal += 1
                else:
                    out[name].wrong.append(f"{item}: other values")
    return out, refused


def table() -> Iterator[str]:
    """The lines of docs/formats/corpus.md from its first table on."""
    from device_support import LIBRARY, FakeCuda

    os.environ["PENSTOCK_CUDA_DRIVER"] = str(LIBRARY)
    FakeCuda().configure()
    ways = WAYS | DEVICE_WAYS
    walked = {area: walk(area, ways, 1) for area in AREAS}
    yield f"| way | {' | '.join(AREAS)} |"
    yield "|---|" + "---|" * len(AREAS)
    for name in ways:
        yield f"| {name} | {' | '.join(str(outcomes[name].equal or '') for outcomes, _ in walked.values())} |"
    yield "\n## Refused in one way\n"
    for area, (outcomes, _) in walked.items():
        for name, each in outcomes.items():
            for why, number in each.refused.items():
                yield f"- {area}, {name}: {number} because {why}."
    yield "\n## Refused in every way\n\nThe error's type and text; `N` stands for a number, `…` for a name.\n"
    yield "| area | arrays | error |"
    yield "|---|---|---|"
    for area, (_, refused) in walked.items():
        for why, number in refused.most_common():
            yield f"| {area} | {number} | {why.replace('|', ' ')} |"


if __name__ == "__main__":
    import warnings

    warnings.simplefilter("ignore")
    page = Path(sys.argv[1])
    head = page.read_text().partition("| way |")[0]
    page.write_text(head + "\n".join(table()) + "\n")
