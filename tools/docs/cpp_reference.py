"""Makes a Markdown page of each public C++ header: the comment of each declaration as text, the declaration as code.

A header is split at the ends of its top-level declarations. This works without a compiler because the headers are
plain: declarations with `///` comments in one namespace. Bodies of functions and private members are omitted.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

WIDTH = 92
NAME = re.compile(
    r"(?:class|struct|enum class|enum|union)\s+(?:\[\[\w+\]\]\s*)?(?:PENSTOCK_API\s+)?(?P<type>\w+)"
    r"|using\s+(?P<alias>\w+)\s*=|(?P<function>operator\W{1,3}|~?\w+)\s*\(|(?P<value>\w+)\s*(?:=|;|\{|$)"
)


@dataclass
class Declaration:
    """One top-level declaration."""

    comment: list[str] = field(default_factory=list)
    code: str = ""

    @property
    def name(self) -> str:
        head = re.sub(r"template\s*<[^{;]*?>\s*(?=class|struct|[\w:]+[ &*])", "", self.code, count=1)
        head = re.sub(r"\[\[\w+\]\]|PENSTOCK_API|//.*", "", head)
        found = NAME.search(head)
        return next((text for text in found.groups() if text), "") if found else ""

    @property
    def is_type(self) -> bool:
        return bool(re.match(r"(template\s*<.*>\s*)?(class|struct|enum|union)\b", self.code))


def _skip_comment(text: str, at: int) -> int:
    """Returns the end of the comment, string or character that begins at `at`, or `at`."""
    if text.startswith("//", at):
        end = text.find("\n", at)
        return end if end >= 0 else len(text)
    if text.startswith("/*", at):
        return text.find("*/", at) + 2
    if text[at] == '"' or (text[at] == "'" and not (at and text[at - 1].isalnum())):
        end = at + 1
        while text[end] != text[at]:
            end += 2 if text[end] == "\\" else 1
        return end + 1
    return at


def _end_of_braces(text: str, at: int) -> int:
    """Returns the place after the brace that closes the one at `at`."""
    depth = 0
    while True:
        past = _skip_comment(text, at)
        if past != at:
            at = past
            continue
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        at += 1
        if not depth:
            return at


def _without_bodies(code: str) -> str:
    """Replaces the bodies of functions by ';', with their constructors' initialisers."""
    out, at, begun = "", 0, 0
    while at < len(code):
        past = _skip_comment(code, at)
        if past != at:
            out, at = out + code[at:past], past
            continue
        if code[at] == ";":
            begun = len(out) + 1
        if code[at] == "{":
            head = re.sub(r"//.*", "", out[begun:])
            end = _end_of_braces(code, at)
            if (
                re.match(r"\s*(template\s*<[^{]*>\s*)?(class|struct|enum|union)\b", head)
                and "(" not in head.split(":")[0]
            ):
                out, at = out + "{" + _without_bodies(code[at + 1 : end - 1]) + "}", end
            elif head.count("(") == head.count(")") and re.search(
                r"\)\s*(const|noexcept|override|&&?|->[^;]*|\s)*(\s:\s.*)?$", head, re.DOTALL
            ):
                out = out[:begun] + re.sub(r"\s+:\s(?!:).*$", "", out[begun:].rstrip(), flags=re.DOTALL) + ";"
                begun, at = len(out), end
            else:  # an initialiser
                out, at = out + code[at:end], end
            continue
        out, at = out + code[at], at + 1
    return out


def _without_private(code: str) -> str:
    """Removes the code after `private:`, up to the end of the class or to the next `public:`."""
    code = re.sub(r"\n\s*private:\n.*?(?=\n\s*(public|protected):|\n\};?\s*$)", "", code, flags=re.DOTALL)
    return re.sub(r"\n{3,}", "\n\n", code)


