"""Text for terminals: names of nodes and attributes may contain control characters, which a terminal would execute."""

from __future__ import annotations


def printable(text: str) -> str:
    """The text for one line of output: a line feed becomes `\\n`, other control characters `\\x1b`."""
    return "".join(map(_shown, text))


def printable_lines(text: str) -> str:
    """The same for several lines: line feeds and tabs are unchanged."""
    return "".join(each if each in "\n\t" else _shown(each) for each in text)


def _shown(each: str) -> str:
    if each == "\n":
        return "\\n"
    return f"\\x{ord(each):02x}" if ord(each) < 0x20 or 0x7F <= ord(each) < 0xA0 else each
