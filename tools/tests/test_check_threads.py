from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))
import check_threads


@pytest.mark.parametrize(
    "line",
    [
        "threading.Thread(target=f).start()",
        "Thread(target=f)",
        "with concurrent.futures.ThreadPoolExecutor(4) as pool: pass",
        "with ThreadPoolExecutor() as pool: pass",
        "_thread.start_new_thread(f, ())",
        "asyncio.to_thread(f)",
        "loop.run_in_executor(None, f)",
    ],
)
def test_starts_of_threads_are_found(line: str) -> None:
    assert [number for number, _ in check_threads.starts_of(f"x = 1\n{line}\n")] == [2]


@pytest.mark.parametrize("line", ["threading.Lock()", "threading.local()", "x = ThreadPoolExecutor", "Thread.join(t)"])
def test_other_calls_are_accepted(line: str) -> None:
    assert not check_threads.starts_of(line)


def test_files_without_a_reason_and_reasons_without_a_file_are_named(tmp_path: Path) -> None:
    (tmp_path / "core").mkdir()
    (tmp_path / "core" / "job.py").write_text("Thread(target=print)\n")
    (tmp_path / "new.py").write_text("\nThread(target=print)\n")
    complaints = check_threads.check_package(tmp_path)
    assert complaints[0].startswith("python/penstock/new.py:2: Thread starts a thread")
    idle = sorted(set(check_threads.ALLOWED) - {"core/job.py"})
    assert complaints[1:] == [f"tools/check_threads.py:1: {name} starts no thread: remove it here" for name in idle]
