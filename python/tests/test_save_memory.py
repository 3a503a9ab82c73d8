"""`save` and `convert` of open arrays work in blocks: arrays may be larger than memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import penstock as ps
import pytest

MIB = 1 << 20

# The limit applies to private memory of the process, such as results of reads, not to mapped files.
CODE = """
import resource, sys
import penstock as ps
context = ps.Context(threads=2, memory_limit="48MiB", output_pool="16MiB")
a = ps.open(sys.argv[1], context=context)
a[:1]
data = next(line for line in open("/proc/self/status") if line.startswith("VmData:"))
limit = (int(data.split()[1]) << 10) + (160 << 20)
resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
if sys.argv[2] == "all":
    a[...]
elif sys.argv[2].endswith(".npy"):
    ps.convert(a, sys.argv[2], context=context, verify=True)
else:
    ps.save(sys.argv[2], a, compress=None, overviews=None, tiles=128)
"""


def run(source: Path, target: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", CODE, str(source), target]
    return subprocess.run(command, capture_output=True, text=True, timeout=240)


@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory as Linux counts it")
def test_arrays_larger_than_memory_are_written_in_blocks(tmp_path: Path) -> None:
    rows = np.arange(4096, dtype="f4")
    source = ps.create_array(tmp_path / "a.zarr", shape=(16, 4096, 1024), chunks=(1, 512, 1024), dtype="f4")
    for band in range(16):
        source[band] = (rows + band)[:, None]
    assert source.nbytes == 256 * MIB
    for name in ("a.npy", "a.tif"):
        done = run(tmp_path / "a.zarr", str(tmp_path / name))
        assert done.returncode == 0, done.stderr[-2000:]
        made = ps.open(tmp_path / name)
        assert made.shape == source.shape
        np.testing.assert_array_equal(made[:, :, 7], source[:, :, 7])
    assert run(tmp_path / "a.zarr", "all").returncode != 0  # the limit is less than the array


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize(
    "dtype", ["?", "i1", ">i4", "u8", "f2", ">f8", "c8", ">c16", "S3", "U2", ">U2", "V5", "M8[ns]", "m8[10s]"]
)
def test_npy_files_of_open_arrays_equal_those_of_their_values(tmp_path: Path, dtype: str, zarr_format: int) -> None:
    kind = np.dtype(dtype)
    data = np.arange(1 << 20, dtype="u4").view("u1")[: (3 << 20) // kind.itemsize // 64 * 64 * kind.itemsize]
    if kind.kind in "bU":
        data = np.asarray(data % 2)
    values = (data.view("u4").byteswap(dtype[0] == ">") if kind.kind == "U" else data).view(kind).reshape(64, -1)
    in_memory: dict[str, bytes] = {}
    ps.create_array(in_memory, data=values, chunks=(3, 1000), zarr_format=zarr_format)
    a = ps.open_array(in_memory, context=ps.Context(memory_limit="1MiB"))
    assert a.nbytes > 2 * MIB
    ps.save(tmp_path / "a.npy", a)
    np.save(tmp_path / "b.npy", a[...])
    assert (tmp_path / "a.npy").read_bytes() == (tmp_path / "b.npy").read_bytes()


def test_text_is_still_refused(tmp_path: Path) -> None:
    a = ps.create_array({}, data=np.array(["a", "bc"], object), chunks=(1,))
    with pytest.raises(ps.UnsupportedError, match="without pickling"):
        ps.save(tmp_path / "a.npy", a)


def test_a_tiff_of_another_dtype_is_converted_in_blocks(tmp_path: Path) -> None:
    values = np.arange(3 * 200 * 70, dtype="i2").reshape(3, 200, 70)
    in_memory: dict[str, bytes] = {}
    ps.create_array(in_memory, data=values, chunks=(2, 30, 70))
    a = ps.open_array(in_memory, context=ps.Context(memory_limit="1MiB"))
    for number, options in enumerate([{}, {"interleave": "band"}, {"dtype": "f4"}, {"dtype": "i1"}]):
        name = tmp_path / f"{number}.tif"
        ps.create_array(name, data=a, tiles=32, **options)
        np.testing.assert_array_equal(ps.open(name)[...], values.astype(options.get("dtype", "i2")))
    ps.create_array(tmp_path / "m.tif", data=a, tiles=32, mask=values[0] % 2 == 0)
    np.testing.assert_array_equal(ps.open(tmp_path / "m.tif")[...], values)


def test_a_conversion_is_compared(tmp_path: Path) -> None:
    values = np.array([[1.5, np.nan], [0.25, -1]])
    a = ps.create_array({}, data=values, chunks=(1, 2))
    np.testing.assert_array_equal(ps.convert(a, tmp_path / "a.tif", verify=True)[0], values)
    fine = ps.create_array({}, data=values + 1e-9)
    with pytest.raises(ps.CorruptDataError, match=r"element \(0, 0\) of the copy differs"):
        ps.convert(fine, tmp_path / "b.tif", dtype="f4", verify=True)
