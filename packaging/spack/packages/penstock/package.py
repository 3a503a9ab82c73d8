"""Spack's recipe: the C++ library, and with +python the Python package; the program is in one of them."""

from spack.package import *
from spack_repo.builtin.build_systems.cmake import CMakePackage, generator
from spack_repo.builtin.build_systems.python import PythonExtension, PythonPipBuilder


class Penstock(CMakePackage, PythonExtension):
    """Reads and writes chunked N-dimensional arrays (Zarr, GeoTIFF, HDF5, NetCDF, npy)."""

    # A release adds `version(..., sha256=...)` here; until then: `spack develop --path <checkout> penstock@main`.
    version("main", branch="main", get_full_repo=False)

    license("Apache-2.0")

    variant("python", default=True, description="the Python package")
    variant("shared", default=True, description="a shared library")
    variant("curl", default=True, description="HTTP, S3 and Google Cloud Storage")
    variant("pictures", default=True, description="JPEG, JPEG 2000 and JPEG XL in TIFF")
    variant("zfp", default=True, description="the codecs zfp and zfpy")

    depends_on("cxx", type="build")
    depends_on("cmake@3.26:", type="build")
    depends_on("ninja", type="build")
    for library in ("zstd", "libdeflate", "lz4", "c-blosc", "libaec", "bzip2", "xz", "fmt", "nlohmann-json"):
        depends_on(library)
    depends_on("cli11", type="build")
    depends_on("curl", when="+curl")
    for library in ("libtiff@4.5:", "openjpeg@2.5:", "libjxl"):
        depends_on(library, when="+pictures")
    depends_on("zfp@1:", when="+zfp")
    with when("+python"):
        extends("python@3.11:")
        depends_on("py-nanobind@3.1:", type="build")
        depends_on("py-scikit-build-core@1.1:", type="build")
        depends_on("py-pip", type="build")
        depends_on("py-numpy@1.26:", type=("build", "run"))

    conflicts("%gcc@:11", msg="Penstock is C++20: g++ 12 or later")
    conflicts("%clang@:13", msg="Penstock is C++20: clang 14 or later")

    generator("ninja")

    def common_options(self):
        """The options of CMake that the library and the Python module have in common."""
        linked = {f"PENSTOCK_{name.upper()}": f"+{name}" for name in ("curl", "pictures", "zfp")}
        chosen = {option: "LINK" if self.spec.satisfies(variant) else "OFF" for option, variant in linked.items()}
        return {**chosen, "PENSTOCK_TESTS": "OFF", "PENSTOCK_CUDA": "OFF"}

    def cmake_args(self):
        shared = self.define_from_variant("BUILD_SHARED_LIBS", "shared")
        # The Python package has the program, too, under the same name.
        program = self.define("PENSTOCK_CLI", self.spec.satisfies("~python"))
        return [shared, program, *(self.define(name, value) for name, value in self.common_options().items())]

    @run_after("install")
    def install_python(self):
        if self.spec.satisfies("+python"):
            options = [*PythonPipBuilder.std_args(self), f"--prefix={self.prefix}"]
            options += [f"--config-settings=cmake.define.{key}={value}" for key, value in self.common_options().items()]
            pip(*options, self.stage.source_path)
