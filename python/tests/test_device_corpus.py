"""The GPU's code on the files of other projects: in a separate file, to run in parallel with others."""

from __future__ import annotations

from device_support import run_cases


def test_cases_against_the_fake_driver() -> None:
    run_cases("device_corpus_cases.py")
