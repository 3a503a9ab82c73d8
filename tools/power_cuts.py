"""Power cuts on file systems of this machine, for root: `make test-power`.

A loop device with ext4, and one with xfs if `mkfs.xfs` is installed. A program of python/tests/test_power_cuts.py
writes to it while another one syncs a file of its own, so that the file system's journal is written at random moments.
Then the file system is shut down without a flush of its journal (the ioctl that fstests uses), mounted again, and the
arrays are opened.
"""

from __future__ import annotations

import argparse
import fcntl
import importlib
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(REPOSITORY / "python"), str(REPOSITORY / "python/tests")]
SHUT_DOWN, WITHOUT_LOG = 0x8004587D, 2
FILE_SYSTEMS = {"ext4": ["mkfs.ext4", "-q", "-F"], "xfs": ["mkfs.xfs", "-q", "-f"]}
NEIGHBOUR = """
import os, random, sys, time
number = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY)
while True:
    os.pwrite(number, os.urandom(64), 0)
    os.fsync(number)
    time.sleep(random.random() / 50)
"""


def cut(folder: Path, name: str, seconds: float, sync: str) -> str | None:
    """One power cut of one scenario. Returns the error found afterwards."""
    tests: Any = importlib.import_module("test_power_cuts")

    it = tests.SCENARIOS[name]
    image, point = folder / "image", folder / "mounted"
    root = point / "root"
    subprocess.run(["mount", "-o", "loop", image, point], check=True)
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir()
    it.prepare(root)
    os.sync()
    script = (
        tests.PRELUDE.format(sync=sync) + "while True:\n" + "".join(f"    {line}\n" for line in it.script.splitlines())
    )
    env = {**os.environ, "POWER_ROOT": str(root), "PYTHONPATH": str(REPOSITORY / "python")}
    writer = subprocess.Popen([sys.executable, "-c", script], env=env, stderr=subprocess.DEVNULL)
    neighbour = subprocess.Popen([sys.executable, "-c", NEIGHBOUR, str(point / "neighbour")], stderr=subprocess.DEVNULL)
    time.sleep(seconds)
    number = os.open(point, os.O_RDONLY)
    fcntl.ioctl(number, SHUT_DOWN, struct.pack("I", WITHOUT_LOG))
    os.close(number)
    for each in (writer, neighbour):
        each.kill()
        each.wait()
    subprocess.run(["umount", point], check=True)
    subprocess.run(["mount", "-o", "loop", image, point], check=True)
    try:
        wrong: str | None = tests.judged(it.check)(root, 0)
        return wrong
    finally:
        subprocess.run(["umount", point], check=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cuts", type=int, default=50, help="of each scenario on each file system")
    scenarios = importlib.import_module("test_power_cuts").SCENARIOS
    repeated = [name for name, it in scenarios.items() if it.repeats]
    parser.add_argument("--scenarios", nargs="*", choices=repeated, default=repeated)
    parser.add_argument("--sync", default="objects", help="as of penstock.Context")
    given = parser.parse_args()
    if os.geteuid() != 0 or not os.path.exists("/dev/loop-control"):
        print("SKIPPED: power cuts need root and loop devices")
        return 0
    bad = 0
    for kind, make in FILE_SYSTEMS.items():
        if shutil.which(make[0]) is None:
            print(f"SKIPPED: {kind}: there is no {make[0]}")
            continue
        with tempfile.TemporaryDirectory(prefix="penstock-power-") as name:
            folder = Path(name)
            with open(folder / "image", "wb") as image:
                image.truncate(512 << 20)
            (folder / "mounted").mkdir()
            subprocess.run([*make, folder / "image"], check=True)
            for scenario in given.scenarios:
                found = [cut(folder, scenario, 0.4 + 1.2 * random.random(), given.sync) for _ in range(given.cuts)]
                wrong = [each for each in found if each is not None]
                bad += len(wrong)
                print(f"{kind} {scenario}: {len(wrong)} of {given.cuts} damaged", *wrong[:1], flush=True)
    return min(bad, 1)


if __name__ == "__main__":
    sys.exit(main())
