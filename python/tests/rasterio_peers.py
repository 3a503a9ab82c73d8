"""rasterio and rioxarray, which show what GDAL reads. Test modules that import this are skipped without them."""

from __future__ import annotations

import penstock as ps
import pytest

xr = pytest.importorskip("xarray")
rasterio = pytest.importorskip("rasterio")
pytest.importorskip("rioxarray")
if not hasattr(ps, "TiffArray"):
    pytest.skip("this build opens no TIFF", allow_module_level=True)

QUIET = [
    pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning"),
    pytest.mark.filterwarnings("ignore::rasterio.errors.NodataShadowWarning"),
]
