"""Names of files with any characters, as paths and as `file:` URIs."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest

VALUES = np.arange(12, dtype="f4").reshape(1, 3, 4)
ENDINGS = [".tif", ".zarr", ".npy"]


def save(path: Path, values: np.ndarray[Any, Any]) -> Path:
    if path.suffix == ".npy":
        np.save(path, values)
    else:
        ps.save(path, values)
    return path


@pytest.mark.parametrize("ending", ENDINGS)
def test_the_uri_of_an_array_opens_that_array(ending: str, tmp_path: Path) -> None:
    save(tmp_path / f"a b{ending}", VALUES)
    array = ps.open(save(tmp_path / f"a%20b{ending}", VALUES + 1))
    for again in (ps.open(array.uri), pickle.loads(pickle.dumps(array))):
        np.testing.assert_array_equal(again[...], VALUES + 1)


@pytest.mark.parametrize("ending", [*ENDINGS, ".zip"])
def test_percent_encoded_uris_are_decoded(ending: str, tmp_path: Path) -> None:
    for name in (f"a b{ending}", f"50%{ending}", f"ü#?{ending}", f"c%20d{ending}"):
        path = save(tmp_path / name, VALUES)
        np.testing.assert_array_equal(ps.open(path.as_uri())[...], VALUES)
        if ending in (".tif", ".zarr"):
            ps.save((tmp_path / "new" / name).as_uri(), VALUES)
            np.testing.assert_array_equal(ps.open(tmp_path / "new" / name)[...], VALUES)


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_colon_is_an_ordinary_character(ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in (f"2020-01-01T00:00:00{ending}", f"s3:x{ending}"):
        save(Path(name), VALUES)
        np.testing.assert_array_equal(ps.open(name)[...], VALUES)
        assert os.path.exists(name)
    assert len(os.listdir()) == 2


def test_a_folder_may_have_a_name_like_a_file(tmp_path: Path) -> None:
    for name in ("a.npz", "b.npy", "c.h5"):
        ps.save(str(tmp_path / "x.zarr"), x=VALUES)
        (tmp_path / "x.zarr").rename(tmp_path / name)  # Penstock itself refuses to write a folder of this name
        np.testing.assert_array_equal(ps.open(tmp_path / name, "x")[...], VALUES)
        assert list(ps.open(tmp_path / name).keys()) == ["x"]


def test_a_path_that_does_not_exist_is_reported(tmp_path: Path) -> None:
    (tmp_path / "gone.tif").symlink_to("nowhere")
    for name in ("x.tif", "x.zarr", "x", "gone.tif"):
        with pytest.raises(FileNotFoundError, match=f"the file or folder '{tmp_path / name}' does not exist$"):
            ps.open(tmp_path / name)
    with pytest.raises(FileNotFoundError, match="no array or group at"):
        ps.open(tmp_path)
    ps.save(tmp_path / "a.zip", x=VALUES)
    with pytest.raises(FileNotFoundError, match=r"no array or group at .*a\.zip/y"):
        ps.open(tmp_path / "a.zip" / "y")


def test_the_probable_target_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    for folder in (tmp_path, home):
        ps.save(folder / "weather.zarr", x=VALUES)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(home))
    for typed, meant in (
        ("weathr.zarr", "weather.zarr"),
        (str(tmp_path / "weather.zar"), str(tmp_path / "weather.zarr")),
        ("~/weather.zarr", str(home / "weather.zarr")),
        ("s3:/bucket/weather.zarr", "s3://bucket/weather.zarr"),
        ("https:/host/weather.zarr", "https://host/weather.zarr"),
    ):
        with pytest.raises(ps.NotFoundError) as caught:
            ps.open(typed)
        assert caught.value.notes == (f"did you mean '{meant}'?",), typed
        assert isinstance(caught.value, FileNotFoundError)
    for typed in ("climate.zarr", "~/climate.zarr", "nowhere/weather.zarr"):
        with pytest.raises(ps.NotFoundError) as caught:
            ps.open(typed)
        assert "did you mean" not in str(caught.value)


def test_a_folder_of_files_names_some_of_them(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(FileNotFoundError) as missing:
        ps.open(tmp_path)
    assert "the folder has" not in str(missing.value)
    for name in ("b.tif", "a.tif", "c.zarr"):
        ps.save(tmp_path / name, VALUES)
    with pytest.raises(FileNotFoundError, match=r"the folder has 'a\.tif', 'b\.tif', 'c\.zarr'$"):
        ps.open(tmp_path)
    ps.save(tmp_path / "d.tif", VALUES)
    with pytest.raises(FileNotFoundError, match=r"'c\.zarr' and others$"):
        ps.open(tmp_path)


def test_an_archive_without_arrays_is_reported(tmp_path: Path) -> None:
    np.savez(tmp_path / "none.npz")
    with pytest.raises(ps.NotFoundError, match="holds no arrays"):
        ps.open(tmp_path / "none.npz")


@pytest.mark.parametrize("ending", ENDINGS)
def test_two_dots_after_a_link_are_above_its_target(
    ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "real" / "below").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real/below")
    save(tmp_path / f"x{ending}", VALUES)
    save(tmp_path / f"link/../x{ending}", VALUES + 1)
    assert (tmp_path / f"real/x{ending}").exists()
    monkeypatch.chdir(tmp_path)
    for name in (f"link/../x{ending}", f"./link/.././x{ending}", f"{tmp_path}/link/../x{ending}"):
        np.testing.assert_array_equal(ps.open(name)[...], VALUES + 1, name)
    np.testing.assert_array_equal(ps.open(f"x{ending}")[...], VALUES)


def test_names_with_a_nul_are_refused(tmp_path: Path) -> None:
    name = f"{tmp_path}/a\0b.zarr"
    ps.save(tmp_path / "a", VALUES)  # the name before the NUL
    for call in (lambda: ps.save(name, VALUES), lambda: ps.create_group(name, overwrite=True), lambda: ps.open(name)):
        with pytest.raises(ps.InvalidArgumentError, match=r"a path must not contain a NUL: '.*/a\?b.zarr'"):
            call()
    np.testing.assert_array_equal(ps.open(tmp_path / "a")[...], VALUES)
    assert os.listdir(tmp_path) == ["a"]
