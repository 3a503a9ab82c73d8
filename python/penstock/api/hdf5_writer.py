"""Arrays and groups as HDF5 files, which h5py writes."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from penstock import _core
from penstock.api.open import open
from penstock.api.virtual import VirtualGroup
from penstock.core.array import Array
from penstock.core.chunking import as_list, plain_lengths, rule_text
from penstock.core.data_types import NAMED_TYPES
from penstock.core.errors import (
    CancelledError,
    CorruptDataError,
    Error,
    InvalidArgumentError,
    UnsupportedError,
    system_errors,
)
from penstock.core.group import Group
from penstock.core.sizes import counted
from penstock.core.tile_stream import Stream
from penstock.hdf5.group import Hdf5Group
from penstock.hdf5.grown import grown_shapes, storage_of
from penstock.netcdf.file import NetcdfGroup

_BLOCK_BYTES = 64 << 20
_MOST_LEVELS = 64  # groups nested deeper count as a loop of links
_ROOM_BYTES = 8 << 20  # more than h5py caches of a dataset
_GZIP_LEVEL = 4
_LARGEST_ATTRIBUTE = (64 << 10) - 512  # of those in an object's header; text of variable length is elsewhere
_NETCDF = (".nc", ".nc4")
_DIMENSIONS, _MISSING = "_ARRAY_DIMENSIONS", "_FillValue"
Told = Callable[[str, int, int], Any] | None


class ImageMembers(NamedTuple):
    """The group that an image of a TIFF becomes: the image's name in it and its attributes, and the other members."""

    name: str
    attributes: Mapping[str, Any]
    others: Group


def import_h5py() -> Any:
    """h5py. Raises UnsupportedError if it is not installed."""
    try:
        import h5py
    except ImportError:
        raise UnsupportedError("writing HDF5 needs h5py: pip install h5py") from None
    return h5py


def write_hdf5(
    source: Array | Group, path: str, chunks: Any, verify: bool, told: Told, image: ImageMembers | None = None
) -> None:
    """Write a file next to `path`, and rename it to `path` when it is complete and, with `verify`, was compared.

    `image`: of a source that is an image of a TIFF, which becomes a group.
    """
    import_h5py()
    if chunks is not None:
        rule_text(chunks, "chunks")  # refuses what `copy` refuses
        chunks = [chunks] if hasattr(as_list(chunks), "__index__") and as_list(chunks) != -1 else chunks
    is_netcdf = path.lower().endswith(_NETCDF)
    draft = f"{path}.{os.getpid()}.{threading.get_ident()}.tmp"
    try:
        with system_errors(f"writing '{path}'"):
            os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
            # netCDF changes only files whose groups and variables have an order of creation.
            with new_file(draft, track_order=True) as file:
                if image is not None:
                    _write_image(file, source, image, chunks, told)
                elif isinstance(source, Array):
                    name = _name_of(source)
                    _write_array(file, name, source, source.shape, set(), chunks, told, is_netcdf)
                    _name_dimensions(file[name], source)
                else:
                    _write_group(file, source, chunks, told, is_netcdf)
            if verify:
                made: Any = open(draft, mode="r")
                _verify(source, made if image is None else {image.name: made[image.name]})
            _sync(draft)
            os.replace(draft, path)
    except BaseException:
        if os.path.exists(draft):
            os.unlink(draft)
        raise


@contextlib.contextmanager
def new_file(path: str, **options: Any) -> Iterator[Any]:
    """A new file of h5py. Datasets are flushed before they are closed: HDF5 ends the process if it cannot write when it
    closes something. After an error, what it still writes is discarded.

    Raises
    ------
    OSError
        The file cannot be written.
    """
    file = import_h5py().File(path, "w", **options)
    try:
        yield file
        file.flush()
    except BaseException as error:
        with contextlib.suppress(Exception):  # a driver without a descriptor; the null device has no length to set
            null = os.open(os.devnull, os.O_RDWR)
            os.dup2(null, file.id.get_vfd_handle())
            os.close(null)
            file.close()
        if isinstance(error, RuntimeError) and not isinstance(error, Error):
            _check_room(path)
        raise
    file.close()


