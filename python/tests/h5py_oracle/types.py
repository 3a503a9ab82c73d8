"""HDF5's element types and attributes, as Zarr metadata writes them. Works on h5py's objects."""

from __future__ import annotations

import base64
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from penstock.core.errors import CorruptDataError, Error, UnsupportedError
from penstock.hdf5.types import NoArrayError, as_text, netcdf_value, numpy_dtype

from h5py_oracle.links import is_scale

# (sign bit, position and size of the exponent, of the mantissa, bias) of the floats that are read without conversion.
_FLOATS = {
    (2, (15, 10, 5, 0, 10), 15): "f2",
    (4, (31, 23, 8, 0, 23), 127): "f4",
    (8, (63, 52, 11, 0, 52), 1023): "f8",
    (2, (15, 7, 8, 0, 7), 127): "bfloat16",
}
if np.finfo(np.longdouble).nmant == 63:  # x87's
    _FLOATS[16, (79, 64, 15, 0, 64), 16383] = "f16"

_MOST_TEXTS = 1000

HIDDEN = frozenset(
    ["DIMENSION_LIST", "REFERENCE_LIST", "_Netcdf4Dimid", "_Netcdf4Coordinates", "_NCProperties", "_nc3_strict"]
)
HIDDEN_OF_SCALES = HIDDEN | {"CLASS", "NAME"}


@dataclass
class StoredType:
    """An element type of a file."""

    dtype: Any  # as .zarray writes it: a type string or a list of fields
    shape: tuple[int, ...] = ()  # further axes, of H5T_ARRAY
    bits: dict[str, Any] | None = None  # the codec that converts these bits to whole integers
    texts: tuple[tuple[int, int, int, int], ...] = ()  # (offset, count, size, padded with spaces) of text in an item
    variable: bool = False  # text of variable length, which only h5py can read

    @property
    def numpy(self) -> np.dtype[Any]:
        return np.dtype("<u2") if self.dtype == "bfloat16" else numpy_dtype(self.dtype)

    @property
    def codecs(self) -> list[dict[str, Any]]:
        """The codecs that convert stored items to NumPy's, as filters of .zarray."""
        if self.bits is not None:
            return [self.bits]
        if not self.texts:
            return []
        return [
            {"id": "hdf5.string", "elementsize": self.numpy.itemsize, "fields": [list(each) for each in self.texts]}
        ]


def _refuse(what: str) -> Error:
    return NoArrayError(f"HDF5 elements of {what} are not readable")


def _order(tid: Any, h5t: Any) -> str:
    return {h5t.ORDER_LE: "<", h5t.ORDER_BE: ">"}.get(tid.get_order(), "vax")


def _integer(tid: Any, h5t: Any) -> StoredType:
    size = tid.get_size()
    signed = tid.get_class() == h5t.INTEGER and tid.get_sign() == h5t.SGN_2
    if size not in (1, 2, 4, 8):
        precision = tid.get_precision() if tid.get_class() == h5t.INTEGER else 8 * size
        if size > 16 or precision > 64:
            raise _refuse(f"integers of {precision} bits in {size} bytes")
        to = 4 if precision <= 32 else 8
        offset = tid.get_offset() if tid.get_class() == h5t.INTEGER else 0
        bits = {"id": "hdf5.number", "kind": "integer", "elementsize": size, "to": to}
        bits["endian"] = "big" if _order(tid, h5t) == ">" else "little"
        bits |= {"precision": precision, "offset": offset, "signed": signed}
        return StoredType(f"<{'i' if signed else 'u'}{to}", bits=bits)
    dtype = f"{'|' if size == 1 else _order(tid, h5t)}{'i' if signed else 'u'}{size}"
    if tid.get_class() != h5t.INTEGER:  # h5py does not report which bits of a bit field are used, and reads all
        return StoredType(dtype)
    precision, offset = tid.get_precision(), tid.get_offset()
    if precision == 8 * size and offset == 0:
        return StoredType(dtype)
    bits = {"id": "hdf5.bits", "elementsize": size, "precision": precision, "offset": offset, "signed": signed}
    return StoredType(dtype, bits={**bits, "endian": "big" if dtype[0] == ">" else "little"})


