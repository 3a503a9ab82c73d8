"""Writes the files that try_wheel.py reads: pictures with the values that tifffile reads, and certificates."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import tifffile
import trustme

PICTURES = {
    "jpeg": {"compression": "jpeg", "photometric": "ycbcr", "subsampling": (1, 1)},
    "webp": {"compression": "webp", "photometric": "rgb", "compressionargs": {"lossless": True}},
    "jpeg2000": {"compression": "jpeg2000", "photometric": "rgb"},
    "lerc": {"compression": "lerc", "photometric": "rgb"},
    "lerc_zstd": {"compression": "lerc", "photometric": "rgb", "compressionargs": {"compression": "zstd"}},
    "zstd": {"compression": "zstd", "photometric": "rgb", "predictor": True},
    "lzma": {"compression": "lzma", "photometric": "rgb"},
    "deflate": {"compression": "deflate", "photometric": "rgb"},
}


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    y, x = np.mgrid[:200, :300]
    values = np.stack([x * 255 // 299, y * 255 // 199, (x + y) * 255 // 498], axis=-1).astype("u1")
    for name, options in PICTURES.items():
        tifffile.imwrite(folder / f"{name}.tif", values, tile=(64, 64), **options)
        np.save(folder / f"{name}.npy", tifffile.imread(folder / f"{name}.tif"))
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(folder / "authority.pem"))
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(str(folder / "server.pem"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
