"""`ls`, `head`, `stats`, `diff`, CSV, completion, suggestions, colours and storage flags of the command line."""

from __future__ import annotations

import csv
import io
import json
import os
import pty
import re
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
from penstock import _core
from penstock.__main__ import main
from penstock.geo.window import RESAMPLINGS

Run = Callable[..., tuple[int, str, str]]
VALUES = np.random.default_rng(0).normal(280, 5, (20, 30, 40)).astype("f4")
NAMES = ["a", "b,c", 'd"e', "\x1b[31m"]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    def call(*arguments: str | Path) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["penstock", *map(str, arguments)])
        capfd.readouterr()
        status = main()
        out, err = capfd.readouterr()
        return status, out, err

    return call


@pytest.fixture
def group(tmp_path: Path) -> Path:
    return make(tmp_path / "g.zarr", VALUES)


def make(path: Path, values: np.ndarray, **more: Any) -> Path:
    made = ps.create_group(path, attributes={"title": "x"})
    made.create_array(
        "t2m", data=values, chunks=(5, 10, 40), dimension_names=("t", "y", "x"), attributes={"units": "K"}
    )
    made.create_array("names", data=np.array(NAMES, dtype=object))
    made.create_group("deep").create_array("é", data=np.int32(5))
    return path


def test_ls_has_a_line_for_each_member(group: Path, run: Run):
    status, out, _ = run("ls", group)
    assert status == 0
    assert [line.split()[0] for line in out.splitlines()] == ["deep/", "names", "t2m"]
    assert out.splitlines()[2].split() == ["t2m", "float32", "(20,", "30,", "40)", "96.0", "kB"]
    assert run("ls", "-1", group)[1] == "deep\nnames\nt2m\n"
    assert "chunks (5, 10, 40)" in run("ls", "-l", group)[1]
    assert run("ls", group / "t2m", "--format", "csv")[1].splitlines()[1].startswith(f'{group}/t2m,float32,"(20, 30')
    rows = list(csv.DictReader(run("ls", group, "--format", "csv")[1].splitlines()))
    assert [(each["name"], each["size"]) for each in rows][::2] == [("deep", ""), ("t2m", "96000")]
    for words in (["--json"], ["-1"]):
        assert run("ls", group, "--format", "csv", *words)[0] == 2
    members = json.loads(run("ls", group, "--json")[1])["members"]
    assert [each["name"] for each in members] == ["deep", "names", "t2m"]
    assert members[2]["shape"] == [20, 30, 40]
    assert repr(members[2]["decoded_bytes"]) == "96000", "a count is not a float"
    (group / "t2m" / "zarr.json").write_text("{")
    status, out, _ = run("ls", group)
    assert status == 1
    assert "corrupt_data" in out


def test_head_shows_the_first_elements(group: Path, run: Run):
    title, *lines = run("head", group / "t2m", "-n", "2")[1].splitlines()
    assert "0, :2, :2 of (20, 30, 40)" in title
    shown = np.array([line.strip(" []").split() for line in lines], dtype="f4")
    assert np.array_equal(shown, VALUES[0, :2, :2])
    assert json.loads(run("head", group / "names", "--json")[1])["values"] == NAMES
    assert run("head", group / "names", "--format", "csv")[1] == 'a\n"b,c"\n"d""e"\n\x1b[31m\n'
    assert "'\\x1b[31m'" in run("head", group / "names")[1], "no control sequence reaches the terminal"
    assert run("head", group / "deep" / "é")[1].splitlines()[1] == "5"
    assert run("head", group / "t2m", "-n", "0")[0] == 2
    assert run("head", group)[0] == 1


def test_head_of_an_array_without_elements_is_empty(tmp_path: Path, run: Run):
    ps.create_array(tmp_path / "a.zarr", shape=(2, 0, 3, 4), dtype="f4", chunks=(1, 1, 3, 4))
    status, out, _ = run("head", tmp_path / "a.zarr")
    assert (status, out.splitlines()[1]) == (0, "[] of shape (0, 3, 4)")
    assert run("head", tmp_path / "a.zarr", "--format", "csv")[:2] == (0, "")
    assert json.loads(run("head", tmp_path / "a.zarr", "--json")[1])["values"] == []


