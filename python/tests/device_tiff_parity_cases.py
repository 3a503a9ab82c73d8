"""The device reads TIFFs as the host does; against the fake driver, not on a GPU.

These run in a separate process.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
from device_support import FakeCuda, cuda, fake_cuda_library

__all__ = ["cuda", "fake_cuda_library"]

COMPRESSIONS: dict[str, dict[str, Any]] = {
    "none": {},
    "deflate": {"compression": "zlib"},
    "lzw": {"compression": "lzw"},
    "zstd": {"compression": "zstd"},
    "packbits": {"compression": "packbits"},
    "lzma": {"compression": "lzma"},
}


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("layout", [{"tile": (32, 48)}, {"rowsperstrip": 13}], ids=["tiles", "strips"])
def test_tiffs_are_read_as_on_the_host(
    cuda: FakeCuda, tmp_path: Path, compression: str, layout: dict[str, Any]
) -> None:
    tifffile = pytest.importorskip("tifffile")
    pytest.importorskip("imagecodecs")
    shapes = {"gray": (83, 111), "rgb": (83, 111, 3), "planes": (3, 83, 111), "five": (31, 67, 5)}
    on_device = 0
    for i, (dtype, samples) in enumerate(itertools.product(("u1", "i2", "u4", "f4", "f8", "c8"), shapes)):
        order = "<>"[(i + i // len(shapes)) % 2]  # both byte orders for each type and each shape
        kind = np.dtype(dtype).kind
        predictors = [1]
        if compression in ("deflate", "lzw", "zstd"):
            predictors += [2] * (kind in "iu") + [3] * (kind == "f")
        steps = np.random.default_rng(1).integers(-3, 4, shapes[samples]).cumsum(-1)
        values = (steps * 41).astype(dtype)
        for predictor in predictors:
            path = tmp_path / "x.tif"
            tifffile.imwrite(
                path,
                values,
                byteorder=order,
                photometric="rgb" if samples in ("rgb", "planes") else "minisblack",
                planarconfig="separate" if samples == "planes" else None if samples == "gray" else "contig",
                predictor=predictor if predictor != 1 else None,
                **layout,
                **COMPRESSIONS[compression],
            )
            opened = ps.open(str(path))
            what = f"{dtype} {order} {samples} predictor {predictor}"
            selection = (np.s_[...], np.s_[..., 5:70:3])[(i % 4 // 2 + i // 8 + predictor // 2) % 2]
            found = opened.read(selection, device="cuda", check=True).numpy()
            np.testing.assert_array_equal(found, opened[selection], err_msg=what)
            said = opened.plan(device="cuda").split("cuda: ")[1].split("\n")[0]
            assert (" on the host" in said) == (compression == "lzma"), f"{what}: {said}"
            on_device += " on the device" in said
    assert on_device or compression in ("lzma", "none")
