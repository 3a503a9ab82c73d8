"""DLPack capsules read as their C structs, as a consumer reads them."""

from __future__ import annotations

import ctypes
import itertools
from typing import Any


def dlpack_fields(capsule: Any) -> dict[str, Any]:
    """The fields of a DLPack capsule, read as its C structs; `bytes` are the values of a tensor in host memory.

    Members: name, address, device, type (code, bits, lanes), shape, strides in elements, byte_offset, bytes; of
    capsules with a version also version and flags.
    """
    named = ctypes.pythonapi.PyCapsule_GetName
    named.restype, named.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointed = ctypes.pythonapi.PyCapsule_GetPointer
    pointed.restype, pointed.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    name = named(capsule)
    start = pointed(capsule, name)
    made: dict[str, Any] = {"name": name.decode()}
    tensor = _Dltensor.from_address(start)
    if name == b"dltensor_versioned":
        head = _Versioned.from_address(start)
        made.update(version=(head.major, head.minor), flags=head.flags)
        tensor = head.tensor
    shape = tuple(tensor.shape[i] for i in range(tensor.rank))
    made.update(
        address=tensor.data,
        device=(tensor.device_type, tensor.device_index),
        type=(tensor.code, tensor.bits, tensor.lanes),
        shape=shape,
        strides=tuple(tensor.strides[i] for i in range(tensor.rank)),
        byte_offset=tensor.byte_offset,
    )
    item = tensor.bits * tensor.lanes // 8
    places = itertools.product(*map(range, shape))
    offsets = (item * sum(i * s for i, s in zip(place, made["strides"], strict=True)) for place in places)
    made["bytes"] = b"".join(ctypes.string_at(tensor.data + tensor.byte_offset + offset, item) for offset in offsets)
    return made


class _Dltensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_index", ctypes.c_int32),
        ("rank", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _Versioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("content", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Dltensor),
    )