def test_dates_and_structures_are_written_as_in_numpy(tmp_path: Path, run: Run):
    dates = np.array(["2020-02-29T06:30", "NaT", "1969-12-31T23:59"], "M8[m]")
    ps.save(tmp_path / "t.zarr", dates)
    ps.save(tmp_path / "s.zarr", np.array([(1, 2.5), (3, 0.5)], [("a", "i4"), ("b", "f8")]))
    assert run("head", tmp_path / "t.zarr", "--format", "csv")[1].split() == [str(each) for each in dates]
    assert json.loads(run("read", tmp_path / "t.zarr", "--json")[1])["values"] == [str(each) for each in dates]
    assert "numpy.datetime64[m]" in run("info", tmp_path / "t.zarr")[1]
    assert run("head", tmp_path / "s.zarr")[1].splitlines()[1] == "[(1, 2.5) (3, 0.5)]"
    found = json.loads(run("head", tmp_path / "s.zarr", "--json")[1])["values"]
    assert found == [{"a": 1, "b": 2.5}, {"a": 3, "b": 0.5}]
    assert "struct (a: int32, b: float64)" in run("info", tmp_path / "s.zarr")[1]


def test_text_in_csv_is_what_other_programs_read(tmp_path: Path, run: Run):
    texts = [["", "a,b"], ['"', "line\r\nline"], [" x ", "é"], ["", ""]]
    ps.create_array(tmp_path / "x.zarr", data=np.array(texts, dtype=object))
    for words in (["head"], ["read"]):
        out = run(words[0], tmp_path / "x.zarr", "--format", "csv")[1]
        assert list(csv.reader(io.StringIO(out, newline=""))) == texts
    assert run("read", tmp_path / "x.zarr", ":, 0", "-o", tmp_path / "x.csv")[0] == 0
    with open(tmp_path / "x.csv", newline="") as file:
        assert list(csv.reader(file)) == [[row[0]] for row in texts], "an empty line would not be an element"


def test_names_have_no_control_characters_in_text(tmp_path: Path, run: Run):
    name, key = "a\n\x1b[31m", "\x9b31m\x7f"
    made = ps.create_group(tmp_path / "g.zarr", attributes={key: 1})
    made.create_array(name, data=np.arange(3), dimension_names=("\x1b]0;x\x07",), attributes={key: "\x9b"})
    made.create_group("\x1b[2J").create_array("b", data=np.int32(1))
    for verb in (["ls"], ["ls", "-l"], ["ls", "-1"], ["tree"], ["info"], ["check"]):
        status, out, err = run(verb[0], tmp_path / "g.zarr", *verb[1:])
        assert status == 0, err
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", out + err), (verb, out, err)
        assert r"a\n\x1b[31m" in out, (verb, out)
    assert r"\x9b31m\x7f" in run("info", tmp_path / "g.zarr")[1]
    assert "\x1b" not in run("info", tmp_path / "g.zarr" / name)[1]
    assert "\x1b" not in run("head", tmp_path / "g.zarr" / name)[1]
    status, _, err = run("info", tmp_path / "g.zarr" / "\x1b[1m")
    assert status == 1
    assert r"\x1b[1m" in err
    assert "\x1b" not in err
    members = json.loads(run("ls", tmp_path / "g.zarr", "--json")[1])["members"]
    assert {each["name"] for each in members} == {name, "\x1b[2J"}


def test_verbs_of_python_escape_as_the_program_does():
    assert _core.printable("a\n\tb\x1b\x9b é\udc9b") == "a\\n\\x09b\\x1b\\x9b é\udc9b"
    assert _core.printable("a\n\tb\r", lines=True) == "a\n\tb\\x0d"


