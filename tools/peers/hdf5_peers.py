"""pyfive's and h5py's reading over the engine, for `tools/test_peers.py`: values, attributes and lists of members.

Objects stay those of the peer. What they read comes from `penstock.open` of the same file. What the engine refuses (a
type that is not an array, a reference), or cannot find by a path (a dataset without a name, a file of a driver of
several files), is read by the peer's own code, and counted with the reason.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import penstock as ps
from peer_counts import NotByEngine, by_engine

NOT_A_COORDINATE = "_nc4_non_coord_"


def opened(target: Any, path: str) -> Any:
    """The engine's object; errors that mean that there is none are those of a lookup in a dict."""
    try:
        return ps.open(target, path.strip("/"))
    except ps.NotFoundError as error:
        raise NotByEngine("not found") from error


def attribute(target: Any, path: str, name: str) -> Any:
    """An attribute with its stored type."""
    node = opened(target, path)
    found = node.typed_attributes
    if name not in found:
        raise NotByEngine("attribute not shown by the engine")
    return found[name]


def is_text(dtype: np.dtype[Any]) -> bool:
    return dtype.metadata is not None and dtype.metadata.get("vlen") in (str, bytes)


def text_items(values: Any, make: Any) -> Any:
    """Strings of variable length as objects."""
    array = np.asarray(values, object)
    made = np.empty(array.shape, object)
    for at, each in np.ndenumerate(array):
        made[at] = make(each.encode("utf-8", "surrogateescape") if isinstance(each, str) else bytes(each))
    return made


