"""The representations of arrays, groups, profiles and tensors in terminals and notebooks."""

from __future__ import annotations

import pickle
import re
from collections.abc import Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
from penstock.core.compressors import compressors_of

HOSTILE = "</details><script>alert(1)</script>&\"'"


class Parsed(HTMLParser):
    """The tags that are open at the end, all tags, and the text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)
        if tag not in ("rect", "path"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def parsed(thing: Any) -> Parsed:
    found = Parsed(thing._repr_html_())
    assert found.open == []
    assert "script" not in found.tags
    return found


@pytest.fixture
def group(tmp_path: Path) -> ps.Group:
    made = ps.create_group(tmp_path / "g.zarr", attributes={HOSTILE: HOSTILE, "long": "z" * 100_000})
    a = made.create_array(
        "t2m",
        data=np.zeros((4, 60, 90), "f4") + np.arange(90, dtype="f4"),
        chunks=(1, 10, 10),
        shards=(2, 20, 30),
        dimension_names=("t", "y", HOSTILE),
        attributes={HOSTILE: [HOSTILE]},
    )
    assert a.shards == (2, 20, 30)
    made.create_array("scalar", data=np.int16(3))
    made.create_array("none", shape=(0, 5), dtype="f4", chunks=(1, 5))
    made.create_group("émpty")
    return made


def test_an_array_shows_its_properties(group: ps.Group):
    a = group["t2m"]
    stored = sum(file.stat().st_size for file in Path(group.uri[7:], "t2m", "c").rglob("*") if file.is_file())
    assert a.nbytes_stored() == stored - 18 * (12 * 16 + 4)  # without the indexes of the shards
    text = str(a.info)
    for part in ("(1, 10, 10), 216 chunks", "18 shards", "86.4 kB", "ratio", "blosc"):
        assert part in text
        assert part in parsed(a).text
    assert HOSTILE in parsed(a).text
    assert "\n" not in repr(a)
    assert str(pickle.loads(pickle.dumps(a.info))) == text


def test_the_grid_is_drawn_to_scale(group: ps.Group):
    drawn = group["t2m"]._repr_html_()
    width, height = map(float, re.search(r"<rect x='2' y='[\d.]+' width='([\d.]+)' height='([\d.]+)'", drawn).groups())
    assert width / height == pytest.approx(90 / 60, rel=0.01)
    assert len(re.findall(r"stroke-width='1.8'", drawn)) == 1  # shards
    big = group.create_array("big", shape=(10**9, 10**9), dtype="u1", chunks=(10, 10))
    assert len(big._repr_html_()) < 20_000
    assert "unknown" in str(big.info)
    assert "svg" not in parsed(group["scalar"]).tags
    assert "svg" not in parsed(group["none"]).tags


def test_a_group_is_shown_as_a_tree_with_limits(group: ps.Group):
    assert "└── émpty/" in str(group.info)
    assert "\nattributes\n" in str(group.info)
    assert len(str(group.info)) < 5000, "long attributes are cut"
    found = parsed(group)
    assert HOSTILE in found.text
    assert len(found.text) < 5000, "long attributes are cut"
    below = group["émpty"]
    for number in range(70):
        below.create_group(f"n{number:03}")
    assert "and 10 more" in str(group.info)
    assert "and 10 more" in parsed(group).text
    (Path(group.uri[7:]) / "scalar" / "zarr.json").write_text("{")
    assert "scalar" in str(group.info), "a member that cannot be opened does not hide the others"
    assert "no members" in parsed(ps.create_group({})).text


def test_reprs_of_remote_stores_make_no_request(group: ps.Group):
    class Remote(ps.Store):
        count = 0

        def get(self, key: str) -> bytes | None:
            type(self).count += 1
            file = Path(group.uri[7:], key)
            return file.read_bytes() if file.is_file() else None

        def list(self, prefix: str) -> list[str]:
            raise AssertionError("listed")

    there = ps.open(Remote(), mode="r")
    a = there["t2m"]
    before = Remote.count
    for node in (there, a):
        parsed(node)
        repr(node)
        str(node.info)
    assert Remote.count == before
    assert "stored      unknown" in str(a.info)
    assert "not listed" in str(there.info)
    assert "\nattributes\n" in str(there.info), "they are in memory"


def test_profiles_and_tensors_are_shown_as_tables(group: ps.Group):
    with ps.profile() as p:
        assert "not ended" in parsed(p).text
        group["t2m"][...]
    assert "Decode" in parsed(p).text
    assert "float64" in parsed(ps.Tensor(np.zeros((3, 4)))).text


def test_terminals_of_ipython_show_the_text(group: ps.Group):
    class Printer:
        def __init__(self, depth: int) -> None:
            self.stack, self.shown = [0] * depth, ""

        def text(self, text: str) -> None:
            self.shown += text

    def pretty(thing: Any, depth: int = 1) -> str:
        printer = Printer(depth)
        thing._repr_pretty_(printer, False)
        return printer.shown

    assert "216 chunks" in pretty(group["t2m"])
    assert pretty(group["t2m"], 2) == repr(group["t2m"])
    assert "├── " in pretty(group)
    assert pretty(group, 2) == repr(group)
    assert "not ended" in pretty(ps.profile())


def test_control_characters_do_not_reach_a_terminal(tmp_path: Path):
    a = ps.create_array(tmp_path / "a.zarr", data=[1], attributes={"x\x1b[31m": "\x1b]0;title\x07\nline"})
    assert "\x1b" not in str(a.info)
    assert "\\x1b[31m: \\x1b]0;title\\x07\\nline" in str(a.info)


def test_a_group_is_a_mapping(group: ps.Group):
    assert isinstance(group, Mapping)
    assert group.get("nix") is None
    assert group.get("nix", 5) == 5
    assert group.get("scalar")[()] == 3
    assert [name for name, _ in group.items()] == list(group) == list(group.keys())
    assert len(group.values()) == len(group) == 4
    assert "scalar" in group
    assert set(dict(group)) == set(group)


def test_a_mistyped_member_is_suggested(group: ps.Group):
    with pytest.raises(ps.NotFoundError, match=r"did you mean 't2m'\?"):
        group["t2n"]
    group.create_array("deep/er/temperature", data=[1])
    for path, meant in (("deep/er/temprature", "deep/er/temperature"), ("deeep/er/temperature", "deep")):
        with pytest.raises(ps.NotFoundError, match=rf"did you mean '{meant}'\?"):
            group[path]
    with pytest.raises(KeyError) as caught:
        group["precipitation"]
    assert "did you mean" not in str(caught.value)


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_compressors_are_the_last_codecs(tmp_path: Path, zarr_format: int):
    def names(**options: Any) -> list[str]:
        a = ps.create_array({}, shape=(8, 8), dtype="f4", zarr_format=zarr_format, **options)
        return [each.get("name", each.get("id")) for each in a.compressors]

    assert names(codecs=["zstd"]) == ["zstd"]
    assert names(codecs=[]) == []
    if zarr_format == 3:
        assert names(codecs=["zstd"], chunks=(2, 2), shards=(4, 4)) == ["zstd"]
    ps.save(tmp_path / "x.tif", np.zeros((64, 64), "u1"))
    assert len(ps.open(tmp_path / "x.tif").compressors) == 1
    chain = [{"name": "numcodecs.packbits"}, {"name": "bytes"}, {"name": "zstd"}]
    assert compressors_of(chain) == ({"name": "zstd"},)
    assert compressors_of([{"name": "n5_default", "configuration": {"codecs": chain[1:]}}]) == ({"name": "zstd"},)
    assert compressors_of([{"id": "delta"}, {"id": "packbits"}, {"id": "zfpy"}]) == ({"id": "zfpy"},)


def test_sizes_of_many_chunks_are_summed(tmp_path: Path):
    a = ps.create_array(tmp_path / "a.zarr", shape=(120, 130), dtype="u1", chunks=(1, 2), codecs=[])
    a[:60] = 1
    assert a.nchunks == 120 * 65
    assert a.nbytes_stored() == 60 * 130
    assert ps.create_array({}, data=5).nchunks == 1