def test_every_option_is_in_the_guide(run: Run):
    guide = (Path(__file__).parents[2] / "docs/guide/command-line.md").read_text()
    verbs = re.findall(r"^  ([a-z]+) ", run("--help")[1], re.MULTILINE)
    assert {"info", "convert", "completion"} <= set(verbs)
    for verb in set(verbs) - {"demo", "bench", "penstock"}:
        for names in re.findall(r"^ +((?:-[\w-]+,? ?)+)", run(verb, "--help")[1], re.MULTILINE):
            known = names.replace(",", " ").split()
            assert "--help" in known or any(re.search(rf"{each}\b", guide) for each in known), (verb, known)


def test_the_ways_to_resample_are_those_of_python(run: Run):
    listed = re.search(r"--resampling TEXT:\{([\w,]+)\}", run("read", "--help")[1])
    assert listed is not None
    assert tuple(listed[1].split(",")) == RESAMPLINGS


def test_negative_counts_are_refused(group: Path, tmp_path: Path, run: Run):
    for words in (
        ("head", group / "t2m", "-n", "-1"),
        ("plan", group / "t2m", "--lines", "-1"),
        ("check", group, "--max-failures", "-1"),
        ("check", group, "--threads", "-1"),
        ("check", group, "--retries", "-1"),
        ("shard", group / "t2m", tmp_path / "x_{}.npy", "--rows", "-1"),
        ("shard", group / "t2m", tmp_path / "x_{}.npy", "--shards", "-1"),
        ("diff", group, group, "--rtol", "-1"),
        ("convert", group / "t2m", tmp_path / "x_{}.npy", "--rows", "-1"),
        ("convert", group, tmp_path / "b.zarr", "--threads", "-1"),
        ("read", group / "t2m", "-o", tmp_path / "x.png", "--threads", "-1"),
        ("read", group / "t2m", "-o", tmp_path / "x.png", "--shape", "-1", "5"),
    ):
        status, out, err = run(*words)
        assert (status, out) == (2, ""), (words, err)
        assert re.search(r"(got|Value) -1\b", err), (words, err)
    assert [each.name for each in tmp_path.iterdir()] == ["g.zarr"]


@pytest.mark.parametrize("dtype", ["bool", "i1", "u2", "i4", "i8", "u8", "f2", "f4", "f8"])
def test_stats_equal_numpys(tmp_path: Path, run: Run, dtype: str):
    values = np.random.default_rng(1).integers(0, 100, (70, 90)).astype(dtype)
    if values.dtype.kind == "f":
        values = (values + 1000).astype(dtype)
        values[3, 4] = np.nan
    if dtype == "i8":
        values[5, 5] = 2**62 + 1  # cannot be represented as a double
    ps.save(tmp_path / "a.zarr", values)
    found = json.loads(run("stats", tmp_path / "a.zarr", "3:60", "--json")[1])
    part = values[3:60].astype("f8")
    assert found["elements"] == part.size
    assert found["nan"] == np.isnan(part).sum()
    assert found["min"] == np.nanmin(values[3:60])
    assert found["max"] == int(values[3:60].max()) if dtype == "i8" else found["max"] == np.nanmax(values[3:60])
    assert found["mean"] == pytest.approx(np.nanmean(part))
    assert found["std"] == pytest.approx(np.nanstd(part), rel=1e-9)
    skipped = json.loads(run("stats", tmp_path / "a.zarr", "--skip", str(float(values[0, 0])), "--json")[1])
    assert skipped["skipped"] == (values == values[0, 0]).sum()


def test_stats_refuse_types_without_an_order(group: Path, run: Run, tmp_path: Path):
    assert run("stats", group / "names")[0] == 1
    assert run("stats", group / "t2m", "--skip", "x")[0] == 2
    ps.create_array(tmp_path / "none.zarr", shape=(0, 3), dtype="f4")
    assert "no elements" in run("stats", tmp_path / "none.zarr")[1]


def test_equal_trees_have_no_difference(group: Path, tmp_path: Path, run: Run):
    ps.copy(group, tmp_path / "copy.zarr", chunks=None, codecs=None)
    assert run("diff", group, tmp_path / "copy.zarr") == (0, "", "")
    ps.rechunk(ps.open(group)["t2m"], tmp_path / "other.zarr", chunks=(20, 3, 7))
    assert run("diff", group / "t2m", tmp_path / "other.zarr")[0] == 0


