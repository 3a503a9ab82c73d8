"""Templates and generated keys of kerchunk's references, without a template engine.

What stands in {{ }} is a name, a call of a template with keyword arguments, or arithmetic on whole numbers.
"""

from __future__ import annotations

import ast
import itertools
import operator
import re
from collections.abc import Mapping
from typing import Any

from penstock._errors import CorruptDataError, Error, UnsupportedError, _make

_MOST_GENERATED = 10_000_000
_PLACE = re.compile(r"\{\{(.*?)\}\}", re.S)
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
            raise _make(CorruptDataError, "the JSON document holds no references: neither 'refs' nor Zarr metadata")
        return dict(document)
    version = document.get("version", 1)
    if version != 1:
        raise _make(UnsupportedError, f"references of version {version!r} are not readable")
    refs = document.get("refs", {})
    templates = document.get("templates") or {}
    if not isinstance(refs, Mapping) or not isinstance(templates, Mapping):
        raise _make(CorruptDataError, "members 'refs' and 'templates' of references are objects")
    if not all(isinstance(text, str) for text in templates.values()):
        raise _make(CorruptDataError, "templates of references are text")
    out: dict[str, Any] = {}
    for key, value in refs.items():
        if isinstance(value, list) and value and isinstance(value[0], str) and "{{" in value[0]:
            value = [_fill(value[0], templates, {}), *value[1:]]
        elif isinstance(value, str) and "{{" in value and not value.lstrip().startswith("{"):
            value = _fill(value, templates, {})
        out[key] = value
    for rule in document.get("gen") or ():
        _generate(rule, templates, out)
    return out


def _generate(rule: Any, templates: Mapping[str, str], out: dict[str, Any]) -> None:
    if not isinstance(rule, Mapping) or not isinstance(rule.get("dimensions"), Mapping):
        raise _make(CorruptDataError, "an item of 'gen' of references has no 'dimensions'")
    axes: list[Any] = []
    count = 1
    for values in rule["dimensions"].values():
        if isinstance(values, Mapping):
            values = range(int(values.get("start", 0)), int(values["stop"]), int(values.get("step", 1)))
        axes.append(values)
        count *= len(values)
    if count > _MOST_GENERATED:
        raise _make(UnsupportedError, f"references that generate {count} keys are more than this release reads")
    for point in itertools.product(*axes):
        names = dict(zip(rule["dimensions"], point, strict=True))
        url = _fill(rule["url"], templates, names)
        key = _fill(rule["key"], templates, names)
        if "offset" in rule and "length" in rule:
            numbers = [int(_fill(str(rule[each]), templates, names)) for each in ("offset", "length")]
            out[key] = [url, *numbers]
        else:
            out[key] = [url]


def _fill(text: str, templates: Mapping[str, str], names: Mapping[str, Any], depth: int = 0) -> str:
    if depth > 8:
        raise _make(CorruptDataError, "templates of references name one another in circles")
    return _PLACE.sub(lambda found: str(_value(found.group(1).strip(), templates, names, depth)), text)


def _value(expression: str, templates: Mapping[str, str], names: Mapping[str, Any], depth: int) -> Any:
    try:
        return _evaluate(ast.parse(expression, mode="eval").body, templates, names, depth)
    except Error:
        raise
    except (SyntaxError, TypeError, ValueError, ArithmeticError, RecursionError, MemoryError) as error:
        raise _make(UnsupportedError, f"the template '{{{{{expression:.80}}}}}' is not readable: {error}") from error


def _evaluate(node: ast.expr, templates: Mapping[str, str], names: Mapping[str, Any], depth: int) -> Any:
    if isinstance(node, ast.Constant) and isinstance(node.value, int | str):
        return node.value
    if isinstance(node, ast.Name):
        if node.id in names:
            return names[node.id]
        if node.id in templates:
            return _fill(templates[node.id], templates, names, depth + 1)
        raise _make(CorruptDataError, f"references use a template '{node.id}' that they do not define")
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        left = _evaluate(node.left, templates, names, depth)
        right = _evaluate(node.right, templates, names, depth)
        if isinstance(left, int) and isinstance(right, int):
            return _OPERATORS[type(node.op)](left, right)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in templates and not node.args:
        given = {each.arg: _evaluate(each.value, templates, names, depth) for each in node.keywords if each.arg}
        return _fill(templates[node.func.id], templates, {**names, **given}, depth + 1)
    raise ValueError("names, whole numbers, + - * // % and calls of templates are known")
