"""Loads into cuPyNumeric, for real, on the processors of this machine. Run by `make test-legate`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import penstock.legate
import pytest

CHUNKED = (23, 7)


@pytest.fixture
def values() -> np.ndarray[Any, Any]:
    return np.random.default_rng(1).random(CHUNKED).astype("f4")


@pytest.fixture
def array(tmp_path: Path, values: np.ndarray[Any, Any]) -> ps.Array:
    made = ps.create_array(tmp_path / "a.zarr", shape=CHUNKED, dtype="f4", chunks=(5, 3))
    made[:] = values
    return made


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("over_decompose", [1, 3, 50])
def test_tiles_along_any_axis(array: ps.Array, values: Any, axis: int, over_decompose: int) -> None:
    loaded = penstock.legate.load(array, axis=axis, over_decompose=over_decompose)
    assert type(loaded).__module__.startswith("cupynumeric")
    np.testing.assert_array_equal(np.asarray(loaded), values)


def test_loaded_arrays_support_computations(array: ps.Array, values: Any) -> None:
    loaded = penstock.legate.load(array)
    np.testing.assert_allclose(np.asarray((loaded * 2).sum(axis=0)), (values * 2).sum(axis=0), rtol=1e-5)


@pytest.mark.parametrize("dtype", ["?", "i1", ">i2", "u4", "i8", "f2", ">f4", "f8", "c8", "c16"])
def test_types(tmp_path: Path, dtype: str) -> None:
    wanted = np.arange(40).astype(dtype).reshape(8, 5)
    made = ps.create_array(tmp_path / "a.zarr", shape=(8, 5), dtype=dtype, chunks=(3, 5))
    made[:] = wanted
    loaded = penstock.legate.load(made)
    assert loaded.dtype == np.dtype(dtype).newbyteorder("=")
    np.testing.assert_array_equal(np.asarray(loaded), wanted)


def test_arrays_without_elements_and_without_dimensions(tmp_path: Path) -> None:
    nothing = ps.create_array(tmp_path / "nothing.zarr", shape=(0, 4), dtype="f4", chunks=(2, 2))
    assert penstock.legate.load(nothing).shape == (0, 4)
    scalar = ps.create_array(tmp_path / "scalar.zarr", shape=(), dtype="f4", chunks=())
    scalar[...] = 3
    assert penstock.legate.load(scalar).shape == ()
    assert float(penstock.legate.load(scalar)) == 3


def test_a_tile_that_cannot_be_read_is_the_callers_error(tmp_path: Path, array: ps.Array) -> None:
    chunk = tmp_path / "a.zarr" / "c" / "4" / "2"
    chunk.write_bytes(chunk.read_bytes()[:3])
    with pytest.raises(ps.CorruptDataError, match=r"'c/4/2'[\s\S]*rank 0 on"):
        penstock.legate.load(array)


def test_errors_of_absent_files_name_the_rank(tmp_path: Path) -> None:
    with pytest.raises(ps.NotFoundError, match="rank 0 on"):
        penstock.legate.load(tmp_path / "nowhere.zarr")
    with pytest.raises(ps.NotFoundError, match=r"shard_\*[\s\S]*rank 0 on"):
        penstock.legate.load(tmp_path / "shard_*.npy", opener=ps.open_shards)


def test_loads_the_array_of_an_opener(tmp_path: Path, values: Any) -> None:
    ps.save_shards(values, tmp_path / "part_{}.npy", rows=6)
    loaded = penstock.legate.load(tmp_path / "part_*.npy", opener=ps.open_shards, axis=1, gaps="allow")
    np.testing.assert_array_equal(np.asarray(loaded), values)


def test_the_demo_names_the_rank_without_the_shards(tmp_path: Path, capsys: Any, monkeypatch: Any) -> None:
    from penstock.interop.legate import demo

    monkeypatch.setattr(demo, "_is_first", lambda: False)
    assert demo.main(["read", "--shard-dir", str(tmp_path / "nowhere")]) == 1
    said = capsys.readouterr().err
    assert said.startswith("rank 0 on ")
    assert "there is no folder" in said


def test_text_is_refused(tmp_path: Path) -> None:
    made = ps.create_array(tmp_path / "a.zarr", shape=(3,), dtype="string", chunks=(2,))
    with pytest.raises(ps.UnsupportedError, match="cuPyNumeric has no elements"):
        penstock.legate.load(made)


@pytest.fixture
def shards(tmp_path: Path) -> tuple[ps.Array, np.ndarray[Any, Any]]:
    _, count = penstock.legate.processors()
    values = np.arange(count * 3 * 5 * 4, dtype="f4").reshape(-1, 4)
    ps.save_shards(values, str(tmp_path / "shard_{:03d}.npy"), shards=3 * count)
    return ps.open_shards(str(tmp_path / "shard_*.npy")), values


def test_tiles_that_are_files_load_the_same_in_both_ways(shards: Any) -> None:
    array, values = shards
    assert penstock.legate.whole_files(array, 0, 5) is not None
    assert penstock.legate.whole_files(array, 0, 15) is None
    assert penstock.legate.whole_files(array, 1, 5) is None
    for fast_path in (True, False):
        for over_decompose in (1, 2, 3, 7):
            loaded = penstock.legate.load(array, over_decompose=over_decompose, fast_path=fast_path)
            np.testing.assert_array_equal(np.asarray(loaded), values)


def test_a_removed_tile_file_is_the_callers_error(shards: Any) -> None:
    array, _ = shards
    files = penstock.legate.whole_files(array, 0, 5)
    assert files is not None
    Path(files[-1]).unlink()
    with pytest.raises(ps.Error, match=r"rank 0 on"):
        penstock.legate.load(array, over_decompose=3)


@pytest.mark.parametrize("fast_path", [True, False])
def test_a_replaced_tile_file_is_a_conflict(shards: Any, fast_path: bool) -> None:
    array, _ = shards
    files = penstock.legate.whole_files(array, 0, 5)
    assert files is not None
    other = Path(files[1]).with_suffix(".other")
    other.write_bytes(Path(files[1]).read_bytes())  # the same shape, even the same values
    other.replace(files[1])
    with pytest.raises(ps.ConflictError, match=r"has changed[\s\S]*rank 0 on"):
        penstock.legate.load(array, over_decompose=3, fast_path=fast_path)


@pytest.mark.parametrize("dtype", ["float32", "int8", "float16", "bool", "uint64"])
@pytest.mark.parametrize("uniform", [True, False])
def test_the_demo_writes_reads_and_cleans(tmp_path: Path, capsys: Any, dtype: str, uniform: bool) -> None:
    from penstock.interop.legate.demo import main

    folder = ["--shard-dir", str(tmp_path / "run")]
    more = ["--uniform"] if uniform else []
    assert main(["write", *folder, "--num-shards", "6", "--shape", "600,3", "--dtype", dtype, *more]) == 0
    for options in ([], ["--over-decompose", "3"], ["--over-decompose", "3", "--no-fast-path"], ["--no-verify"]):
        assert main(["read", *folder, *options]) == 0
        said = capsys.readouterr().out
        assert ("skipped, as requested" if options == ["--no-verify"] else "verification: passed") in said
        assert ("each of them one file" in said) == (uniform and options == ["--over-decompose", "3"])
    assert main(["read", *folder, "--seed", "5"]) == 1
    assert "FAILED" in capsys.readouterr().out
    (tmp_path / "run" / "mine.txt").write_text("kept")
    assert main(["clean", *folder]) == 0
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["mine.txt"]
    assert main(["read", *folder]) == 1
    assert main(["read", "--shard-dir", str(tmp_path / "nowhere")]) == 1


def test_the_demo_refuses_invalid_settings(tmp_path: Path) -> None:
    from penstock.interop.legate.demo import main

    folder = ["--shard-dir", str(tmp_path / "run")]
    assert main(["write", *folder, "--num-shards", "7", "--shape", "6,3"]) == 1
    assert main(["write", *folder, "--dtype", "complex64", "--shape", "6,3"]) == 1
    with pytest.raises(SystemExit):
        main(["write", *folder, "--shape", "6,0"])