def test_ascii_text_of_hdf5_equals_its_copy(tmp_path: Path, run: Run):
    """It is bytes, and text in the copy."""
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("x", data=["a", "bc", ""], dtype=h5py.string_dtype("ascii"))
    for version in (2, 3):
        ps.convert(tmp_path / "x.h5", tmp_path / f"{version}.zarr", zarr_format=version)
        assert run("diff", tmp_path / "x.h5", tmp_path / f"{version}.zarr") == (0, "", "")
    ps.open_group(tmp_path / "3.zarr", mode="r+")["x"][1] = "bd"
    status, out, _ = run("diff", tmp_path / "x.h5", tmp_path / "3.zarr")
    assert status == 1
    assert "1 of 3 elements differs, first at (1,): 'bc' and 'bd'" in out


def test_the_first_difference_is_named(group: Path, tmp_path: Path, run: Run):
    other = VALUES.copy()
    other[3, 4, 5] += 1
    other[19, 29, 39] = np.nan
    make(tmp_path / "h.zarr", other)
    h = ps.open(tmp_path / "h.zarr", mode="r+")
    h["t2m"].attrs["units"] = "C"
    h.create_array("new", data=[1])
    del h["deep"]
    status, out, err = run("diff", group, tmp_path / "h.zarr")
    assert (status, err) == (1, "")
    assert 't2m: attribute: \'units\' is "K" and "C"' in out
    assert "2 of 24000 elements differ, first at (3, 4, 5)" in out
    assert f"new: member: only in {tmp_path / 'h.zarr'}" in out
    assert f"deep: member: only in {group}" in out
    found = json.loads(run("diff", group / "t2m", tmp_path / "h.zarr" / "t2m", "--json", "--values")[1])
    assert [each["what"] for each in found["differences"]] == ["values"]
    assert found["differences"][0]["position"] == [3, 4, 5]
    assert found["differences"][0]["largest"] == pytest.approx(1, rel=1e-4)
    within = run("diff", group / "t2m", tmp_path / "h.zarr" / "t2m", "--values", "--atol", "1.1")
    assert "1 of 24000 elements differs, first at (19, 29, 39)" in within[1]
    assert run("diff", group, tmp_path / "none")[0] == 2
    assert run("diff", group / "t2m", group)[0] == 1


@pytest.mark.parametrize(
    ("a", "b", "equal"),
    [
        (np.array([0.0, np.nan]), np.array([-0.0, np.nan]), True),
        (np.array([1, 2], "i8"), np.array([1, 2 + 2**53], "i8"), False),
        (np.array([2**63], "u8"), np.array([2**63 + 1], "u8"), False),
        (np.array([1 + 2j], "c8"), np.array([1 + 3j], "c8"), False),
        (np.array(["a"], object), np.array(["b"], object), False),
        (np.array(["ab"], "U2"), np.array(["ab"], "U2"), True),
        (np.array([1], "i4"), np.array([1], "i8"), False),
        (np.array(["2020"], "M8[s]"), np.array(["2021"], "M8[s]"), False),
    ],
)
def test_values_are_compared_by_meaning(tmp_path: Path, run: Run, a: np.ndarray, b: np.ndarray, equal: bool):
    ps.save(tmp_path / "a.zarr", a)
    ps.save(tmp_path / "b.zarr", b)
    assert run("diff", tmp_path / "a.zarr", tmp_path / "b.zarr")[0] == (0 if equal else 1)


def test_dimensions_without_names_are_equal(tmp_path: Path, run: Run):
    for name, given in (("a.zarr", None), ("b.zarr", (None, None)), ("c.zarr", ("y", None))):
        ps.create_array(tmp_path / name, data=np.zeros((3, 2)), dimension_names=given)
    ps.save_shards(np.zeros((3, 2)), tmp_path / "d_{}.zarr", rows=2)
    for name in ("b.zarr", "penstock.shards"):
        assert run("diff", tmp_path / "a.zarr", tmp_path / name) == (0, "", "")
    assert "dimensions: () and (y, -)" in run("diff", tmp_path / "a.zarr", tmp_path / "c.zarr")[1]


