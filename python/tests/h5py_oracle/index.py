"""What h5py reports about one dataset: type, layout, filters and the location of each chunk."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from penstock.core.errors import CorruptDataError, UnsupportedError
from penstock.hdf5.types import NoArrayError
from penstock.references.objects import Described, Object, pack_table

from h5py_oracle.dimensions import ScaleNames, dimension_names
from h5py_oracle.filters import codec_of
from h5py_oracle.links import encoded, names_in
from h5py_oracle.types import StoredType, attributes_json, attributes_of, fill_json, stored_type

_MOST_VARIABLE_BYTES = 1 << 28
_MOST_CHAINS = 1000


@dataclass
class Seen(Described):
    """A dataset as h5py sees it."""

    typed_attributes: dict[str, Any] = field(default_factory=dict)
    storage: dict[str, Any] = field(default_factory=dict)


def describe_dataset(
    dataset: Any,
    file: Object,
    uri: str,
    read_at: Callable[[int, int], bytes],
    scales: ScaleNames | None = None,
) -> Seen:
    """Describe a dataset as an array, with the bytes in `file`. Raises `UnsupportedError` with the unsupported part.

    `read_at(offset, length)` returns bytes of the file; `scales` caches names of scales for this state of the file.
    """
    if dataset.shape is None:
        raise NoArrayError("a dataset without a dataspace (H5S_NULL) is not an array")
    stored = stored_type(dataset.id.get_type())
    typed = attributes_of(dataset)
    names = dimension_names(dataset, scales)
    made = Seen({}, b"", [file], "hdf5", uri, typed_attributes=typed)
    shape = tuple(dataset.shape) + stored.shape
    plist = dataset.id.get_create_plist()
    zarray: dict[str, Any] = {"zarr_format": 2, "shape": list(shape), "dtype": stored.dtype, "order": "C"}
    zarray.update(compressor=None, filters=stored.codecs, fill_value=_fill(dataset, plist, stored))
    if stored.variable:
        _describe_variable(dataset, zarray, made)
    elif dataset.chunks is not None:
        _describe_chunked(dataset, plist, stored, zarray, made, read_at)
    else:
        _describe_whole(dataset, plist, stored, shape, zarray, made)
    if not zarray["filters"]:
        zarray["filters"] = None
    made.storage = _storage(dataset, plist, stored)
    made.documents = {".zarray": zarray, ".zattrs": attributes_json(typed)}
    if names is not None and any(name is not None for name in names):
        made.dimension_names = (*names, *(None for _ in stored.shape))
    return made


# The filters that netCDF4-python and h5py name.
_NAMES = {1: "zlib", 2: "shuffle", 3: "fletcher32", 4: "szip", 5: "nbit", 6: "scaleoffset", 307: "bzip2"}
_NAMES |= {
    32000: "lzf",
    32001: "blosc",
    32004: "lz4",
    32008: "bitshuffle",
    32013: "zfp",
    32015: "zstd",
    32026: "blosc2",
}


def _storage(dataset: Any, plist: Any, stored: StoredType) -> dict[str, Any]:
    import h5py

    filters = [plist.get_filter(i) for i in range(plist.get_nfilters())] if dataset.chunks is not None else []
    try:
        dtype = dataset.dtype
    except TypeError:  # a type that h5py does not know
        dtype = stored.numpy
    names = h5py.check_enum_dtype(dtype)
    called = _type_name(dataset) if names is not None else None
    if called is not None:
        dtype = np.dtype(dtype.str, metadata={"enum": names, "enum_name": called})
    elif dtype.metadata is not None and dtype.kind != "O":
        dtype = np.dtype(dtype.str)
    return {
        "chunks": dataset.chunks,
        "maxshape": dataset.maxshape,
        "filters": {_NAMES.get(number, number): tuple(map(int, values)) for number, _, values, _ in filters},
        "dtype": dtype,
    }


def _type_name(dataset: Any) -> str | None:
    """The name of a dataset's type in its group or one above, or None. (netCDF stores copies of types.)"""
    from h5py import h5g

    kind, group = dataset.id.get_type(), dataset.parent
    while True:
        for name in names_in(group):
            raw = encoded(name)
            try:
                if h5g.get_objinfo(group.id, raw).type == h5g.TYPE and group[raw].id.equal(kind):
                    return str(name)
            except (KeyError, OSError, RuntimeError, ValueError):
                continue
        if group.name == "/":
            return None
        group = group.parent


