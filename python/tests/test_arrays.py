"""Whole random arrays, written by zarr-python."""

from __future__ import annotations

import numpy as np
import penstock as ps
import pytest
from conftest import examples, same, write
from hypothesis import given, settings
from hypothesis import strategies as st
from zarr.codecs import BloscCodec, BytesCodec, Crc32cCodec, GzipCodec, ShardingCodec, TransposeCodec, ZstdCodec

DTYPES = ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"]
BLOSC_NAMES = ["lz4", "lz4hc", "blosclz", "zstd", "zlib"]
SHUFFLES = ["noshuffle", "shuffle", "bitshuffle"]


@st.composite
def byte_chains(draw: st.DrawFn, itemsize: int) -> list:
    one = st.one_of(
        st.builds(ZstdCodec, level=st.sampled_from([-3, 0, 5]), checksum=st.booleans()),
        st.builds(GzipCodec, level=st.integers(0, 9)),
        st.builds(
            BloscCodec,
            typesize=st.just(itemsize),
            cname=st.sampled_from(BLOSC_NAMES),
            clevel=st.integers(0, 6),
            shuffle=st.sampled_from(SHUFFLES),
        ),
        st.builds(Crc32cCodec),
    )
    return draw(st.lists(one, max_size=3))


@st.composite
def chains(draw: st.DrawFn, shape: tuple[int, ...], itemsize: int, depth: int) -> list:
    """A list of codecs for chunks of `shape`, with shards nested up to `depth`."""
    if depth and shape and draw(st.booleans()):
        inner = tuple(draw(st.sampled_from([d for d in range(1, n + 1) if n % d == 0])) for n in shape)
        index = [BytesCodec(endian=draw(st.sampled_from(["little", "big"])))]
        if draw(st.booleans()):
            index.append(Crc32cCodec())
        codecs = draw(chains(inner, itemsize, depth - 1))
        return [
            ShardingCodec(
                chunk_shape=inner,
                codecs=codecs,
                index_codecs=index,
                index_location=draw(st.sampled_from(["start", "end"])),
            )
        ]
    stages: list = []
    if shape and draw(st.integers(0, 2)) == 0:
        stages.append(TransposeCodec(order=draw(st.permutations(range(len(shape))).map(tuple))))
    stages.append(BytesCodec(endian=draw(st.sampled_from(["little", "big"]))))
    return stages + draw(byte_chains(itemsize))


@st.composite
def cases(draw: st.DrawFn) -> tuple:
    rank = draw(st.integers(0, 4))
    shape = tuple(draw(st.integers(0 if draw(st.integers(0, 9)) == 0 else 1, 13)) for _ in range(rank))
    chunks = tuple(draw(st.sampled_from([1, 2, 3, 4, 6, 8, 12])) for _ in range(rank))
    dtype = np.dtype(draw(st.sampled_from(DTYPES)))
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    raw = rng.integers(0, 256, int(np.prod(shape, dtype=int)) * dtype.itemsize, dtype=np.uint8)
    values = np.frombuffer(raw.tobytes(), dtype).reshape(shape) if dtype.kind != "b" else None
    if values is None:
        values = (raw % 2).astype("?").reshape(shape)
    if draw(st.booleans()):
        values = np.where(rng.random(shape) < 0.7, dtype.type(draw(st.sampled_from([0, 1]))), values).astype(dtype)
    codecs = draw(chains(chunks, dtype.itemsize, 2))
    fill = dtype.type(draw(st.sampled_from([0, 1])))
    encoding = draw(st.sampled_from([("default", "/"), ("default", "."), ("v2", "."), ("v2", "/")]))
    return values, chunks, codecs, fill, encoding


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")  # from the writer, which compares random bits
@settings(max_examples=examples(200))
@given(cases())
def test_a_whole_array_reads_as_it_was_written(case):
    values, chunks, codecs, fill, (name, separator) = case
    store = write(
        values,
        chunks,
        codecs,
        fill_value=fill,
        chunk_key_encoding={"name": name, "separator": separator},
        config={"write_empty_chunks": False},
    )
    array = ps.open(store)
    got = array[...]
    assert got.shape == values.shape
    assert got.dtype == values.dtype
    # By value: the writer omits chunks of -0.0 if the fill value is 0.0.
    np.testing.assert_array_equal(got, values)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("endian", ["little", "big"])
def test_every_dtype_and_byte_order_keeps_every_bit(dtype, endian):
    rng = np.random.default_rng(3)
    values = rng.integers(0, 256, 35 * np.dtype(dtype).itemsize, dtype=np.uint8)
    values = (values % 2).astype("?") if dtype == "?" else np.frombuffer(values.tobytes(), dtype)
    values = values.reshape(5, 7)
    for codecs in (
        [BytesCodec(endian=endian), ZstdCodec(level=1)],
        [TransposeCodec(order=(1, 0)), BytesCodec(endian=endian)],
        [ShardingCodec(chunk_shape=(2, 2), codecs=[BytesCodec(endian=endian), GzipCodec(level=1)])],
    ):
        array = ps.open(write(values, (4, 4), codecs, config={"write_empty_chunks": True}))
        assert same(array[...], values)
        assert same(array[1:, ::-2], values[1:, ::-2])


@pytest.mark.parametrize("cname", BLOSC_NAMES)
@pytest.mark.parametrize("shuffle", SHUFFLES)
def test_every_compressor_and_shuffle_of_blosc(cname, shuffle):
    values = np.arange(40_000, dtype="<i4").reshape(200, 200) // 7
    store = write(values, (90, 200), [BytesCodec(), BloscCodec(cname=cname, shuffle=shuffle, typesize=4)])
    assert same(ps.open(store)[...], values)


@pytest.mark.parametrize("location", ["start", "end"])
def test_chunks_that_were_never_written_are_the_fill_value(location, tmp_path):
    import zarr

    codecs = [ShardingCodec(chunk_shape=(2, 2), codecs=[BytesCodec()], index_location=location)]
    made = zarr.create((12, 12), chunks=(6, 6), store=tmp_path / "x", dtype="i2", codecs=codecs, fill_value=-7)
    made[0:2, 0:2] = 1
    made[7, 7] = 5
    array = ps.open(tmp_path / "x")
    assert same(array[...], made[...])
    assert array[0, 5] == -7  # a chunk that its shard does not have
    assert array[0, 11] == -7  # a shard that does not exist


def test_large_sharded_arrays_read_whole_and_in_part(big):
    path, values = big
    array = ps.open(path)
    assert same(array[...], values)
    for key in (np.s_[100:3000:7, ::-3], np.s_[4095], np.s_[:, 17], np.s_[1000:1100, 1000:1100]):
        assert same(array[key], values[key])
