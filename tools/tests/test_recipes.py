"""Tests of the recipes in packaging/ against CMake and pyproject.toml."""

from __future__ import annotations

import re
import runpy
import sys
import tomllib
import types
from pathlib import Path
from typing import Any

import pytest

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).parents[2]
SPACK = ROOT / "packaging" / "spack" / "packages" / "penstock" / "package.py"
# CMake's names of libraries, and those of conda and Spack where they differ.
CONDA = {"lz4": "lz4-c", "BZip2": "bzip2", "LibLZMA": "liblzma-devel", "CURL": "libcurl", "TIFF": "libtiff"}
CONDA |= {"CLI11": "cli11"}
SPACK_NAMES = {"blosc": "c-blosc", "BZip2": "bzip2", "LibLZMA": "xz", "CURL": "curl", "TIFF": "libtiff"}
SPACK_NAMES |= {"CLI11": "cli11", "nlohmann_json": "nlohmann-json"}
NOT_PACKAGES = {"GTest", "Python", "Threads", "penstock"}


def libraries() -> set[str]:
    """The packages that CMake looks up to build the library, the program and the Python module."""
    files = [ROOT / "CMakeLists.txt", *(ROOT / "cmake").glob("Penstock*.cmake")]
    files += [ROOT / folder / "CMakeLists.txt" for folder in ("cli", "python")]
    text = "\n".join(file.read_text() for file in files)
    return set(re.findall(r"find_package\((\S+?)[ )]", text)) - NOT_PACKAGES


def requirements() -> tuple[dict[str, str], dict[str, str]]:
    """What the package needs to run and to be built, with pip's version limits."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    run, build = (
        dict(re.match(r"([\w-]+)(.*)", each).groups() for each in names)  # type: ignore[union-attr]
        for names in (project["project"]["dependencies"], project["build-system"]["requires"])
    )
    return run, build | {"python": project["project"]["requires-python"]}


def spack_recipe(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Runs the recipe with those names of Spack that exist; returns its dependencies with their versions."""
    found: dict[str, str] = {}

    def depends_on(spec: str, **_: Any) -> None:
        name, _, version = spec.partition("@")
        found[name] = version

    class When:
        def __enter__(self) -> None: ...
        def __exit__(self, *_: object) -> None: ...

    def directive(*_: Any, **__: Any) -> Any:
        return lambda function: function

    names = dict.fromkeys(("version", "license", "variant", "conflicts", "run_after"), directive)
    names |= {"depends_on": depends_on, "extends": depends_on, "when": lambda _: When()}
    modules = {
        "spack": {}, "spack.package": names, "spack_repo": {}, "spack_repo.builtin": {},
        "spack_repo.builtin.build_systems": {},
        "spack_repo.builtin.build_systems.cmake": {"CMakePackage": type("C", (), {}), "generator": directive},
        "spack_repo.builtin.build_systems.python": {"PythonExtension": type("P", (), {}), "PythonPipBuilder": object},
    }  # fmt: skip
    for name, members in modules.items():
        module = types.ModuleType(name)
        vars(module).update(members)
        monkeypatch.setitem(sys.modules, name, module)
    runpy.run_path(str(SPACK))
    return found


def test_the_recipe_of_spack_has_what_cmake_and_pip_need(monkeypatch: pytest.MonkeyPatch) -> None:
    found = spack_recipe(monkeypatch)
    assert {SPACK_NAMES.get(name, name) for name in libraries() - {"nanobind"}} <= set(found)
    run, build = requirements()
    for name, limit in {**run, **build}.items():
        version = found["python" if name == "python" else f"py-{name}"]
        assert limit == f">={version.removesuffix(':')}", name


def test_the_recipe_of_conda_has_what_cmake_and_pip_need() -> None:
    text = (ROOT / "packaging" / "conda" / "recipe.yaml").read_text()
    recipe = yaml.safe_load(text)
    host, run = recipe["requirements"]["host"], recipe["requirements"]["run"]
    assert {CONDA.get(name, name) for name in libraries()} <= {each.split()[0] for each in host}
    needed, build = requirements()
    limits = dict(each.split() for each in (*host, *run) if " " in each)
    for name, limit in {**needed, **build}.items():
        if name != "python":
            assert limits[name] == limit
    below = build["python"].replace(">=", "<")
    assert f'match(python, "{below}")' in recipe["build"]["skip"]
    summary = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["description"]
    assert recipe["about"]["summary"] == summary


def test_versions_are_written_once_more_where_tools_need_them() -> None:
    header = (ROOT / "include" / "penstock" / "config.h").read_text()
    version = re.search(r'PENSTOCK_VERSION "(.*)"', header)
    assert version is not None
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == version[1]
    recipe = yaml.safe_load((ROOT / "packaging" / "conda" / "recipe.yaml").read_text())
    assert recipe["context"]["version"] == version[1]
