"""The README's Python runs as it stands, block after block."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
def test_python_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    assert len(blocks) >= 3
    namespace: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), namespace)
    assert (tmp_path / "tumour.l2x").exists()
    assert namespace["explanation"].mask.sum(axis=1).tolist() == [5] * 100  # type: ignore[attr-defined]


def test_every_picture_exists() -> None:
    for target in re.findall(r"\]\((?!http|#)([^)]+)\)", (ROOT / "README.md").read_text()):
        assert (ROOT / target).exists(), target
