"""Makes examples/scene.tif, a small COG of an artificial landscape: red, green, blue and near infrared.

Needs rasterio: python examples/make_scene.py. The terrain is noise of many scales, the rest follows from its height.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import rasterio

SIZE = 512
HERE = Path(__file__).parent


def terrain(rng: np.random.Generator) -> np.ndarray:
    """Height from 0 to 1: noise whose power falls with its frequency."""
    frequency = np.hypot(np.fft.fftfreq(SIZE)[:, None], np.fft.rfftfreq(SIZE)[None])
    frequency[0, 0] = 1
    noise = np.fft.rfft2(rng.normal(size=(SIZE, SIZE))) / frequency**2.3
    height = np.fft.irfft2(noise, (SIZE, SIZE))
    return (height - height.min()) / np.ptp(height)


def scene() -> np.ndarray:
    """(4, y, x) bytes."""
    height = terrain(np.random.default_rng(12))
    down, across = np.gradient(height)
    light = np.clip(1 + 45 * (across - down), 0.45, 1.5)
    water = height < 0.36
    steps = np.array([0.0, 0.36, 0.40, 0.55, 0.72, 0.85, 1.0])
    colors = {
        "red": [10, 40, 196, 92, 70, 128, 245],
        "green": [40, 96, 180, 134, 102, 122, 246],
        "blue": [80, 130, 130, 62, 52, 110, 250],
        "near infrared": [4, 8, 120, 230, 200, 130, 200],
    }
    shade = np.where(water, 1.0, light)
    bands = [np.interp(height, steps, values) * shade for values in colors.values()]
    # Steps of four levels: hardly seen, and the file is smaller.
    return (np.clip(bands, 0, 255) // 4 * 4).astype("u1")


def main() -> None:
    """Writes the file next to this script."""
    where = rasterio.Affine(30, 0, 500000, 0, -30, 5200000)
    options = {"driver": "COG", "crs": "EPSG:32633", "transform": where, "blocksize": 256, "compress": "zstd"}
    options |= {"predictor": 2, "level": 22, "overview_resampling": "average", "interleave": "pixel"}
    with rasterio.open(HERE / "scene.tif", "w", width=SIZE, height=SIZE, count=4, dtype="uint8", **options) as file:
        file.write(scene())
        for band, name in enumerate(("red", "green", "blue", "near infrared"), 1):
            file.set_band_description(band, name)


if __name__ == "__main__":
    main()
