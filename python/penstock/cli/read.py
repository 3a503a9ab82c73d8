"""`penstock read scene.tif --bounds ... -o out.png`: a window of an image as a picture."""

from __future__ import annotations

import argparse
import itertools
import json
import os
import signal
import struct
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock._core import held_nodata
from penstock.api.save import save
from penstock.cli import storage
from penstock.cli.output import fail, show, write_out
from penstock.cli.parser import Parser, at_least
from penstock.core.array import Array
from penstock.core.errors import (
    ConflictError,
    Error,
    InvalidArgumentError,
    PermissionDeniedError,
    StorageError,
)
from penstock.geo.masks import alpha_band
from penstock.geo.placed import meaning_of_image
from penstock.geo.tiff import TiffArray
from penstock.geo.window import RESAMPLINGS, read_window
from penstock.shards.names import sync_file
from penstock.target.sniff import format_by_name

_PICTURE = ".png"


def _is_picture(name: str) -> bool:
    return name.lower().endswith(_PICTURE) or format_by_name(name) == "tiff"


def asks_for_picture(arguments: list[str]) -> bool:
    """Whether an option is `--format png`."""
    return "--format=png" in arguments or ("--format", "png") in itertools.pairwise(arguments)


def takes(arguments: list[str]) -> bool:
    """Whether `penstock read` with these arguments writes a PNG or a TIFF, whose coordinate system PROJ can name.

    The C++ program does the rest, and also writes TIFFs if there is no Python.
    """
    if "--help" in arguments or "-h" in arguments:
        return False
    if asks_for_picture(arguments):
        return True
    names = {each.partition("=")[0] for each in arguments}
    outputs = [each.partition("=")[2] for each in arguments if each.startswith("--output=")]
    outputs += [after for each, after in itertools.pairwise(arguments) if each in ("-o", "--output")]
    return "--format" not in names and any(map(_is_picture, outputs))


def main(arguments: list[str]) -> int:
    """Run the verb; returns the exit status."""
    as_json = "--json" in arguments
    parser = Parser("read", add_help=False)
    parser.add_argument("target")
    parser.add_argument("selection", nargs="?")
    parser.add_argument("--bounds", nargs=4, type=float)
    parser.add_argument("--shape", nargs=2, type=at_least(1))
    parser.add_argument("--resampling", choices=RESAMPLINGS, default="nearest")
    parser.add_argument("-o", "--output", required=True)
    parser.add_argument("--threads", type=at_least(1))
    parser.add_argument("--format", choices=("png",))
    parser.add_argument("--force", action="store_true")
    parser.add_argument("--json", action="store_true")
    storage.add_flags(parser)
    try:
        given = parser.parse_args(_with_bounds_as_words(arguments))
        if given.selection is not None:
            message = (
                f"a window is chosen by --bounds, not by the selection '{given.selection}', which .npy and .bin take"
            )
            raise InvalidArgumentError(message)
        write = _writer_of(given.output, given.format)
        if given.output == "-" and given.json:
            raise InvalidArgumentError("--json and -o - both write to stdout")
        how = storage.options_of(given)
        if given.output != "-" and os.path.exists(given.output) and not given.force:
            raise ConflictError(f"'{given.output}' exists; --force replaces it")
    except Error as error:
        return fail(error, as_json, 2 if isinstance(error, InvalidArgumentError) else 1)
    try:
        a = storage.open_source(given.target, how)
        if not isinstance(a, Array):
            raise InvalidArgumentError(f"'{given.target}' is a group, not an array")
        values = read_window(a, given.bounds, given.shape, given.resampling, threads=given.threads)
        write(given.output, values, a, given)
        if as_json:
            facts = {"uri": a.uri, "bounds": given.bounds, "dtype": str(values.dtype), "shape": values.shape}
            show(json.dumps(facts | {"output": given.output}, indent=2))
    except Error as error:
        return fail(error, as_json)
    return 0


