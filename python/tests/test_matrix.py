"""The selection of cases of tests with the mark `matrix`."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import of_matrix


def cases_of(*axes: dict[str, Any]) -> list[Any]:
    """A test with a case for each combination; an axis has values of one parameter or more."""
    made = []
    for rows in itertools.product(*(list(zip(*axis.values(), strict=True)) for axis in axes)):
        names = [name for axis in axes for name in axis]
        params = dict(zip(names, itertools.chain(*rows), strict=True))
        made.append(
            SimpleNamespace(
                nodeid=f"test_x[{'-'.join(map(str, params.values()))}]",
                callspec=SimpleNamespace(params=params),
                get_closest_marker=lambda name: pytest.mark.matrix if name == "matrix" else None,
            )
        )
    return [SimpleCase(**vars(each)) for each in made]


class SimpleCase(SimpleNamespace):
    __hash__ = object.__hash__  # type: ignore[assignment]


def test_each_pair_of_three_parameters_is_selected() -> None:
    every = cases_of({"a": "uvwxyz"}, {"b": [[1], [2], [3]]}, {"c": (True, False)})
    kept = of_matrix(every)
    assert 18 <= len(kept) < len(every)
    for one, other in itertools.combinations("abc", 2):
        pairs = {(str(each.callspec.params[one]), str(each.callspec.params[other])) for each in every}
        assert pairs == {(str(each.callspec.params[one]), str(each.callspec.params[other])) for each in kept}


def test_each_value_of_two_parameters_is_selected() -> None:
    """Those of one list of tuples count as one."""
    every = cases_of({"a": "uvwxyz"}, {"b": [[1], [2], [3]], "c": [[4], [5], [6]]})
    kept = of_matrix(every)
    assert 6 <= len(kept) < len(every)
    for name in "ab":
        assert {str(each.callspec.params[name]) for each in kept} == {str(each.callspec.params[name]) for each in every}


def test_tests_without_the_mark_run_all_cases() -> None:
    every = cases_of({"a": range(9)}, {"b": range(9)})
    for each in every:
        each.get_closest_marker = lambda name: None
    assert of_matrix(every) == every
