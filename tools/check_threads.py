"""Checks that the Python package starts no threads: it uses those of the context, by `_core.side_by_side`.

check_threads.py
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

STARTS = {
    "Thread", "Timer", "ThreadPoolExecutor", "ProcessPoolExecutor", "ThreadPool", "Process", "Pool", "start_new_thread",
    "to_thread", "run_in_executor",
}  # fmt: skip

# The files that may start some, each with the reason.
ALLOWED = {
    "core/job.py": "a read with Python around it: on a thread of the engine it would wait for those that it reads with",
    "target/adapters/event_loop.py": "the loop of asynchronous stores, which runs while the caller waits for a read",
    "interop/zarr/pipeline.py": "zarr-python calls it in its event loop, which must not wait for the engine",
}


def starts_of(source: str) -> list[tuple[int, str]]:
    """The lines that start a thread, and the name that they use."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name in STARTS:
            found.append((node.lineno, name))
    return found


def check_package(package: Path) -> list[str]:
    """The complaints about a package, each `name:line: sentence`."""
    complaints = []
    unused = set(ALLOWED)
    for path in sorted(package.rglob("*.py")):
        name = path.relative_to(package).as_posix()
        for line, what in starts_of(path.read_text()):
            unused.discard(name)
            if name not in ALLOWED:
                complaints.append(
                    f"python/penstock/{name}:{line}: {what} starts a thread: use _core.side_by_side, "
                    "or give the reason in tools/check_threads.py"
                )
    complaints += [f"tools/check_threads.py:1: {name} starts no thread: remove it here" for name in sorted(unused)]
    return complaints


def main() -> int:
    complaints = check_package(Path(__file__).resolve().parent.parent / "python" / "penstock")
    print("\n".join(complaints), end="\n" if complaints else "")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
