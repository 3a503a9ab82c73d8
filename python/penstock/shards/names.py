"""The files that a pattern, a folder or a list names, and their format."""

from __future__ import annotations

import errno
import glob
import itertools
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from penstock import _core
from penstock.core.context import current_context
from penstock.core.errors import InvalidArgumentError, NotFoundError, UnsupportedError, system_errors
from penstock.shards.files import complain
from penstock.target.local import local_file, local_path
from penstock.target.place import file_place, place_of
from penstock.target.sniff import driver_of, is_netcdf

WILD = "*?["
FORMATS = ("npy", "raw", "hdf5", "parquet", "arrow", "zarr", "tiff")
"""What `format=` may say: .npy and raw files are the engine's, the others have a way of their own."""
_KINDS = {"hdf5": "hdf5", "table": "parquet"}
_HDF5 = (".h5", ".hdf5", ".hdf", ".nc", ".nc4", ".he5", ".h5ad", ".nxs")
_CONTIGUOUS = {".npy": "npy", ".raw": "raw", ".bin": "raw", ".dat": "raw"}
# The endings that a folder is searched for.
_SUFFIXES = {
    **_CONTIGUOUS,
    **dict.fromkeys(_HDF5, "hdf5"),
    ".npz": "npz",
    ".zarr": "zarr",
    ".tif": "tiff",
    ".tiff": "tiff",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
}


def names_of(files: Any) -> str | list[Any]:
    """The `files` argument: one name, or a list of names and other members."""
    if isinstance(files, bytes | bytearray):
        raise InvalidArgumentError(f"names of files are str or paths, not {type(files).__name__}: {files!r}")
    if isinstance(files, str | os.PathLike):
        return local_path(_text(files))
    try:
        given = list(files)
    except TypeError:
        text = f"files are a pattern, a folder or a list, not {type(files).__name__}"
        raise InvalidArgumentError(text) from None
    return [local_path(_text(each)) if isinstance(each, str | os.PathLike) else each for each in given]


def _text(name: str | os.PathLike[Any]) -> str:
    made = os.fspath(name)
    return made if isinstance(made, str) else os.fsdecode(made)


def is_wild(name: str) -> bool:
    return any(letter in name for letter in WILD)


def begin_of(name: str, storage_options: Mapping[str, Any] | None, most: int = 64) -> bytes | None:
    """The first bytes of the one file or object with this name; None for a pattern, a folder, or a missing file."""
    if "://" not in name:
        if not os.path.isfile(name):
            return None
        with open(name, "rb") as file:
            return file.read(most)
    if is_wild(name):
        return None
    store, key = file_place(name, storage_options)
    return store.begin(key, most) if key and not key.endswith("/") else None


def read_named(name: str, storage_options: Mapping[str, Any] | None = None) -> bytes:
    """All bytes of the one file or object of this name."""
    if "://" not in name:
        with open(name, "rb") as file:
            return file.read()
    store, key = file_place(name, storage_options)
    found = store.get(key)
    if found is None:
        raise NotFoundError(f"there is no '{name}'")
    return found


