"""Templates and generated keys of kerchunk's references, without a template engine.

What stands in {{ }} is a name, a call of a template with keyword arguments, or arithmetic on whole numbers.
"""

from __future__ import annotations

import ast
import itertools
import operator
from collections.abc import Mapping
from typing import Any

from penstock.core.errors import CorruptDataError, Error, UnsupportedError

# A small document must not become a large one: what is expanded is bounded by these, and by what the document holds.
_MOST_GENERATED = 100_000  # keys of all rules together, and one more for each reference that is written out
_MOST_EXPRESSION = 1_000  # characters
_MOST_TEXT = 1 << 16  # characters of one expanded text: a location is shorter
_MOST_CHARACTERS = 1 << 25  # of all expanded texts together,
_MORE_CHARACTERS = 1 << 8  # and for each reference
_MOST_DIMENSIONS = 64
_MOST_NUMBER = 1 << 64
_OPERATORS: dict[type[ast.operator], Any] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


def expand(document: Mapping[str, Any]) -> dict[str, Any]:
    """The references of a document of version 0 or 1, by key, with every template filled in."""
    if "version" not in document and "refs" not in document:
        if not any(key.rpartition("/")[2] in (".zgroup", ".zarray", "zarr.json") for key in document):
            raise CorruptDataError("the JSON document holds no references: neither 'refs' nor Zarr metadata")
        return dict(document)
    version = document.get("version", 1)
    if version != 1:
        raise UnsupportedError(f"references of version {version!r} are not readable")
    refs = document.get("refs", {})
    templates = document.get("templates") or {}
    if not isinstance(refs, Mapping) or not isinstance(templates, Mapping):
        raise CorruptDataError("members 'refs' and 'templates' of references are objects")
    if not all(isinstance(text, str) for text in templates.values()):
        raise CorruptDataError("templates of references are text")
    out: dict[str, Any] = {}
    expander = _Expander(templates, len(refs))
    for key, value in refs.items():
        if isinstance(value, list) and value and isinstance(value[0], str) and "{{" in value[0]:
            value = [expander.text(value[0]), *value[1:]]
        elif isinstance(value, str) and "{{" in value and not value.lstrip().startswith("{"):
            value = expander.text(value, is_data=True)
        out[key] = value
    for rule in document.get("gen") or ():
        _generate(rule, expander, out)
    return out


def _generate(rule: Any, expander: _Expander, out: dict[str, Any]) -> None:
    if not isinstance(rule, Mapping) or not isinstance(rule.get("dimensions"), Mapping):
        raise CorruptDataError("an item of 'gen' of references has no 'dimensions'")
    if not all(isinstance(rule.get(name), str) for name in ("key", "url")):
        raise CorruptDataError("'key' and 'url' of an item of 'gen' of references are text")
    if len(rule["dimensions"]) > _MOST_DIMENSIONS:
        raise UnsupportedError(f"references that are generated along {len(rule['dimensions'])} dimensions")
    axes: list[Any] = []
    count = 1
    for values in rule["dimensions"].values():
        try:
            if isinstance(values, Mapping):
                values = range(int(values.get("start", 0)), int(values["stop"]), int(values.get("step", 1)))
            count *= len(values)
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise CorruptDataError(f"a dimension of 'gen' of references is bad: {error!r:.200}") from error
        axes.append(values)
    expander.generate(count)
    names = list(rule["dimensions"])
    for point in itertools.product(*axes):
        given = dict(zip(names, point, strict=True))
        url = expander.text(rule["url"], given)
        key = expander.text(rule["key"], given)
        if "offset" in rule and "length" in rule:
            texts = [expander.text(str(rule[each]), given) for each in ("offset", "length")]
            try:
                out[key] = [url, *map(int, texts)]
            except ValueError as error:
                raise CorruptDataError(f"'offset' or 'length' of 'gen' is no number: {error!s:.200}") from error
        else:
            out[key] = [url]


