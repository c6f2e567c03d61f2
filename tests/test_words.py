"""One word, one meaning: words that CONTRIBUTING's glossary retired stay away from code and docs."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
RETIRED = re.compile(r"\b(dealt|anew|yardstick|at hand|so many|goes on)\b")


def test_retired_words_stay_away() -> None:
    files = [
        path for folder in ("src", "docs", "examples", "benchmarks") for path in (ROOT / folder).rglob("*")
    ]
    texts = [path for path in [*files, ROOT / "README.md"] if path.suffix in (".py", ".md")]
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in texts
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if RETIRED.search(line)
    ]
    assert not found
