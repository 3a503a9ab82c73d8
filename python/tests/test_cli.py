"""The command line program, as a shell runs it: exit statuses, files, documents, signals."""

from __future__ import annotations

import json
import os
import pty
import resource
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
from support.program import run_program

zarr = pytest.importorskip("zarr")

from zarr.codecs import Crc32cCodec, ZstdCodec  # noqa: E402

Starter = Callable[..., subprocess.Popen[bytes]]


def program() -> list[str]:
    """`PENSTOCK_CLI`, or else the script that is installed next to this interpreter."""
    if "PENSTOCK_CLI" in os.environ:
        return shlex.split(os.environ["PENSTOCK_CLI"])
    script = Path(sys.executable).with_name("penstock")
    return [str(script)] if script.exists() else [sys.executable, "-m", "penstock"]


def run(*arguments: str | Path, status: int = 0, cwd: Path | None = None, text: bool = True) -> Any:
    """Run the program in this process, which saves the start of an interpreter; in a process of its own for bytes, and
    if PENSTOCK_CLI names another program."""
    words = [*map(str, arguments)]
    if text and "PENSTOCK_CLI" not in os.environ:
        done = run_program(*words, cwd=cwd)
    else:
        done = subprocess.run([*program(), *words], capture_output=True, cwd=cwd, text=text, timeout=120, check=False)
    assert done.returncode == status, (done.returncode, done.stdout, done.stderr)
    assert "Traceback" not in str(done.stderr)
    return done


def document(*arguments: str | Path, status: int = 0) -> Any:
    done = run(*arguments, "--json", status=status)
    assert done.stderr == ""
    return json.loads(done.stdout)


@pytest.fixture
def values() -> np.ndarray:
    return np.arange(37 * 53, dtype="float32").reshape(37, 53) / 4


@pytest.fixture
def sharded(tmp_path: Path, values: np.ndarray) -> Path:
    path = tmp_path / "with space" / "data.zarr"
    a = zarr.create_array(
        path,
        shape=values.shape,
        dtype=values.dtype,
        chunks=(5, 7),
        shards=(20, 21),
        compressors=[ZstdCodec(level=1), Crc32cCodec()],
        fill_value=1.5,
        attributes={"units": "K", "levels": [1, 2]},
        dimension_names=("y", None),
    )
    a[:] = values
    return path


@pytest.fixture
def group(tmp_path: Path) -> Path:
    path = tmp_path / "group.zarr"
    root = zarr.create_group(path, attributes={"title": "x"})
    root.create_array("t2m", shape=(4, 6), dtype="int16", chunks=(2, 3))[:] = 7
    root.create_group("deep").create_array("b", shape=(3,), dtype="bool", chunks=(3,))[:] = True
    return path


@pytest.fixture
def endless(tmp_path: Path) -> Path:
    """An array of a hundred million chunks, none of them written: reading it takes minutes and no disk space."""
    path = tmp_path / "endless.zarr"
    zarr.create_array(path, shape=(10**8,), dtype="uint8", chunks=(1,))
    return path


def break_shard(path: Path) -> None:
    shard = path / "c" / "0" / "1"
    data = bytearray(shard.read_bytes())
    data[20] ^= 0xFF
    shard.write_bytes(data)


