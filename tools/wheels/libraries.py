"""The libraries inside the wheels: their pinned sources, and how each is built as a static library."""

from __future__ import annotations

import platform
import shutil
from collections.abc import Callable
from dataclasses import dataclass

from recipes import C_FLAGS, Builder


@dataclass(frozen=True)
class Library:
    """A source package of Debian. Its .dsc has the checksums of all its files, so one checksum pins the source."""

    name: str
    version: str
    suite: str
    dsc: str  # SHA-256 of the .dsc
    build: Callable[[Builder], None]


@dataclass(frozen=True)
class Prebuilt:
    """Static libraries of a binary package of Debian: plain C, which does not depend on the version of glibc."""

    name: str
    version: str
    suite: str
    checksums: dict[str, str]  # SHA-256 of the .deb, by Debian's name of the machine
    archives: tuple[str, ...]


def zlib(b: Builder) -> None:
    b.compile("libz.a", "*.c", flags=["-DHAVE_UNISTD_H", "-DHAVE_HIDDEN"])
    b.headers("zlib.h", "zconf.h")


def zstd(b: Builder) -> None:
    b.cmake("-DZSTD_BUILD_PROGRAMS=OFF", "-DZSTD_BUILD_SHARED=OFF", "-DZSTD_LEGACY_SUPPORT=OFF", source="build/cmake")


def lz4(b: Builder) -> None:
    b.compile("liblz4.a", "lib/lz4.c", "lib/lz4hc.c", "lib/lz4frame.c", "lib/xxhash.c", flags=["-DXXH_NAMESPACE=LZ4_"])
    b.headers("lib/lz4.h", "lib/lz4hc.h", "lib/lz4frame.h")


def libdeflate(b: Builder) -> None:
    b.compile("libdeflate.a", "lib/*.c", "lib/*/cpu_features.c", flags=["-I."])
    b.headers("libdeflate.h")


def bzip2(b: Builder) -> None:
    names = ("blocksort", "huffman", "crctable", "randtable", "compress", "decompress", "bzlib")
    b.compile("libbz2.a", *(f"{name}.c" for name in names), flags=["-D_FILE_OFFSET_BITS=64"])
    b.headers("bzlib.h")


def xz(b: Builder) -> None:
    programs = ("xz", "xzdec", "lzmadec", "lzmainfo", "lzma-links", "scripts", "doc", "nls")
    b.run("./configure", "--quiet", f"--prefix={b.prefix}", f"--host={b.machine}-linux-gnu",
          f"--build={platform.machine()}-linux-gnu", "--disable-shared", "--with-pic",
          *(f"--disable-{each}" for each in programs), f"CFLAGS={' '.join(C_FLAGS)}")  # fmt: skip
    b.run("make", "-s", f"-j{b.jobs}", "-C", "src/liblzma", "install")


def snappy(b: Builder) -> None:
    b.cmake("-DSNAPPY_BUILD_TESTS=OFF", "-DSNAPPY_BUILD_BENCHMARKS=OFF")


def blosc(b: Builder) -> None:
    b.cmake(
        *(f"-DBUILD_{what}=OFF" for what in ("SHARED", "TESTS", "FUZZERS", "BENCHMARKS")),
        *(f"-DPREFER_EXTERNAL_{what}=ON" for what in ("LZ4", "ZLIB", "ZSTD", "SNAPPY")),
        "-DDEACTIVATE_SNAPPY=OFF",
    )


def fmt(b: Builder) -> None:
    b.cmake("-DFMT_TEST=OFF", "-DFMT_DOC=OFF")


def nghttp2(b: Builder) -> None:
    b.cmake("-DENABLE_LIB_ONLY=ON", "-DENABLE_STATIC_LIB=ON", "-DENABLE_SHARED_LIB=OFF")


