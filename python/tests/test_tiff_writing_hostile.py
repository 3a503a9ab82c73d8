"""What writers of TIFFs refuse, and what remains if they are stopped."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import numpy as np
import penstock as ps
import pytest
from tiff_writing_cases import picture


def test_a_store_that_refuses_once_can_be_used_again(tmp_path):
    folder = tmp_path / "a"
    folder.mkdir()
    values = picture("u1", (1, 90, 90))
    a = ps.create_array(folder / "x.tif", shape=values.shape, dtype="u1", tiles=16)
    a[...] = values
    folder.rmdir()
    folder.write_bytes(b"")  # a file at the place of the folder
    with pytest.raises(ps.StorageError):
        a.close()
    assert not a.closed
    folder.unlink()
    a.close()
    np.testing.assert_array_equal(ps.open(folder / "x.tif")[...], values)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"tiles": 16.0}, "tiles must be a number, or rows and columns"),
        ({"scales": ["x"]}, "scale: numbers are needed"),
        ({"tiles": 20}, "16, 32"),
        ({"tiles": 0}, "16, 32"),
        ({"tiles": -16}, "tiles"),
        ({"tiles": (16,)}, "rows and columns"),
        ({"tiles": "big"}, "rows and columns"),
        ({"tiles": 1 << 20}, "65536"),
        ({"compress": "webp"}, "'webp'"),
        ({"compress": 8}, "compress must be a name"),
        ({"level": 9, "compress": "lzw"}, "no levels"),
        ({"level": 13}, "1 to 12"),
        ({"level": 99, "compress": "zstd"}, "1 to 22"),
        ({"level": "high"}, "level must be an int"),
        ({"predictor": 3}, "for floats"),
        ({"predictor": 4}, "no predictor 4"),
        ({"predictor": 2, "compress": "packbits"}, "needs compression"),
        ({"dtype": "c8", "predictor": 2}, "complex"),
        ({"dtype": "?"}, "bool"),
        ({"dtype": "S3"}, "S3"),
        ({"dtype": "M8[s]"}, "datetime64"),
        ({"interleave": "line"}, "interleave must be"),
        ({"overviews": [3]}, "powers of two"),
        ({"overviews": [4, 2]}, "ascending"),
        ({"overviews": [2, 1 << 30]}, "no overview of"),
        ({"overviews": "all"}, "overviews must be"),
        ({"overviews": 4}, "overviews must be"),
        ({"resampling": "cubic"}, "average, nearest"),
        ({"nodata": 256}, "not a value of uint8"),
        ({"nodata": 0.5}, "not a value of uint8"),
        ({"nodata": "x"}, "not a value of uint8"),
        ({"nodata": 1e39, "dtype": "f4"}, "not a value of float32"),
        ({"transform": (1, 2, 3)}, "six numbers"),
        ({"transform": (1, 0, 0, 1, 0, 0)}, "one line"),
        ({"transform": (1, 0, np.nan, 0, 1, 0)}, "six numbers"),
        ({"area_or_point": "Line"}, "Area"),
        ({"bigtiff": "maybe"}, "bigtiff must be"),
        ({"photometric": "rgb", "shape": (2, 9, 9)}, "RGB needs 3"),
        ({"photometric": "ycbcr"}, "photometric must be"),
        ({"photometric": "palette"}, "needs a colormap"),
        ({"colormap": np.zeros((300, 3), int)}, "at most 256"),
        ({"colormap": np.zeros((3, 3), int), "dtype": "f4"}, "needs one band"),
        ({"colormap": [[70000, 0, 0]]}, "0 to 65535"),
        ({"alpha": True}, "alpha"),
        ({"descriptions": ["a", "b"]}, "one for each"),
        ({"scales": 3}, "one for each"),
        ({"attributes": {"a": "\0"}}, "character 0"),
        ({"attributes": {"a": "\x1b[0m"}}, "character 27"),
        ({"descriptions": ["a\b"]}, "character 8"),
        ({"shape": (9,)}, "band, y, x"),
        ({"shape": 9}, "band, y, x"),
        ({"shape": (1, 1, 9, 9)}, "band, y, x"),
        ({"shape": (1, 0, 9)}, "no pixels"),
        ({"shape": (1, -3, 9)}, "no pixels"),
        ({"shape": (70000, 9, 9)}, "at most 65535 bands"),
        ({"shape": (1, 1 << 31, 9)}, "rows and columns"),
        ({"shape": (1, 1 << 62, 1 << 62)}, "rows and columns"),
        ({"shape": (1, 1 << 64, 9)}, "no pixels, or too many"),
        ({"shape": (1, (1 << 31) - 1, (1 << 31) - 1), "tiles": 16}, "tiles"),
        ({"shape": (60000, 9, 9), "tiles": 512}, "smaller tiles"),
        ({"shape": (1, 9, (1 << 31) - 1), "dtype": "f8", "tiles": 65520}, "smaller tiles"),
        ({"chunks": 16}, "tiles="),
        ({"codecs": ["zstd"]}, "compress="),
        ({"fill_value": 3}, "nodata="),
        ({"shards": 16}, "option of Zarr"),
    ],
)
def test_invalid_options_are_refused(tmp_path, options, words):
    given = {"shape": (1, 9, 9), "dtype": "u1"} | options
    with pytest.raises((ps.InvalidArgumentError, ps.UnsupportedError), match=words):
        ps.create_array(tmp_path / "x.tif", **given)
    assert not list(tmp_path.iterdir())


def test_unknown_options_are_a_type_error(tmp_path):
    with pytest.raises(TypeError, match="'tile'"):
        ps.create_array(tmp_path / "x.tif", shape=(9, 9), dtype="u1", tile=16)
    with pytest.raises(TypeError, match="'tiles'"):
        ps.create_array(tmp_path / "x.zarr", shape=(9, 9), dtype="u1", tiles=16)
    assert not list(tmp_path.iterdir())


def test_rows_too_wide_for_the_memory_limit_are_refused_at_once(tmp_path):
    with pytest.raises(ps.ResourceExhaustedError, match="overview"):
        ps.create_array(
            tmp_path / "x.tif",
            shape=(4, 4096, 1 << 20),
            dtype="f8",
            context=ps.Context(memory_limit=64 << 20),
        )
    assert not list(tmp_path.iterdir())


def test_impossible_writes_are_refused_with_a_message(tmp_path):
    path = tmp_path / "x.tif"
    values = picture("u2", (2, 100, 50))
    a = ps.create_array(path, shape=values.shape, dtype="u2", tiles=32)
    for key, words in (
        (np.s_[:, :10], "not whole rows of tiles"),
        (np.s_[:, 5:32], "not whole rows of tiles"),
        (np.s_[:, 0], "not whole rows of tiles"),
        (np.s_[:, :, :20], "whole rows are written"),
        (np.s_[:, ::2], "step 1"),
        (np.s_[0], "share tiles"),
        (np.s_[1:], "share tiles"),
        (np.s_[:, [0, 1]], "by slices"),
        (np.s_[:, :, :, :], "dimensions"),
        (np.s_[..., ...], "dimensions"),
    ):
        with pytest.raises(ps.InvalidArgumentError, match=words):
            a[key] = 0
    with pytest.raises(ps.OutOfRangeError):
        a[:, 100] = 0
    with pytest.raises(ps.InvalidArgumentError, match="broadcast"):
        a[:, :32] = np.zeros((2, 31, 50))
    with pytest.raises(ps.UnsupportedError, match="close it"):
        a[...]
    with pytest.raises(ps.UnsupportedError, match="close it"):
        np.asarray(a)
    a[:, 32:64] = values[:, 32:64]
    for key in (np.s_[:, 32:64], np.s_[:, :], np.s_[:, 32:]):
        with pytest.raises(ps.InvalidArgumentError, match=r"rows \[32, 64\) are written already"):
            a[key] = 0
    a[:, :32] = values[:, :32]
    a[:, 64:] = values[:, 64:]
    assert not path.exists()
    a.close()
    a.close()
    with pytest.raises(ps.InvalidArgumentError, match="closed"):
        a[:, :32] = 0
    np.testing.assert_array_equal(ps.open(path)[...], values)


def test_an_existing_file_is_replaced_only_on_request(tmp_path):
    path = tmp_path / "x.tif"
    old = picture("u1", (1, 40, 40))
    ps.save(path, old)
    with pytest.raises(ps.InvalidArgumentError, match="already exists"):
        ps.create_array(path, shape=(1, 9, 9), dtype="u1")
    a = ps.create_array(path, shape=(1, 9, 9), dtype="u1", overwrite=True)
    a[...] = 1
    with pytest.raises(ZeroDivisionError), a:
        raise ZeroDivisionError
    assert a.closed
    np.testing.assert_array_equal(ps.open(path)[...], old)
    left = [ps.create_array(path, shape=(1, 9, 9), dtype="u1", overwrite=True)]
    left[0][...] = 1
    with pytest.warns(ResourceWarning, match="never closed"):
        left.clear()
    np.testing.assert_array_equal(ps.open(path)[...], old)
    c = ps.create_array(tmp_path / "new.tif", shape=(1, 9, 9), dtype="u1")
    ps.save(tmp_path / "new.tif", old)
    for _ in range(2):
        with pytest.raises(ps.InvalidArgumentError, match="another writer has created it"):
            c.close()
    c.discard()
    np.testing.assert_array_equal(ps.open(tmp_path / "new.tif")[...], old)
    assert {each.name for each in tmp_path.iterdir()} == {"x.tif", "new.tif"}


def test_a_killed_writer_leaves_nothing(tmp_path):
    path = tmp_path / "x.tif"
    program = """
        import os, sys, numpy as np, penstock as ps
        a = ps.create_array(sys.argv[1], shape=(1, 4096, 4096), dtype="u2", tiles=256)
        a[:, :2048] = np.random.default_rng(0).integers(0, 99, (1, 2048, 4096))
        os.kill(os.getpid(), 9)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program), path], check=False)
    assert done.returncode == -9
    assert not list(tmp_path.iterdir())


