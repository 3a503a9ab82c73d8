"""The C++ part of the package. Users see it through `penstock`; names with `_` are the package's own."""

from builtins import bytes as _bytes
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

__version__: str

Range = tuple[int, int, int, int]

class Array:
    """An open array; penstock.Array derives from it."""

    def __init__(self, from_: Array) -> None: ...
    def __getitem__(self, key: Any, /) -> Any: ...
    def __setitem__(self, key: Any, value: Any, /) -> None: ...
    def __len__(self, /) -> int: ...
    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes in elements."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """One item in native byte order."""

    @property
    def chunks(self) -> tuple[int, ...]:
        """Shape of the chunks that decode on their own (inner chunks, if the array is sharded)."""

    @property
    def shards(self) -> tuple[int, ...] | None:
        """Shape of the shards, or None."""

    @property
    def dimension_names(self) -> tuple[str | None, ...] | None:
        """One name, or None, for each dimension; None if the array names none. In Zarr 2: xarray's attribute."""

    @property
    def format(self) -> str:
        """The format: `zarr2`, `zarr3`, `tiff`, `hdf5`, `netcdf`, `npy`, `raw`, `arrow` (also Parquet), `reference`
        (kerchunk), `joined` (many arrays).
        """

    @property
    def uri(self) -> str:
        """The URI by which the array can be opened; `memory:` and similar if it has none."""

    @property
    def read_only(self) -> bool:
        """Whether every write is refused: opened with mode="r", or its format or its store is read-only."""

    @property
    def _fill_value_bytes(self) -> bytes: ...
    @property
    def _fill_object(self) -> Any: ...
    @property
    def _has_items(self) -> bool: ...
    @property
    def _fill_value_json(self) -> str: ...
    @property
    def _attributes_json(self) -> str: ...
    @property
    def _codecs_json(self) -> str: ...
    @property
    def _codecs_text(self) -> str: ...
    @property
    def _tiff_details(self) -> TiffDetails | None: ...
    def _tiff_image(self, options: dict[str, Any]) -> Array: ...
    def _read(self, key: Any, threads: int, progress: Callable[[int, int], Any] | None) -> Any: ...
    def _read_into(
        self,
        key: Any,
        out: Any,
        threads: int,
        progress: Callable[[int, int], Any] | None,
        dtype: np.dtype[Any] | None = None,
    ) -> None: ...
    def _start_read(self, key: Any, out: Any, threads: int, dtype: np.dtype[Any] | None = None) -> _Ticket: ...
    def _become(self, other: Array) -> None: ...
    def _resolve(self, key: Any) -> tuple[tuple[Range, ...] | None, tuple[int, ...]]: ...
    def _orthogonal(self, items: tuple[Any, ...]) -> _Selection: ...
    def _points(self, lists: tuple[Any, ...], shape: tuple[int, ...]) -> _Selection: ...
    def _of_mask(self, mask: Any) -> _Selection: ...
    def _blocks(self, items: tuple[Any, ...]) -> _Selection: ...
    def _plan(self, key: Any, max_lines: int, max_touched: int, on_device: bool = False) -> dict[str, Any]: ...
    def _write_device(
        self,
        key: Any,
        memory: tuple[int, tuple[int, ...], np.dtype[Any], int],
        stream: int | None,
        threads: int,
        progress: Callable[[int, int], Any] | None,
        durable: bool,
        write_empty_chunks: bool,
        encoder: str | None = None,
    ) -> None: ...
    def _write(
        self,
        key: Any,
        value: Any,
        threads: int,
        progress: Callable[[int, int], Any] | None,
        durable: bool,
        write_empty_chunks: bool,
    ) -> None: ...
    def _start_write_device(
        self,
        key: Any,
        memory: tuple[int, tuple[int, ...], np.dtype[Any], int],
        stream: int | None,
        threads: int,
        durable: bool,
        write_empty_chunks: bool,
        encoder: str | None,
    ) -> _WriteTicket: ...
    def _start_write(
        self, key: Any, value: Any, threads: int, durable: bool, write_empty_chunks: bool
    ) -> _WriteTicket: ...
    def _resize(self, shape: tuple[int, ...]) -> None: ...
    def _append(
        self,
        value: Any,
        axis: int,
        threads: int,
        progress: Callable[[int, int], Any] | None,
        durable: bool,
        write_empty_chunks: bool,
    ) -> None: ...

class Group:
    """An open group; penstock.Group derives from it."""

    def __init__(self, from_: Group) -> None: ...
    @property
    def uri(self) -> str:
        """The URI by which the group can be opened; `memory:` and similar if it has none."""

    @property
    def read_only(self) -> bool:
        """Whether every write is refused: opened with mode="r", or its format or its store is read-only."""

    @property
    def format(self) -> str:
        """The format: `zarr2`, `zarr3`, `hdf5`, `netcdf`, `npz`, `reference` (kerchunk), `virtual` (many files)."""

    @property
    def consolidated(self) -> bool:
        """Whether its children are read from consolidated metadata."""

    @property
    def _attributes_json(self) -> str: ...
    def keys(self) -> list[str]:
        """Names of the direct children, sorted."""

    def _open(self, path: bytes) -> Array | Group: ...
    def _members(self) -> list[tuple[str, Array | Group]]:
        """The direct children, opened, by name."""

class Context:
    """Threads, caches, pools and limits; penstock.Context derives from it."""

    def __init__(
        self,
        threads: int,
        io_concurrency: int,
        memory_limit: int,
        output_pool: int,
        chunk_cache: int,
        codecs: Callable[..., Any] | None = None,
        page_locked: int = 0,
        device_memory: int = 0,
        decoder: str = "",
        nvcomp_library: str = "",
        device_allocator: Any = None,
        sync: str = "objects",
        encoder: str = "auto",
        write_queue: int = 0,
        disk_cache: str = "",
        disk_cache_limit: int = 0,
        disk_cache_trust: float = 0.0,
    ) -> None: ...
    @property
    def threads(self) -> int:
        """Decoding workers of one read."""

    @property
    def decoder(self) -> str:
        """The decoder on devices: `penstock`, or `nvcomp 6.0.0`."""

    @property
    def _memory_limit(self) -> int: ...
    def usage(self) -> dict[str, int]:
        """Current and peak bytes by account, hits and misses of the index cache, and hits of the chunk cache."""

    def clear(self) -> None:
        """Drop cached indexes and chunks, release idle memory, and reset devices that failed."""

    def synchronize(self) -> None:
        """Wait for reads into device memory that were exported, and raise errors that were not reported yet."""

    def _start_profile(self, max_events: int) -> None: ...
    def _stop_profile(self) -> dict[str, Any]: ...

