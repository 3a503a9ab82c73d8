"""Tags of wrong types: every accessor works, or its error names the tag."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import penstock as ps
import pytest
from tiff_bytes import image, tag, tiff_of

METADATA = '<GDALMetadata><Item name="SCALE" sample="0" role="scale">2</Item><Item name="A">1</Item></GDALMetadata>'
WHOLE: dict[int, Any] = image(8, 8) | {
    279: tag(4, 64),
    273: tag(4, 8),
    262: tag(3, 3),
    277: tag(3, 1),
    282: tag(5, 72, 1),
    283: tag(5, 72, 1),
    284: tag(3, 1),
    296: tag(3, 2),
    317: tag(3, 1),
    320: tag(3, *range(768)),
    338: tag(3, 0),
    33550: tag(12, 2, 3, 0),
    33922: tag(12, 0, 0, 0, 100, 200, 0),
    34735: tag(3, 1, 1, 0, 3, 1024, 0, 1, 1, 1025, 0, 1, 2, 3072, 0, 1, 32633),
    34736: tag(12, 1.5),
    34737: tag(2, "WGS 84|"),
    42112: tag(2, METADATA),
    42113: tag(2, "7"),
    50844: tag(12, *[float(i) for i in range(92)]),
}
OTHERS = {
    "text": tag(2, "nonsense"),
    "number in text": tag(2, "²"),
    "bytes": tag(7, b"\xff\x00\xfe\x01\x80"),
    "large integers": tag(4, *[70000] * 768),
    "one integer": tag(4, 2**32 - 1),
    "one zero": tag(3, 0),
    "zeros": tag(12, *[0.0] * 16),
    "NaN": tag(12, *[float("nan")] * 92),
    "infinity": tag(11, float("inf")),
    "negative": tag(9, *[-1] * 12),
    "ratios by zero": tag(5, 1, 0, 0, 0),
    "nothing": tag(3),
}
NAMES = [name for name in dir(ps.TiffArray) if (not name.startswith("_") and isinstance(
    inspect.getattr_static(ps.TiffArray, name), property)) or name in ("transform", "crs", "coords")]  # fmt: skip


def accessors(a: Any) -> dict[str, Any]:
    calls: dict[str, Any] = {name: (lambda name=name: getattr(a, name)) for name in NAMES}
    calls["coords"] = a.coords
    calls["unpacked"] = a.unpacked
    calls["read_window"] = lambda: ps.read_window(a, (100, 190, 110, 200), (4, 4))
    calls["fill_value"] = lambda: a.fill_value
    calls["read"] = lambda: a[...]
    return calls


def test_an_intact_file_has_all_tags_that_are_damaged_here():
    a = ps.open(tiff_of(WHOLE) + bytes(64))
    got = {name: call() for name, call in accessors(a).items()}
    assert tuple(got["transform"])[:6] == (2, 0, 99, 0, -3, 201.5)
    assert got["scales"] == (2.0,)
    assert got["nodata"] == 7
    assert got["colormap"].shape == (256, 3)
    assert got["area_or_point"] == "Point"
    assert got["rpcs"] is not None
    assert got["epsg"] == 32633
    assert len(NAMES) > 25


@pytest.mark.parametrize("number", sorted(set(WHOLE) - {256, 257, 258, 273, 279}))
def test_accessors_name_the_tag_of_a_wrong_type(number):
    errors = 0
    for label, value in OTHERS.items():
        try:
            a = ps.open(tiff_of(WHOLE | {number: value}) + bytes(64))
        except ps.Error:
            continue
        for name, call in accessors(a).items():
            try:
                call()
            except ps.Error as error:
                errors += 1
                if name in NAMES and f"tag {number} " not in str(error):
                    pytest.fail(f"{label}, {name} does not name the tag: {error}")
            except Exception as error:
                pytest.fail(f"tag {number}, {label}, {name}: {type(error).__name__}: {error}")
    if number in (284, 320, 34736, 50844):
        assert errors


@pytest.mark.parametrize("number", [33550, 33922, 34735, 42112, 320, 277, 338, 282, 296, 50844])
def test_xarray_and_the_report_name_the_tag_too(tmp_path, number, monkeypatch, capfd):
    """The program runs in this process: starting it for each of 120 files takes most of the test's time."""
    pytest.importorskip("xarray")
    from penstock.__main__ import main
    from penstock.xarray import PenstockBackendEntrypoint

    path = tmp_path / "x.tif"
    for label, value in OTHERS.items():
        path.write_bytes(tiff_of(WHOLE | {number: value}) + bytes(64))
        try:
            PenstockBackendEntrypoint().open_dataset(path)
        except ps.Error:
            pass
        except Exception as error:
            pytest.fail(f"tag {number}, {label}: {type(error).__name__}: {error}")
        monkeypatch.setattr("sys.argv", ["penstock", "info", str(path)])
        status = main()
        said = capfd.readouterr()
        assert (status, bool(said.out), bool(said.err)) in ((0, True, False), (1, False, True)), (label, said)
        assert "Traceback" not in said.err, label


def test_pixels_of_size_zero_have_no_transform():
    """As in GDAL, the tie points are control points then."""
    a = ps.open(tiff_of(WHOLE | {33550: tag(12, 0.0, 3.0, 0.0)}) + bytes(64))
    assert a.transform is None
    assert a.gcps == [(0.5, 0.5, 100.0, 200.0, 0.0)]
    with pytest.raises(ps.InvalidArgumentError, match="transform"):
        ps.read_window(a, bounds=(100, 200, 103, 203))
    without = {number: value for number, value in WHOLE.items() if number not in (33550, 33922)}
    flat = ps.open(tiff_of(without | {34264: tag(12, *[0.0] * 16)}) + bytes(64))
    with pytest.raises(ps.InvalidArgumentError, match="transform"):
        ps.read_window(flat, bounds=(100, 200, 103, 203))
    for each in (a, flat):
        np.testing.assert_array_equal(ps.read_window(each), each[...])


def test_rows_go_down_for_either_sign_of_their_scale(tmp_path):
    rasterio = pytest.importorskip("rasterio")
    path = tmp_path / "x.tif"
    path.write_bytes(tiff_of(WHOLE | {33550: tag(12, 2.0, -3.0, 0.0)}) + bytes(64))
    with rasterio.open(path) as file:
        assert tuple(ps.open(path).transform) == tuple(file.transform)
    np.testing.assert_array_equal(ps.open(path).coords()["y"], 200 - 3.0 * np.arange(8))
