"""Tests of the word check: an excluded word must be reported, the field's words must not."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))
import check_words


@pytest.mark.parametrize(
    "text", ["Nobody waits.", "it hands on\n", "for whoever reads", "tiles are handed out here", "a file beside it"]
)
def test_an_excluded_word_is_reported_with_its_line(text: str) -> None:
    assert [line for line, _, _ in check_words.findings("A line.\n" + text)] == [2]


@pytest.mark.parametrize("text", ["The caller waits.", "on the other hand", "a handle", "by hand, on Linux"])
def test_other_words_are_not(text: str) -> None:
    assert check_words.findings(text) == []


def test_user_texts_are_checked_and_design_notes_are_not() -> None:
    names = check_words.checked_files()
    assert {"README.md", "include/penstock/array.h", "python/penstock/core/array.py"} <= set(names)
    assert not [name for name in names if name.startswith("docs/design")]
