"""The README is short, its Python runs unchanged, and its output and table match the code and the records."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
WORDS = 600


@pytest.mark.slow
def test_python_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {}
    exec(compile(BLOCKS[0], "README.md", "exec"), namespace)
    printed = capsys.readouterr().out.splitlines()
    shown = re.search(r"<!-- output -->\n```\n(.*?)\n```", README, flags=re.DOTALL)
    assert shown is not None
    # Scores differ in their last digits between machines; the layout does not.
    first_words = [[line.split()[:1] for line in lines[:5]] for lines in (printed, shown[1].splitlines())]
    assert first_words[0] == first_words[1]
    for block in BLOCKS[1:]:
        exec(compile(block, "README.md", "exec"), namespace)
    assert (tmp_path / "report.html").exists()
    assert namespace["explanation"].mask.sum(axis=1).tolist() == [3] * 200  # type: ignore[attr-defined]


def test_it_is_short() -> None:
    text = re.sub(r"<!--.*?-->", "", README, flags=re.DOTALL)
    assert len([word for word in text.split() if re.search(r"\w", word)]) <= WORDS


def test_the_first_code_needs_only_the_core() -> None:
    imported = set(re.findall(r"^(?:import|from) (\w+)", BLOCKS[0], flags=re.MULTILINE))
    assert imported == {"l2x", "sklearn"}


def test_the_first_screen_has_both_commands() -> None:
    assert {"make demo", "make test"} <= set(re.findall(r"make \w+", "\n".join(README.splitlines()[:20])))


def test_the_table_matches_the_records() -> None:
    from website.tables import results_table

    assert results_table().strip() in README, "run: make table"


def test_every_picture_and_link_exists() -> None:
    for target in re.findall(r"\]\((?!http|#)([^)]+)\)", README):
        assert (ROOT / target).exists(), target
    assert all(text.strip() for text in re.findall(r"!\[([^\]]*)\]", README))