class TestInfo:
    def test_document_of_an_array(self, sharded: Path) -> None:
        info = document("info", sharded)
        codecs = info.pop("codecs")
        uri = info.pop("uri")
        assert uri.endswith("data.zarr")
        assert codecs[0]["name"] == "sharding_indexed"
        assert info == {
            "kind": "array",
            "format": "zarr3",
            "dtype": "float32",
            "shape": [37, 53],
            "chunks": [5, 7],
            "shards": [20, 21],
            "cells": 8 * 8,
            "objects": 2 * 3,
            "decoded_bytes": 37 * 53 * 4,
            "fill_value": 1.5,
            "dimension_names": ["y", None],
            "attributes": {"units": "K", "levels": [1, 2]},
        }

    @pytest.mark.parametrize(("kind", "name"), [("M8[25s]", "datetime64[25s]"), ("m8[ns]", "timedelta64[ns]")])
    def test_times_have_their_unit(self, tmp_path: Path, kind: str, name: str) -> None:
        ps.create_group(tmp_path / "g.zarr")
        ps.create_array(tmp_path / "g.zarr" / "t", data=np.arange(3).astype(kind), chunks=(3,))
        target = tmp_path / "g.zarr" / "t"
        for verb in ("info", "tree", "head", "read", "plan"):
            assert document(verb, target)["dtype"] == f"numpy.{name}", verb
        (member,) = document("ls", tmp_path / "g.zarr")["members"]
        assert member["dtype"] == f"numpy.{name}"
        assert f"numpy.{name} (3,)" in run("info", tmp_path / "g.zarr").stdout

    def test_structures_have_their_fields(self, tmp_path: Path) -> None:
        kind = np.dtype([("t", "M8[s]"), ("box", "f4", (2, 2)), ("in", [("n", "u1")])])
        ps.create_array(tmp_path / "s.zarr", data=np.zeros(3, kind), chunks=(3,), zarr_format=2)
        info = document("info", tmp_path / "s.zarr")
        inner = {"name": "in", "dtype": info["dtype"], "fields": [{"name": "n", "dtype": "uint8"}]}
        assert info["fields"] == [
            {"name": "t", "dtype": "numpy.datetime64[s]"},
            {"name": "box", "dtype": "float32", "shape": [2, 2]},
            inner,
        ]

    def test_text_of_an_array(self, sharded: Path) -> None:
        text = run("info", sharded).stdout
        for part in (
            "zarr3",
            "float32",
            "(37, 53)",
            "(5, 7), 64 of them",
            "(20, 21), 6 of them",
            "7.84 kB",
            "zstd",
            "y, -",
        ):
            assert part in text
        assert 'units: "K"' in text

    def test_special_fill_values(self, tmp_path: Path) -> None:
        for name, dtype, fill, expected in [
            ("nan", "float32", np.nan, "NaN"),
            ("inf", "float64", -np.inf, "-Infinity"),
            ("complex", "complex64", 1 - 2j, [1.0, -2.0]),
            ("bool", "bool", True, True),
            ("int", "int64", -(2**63), -(2**63)),
            ("half", "float16", 0.1, 0.1),
        ]:
            zarr.create_array(tmp_path / name, shape=(), dtype=dtype, chunks=(), fill_value=fill)
            info = document("info", tmp_path / name)
            assert info["fill_value"] == expected
            assert (info["shape"], info["cells"], info["shards"]) == ([], 1, None)

    def test_tree_of_a_group(self, group: Path) -> None:
        info = document("info", group)
        assert info["kind"] == "group"
        assert info["attributes"] == {"title": "x"}
        deep, t2m = info["children"]
        assert (deep["name"], deep["kind"], deep["children"][0]["name"]) == ("deep", "group", "b")
        assert (t2m["name"], t2m["kind"], t2m["shape"]) == ("t2m", "array", [4, 6])
        lines = run("info", group).stdout.splitlines()
        in_deep, in_root = "bool (3,), zstd(level=0)", "int16 (4, 6), chunks (2, 3), zstd(level=0)"
        assert lines[-3:] == ["├── deep/", f"│   └── b  {in_deep}", f"└── t2m  {in_root}"]
        lines = run("tree", group).stdout.splitlines()
        assert lines[-3:] == ["├── deep/", "│   └── b  bool (3,)", "└── t2m  int16 (4, 6)"]

    def test_child_that_cannot_be_opened_is_shown_and_fails(self, group: Path) -> None:
        (group / "deep" / "b" / "zarr.json").write_text("{")
        info = document("info", group, status=1)
        deep = info["children"][0]
        assert deep["children"][0]["error"]["code"] == "corrupt_data"
        assert info["children"][1]["shape"] == [4, 6]

    def test_missing_path(self, tmp_path: Path) -> None:
        done = run("info", tmp_path / "none.zarr", status=1)
        assert done.stdout == ""
        assert done.stderr.startswith("penstock: not_found: ")
        failed = document("info", tmp_path / "none.zarr", status=1)
        assert list(failed) == ["error"]
        assert failed["error"]["code"] == "not_found"
        assert isinstance(failed["error"]["notes"], list)

    def test_a_file_of_an_unknown_format_is_reported_as_such(self, tmp_path: Path) -> None:
        (tmp_path / "notes.txt").write_text("hello")
        failed = document("info", tmp_path / "notes.txt", status=1)["error"]
        assert failed["code"] == "not_found"
        assert failed["message"].endswith("notes.txt' is a file of an unknown format")

    def test_an_unknown_command_is_named(self) -> None:
        assert "there is no command 'inof'" in run("inof", "x.zarr", status=2).stderr
        assert "URI" in run("info", status=2).stderr


