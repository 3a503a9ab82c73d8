"""The reprs of arrays and tensors: `info`, and the HTML of notebooks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock._core import bytes_text
from penstock.core import registry
from penstock.core.errors import Error
from penstock.core.sizes import counted
from penstock.view.facts import grid_lengths, object_count, stored_bytes, stored_bytes_at_hand
from penstock.view.grid import grid_svg
from penstock.view.markup import attributes_html, facts_table, page, value_text
from penstock.view.sizes import clipped

if TYPE_CHECKING:
    from penstock.core.array import Array
    from penstock.core.tensor import Tensor


class Info(str):
    """Facts as text, which `print` and terminals show; notebooks show `html`."""

    html: str

    def __new__(cls, text: str, html: str) -> Info:
        """The result of `info` of arrays and groups."""
        made = super().__new__(cls, text)
        made.html = html
        return made

    def __repr__(self) -> str:
        return str(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return Info, (str(self), self.html)

    def _repr_html_(self) -> str:
        return self.html


def array_rows(array: Array) -> list[tuple[str, str]]:
    """(name, value) of the facts about an array that need no read of its data."""
    rows = [
        ("format", array.format),
        ("dtype", str(array.dtype)),
        ("shape", shape_text(array)),
    ]
    count = array.nchunks
    many = counted(count, "chunk")
    if not array._is_regular:
        many = f"{many} of several lengths, at most {array.chunks}"
        rows.append(("chunks", many))
    else:
        rows.append(("chunks", f"{array.chunks}, {many}"))
    if array.shards is not None:
        rows.append(("shards", f"{array.shards}, {counted(object_count(array), 'shard')}"))
    rows.append(("in memory", bytes_text(array.nbytes)))
    rows.append(("stored", _stored_text(array)))
    rows.append(("codecs", clipped(array._codecs_text, 300)))
    if array.format.startswith("zarr"):
        rows.append(("fill value", clipped(repr(_fill_text(array)), 80)))
    if array.read_only:
        rows.append(("writable", "no"))
    return rows


def shape_text(array: Array) -> str:
    """`(4, 6)`, or `time: 4, x: 6` if the dimensions have names."""
    names = array.dimension_names
    if names is None or not any(names):
        return str(array.shape)
    pairs = (f"{name or '-'}: {size}" for name, size in zip(names, array.shape, strict=True))
    return f"({', '.join(pairs)})"


def _fill_text(array: Array) -> Any:
    value = array.fill_value
    return value.item() if hasattr(value, "item") and array.dtype.kind in "biufc" else value


def _stored_text(array: Array) -> str:
    stored = stored_bytes_at_hand(array)
    if stored is None:
        return "unknown (nbytes_stored() counts it)"
    if stored == 0 or array.nbytes == 0 or array._has_items:
        return bytes_text(stored)
    return f"{bytes_text(stored)}, ratio {array.nbytes / stored:.3g}"


def array_text(array: Array) -> str:
    """Lines for a terminal: facts, then attributes."""
    rows = [("array", array.uri), *array_rows(array)]
    return "\n".join([*(f"{name:<11} {value}" for name, value in rows), *attribute_lines(array)])


def attribute_lines(node: Any) -> list[str]:
    """The attributes of a node, one in each line after the first; empty if there are none."""
    attributes = _attributes(node)
    if not attributes:
        return []
    shown = list(attributes)[:50]
    lines = ["attributes", *(f"  {clipped(str(key), 60)}: {value_text(attributes[key], 120)}" for key in shown)]
    if len(attributes) > 50:
        lines.append(f"  and {len(attributes) - 50} more")
    return lines


def array_html(array: Array) -> str:
    """The facts, the chunk grid, and the attributes, folded."""
    drawing = ""
    if array._is_regular:
        drawing = f"<div>{grid_svg(array.shape, array.chunks, array.shards, array.dimension_names)}</div>"
    side = f"<div class='side'>{facts_table(array_rows(array))}{drawing}</div>"
    return page(f"penstock.{type(array).__name__}", array.uri, side, attributes_html(_attributes(array)))


def _attributes(node: Any) -> dict[str, Any]:
    """The attributes of a node; empty if they cannot be read, because a repr must not fail."""
    try:
        return dict(node.attrs)
    except (Error, ValueError):
        return {}


def array_info(array: Array) -> Info:
    """The result of `Array.info`."""
    return Info(array_text(array), array_html(array))


def tensor_html(tensor: Tensor) -> str:
    """Facts only: a repr does not copy values from a device's memory."""
    rows = [("dtype", str(tensor.dtype)), ("shape", str(tensor.shape)), ("memory", bytes_text(tensor.nbytes))]
    return page("penstock.Tensor", tensor.device, facts_table(rows))


def nbytes_stored(array: Array) -> int | None:
    """The result of `Array.nbytes_stored`."""
    return stored_bytes(array)


registry.register(array_info, array_html, array_text, tensor_html, nbytes_stored)

__all__ = ["Info", "array_html", "array_info", "array_rows", "array_text", "grid_lengths", "tensor_html"]
