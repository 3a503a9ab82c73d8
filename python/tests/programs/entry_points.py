"""Call every entry point of `penstock._core` with wrong arguments; usage: entry_points.py SEED ROUNDS FOLDER.

Every call is written to FOLDER/call before it is made, so that an abort can be attributed to it. A call that takes
longer than `LONGEST` seconds ends the process. The last line of stdout is the number of calls.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import inspect
import os
import random
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import penstock as ps
from penstock import _core

LONGEST = 20
SKIPPED = {"_end": "ends the interpreter", "side_by_side": "calls a function as many times as requested: 2^31, too"}
# Raw addresses: a wrong one is the caller's error and cannot be checked.
ADDRESSES = {"address", "to", "stream"}


class Raises:
    """Raises an exception for every operation."""

    def _fail(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("\udc80 hostile")

    __index__ = __len__ = __getitem__ = __iter__ = __eq__ = __float__ = __bool__ = _fail  # type: ignore[assignment]
    __buffer__ = __array__ = __dlpack__ = __dlpack_device__ = __str__ = __repr__ = __call__ = _fail  # type: ignore
    __hash__ = object.__hash__  # type: ignore[assignment]

    @property
    def __array_interface__(self) -> Any:
        raise KeyError(self)


class Lies:
    """Implements every protocol with a wrong type or size."""

    def __index__(self) -> int:
        return 1 << 80

    def __len__(self) -> int:
        return sys.maxsize

    def __getitem__(self, key: Any) -> Any:
        if key == 3:
            raise IndexError(key)
        return self

    def __eq__(self, other: object) -> Any:
        return np.zeros(3)

    __hash__ = object.__hash__  # type: ignore[assignment]

    def __buffer__(self, flags: int) -> memoryview:
        return memoryview(b"")

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        return "no array"

    def __dlpack__(self, **kwargs: Any) -> Any:
        return 7

    def __dlpack_device__(self) -> Any:
        return "cpu"

    @property
    def path(self) -> Any:
        return b"no text"

    shape = (1 << 62, 1 << 62)
    dtype = "float32"

    @property
    def __array_interface__(self) -> Any:
        return {"shape": (-1,), "typestr": "<f4", "data": (0, False), "version": 3}


class StrangeError(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


def strange_error(*args: Any, **kwargs: Any) -> Any:
    raise StrangeError


class SubclassOfArray(np.ndarray):
    def __array_finalize__(self, other: Any) -> None:
        self.unit = "K"

    def view(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("no views")


def frozen(values: np.ndarray) -> np.ndarray:
    values.flags.writeable = False
    return values


def released() -> memoryview:
    view = memoryview(bytearray(8))
    view.release()
    return view


def hostile() -> list[Any]:
    """Hostile values, new ones for each round because a call may change them."""
    many: list[Any] = []
    many += [many]
    return [
        None, True, -1, 0, 1, 7, 1 << 31, 1 << 63, -(1 << 63), 1 << 70, 1.5, float("nan"), 3j,
        "", "x", "\0", "\udc80", "a" * 5000, "{}", "[]", "null", "{\"name\":", "int16", "\U0001f600",
        b"", b"x", b"\0", b"\xff\xfe", b"../..", b"a" * 5000, bytearray(b"abc"), memoryview(b"abc"), released(),
        memoryview(np.zeros((4, 4))[::2, ::-1]), (), (1,), (1, 2), (None,) * 5, ("x",) * 4, (1 << 62, 1 << 62),
        (0,) * 40, (-1, -1), [], [None], [()], [1, 2, 3], [b"x"], many, {}, {"x": 1}, {1: 2}, {"zarr.json": "{"},
        {"zarr.json": 1}, {"x": Raises()}, {"shape": (1 << 62,)}, set(), frozenset([1]), range(3), slice(None),
        slice(None, None, 0), slice(1 << 70), slice(Raises()), slice(3, 1, -1), ..., NotImplemented, int, object(),
        Raises(), Lies(), Raises, strange_error, StrangeError(), len, lambda *args, **kwargs: None, np.float32,
        np.dtype("f4"),
        np.dtype(">M8"), np.dtype([("a", "i4"), ("b", "O")]), np.dtype("O"), np.dtype("V0"), np.int64(1),
        np.zeros(()), np.zeros(0), np.zeros((2, 3)), frozen(np.zeros((2, 3))), np.zeros((2, 3), "f4"),
        np.zeros((4, 3), "f4").view(SubclassOfArray), frozen(np.zeros((2, 3), "f4").view(SubclassOfArray)),
        np.zeros((4, 3), "M8[s]"), frozen(np.zeros((4, 3), "M8[s]").view(SubclassOfArray)), np.zeros((1,) * 40),
        np.zeros((4, 6), "f4")[::2, ::-2], np.broadcast_to(np.float32(1), (4, 3)), np.zeros(3, "O"),
        np.lib.stride_tricks.as_strided(np.zeros(1, "f4"), (3, 3), (0, 0)), np.ma.masked_array([1.0], [True]),
        np.array([1 << 62, -1]), np.array([True, False]), np.array(["a", "b"]), np.zeros(2, ">i8"),
        np.zeros((2, 2, 2)), np.zeros((2, 2, 2), "u1"), np.full(2, 1 << 40), np.zeros(2, [("a", "i4", (2,))]),
    ]  # fmt: skip


class Adapter:
    writable = True
    versions = True

    def fetch(self, *args: Any) -> Any:
        raise StrangeError

    store = remove = list = submit = fetch


class Getter:
    path = "c/0/0"


CHAIN = '[{"name":"bytes","configuration":{"endian":"little"}}]'


class World:
    """Valid values for every parameter by its name, and an instance of every class."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.values: dict[str, bytes] = {}
        context = ps.Context(threads=2)
        self.context = context
        store = _core.dict_store(self.values)
        self.array = ps.create_array(self.values, "a", shape=(4, 3), chunks=(2, 3), dtype="f4", context=context)
        self.array[...] = np.arange(12.0).reshape(4, 3)
        self.text = ps.create_array({}, shape=(4,), chunks=(2,), dtype=str, context=context)
        self.text[...] = ["a", "b", "c", "d"]
        self.group = ps.create_group({}, context=context)
        ps.create_array(self.group, "x", shape=(2,), dtype="i4")
        os.makedirs(folder, exist_ok=True)
        np.save(os.path.join(folder, "s_0.npy"), np.zeros((2, 3), "f4"))
        ps.save(os.path.join(folder, "i.tif"), np.zeros((16, 16), "u1"))
        files = _core.file_store(os.fsencode(folder))
        self.tiff = ps.open(os.path.join(folder, "i.tif"), context=context)
        document = (
            '{"zarr_format":3,"node_type":"array","shape":[2,3],"data_type":"float32","chunk_grid":{"name":"regular",'
            '"configuration":{"chunk_shape":[2,3]}},"chunk_key_encoding":{"name":"default"},"fill_value":0,"codecs":'
            + CHAIN
            + "}"
        )
        self.pipeline = _core.ChunkPipeline(document)
        items = [(Getter(), None, (slice(0, 2), slice(0, 3)), (slice(0, 2), slice(0, 3)), True)]
        self.items = items
        create = {"zarr_format": 3, "overwrite": True, "shape": (2,), "dtype": '"int32"'}
        tiff = {"page": 0, "sub_ifds": [], "level": 0, "mask": False, "native_order": True, "bands": [], "ifd": None}
        raw = {"dtype": "<f4", "shape": None, "row_shape": None, "offset": 0, "fortran_order": False, "rows": [2]}
        self.open_options = {"create": create, "tiff": tiff, "raw": raw}
        # Several values for a name if functions use it with different meanings.
        self.valid: dict[str, list[Any]] = {
            "self": [], "array": [self.array, self.text], "of": [self.array], "from_": [self.array, np.dtype("f4")],
            "source": [self.array, self.group], "store": [store, files], "old": [store], "context": [context],
            "in_": [store, self.group], "parent": [self.group], "node": [self.array, self.group],
            "path": [b"a", b"", "a"], "key": [b"s_0.npy", "a/zarr.json", ..., (0, slice(1, 3)), ([0, 1], [1, 2])],
            "options": [create, {}, tiff], "threads": [0, 1], "progress": [None, lambda done, total: None],
            "values": [{}, np.zeros((4, 3), "f4"), np.zeros((1, 16, 16), "u1")],
            "value": [np.zeros((4, 3), "f4"), b"x", 1],
            "out": [np.zeros((4, 3), "f4"), None], "memory": [np.zeros((2, 3), "f4"), (0, (12, 4), np.dtype("f4"), 0)],
            "items": [items, (slice(None), [0]), CHAIN.encode()], "dtype": [np.dtype("f4"), "float32", None],
            "shape": [(4, 3), (2,), [4, 3]], "strides": [(12, 4), (4,)], "codecs": [CHAIN, None],
            "document": [document], "documents": [{"zarr.json": document}], "uri": [b"memory:", "memory:x"],
            "keys": [[b"s_0.npy"]], "pattern": [b"s_*.npy"], "raw": [None, raw], "tiff": [None, tiff],
            "axis": [0], "capsule": [np.zeros(3).__dlpack__()], "crops": [[(self.array, ...)]], "owner": [object()],
            "device": [(1, 0), 0, None], "name": ["float32"], "adapter": [Adapter()], "wrap": [None, bytes],
            "then": [lambda: None], "change": [lambda before: b"y"], "prefix": [""], "data": [b"abc"],
            "mask": [np.zeros((4, 3), bool), None], "lists": [(np.zeros(2, "i8"), np.zeros(2, "i8"))],
            "names": [["a"]], "removed": [None, ["a"]], "set": ["{}"], "attributes": [None, "{}"],
            "root": [os.fsencode(folder)], "argv": [[b"penstock", b"--version"]], "encoded": [bytes(48)],
            "decoded_bytes": [48], "paths": [[b"x"]], "manifest": [b"x"], "begin": [b"x"], "batch": [None],
            "table": [b""], "variants": [[((), None)]], "objects": [[(b"n", b"bytes", b"k", False, None)]],
            "format": ["zarr3"], "dimension_names": [None, ("y", None)], "joined": [None, (0, b"", b"")],
            "means": [np.zeros((1, 2, 2))], "weight": [np.zeros((1, 2, 2))], "made": [np.zeros((1, 2, 2), "f4")],
            "rows": [np.zeros(2, "i8")], "columns": [np.zeros(2, "i8")], "row_weights": [np.ones((2, 2))],
            "column_weights": [np.ones((2, 2))], "low_row": [0], "low_column": [0], "valid": [None],
            "nodata": [None, np.zeros(2, "f4")], "exception": [ValueError()], "seconds": [0.0], "bytes": [4096],
            "chunk_cache": [0], "output_pool": [0], "memory_limit": [1 << 20], "io_concurrency": [1],
            "page_locked": [0], "device_memory": [0], "decoder": [""], "nvcomp_library": [""],
            "checksums": [[]], "code": ["unsupported"], "message": ["m"], "to": [None, store],
            "selection": [...], "first_band": [0], "first_row": [0], "max_lines": [5], "most": [5], "header": [0],
            "which": [0], "so_far": [0], "max_events": [10], "index": [0], "flags": [0], "device_allocator": [None],
        }  # fmt: skip

    def instance(self, kind: type) -> Any:
        """A usable object of the class, or None if it needs a device or an event loop."""
        makers: dict[str, Callable[[], Any]] = {
            "Array": lambda: self.array,
            "Group": lambda: self.group,
            "Context": lambda: self.context,
            "Store": lambda: _core.dict_store({"a": b"x"}),
            "ChunkPipeline": lambda: self.pipeline,
            "TiffDetails": lambda: self.tiff._tiff_details,
            "Georeference": lambda: self.tiff._meaning,
            "_ChunkBatch": lambda: self.pipeline.batch(self.items, np.zeros((2, 3), "f4")),
            "_Selection": lambda: self.array._orthogonal((slice(None), slice(None))),
            "_Ticket": lambda: self.array._start_read(..., None, 0),
            "_OutputMemory": lambda: _core.recycled_memory(self.context, 4096),
            "_ChunkTicket": lambda: _core._ChunkTicket(
                self.pipeline.batch(self.items, np.zeros((2, 3), "f4")), _core.dict_store({}), 0, self.context
            ),
        }
        make = makers.get(kind.__name__)
        return None if make is None else make()


