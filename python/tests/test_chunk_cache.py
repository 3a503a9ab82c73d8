"""Decoded chunks that are cached for reads of parts of them: the values stay right when the storage changes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import penstock as ps
import pytest
import zarr
from conftest import same, sharded, write
from hypothesis import given
from hypothesis import strategies as st
from zarr.codecs import BytesCodec, GzipCodec, TransposeCodec, ZstdCodec

SHAPE = (60, 50)
VALUES = np.arange(3_000, dtype="<i4").reshape(SHAPE)
CHAINS = {
    "zstd": [BytesCodec(), ZstdCodec(level=0)],
    "sharded": sharded((10, 10)),
    "transposed": [TransposeCodec(order=(1, 0)), BytesCodec(endian="big"), GzipCodec(level=1)],
}


@pytest.fixture(params=CHAINS)
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    write(VALUES, (20, 20), CHAINS[request.param], tmp_path / "a.zarr")
    settle(tmp_path)
    return tmp_path / "a.zarr"


@pytest.fixture
def context() -> Iterator[ps.Context]:
    with ps.Context(threads=2) as made:
        yield made


def settle(folder: Path) -> None:
    """Wait until files written from now on have later times than those written so far."""
    time.sleep(0.03)
    assert folder.exists()


def hits(context: ps.Context) -> int:
    return context.usage()["chunk_hits"]


def rewrite(folder: Path, values: np.ndarray) -> None:
    zarr.open_array(folder, mode="r+")[...] = values


def test_rows_of_a_chunk_are_cached_after_two_decodes(folder, context):
    array = ps.open(folder)
    for row in range(20):
        assert same(array[row], VALUES[row])
    assert hits(context) >= 18 * 3
    assert context.usage()["chunk_cache_bytes"] > 0
    context.clear()
    assert context.usage()["chunk_cache_bytes"] == 0


def test_parts_of_one_chunk_are_read_from_the_cache_too(folder, context):
    array = ps.open(folder)
    for turn in range(20):
        assert same(array[23, 20 + turn % 7 : 30], VALUES[23, 20 + turn % 7 : 30])
    before = hits(context)
    assert before >= 17
    rewrite(folder, -VALUES)
    settle(folder)
    for turn in range(8):
        assert same(array[23, 20 + turn : 30], -VALUES[23, 20 + turn : 30])
    assert hits(context) > before


def test_parts_of_an_hdf5_chunk_are_read_from_the_cache(tmp_path, context):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("x", data=VALUES, chunks=(20, 20), compression="gzip")
    settle(tmp_path)
    array = ps.open(tmp_path / "x.h5", "x", context=context)
    for turn in range(20):
        assert same(array[23, 20 + turn % 7 : 30], VALUES[23, 20 + turn % 7 : 30])
    assert hits(context) >= 17


def test_whole_reads_cache_no_chunk_at_the_edge_either(folder, context):
    array = ps.open(folder)
    for _ in range(4):
        assert same(array[...], VALUES)
    assert context.usage()["chunk_cache_bytes"] == 0


def test_a_cache_of_size_zero_caches_nothing(folder):
    with ps.Context(chunk_cache=0) as context:
        array = ps.open(folder)
        for row in range(20):
            assert same(array[row], VALUES[row])
        assert hits(context) == context.usage()["chunk_cache_bytes"] == 0


@pytest.mark.parametrize("limit", [{"chunk_cache": 5 * 8192}, {"memory_limit": 8 * 5 * 8192}])
def test_the_cache_never_exceeds_its_limit(tmp_path, limit):
    write(np.ones((64, 4096), "<u2"), (1, 4096), None, tmp_path)
    settle(tmp_path)
    with ps.Context(**limit) as context:
        array = ps.open(tmp_path)
        for row in range(64):
            for _ in range(3):
                array[row, :7]
            assert context.usage()["chunk_cache_bytes"] <= 5 * 8192
        assert 64 < hits(context) < 128  # the third part of a chunk; later also the second one


def test_a_pass_over_more_than_the_limit_caches_nothing(tmp_path):
    write(np.ones((64, 4096), "<u2"), (1, 4096), None, tmp_path)
    settle(tmp_path)
    # One thread: one of several may be so late with a chunk that the next pass reads it soon afterwards.
    with ps.Context(threads=1, chunk_cache=8 * 8192) as context:
        array = ps.open(tmp_path)
        for _ in range(3):
            array[:, :7]
        assert hits(context) == context.usage()["chunk_cache_bytes"] == 0


def put_in_place(path: Path, data: bytes) -> None:
    with path.open("r+b") as file:
        file.write(data)


def put_anew(path: Path, data: bytes) -> None:
    other = path.with_name("other")
    other.write_bytes(data)
    other.replace(path)


def test_an_array_that_is_opened_again_finds_its_cached_chunks(folder, context):
    for row in range(20):
        assert same(ps.open(folder)[row], VALUES[row])
    assert hits(context) >= 18 * 3
    rewrite(folder, VALUES + 1)
    for row in range(20):
        assert same(ps.open(folder)[row], VALUES[row] + 1)


def test_an_array_that_replaces_another_uses_none_of_its_chunks(folder, context, tmp_path):
    """The files have the same chunks and were moved; only the way to decode them differs."""
    for _ in range(3):
        assert same(ps.open(folder)[5], VALUES[5])
    metadata = folder / "zarr.json"
    assert '"int32"' in metadata.read_text()
    metadata.write_text(metadata.read_text().replace('"int32"', '"float32"'))
    for _ in range(3):
        assert same(ps.open(folder)[5], VALUES.view("<f4")[5])


def test_another_byte_order_in_zarr_2_finds_no_cached_chunks(tmp_path, context):
    """Only the metadata changes, as when a user corrects it. Neither of the two is among Zarr 2's codecs."""
    zarr.create_array(tmp_path / "a", data=VALUES, chunks=(20, 20), zarr_format=2)
    settle(tmp_path)
    metadata = tmp_path / "a" / ".zarray"
    text = metadata.read_text()
    in_columns = [VALUES[j, 20 * k + 5] for k in range(3) for j in range(20)][:50]
    for change, wanted in [
        (('"<i4"', '"<i4"'), VALUES[5].tolist()),
        (('"<i4"', '">i4"'), VALUES.byteswap()[5].tolist()),
        (('"C"', '"F"'), [int(each) for each in in_columns]),
    ]:
        assert change[0] in text
        metadata.write_text(text.replace(*change))
        for _ in range(3):
            assert ps.open(tmp_path / "a")[5].tolist() == wanted
    assert hits(context) > 0


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (0, 3)])
def test_arrays_with_few_chunks_are_opened_again(tmp_path, context, shape):
    write(np.zeros(shape, "<i4"), tuple(max(n, 1) for n in shape), None, tmp_path)
    for _ in range(2):
        assert same(ps.open(tmp_path)[...], np.zeros(shape, "<i4"))


