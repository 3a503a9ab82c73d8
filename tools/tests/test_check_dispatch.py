"""Tests of the check of what the Python package leaves to the engine."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))
import check_dispatch


@pytest.mark.parametrize(
    "source",
    [
        'begin.startswith(b"PK\\x03\\x04")',
        '_MAGIC = (b"II*\\0", b"x")',
        'begin[:8] == b"\\x89HDF\\r\\n\\x1a\\n"',
        "if b'{\"penstock_manifest\":': pass",
    ],
)
def test_first_bytes_of_formats_are_reported(source: str) -> None:
    (line,) = check_dispatch.check_file("target/sniff.py", f"\n{source}\n")
    assert line.startswith("python/penstock/target/sniff.py:2: ")
    assert "ask the registry" in line


@pytest.mark.parametrize("source", ['x = b"{}"', 'x = "PK"', 'document = b"data"', "x = 1"])
def test_other_constants_are_accepted(source: str) -> None:
    assert check_dispatch.check_file("target/sniff.py", source) == []


@pytest.mark.parametrize(
    "decision",
    [
        'if "no such file" in str(error): pass',
        'x = str(error).lower() == "gone"',
        "if error.args[0] == 2: pass",
        'if error.message.startswith("opening"): pass',
        'if f"{error}".partition(":")[0] != "fsspec": raise',
        'if re.search("[0-9]+ bytes", str(error)): pass',
        'if any(note.startswith("x") for note in error.notes) or "x" in error.notes: pass',
        'match str(error):\n        case "x": pass',
    ],
)
def test_decisions_by_the_text_of_an_error_are_reported(decision: str) -> None:
    source = f"try:\n    f()\nexcept OSError as error:\n    {decision}\n"
    (line,) = check_dispatch.check_file("core/job.py", source)
    assert line.startswith("python/penstock/core/job.py:4: decides by the text of an error")


@pytest.mark.parametrize(
    "use",
    [
        "if error.errno == errno.ENOENT: pass",
        'if error.code == "not_found": pass',
        "raise type(error)(error.message, *error.notes) from None",
        'reasons.append(f"fsspec: {error}".partition("x")[0])',
        "print(str(error).splitlines()[0])",
        'if "x" in name: pass',
    ],
)
def test_other_uses_of_errors_are_accepted(use: str) -> None:
    source = f"try:\n    f()\nexcept OSError as error:\n    {use}\n"
    assert check_dispatch.check_file("core/job.py", source) == []


@pytest.mark.parametrize(
    "source",
    [
        'name.endswith(".npy")',
        '_TIFF = (".tif", "x")',
        'ending == ".TIFF"',
        'if x in {".cog": 1}: pass',
        '".dat"',
        '".npz"',
    ],
)
def test_suffixes_of_known_formats_are_reported(source: str) -> None:
    (line,) = check_dispatch.check_file("api/convert.py", f"\n{source}\n")
    assert line.startswith("python/penstock/api/convert.py:2: ")
    assert "is an ending of a known format" in line


@pytest.mark.parametrize(
    "source",
    ['name.endswith(".png")', 'open("x.npy")', 'name = f"{stem}.npy"', 'def f():\n    """`.npy`."""', 'x = "npy"'],
)
def test_other_text_is_accepted(source: str) -> None:
    assert check_dispatch.check_file("api/convert.py", source) == []


def test_an_allowed_suffix_that_no_longer_exists_is_reported(tmp_path: Path) -> None:
    (tmp_path / "view").mkdir()
    (tmp_path / "view" / "profile.py").write_text("x = 1\n")
    assert any("view/profile.py has no '.json'" in each for each in check_dispatch.check_package(tmp_path))


def test_the_suffixes_are_those_of_the_drivers() -> None:
    known = check_dispatch.known_endings()
    assert {".npy", ".npz", ".raw", ".dat", ".zarr", ".tf8", ".nxs", ".nc3", ".parq", ".json", ".manifest"} <= known
    assert len(known) < 40


def test_a_long_dispatch_is_reported_without_its_docstring() -> None:
    docstring = '    """' + "x\n" * 100 + '    """\n'
    body = "".join(f"    x{i} = {i}\n" for i in range(check_dispatch.SCREEN))
    array = "\ndef open_array():\n    return 1\n"
    assert check_dispatch.check_file("api/open.py", f"def open():\n{docstring}{body}{array}") == []
    (line,) = check_dispatch.check_file("api/open.py", f"def open():\n{docstring}{body}    return 0\n{array}")
    assert line == "python/penstock/api/open.py:1: open has 41 lines, 40 are allowed"


def test_a_dispatch_that_no_longer_exists_is_reported() -> None:
    (line,) = check_dispatch.check_file("api/copy.py", "x = 1\n")
    assert "no function copy" in line


def test_the_package_has_no_findings() -> None:
    package = Path(__file__).resolve().parents[2] / "python" / "penstock"
    assert check_dispatch.check_package(package) == []
