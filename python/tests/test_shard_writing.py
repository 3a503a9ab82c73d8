"""Files that `save_shards` writes, calls that it refuses, and the files that a name can mean."""

from __future__ import annotations

import json
import os
import pickle
import threading
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
from penstock import _core
from support.program import run_program

VALUES = np.arange(24, dtype="<f4").reshape(6, 4)
SUFFIXES = [".npy", ".npz", ".raw", ".zarr", ".h5", ".parquet", ".arrow"]


def opened(folder: Path, suffix: str, pattern: str = "q_*") -> ps.Array:
    if suffix == ".h5":
        return ps.open_shards(str(folder / f"{pattern}{suffix}"), dataset="x")
    return ps.open_shards(
        str(folder / f"{pattern}{suffix}"), **({"column": "x"} if suffix in (".parquet", ".arrow") else {})
    )


def need(suffix: str) -> None:
    if suffix in (".h5", ".parquet", ".arrow"):
        pytest.importorskip("h5py" if suffix == ".h5" else "pyarrow")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_only_shards_of_an_earlier_run_are_removed(tmp_path: Path, suffix: str) -> None:
    need(suffix)
    strangers = [
        f"q_0007{suffix}.bak",
        f"q_7{suffix}",
        f"other_0005{suffix}",
        "q_0004.txt",
        f"q_{suffix}",
        f"q_x{suffix}",
    ]
    for name in strangers:
        (tmp_path / name).write_text("mine")
    if suffix == ".zarr":
        (tmp_path / "q_0009.zarr").mkdir()  # not an array
    ps.save_shards(VALUES, tmp_path / f"q_{{:04d}}{suffix}", rows=1)
    paths = ps.save_shards(VALUES, tmp_path / f"q_{{:04d}}{suffix}", rows=3)
    assert [os.path.basename(path) for path in paths] == [f"q_000{n}{suffix}" for n in range(2)]
    there = {path.name for path in tmp_path.iterdir()} - {"penstock.shards", "_meta.json", "q_0009.zarr"}
    assert there == {*strangers, f"q_0000{suffix}", f"q_0001{suffix}"}
    np.testing.assert_array_equal(opened(tmp_path, suffix, "q_0*").read(), VALUES) if suffix != ".zarr" else None
    assert (tmp_path / "q_0009.zarr").exists() == (suffix == ".zarr")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_an_array_does_not_overwrite_its_own_files(tmp_path: Path, suffix: str) -> None:
    need(suffix)
    pattern = tmp_path / f"q_{{}}{suffix}"
    ps.save_shards(VALUES, pattern, rows=2)
    whole = (
        ps.open_shards([str(tmp_path / f"q_{i}.zarr") for i in range(3)])
        if suffix == ".zarr"
        else opened(tmp_path, suffix)
    )
    options: Any = {".h5": {"dataset": "x"}, ".parquet": {"column": "x"}, ".arrow": {"column": "x"}}.get(suffix, {})
    last = ps.open_shards([str(tmp_path / f"q_2{suffix}")], **options)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    (tmp_path / "link").symlink_to(tmp_path)
    for array, to in ((whole, pattern), (last, pattern), (whole, tmp_path / "link" / pattern.name)):
        with pytest.raises(ps.InvalidArgumentError, match=rf"own files would be replaced or removed: .*q_\d{suffix}"):
            ps.save_shards(array, to, rows=6)
        with pytest.raises(ps.InvalidArgumentError, match="own files"):
            ps.save_shards(array, to, rows=5)
    (tmp_path / "link").unlink()
    assert before == {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    np.testing.assert_array_equal(whole.read(), VALUES)
    paths = ps.save_shards(whole, tmp_path / f"p_{{}}{suffix}", rows=4)
    assert len(paths) == 2
    ps.save_shards(whole.read(), pattern, rows=4)  # values that were read before may be written there
    assert not (tmp_path / f"q_2{suffix}").exists()


@pytest.mark.parametrize("suffix", [".npy", ".zarr", ".h5"])
def test_threads_may_share_a_writer(tmp_path: Path, suffix: str) -> None:
    need(suffix)
    w = ps.ShardWriter(tmp_path / f"q_{{:04d}}{suffix}")
    paths: list[str] = []

    def write(value: int) -> None:
        for _ in range(8):
            paths.append(w.write(np.full((2, 400), value)))

    threads = [threading.Thread(target=write, args=(value,)) for value in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    w.close()
    assert sorted(paths) == w.paths
    assert len(set(paths)) == 32
    assert np.bincount(opened(tmp_path, suffix)[:, 0]).tolist() == [16] * 4


def test_names_of_members(tmp_path: Path) -> None:
    path = ps.save_shards(VALUES, tmp_path / "m_{}.npz", rows=6, name="file")[0]
    np.testing.assert_array_equal(np.load(path)["file"], VALUES)
    for suffix in (".h5", ".npz", ".npy"):
        with pytest.raises(ps.InvalidArgumentError, match="name must be"):
            ps.save_shards(VALUES, tmp_path / f"m_{{}}{suffix}", rows=6, name="")
    with pytest.raises(ps.NotFoundError, match="no folder"):
        ps.save_manifest(
            ps.open_shards([*ps.save_shards(VALUES, tmp_path / "m_{}.npy", rows=6)]), tmp_path / "no" / "m"
        )


@pytest.mark.parametrize("suffix", _core.shard_endings(b""))
def test_each_suffix_that_opens_is_written(tmp_path: Path, suffix: str) -> None:
    kind = _core.shard_format_by_name(f"x{suffix}".encode())
    if kind in ("hdf5", "parquet", "arrow"):
        pytest.importorskip("h5py" if kind == "hdf5" else "pyarrow")
    values = np.arange(3 * 4 * 5, dtype="<u2").reshape(3, 4, 5)
    ps.save_shards(values, tmp_path / f"q_{{}}{suffix}", rows=2)
    assert ps.open(tmp_path / "penstock.shards")[...].tobytes() == values.tobytes()


def test_another_suffix_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(ps.UnsupportedError, match=r"\.npy, .*\.zarr, .*\.gtiff, .*\.h5, .*\.feather, not as '\.csv'"):
        ps.save_shards(VALUES, tmp_path / "q_{}.csv", rows=2)


def test_shards_that_are_tiffs(tmp_path: Path) -> None:
    values = np.arange(5 * 40 * 33, dtype="u2").reshape(5, 40, 33)
    ps.save_shards(values + 1, tmp_path / "t_{}.tif", rows=1, manifest=None)
    paths = ps.save_shards(values, tmp_path / "t_{}.tif", rows=2, manifest=None, compress="deflate")
    assert [path.name for path in sorted(tmp_path.iterdir())] == [os.path.basename(path) for path in paths]
    np.testing.assert_array_equal(ps.open_shards(str(tmp_path / "t_*.tif"))[...], values)
    with pytest.raises(ps.UnsupportedError, match=r"\(band, y, x\)"):
        ps.save_shards(VALUES, tmp_path / "u_{}.tif", rows=2)
    with pytest.raises(ps.InvalidArgumentError, match="bogus"):
        ps.save_shards(values, tmp_path / "u_{}.tif", rows=2, bogus=1)
    assert not list(tmp_path.glob("u_*"))


def test_a_failure_removes_nothing(tmp_path: Path) -> None:
    ps.save_shards(VALUES, tmp_path / "q_{}.npy", rows=1)
    writer = ps.ShardWriter(tmp_path / "q_{}.npy")
    writer.write(VALUES)
    writer.__exit__(KeyError, KeyError(), None)
    assert len(list(tmp_path.glob("q_*.npy"))) == 6


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_the_number_may_be_in_the_name_of_a_folder(tmp_path: Path, suffix: str) -> None:
    need(suffix)
    pattern = str(tmp_path / f"step{{:03d}}/part/q{suffix}")
    ps.save_shards(VALUES, pattern, rows=1)
    ps.save_shards(VALUES, pattern, rows=3)
    assert not (tmp_path / "step002" / "part" / f"q{suffix}").exists()
    np.testing.assert_array_equal(opened(tmp_path, suffix, "step*/part/q").read(), VALUES)
    if suffix not in (".zarr", ".npz"):
        np.testing.assert_array_equal(ps.open_shards(tmp_path / "penstock.shards")[...], VALUES)


def test_braces_and_file_uris_in_patterns(tmp_path: Path) -> None:
    paths = ps.save_shards(VALUES, f"file://{tmp_path}/a{{{{b}}}}_{{0}}.npy", rows=4)
    assert [Path(path).name for path in paths] == ["a{b}_0.npy", "a{b}_1.npy"]
    ps.save_shards(VALUES, f"{tmp_path}/a{{{{b}}}}_{{0}}.npy", rows=6)
    assert [path.name for path in tmp_path.glob("*.npy")] == ["a{b}_0.npy"]


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("q_{0.real.foo}.npy", "not a pattern with one"),
        ("q_{0[1]}.npy", "not a pattern with one"),
        ("q_{!r}.npy", "not a pattern with one"),
        ("q_{:x}.npy", "not a pattern with one"),
        ("q_{}_{}.npy", "not a pattern with one"),
        ("q_{a}.npy", "not a pattern with one"),
        ("q_{.npy", "not a pattern with one"),
        ("q.npy", "one name"),
        (b"q_{}.npy", "a str or a path"),
        (3, "a str or a path"),
        ("s3://bucket/q_{}.npy", "files of this machine"),
        ("memory://q_{}.npy", "files of this machine"),
    ],
)
def test_bad_patterns_are_refused(tmp_path: Path, pattern: Any, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ps.Error, match=message):
        ps.save_shards(VALUES, pattern, rows=3)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("pattern", ["q_{}", "./q_{}", "../q_{}", "sub/./q_{}", "sub/../q_{}"])
