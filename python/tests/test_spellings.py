"""Arguments in the spellings of NumPy, Dask, xarray and zarr-python, and the errors for wrong ones."""

from __future__ import annotations

import html
import io
import json
import re
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
from penstock import _core
from penstock.api.request import OF_ALL_FORMATS
from penstock.core.progress import ProgressBar, ProgressLine, progress_display
from penstock.core.sizes import parse_bytes


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (0, 0),
        (7, 7),
        (np.int64(7), 7),
        (2e9, 2_000_000_000),
        ("100", 100),
        ("100B", 100),
        ("2GiB", 2 << 30),
        ("2 gib", 2 << 30),
        ("1.5 GB", 1_500_000_000),
        ("2.3GB", 2_300_000_000),
        ("128MB", 128_000_000),
        ("64k", 64_000),
        ("64KiB", 65536),
        ("1T", 10**12),
    ],
)
def test_sizes_are_numbers_or_text(given: Any, wanted: int):
    assert parse_bytes(given, "memory_limit") == wanted


@pytest.mark.parametrize("given", ["", "GB", "-1", "1 parsec", -1, 1.5, True, None, [], b"1"])
def test_other_sizes_are_refused_by_name(given: Any):
    with pytest.raises(ps.InvalidArgumentError, match="memory_limit must be a number of bytes"):
        parse_bytes(given, "memory_limit")


@pytest.mark.parametrize("name", ["memory_limit", "chunk_cache", "device_memory_limit", "output_pool", "page_locked"])
def test_contexts_take_sizes_as_text(name: str):
    ps.Context(**{name: "1GiB"})
    with pytest.raises(ps.InvalidArgumentError, match=name):
        ps.Context(**{name: "much"})


@pytest.mark.parametrize("threads", ["2", 0, -1, 1.5, True])
def test_a_number_of_threads_is_checked_the_same_everywhere(threads: Any):
    a = ps.create_array({}, shape=(3,), dtype="i4")
    calls = [
        lambda: ps.Context(threads=threads),
        lambda: a.read(threads=threads),
        lambda: a.read_async(threads=threads),
        lambda: a.write(..., 1, threads=threads),
        lambda: a.append(np.ones(1, "i4"), threads=threads),
    ]
    for call in calls:
        with pytest.raises(ps.InvalidArgumentError, match="threads must be"):
            call()


CHUNKS = [
    (4, (4, 4)),
    ((4, 5), (4, 5)),
    (-1, (30, 20)),
    ((-1, 5), (30, 5)),
    ({"y": 4}, (4, 20)),
    ({"x": 4, "y": -1}, (30, 4)),
    ({"x": 4, "y": None}, (30, 4)),
    ({0: 7}, (7, 20)),
    ({-1: 7}, (30, 7)),
    ({}, (30, 20)),
    ("1KiB", (15, 10)),  # 30 x 20 x 8 bytes = 4800: the longest dimension is halved until the chunk has at most 1024
    ("100GiB", (30, 20)),
    ("1B", (1, 1)),
]


@pytest.mark.parametrize(("chunks", "wanted"), CHUNKS)
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_chunks_as_dask_and_xarray_write_them(chunks: Any, wanted: tuple[int, ...], zarr_format: int):
    names = ("y", "x") if zarr_format == 3 else None
    if names is None and isinstance(chunks, dict) and any(isinstance(key, str) for key in chunks):
        pytest.skip("format 2 has no dimension names")
    a = ps.create_array({}, shape=(30, 20), dtype="f8", chunks=chunks, dimension_names=names, zarr_format=zarr_format)
    if chunks == "1KiB":
        assert a.chunks[0] * a.chunks[1] * 8 <= 1024
        assert a.chunks[0] * a.chunks[1] * 8 * 2 > 1024
    else:
        assert a.chunks == wanted


def test_shards_take_the_same_spellings():
    a = ps.create_array({}, shape=(32, 16), dtype="f4", chunks=(4, 4), shards={"y": 8}, dimension_names=("y", "x"))
    assert a.shards == (8, 16)
    assert ps.create_array({}, shape=(32, 16), dtype="f4", chunks=(4, 4), shards=(-1, 8)).shards == (32, 8)


@pytest.mark.parametrize("shards", ["1B", "300B", "2KiB", "1GiB", -1, (-1, 12), {"x": 12}])
def test_shards_are_whole_chunks_as_in_a_copy(shards: Any):
    names = ("y", "x")
    made = ps.create_array({}, shape=(30, 17), dtype="f4", chunks=(7, 4), shards=shards, dimension_names=names)
    source = ps.create_array({}, shape=(30, 17), dtype="f4", dimension_names=names)
    assert made.shards == ps.copy(source, {}, chunks=(7, 4), shards=shards).shards
    assert made.chunks == (7, 4)