class TestPlan:
    def test_text_and_document(self, sharded: Path) -> None:
        text = run("plan", sharded, "0:5, :7", "--lines", "4").stdout
        assert "c/0/0" in text
        plan = document("plan", sharded, "0:10, ::2")
        assert plan["shape"] == [10, 27]
        assert plan["dtype"] == "float32"
        assert isinstance(plan["plan"], dict)


class TestRead:
    @pytest.mark.parametrize(
        "selection",
        ["", "3:20", "..., ::2", "-5:", "-1, 0:4", "::-3, 7", "None, 2:9, -4:-1", "[1:3, ...]", "-3", "5:5"],
    )
    def test_npy_equals_numpy(self, sharded: Path, values: np.ndarray, tmp_path: Path, selection: str) -> None:
        out = tmp_path / "out.npy"
        done = run("read", sharded, *([selection] if selection else []), "-o", out)
        assert (done.stdout, done.stderr) == ("", "")
        # The index as Python evaluates it; `np.s_` has no text form.
        expected = values[eval(f"np.s_[{selection.strip('[]') or '...'}]")]
        loaded = np.load(out)
        assert loaded.dtype == expected.dtype
        np.testing.assert_array_equal(loaded, expected)
        assert list(tmp_path.glob(".penstock-*")) == []

    def test_header_is_aligned_and_mappable(self, sharded: Path, values: np.ndarray, tmp_path: Path) -> None:
        run("read", sharded, "-o", tmp_path / "out.npy")
        mapped = np.load(tmp_path / "out.npy", mmap_mode="r")
        assert mapped.offset % 64 == 0
        np.testing.assert_array_equal(mapped, values)

    @pytest.mark.parametrize(
        "dtype", ["bool", "int8", "uint16", "int32", "uint64", "float16", "float64", "complex64", "complex128"]
    )
    def test_every_dtype(self, tmp_path: Path, dtype: str) -> None:
        x = (np.arange(30) % 7).astype(dtype).reshape(5, 6)
        zarr.create_array(tmp_path / "a", shape=x.shape, dtype=dtype, chunks=(2, 4))[:] = x
        run("read", tmp_path / "a", "-o", tmp_path / "out.npy", "--threads", "2")
        loaded = np.load(tmp_path / "out.npy")
        assert loaded.dtype == x.dtype
        np.testing.assert_array_equal(loaded, x)

    def test_bare_values(self, sharded: Path, values: np.ndarray, tmp_path: Path) -> None:
        run("read", sharded, "2:9", "-o", tmp_path / "out.bin")
        assert (tmp_path / "out.bin").read_bytes() == values[2:9].tobytes()
        run("read", sharded, "2:9", "-o", tmp_path / "other", "--format", "bin")
        assert (tmp_path / "other").read_bytes() == values[2:9].tobytes()

    def test_pipe(self, sharded: Path, values: np.ndarray, tmp_path: Path) -> None:
        import io

        done = run("read", sharded, "::-1, ::2", "-o", "-", text=False)
        assert done.stderr == b""
        np.testing.assert_array_equal(np.load(io.BytesIO(done.stdout)), values[::-1, ::2])
        done = run("read", sharded, "-o", "-", "--format", "bin", text=False)
        assert done.stdout == values.tobytes()

    def test_zero_rank_and_zero_size(self, tmp_path: Path) -> None:
        zarr.create_array(tmp_path / "scalar", shape=(), dtype="int32", chunks=())[()] = 42
        run("read", tmp_path / "scalar", "-o", tmp_path / "s.npy")
        assert np.load(tmp_path / "s.npy") == np.int32(42)
        assert np.load(tmp_path / "s.npy").shape == ()
        assert run("read", tmp_path / "scalar").stdout == "42\n"
        zarr.create_array(tmp_path / "none", shape=(0, 5), dtype="int32", chunks=(1, 5))
        run("read", tmp_path / "none", "-o", tmp_path / "n.npy")
        assert np.load(tmp_path / "n.npy").shape == (0, 5)
        run("read", tmp_path / "none", "-o", tmp_path / "n.bin")
        assert (tmp_path / "n.bin").stat().st_size == 0

    def test_prints_small_results_and_refuses_large_ones(self, sharded: Path, values: np.ndarray) -> None:
        assert run("read", sharded, "0, :4").stdout == "[ 0.0 0.25  0.5 0.75]\n"
        printed = document("read", sharded, "2:4, -3:")
        assert printed["values"] == values[2:4, -3:].tolist()
        assert printed["shape"] == [2, 3]
        assert run("read", sharded, ":18").stdout.count(".") == 18 * 53
        assert "-o" in run("read", sharded, status=2).stderr

    def test_existing_file_needs_force(self, sharded: Path, tmp_path: Path) -> None:
        out = tmp_path / "out.npy"
        out.write_text("mine")
        assert "--force" in run("read", sharded, "-o", out, status=1).stderr
        assert out.read_text() == "mine"
        written = document("read", sharded, "-o", out, "--force")
        assert written["output"] == str(out)
        assert written["output_bytes"] == out.stat().st_size
        assert np.load(out).shape == (37, 53)

    def test_device_is_written_to_and_stays(self, sharded: Path) -> None:
        run("read", sharded, "-o", "/dev/null", "--format", "bin", "--force")
        assert not os.path.isfile("/dev/null")

    @pytest.mark.parametrize("overwrite", [False, True])
    def test_broken_shard_leaves_no_output(self, sharded: Path, tmp_path: Path, overwrite: bool) -> None:
        break_shard(sharded)
        out = tmp_path / "out.npy"
        if overwrite:
            out.write_text("mine")
        failed = document("read", sharded, "-o", out, *(["--force"] if overwrite else []), status=1)["error"]
        assert failed["code"] == "corrupt_data"
        notes = "\n".join(failed["notes"])
        assert "c/0/1" in notes
        assert "data.zarr" in notes
        assert out.read_text() == "mine" if overwrite else not out.exists()
        assert list(tmp_path.glob(".penstock-*")) == []

    def test_group_is_refused_by_name(self, group: Path) -> None:
        failed = document("read", group, status=1)["error"]
        assert failed["code"] == "invalid_argument"
        assert "t2m" in "\n".join(failed["notes"])

    def test_paths_within_a_group_and_relative_paths(self, group: Path) -> None:
        assert run("read", "group.zarr/t2m", "0, 0", cwd=group.parent).stdout == "7\n"

    def test_index_out_of_range(self, sharded: Path) -> None:
        assert document("read", sharded, "37", status=1)["error"]["code"] == "out_of_range"


