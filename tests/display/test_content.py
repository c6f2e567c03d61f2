"""What raters see of an input: the selected features in their order, and nothing else."""

from __future__ import annotations

from base64 import b64decode
from io import BytesIO
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image

import l2x
from l2x.display import row_html, selected_content, whole_content
from l2x.display._texts import phrases
from l2x.errors import InputError
from l2x.explanation import Explanation

REVIEW = "It is not good, not bad:<br /><br />simply well-made (and <script>alert(1)</script> short)."


def explained(view: l2x.Words, text: str, words: list[str]) -> Explanation:
    """Return an explanation that selects these words, the last one first."""
    names = view.names_in([text], np.arange(view.d)[None])[0].tolist()
    scores = np.zeros((1, view.d))
    for rank, word in enumerate(words):
        scores[0, names.index(word)] = 1 + rank
    return Explanation(scores, len(words), view.names_, inputs=view.check([text]), view=view)


@pytest.fixture(scope="module")
def words() -> l2x.Words:
    return l2x.Words(length=30).fit([REVIEW])


def test_words_in_reading_order_adjacent_ones_together(words: l2x.Words) -> None:
    explanation = explained(words, REVIEW, ["made", "good", "well", "short", "is"])
    assert selected_content(explanation, 0) == {
        "kind": "text",
        "phrases": ["is", "good", "well-made", "short"],
    }


def test_only_selected_words_are_seen_between_adjacent_ones(words: l2x.Words) -> None:
    explanation = explained(words, REVIEW, ["bad", "simply"])  # a colon and two line breaks lie between
    assert selected_content(explanation, 0)["phrases"] == ["bad simply"]
    assert phrases("yes 😀 no", np.array([[0, 3], [6, 8]]), [0, 1]) == ["yes no"]


def test_the_whole_text_is_text(words: l2x.Words) -> None:
    content = whole_content(explained(words, REVIEW, ["good"]), 0)
    assert content["phrases"] == [REVIEW.replace("<br /><br />", " ")]
    assert "<script>" in content["phrases"][0]  # the template escapes it


def test_one_sentence() -> None:
    texts = ["A dull start. The end is great! Nobody knows why."]
    view = l2x.Sentences(length=5).fit(texts)
    explanation = Explanation(
        np.array([[0, 3.0, 0, 0, 0]]), 1, view.names_, inputs=view.check(texts), view=view
    )
    assert selected_content(explanation, 0)["phrases"] == ["The end is great!"]


def test_columns_with_their_values_in_the_tables_order() -> None:
    frame = pd.DataFrame({"age": [42, 43], "wage": [1.5, 2.25], "city": ["Ulm", "<b>Bonn"]})
    view = l2x.Columns().fit(frame)
    explanation = Explanation(np.array([[1, 2, 3.0], [3, 1, 2]]), 2, view.names_, inputs=frame, view=view)
    assert selected_content(explanation, 0)["cells"] == [["wage", "1.5"], ["city", "Ulm"]]
    assert selected_content(explanation, 1)["cells"] == [["age", "43"], ["city", "<b>Bonn"]]
    assert len(whole_content(explanation, 1)["cells"]) == 3


def test_a_group_of_columns_shows_all_of_them() -> None:
    frame = pd.DataFrame({"a": [1, 2], "b": [3, 4], "c": [5, 6]})
    view = l2x.ColumnGroups({"ab": ["a", "b"]}).fit(frame)
    scores = np.array([[0.0, 0.0]])
    scores[0, view.names_.index("ab")] = 1
    explanation = Explanation(scores, 1, view.names_, inputs=frame[:1], view=view)
    assert selected_content(explanation, 0)["cells"] == [["a", "1"], ["b", "3"]]


def test_patches_on_grey() -> None:
    images = np.random.default_rng(0).integers(0, 256, size=(2, 8, 8), dtype=np.uint8)
    view = l2x.Patches(size=4).fit(images)
    explanation = Explanation(
        np.array([[0, 1, 0, 0], [1, 0, 0, 0.0]]), 1, view.names_, inputs=images, view=view
    )

    def pixels(source: str) -> np.ndarray:
        picture = Image.open(BytesIO(b64decode(source.removeprefix("data:image/png;base64,"))))
        return np.asarray(picture.convert("L"))

    shown = pixels(selected_content(explanation, 0)["source"])
    assert (shown[:4, 4:] == images[0, :4, 4:]).all()
    assert (shown[4:] == 128).all()
    assert (shown[:4, :4] == 128).all()
    assert (pixels(whole_content(explanation, 0)["source"]) == images[0]).all()


def test_an_explanation_without_inputs_cannot_be_shown() -> None:
    with pytest.raises(InputError, match="no inputs to show"):
        selected_content(Explanation(np.ones((1, 2)), 1, ["a", "b"]), 0)


class Tags(l2x.Columns):
    """A view of one's own whose features have other names in each row, and no value each."""

    def check(self, X: Any) -> list[list[str]]:
        return list(X)

    def names_in(self, X: Any, indices: np.ndarray) -> np.ndarray:
        return np.array(
            [[row[i] for i in picked] for row, picked in zip(X, indices, strict=True)], dtype=object
        )


def test_other_views_show_the_names_of_their_features() -> None:
    view = Tags().fit(np.zeros((2, 4)))
    scores = np.array([[3.0, 1.0, 2.0, -np.inf]])
    explanation = Explanation(scores, 2, list("wxyz"), inputs=[["<b>", "red", "old", ""]], view=view)
    names = [name for name, _ in selected_content(explanation, 0)["cells"]]
    assert names == ["<b>", "old"]
    assert [name for name, _ in whole_content(explanation, 0)["cells"]] == ["<b>", "red", "old"]
    for html in (explanation.to_html(), row_html(explanation)):
        assert ">&lt;b&gt;<" in html