def test_the_manifest_of_a_relative_pattern_names_its_files(
    tmp_path: Path, pattern: str, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    need(suffix)
    (tmp_path / "here" / "sub").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "here")
    paths = ps.save_shards(VALUES, f"{pattern}{suffix}", rows=4)
    assert paths == [f"{pattern.format(i)}{suffix}" for i in range(2)]
    manifest = os.path.join(os.path.dirname(pattern), "penstock.shards")
    np.testing.assert_array_equal(ps.open(manifest)[...], VALUES)
    monkeypatch.chdir(tmp_path)
    np.testing.assert_array_equal(ps.open(os.path.join("here", manifest))[...], VALUES)


@pytest.mark.parametrize(
    "how", [{"rows": 2.7}, {"shards": 1.5}, {"rows": "2"}, {"rows": 0}, {}, {"rows": 1, "shards": 1}]
)
def test_bad_numbers_of_rows_are_refused(tmp_path: Path, how: dict[str, Any]) -> None:
    with pytest.raises(ps.InvalidArgumentError):
        ps.save_shards(VALUES, tmp_path / "q_{}.npy", **how)
    assert len(ps.save_shards(VALUES, tmp_path / "q_{}.npy", rows=np.int64(4))) == 2


@pytest.mark.parametrize(
    ("shards", "message"),
    [(2**40, f"at most 16777216 files, not as {2**40}"), (2**70, rf"shards must be less than 2\*\*64, got {2**70}")],
)
def test_more_files_than_memory_holds_are_refused(tmp_path: Path, shards: int, message: str) -> None:
    with pytest.raises(ps.InvalidArgumentError, match=message):
        ps.save_shards(VALUES, tmp_path / "q_{}.npy", shards=shards)
    assert not list(tmp_path.iterdir())
    assert ps.save_shards(VALUES, tmp_path / "q_{}.npy", rows=2**70) == [str(tmp_path / "q_0.npy")]