def enable_pyfive() -> None:
    """pyfive's `Dataset.__getitem__`, shapes, types, attributes and lists of members are the engine's."""
    import pyfive
    from pyfive import high_level
    from pyfive.core import Reference

    file_init, item = high_level.File.__init__, high_level.Dataset.__getitem__
    keys, group_attributes = high_level.Group.__iter__, high_level.Group.attrs.fget
    attributes, shape, dtype = (getattr(high_level.Dataset, name).fget for name in ("attrs", "shape", "dtype"))

    def begin(self: Any, filename: Any, *args: Any, **options: Any) -> None:
        self.penstock_target = filename
        file_init(self, filename, *args, **options)

    def node(self: Any) -> Any:
        found = self.__dict__.get("penstock_node")
        if found is None:
            target = getattr(self.file, "penstock_target", None)
            if target is None:
                raise NotByEngine("a file that is not pyfive's")
            if hasattr(target, "read") and getattr(target, "closed", False):
                raise NotByEngine("a closed file object")
            folder, _, name = self.name.rpartition("/")
            # A variable whose dimension has its name is shown by the engine as netCDF names it.
            known = self.file.__dict__.setdefault("penstock_names", {})
            if folder not in known:
                known[folder] = set(keys(self.file[folder or "/"]))
            if f"{NOT_A_COORDINATE}{name}" in known[folder]:
                raise NotByEngine("a dimension that has the name of a variable")
            found = self.__dict__["penstock_node"] = opened(target, f"{folder}/{name.removeprefix(NOT_A_COORDINATE)}")
        return found

    def dataset(self: Any) -> Any:
        found = node(self)
        if not isinstance(found, ps.Array):
            raise NotByEngine("no array")
        return found

    def read(self: Any, args: Any) -> Any:
        if is_list(dtype(self)):
            by_engine("lists", lambda: check_lists(dataset(self)[args], dtype(self).metadata["vlen"]), lambda: None)
            return item(self, args)  # pyfive refuses them, as its tests expect

        def work() -> Any:
            expected = dtype(self)
            if isinstance(args, str) or (isinstance(args, tuple) and any(isinstance(each, str) for each in args)):
                raise NotByEngine("names of members as an index")
            values = dataset(self)[args]
            if isinstance(values, np.ndarray) and values.dtype.kind == "T" and not is_text(expected):
                # The engine's references are paths; without a target, an empty one.
                paths = np.array([each or Reference(0) for each in values.flat], object)
                return paths.reshape(values.shape)
            if isinstance(values, str) and not is_text(expected):
                return values or Reference(0)
            if is_text(expected):
                decodes = self.file.decode_strings
                made = text_items(values, (lambda each: each.decode()) if decodes else (lambda each: each))
                values = made if isinstance(values, np.ndarray) else made[()]
            elif isinstance(values, np.ndarray | np.generic) and values.dtype != expected:
                if values.dtype.newbyteorder("=") != np.dtype(expected).newbyteorder("="):
                    raise AssertionError(f"the engine has {values.dtype}, pyfive {expected}")
                values = values.astype(expected)  # the engine's are in native order
            return values if self._astype is None else values.astype(self._astype)

        return by_engine("values", work, lambda: item(self, args))

    def is_list(expected: Any) -> bool:
        metadata = getattr(expected, "metadata", None) or {}
        return metadata.get("vlen", str) not in (str, bytes)

    def check_lists(values: Any, of: Any) -> None:
        for each in np.asarray(values, object).ravel():
            if np.asarray(each).dtype.newbyteorder("=") != np.dtype(of).newbyteorder("="):
                raise AssertionError(f"the engine has a list of {np.asarray(each).dtype}, pyfive of {of}")

    def merged(self: Any, own: Any) -> Any:
        """pyfive's dict; where the engine has an attribute, its value with the types of pyfive's conventions."""
        found = own(self)
        if self.__dict__.get("penstock_attrs"):
            return found
        self.__dict__["penstock_attrs"] = True
        for name, value in list(found.items()):

            def work(name: str = name, value: Any = value) -> Any:
                typed = node(self).typed_attributes
                if name not in typed:
                    raise NotByEngine("an attribute that HDF5 keeps for itself, or of a type that is not readable")
                if isinstance(value, Reference | pyfive.Empty) or is_reference(value):
                    raise NotByEngine("references, and attributes without a value")
                return as_pyfive(typed[name], value)

            found[name] = by_engine("attributes", work, lambda value=value: value)
        return found

    def is_reference(value: Any) -> bool:
        """Whether an array has references, or lists of them."""
        if isinstance(value, np.ndarray) and value.dtype == object:
            return any(is_reference(each) for each in value.flat)
        return isinstance(value, Reference)

    def as_pyfive(ours: Any, theirs: Any) -> Any:
        """The engine's value in the container that pyfive uses: bytes or text of Python, lists of them, arrays."""
        if isinstance(ours, str) and isinstance(theirs, bytes):
            return type(theirs)(ours.encode("utf-8", "surrogateescape"))
        if isinstance(ours, bytes) and isinstance(theirs, bytes):
            return type(theirs)(ours)
        if isinstance(ours, bytes) and isinstance(theirs, str):
            return ours.decode()
        if isinstance(theirs, np.ndarray) and theirs.dtype == object:
            made = np.empty(theirs.shape, theirs.dtype)
            for at in np.ndindex(theirs.shape):
                item = ours
                for index in at if isinstance(ours, list | np.ndarray) else ():  # one element is shown without a list
                    item = item[index]
                made[at] = as_pyfive(item, theirs[at])
            return made
        if isinstance(ours, list | str) and isinstance(theirs, np.ndarray) and theirs.dtype.kind == "S":
            return text_items(ours, bytes).astype("S").reshape(theirs.shape)
        if isinstance(theirs, np.ndarray) and not isinstance(ours, np.ndarray):
            return np.asarray(ours, theirs.dtype if isinstance(ours, list) else None).reshape(theirs.shape)
        return ours

    def names(self: Any) -> Any:
        def work() -> list[str]:
            group = node(self)
            if not isinstance(group, ps.Group):
                raise NotByEngine("no group")
            listed = list(keys(self))
            ours = set(group.keys())
            hidden = [each for each in listed if each not in ours]
            if hidden:  # links that lead to nothing, and named types
                raise NotByEngine("members that are neither arrays nor groups")
            return [each for each in listed if each in ours]

        return iter(by_engine("lists of members", work, lambda: list(keys(self))))

    def shape_of(self: Any) -> Any:
        return by_engine("shapes", lambda: dataset(self).shape, lambda: shape(self))

    high_level.File.__init__ = begin
    high_level.Dataset.__getitem__ = read
    high_level.Dataset.attrs = property(lambda self: merged(self, attributes))
    high_level.Dataset.shape = property(shape_of)
    high_level.Group.attrs = property(lambda self: merged(self, group_attributes))
    high_level.Group.__iter__ = names
    assert pyfive.File is high_level.File