def parameters(function: Any) -> list[list[str]]:
    """The names of the parameters of each overload, without `self`."""
    found: list[list[str]] = []
    for signature in getattr(function, "__nb_signature__", None) or [("(self, value)",)]:
        text = re.sub(r"\[[^\[\]]*\]", "", re.sub(r"\[[^\[\]]*\]", "", signature[0]))
        inside = text[text.index("(") + 1 : text.rindex(")")]
        names = [part.split(":")[0].split("=")[0].strip(" *") for part in inside.split(",")]
        found.append([name for name in names if name and name not in ("self", "/")])
    return found


def arguments(world: World, names: list[str], chance: random.Random) -> list[Any]:
    """Mostly valid values, with one or more replaced by hostile ones; sometimes too few or too many."""
    bad = hostile()
    made = [chance.choice(world.valid.get(name) or bad) for name in names]
    if names:
        for at in chance.sample(range(len(names)), 1 if chance.random() < 0.7 else chance.randint(1, len(names))):
            made[at] = chance.choice(bad)
    draw = chance.random()
    if draw < 0.05:
        made = made[:-1]
    elif draw < 0.1:
        made.append(chance.choice(bad))
    for at, name in enumerate(names[: len(made)]):
        if name in ADDRESSES and isinstance(made[at], int):
            made[at] = 0
    return made


