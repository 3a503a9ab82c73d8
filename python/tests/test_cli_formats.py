"""The command line on every format that `penstock.open` opens: each verb returns the same as Python."""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
from penstock.__main__ import main
from support.http_server import HttpServer

zarr = pytest.importorskip("zarr")
h5py = pytest.importorskip("h5py")
pa = pytest.importorskip("pyarrow")

VALUES = np.arange(7 * 5, dtype="f4").reshape(7, 5)


def hdf5(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file.create_dataset("deep/t2m", data=VALUES, chunks=(3, 5), compression="gzip", shuffle=True)
        file["scalar"] = 2.5


def netcdf(path: Path) -> None:
    xr = pytest.importorskip("xarray")
    pytest.importorskip("netCDF4")
    xr.Dataset({"t2m": (("y", "x"), VALUES)}).to_netcdf(path, engine="netcdf4")


def table(path: Path) -> None:
    import pyarrow.parquet as pq

    pq.write_table(pa.table({f"c{i}": VALUES[:, i] for i in range(5)}), path)


def arrow(path: Path) -> None:
    columns = pa.table({f"c{i}": VALUES[:, i] for i in range(5)})
    with pa.ipc.new_file(path, columns.schema) as writer:
        writer.write_table(columns)


def zarr_group(path: Path) -> None:
    ps.create_group(path).create_array("deep/t2m", data=VALUES, chunks=(3, 5))


def references(path: Path) -> None:
    data = path.with_suffix(".bin")
    data.write_bytes(VALUES.tobytes())
    zarray = {"zarr_format": 2, "shape": [7, 5], "chunks": [7, 5], "dtype": "<f4", "compressor": None, "filters": None}
    zarray |= {"fill_value": 0, "order": "C"}
    refs = {".zgroup": '{"zarr_format": 2}', "t2m/.zarray": json.dumps(zarray), "t2m/0.0": [str(data)]}
    path.write_text(json.dumps({"version": 1, "refs": refs}))


# name, writer, member that holds VALUES ("": the target is the array)
FORMATS: list[tuple[str, Callable[[Path], Any], str]] = [
    ("v3.zarr", lambda path: ps.create_array(path, data=VALUES, chunks=(3, 5)), ""),
    ("v2.zarr", lambda path: ps.create_array(path, data=VALUES, chunks=(3, 5), zarr_format=2), ""),
    ("group.zarr", zarr_group, "deep/t2m"),
    ("data.zip", zarr_group, "deep/t2m"),
    ("x.h5", hdf5, "deep/t2m"),
    ("x.nc", netcdf, "t2m"),
    ("x.npy", lambda path: np.save(path, VALUES), ""),
    ("x.npz", lambda path: np.savez(path, t2m=VALUES), ""),
    ("x.tif", lambda path: ps.save(path, VALUES), ""),
    ("x.parquet", table, ""),
    ("x.arrow", arrow, ""),
    ("x.json", references, "t2m"),
]
NAMES = [name for name, _, _ in FORMATS]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("formats")
    for name, write, _ in FORMATS:
        write(folder / name)
    return folder


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    def call(*arguments: str | Path) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["penstock", *map(str, arguments)])
        capfd.readouterr()
        status = main()
        out, err = capfd.readouterr()
        return status, out, err

    return call


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("flags", [("--allow-local",), ("--anon", "--profile", "unknown")])
def test_flags_that_a_target_does_not_have_are_ignored(files: Path, tmp_path: Path, run, name: str, flags: Any) -> None:
    for words in (("info", files / name), ("convert", files / name, tmp_path / "out.zarr")):
        status, _, err = run(*words, *flags)
        assert (status, err) == (0, ""), words
    if name == "x.parquet":
        shutil.copy(files / name, tmp_path / "y1.parquet")
        shutil.copy(files / name, tmp_path / "y2.parquet")
        for words in (("info",), ("convert", tmp_path / "joined.zarr")):
            assert run(words[0], tmp_path / "y*.parquet", *words[1:], *flags)[0] == 0
    if name == "x.tif":
        assert run("read", files / name, "-o", tmp_path / "x.png", *flags)[0] == 0
    status, _, err = run("convert", tmp_path / "nothing.zarr", tmp_path / "never.zarr", *flags)
    assert (status, "not_found" in err) == (1, True)