def _float(tid: Any, h5t: Any) -> StoredType:
    known = _FLOATS.get((tid.get_size(), tuple(tid.get_fields()), tid.get_ebias()))
    whole = tid.get_precision() == 8 * tid.get_size() and tid.get_offset() == 0
    order = _order(tid, h5t)
    usual = known is not None and whole and tid.get_norm() == h5t.NORM_IMPLIED
    if known == "f16" and order == "<" and tid.get_norm() != h5t.NORM_IMPLIED:
        return StoredType("<f16")
    sign, exponent, exponent_bits, mantissa, mantissa_bits = tid.get_fields()
    fits = tid.get_size() <= 16 and tid.get_offset() == 0 and 1 <= exponent_bits <= 11 and mantissa_bits <= 52
    if fits and (not usual or order == "vax" or (known == "bfloat16" and order == ">")):
        to = 4 if mantissa_bits <= 23 and exponent_bits <= 8 and order != "vax" else 8
        bits = {"id": "hdf5.number", "kind": "float", "elementsize": tid.get_size(), "to": to}
        bits |= {"endian": {"<": "little", ">": "big"}.get(order, order), "sign": sign, "exponent": exponent}
        bits |= {"exponent_bits": exponent_bits, "mantissa": mantissa, "mantissa_bits": mantissa_bits}
        bits |= {"bias": tid.get_ebias(), "implied": tid.get_norm() == h5t.NORM_IMPLIED}
        return StoredType(f"<f{to}", bits=bits)
    if not usual or order == "vax":
        if tid.get_fields() == (127, 112, 15, 0, 112) and tid.get_ebias() == 16383:
            raise _refuse("IEEE binary128 (floats of 128 bits)")
        vax = "VAX " if order == "vax" else ""
        raise _refuse(f"{vax}floats of {tid.get_precision()} bits with fields {tuple(tid.get_fields())}")
    if known == "bfloat16":
        return StoredType(known)
    return StoredType(order + known)


def _enum(tid: Any, h5t: Any) -> StoredType:
    base = stored_type(tid.get_super())
    names = {tid.get_member_name(i): tid.get_member_value(i) for i in range(tid.get_nmembers())}
    if tid.get_size() == 1 and names == {b"FALSE": 0, b"TRUE": 1} and base.bits is None:
        return StoredType("|b1")
    return base


def _compound(tid: Any, h5t: Any) -> StoredType:
    size = tid.get_size()
    members = sorted(
        (tid.get_member_offset(i), tid.get_member_name(i).decode("utf-8", "backslashreplace"), tid.get_member_type(i))
        for i in range(tid.get_nmembers())
    )
    if [name for _, name, _ in members] == ["r", "i"]:
        parts = [stored_type(member) for _, _, member in members]
        half = parts[0].dtype
        whole = isinstance(half, str) and half[1:] in ("f4", "f8") and parts[1] == parts[0]
        if whole and size == 2 * int(half[2:]) and members[1][0] == size // 2:
            return StoredType(f"{half[0]}c{size}")
    fields: list[list[Any]] = []
    texts: list[tuple[int, int, int, int]] = []
    at = 0
    for offset, name, member in members:
        try:
            stored = stored_type(member)
        except UnsupportedError as error:
            raise type(error)(f"{error.message} (member '{name}' of a compound)") from None
        if stored.bits is not None or stored.variable:
            why = "is a reference, of variable length or has unused bits"
            raise _refuse(f"a compound whose member '{name}' {why}")
        one = stored.numpy.itemsize
        count = math.prod(stored.shape)
        if len(stored.texts) * count > _MOST_TEXTS:
            raise _refuse(f"a compound whose member '{name}' has {len(stored.texts) * count} texts")
        if stored.texts and stored.texts == ((0, 1, one, stored.texts[0][3]),):
            texts.append((offset, count, one, stored.texts[0][3]))
        else:
            texts += [
                (offset + i * one + o, c, s, p)
                for i in range(count if stored.texts else 0)
                for o, c, s, p in stored.texts
            ]
        if offset > at:
            fields.append(["", f"|V{offset - at}"])
        fields.append([name, stored.dtype, list(stored.shape)] if stored.shape else [name, stored.dtype])
        at = offset + member.get_size()
    if at < size:
        fields.append(["", f"|V{size - at}"])
    return StoredType(fields, texts=tuple(texts))


