"""Text of bounded length."""

from __future__ import annotations


def clipped(text: str, most: int) -> str:
    """`text` on one line, or its beginning with "..." if it has more than `most` characters.

    Line breaks and terminal control characters are escaped.
    """
    text = text if len(text) <= most else text[: most - 3] + "..."
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