@pytest.mark.parametrize("dtype", ["S0", "U0", "V0", "longdouble", "clongdouble", object])
@pytest.mark.parametrize("suffix", [".npy", ".raw", ".npz"])
def test_unreadable_items_are_not_written(tmp_path: Path, dtype: Any, suffix: str) -> None:
    values = np.ndarray((3,), np.dtype(dtype), b"" if np.dtype(dtype).itemsize == 0 else None)
    with pytest.raises(ps.UnsupportedError):
        ps.save_shards(values, tmp_path / f"q_{{}}{suffix}", rows=3)
    assert not list(tmp_path.iterdir())


def test_refusals_of_other_libraries_are_penstock_errors(tmp_path: Path) -> None:
    pytest.importorskip("h5py")
    pytest.importorskip("pyarrow")
    for suffix, options in [
        (".h5", {"compression": "nope"}),
        (".h5", {"bogus": 1}),
        (".parquet", {"compression": "nope"}),
        (".parquet", {"bogus": 1}),
        (".arrow", {"compression": "nope"}),
        (".arrow", {"bogus": 1}),
        (".npy", {"bogus": 1}),
    ]:
        with pytest.raises(ps.InvalidArgumentError, match=r"nope|bogus"):
            ps.save_shards(VALUES, tmp_path / f"q_{{}}{suffix}", rows=3, **options)
    assert not list(tmp_path.iterdir())


