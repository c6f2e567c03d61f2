"""The synthetic experiment end to end on a small scale: records, figures, page."""

from __future__ import annotations

from pathlib import Path

import pytest

from l2x_experiments import synthetic
from l2x_experiments.records import Records
from l2x_experiments.runner import run
from l2x_experiments.synthetic import COMPARED, SyntheticBudget, method_table

KEYS = {
    "set", "variant", "model", "method", "seed", "rows", "median_rank_mean", "median_rank_sd", "exact",
    "true_positive_rate", "bits", "bits_available", "bits_claimed", "fit_seconds", "explain_seconds",
}  # fmt: skip
SMALL = SyntheticBudget(
    train_rows=2000, test_rows=200, sampling_rows=2, model_steps=5, bits_rows=50, background=20,
    value_steps=5, selector_steps=5, paper_steps=5, evaluations=1,
)  # fmt: skip


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(synthetic, "QUICK", SMALL)


def test_a_problem_that_is_the_same_in_both_variants_is_measured_once(tmp_path: Path) -> None:
    jobs = synthetic.experiment(quick=True, seeds=1, models=("true",), only=["l2x"])
    records = run(jobs, tmp_path, progress=False)
    assert len(records) == 8
    assert all(set(record) >= KEYS for record in records)
    # XOR is one problem under two names; nonlinear additive is two
    seconds = {(r["set"], r["variant"]): r["fit_seconds"] for r in records}
    assert seconds["xor", "code"] == seconds["xor", "paper"]
    assert seconds["switch", "code"] != seconds["switch", "paper"]


def test_every_method_and_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(synthetic, "SETS", ("xor",))
    jobs = synthetic.experiment(quick=True, seeds=1, variants=("code",))
    records = run(jobs, tmp_path, progress=False)
    assert {r["method"] for r in records} == set(COMPARED["network"])
    assert records.select(method="lime")[0]["explain_rows_measured"] == 2
    assert records.select(method="l2x")[0]["bits_claimed"] is not None

    page = synthetic.report(records).write(tmp_path).read_text()
    assert "extrapolated from 2 rows" in page
    assert "When training pays off" in page
    assert (tmp_path / "figures" / "synthetic-ranks-code-network.png").exists()
    assert (tmp_path / "figures" / "synthetic-times-code-network.svg").exists()
    assert (tmp_path / "synthetic.md").read_text().startswith("| method | XOR (code) |")


def test_a_new_method_is_shown_after_the_others() -> None:
    """Every method in the table with records is shown."""
    results = Path(__file__).parents[2] / "results" / "synthetic.json"
    records = Records.load(results).select(variant="code", model="network", seed=0)
    known = records.select(method="l2x")
    more = Records([*records, *(record | {"method": "search"} for record in known)])
    assert [row[0] for row in synthetic.short_table(more).rows][-1] == "search per input"
    assert "search per input" not in str(synthetic.short_table(records))
    assert len(synthetic.costs(more).rows) == len(synthetic.costs(records).rows)


# Method: training, additive, model-agnostic, as printed.
PAPER = {
    "LIME": (False, True, True),
    "Kernel SHAP": (False, True, True),
    "DeepLIFT": (False, True, False),
    "Saliency": (False, True, False),
    "Parzen": (True, True, True),
    "LRP": (False, True, False),
    "L2X": (True, False, True),
}


def test_the_table_is_the_papers() -> None:
    found = {
        row["method"]: (row["training"], row["additive"], row["model_agnostic"]) for row in method_table({})
    }
    assert found == PAPER
    assert list(found) == list(PAPER)


def test_milliseconds_stand_where_the_paper_says_low_or_high() -> None:
    table = {
        row["method"]: row["milliseconds"]
        for row in method_table({"lime": 40.0, "l2x": 0.001, "taylor": 0.01})
    }
    assert table["LIME"] == 40.0
    assert table["L2X"] == 0.001
    assert table["Parzen"] is None
    assert list(table)[-1] == "Taylor"
