"""Written TIFFs are valid for the validators of COGs: rio-cogeo's and GDAL's."""

from __future__ import annotations

import penstock as ps
import pytest
from conftest import matrix
from tiff_writing_cases import COMPRESSIONS, LEVELS, UTM, check_cog, check_gdal_finds_a_cog, check_layout, picture


@pytest.mark.parametrize("big", [False, True])
@pytest.mark.parametrize("interleave", ["pixel", "band"])
def test_validators_find_a_cog(tmp_path, interleave, big):
    pytest.importorskip("rasterio")
    path = tmp_path / "x.tif"
    ps.save(
        path,
        picture("u2", (3, 1100, 1300)),
        tiles=256,
        interleave=interleave,
        bigtiff=big,
        crs="EPSG:32633",
        transform=UTM,
    )
    check_cog(path)
    check_layout(path, interleave == "band")


@matrix
@pytest.mark.parametrize("big", [False, True])
@pytest.mark.parametrize("compress", COMPRESSIONS)
def test_gdals_own_validator_finds_a_cog(tmp_path, compress, big):
    path = tmp_path / "x.tif"
    options = {"compress": compress, "level": LEVELS.get(compress), "crs": 3857, "transform": UTM}
    ps.save(path, picture("u2", (3, 1100, 1300)), tiles=256, bigtiff=big, **options)
    check_gdal_finds_a_cog(path)
