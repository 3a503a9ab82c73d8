"""The HTML that notebooks show: tables, folded parts, and the colours that suit light and dark pages."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Mapping
from typing import Any

from penstock.view.sizes import clipped

_ATTRIBUTES = 200  # attributes that are shown, at most
_VALUE = 1000  # characters of an attribute's value that are shown, at most

# Text has the page's own colour, and everything else is translucent: this works on both light and dark pages.
_STYLE = """
.penstock{font-size:13px;line-height:1.45;max-width:900px}
.penstock .head{border-bottom:1px solid rgba(128,128,128,.4);padding:2px 0;margin-bottom:6px}
.penstock .head b{margin-right:.6em}
.penstock .dim{opacity:.65}
.penstock .side{display:flex;flex-wrap:wrap;gap:8px 32px;align-items:flex-start}
.penstock .side>table{max-width:600px}
.penstock table.facts{border-collapse:collapse;margin:0;border:0}
.penstock table.facts th,.penstock table.facts td{text-align:left;vertical-align:top;padding:1px 14px 1px 0;border:0;
background:none;color:inherit;white-space:normal;overflow-wrap:anywhere;font-size:13px}
.penstock table.facts th{font-weight:normal;opacity:.65;white-space:nowrap}
.penstock table.facts td.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
.penstock code{background:none;color:inherit;padding:0;font-size:12px}
.penstock details{margin:4px 0}
.penstock details>*:not(summary){margin-left:16px}
.penstock summary{cursor:pointer}
.penstock .bar{background:#2f81f7;opacity:.75;height:9px;display:inline-block;min-width:1px}
.penstock ul{list-style:none;margin:0;padding-left:16px}
.penstock li{margin:0;padding:0}
"""


def page(kind: str, title: str, *parts: str) -> str:
    """A repr: its kind and title, and parts that are already HTML."""
    head = (
        f"<div class='head'><b>{html.escape(kind)}</b><span class='dim'>{html.escape(clipped(title, 300))}</span></div>"
    )
    return f"<div class='penstock'><style>{_STYLE}</style>{head}{''.join(parts)}</div>"


def facts_table(rows: Iterable[tuple[str, str]]) -> str:
    """A table of names and values, both plain text."""
    made = "".join(f"<tr><th>{html.escape(name)}</th><td>{html.escape(value)}</td></tr>" for name, value in rows)
    return f"<table class='facts'>{made}</table>"


def folded(title: str, content: str) -> str:
    """HTML content that is folded until its title is clicked."""
    return f"<details><summary>{html.escape(title)}</summary>{content}</details>"


def attributes_html(attributes: Mapping[str, Any]) -> str:
    """Attributes, folded; nothing if there are none."""
    if not attributes:
        return ""
    shown = [(clipped(str(name), 200), value_text(attributes[name])) for name in list(attributes)[:_ATTRIBUTES]]
    more = f"<p class='dim'>and {len(attributes) - _ATTRIBUTES} more</p>" if len(attributes) > _ATTRIBUTES else ""
    return folded(f"attributes ({len(attributes)})", facts_table(shown) + more)


def value_text(value: Any, most: int = _VALUE) -> str:
    """An attribute's value on one line."""
    if isinstance(value, str):
        return clipped(value, most)
    try:
        return clipped(json.dumps(value, ensure_ascii=False), most)
    except (TypeError, ValueError):  # typed attributes of HDF5: NumPy's values
        return clipped(str(value), most)
