"""`l2x reproduce human`: a study with simulated readers; the first sentence of its page states that."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from l2x.datasets import LabelledData
from l2x.errors import InputError
from l2x_experiments import human
from l2x_experiments.records import Records
from l2x_experiments.runner import run

TELLING = (("awful", "dull", "poor"), ("great", "lovely", "superb"))
N = 24


def reviews(split: str, **_: object) -> LabelledData:
    """One telling word in the second of three sentences."""
    labels = np.arange(N) % 2
    texts = [f"This is number {i}. A {TELLING[i % 2][i % 3]} film. It has some people." for i in range(N)]
    return LabelledData(texts, labels, ("negative", "positive"))


def record(problem: str, method: str, selection: list[int], **more: Any) -> dict[str, Any]:
    answers = "01" * (N // 2)
    items = {"selections": [selection] * N, "answers": answers, "posthoc": answers, "judge": "1" * N}
    return {"problem": problem, "method": method, "seed": 0, "k": len(selection), "items": items | more}


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(human, "imdb", reviews)
    words = [record("words", "l2x", [5, 6]), record("words", "random", [0, 1])]
    (tmp_path / "imdb-words.json").write_text(json.dumps(words))
    (tmp_path / "imdb-sentences.json").write_text(json.dumps([record("sentences", "paper", [1])]))
    return tmp_path


def test_simulated_readers_see_the_selected_features(source: Path) -> None:
    records = run(human.experiment(quick=True, source=source), source, progress=False)
    found = {(record["problem"], record["method"]): record for record in records}
    assert set(found) == {("words", "l2x"), ("words", "random"), ("words", "whole"), ("sentences", "paper"),
                          ("sentences", "whole")}  # fmt: skip
    for one in records:
        assert one["simulated"] is True
        assert one["low"] <= one["human_accuracy"] <= one["high"]
        assert one["items"] == N
    assert found["words", "l2x"]["human_accuracy"] > 0.8
    assert found["words", "random"]["human_accuracy"] == 0  # "This is" has no sentiment
    assert found["sentences", "paper"]["human_accuracy"] > 0.8
    assert found["words", "l2x"]["posthoc_accuracy"] == found["words", "whole"]["posthoc_accuracy"] == 1
    assert found["words", "l2x"]["judge_accuracy"] == 0.5
    assert found["words", "whole"]["judge_accuracy"] is None

    page = human.report(records).write(source).read_text()
    assert page.index("No people took part") < page.index("Ten words")
    assert "84.4%" in page
    assert "77.4%" in page
    assert "No selections on file: l2x, prediction-aware; L2X as released; Taylor." in page


def test_every_method_with_selections_of_seed_0(source: Path) -> None:
    wanted = ["l2x", "l2x-told", "paper", "taylor", "random"]
    for problem, selection in (("words", [5, 6]), ("sentences", [1])):
        stored = [record(problem, method, selection) for method in (*wanted, "lime")]
        for one in stored:  # the classes of model and evaluator may be missing
            del one["items"]["posthoc"], one["items"]["judge"]
        without = [{"problem": problem, "method": method, "seed": 0, "k": 1} for method in wanted]
        other_seeds = [record(problem, method, [0]) | {"seed": 1} for method in wanted]
        (source / f"imdb-{problem}.json").write_text(json.dumps(stored + without + other_seeds))
    records = run(human.experiment(quick=True, source=source), source, progress=False)
    for problem in ("words", "sentences"):
        found = {one["method"]: one["human_accuracy"] for one in records.select(problem=problem)}
        assert found.keys() == {*wanted, "whole"}
        assert all(accuracy > 0.8 for accuracy in found.values())
    assert "No selections on file" not in human.report(records).write(source).read_text()


def test_a_quick_study_is_not_shown_with_a_full_one(source: Path) -> None:
    for quick in (True, False):
        records = run(human.experiment(quick=quick, source=source), source, progress=False)
    assert len(records) == 10
    assert {one["wanted"] for one in human.latest(records)} == {500}


def test_other_selections_are_another_study(source: Path) -> None:
    run(human.experiment(quick=True, source=source), source, progress=False)
    changed = [record("words", "l2x", [0, 1])]
    (source / "imdb-words.json").write_text(json.dumps(changed))
    records = run(human.experiment(quick=True, source=source), source, progress=False)
    assert len(records) == 5 + 2
    last = human.latest(records)
    assert [(one["problem"], one["method"]) for one in last] == [
        ("sentences", "paper"), ("sentences", "whole"), ("words", "l2x"), ("words", "whole"),
    ]  # fmt: skip
    assert last.select(method="l2x")[0]["human_accuracy"] == 0


def test_selections_of_different_models_are_refused(source: Path) -> None:
    words = [record("words", "l2x", [5, 6]), record("words", "random", [0, 1], answers="10" * (N // 2))]
    (source / "imdb-words.json").write_text(json.dumps(words))
    with pytest.raises(InputError, match="l2x, random"):
        run(human.experiment(quick=True, source=source), source, progress=False)


def test_no_selections_no_jobs(tmp_path: Path) -> None:
    assert human.experiment(source=tmp_path).jobs == []
    assert not human.latest(Records())