class Files:
    """The files of the caller: a store and keys within it."""

    def __init__(
        self,
        files: str | Sequence[str],
        allow_holes: bool,
        storage_options: Mapping[str, Any] | None,
        format: str | None = None,
    ) -> None:
        if isinstance(files, str):
            self._find(files, allow_holes, storage_options, format)
        else:
            self._take(list(files), storage_options)

    def _find(
        self, pattern: str, allow_holes: bool, storage_options: Mapping[str, Any] | None, format: str | None
    ) -> None:
        wild = min((at for letter in WILD if (at := pattern.find(letter)) >= 0), default=-1)
        if wild < 0:
            self._open(pattern, storage_options)
            pattern = self._folder_pattern(pattern, format)
        else:
            base, slash, pattern = pattern[:wild].rpartition("/")[0], "/" in pattern[:wild], pattern
            pattern = pattern[len(base) + 1 :] if slash else pattern
            self._open(base or ("/" if slash else "."), storage_options)
        prefix = f"{os.fsdecode(self.inner)}/" if self.inner else ""
        # The part before the pattern is a literal name.
        self.keys = _core.find_shards(self.store, os.fsencode(glob.escape(prefix) + pattern), allow_holes)

    def _open(self, base: str, storage_options: Mapping[str, Any] | None) -> None:
        self.base = base
        self.store, self.inner = place_of(base, "", storage_options, is_folder=True)

    def _folder_pattern(self, folder: str, format: str | None) -> str:
        prefix = f"{os.fsdecode(self.inner)}/" if self.inner else ""
        names = [name.rstrip("/").removeprefix(prefix) for name in self.store.list(prefix, True)]
        known = {suffix: kind for suffix, kind in _SUFFIXES.items() if format in (None, kind)}
        if format == "parquet":
            known |= {suffix: kind for suffix, kind in _SUFFIXES.items() if kind == "arrow"}
        found = sorted({suffix for name in names if (suffix := _suffix(name)) in known and not name.startswith(".")})
        if len(found) == 1:
            # In any case of letters: 'a.NPY' and 'b.npy' are of one kind.
            return "*" + "".join(f"[{c}{c.upper()}]" if c.isalpha() else c for c in found[0])
        if not found:
            raise NotFoundError(f"no files of a known kind ({', '.join(known or _SUFFIXES)}) in '{folder}'")
        patterns = " and ".join(f"*{suffix}" for suffix in found)
        raise InvalidArgumentError(f"'{folder}' holds {patterns}: give a pattern, such as '{folder}/*{found[0]}'")

    def _take(self, paths: list[str], storage_options: Mapping[str, Any] | None) -> None:
        if not paths:
            raise InvalidArgumentError("there are no files to open")
        paths = [path if "://" in path else os.path.abspath(path) for path in paths]
        places = sorted({"/".join(path.split("/", 3)[:3]) if "://" in path else "" for path in paths})
        if len(places) > 1:
            shown = ", ".join(repr(place or "this machine") for place in places[:5])
            raise UnsupportedError(f"the files of a list are in one place, these are in {shown}")
        seen: set[str] = set()
        twice = [path for path in paths if path in seen or seen.add(path)]  # type: ignore[func-returns-value]
        if twice:
            names = [f"'{os.path.basename(path)}': is there already" for path in twice]
            text = complain(f"{len(twice)} of {len(paths)} files are given twice", names)
            raise InvalidArgumentError(text)
        folders = [path.split("/")[:-1] for path in paths]
        ends = zip(min(folders), max(folders), strict=False)
        base = "/".join(a for a, _ in itertools.takewhile(lambda pair: pair[0] == pair[1], ends))
        self._open(base or "/", storage_options)
        prefix = self.inner + b"/" if self.inner else b""
        self.keys = [prefix + os.fsencode(path[len(base) + 1 :]) for path in paths]

    def paths(self, most: int | None = None) -> list[str]:
        """In the form for `open`; only the first `most`."""
        skip = len(self.inner) + 1 if self.inner else 0
        base = self.base.rstrip("/") if self.base != "." else ""
        names = [os.fsdecode(key[skip:]) for key in self.keys[:most]]
        return [f"{base}/{name}" if base or self.base == "/" else name for name in names]

    def format(self) -> str:
        """The format of the first file: by its bytes, or by its name if they do not decide."""
        first = self.paths(1)[0]
        suffix = _suffix(first)
        known = _CONTIGUOUS.get(suffix)
        if known is not None:
            return known
        suffixes = {_suffix(os.fsdecode(key)) for key in self.keys}
        if "://" in first:
            if suffixes <= {".nc"} and is_netcdf(self.store.begin(os.fsdecode(self.keys[0]), 8)):
                return "other"
            kinds = {"hdf5": set(_HDF5), "parquet": {".parquet", ".arrow", ".feather"}}
            return next((kind for kind, known in kinds.items() if suffixes <= known), "other")
        if len(suffixes) > 1 and not suffixes <= set(_HDF5):
            return "other"
        local = local_file(first)
        kind = None if local is None else driver_of(local)
        if kind is None and suffix in (*_HDF5, ".parquet"):
            return "parquet" if suffix == ".parquet" else "hdf5"  # its error is more specific
        return _KINDS.get(kind or "", "other")


def _suffix(name: str) -> str:
    return os.path.splitext(name)[1].lower()


def write_atomically(path: str, parts: Iterable[Any], ordered: bool = False) -> None:
    """Replace a file by `parts`, atomically: after a power cut it is the old one or the new one.

    `ordered`: after a power cut the file is the new one only if earlier names in its folder exist too.
    """
    draft = f"{path}.{os.getpid()}.tmp"
    try:
        with system_errors(f"writing '{path}'"):
            with open(draft, "wb") as file:
                for part in parts:
                    file.write(part)
                sync_file(file)
            if ordered:
                sync_names([path])
            os.replace(draft, path)
    except FileNotFoundError as failure:
        raise NotFoundError(f"there is no folder '{os.path.dirname(path)}' to write into") from failure
    except BaseException:
        if os.path.exists(draft):
            os.unlink(draft)
        raise


def _syncs() -> bool:
    return current_context().sync != "none"


def sync_file(file: Any) -> None:
    """Return when the bytes of an open file are on the storage device; at once if the context waives it."""
    if _syncs():
        file.flush()
        _sync(file.fileno())


def sync_names(paths: Iterable[str]) -> None:
    """Return when the names of these files are on the storage device, in their folders and those above up to this file
    system.
    """
    if not _syncs():
        return
    done: set[str] = set()
    for path in paths:
        folder = os.path.dirname(os.path.abspath(path))
        while folder not in done:
            done.add(folder)
            with system_errors(f"syncing the folder '{folder}'"):
                try:
                    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
                except PermissionError:  # this process did not create it
                    break
                try:
                    _sync(number)
                finally:
                    os.close(number)
            above = os.path.dirname(folder)
            if above == folder or os.path.ismount(folder):
                break
            folder = above


def _sync(number: int) -> None:
    try:
        os.fsync(number)
    except OSError as failure:
        if failure.errno not in (errno.EINVAL, errno.ENOSYS):  # a file system without this function
            raise


def write_named(path: str, parts: Iterable[Any], storage_options: Mapping[str, Any] | None = None) -> None:
    """Replace the file or object with this name by `parts`, atomically."""
    if "://" not in path:  # the files may be elsewhere, with options of their own
        write_atomically(path, parts)
        return
    store, key = file_place(path, storage_options)
    store.put(key, b"".join(bytes(part) for part in parts))
    store.flush()