class Store:
    """A store of the engine."""

    @property
    def uri(self) -> str: ...
    @property
    def writable(self) -> bool: ...
    def put(self, key: str, value: bytes, absent: bool = False) -> bool:
        """Replace or create an object; with `absent`, only create it: False if it exists."""

    def swap(self, key: str, change: Callable[[bytes | None], bytes]) -> int:
        """Replace an object by the result of `change(bytes or None)`; returns the number of attempts."""

    def erase(self, key: str) -> None:
        """Remove an object; an absent one is not an error."""

    def get(self, key: str) -> bytes | None:
        """All bytes of an object, or None."""

    def list(self, prefix: str, children: bool = False) -> list[str]:
        """Keys below a prefix, sorted."""

    def flush(self) -> None: ...

class _Selection:
    """A selection resolved against an array: it may be read repeatedly."""

    @property
    def shape(self) -> tuple[int, ...]: ...

class _WriteTicket:
    """A write in the background."""

    @property
    def done(self) -> bool: ...
    @property
    def progress(self) -> tuple[int, int]: ...
    def cancel(self) -> None: ...
    def wait_for(self, seconds: float) -> bool: ...
    def result(self) -> None: ...
    def on_done(self, then: Callable[[], None]) -> None: ...

class _Ticket:
    """A read under way. Dropping it cancels the read and waits for its workers."""

    @property
    def done(self) -> bool: ...
    @property
    def progress(self) -> tuple[int, int]:
        """(bytes done, bytes in all), decoded."""

    def cancel(self) -> None: ...
    def wait_for(self, seconds: float) -> bool: ...
    def result(self) -> Any: ...
    def on_done(self, then: Callable[[], None]) -> None: ...

class _PendingRequests:
    """Requests that a store's event loop completes, each once."""

    @property
    def stopped(self) -> bool: ...
    def done(self, which: int, given: Any) -> None: ...
    def failed(self, which: int, exception: BaseException) -> None: ...

class _BatchMemory:
    """Memory of a batch, from a context's pool; returned to it when dropped."""

    def __buffer__(self, flags: int, /) -> memoryview: ...

class _Appender:
    """Rows that are appended in the background: see penstock.Appender."""

    def __init__(
        self,
        array: Array,
        axis: int,
        queue_bytes: int,
        threads: int,
        durable: bool,
        write_empty_chunks: bool,
        publish_interval: float,
    ) -> None: ...
    def append(self, rows: Any) -> None: ...
    def append_device(
        self, address: int, shape: tuple[int, ...], strides: tuple[int, ...], stream: int | None, keeps: Any
    ) -> None: ...
    def flush(self, array: Array) -> None: ...
    def close(self, array: Array) -> None: ...
    @property
    def rows(self) -> int: ...
    @property
    def stored_rows(self) -> int: ...
    @property
    def queued_bytes(self) -> int: ...
    @property
    def closed(self) -> bool: ...

class _LevelAppender:
    """Rows of an image and its levels: see penstock.create_levels."""

    def __init__(
        self,
        group: Group,
        paths: list[str],
        arrays: list[Any],
        rule: str,
        convention: str,
        name: str,
        queue_bytes: int,
        threads: int,
    ) -> None: ...
    def append(self, rows: Any, dtype: Any, progress: Callable[[int, int], Any] | None = None) -> None: ...
    def flush(self) -> None: ...
    def close(self, group: Group) -> None: ...

def _levels_of(group: Group) -> list[tuple[str, tuple[float, ...], tuple[float, ...]]]: ...
def _level_shape(image: tuple[int, ...], number: int) -> tuple[int, ...]: ...

class _Loader:
    """Batches of crops of arrays: see penstock.loader."""

    def __init__(
        self,
        arrays: list[tuple[Any, ...]],
        axes: list[tuple[int, bool, int, int, int]],
        random_samples: int | None,
        origins: _bytes | None,
        batch: int,
        drop_last: bool,
        shuffle: bool,
        seed: int,
        window_bytes: int,
        depth: int,
        mask: bool,
        device: int | None = None,
    ) -> None: ...
    @property
    def samples(self) -> int: ...
    def batches_of(self, first: int, rank: int, ranks: int) -> int: ...
    def start(self, epoch: int, first: int, rank: int, ranks: int) -> None: ...
    def next(self) -> tuple[int, int, list[Any], Any] | None:
        """(number, samples, one ndarray or _DeviceRead for each array, the mask), or None at the end."""

    def counts(self) -> dict[str, int]: ...

class _Batches:
    """Batches of crops of arrays, read ahead: see penstock.batches."""

    def __init__(
        self,
        next_crop: Callable[[], tuple[Array, Any] | None],
        size: int,
        depth: int,
        drop_last: bool,
        device: int | None = None,
        dtype: np.dtype[Any] | None = None,
        check: bool = False,
    ) -> None: ...
    def next(self) -> Any:
        """An ndarray, or a `_DeviceRead` if there is a device; None after the last one."""

    def cancel(self) -> None: ...

class _Stream:
    """Tiles of an array, read ahead: see penstock.stream."""

    def __init__(self, array: Array, tile: Sequence[int], depth: int, axis: int, edges: Sequence[int]) -> None: ...
    def next(self) -> tuple[tuple[int, ...], tuple[slice, ...], npt.NDArray[Any]] | None:
        """(index, slices, values), or None at the end."""

    def cancel(self) -> None: ...

class _DeviceTiles:
    """Tiles of an array, read ahead into device memory: see penstock.stream."""

    def __init__(
        self, array: Array, tile: Sequence[int], depth: int, axis: int, edges: Sequence[int], device: int, check: bool
    ) -> None: ...
    def next(self) -> tuple[tuple[int, ...], tuple[slice, ...], _DeviceRead, int] | None:
        """(index, slices, read, stream), or None at the end."""

    @property
    def complete(self) -> int:
        """Number of tiles ahead that the device has completed."""

    def cancel(self) -> None: ...

