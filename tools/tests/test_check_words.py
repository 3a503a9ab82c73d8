"""Tests of the word check: it reports excluded words and accepts the field's."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))
import check_words


@pytest.mark.parametrize(
    "text",
    [
        "Nobody waits.",
        "it hands on",
        "for whoever reads",
        "tiles are handed out here",
        "a file beside it",
        "shards are no multiple of chunks",
        "the caller is told",
        "the file is there already",
        "the size of what follows",
    ],
)
def test_an_excluded_word_is_reported_with_its_line(text: str) -> None:
    assert [
        line for line, _, _ in check_words.findings([check_words.Text(1, "A line."), check_words.Text(2, text)])
    ] == [2]


@pytest.mark.parametrize(
    "text", ["The caller waits.", "on the other hand", "by hand, on Linux", "there is no text", "told apart"]
)
def test_other_words_are_accepted(text: str) -> None:
    assert check_words.findings([check_words.Text(1, text, True)]) == []


def test_comments_messages_and_test_names_of_sources_are_checked() -> None:
    cpp = 'int beside = 0;  // beside it\nfail("a file beside it");\nTEST(Store, NobodyWaits) {}\n'
    found = check_words.findings(check_words.texts_of("x.cc", cpp))
    assert [(line, word) for line, word, _ in found] == [(1, "beside"), (2, "beside"), (3, "Nobody")]
    python = '"""One.\n\nBeside it.\n"""\nbeside = "beside"  # whoever\n\n\ndef test_nobody_waits(): ...\n'
    found = check_words.findings(check_words.texts_of("x.py", python))
    assert [(line, word) for line, word, _ in found] == [(3, "Beside"), (5, "whoever"), (8, "nobody")]


def test_adjacent_literals_are_one_text() -> None:
    cpp = 'fail("files stand side by "\n     "side in a folder", "next");\n'
    assert [word for _, word, _ in check_words.findings(check_words.texts_of("x.cc", cpp))] == ["side by side"]
    python = 'fail(\n    f"{n} files stand side by "\n    "side in a folder"\n)\nx = "side by ", "side"\n'
    found = check_words.findings(check_words.texts_of("x.py", python))
    assert [(line, word) for line, word, _ in found] == [(2, "side by side")]


@pytest.mark.parametrize("text", ["the stamp of a file", "it is left out", "leaves them out", "in pieces", "two holes"])
def test_words_with_a_plain_meaning_are_reported_where_users_see_them(text: str) -> None:
    assert check_words.findings([check_words.Text(1, text, True)])
    assert not check_words.findings([check_words.Text(1, text)])
    assert check_words.findings(check_words.texts_of("x.md", text))
    assert check_words.findings(check_words.texts_of("x.cc", f'fail("{text}");'))
    assert not check_words.findings(check_words.texts_of("x.cc", f"// {text}"))
    assert not check_words.findings(check_words.texts_of("x.py", f'"""{text}"""  # {text}'))


def test_names_of_headers() -> None:
    source = "enum class shard_holes { refuse };  // holes\nint whole, kept_;\nusing x [[deprecated]] = shard_holes;\n"
    assert [name for _, name, _ in check_words.names_of_header(source)] == ["shard_holes"]


def test_all_texts_of_the_project_are_checked() -> None:
    given = ["README.md", "LICENSE", "docs/design/language.md", "docs/img/read.svg"]  # as of a commit
    assert check_words.checked_files(given) == ["README.md"]
    names = set(check_words.checked_files())
    assert {"README.md", "include/penstock/array.h", "src/api/array.cc", "docs/design/0001-build.md"} <= names
    assert {"python/tests/test_docs.py", "tests/gates/gates_test.cc", "Makefile"} <= names
    assert not [name for name in names if name.startswith("tests/data/")]