@pytest.mark.parametrize(
    ("a", "b", "equal"),
    [
        (float("nan"), float("nan"), True),
        ([float("nan"), float("inf")], [float("nan"), float("inf")], True),
        (float("nan"), 0.0, False),
        (2**53, 2**53 + 1, False),
        (2**64 - 1, 2**64 - 2, False),
        (2**70, 2**70 + 1, False),
        (2**70, 2.0**70, True),
        (1, 1.0, True),
    ],
)
def test_attributes_are_compared_by_meaning(tmp_path: Path, run: Run, a: Any, b: Any, equal: bool):
    for name, value in (("a.zarr", a), ("b.zarr", b)):
        ps.create_array(tmp_path / name, data=np.zeros(3), attributes={"v": value})
    assert run("diff", tmp_path / "a.zarr", tmp_path / "b.zarr")[0] == (0 if equal else 1)


def test_documents_are_strict_json(tmp_path: Path, run: Run):
    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    attributes = {"_FillValue": float("nan"), "range": [float("-inf"), float("inf")], "large": 2**63}
    ps.create_group(tmp_path / "g.zarr").create_array("a", data=np.array([np.nan]), attributes=attributes)
    for words in (("info", tmp_path / "g.zarr" / "a"), ("info", tmp_path / "g.zarr"), ("tree", tmp_path / "g.zarr")):
        found = json.loads(run(*words, "--json")[1], parse_constant=refuse)
        one = found["children"][0] if "children" in found else found
        assert one["attributes"] == {"_FillValue": "NaN", "range": ["-Infinity", "Infinity"], "large": 2**63}


def test_read_writes_csv(group: Path, tmp_path: Path, run: Run):
    assert run("read", group / "t2m", "0", "-o", tmp_path / "a.csv")[0] == 0
    assert np.array_equal(np.loadtxt(tmp_path / "a.csv", delimiter=",", dtype="f4"), VALUES[0])
    assert run("read", group / "t2m", "0, 0, :3", "--format", "csv")[1].count("\n") == 3
    assert run("read", group / "t2m", "0, 0, 0", "--format", "csv")[1] == f"{VALUES[0, 0, 0]!s}\n"
    status, _, err = run("read", group / "t2m", "-o", tmp_path / "b.csv")
    assert status == 1
    assert "CSV has two dimensions" in err
    ps.save(tmp_path / "a.tif", VALUES[:1])
    assert run("read", tmp_path / "a.tif", "--format", "png", "-o", tmp_path / "picture")[0] == 0
    assert (tmp_path / "picture").read_bytes().startswith(b"\x89PNG")


def test_mistyped_words_are_suggested(group: Path, run: Run):
    assert "did you mean 'check'?" in run("chekc", group)[2]
    assert "did you mean '--threads'?" in run("check", group, "--thread", "2")[2]
    assert f"did you mean '{group}/t2m'?" in run("info", group / "t2n")[2]
    assert "did you mean" not in run("info", group / "precipitation")[2]
    assert "did you mean 's3://bucket/x.zarr'?" in run("info", "s3:/bucket/x.zarr")[2]


def test_mistyped_values_are_suggested(group: Path, tmp_path: Path, run: Run):
    new = tmp_path / "new.zarr"
    typed = [
        (("copy", group / "t2m", new, "--codec", "zsdt"), 1, "zstd"),
        (("rechunk", group / "t2m", new, "--codec", "gzpi:3"), 1, "gzip"),
        (("copy", group / "t2m", new, "--chunks", "tt=2,x=3"), 1, "t"),
        (("head", group / "t2m", "--format", "nyp"), 2, "npy"),
        (("head", group / "t2m", "--format", "pgn"), 2, "png"),
        (("ls", group, "--format", "csvv"), 2, "csv"),
        (("read", group / "t2m", "--resampling", "neares"), 2, "nearest"),
        (("completion", "bahs"), 2, "bash"),
        (("convert", group, tmp_path / "a.h5", "--verfy"), 2, "--verify"),
        (("convert", group, tmp_path / "new", "--codec", "lz44"), 1, "lz4"),
        (("doctor", "--jsno"), 2, "--json"),
        (("read", group / "t2m", "-o", "a.png", "--resampling", "bilinaer"), 2, "bilinear"),
    ]
    for words, status, meant in typed:
        found, out, err = run(*words)
        assert (found, out) == (status, ""), (words, err)
        assert f"did you mean '{meant}'?" in err, (words, err)
    assert not new.exists()
    assert "did you mean" not in run("copy", group / "t2m", new, "--codec", "jpeg")[2]
    assert ".npy, .csv or .bin (of an image also .tif or .png)" in run("read", group / "t2m", "-o", "a.jpg")[2]


