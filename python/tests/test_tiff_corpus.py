"""Every TIFF of the corpus against its known values: pages by tifffile, images and their headers by GDAL."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
from conftest import LONG
from test_tiff import ROOT, digest

CORPUS = Path(os.environ.get("PENSTOCK_CORPUS", ROOT.parent / "shared" / "corpus"))
pytestmark = pytest.mark.skipif(not (CORPUS / "oracle.jsonl").exists(), reason=f"the whole corpus is not at {CORPUS}")

FUZZ, LIBTIFF = "image-rs__image-tiff/tests/fuzz_images/oor_panic", "libsdl-org__libtiff/test/images"
IMAGES, GDAL = "image-rs__image-tiff/tests/images", "rouault__gdal/autotest/gcore/data"
PICTURES, FIXTURES = "cgohlke__imagecodecs/tests/data/tiff", "cogeotiff__rio-tiler/tests/fixtures"
ZACK = "AcademySoftwareFoundation__OpenImageIO-images/libtiffpic"
GEO = "OSGeo__libgeotiff/libgeotiff/test/data"


def by_path(folders: dict[str, dict[str, Any]]) -> dict[str, Any]:
    return {f"{folder}/{name}": value for folder, files in folders.items() for name, value in files.items()}


# Refused files, and the messages. Peers return the readable parts of damaged files; Penstock returns whole tiles only.
REFUSED = by_path(
    {
        ZACK: {"zackthecat.tif": "old_jpeg"},
        PICTURES: {
            "gray.depth.u1.tif": "ImageDepth",
            "rgb.tiled.jpeg.u2.tif": "3 samples of 12 bits",
            "rgb.tiled.png.u1.tif": "png",
        },
        FUZZ: {"sample-get-lzw-stuck.tiff": r"\[317, 11774\) of a file of 7048 bytes"},
        IMAGES: {"logluv-3c-16b.tiff": "sgilog"},
        LIBTIFF: {
            "logluv-3c-16b.tiff": "sgilog",
            "ojpeg_chewey_subsamp21_multi_strip.tiff": "old_jpeg",
            "ojpeg_single_strip_no_rowsperstrip.tiff": "old_jpeg",
            "ojpeg_zackthecat_subsamp22_single_strip.tiff": "old_jpeg",
            # libtiff reads these two from 4.7 on.
            "testfax3_bug54_1dnoEOL.tif": "does not fill its tile or strip",
            "testfax3_bug_513.tiff": "Buffer overflow at line 0",
        },
        GDAL: {
            "byte_buggy_packbits.tif": "PackBits run of 7 bytes",
            "byte_truncated.tif": r"\[374, 574\) of a file of 374 bytes",
            "byte_zstd_corrupted.tif": "zstd frame is damaged",
            "corrupted_deflate_singlestrip.tif": "deflate stream of 10241 bytes is damaged",
            "excessive-memory-TIFFFillStrip.tif": r"\[20, 3921663156\) of a file of 1738 bytes",
            "gtiff/missing_tilebytecounts_and_offsets.tif": "offsets of 4 tiles or strips in a file of 238 bytes",
            "gtiff/unsupported_codec_unknown.tif": "compression 44510",
            "huge-number-strips.tif": "tag 273 has 8029758706415666848 values",
            "irregular_tile_size_jpeg_in_tiff.tif": "512 x 512 pixels",
            "leak-ZIPSetupDecode.tif": "predictor 255",
            "next_default_case.tif": "compression 32766",
            "next_literalspan.tif": "compression 32766",
            "packbits-not-enough-data.tif": "PackBits run of 112 bytes",
            "thunder.tif": "thunderscan",
            "tiled_bad_offset.tif": r"\[4294967167, 4294967935\) of a file of 170 bytes",
            "toomanyblocks_separate.tif": "4294770690 tiles or strips in a file of 414 bytes",
            "unknown_compression.tif": "compression 65535",
            "ycbcr_14_lzw.tif": "photometric YCbCr",
            "ycbcr_21_lzw.tif": "photometric YCbCr",
            "ycbcr_22_lzw.tif": "photometric YCbCr",
            "ycbcr_41_lzw.tif": "photometric YCbCr",
            "ycbcr_42_lzw.tif": "photometric YCbCr",
            "ycbcr_42_lzw_optimized.tif": "photometric YCbCr",
            "zackthecat.tif": "old_jpeg",
            "zackthecat_corrupted.tif": "old_jpeg",
        },
    }
)

# Files for which tifffile has other values than GDAL and Penstock.
NOT_TIFFFILES = {
    f"{GDAL}/int24.tif",
    f"{GDAL}/uint33.tif",
    f"{GDAL}/size_of_stripbytecount_at_1_and_lower_than_stripcount.tif",
    f"{IMAGES}/hpredict-1c-12b.tiff",  # a predictor with uncompressed values
    f"{LIBTIFF}/testfax4.tiff",
}

# Fields in which GDAL's result differs, and why. `*`: all fields.
CMYK = "GDAL makes RGBA of it"
LOCAL = "GDAL defines a system for it that does not exist"
IDENTIFIED = "GDAL's own tool does not look for the code of a system of parameters; rasterio's to_epsg() does"
COMPOUND = "the code is of the horizontal part"
DIFFERENT = by_path(
    {
        GEO: {
            "oblique_mercator_laborde.tif": {"has_crs": "not understood, which is said"},
            "albers_equal_area.tif": {"epsg": IDENTIFIED},
            "cassini_soldner.tif": {"epsg": IDENTIFIED},
            "equidistant_cylindrical.tif": {"epsg": IDENTIFIED},
            "lcc2sp.tif": {"epsg": IDENTIFIED},
            "new_zealand_mapping_grid.tif": {"epsg": IDENTIFIED},
            "polyconic.tif": {"epsg": IDENTIFIED},
            "polar_stereographic_variant_a.tif": {"epsg": IDENTIFIED},
            "ProjectedCSTypeGeoKey_3410_lambert_cylindrical_equal_area.tif": {"epsg": "GDAL finds a younger code"},
        },
        "blacha__cogeotiff/packages/core/data": {"model_transformation.tif": {"mask": "-128 in GDAL's old int8"}},
        FIXTURES: {"cog_gcps_ovr.tif": {"epsg": "of control points"}},
        f"{IMAGES}/seq": {"seq-4c-8b-cmyk-352ac1da.tiff": {"mask": CMYK, "values": CMYK}},
        GDAL: {
            "3376.tif": {"has_crs": LOCAL},
            "ModelTiepointTag_z_non_zero_but_ModelPixelScaleTag_z_zero.tif": {"has_crs": LOCAL},
            "WGS_1984_Web_Mercator.tif": {"epsg": "a code of ESRI's"},
            "arcgis_geodataxform_coeffx_coeffy.tif": {"transform": "GDAL 3.6 leaves ESRI's polynomial alone"},
            "byte_inconsistent_georef.tif": {"area_or_point": "GDAL forgets the file's own"},
            "cielab.tif": {"*": CMYK},
            "cint_sar.tif": {"epsg": "of control points"},
            "epsg26711_3855_geotiff1_1.tif": {"epsg": COMPOUND},
            "epsg32631_4979_geotiff1_1.tif": {"epsg": COMPOUND},
            "excessive-memory-TIFFFillTile.tif": {"values": "GDAL reads half of a damaged tile"},
            "float32_almost_nodata_max_float32.tif": {"nodata": "GDAL's is of the type"},
            "float32_with_nodata_slightly_above_float_max.tif": {"nodata": "GDAL's is of the type"},
            "gtiff/compdcrs_no_citation.tif": {"epsg": COMPOUND},
            "gtiff/compdcrs_without_gtcitation.tif": {"epsg": COMPOUND},
            "gtiff/compound_with_VerticalCitationGeoKey_only.tif": {"epsg": COMPOUND},
            "gtiff/projected_GTCitationGeoKey_with_underscore_and_GeogTOWGS84GeoKey.tif": {
                "epsg": "a shift of its own"
            },
            "imagine_localcs_citation.tif": {"has_crs": LOCAL},
            "projection_3856.tif": {"epsg": IDENTIFIED},
            "spaf27_correct.tif": {"epsg": IDENTIFIED},
            "spaf27_markedcorrect.tif": {"epsg": IDENTIFIED},
            "test3_with_mask_1bit.tif": {"mask": "the mask is of another size"},
            "test3_with_mask_8bit.tif": {"mask": "the mask is of another size"},
        },
    }
)
TYPES = {"Byte": "u1", "Int8": "i1", "CInt16": "c8", "CInt32": "c8", "CFloat32": "c8", "CFloat64": "c16"}


def records(tool: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for line in (CORPUS / "oracle.jsonl").read_text().splitlines():
        record = json.loads(line)
        if record["path"].startswith("tiff/") and record["tool"] == tool:
            yield record["path"].removeprefix("tiff/"), record


def is_named(path: str, error: ps.Error) -> bool:
    """Whether the refusal is a known one, or due to an absent library."""
    needs_library = re.search(r"lib(tiff|openjp2|jxl)", error.message)
    return bool(needs_library or (path in REFUSED and re.search(REFUSED[path], error.message)))


def test_every_page_reads_as_known_or_is_refused_by_name():
    """Pages of 256 MB or more, those of one sparse file with smaller overviews, are read in `make test-long` only."""
    same, wrong, large, without_pictures = 0, [], [], False
    for path, record in records("tif"):
        if not record.get("ok"):
            try:
                array = ps.open(CORPUS / record["path"])
                if array.nbytes < 1 << 28:
                    array[...]
            except ps.Error:
                pass
            continue
        for number, page in enumerate(record["pages"]):
            if "sha256" not in page or path in NOT_TIFFFILES:
                continue
            label = (path, number, page["compression"], page["bits"])
            try:
                array = ps.open(CORPUS / record["path"], ifd=number, layout="native")
                if array.nbytes >= 1 << 28 and not LONG:
                    large.append(path)
                    continue
                values = array[...]
            except ps.Error as error:
                without_pictures |= label[2:] == (7, 8) and isinstance(error, ps.UnsupportedError)
                if not is_named(path, error) and not (number and path in REFUSED):
                    wrong.append((*label, str(error)))
                continue
            if values.size != np.prod(page["shape"]) or digest(values.astype(page["dtype"])) != page["sha256"]:
                wrong.append((*label, "other values"))
            else:
                same += 1
    assert not wrong, f"{len(wrong)} wrong of {same + len(wrong)}: {wrong[:40]}"
    assert all(path.endswith("/sparse.tiff") for path in large)
    assert same + len(large) >= (420 if without_pictures else 505)


def header_of(array: Any) -> dict[str, Any]:
    """The header, with the names that the records use."""
    a, b, c, d, e, f = tuple(array.transform or (None,) * 6)[:6]
    alpha = [kind for kind in np.atleast_1d(array.tags.get("ExtraSamples", 0)) if kind in (1, 2)]
    flags = (
        2 if array.has_mask else 10 if array.gdal_metadata.get("NODATA_VALUES") else 8 if has_nodata(array) else None
    )
    return {
        "size": [array.shape[2], array.shape[1], array.shape[0]],
        "overviews": len(array.overviews),
        "nodata": array.nodata,
        "transform": None if array.transform is None else [c, a, b, f, d, e],
        "gcps": len(array.gcps),
        "area_or_point": array.area_or_point,
        "epsg": array.epsg,
        "has_crs": array.crs is not None or bool(array.gcps),
        "scale": array.scales[0],
        "offset": array.offsets[0],
        "mask": flags or (6 if alpha and array.shape[0] > 1 else 1),
    }


def has_nodata(array: Any) -> bool:
    if array.nodata is None or array.dtype.kind not in "iu":
        return array.nodata is not None
    limits = np.iinfo(array.dtype)
    return bool(limits.min <= array.nodata <= limits.max)


def known_of(record: dict[str, Any]) -> dict[str, Any]:
    nodata, epsg, scale, offset = (record[name] for name in ("nodata", "epsg", "scale", "offset"))
    return {
        "size": record["size"],
        "overviews": record["overviews"],
        "nodata": None if nodata == "None" else float(nodata),
        "transform": record["gt"],
        "gcps": record["gcps"],
        "area_or_point": record["areapoint"],
        "epsg": None if epsg is None else int(epsg),
        "has_crs": record["srs"] is not None or record["gcps"] > 0,
        "scale": 1.0 if scale is None else scale,
        "offset": 0.0 if offset is None else offset,
        "mask": record["mask"],
    }


def same(ours: Any, theirs: Any) -> bool:
    return bool(ours == theirs) or (isinstance(theirs, float) and theirs != theirs and ours != ours)


def test_every_image_equals_gdals_or_differs_as_listed():
    read, wrong = 0, []
    for path, record in records("gdal"):
        reasons = DIFFERENT.get(path, {})
        try:
            array = ps.open(CORPUS / record["path"])
            values = array[...] if array.nbytes < 1 << 27 else None
            if not record["ok"] or "band_sha256" not in record:
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                ours, theirs = header_of(array), known_of(record)
        except ps.Error as error:
            if record["ok"] and "band_sha256" in record and not is_named(path, error):
                wrong.append((path, str(error)))
            continue
        ours["values"], theirs["values"] = theirs["size"], theirs["size"]
        if values is not None:
            kind = TYPES.get(record["dtype"], record["dtype"].lower())
            ours["values"] = [digest(band.astype(kind)) for band in values]
            theirs["values"] = record["band_sha256"]
        differing = {name for name in ours if not same(ours[name], theirs[name])}
        wrong += [(path, name, ours[name], theirs[name]) for name in differing if not {name, "*"} & set(reasons)]
        read += 1
    assert not wrong, f"{len(wrong)} wrong of {read}: {wrong[:40]}"
    assert read >= 380


def test_refusals_have_the_listed_messages():
    other = []
    for path in REFUSED:
        try:
            array = ps.open(CORPUS / "tiff" / path)
            array[...]
            other.append((path, "readable"))
        except ps.Error as error:
            if not is_named(path, error):
                other.append((path, error.message))
    assert not other


# Opens and reads each file; prints the seconds and the growth of peak memory, without the image itself.
BOUNDED = """
import json, sys, time
import numpy, penstock as ps
# Not ru_maxrss: it begins with what the parent had.
peak = lambda: int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM:")).split()[1]) << 10
for path in sys.stdin.read().split("\\n"):
    begin, before, wanted = time.perf_counter(), peak(), 0
    try:
        array = ps.open(path)
        if array.nbytes < 1 << 26:
            wanted = array.nbytes
            array[...]
        else:
            array[0, 0, 0]
    except ps.Error:
        pass
    print(json.dumps([path, time.perf_counter() - begin, peak() - before - wanted]))
"""


def test_no_file_of_the_corpus_takes_long_or_much_memory():
    """This includes malformed files, regardless of their headers."""
    known = [json.loads(line) for line in (CORPUS / "oracle.jsonl").read_text().splitlines()]
    known = [record for record in known if record["path"].startswith("tiff/")]
    names = sorted({str(CORPUS / record["path"]) for record in known})
    assert any(not record.get("ok") for record in known)
    made = subprocess.run(
        [sys.executable, "-c", BOUNDED], input="\n".join(names), capture_output=True, text=True, check=True, timeout=600
    )
    measured = [json.loads(line) for line in made.stdout.splitlines()]
    assert len(measured) == len(names)
    slow = [each for each in measured if each[1] > 5]
    large = [each for each in measured if each[2] > 64 << 20]
    assert not slow
    assert not large