def entry_points() -> Iterator[tuple[str, Any, type | None]]:
    for name in sorted(vars(_core)):
        found = getattr(_core, name)
        if name.startswith("__") or name in SKIPPED:
            continue
        if not inspect.isclass(found):
            if callable(found):
                yield name, found, None
            continue
        yield name, found, None
        for member in sorted(dir(found)):
            if member not in dir(object) or member in ("__init__", "__eq__"):
                yield f"{name}.{member}", found, found


def shown(value: Any) -> str:
    try:
        return repr(value)[:60]
    except Exception:
        return f"<{type(value).__name__}>"


def main() -> int:
    seed, rounds, folder = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    os.chdir(folder)
    warnings.simplefilter("ignore")
    sys.unraisablehook = lambda unraisable: None
    chance = random.Random(seed)
    record = os.open("call", os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
    quiet, said = os.open(os.devnull, os.O_WRONLY), os.dup(1)
    faults = os.fdopen(os.dup(2), "w")
    os.dup2(quiet, 1)  # the command line program prints to it
    os.dup2(quiet, 2)
    faulthandler.enable(faults)
    calls = 0

    def call(name: str, function: Callable[..., Any], args: list[Any]) -> None:
        nonlocal calls
        calls += 1
        text = f"{name}({', '.join(map(shown, args))})".encode("utf-8", "backslashreplace")
        os.pwrite(record, text + b"\n", 0)
        os.ftruncate(record, len(text) + 1)
        faulthandler.dump_traceback_later(LONGEST, exit=True, file=faults)
        with contextlib.suppress(BaseException):
            result = function(*args)
            if isinstance(result, np.ndarray) and result.nbytes < 1 << 20:
                bytes(result)
        faulthandler.cancel_dump_traceback_later()

    for turn in range(rounds):
        world = World(os.path.join(folder, str(turn % 8)))
        for name, found, kind in entry_points():
            for names in parameters(found if kind is None else getattr(kind, name.split(".")[1])):
                args = arguments(world, names, chance)
                if kind is None:
                    call(name, found, args)
                    continue
                member = name.split(".")[1]
                # One object that was never initialised, and one that was.
                for instance in (kind.__new__(kind), world.instance(kind)):
                    if instance is None:
                        continue
                    if isinstance(inspect.getattr_static(kind, member, None), property) or not callable(
                        inspect.getattr_static(kind, member, None)
                    ):
                        call(name, lambda: getattr(instance, member), [])  # noqa: B023
                        call(name + " = ", lambda value: setattr(instance, member, value), args[:1])  # noqa: B023
                    if callable(getattr(kind, member, None)):
                        call(name, lambda *given: getattr(instance, member)(*given), args)  # noqa: B023
                    call("memoryview of " + name, lambda: bytes(memoryview(instance))[:1], [])  # noqa: B023
        del world
        gc.collect()
    os.write(said, f"{calls}\n".encode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