def save(folder: Path, *names: str) -> None:
    for number, name in enumerate(names):
        np.save(folder / name, VALUES + number)


def test_names_are_paths_uris_or_a_generator(tmp_path: Path) -> None:
    (tmp_path / "a b").mkdir()
    save(tmp_path, "a b/q_0.npy", "q_1.npy")
    expected = np.concatenate([VALUES, VALUES + 1])
    paths = [tmp_path / "a b" / "q_0.npy", tmp_path / "q_1.npy"]
    for files in (
        paths,
        (path for path in paths),
        [f"file://{path}" for path in paths],
        [f"file://{path}".replace(" ", "%20") for path in paths],
        [str(paths[0]), f"file://localhost{paths[1]}"],
    ):
        np.testing.assert_array_equal(ps.open_shards(files)[...], expected)
    for one in (f"file://{paths[0]}", f"file:{paths[0]}", f"file://{tmp_path}/a b/*.npy", f"file://{tmp_path}/a b"):
        np.testing.assert_array_equal(ps.open_shards(one)[...], VALUES)
    ps.save_manifest(ps.open_shards(paths), tmp_path / "m")
    np.testing.assert_array_equal(ps.open_shards(f"file://{tmp_path}/m")[...], expected)
    np.savez(tmp_path / "x.npz", x=VALUES)
    np.testing.assert_array_equal(ps.open(f"file://{tmp_path}/x.npz", "x")[...], VALUES)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"files": b"x"}, "not bytes"),
        ({"files": 7}, "a pattern, a folder or a list"),
        ({"files": []}, "list of files is empty"),
        ({"files": ["a.npy", "s3://b/a.npy"]}, "in one place"),
        ({"files": ["https://a/x.npy", "https://b/x.npy"]}, "in one place"),
        ({"files": ["a.npy", 3]}, "is not an array"),
        ({"files": "x*.npy", "axis": "x"}, "axis must be a whole number"),
        ({"files": "x*.npy", "axis": 1.0}, "axis must be a whole number"),
        ({"files": "x*.npy", "order": "K"}, "order is"),
        ({"files": "x*.npy", "gaps": "some"}, "gaps must be"),
        ({"files": "x*.npy", "format": "csv"}, "format is one of"),
        ({"files": ["a.raw"], "dtype": "no such"}, "no data type named"),
        ({"files": ["a.raw"], "dtype": "S0"}, "no bytes"),
        ({"files": ["a.raw"], "dtype": "V0"}, "no bytes"),
        ({"files": ["a.raw"], "dtype": "f4", "offset": 1.5}, "offset must be a number of bytes"),
    ],
)
def test_invalid_names_and_options_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ps.Error, match=message):
        ps.open_shards(**arguments)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_duplicates_are_errors_in_every_format(tmp_path: Path, suffix: str) -> None:
    need(suffix)
    path = Path(ps.save_shards(VALUES, tmp_path / f"q_{{}}{suffix}", rows=6)[0])
    options = {".h5": {"dataset": "x"}, ".parquet": {"column": "x"}, ".arrow": {"column": "x"}}.get(suffix, {})
    again = f"{tmp_path}/../{tmp_path.name}/{path.name}"
    with pytest.raises(ps.InvalidArgumentError, match=f"1 of 2 files are given twice: 'q_0{suffix}'"):
        ps.open_shards([path, again], **options)
    one = ps.open(path) if suffix not in (".h5", ".raw") else ps.open_shards([path], **options)
    with pytest.raises(ps.InvalidArgumentError, match="given twice"):
        ps.open_shards([one, one])


