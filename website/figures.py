"""Single numbers in the text of pages, each between two comments that name its records.

`<!-- = adult method=l2x posthoc_accuracy.2 -->0.942<!-- / -->` is the mean of entry 2 of `posthoc_accuracy`
over the records of results/adult.json whose method is l2x. `make table` writes it, and a test compares it.
After the file come, in any order:

key=value   only records with this value, a word, a quoted text or JSON without spaces
entry       a path with dots, or a quotient of two, a/b
min, max    instead of the mean; `each` lists all values by seed, `count` counts records
format      as in Python (.3f, ,.0f, .0%), or ms and us for seconds
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from typing import Any

import numpy as np

from l2x_experiments.records import Records
from website.results import RECORDS

INLINE = re.compile(r"(<!-- = ([^>]+?) -->)([^<]*)(<!-- / -->)")
STATISTICS: dict[str, Callable[[Any], Any]] = {"mean": np.mean, "min": min, "max": max}
FORMAT = re.compile(r",?\.\d[f%]|ms|us")


def refreshed(text: str) -> str:
    """Return the text of a page with all numbers written again."""
    return INLINE.sub(lambda found: f"{found[1]}{number(found[2])}{found[4]}", text)


def number(query: str) -> str:
    """Return the number that a comment asks for."""
    name, *words = shlex.split(query)
    keys = dict(word.split("=", 1) for word in words if "=" in word)
    others = [word for word in words if "=" not in word]
    style = next((word for word in others if FORMAT.fullmatch(word)), ".3f")
    entries = [word for word in others if word != style and word not in {*STATISTICS, "each", "count"}]
    chosen = Records(
        record
        for record in sorted(Records.load(RECORDS / f"{name}.json"), key=lambda each: each.get("seed") or 0)
        if all(record.get(key) in (word, parsed(word)) for key, word in keys.items())
    )
    if "count" in others:
        return str(len(chosen))
    if len(entries) != 1 or not (values := values_of(chosen, entries[0])):
        raise ValueError(f"no records, or not one entry: {query}")
    if "each" in others:
        return listed([styled(value, style) for value in values])
    statistic = next((STATISTICS[word] for word in others if word in STATISTICS), np.mean)
    return styled(float(statistic(values)), style)


def values_of(records: Records, entry: str) -> list[float]:
    """Return an entry, or the quotient of two, of each record that has it."""
    above, *below = [[parsed(step) for step in path.split(".")] for path in entry.split("/")]
    if not below:
        return records.values(*above)
    both = [(Records([r]).values(*above), Records([r]).values(*below[0])) for r in records]
    return [a[0] / b[0] for a, b in both if a and b]


def parsed(word: str) -> Any:
    """Return a number, list or truth value that is written as JSON, or the word."""
    try:
        return json.loads(word)
    except ValueError:
        return word


def styled(value: float, style: str) -> str:
    """Return a number as text: in a format of Python, or as milli- or microseconds with two digits."""
    if style in ("ms", "us"):
        scaled = value * {"ms": 1e3, "us": 1e6}[style]
        return f"{scaled:,.0f}" if scaled >= 10 else f"{scaled:.2g}"
    return format(value, style).replace("%", " %").replace("-0.000", "0.000")


def listed(words: list[str]) -> str:
    """Return words as a list: a, b and c."""
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))
