"""Files from a pattern, a folder or a list: the package and the program find the same ones, in every format."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
from penstock import _core
from support.http_server import HttpServer

h5py = pytest.importorskip("h5py")

VALUES = np.arange(77.0, dtype="<f4").reshape(11, 7)
PARTS = np.split(VALUES, [4, 5])


def hdf5(path: Path, part: np.ndarray) -> None:
    with h5py.File(path, "w") as file:
        file["x"] = part


# suffix, writer of one file, options of open_shards, what the program adds to a pattern
FORMATS: dict[str, tuple[Callable[[Path, np.ndarray], Any], dict[str, Any], str]] = {
    "npy": (lambda path, part: np.save(path, part), {}, ""),
    "raw": (lambda path, part: part.tofile(path), {}, ""),
    "dat": (lambda path, part: part.tofile(path), {}, ""),
    "h5": (hdf5, {"dataset": "x"}, "/x"),
    "nc": (hdf5, {"dataset": "x"}, "/x"),
    "npz": (lambda path, part: np.savez(path, x=part, y=part + 1), {"path": "x"}, "/x"),
    "zarr": (lambda path, part: ps.save(path, part), {}, ""),
    "tif": (lambda path, part: ps.save(path, part), {}, ""),
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for each format: three files, and one that no pattern should match."""
    made = tmp_path_factory.mktemp("discovery")
    for ending, (write, _, _) in FORMATS.items():
        (made / ending).mkdir()
        parts = PARTS if ending != "tif" else [VALUES[:4], VALUES[:4] + 1, VALUES[:4] + 2]  # joined along bands
        for number, part in enumerate(parts):
            write(made / ending / f"part_{number + 8}.{ending}", np.ascontiguousarray(part))
        (made / ending / "notes.txt").write_text("not one of them")
        if ending in ("raw", "dat"):
            (made / ending / "_meta.json").write_text(json.dumps({"dtype": "float32", "trailing_shape": [7]}))
    return made


def expected_of(ending: str) -> np.ndarray:
    return VALUES if ending != "tif" else np.stack([VALUES[:4], VALUES[:4] + 1, VALUES[:4] + 2])


def names_of(root: Path, ending: str) -> list[str]:
    return [str(root / ending / f"part_{number}.{ending}") for number in (8, 9, 10)]


@pytest.mark.parametrize("ending", FORMATS)
@pytest.mark.parametrize("named", ["pattern", "folder", "list", "paths", "relative", "file URI", "some"])
def test_local_files(root: Path, ending: str, named: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root)
    names, expected = names_of(root, ending), expected_of(ending)
    files: dict[str, Any] = {
        "pattern": f"{root}/{ending}/part_*.{ending}",
        "folder": root / ending,
        "list": names,
        "paths": [Path(each) for each in names],
        "relative": f"{ending}/part_*.{ending}",
        "file URI": f"file://{root}/{ending}/part_*.{ending}",
        "some": f"{root}/{ending}/part_[89].{ending}",
    }
    rows = {"tif": 2}.get(ending, 5) if named == "some" else len(expected)
    gaps = {} if named in ("list", "paths", "some") else {"gaps": "allow"}  # numbers 0 to 7 are missing
    opened = ps.open_shards(files[named], **FORMATS[ending][1], **gaps)
    np.testing.assert_array_equal(opened[...], expected[:rows])


@pytest.mark.parametrize("ending", FORMATS)
def test_missing_numbers_of_a_sequence_are_named(root: Path, ending: str) -> None:
    for files in (f"{root}/{ending}/part_*.{ending}", root / ending):
        with pytest.raises(ps.InvalidArgumentError, match=r"lacks 'part_0\.[^']*', .* and 3 more"):
            ps.open_shards(files, **FORMATS[ending][1])


@pytest.fixture
def memory() -> Any:
    fsspec = pytest.importorskip("fsspec")
    made = fsspec.filesystem("memory")
    yield made
    if made.exists("/discovery"):
        made.rm("/discovery", recursive=True)


# Such a store does not report sizes, which raw files need, and does not open archives.
@pytest.mark.parametrize("ending", sorted(set(FORMATS) - {"npz", "raw", "dat"}))
def test_files_of_other_stores(root: Path, memory: Any, ending: str) -> None:
    for each in (root / ending).rglob("*"):
        if each.is_file():
            memory.pipe(f"/discovery/{each.relative_to(root)}", each.read_bytes())
    base = f"memory://discovery/{ending}"
    names = [f"{base}/part_{number}.{ending}" for number in (8, 9, 10)]
    for files in (f"{base}/part_*.{ending}", base, names):
        opened = ps.open_shards(files, **FORMATS[ending][1], gaps="allow")
        np.testing.assert_array_equal(opened[...], expected_of(ending))


