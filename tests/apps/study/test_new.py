"""A study from an explainer and data: tables, texts, images; methods by name, by file and by object."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from toy_models import one_column

import l2x
from l2x.apps.study import Settings, new, results, simulate
from l2x.apps.study._new import BY_NAME, OURS, WHOLE, contenders
from l2x.baselines import RandomK
from l2x.errors import InputError
from l2x.learning._training import Phase
from l2x.model import as_black_box


@pytest.fixture(scope="module")
def plan() -> l2x.TrainingPlan:
    short = Phase(20, 5e-3, batch_size=64)
    return l2x.TrainingPlan(value=short, selector=short, evaluations=2, progress=False)


def test_rows_of_a_table(tmp_path: Path, fitted: l2x.Explainer, plan: l2x.TrainingPlan) -> None:
    X = np.random.default_rng(5).normal(size=(120, 5))
    with new(
        tmp_path / "a.study",
        fitted,
        X,
        Settings(items=20, raters=2, practice=2, classes=("low", "high"), seed=3),
        against=["random", "whole"],
        training=plan,
    ) as study:
        items, settings = study.items(), study.settings
        examples = study.examples()
    assert settings.methods == ("l2x", "random", "whole")
    assert (settings.kind, settings.selected, settings.per_rater) == ("table", "1 column of a table row", 20)
    predicted = one_column(X).argmax(axis=1)
    for item in items:
        ours, random, whole = item.cells
        assert item.prediction == predicted[item.row]
        assert ours.content["cells"] == [["x1", f"{X[item.row, 1]:.4g}"]]  # the only column that counts
        assert len(random.content["cells"]) == 1
        assert len(whole.content["cells"]) == 5
        assert whole.posthoc == item.prediction
        assert {cell.evaluator for cell in item.cells} <= {0, 1}
    assert np.mean([item.cells[0].posthoc == item.prediction for item in items]) == 1
    assert len({item.row for item in items}) == 20
    assert len(examples) == 2
    assert all(example.prediction in (0, 1) for example in examples)


def test_the_seed_fixes_everything(tmp_path: Path, fitted: l2x.Explainer) -> None:
    X = np.random.default_rng(5).normal(size=(60, 5))
    made = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        settings = Settings(items=10, seed=seed)
        with new(tmp_path / name, fitted, X, settings, against=["random"], evaluator=False) as study:
            made.append(json.dumps([[i.row, [c.content for c in i.cells]] for i in study.items()]))
    assert made[0] == made[1] != made[2]


def test_inputs_that_are_the_same_are_drawn_once(tmp_path: Path, fitted: l2x.Explainer) -> None:
    """Or a rater would see one review under two methods."""
    different = np.random.default_rng(5).normal(size=(20, 5))
    X = np.repeat(different, 3, axis=0)
    settings = Settings(items=15, practice=3)
    with new(tmp_path / "a.study", fitted, X, settings, against=["whole"], evaluator=False) as study:
        shown = [item.cells[1].content["cells"] for item in study.items()]
        assert len({item.row // 3 for item in study.items()}) == 15
    assert len({json.dumps(cells) for cells in shown}) == 15
    with pytest.raises(InputError, match="60 rows, 20 of them different; 16 items and 5 rows"):
        new(tmp_path / "b.study", fitted, X, Settings(items=16, practice=3), evaluator=False)


def mood(texts: list[str]) -> np.ndarray:
    p = np.array([0.5 + 0.45 * (("great" in text) - int("awful" in text)) for text in texts])
    return np.stack([1 - p, p], axis=1)


def test_words_of_texts_read_by_simulated_raters(tmp_path: Path, plan: l2x.TrainingPlan) -> None:
    rng = np.random.default_rng(0)
    filling = np.array(
        ["it", "is", "a", "film", "with", "some", "people", "who", "talk", "about", "the", "other"]
    )
    texts = [
        " ".join([*rng.choice(filling, 8), word, *rng.choice(filling, 4)])
        for word in rng.choice(["great", "awful"], 150)
    ]
    explainer = l2x.Explainer(mood, k=2, features=l2x.Words(length=20), objective="model", training=plan)
    explainer.fit(texts[:90])
    with new(
        tmp_path / "a.study",
        explainer,
        texts[90:],
        Settings(items=30, raters=1, classes=("negative", "positive")),
        against=["search", "random", "whole"],
        evaluator=False,
    ) as study:
        assert (study.settings.kind, study.settings.selected) == ("text", "2 words of a text")
        simulate(study, raters=8)
        found = {one.method: one for one in results(study, simulated=True, draws=20).methods}
    assert found["search"].accuracy.value > 0.8 > found["random"].accuracy.value
    assert found["search"].posthoc == 1
    assert np.isnan(found["search"].evaluator)


def test_patches_of_images_and_three_classes(tmp_path: Path, plan: l2x.TrainingPlan) -> None:
    images = np.random.default_rng(0).random((40, 8, 8))

    def model(X: np.ndarray) -> np.ndarray:
        brightness = 0.1 + np.stack([X[:, :4, :4], X[:, :4, 4:], X[:, 4:, :4]]).mean(axis=(2, 3)).T
        return brightness / brightness.sum(axis=1, keepdims=True)

    explainer = l2x.Explainer(model, k=1, features=l2x.Patches(size=4), training=plan).fit(images)
    with new(tmp_path / "a.study", explainer, images, Settings(items=10, raters=1), evaluator=False) as study:
        assert study.settings.classes == ("0", "1", "2")
        assert (study.settings.kind, study.settings.selected) == ("image", "1 patch of an image")
        assert study.items()[0].cells[0].content["source"].startswith("data:image/png;base64,")
        assert simulate(study, raters=0, careless=1) == 10


def test_impossible_studies_are_refused(
    tmp_path: Path, fitted: l2x.Explainer, plan: l2x.TrainingPlan
) -> None:
    X = np.random.default_rng(5).normal(size=(30, 5))
    path = tmp_path / "a.study"
    for wrong, message in (
        ({"items": 40}, "30 rows; 40 items and 5 rows"),
        ({"items": 10, "classes": ("a", "b", "c")}, "3 names .* 2 classes"),
        ({"items": 10, "k": 9}, "k = 9"),
    ):
        with pytest.raises(InputError, match=message):
            new(path, fitted, X, Settings(**wrong), evaluator=False)
    with pytest.raises(InputError, match=r"Only 5 rows .* needs 50"):
        new(path, fitted, X, Settings(items=20))
    explainer = l2x.Explainer(lambda X: X[:, 0], k=1, training=plan).fit(X)
    with pytest.raises(InputError, match="regression"):
        new(path, explainer, X, Settings(items=10), evaluator=False)
    fitted.save(tmp_path / "fitted.l2x")
    with pytest.raises(InputError, match="no model"):
        new(path, l2x.load(tmp_path / "fitted.l2x"), X, Settings(items=10), evaluator=False)
    (tmp_path / "fitted.l2x").unlink()
    assert not list(tmp_path.iterdir())


def test_a_frame_keeps_its_columns(tmp_path: Path, plan: l2x.TrainingPlan) -> None:
    frame = pd.DataFrame({"age": range(40), "city": ["Ulm", "Bonn"] * 20})

    def model(X: pd.DataFrame) -> np.ndarray:
        p = np.where(X["city"] == "Ulm", 0.9, 0.1)
        return np.stack([1 - p, p], axis=1)

    explainer = l2x.Explainer(model, k=1, training=plan).fit(frame)
    with new(
        tmp_path / "a.study", explainer, frame, Settings(items=5), against=["whole"], evaluator=False
    ) as study:
        for item in study.items():
            assert item.cells[1].content["cells"] == [
                ["age", str(item.row)],
                ["city", ("Ulm", "Bonn")[item.row % 2]],
            ]


def test_methods_by_name_by_file_and_by_object(fitted: l2x.Explainer, tmp_path: Path) -> None:
    black_box = as_black_box(one_column)
    fitted.save(tmp_path / "other.l2x")
    names = ["random", "lime", WHOLE, str(tmp_path / "other.l2x")]
    found = contenders(names, fitted, black_box, seed=1)
    assert list(found) == [OURS, "random", "lime", WHOLE, "other"]
    assert found[OURS] is fitted
    assert found[WHOLE] is None
    assert found["lime"].magnitude  # columns are ranked by what matters at all
    assert isinstance(found["other"], l2x.Explainer)
    own = RandomK(seed=3)
    assert contenders({"mine": own}, fitted, black_box, seed=1)["mine"] is own


def test_unknown_and_repeated_names_are_refused(fitted: l2x.Explainer) -> None:
    black_box = as_black_box(one_column)
    with pytest.raises(InputError, match="There is no method 'limes'; choose among lime, "):
        contenders(["limes"], fitted, black_box, seed=0)
    with pytest.raises(InputError, match="Two methods are called 'l2x'"):
        contenders({"l2x": fitted}, fitted, black_box, seed=0)
    assert set(BY_NAME) >= {"taylor", "lime", "random"}