def _check_room(path: str) -> None:
    """Raise the system's error if the file cannot grow: h5py's errors of a flush do not have it."""
    number = os.open(path, os.O_WRONLY)
    try:
        os.posix_fallocate(number, os.fstat(number).st_size, _ROOM_BYTES)
    finally:
        os.close(number)


def _name_of(source: Array) -> str:
    """The last component of its URI, without the ending."""
    return source.uri.rstrip("/").removeprefix("memory:").rpartition("/")[2].partition(".")[0] or "data"


def _sync(path: str) -> None:
    with os.fdopen(os.open(path, os.O_RDONLY)) as file:
        os.fsync(file.fileno())


def nodes_below(
    source: Group, without: Callable[[Array], str] = lambda _: "", path: str = ""
) -> tuple[list[tuple[str, Array | Group]], list[str]]:
    """(path, node) of all nodes below a group, parents first; and the datasets of HDF5 files that cannot be read, with
    the reason, and arrays for which `without` returns one."""
    if path.count("/") > _MOST_LEVELS:
        raise UnsupportedError(f"groups nested deeper than {_MOST_LEVELS}: '{source.uri}'")
    nodes: list[tuple[str, Array | Group]] = []
    left_out: list[str] = []
    for name in source:
        inner = f"{path}/{name}".strip("/")
        try:
            node = source[name]
        except UnsupportedError as error:
            if not isinstance(source, Hdf5Group):
                raise
            left_out.append(f"'{inner}' ({error.message})")
            continue
        if isinstance(node, Array) and (why := without(node)):
            left_out.append(f"'{inner}' ({why})")
            continue
        nodes.append((inner, node))
        if isinstance(node, Group):
            below = nodes_below(node, without, inner)
            nodes += below[0]
            left_out += below[1]
    return nodes, left_out


def _members_of(source: Group) -> tuple[list[tuple[str, Array | Group]], list[str]]:
    if isinstance(source, Hdf5Group):
        return nodes_below(source, _why_not_written)
    return list(source.members(max_depth=None)), []


def _why_not_written(source: Array) -> str:
    """Why h5py does not write the elements; empty if it does."""
    metadata = source.dtype.metadata
    vlen = None if metadata is None else metadata.get("vlen")
    is_nested = isinstance(vlen, np.dtype) and (vlen.hasobject or vlen.subdtype is not None)
    return "lists are written to HDF5 if they have single items of a fixed size" if is_nested else ""


def _write_group(file: Any, source: Group, chunks: Any, told: Told, netcdf: bool) -> None:
    _write_attributes(file, source)
    found, left_out = _members_of(source)
    if left_out:
        warnings.warn(f"not copied from '{source.uri}': {'; '.join(left_out)}", stacklevel=4)
    members = _in_file_order(source, found)
    _write_members(file, source.uri, members, _unlimited(source, members), chunks, told, netcdf)


def _write_image(file: Any, source: Any, image: ImageMembers, chunks: Any, told: Told) -> None:
    if source.has_mask:
        warnings.warn(f"the mask of '{source.uri}' is not written to HDF5", UserWarning, stacklevel=4)
    members: list[tuple[str, Array | Group]] = [(image.name, source), *image.others.arrays()]
    _write_members(file, source.uri, members, {}, chunks, told, False, image.name)
    attributes = dict(image.attributes)
    if source.dtype.kind == "c":
        attributes.pop(_MISSING, None)  # netCDF has no form of it
    _put_attributes(file[image.name], attributes)


def _write_members(
    file: Any,
    uri: str,
    members: list[tuple[str, Array | Group]],
    unlimited: dict[str, set[str]],
    chunks: Any,
    told: Told,
    netcdf: bool,
    chunked: str | None = None,
) -> None:
    """`chunked`: the only array that `chunks` are for; None: all arrays."""
    names = {name for _, node in members if isinstance(node, Array) for name in node.dimension_names or ()}
    unknown = [name for name in chunks if name not in names] if isinstance(chunks, Mapping) else []
    if unknown:
        raise InvalidArgumentError(f"chunks: no array has a dimension {unknown[0]!r}", f"in '{uri}'")
    scales: dict[str, list[tuple[str, Array]]] = {}
    grown = grown_shapes(members)
    for path, node in members:
        if isinstance(node, Group):
            _write_attributes(file.create_group(path, track_order=True), node)
            continue
        own = chunks if chunked in (None, path) else None
        if isinstance(own, Mapping):
            own = {name: length for name, length in own.items() if name in (node.dimension_names or ())} or None
        shape, folder = grown.get(path, node.shape), path.rpartition("/")[0]
        path = _stored_path(path, node) if netcdf else path
        _write_array(file, path, node, shape, unlimited.get(folder, set()), own, told, netcdf)
        scales.setdefault(folder, []).append((path, node))
    numbers = itertools.count()
    for folder, arrays in scales.items():
        _attach_scales(file, arrays, unlimited.get(folder, set()), numbers)


