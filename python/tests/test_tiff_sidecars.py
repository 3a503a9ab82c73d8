"""Sidecar files of a TIFF, `.aux.xml` and world files, compared with GDAL's reading of them."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
from tiff_bytes import image, tag, tiff_of

rasterio = pytest.importorskip("rasterio")
pyproj = pytest.importorskip("pyproj")
pytestmark = pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")

ITEMS = {"K": "own", "L": "own", "B": "own"}
METADATA = """<GDALMetadata><Item name="K">own</Item><Item name="L">own</Item><Item name="B" sample="0">own</Item>
<Item name="D" sample="0" role="description">own</Item><Item name="S" sample="0" role="scale">2</Item>
<Item name="O" sample="0" role="offset">3</Item><Item name="U" sample="0" role="unittype">own</Item></GDALMetadata>"""
NOTHING = image(2, 2, 2)
OWN = NOTHING | {33550: tag(12, 10, 10, 0), 33922: tag(12, 0, 0, 0, 100, 200, 0), 42112: tag(2, METADATA)}
OWN |= {34735: tag(3, 1, 1, 0, 3, 1024, 0, 1, 1, 1025, 0, 1, 1, 3072, 0, 1, 32633), 42113: tag(2, "1")}
POINTS = NOTHING | {33922: tag(12, 0, 0, 0, 10, 20, 0, 1, 1, 0, 11, 19, 0)}
CENTRES = NOTHING | {34735: tag(3, 1, 1, 0, 2, 1025, 0, 1, 2, 3072, 0, 1, 32633)}

SYSTEM = '<SRS dataAxisToSRSAxisMapping="1,2">EPSG:32631</SRS>'
PLACE = "<GeoTransform> 1.0, 2.0, 0.0, 3.0, 0.0, -4.0</GeoTransform>"
OF_BANDS = """
<Metadata><MDI key="K">sidecar</MDI><MDI key="P">sidecar</MDI><MDI key="AREA_OR_POINT">Point</MDI></Metadata>
<Metadata domain="D"><MDI key="Q">sidecar</MDI></Metadata>
<PAMRasterBand band="1"><Description>sidecar</Description><NoDataValue>9</NoDataValue><UnitType>sidecar</UnitType>
<Offset>5</Offset><Scale>6</Scale><Metadata><MDI key="STATISTICS_MEAN">2.5</MDI><MDI key="B">sidecar</MDI></Metadata>
</PAMRasterBand><PAMRasterBand band="2"><Description>other</Description><NoDataValue>9</NoDataValue></PAMRasterBand>"""
HEX = "".join(
    f'<PAMRasterBand band="{i}"><NoDataValue le_hex_equiv="0000000000001C40">2</NoDataValue></PAMRasterBand>'
    for i in (1, 2)
)
WORLD = "2\n0\n0\n-3\n10\n20\n"

CASES: dict[str, tuple[dict[int, Any], dict[str, str]]] = {
    "all": (OWN, {".tif.aux.xml": SYSTEM + PLACE + OF_BANDS}),
    "all of nothing": (NOTHING, {".tif.aux.xml": SYSTEM + PLACE + OF_BANDS}),
    "system": (NOTHING, {".tif.aux.xml": SYSTEM}),
    "place": (OWN, {".tif.aux.xml": PLACE}),
    "place of points": (CENTRES, {".tif.aux.xml": PLACE}),
    "exact nodata": (NOTHING, {".tif.aux.xml": HEX}),
    "broken": (OWN, {".tif.aux.xml": "<SRS"}),
    "tfw": (NOTHING, {".tfw": WORLD}),
    "tifw": (NOTHING, {".tifw": WORLD}),
    "wld": (NOTHING, {".wld": WORLD}),
    "TFW": (NOTHING, {".TFW": WORLD}),
    "another's": (NOTHING, {".jgw": WORLD}),
    "commas": (NOTHING, {".tfw": WORLD.replace("2", "2,5", 1)}),
    "rotated": (NOTHING, {".tfw": "2\n1\n1\n-3\n10\n20\n"}),
    "short": (NOTHING, {".tfw": "2\n1\n"}),
    "world of points": (CENTRES, {".tfw": WORLD}),
    "world for control points": (POINTS, {".tfw": WORLD}),
    "world of what has a place": (OWN, {".tfw": WORLD}),
    "both": (NOTHING, {".tfw": WORLD, ".tif.aux.xml": PLACE}),
}


def written(folder: Path, tags: dict[int, Any], beside: dict[str, str], name: str = "a b%20") -> Path:
    path = folder / f"{name}.tif"
    path.write_bytes(tiff_of(tags, bytes(range(8))))
    for ending, text in beside.items():
        xml = ending.endswith("xml")
        (folder / f"{name}{ending}").write_text(f"<PAMDataset>{text}</PAMDataset>" if xml else text)
    return path


@pytest.mark.parametrize("case", CASES)
def test_sidecar_files_have_gdals_meaning(tmp_path, case):
    path = written(tmp_path, *CASES[case])
    for array in (ps.open(path), pickle.loads(pickle.dumps(ps.open(path)))):
        with rasterio.open(path) as file:
            assert tuple(array.transform or (1, 0, 0, 0, 1, 0))[:6] == tuple(file.transform)[:6]
            assert array.nodata == file.nodata
            assert array.descriptions == file.descriptions
            assert array.units == file.units
            assert (array.scales, array.offsets) == (file.scales, file.offsets)
            assert array.band_metadata == (file.tags(1), file.tags(2))
            assert dict(array.attrs) == file.tags()
            assert len(array.gcps) == len(file.gcps[0])
            assert array.epsg == (file.crs.to_epsg() if file.crs else None)
            if array.epsg:
                assert array.crs == pyproj.CRS.from_user_input(file.crs)


LIST = (
    '<GCPList Projection="EPSG:32633" dataAxisToSRSAxisMapping="1,2"><GCP Pixel="0.5" Line="1.5" X="10" Y="20" Z="3"/>'
    '<GCP Id="b" Pixel="2" Line="0" X="30" Y="40"/><GCP Pixel="1" Line="x" X="5" Y="6"/><GCP Pixel="1"/></GCPList>'
)
OWN_POINTS = {33922: tag(12, 0, 0, 0, 1, 2, 0, 4, 0, 0, 5, 2, 0), 34735: tag(3, 1, 1, 0, 1, 3072, 0, 1, 32634)}
INCHES = {282: tag(5, 72, 1), 283: tag(5, 36, 1), 296: tag(3, 2)}


def doubles(name: str, *values: float) -> str:
    return f"<{name}>" + "".join(f"<Double>{value}</Double>" for value in values) + f"</{name}>"


def esri(*parts: str, order: int = 1, crs: bool = True) -> str:
    wkt = pyproj.CRS.from_epsg(32632).to_wkt("WKT1_ESRI")
    system = f"<SpatialReference><WKT>{wkt}</WKT></SpatialReference>" if crs else ""
    return f"<GeodataXform><PolynomialOrder>{order}</PolynomialOrder>{system}{''.join(parts)}</GeodataXform>"


def of_esri(text: str) -> str:
    return f'<Metadata domain="xml:ESRI" format="xml">{text}</Metadata>'


LINKS = doubles("SourceGCPs", 0.5, -1, 3, -1.5, 1, 2) + doubles("TargetGCPs", 100, 200, 130, 190, 110, 160)
POLYNOMIAL = doubles("CoeffX", 1, 2, 3) + doubles("CoeffY", 4, 5, 6)
POINT_CASES = {
    "list": (NOTHING, LIST),
    "list and place": (NOTHING, LIST + PLACE),
    "list and system": (NOTHING, SYSTEM + LIST),
    "list without a system": (NOTHING, LIST.replace('Projection="EPSG:32633"', "")),
    "list, own place": (OWN, LIST),
    "list, own points": (NOTHING | OWN_POINTS, LIST),
    "empty list, own points": (NOTHING | OWN_POINTS, "<GCPList/>"),
    "links": (NOTHING, of_esri(esri(LINKS))),
    "links in inches": (NOTHING | INCHES, of_esri(esri(LINKS))),
    "links in inches upwards": (NOTHING | INCHES, of_esri(esri(LINKS.replace("-", "")))),
    "links in inches without a system": (NOTHING | INCHES, of_esri(esri(LINKS, crs=False))),
    "links in inches and a system": (NOTHING | INCHES, SYSTEM + of_esri(esri(LINKS, crs=False))),
    "links in inches and a place": (NOTHING | INCHES, PLACE + of_esri(esri(LINKS))),
    "links in inches, own place": (OWN | INCHES, of_esri(esri(LINKS))),
    "links in inches and a list": (NOTHING | INCHES, LIST + of_esri(esri(LINKS))),
    "links that do not match": (NOTHING | INCHES, of_esri(esri(LINKS.replace("<Double>200</Double>", "")))),
    "polynomial": (NOTHING, of_esri(esri(POLYNOMIAL))),
    "polynomial and links": (NOTHING | INCHES, of_esri(esri(POLYNOMIAL, LINKS))),
    "polynomial and place": (NOTHING, PLACE + of_esri(esri(POLYNOMIAL))),
    "polynomial of the second order": (NOTHING, of_esri(esri(POLYNOMIAL, order=2))),
    "system of ESRI's": (NOTHING, SYSTEM + of_esri(esri())),
    "system of ESRI's, own place": (OWN, of_esri(esri())),
}


@pytest.mark.parametrize("case", POINT_CASES)
def test_ground_points_of_sidecar_files_are_those_of_gdal(tmp_path, case):
    tags, text = POINT_CASES[case]
    path = written(tmp_path, tags, {".tif.aux.xml": text})
    array = ps.open(path)
    with rasterio.open(path) as file:
        points, system = file.gcps
        assert array.gcps == [(each.col, each.row, each.x, each.y, each.z) for each in points]
        assert (array.gcps_crs is None) == (system is None)
        if system is not None:
            assert array.gcps_crs == pyproj.CRS.from_user_input(system)
        assert tuple(array.transform or (1, 0, 0, 0, 1, 0))[:6] == tuple(file.transform)[:6]
        if not points:  # GDAL reports only their coordinate system
            assert array.epsg == (file.crs.to_epsg() if file.crs else None)


def test_files_of_arcgis_are_placed_as_in_gdal():
    folder = os.environ.get("PENSTOCK_CORPUS")
    paths = sorted(Path(folder).glob("tiff/**/arcgis*_geodataxform_*.tif")) if folder else []
    if not paths:
        pytest.skip("no corpus: set PENSTOCK_CORPUS")
    for path in paths:
        array = ps.open(path)
        with rasterio.open(path) as file:
            points, system = file.gcps
            assert array.gcps == [(each.col, each.row, each.x, each.y, each.z) for each in points]
            assert tuple(array.transform or (1, 0, 0, 0, 1, 0))[:6] == tuple(file.transform)[:6]
            found = array.gcps_crs if points else array.crs
            assert found == pyproj.CRS.from_user_input(system if points else file.crs)


def test_a_document_of_esri_alone_is_read_too(tmp_path):
    path = written(tmp_path, NOTHING, {})
    Path(f"{path}.aux.xml").write_text(esri())
    assert ps.open(path).epsg == 32632


def test_points_of_sidecar_files_apply_to_levels(tmp_path):
    path = tmp_path / "x.tif"
    ps.save(path, np.zeros((2, 64, 64), "u1"), tiles=32)
    (tmp_path / "x.tif.aux.xml").write_text(f"<PAMDataset>{LIST}</PAMDataset>")
    assert ps.open(path, level=1).gcps == [(0.25, 0.75, 10, 20, 3), (1, 0, 30, 40, 0)]


def test_levels_and_selected_bands_have_them_too(tmp_path):
    path = tmp_path / "x.tif"
    ps.save(path, np.zeros((2, 64, 64), "u1"), tiles=32)
    (tmp_path / "x.tif.aux.xml").write_text(f"<PAMDataset>{SYSTEM}{PLACE}{OF_BANDS}</PAMDataset>")
    level = ps.open(path, level=1, bands=[1, 0])
    assert tuple(level.transform)[:6] == (4.0, 0.0, 1.0, 0.0, -8.0, 3.0)
    assert level.descriptions == ("other", "sidecar")
    assert level.scales == (1.0, 6.0)
    assert tuple(ps.open(path, unpack=True).transform)[:6] == (2.0, 0.0, 1.0, 0.0, -4.0, 3.0)


@pytest.mark.parametrize("own", [NOTHING, OWN])
@pytest.mark.parametrize("nodata", [{1: 4}, {2: 5}, {1: 4, 2: 5}, {1: 4, 2: 4}])
def test_each_band_has_its_own_nodata(tmp_path, own, nodata):
    texts = (
        f'<PAMRasterBand band="{i}"><NoDataValue>{each}</NoDataValue></PAMRasterBand>' for i, each in nodata.items()
    )
    path = written(tmp_path, {key: own[key] for key in own if key != 42112}, {".tif.aux.xml": "".join(texts)})
    with rasterio.open(path) as file:
        values, masks, wanted = file.read(), file.read_masks(), file.nodatavals
    array = ps.open(path)
    assert array.nodata == wanted[0]
    assert ps.open(path, bands=[1]).nodata == wanted[1]
    shown = np.where(masks != 0, values.astype("f4"), np.nan)
    np.testing.assert_array_equal(ps.open(path, unpack=True)[...], shown)
    np.testing.assert_array_equal(ps.open(path, bands=[1, 0], unpack=True)[1:, ::-1], shown[:1, ::-1])
    with pytest.importorskip("xarray").open_dataset(path, engine="penstock") as dataset:
        np.testing.assert_array_equal(dataset.band_data, shown)


NUMBERS = [f"{axis}_{kind}" for kind in ("OFF", "SCALE") for axis in ("LINE", "SAMP", "LAT", "LONG", "HEIGHT")]
LISTS = ["LINE_NUM_COEFF", "LINE_DEN_COEFF", "SAMP_NUM_COEFF", "SAMP_DEN_COEFF"]
RPC_TEXT = "".join(f"{name}: {i + 0.5:+} units\n" for i, name in enumerate(NUMBERS))
RPC_TEXT += "".join(f"{name}_{i + 1}: {1 / (i + 1):.9E}\n" for name in LISTS for i in range(20))
RPB = 'satId = "QB02";\nSpecId = "RPC00B";\nBEGIN_GROUP = IMAGE\n\terrBias = 1.5;\n\terrRand = 0.5;\n'
for _i, _name in enumerate(["line", "samp", "lat", "long", "height"]):
    RPB += f"\t{_name}Offset = {_i + 7.25};\n\t{_name}Scale = {_i + 3};\n"
for _name in ("lineNumCoef", "lineDenCoef", "sampNumCoef", "sampDenCoef"):
    RPB += f"\t{_name} = (\n" + ",\n".join(f"\t\t\t{i - 3:+.3E}" for i in range(20)) + ");\n"
RPB += "END_GROUP = IMAGE\nEND;\n"
OWN_RPCS = NOTHING | {50844: tag(12, *[float(i) for i in range(92)])}


@pytest.mark.parametrize("own", [NOTHING, OWN_RPCS])
@pytest.mark.parametrize(
    "beside", [{}, {".RPB": RPB}, {".rpb": RPB}, {"_RPC.TXT": RPC_TEXT}, {"_rpc.txt": RPC_TEXT, ".RPB": RPB}]
)
def test_polynomials_of_sidecar_files_override_as_in_gdal(tmp_path, own, beside):
    path = written(tmp_path, own, beside)
    rpcs = ps.open(path).rpcs
    with rasterio.open(path) as file:
        wanted = file.rpcs
    assert (rpcs is None) == (wanted is None) == (own is NOTHING and not beside)
    if rpcs is not None:
        given = {name.upper(): value for name, value in wanted.to_dict().items() if value is not None}
        assert {name: rpcs[name] for name in given} == given
        assert set(rpcs) == set(given)
    assert ps.open(path.read_bytes()).rpcs == (None if own is NOTHING else ps.open(tiff_of(own, bytes(8))).rpcs)


@pytest.mark.parametrize("own", [NOTHING, OWN_RPCS])
@pytest.mark.parametrize("beside", [{}, {".RPB": RPB}])
def test_polynomials_are_shown_as_rioxarray_shows_them(tmp_path, own, beside):
    xr, rioxarray = pytest.importorskip("xarray"), pytest.importorskip("rioxarray")
    if tuple(map(int, rioxarray.__version__.split(".")[:2])) < (0, 20):
        pytest.skip("this rioxarray shows none")
    path = written(tmp_path, own, beside)
    with xr.open_dataset(path, engine="penstock") as ours, xr.open_dataset(path, engine="rasterio") as theirs:
        assert ours.spatial_ref.attrs.get("rpcs") == theirs.spatial_ref.attrs.get("rpcs")


@pytest.mark.parametrize(
    "text", [RPB[:600], RPB.replace("lineScale = 3;", ""), RPB.replace("lineScale = 3", "lineScale = x")]
)
def test_an_incomplete_polynomial_is_ignored(tmp_path, text):
    assert ps.open(written(tmp_path, NOTHING, {".RPB": text})).rpcs is None
    assert ps.open(written(tmp_path, OWN_RPCS, {".RPB": text})).rpcs["LINE_OFF"] == 2


def test_other_places_and_pages_have_no_sidecar_files(tmp_path):
    path = written(tmp_path, NOTHING, {".tfw": WORLD, ".tif.aux.xml": SYSTEM})
    for array in (ps.open(path.read_bytes()), ps.open(path, ifd=0)):
        assert (array.transform, array.crs) == (None, None)


ENTITIES = "".join(f'<!ENTITY e{i} "{f"&e{i - 1};" * 10 if i else "x"}">' for i in range(9))
HOSTILE = {
    "entities": f"<!DOCTYPE PAMDataset [{ENTITIES}]><PAMDataset><SRS>&e8;</SRS></PAMDataset>",
    "large": f"<PAMDataset>{SYSTEM}{' ' * (5 << 20)}</PAMDataset>",
    "another document": f"<Other>{SYSTEM}</Other>",
    "deep": "<PAMDataset>" + "<a>" * 100_000,
    "numbers": "<PAMDataset><GeoTransform>nan,1,2,3,4,5</GeoTransform><PAMRasterBand band='99999999999'/>"
    "<PAMRasterBand band='1'><NoDataValue>none</NoDataValue></PAMRasterBand></PAMDataset>",
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_sidecar_files_are_ignored(tmp_path, case):
    path = written(tmp_path, OWN, {})
    Path(f"{path}.aux.xml").write_text(HOSTILE[case])
    array = ps.open(path)
    assert (array.epsg, array.nodata, tuple(array.transform)[:6]) == (32633, 1, (10, 0, 100, 0, -10, 200))


def test_xarray_shows_what_rioxarray_shows(tmp_path):
    xr = pytest.importorskip("xarray")
    pytest.importorskip("rioxarray")
    path = written(tmp_path, OWN, {".tif.aux.xml": SYSTEM + PLACE + OF_BANDS})
    ours, theirs = (xr.open_dataset(path, engine=engine) for engine in ("penstock", "rasterio"))
    xr.testing.assert_identical(ours.drop_vars("spatial_ref"), theirs.drop_vars("spatial_ref"))
    assert ours.spatial_ref.attrs == theirs.spatial_ref.attrs


@pytest.mark.parametrize("ending", [".RPB", "_RPC.TXT"])
@pytest.mark.parametrize("text", ["a", "\n", " = ", "a = ", "a:"])
def test_texts_that_repeat_without_end_take_no_time(tmp_path, ending, text):
    """Time proportional to the square of their length would be minutes."""
    path = tmp_path / "x.tif"
    path.write_bytes(tiff_of(image(2, 2), b"abcd"))
    (tmp_path / f"x{ending}").write_text(text * ((1 << 20) // len(text)))
    assert ps.open(path).rpcs is None
