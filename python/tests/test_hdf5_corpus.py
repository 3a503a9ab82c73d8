"""HDF5 files of other projects, some of them written to do harm, from the corpus next to the project."""

from __future__ import annotations

import hashlib
import itertools
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
from hdf5_values import same

h5py = pytest.importorskip("h5py")

ROOT = Path(__file__).resolve().parents[2]
CORPUS = Path(os.environ.get("PENSTOCK_CORPUS", ROOT.parent / "shared" / "corpus")) / "hdf5"
MOST_BYTES = 1 << 26
# Files that end a process in the HDF5 library, whichever program reads them. Separate processes read them, see below.
FATAL = ("cve_hdf5",)


def corpus_files() -> list[Path]:
    suffixes = (".h5", ".hdf5", ".nc", ".nc4", ".he5")
    return sorted(
        each for each in CORPUS.rglob("*") if each.suffix in suffixes and not any(f in str(each) for f in FATAL)
    )


def is_elsewhere(wanted: Any) -> bool:
    """Whether the elements are lists of numbers or references."""
    kinds = (np.ndarray, h5py.Reference, h5py.RegionReference)
    return any(isinstance(each, kinds) for each in elements_of(wanted)[:1])


def elements_of(values: Any) -> list[Any]:
    """The elements as an array: of a dataset without dimensions, h5py returns the list itself."""
    if isinstance(values, np.ndarray) and values.dtype.kind == "O":
        return list(values.ravel())
    return [values]


def same_lists(ours: Any, theirs: Any) -> bool:
    """Whether lists are equal; their items may be lists."""
    if theirs.dtype.kind != "O":
        return np.array_equal(ours, theirs, equal_nan=theirs.dtype.kind == "f")
    return len(ours) == len(theirs) and all(map(same_lists, ours, theirs))


def same_elsewhere(path: Path, found: Any, wanted: Any) -> bool:
    """Whether lists are equal, and paths lead to the objects of the references."""
    with h5py.File(path) as file:
        for ours, theirs in zip(np.asarray(found, object).ravel(), elements_of(wanted), strict=True):
            if isinstance(theirs, np.ndarray):
                if not same_lists(ours, theirs):
                    return False
            elif not theirs:
                if ours != "":
                    return False
            elif file[theirs] != file[ours.split("[")[0]]:
                return False
    return True


@pytest.mark.skipif(not CORPUS.is_dir(), reason="PENSTOCK_CORPUS is not here")
def test_the_corpus_is_what_h5py_reads():
    """Every dataset of every file is equal to h5py's or refused with a message."""
    read = refused = 0
    for path in corpus_files():
        try:
            with h5py.File(path) as file:
                names: list[str] = []
                file.visititems(lambda name, node, names=names: names.append(name) if hasattr(node, "chunks") else None)
        except (OSError, RuntimeError, KeyError):
            try:  # if h5py cannot open it either, only an error of Penstock is allowed
                ps.open(path)
            except ps.Error:
                refused += 1
            continue
        for name in names:
            try:
                with h5py.File(path) as file:
                    dataset = file[name]
                    if dataset.shape is not None and dataset.size * dataset.dtype.itemsize > MOST_BYTES:
                        continue
                    wanted = dataset[()]
            except (OSError, RuntimeError, ValueError, TypeError, KeyError):
                wanted = None
            try:
                node = ps.open(path, name)
                values = [(node[...], wanted)] if isinstance(node, ps.Array) else list(member_values(node, wanted))
            except (ps.UnsupportedError, ps.CorruptDataError):
                refused += 1
                continue
            except ps.NotFoundError:  # an external file
                assert wanted is None, (path, name)
                refused += 1
                continue
            if wanted is None:
                continue
            read += 1
            for found, theirs in values:
                assert equals(path, found, theirs), (path, name)
    assert read > 1080
    assert refused < 320


def equals(path: Path, found: Any, wanted: Any) -> bool:
    if np.asarray(found).dtype.kind in "OT" and is_elsewhere(wanted):
        return same_elsewhere(path, found, wanted)
    if isinstance(wanted, bytes) or np.asarray(wanted).dtype.kind == "O":
        texts = [x if isinstance(x, bytes) else str(x).encode() for x in np.asarray(found, object).ravel()]
        return texts == list(np.asarray(wanted, object).ravel())
    return same(found, wanted)