def test_images_of_one_file_are_distinguished(tmp_path, context):
    tifffile = pytest.importorskip("tifffile")
    pages = np.arange(2 * 128 * 128 * 3, dtype="<u2").reshape(2, 128, 128, 3)
    with tifffile.TiffWriter(tmp_path / "x.tif") as writer:
        for page in pages:
            writer.write(page, tile=(64, 64), compression="zlib", photometric="rgb")
    settle(tmp_path)
    for _ in range(4):
        for page in range(2):
            opened = ps.open(tmp_path / "x.tif", page=page)
            assert same(opened[:, 10:20, 60:70], np.moveaxis(pages[page, 10:20, 60:70], 2, 0))
            opened = ps.open(tmp_path / "x.tif", page=page, bands=[2, 0])
            assert same(opened[0, 10:20, 60:70], pages[page, 10:20, 60:70, 2])
            opened = ps.open(tmp_path / "x.tif", page=page, layout="native")
            assert same(opened[10:20, 60:70], pages[page, 10:20, 60:70])
    assert hits(context) > 0


@pytest.mark.parametrize("put", [put_in_place, put_anew])
def test_a_rewritten_chunk_is_read_again(folder, context, tmp_path, put: Callable[[Path, bytes], None]):
    write(VALUES + 1, (20, 20), None, tmp_path / "other.zarr")
    array = ps.open(folder)
    for _ in range(4):
        assert same(array[5, :50], VALUES[5])
    assert hits(context) > 0
    rewrite(folder, VALUES + 1)
    files = [path for path in folder.rglob("*") if path.is_file() and "json" not in path.name]
    for path in files:
        put(path, path.read_bytes())
    for _ in range(4):
        assert same(array[5, :50], VALUES[5] + 1)


def test_a_chunk_that_was_removed_is_the_fill_value(tmp_path, context):
    write(VALUES, (20, 20), None, tmp_path)
    settle(tmp_path)
    array = ps.open(tmp_path)
    for _ in range(4):
        assert same(array[5, :20], VALUES[5, :20])
    assert hits(context) > 0
    (tmp_path / "c" / "0" / "0").unlink()
    for _ in range(4):
        assert same(array[5, :20], np.zeros(20, "<i4"))