@pytest.mark.parametrize("chunks", [{"z": 1}, {5: 1}, "some", "1 parsec", (-2, 2), {"y": -3}])
def test_invalid_chunks_are_named(chunks: Any, tmp_path: Path):
    with pytest.raises(ps.InvalidArgumentError, match=r"chunks|negative"):
        ps.create_array(tmp_path / "x", shape=(30, 20), dtype="f8", chunks=chunks, dimension_names=("y", "x"))
    assert not (tmp_path / "x").exists()


def test_a_shape_in_place_of_the_path_is_reported():
    with pytest.raises(ps.InvalidArgumentError, match=r"path must be text, got \(3, 4\).*shape=\(3, 4\)"):
        ps.create_array({}, (3, 4))
    with pytest.raises(ps.InvalidArgumentError, match="path must be text"):
        ps.open({}, 3)


def test_orthogonal_selections_take_an_open_mesh():
    values = np.arange(60.0).reshape(3, 4, 5)
    a = ps.create_array({}, data=values)
    mesh = np.ix_([2, 0], [3, 1, 1], [4])
    np.testing.assert_array_equal(a.oindex[mesh], values[mesh])
    np.testing.assert_array_equal(a[mesh], values[mesh])
    a.oindex[mesh] = -1
    values[mesh] = -1
    np.testing.assert_array_equal(a[...], values)
    with pytest.raises(IndexError):
        a.oindex[np.array([[0, 1]]), :, :]


def test_progress_true_writes_a_line(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    a = ps.create_array(tmp_path / "x", data=np.arange(1000.0), chunks=(10,))
    a.read(progress=True)
    a.write(..., 1.0, progress=True)
    a.append(np.ones(3), progress=True)
    ps.copy(a, tmp_path / "y", progress=True)
    said = capsys.readouterr().err
    for verb in ("reading 100%", "writing 100%", "appending 100%", "copying 100%"):
        assert verb in said
    a.read(progress=False)
    assert capsys.readouterr().err == ""
    for call in (a.read, lambda progress: a.write(..., 1, progress=progress)):
        with pytest.raises(ps.InvalidArgumentError, match="progress must be True or a function"):
            call(progress="bar")


def test_a_progress_line_is_rewritten_and_ends():
    stream = io.StringIO()
    line = ProgressLine("reading", stream)
    line(10, 100)
    line(20, 100)  # too soon
    line(100, 100)
    first, last = stream.getvalue().split("\r")[1:]
    assert first.startswith("reading 10% of 100 bytes")
    assert last.startswith("reading 100% of 100 bytes")
    assert last.rstrip(" \n").endswith(" s")
    assert last.endswith("\n")


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[tuple[bool, dict[str, str]]]:
    """The messages to a stand-in for a notebook's frontend: (whether it replaces the last one, the forms by type)."""
    received: list[tuple[bool, dict[str, str]]] = []

    class Handle:
        def update(self, forms: dict[str, str], *, raw: bool) -> None:
            assert raw
            received.append((True, forms))

    def display(forms: dict[str, str], *, raw: bool, display_id: bool) -> Handle:
        assert raw
        assert display_id
        received.append((False, forms))
        return Handle()

    notebook = types.SimpleNamespace(kernel=object())
    stand_in = types.SimpleNamespace(get_ipython=lambda: notebook, display=types.SimpleNamespace(display=display))
    monkeypatch.setitem(sys.modules, "IPython", stand_in)  # type: ignore[arg-type]
    return received


def test_progress_true_draws_a_bar_in_a_notebook(
    shown: list[tuple[bool, dict[str, str]]],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
):
    monkeypatch.setattr(_core, "copy_rate", lambda threads=0: 6e9)
    a = ps.create_array(tmp_path / "x", data=np.arange(1000.0), chunks=(10,))
    a.read(progress=True)
    last = shown[-1][1]
    assert last["text/plain"].startswith("reading 100% of 8 kB")
    assert '<progress value="1.000" max="1"' in last["text/html"]
    assert "of memcpy's 6 GB/s" in last["text/plain"]
    assert html.escape(last["text/plain"]) in last["text/html"]
    assert [each for each, _ in shown] == [False, *[True] * (len(shown) - 1)]  # one bar, which is updated
    shown.clear()
    ps.copy(a, tmp_path / "y", progress=True)
    assert shown[-1][1]["text/plain"].startswith("copying 100%")
    assert capsys.readouterr().err == ""


def test_a_progress_bar_is_updated_and_escapes_names(shown: list[tuple[bool, dict[str, str]]]):
    bar = ProgressBar("copying a<b>")
    bar._last -= 1
    bar(1, 4)
    bar(2, 4)  # too soon
    bar(4, 4)
    assert [each for each, _ in shown] == [False, True]
    assert '<progress value="0.250"' in shown[0][1]["text/html"]
    assert "copying a&lt;b&gt; 25% of 4 bytes" in shown[0][1]["text/html"]


def test_progress_in_a_terminal_of_ipython_is_a_line(monkeypatch: pytest.MonkeyPatch):
    terminal = types.SimpleNamespace()  # the shell of a terminal has no kernel
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: terminal))  # type: ignore[arg-type]
    assert type(progress_display("reading")) is ProgressLine