class _ShardWriter:
    """Files of one pattern, one after the other: see penstock.ShardWriter."""

    @staticmethod
    def make(
        context: Context, pattern: _bytes, manifest: _bytes | None, own_format: bool, name: str
    ) -> _ShardWriter: ...
    def write(self, values: Any, descr: _bytes) -> _bytes:
        """Write the next file; returns its path."""

    def write_array(self, context: Context, values: Any, descr: _bytes, options: dict[str, Any], mask: Any) -> _bytes:
        """Write the next Zarr array or TIFF with options of `create_array`; returns its path."""

    def next(self, values: Any, descr: _bytes) -> _bytes:
        """The path of the next file, which the caller writes."""

    def add(self, crc32c: int) -> None:
        """Add the file that `next` named, which is complete."""

    def close(self) -> None: ...
    def sync(self) -> None: ...
    def remove_left_over(self) -> None: ...
    def left_over(self, count: int) -> list[_bytes]:
        """The existing files with numbers from `count` on."""

    def path(self, number: int) -> _bytes: ...
    @property
    def pattern(self) -> _bytes: ...
    @property
    def folder(self) -> _bytes: ...
    @property
    def suffix(self) -> _bytes: ...
    @property
    def checksums(self) -> list[int]: ...

class _OutputMemory:
    """Memory of a large result, from a context's pool; returned to it when dropped."""

    def __buffer__(self, flags: int, /) -> memoryview: ...

def recycled_memory(context: Context, bytes: int) -> _OutputMemory:
    """Memory for a result, with unspecified contents."""

class _ChunkBatch:
    """Chunks that are read or written together."""

    @property
    def bytes(self) -> int:
        """Bytes that the chunks decode to."""

    def __len__(self) -> int: ...
    def read(self, context: Context, store: Store, threads: int) -> _bytes | None:
        """Read all; returns a byte for each chunk, 1 if it is missing, or None if none is."""

    def read_to_device(
        self, context: Context, store: Store, device: int, stream: int | None, threads: int
    ) -> _bytes | None:
        """The same into device memory, in the order of `stream`; None: the call waits for the device."""

    def write(
        self,
        context: Context,
        old: Store,
        to: Store | None,
        write_empty_chunks: bool,
        threads: int,
        device: int | None = None,
        stream: int | None = None,
    ) -> list[_bytes | None] | None:
        """Merge and encode all, and put them into `to`; without it, return them (None: empty). Values in device memory
        are read in the order of `stream`; None: after all work that the device has received."""

    def missing(self) -> _bytes | None: ...

class _ChunkTicket:
    """One chunk's read under way."""

    def __init__(self, batch: _ChunkBatch, store: Store, which: int, context: Context) -> None: ...
    def on_done(self, then: Callable[[], None]) -> None: ...
    def finish(self) -> None: ...

class ChunkPipeline:
    """A chain of codecs, compiled for chunks of one type and shape."""

    def __init__(self, document: str) -> None: ...
    def batch(self, items: Iterable[Any], memory: Any) -> _ChunkBatch | None: ...
    def device_batch(
        self, items: Iterable[Any], address: int, shape: tuple[int, ...], strides: tuple[int, ...]
    ) -> _ChunkBatch | None: ...
    @property
    def device_path(self) -> str: ...
    @property
    def chunk_bytes(self) -> int: ...
    @property
    def item_bytes(self) -> int: ...
    @property
    def sharded(self) -> bool: ...
    @property
    def codecs_text(self) -> str: ...

