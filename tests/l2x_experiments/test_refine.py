"""Learned, polished and refined selections next to methods that query each row, briefly."""

from __future__ import annotations

import pytest

from l2x_experiments import refine
from l2x_experiments.records import Record, Records

SLOW = {"Kernel SHAP, 1,000", "Kernel SHAP, 10,000", "LIME, 5,000", "shapiq, 1,000", "refined, 100"}


def measured(part: str, problem: str) -> Records:
    jobs = [
        job
        for job in refine.experiment(quick=True, seeds=1).jobs
        if (job["part"], job["problem"]) == (part, problem) and job["method"] not in SLOW
    ]
    return Records(refine.measure_all(jobs, refine.QUICK))


@pytest.mark.slow
def test_all_methods_are_measured_on_the_same_rows_of_a_table() -> None:
    records = measured("tables", "breast cancer, SVC")
    assert records.distinct("method") == [m for m in refine.METHODS if m not in {*SLOW, "TreeSHAP"}]
    assert records.distinct("rows") == [refine.QUICK.test_rows]
    for record in records:
        assert len(refine.measures(record)) == 5
        assert all(0 <= value <= 1 for value in refine.measures(record))
    by_method = {record["method"]: record for record in records}
    assert by_method["learned"]["queries"] == by_method["polished"]["queries"] == 0
    assert 1 <= by_method["refined, 1"]["queries"] <= by_method["refined, 30"]["queries"] <= 30
    assert by_method["refined, 30"]["confirmed"] >= by_method["refined, 1"]["confirmed"]
    page = refine.report(records)
    assert "Kernel SHAP, 100" in page.markdown


@pytest.mark.slow
def test_exact_sets_and_leakage() -> None:
    records = Records([*measured("truths", "gate"), *measured("leakage", "syn1")])
    shares: dict[str, Record] = {record["method"]: record for record in records.select(part="leakage")}
    assert {*shares} == {"learned", "polished"}
    assert all(record["leakage"]["low"] <= record["leakage"]["high"] for record in shares.values())
    goals = {goal["measure"]: goal for goal in refine.goals(records)}
    assert goals["exact sets, gate: polished"]["goal"] >= 0.98
    assert goals["leakage, syn1: polished not flagged, unless learned is"]["holds"] == "yes"
    assert "Leakage" in refine.report(records).markdown


@pytest.mark.slow
def test_stability_and_cost_on_adult() -> None:
    records = measured("adult", "Adult")
    assert records.distinct("method") == ["learned", "polished"]
    learned, polished = records
    assert learned["cpu_ms_per_row"] < polished["cpu_ms_per_row"]
    for record in records:
        assert 0 < record["between_seeds"] < record["under_noise"] <= 1
    goals = {goal["measure"] for goal in refine.goals(records)}
    assert "Adult, polished: Jaccard index between seeds" in goals
    assert "Stability and cost, Adult" in refine.report(records).markdown


@pytest.mark.slow
def test_digits_are_refined() -> None:
    records = measured("inputs", "ten digits")
    by_method = {record["method"]: record for record in records}
    assert [*by_method] == ["learned", "polished", "refined, 30"]
    assert by_method["refined, 30"]["posthoc_accuracy"] >= by_method["polished"]["posthoc_accuracy"]
    assert 1 <= by_method["refined, 30"]["queries"] <= 30
    assert "ten digits, refined, 30: post-hoc" in {goal["measure"] for goal in refine.goals(records)}


def test_goals_compare_means_over_tables_that_both_methods_explain() -> None:
    def record(problem: str, method: str, value: float) -> Record:
        five = {"posthoc_accuracy": [value] * 3, "judge_accuracy": value, "boosted_accuracy": value}
        return {"part": "tables", "problem": problem, "method": method, "seed": 0, **five}

    first, second = refine.FINAL[:2]
    ours = [record(first, "polished", 0.5), record(second, "polished", 0.9)]
    records = Records([*ours, record(second, "TreeSHAP", 0.8)])
    goals = {goal["measure"]: goal for goal in refine.goals(records)}
    found = goals["polished against TreeSHAP, tables looked at once, resampled"]
    assert (found["value"], found["goal"], found["holds"]) == (0.9, 0.8, "yes")