def _with_bounds_as_words(arguments: list[str]) -> list[str]:
    """Arguments for argparse: bounds may be one word with commas, and argparse would treat -1e5 as an option."""
    made: list[str] = []
    left = 0
    for given in arguments:
        each, _, value = given.partition("=") if given.startswith("--bounds=") else (given, "", "")
        if value:
            words = value.split(",")
            left = 4 - len(words)
            made += [each, *map(_as_number, words)]
            continue
        words = each.split(",") if left and not each.startswith("--") else [each]
        left = 4 if each == "--bounds" else max(left - len(words), 0) if not each.startswith("--") else 0
        made += words if len(words) == 1 and not each.startswith("-") else map(_as_number, words)
    return made


def _as_number(word: str) -> str:
    """The word with a blank before a number: argparse does not treat such an argument as an option."""
    try:
        return f" {float(word)!r}"
    except ValueError:
        return word


def _writer_of(
    name: str, format: str | None = None
) -> Callable[[str, npt.NDArray[Any], Array, argparse.Namespace], None]:
    if name.lower().endswith(_PICTURE) or format == "png":
        return lambda name, values, a, given: write(name, png(picture(values, a)))
    if format_by_name(name) == "tiff":
        return geotiff
    raise InvalidArgumentError(f"a picture is written to out.png or out.tif, not to '{name}'")


def geotiff(name: str, values: npt.NDArray[Any], a: Any, given: argparse.Namespace) -> None:
    """Make a Cloud Optimized GeoTIFF of `values`, which are a window of `a`."""
    transform, crs = getattr(a, "transform", None), getattr(a, "epsg", None)
    if transform is not None:
        transform = _transform(transform, a.shape[-2:], values.shape[-2:], given.bounds)
        crs = a.crs_wkt if crs is None else crs
    nodata = held_nodata(getattr(a, "nodata", None), values.dtype)
    facts = meaning_of_image(a) if isinstance(a, TiffArray) else {}
    save(name, values, crs=crs, transform=transform, nodata=nodata, mask=_mask(a, given), **facts)


def _mask(a: Any, given: argparse.Namespace) -> npt.NDArray[Any] | None:
    """Of the window: not 0 if one of the source pixels is valid. None: the image has no mask that all bands share."""
    if not isinstance(a, TiffArray) or not a.has_mask or a._is_mask:
        return None
    mask = a._image(mask=True)
    if mask.shape[0] != 1:
        return None
    valid = read_window(mask, given.bounds, given.shape, given.resampling, nodata=0, fill_value=0)
    return valid.reshape(valid.shape[1:])


def _transform(of: Sequence[float], size: Sequence[int], shape: Sequence[int], bounds: Any) -> tuple[float, ...]:
    """The transform of `shape` pixels that fill the bounds, or the whole image."""
    rows, columns = shape
    if bounds is None:
        x, y = size[1] / columns, size[0] / rows
        return of[0] * x, of[1] * y, of[2], of[3] * x, of[4] * y, of[5]
    left, bottom, right, top = bounds
    x, x_end = sorted((left, right), reverse=of[0] < 0)
    y, y_end = sorted((bottom, top), reverse=of[4] < 0)
    return (x_end - x) / columns, 0.0, x, 0.0, (y_end - y) / rows, y