def test_folders_of_every_kind_and_of_several(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    for suffix in (".nc4", ".he5", ".nc", ".hdf5", ".h5"):
        (tmp_path / suffix).mkdir()
        with h5py.File(tmp_path / suffix / f"a{suffix}", "w") as file:
            file["x"] = VALUES
        np.testing.assert_array_equal(ps.open_shards(tmp_path / suffix, dataset="x")[...], VALUES)
    pytest.importorskip("pyarrow")
    for suffix, options in ((".feather", {"column": "x"}), (".npz", {}), (".raw", {}), (".zarr", {})):
        ps.save_shards(VALUES, tmp_path / suffix / f"a_{{}}{suffix}", rows=4)
        np.testing.assert_array_equal(ps.open_shards(tmp_path / suffix, **options)[...], VALUES)
    save(tmp_path / ".h5", "b.npy", ".hidden.raw")
    with pytest.raises(ps.InvalidArgumentError, match=r"holds \*\.h5 and \*\.npy: give a pattern"):
        ps.open_shards(tmp_path / ".h5")
    np.testing.assert_array_equal(ps.open_shards(tmp_path / ".h5", format="npy")[...], VALUES)
    (tmp_path / "none").mkdir()
    with pytest.raises(ps.NotFoundError, match="no files of a known kind"):
        ps.open_shards(tmp_path / "none")


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ((0, 2, 5), r"lacks 'q_0001.npy', 'q_0003.npy', 'q_0004.npy'; to open what is there"),
        ((1, 2, 4), r"lacks 'q_0003.npy'"),
        ((100, 200, 350), r"lacks 'q_0150.npy'"),
        ((0, 100, 300), r"lacks 'q_0200.npy'"),
        ((5, 6, 7), r"lacks 'q_0000.npy'"),
        ((0, 1, 2), None),
        ((1, 2, 3), None),
        ((0, 100, 200), None),
        ((100, 200, 300), None),
        ((1990, 1991), None),
        ((7,), None),
    ],
)
def test_equal_steps_are_a_sequence_and_others_have_gaps(
    tmp_path: Path, numbers: tuple[int, ...], message: str | None
) -> None:
    save(tmp_path, *(f"q_{number:04d}.npy" for number in numbers))
    pattern = str(tmp_path / "q_*.npy")
    if message is None:
        assert len(ps.open_shards(pattern)) == 6 * len(numbers)
        return
    with pytest.raises(ps.InvalidArgumentError, match=message):
        ps.open_shards(pattern)
    assert len(ps.open_shards(pattern, gaps="allow")) == 6 * len(numbers)
    assert len(ps.open_shards(sorted(tmp_path.glob("*.npy")))) == 6 * len(numbers)


@pytest.mark.parametrize("name", ["x.tif", "x.npy", "x.h5", "x.nc", "x.parquet", "x.json", "x"])
def test_an_empty_file_is_reported_as_such(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"")
    with pytest.raises(ps.CorruptDataError, match=r"no bytes|truncated|empty|Invalid"):
        ps.open(tmp_path / name)


@pytest.mark.skipif(np.dtype("longdouble").itemsize != 16, reason="long double is double here")
def test_complex_numbers_of_long_doubles_are_refused_by_name(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros(3, "clongdouble"))
    with pytest.raises(ps.UnsupportedError, match=r'items of type "<c32" are not readable'):
        ps.open(tmp_path / "x.npy")