def enable_h5py() -> None:
    """h5py's `Dataset.__getitem__` and `AttributeManager.__getitem__` read by the engine, after a flush."""
    import h5py
    from h5py import h5s
    from h5py._hl import selections

    own_item, own_attribute = h5py.Dataset.__getitem__, h5py.AttributeManager.__getitem__
    inside: list[Any] = []  # a read by h5py's own code stays its own

    def target_of(file: Any) -> Any:
        if file.mode != "r":
            file.flush()
        if file.driver in ("sec2", "stdio") and isinstance(file.filename, str):
            return file.filename
        if file.driver in ("core", "fileobj"):
            return bytes(file.id.get_file_image())
        raise NotByEngine(f"a file of the driver {file.driver}")

    def read(self: Any, args: Any, new_dtype: Any) -> Any:
        args = args if isinstance(args, tuple) else (args,)
        if self._is_empty or any(each is None or isinstance(each, h5py.RegionReference) for each in args):
            raise NotByEngine("an index that reads no values, or a region")
        names = tuple(each for each in args if isinstance(each, str))
        if names:
            rest = tuple(each for each in args if not isinstance(each, str))
            return self.fields(names[0] if len(names) == 1 else names, _prior_dtype=new_dtype)[rest]
        dtype = self.dtype if new_dtype is None else new_dtype
        if self.name is None:
            raise NotByEngine("a dataset without a name")
        if dtype.kind == "O" and not is_text(dtype):
            raise NotByEngine("values that are objects")
        array = opened(target_of(self.file), self.name)
        if not isinstance(array, ps.Array):
            raise NotByEngine("no array")
        inner = () if dtype.subdtype is None else dtype.subdtype[1]
        if self.shape == ():
            if args not in ((), (Ellipsis,)):
                raise NotByEngine("an index of a scalar")
            made = converted(array[...], dtype)
            return made[()] if args == () and not inner else made
        selection = selections.select(self.shape, args, dataset=self)
        if selection.nselect == 0:
            return np.zeros(selection.array_shape, dtype=dtype)
        blocks = any(isinstance(each, h5py.MultiBlockSlice) for each in args)
        if isinstance(selection, selections.SimpleSelection) and not blocks:
            start, count, step, _ = selection._sel
            values = array[tuple(slice(a, a + n * s, s) for a, n, s in zip(start, count, step, strict=True))]
        else:
            values = picked(array[...], selection.id)
        made = converted(values, dtype).reshape(tuple(selection.array_shape) + inner)
        return made[()] if made.shape == () else made

    def picked(whole: Any, space: Any) -> Any:
        """Elements of a selection, in the order of the space."""
        if space.get_select_type() == h5s.SEL_POINTS:
            return whole[tuple(space.get_select_elem_pointlist().T)]
        mask = np.zeros(space.shape, bool)
        for first, last in space.get_select_hyper_blocklist():
            mask[tuple(slice(a, b + 1) for a, b in zip(first, last, strict=True))] = True
        return whole[mask]

    def converted(values: Any, dtype: Any) -> Any:
        if is_text(dtype):
            return text_items(values, bytes).astype(dtype)
        base = dtype if dtype.subdtype is None else dtype.subdtype[0]
        array = np.asarray(values)
        if base.kind == "c" and array.dtype.names == ("r", "i"):  # of long doubles: the engine has no such complex type
            array = np.ascontiguousarray(array).view(base).reshape(array.shape)
        if base.names is not None and array.dtype.names is not None and base.names != array.dtype.names:
            array = array[list(base.names)]
        if base.kind == "T":
            raise NotByEngine("NumPy's strings, which HDF5 does not store")
        return array.astype(base)

    def get(self: Any, args: Any, new_dtype: Any = None) -> Any:
        if inside:
            return own_item(self, args, new_dtype)

        def own() -> Any:
            inside.append(self)
            try:
                return own_item(self, args, new_dtype)
            finally:
                inside.pop()

        return by_engine("values", lambda: read(self, args, new_dtype), own)

    def get_attribute(self: Any, name: Any) -> Any:
        own = own_attribute(self, name)

        def work() -> Any:
            holder = h5py.h5i.get_name(self._id)
            if holder is None or isinstance(own, h5py.Empty | h5py.Reference | h5py.RegionReference):
                raise NotByEngine("attributes of what has no name, references, and empty ones")
            file = h5py.File(h5py.h5i.get_file_id(self._id))
            text = name.decode() if isinstance(name, bytes) else name
            ours = attribute(target_of(file), holder.decode(), text)
            if isinstance(own, str):
                return ours
            array = np.asarray(own)
            if array.dtype.hasobject and not is_text(array.dtype):
                raise NotByEngine("attributes that are lists, or have them")
            if array.dtype.kind == "O":  # h5py has text in arrays of objects
                return np.asarray(ours, object).astype(array.dtype).reshape(array.shape)
            return np.asarray(ours).astype(array.dtype).reshape(array.shape)[()]  # one element is shown without a list

        return by_engine("attributes", work, lambda: own)

    h5py.Dataset.__getitem__ = get
    h5py.AttributeManager.__getitem__ = get_attribute
