"""All ways of reading return the same values of other projects' files: see `corpus_ways.py` and docs/formats/corpus.md.

Reads one of three files of the corpus; with PENSTOCK_SWEEP=1 all of them (2,682 arrays, 25,804 reads, 2 minutes).
"""

from __future__ import annotations

import pytest
from corpus_ways import CORPUS, ONE_OF, WAYS, walk

# The least number of arrays that are read of each area of the whole corpus.
LEAST = {"zarr": 400, "tiff": 350, "hdf5": 900, "npy": 90, "arrow_parquet": 100, "virtual": 15}


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus of files of others is not next to the checkout")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("area", LEAST)
def test_every_way_of_reading_returns_the_same_values(area: str) -> None:
    outcomes, _ = walk(area, WAYS, ONE_OF)
    assert [f"{name}: {each}" for name, outcome in outcomes.items() for each in outcome.wrong] == []
    assert outcomes["path"].equal >= LEAST[area] // (3 * ONE_OF)