def member_values(group: ps.Group, wanted: Any) -> Iterator[tuple[Any, Any]]:
    """The values of each member of compounds as Penstock and as h5py read them, without refused members."""
    for name in wanted.dtype.names if wanted is not None else ():
        try:
            node = group[name]
            values = node[...] if isinstance(node, ps.Array) else None
        except ps.UnsupportedError:
            continue
        if isinstance(node, ps.Array):
            yield values, wanted[name]
        else:
            yield from member_values(node, wanted[name])


PROGRAM = Path(__file__).parent / "programs" / "hostile_hdf5.py"


def deaths(reader: str, files: list[Path], costs: dict[Path, tuple[float, int]] | None = None) -> list[Path]:
    """The files at which a process ended that opened and read them one after the other.

    `costs`: gets the processor time in seconds and the memory in KiB of each file that was read to the end.
    """
    left, dead = list(files), []
    while left:
        command = [sys.executable, str(PROGRAM), reader, *map(str, left)]
        # Unwritten memory is never zero: code that uses it as an address crashes, whatever the memory contained before.
        environment = {**os.environ, "MALLOC_PERTURB_": "85"}
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=environment)
        said = done.stdout.splitlines()
        for at_line, took in itertools.pairwise(said):
            if costs is not None and took.startswith("took "):
                _, seconds, kibibytes = took.split()
                costs[Path(at_line.removeprefix("at "))] = float(seconds), int(kibibytes)
        if said and said[-1] == "done":
            return dead
        assert done.returncode < 0, done.stderr  # only a signal ends the process
        at = Path(said[-1].removeprefix("at "))
        dead.append(at)
        left = left[left.index(at) + 1 :]
    return dead


@pytest.mark.parametrize("within", ["list", "structure"])
def test_lists_of_region_references_as_attributes(tmp_path, within):
    """h5py writes them, and crashes when it reads them."""
    with h5py.File(tmp_path / "x.h5", "w") as file:
        data = file.create_dataset("x", data=np.arange(10))
        item: Any = h5py.regionref_dtype if within == "list" else np.dtype([("n", "i4"), ("r", h5py.regionref_dtype)])
        kind = h5py.vlen_dtype(item)
        value = np.empty(1, kind)
        value[0] = np.zeros(3, item)
        for i in range(3):
            value[0][i] = data.regionref[1:3] if within == "list" else (i, data.regionref[1:3])
        for name in ("list", "NAME"):
            data.attrs.create(name, value, dtype=kind)
        data.attrs["units"] = "K"
    assert not deaths("penstock", [tmp_path / "x.h5"])
    array = ps.open(tmp_path / "x.h5")["x"]
    assert array.attrs["units"] == "K"
    want = ["/x[1:3]"] * 3 if within == "list" else [[i, "/x[1:3]"] for i in range(3)]
    assert array.attrs["list"] == array.attrs["NAME"] == want
    assert (array[...] == np.arange(10)).all()


@pytest.mark.skipif(not CORPUS.is_dir(), reason="PENSTOCK_CORPUS is not here")
def test_malicious_files_are_refused():
    """A process of Penstock survives all of these files; one of h5py does not."""
    files = sorted(each for folder in CORPUS.glob("*cve_hdf5*") for each in folder.rglob("*") if each.is_file())
    assert files
    # In separate processes: after a file that damaged its memory, the library does not always survive the next one.
    costs: dict[Path, tuple[float, int]] = {}
    ours = [each for each in deaths("penstock", files, costs) if deaths("penstock", [each])]
    assert not ours
    assert not {path.name: cost for path, cost in costs.items() if cost[0] > 1 or cost[1] > 4 * MOST_BYTES // 1024}


@pytest.mark.skipif(not CORPUS.is_dir(), reason="PENSTOCK_CORPUS is not here")
def test_lzf_files_have_their_raw_twin():
    folder = next(CORPUS.rglob("lzf"), None)
    if folder is None:
        pytest.skip("the corpus has no LZF twins")
    seen = 0
    for twin in sorted(folder.glob("*.raw.bin")):
        path = folder / (twin.name.removesuffix(".raw.bin") + ".h5")
        if not path.exists():
            continue
        with h5py.File(path) as file:
            names = [name for name in file if isinstance(file[name], h5py.Dataset)]
        digests = {hashlib.sha256(ps.open(path, name)[...].tobytes()).hexdigest() for name in names}
        if hashlib.sha256(twin.read_bytes()).hexdigest() in digests:
            seen += 1
    assert seen > 0
