"""What the README shows must run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def test_the_example_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    (tmp_path / "python").symlink_to(ROOT / "python")
    monkeypatch.chdir(tmp_path)  # it writes
    names: dict[str, object] = {}
    exec(compile(example, "README.md", "exec"), names)
    said = capsys.readouterr().out
    assert "(344, 403) int16 (48, 64) (192, 256)" in said
    assert "Decode" in said
    assert names["x"].shape == (100, 202)  # type: ignore[attr-defined]


def test_links_and_pictures_exist() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", (ROOT / "README.md").read_text()):
        assert "://" in target or (ROOT / target).exists(), target
