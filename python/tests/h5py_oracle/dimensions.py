"""Names of the dimensions of HDF5 datasets: from the attached scales, or else numbered as netCDF numbers them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from penstock.core.errors import CorruptDataError
from penstock.hdf5.dimensions import DimensionNames
from penstock.hdf5.types import as_text

from h5py_oracle.links import encoded, find, given_name, is_scale, names_in
from h5py_oracle.types import attribute

ScaleNames = dict[int, str]
"""Names of scales by address, for one state of a file. Cached, because HDF5 searches the whole file to name the target
of a reference."""


def dimension_names(dataset: Any, known: ScaleNames | None = None) -> list[str | None] | None:
    """Names of the dimensions, from the attached scales (the last of several, as in netCDF). A scale's own dimension
    has its name. Names that are looked up are added to `known`.
    """
    rank = len(dataset.shape)
    if not rank:
        return None
    names: list[str | None] = [None] * rank
    for d, scales in enumerate(_scales(dataset, rank)):
        try:
            names[d] = _name_of(dataset, scales[-1], {} if known is None else known) if len(scales) else None
        except (AttributeError, KeyError, OSError, RuntimeError, ValueError):
            continue  # a scale that no longer exists gives no name
    if is_scale(dataset):
        if rank == 1:
            names[0] = as_text(dataset.name).rpartition("/")[2]
        elif "_Netcdf4Coordinates" in dataset.attrs:
            by_number = _netcdf_dimensions(dataset)
            names = [by_number.get(int(number)) for number in attribute(dataset, "_Netcdf4Coordinates")]
    return names


def _name_of(dataset: Any, scale: Any, known: ScaleNames) -> str:
    from h5py import h5o, h5r

    found = h5r.dereference(scale, dataset.id)
    if found is None:
        raise ValueError("the reference is null")
    address = h5o.get_info(found).addr
    if address not in known:
        known[address] = as_text(dataset.file[scale].name).rpartition("/")[2]
    return known[address]


def _scales(dataset: Any, rank: int) -> list[Any]:
    """References to the scales of each dimension. Raises if the attribute cannot be read."""
    from h5py import h5t

    if "DIMENSION_LIST" not in dataset.attrs:
        return []
    found = dataset.attrs.get_id("DIMENSION_LIST")
    kind = found.get_type()
    if found.shape != (rank,) or kind.get_class() != h5t.VLEN or not kind.get_super().equal(h5t.STD_REF_OBJ):
        return []  # not the type of dimension scales; h5py's conversion of some types ends the process
    return list(attribute(dataset, "DIMENSION_LIST"))


def _netcdf_dimensions(dataset: Any) -> dict[int, str]:
    """The dimensions of the groups from the dataset's up to the root, by their netCDF numbers."""
    import h5py
    from h5py import h5a

    out: dict[int, str] = {}
    group = dataset.parent
    while True:
        for name in names_in(group):
            if h5a.exists(group.id, b"_Netcdf4Dimid", obj_name=encoded(name)):
                found = group[encoded(name)]
                if isinstance(found, h5py.Dataset):
                    out.setdefault(int(attribute(found, "_Netcdf4Dimid")), as_text(encoded(name)))
        if group.name == "/":
            return out
        group = group.parent


def all_dimension_names(file: Any, check: Callable[[Any], None]) -> DimensionNames:
    """A name for each dimension of each dataset of a file.

    Dimensions without a scale are numbered as in netCDF (`phony_dim_3`). Within a group, dimensions of equal length are
    one dimension, except two of the same dataset. Subgroups are numbered before their group, after all dimensions that
    have names. `check` refuses damaged groups.
    """
    names = {}
    groups: dict[tuple[int, int], str] = {}
    links: dict[str, str] = {}
    seen: ScaleNames = {}
    for path, dataset in _datasets(file, "", groups, links, check):
        try:
            names[path] = _names_and_lengths(dataset, seen)
        except (CorruptDataError, KeyError, OSError, RuntimeError, ValueError):
            continue  # it has no dimensions to number; opening it raises
    scales = {path: lengths[0] for path, (_, lengths, is_scale) in names.items() if is_scale and lengths}
    number = len(scales)
    of_groups: dict[str, list[tuple[str, _Length]]] = {}
    for path, length in scales.items():
        of_groups.setdefault(path.rpartition("/")[0], []).append((path.rpartition("/")[2], length))
    out = {}
    for path, (given, lengths, _) in names.items():
        known = of_groups.setdefault(path.rpartition("/")[0], [])
        made = list(given)
        for d, length in enumerate(lengths):
            if made[d] is not None:
                continue
            alike = (name for name, its in known if its == length and name not in made)
            made[d] = next(alike, None)
            if made[d] is None:
                made[d] = f"phony_dim_{number}"
                known.append((f"phony_dim_{number}", length))
                number += 1
        out[path] = tuple(str(name) for name in made)
    for path in list(out):
        above, _, name = path.rpartition("/")
        shown = given_name(file[encoded(above or "/")], name)
        if shown != name:
            out[f"{above}/{shown}".lstrip("/")] = out[path]
    return DimensionNames(out, links)


_Length = tuple[int, bool]  # the length, and whether it may grow


def _datasets(
    group: Any, path: str, seen: dict[tuple[int, int], str], links: dict[str, str], check: Callable[[Any], None]
) -> Iterator[tuple[str, Any]]:
    """The datasets below a group with their paths: those of its subgroups, then its own.

    Each group is visited once; `links` receives its further paths.
    """
    import h5py
    from h5py import h5o

    info = h5o.get_info(group.id)
    first = seen.setdefault((info.fileno, info.addr), path.rstrip("/"))
    if first != path.rstrip("/"):
        links[path.rstrip("/")] = first
        return
    check(group)
    own = []
    for name in names_in(group):
        try:
            found = find(group, name)
        except (CorruptDataError, KeyError, OSError, RuntimeError, ValueError):
            continue  # it has no dimensions to number; opening it raises
        if isinstance(found, h5py.Group):
            yield from _datasets(found, f"{path}{name}/", seen, links, check)
        elif isinstance(found, h5py.Dataset) and found.shape is not None:
            own.append((f"{path}{name}", found))
    yield from own


def _names_and_lengths(dataset: Any, known: ScaleNames) -> tuple[list[str | None], list[_Length], bool]:
    lengths = [(n, most is None) for n, most in zip(dataset.shape, dataset.maxshape, strict=True)]
    names = dimension_names(dataset, known) or [None] * len(lengths)
    try:
        inner = dataset.dtype.shape
    except (TypeError, ValueError):  # a type that NumPy does not have
        inner = ()
    lengths += [(n, False) for n in inner]
    return [*names, *(None for _ in inner)], lengths, is_scale(dataset)
