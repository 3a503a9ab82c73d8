"""Links of HDF5 groups: the names of a group, the kind of object that each link leads to, and the objects themselves.

h5py's `Group.get` returns its default for a damaged object too. Here an object is absent only if a link of its path
does not exist or has no target; every other failure is an error.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from penstock.core.errors import CorruptDataError, Error, UnsupportedError
from penstock.hdf5.group import Members

_MOST_HOPS = 16  # HDF5's limit of symbolic links on the way to one object
_STAND_IN = b"This is a netCDF dimension but not a netCDF variable"
_RENAMED = "_nc4_non_coord_"

Found = tuple[Any, str]  # a group of h5py, and the name in it of a hard link or of an unreadable external link


def find(group: Any, path: str) -> Any:
    """The object at `path` below a group of h5py, or None if it does not exist.

    Raises `CorruptDataError` for an object that exists and cannot be opened, and h5py's exception for a damaged link.
    """
    path = path.strip("/")
    if not path:
        return group
    parent, _, name = path.rpartition("/")
    above = find(group, parent)
    if above is None or not _is_group(above):
        return None
    name = stored_name(above, name)
    if _locate(above, name, 0) is None:
        return None
    try:
        return above[encoded(name)]
    except (KeyError, OSError, RuntimeError, ValueError) as error:
        text = str(error).strip("'\"")
        raise CorruptDataError(f"'{path}' cannot be opened: {text}") from error


def names_in(group: Any) -> list[str]:
    """Names of a group's links as text. h5py returns bytes for names that are not UTF-8: they become surrogates."""
    return [name if isinstance(name, str) else name.decode("utf-8", "surrogateescape") for name in group]


def encoded(name: str) -> bytes:
    """The name as the file has it."""
    return name.encode("utf-8", "surrogateescape")


def members_of(group: Any) -> Members:
    """The members of a group of h5py. Opens none of them.

    The names of damaged objects are included; links without a target and named types are not. netCDF's
    `_nc4_non_coord_x` is `x`.
    """
    kinds = [(name, _is_shown(group, name)) for name in names_in(group)]
    shown = [given_name(group, name) for name, is_shown in kinds if is_shown]
    return Members(shown, [name for name, is_shown in kinds if is_shown is None])


def stored_name(group: Any, name: str) -> str:
    """The name in the file of the member that is shown as `name`: netCDF renames a variable that has the name of a
    dimension and is not that dimension's coordinate.
    """
    renamed = _RENAMED + name
    if not group.id.links.exists(encoded(renamed)):
        return name
    return name if group.id.links.exists(encoded(name)) and not _is_stand_in(group, name) else renamed


def given_name(group: Any, name: str) -> str:
    """The name under which the member `name` of the file is shown."""
    given = name.removeprefix(_RENAMED)
    return given if given and given != name and stored_name(group, given) == name else name


def _is_shown(group: Any, name: str) -> bool | None:
    """Whether a name is shown; None if it is a stand-in."""
    from h5py import h5g

    try:
        place = _locate(group, name, 0)
        if place is None:
            return False
        kind = h5g.get_objinfo(place[0].id, encoded(place[1])).type
    except (Error, KeyError, OSError, RuntimeError, ValueError):
        return True  # opening it raises
    if kind == h5g.TYPE:
        return False
    return None if kind == h5g.DATASET and _is_stand_in(*place) else True


def _is_stand_in(group: Any, name: str) -> bool:
    """Whether a dataset is netCDF's stand-in for a dimension without a variable. Does not open the dataset."""
    try:
        return text_attribute(group, "NAME", name).startswith(_STAND_IN)
    except (KeyError, OSError, RuntimeError, TypeError, ValueError):
        return False  # opening it raises


def is_scale(dataset: Any) -> bool:
    """Whether a dataset is a dimension scale. HDF5's own test ends the process for some damaged types."""
    return text_attribute(dataset, "CLASS").rstrip(b"\0") == b"DIMENSION_SCALE"


def text_attribute(node: Any, attribute: str, name: str = ".") -> bytes:
    """The text of an attribute of the member `name` of a group, without opening it; empty if it is not text."""
    from h5py import h5a, h5t

    if not h5a.exists(node.id, attribute.encode(), obj_name=encoded(name)):
        return b""
    found = h5a.open(node.id, attribute.encode(), obj_name=encoded(name))
    kind = found.get_type()
    if found.shape != () or kind.get_class() != h5t.STRING:
        return b""
    value: Any = np.empty((), "O" if kind.is_variable_str() else found.dtype)
    found.read(value)
    text = value[()]
    return encoded(text) if isinstance(text, str) else bytes(text or b"")


def _locate(group: Any, name: str, hops: int) -> Found | None:
    """The location of the object to which the link `name` of a group leads, or None if it has no target."""
    from h5py import h5l

    links, raw = group.id.links, encoded(name)
    if not links.exists(raw):
        return None
    kind = links.get_info(raw).type
    if kind == h5l.TYPE_HARD:
        return group, name
    if hops >= _MOST_HOPS:
        return None
    if kind == h5l.TYPE_SOFT:
        return _locate_path(group, links.get_val(raw).decode("utf-8", "surrogateescape"), hops + 1)
    if kind == h5l.TYPE_EXTERNAL:
        return _locate_elsewhere(group, name, hops + 1)
    return group, name  # a link class of an application: opening it shows whether h5py supports it


def _locate_path(group: Any, path: str, hops: int) -> Found | None:
    at = group.file["/"] if path.startswith("/") else group
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if not parts:
        parent = group if at is group else at
        return (parent, ".")
    for part in parts[:-1]:
        if _locate(at, part, hops) is None:
            return None
        at = at[encoded(part)]
        if not _is_group(at):
            return None
    return _locate(at, parts[-1], hops)


def _locate_elsewhere(group: Any, name: str, hops: int) -> Found | None:
    import h5py

    file, path = group.id.links.get_val(encoded(name))
    main = group.file.filename
    if not isinstance(main, str) or not os.path.isfile(main):
        text = "links into other HDF5 files are followed only in files that are opened by a path"
        raise UnsupportedError(text)
    prefixes = [os.environ.get("HDF5_EXT_PREFIX", "").split(":")[0], os.path.dirname(main), ""]
    places = [os.path.join(prefix, os.fsdecode(file)) for prefix in prefixes]
    if not any(os.path.isfile(each) for each in places):
        return None
    try:
        h5py.h5g.get_objinfo(group.id, encoded(name))
        return group, name
    except (KeyError, OSError, RuntimeError, ValueError):
        found = next(each for each in places if os.path.isfile(each))
        with h5py.File(found, "r") as other:
            leads = _locate_path(other["/"], path.decode("utf-8", "surrogateescape"), hops)
            return None if leads is None else (group, name)


def _is_group(node: Any) -> bool:
    import h5py

    return isinstance(node, h5py.Group)
