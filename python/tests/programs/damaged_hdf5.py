"""Damages an HDF5 file in many places, one byte at a time: damaged objects must be errors and never absent.

damaged_hdf5.py FILE SCRATCH CHECKED STEP

CHECKED: 1 if checksums protect the names, so that a damaged file has the names of the intact one or is an error. Prints
the failures, and last "done PLACES OPENED REFUSED".
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress

import h5py
import penstock as ps
import xarray as xr
from h5py import h5o

path, scratch, checked, step = sys.argv[1], sys.argv[2], sys.argv[3] == "1", int(sys.argv[4])
with open(path, "rb") as stream:
    whole = stream.read()
with h5py.File(path) as file:
    headers = [h5o.get_info(file.id).addr, *(h5o.get_info(file[name].id).addr for name in file)]
names = ps.open(path).keys()
variables = sorted(xr.open_dataset(path, engine="penstock").variables)
places = sorted({at for begin in headers for at in range(begin, min(begin + 300, len(whole)), step)})
opened = refused = 0
for at in places:
    print("at", at, flush=True)
    damaged = bytearray(whole)
    damaged[at] ^= 0xFF
    with open(scratch, "wb") as stream:
        stream.write(damaged)
    os.utime(scratch, ns=(at, at))
    try:
        group = ps.open(scratch)
        keys = group.keys()
    except ps.Error:
        refused += 1
        continue
    if checked and keys != names:
        print("WRONG: names", at, keys)
    here = []
    for name in keys:
        with suppress(ps.Error):
            try:
                here.append(name) if name in group else print("WRONG: not in", at, name)
                group[name]
            except ps.NotFoundError:
                print("WRONG: not found", at, name)
    try:
        shown = sorted(xr.open_dataset(scratch, engine="penstock").variables)
    except Exception:
        refused += 1
        continue
    opened += 1
    if shown != (variables if checked else sorted(keys)):
        print("WRONG: variables", at, shown)
print("done", len(places), opened, refused)
