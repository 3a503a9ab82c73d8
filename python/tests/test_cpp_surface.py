"""The table of docs/guide/cpp.md lists every public name of the package, and C++ names that exist in the headers."""

import importlib.util
import re
from pathlib import Path

import penstock as ps
import pytest

ROOT = Path(__file__).resolve().parents[2]
GUIDE = ROOT / "docs" / "guide" / "cpp.md"
HEADERS = ROOT / "include" / "penstock"
pytestmark = pytest.mark.skipif(not GUIDE.exists(), reason="needs a source checkout")


def table() -> list[tuple[str, str, str]]:
    """The rows: Python names, C++ names, notes."""
    text = GUIDE.read_text()
    lines = text[text.index("## Python and C++") :].splitlines()
    rows = [line for line in lines if line.startswith("|")][2:]
    return [tuple(cell.strip() for cell in row.strip("|").split("|")) for row in rows]  # type: ignore[misc]


def names_in(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def test_each_public_name_has_a_row() -> None:
    named = {re.split(r"[.(\[]", name)[0] for python, _, _ in table() for name in names_in(python)}
    assert set(ps.__all__) - {"__version__"} <= named
    # Importing these modules may need other libraries, so only their existence is checked.
    modules = {name for name in named if importlib.util.find_spec(f"penstock.{name}")}
    unknown = [name for name in named - modules if not hasattr(ps, name)]
    assert not unknown


@pytest.mark.parametrize("owner", ["Array", "Group"])
def test_each_public_member_of_an_array_and_a_group_has_a_row(owner: str) -> None:
    named = {re.split(r"[(\[]", name)[0] for python, _, _ in table() for name in names_in(python)}
    members = {f"{owner}.{name}" for name in dir(getattr(ps, owner)) if not name.startswith("_")}
    assert not members - named


def test_each_public_module_has_a_row() -> None:
    files = (Path(ps.__file__).parent).glob("*.py")
    modules = {path.stem for path in files if not path.stem.startswith("_")}
    assert modules <= {name for python, _, _ in table() for name in names_in(python)}


def test_python_members_exist() -> None:
    for python, _, _ in table():
        for name in names_in(python):
            owner, dot, member = re.split(r"[(\[]", name)[0].partition(".")
            if dot:
                assert hasattr(getattr(ps, owner), member), name


def test_cpp_names_are_in_the_headers() -> None:
    text = "\n".join(path.read_text() for path in HEADERS.rglob("*.h"))
    code = re.sub(r"//[^\n]*", "", text)
    for python, cpp, notes in table():
        assert names_in(cpp) or notes.startswith("Python only"), python
        for name in names_in(cpp):
            for part in name.split("::"):
                assert re.search(rf"\b{part}\b", code), name