def picture(values: npt.NDArray[Any], a: Array) -> npt.NDArray[np.uint8]:
    """Return the pixels of a PNG of values read from `a`: in its colours if it is a TIFF."""
    if not values.size:
        raise InvalidArgumentError(f"a picture of the shape {values.shape} has no pixels", f"array '{a.uri}'")
    nodata = getattr(a, "nodata", None)
    if not isinstance(a, TiffArray):
        return to_pixels(values, nodata)
    colors = a.colormap
    if a.photometric == "palette" and colors is not None and len(values) == 1 and values.dtype.kind == "u":
        indexes = np.minimum(values[0], len(colors) - 1)
        return np.ascontiguousarray((colors >> 8).astype(np.uint8)[indexes])
    bits = a._integer("BitsPerSample", 8)
    if values.dtype == np.uint8 and bits < 8:  # 0 to 1, 3, 15: black to white
        values = values * np.uint8(255 // ((1 << bits) - 1))
    made = to_pixels(values, nodata, has_alpha=alpha_band(a) == a._bands[-1])
    if a.photometric == "miniswhite":
        gray = made if made.ndim == 2 else made[..., 0]
        gray[...] = 255 - gray
    return made


def to_pixels(
    values: npt.NDArray[Any], nodata: float | None = None, *, has_alpha: bool = False
) -> npt.NDArray[np.uint8]:
    """(bands, y, x) as a picture: the first band (y, x), or the first three (y, x, 3).

    The last of two or four bands is opacity if `has_alpha`, which adds a band to the picture. Bytes are unchanged.
    Other types are stretched from the 2nd to the 98th percentile of the values that are neither nodata nor wholly
    transparent (nodata becomes black), all bands in the same way; opacity is scaled from its type's range.
    """
    values = values.reshape(-1, *values.shape[-2:])
    opacity = values[-1] if has_alpha and len(values) in (2, 4) else None
    values = values[: 1 if len(values) < 3 else 3]
    if values.dtype != np.uint8:
        numbers = values.real.astype(np.float64)
        known = np.isfinite(numbers)
        if nodata is not None:
            known &= values != nodata
        if opacity is not None:
            known &= opacity != 0
            opacity = (opacity / np.iinfo(opacity.dtype).max if opacity.dtype.kind in "iu" else opacity).real
            opacity = np.clip(opacity * 255, 0, 255).astype(np.uint8)
        low, high = np.percentile(numbers[known], (2, 98)) if known.any() else (0.0, 1.0)
        scaled = (numbers - low) * (255 / (high - low if high > low else 1.0))
        values = np.where(known, np.clip(scaled, 0, 255), 0).astype(np.uint8)
    if opacity is not None:
        values = np.concatenate([values, opacity[None]])
    return np.array(values[0] if len(values) == 1 else np.moveaxis(values, 0, -1), order="C")


def png(pixels: npt.NDArray[np.uint8]) -> bytes:
    """A PNG of bytes (y, x), or (y, x, 2 to 4): gray or colours, and opacity. Source: RFC 2083."""
    rows, columns = pixels.shape[:2]
    color = {1: 0, 2: 4, 3: 2, 4: 6}[1 if pixels.ndim == 2 else pixels.shape[2]]
    lines = pixels.reshape(rows, -1)
    filtered = np.empty((rows, 1 + lines.shape[1]), np.uint8)
    filtered[:, 0] = 2  # each line as its difference from the line above
    filtered[:, 1:] = np.diff(lines, axis=0, prepend=np.zeros((1, lines.shape[1]), np.uint8))

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", columns, rows, 8, color, 0, 0, 0)
    body = zlib.compress(filtered.tobytes(), 6)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


def write(name: str, data: bytes) -> None:
    """Write completely or not at all; "-" is standard output. Pipes and devices are written to directly.

    Raises
    ------
    SystemExit
        The reader of a pipe has closed it: the status of the C++ verbs.
    StorageError, PermissionDeniedError
        The file cannot be written.
    """
    if name == "-":
        return write_out(data)
    try:
        if os.path.exists(name) and not os.path.isfile(name) and not os.path.isdir(name):
            with open(name, "wb") as device:
                device.write(data)
        else:
            _replace(os.path.realpath(name), data)  # a link stays a link
    except BrokenPipeError:
        raise SystemExit(128 + signal.SIGPIPE) from None
    except OSError as error:
        kind = PermissionDeniedError if isinstance(error, PermissionError) else StorageError
        raise kind(f"cannot write '{name}': {error.strerror}") from error


def _replace(name: str, data: bytes) -> None:
    part_file = f"{name}.{os.getpid()}.part"
    try:
        with open(part_file, "wb") as file:
            file.write(data)
            sync_file(file)
        os.replace(part_file, name)
    finally:
        if os.path.exists(part_file):
            os.remove(part_file)
