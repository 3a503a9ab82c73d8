"""The reprs of groups: a tree of the known members, with limits."""

from __future__ import annotations

import html
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from penstock._core import bytes_text
from penstock.core import registry
from penstock.core.array import Array
from penstock.core.errors import Error
from penstock.core.group import Group
from penstock.view.arrays import Info, _attributes, attribute_lines, shape_text
from penstock.view.markup import attributes_html, page
from penstock.view.sizes import clipped

_LOCAL = ("file:", "zip:", "memory:")
_OF_ONE_GROUP, _OF_ALL, _DEEPEST = 60, 300, 4


@dataclass
class _Line:
    """One member: an open node, or the reason why there is none; `more` members are not shown below it."""

    name: str
    node: Array | Group | None
    note: str = ""


def is_at_hand(group: Group) -> bool:
    """Whether members can be listed without a network: they are local, or in consolidated metadata."""
    return group.uri.startswith(_LOCAL) or bool(getattr(group, "consolidated", False))


class _Walk:
    """Members of a group, up to a number in all."""

    def __init__(self) -> None:
        self._left = _OF_ALL

    def members(self, group: Group) -> Iterator[_Line]:
        try:
            names = list(group.keys())
        except (Error, OSError) as error:
            yield _Line("", None, f"cannot be listed: {error}")
            return
        for number, name in enumerate(names):
            if number >= _OF_ONE_GROUP or self._left <= 0:
                yield _Line("", None, f"and {len(names) - number} more")
                return
            self._left -= 1
            try:
                yield _Line(name, group[name])
            except (Error, OSError) as error:
                yield _Line(name, None, str(getattr(error, "message", error)))


def _label(node: Array) -> str:
    return f"{shape_text(node)} {node.dtype}, {bytes_text(node.nbytes)}"


def group_text(group: Group) -> str:
    """Lines for a terminal: the group, the tree, and the attributes."""
    lines = [f"{'group':<11} {group.uri}", f"{'format':<11} {group.format}"]
    if not is_at_hand(group):
        lines.append(f"{'members':<11} not listed: the store is remote; tree() lists them")
        return "\n".join([*lines, *attribute_lines(group)])
    walk = _Walk()

    def below(of: Group, indent: str, depth: int) -> None:
        members = list(walk.members(of))
        for number, each in enumerate(members):
            last = number == len(members) - 1
            name = clipped(each.name, 120)
            if isinstance(each.node, Array):
                text = f"{name}  {_label(each.node)}"
            elif each.node is not None:
                text = name + "/"
            else:
                text = f"{name}  {clipped(each.note, 120)}" if name else each.note
            lines.append(f"{indent}{'└── ' if last else '├── '}{text}")
            if isinstance(each.node, Group) and depth < _DEEPEST:
                below(each.node, indent + ("    " if last else "│   "), depth + 1)

    below(group, "", 1)
    return "\n".join([*lines, *attribute_lines(group)])


def group_html(group: Group) -> str:
    """The tree, the first levels open, and the attributes, folded."""
    if is_at_hand(group):
        tree = _branch(group, _Walk(), 1) or "<p class='dim'>no members</p>"
    else:
        tree = "<p class='dim'>members: not listed, the store is remote; <code>tree()</code> lists them</p>"
    title = f"{group.uri} ({group.format}{', consolidated' if getattr(group, 'consolidated', False) else ''})"
    return page(f"penstock.{type(group).__name__}", title, tree, attributes_html(_attributes(group)))


def _branch(group: Group, walk: _Walk, depth: int) -> str:
    made = []
    for each in walk.members(group):
        name = f"<b>{html.escape(clipped(each.name, 200))}</b>" if each.name else ""
        if isinstance(each.node, Array):
            codecs = html.escape(clipped(each.node._codecs_text, 200), quote=True)
            label = html.escape(_label(each.node))
            made.append(f"<li title='{codecs}'>{name} <span class='dim'>{label}</span></li>")
        elif each.node is not None:
            inner = _branch(each.node, walk, depth + 1) if depth < _DEEPEST else "<p class='dim'>...</p>"
            is_open = " open" if depth <= 2 else ""
            made.append(f"<li><details{is_open}><summary>{name}/</summary>{inner}</details></li>")
        else:
            made.append(f"<li>{name} <span class='dim'>{html.escape(clipped(each.note, 300))}</span></li>")
    return f"<ul>{''.join(made)}</ul>" if made else ""


def group_info(group: Any) -> Info:
    """The result of `Group.info`."""
    return Info(group_text(group), group_html(group))


registry.register(group_info, group_html, group_text)
