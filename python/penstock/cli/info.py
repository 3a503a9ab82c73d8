"""What a TIFF is, in the words of `rio cogeo info`, and whether it is a valid COG: `penstock info scene.tif`."""

from __future__ import annotations

import itertools
import json
import os
import re
import sys
from typing import Any

from penstock.api.open import open as open_array
from penstock.core.errors import CorruptDataError, Error
from penstock.geo.masks import alpha_band
from penstock.geo.tiff import TiffArray

_ENDINGS = (".tif", ".tiff", ".btf", ".tf8", ".gtiff", ".gtif")
_GHOST_BYTES = 300  # a header, and what GDAL writes behind it
_LARGE = 512  # pixels: from here on tiles and overviews are due
_COLORS = {
    "rgb": ("red", "green", "blue"),
    "ycbcr": ("red", "green", "blue"),
    "palette": ("palette",),
    "separated": ("cyan", "magenta", "yellow", "black"),
}


def is_tiff_name(target: str) -> bool:
    """Whether `penstock info` takes it for a TIFF."""
    name = target.rstrip("/")
    if name.lower().endswith(_ENDINGS):
        return True
    path = name.removeprefix("file://").removeprefix("file:")
    if not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        return file.read(4) in (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")


def report(target: str) -> dict[str, Any]:
    """The facts of the file's first image, as one JSON document."""
    a = open_array(target)
    if not isinstance(a, TiffArray):
        raise TypeError(f"{target!r} is no TIFF")
    levels = [a, *_levels(a, target)]
    errors, warnings = _judge(a, levels)
    alpha = alpha_band(a) is not None
    crs = a.crs
    return {
        "kind": "array",
        "uri": a.uri,
        "format": a.format,
        "dtype": str(a.dtype),
        "shape": list(a.shape),
        "chunks": list(a.chunks),
        "Path": target,
        "Driver": "GTiff",
        "COG": not errors,
        "COG_errors": errors,
        "COG_warnings": warnings,
        "Compression": a.compression.upper() if a.compression != "none" else None,
        "ColorSpace": "YCbCr" if a.photometric == "ycbcr" else None,
        "Profile": {
            "Width": a.shape[2],
            "Height": a.shape[1],
            "Bands": a.shape[0],
            "Tiled": a.tiled,
            "Dtype": str(a.dtype),
            "NoData": a.nodata,
            "AlphaBand": alpha,
            "InternalMask": a.has_mask,
            "Interleave": a.interleave.upper(),
            "ColorMap": a.colormap is not None,
            "ColorInterp": tuple(a._meaning.colors()),
            "Scales": a.scales,
            "Offsets": a.offsets,
        },
        "GEO": {
            "CRS": None if crs is None else f"EPSG:{a.epsg}" if a.epsg else a.crs_wkt,
            "Origin": None if a.transform is None else (a.transform[2], a.transform[5]),
            "Resolution": None if a.transform is None else (a.transform[0], a.transform[4]),
            "BoundingBox": a.bounds,
        },
        "Tags": {"Image Metadata": dict(a.attrs), "Image Structure": _structure(a)},
        "Band Metadata": {
            f"Band {i + 1}": {"Description": name, "ColorInterp": color, "Unit": unit, "Metadata": items}
            for i, (name, color, unit, items) in enumerate(
                zip(a.descriptions, tuple(a._meaning.colors()), a.units, a.band_metadata, strict=True)
            )
        },
        "IFD": [
            {
                "Level": i,
                "Width": level.shape[2],
                "Height": level.shape[1],
                "Blocksize": list(level.chunks[:0:-1]),
                "Decimation": round(a.shape[2] / level.shape[2]) if i else 0,
                "Offset": level._details.directory_offset,
            }
            for i, level in enumerate(levels)
        ],
    }


def _levels(a: TiffArray, target: str) -> list[TiffArray]:
    return [open_array(target, level=i + 1) for i in range(len(a.overviews))]  # type: ignore[misc]


def _structure(a: TiffArray) -> dict[str, str]:
    made = {"COMPRESSION": a.compression.upper(), "INTERLEAVE": a.interleave.upper()}
    if a.tags.get("Predictor", 1) != 1:
        made["PREDICTOR"] = str(a.tags["Predictor"])
    if a.structure.get("LAYOUT") == "IFDS_BEFORE_DATA":
        made["LAYOUT"] = "COG"
    return made


def _first_data(a: TiffArray) -> int | None:
    """Where the first tile lies that is not absent, of the first some; None where none of them is there."""
    steps = [range(0, size, step) for size, step in zip(a.shape, a.chunks, strict=True)]
    for corner in itertools.islice(itertools.product(*steps), 256):
        plan = str(a.plan(tuple(slice(at, at + 1) for at in corner)))
        found = re.search(r"^fetch .*bytes \[(\d+), ", plan, re.MULTILINE)
        if found:
            return int(found[1])
    return None


def _judge(a: TiffArray, levels: list[TiffArray]) -> tuple[list[str], list[str]]:
    """Errors and warnings by the rules of GDAL's validate_cloud_optimized_geotiff, as rio-cogeo applies them."""
    errors, warnings = [], []
    beside = len(levels) > 1 and bool(levels[1]._details.side_file)
    if beside:
        errors.append("The overviews are in a file beside this one; they should be within it")
    if max(a.shape[1:]) > _LARGE:
        if not a.tiled:
            errors.append(f"It is larger than {_LARGE} pixels and not tiled")
        if len(levels) == 1:
            warnings.append(f"It is larger than {_LARGE} pixels and has no overviews")
    places = [level._details.directory_offset for level in levels]
    if places[0] > _GHOST_BYTES:
        errors.append(f"The main directory should stand in the first {_GHOST_BYTES} bytes; it is at {places[0]}")
    if a.structure.get("KNOWN_INCOMPATIBLE_EDITION") == "YES":
        errors.append("It was edited after it was made, which undid the order of its parts")
    if beside:
        return errors, warnings
    for i, (before, after) in enumerate(itertools.pairwise(places)):
        if after < before:
            errors.append(
                f"The directory of overview {i} is at {after}, before that of the next larger image ({before})"
            )
    try:
        data = [at for at in map(_first_data, levels) if at is not None]
    except CorruptDataError as error:
        return [*errors, f"Tiles are damaged: {error.message}"], warnings
    if data and data[-1] < places[-1]:
        errors.append("The first tile of the smallest image stands before its directory")
    for i, (larger, smaller) in enumerate(itertools.pairwise(data)):
        if larger < smaller:
            errors.append(f"The tiles of overview {i} should stand before those of the next larger image")
    errors += [
        f"Overview {i} is not tiled"
        for i, level in enumerate(levels[1:])
        if max(level.shape[1:]) > _LARGE and not level.tiled
    ]
    return errors, warnings


def text(facts: dict[str, Any]) -> str:
    """The document for people."""
    profile, geo = facts["Profile"], facts["GEO"]
    lines = [f"{name}: {facts[key]}" for name, key in
             (("Driver", "Driver"), ("File", "Path"), ("COG", "COG"), ("Compression", "Compression"),
              ("ColorSpace", "ColorSpace"))]  # fmt: skip
    spaced = {"AlphaBand": "Alpha Band", "InternalMask": "Internal Mask", "CRS": "Crs"}
    for title, section in (("Profile", profile), ("Geo", geo)):
        lines += ["", title]
        lines += [f"    {spaced.get(name, name) + ':':<17} {value}" for name, value in section.items()]
    for title, section in facts["Tags"].items():
        lines += ["", title, *(f"    {name}: {value}" for name, value in section.items())]
    for title, band in facts["Band Metadata"].items():
        about = [f"    {name}: {value}" for name, value in band.items() if value and name != "Metadata"]
        about += [f"    {name}: {value}" for name, value in band["Metadata"].items()]
        if len(about) > 1:
            lines += ["", title, *about]
    lines += ["", "IFD", f"    {'Id':<7} {'Size':<14} {'BlockSize':<14} Decimation"]
    for each in facts["IFD"]:
        size, block = f"{each['Width']}x{each['Height']}", "x".join(map(str, each["Blocksize"]))
        lines.append(f"    {each['Level']:<7} {size:<14} {block:<14} {each['Decimation']}")
    found = [f"    - WARNING {each}" for each in facts["COG_warnings"]]
    found += [f"    - ERROR   {each}" for each in facts["COG_errors"]]
    if found:
        lines += ["", "COG Validation info", *found]
    return "\n".join(lines) + "\n"


def fail(error: Error, as_json: bool, status: int = 1) -> int:
    """Reports an error as the program does."""
    if as_json:
        document = {"code": error.code, "message": error.message, "notes": list(error.notes)}
        print(json.dumps({"error": document}, indent=2))
    else:
        print(f"penstock: {error}", file=sys.stderr)
    return status


def main(arguments: list[str]) -> int:
    """`penstock info TARGET [--json]` for a TIFF; returns the exit status."""
    as_json = "--json" in arguments
    (target,) = [each for each in arguments if each != "--json"]
    try:
        facts = report(target)
    except Error as error:
        return fail(error, as_json)
    sys.stdout.write(json.dumps(facts, indent=2) + "\n" if as_json else text(facts))
    return 0