def test_own_writes_are_seen_at_once(folder, context):
    array = ps.open(folder, mode="r+")
    for value in range(6):
        for _ in range(3):
            array[5, :50]
        array[5, 7] = value
        assert array[5, 7] == value
        assert same(array[5, 8:], VALUES[5, 8:])


def test_a_chunk_rewritten_within_a_tick_of_the_clock_is_not_cached(tmp_path, context):
    """The version of a file that changed just now may also be that of a later rewrite."""
    write(VALUES, (20, 20), [BytesCodec(), GzipCodec(level=0)], tmp_path)
    array = ps.open(tmp_path)
    chunk = tmp_path / "c" / "0" / "0"
    states = []
    for value in (1, 2):
        rewrite(tmp_path, np.full(SHAPE, value, "<i4"))
        states.append(chunk.read_bytes())
    assert len(states[0]) == len(states[1])
    for i in range(300):
        put_in_place(chunk, states[i % 2])
        for _ in range(3):
            assert array[3, 4] == 1 + i % 2


def test_a_single_file_that_was_replaced_is_a_conflict(tmp_path, context):
    tifffile = pytest.importorskip("tifffile")
    image = np.arange(128 * 128, dtype="<u2").reshape(128, 128)
    tifffile.imwrite(tmp_path / "x.tif", image, tile=(64, 64), compression="zlib")
    settle(tmp_path)
    array = ps.open(tmp_path / "x.tif")
    for _ in range(4):
        assert same(array[0, 10:20, 60:70], image[10:20, 60:70])
    assert hits(context) > 0
    tifffile.imwrite(tmp_path / "y.tif", image + 1, tile=(64, 64), compression="zlib")
    os.replace(tmp_path / "y.tif", tmp_path / "x.tif")
    with pytest.raises(ps.ConflictError, match="has changed since the array was opened"):
        array[0, 10:20, 60:70]


@pytest.mark.parametrize("was_read", [False, True])
def test_a_replaced_file_whose_index_was_read_late_is_a_conflict(tmp_path, was_read):
    tifffile = pytest.importorskip("tifffile")
    image = np.arange(6000 * 40, dtype="<u2").reshape(6000, 40)  # the offsets of 6000 strips are read later
    tifffile.imwrite(tmp_path / "x.tif", image, rowsperstrip=1)
    settle(tmp_path)
    array = ps.open(tmp_path / "x.tif")
    if was_read:
        assert same(array[0, 5:7, 3:6], image[5:7, 3:6])
    tifffile.imwrite(tmp_path / "y.tif", image + 1, rowsperstrip=1)
    os.replace(tmp_path / "y.tif", tmp_path / "x.tif")
    for _ in range(2):
        with pytest.raises(ps.ConflictError, match="has changed since the array was opened"):
            array[0, 5:7, 3:6]


def test_many_threads_may_read_parts_of_the_same_chunks(folder, context):
    array = ps.open(folder)

    def rows(seed: int) -> bool:
        rng = np.random.default_rng(seed)
        return all(
            same(array[y : y + 3, x::2], VALUES[y : y + 3, x::2])
            for y, x in zip(rng.integers(0, 57, 200), rng.integers(0, 50, 200), strict=True)
        )

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(rows, range(8)))
    assert hits(context) > 0


@given(data=st.data())
def test_any_reads_and_writes_in_any_order(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("any")
    chain = data.draw(st.sampled_from(sorted(CHAINS)))
    model = VALUES.copy()
    write(model, (20, 20), CHAINS[chain], folder)
    with ps.Context(threads=data.draw(st.sampled_from((1, 3))), chunk_cache=data.draw(st.sampled_from((4096, 8192)))):
        array = ps.open(folder)
        for _ in range(data.draw(st.integers(1, 30))):
            y, x = data.draw(st.integers(0, 59)), data.draw(st.integers(0, 49))
            match data.draw(st.sampled_from(("row", "box", "points", "mask", "column", "write", "elsewhere"))):
                case "row":
                    assert same(array[y], model[y])
                case "column":
                    assert same(array[::-3, x], model[::-3, x])
                case "box":
                    assert same(array[y : y + 9, x : x + 9], model[y : y + 9, x : x + 9])
                case "points":
                    assert same(array.vindex[[y, 0, y], [x, 3, x]], model[[y, 0, y], [x, 3, x]])
                case "mask":
                    assert same(array.oindex[[y, 0, y], 3:40:7], model[np.ix_([y, 0, y], range(3, 40, 7))])
                case "write":
                    model[y, x:] = array[y, x:] = np.int32(x)
                case "elsewhere":
                    model[:, x] = y
                    zarr.open_array(folder, mode="r+")[:, x] = np.int32(y)