def _opaque(tid: Any) -> StoredType:
    """Bytes, or the NumPy type in h5py's tag (`NUMPY:<M8[s]`): HDF5's own types have no unit of time."""
    tag, size = tid.get_tag(), tid.get_size()
    if tag.startswith(b"NUMPY:"):
        try:
            tagged = np.dtype(tag[6:].decode("ascii"))
        except (TypeError, ValueError, UnicodeDecodeError, SyntaxError):
            return StoredType(f"|V{size}")
        if tagged.kind in "mM" and tagged.itemsize == size and np.datetime_data(tagged)[0] != "generic":
            return StoredType(tagged.str)
    return StoredType(f"|V{size}")


def stored_type(tid: Any) -> StoredType:
    """The element type of an HDF5 type. Raises `UnsupportedError` that names the unsupported part."""
    from h5py import h5t

    kind = tid.get_class()
    if kind == h5t.INTEGER or kind == h5t.BITFIELD:
        return _integer(tid, h5t)
    if kind == h5t.FLOAT:
        return _float(tid, h5t)
    if kind == h5t.ENUM:
        return _enum(tid, h5t)
    if kind == h5t.COMPOUND:
        return _compound(tid, h5t)
    if kind == getattr(h5t, "COMPLEX", -100):
        half = stored_type(tid.get_super())
        if half.dtype[1:] in ("f4", "f8"):
            return StoredType(f"{half.dtype[0]}c{tid.get_size()}")
        if half.dtype in ("<f2", ">f2", "<f16") and half.bits is None:
            return StoredType([["r", half.dtype], ["i", half.dtype]])
        raise _refuse("complex numbers whose parts are not float16, float32, float64 or little-endian long doubles")
    if kind == h5t.STRING:
        if tid.is_variable_str():
            return StoredType("|O", variable=True)
        spaces = {h5t.STR_NULLTERM: 0, h5t.STR_SPACEPAD: 1}.get(tid.get_strpad())
        size = tid.get_size()
        # An item of one byte that ends with a terminator has no bytes after its end.
        is_plain = spaces is None or (size == 1 and not spaces)
        return StoredType(f"|S{size}", texts=() if is_plain else ((0, 1, size, spaces),))
    if kind == h5t.OPAQUE:
        return _opaque(tid)
    if kind == h5t.ARRAY:
        inner = stored_type(tid.get_super())
        axes = tuple(tid.get_array_dims()) + inner.shape
        return StoredType(inner.dtype, axes, inner.bits, inner.texts, variable=inner.variable)
    if kind == h5t.VLEN:
        item = stored_type(tid.get_super())
        if item.shape and item.variable:
            raise _refuse("lists of arrays of text, lists or references")
        return StoredType("|O", variable=True)
    if kind == h5t.REFERENCE:
        return StoredType("|O", variable=True)
    raise _refuse({h5t.TIME: "H5T_TIME"}.get(kind, f"class {kind}"))


