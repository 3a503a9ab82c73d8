"""Refuses words and constructions that docs/design/language.md excludes, in every text of the project.

check_words.py [FILE...]: by default all files in git. Of documents the whole text is checked; of sources the comments,
docstrings, texts with a blank (messages, help) and the names of tests. Adjacent literals are one text. Words that are
also plain English are refused in documents, in messages and in the names of public headers only.
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

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
# The replacement of each word of documents and messages. Comments may have it in its plain meaning.
WORDS_OF_USERS = {
    r"kept (?:decoded|warm|in memory|with the array)": '"cached"',
    r"stamps?|stamped": '"size and modification time", or "version"',
    r"(?:is|are|was|were|be|been) turned(?! (?:on|off|into))": '"transposed", "rotated" or "converted"',
    r"holes?": '"gaps" or "missing numbers"',
    r"pieces?|piecewise": '"batches", "ranges" or "parts"',
    r"(?:left|leaves?|leaving) (?:\w+ ){0,2}out": '"omit"',
    r"shel(?:f|ves)": '"in-memory store"',
    r"crews?|workshops?|parcels?|doors?": '"thread pool", "encoder pool", "batch" or "interface"',
}
# Words within the names of public headers.
NAMES = re.compile(
    r"(?<![A-Za-z])(?:holes?|stamps?|left_out|kept|shelf|crew|shop|parcels?|door|beside|told|pieces?)(?![a-z])"
)


def _compiled(words: dict[str, str]) -> dict[re.Pattern[str], str]:
    return {re.compile(rf"\b(?:{pattern})\b", re.IGNORECASE): instead for pattern, instead in words.items()}


PATTERNS, PATTERNS_OF_USERS = _compiled(WORDS), _compiled(WORDS_OF_USERS)
COMMENT = re.compile(r"(?<![:\"'/])//[/!]?<?(.*)$")
LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"')
TEST = re.compile(r"\b(?:TEST(?:_F|_P)?\((\w+), (\w+)\)|def (test_\w+))")


def words_of(name: str) -> str:
    """A test's name as a sentence: `FusesReads` and `test_fuses_reads`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|_", " ", name)


class Text(NamedTuple):
    """A text and its line. `is_shown`: users see it."""

    line: int
    text: str
    is_shown: bool = False


def texts_of_cpp(source: str) -> list[Text]:
    """The comments, messages and test names of a C++ source."""
    out: list[Text] = []
    before: list[str] = []  # the literals at the end of the lines before, which the next literal continues
    for number, line in enumerate(source.splitlines(), 1):
        comment = COMMENT.search(line)
        code = line[: comment.start()] if comment else line
        out += [Text(number, comment[1])] if comment else []
        out += [Text(number, words_of(" ".join(filter(None, found.groups())))) for found in TEST.finditer(code)]
        literals = LITERAL.findall(code)
        if before and code.lstrip().startswith('"') and literals:
            literals[0] = "".join([*before, literals[0]])
        elif before:
            out.append(Text(number - 1, "".join(before), True))
        before = [literals.pop()] if literals and code.rstrip().endswith('"') else []
        out += [Text(number, text, True) for text in literals if " " in text]
    return out + [Text(source.count("\n"), "".join(before), True)] * bool(before)


def texts_of_python(source: str) -> list[Text]:
    """The comments, docstrings, messages and test names of a Python source."""
    out: list[Text] = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            out.append(Text(token.start[0], token.string))
    tree = ast.parse(source)
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    within = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            text = "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in within:
            text = node.value
        else:
            continue
        if " " in text:
            shown = id(node) not in docstrings
            out += [Text(node.lineno + i, line, shown) for i, line in enumerate(text.splitlines())]
    for number, line in enumerate(source.splitlines(), 1):
        out += [Text(number, words_of(found[3])) for found in TEST.finditer(line) if found[3]]
    return sorted(out, key=lambda each: each.line)


def texts_of(name: str, source: str) -> list[Text]:
    """Everything in a file that people read."""
    if name.endswith(CPP):
        return texts_of_cpp(source)
    if name.endswith(PYTHON):
        return texts_of_python(source)
    lines = enumerate(source.splitlines(), 1)
    if name.endswith(DOCUMENTS):
        return [Text(n, line, name.endswith(".md")) for n, line in lines]
    return [Text(n, line[line.index("#") :]) for n, line in lines if "#" in line]


def findings(texts: list[Text]) -> list[tuple[int, str, str]]:
    """(line, word, replacement) of each excluded word."""
    return [
        (line, found[0], instead)
        for line, text, is_shown in texts
        for pattern, instead in (
            PATTERNS | PATTERNS_OF_USERS if is_shown and "is deprecated" not in text else PATTERNS
        ).items()
        for found in pattern.finditer(text)
    ]


def names_of_header(source: str) -> list[tuple[int, str, str]]:
    """(line, name, advice) of the names in the code of a public header that contain a word of the table."""
    out = []
    for number, line in enumerate(source.splitlines(), 1):
        code = LITERAL.sub("", line.partition("//")[0])
        for name in re.findall(r"[A-Za-z_]\w*", code):
            if NAMES.search(name) and not name.endswith("_") and "[[deprecated" not in code:
                out.append((number, name, "a name without words of the table"))
    return out


def is_shown_to_users(name: str) -> bool:
    """Whether a file's messages are those of the package or the program, not of a test or a tool."""
    return name.startswith(("include/", "src/", "cli/", "python/", "docs/", "README")) and not (
        name.startswith(("python/tests/", "src/cuda/")) or name.endswith("_test.cc")
    )


def checked_files(names: Sequence[str] = ()) -> list[str]:
    """Those of `names`, or of the files in git, that contain texts of the project."""
    if not names:
        listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
        names = listed.stdout.splitlines()
    return [n for n in names if n.endswith(DOCUMENTS + SCRIPTS + CPP + PYTHON) and not n.startswith(LEFT_OUT)]


def main() -> int:
    wrong = 0
    for name in checked_files(sys.argv[1:]):
        source = (ROOT / name).read_text(encoding="utf-8")
        texts = texts_of(name, source)
        if not is_shown_to_users(name):
            texts = [text._replace(is_shown=False) for text in texts]
        found = findings(texts) + (names_of_header(source) if name.startswith("include/") else [])
        for line, word, instead in found:
            print(f"{name}:{line}: '{word}': write {instead}", file=sys.stderr)
            wrong += 1
    if wrong:
        print(f"{wrong} words that docs/design/language.md excludes", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