@pytest.mark.parametrize(("name", "as_uri"), list(itertools.product(NAMES, (False, True))))
@pytest.mark.parametrize("verb", ["info", "tree", "plan", "read", "print", "check"])
def test_each_verb_opens_what_python_opens(files: Path, tmp_path: Path, run, name: str, as_uri: bool, verb: str):
    member = next(member for each, _, member in FORMATS if each == name)
    whole = f"file://{files / name}" if as_uri else str(files / name)
    target = f"{whole}/{member}" if member else whole
    values = ps.open(whole, member)[...] if member else ps.open(whole)[...]
    np.testing.assert_array_equal(values.reshape(VALUES.shape), VALUES)
    if verb in ("info", "tree"):
        status, out, err = run(verb, target, "--json")
        assert (status, err) == (0, "")
        document = json.loads(out)
        if name.endswith(".tif") and verb == "info":
            return  # it has its own report: test_tiff_cli
        assert document["shape"] == list(values.shape)
        assert document["dtype"] == "float32"
    elif verb == "plan":
        status, out, err = run("plan", target, "0:2", "--json")
        assert (status, err) == (0, "")
        assert json.loads(out)["shape"] == list(values[0:2].shape)
    elif verb == "read":
        status, out, err = run("read", target, "1:", "-o", tmp_path / "out.npy")
        assert (status, err) == (0, "")
        np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), values[1:])
    elif verb == "print":
        status, out, err = run("read", target, "0", "--json")
        assert (status, err) == (0, "")
        np.testing.assert_array_equal(np.array(json.loads(out)["values"], "f4"), values[0])
    else:
        status, out, err = run("check", target, "--json")
        assert (status, err) == (0, "")
        assert json.loads(out)["ok"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("what", ["whole", "array", "rechunked"])
def test_each_format_is_copied_to_zarr(files: Path, tmp_path: Path, run, name: str, what: str):
    member = next(member for each, _, member in FORMATS if each == name)
    inside = member if what == "whole" else ""
    source = files / name if what == "whole" or not member else files / name / member
    wanted = ps.open(files / name, member)[...]
    options = ["--chunks", ",".join(map(str, wanted.shape))] if what == "rechunked" else []
    out = tmp_path / "out.zarr"
    status, text, err = run("copy", source, out, "--json", *options)
    assert (status, err) == (0, "")
    found = ps.open(out, inside)
    np.testing.assert_array_equal(found[...], wanted)
    document = json.loads(text)
    nodes = list(ps.open(out).members(max_depth=None)) if inside else []
    assert document["arrays"] == (sum(isinstance(node, ps.Array) for _, node in nodes) if inside else 1)
    assert document["groups"] == (sum(isinstance(node, ps.Group) for _, node in nodes) + 1 if inside else 0)
    status, _, err = run("copy", source, out, *options)
    assert status == 1, "it already exists"
    assert re.search("already exists", err)
    assert run("copy", source, out, "--overwrite", *options)[::2] == (0, "")
    np.testing.assert_array_equal(ps.open(out, inside)[...], wanted)


@pytest.mark.parametrize("name", [name for name, _, member in FORMATS if member])
@pytest.mark.parametrize("verb", ["info", "tree", "check"])
def test_verbs_walk_groups_of_every_format(files: Path, run, name: str, verb: str):
    status, out, err = run(verb, files / name, "--json")
    assert (status, err) == (0, "")

    def paths(group: ps.Group, prefix: str = "") -> list[str]:
        return [prefix + path for path, node in group.members(max_depth=None) if isinstance(node, ps.Array)]

    wanted = paths(ps.open(files / name))
    document = json.loads(out)
    if verb == "check":
        assert document["ok"]
        assert [each["path"] for each in document["arrays"]] == wanted
        return

    def walk(children: list[dict[str, Any]], prefix: str = "") -> list[str]:
        found = []
        for child in children:
            path = prefix + child["name"]
            found += [path] if child["kind"] == "array" else walk(child["children"], path + "/")
        return found

    assert walk(document["children"]) == wanted


@pytest.mark.parametrize("name", ["x.h5", "x.nc", "x.json", "group.zarr"])
def test_a_missing_member_is_named(files: Path, run, name: str):
    status, out, err = run("info", files / name / "nosuch")
    assert (status, out) == (1, "")
    assert "not_found" in err
    assert "nosuch" in err
    status, _, err = run("read", files / name)
    assert status == 1
    assert "is a group, not an array" in err


@pytest.mark.parametrize(
    ("codec", "wanted"),
    [
        ("zstd", {"level": 0}),
        ("zstd:5", {"level": 5}),
        ("zstd:-3", {"level": -3}),
        ('{"name": "zstd", "configuration": {"level": 7, "checksum": false}}', {"level": 7}),
        ('[{"name": "zstd", "configuration": {"level": 7, "checksum": false}}]', {"level": 7}),
    ],
)
def test_codecs_of_a_copy_may_have_a_level(tmp_path: Path, run, codec: str, wanted: dict[str, int]):
    ps.create_array(tmp_path / "x.zarr", data=VALUES, chunks=(3, 5), codecs=[])
    assert run("copy", tmp_path / "x.zarr", tmp_path / "y.zarr", "--codec", codec)[0] == 0
    made = ps.open(tmp_path / "y.zarr")
    assert made.codecs[-1]["name"] == "zstd"
    assert made.codecs[-1]["configuration"].items() >= wanted.items()
    np.testing.assert_array_equal(made[...], VALUES)


@pytest.mark.parametrize("codec", ["zstd:high", "nosuch:3", "zstd:", "{", '{"level": 3}'])
def test_invalid_codecs_are_refused(tmp_path: Path, run, codec: str):
    ps.create_array(tmp_path / "x.zarr", data=VALUES)
    status, _, err = run("copy", tmp_path / "x.zarr", tmp_path / "y.zarr", "--codec", codec)
    assert status in (1, 2)
    assert "codec" in err
    assert not (tmp_path / "y.zarr").exists()


def test_a_check_of_several_arrays_ends_with_a_sum(tmp_path: Path, run):
    group = ps.create_group(tmp_path / "g.zarr")
    for name in "abc":
        group.create_array(name, data=VALUES, chunks=(3, 5))
    assert run("check", tmp_path / "g.zarr")[1].splitlines()[-1].startswith("3 arrays, 9 chunks, 0 absent, 540 bytes")
    (tmp_path / "g.zarr" / "b" / "c" / "0" / "0").write_bytes(b"x")
    status, out, _ = run("check", tmp_path / "g.zarr")
    assert status == 1
    assert out.splitlines()[-1].endswith(", 1 of them with faults")
    assert len(run("check", tmp_path / "g.zarr" / "a")[1].splitlines()) == 1


# The kinds of files that the program opens by itself; Parquet and Arrow files need pyarrow.
PROGRAM = Path(os.environ.get("PENSTOCK_PROGRAM", Path(__file__).parents[2] / "build" / "release" / "cli" / "penstock"))


def classic(path: Path) -> None:
    scipy_io = pytest.importorskip("scipy.io")
    with scipy_io.netcdf_file(path, "w") as file:
        file.createDimension("y", 7)
        file.createDimension("x", 5)
        file.createVariable("t2m", "f4", ("y", "x"))[:] = VALUES


def parquet_references(path: Path) -> None:
    import pyarrow.parquet as pq

    references(path.with_suffix(".json"))
    refs = json.loads(path.with_suffix(".json").read_text())["refs"]
    (path / "t2m").mkdir(parents=True)
    metadata = {name: json.loads(text) for name, text in refs.items() if isinstance(text, str)}
    (path / ".zmetadata").write_text(json.dumps({"metadata": metadata, "record_size": 10}))
    chunk = {"path": [refs["t2m/0.0"][0]], "offset": [0], "size": [VALUES.nbytes], "raw": pa.array([None], pa.binary())}
    pq.write_table(pa.table(chunk), path / "t2m" / "refs.0.parq")


def shards(pattern: str) -> Callable[[Path], None]:
    """Write shards of VALUES next to the manifest, which is the target."""

    def write(path: Path) -> None:
        path.parent.mkdir()
        with ps.ShardWriter(path.parent / pattern, manifest=path.name) as writer:
            for begin, end in ((0, 3), (3, 6), (6, 7)):
                writer.write(VALUES[begin:end])

    return write


def shards_in_both_orders(path: Path) -> None:
    path.parent.mkdir()
    np.save(path.parent / "s_0.npy", VALUES[:4])
    np.save(path.parent / "s_1.npy", np.asfortranarray(VALUES[4:]))
    ps.save_manifest(ps.open_shards(path.parent / "s_*.npy"), path)


def tiff_shards(path: Path) -> None:
    path.parent.mkdir()
    with ps.ShardWriter(path.parent / "{}.tif", manifest=path.name) as writer:
        for band in VALUES.reshape(7, 1, 5):
            writer.write(band[None])


def manifest_of_group(path: Path) -> None:
    classic(path.with_suffix(".nc"))
    ps.save_manifest(ps.open(path.with_suffix(".nc")), path)


def manifest_of_references(path: Path) -> None:
    hdf5(path.with_suffix(".h5"))
    ps.save_manifest(ps.open(path.with_suffix(".h5"), "deep/t2m"), path)


KINDS: list[tuple[str, Callable[[Path], Any], str]] = [
    *(each for each in FORMATS if not each[0].endswith((".parquet", ".arrow"))),
    ("sharded.zarr", lambda path: ps.create_array(path, data=VALUES, chunks=(1, 5), shards=(3, 5)), ""),
    ("classic.nc", classic, "t2m"),
    ("saved.refs", parquet_references, "t2m"),
    ("h5.manifest", manifest_of_references, ""),
    *((f"many_{end}/m", shards("{}." + end), "") for end in ("npy", "raw", "h5", "zarr", "npz")),
    ("orders/m", shards_in_both_orders, ""),
    ("many_tif/m", tiff_shards, ""),
    ("group.manifest", manifest_of_group, "t2m"),
]


@pytest.fixture(scope="module")
def kinds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kinds")
    for name, write, _ in KINDS:
        write(folder / name)
    return folder


def program(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the program where it cannot find Python: the environment has no variables, not even PATH."""
    environment = {"PATH": "/nonexistent", "LD_LIBRARY_PATH": os.environ.get("LD_LIBRARY_PATH", "")}
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, env=environment, timeout=60)


@pytest.mark.skipif(not PROGRAM.exists(), reason="the program is not built")
@pytest.mark.parametrize(("name", "member"), [(name, member) for name, _, member in KINDS])
def test_the_program_opens_each_kind_without_python(kinds: Path, tmp_path: Path, name: str, member: str) -> None:
    whole = kinds / name
    target = whole / member if member else whole
    values = ps.open(whole, member)[...] if member else ps.open(whole)[...]
    np.testing.assert_array_equal(values.reshape(VALUES.shape), VALUES)
    for verb in (["info"], ["tree"], ["plan", "0:2"], ["check"]):
        done = program(verb[0], target, *verb[1:], "--json")
        assert (done.returncode, done.stderr) == (0, ""), done
        assert json.loads(done.stdout)
    for node in {whole, target}:
        assert program("info", node).returncode == 0
    done = program("read", target, "...", "-o", tmp_path / "out.npy")
    assert (done.returncode, done.stderr) == (0, ""), done
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), values)
    done = program("copy", target, tmp_path / "out.zarr")
    assert (done.returncode, done.stderr) == (0, ""), done
    np.testing.assert_array_equal(ps.open(tmp_path / "out.zarr")[...], values)


@pytest.mark.skipif(not PROGRAM.exists(), reason="the program is not built")
def test_windows_need_no_python(tmp_path: Path) -> None:
    values = np.arange(3 * 40 * 50, dtype="u2").reshape(3, 40, 50)
    scene = tmp_path / "scene.tif"
    ps.save(scene, values, crs="EPSG:32633", transform=(10, 0, 500000, 0, -10, 4600000))
    bounds = (500040.0, 4599800.0, 500240.0, 4599960.0)
    for end in ("npy", "tif"):
        out = tmp_path / f"window.{end}"
        done = program("read", scene, "--bounds", *map(str, bounds), "--shape", "8", "10", "-o", out)
        assert (done.returncode, done.stderr) == (0, ""), done
        np.testing.assert_array_equal(ps.open(out)[...], ps.read_window(ps.open(scene), bounds, (8, 10)))


@pytest.mark.skipif(not PROGRAM.exists(), reason="the program is not built")
@pytest.mark.parametrize("suffix", [".zarr", ".npz", ".tif"])
@pytest.mark.parametrize("how", ["damaged", "rewritten"])
def test_the_check_of_array_shards_compares_their_bytes(tmp_path: Path, run: Any, suffix: str, how: str) -> None:
    values = np.arange(7 * 16 * 16, dtype="f4").reshape(7, 16, 16)
    options: dict[str, Any] = {"compress": None} if suffix == ".tif" else {}
    for name, added in (("run", 0), ("other", 1)):
        ps.save_shards(values + added, tmp_path / name / f"s_{{}}{suffix}", rows=3, **options)
    manifest, victim = tmp_path / "run" / "penstock.shards", tmp_path / "run" / f"s_1{suffix}"
    for check in (program, lambda *each: subprocess.CompletedProcess(each, *run(*each))):
        assert check("check", manifest).returncode == 0

    # The size and time that the manifest records stay as they are.
    for file in [each for each in victim.rglob("*") if each.is_file()] or [victim]:
        seen, whole = file.stat(), file.read_bytes()
        if how == "rewritten":
            whole = (tmp_path / "other" / file.relative_to(tmp_path / "run")).read_bytes()
        elif file.name != "zarr.json":
            whole = whole[:-1] + bytes([whole[-1] ^ 1])
        assert len(whole) == seen.st_size or file.parent not in (
            victim,
            victim.parent,
        )  # for a Zarr array, the recorded size and time are its metadata's
        file.write_bytes(whole)
        os.utime(file, ns=(seen.st_atime_ns, seen.st_mtime_ns))
    for check in (program, lambda *each: subprocess.CompletedProcess(each, *run(*each))):
        done = check("check", manifest, "--json")
        assert done.returncode == 1
        if (suffix, how) == (".npz", "damaged"):  # the checksum of its member fails before that of the manifest
            assert "s_1.npz" in done.stdout + done.stderr
            continue
        failures = json.loads(done.stdout)["arrays"][0]["failures"]
        (failure,) = (each for each in failures if each["cell"].startswith("shard "))
        assert f"s_1{suffix}" in failure["cell"]
        assert "CRC-32C" in failure["error"]["message"]


@pytest.mark.skipif(not PROGRAM.exists(), reason="the program is not built")
def test_the_check_names_the_array_shards_that_changed(tmp_path: Path) -> None:
    for i in range(8):
        ps.save(tmp_path / f"s_{i}.zarr", np.arange(6))
    ps.save_manifest(ps.open_shards(str(tmp_path / "s_*.zarr")), tmp_path / "m")
    for i in range(1, 8):
        (tmp_path / f"s_{i}.zarr/zarr.json").unlink()
    done = program("check", tmp_path / "m")
    assert done.returncode == 1
    assert [f"s_{i}.zarr" in done.stderr for i in range(8)] == [False, *[True] * 5, False, False]
    assert "and 2 more since the manifest was saved" in done.stderr


@pytest.mark.skipif(not PROGRAM.exists(), reason="the program is not built")
@pytest.mark.parametrize("name", ["x.parquet", "x.arrow"])
def test_the_program_names_what_needs_python(files: Path, name: str) -> None:
    done = program("info", files / name)
    assert done.returncode == 1
    assert "the Python package, which is not installed, opens more: Parquet and Arrow" in done.stderr


@pytest.mark.skipif(not PROGRAM.exists(), reason="the program is not built")
def test_an_archive_of_several_arrays_is_a_group_of_them(tmp_path: Path) -> None:
    np.savez(tmp_path / "two.npz", a=VALUES, b=VALUES[0])
    done = program("ls", tmp_path / "two.npz")
    assert [line.split()[0] for line in done.stdout.splitlines()][-2:] == ["a", "b"]
    done = program("read", tmp_path / "two.npz", "-o", tmp_path / "x.npy")
    assert done.returncode == 1
    assert "is a group, not an array\n  it holds a, b" in done.stderr
    assert json.loads(program("info", tmp_path / "two.npz" / "b", "--json").stdout)["shape"] == [5]
    done = program("copy", tmp_path / "two.npz", tmp_path / "two.zarr")
    assert done.returncode == 0, done.stderr
    np.testing.assert_array_equal(ps.open(tmp_path / "two.zarr", "a")[...], VALUES)


@pytest.mark.skipif(not PROGRAM.exists(), reason="the program is not built")
def test_joined_arrays_of_a_manifest_that_changed_are_refused(tmp_path: Path) -> None:
    shards("{}.zarr")(tmp_path / "run" / "m")
    ps.open(tmp_path / "run" / "1.zarr").resize((2, 5))
    done = program("info", tmp_path / "run" / "m")
    assert done.returncode == 1
    assert "conflict" in done.stderr
    assert "1.zarr' changed since the manifest was saved" in done.stderr


@pytest.mark.skipif(not PROGRAM.exists(), reason="the program is not built")
def test_a_manifest_that_refers_to_itself_is_refused(tmp_path: Path) -> None:
    itself = tmp_path / "m"
    shard = {"path": "m", "crc32c": None, "format": "npy", "shape": [7, 5], "dtype": "<f4", "chunks": [7, 5]}
    stamp = [1000, 1_700_000_000_000_000_000]
    document = {"penstock_manifest": 1, "kind": "arrays", "axis": 0, "shards": [shard | {"stamp": stamp}]}
    itself.write_text(json.dumps(document).ljust(stamp[0]))
    os.utime(itself, ns=(stamp[1], stamp[1]))
    done = program("info", itself)
    assert done.returncode == 1
    assert "is a manifest, and so is the file that names it" in done.stderr


@pytest.mark.skipif(not PROGRAM.exists(), reason="the program is not built")
@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"axis": -1}, "'axis' is not a number"),
        ({"axis": 2**64 - 1}, "no axis 18446744073709551615"),
        ({"shards": []}, "it has no arrays"),
        ({"shards": [3]}, "an array has no path"),
        ({"path": "http://host/x"}, "are local files"),
        ({"stamp": [1]}, "size and modification time"),
        ({"shape": [7, -5]}, "the shape of"),
        ({"shape": [8, 5]}, "was float32 (8, 5), and is now float32 (7, 5)"),
        ({"dtype": "[["}, "the dtype of"),
        ({"dtype": "<i4"}, "was int32 (7, 5), and is now float32 (7, 5)"),
    ],
)
def test_manifests_of_joined_arrays_are_checked(tmp_path: Path, change: dict[str, Any], complaint: str) -> None:
    np.save(tmp_path / "x.npy", VALUES)
    now = (tmp_path / "x.npy").stat()
    shard = {"path": "x.npy", "stamp": [now.st_size, now.st_mtime_ns], "shape": [7, 5], "dtype": "<f4"}
    shard |= {name: value for name, value in change.items() if name in shard}
    document = {"penstock_manifest": 1, "kind": "arrays", "axis": 0, "shards": [shard]}
    document |= {name: value for name, value in change.items() if name in document}
    (tmp_path / "m").write_text(json.dumps(document))
    done = program("info", tmp_path / "m")
    assert done.returncode == 1
    assert complaint in done.stderr


def test_a_member_of_an_archive_opens_by_its_path(files: Path) -> None:
    np.testing.assert_array_equal(ps.open(files / "x.npz" / "t2m")[...], VALUES)
    np.testing.assert_array_equal(ps.open(f"file://{files}/x.npz/t2m")[...], VALUES)
    with pytest.raises(ps.NotFoundError, match="nosuch"):
        ps.open(files / "x.npz" / "nosuch")


def test_a_file_of_another_host_is_refused(files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "server").symlink_to(files)  # that is what the name must not mean
    np.testing.assert_array_equal(ps.open(f"file://localhost{files}/x.npz/t2m")[...], VALUES)
    for call in (
        lambda: ps.open("file://server/x.npz/t2m"),
        lambda: ps.open("file://server/x.tif"),
        lambda: ps.open_shards("file://server/x_*.npy"),
        lambda: ps.open_shards(["file://server/x_0.npy"]),
        lambda: ps.create_array("file://server/new.zarr", data=VALUES),
        lambda: ps.save("file://server/new.npy", VALUES),
    ):
        with pytest.raises(ps.InvalidArgumentError, match="a file of the host 'server', which cannot be opened"):
            call()
    assert not (files / "new.zarr").exists()


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("x.parquet", "x.arrow", "x.nc", "x.tif")])
@pytest.mark.parametrize("suffix", [".npy", ".raw"])
def test_python_opens_what_shard_writes(files: Path, tmp_path: Path, run: Any, name: str, suffix: str) -> None:
    inside = {each: path for each, _, path in FORMATS}[name]
    source = f"{files / name}/{inside}" if inside else str(files / name)
    status, out, err = run("shard", source, tmp_path / f"p_{{:02d}}{suffix}", "--rows", "3", "--json")
    assert status == 0, err
    written = [str(tmp_path / f"p_{i:02d}{suffix}") for i in range(3)]
    assert json.loads(out)["files"] == written
    np.testing.assert_array_equal(ps.open(tmp_path / "penstock.shards")[...], VALUES)
    assert run("check", tmp_path / "penstock.shards")[0] == 0
    if suffix == ".npy":
        np.testing.assert_array_equal(np.load(written[1]), VALUES[3:6])
    else:
        np.testing.assert_array_equal(ps.open_shards(tmp_path / "p_*.raw")[...], VALUES)
    status, _, _ = run("shard", source, tmp_path / f"p_{{:02d}}{suffix}", "--shards", "2", "--manifest", "none")
    assert status == 0
    assert [path.name for path in sorted(tmp_path.glob(f"*{suffix}"))] == [f"p_0{i}{suffix}" for i in range(2)]


def test_arguments_that_shard_refuses(files: Path, tmp_path: Path, run: Any) -> None:
    for arguments, words in (
        (["{}.npy"], "either --rows"),
        (["{}.npy", "--rows", "1", "--shards", "1"], "either --rows"),
        (["{}.h5", "--rows", "1"], "not as '.h5'"),
        (["x.npy", "--rows", "1"], "one name"),
        (["s3://bucket/{}.npy", "--rows", "1"], "files of this machine"),
    ):
        status, _, err = run("shard", files / "x.npy", *arguments)
        assert status != 0
        assert words in err
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not PROGRAM.exists(), reason="the program is not built")
def test_the_program_follows_a_url_into_a_file(tmp_path: Path) -> None:
    hdf5(tmp_path / "x.h5")
    with HttpServer({"data/x.h5": (tmp_path / "x.h5").read_bytes()}) as server:
        for inner in ("deep/t2m", "deep/t2m/"):
            done = program("info", f"{server.url}/data/x.h5/{inner}", "--json")
            assert done.returncode == 0, done.stderr
            assert json.loads(done.stdout)["shape"] == [7, 5]
        assert program("info", f"{server.url}/data/x.h5/deep").returncode == 0
        missing = program("info", f"{server.url}/data/x.h5/deep/none")
        assert missing.returncode == 1
        assert "deep/none" in missing.stderr