def fill_json(item: np.ndarray[Any, Any], stored: StoredType) -> Any:
    """A fill value as .zarray writes it, from one item in the file's own form."""
    dtype = stored.numpy
    if stored.dtype == "bfloat16":
        return float((item.view("<u2").astype("<u4") << np.uint32(16)).view("<f4")[0])
    if dtype.names is not None or dtype.kind in "SV":
        return base64.b64encode(item.tobytes()).decode()
    if dtype.kind in "mM":
        return int(item.view(dtype.str[0] + "i8")[0])
    value = item.view(dtype)[0]
    if dtype.kind == "b":
        return bool(value)
    if dtype.kind in "iu":
        return int(value)
    if dtype.kind == "c":
        return [_float_json(value.real), _float_json(value.imag)]
    return _float_json(value)


def _float_json(value: np.floating[Any]) -> Any:
    if np.isnan(value):
        native = np.array(value, value.dtype.newbyteorder("="))
        size, plain = native.itemsize, native.dtype.type(np.nan)
        return "NaN" if native.tobytes() == plain.tobytes() else f"0x{int(native.view(f'u{size}')):0{2 * size}x}"
    if np.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return float(value)


def attribute(node: Any, name: str | bytes) -> Any:
    """An attribute's value. Lists of region references are refused: h5py's conversion of them reads uninitialised
    memory as an object and ends the process."""
    if _has_lists_of_regions(node.attrs.get_id(name).get_type(), False):
        raise UnsupportedError("lists of region references are not readable")
    return node.attrs[name]


def _has_lists_of_regions(tid: Any, in_list: bool) -> bool:
    from h5py import h5t

    kind = tid.get_class()
    if kind == h5t.VLEN and tid.encode()[3] & 0xF > 1:  # neither list nor text: reading it ends the process
        raise CorruptDataError("a type of variable length is damaged")
    if kind == h5t.COMPOUND:
        return any(_has_lists_of_regions(tid.get_member_type(i), in_list) for i in range(tid.get_nmembers()))
    if kind == h5t.REFERENCE:
        return in_list and not tid.equal(h5t.STD_REF_OBJ)
    return kind in (h5t.ARRAY, h5t.VLEN) and _has_lists_of_regions(tid.get_super(), in_list or kind == h5t.VLEN)


def _has_bytes(found: Any) -> bool:
    """Whether the value of an attribute is stored in the file, for any type."""
    from h5py import h5t

    tid = found.get_type()
    if tid.detect_class(h5t.VLEN) or tid.detect_class(h5t.REFERENCE) or tid.detect_class(h5t.STRING):
        return False
    try:
        found.read(np.zeros((*found.shape, tid.get_size()), np.uint8), mtype=tid)
    except (OSError, RuntimeError, TypeError, ValueError):
        return False
    return True


def attributes_of(node: Any) -> dict[str, Any]:
    """The attributes with the file's types, without those that netCDF and dimension scales use internally."""
    import h5py

    out: dict[str, Any] = {}
    hidden = HIDDEN_OF_SCALES if is_scale(node) else HIDDEN
    for stored in node.attrs:
        name = as_text(stored)
        if name in hidden:
            continue
        try:
            value = attribute(node, stored)
        except Exception as error:  # h5py raises exceptions of any type if a file is damaged
            if not isinstance(error, (TypeError, UnsupportedError)) and not _has_bytes(node.attrs.get_id(stored)):
                raise CorruptDataError(f"attribute '{name}' is not readable: {error}") from error
            out[name] = f"<not readable: {error}>"  # a type that h5py does not support: the array is still readable
            continue
        if isinstance(value, h5py.Empty):
            value = "" if value.dtype.kind in "SO" else None
        out[name] = netcdf_value(value)
    return out


def attributes_json(attributes: dict[str, Any]) -> dict[str, Any]:
    """The attributes as plain numbers, text and lists."""
    return {name: _plain(value) for name, value in attributes.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, str | bytes):
        return as_text(value)
    if isinstance(value, complex):
        return [value.real, value.imag]
    if value is None or isinstance(value, bool | int | float):
        return value
    return str(value)