def test_one_of_something_is_singular(tmp_path: Path, run: Run):
    ps.save(tmp_path / "a.zarr", np.arange(3, dtype="u1"))
    ps.create_group(tmp_path / "g.zarr").create_array("a", data=np.uint8(1))
    texts = [
        run("plan", tmp_path / "a.zarr")[1],
        run("check", tmp_path / "a.zarr")[1],
        run("stats", tmp_path / "a.zarr", ":1")[1],
        run("copy", tmp_path / "g.zarr", tmp_path / "b.zarr")[1],
        run("shard", tmp_path / "a.zarr", tmp_path / "x_{}.npy", "--shards", "1")[1],
        run("copy", tmp_path / "a.zarr", tmp_path / "c.zarr", "--chunks", "1,1")[2],
    ]
    for text in texts:
        assert text
        assert not re.search(
            r"\b1 (?!x)[a-z ]*?(bytes|chunks|cells|elements|objects|arrays|groups|files|reads|requests)\b", text
        ), text
    assert "1 cell" in texts[0]
    assert "1 request" in texts[0]


def test_head_writes_npy_and_png(group: Path, tmp_path: Path):
    def written(*words: str | Path) -> subprocess.CompletedProcess[bytes]:
        command = [sys.executable, "-m", "penstock", "head", *map(str, words)]
        return subprocess.run(command, capture_output=True, timeout=60)

    done = written(group / "t2m", "-n", "7", "--format", "npy")
    assert done.returncode == 0, done.stderr
    (tmp_path / "a.npy").write_bytes(done.stdout)
    assert np.array_equal(np.load(tmp_path / "a.npy"), VALUES[0, :7, :7])
    done = written(group / "deep" / "é", "--format", "npy")
    (tmp_path / "a.npy").write_bytes(done.stdout)
    assert np.load(tmp_path / "a.npy") == 5
    pixels = np.arange(12 * 15, dtype="u1").reshape(1, 12, 15)
    ps.save(tmp_path / "a.tif", pixels)
    for array, shape in ((tmp_path / "a.tif", (9, 9)), (group / "t2m", (9, 9)), (group / "deep" / "é", (1, 1))):
        done = written(array, "-n", "9", "--format=png")
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith(b"\x89PNG")
        assert struct.unpack(">II", done.stdout[16:24]) == shape[::-1]
    lines = np.frombuffer(
        zlib.decompress(png_data(written(tmp_path / "a.tif", "-n", "9", "--format=png").stdout)), "u1"
    )
    assert np.array_equal(np.cumsum(lines.reshape(9, 10)[:, 1:], axis=0, dtype="u1"), pixels[0, :9, :9])
    for words, status in (
        ((group / "names", "--format", "npy"), 1),
        ((group / "names", "--format", "png"), 1),
        ((group, "--format", "png"), 1),
        ((group / "t2m", "--format", "png", "-n", "0"), 2),
        ((group / "t2m", "--format", "npy", "--json"), 2),
        ((group / "t2m", "--format", "png", "--json"), 2),
    ):
        assert written(*words).returncode == status, words
    assert b"npy" in written(group / "t2m", "--format", "png", "--help").stdout


def png_data(content: bytes) -> bytes:
    """The compressed pixels of a PNG."""
    found, at = b"", 8
    while at < len(content):
        (size,) = struct.unpack(">I", content[at : at + 4])
        if content[at + 4 : at + 8] == b"IDAT":
            found += content[at + 8 : at + 8 + size]
        at += 12 + size
    return found


