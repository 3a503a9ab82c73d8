"""The GPU's code reads files of other projects as the host does; against the fake driver, not on a GPU.

These run in a separate process.
"""

from __future__ import annotations

import pytest
from corpus_ways import CORPUS, DEVICE_WAYS, ONE_OF, walk
from device_support import FakeCuda, cuda, fake_cuda_library

__all__ = ["cuda", "fake_cuda_library"]

# The least number of arrays that are read of each area of the whole corpus.
LEAST = {"zarr": 400, "tiff": 350, "hdf5": 900, "npy": 140, "arrow_parquet": 100, "virtual": 12}


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus of files of others is not next to the checkout")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("area", LEAST)
def test_device_memory_gets_the_same_values(cuda: FakeCuda, area: str) -> None:
    outcomes, _ = walk(area, DEVICE_WAYS, ONE_OF)
    (outcome,) = outcomes.values()
    assert outcome.wrong == []
    assert outcome.equal >= LEAST[area] // (3 * ONE_OF)