def test_progress_is_compared_with_the_speed_of_copying_memory():
    stream = io.StringIO()
    ceiling = int(_core.copy_rate())
    assert ceiling > 1e7
    assert int(_core.copy_rate()) == ceiling, "measured once"
    line = ProgressLine("reading", stream)
    line._begin -= 2.0
    line(ceiling, ceiling)
    fraction = re.search(r"/s \((\d+)% of memcpy's [\d.]+ [GM]B/s\), 2\.0 s", stream.getvalue())
    assert fraction
    assert int(fraction[1]) in (49, 50)


def test_modules_are_loaded_when_they_are_used():
    code = (
        "import sys, penstock as ps; assert 'penstock.zarr' not in sys.modules; ps.zarr.enable(); "
        "assert 'zarr' in dir(ps); assert not {'importlib', 'Any', 'core'} & set(dir(ps)); ps.testing.decode_on_host\n"
        "try: ps.nosuch\nexcept AttributeError as error: assert 'nosuch' in str(error)\nelse: raise SystemExit(1)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_import_does_not_load_heavy_modules():
    names = ("urllib.request", "xml.sax", "zarr", "xarray", "dask", "h5py")
    code = f"import sys, penstock; print([name for name in {names} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout == "[]\n"


def test_open_refers_many_files_to_open_shards(tmp_path: Path):
    for i in range(3):
        np.save(tmp_path / f"shard_{i}.npy", np.ones((2, 3)))
    for target in (f"{tmp_path}/*.npy", str(tmp_path), [tmp_path / "shard_0.npy"], (tmp_path,)):
        with pytest.raises(ps.Error, match="open_shards"):
            ps.open(target)
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(ps.NotFoundError) as caught:
        ps.open(empty)
    assert "open_shards" not in str(caught.value)


def test_the_dataset_of_files_with_one_needs_no_name(tmp_path: Path):
    h5py = pytest.importorskip("h5py")
    for i in range(3):
        with h5py.File(tmp_path / f"x_{i}.h5", "w") as file:
            file["deep/values"] = np.full((2, 3), i)
    assert ps.open_shards(f"{tmp_path}/*.h5").shape == (6, 3)
    with h5py.File(tmp_path / "x_0.h5", "a") as file:
        file["other"] = 1
    with pytest.raises(ps.InvalidArgumentError, match=r"give dataset= \(it holds 'other', 'deep/values'\)"):
        ps.open_shards(f"{tmp_path}/*.h5")


@pytest.mark.parametrize("version", [0, 1])
def test_references_in_memory_open(tmp_path: Path, version: int):
    (tmp_path / "data.bin").write_bytes(np.arange(6, dtype="<i4").tobytes())
    zarray = {"zarr_format": 2, "shape": [6], "chunks": [6], "dtype": "<i4", "compressor": None, "filters": None}
    zarray |= {"fill_value": 0, "order": "C"}
    refs = {
        ".zgroup": '{"zarr_format": 2}',
        "x/.zarray": json.dumps(zarray),
        "x/0": [str(tmp_path / "data.bin"), 0, 24],
    }
    g = ps.open(refs if version == 0 else {"version": 1, "refs": refs})
    np.testing.assert_array_equal(g["x"][...], np.arange(6))


def test_stored_bytes_are_not_references():
    store: dict[str, bytes] = {}
    ps.create_array(store, "x", data=np.arange(3))
    np.testing.assert_array_equal(ps.open(store)["x"][...], np.arange(3))
    assert isinstance(ps.create_group({}), ps.Group)


def test_dask_never_confuses_two_arrays(tmp_path: Path):
    dask = pytest.importorskip("dask.base")
    a = ps.create_array(tmp_path / "x", data=np.arange(3))
    before = dask.tokenize(a)
    a[...] = 5
    assert dask.tokenize(a) != before


def test_dask_never_confuses_two_states_of_a_group(tmp_path: Path):
    dask = pytest.importorskip("dask.base")
    ps.save(tmp_path / "run.zarr", x=np.arange(3))
    group = ps.open(tmp_path / "run.zarr")
    before = dask.tokenize(group)
    group["x"][...] = 5
    assert dask.tokenize(group) != before


class TestZarr:
    @pytest.fixture
    def group(self, tmp_path: Path) -> Any:
        zarr = pytest.importorskip("zarr")
        made = zarr.create_group(tmp_path / "g.zarr")
        made.create_array("a", shape=(4,), dtype="i4", chunks=(2,))[:] = 3
        made.create_group("deep").create_array("b", shape=(4,), dtype="i4")[:] = 4
        return made

    def test_explain_takes_groups_and_refuses_the_rest(self, group: Any):
        found = ps.zarr.explain(group)
        assert set(found) == {"a", "deep/b"}
        assert "deep/b" in str(found)
        assert repr(found["a"]) == str(found["a"])
        with pytest.raises(ps.InvalidArgumentError, match=r"explain takes a zarr.* got str"):
            ps.zarr.explain("x.zarr")

    def test_wrap_takes_groups_and_refuses_the_rest(self, group: Any, tmp_path: Path):
        if not hasattr(__import__("zarr.core.codec_pipeline").core.codec_pipeline, "FusedCodecPipeline"):
            pytest.skip("wrap needs zarr-python 3.4")
        wrapped = ps.zarr.wrap(group)
        assert isinstance(wrapped["deep/b"], ps.zarr.Array)
        np.testing.assert_array_equal(wrapped["a"][:], [3, 3, 3, 3])
        with pytest.raises(ps.InvalidArgumentError, match="open_array and open_group open a path"):
            ps.zarr.wrap(str(tmp_path / "g.zarr"))
        with pytest.raises(ps.InvalidArgumentError, match="wrap takes"):
            ps.zarr.wrap(3)
        for function in (ps.zarr.wrap, ps.zarr.explain):
            with pytest.raises(ps.InvalidArgumentError, match=r"got penstock\.Array$"):
                function(ps.open(tmp_path / "g.zarr", "a"))

    def test_enable_has_a_repr(self):
        assert not ps.zarr.is_enabled()
        with ps.zarr.enable(threads=2) as on:
            assert ps.zarr.is_enabled()
            assert "threads=2" in repr(on)
            assert repr(on).endswith("on>")
            from penstock.interop.zarr.settings import current_context

            assert current_context().threads == 2
        assert not ps.zarr.is_enabled()
        assert repr(on).endswith("off>")


def test_a_path_of_none_is_the_target(tmp_path: Path) -> None:
    held: dict[str, bytes] = {}
    ps.create_array(ps.open_group(held, None, mode="w"), "a", data=np.arange(3.0))
    for found in (ps.open(held, None), ps.open(held, path=None), ps.open_group(held, path=None)):
        assert list(found) == ["a"]
    assert list(ps.load(held, None)) == ["a"]
    assert ps.create_group(tmp_path / "g.zarr", None).uri == ps.open(tmp_path / "g.zarr").uri
    ps.create_array(tmp_path / "a.zarr", None, data=np.arange(3.0))
    assert ps.open_array(tmp_path / "a.zarr", path=None).shape == (3,)
    assert list(ps.consolidate_metadata(held, None)) == ["a"]
    with pytest.raises(ps.InvalidArgumentError, match=r"path must be text, got \(3,\)"):
        ps.open(held, (3,))  # type: ignore[arg-type]


def test_a_mistyped_option_is_suggested(tmp_path: Path) -> None:
    ps.save(tmp_path / "a.zarr", np.ones(3))
    ps.save(tmp_path / "a.npy", np.ones(3))
    for name in ("a.zarr", "a.npy"):
        with pytest.raises(ps.InvalidArgumentError, match="no option 'mod'; did you mean 'mode'"):
            ps.open(tmp_path / name, mod="r")
    for options, meant in (({"chunk": 1}, "chunks"), ({"fil_value": 1}, "fill_value")):
        with pytest.raises(TypeError, match=f"did you mean '{meant}'"):
            ps.create_array(tmp_path / "b.zarr", data=np.ones(3), **options)
    with pytest.raises(TypeError, match="did you mean 'compress'"):
        ps.create_array(tmp_path / "b.tif", data=np.ones((3, 3)), compres="lzw")
    assert set(OF_ALL_FORMATS) == {*(ps.open.__kwdefaults__ or {})}