def _in_file_order(source: Group, members: list[tuple[str, Array | Group]]) -> list[tuple[str, Array | Group]]:
    """The members of each group in the order of its file, if that has one."""
    groups = [("", source), *((path, node) for path, node in members if isinstance(node, Group))]
    places = {path: {name: k for k, name in enumerate(_names_in_file_order(group))} for path, group in groups}

    def place(member: tuple[str, Array | Group]) -> list[tuple[int, str]]:
        names = member[0].split("/")
        return [(places["/".join(names[:d])].get(name, len(members)), name) for d, name in enumerate(names)]

    return sorted(members, key=place)


def _names_in_file_order(group: Group) -> list[str]:
    if isinstance(group, VirtualGroup) and isinstance(first := group.first_file(), Group):
        return _names_in_file_order(first)
    if isinstance(group, NetcdfGroup):
        return [each["name"] for each in group.header["variables"]]
    return list(group.names_in_file_order) if isinstance(group, Hdf5Group) else []


def _unlimited(source: Group, members: list[tuple[str, Array | Group]]) -> dict[str, set[str]]:
    """The names of the unlimited dimensions, by the path of their group; of many files as one, those of the first."""
    first = source.first_file() if isinstance(source, VirtualGroup) else None
    if isinstance(first, Group):
        return _unlimited(first, _members_of(first)[0])
    out: dict[str, set[str]] = {}
    for path, node in [("", source), *members]:
        if isinstance(node, NetcdfGroup):
            out[path] = {name for name, _, unlimited in node.header["dimensions"] if unlimited}
        elif isinstance(node, Array):
            limits = storage_of(node).get("maxshape") or ()
            names = {str(n) for n, most in zip(node.dimension_names or (), limits, strict=False) if n and most is None}
            out.setdefault(path.rpartition("/")[0], set()).update(names)
    return out


def _stored_path(path: str, array: Array) -> str:
    """NetCDF's name of a variable that has the name of a dimension but not as its first one: the dimension has it."""
    folder, slash, name = path.rpartition("/")
    names = array.dimension_names or ()
    is_other = name in names and None not in names and (names[0] != name or names.count(name) > 1)
    return f"{folder}{slash}_nc4_non_coord_{name}" if is_other else path


def _attach_scales(file: Any, arrays: list[tuple[str, Array]], unlimited: set[str], numbers: Iterator[int]) -> None:
    """Scales for the named dimensions of a group, as in netCDF-4.

    A variable with the name of its first dimension is the scale; otherwise one is created, which is netCDF's form of a
    dimension without a variable. An array with an unnamed dimension, or with another length than its namesake, gets
    labels instead: readers of netCDF refuse a mixture. `numbers` are those of the file's dimensions."""
    scales: dict[str, tuple[str, int]] = {}
    for path, array in arrays:
        name, names = path.rpartition("/")[2], array.dimension_names or ()
        if names[:1] == (name,) and None not in names and names.count(name) == 1:
            file[path].make_scale(name)
            scales[name] = (path, file[path].shape[0])
    own = {path for path, _ in scales.values()}
    for path, array in arrays:
        names = array.dimension_names or ()
        if not names or None in names:
            _name_dimensions(file[path], array)
            continue
        for dimension, length in zip(names, file[path].shape, strict=True):
            at = f"{path.rpartition('/')[0]}/{dimension}".strip("/")
            if dimension is not None and dimension not in scales and at not in file:
                made = file.create_dataset(
                    at, (length,), ">f4", track_order=True, maxshape=(None,) if dimension in unlimited else None
                )
                made.make_scale(f"This is a netCDF dimension but not a netCDF variable. {length:10d}")
                scales[dimension] = (at, length)
        lengths = {dimension: length for dimension, (_, length) in scales.items()}
        if path not in own and not all(lengths.get(str(n)) == m for n, m in zip(names, file[path].shape, strict=True)):
            _name_dimensions(file[path], array)
        elif path not in own:
            for d, dimension in enumerate(names):
                file[path].dims[d].attach_scale(file[scales[str(dimension)][0]])
    ids = {dimension: np.int32(next(numbers)) for dimension in scales}
    for path, array in arrays:
        names = array.dimension_names or ()
        if path in own and len(names) > 1 and all(name in ids for name in names):  # a scale has no scales itself
            for dimension, (at, _) in scales.items():
                file[at].attrs["_Netcdf4Dimid"] = ids[dimension]
            file[path].attrs["_Netcdf4Coordinates"] = np.array([ids[str(name)] for name in names], "i4")


