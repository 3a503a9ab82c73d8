"""The engine packs the reference tables that Python makes."""

from __future__ import annotations

import numpy as np
import penstock as ps
import pytest
from penstock.references.objects import pack_table


def test_a_table_has_one_form_for_all_orders_of_its_cells() -> None:
    all_cells = pack_table(3, [0, 10, 20], [10, 10, 10])
    assert all_cells == pack_table(3, np.array([0, 10, 20]), [10, 10, 10], numbers=[0, 1, 2], objects=[0, 0, 0])
    assert all_cells[:6] == b"PSREFS"
    assert all_cells != pack_table(4, [0, 10, 20], [10, 10, 10])
    assert pack_table(0, [], []) == pack_table(0, [], [], numbers=[], objects=[], chains=[])


@pytest.mark.parametrize("wrong", [{"numbers": [1, 0]}, {"numbers": [0, 7]}, {"objects": [0]}])
def test_wrong_columns_are_refused(wrong: dict[str, list[int]]) -> None:
    with pytest.raises(ps.CorruptDataError):
        pack_table(2, [0, 10], [10, 10], **wrong)


def test_numbers_that_are_too_large_are_refused() -> None:
    with pytest.raises(ps.OutOfRangeError):
        pack_table(2, [0, 10], [10, 10], chains=[0, 1 << 16])
