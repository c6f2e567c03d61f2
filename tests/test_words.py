"""Retired words stay away: one thing has one word, in plain English (see docs/reference/glossary.md)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("src", "docs", "examples", "benchmarks", "website")
FILES = ("README.md", "CONTRIBUTING.md", "CITATION.cff", "Makefile", "pyproject.toml")
SUFFIXES = (".py", ".pyi", ".md", ".toml", ".html", ".js", ".css")
# Not rewritten yet. The list only becomes shorter.
TO_DO: tuple[str, ...] = ()

RETIRED = {
    "a clause that begins with 'of'": r"\bOf\b",
    "'is of'": r"\bis of\b",
    "'as the view has it'": r"\bas the \w+ ha(?:s|ve) it\b",
    "'files of before'": r"\bof before\b",
    "'told': prediction-aware, or a verb for people": r"(?<![-\w])(?:un)?told\b",
    "'in place of': instead of": r"\bin (?:its |their )?place of\b",
    "'some thousand': a few thousand": r"\bsome (?:thousand|hundred|dozen)s?\b",
    "'a training': training": r"\ba (?:\w+ )?training(?=[.,;:)]| (?:of|that|which|in|with|on|for|is|was)\b)",
    "'beside': next to, compared with, in addition to": r"\bbeside\b",
    "'by itself': alone, separately, automatically": r"\bby (?:itself|themselves)\b",
    "'the model's word'": r"'s word\b(?! (?:vector|embedding))",
    "'judge': evaluator": r"(?<![\"'`\w])judge[sd]?\b(?![\"'`=])",
    "'encode-meter': leakage test": r"\bencode-meter\b",
    "'sees_answer': uses_prediction": r"\bsees_answer\b",
    "'cheat': leaks": r"(?i)\bcheat",
    "'asked about': queried for": r"\b(?:asked|asking|asks) (?:the model )?about\b",
    "'the model's answer': prediction": r"\bmodel's answer",
    "a home-made word": r"\b(?:dealt|anew|yardstick|at hand|so many|goes on)\b",
}
# A study is about people, who are told and asked.
PEOPLE = {"'told': prediction-aware, or a verb for people", "'asked about': queried for"}
STUDY = ("src/l2x/apps/study/", "src/l2x/apps/cli/_study", "docs/how-to/study.md")


def texts() -> list[Path]:
    files = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*"))]
    return [path for path in files if path.suffix in SUFFIXES] + [ROOT / name for name in FILES]


def hits(text: str, pattern: str) -> Iterator[int]:
    """Yield the line numbers of a pattern, also where a line break or a comment sign divides it."""
    for found in re.finditer(pattern.replace(" ", r"(?:\s|\n\s*#)+"), text):
        yield text.count("\n", 0, found.start()) + 1


@pytest.mark.parametrize("reason", RETIRED)
def test_retired_words_stay_away(reason: str) -> None:
    found = []
    for path in texts():
        name = path.relative_to(ROOT).as_posix()
        if name.startswith(TO_DO) or (reason in PEOPLE and name.startswith(STUDY)):
            continue
        text = path.read_text(encoding="utf-8")
        lines = text.splitlines()
        found += [f"{name}:{number}: {lines[number - 1].strip()}" for number in hits(text, RETIRED[reason])]
    assert not found, f"{reason}\n" + "\n".join(found)


@pytest.mark.parametrize(
    ("reason", "sentence"),
    [
        ("a clause that begins with 'of'", "Of means both are R²."),
        ("'as the view has it'", "encoded as the view has it"),
        ("'in place of': instead of", "# .9615 in place\n    # of .9545"),
        ("'a training': training", "a larger k or a longer training."),
        ("'judge': evaluator", "by an independent judge"),
        ("'cheat': leaks", "class Cheater"),
        ("'asked about': queried for", "it asks the model about each row"),
    ],
)
def test_the_patterns_find_what_they_should(reason: str, sentence: str) -> None:
    assert list(hits(sentence, RETIRED[reason])) == [1]


@pytest.mark.parametrize("sentence", ["a training plan", "a training row", 'record["judge"]', "judge="])
def test_the_patterns_spare_plain_words_and_data(sentence: str) -> None:
    assert not [reason for reason, pattern in RETIRED.items() if list(hits(sentence, pattern))]
