"""`convert` between every pair of source and destination, as the table of docs/guide/rechunk.md shows them.

Each pair is compared with its cell. PENSTOCK_WRITE_TABLES=1 writes the table from the results.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
from test_convert_images import netcdf
from test_names_and_formats import SOURCES as PLAIN
from test_names_and_formats import leaves

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "rechunk.md"
BEGIN, END = "<!-- pairs: python/tests/test_convert_pairs.py -->\n", "<!-- end of pairs -->\n"

LETTERS = {"attributes": "A", "dimensions": "D", "place": "G"}


def variable(folder: Path) -> Any:
    return ps.open(netcdf(folder / "s.nc", "NETCDF4"))["t"]


def image_group(folder: Path) -> Path:
    ps.convert(PLAIN["TIFF"](folder), folder / "i.zarr")
    return folder / "i.zarr"


SOURCES: dict[str, Callable[[Path], Any]] = {
    **{name: make for name, make in PLAIN.items() if name != "ndarray"},
    "Zarr group, one image with a place": image_group,
    "NetCDF-4 group with a place": lambda folder: netcdf(folder / "s.nc", "NETCDF4"),
    "its variable": variable,
    "NetCDF classic group with a place": lambda folder: netcdf(folder / "s.nc", "NETCDF3_CLASSIC"),
}
# The head of the column, the name, and options.
TARGETS: list[tuple[str, str, dict[str, Any]]] = [
    ("Zarr v3", "t.zarr", {}),
    ("Zarr v2", "t.zarr", {"zarr_format": 2}),
    (".zip", "t.zip", {}),
    (".tif", "t.tif", {}),
    (".h5", "t.h5", {}),
    (".nc", "t.nc", {}),
    (".npy", "t.npy", {}),
    ("{}.npy", "t_{}.npy", {"rows": 3}),
    ("{}.raw", "t_{}.raw", {}),
]


def targets_in(folder: Path) -> Path:
    """A folder of its own: the source may be many files with a manifest."""
    (folder / "targets").mkdir()
    return folder / "targets"


def arrays_in(node: ps.Array | ps.Group, path: str = "") -> dict[str, ps.Array]:
    if isinstance(node, ps.Array):
        return {path: node}
    return {inner: one for name in node for inner, one in arrays_in(node[name], f"{path}/{name}").items()}


def facts_of(node: ps.Array | ps.Group) -> set[str]:
    """The metadata of a node: whether it has units, dimension names, and georeferencing in EPSG:32633."""
    found = set()
    arrays = arrays_in(node)
    for one in arrays.values():
        names = [name for name in one.dimension_names or () if name is not None]
        if names and not isinstance(one, ps.TiffArray):  # TIFF's names are the same for all files
            found.add("dimensions")
        if one.attrs.get("units") == "K" or "K" in (getattr(one, "units", None) or ()):
            found.add("attributes")
        if getattr(one, "epsg", None) == 32633 or "32633" in str(one.attrs.get("crs_wkt", "")):
            found.add("place")
    return found


def seen(source: Any, at: Path, options: dict[str, Any]) -> str:
    """`refused` if the target does not exist afterwards; otherwise its kind, and the metadata copied to it."""
    node = ps.open(source) if isinstance(source, Path) else source
    before = sorted(os.listdir(at.parent))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            made = ps.convert(source, at, verify=True, **options)
        except (ps.Error, TypeError):
            assert sorted(os.listdir(at.parent)) == before
            return "refused"
        image = isinstance(node, ps.Array) and isinstance(made, ps.Group) and "band_data" in made
        got = made["band_data"][...] if image else made[...] if isinstance(made, ps.Array) else ps.load(at)
        wanted = node[...] if isinstance(node, ps.Array) else ps.load(source)
        if isinstance(made, ps.Array) and isinstance(node, ps.Group):
            wanted = wanted["band_data"]  # the image of a group
        for one, other in zip(leaves(got), leaves(wanted), strict=True):
            np.testing.assert_array_equal(np.squeeze(one), np.squeeze(other))
        with pytest.raises(ps.InvalidArgumentError, match="overwrite"):
            ps.convert(source, at, **options)
        ps.convert(source, at, overwrite=True, **options)
    facts = facts_of(node)
    if isinstance(node, ps.Array) and "grid_mapping" in node.attrs:
        facts.add("place")  # that of its group
    letters = [LETTERS[fact] for fact in sorted(facts & facts_of(made))]
    return " ".join(["array" if isinstance(made, ps.Array) else "group", *letters])


def rendered(cells: dict[tuple[str, str], str]) -> str:
    heads = [head for head, _, _ in TARGETS]
    lines = [f"| from | {' | '.join(f'`{head}`' if head[0] in '.{' else head for head in heads)} |"]
    lines.append("|---|" + "---|" * len(heads))
    for name in SOURCES:
        row = [cells[name, head] for head in heads]
        lines.append(f"| {name} | {' | '.join(row)} |")
    return "\n".join(lines) + "\n"


def cells_of(table: str) -> dict[tuple[str, str], str]:
    rows = [[cell.strip() for cell in line.strip("|\n").split("|")] for line in table.strip().splitlines()]
    heads = [head.strip("`") for head in rows[0][1:]]
    return {(row[0], head): cell for row in rows[2:] for head, cell in zip(heads, row[1:], strict=True)}


def table() -> str:
    return GUIDE.read_text().split(BEGIN)[1].split(END)[0]


@pytest.fixture(scope="module", autouse=True)
def written(tmp_path_factory: pytest.TempPathFactory) -> None:
    if not os.environ.get("PENSTOCK_WRITE_TABLES"):
        return
    cells = {}
    for name, make in SOURCES.items():
        for head, target, options in TARGETS:
            folder = tmp_path_factory.mktemp("pair")
            cells[name, head] = seen(make(folder), targets_in(folder) / target, options)
    before, rest = GUIDE.read_text().split(BEGIN)
    GUIDE.write_text(before + BEGIN + rendered(cells) + END + rest.split(END)[1])


@pytest.mark.skipif(not GUIDE.exists(), reason="no checkout")
@pytest.mark.parametrize(("head", "target", "options"), TARGETS, ids=[head for head, _, _ in TARGETS])
@pytest.mark.parametrize("name", SOURCES)
def test_each_pair_matches_its_cell(name: str, head: str, target: str, options: dict[str, Any], tmp_path: Path) -> None:
    if target in ("t.h5", "t.nc"):
        pytest.importorskip("h5py")
    assert seen(SOURCES[name](tmp_path), targets_in(tmp_path) / target, options) == cells_of(table())[name, head]


@pytest.mark.skipif(not GUIDE.exists(), reason="no checkout")
def test_the_table_has_these_pairs_and_no_others() -> None:
    cells = cells_of(table())
    assert set(cells) == {(name, head) for name in SOURCES for head, _, _ in TARGETS}
    assert table() == rendered(cells)
