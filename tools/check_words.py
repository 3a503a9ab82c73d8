"""Refuses words that docs/design/language.md excludes, in the texts that users read.

check_words.py [FILE...]: by default the headers, the Python package, the command line, README, CHANGELOG
and the documents, without the design notes, whose older ones are rewritten one by one.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CHECKED = ("include", "python/penstock", "cli", "README.md", "CHANGELOG.md", "SECURITY.md", "docs")
LEFT_OUT = ("docs/design",)
ENDINGS = (".h", ".cc", ".py", ".pyi", ".md")
# What each word is to be replaced by.
WORDS = {
    r"nobody|somebody|whoever|everybody": 'the thing that does it: "the caller", "the planner", "a reader"',
    r"hand(?:s|ed)? (?:on|out)(?! of)": '"export", "return" or "pass"',
    r"beside": '"next to", "in addition to" or "outside"',
    r"who waits": '"the waiting thread"',
}


def findings(text: str) -> list[tuple[int, str, str]]:
    """(line, word, what to write) of each excluded word."""
    out = []
    for number, line in enumerate(text.splitlines(), 1):
        for pattern, instead in WORDS.items():
            out += [(number, found[0], instead) for found in re.finditer(rf"\b(?:{pattern})\b", line, re.IGNORECASE)]
    return out


def checked_files() -> list[str]:
    """Paths of the files in git that users read."""
    listed = subprocess.run(["git", "ls-files", *CHECKED], cwd=ROOT, capture_output=True, text=True, check=True)
    names = listed.stdout.splitlines()
    return [name for name in names if name.endswith(ENDINGS) and not name.startswith(LEFT_OUT)]


def main() -> int:
    wrong = 0
    for name in sys.argv[1:] or checked_files():
        for line, word, instead in findings((ROOT / name).read_text(encoding="utf-8")):
            print(f"{name}:{line}: '{word}': write {instead}", file=sys.stderr)
            wrong += 1
    if wrong:
        print(f"{wrong} words that docs/design/language.md excludes", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
