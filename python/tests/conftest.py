"""Shared by the tests: arrays written by zarr-python, an independent writer."""

from __future__ import annotations

import contextlib
import gc
import itertools
import os
import shutil
import signal
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
import zarr
from hypothesis import HealthCheck, settings
from support.slow_store import Slow
from zarr.codecs import BytesCodec, ShardingCodec, ZstdCodec

settings.register_profile(
    "penstock", deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
settings.load_profile("penstock")

# `make test-long`; and a sanitizer's build of the module (see other_core), with which a sample of the tests runs.
LONG = bool(os.environ.get("PENSTOCK_ALL_CASES"))
SAMPLED = bool(os.environ.get("PENSTOCK_CORE")) and not LONG

# For tests that take half a minute and detect the same faults as other tests or `make test-peers`.
in_long_runs = pytest.mark.skipif(not LONG, reason="runs in `make test-long`")

# For tests that take seconds and whose cases differ little. `make test-long` runs all cases, see `of_matrix`.
matrix = pytest.mark.matrix

# Tests that a shell runs in the background, and the programs that they start, ignore interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

ZARR_VERSION = tuple(int(part) for part in zarr.__version__.split(".")[:2])


def write(
    values: np.ndarray, chunks: tuple[int, ...], codecs: list[Any] | None = None, store: Any = None, **options: Any
) -> Any:
    """Write `values` and return the store (a new dict of bytes if none is given)."""
    target = zarr.storage.MemoryStore({}) if store is None else store
    if isinstance(target, os.PathLike | str):
        target = zarr.storage.LocalStore(target)
    codecs = [BytesCodec(), ZstdCodec(level=0)] if codecs is None else codecs
    array = zarr.create(
        values.shape,
        chunks=chunks,
        store=target,
        dtype=values.dtype,
        codecs=codecs,
        zarr_format=3,
        **{"fill_value": 0, "overwrite": True, **options},
    )
    array[...] = values
    return as_bytes(target) if store is None else store


def as_bytes(store: Any) -> dict[str, bytes]:
    """The values of a zarr MemoryStore as plain bytes."""
    return {key: value.to_bytes() for key, value in store._store_dict.items()}


def sharded(inner: tuple[int, ...], codecs: list[Any] | None = None, **options: Any) -> list[Any]:
    """A list of codecs with one level of shards."""
    return [ShardingCodec(chunk_shape=inner, codecs=codecs or [BytesCodec(), ZstdCodec(level=0)], **options)]


def same(got: Any, want: Any) -> bool:
    """Whether both are equal in type, shape, dtype and every bit of every value."""
    got, want = np.asarray(got), np.asarray(want)
    return got.shape == want.shape and got.dtype == want.dtype and got.tobytes() == want.tobytes()


def either(*case: Any) -> tuple[bool, ...]:
    """The values to test of an option that does not interact with the other options: False or True, one for each case.

    With PENSTOCK_ALL_CASES (`make test-long`), both.
    """
    return (False, True) if LONG else (zlib.crc32(repr(case).encode()) % 2 == 1,)


def examples(full: int) -> int:
    """The number of Hypothesis examples of a test: half of those of `make test-long`, under a sanitizer a quarter."""
    return full if LONG else full // 4 if SAMPLED else full // 2


@pytest.fixture
def slow() -> tuple[Slow, np.ndarray]:
    """A store of 200 chunks that take four seconds in all (two with two workers)."""
    values = np.arange(200 * 10, dtype="<i4")
    return Slow(write(values, (10,))), values


@pytest.fixture
def tmp_path(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """pytest's folder of a test. If it is in memory, it is emptied after a test that passed, but not removed: a later
    test would get its name again."""
    failed = request.session.testsfailed
    yield tmp_path
    if tmp_path.is_relative_to("/dev/shm") and request.session.testsfailed == failed:
        with contextlib.suppress(Exception):  # a test may have replaced what this calls
            for each in tmp_path.iterdir():
                shutil.rmtree(each, ignore_errors=True) if each.is_dir() and not each.is_symlink() else each.unlink()


@pytest.fixture
def context() -> Any:
    with ps.Context(threads=2) as made:
        yield made


@pytest.fixture(scope="session")
def big(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, np.ndarray]:
    """A sharded array of 64 MB in files, which takes a while to decode."""
    values = np.random.default_rng(7).integers(0, 50, (4096, 4096), dtype=np.int32)
    path = tmp_path_factory.mktemp("big") / "big.zarr"
    write(values, (1024, 1024), sharded((128, 128)), store=path)
    return path, values


def sample(items: list[pytest.Item]) -> list[pytest.Item]:
    """Select the cases of a sanitizer's run: the first case of each parametrized test and a third of its others.

    If a parameter has values for a third of the cases or fewer, the sample includes each case with a value that no
    earlier case had. Sanitizers find errors by place in the program, which such cases reach. The stage `python` runs
    all cases, and so does this one if PENSTOCK_ALL_CASES is set (`make test-long`).
    """
    cases: dict[str, list[dict[str, int]]] = {}
    for item in items:
        cases.setdefault(item.nodeid.partition("[")[0], []).append(
            getattr(item, "callspec", None) and item.callspec.indices
        )
    seen: set[tuple[str, str, int]] = set()
    kept = []
    for item in items:
        test = item.nodeid.partition("[")[0]
        all_cases, own = cases[test], getattr(item, "callspec", None)
        values = {
            (test, name, index)
            for name, index in (own.indices.items() if own else ())
            if 3 * len({each[name] for each in all_cases}) <= len(all_cases)
        }
        is_first = not own or own.indices == all_cases[0]
        # Selected by a hash: every third case would always have the same value of a parameter that has three.
        if is_first or not values <= seen or zlib.crc32(item.nodeid.encode()) % 3 == 0:
            kept.append(item)
            seen |= values
    return kept


def axes_of(cases: list[dict[str, Any]]) -> list[list[Any]]:
    """The values of the parameters of each case; of parameters that determine each other, only those of one."""
    axes: dict[str, list[Any]] = {}
    for name in cases[0]:
        # A list of parameters has the same objects in each case.
        values = [(type(v), v) if isinstance(v, str | int | float | None) else id(v) for v in (c[name] for c in cases)]
        if not any(len({*zip(values, of, strict=True)}) == len({*values}) == len({*of}) for of in axes.values()):
            axes[name] = values
    return [list(case) for case in zip(*axes.values(), strict=True)]


def of_matrix(items: list[pytest.Item]) -> list[pytest.Item]:
    """Select cases of the tests with the mark `matrix`.

    With three parameters or more, each pair of values of two of them is in a selected case. With two, each value is,
    and a third of the other cases are selected, too.
    """
    tests: dict[str, list[tuple[int, pytest.Item, Any]]] = {}
    for item in items:
        if (own := getattr(item, "callspec", None)) and item.get_closest_marker("matrix"):
            cases = tests.setdefault(item.nodeid.partition("[")[0], [])
            cases.append((zlib.crc32(item.nodeid.encode()), item, own.params))
    left_out = set()
    for cases in tests.values():
        cases.sort(key=lambda case: case[0])  # by a hash, so that the selection has no pattern
        seen: set[Any] = set()
        for (order, item, _), values in zip(cases, axes_of([params for _, _, params in cases]), strict=True):
            together = 2 if len(values) > 2 else 1
            new = {*itertools.combinations(enumerate(values), together)}
            if new <= seen and (together == 2 or order % 3):
                left_out.add(item)
            seen |= new
    return [item for item in items if item not in left_out]


def pytest_sessionstart() -> None:
    """Collect no garbage while the tests are collected, nor what is there then: a million objects that stay."""
    gc.disable()


def pytest_collection_finish() -> None:
    gc.enable()
    gc.freeze()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Run the files that take minutes first, so that no worker still runs one after the others have finished."""
    if not LONG and not any("[" in each for each in config.args):
        kept = sample(items) if SAMPLED else of_matrix(items)
        config.hook.pytest_deselected(items=list({*items} - {*kept}))
        items[:] = kept
    long = (
        "test_bench_gpu",
        "test_zarr_plugin_suite",
        "test_device",
        "test_appends",
        "test_power_cuts",
        "test_thread_safety",
    )
    items.sort(key=lambda item: not item.path.name.startswith(long))
