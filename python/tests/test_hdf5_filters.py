"""Filters of HDF5: those of its library and registered ones."""

from __future__ import annotations

import itertools
import math
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
from conftest import matrix
from hdf5_values import same, values

h5py = pytest.importorskip("h5py")

try:
    import hdf5plugin
except ImportError:
    hdf5plugin = None


def szip_options() -> list[dict[str, Any]]:
    return [{"compression": "szip", "compression_opts": (way, block)} for way in ("nn", "ec") for block in (4, 16)]


@pytest.mark.skipif(not h5py.h5z.filter_avail(h5py.h5z.FILTER_SZIP), reason="this h5py has no szip")
@pytest.mark.parametrize("dtype", ["<u1", "<i2", ">u2", "<i4", ">f4", "<f8", ">i8"])
def test_szip(tmp_path, dtype):
    wanted = values(dtype, (40, 50))
    with h5py.File(tmp_path / "x.h5", "w") as file:
        for i, options in enumerate(szip_options()):
            file.create_dataset(str(i), data=wanted, chunks=(16, 32), **options)
    group = ps.open(tmp_path / "x.h5")
    for name in group:
        assert same(group[name][...], wanted), name


def every_bit(dtype: str, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Items among which each bit has both values."""
    of = np.dtype(dtype)
    if of.kind == "f":
        rng = np.random.default_rng(4)
        return (rng.normal(size=shape) * 10.0 ** rng.integers(-30, 30, shape)).astype(of)
    return np.random.default_rng(4).integers(0, 256, (*shape, of.itemsize), np.uint8).view(of)[..., 0]


@pytest.mark.parametrize("dtype", ["|i1", "|u1", "<i2", ">i2", "<u4", ">i4", "<i8", ">u8", "<f4", ">f4", "<f8", ">f8"])
@pytest.mark.parametrize("fill", [None, 7])
def test_scale_offset(tmp_path, dtype, fill):
    path = tmp_path / "x.h5"
    shape = (21, 17)
    cases = {
        "small": values(dtype, shape),
        "same": np.full(shape, 42, dtype),
        "wide": values(dtype, shape, 3) * np.array(1, dtype),
        "every": every_bit(dtype, shape),  # stored unchanged
    }
    if np.dtype(dtype).kind != "f":
        info = np.iinfo(dtype)
        cases["full"] = np.linspace(0, 1, 21 * 17).reshape(shape)
        cases["full"] = (cases["full"] * (float(info.max) - info.min) / 2 + info.min).astype(dtype)
    with h5py.File(path, "w") as file:
        for name, data in cases.items():
            for factor in (1, 3) if np.dtype(dtype).kind == "f" else (0,):
                file.create_dataset(
                    f"{name}{factor}", data=data, chunks=(8, 9), scaleoffset=factor, fillvalue=fill, compression="gzip"
                )
    with h5py.File(path) as file:
        for name in file:
            assert same(ps.open(path)[name][...], file[name][...]), name


def nbit_type(base: Any, precision: int, offset: int, order: Any) -> Any:
    made = base.copy()
    made.set_order(order)
    made.set_precision(precision)
    made.set_offset(offset)
    return made


@pytest.mark.parametrize("filtered", [False, True])
def test_integers_that_use_some_of_their_bits(tmp_path, filtered):
    h5t = h5py.h5t
    path = tmp_path / "x.h5"
    wanted = {}
    with h5py.File(path, "w") as file:
        bases = {"i2": h5t.STD_I16LE, "u4": h5t.STD_U32LE, "i4": h5t.STD_I32LE, "i8": h5t.STD_I64LE, "i1": h5t.STD_I8LE}
        for name, base in bases.items():
            bits = 8 * base.get_size()
            for precision, offset, order in itertools.product(
                (bits // 2 + 1, bits - 2), (0, 2), (h5t.ORDER_LE, h5t.ORDER_BE)
            ):
                if precision + offset > bits:
                    continue
                stored = nbit_type(base, precision, offset, order)
                plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
                plist.set_chunk((4, 5))
                if filtered:
                    plist.set_filter(h5py.h5z.FILTER_NBIT, h5py.h5z.FLAG_OPTIONAL, ())
                key = f"{name}_{precision}_{offset}_{order}"
                low = -(1 << (precision - 1)) if name[0] == "i" else 0
                high = (1 << (precision - 1)) if name[0] == "i" else 1 << precision
                data = np.random.default_rng(precision).integers(low, high, (10, 11)).astype(name)
                dataset = h5py.h5d.create(file.id, key.encode(), stored, h5py.h5s.create_simple((10, 11)), plist)
                dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, data)
                wanted[key] = data
    group = ps.open(path)
    for name, data in wanted.items():
        assert same(group[name][...], data), (name, group[name].codecs)


@pytest.mark.parametrize("dtype", ["?", "|S7", "|V5"])
def test_the_nbit_filter_leaves_other_types_unchanged(tmp_path, dtype):
    path = tmp_path / "x.h5"
    of = np.dtype(dtype)
    data = np.random.default_rng(3).integers(0, 2, (9, of.itemsize), np.uint8).view(of)[:, 0]
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_chunk((4,))
    plist.set_filter(h5py.h5z.FILTER_NBIT, h5py.h5z.FLAG_OPTIONAL, ())
    with h5py.File(path, "w") as file:
        space = h5py.h5s.create_simple(data.shape)
        dataset = h5py.h5d.create(file.id, b"x", h5py.h5t.py_create(of), space, plist)
        dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, data)
    assert ps.open(path)["x"][...].tobytes() == data.tobytes()


@pytest.mark.skipif(hdf5plugin is None, reason="hdf5plugin is not installed")
@pytest.mark.parametrize("dtype", ["|u1", "<i2", ">f4", "<f8", "|S3"])
def test_filters_of_hdf5plugin(tmp_path, dtype):
    wanted = values(dtype, (301, 47))
    filters: dict[str, Any] = {
        "zstd": hdf5plugin.Zstd(),
        "lz4": hdf5plugin.LZ4(),
        "lz4_blocks": hdf5plugin.LZ4(nbytes=256),
        "bitshuffle": hdf5plugin.Bitshuffle(cname="none"),
        "bitshuffle_lz4": hdf5plugin.Bitshuffle(cname="lz4"),
        "bitshuffle_zstd": hdf5plugin.Bitshuffle(cname="zstd"),
        "bitshuffle_blocks": hdf5plugin.Bitshuffle(nelems=64, cname="lz4"),
        "bzip2": hdf5plugin.BZip2(),
    }
    for name, shuffle in itertools.product(("blosclz", "lz4", "lz4hc", "zlib", "zstd"), (0, 1, 2)):
        filters[f"blosc_{name}_{shuffle}"] = hdf5plugin.Blosc(cname=name, shuffle=shuffle)
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        for name, each in filters.items():
            file.create_dataset(name, data=wanted, chunks=(100, 31), **each)
    group = ps.open(path)
    for name in filters:
        assert same(group[name][...], wanted), (name, group[name].codecs)


@matrix
@pytest.mark.skipif(hdf5plugin is None, reason="hdf5plugin is not installed")
@pytest.mark.parametrize("dtype", ["|u1", "<i2", ">f4", "<f8", "|S3", "<c16", [("a", "<i4"), ("b", "<f8")]])
@pytest.mark.parametrize(("shape", "chunks"), [((5000,), (700,)), ((301, 47), (100, 31)), ((40, 9, 50), (40, 4, 17))])
def test_blosc2_of_hdf5plugin(tmp_path, dtype, shape, chunks):
    """Chunks of several dimensions are in blocks, which lie in another order than their elements."""
    count = math.prod(shape)
    random = np.random.default_rng(7).integers(0, 3, count * np.dtype(dtype).itemsize).astype("u1")
    wanted = {
        "random": random.view(dtype).reshape(shape),
        "ramp": np.repeat(np.arange(count, dtype="u1"), np.dtype(dtype).itemsize).view(dtype).reshape(shape),
        "zeros": np.zeros(shape, dtype),
    }
    settings = itertools.product(wanted, ("blosclz", "lz4", "lz4hc", "zlib", "zstd"), (0, 1, 2, 3))
    names = {f"{data}_{cname}_{each}": (data, cname, each) for data, cname, each in settings}
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        for name, (data, cname, each) in names.items():
            how = hdf5plugin.Blosc2(cname=cname, filters=each, clevel=1 + 4 * (each % 2))
            file.create_dataset(name, data=wanted[data], chunks=chunks, **how)
    group = ps.open(path)
    for name, (data, _, _) in names.items():
        assert same(group[name][...], wanted[data]), name


ZFP_MODES: dict[str, dict[str, Any]] = {
    "rate": {"rate": 20},
    "precision": {"precision": 17},
    "accuracy": {"accuracy": 0.01},
    "reversible": {"reversible": True},
    "expert": {"minbits": 1, "maxbits": 1657, "maxprec": 40, "minexp": -1074},
}
ZFP_CHUNKS = (((100,), (33,)), ((40, 50), (16, 16)), ((5, 40, 50), (1, 16, 32)), ((3, 4, 9, 10), (2, 4, 8, 8)))


@pytest.mark.skipif(hdf5plugin is None, reason="hdf5plugin is not installed")
@pytest.mark.parametrize("mode", ZFP_MODES)
@pytest.mark.parametrize("dtype", ["<f4", ">f4", "<f8", "<i4", ">i4", "<i8", "<u4", "<u8"])
def test_zfp_of_hdf5plugin(tmp_path, dtype, mode):
    """The filter accepts any numbers of 4 or 8 bytes, and more dimensions than zfp if some have length 1."""
    random = np.random.default_rng(1)
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        for shape, chunks in (*ZFP_CHUNKS, ((2, 2, 2, 9, 10), (1, 2, 2, 8, 8))):
            wanted = (np.cumsum(random.normal(size=shape), axis=-1) * 1000).astype(dtype)
            filters = hdf5plugin.Zfp(**ZFP_MODES[mode])
            file.create_dataset(f"{len(shape)}", data=wanted, chunks=chunks, **filters)
        both = {"shuffle": True, **filters} if mode == "reversible" else filters
        file.create_dataset("flat", data=wanted.ravel(), chunks=(300,), **both)
    group = ps.open(path)
    with h5py.File(path) as file:
        for name in file:
            assert group[name].codecs[-1]["id"] == "hdf5.zfp"
            assert same(group[name][...], file[name][...]), name


@pytest.mark.skipif(hdf5plugin is None, reason="hdf5plugin is not installed")
def test_zfp_of_damaged_parameters_is_an_error(tmp_path):
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=np.arange(64, dtype="f4"), chunks=(32,), **hdf5plugin.Zfp(reversible=True))
        values = file["x"]._filters["32013"]
    stored = path.read_bytes()
    at = stored.index(b"".join(value.to_bytes(4, "little") for value in values))
    for word, text in ((1, "has no header of zfp"), (2, "chunks of 128 bytes")):
        damaged = bytearray(stored)
        damaged[at + 4 * word] ^= 16
        path.write_bytes(damaged)
        with pytest.raises(ps.CorruptDataError, match=text):
            ps.open(path, "x")[...]


def test_filter_masks_skip_filters_chunk_by_chunk(tmp_path):
    path = tmp_path / "x.h5"
    data = values("<i4", (8, 8))
    with h5py.File(path, "w") as file:
        made = file.create_dataset(
            "x", (8, 8), "<i4", chunks=(4, 4), shuffle=True, compression="gzip", fletcher32=True, fillvalue=-1
        )
        made[4:, 4:] = data[4:, 4:]
        raw = np.ascontiguousarray(data[:4, :4]).tobytes()
        made.id.write_direct_chunk((0, 0), raw, filter_mask=0b111)
        shuffled = np.frombuffer(np.ascontiguousarray(data[:4, 4:]).tobytes(), np.uint8).reshape(-1, 4).T.tobytes()
        made.id.write_direct_chunk((0, 4), shuffled, filter_mask=0b110)
    array = ps.open(path, "x")
    data[4:, :4] = -1  # never written
    assert same(array[...], data)
    with h5py.File(path) as file:
        assert same(file["x"][...], data)
    assert "  fill chunk (1, 0)" in array.plan() or "\nfill chunk (1, 0)" in array.plan()


def test_checksums_of_old_files_are_accepted(tmp_path):
    """Before HDF5 1.6.3, both sums of fletcher32 had swapped bytes; the HDF5 library still reads them."""
    wanted = np.arange(20, dtype="<i4") + 12345
    with h5py.File(tmp_path / "x.h5", "w") as file:
        plain = file.create_dataset("plain", data=wanted, chunks=(20,), fletcher32=True)
        file.flush()
        chunk = plain.id.read_direct_chunk((0,))[1]
        a, b, c, d = chunk[-4:]
        assert len({a, b, c, d}) == 4
        for name, stored in {"old": (b, a, d, c), "damaged": (d, c, b, a)}.items():
            made = file.create_dataset(name, (20,), "<i4", chunks=(20,), fletcher32=True)
            made.id.write_direct_chunk((0,), chunk[:-4] + bytes(stored))
    with h5py.File(tmp_path / "x.h5") as file:
        assert file["old"][...].tolist() == wanted.tolist()
    assert ps.open(tmp_path / "x.h5", "old")[...].tolist() == wanted.tolist()
    with pytest.raises(ps.CorruptDataError, match="fletcher32"):
        ps.open(tmp_path / "x.h5", "damaged")[...]


def test_bytes_after_a_deflate_stream_are_ignored(tmp_path):
    """As by the HDF5 library. In Zarr they are an error."""
    wanted = np.arange(40, dtype="<i4")
    with h5py.File(tmp_path / "x.h5", "w") as file:
        made = file.create_dataset("x", (40,), "<i4", chunks=(20,), compression="gzip")
        for i in (0, 20):
            made.id.write_direct_chunk((i,), zlib.compress(wanted[i : i + 20].tobytes()) + b"\0" * 5)
        assert made[...].tolist() == wanted.tolist()
    array = ps.open(tmp_path / "x.h5", "x")
    assert array[...].tolist() == wanted.tolist()
    ps.save_manifest(array, tmp_path / "x.manifest")
    assert ps.open(tmp_path / "x.manifest")[...].tolist() == wanted.tolist()
    padded = zlib.compress(wanted.tobytes()) + b"\0"
    with pytest.raises(ps.CorruptDataError, match="zlib stream ends after"):
        ps.testing.decode(padded, [{"id": "zlib"}], "<i4", (40,))


@pytest.mark.parametrize("filters", [{"shuffle": True}, {"shuffle": True, "compression": "gzip"}])
@pytest.mark.parametrize("shape", [(9, 10), (8, 10), (9, 9)])
def test_chunks_at_the_edge_may_skip_the_filters(tmp_path, filters, shape):
    """H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS, set by a direct call of h5py's library because h5py does not have it."""
    import ctypes

    maps = Path("/proc/self/maps").read_text().splitlines()
    paths = [line.split()[-1] for line in maps if "libhdf5-" in line or "libhdf5.so" in line]
    # Other packages (netCDF4) load HDF5 libraries of their own.
    name = next(
        (each for each in paths if "h5py" in each), "" if any("netCDF4" in each for each in paths) else paths[0]
    )
    if not name:
        pytest.skip("h5py's own library cannot be found")
    library = ctypes.CDLL(name)
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_chunk((4, 5))
    plist.set_shuffle()
    if "compression" in filters:
        plist.set_deflate(4)
    library.H5Pset_chunk_opts.argtypes = [ctypes.c_int64, ctypes.c_uint]
    assert library.H5Pset_chunk_opts(plist.id, 2) == 0
    path = tmp_path / "x.h5"
    data = values("<i4", shape)
    with h5py.File(path, "w", libver="latest") as file:
        made = h5py.h5d.create(file.id, b"x", h5py.h5t.STD_I32LE, h5py.h5s.create_simple(shape), plist)
        made.write(h5py.h5s.ALL, h5py.h5s.ALL, data)
    assert same(ps.open(path, "x")[...], data)
