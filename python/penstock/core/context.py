"""Contexts: the threads, caches, pools and limits of reading."""

from __future__ import annotations

import functools
import os
import sys
import threading
from contextvars import ContextVar
from pathlib import Path
from types import TracebackType
from typing import Any

from penstock import _core
from penstock.core import codecs as _codecs
from penstock.core.device_allocators import allocator_of
from penstock.core.sizes import check_threads, parse_bytes

_active: ContextVar[tuple[Context, ...]] = ContextVar("penstock_contexts", default=())
_default: Context | None = None
_default_lock = threading.Lock()


class Context(_core.Context):
    """The mutable state of reading: threads, caches, pools, limits.

    Arrays keep the one they were opened with.

    Use it as `ps.open(..., context=ctx)`, or make it current with `with ctx:`, for this thread. (In Python without a
    GIL, threads that start in the block inherit it.) Without either, arrays share a default context, made when it is
    first needed. Thread-safe; a forked child starts with its own threads and empty caches.

    Sizes are numbers of bytes, or text: "2GiB", "500 MB".

    If a parameter is None, an environment variable can set it: PENSTOCK_THREADS, PENSTOCK_IO_CONCURRENCY,
    PENSTOCK_MEMORY_LIMIT, PENSTOCK_CHUNK_CACHE, PENSTOCK_OUTPUT_POOL, PENSTOCK_DEVICE_MEMORY_LIMIT,
    PENSTOCK_PAGE_LOCKED, PENSTOCK_WRITE_QUEUE, PENSTOCK_DISK_CACHE and PENSTOCK_DISK_CACHE_LIMIT.

    Parameters
    ----------
    threads
        Decoding workers of one read, the calling thread among them; None: one for each processor that this process
        may use, by its affinity (`os.sched_getaffinity`) and the quota of its control groups.
    io_concurrency
        Maximum number of concurrent requests to asynchronous (remote) stores; None: 64, and up to 256 over HTTP and S3
        while the next one is for at most 64 KiB, as requests for metadata are.
    memory_limit
        Bytes of scratch, encoded data and indexes together, results not counted. None: an eighth of the memory that
        this process may use (the machine's, or less by its control groups), at least 1 GiB (a quarter, if that is
        less), at most 8 GiB.
    output_pool
        Bytes of dropped results that stay allocated for the next read; None: a quarter of that memory.
    allow_pickle
        Decode arrays of pickled objects, which runs programs that the data contains: only for data that you trust.
    device_memory_limit
        Bytes of device memory for running reads on each device, results not counted. A small limit makes waves smaller.
        None: an eighth of the device's, at most 6 GiB.
    device_allocator
        The allocator of results in device memory: "torch", "cupy" or "rmm" use that library's own pool, so that both
        share free memory; or an object with `allocate(bytes, device, stream)`, which returns an address, and
        `release(address, bytes, device, stream)`: memory is used and returned in the order of `stream`. None: a pool of
        Penstock's.
    page_locked
        Bytes of host memory that devices copy from, allocated at the first read to a device; None: 256 MiB.
    decoder
        The decoder on devices: None is Penstock; "nvcomp" is NVIDIA's nvCOMP, version 5 or 6, for the formats that it
        supports (`pip install nvidia-libnvcomp-cu13` or `-cu12`). `ctx.decoder` names it with its version.
    chunk_cache
        Bytes of decoded chunks that are cached for reads of parts of them, such as windows that share tiles, or rows
        read one by one. A chunk enters the cache with the second read of a part of it within a short time (with the
        first, if many such reads happen); later reads only check with storage that the chunk is unchanged. Chunks
        longer than the cache, and reads to devices, are not cached. None: an eighth of `memory_limit`, which is 128 MiB
        to 1 GiB; 0: none.
    sync
        How a power cut may affect written files. "objects": each object is the old one or the new one; a new one may be
        missing. "durable": as "objects", and every write (data, metadata, attributes) returns when the data is on the
        storage device, as with `durable=True`. "none": no write waits for the device; objects of the last half minute
        may be damaged, also replaced ones. None: "objects", and "none" through zarr-python's `LocalStore`, which does
        not wait either.
    encoder
        Where chunks of values in device memory are encoded when they are written with this context (`a[...] = x`,
        `write`, `save`). "host": by the processor's cores. "device": by the device, if all codecs of the array have an
        encoder there (`shuffle`, `lz4`, `zstd`, `crc32c`); otherwise by the host. "auto": by the device if it has
        encoders and needs less than half of the host's time by a model. Device encoders are verified on the CPU only.
    write_queue
        Bytes of values that `Array.write_async` has copied and not yet written; a call that would exceed it waits.
        None: a quarter of `memory_limit`.
    disk_cache
        A folder that caches encoded byte ranges of `http:`, `https:`, `s3:` and `gs:` objects; it is created if it does
        not exist. Processes of one user may share it. Every read still requests the version of the objects that it
        uses, and takes their bytes from the folder only if the version is unchanged. A folder that cannot be used, and
        a full disk, cause one RuntimeWarning: reads then bypass the cache. None: no cache.
    disk_cache_limit
        Bytes of the folder's files; the least recently used ranges are removed first. None: 10 GiB.
    disk_cache_trust
        Seconds during which an object counts as unchanged after the server returned its version, or reported that it
        does not exist: reads in that time make no request. 0: every read requests the version.

    Raises
    ------
    InvalidArgumentError
        A value that is not valid, by name.
    UnsupportedError
        `device_allocator` needs a package that is not installed.

    Examples
    --------
    Arrays that are opened in the block use two threads and cache 64 MiB of decoded chunks:

    >>> ps.save("x.zarr", np.arange(1000.0))
    >>> with ps.Context(threads=2, chunk_cache="64MiB") as ctx:
    ...     a = ps.open("x.zarr")
    ...     first = a[:10]
    >>> ctx.threads, ps.current_context() is ctx
    (2, False)

    One context for some arrays only:

    >>> small = ps.Context(memory_limit="256MiB")
    >>> float(ps.open("x.zarr", context=small)[999])
    999.0
    """

    def __init__(
        self,
        threads: int | None = None,
        io_concurrency: int | None = None,
        memory_limit: int | str | None = None,
        chunk_cache: int | str | None = None,
        device_memory_limit: int | str | None = None,
        *,
        output_pool: int | str | None = None,
        page_locked: int | str | None = None,
        decoder: str | None = None,
        device_allocator: Any = None,
        allow_pickle: bool = False,
        sync: str | None = None,
        encoder: str = "auto",
        write_queue: int | str | None = None,
        disk_cache: str | os.PathLike[str] | None = None,
        disk_cache_limit: int | str | None = None,
        disk_cache_trust: float = 0,
    ) -> None:
        keep_default = 2**64 - 1
        self.sync = sync or "objects"
        self._sync_of_zarr = sync or "none"

        # Options that have their default here may be set by an environment variable: the engine looks them up.
        def size(value: int | str | None, name: str, default: int = 0) -> int:
            return default if value is None else parse_bytes(value, name)

        super().__init__(
            check_threads(threads),
            check_threads(io_concurrency, "io_concurrency"),
            size(memory_limit, "memory_limit"),
            size(output_pool, "output_pool", keep_default),
            size(chunk_cache, "chunk_cache", keep_default),
            functools.partial(_codecs.make, allow_pickle=allow_pickle),
            size(page_locked, "page_locked"),
            size(device_memory_limit, "device_memory_limit"),
            decoder or "",
            _nvcomp_library() if decoder == "nvcomp" else "",
            allocator_of(device_allocator),
            self.sync,
            _core.checked_encoder(encoder),
            size(write_queue, "write_queue"),
            "" if disk_cache is None else os.fspath(disk_cache),
            size(disk_cache_limit, "disk_cache_limit"),
            float(disk_cache_trust),
        )

    def __enter__(self) -> Context:
        _active.set((*_active.get(), self))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _active.set(_active.get()[:-1])

    def __repr__(self) -> str:
        return f"<penstock.Context threads={self.threads}>"


def _nvcomp_library() -> str:
    """The library of an installed wheel of nvCOMP; empty if there is none: the system's loader may find it.

    Not by an import: if the wheel of another library has an `nvidia/__init__.py`, Python only looks in its folder.
    """
    for package in ("libnvcomp", "nvcomp"):
        for folder in sys.path:
            for name in ("lib64/libnvcomp.so.6", "lib64/libnvcomp.so.5", "libnvcomp.so.5"):
                if (file := Path(folder, "nvidia", package, name)).exists():
                    return str(file)
    return ""


def current_context() -> Context:
    """Return the context of the innermost `with ctx:`, or the default one.

    Returns
    -------
    Context
        The one that `open` and other functions use without the argument `context`.

    Examples
    --------
    >>> with ps.Context(threads=1) as ctx:
    ...     ps.current_context() is ctx
    True
    """
    stack = _active.get()
    if stack:
        return stack[-1]
    global _default
    if _default is not None:
        return _default
    with _default_lock:
        if _default is None:
            _default = Context()
        return _default
