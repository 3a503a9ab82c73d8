"""The suites of `tools/test_peers.py`, and where their tests come from."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PLUGINS = ROOT / "tools" / "peers"
WORK = ROOT / "build" / "peers"
REQUIREMENTS = ROOT / "tools" / "requirements"


@dataclass(frozen=True)
class Suite:
    """A peer's tests, or its benchmarks."""

    name: str
    modes: tuple[str, ...]
    folder: Callable[[argparse.Namespace], Path]  # where pytest runs
    tests: tuple[str, ...]  # paths within it
    arguments: tuple[str, ...] = ()
    one_process: bool = False  # its tests write files of one name, or use one port; or they measure time
    package: str = ""  # of its version; by default the name
    requirements: str = "peers-suites.txt"  # in addition to those of our tests
    times: bool = False  # pytest-benchmark measures

    def label(self) -> str:
        """The name with the version of what the tests are of."""
        if self.package == "gdal":
            import rasterio  # type: ignore[import-untyped]

            found: str = rasterio.__gdal_version__
            return f"{self.name} {found}"
        return f"{self.name} {version_of(self.package or self.name)}"


def version_of(package: str) -> str:
    """The installed version, or that of the requirements of the suites."""
    try:
        return version(package)
    except PackageNotFoundError:
        for path in sorted(REQUIREMENTS.glob("peers-*.txt")):
            for line in path.read_text().splitlines():
                name, _, pinned = line.partition(";")[0].strip().partition("==")
                if name == package:
                    return pinned
        raise


def unpacked(package: str, sdist: Path | None = None) -> Path:
    """The unpacked source distribution of a package in the version that is installed or pinned."""
    name = f"{package}-{version_of(package)}"
    tree = WORK / name
    if not tree.exists():
        WORK.mkdir(parents=True, exist_ok=True)
        if sdist is None:
            download = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", package]
            subprocess.run([*download, "-d", WORK, f"{package}=={version_of(package)}"], check=True)
            sdist = WORK / f"{name}.tar.gz"
        with tarfile.open(sdist) as archive:
            # Python 3.11.2, which Debian 12 has, does not have filters (and ignores this).
            archive.extraction_filter = getattr(tarfile, "data_filter", None)
            archive.extractall(WORK)
    return tree


def checkout(
    options: argparse.Namespace, name: str, repository: str, tag: str | None, folder: str | None = None
) -> Path:
    """A checkout of a repository: the one that `--checkout` names, or a clone of a tag or of the newest commit.

    Of a large repository only `folder` is fetched.
    """
    given = dict(each.split("=", 1) for each in options.checkout)
    if name in given:
        return Path(given[name]).resolve()
    tree = WORK / (name if tag is None else f"{name}-{tag}")
    if not tree.exists():
        clone = ["git", "clone", "--quiet", "--depth", "1"]
        if tag is not None:
            clone += ["--branch", tag]
        if folder is not None:
            clone += ["--filter=blob:none", "--sparse"]
        subprocess.run([*clone, f"https://github.com/{repository}", str(tree)], check=True)
        if folder is not None:
            subprocess.run(["git", "-C", str(tree), "sparse-checkout", "set", folder], check=True)
    return tree


def installed(package: str) -> Callable[[argparse.Namespace], Path]:
    """The folder that an installed package is in: its tests are part of the package."""

    def folder(options: argparse.Namespace) -> Path:
        found = find_spec(package)
        assert found is not None
        assert found.origin is not None
        return Path(found.origin).parent.parent

    return folder


def zarr_folder(options: argparse.Namespace) -> Path:
    return unpacked("zarr", options.sdist)


def of_sdist(package: str, inner: str = "") -> Callable[[argparse.Namespace], Path]:
    return lambda options: unpacked(package) / inner


def rioxarray_folder(options: argparse.Namespace) -> Path:
    return checkout(options, "rioxarray", "corteva/rioxarray", version("rioxarray"))