class TestCheck:
    def test_good_array(self, sharded: Path) -> None:
        report = document("check", sharded)
        assert report["ok"] is True
        (found,) = report["arrays"]
        assert (found["cells"], found["absent"], found["failed"], found["failures"]) == (64, 0, 0, [])
        assert found["encoded_bytes"] > 0
        assert "good" in run("check", sharded).stdout

    def test_broken_shard(self, sharded: Path) -> None:
        break_shard(sharded)
        report = document("check", sharded, status=1)
        assert report["ok"] is False
        (found,) = report["arrays"]
        assert found["failed"] == 1
        (failure,) = found["failures"]
        assert failure["error"]["code"] == "corrupt_data"
        assert "(0, 3)" in failure["cell"]
        text = run("check", sharded, status=1).stdout
        assert "corrupt_data" in text
        assert "1 of 64 chunks bad" in text

    def test_group(self, group: Path) -> None:
        report = document("check", group)
        assert [a["path"] for a in report["arrays"]] == ["deep/b", "t2m"]
        (group / "t2m" / "zarr.json").write_text("{}")
        report = document("check", group, status=1)
        assert report["ok"] is False
        assert [a["path"] for a in report["arrays"]] == ["deep/b", "t2m"]
        assert "error" in report["arrays"][1]

    def test_absent_chunks_are_counted_and_good(self, tmp_path: Path) -> None:
        zarr.create_array(tmp_path / "a", shape=(10,), dtype="int8", chunks=(2,))[0:2] = 1
        (found,) = document("check", tmp_path / "a")["arrays"]
        assert (found["cells"], found["absent"]) == (5, 4)