@pytest.mark.parametrize("ending", sorted(set(FORMATS) - {"npz"}))
def test_files_over_http(root: Path, ending: str) -> None:
    objects = {str(each.relative_to(root)): each.read_bytes() for each in (root / ending).rglob("*") if each.is_file()}
    with HttpServer(objects) as server:
        names = [f"{server.url}/{ending}/part_{number}.{ending}" for number in (8, 9, 10)]
        opened = ps.open_shards(names, **FORMATS[ending][1])
        np.testing.assert_array_equal(opened[...], expected_of(ending))


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """The C++ program, which does not use Python."""
    monkeypatch.setenv("PENSTOCK_VERB_IN_PYTHON", "1")  # without it, the program would look for the package

    def call(*arguments: str | Path) -> tuple[int, str, str]:
        capfd.readouterr()
        status = _core.cli_main([b"penstock", *(os.fsencode(each) for each in arguments)])
        out, err = capfd.readouterr()
        return status, out, err

    return call


@pytest.fixture(scope="module")
def whole(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same files, numbered from 0."""
    made = tmp_path_factory.mktemp("whole")
    for ending in FORMATS:
        shutil.copytree(root / ending, made / ending)
        for number in (8, 9, 10):
            (made / ending / f"part_{number}.{ending}").rename(made / ending / f"part_{number - 8}.{ending}")
    return made


@pytest.mark.parametrize("ending", FORMATS)
@pytest.mark.parametrize("named", ["pattern", "folder", "file URI"])
def test_the_program_opens_what_python_opens(
    whole: Path, tmp_path: Path, program: Any, ending: str, named: str
) -> None:
    _, options, member = FORMATS[ending]
    target = {
        "pattern": f"{whole}/{ending}/part_*.{ending}{member}",
        "folder": f"{whole}/{ending}",
        "file URI": f"file://{whole}/{ending}/part_*.{ending}{member}",
    }[named]
    expected = ps.open_shards(f"{whole}/{ending}/part_*.{ending}", **options)[...]
    np.testing.assert_array_equal(expected, expected_of(ending))
    if named == "folder" and ending in ("zarr", "npz"):
        status, _, err = program("info", target)
        assert status == 1
        assert "not_found" in err
        assert ("is a group, not an array" in err) == (ending == "npz")
        return
    status, out, err = program("info", target, "--json")
    assert (status, err) == (0, "")
    document = json.loads(out)
    assert document["shape"] == list(expected.shape)
    assert document["dtype"] == "float32"
    assert program("plan", target, "2:3")[0] == 0
    assert program("read", target, "1:-1", "-o", tmp_path / "out.npy")[0] == 0
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), expected[1:-1])
    status, out, err = program("check", target)
    assert (status, err) == (0, "")
    status, _, err = program("copy", target, tmp_path / "copy.zarr")
    assert (status, err) == (0, "")
    np.testing.assert_array_equal(ps.open(tmp_path / "copy.zarr")[...], expected)


def test_the_program_names_errors(whole: Path, tmp_path: Path, program: Any) -> None:
    folder = tmp_path / "x"
    folder.mkdir()
    for number in (0, 1, 3):
        np.save(folder / f"a_{number}.npy", VALUES)
    assert "lacks 'a_2.npy'" in program("info", f"{folder}/a_*.npy")[2]
    np.save(folder / "a_2.npy", VALUES[:, :3])
    assert "1 of 4 files do not match 'a_0.npy'" in program("info", f"{folder}/a_*.npy")[2]
    assert "nothing in" in program("info", f"{folder}/b_*.npy")[2]
    assert "did you mean" in program("info", f"{folder}/a_4.npy")[2]
    (folder / "b_0.parquet").write_bytes(b"PAR1")
    status, _, err = program("info", f"{folder}/b_*.parquet")
    assert status == 1
    assert len(err.splitlines()) == 1
    assert "the Python package joins such files" in err
    (folder / "c.raw").write_bytes(b"1234")
    assert "'c.raw' is raw bytes: give dtype=, or write it into 'c.raw.json'" in program("info", f"{folder}/*.raw")[2]


def test_the_programs_python_opens_many_tables(tmp_path: Path, monkeypatch: Any, capfd: Any) -> None:
    pytest.importorskip("pyarrow")
    from penstock.__main__ import main

    ps.save_shards(VALUES, tmp_path / "x_{}.parquet", rows=4)
    monkeypatch.setattr("sys.argv", ["penstock", "info", str(tmp_path / "x_*.parquet"), "--json"])
    assert main() == 0
    assert json.loads(capfd.readouterr().out)["shape"] == list(ps.open_shards(tmp_path / "x_*.parquet").shape)


DTYPES = [
    "f4", "<f4", ">f4", "=i2", "|u1", "<i1", "float32", "int", "uint", "bool", "?", "b", "B", "h", "l", "Q", "d", "e",
    "F", "complex64", "complex128", "float16", "S5", "a3", "U2", ">U1", "<U1", "V7", "datetime64[ns]", "M8[s]",
    ">m8[10ms]", "half", "double", "longlong", "intp", "i4,f8", "S3,>i2,u1",
]  # fmt: skip


@pytest.mark.parametrize("name", DTYPES)
def test_types_of_documents_are_numpys(tmp_path: Path, name: str) -> None:
    dtype = np.dtype(name) if name != "a3" else np.dtype("S3")
    data = np.arange(6 * dtype.itemsize, dtype="u1").tobytes() if dtype.kind not in "U?b" else bytes(6 * dtype.itemsize)
    (tmp_path / "x.raw").write_bytes(data)
    (tmp_path / "x.json").write_text(json.dumps({"dtype": name}))
    told = ps.open_shards(tmp_path / "x.raw")
    given = ps.open_shards(tmp_path / "x.raw", dtype=dtype)
    assert told.dtype == given.dtype == dtype.newbyteorder("=")
    assert told[...].tobytes() == given[...].tobytes()


@pytest.mark.parametrize("name", ["float31", "f3", "", "i4,", "nonsense", "M8[x]", "<", "f4 f4"])
def test_types_unknown_to_numpy_are_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "x.raw").write_bytes(b"12345678")
    (tmp_path / "x.json").write_text(json.dumps({"dtype": name}))
    with pytest.raises(ps.InvalidArgumentError, match="dtype: data type"):
        ps.open_shards(tmp_path / "x.raw")


def test_rows_of_many_files_by_name(tmp_path: Path) -> None:
    rows = {f"s_{i}.raw": i % 3 for i in range(300)}
    for name, count in rows.items():
        (tmp_path / name).write_bytes(b"\1" * 4 * count)
    (tmp_path / "_meta.json").write_text(json.dumps({"dtype": "<i4", "rows": rows}))
    assert ps.open_shards(tmp_path / "s_*.raw").shape == (300,)
    (tmp_path / "_meta.json").write_text(json.dumps({"dtype": "<i4", "rows": {**rows, "s_7.raw": 2}}))
    with pytest.raises(ps.CorruptDataError, match=r"1 of 300 files cannot be read: 's_7\.raw'.*1 row, .* 2"):
        ps.open_shards(tmp_path / "s_*.raw")


def test_documents_of_a_folder_are_read_once(tmp_path: Path) -> None:
    for i in range(20):
        (tmp_path / f"s_{i}.raw").write_bytes(b"1234")
    (tmp_path / "_meta.json").write_text('{"dtype": "<i4"}')
    objects = {f"run/{each.name}": each.read_bytes() for each in tmp_path.iterdir()}
    with HttpServer(objects) as server:
        opened = ps.open_shards([f"{server.url}/run/s_{i}.raw" for i in range(20)])
        assert opened.shape == (20,)
        assert sum(each.path == "/run/_meta.json" for each in server.requests) == 1


def test_a_zarr_folder_is_one_file(tmp_path: Path) -> None:
    ps.save(tmp_path / "one.zarr", VALUES)
    np.testing.assert_array_equal(ps.open_shards(tmp_path / "one.zarr")[...], VALUES)
    group = ps.create_group(tmp_path / "run")
    for number, part in enumerate(PARTS):
        ps.create_array(group, f"s_{number}.zarr", data=part)
    np.testing.assert_array_equal(ps.open_shards(tmp_path / "run")[...], VALUES)


def test_odd_names(tmp_path: Path) -> None:
    odd = tmp_path / "a[0] {b} \\ ?"
    odd.mkdir()
    for i, part in enumerate(PARTS):
        np.save(odd / f"x_{i}.npy", part)
    np.testing.assert_array_equal(ps.open_shards([odd / f"x_{i}.npy" for i in range(3)])[...], VALUES)
    raw = os.fsencode(tmp_path) + b"/\xff\xfe_%d.raw"
    for i, part in enumerate(PARTS):
        with open(raw % i, "wb") as file:
            file.write(part.tobytes())
    (tmp_path / "_meta.json").write_text('{"dtype": "<f4", "row_shape": 7}')
    np.testing.assert_array_equal(ps.open_shards(tmp_path / "*_*.raw")[...], VALUES)
    names = [os.fsdecode(raw % i) for i in (2, 0, 1)]
    np.testing.assert_array_equal(ps.open_shards(names)[...], np.concatenate([PARTS[i] for i in (2, 0, 1)]))
