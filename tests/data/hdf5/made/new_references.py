"""Writes new_references.h5, by the functions of HDF5 1.12 that h5py does not have.

`python new_references.py` writes it next to this file. One reference leads to `other.h5`, which is in memory only. The
committed file was written with the HDF5 library 2.0.0 of h5py 3.16's wheel for Linux.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import h5py
import numpy as np

hdf5 = ctypes.CDLL(str(next((Path(h5py.__file__).parent.parent / "h5py.libs").glob("libhdf5-*.so*"))))
hid = ctypes.c_int64
Reference = ctypes.c_byte * 64  # H5R_ref_t


def call(name: str, *args: object) -> int:
    function = getattr(hdf5, name)
    function.restype = hid
    status = int(function(*args))
    if status < 0:
        raise RuntimeError(f"{name} failed")
    return status


def of_object(file: h5py.File, path: str) -> Reference:
    out = Reference()
    call("H5Rcreate_object", hid(file.id.id), path.encode(), hid(0), ctypes.byref(out))
    return out


def of_region(file: h5py.File, path: str, space: h5py.h5s.SpaceID) -> Reference:
    out = Reference()
    call("H5Rcreate_region", hid(file.id.id), path.encode(), hid(space.id), hid(0), ctypes.byref(out))
    return out


def of_attribute(file: h5py.File, path: str, name: str) -> Reference:
    out = Reference()
    call("H5Rcreate_attr", hid(file.id.id), path.encode(), name.encode(), hid(0), ctypes.byref(out))
    return out


def write(folder: Path) -> None:
    in_memory: dict[str, Any] = {"driver": "core", "backing_store": False}
    with h5py.File("other.h5", "w", **in_memory) as other, h5py.File(folder / "new_references.h5", "w") as file:
        other["far"] = np.arange(3)
        file["data"] = np.arange(40, dtype="i2").reshape(5, 8)
        file["data"].attrs["units"] = "K"
        file.create_group("group/inner")
        box = h5py.h5s.create_simple((5, 8))
        box.select_hyperslab((1, 2), (1, 1), None, (3, 4))
        steps = h5py.h5s.create_simple((5, 8))
        steps.select_hyperslab((0, 1), (2, 3), (2, 2))
        points = h5py.h5s.create_simple((5, 8))
        points.select_elements(np.array([(0, 1), (4, 7)], "u8"))
        references = [
            of_object(file, "/data"),
            of_region(file, "/data", box),
            of_attribute(file, "/data", "units"),
            Reference(),
            of_object(file, "/group/inner"),
            of_region(file, "/data", steps),
            of_region(file, "/data", points),
            of_object(other, "/far"),
        ]
        kind = ctypes.c_int64.in_dll(hdf5, "H5T_STD_REF_g").value
        values = (Reference * len(references))(*references)
        everything = hid(0)

        def dataset(name: str, chunked: bool) -> None:
            space = h5py.h5s.create_simple((len(references),))
            create = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            if chunked:
                create.set_chunk((3,))
                create.set_shuffle()
                create.set_deflate(6)
            made = call(
                "H5Dcreate2",
                hid(file.id.id),
                name.encode(),
                hid(kind),
                hid(space.id),
                everything,
                hid(create.id),
                everything,
            )
            call("H5Dwrite", hid(made), hid(kind), everything, everything, everything, ctypes.byref(values))
            call("H5Dclose", hid(made))

        dataset("contiguous", False)
        dataset("chunked", True)
        space = h5py.h5s.create_simple((len(references),))
        data = file["data"]
        made = call("H5Acreate2", hid(data.id.id), b"references", hid(kind), hid(space.id), everything, everything)
        call("H5Awrite", hid(made), hid(kind), ctypes.byref(values))
        call("H5Aclose", hid(made))


if __name__ == "__main__":
    write(Path(__file__).parent)