def openssl(b: Builder) -> None:
    """OpenSSL, because smaller libraries are slower: AES-GCM limits the speed of reads over TLS."""
    left_out = [
        "shared", "apps", "tests", "docs", "module", "engine", "legacy", "dso", "deprecated", "autoload-config",
        "comp", "psk", "srp", "srtp", "dtls", "ssl3", "tls1", "tls1_1", "ct", "ts", "cms", "cmp", "ocsp", "rfc3779",
        "camellia", "seed", "aria", "bf", "cast", "des", "idea", "md4", "rc2", "rc4", "sm2", "sm3", "sm4",
        "whirlpool", "siphash", "blake2", "gost", "dsa", "ui-console", "uplink", "afalgeng", "devcryptoeng", "async",
        "slh-dsa", "ml-dsa", "quic",
    ]  # fmt: skip
    b.run("perl", "Configure", f"linux-{b.machine}", "-O2", "-fPIC", "-fvisibility=hidden", "--openssldir=/etc/ssl",
          f"--prefix={b.prefix}", "--libdir=lib", *(f"no-{each}" for each in left_out))  # fmt: skip
    b.run("make", "-s", f"-j{b.jobs}", "build_libs")
    b.run("make", "-s", "install_dev")


def curl(b: Builder) -> None:
    b.cmake(
        "-DBUILD_SHARED_LIBS=OFF", "-DBUILD_CURL_EXE=OFF", "-DHTTP_ONLY=ON", "-DCURL_USE_OPENSSL=ON",
        "-DUSE_NGHTTP2=ON",
        "-DCURL_USE_LIBSSH2=OFF", "-DCURL_USE_LIBPSL=OFF", "-DCURL_DISABLE_LDAP=ON", "-DUSE_LIBIDN2=OFF",
        "-DCURL_ZLIB=OFF", "-DCURL_BROTLI=OFF", "-DCURL_ZSTD=OFF", "-DCURL_CA_BUNDLE=none", "-DCURL_CA_PATH=none",
        "-DENABLE_MANUAL=OFF", "-DBUILD_TESTING=OFF", "-DCURL_DISABLE_NTLM=ON", "-DENABLE_UNIX_SOCKETS=OFF",
        # Properties that configure finds by running a program, which does not work for another machine.
        "-DHAVE_POLL_FINE_EXITCODE=0", "-DHAVE_FSETXATTR_5=1", "-DHAVE_GLIBC_STRERROR_R=0",
        "-DHAVE_GLIBC_STRERROR_R__TRYRUN_OUTPUT=", "-DHAVE_POSIX_STRERROR_R=1",
        f"-DOPENSSL_ROOT_DIR={b.prefix}", "-DOPENSSL_USE_STATIC_LIBS=ON",
    )  # fmt: skip


def jpeg(b: Builder) -> None:
    b.cmake(
        "-DCMAKE_INSTALL_LIBDIR:PATH=lib",
        "-DENABLE_SHARED=OFF",
        "-DWITH_TURBOJPEG=OFF",
        "-DWITH_JPEG8=OFF",
        "-DREQUIRE_SIMD=ON",
    )


def webp(b: Builder) -> None:
    off = (
        "ANIM_UTILS",
        "CWEBP",
        "DWEBP",
        "GIF2WEBP",
        "IMG2WEBP",
        "VWEBP",
        "WEBPINFO",
        "WEBPMUX",
        "EXTRAS",
        "LIBWEBPMUX",
    )
    b.cmake("-DBUILD_SHARED_LIBS=OFF", *(f"-DWEBP_BUILD_{each}=OFF" for each in off))


def lerc(b: Builder) -> None:
    b.cmake("-DBUILD_SHARED_LIBS=OFF")


def tiff(b: Builder) -> None:
    on = ("jpeg", "zlib", "webp", "lerc", "zstd")  # zstd inside LERC
    off = ("jbig", "lzma", "libdeflate", "old-jpeg", "tools", "tests", "contrib", "docs", "cxx", "opengl")
    b.cmake("-DBUILD_SHARED_LIBS=OFF", *(f"-Dtiff-{each}=OFF" for each in off), *(f"-D{each}=ON" for each in on),
            *(f"-D{each}=OFF" for each in off[:4]))  # fmt: skip
    shutil.rmtree(b.prefix / "lib" / "cmake" / "tiff")  # requires the targets of other libraries


def openjpeg(b: Builder) -> None:
    b.cmake("-DBUILD_SHARED_LIBS=OFF", "-DBUILD_STATIC_LIBS=ON", "-DBUILD_CODEC=OFF")


