"""The synthetic experiment end to end on a small scale: records, resuming, figures, page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from l2x.training import Phase, TrainingPlan
from l2x_experiments import synthetic, synthetic_report
from l2x_experiments.synthetic import METHODS, Bench, Problem, Scale, methods

KEYS = {
    "set", "variant", "model", "method", "seed", "rows", "median_rank_mean", "median_rank_sd", "exact",
    "true_positive_rate", "bits", "bits_available", "fit_seconds", "explain_seconds",
}  # fmt: skip


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Scale:
    """A few steps on a few rows; no process pool, so that the patch is seen."""
    plan = TrainingPlan(Phase(5, 1e-3), Phase(5, 1e-3), evaluations=1, progress=False)
    scale = Scale(2000, 200, 2, 5, 50, 20, plan, plan)
    monkeypatch.setattr(Scale, "quick", classmethod(lambda cls: scale))
    monkeypatch.setattr(synthetic, "ProcessPoolExecutor", Here)
    return scale


class Here:
    """An executor that runs at once, in this process."""

    def __init__(self, *_: object, **__: object) -> None: ...

    def __enter__(self) -> Here:
        return self

    def __exit__(self, *_: object) -> None: ...

    def submit(self, work, *arguments):  # type: ignore[no-untyped-def]
        from concurrent.futures import Future

        future: Future[object] = Future()
        future.set_result(work(*arguments))
        return future


def test_methods_are_those_announced(small: Scale) -> None:
    for model in ("true", "network"):
        bench = Bench.of(Problem("xor", "code", model, 0), small)  # type: ignore[arg-type]
        assert set(methods(bench)) == set(METHODS[model])  # type: ignore[index]


def test_records_resume_and_page(small: Scale, tmp_path: Path) -> None:
    path = tmp_path / "synthetic.json"
    options = {"quick": True, "seeds": 1, "progress": False}
    first = synthetic.run(path, models=("true",), only=["l2x"], **options)  # type: ignore[arg-type]
    assert len(first) == 8
    assert all(set(record) >= KEYS for record in first)
    # XOR is one problem under two names; nonlinear additive is two
    by_name = {(r["set"], r["variant"]): r["fit_seconds"] for r in first}
    assert by_name["xor", "code"] == by_name["xor", "paper"]
    assert by_name["switch", "code"] != by_name["switch", "paper"]

    again = synthetic.run(path, models=("true",), **options)  # type: ignore[arg-type]
    assert [r for r in again if r["method"] == "l2x"] == first  # not measured again
    records = synthetic.run(path, variants=("code",), **options)  # type: ignore[arg-type]
    assert json.loads(path.read_text()) == records
    assert {r["method"] for r in records} == set(METHODS["network"])

    page = synthetic_report.write(records, tmp_path).read_text()
    assert "extrapolated from 2 rows" in page
    assert "When learning pays" in page
    assert (tmp_path / "figures" / "synthetic-ranks-code-network.png").exists()
    assert (tmp_path / "figures" / "synthetic-times-code-network.svg").exists()


def test_missing_extra_is_one_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import sys

    from l2x.cli import app

    monkeypatch.setitem(sys.modules, "captum", None)
    answer = CliRunner().invoke(app, ["reproduce", "synthetic", "--quick", "--folder", str(tmp_path)])
    assert answer.exit_code == 1
    assert "pip install 'l2x[baselines]'" in answer.output.replace("\n", " ")
    assert "Traceback" not in answer.output
