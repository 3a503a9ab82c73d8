"""Makes a Jupyter notebook of a tutorial: text and code, with the outputs that `run_tutorials.py` stored.

The code is the one that the tests of the page run, with two differences: matplotlib shows its figures in the notebook,
and pictures of the site are omitted.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FENCE = re.compile(r"^```(\w*)\n(.*?)^```\n?", re.MULTILINE | re.DOTALL)
PICTURE = re.compile(r"^!\[[^\]]*\]\([^)]*\)\n", re.MULTILINE)
LINK = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\((?!https?:)[^)]*\)")
AGG = 'import matplotlib\n\nmatplotlib.use("Agg")\n'
OUTPUTS = Path(__file__).parent / "outputs"
IMAGES = Path(__file__).resolve().parents[2] / "docs" / "img"


@dataclass
class Output:
    """What a cell of code shows."""

    code: str  # the digest of the code that was run
    printed: str
    result: str  # repr of the last expression; empty: none, or None
    pictures: list[str]  # names in docs/img


def digest(code: str) -> str:
    return hashlib.sha256(code.encode()).hexdigest()[:16]


def code_of(markdown: str) -> list[str]:
    """The code of each cell of code."""
    return [_code(fence[2]) for fence in FENCE.finditer(markdown) if fence[1] == "python"]


def outputs_of(name: str, markdown: str) -> list[Output]:
    """The stored outputs of the cells of a page. Raises ValueError if they are of other code."""
    path = OUTPUTS / f"{name}.json"
    stored = [Output(**each) for each in json.loads(path.read_text())] if path.exists() else []
    if [each.code for each in stored] != [digest(code) for code in code_of(markdown)]:
        raise ValueError(f"{name}.md changed after its outputs were stored; run tools/docs/run_tutorials.py {name}")
    return stored


def _code(text: str) -> str:
    return text.replace(AGG, "").strip("\n")


def _lines(text: str) -> list[str]:
    return text.strip("\n").splitlines(keepends=True)


def _prose(text: str) -> str:
    """Markdown without links to pages of the site, which do not work in a downloaded file."""
    return LINK.sub(r"\1", PICTURE.sub("", text))


def _shown(output: Output, number: int) -> list[dict[str, Any]]:
    """An output in the notebook's format."""
    found: list[dict[str, Any]] = []
    if output.printed:
        found.append({"output_type": "stream", "name": "stdout", "text": output.printed.splitlines(keepends=True)})
    for name in output.pictures:
        data = {"image/png": base64.b64encode((IMAGES / name).read_bytes()).decode()}
        found.append({"output_type": "display_data", "metadata": {}, "data": data})
    if output.result:
        data = {"text/plain": _lines(output.result)}
        found.append({"output_type": "execute_result", "execution_count": number, "metadata": {}, "data": data})
    return found


def cells(markdown: str, outputs: list[Output]) -> list[dict[str, Any]]:
    """The cells of a page. Blocks of Python are code; all other blocks stay text."""
    found: list[dict[str, Any]] = []

    def add_text(text: str) -> None:
        if text.strip():
            found.append({"cell_type": "markdown", "metadata": {}, "source": _lines(text)})

    text, at, number = "", 0, 0
    for fence in FENCE.finditer(markdown):
        text += _prose(markdown[at : fence.start()])
        at = fence.end()
        if fence[1] != "python":
            text += fence[0]
            continue
        add_text(text)
        text = ""
        shown = _shown(outputs[number], number + 1)
        number += 1
        cell = {"cell_type": "code", "execution_count": number, "metadata": {}, "outputs": shown}
        found.append(cell | {"source": _lines(_code(fence[2]))})
    add_text(text + _prose(markdown[at:]))
    for index, cell in enumerate(found):
        cell["id"] = f"cell-{index}"
    return found


def notebook(markdown: str, outputs: list[Output]) -> str:
    """The notebook of a page as JSON, in nbformat 4.5."""
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    document = {
        "cells": cells(markdown, outputs),
        "metadata": {"kernelspec": kernel},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def page_with_outputs(markdown: str, outputs: list[Output]) -> str:
    """The page with what each block prints after it. Results are in its comments, pictures in the page."""
    left = iter(outputs)

    def with_output(fence: re.Match[str]) -> str:
        if fence[1] != "python" or not (printed := next(left).printed):
            return fence[0]
        return f"{fence[0]}\nIt prints:\n\n```text\n{printed.rstrip()}\n```\n"

    return FENCE.sub(with_output, markdown)
