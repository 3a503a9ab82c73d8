"""Writes, resizes, appends and reopenings in any order, compared with a NumPy array, and read again by zarr-python."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import zarr
from conftest import examples
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

CODECS: list[dict[str, Any]] = [
    {"compressors": None},
    {"compressors": [zarr.codecs.ZstdCodec(level=1)]},
    {"compressors": [zarr.codecs.GzipCodec(level=1), zarr.codecs.Crc32cCodec()]},
    {"filters": [zarr.codecs.TransposeCodec(order=(1, 0))], "compressors": [zarr.codecs.BloscCodec(typesize=4)]},
    {"serializer": zarr.codecs.BytesCodec(endian="big"), "compressors": None},
]


@st.composite
def _slices(draw: st.DrawFn, size: int) -> Any:
    if size and draw(st.integers(0, 4)) == 0:
        return draw(st.integers(-size, size - 1))
    ends = st.none() | st.integers(-size - 2, size + 2)
    return slice(draw(ends), draw(ends), draw(st.sampled_from([None, 1, 1, 2, 3, -1, -2])))


class Writing(RuleBasedStateMachine):
    """One array in a folder, and the values that it should have."""

    @initialize(
        shape=st.tuples(st.integers(0, 13), st.integers(0, 9)),
        chunk=st.tuples(st.integers(1, 4), st.integers(1, 4)),
        shard=st.none() | st.tuples(st.integers(1, 3), st.integers(1, 3)),
        index=st.sampled_from(["start", "end"]),
        codecs=st.sampled_from(CODECS),
        fill=st.sampled_from([0, 3]),
    )
    def create(self, shape: Any, chunk: Any, shard: Any, index: str, codecs: Any, fill: int) -> None:
        """Start with an array that zarr-python made."""
        self.folder = Path(tempfile.mkdtemp(prefix="penstock-model-"))
        shards = None
        if shard is not None:
            shards = {"shape": (chunk[0] * shard[0], chunk[1] * shard[1]), "index_location": index}
        zarr.create_array(
            str(self.folder), shape=shape, chunks=chunk, shards=shards, dtype="int32", fill_value=fill, **codecs
        )
        self.fill = fill
        self.a = ps.open(self.folder)
        self.n = np.full(shape, fill, "int32")

    def teardown(self) -> None:
        """Remove the folder."""
        shutil.rmtree(getattr(self, "folder", ""), ignore_errors=True)

    @rule(data=st.data(), value=st.integers(0, 5), scalar=st.booleans(), empty=st.booleans())
    def write(self, data: st.DataObject, value: int, scalar: bool, empty: bool) -> None:
        """Write somewhere, often the fill value."""
        key = tuple(data.draw(_slices(size)) for size in self.n.shape)
        part = self.n[key]
        x: Any = value if scalar else (np.arange(part.size).reshape(part.shape) * value) % 4
        self.a.write(key, x, write_empty_chunks=empty)
        self.n[key] = x

    @rule(data=st.data(), kind=st.sampled_from(["oindex", "vindex", "mask"]), value=st.integers(-9, 9))
    def write_elements(self, data: st.DataObject, kind: str, value: int) -> None:
        """Write lists, points or a mask, with duplicates."""
        if not self.n.size:
            return
        if kind == "mask":
            mask = np.random.default_rng(data.draw(st.integers(0, 99))).random(self.n.shape) < 0.3
            self.a.vindex[mask] = value
            self.n[mask] = value
            return
        count = data.draw(st.integers(1, 8))
        lists = [
            data.draw(st.lists(st.integers(-size, size - 1), min_size=count, max_size=count)) for size in self.n.shape
        ]
        if kind == "oindex":
            x = np.arange(count * count).reshape(count, count) + value
            self.a.oindex[lists[0], lists[1]] = x
            self.n[np.ix_(*lists)] = x
        else:
            self.a.vindex[lists[0], lists[1]] = np.arange(count) + value
            self.n[lists[0], lists[1]] = np.arange(count) + value

    @rule(value=st.integers(-9, 9))
    def overwrite(self, value: int) -> None:
        """Write everything, with zarr-python."""
        zarr.open_array(str(self.folder), mode="r+")[...] = value
        self.n[...] = value

    @rule(data=st.data(), value=st.integers(-9, 9))
    def write_by_zarr_python(self, data: st.DataObject, value: int) -> None:
        """Write a part with zarr-python."""
        key = tuple(data.draw(_slices(size)) for size in self.n.shape)
        if all(not isinstance(k, slice) or (k.step or 1) > 0 for k in key):
            zarr.open_array(str(self.folder), mode="r+")[key] = value
            self.n[key] = value

    @rule(shape=st.tuples(st.integers(0, 13), st.integers(0, 9)))
    def resize(self, shape: Any) -> None:
        """Shrink or grow; new values at the edge are unspecified, so they are overwritten."""
        self.a.resize(shape)
        old = self.n
        self.n = np.full(shape, self.fill, "int32")
        both = tuple(slice(0, min(a, b)) for a, b in zip(old.shape, shape, strict=True))
        self.n[both] = old[both]
        if shape[0] > old.shape[0]:
            self.a[old.shape[0] :] = self.fill
        if shape[1] > old.shape[1]:
            self.a[:, old.shape[1] :] = self.fill

    @rule(rows=st.integers(0, 9), axis=st.integers(0, 1), value=st.integers(-9, 9))
    def append(self, rows: int, axis: int, value: int) -> None:
        """Append."""
        shape = list(self.n.shape)
        shape[axis] = rows
        x = np.arange(np.prod(shape, dtype=int), dtype="int32").reshape(shape) + value
        assert self.a.append(x, axis) == tuple(np.add(self.n.shape, [rows * (axis == 0), rows * (axis == 1)]))
        self.n = np.concatenate([self.n, x], axis)

    @rule()
    def reopen(self) -> None:
        """Open the array again, as another process would."""
        self.a = ps.open(self.folder, context=ps.Context())

    @invariant()
    def equal(self) -> None:
        """Both readers return the values of the model."""
        if hasattr(self, "a"):
            assert self.a.shape == self.n.shape
            assert np.array_equal(self.a[...], self.n)
            assert np.array_equal(zarr.open_array(str(self.folder), mode="r")[...], self.n)


TestWriting = Writing.TestCase
TestWriting.settings = settings(max_examples=examples(60), stateful_step_count=15, deadline=None)