def _name_dimensions(made: Any, source: Array) -> None:
    for d, name in enumerate(source.dimension_names or ()):
        if name is not None:
            made.dims[d].label = name


def _write_array(
    file: Any,
    path: str,
    source: Array,
    shape: tuple[int, ...],
    unlimited: set[str],
    chunks: Any,
    told: Told,
    netcdf: bool,
) -> None:
    """A dataset of `shape`, whose elements after those of `source` have the fill value. The dimensions in `unlimited`,
    and those that grow in the source, can grow."""
    import h5py

    if why := _why_not_written(source):
        raise UnsupportedError(why, f"array '{source.uri}'")
    dtype: Any = source.dtype
    if dtype.kind == "U" or (dtype.kind in "OT" and h5py.check_vlen_dtype(dtype) is None):
        dtype = h5py.string_dtype("ascii" if _has_bytes(source) else "utf-8")
    elif dtype.kind in "mM" and not netcdf and shape == source.shape and np.datetime_data(dtype)[0] != "generic":
        dtype = h5py.opaque_dtype(dtype)  # with NumPy's type as its tag
    elif dtype.kind in "mM" or dtype.name in NAMED_TYPES:
        raise UnsupportedError(
            f"{'NetCDF' if netcdf else 'HDF5'} has no type for {source.dtype}", f"array '{source.uri}'"
        )
    grows = [name in unlimited for name in source.dimension_names or (None,) * source.ndim]
    for d, most in enumerate(storage_of(source).get("maxshape") or ()):
        grows[d] |= most is None
    options: dict[str, Any] = {}
    if source.ndim and (source.size or any(grows)):
        lengths = (
            source.chunks
            if chunks is None
            else plain_lengths(
                chunks,
                "chunks",
                source.shape,
                source.dimension_names,
                0 if dtype.kind == "O" else source.dtype.itemsize,
            )
        )
        if len(lengths) != source.ndim:
            raise InvalidArgumentError(
                f"chunks {tuple(lengths)} are for {counted(len(lengths), 'dimension')}, the array has {source.ndim}",
                f"array '{source.uri}'",
            )
        lengths = tuple(
            max(1, n if may_grow else min(n, m)) for n, m, may_grow in zip(lengths, shape, grows, strict=True)
        )
        options = {
            "chunks": lengths,
            "compression": "gzip",
            "compression_opts": _GZIP_LEVEL,
            "shuffle": dtype.kind != "O",
            "maxshape": tuple(None if may_grow else m for m, may_grow in zip(shape, grows, strict=True)),
        }
    try:
        made = file.create_dataset(
            path, shape, dtype, track_order=True, fillvalue=_fill_value(source, dtype), **options
        )
    except TypeError as error:  # fields that are times, or text of UCS-4
        raise UnsupportedError(f"HDF5 has no type for {source.dtype}: {error}", f"array '{source.uri}'") from None
    _write_attributes(made, source)
    total = source.nbytes
    if not source.ndim:
        _put(made, (), source[...], source)
    elif source.size:
        row_bytes = max(1, total // source.shape[0])
        step = max(1, _BLOCK_BYTES // row_bytes // options["chunks"][0]) * options["chunks"][0]
        with Stream(source, (min(step, source.shape[0]), *source.shape[1:]), 1) as blocks:
            for block in blocks:  # rows, read ahead by the engine
                _put(made, block.box, block.data, source)
                if told is not None and told(path, min(total, block.box[0].stop * row_bytes), total) is False:
                    raise CancelledError("the caller stopped it")
    made.flush()


def _has_bytes(source: Array) -> bool:
    """Whether the elements are bytes of variable length."""
    return any("vlen-bytes" in (codec.get("name"), codec.get("id")) for codec in source.codecs)


def _put(made: Any, box: tuple[slice, ...], values: Any, source: Array) -> None:
    """Write a part. h5py has no UCS-4 text; it writes text from objects."""
    if values.dtype.kind in "mM":
        values = values.astype(made.dtype)
    try:
        made[box] = values.astype(object) if values.dtype.kind == "U" else values
    except ValueError as error:
        if values.dtype.kind not in "UTO":
            raise
        raise UnsupportedError(f"HDF5's text ends at a NUL: {error}", f"array '{source.uri}'") from None


def _fill_value(source: Array, dtype: Any) -> Any:
    fill = source.fill_value
    return None if fill is None or dtype.kind in "OmM" else fill  # h5py does not convert times


def _attributes_of(source: Array | Group) -> dict[str, Any]:
    """The attributes for HDF5. The missing value has NetCDF's form."""
    typed = getattr(source, "typed_attributes", None)
    if not isinstance(source, Array):
        return dict(source.attrs if typed is None else typed)
    plain = json.loads(_core.attributes_in_hdf5(source))
    made = plain if typed is None else dict(typed)
    if _DIMENSIONS not in plain:  # the scales name them
        made.pop(_DIMENSIONS, None)
    missing = plain.get(_MISSING)
    if source.dtype.kind in "iuf" and isinstance(missing, int | float):
        with contextlib.suppress(OverflowError, ValueError):  # a packed array may have that of its unpacked values
            cast = source.dtype.type(missing)
            if cast == missing or cast != cast:
                made[_MISSING] = cast
    return made


def _write_attributes(to: Any, source: Array | Group) -> None:
    _put_attributes(to, _attributes_of(source))


def _put_attributes(to: Any, attributes: Mapping[str, Any]) -> None:
    import h5py

    for name, value in attributes.items():
        try:
            to.attrs[name] = h5py.Empty("f4") if value is None else value
        except (TypeError, ValueError, OSError) as error:
            if isinstance(value, str) and "\0" in value:  # text of variable length ends at a NUL
                text = value.encode()
                to.attrs.create(name, np.bytes_(text), dtype=h5py.string_dtype("utf-8", len(text)))
            elif isinstance(error, OSError) and np.asarray(value).nbytes < _LARGEST_ATTRIBUTE:
                raise
            else:  # objects, lists of several types or lengths, many numbers
                to.attrs[name] = json.dumps(value, default=_plain)


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} has no form in JSON")


def _verify(source: Array | Group, made: Any) -> None:
    if isinstance(source, Array):
        (name,) = made.keys()
        return _compare(source, made[name])
    members, _ = _members_of(source)
    grown = grown_shapes(members)
    for path, node in members:
        if path in grown:
            compare_start(node, made[path])
        elif isinstance(node, Array):
            _compare(node, made[path])
    return None


def _compare(source: Array, made: Any) -> None:
    """The engine compares elements of one type; text of fixed length has another type in HDF5."""
    if source.dtype.kind == "U":
        compare_start(source, made)
    else:
        _core.compare(source, made)


def _all_bytes(values: Any) -> list[bytes]:
    return [each.encode() if isinstance(each, str) else each for each in np.asarray(values, object).flat]


def compare_start(source: Any, made: Any) -> None:
    """As `compare`, of the elements that `source` has."""
    if not source.size:
        return

    has_bytes = _has_bytes(source)

    def check(values: Any, box: tuple[slice, ...]) -> None:
        found = made[box]
        if has_bytes:  # of HDF5's character set ASCII: the copy may have text
            same = _all_bytes(values) == _all_bytes(found)
        else:
            same = np.array_equal(values, found, equal_nan=source.dtype.kind in "fc")
        if not same:
            raise CorruptDataError("the copy has other elements than the source", f"array '{source.uri}'")

    if not source.ndim:
        return check(source[...], ())
    rows = max(1, _BLOCK_BYTES // max(1, source.nbytes // source.shape[0]))
    with Stream(source, (min(rows, source.shape[0]), *source.shape[1:]), 1) as blocks:
        for block in blocks:
            check(block.data, block.box)
    return None
