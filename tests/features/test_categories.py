"""Categories and missing cells: encoded alike in three libraries, zero when not selected, types unchanged."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch

import l2x
from l2x.features import Columns

N = 400


def make_frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "colour": rng.choice(["red", "green", "blue"], N, p=[0.5, 0.3, 0.2]),
            "size": pd.Categorical(rng.choice(["s", "m"], N)),
            "flag": rng.random(N) < 0.4,
            "age": rng.integers(18, 80, N),
            "income": rng.normal(size=N),
        },
        index=np.arange(N) + 1000,
    )
    frame.loc[frame.index[::5], "income"] = np.nan
    frame.loc[frame.index[::7], "colour"] = None
    return frame


FRAME = make_frame()
TABLES: dict[str, Any] = {
    "pandas": FRAME,
    "polars": pl.from_pandas(FRAME),
    "polars enum": pl.from_pandas(FRAME).with_columns(pl.col("size").cast(pl.Enum(["s", "m", "l"]))),
    "pyarrow": pa.Table.from_pandas(FRAME, preserve_index=False),
}


def model(frame: Any) -> np.ndarray:
    """Red, or else an income that is not known, makes it likely."""
    frame = frame.to_pandas() if hasattr(frame, "to_pandas") else frame
    p = np.where(frame["colour"] == "red", 0.95, np.where(frame["income"].isna(), 0.9, 0.05))
    return np.stack([1 - p, p], axis=1)


def cells(table: Any) -> pd.DataFrame:
    frame = table.to_pandas() if hasattr(table, "to_pandas") else table.reset_index(drop=True)
    return frame.astype(object).where(frame.notna(), None)


@pytest.mark.parametrize("name", TABLES)
def test_libraries_agree(name: str) -> None:
    view = Columns().fit(TABLES[name])
    assert view.names_ == list(FRAME.columns)
    encoded = view.encode(view.check(TABLES[name]))
    reference = Columns().fit(FRAME).encode(FRAME)
    assert torch.equal(encoded.nan_to_num(9.0), reference.nan_to_num(9.0))


@pytest.mark.parametrize("masking", ["mean", "median", "zero", "resample"])
@pytest.mark.parametrize("name", TABLES)
def test_masking_keeps_cells_and_types(name: str, masking: str) -> None:
    table = TABLES[name]
    view = Columns(masking=masking).fit(table)
    mask = np.random.default_rng(1).random((N, 5)) < 0.5
    masked = view.for_model(table, mask)
    assert type(masked) is type(table)
    if name == "pandas":
        assert (masked.dtypes == table.dtypes).all()
        assert masked.index.equals(table.index)
    elif name == "pyarrow":
        assert masked.schema.types == table.schema.types
    else:
        assert masked.schema == table.schema
    before, after = cells(table), cells(masked)
    for place, column in enumerate(FRAME.columns):
        selected = mask[:, place]
        assert after[column][selected].tolist() == before[column][selected].tolist()
    if masking != "resample":
        assert set(after["colour"][~mask[:, 0]]) == {"red"}  # the most frequent one
        median = FRAME["age"].quantile(interpolation="lower")
        usual = {"zero": 0, "mean": round(FRAME["age"].mean()), "median": median}[masking]
        assert set(after["age"][~mask[:, 3]]) == {usual}
    else:
        assert after["income"][~mask[:, 4]].isna().any()  # missing cells are resampled like others


def test_a_category_that_this_frame_never_had_can_still_be_filled_in() -> None:
    view = Columns().fit(FRAME)
    usual = FRAME["size"].mode()[0]
    other = FRAME[FRAME["size"] != usual].copy()
    other["size"] = other["size"].cat.remove_unused_categories()
    assert set(view.for_model(other, np.zeros((len(other), 5), dtype=bool))["size"]) == {usual}


def test_numbers_and_back() -> None:
    for table in TABLES.values():
        view = Columns().fit(table)
        again = view.cells_.table(table, view.numbers(table))
        for column in FRAME.columns:
            assert cells(again)[column].tolist() == cells(table)[column].tolist()


def test_what_is_not_selected_is_all_zero_and_missing_is_not() -> None:
    view = Columns().fit(FRAME)
    x = view.encode(FRAME)
    assert x[:, 4].isnan().sum() == FRAME["income"].isna().sum()
    nothing = view.mask(x, torch.zeros(N, 5))
    assert (nothing == 0).all()
    income = torch.zeros(N, 5)
    income[:, 4] = 1
    shown = view.mask(x, income)
    assert not shown.isnan().any()
    assert (shown[x[:, 4].isnan()] != 0).any(dim=1).all()


def test_explains_by_categories_and_gaps(tiny: l2x.TrainingPlan) -> None:
    explainer = l2x.Explainer(model, k=2, training=tiny).fit(FRAME)
    assert explainer.score(FRAME) > 0.95
    explanation = explainer.explain(FRAME)
    # An income that is not known decides alone, and so does red; otherwise both are needed.
    both = ((FRAME["colour"] != "red") & FRAME["income"].notna()).to_numpy()
    assert explanation.mask[both][:, [0, 4]].mean() > 0.95
    assert explanation.to_frame().index.equals(FRAME.index)


def test_unseen_categories_are_counted_and_saying_nothing(tiny: l2x.TrainingPlan, tmp_path: Any) -> None:
    plan = l2x.TrainingPlan(l2x.Phase(3, 1e-2), l2x.Phase(3, 1e-2), evaluations=2, progress=False)
    explainer = l2x.Explainer(model, k=2, training=plan).fit(FRAME)
    loaded = l2x.load(explainer.save(tmp_path / "e.l2x"))
    assert np.array_equal(loaded.explain(FRAME).scores, explainer.explain(FRAME).scores)
    new = FRAME.copy()
    new.iloc[:5, 0] = "purple"
    with pytest.warns(UserWarning, match=r"colour \(5 rows\)"):
        loaded.explain(new)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loaded.explain(FRAME)


def test_rare_categories_share_a_vector() -> None:
    frame = pd.DataFrame({"c": ["a"] * 50 + ["b"] * 30 + ["c"] * 15 + ["d"] * 5})
    view = Columns(max_categories=2).fit(frame)
    assert view.encode(frame).unique().tolist() == [0, 1, 2]
    assert view.masked_.width == 3
    assert view.for_model(frame, np.ones((100, 1), dtype=bool))["c"].tolist() == frame["c"].tolist()


def test_integer_codes_on_request() -> None:
    X = np.random.default_rng(0).integers(0, 3, size=(60, 2)).astype(float)
    view = Columns(categorical=[1]).fit(X)
    assert view.masked_.width == (1 + view.bins) + 3
    masked = view.for_model(X, np.zeros((60, 2), dtype=bool))
    assert np.isin(masked[:, 1], X[:, 1]).all()
    frame = pd.DataFrame(X.astype(int), columns=["number", "code"])
    assert list(Columns(categorical=["code"]).fit(frame).levels_) == [1]
    with pytest.raises(l2x.errors.InputError, match=r"categorical names the column 'kode'; .* number, code"):
        Columns(categorical=["kode"]).fit(frame)


def test_missing_cells_where_they_are_expected() -> None:
    X = np.array([[1.0, np.nan], [2.0, 3.0], [4.0, 1.0]])
    with pytest.raises(l2x.errors.InputError, match=r"Row 0, column 'x1' is nan.*missing='allow'"):
        Columns().fit(X)
    assert Columns(missing="allow").fit(X).encode(X).isnan().sum() == 1
    view = Columns().fit(FRAME.dropna())
    with pytest.raises(
        l2x.errors.InputError, match=r"Row 0, column 'colour' is nan: the training rows had no"
    ):
        view.encode(FRAME)
    with pytest.raises(l2x.errors.InputError, match="missing is 'sometimes'"):
        Columns(missing="sometimes").fit(X)
    nullable = pd.DataFrame({"n": pd.array([1, None, 3], dtype="Int64")})
    assert Columns().fit(nullable).encode(nullable)[:, 0].isnan().tolist() == [False, True, False]


def test_numbers_are_standardised_robustly() -> None:
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=1000), np.full(1000, 7.0), rng.normal(3, 2, size=1000)])
    X[0, 0] = 1e9
    x = Columns().fit(X).encode(X)
    assert 0.5 < x[1:, 0].std() < 2  # one outlier does not flatten the others
    assert x.abs().max() <= 10
    assert (x[:, 1] == 0).all()
    assert torch.allclose(x[:, 2].std(), torch.tensor(1.0), atol=0.01)