@pytest.mark.parametrize("suffix", [".npy", ".zarr", ".h5", ".parquet"])
def test_streams_of_unequal_shards(tmp_path: Path, suffix: str) -> None:
    need(suffix)
    values = np.arange(36.0).reshape(9, 4)
    with ps.ShardWriter(tmp_path / f"q_{{}}{suffix}") as writer:
        for part in np.split(values, [3, 3, 8]):
            if part.size or suffix != ".zarr":
                writer.write(part)
    a = opened(tmp_path, suffix)
    with ps.stream(a, tile="shard") as stream:
        tiles = list(stream)
    assert [tile.box[0] for tile in tiles] == [slice(0, 3), slice(3, 8), slice(8, 9)]
    assert [tile.index for tile in tiles] == [(0, 0), (1, 0), (2, 0)]
    for tile in tiles:
        np.testing.assert_array_equal(tile.data, values[tile.box])


@pytest.mark.parametrize("suffix", [".zarr", ".tif", ".npz"])
def test_shards_that_are_arrays_have_a_manifest_too(tmp_path: Path, suffix: str) -> None:
    values = np.arange(7 * 5 * 4, dtype="<f4").reshape(7, 5, 4)
    run = tmp_path / "run"
    paths = ps.save_shards(values, run / f"s_{{}}{suffix}", rows=3)
    assert sorted(each.name for each in run.iterdir()) == ["penstock.shards", *(f"s_{i}{suffix}" for i in range(3))]
    manifest = run / "penstock.shards"
    np.testing.assert_array_equal(ps.open_shards(manifest)[...], values)
    np.testing.assert_array_equal(ps.open(manifest)[2:5, 1:, ::2], values[2:5, 1:, ::2])
    again = pickle.loads(pickle.dumps(ps.open_shards(manifest)))
    np.testing.assert_array_equal(again[...], values)

    run.rename(tmp_path / "moved")
    manifest = tmp_path / "moved" / "penstock.shards"
    np.testing.assert_array_equal(ps.open_shards(manifest)[...], values)
    good = run_program("check", manifest)
    assert good.returncode == 0
    assert "chunks good" in good.stdout

    # A byte that only the checksum covers: size and modification time stay the same.
    victim = tmp_path / "moved" / Path(paths[1]).name
    inner = next(each for each in sorted(victim.rglob("c/*/*/*")) if each.is_file()) if suffix == ".zarr" else victim
    seen, whole = inner.stat(), bytearray(inner.read_bytes())
    whole[len(whole) // 2] ^= 0xFF
    inner.write_bytes(whole)
    os.utime(inner, ns=(seen.st_atime_ns, seen.st_mtime_ns))
    bad = run_program("check", manifest, "--json")
    assert bad.returncode == 1
    if suffix == ".npz":  # the checksum of its member fails before that of the manifest
        assert victim.name in bad.stdout + bad.stderr
        return
    failures = json.loads(bad.stdout)["arrays"][0]["failures"]
    (failure,) = (each for each in failures if each["cell"].startswith("shard "))
    assert victim.name in failure["cell"]
    assert "CRC-32C" in failure["error"]["message"]


@pytest.mark.parametrize("suffix", [".zarr", ".tif", ".npz"])
def test_shards_that_changed_since_their_manifest_are_conflicts(tmp_path: Path, suffix: str) -> None:
    values = np.arange(6 * 5 * 4, dtype="<f4").reshape(6, 5, 4)
    ps.save_shards(values, tmp_path / f"s_{{}}{suffix}", rows=3)
    a = ps.open_shards(tmp_path / "penstock.shards")
    ps.save_shards(values + 1, tmp_path / f"s_{{}}{suffix}", rows=3, manifest=None)
    os.utime(tmp_path / f"s_1{suffix}" / "zarr.json" if suffix == ".zarr" else tmp_path / f"s_1{suffix}", ns=(1, 1))
    with pytest.raises(ps.ConflictError, match="changed since the manifest was saved"):
        ps.open_shards(tmp_path / "penstock.shards")
    if suffix != ".zarr":  # its chunks may be written to
        with pytest.raises(ps.ConflictError, match="changed since the array was opened"):
            a[3:]
    ps.save_shards(values + 2, tmp_path / f"s_{{}}{suffix}", rows=3)
    np.testing.assert_array_equal(ps.open_shards(tmp_path / "penstock.shards")[...], values + 2)


def test_damaged_manifests_of_arrays_are_refused(tmp_path: Path) -> None:
    ps.save_shards(np.zeros((4, 3)), tmp_path / "s_{}.zarr", rows=2)
    manifest = tmp_path / "penstock.shards"
    good = json.loads(manifest.read_text())
    bad: list[Any] = [{**good, "axis": 7}, {**good, "shards": []}, {**good, "shards": [{}]}, {**good, "shards": 3}]
    for member, value in [("shape", [-1, 3]), ("chunks", [0, 3]), ("dtype", "?!"), ("stamp", [1]), ("path", 3)]:
        bad.append({**good, "shards": [{**good["shards"][0], member: value}]})
    for document in bad:
        manifest.write_text(json.dumps(document))
        with pytest.raises(ps.CorruptDataError, match="damaged"):
            ps.open_shards(manifest)


def test_readers_and_writers_of_shards_have_reprs(tmp_path: Path) -> None:
    with ps.ShardWriter(tmp_path / "s_{}.npy") as writer:
        writer.write(np.zeros((4, 2)))
        assert repr(writer) == f"<penstock.ShardWriter '{tmp_path}/s_{{}}.npy', 1 written>"
    array = ps.open_shards(tmp_path / "s_0.npy")
    assert repr(ps.stream(array, tile=(2, 2))) == f"<penstock.Stream of 'file://{tmp_path}/s_0.npy', tiles of (2, 2)>"


@pytest.mark.parametrize("suffix", [".npy", ".raw", ".npz", ".zarr"])
@pytest.mark.parametrize("dtype", ["<f4", ">i2", "?", "c8", "f2"])
def test_shards_of_an_open_array_are_those_of_its_values(tmp_path: Path, suffix: str, dtype: str) -> None:
    values = (np.arange(70) % 11).reshape(10, 7).astype(dtype)
    np.save(tmp_path / "x.npy", values)
    for name, source in (("array", ps.open(tmp_path / "x.npy")), ("values", ps.open(tmp_path / "x.npy")[...])):
        (tmp_path / name).mkdir()
        paths = ps.save_shards(source, tmp_path / name / f"s_{{}}{suffix}", rows=4, name="speed")
        assert paths == [str(tmp_path / name / f"s_{i}{suffix}") for i in range(3)]
    array, plain = (
        {each.relative_to(tmp_path / name): each for each in (tmp_path / name).rglob("*") if each.is_file()}
        for name in ("array", "values")
    )
    assert array.keys() == plain.keys()
    for key, path in array.items():
        if key.suffix == ".npz":  # which has a time
            assert np.array_equal(np.load(path)["speed"], np.load(plain[key])["speed"])
        elif key.name != "penstock.shards":
            assert path.read_bytes() == plain[key].read_bytes(), key
    np.testing.assert_array_equal(ps.open(tmp_path / "array" / "penstock.shards")[...], values)


STRUCTURED = [("a", "<i4"), ("b", "<f8")]


@pytest.mark.parametrize(
    ("suffix", "dtype", "options"),
    [
        *((suffix, of, {}) for suffix in (".npy", ".raw", ".npz", ".zarr") for of in ("<f4", "<M8[s]", STRUCTURED)),
        (".tif", "<u2", {}),
        (".tif", "u1", {"compress": "zstd", "photometric": "rgb", "nodata": 7}),
        (".tif", "<i2", {"mask": np.arange(600).reshape(20, 30) % 3 != 0, "tiles": 16}),
    ],
)  # fmt: skip
def test_the_engine_cuts_arrays_and_writes_their_shards(
    tmp_path: Path, suffix: str, dtype: Any, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = np.dtype(dtype)
    raw = np.random.default_rng(1).integers(0, 100, 8 * 20 * 30 * made.itemsize, dtype="u1")
    values = raw.view(made).reshape(8, 20, 30)
    rows = 4 if "photometric" in options else 3
    with ps.ShardWriter(tmp_path / f"a/s_{{}}{suffix}", **options) as writer:
        for low in range(0, 8, rows):
            writer.write(values[low : low + rows])
    ps.save(tmp_path / "x.zarr", values)
    monkeypatch.delattr(ps.ShardWriter, "write")
    strided = np.repeat(values, 2, axis=2)[:, :, ::2]
    for number, source in enumerate([values, strided, ps.open(tmp_path / "x.zarr")]):
        calls: list[int] = []
        for progress in (None, lambda done, total, calls=calls: calls.append(done)):
            pattern = tmp_path / str(number) / f"s_{{}}{suffix}"
            paths = ps.save_shards(source, pattern, rows=rows, progress=progress, **options)
            assert len(paths) == -(-8 // rows)
            for path in map(Path, paths):
                for each in [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]:
                    same = tmp_path / "a" / each.relative_to(tmp_path / str(number))
                    assert suffix == ".npz" or each.read_bytes() == same.read_bytes(), each
        np.testing.assert_array_equal(ps.open_shards(tmp_path / str(number) / "penstock.shards")[...], values)
        assert calls[-1] == values.nbytes


def test_an_open_array_does_not_overwrite_its_own_files(tmp_path: Path) -> None:
    ps.save_shards(np.arange(12.0), tmp_path / "s_{}.npy", rows=4)
    before = {each: each.read_bytes() for each in tmp_path.iterdir()}
    with pytest.raises(ps.InvalidArgumentError, match="own files would be replaced"):
        ps.save_shards(ps.open_shards(tmp_path / "s_*.npy"), tmp_path / "s_{}.npy", rows=3)
    assert {each: each.read_bytes() for each in tmp_path.iterdir()} == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rows": 2, "manifest": "x_1.npy"}, "the manifest has the name of a shard: 'x_1.npy'"),
        ({"rows": 2, "manifest": "x_9.npy"}, "the manifest has the name of a shard"),
        ({"rows": 2, "manifest": ""}, "the name of the manifest is empty"),
        ({"shards": 10**9}, "at most 16777216 files, not as 1000000000"),
    ],
)
def test_shards_and_their_manifest_have_names_of_their_own(
    tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ps.InvalidArgumentError, match=message):
        ps.save_shards(np.zeros((4, 2)), tmp_path / "x_{}.npy", **options)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("suffix", [*SUFFIXES, ".tif"])
def test_masked_elements_are_refused_before_a_file_is_written(tmp_path: Path, suffix: str) -> None:
    need(suffix)
    values = VALUES.reshape(6, 2, 2) if suffix == ".tif" else VALUES
    masked = np.ma.masked_array(values, values == 20)
    pattern = tmp_path / f"q_{{}}{suffix}"
    with pytest.raises(ps.InvalidArgumentError, match="masked"):
        ps.save_shards(masked, pattern, rows=2)
    with pytest.raises(ps.InvalidArgumentError, match="masked"), ps.ShardWriter(pattern) as writer:
        writer.write(masked)
    assert list(tmp_path.iterdir()) == []
    ps.save_shards(np.ma.masked_array(values), pattern, rows=2)
    np.testing.assert_array_equal(ps.open_shards(tmp_path / "penstock.shards")[...], values)


def test_masked_elements_become_the_nodata_value_of_tiffs(tmp_path: Path) -> None:
    values = VALUES.reshape(6, 2, 2)
    ps.save_shards(np.ma.masked_array(values, values > 19), tmp_path / "q_{}.tif", rows=2, nodata=-9)
    np.testing.assert_array_equal(ps.open_shards(tmp_path / "q_*.tif")[...], np.where(values > 19, -9, values))