def test_completion_is_a_script(run: Run):
    script = run("completion", "bash")[1]
    words = 'COMP_WORDS=(penstock {}); COMP_CWORD={}; _penstock; echo "${{COMPREPLY[@]}}"\n'
    done = subprocess.run(
        [
            "bash",
            "-c",
            script
            + words.format("che", 1)
            + words.format("diff --rt", 2)
            + words.format("ls --an", 2)
            + words.format("head --format p", 3),
        ],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert done.stdout.split() == ["check", "--rtol", "--anon", "png"]
    for shell in ("zsh", "fish"):
        text = run("completion", shell)[1]
        assert "rechunk" in text
        assert "endpoint-url" in text
    assert run("completion", "tcsh")[0] == 2


def test_completion_has_the_options_of_verbs_in_python(run: Run):
    script = run("completion", "fish")[1]
    for verb in ("convert", "doctor"):
        completed = {
            name
            for line in re.findall(f"^complete .*__fish_seen_subcommand_from {verb}'(.*)$", script, re.MULTILINE)
            for name in re.findall(r" -l ([a-z-]+)", line.partition(" -d ")[0])
        }
        names = set(re.findall(r"^  (?:-h, )?--([a-z-]+)", run(verb, "--help")[1], re.MULTILINE))
        assert completed == names, verb
    assert re.search("from convert' -l zarr-format -x -a '2 3'", script)


def on_terminal(*words: object, **environment: str) -> bytes:
    """What the program writes to a terminal, with colours unless `NO_COLOR` is given."""
    master, slave = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "penstock", *map(str, words)],
        stdout=slave,
        stderr=slave,
        env={**os.environ, "TERM": "xterm", **environment},
    ) as process:
        os.close(slave)
        out = b""
        while True:
            try:
                more = os.read(master, 4096)
            except OSError:
                break
            if not more:
                break
            out += more
        process.wait(timeout=60)
    os.close(master)
    return out


def test_colours_are_for_terminals_only(group: Path):
    assert b"\x1b[1;34mdeep/" in on_terminal("ls", group)
    assert b"\x1b" not in on_terminal("ls", group, NO_COLOR="1")


def test_no_control_character_of_a_file_reaches_a_terminal(tmp_path: Path):
    h5py = pytest.importorskip("h5py")
    name, values = "a\x1b]0;x\x07\x7f\x9b31m", np.array(["\x1b[2J", "\x9b2J\x7f"], dtype=object)
    made = ps.create_group(tmp_path / "g.zarr", attributes={"\x9b": "\x7f"})
    made.create_array(name, data=values, attributes={"\x9b": "\x7f"})
    with h5py.File(tmp_path / "g.h5", "w") as file:
        file["a\x1b]0;x\x07"] = np.arange(3)
    g, a = tmp_path / "g.zarr", tmp_path / "g.zarr" / name
    for words in (
        ("info", g, "--json"),
        ("ls", g, "--json"),
        ("ls", g, "--format", "csv"),
        ("head", a, "--json"),
        ("head", a, "--format", "csv"),
        ("read", a, "--format", "csv"),
        ("read", a, "-o", "-", "--format", "csv"),
        ("info", g / "\x9b", "--json"),
        ("convert", tmp_path / "g.h5", tmp_path / "copy.zarr"),
    ):
        shown = on_terminal(*words, NO_COLOR="1").decode()
        assert shown
        assert not re.search(r"[\x00-\x09\x0b\x0c\x0e-\x1f\x7f-\x9f]", shown), (words, shown)


def test_differing_attributes_are_cut_between_characters(tmp_path: Path, run: Run):
    for file, text in (("a.zarr", "x" + "é" * 60), ("b.zarr", "é" * 60)):
        ps.create_group(tmp_path / file, attributes={"k": text})
    status, out, _ = run("diff", tmp_path / "a.zarr", tmp_path / "b.zarr")
    assert status == 1
    assert "�" not in out
    assert 'é... and "é' in out