class TestUsage:
    @pytest.mark.parametrize(
        "arguments",
        [
            [],
            ["nonsense"],
            ["info"],
            ["info", "a", "b"],
            ["read", "a", "--no-such-option"],
            ["read", "a", "1:2:3:4"],
            ["read", "a", "x"],
            ["read", "a", "0:10,", "::2"],
            ["read", "a", "-o", "out.xyz"],
            ["read", "a", "-o", "-", "--json"],
            ["read", "a", "--threads", "0"],
            ["plan", "a", "--lines", "many"],
        ],
    )
    def test_wrong_usage_is_status_2(self, arguments: list[str], tmp_path: Path) -> None:
        done = run(*arguments, status=2, cwd=tmp_path)
        if "--json" in arguments:
            assert json.loads(done.stdout)["error"]["code"] == "invalid_argument"
        else:
            assert done.stdout == ""
            assert done.stderr.startswith("penstock: ")
        assert os.listdir(tmp_path) == []

    def test_usage_errors_are_documents_too(self) -> None:
        failed = document("info", "a", "b", status=2)
        assert failed["error"]["code"] == "invalid_argument"

    @pytest.mark.parametrize("verb", [None, "info", "plan", "read", "check"])
    def test_help_has_examples(self, verb: str | None) -> None:
        text = run(*([verb] if verb else []), "--help").stdout
        assert "Examples:" in text
        assert f"penstock {verb or 'info'} data.zarr" in text
        assert verb is None or "A path or a URI" in text

    def test_version(self) -> None:
        name, version = run("--version").stdout.split()
        assert name == "penstock"
        assert version.count(".") == 2


def catches(process: int, signal_number: int) -> bool:
    """Whether the process has a handler for the signal, from proc(5)."""
    status = Path(f"/proc/{process}/status").read_text()
    caught = next(line.split()[1] for line in status.splitlines() if line.startswith("SigCgt"))
    return bool(int(caught, 16) >> (signal_number - 1) & 1)


class TestSignals:
    @pytest.fixture
    def start(self) -> Iterator[Starter]:
        started: list[subprocess.Popen[bytes]] = []

        def start(*arguments: str | Path, stderr: int = subprocess.PIPE) -> subprocess.Popen[bytes]:
            command = [*program(), *map(str, arguments)]
            started.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr))
            return started[-1]

        yield start
        for process in started:
            with process:  # closes its pipes
                process.kill()

    def wait_for(self, condition: Any) -> None:
        end = time.monotonic() + 30
        while not condition():
            assert time.monotonic() < end
            time.sleep(0.01)

    def test_interrupt_leaves_no_output(self, start: Starter, endless: Path, tmp_path: Path) -> None:
        out = tmp_path / "out"
        out.mkdir()
        reading = start("read", endless, "-o", out / "x.npy")
        self.wait_for(lambda: os.listdir(out))
        time.sleep(0.1)
        reading.send_signal(signal.SIGINT)
        begin = time.monotonic()
        stdout, stderr = reading.communicate(timeout=30)
        assert time.monotonic() - begin < 5
        assert reading.returncode == 130
        assert (stdout, stderr) == (b"", b"")
        assert os.listdir(out) == []

    def test_interrupted_check(self, start: Starter, endless: Path) -> None:
        checking = start("check", endless)
        self.wait_for(lambda: catches(checking.pid, signal.SIGTERM))
        time.sleep(0.1)
        checking.send_signal(signal.SIGTERM)
        stdout, stderr = checking.communicate(timeout=30)
        assert checking.returncode == 128 + signal.SIGTERM
        assert (stdout, stderr) == (b"", b"")

    def test_interrupted_shard(self, start: Starter, endless: Path, tmp_path: Path) -> None:
        writing = start("shard", endless, tmp_path / "x_{}.npy", "--shards", "2")
        self.wait_for(lambda: catches(writing.pid, signal.SIGTERM))
        time.sleep(0.1)
        writing.send_signal(signal.SIGTERM)
        stdout, stderr = writing.communicate(timeout=30)
        assert writing.returncode == 128 + signal.SIGTERM
        assert (stdout, stderr) == (b"", b"")

    def test_interrupt_while_a_pipe_is_full(self, start: Starter, tmp_path: Path) -> None:
        zarr.create_array(tmp_path / "a", shape=(10**7,), dtype="uint8", chunks=(10**6,))
        writing = start("read", tmp_path / "a", "-o", "-")
        assert writing.stdout is not None
        assert writing.stdout.read(6) == b"\x93NUMPY"
        time.sleep(0.5)
        writing.send_signal(signal.SIGINT)
        assert writing.wait(timeout=30) == 130
        assert writing.communicate()[1] == b""

    def test_a_reader_that_closes_its_pipe_is_not_an_error(self, start: Starter, tmp_path: Path) -> None:
        zarr.create_array(tmp_path / "a", shape=(10**7,), dtype="uint8", chunks=(10**6,))
        writing = start("read", tmp_path / "a", "-o", "-")
        assert writing.stdout is not None
        assert writing.stderr is not None
        writing.stdout.read(6)
        writing.stdout.close()
        assert writing.wait(timeout=30) == 128 + signal.SIGPIPE
        assert writing.stderr.read() == b""
        writing.stderr.close()

    def test_progress_is_shown_on_terminals_only(self, start: Starter, endless: Path) -> None:
        ours, theirs = pty.openpty()
        checking = start("check", endless, stderr=theirs)
        os.close(theirs)
        shown = b""
        while b"GB/s" not in shown:
            shown += os.read(ours, 1000)
        assert b"checking" in shown
        assert b"\x1b[3" not in shown  # no colours
        checking.send_signal(signal.SIGINT)
        assert checking.communicate(timeout=30)[0] == b""
        assert checking.returncode == 130
        os.close(ours)


