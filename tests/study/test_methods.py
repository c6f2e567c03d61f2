"""Methods by name, by file and by object."""

from __future__ import annotations

from pathlib import Path

import pytest
from toy_models import one_column

import l2x
from l2x.apps.study._methods import BY_NAME, OURS, WHOLE, contenders
from l2x.baselines import RandomK
from l2x.errors import InputError
from l2x.model._black_box import as_black_box


def test_by_name_by_file_and_by_object(fitted: l2x.Explainer, tmp_path: Path) -> None:
    black_box = as_black_box(one_column)
    fitted.save(tmp_path / "other.l2x")
    names = ["random", "lime", WHOLE, str(tmp_path / "other.l2x")]
    found = contenders(names, fitted, one_column, black_box, seed=1)
    assert list(found) == [OURS, "random", "lime", WHOLE, "other"]
    assert found[OURS] is fitted
    assert found[WHOLE] is None
    assert found["lime"].magnitude  # columns are ranked by what matters at all
    assert isinstance(found["other"], l2x.Explainer)
    own = RandomK(seed=3)
    assert contenders({"mine": own}, fitted, one_column, black_box, seed=1)["mine"] is own


def test_names_that_cannot_be(fitted: l2x.Explainer) -> None:
    black_box = as_black_box(one_column)
    with pytest.raises(InputError, match="There is no method 'limes'; choose among taylor"):
        contenders(["limes"], fitted, one_column, black_box, seed=0)
    with pytest.raises(InputError, match="Two methods are called 'l2x'"):
        contenders({"l2x": fitted}, fitted, one_column, black_box, seed=0)
    assert set(BY_NAME) >= {"taylor", "lime", "random"}
