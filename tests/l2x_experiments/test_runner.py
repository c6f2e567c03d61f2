"""From jobs to records to a report, with an invented experiment."""

from __future__ import annotations

import json
import threading
from multiprocessing import active_children
from pathlib import Path

import pytest
from invented import METHODS, experiment

import l2x
from l2x.display import plot_lines
from l2x_experiments.records import Records
from l2x_experiments.report import Report, Table, mean_sd, measured_on, name_of
from l2x_experiments.runner import only_methods, run

NAMES = {"good": "a good method", "bad": "a bad one"}


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


def report(records: Records) -> Report:
    page = Report("invented", title="An invented experiment", subtitle="of two methods")
    page.add("", [measured_on(records)])
    lines = {NAMES[group[0]["method"]]: group.values("score") for group in records.groups(method=METHODS)}
    figure = plot_lines([0, 1], lines, title="Scores", x_label="seed", y_label="score")
    cells = {"method": name_of("method", NAMES), "score": mean_sd("score", digits=2)}
    table = Table.of(records.groups(method=METHODS), cells)
    page.add("Scores", table=table, figures={"scores": figure}, caption="Higher is better.")
    page.markdown = page.tables_markdown()
    return page


def test_jobs_become_records_become_a_report(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    records = run(experiment(log), tmp_path, progress=False)
    assert [(r["method"], r["seed"]) for r in records] == [("good", 0), ("bad", 0), ("good", 1), ("bad", 1)]
    assert json.loads((tmp_path / "invented.json").read_text()) == list(records)

    made = report(records)
    page = made.write(tmp_path).read_text(encoding="utf-8")
    for text in (
        "An invented experiment",
        "Measured on",
        "a good method",
        "0.95 ± 0.07",
        "Higher is better.",
    ):
        assert text in page
    assert page.count("<svg ") == 1
    for ending in ("svg", "png"):
        assert (tmp_path / "figures" / f"invented-scores.{ending}").exists()
    markdown = (tmp_path / "invented.md").read_text(encoding="utf-8")
    assert markdown.startswith("## Scores\n\n| method | score |\n|---|---|\n| a good method | 0.95 ± 0.07 |")
    made.show()
    assert "a bad one" in capsys.readouterr().out


def test_an_interrupted_run_resumes_where_it_stopped(log: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="broken"):
        run(experiment(log, broken=1), tmp_path, progress=False)
    stored = Records.load(tmp_path / "invented.json")
    assert [(r["method"], r["seed"]) for r in stored] == [("good", 0), ("bad", 0), ("good", 1)]
    records = run(experiment(log), tmp_path, progress=False)
    assert records[:3] == stored[:]
    assert len(records) == 4
    run(experiment(log), tmp_path, progress=False)
    assert log.read_text().split("\n") == ["seed 0", "seed 1", "seed 1", ""]  # and the third run does nothing


def test_records_of_other_budgets_stay_in_the_file(log: Path, tmp_path: Path) -> None:
    run(experiment(log, rows=10), tmp_path, progress=False)
    others = run(experiment(log, rows=99), tmp_path, progress=False)
    assert {record["rows"] for record in others} == {99}
    assert len(Records.load(tmp_path / "invented.json")) == 8


def test_several_processes(log: Path, tmp_path: Path) -> None:
    """A group stays in one process with one thread; after an error, finished groups are on file."""
    with pytest.raises(ValueError, match="broken"):
        run(experiment(log, seeds=4, broken=3), tmp_path, processes=2, progress=False)
    assert log.read_text().startswith("prepared\n")
    records = Records.load(tmp_path / "invented.json")
    assert records.has(seed=0)
    assert not records.has(seed=3)
    for group in records.groups(seed=range(3)):
        assert group.distinct("method") == list(METHODS)
        assert len(group.distinct("process")) == 1
    assert set(records.values("threads")) == {1}


def test_an_error_ends_the_processes_and_waits_for_their_end(log: Path, tmp_path: Path) -> None:
    """The endless job is terminated. The pool's thread, which reaps its processes, has ended, too: until it
    has, `active_children` may list a process that is dead."""
    children, threads = set(active_children()), set(threading.enumerate())
    with pytest.raises(ValueError, match="broken"):
        run(experiment(log, broken=0, endless=1), tmp_path, processes=2, progress=False)
    assert set(threading.enumerate()) <= threads
    assert set(active_children()) <= children


def test_a_record_that_cannot_be_written_ends_the_processes(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(records: Records, new: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(Records, "add", full)
    children = set(active_children())
    with pytest.raises(OSError, match="no space") as raised:
        run(experiment(log, endless=1), tmp_path, processes=2, progress=False)
    assert set(active_children()) <= children
    del raised  # its frames would keep open resources alive


def test_only_some_methods(log: Path) -> None:
    jobs = experiment(log).jobs
    assert only_methods(jobs, None) == jobs
    assert [job["method"] for job in only_methods(jobs, ["bad"])] == ["bad", "bad"]
    with pytest.raises(l2x.L2XError, match="no method 'ugly'; choose among good, bad"):
        only_methods(jobs, ["ugly"])