LIBRARIES = [
    Library(
        "zlib", "1:1.2.13.dfsg-1", "bookworm", "3fa1e6b2fc525062aa88207dda52fed8e045373c809d362fe8a2bfbf7cf515a8", zlib
    ),
    Library(
        "libzstd", "1.5.4+dfsg2-5", "bookworm", "8f602f92b575aa8b5e979196fb6ee82d78f233521dc9636526d3ecba1f63c1b1", zstd
    ),
    Library("lz4", "1.9.4-1", "bookworm", "e16302bca544d08d106efc216541f4a0403c8f8a5fad5eaac7588223a55af263", lz4),
    Library(
        "libdeflate",
        "1.14-1",
        "bookworm",
        "1f82791c5ac5623ed110e09cc991471deebfe4c419414392d1242e122c6f4c19",
        libdeflate,
    ),
    Library("bzip2", "1.0.8-5", "bookworm", "ed9c40f4de3f9e064535e15eac1c61a0f606763db98f4579dbc04067b94a8944", bzip2),
    Library(
        "xz-utils",
        "5.4.1-1+deb12u2",
        "bookworm",
        "bffc9917562b5787661379621bb1f7510bf7271b03d8ce4181cebc84b90d3c35",
        xz,
    ),
    Library(
        "snappy", "1.1.9-3", "bookworm", "7651f9ca32704e95b17e3d288858c374dad88a0d4f95fc6a04a96bc7b83c8e7e", snappy
    ),
    Library(
        "c-blosc", "1.21.3+ds-1", "bookworm", "f743b58208c0f79bdcafbe66e3dbb3ca74674232ed8c41d70467d83336960fdf", blosc
    ),
    Library(
        "fmtlib", "9.1.0+ds1-2", "bookworm", "1c8982464f1281f5b7d42ca24e058d80d71db7c381b278cc22cbdb40c534f0c5", fmt
    ),
    Library(
        "nghttp2",
        "1.52.0-1+deb12u3",
        "bookworm",
        "d4fcb364e461616ef63cb0653a71f08a9ae23703d497745e90160ed7d1eda393",
        nghttp2,
    ),
    Library(
        "openssl",
        "3.5.7-1~deb13u2",
        "trixie",
        "25904642004d30c5c3da4642a72a7d09f8d9eb6e5ce62dab53c0371114faf8f2",
        openssl,
    ),
    Library(
        "curl",
        "7.88.1-10+deb12u15",
        "bookworm",
        "2744f12e3aef161c0361743fa1b318296b122e566e47f381e4a63320fbcc23f4",
        curl,
    ),
    Library(
        "libjpeg-turbo",
        "1:2.1.5-2",
        "bookworm",
        "d718ead0dfbcbc8523665c02a7f7152e31039ded641d022868722623bb3b486d",
        jpeg,
    ),
    Library(
        "libwebp",
        "1.2.4-0.2+deb12u1",
        "bookworm",
        "d9ed0b59e2010f255c28d0869fd15b31f9b08aed757bfc91862d43aa9ec1aa99",
        webp,
    ),
    Library("lerc", "4.0.0+ds-2", "bookworm", "61c32adc1590f930af4b94b151e6a0a8569ace7d7a4f1961eb049f209b47a417", lerc),
    Library(
        "tiff", "4.5.0-6+deb12u4", "bookworm", "b32082304d725936078d687303fcf771c9ecf738b505f9a66a29e8ba282c8615", tiff
    ),
    Library(
        "openjpeg2",
        "2.5.0-2+deb12u3",
        "bookworm",
        "f570a7c10d36f2d5b2553941e7821ed88d1cf7a93f9c49e7f6099e53f4491f47",
        openjpeg,
    ),
]

PREBUILT = [
    # Its source package is missing from some copies of Debian's archive.
    Prebuilt(
        "libaec-dev",
        "1.0.6-1+b1",
        "bookworm",
        {
            "amd64": "03df1b8a86344eeecfd0e1a095cc0394c885c6fae8bd6aafe5e774404c67670a",
            "arm64": "8cbd7afc1d6f7fbab32604fea06dfa39378fbee00e4f063dff5d327ca0caeb39",
        },
        ("libaec.a", "libsz.a"),
    ),
]