def new_output(of: Array, dtype: np.dtype[Any], shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """A new ndarray with unspecified contents; a large one is in memory that the array's context recycles."""

def _dlpack_capsule(
    owner: Any,
    address: int,
    dtype: np.dtype[Any],
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    device: tuple[int, int],
    flags: int,
    versioned: bool,
) -> Any:
    """A DLPack capsule over memory that `owner` keeps; `strides` in bytes."""

def open_reference(
    context: Context,
    documents: dict[str, str],
    table: bytes,
    variants: list[tuple[list[int], tuple[int, ...] | None]],
    objects: list[tuple[bytes, Store | bytes, bytes, bool, int | None, bytes, tuple[int, int] | None, str]],
    format: str,
    uri: bytes,
    dimension_names: tuple[str | None, ...] | None,
    missing_is_fill: bool,
    joined: tuple[int, bytes, bytes] | None = None,
) -> Array:
    """An array whose bytes are in objects of other formats."""

def hdf5_index(store: Store, key: _bytes, header: int) -> tuple[_bytes, _bytes, _bytes, _bytes, bool]:
    """Cells, filter masks, offsets and lengths of a dataset's chunks; whether chunks at the edge skip all filters."""

def open_hdf5(
    store: Store, context: Context, key: _bytes, path: _bytes, size: int | None = None, needs_ranges: bool = False
) -> Array | Group: ...
def hdf5_storage(array: Array) -> str:
    """How a dataset of an HDF5 file is stored, as JSON."""

def hdf5_array_values(array: Array) -> list[tuple[str, str, _bytes]]:
    """(name, JSON, bytes) of each attribute of a dataset whose JSON value does not determine its type."""

def hdf5_group_values(group: Group) -> list[tuple[str, str, _bytes]]:
    """The same for a group."""

def hdf5_is_compound(group: Group) -> bool:
    """Whether a group is a dataset of compounds whose members are opened one by one."""

def hdf5_members(group: Group) -> tuple[list[_bytes], list[_bytes]]:
    """Members in the order of the file, and netCDF's marks for dimensions without a variable."""

def group_identity(group: Group) -> str:
    """A text that is equal for two paths to one group of a file; "": groups are distinguished by their paths only."""

def hdf5_dimension_names(group: Group) -> tuple[dict[_bytes, tuple[str, ...]], dict[_bytes, _bytes]]:
    """Names of the dimensions of each dataset of the group's file by path, and further paths of groups."""

def hdf5_is_no_array(store: Store, key: _bytes, path: _bytes) -> bool:
    """Whether an existing object was unsupported because it is not an array."""

def hdf5_path_elsewhere(group: Group, store: Store, key: _bytes) -> _bytes | None:
    """The path of a group in its own file, if a link led there from the file at `key`."""

def hdf5_describe(store: Store, key: _bytes) -> tuple[str, int, int, int]:
    """Every group, dataset and attribute of an HDF5 file as JSON, and the rounds, requests and bytes that it took."""

def netcdf_header(group: Group) -> str:
    """The header of a group's NetCDF classic file, as JSON."""

def netcdf_types(array: Array) -> str:
    """The stored types of the attributes of a variable of such a file, by name, as JSON."""

def netcdf_describe(first: _bytes, file_bytes: int) -> str | int:
    """The header of a NetCDF classic file as JSON, or the number of the file's first bytes that are needed for it."""

def save_references(
    from_: Array, folder: _bytes, shards: str, find_stamps: Callable[[list[str]], list[str]] | None = None
) -> _bytes:
    """The manifest of an array of references, with files named relative to `folder`.

    `shards`: JSON of the joined files, or "". `find_stamps` returns the stamps of remote objects by URL, "" if they are
    not known.
    """

def kerchunk_json(group: Group) -> tuple[_bytes, list[tuple[str, str]]]:
    """The arrays of a group of references as kerchunk's JSON, and (path, reason) of the omitted ones."""

def exported_references(
    group: Group,
) -> tuple[dict[_bytes, _bytes], list[tuple[_bytes, tuple[int, ...], Array]], list[tuple[str, str]]]:
    """The documents of Zarr 2 by key, (path, chunks along each dimension, array) of each array of references, and
    (path, reason) of the omitted ones.
    """

def exported_rows(array: Array, begin: int, end: int) -> tuple[_bytes, _bytes, _bytes, _bytes]:
    """The references of the cells [begin, end): cells, objects, offsets, lengths as bytes of 64-bit numbers.

    Length 0 is the whole object.
    """

def pack_table(
    cells: int, numbers: _bytes, objects: _bytes, offsets: _bytes, lengths: _bytes, chains: _bytes
) -> _bytes:
    """The saved form of a reference table of an array of `cells` cells, from columns of 64-bit numbers; b'': all 0, or,
    of `numbers`, 0, 1, 2, ...
    """

def exported_objects(array: Array) -> list[tuple[_bytes, _bytes | None]]:
    """The objects of such an array by number: location, and the bytes of those in memory or None."""

def save_group_references(
    group: Group, folder: _bytes, find_stamps: Callable[[list[str]], list[str]] | None = None
) -> tuple[_bytes, list[tuple[str, str]]]:
    """The manifest of a group of such arrays; and (path, reason) of datasets of HDF5 that are not readable."""

def open_saved_references(
    context: Context,
    saved: _bytes,
    *,
    folder: _bytes,
    document: _bytes,
    allow_local: bool | None,
    expected: list[_bytes],
    missing_is_fill: bool,
    find_objects: Callable[[list[tuple[str, str, bool]]], list[tuple[Store, _bytes] | None]],
) -> Array | Group:
    """The array or group of a manifest whose files are below `folder`. `find_objects` finds remote ones."""

def read_saved_arrays(
    saved: _bytes,
    *,
    folder: _bytes,
    document: _bytes,
    allow_local: bool | None,
    expected: list[_bytes],
    missing_is_fill: bool,
) -> tuple[int, list[tuple[_bytes, int, int, int | None, str, tuple[int, ...], str, tuple[int, ...]]]]:
    """(axis, shards) of a manifest of shards that are arrays: (path, size, time of change, CRC-32C, format, ...)."""

def write_saved_arrays(
    shards: list[tuple[_bytes, int, int, int | None, str, list[int], str, list[int]]], axis: int, folder: _bytes
) -> _bytes:
    """The manifest of such shards, for a file in `folder`."""

def referenced_files(from_: Array) -> list[_bytes]:
    """The local files that such an array reads."""

def open_references(
    context: Context,
    found: _bytes | tuple[Store, _bytes, _bytes],
    path: _bytes,
    *,
    uri: _bytes,
    base: _bytes,
    document: _bytes,
    allow_local: bool | None,
    default_scheme: str,
    missing_is_fill: bool,
    find_folder: Callable[[str], tuple[Store, _bytes] | None],
) -> Array | Group:
    """A node of kerchunk's references: a JSON document, or (store, folder, .zmetadata) of those in Parquet."""

class _DeviceRead:
    """A read into device memory, and that memory."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def strides(self) -> tuple[int, ...]:
        """Strides in bytes."""

    @property
    def dtype(self) -> np.dtype[Any]: ...
    @property
    def address(self) -> int: ...
    @property
    def device(self) -> int: ...
    @property
    def queued(self) -> bool: ...
    @property
    def done(self) -> bool: ...
    @property
    def progress(self) -> tuple[int, int]: ...
    def cancel(self) -> None: ...
    def wait_for(self, seconds: float) -> bool: ...
    def wait(self) -> None: ...
    def order(self, stream: int) -> None: ...
    def mark_exported(self) -> None:
        """As `order`, for a consumer that orders its own work."""

    def release(self, stream: int) -> None: ...
    def synchronize(self) -> None: ...
    def outcome(self) -> None:
        """As `synchronize`, but raises errors of this read only."""

    def copy_to_host(self, address: int) -> None: ...
    def copy(self, stream: int | None) -> _DeviceRead:
        """A copy made on a stream; None: on one of Penstock's, and complete on return."""

    def on_queued(self, then: Callable[[], None]) -> None: ...

class _DeviceStream:
    """A stream of Penstock's, for the caller's work."""

    def __init__(self, device: int) -> None: ...
    @property
    def handle(self) -> int: ...

def _read_to_device(
    array: Array,
    selection: Any,
    device: int,
    stream: int | None,
    address: int,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    owner: Any,
    threads: int,
    check: bool,
    dtype: np.dtype[Any] | None = None,
) -> _DeviceRead: ...
def _context_of(array: Array) -> Context: ...
def _write_stream(context: Context, device: int) -> int:
    """The stream on which values to be written are ordered."""

def _device_to_host(
    context: Context,
    device: int,
    address: int,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    dtype: np.dtype[Any],
    to: int,
    stream: int | None,
) -> None:
    """Copy device memory to host memory in C order."""

def _converts(from_: np.dtype[Any], to: np.dtype[Any]) -> bool: ...
def _dlpack_view(
    capsule: Any, writable: bool = True
) -> tuple[int, tuple[int, ...], tuple[int, ...], tuple[int, int], tuple[int, int]]: ...
def _dlpack_type(dtype: Any) -> tuple[int, int] | None: ...
def _device_count() -> int: ...
def _cuda_version() -> int:
    """The version of CUDA that the driver supports: 13000 for 13.0."""

def _device_names() -> list[str]:
    """The names of the devices, in the driver's order."""

def copy_rate(threads: int = 0) -> float:
    """Bytes per second that threads (0: one for each processor of this process) copy in memory; measured once, in about
    20 ms."""

def checked_encoder(encoder: Any) -> str:
    """The name of an encoder, unless it is another one: InvalidArgumentError."""

def _process_limits(root: str = "") -> dict[str, Any]:
    """Processors, and bytes of memory: of the machine, and what this process may use of it."""

def linked_libraries() -> dict[str, str | None]:
    """The version of each library that this build uses, or None, by name."""

def _current_device() -> int: ...
def _device_of(address: int) -> int | None: ...
def _device_path(array: Array, device: int) -> str: ...
def _encoder_choice(array: Array, key: Any, device: int) -> str: ...
def open_described(
    store: Store, context: Context, path: _bytes, documents: dict[str, str], keeps_edges: bool | None = None
) -> Array:
    """Open an array from its metadata documents, given by name and text; nothing is read. `keeps_edges`, for arrays
    of zarr-python: True: writes change no element that chunks have beyond the array's edge; False: those of lists,
    points and masks change none."""

def read_plain(array: Array, key: Any, scalar: bool, threads: int) -> Any:
    """array[key] for ints, slices with positive steps and an Ellipsis, as zarr-python's selections."""

def write_plain(array: Array, key: Any, value: Any, write_empty_chunks: bool) -> bool:
    """array[key] = value for the keys of read_plain; False if zarr-python must write or refuse it."""

def find_place(uri: bytes, context: Context, storage_options: Mapping[str, Any] | None = None) -> tuple[Store, bytes]:
    """The store that a path or a URI names, and the path within it."""

def find_object_place(uri: bytes, context: Context) -> tuple[Store, bytes]:
    """The store of a new local file, and its name in that store."""

def find_elsewhere(
    uri: bytes, context: Context, storage_options: Mapping[str, Any] | None, is_installed: Callable[[], bool]
) -> tuple[Store, bytes] | str | None:
    """The store of a URI and the path within it.

    None: a local name. A text: another library must open the URI, and the text is the reason, or "".
    `is_installed`: whether a library is installed that exchanges Google's credentials for tokens.
    """

def serves(uri: bytes, storage_options: Mapping[str, Any] | None, is_installed: Callable[[], bool]) -> bool:
    """Whether the engine's own stores support a remote URI's scheme and every option."""

def is_elsewhere(uri: bytes) -> bool:
    """Whether a name is a remote URI, or a chain of URIs."""

def storage_option_names(scheme: bytes) -> list[str]:
    """The names of the engine's storage options for a scheme; none if it has no store for it."""

def split_at_object(uri: bytes) -> tuple[_bytes, _bytes]:
    """The remote URI of the HDF5 or NetCDF file that a URI continues in, and the path within it; otherwise the URI and
    b""."""

def names_for_others(uri: bytes) -> bool:
    """Whether a remote URI may be passed to another process: not if it may contain a secret."""

def local_path(name: bytes) -> bytes:
    """The path that a `file:` URI names; every other name unchanged."""

def named_location(folder: bytes, name: bytes) -> bytes:
    """The path or URL that a manifest in a folder names."""

def check_location(document: bytes, allow_local: bool | None, expected: list[_bytes], location: bytes) -> None:
    """Fail if a document may not name a location."""

class Found:
    """An object or folder at a place, not opened yet."""

    @property
    def driver(self) -> str:
        """The driver of the object; "": no format has its first bytes.

        "folder": the node of a folder; "reference": also references saved as Parquet.
        """

    @property
    def uri(self) -> str:
        """URI of the object or folder."""

    @property
    def store(self) -> Store: ...
    @property
    def key(self) -> bytes:
        """Path of the object or folder in the store."""

    @property
    def inner(self) -> bytes:
        """The path of the node within the object."""

    @property
    def size(self) -> int | None:
        """Size of the object in bytes; None: the store does not report it."""

    @property
    def begin(self) -> bytes:
        """The first bytes of the object."""

    @property
    def zmetadata(self) -> bytes | None:
        """`.zmetadata` of a folder of references saved as Parquet."""

    def within(self, inner: bytes) -> Found:
        """The same object, to open another of its nodes."""

    def content(self) -> bytes:
        """All bytes of the object."""

    def open(self) -> Array | Group:
        """Open it with the library's driver."""

    def open_tiff(self, tiff: dict[str, Any] | None) -> Array:
        """Open an image of the TIFF."""

    def open_hdf5(self, size: int | None, needs_ranges: bool) -> Array | Group:
        """Open a node of the HDF5 file, as `open_hdf5` does."""

def is_archive(begin: bytes) -> bool:
    """Whether a file with these first bytes is a zip archive."""

def table_kind(begin: bytes) -> str | None:
    """The kind of a file with these first bytes: "parquet", "arrow file" or "arrow stream"."""

def driver_of_bytes(begin: bytes, context: Context) -> str | None:
    """The driver that recognises the first bytes of an object."""

def driver_by_name(name: bytes, context: Context) -> str | None:
    """The driver whose objects have names with such an ending."""

def names_references(name: bytes) -> bool:
    """Whether a folder of reference tables may have this name."""

def object_at(store: Store, context: Context, path: bytes) -> Found | None:
    """The object at a path, of any kind; None if no object has that name. One request."""

def find_node(
    store: Store,
    context: Context,
    path: bytes,
    inner: bytes,
    cache_index: bool = False,
    consolidated: bool | None = None,
    object_first: bool = False,
) -> Found:
    """Find the node at `inner` below `path` of a store; object_first: it is an object, or in one."""

def open_local(path: str, inner: str, context: Context) -> Found | Array | tuple[Array | Group, Found]:
    """Find the node at `inner` below a local path.

    The array if it is a TIFF; the array or group and what was found if it is in an HDF5 file; else what was found.
    """

def find_local(
    uri: bytes,
    context: Context,
    inner: bytes,
    cache_index: bool = False,
    consolidated: bool | None = None,
    object_first: bool = False,
) -> Found:
    """Find the node at `inner` below a local path, or below a `file:` or `zip:` URI."""

def check_writable(node: Array | Group) -> None:
    """Raise the error that a write through the node would raise before it accesses storage."""

def set_mode(node: Array | Group, mode: str) -> None:
    """Refuse writes through a node that was just opened ("r"), or fail if it cannot be written to ("r+", "a")."""

def open_zarr_arrays(context: Context, paths: list[_bytes]) -> list[Array] | None:
    """Open local Zarr arrays, several at a time. None if one cannot be opened."""

class FoundShards:
    """Found files: found_shards of find_shards.h."""

    @property
    def store(self) -> Store: ...
    @property
    def keys(self) -> list[_bytes]: ...
    def names(self, most: int | None = None) -> list[_bytes]:
        """Names in the form for `open`; only the first `most`."""

    def format(self) -> str:
        """The format of the first file: npy, raw, hdf5, parquet, or other."""

    def raw_items(
        self,
        axis: int,
        descr: str | None,
        shape: list[int] | None,
        row_shape: list[int] | None,
        offset: int | None,
        fortran_order: bool | None,
    ) -> dict[str, Any]:
        """The options of raw files for `open_shards`: the given ones, completed from JSON files."""

def find_shard_files(
    files: _bytes | list[_bytes],
    context: Context,
    allow_gaps: bool,
    format: str | None,
    open_folder: Callable[[_bytes], tuple[Store, _bytes]],
) -> FoundShards:
    """Find the files of a pattern or a folder (bytes) or a list; `open_folder(folder)` returns its store and the path
    within it."""

def shard_format_by_name(name: _bytes) -> str | None:
    """The format that has the suffix of a name: npy, raw, hdf5, npz, zarr, tiff, parquet, arrow; None: none."""

def shard_endings(format: _bytes) -> list[str]:
    """The endings of names of a format's files, each with the dot; of all formats for b""."""

def is_shard_pattern(name: _bytes) -> bool:
    """Whether a name is a shell pattern."""

def find_shards(store: Store, pattern: _bytes, allow_gaps: bool) -> list[_bytes]:
    """Keys that match a shell pattern, in the order of the numbers in them."""

def open_shards(store: Store, context: Context, keys: list[_bytes], axis: int, raw: dict[str, Any] | None) -> Array:
    """Open .npy or raw files as one array."""

def open_virtual(
    store: Store,
    context: Context,
    keys: list[_bytes],
    concat: str,
    path: _bytes,
    order: str,
    fills: bool,
    all_attributes: bool,
    compares: bool,
    variables: list[str],
    without: list[str],
) -> Group:
    """Open many files of a store as one group; `order` is "given", "values" or "unchecked"."""

def open_hdf5_datasets(
    context: Context,
    files: list[tuple[Store, _bytes, int | None, int | None]],
    dataset: _bytes,
    axis: int,
    allow_gaps: bool,
    needs_ranges: bool,
) -> tuple[Array | None, list[tuple[int, _bytes, Array]], _bytes, int, list[int]]:
    """Datasets of HDF5 files as one array. `files` are (store, key, size or None, CRC-32C or None).

    Returns (array of references or None, [(file, path, array)] where it is None, name of the dataset, axis,
    lengths along it).
    """

def has_hdf5_facts(array: Array) -> bool: ...
def join(context: Context, arrays: Sequence[Array], axis: int) -> Array:
    """Open arrays, one after the other along an axis, as one."""

def open_sources(
    context: Context,
    sources: Sequence[
        tuple[_bytes, tuple[int, ...], tuple[int, ...], Callable[[tuple[int, ...], tuple[int, ...]], Any]]
    ],
    descr: _bytes,
    axis: int,
    open: Callable[[int, int], Array] | None = None,
) -> Array:
    """Sources (name, shape, chunks, read) of one dtype as one array; read(origin, shape) returns a box's bytes.

    `open(first, end)` opens and joins these sources for reads; None: reads take the boxes.
    """

def open_parts(array: Array) -> Array:
    """The join of all parts, of an array of sources with `open`."""

def open_contiguous(store: Store, context: Context, key: _bytes, raw: dict[str, Any] | None) -> Array:
    """Open one .npy or raw file."""

def shard_files(array: Array) -> list[tuple[_bytes, int, int, int | None]]:
    """For each file (key, length, offset, crc32c or None)."""

def shard_axis(array: Array) -> int:
    """The dimension along which the files are joined."""

def shard_items(array: Array) -> tuple[str, bool]:
    """(NumPy's descr as text, whether in Fortran order) of the items of an array's files."""

def shards_changed(array: Array) -> bool:
    """Whether one of an array's files was removed or has changed."""

def file_stamps(context: Context, paths: list[_bytes]) -> list[tuple[int, int] | None]:
    """(size, modification time) of each local file, None if it does not exist; queried in parallel."""

def side_by_side(context: Context, work: Callable[[int], None], count: int, threads: int) -> None:
    """Call `work` with each number below `count`, on up to this many threads of the context; it must not raise."""

def save_shards(
    values: Array | np.ndarray[Any, Any],
    context: Context,
    pattern: _bytes,
    options: dict[str, Any],
    progress: Callable[[int, int], Any] | None,
) -> list[_bytes]:
    """Write an open array, or an ndarray of items, as many files; returns their paths.

    `options`: manifest, name, rows, shards, descr, mask, bytes (in all), and arrays_of_rows: for a number of rows the
    options of `create_array`.
    """

def shard_edges(length: int, rows: int | None, shards: int | None) -> list[int]:
    """The positions at which an array is cut into shards."""

def save_manifest(array: Array, root: _bytes, as_json: bool, checksums: list[int]) -> _bytes:
    """The known facts about an array's files."""

def manifest_root(manifest: _bytes) -> _bytes:
    """The location of a manifest's files."""

def open_manifest(
    store: Store, context: Context, manifest: _bytes, fill_missing: bool = False, below: _bytes = ...
) -> Array:
    """Open the files of a manifest; none is read."""

def checksum_of_file(path: bytes, sync: bool) -> int:
    """The CRC-32C of a file's bytes. `sync`: also flush the file to its device."""

def checksum_of_shard(path: bytes) -> int:
    """The CRC-32C of a shard in manifests: of a file, or of a folder's names and bytes."""

def metadata_of_shard(path: bytes) -> _bytes:
    """The file that changes whenever the shard is replaced: itself, or the metadata of a Zarr array."""

def chunks_of_size(option: _bytes, bytes: int, shape: Sequence[int], item_bytes: int) -> list[int]:
    """The lengths of chunks of at most that size: C++'s `chunk_lengths`. `option` is the start of errors."""

def is_zarr_document(name: _bytes) -> bool:
    """Whether a name without folders is that of one of Zarr's documents: `zarr.json`, `.zarray`, ..."""

def create_array(in_: Store | Group, context: Context, path: bytes, options: dict[str, Any]) -> Array:
    """Write the metadata of a new array, in a store or below a group, and open it."""

class Georeference:
    """The facts in an image's file about the values and positions of its pixels. Methods raise `CorruptDataError`."""

    def transform(self) -> tuple[float, float, float, float, float, float] | None: ...
    def bounds(self) -> tuple[float, float, float, float] | None: ...
    def gcps(self) -> list[tuple[float, float, float, float, float]]: ...
    def rpcs(self) -> dict[str, Any] | None: ...
    def geo_keys(self) -> dict[str | int, Any]:
        """By number: int, float, tuple of floats or str."""

    def has_sidecar_gcps(self) -> bool: ...
    @property
    def sidecar_crs(self) -> str | None: ...
    @property
    def sidecar_gcps_crs(self) -> str | None: ...
    def area_or_point(self) -> str | None: ...
    def metadata(self) -> dict[str, str]: ...
    def bands(self) -> list[dict[str, Any]]:
        """Of each band of the array: number, nodata, held_nodata, scale, offset, unit, description, metadata."""

    def first_nodata(self) -> int | float | None:
        """The nodata value of the array's first band."""

    def colors(self) -> list[str]:
        """Colour interpretation of each of the file's bands."""

    def alpha_band(self) -> int | None: ...

def validity_of(image: Array, of: Georeference) -> dict[str, Any]:
    """mask, mask_is_of_all_bands, is_partial, is_alpha, alpha_band, masked, nodata, nodata_of_pixels: as
    `pixel_validity` in C++."""

def held_nodata(value: Any, dtype: Any) -> Any:
    """The value in the pixels' type: int or float; None if they cannot have it."""

class TiffDetails:
    """The contents of a TIFF's header about an image."""

    @property
    def big_endian(self) -> bool: ...
    @property
    def big_tiff(self) -> bool: ...
    @property
    def page_shape(self) -> tuple[int, int]: ...
    @property
    def directory_offset(self) -> int: ...
    @property
    def side_file(self) -> str: ...
    @property
    def structure(self) -> str: ...
    def tag(self, tag: str | int, of_page: bool) -> tuple[int, Any] | None:
        """The type of a tag's values, as the file numbers them, and the value: text, bytes (type 7), one number, or a
        tuple of numbers. None if the tag does not exist, or its value was not read.
        """

    def tags(self, of_page: bool) -> list[str | int]:
        """Names of the tags that `tag` returns; the number of a tag without a name."""

    def integer(self, tag: str | int, absent: int) -> int:
        """The first value of a tag of the image; `absent` if the tag is missing."""

    @property
    def compression(self) -> str: ...
    @property
    def photometric(self) -> str: ...
    def colormap(self) -> list[int] | None:
        """Values from 0 to 65535: all of red, then green, then blue."""

    def options(self) -> dict[str, Any] | None:
        """The image's options in the form for `Found.open_tiff`; None: the first image."""

    @property
    def geo_keys(self) -> bytes:
        """Bytes that are equal for files with the same GeoTIFF keys."""

    def georeference(self) -> Georeference:
        """Read GDAL's sidecar file of a local file."""

    def companions(self) -> tuple[tuple[tuple[int, int], ...], bool, list[int]]:
        """(height, width) of each overview, and whether there is a mask; including sidecar files."""

class TiffWriter:
    """A TIFF that is being written; penstock.TiffWriter holds one."""

    def write(self, first_band: int, first_row: int, values: Any, mask: Any | None) -> None:
        """Write values of shape (bands, rows, columns), and a mask of (rows, columns)."""

    def write_all(self, values: Any, progress: Callable[[int, int], Any] | None = None) -> None:
        """Write all values: of an open array, whose elements are converted, or of an ndarray of the image's dtype."""

    def close(self) -> None:
        """Complete the file and store it under its name."""

    def discard(self) -> None:
        """Discard the written data."""

    @property
    def closed(self) -> bool:
        """Closed or discarded."""

    @property
    def overviews(self) -> tuple[int, ...]:
        """Factors."""

    @property
    def predictor(self) -> int:
        """1, 2 or 3."""

def begin_array(store: Store, context: Context, path: bytes, options: dict[str, Any]) -> TiffWriter:
    """Begin a new array of a format of one file."""

def write_array(
    store: Store,
    context: Context,
    path: bytes,
    options: dict[str, Any],
    values: Any,
    progress: Callable[[int, int], Any] | None = None,
) -> None:
    """Write a new array of a format of one file, of unconverted items: `type` is that of raw bytes. `values` is an
    ndarray, or an open array, which is read in blocks. `options`: those of `create_array`, and `memory`: the most
    bytes of blocks.
    """

def epsg_system(code: int) -> tuple[int | None, bool, int | None, str, str]:
    """The system of an EPSG code that is known without a database, as `geo.new_system.System`."""

def create_group(
    in_: Store | Group,
    context: Context,
    path: bytes,
    zarr_format: int,
    overwrite: bool,
    attributes: str | None,
    durable: bool = False,
) -> Group:
    """Write the metadata of a new group, in a store or below a group, and open it."""

class Replacement:
    """A node that is written and then replaces an existing one."""

    @property
    def store(self) -> Store:
        """The location at which to write the new node, at its root."""

    def commit(self) -> None:
        """Replace the old node by the new one."""

    def discard(self) -> None:
        """Discard the written data."""

def place_of_group(group: Group) -> tuple[Store, bytes]:
    """The store of a group, to write new members, and the group's path in it."""

def replace(target: Store | Group, path: bytes) -> Replacement | None:
    """Begin to replace a node; None if it does not exist, or the store cannot replace nodes."""

def format_for_new(name: bytes, context: Context) -> str:
    """The format of a new array with this name."""

def check_new_name(name: bytes) -> None:
    """Refuse a name with the ending of another format for a new Zarr node."""

def consolidate_metadata(store: Store, context: Context, path: bytes) -> Group:
    """Copy the metadata of a tree into its root."""

def erase(parent: Group, path: bytes) -> None:
    """Erase a node below a group."""

def set_attributes(node: Array | Group, set: str, removed: list[str] | None) -> None:
    """Replace all attributes (`removed` is None), or set some and remove some."""

def dict_store(values: dict[str, Any], wrap: Callable[[bytes], Any] | None = None, writable: bool = True) -> Store:
    """A store of a dict's values; the dict is not copied. `wrap` converts bytes to the dict's values."""

def file_store(root: bytes, sync: str = "objects") -> Store:
    """A folder of this machine. `sync`: as of a context."""

def read_only_store(from_: Store) -> Store:
    """A store that reads from another one and refuses every write."""

def zip_store(path: bytes, context: Context) -> Store:
    """A zip archive of this machine."""

def object_store(adapter: Any, uri: str, asynchronous: bool) -> Store:
    """A store that is implemented in Python."""

def numpy_dtype(name: str) -> np.dtype[Any]:
    """The NumPy dtype of a Zarr v3 data type that needs no configuration."""

def data_type_name(dtype: Any) -> str:
    """The Zarr v3 name of a NumPy dtype's data type."""

def numbers_without_numpy_type() -> list[str]:
    """The names of the real numbers that NumPy has no letters for: Zarr names them."""

def round_trip_dtype(dtype: Any) -> np.dtype[Any]:
    """The dtype in the engine's form: in native byte order."""

def decode_chain(codecs: str, dtype: str, shape: Sequence[int], encoded: bytes) -> tuple[bytes, Any]:
    """Decode a chunk: its items in C order and native byte order, and their numpy.dtype."""

def encode_chain(codecs: str, dtype: str, shape: Sequence[int], items: bytes) -> bytes:
    """Encode a chunk's items, which are in C order and native byte order."""

def describe_chain(codecs: str, dtype: str, shape: Sequence[int]) -> str:
    """Codecs and settings as readable text."""

def decode_on_host(codecs: str, encoded: bytes, decoded_bytes: int) -> bytes:
    """Decode a chunk with the device decoders' code, run on the host."""

def codec_names() -> list[str]:
    """All codecs that need no Python, sorted."""

def codec_place(name: _bytes) -> str | None:
    """ "array", "array_to_bytes" or "bytes"; None: the codec is not one of the table."""

class _ResidentWave:
    """Chunks on a device, or with device -1 on the host, that its kernels decode."""

    def __init__(
        self, codecs: str, encoded: list[bytes], decoded_bytes: Sequence[int], device: int, nvcomp: bool
    ) -> None: ...
    @property
    def kernels(self) -> list[str]: ...
    def run(self, launch: int) -> None: ...
    def decode(self) -> list[float]: ...
    def workspace(self) -> dict[str, bytes]: ...
    def output(self, chunk: int) -> bytes: ...
    def statuses(self) -> list[int]: ...

def _describe_status(status: int) -> str:
    """The error of a status that is not 0."""

def attributes_in_hdf5(array: Array) -> str:
    """The attributes of a copy in HDF5, as JSON: the missing value is the number `_FillValue`."""

def meaning_in(array: Array, zarr_format: int) -> dict[str, Any]:
    """Options of `create_array` that name an array's dimensions and mark its missing values in another format."""

def copy(source: Array | Group, store: Store, path: bytes, options: dict[str, Any]) -> dict[str, Any]:
    """Copy an array or a group."""

def parse_bytes(text: _bytes) -> int | None:
    """A number of bytes such as `2GiB`; None for other text."""

def compare(source: Array, made: Array) -> None:
    """Read both arrays in blocks and compare their elements."""

class UnpackedImage:
    """An image whose reads return physical values."""

    def read(
        self,
        ranges: tuple[Range, ...],
        shape: tuple[int, ...],
        to: npt.NDArray[np.uint8],
        threads: int,
        progress: Any = None,
    ) -> None:
        """Read the box that `Array._resolve` returned into the bytes of a contiguous array."""

def unpacked_type(dtype: np.dtype[Any], scales: bool) -> np.dtype[Any]:
    """The type of unpacked values; `scales`: a band has a scale or an offset."""

def unpacked_image(image: Array, masked: bool) -> UnpackedImage:
    """The array as stored: an image of a TIFF."""

class WindowReader:
    """A rectangle of an image on a grid of any size."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the result."""

    @property
    def nearest(self) -> tuple[list[int], list[int]]:
        """The rows and the columns of the level from which the result is read."""

    @property
    def level(self) -> Array:
        """The array that is read."""

    def read(self, to: npt.NDArray[np.uint8], progress: Callable[[int, int], Any] | None = None) -> None:
        """Read into the bytes of a contiguous array."""

def plan_window(image: Array | UnpackedImage, options: dict[str, Any]) -> WindowReader:
    """Choose the overview of a window. Options as in C++'s `window_options`."""

def storage_flags() -> list[tuple[str, str, bool, str]]:
    """The flags of the program for remote storage: (flag, storage option, whether it takes no value, help text)."""

def nearest_word(typed: str, among: list[str]) -> str:
    """The word of `among` that is closest to `typed`, or "" if none is close."""

def printable(text: str, lines: bool = False) -> str:
    """The text for one line of a terminal, or for several: control characters, which a terminal would execute, are
    escaped. Line feeds and tabs of several lines are unchanged."""

def bytes_text(count: float) -> str:
    """A number of bytes in decimal units: `1.61 GB`, `512 bytes`."""

def cli_main(
    argv: list[bytes],
    open: Callable[[str, int, str], Array | Group] | None = None,
    with_bench: bool = True,
    name_system: Callable[[Array], str] | None = None,
) -> int:
    """Run the command line program with these arguments (bytes; the first is its name); returns its exit status.

    `open(uri, threads, storage)` opens formats that the C++ library does not open; `storage` is the JSON of
    `storage_options`. `name_system(image)` returns the name of the coordinate system of a TIFF's image: a code or WKT,
    or "".
    """

def _is_engine_thread() -> bool:
    """Whether this is a thread of the engine, which calls Python code."""

def _end() -> None:
    """Stop reads of threads that would still be in C++ at the end of the program."""

def _raise(code: str, message: str) -> None:
    """Raise the exception of an error code, as the engine raises it."""
