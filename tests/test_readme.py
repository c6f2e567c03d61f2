"""The README is short, its Python runs unchanged, and its output and table match the code and the records."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import l2x

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
WORDS = 600


@pytest.mark.slow
def test_python_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("lightgbm")
    try:
        l2x.datasets.adult(progress=False)
    except l2x.errors.DataError as error:
        pytest.skip(str(error))
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {}
    for name, block in zip(("output", "verdict"), BLOCKS, strict=True):
        capsys.readouterr()
        exec(compile(block, "README.md", "exec"), namespace)
        shown = re.search(rf"<!-- {name} -->\n```\n(.*?)\n```", README, flags=re.DOTALL)
        assert shown is not None
        # Scores differ in their last digits between machines; the layout does not.
        printed, expected = (
            [line.split()[:1] for line in text.splitlines()] for text in (capsys.readouterr().out, shown[1])
        )
        assert len(printed) == len(expected)
        assert printed[0] == expected[0]
    assert {"why.svg", "report.html"} <= {path.name for path in tmp_path.iterdir()}
    assert (namespace["explanation"].mask.sum(axis=1) == 3).all()  # type: ignore[attr-defined]


def prose() -> str:
    """Return the README without code, tables, pictures and comments."""
    parts = r"```.*?```|<!--.*?-->|^\|.*?$|!\[[^\]]*\]\([^)]*\)"
    return re.sub(parts, "", README, flags=re.DOTALL | re.MULTILINE)


def words(text: str) -> list[str]:
    return [word for word in text.split() if re.search(r"\w", word)]


def test_it_is_short() -> None:
    assert len(words(prose())) <= WORDS


def test_sentences_are_short() -> None:
    for paragraph in re.split(r"\n\s*\n|^[-#] ?", prose(), flags=re.MULTILINE):
        for sentence in re.split(r"(?<=[.!?:;])\s", paragraph):
            assert len(words(sentence)) <= 30, sentence


def test_the_first_code_needs_only_the_core() -> None:
    imported = set(re.findall(r"^(?:import|from) (\w+)", BLOCKS[0], flags=re.MULTILINE))
    assert imported == {"l2x", "lightgbm", "sklearn"}


def test_both_commands_are_named() -> None:
    assert "make demo" in "\n".join(README.splitlines()[:20])
    assert "make test" in README


@pytest.mark.parametrize("name", ["comparison", "costs"])
def test_the_tables_match_the_records(name: str) -> None:
    readme = pytest.importorskip("website.readme", reason="the group docs is not installed")
    assert f"<!-- {name}: make table -->\n{readme.TABLES[name]()}\n<!-- /{name} -->" in README, (
        "run: make table"
    )


def test_every_picture_and_link_exists() -> None:
    for target in re.findall(r"\]\((?!http|#)([^)]+)\)", README):
        assert (ROOT / target).exists(), target
    assert all(text.strip() for text in re.findall(r"!\[([^\]]*)\]", README))


def test_the_comparison_has_the_break_even(monkeypatch: pytest.MonkeyPatch) -> None:
    readme = pytest.importorskip("website.readme", reason="the group docs is not installed")
    from l2x_experiments.records import Records

    shared = {
        "part": "tables", "problem": "Adult", "seed": 0, "rows": 150, "k": 3, "machine": "a machine",
        "posthoc_accuracy": [0.5, 0.94, 0.91], "judge_accuracy": 0.93,
    }  # fmt: skip
    ours = {"method": "polished", "queries": 0, "explain_seconds": 0.15, "fit_seconds": 10.0}
    theirs = {"method": "Kernel SHAP, 1,000", "queries": 1000, "explain_seconds": 150.15, "fit_seconds": 0.0}
    slower = {"method": "TreeSHAP", "queries": 0, "explain_seconds": 0.015, "fit_seconds": 0.0}
    found = Records({**shared, **one} for one in (ours, theirs, slower))
    monkeypatch.setattr(readme, "records", lambda name: found)
    lines = readme.comparison_table().splitlines()
    assert lines[2] == "| l2x | 0.940 | 0.910 | 0.930 | 0 | 1 | 10 s | – |"
    assert lines[3].endswith("| 0.1 | – | never |")
    assert lines[4].endswith("| 1,000 | – | 10 rows |")
    assert "the same 150 rows" in lines[-1]