def test_a_full_disk_is_one_error_and_leaves_the_old_file(tmp_path):
    path = tmp_path / "x.tif"
    old = picture("u1", (1, 40, 40))
    ps.save(path, old)
    program = """
        import resource, signal, sys, numpy as np, penstock as ps
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
        a = ps.create_array(sys.argv[1], shape=(1, 2048, 2048), dtype="u2", tiles=256, compress="none", overwrite=True)
        values = np.zeros((1, 2048, 2048), "u2")
        try:
            a[...] = values
        except ps.StorageError as error:
            assert "temporary file" in str(error), error
        else:
            raise SystemExit("no error")
        try:
            a.close()
        except ps.StorageError as error:
            assert "an earlier write failed" in str(error), error
        else:
            raise SystemExit("closed")
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program), path], check=True)
    np.testing.assert_array_equal(ps.open(path)[...], old)
    assert [each.name for each in tmp_path.iterdir()] == ["x.tif"]


def test_memory_stays_at_a_few_rows_of_tiles(tmp_path):
    """256 MiB are written; the process's private memory grows by less than 48 MiB."""
    if not os.path.exists("/proc/self/status"):
        pytest.skip("this system does not tell what memory is a process's own")
    program = """
        import sys, numpy as np, penstock as ps
        def own():
            return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("RssAnon")) >> 10
        row = np.random.default_rng(0).integers(0, 999, (1, 256, 8192), "u2")
        a = ps.create_array(sys.argv[1], shape=(1, 16384, 8192), dtype="u2", tiles=256, compress="none",
                            context=ps.Context(threads=2))
        before, most = own(), 0
        for y in range(0, 16384, 256):
            a[:, y : y + 256] = row
            most = max(most, own())
        a.close()
        print(max(most, own()) - before)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), tmp_path / "x.tif"], check=True, capture_output=True, text=True
    )
    assert int(done.stdout) < 48
    assert ps.open(tmp_path / "x.tif").overviews[0] == (8192, 4096)


def test_tiles_without_values_only_use_the_index(tmp_path):
    path = tmp_path / "x.tif"
    with ps.create_array(path, shape=(1, 65536, 65536), dtype="u1", tiles=16, overviews=None) as a:
        a[:, :16] = 1
    assert path.read_bytes()[2] == 42
    assert ps.open(path)[0, 15, 65535] == 1
    assert ps.open(path)[0, 16, 65535] == 0