def kerchunk_folder(options: argparse.Namespace) -> Path:
    return checkout(options, "kerchunk", "fsspec/kerchunk", version_of("kerchunk"))


def icechunk_folder(options: argparse.Namespace) -> Path:
    return checkout(options, "icechunk", "earth-mover/icechunk", f"v{version_of('icechunk')}") / "icechunk-python"


def gdal_folder(options: argparse.Namespace) -> Path:
    import rasterio

    tag = f"v{rasterio.__gdal_version__}"
    return checkout(options, "gdal", "OSGeo/gdal", tag, "autotest/gcore") / "autotest" / "gcore"


def conformance_folder(options: argparse.Namespace) -> Path:
    return checkout(options, "zarr-conformance-tests", "Bisaloo/zarr-conformance-tests", None)


VIRTUAL = "peers-virtual.txt"
# `benchmark()` repeats a case for this long.
BRIEF = ("--benchmark-min-rounds=3", "--benchmark-max-time=0.3", "--benchmark-warmup=off")

SUITES = (
    Suite(
        "zarr",
        ("pipeline", "bypass"),
        zarr_folder,
        ("tests",),
        (
            "--ignore=tests/test_docs.py",
            "--ignore=tests/test_store/test_fsspec.py",
            "--ignore=tests/test_regression",
            "--ignore=tests/benchmarks",
        ),
    ),
    Suite(
        "zarr_benchmarks",
        ("pipeline", "bypass"),
        zarr_folder,
        ("tests/benchmarks",),
        # Arrays of 1 GB, and the order of chunks in a shard, which is a function of zarr-python's own.
        (*BRIEF, "-k", "not 1000000000 and not test_morton_order"),
        one_process=True,
        package="zarr",
        requirements="peers-benchmarks.txt",
        times=True,
    ),
    Suite(
        "xarray",
        ("pipeline", "bypass", "engine"),
        installed("xarray"),
        ("xarray/tests/test_backends.py", "xarray/tests/test_backends_datatree.py"),
    ),
    Suite(
        "dataset_io",
        ("engine",),
        of_sdist("xarray", "asv_bench"),
        (str(PLUGINS / "dataset_io.py"),),
        one_process=True,
        package="xarray",
        requirements="peers-benchmarks.txt",
        times=True,
    ),
    Suite(
        "rioxarray",
        ("engine",),
        rioxarray_folder,
        ("test/integration/test_integration__io.py", "test/integration/test_integration_rioxarray.py"),
    ),
    Suite("pyfive", ("engine",), of_sdist("pyfive"), ("tests",), one_process=True),
    Suite("h5py", ("engine",), installed("h5py"), ("h5py/tests",)),
    Suite(
        "virtualizarr",
        ("engine", "pipeline"),
        of_sdist("virtualizarr"),
        ("virtualizarr/tests",),
        ("--ignore=virtualizarr/tests/test_remote_integration",),
        requirements=VIRTUAL,
    ),
    Suite(
        "kerchunk",
        ("engine", "pipeline"),
        kerchunk_folder,
        ("tests",),
        ("--ignore=tests/test_grib.py", "--ignore=tests/test__grib_idx.py"),  # they need ecCodes
        requirements=VIRTUAL,
    ),
    Suite(
        "icechunk",
        ("engine", "pipeline"),
        icechunk_folder,
        (
            "tests/run_xarray_backends_tests.py",
            "tests/test_xarray.py",
            "tests/test_can_read_old.py",
            "tests/test_timetravel.py",
            "tests/test_dask.py",
        ),
        ("-k", "not Minio and not StoreMemory and not Stateful"),  # a server of S3; the same again; random steps
        requirements=VIRTUAL,
    ),
    Suite("gdal", ("engine",), gdal_folder, (str(PLUGINS / "gdal_checksums.py"),), package="gdal"),
    Suite(
        "conformance",
        ("engine",),
        conformance_folder,
        (str(PLUGINS / "zarr_conformance.py"),),
        package="zarr",
    ),
)