def _fill(dataset: Any, plist: Any, stored: StoredType) -> Any:
    """The fill value as .zarray writes it; None if it is not defined."""
    if stored.variable:
        return ""
    from h5py import h5d

    if plist.fill_value_defined() == h5d.FILL_VALUE_UNDEFINED:
        return None
    tid = dataset.id.get_type()
    raw = np.zeros(tid.get_size(), np.uint8)
    if plist.fill_value_defined() == h5d.FILL_VALUE_USER_DEFINED:
        raw = _raw_fill(dataset, plist, stored)
    items = raw.reshape(-1, stored.numpy.itemsize) if raw.size else raw.reshape(0, 1)
    if len(items) and (items != items[0]).any():
        raise UnsupportedError("a fill value of an array whose elements differ is not readable")
    return fill_json(items[0].copy(), stored) if len(items) else None


def _raw_fill(dataset: Any, plist: Any, stored: StoredType) -> npt.NDArray[np.uint8]:
    """The fill value's bytes in the file's type, encoded from what h5py returns."""
    size = dataset.id.get_type().get_size()
    memory = np.zeros((), dataset.dtype if dataset.dtype.subdtype is None else dataset.dtype.base)
    try:
        value = dataset.fillvalue
    except (TypeError, ValueError, RuntimeError, OSError) as error:
        raise UnsupportedError(f"the fill value is not readable: {error}") from error
    if stored.numpy.names is not None:
        memory[()] = value
        out = np.zeros((), stored.numpy)
        for name in stored.numpy.names:
            out[name] = memory[name]
        return np.frombuffer(out.tobytes(), np.uint8)
    item = np.asarray(value).astype(stored.numpy) if stored.numpy.kind != "V" else np.asarray(value)
    data = item.tobytes()
    return np.frombuffer(data if len(data) == size else data * (size // max(1, len(data))), np.uint8)


def _describe_variable(dataset: Any, zarray: dict[str, Any], made: Described) -> None:
    """Text of variable length is in heaps: h5py reads it, once."""
    if 16 * dataset.size > _MOST_VARIABLE_BYTES:
        raise UnsupportedError(f"{dataset.size} items of variable length are more than this release reads")
    parts = [int(dataset.size).to_bytes(4, "little")]
    for item in np.asarray(dataset[()], object).reshape(-1):
        data = item.encode("utf-8", "surrogateescape") if isinstance(item, str) else bytes(item)
        parts += [len(data).to_bytes(4, "little"), data]
    text = b"".join(parts)
    if len(text) > _MOST_VARIABLE_BYTES:
        raise UnsupportedError(f"{len(text)} bytes of variable length are more than this release reads")
    from h5py import h5t

    utf8 = dataset.id.get_type().get_cset() == h5t.CSET_UTF8
    zarray["filters"] = [{"id": "vlen-utf8" if utf8 else "vlen-bytes"}]
    zarray["chunks"] = [max(1, n) for n in zarray["shape"]]
    cells = 0 if 0 in zarray["shape"] else 1
    made.objects = [Object("inline", data=text)]
    made.table = pack_table(cells, [0] * cells, [len(text)] * cells)
    if not cells:
        made.objects = []


def _describe_whole(
    dataset: Any, plist: Any, stored: StoredType, shape: tuple[int, ...], zarray: dict[str, Any], made: Described
) -> None:
    from h5py import h5d

    item = stored.numpy.itemsize
    written = dataset.id.get_space_status() != h5d.SPACE_STATUS_NOT_ALLOCATED
    offset = dataset.id.get_offset() if written else None
    if plist.get_layout() == h5d.COMPACT:
        data = _compact_bytes(dataset)
        made.objects = [Object("inline", data=data)]
        zarray["chunks"], made.table, made.variants = describe_contiguous(shape, item, 0)
        if not data:
            made.objects = []
        return
    zarray["chunks"], made.table, made.variants = describe_contiguous(shape, item, offset or 0)
    if offset is None:  # never written
        zarray["chunks"] = [max(1, n) for n in shape]
        cells = 0 if 0 in shape else 1
        made.table, made.variants = pack_table(cells, [], []), []


def _compact_bytes(dataset: Any) -> bytes:
    """The values of a compact dataset, in the file's own type."""
    from h5py import h5s

    tid = dataset.id.get_type()
    out = np.zeros(dataset.id.get_space().get_simple_extent_npoints() * tid.get_size(), np.uint8)
    if out.size:
        dataset.id.read(h5s.ALL, h5s.ALL, out, mtype=tid)
    return out.tobytes()


def _describe_chunked(
    dataset: Any,
    plist: Any,
    stored: StoredType,
    zarray: dict[str, Any],
    made: Described,
    read_at: Callable[[int, int], bytes],
) -> None:
    chunk = tuple(dataset.chunks)
    item = dataset.id.get_type().get_size()
    zarray["chunks"] = list(chunk + stored.shape)
    used: list[int | None] = []  # the number of each filter's codec in the list
    for i in range(plist.get_nfilters()):
        number, _, values, name = plist.get_filter(i)
        codec = codec_of(number, tuple(int(value) & 0xFFFFFFFF for value in values), item, name)
        used.append(None if codec is None else len(zarray["filters"]))
        if codec is not None:
            zarray["filters"].append(codec)
    first = len(stored.codecs)
    grid = tuple(-(-n // c) for n, c in zip(dataset.shape, chunk, strict=True))
    numbers, masks, offsets, sizes = _chunk_index(dataset, chunk, grid, read_at)
    raw_edges = bool(used) and _leaves_edges_raw(dataset, plist, numbers, masks, sizes, grid, chunk, item)
    if used and raw_edges:
        masks = np.where(_is_edge(numbers, grid, chunk, dataset.shape), np.uint64((1 << len(used)) - 1), masks)
    chains = np.zeros(len(numbers), np.uint64)
    # Bits beyond the pipeline have no meaning. A filter whose codec is None does nothing, skipped or not.
    masks &= np.uint64((1 << len(used)) - 1)
    different = [int(mask) for mask in np.unique(masks) if mask] if masks.any() else []
    if len(different) > _MOST_CHAINS:
        raise UnsupportedError(f"{len(different)} different filter masks are more than this release reads")
    for chain, mask in enumerate(different, 1):
        skipped = [codec for i, codec in enumerate(used) if mask >> i & 1 and codec is not None]
        made.variants.append((skipped, None))
        chains[masks == mask] = chain
    assert all(codec is None or codec >= first for codec in used)
    cells = 1
    for n in grid:
        cells *= n
    if 0 in stored.shape:
        cells = 0
    made.table = pack_table(cells, offsets, sizes, numbers=numbers, chains=chains)


_Numbers = npt.NDArray[np.uint64]


def _chunk_index(
    dataset: Any, chunk: tuple[int, ...], grid: tuple[int, ...], read_at: Callable[[int, int], bytes]
) -> tuple[_Numbers, _Numbers, _Numbers, _Numbers]:
    """(cell numbers, filter masks, offsets, sizes) of the chunks that exist, in the order of the cells."""
    rows: list[int] = []
    add = rows.extend

    def collect(info: Any) -> None:
        add(info.chunk_offset)
        add((info.filter_mask, info.byte_offset, info.size))

    if not hasattr(dataset.id, "chunk_iter"):
        raise UnsupportedError("h5py must be built with HDF5 1.12.3 or 1.14, which list a dataset's chunks at once")
    dataset.id.chunk_iter(collect)
    rank = len(chunk)
    table = np.array(rows, np.uint64).reshape(-1, rank + 3)
    at = _swapped_places(dataset, table[:, :rank] // np.array(chunk, np.uint64), table, chunk, read_at)
    inside = (at < np.array(grid, np.uint64)).all(axis=1) & (table[:, rank + 2] != 0)
    table, at = table[inside], at[inside]
    strides = np.ones(rank, np.uint64)
    for d in range(rank - 2, -1, -1):
        strides[d] = strides[d + 1] * np.uint64(grid[d + 1])
    numbers = at @ strides
    order = np.argsort(numbers, kind="stable")
    numbers = numbers[order]
    if len(numbers) > 1 and (numbers[1:] == numbers[:-1]).any():
        raise CorruptDataError("the chunk index names a chunk twice")
    table = table[order]
    return numbers, table[:, rank].copy(), table[:, rank + 1].copy(), table[:, rank + 2].copy()


def _swapped_places(
    dataset: Any, at: _Numbers, table: _Numbers, chunk: tuple[int, ...], read_at: Callable[[int, int], bytes]
) -> _Numbers:
    """The chunks' places in the grid, corrected where the HDF5 library reports them wrong.

    An extensible array numbers its chunks with the unlimited dimension first. HDF5 2.0 converts the numbers as if the
    order were the dataset's own: if the one unlimited dimension of a dataset is not its first, the reported places are
    wrong. The bytes decide: read_direct_chunk looks a place up as reading does.
    """
    unlimited = [d for d, most in enumerate(dataset.maxshape) if most is None]
    if len(unlimited) != 1 or unlimited[0] == 0 or not len(at):
        return at
    free = unlimited[0]
    most = [1 if n is None else -(-n // c) for n, c in zip(dataset.maxshape, chunk, strict=True)]
    if (at[:, :free] != 0).any():
        return at  # the places are correct: wrong ones are at the start of all dimensions before the unlimited one
    slot = np.zeros(len(at), np.uint64)
    for d in range(free, len(chunk)):
        slot = slot * np.uint64(most[d] if d > free else 1) + at[:, d]
    right = at.copy()
    for d in range(len(chunk) - 1, -1, -1):
        if d != free:
            right[:, d] = slot % np.uint64(most[d])
            slot = slot // np.uint64(most[d])
    right[:, free] = slot
    for which in np.flatnonzero((right != at).any(axis=1)):
        stored = read_at(int(table[which, -2]), int(table[which, -1]))
        found = [_chunk_bytes(dataset, place[which], chunk) == stored for place in (at, right)]
        if found[0] != found[1]:
            return at if found[0] else right
    return at if (at < np.array([-(-n // c) for n, c in zip(dataset.shape, chunk, strict=True)])).all() else right


def _chunk_bytes(dataset: Any, place: _Numbers, chunk: tuple[int, ...]) -> bytes | None:
    try:
        data: bytes = dataset.id.read_direct_chunk(tuple(int(i) * c for i, c in zip(place, chunk, strict=True)))[1]
    except (OSError, RuntimeError, ValueError):
        return None
    return data


def _is_edge(
    numbers: _Numbers, grid: tuple[int, ...], chunk: tuple[int, ...], shape: tuple[int, ...]
) -> npt.NDArray[np.bool_]:
    at = np.unravel_index(numbers.astype(np.int64), grid) if len(numbers) else ()
    edge = np.zeros(len(numbers), bool)
    for d, where in enumerate(at):
        edge |= (where + 1) * chunk[d] > shape[d]
    return edge


def _leaves_edges_raw(
    dataset: Any,
    plist: Any,
    numbers: _Numbers,
    masks: _Numbers,
    sizes: _Numbers,
    grid: tuple[int, ...],
    chunk: tuple[int, ...],
    item: int,
) -> bool:
    """Whether chunks at the array's edge are stored without filters although their masks do not show it.

    The layout's flag for this (H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS) cannot be read by h5py. With it, all such chunks
    have their full size. If they do, one chunk whose stored bytes are not all equal is compared with what h5py reads.
    """
    edge = np.flatnonzero(_is_edge(numbers, grid, chunk, dataset.shape) & (masks == 0))
    full = int(np.prod(chunk, dtype=np.int64)) * item
    if not len(edge) or (sizes[edge] != full).any():
        return False
    tid = dataset.id.get_type()
    from h5py import h5s

    for which in edge[:64]:
        at = [int(i) * c for i, c in zip(np.unravel_index(int(numbers[which]), grid), chunk, strict=True)]
        count = tuple(min(c, n - a) for c, n, a in zip(chunk, dataset.shape, at, strict=True))
        raw = np.frombuffer(dataset.id.read_direct_chunk(tuple(at))[1], np.uint8).reshape((*chunk, item))
        space = dataset.id.get_space()
        space.select_hyperslab(tuple(at), count)
        decoded = np.zeros((*count, item), np.uint8)
        dataset.id.read(h5s.create_simple(count), space, decoded, mtype=tid)
        if not np.array_equal(raw[tuple(slice(n) for n in count)], decoded):
            return False
        if len(np.unique(raw.reshape(-1, item), axis=0)) > 1:
            return True  # not all elements are equal: a filter would have changed these bytes
    return False


def contiguous_blocks(
    shape: Sequence[int], item_bytes: int, most_bytes: int = 1 << 20
) -> tuple[tuple[int, ...], npt.NDArray[np.uint64], npt.NDArray[np.uint64], int | None]:
    """The cells of C-order bytes without chunks.

    Returns (cell shape, offsets of the cells, their lengths, axis): each cell is one run of bytes, of about
    `most_bytes`. The last cell along `axis` may be shorter than the others (axis None: all have the same length).
    """
    rank = len(shape)
    if rank == 0 or 0 in shape:
        count = 1 if rank == 0 else 0
        whole = np.full(count, item_bytes, np.uint64)
        return tuple(max(1, n) for n in shape), np.zeros(count, np.uint64), whole, None
    run = item_bytes  # bytes of one step along `axis`
    axis = rank - 1
    while axis > 0 and run * shape[axis] <= most_bytes // 2:
        run *= shape[axis]
        axis -= 1
    step = min(shape[axis], max(1, most_bytes // run))
    blocks = -(-shape[axis] // step)
    rows = 1
    for length in shape[:axis]:
        rows *= length
    starts = np.arange(blocks, dtype=np.uint64) * np.uint64(step * run)
    lengths = np.full(blocks, step * run, np.uint64)
    clipped = shape[axis] % step != 0
    if clipped:
        lengths[-1] = shape[axis] % step * run
    bases = np.arange(rows, dtype=np.uint64) * np.uint64(shape[axis] * run)
    offsets = (bases[:, None] + starts[None, :]).reshape(-1)
    cell = (1,) * axis + (step,) + tuple(shape[axis + 1 :])
    return cell, offsets, np.tile(lengths, rows), axis if clipped else None


def describe_contiguous(shape: Sequence[int], item_bytes: int, offset: int) -> tuple[tuple[int, ...], bytes, Any]:
    """(chunk shape, table, variants) of C-order bytes from `offset` of object 0."""
    cell, offsets, lengths, axis = contiguous_blocks(shape, item_bytes)
    variants: list[tuple[list[int], tuple[int, ...] | None]] = []
    chains = None
    if axis is not None:
        last = shape[axis] % cell[axis]
        variants.append(([], (*cell[:axis], last, *cell[axis + 1 :])))
        chains = (lengths != lengths[0]).astype(np.uint64) if shape[axis] > cell[axis] else None
    table = pack_table(len(offsets), offsets + np.uint64(offset), lengths, chains=chains)
    return cell, table, variants
