"""Numbers of bytes and elements in readable form."""

from __future__ import annotations

from penstock.core.sizes import counted


def bytes_text(count: float) -> str:
    """`1.61 GB`, `512 bytes`: decimal units, three digits, as the command line shows them."""
    if count < 1000:
        return counted(round(count), "byte")
    units = iter(("kB", "MB", "GB", "TB", "PB", "EB"))
    unit = next(units)
    count /= 1000
    while count >= 999.5 and unit != "EB":
        count /= 1000
        unit = next(units)
    return f"{count:.{2 if count < 9.995 else 1 if count < 99.95 else 0}f} {unit}"


def clipped(text: str, most: int) -> str:
    """`text` on one line, or its beginning with "..." if it has more than `most` characters.

    Line breaks and terminal control characters are escaped.
    """
    text = text if len(text) <= most else text[: most - 3] + "..."
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
