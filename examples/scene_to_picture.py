"""From a COG to pictures and to a batch for PyTorch: python examples/scene_to_picture.py [scene.tif [folder]]."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import penstock as ps


def main(scene: str, folder: str) -> None:
    """Writes picture.png and vegetation.png into `folder`."""
    a = ps.open(scene)  # a path, https://..., s3://...: the header is read, nothing else
    left, bottom, _, top = a.bounds

    # A picture of all of it: the overview that suits it is read.
    overview = ps.read_window(a, shape=(256, 256), resampling="average")
    save(Path(folder) / "picture.png", np.moveaxis(overview[:3], 0, -1))

    # The full resolution of one corner, with an index of its vegetation.
    corner = (left, top - 7680, left + 7680, top)
    x = ps.read_window(a, corner).astype("f4")
    ndvi = (x[3] - x[0]) / np.maximum(x[3] + x[0], 1)
    save(Path(folder) / "vegetation.png", (ndvi.clip(0, 1) * 255).astype("u1"))

    # A batch of windows of one size, at any positions: (windows, bands, y, x).
    places = [(left + 1920 * i, bottom + 1920 * i) for i in range(4)]
    batch = np.stack([ps.read_window(a, (x, y, x + 3840, y + 3840), (64, 64), "bilinear") for x, y in places])
    print("batch", batch.shape, batch.dtype)
    try:
        import torch
    except ImportError:
        return
    print(torch.from_numpy(batch).float().div(255).mean(dim=(0, 2, 3)))


def save(path: Path, pixels: np.ndarray) -> None:
    """A PNG, by Matplotlib if it is installed."""
    try:
        from matplotlib.image import imsave
    except ImportError:
        np.save(path.with_suffix(".npy"), pixels)
    else:
        imsave(path, pixels, cmap="YlGn", vmin=0, vmax=255)


if __name__ == "__main__":
    main(*[*sys.argv[1:], *[str(Path(__file__).with_name("scene.tif")), "."][len(sys.argv) - 1 :]])