def for_readers(code: str) -> str:
    """Code with comments that fit the page, without the export macro."""
    lines: list[str] = []
    comment: list[str] = []

    def end_comment(indent: str) -> None:
        if comment:
            text = " ".join(" ".join(comment).split())
            lines.extend(textwrap.wrap(text, WIDTH, initial_indent=indent + "// ", subsequent_indent=indent + "// "))
            comment.clear()

    indent = ""
    for line in code.replace("PENSTOCK_API ", "").splitlines():
        own = re.match(r"( *)///? ?(.*)", line)
        if own:
            if own[1] != indent or not own[2] or own[2].startswith("\\"):
                end_comment(indent)
            indent = own[1]
            if own[2]:
                comment.append(own[2])
            continue
        end_comment(indent)
        tail = re.match(r"(.*?\S) +///?< ?(.*)", line)
        if tail and len(tail[1]) + len(tail[2]) + 5 > WIDTH:
            start = " " * (len(tail[1]) - len(tail[1].lstrip())) + "// "
            lines += [*textwrap.wrap(tail[2], WIDTH, initial_indent=start, subsequent_indent=start), tail[1]]
        else:
            lines.append(line.replace("///< ", "// "))
    end_comment(indent)
    return "\n".join(lines)


def declarations(header: str) -> Iterator[Declaration]:
    """The top-level declarations of a header, in order. Forward declarations are omitted."""
    opened = re.search(r"^namespace penstock[^{]*\{\n", header, re.MULTILINE)
    if not opened:
        return
    body = header[opened.end() : _end_of_braces(header, opened.end() - 2) - 1]
    made, at, start = Declaration(), 0, 0
    while at < len(body):
        line_end = body.find("\n", at)
        line = body[at : line_end if line_end >= 0 else len(body)]
        if not body[start:at].strip() and line.startswith("///") and not line.startswith("///<"):
            made.comment.append(line[3:].removeprefix(" "))
            at = start = line_end + 1
            continue
        if not body[start:at].strip() and (not line.strip() or line.startswith(("//", "#"))):
            made, at = Declaration(), line_end + 1 if line_end >= 0 else len(body)
            start = at
            continue
        at = _end_of_declaration(body, at)
        tail = re.match(r"[ \t]*//.*", body[at:])
        end = at + (tail.end() if tail else 0)
        at = end if tail and "///<" in tail[0] else at
        made.code = _without_private(_without_bodies(body[start:at].strip()))
        if not re.match(r"(class|struct) \w+;|static_assert|namespace|#", made.code):
            yield made
        made, at = Declaration(), end
        start = at


def _end_of_declaration(text: str, at: int) -> int:
    round_brackets = 0
    while at < len(text):
        past = _skip_comment(text, at)
        if past != at:
            at = past
            continue
        if text[at] == "{":
            at = _end_of_braces(text, at)
            rest = re.match(r"\s*;", text[at:])
            if rest:
                return at + rest.end()
            if not round_brackets:
                return at
            continue
        round_brackets += {"(": 1, ")": -1}.get(text[at], 0)
        at += 1
        if text[at - 1] == ";" and not round_brackets:
            return at
    return at


def prose(comment: list[str]) -> str:
    """A comment as Markdown: `\\param`, `\\returns` and `\\error` become a list."""
    lines, listed = [], False
    for line in comment:
        parts = re.split(r"(?=\\(?:param|returns?|error|tparam)\b)", line)
        for part in parts:
            command = re.match(r"\\(param|returns?|error|tparam)\b *(.*)", part)
            if command:
                word, text = command.groups()
                if word in ("param", "tparam", "error"):
                    first, _, rest = text.partition(" ")
                    text = f"`{first}`: {rest.strip()}" if rest else f"`{first}`"
                lead = {"error": "**Error** ", "param": "", "tparam": ""}.get(word, "**Returns** ")
                lines += ([] if listed else [""]) + [f"- {lead}{text.strip()}"]
                listed = True
            elif part.strip() or not lines:
                lines.append(("  " if listed else "") + part)
            elif not part.strip():
                lines.append("")
                listed = False
    return re.sub(r"(?<!`)<(penstock/[\w/]+\.h)>", r"`<\1>`", "\n".join(lines))


def page(header: Path, name: str) -> str:
    """The page of one header; `name` is its include path: `penstock/array.h`."""
    text = header.read_text()
    about = re.search(r"/// \\file\n((?:///.*\n)*)", text)
    out = [f"# `<{name}>`", ""]
    if about:
        out += [prose([line[3:].removeprefix(" ") for line in about[1].splitlines()]), ""]
    functions: list[Declaration] = []
    for made in declarations(text):
        if functions and (made.name != functions[-1].name or made.is_type):
            functions = []
        if not functions:
            out += [f"## {made.name or 'declaration'}", ""]
        functions.append(made)
        if made.comment:
            out += [prose(made.comment), ""]
        out += ["```cpp", for_readers(made.code), "```", ""]
    return "\n".join(out)
