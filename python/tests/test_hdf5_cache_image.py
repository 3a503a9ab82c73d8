"""HDF5 files whose metadata are in a metadata cache image: what is at their own addresses is old, or nothing."""

from __future__ import annotations

import base64
import zlib
from pathlib import Path

import numpy as np
import penstock as ps
import pytest
from support.http_server import HttpServer

# Made by libhdf5 (H5Pset_mdc_image_config). A group with a dataset in chunks, text of variable length, attributes: all
# metadata are in the image only.
IMAGE = (
    "c-rlmO=uHA6vyApeq^)VnoZ1CqlFwwZ({La@gROA#E31i9>k+sms(QOkZxd)f(7v?;#~y6L!sWpgW$(qy!Rs5Q^AvGKW28{B-4<dL{xk~n7r"
    "MYH?uSEy&U$x51RGHq+4+f#{tE(nb?QN5<7?eZ}+x#fFOwfgI2SCg;(Ev^xAqWmb0)4cgu-Swt&tbUN0?B$OwWU2!bF8f*=TjAPC}bg2^A0{"
    "teM=?Vh6t7b7;LM0XlYu;N}9CSvQsBpiYa<lr#mp#VN)<NhL)Vq1nOsKAlI^NzywzUMF2YZr$iVp=qdF&z6LP~RRNp&c(tM!pZwz<DRo)#dV"
    "Zg`C)Pyp)bN5AmV$axh#C*8-Rl&lRi0Em_HlBVcL~VQQ0#-TR*xi~Bab$<;v<8t0mIG2gZEe#c1c<F7BbO9s=@phnIQX4b`}TCa+F>m1s%Xf"
    "LC^j<$>TQ~Jv{bFe<w4iTSFaG};(VA{R%#jiim4!Ys646rl=YwMkrpqG@3KJUgzX+6)---{p!f*=TjAP9mW{xsG=9guJGPw+M0!_HV}VZc}("
    "fHTIpt|Z7gd0^ut6N>{gxRVne3{Z=xsz<)~_o5VSgs*Hv*G5KlrdF+aiRa|isLCW&sV$UAj-&VNv)akwdQwaq^^oh?zKp1~(p&F$-($a>k$q"
    "+uM4?L7>X~^yOrsQNB6dI;XGH2m9xcsRZ9u;_JYc?~((EVcoRH}>xyUFtx#22F>Hul&v@9qGJP?)B>EF2-^fo{)X<{wNYBIFSQ!rIsOTQtFr"
    ")IyGhLK8%rows;v`9fTK9h--Xy@cEQ_Hveopx|bg?b>^{SuXH*{koKZqNJ#w>GER"
)
# The attribute `v` was 1 when the file was closed first, and is 2 in the image of the second time.
CHANGED = (
    "c-rgqaB<`1lHy|K;9!6O7<0b>gf@VRw+T#C@b_>DVq&OZ5&{YQM+00;42%p6Y&;A=im_rdRGX*}0}G~F9(e`^W(Fn(9*|@ig8<M@7O-*!pdi"
    "QqAmC>}2XoJCwF5f=XaS=L0|OHyBO?n`4n{NcFff9QV*>L87+8U>V&>uix|o@f0qQllXLm3RS@3ZGRW626FbYP&C>RB!fIPqmtSFfoz?G`Px"
    "eGkm$XHB5kfDWv1KJMQ4%1Tkcg2FyfExv)U=)mkQ7{UIJn(gK_C(b1px!qtGb0iYHU`iPrRg;ez=VAqAVBrlG0m-3833xnXPf"
)


def content(of: str) -> bytes:
    return zlib.decompress(base64.b85decode(of))


def check(group: ps.Group) -> None:
    assert sorted(group) == ["group", "text"]
    assert group.attrs["title"] == "kept"
    np.testing.assert_array_equal(group["group/chunked"][...], np.arange(30, dtype="<i2").reshape(5, 6))
    assert group["group/chunked"].attrs["numbers"] == [0, 1, 2]
    assert group["text"][...].tolist() == ["a", "longer"]


def test_metadata_of_an_image_are_read(tmp_path: Path) -> None:
    (tmp_path / "x.h5").write_bytes(content(IMAGE))
    check(ps.open(tmp_path / "x.h5"))


def test_metadata_of_an_image_are_read_over_http() -> None:
    with HttpServer({"x.h5": content(IMAGE)}) as server:
        check(ps.open(f"{server.url}/x.h5"))


def test_an_image_is_newer_than_what_it_replaces(tmp_path: Path) -> None:
    (tmp_path / "x.h5").write_bytes(content(CHANGED))
    group = ps.open(tmp_path / "x.h5")
    assert group.attrs["v"] == 2
    np.testing.assert_array_equal(group["x"][...], np.arange(4, dtype="<i2"))


def test_a_damaged_image_is_an_error(tmp_path: Path) -> None:
    damaged = bytearray(content(CHANGED))
    damaged[damaged.index(b"MDCI") + 60] ^= 1
    (tmp_path / "x.h5").write_bytes(damaged)
    with pytest.raises(ps.CorruptDataError, match="the metadata cache image"):
        ps.open(tmp_path / "x.h5")
