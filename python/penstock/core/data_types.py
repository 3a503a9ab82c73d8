"""Converts dtypes, fill values, chunks and codecs of users to the JSON that the engine takes."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

import numpy as np
import numpy.typing as npt

from penstock import _core
from penstock.core.errors import InvalidArgumentError

#: Types that NumPy has no letters for: Zarr names them.
NAMED_TYPES = tuple(_core.numbers_without_numpy_type())
_SHORT_INTEGERS = ("int2", "int4", "uint2", "uint4")
_TEXT = ("string", "str")
_BYTES = ("bytes", "variable_length_bytes")


def torch_as_name(dtype: Any) -> Any:
    """A dtype of PyTorch as its name, which NumPy or ml_dtypes has; others unchanged."""
    return str(dtype).rpartition(".")[2] if type(dtype).__module__ == "torch" else dtype


def cast(values: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """`values` with that dtype, cast as in NumPy's assignment; the array itself if it has the dtype.

    NumPy's `astype` does not swap the bytes of times without a unit, and turns times with one into NaT.
    """
    if values.dtype == dtype:
        return values
    if not is_unitless(dtype):
        return values.astype(dtype)
    if values.dtype.kind == dtype.kind and is_unitless(values.dtype):
        return values.byteswap().view(dtype)
    made = np.empty(values.shape, dtype)
    made[...] = values
    return made


def is_masked_array(values: object) -> TypeGuard[np.ma.MaskedArray[Any, Any]]:
    """Whether these are an array of `numpy.ma`. Its import takes tens of milliseconds: it is imported if one exists."""
    return type(values) is not np.ndarray and "numpy.ma" in sys.modules and isinstance(values, np.ma.MaskedArray)


def is_masked(values: np.ma.MaskedArray[Any, Any]) -> bool:
    """Whether elements are masked, or fields of them: `numpy.ma.is_masked` does not take the masks of structures."""
    mask = np.ma.getmask(values)
    return mask is not np.ma.nomask and bool(np.ascontiguousarray(mask).view(np.bool_).any())


def as_ndarray(values: Any, dtype: npt.DTypeLike | None = None) -> npt.NDArray[Any]:
    """As `numpy.asanyarray`, which drops the masks of Dask's arrays."""
    graph = getattr(values, "__dask_graph__", None)
    if graph is not None and graph() is not None:
        # Of xarray's DataArray that is its Dask array: its own `compute` exchanges masked elements for NaN.
        values = getattr(values, "data", values).compute()
    return np.asanyarray(values, dtype)


def unmasked(values: Any) -> Any:
    """The elements of an array of a subclass of ndarray as an ndarray; other values unchanged.

    Raises
    ------
    InvalidArgumentError
        Elements are masked: arrays store no mask.
    """
    if not isinstance(values, np.ndarray):
        return values
    if is_masked_array(values) and is_masked(values):
        raise InvalidArgumentError("the value has masked elements: write value.filled(x)")
    return np.asarray(values)


_FIRST_FOREIGN = 256  # numbers of dtypes that other packages registered begin here


