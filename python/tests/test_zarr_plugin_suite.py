"""Some of the tests of zarr-python and xarray: `make test-peers` runs all of them, which takes half an hour.

zarr-python's test classes are used from the installed package if it includes them, or else from an unpacked source
distribution (build/peers, which `make test` downloads). Without both, the test is skipped.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import penstock
import penstock.zarr
import pytest
import zarr
from conftest import ZARR_VERSION, in_long_runs

ROOT = Path(__file__).parents[2]
UNPACKED = ROOT / "build" / "peers" / f"zarr-{zarr.__version__}"


def test_zarr_pythons_pipeline_suite_passes(tmp_path):
    if not (UNPACKED / "tests" / "test_codec_pipeline_suite.py").exists():
        pytest.skip(f"{UNPACKED} does not exist: run `tools/test_peers.py --fetch`")
    plain = tmp_path / "pytest.ini"  # its own settings require plugins
    plain.write_text("[pytest]\n")
    arguments = ["-q", "-p", "no:cacheprovider", "-c", str(plain), "--rootdir", str(UNPACKED)]
    arguments += [str(UNPACKED / "tests" / "test_codec_pipeline_suite.py"), "-k", "TestBatchedPipeline"]
    code = (
        "import sys, pytest, penstock.zarr\n"
        "from tests import test_codec_pipeline_suite as suite\n"
        "suite.TestBatchedPipeline.pipeline_path = 'penstock.zarr.CodecPipeline'\n"
        "sys.exit(pytest.main(sys.argv[1:]))\n"
    )
    path = os.pathsep.join([str(UNPACKED), str(Path(penstock.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=UNPACKED,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=250,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]


@in_long_runs
@pytest.mark.timeout(900)
def test_xarrays_tests_of_zarr_pass_as_with_zarrs_own_code(tmp_path):
    if importlib.util.find_spec("xarray.tests") is None:
        pytest.skip("this xarray comes without its tests")
    mode = "bypass" if ZARR_VERSION >= (3, 4) else "pipeline"
    command = [sys.executable, str(ROOT / "tools" / "test_peers.py"), "--jobs", "1", "--default-last", f"xarray:{mode}"]
    classes = "TestZarrDictStore or TestDataArrayToZarr or TestInstrumentedZarrStore"
    done = subprocess.run([*command, "--", "-k", classes], capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert "no test is worse without a reason" in done.stdout
    found = re.search(rf"xarray, {mode}: (\d+) passed", done.stdout)
    assert found, done.stdout
    assert int(found[1]) > 300  # guards against missing tests; the peer's own code runs those that did not pass


def test_strategies_of_zarr_python_round_trip():
    """Arrays from zarr-python's hypothesis strategies, written and read through our pipeline."""
    strategies = pytest.importorskip("zarr.testing.strategies", reason="zarr.testing needs hypothesis")
    import hypothesis
    import numpy as np
    from hypothesis import strategies as st

    @hypothesis.settings(max_examples=40, deadline=None)
    @hypothesis.given(st.data())
    def check(data: st.DataObject) -> None:
        with zarr.config.set({"codec_pipeline.path": "penstock.zarr.CodecPipeline"}):
            values = data.draw(strategies.numpy_arrays())
            array = data.draw(strategies.arrays(arrays=st.just(values)))
            got = np.asarray(array[...])
            assert got.dtype == values.dtype
            np.testing.assert_array_equal(got, values)

    check()