def test_bench_is_a_verb_of_source_checkouts(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    from penstock import __main__

    monkeypatch.setattr(sys, "argv", ["penstock", "--help"])
    assert __main__.main() == 0
    assert "  bench" in capfd.readouterr().out
    monkeypatch.setattr(__main__, "SCENARIOS", Path("/nowhere/run.py"))
    assert __main__.main() == 0
    assert "  bench" not in capfd.readouterr().out
    monkeypatch.setattr(sys, "argv", ["penstock", "bench"])
    assert __main__.main() == 2


def test_importing_the_package_omits_rarely_used_modules() -> None:
    modules = {"asyncio", "ssl", "zarr", "xarray", "h5py", "pyarrow", "fsspec"}
    code = f"import sys, penstock; print(sys.modules.keys() & {modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_environment_variables_set_the_programs_context(sharded: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PENSTOCK_MEMORY_LIMIT", "1GiB")
    monkeypatch.setenv("PENSTOCK_CHUNK_CACHE", "0")
    run("info", sharded)
    monkeypatch.setenv("PENSTOCK_CHUNK_CACHE", "much")
    assert "PENSTOCK_CHUNK_CACHE: a size must be a number of bytes" in run("info", sharded, status=1).stderr


def test_closed_standard_output_is_an_error_without_a_traceback(tmp_path: Path) -> None:
    zarr.create_array(tmp_path / "a.zarr", data=np.arange(3))
    words = [*program(), "read", str(tmp_path / "a.zarr")]
    done = subprocess.run(words, stderr=subprocess.PIPE, preexec_fn=lambda: os.close(1), timeout=120, check=False)
    assert done.returncode == 1
    assert b"Traceback" not in done.stderr
    assert b"cannot write the output" in done.stderr


@pytest.mark.skipif("PENSTOCK_CORE" in os.environ, reason="a sanitizer needs more addresses")
def test_a_lack_of_memory_or_of_output_is_not_a_difference(tmp_path: Path) -> None:
    zarr.create_array(tmp_path / "a", shape=(2**42,), dtype="uint8", chunks=(2**42,))
    words = [*program(), "diff", str(tmp_path / "a"), str(tmp_path / "a"), "--json"]
    most = 64 << 30
    done = subprocess.run(
        words, capture_output=True, timeout=120, check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (most, most)),
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (2, b"")
    assert json.loads(done.stdout)["error"]["code"] == "resource_exhausted"
    zarr.create_array(tmp_path / "b", data=np.arange(3))
    with open("/dev/full", "wb") as full:
        words = [*program(), "diff", str(tmp_path / "b"), str(tmp_path / "b"), "--json"]
        assert subprocess.run(words, stdout=full, timeout=120, check=False).returncode == 2