def with_buffer(items: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The same memory as an array that can be exported: dates and dtypes that are not NumPy's own cannot. Text is
    unchanged.
    """
    if items.dtype.kind in "OT":
        return items
    if items.dtype.kind in "mM" or items.dtype.num >= _FIRST_FOREIGN:
        return items.view(f"V{items.dtype.itemsize}")
    return items


def is_unitless(dtype: np.dtype[Any]) -> bool:
    """Times and durations without a unit."""
    return dtype.kind in "mM" and np.datetime_data(dtype)[0] == "generic"


def dtype_json(dtype: Any, zarr_format: int) -> Any:
    """The data type as JSON: a Zarr v3 name or object, or NumPy's type string or list of fields."""
    dtype = torch_as_name(dtype)
    if isinstance(dtype, dict):
        return dtype
    if dtype is str or (isinstance(dtype, str) and dtype in _TEXT):
        return "string"
    if dtype is bytes or (isinstance(dtype, str) and dtype in _BYTES):
        return "bytes"
    if hasattr(dtype, "to_json") and hasattr(dtype, "to_native_dtype"):  # zarr.core.dtype
        described = dtype.to_json(zarr_format=3)
        return "bytes" if described in _BYTES else described
    if isinstance(dtype, str) and (dtype in NAMED_TYPES or dtype.startswith("complex_")):
        return dtype
    if isinstance(dtype, str) and dtype[:1] == "r" and dtype[1:].isdigit():
        return dtype
    return _numpy_json(np.dtype(dtype), zarr_format)


def _numpy_json(dtype: np.dtype[Any], zarr_format: int) -> Any:
    if dtype.names is not None:
        fields: Mapping[str, Any] = dtype.fields or {}
        return [_field(name, fields[name][0], zarr_format) for name in dtype.names]
    if dtype.kind == "T" or dtype.kind == "O":
        return "string"
    if dtype.name in NAMED_TYPES:
        return dtype.name
    if zarr_format == 3 and dtype.byteorder == ">":
        dtype = dtype.newbyteorder("<")  # the codec `bytes` has the byte order of stored items
    return dtype.str


def _field(name: str, dtype: np.dtype[Any], zarr_format: int) -> list[Any]:
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        return [name, _numpy_json(base, zarr_format), list(shape)]
    return [name, _numpy_json(dtype, zarr_format)]


def fill_options(fill: Any, dtype: Any) -> dict[str, Any]:
    """The fill value: JSON for types of variable length and those that only have names, otherwise an item's bytes."""
    if fill is None:
        return {}
    if dtype == "string":
        return {"fill_value": json.dumps(str(fill))}
    if dtype == "bytes":
        value = fill.encode() if isinstance(fill, str) else bytes(fill)
        return {"fill_value": json.dumps(base64.b64encode(value).decode())}
    native = native_dtype(dtype)
    if native is None:
        plain = fill if isinstance(fill, str | list) else np.asarray(fill).tolist()
        if isinstance(plain, bytes | bytearray):  # of types that only have a number of bytes, such as r24
            plain = base64.b64encode(plain).decode()
        return {"fill_value": json.dumps(plain)}
    try:
        if native.names is not None and isinstance(fill, Mapping):
            fill = tuple(fill[name] for name in native.names)
        if type(fill) is np.ndarray and not fill.ndim:
            fill = fill[()]  # an array of other integers would wrap
        item = np.zeros((), native)
        if native.names is None or isinstance(fill, np.void) or not np.isscalar(fill) or fill != 0:
            item[()] = fill
        is_integer = native.kind in "iu" or native.name in _SHORT_INTEGERS
        if is_integer and isinstance(fill, int | float | np.floating | np.integer) and int(item) != fill:
            why = "is out of bounds" if isinstance(fill, int | np.integer) else "is not an integer"
            raise ValueError(f"{fill!r} {why}")
        if isinstance(fill, str | bytes) and issubclass(native.type, np.character | np.void) and native.names is None:
            most = native.itemsize // np.dtype("U1").itemsize if native.kind == "U" else native.itemsize
            if len(fill) > most:
                raise ValueError(f"it is longer than {most}")
    except (TypeError, ValueError, OverflowError, KeyError, np.ma.MaskError) as error:
        raise InvalidArgumentError(f"fill_value {fill!r} does not fit dtype {native}: {error}") from error
    if dtype in ("int2", "int4"):  # ml_dtypes leaves the sign out of the byte's upper bits
        return {"fill_value": json.dumps(int(item))}
    return {"fill_bytes": item.tobytes()}


def native_dtype(described: Any) -> np.dtype[Any] | None:
    """NumPy's dtype in native byte order for a result of `dtype_json`; None if NumPy itself has none."""
    if isinstance(described, list):
        return np.dtype([_native_field(field) for field in described])
    if isinstance(described, str) and described[:1] in "<>|=":
        return np.dtype(described).newbyteorder("=")
    if described == "bytes":  # NumPy's type of that name has a fixed length
        return None
    if isinstance(described, str) and described not in NAMED_TYPES:
        try:
            return np.dtype(described)
        except TypeError:
            return None
    if isinstance(described, str) and described in NAMED_TYPES:
        try:
            import ml_dtypes
        except ImportError:
            return None
        named: np.dtype[Any] = np.dtype(getattr(ml_dtypes, described))
        return named
    if isinstance(described, dict):
        try:
            return _native_named(described.get("name"), described.get("configuration") or {})
        except (AttributeError, KeyError, TypeError, ValueError):
            return None  # the engine refuses it, and names the member
    return None


def _native_named(name: Any, settings: Mapping[str, Any]) -> np.dtype[Any] | None:
    """NumPy's dtype for a data type of Zarr v3 that has settings."""
    if name in ("numpy.datetime64", "numpy.timedelta64"):
        letter, unit = "M8" if name == "numpy.datetime64" else "m8", settings.get("unit", "generic")
        scale = settings.get("scale_factor", 1)
        return np.dtype(letter if unit == "generic" else f"{letter}[{scale}{unit}]")
    if name == "fixed_length_utf32":
        return np.dtype(f"U{settings['length_bytes'] // 4}")
    if name == "null_terminated_bytes":
        return np.dtype(f"S{settings['length_bytes']}")
    if name in ("struct", "structured"):
        fields: list[Any] = []
        for each in settings["fields"]:
            field, inner = (each["name"], each["data_type"]) if isinstance(each, Mapping) else each
            fields.append((field, native_dtype(inner)))
        return None if any(native is None for _, native in fields) else np.dtype(fields)
    return None


def _native_field(field: Sequence[Any]) -> tuple[Any, ...]:
    base = native_dtype(field[1])
    if base is None:
        raise InvalidArgumentError(f"field {field[0]!r} has no NumPy dtype")
    return (field[0], base, tuple(field[2])) if len(field) == 3 else (field[0], base)


def named_codec(text: str) -> dict[str, Any]:
    """The metadata of a codec that is given by name: "zstd", or "zstd:5" with its level."""
    name, colon, level = text.partition(":")
    if not colon:
        return {"name": name}
    if not level.lstrip("-").isdecimal():
        raise InvalidArgumentError(f"a codec's name is such as 'zstd' or 'zstd:5', with its level, got {text!r}")
    extra = {"checksum": False} if name == "zstd" else {}
    return {"name": name, "configuration": {"level": int(level), **extra}}


def codec_json(codec: Any, zarr_format: int) -> Any:
    """One codec as in the metadata of that format: from a name, JSON of either format, or a codec object."""
    if hasattr(codec, "to_dict"):
        codec = json.loads(json.dumps(codec.to_dict(), default=lambda value: getattr(value, "value", str(value))))
    elif hasattr(codec, "get_config"):
        codec = codec.get_config()
    elif isinstance(codec, str):
        codec = named_codec(codec)
        if zarr_format == 2:
            codec = {"id": codec["name"], **codec.get("configuration", {})}
            codec.pop("checksum", None)
    if not isinstance(codec, Mapping) or not ("name" in codec or "id" in codec):
        raise InvalidArgumentError(f"codecs: {codec!r} is not a codec: neither a name, JSON nor a codec object")
    if zarr_format == 3:
        return dict(codec) if "name" in codec else _to_v3(codec)
    return dict(codec) if "id" in codec else _to_v2(codec)


def _to_v3(codec: Mapping[str, Any]) -> dict[str, Any]:
    """numcodecs' configuration under the names of version 3."""
    settings = {name: _plain(value) for name, value in codec.items() if name != "id"}
    if codec["id"] in ("zstd", "gzip") and set(settings) <= {"level", "checksum"}:
        extra = {"checksum": False} if codec["id"] == "zstd" else {}
        return {"name": codec["id"], "configuration": {**extra, **settings}}
    if codec["id"] in ("vlen-utf8", "vlen-bytes", "crc32c"):
        return {"name": codec["id"]}
    return {"name": f"numcodecs.{codec['id']}", "configuration": settings}


def _to_v2(codec: Mapping[str, Any]) -> dict[str, Any]:
    name = str(codec["name"])
    settings = dict(codec.get("configuration") or {})
    if name == "blosc":
        shuffles = {"noshuffle": 0, "shuffle": 1, "bitshuffle": 2}
        settings["shuffle"] = shuffles.get(settings.get("shuffle", "shuffle"), 1)
        settings.pop("typesize", None)
    return {"id": name.removeprefix("numcodecs."), **settings}


def _plain(value: Any) -> Any:
    return value.str if isinstance(value, np.dtype) else value.tolist() if isinstance(value, np.generic) else value