def test_a_check_ends_with_sums(group: Path, run: Run):
    assert run("check", group)[1].splitlines()[-1].startswith("3 arrays, 14 chunks, 0 absent, 96.1 kB decoded from ")
    sums = json.loads(run("check", group, "--json")[1])["sums"]
    assert (sums["arrays"], sums["cells"], sums["failed"], sums["faulty_arrays"]) == (3, 14, 0, 0)


def test_flags_reach_the_server(tmp_path: Path, run: Run):
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
    from threading import Thread

    ps.save(tmp_path / "a.zarr", np.arange(5))
    seen: list[str | None] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(self.headers.get("X-Key"))
            file = tmp_path / self.path.lstrip("/")
            data = file.read_bytes() if file.is_file() else b""
            self.send_response(200 if file.is_file() else 404)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data if self.command == "GET" else b"")

        do_HEAD = do_GET

        def log_message(self, *unused: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        uri = f"http://127.0.0.1:{server.server_port}/a.zarr"
        status, out, err = run("head", uri, "--header", "X-Key: 7", "--retries", "0")
        assert (status, err) == (0, "")
        assert "[0 1 2 3 4]" in out
        assert set(seen) == {"7"}
    finally:
        server.shutdown()
        server.server_close()
    assert run("head", "http://127.0.0.1:1/a", "--header", "nonsense")[0] == 2


def test_flags_of_storage_are_options_of_the_one_table(run: Run):
    known = ps._core.storage_flags()
    for flag, option, takes_none, what in known:
        assert what
        assert flag == ("--header" if option == "headers" else f"--{option.replace('_', '-')}")
        value = [] if takes_none else ["A: b"] if option == "headers" else ["3"]
        status, _, err = run("info", "/nothing/there", flag, *value)
        assert (status, "/nothing/there" in err) == (1, True), flag
        storage = "s3://b/x" if option not in ("netrc", "headers") else "https://h/x"
        wanted = {"A": "b"} if option == "headers" else True if takes_none else "3"
        assert ps._core.serves(storage.encode(), {option: wanted}, lambda: False), option
    page = (Path(__file__).parents[2] / "docs" / "guide" / "command-line.md").read_text()
    assert [(f, o) for f, o, *_ in known] == re.findall(r"^\| `(--[a-z-]+)[^`]*` \| `(\w+)` \|", page, re.MULTILINE)


def test_convert_may_read_local_files_that_remote_references_name(run: Run, tmp_path: Path):
    memory = pytest.importorskip("fsspec").filesystem("memory")
    (tmp_path / "part.bin").write_bytes(np.arange(3, dtype="<i4").tobytes())
    array = {"zarr_format": 2, "shape": [3], "chunks": [3], "dtype": "<i4", "order": "C", "compressor": None}
    chunk = [(tmp_path / "part.bin").as_uri(), 0, 12]
    refs = {".zarray": json.dumps({**array, "filters": None, "fill_value": -1}), "0": chunk}
    memory.pipe("/of_cli/r.json", json.dumps({"version": 1, "refs": refs}).encode())
    command = ("convert", "memory://of_cli/r.json", tmp_path / "x.zarr", "--overwrite")
    status, _, err = run(*command)
    assert (status, "--allow-local" in err) == (1, True)
    assert run(*command, "--allow-local")[0] == 0
    assert ps.open(tmp_path / "x.zarr")[...].tolist() == [0, 1, 2]
    assert "--allow-local" in run("convert", "--help")[1]


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--retries", "x"], "--retries: not a number: 'x'"),
        (["--retries", "2.5"], "--retries: not a whole number"),
        (["--retries", "1001"], "--retries: not between 0 and 1000"),
        (["--timeout", "0"], "--timeout: not a time above 0"),
        (["--timeout", "1s"], "--timeout: not a number: '1s'"),
        (["--header", ": x"], "--header takes 'NAME: VALUE', got ': x'"),
        (["--header", "A: b", "--header", "none"], "--header takes 'NAME: VALUE', got 'none'"),
        (["--region", "a\x01b"], "--region: a text with control characters"),
    ],
)
def test_wrong_values_of_storage_flags_are_named(run: Run, flags: list[str], words: str):
    status, _, err = run("info", "https://127.0.0.1:1/x", *flags)
    assert (status, words in err) == (2, True), err