class _Expander:
    """Fills in the templates of one document, within bounds that its number of references sets."""

    def __init__(self, templates: Mapping[str, str], references: int) -> None:
        self.templates = templates
        self._left = _MOST_CHARACTERS + _MORE_CHARACTERS * references
        self._keys_left = _MOST_GENERATED + references
        self._parsed: dict[str, list[str | ast.expr]] = {}
        self._known: dict[str, str] = {}  # texts without names of their own, as they were expanded

    def generate(self, count: int) -> None:
        """Takes note of keys that a rule makes. Raises where they are too many."""
        if count > self._keys_left:
            text = f"references that generate {count} keys are more than this release reads ({_MOST_GENERATED})"
            raise UnsupportedError(f"{text}: write them out, or save them as Parquet")
        self._keys_left -= count

    def text(self, text: str, names: Mapping[str, Any] | None = None, is_data: bool = False) -> str:
        """`text` with its templates filled in. `is_data`: it is a chunk, which may be as long as it was before."""
        if "{{" not in text:
            return text
        found = None if names else self._known.get(text)
        if found is None:
            self._most = max(_MOST_TEXT, 2 * len(text)) if is_data else _MOST_TEXT
            found = self._fill(text, names or {}, 0)
            if not names and len(self._known) < 10_000:
                self._known[text] = found
        return found

    def _fill(self, text: str, names: Mapping[str, Any], depth: int) -> str:
        if depth > 8:
            raise CorruptDataError("templates of references name one another in circles")
        out: list[str] = []
        size = 0
        for part in self._parts(text):
            made = part if isinstance(part, str) else str(self._value(part, names, depth))
            out.append(made)
            size += len(made)
            self._left -= len(made) + 1
            if size > self._most or self._left < 0:
                most = f"{self._most} characters" if size > self._most else "this release reads"
                raise UnsupportedError(f"templates of references expand to more than {most}: '{text:.80}'")
        return "".join(out)

    def _parts(self, text: str) -> list[str | ast.expr]:
        """Plain text, and what stands in {{ }}, parsed."""
        found = self._parsed.get(text)
        if found is not None:
            return found
        parts: list[str | ast.expr] = []
        at = 0
        while (begin := text.find("{{", at)) >= 0 and (end := text.find("}}", begin + 2)) >= 0:
            if len(parts) > 2 * _MOST_EXPRESSION:
                raise UnsupportedError(f"a text of references has too many templates: '{text:.80}'")
            parts += [text[at:begin], _parse(text[begin + 2 : end].strip())]
            at = end + 2
        parts.append(text[at:])
        if len(self._parsed) < 10_000:
            self._parsed[text] = parts
        return parts

    def _value(self, node: ast.expr, names: Mapping[str, Any], depth: int) -> Any:
        try:
            return self._evaluate(node, names, depth)
        except Error:
            raise
        except (TypeError, ValueError, ArithmeticError, RecursionError, MemoryError) as error:
            raise UnsupportedError(f"the template '{{{{{ast.unparse(node):.80}}}}}': {error}") from error

    def _evaluate(self, node: ast.expr, names: Mapping[str, Any], depth: int) -> Any:
        if isinstance(node, ast.Constant) and isinstance(node.value, int | str):
            return node.value
        if isinstance(node, ast.Name):
            if node.id in names:
                return names[node.id]
            if node.id in self.templates:
                return self._fill(self.templates[node.id], names, depth + 1)
            raise CorruptDataError(f"references use a template '{node.id}' that they do not define")
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            left = self._evaluate(node.left, names, depth)
            right = self._evaluate(node.right, names, depth)
            if isinstance(left, int) and isinstance(right, int):
                made = _OPERATORS[type(node.op)](left, right)
                if abs(made) >= _MOST_NUMBER:
                    raise ValueError("a number of more than 64 bits")
                return made
        is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.args
        if is_call and node.func.id in self.templates:  # type: ignore[attr-defined]
            keywords = node.keywords  # type: ignore[attr-defined]
            given = {each.arg: self._evaluate(each.value, names, depth) for each in keywords if each.arg}
            return self._fill(self.templates[node.func.id], {**names, **given}, depth + 1)  # type: ignore[attr-defined]
        raise ValueError("names, whole numbers, + - * // % and calls of templates are known")


def _parse(expression: str) -> ast.expr:
    try:
        if len(expression) > _MOST_EXPRESSION:
            raise ValueError(f"it has {len(expression)} characters")
        return ast.parse(expression, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise UnsupportedError(f"the template '{{{{{expression:.80}}}}}' is not readable: {error}") from error
