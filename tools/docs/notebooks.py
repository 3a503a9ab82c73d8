"""Makes a Jupyter notebook of a tutorial: text between code, without outputs.

The code is the one that the tests of the page run, with two differences: matplotlib shows its figures in the notebook,
and pictures of the site are omitted.
"""

from __future__ import annotations

import json
import re
from typing import Any

FENCE = re.compile(r"^```(\w*)\n(.*?)^```\n?", re.MULTILINE | re.DOTALL)
PICTURE = re.compile(r"^!\[[^\]]*\]\([^)]*\)\n", re.MULTILINE)
LINK = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\((?!https?:)[^)]*\)")
AGG = 'import matplotlib\n\nmatplotlib.use("Agg")\n'


def _lines(text: str) -> list[str]:
    return text.strip("\n").splitlines(keepends=True)


def _prose(text: str) -> str:
    """Markdown without links to pages of the site, which do not work in a downloaded file."""
    return LINK.sub(r"\1", PICTURE.sub("", text))


def cells(markdown: str) -> list[dict[str, Any]]:
    """The cells of a page. Blocks of Python are code; all other blocks stay text."""
    found: list[dict[str, Any]] = []

    def add_text(text: str) -> None:
        if text.strip():
            found.append({"cell_type": "markdown", "metadata": {}, "source": _lines(text)})

    text, at = "", 0
    for fence in FENCE.finditer(markdown):
        text += _prose(markdown[at : fence.start()])
        at = fence.end()
        if fence[1] != "python":
            text += fence[0]
            continue
        add_text(text)
        text = ""
        code = fence[2].replace(AGG, "")
        cell = {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": _lines(code)}
        found.append(cell)
    add_text(text + _prose(markdown[at:]))
    for number, cell in enumerate(found):
        cell["id"] = f"cell-{number}"
    return found


def notebook(markdown: str) -> str:
    """The notebook of a page as JSON, in nbformat 4.5."""
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    document = {"cells": cells(markdown), "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"
