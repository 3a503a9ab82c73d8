"""Refuses words and constructions that docs/design/language.md excludes, in every text of the project.

check_words.py [FILE...]: by default all files in git. Of documents the whole text is checked; of sources the comments,
docstrings, texts with a blank (messages, help) and the names of tests.
"""

from __future__ import annotations

import io
import re
import subprocess
import sys
import tokenize
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = (".md", ".txt", ".toml", ".yml", ".yaml", ".cff", "Makefile")
SCRIPTS = (".sh", ".cmake")
CPP = (".h", ".cc", ".cu", ".cuh")
PYTHON = (".py", ".pyi")
# External data, results, generated tables, and the files that list the words.
LEFT_OUT = (
    "tests/data/",
    "bench/results/",
    "python/penstock/view/demo/data/",
    "docs/design/language.md",
    "tools/check_words.py",
    "tools/tests/test_check_words.py",
    "LICENSE",
    "THIRD_PARTY_LICENSES.md",
)
# The replacement of each word.
WORDS = {
    r"nobody|somebody|whoever|everybody|anybody": 'the thing that does it: "the caller", "the planner", "a reader"',
    r"hand(?:s|ed)? (?:on|out|over|back)(?! of)": '"export", "return" or "pass"',
    r"beside": '"next to", "in addition to" or "outside"',
    r"who waits": '"the waiting thread"',
    r"by chance": '"random", or "happens to"',
    r"(?:is|are|was|were) told(?! (?:from|apart))|told of": '"is notified", "receives", "is reported"',
    r"troubles?": '"failure" or "error"',
    r"side by side": '"in parallel" or "next to each other"',
    r"(?<!\bthere )(?:is|are) no (?:multiples?|JSON|array|image|list|text|number|error|box)": '"is not a ..."',
    r"looked for": '"looked up" or "searched for"',
    r"goes on|gone on|go on (?:with|where|to)": '"continues"',
    r"(?:is|are|was) there (?:already|by now)": '"already exists"',
    r"by whomever": "the thing that does it",
    r"size of what follows|what is judged": 'name the thing: "the rest", "rows with bars"',
    r"the other way round": '"the reverse", or "in reverse order"',
}
PATTERNS = {re.compile(rf"\b(?:{pattern})\b", re.IGNORECASE): instead for pattern, instead in WORDS.items()}
COMMENT = re.compile(r"(?<![:\"'/])//[/!]?<?(.*)$")
LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"')
TEST = re.compile(r"\b(?:TEST(?:_F|_P)?\((\w+), (\w+)\)|def (test_\w+))")


def words_of(name: str) -> str:
    """A test's name as a sentence: `FusesReads` and `test_fuses_reads`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|_", " ", name)


def texts_of_cpp(source: str) -> list[tuple[int, str]]:
    """(line, text) of the comments, messages and test names of a C++ source."""
    out = []
    for number, line in enumerate(source.splitlines(), 1):
        comment = COMMENT.search(line)
        code = line[: comment.start()] if comment else line
        out += [(number, comment[1])] if comment else []
        out += [(number, text) for text in LITERAL.findall(code) if " " in text]
        out += [(number, words_of(" ".join(filter(None, found.groups())))) for found in TEST.finditer(code)]
    return out


def texts_of_python(source: str) -> list[tuple[int, str]]:
    """(line, text) of the comments, docstrings, messages and test names of a Python source."""
    out = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        is_text = token.type in (tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", -1)) and " " in token.string
        if token.type == tokenize.COMMENT or is_text:
            out += [(token.start[0] + i, line) for i, line in enumerate(token.string.splitlines())]
    for number, line in enumerate(source.splitlines(), 1):
        out += [(number, words_of(found[3])) for found in TEST.finditer(line) if found[3]]
    return out


def texts_of(name: str, source: str) -> list[tuple[int, str]]:
    """(line, text) of everything in a file that people read."""
    if name.endswith(CPP):
        return texts_of_cpp(source)
    if name.endswith(PYTHON):
        return texts_of_python(source)
    if name.endswith(DOCUMENTS):
        return list(enumerate(source.splitlines(), 1))
    return [(n, line[line.index("#") :]) for n, line in enumerate(source.splitlines(), 1) if "#" in line]


def findings(texts: list[tuple[int, str]]) -> list[tuple[int, str, str]]:
    """(line, word, replacement) of each excluded word."""
    return [
        (number, found[0], instead)
        for number, text in texts
        for pattern, instead in PATTERNS.items()
        for found in pattern.finditer(text)
    ]


def checked_files() -> list[str]:
    """Paths of the files in git that contain texts of the project."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    endings = DOCUMENTS + SCRIPTS + CPP + PYTHON
    return [n for n in listed.stdout.splitlines() if n.endswith(endings) and not n.startswith(LEFT_OUT)]


def main() -> int:
    wrong = 0
    for name in sys.argv[1:] or checked_files():
        for line, word, instead in findings(texts_of(name, (ROOT / name).read_text(encoding="utf-8"))):
            print(f"{name}:{line}: '{word}': write {instead}", file=sys.stderr)
            wrong += 1
    if wrong:
        print(f"{wrong} words that docs/design/language.md excludes", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