@pytest.mark.parametrize("output", ["closed", "full", "without a reader"])
def test_verbs_of_python_end_as_those_of_cpp_without_output(tmp_path: Path, output: str) -> None:
    zarr.create_array(tmp_path / "a.zarr", data=np.arange(3))
    words = [*program(), "convert", str(tmp_path / "a.zarr"), str(tmp_path / "b.zarr")]
    reading, writing = os.pipe()
    os.close(reading)
    with open("/dev/full", "wb") as full:
        out = writing if output == "without a reader" else full
        close = {"preexec_fn": lambda: os.close(1)} if output == "closed" else {}
        done = subprocess.run(words, stdout=out, stderr=subprocess.PIPE, timeout=120, check=False, **close)
    os.close(writing)
    assert done.returncode == (128 + signal.SIGPIPE if output == "without a reader" else 1)
    reason = {"closed": b"Bad file descriptor", "full": b"No space left on device"}.get(output)
    wanted = b"" if reason is None else b"penstock: io_error: cannot write the output: " + reason + b"\n"
    assert done.stderr == wanted


def test_convert_needs_no_standard_error_and_prints_the_bytes_of_names(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.arange(3))
    words = [*program(), "convert", str(tmp_path / "a.npy"), os.fsencode(tmp_path) + b"/\xff.zarr"]
    strict = {**os.environ, "PYTHONIOENCODING": "utf-8:strict"}
    done = subprocess.run(
        words, stdout=subprocess.PIPE, preexec_fn=lambda: os.close(2), env=strict, timeout=120, check=False
    )
    assert (done.returncode, done.stdout) == (0, words[-1] + b": an array (3,) in zarr3\n")


def test_verbs_of_python_open_patterns_and_folders(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    values = np.arange(12, dtype="u1").reshape(4, 3)
    for number in range(2):
        np.save(tmp_path / "run" / f"x_{number}.npy", values[2 * number : 2 * number + 2])
        np.savez(tmp_path / f"x_{number}.npz", t=values[2 * number : 2 * number + 2], other=0)
    for source, target in (("run/x_*.npy", "a.npy"), ("run", "b.npy"), ("x_*.npz/t", "e.npy")):
        run("convert", source, target, cwd=tmp_path)
        assert np.array_equal(np.load(tmp_path / target), values)
    run("read", "run/x_*.npy", "-o", "c.png", cwd=tmp_path)
    assert (tmp_path / "c.png").read_bytes().startswith(b"\x89PNG")
    assert "matches 'y_*.npy'" in run("convert", "run/y_*.npy", "d.npy", cwd=tmp_path, status=1).stderr
    (tmp_path / "empty").mkdir()
    assert "no array or group at" in run("convert", "empty", "d.npy", cwd=tmp_path, status=1).stderr


def test_verbs_of_python_take_the_flags_of_all_verbs(tmp_path: Path) -> None:
    (tmp_path / "x.bin").write_bytes(bytes(range(12)))
    zarray = {"zarr_format": 2, "shape": [3, 4], "chunks": [3, 4], "dtype": "|u1", "compressor": None, "filters": None}
    zarray |= {"fill_value": 0, "order": "C"}
    refs = {".zarray": json.dumps(zarray), "0.0": [str(tmp_path / "x.bin")]}
    (tmp_path / "refs.json").write_text(json.dumps({"version": 1, "refs": refs}))
    run("convert", tmp_path / "refs.json", tmp_path / "b.zarr", "--allow-local")
    assert np.array_equal(zarr.open_array(tmp_path / "b.zarr")[:], np.arange(12).reshape(3, 4))
    picture = run("head", tmp_path / "refs.json", "--format", "png", "--allow-local", text=False).stdout
    assert picture.startswith(b"\x89PNG")
    for words in (("convert", tmp_path / "b.zarr", tmp_path / "c.zarr"), ("head", tmp_path / "b.zarr", "--format=png")):
        assert "--header takes" in run(*words, "--header", "nonsense", status=2).stderr
    for flags in (["--memory", "much"], ["--shards", "1,x"], ["--shards", "x"]):
        done = run("convert", tmp_path / "b.zarr", tmp_path / "c.zarr", *flags, status=2)
        assert done.stderr.startswith(f"penstock: invalid_argument: {flags[0]} ")
    assert not (tmp_path / "c.zarr").exists()
