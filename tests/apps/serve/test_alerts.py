"""The alert rules and the dashboard in examples/monitoring name metrics and labels that the service has.

promtool (Debian: apt-get install prometheus) checks the expressions and fires the alerts; without it those
tests are skipped.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from starlette.testclient import TestClient
from toy_models import one_column

import l2x
from l2x.apps.serve import Settings, create_app
from l2x.apps.serve._monitoring import STATUSES

MONITORING = Path(__file__).parents[3] / "examples" / "monitoring"
PROMTOOL = os.environ.get("L2X_PROMTOOL", "promtool")
needs_promtool = pytest.mark.skipif(shutil.which(PROMTOOL) is None, reason="promtool is not installed")
SUFFIX = re.compile("_(bucket|sum|count)$")


def rules() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load((MONITORING / "alerts.yml").read_text())["groups"]
    return list(group["rules"])


def panels() -> list[dict[str, Any]]:
    return list(json.loads((MONITORING / "dashboard.json").read_text())["panels"])


def expressions() -> list[str]:
    return [rule["expr"] for rule in rules()] + [
        target["expr"] for panel in panels() for target in panel["targets"]
    ]


@pytest.fixture(scope="module")
def metrics(fitted: l2x.Explainer, tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """Return the labels of every metric of a service that watches."""
    file = fitted.save(tmp_path_factory.mktemp("alerts") / "it.l2x")
    settings = Settings(watch=1.0, watch_rows=100_000)
    with TestClient(create_app([file], {"it": one_column}, settings)) as client:
        rows = np.random.default_rng(1).normal(size=(60, 5)).tolist()
        assert client.post("/v1/explainers/it/explain", json={"rows": rows}).status_code == 200
        while client.get("/v1/explainers/it/validity").json()["status"] == "waiting":
            time.sleep(0.01)
        text = client.get("/metrics").text
    found: dict[str, set[str]] = {}
    for line in text.splitlines():
        if name := re.match(r"# TYPE (\w+) ", line):
            found.setdefault(name[1], set())
        elif sample := re.match(r"(\w+)\{(.*)\} ", line):
            labels = set(re.findall(r'(\w+)="', sample[2]))
            for name_ in (sample[1], SUFFIX.sub("", sample[1])):
                found.setdefault(name_, set()).update(labels)
    return found


def test_every_metric_and_label_exists(metrics: dict[str, set[str]]) -> None:
    silent = {"l2x_reloads_total", "l2x_watch_dropped_total", "l2x_unseen_categories_total"}
    named = set()
    for expression in expressions():
        for metric, _, labels in re.findall(r"(l2x_\w+)(\{([^}]*)\})?", expression):
            assert metric in metrics, expression
            named.add(SUFFIX.sub("", metric))
            if metric not in silent:  # counters without a sample so far show no labels
                assert set(re.findall(r"(\w+)=", labels)) <= metrics[metric], expression
    watched = {name for name in metrics if name.startswith(("l2x_watch_", "l2x_explainer_"))}
    assert {name for name in watched if not name.endswith("_created")} <= named


def test_every_role_and_status_exists() -> None:
    found = " ".join(expressions())
    assert set(re.findall(r'status="(\w+)"', found)) == set(STATUSES)
    assert set(re.findall(r'role="(\w+)"', found)) == {"input"}
    assert set(re.findall(r'reason="(\w+)"', found)) == {"failed"}


def test_panels_do_not_overlap() -> None:
    cells = [
        (panel["gridPos"]["x"] + x, panel["gridPos"]["y"] + y)
        for panel in panels()
        for x in range(panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24
    assert len({panel["id"] for panel in panels()}) == len(panels())
    assert all(panel["description"] and panel["title"] for panel in panels())


def promtool(*arguments: object) -> str:
    run = subprocess.run([PROMTOOL, *map(str, arguments)], capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


@needs_promtool
def test_promtool_accepts_the_rules_and_the_expressions_of_the_dashboard(tmp_path: Path) -> None:
    assert f"{len(rules())} rules found" in promtool("check", "rules", MONITORING / "alerts.yml")
    recorded = [{"record": f"panel:{i}", "expr": each} for i, each in enumerate(expressions())]
    file = tmp_path / "dashboard.yml"
    file.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": recorded}]}))
    assert f"{len(recorded)} rules found" in promtool("check", "rules", file)


FIRES = {
    "ExplainerStale": {'l2x_watch_status{explainer="it",status="stale"}': "0x9 1x60"},
    "ExplainerDrifting": {'l2x_watch_status{explainer="it",status="drifting"}': "0x9 1x60"},
    "ExplainerColumnChanged": {'l2x_watch_psi{explainer="it",role="input",column="age"}': "0.1x9 0.3x60"},
    "ExplainerNotVerified": {'l2x_watch_dropped_total{explainer="it",reason="failed"}': "0x9 1+1x60"},
    "ExplainerOld": {'l2x_explainer_age_seconds{explainer="it"}': "9000000x70"},
    "ExplainerReloadRefused": {'l2x_reloads_total{explainer="it",outcome="refused"}': "0x30 1x40"},
    "ExplanationsFail": {
        'l2x_requests_total{route="/",status="200"}': "0+60x70",
        'l2x_requests_total{route="/",status="503"}': "0+6x70",
    },
    "ExplanationsWait": {'l2x_queue_rows{explainer="it"}': "0x9 900x60"},
}
# What a service reports on a good day: no alert may fire.
CALM = {
    'l2x_watch_status{explainer="it",status="stale"}': "0x70",
    'l2x_watch_status{explainer="it",status="drifting"}': "0x70",
    'l2x_watch_status{explainer="it",status="valid"}': "1x70",
    'l2x_watch_psi{explainer="it",role="input",column="age"}': "0.1x70",
    'l2x_watch_psi{explainer="it",role="selection",column="best feature"}': "0.1x70",
    'l2x_watch_dropped_total{explainer="it",reason="failed"}': "3x70",
    'l2x_watch_dropped_total{explainer="it",reason="budget"}': "0+9x70",
    'l2x_explainer_age_seconds{explainer="it"}': "100+60x70",
    'l2x_reloads_total{explainer="it",outcome="swapped"}': "0x30 1x40",
    'l2x_requests_total{route="/",status="200"}': "0+6000x70",
    'l2x_requests_total{route="/",status="503"}': "0+6x70",
    'l2x_queue_rows{explainer="it"}': "20x70",
}


@needs_promtool
def test_every_alert_fires_and_none_on_a_good_day(tmp_path: Path) -> None:
    assert set(FIRES) == {rule["alert"] for rule in rules()}
    tests = []
    for wanted, series in [*FIRES.items(), (None, CALM)]:
        expected = [
            # promtool compares labels, which are those of the series, of the rule, and of the expression.
            {"eval_time": "60m", "alertname": rule["alert"], "exp_alerts": []}
            for rule in rules()
            if rule["alert"] != wanted
        ]
        given = [{"series": name, "values": values} for name, values in series.items()]
        tests.append({"interval": "1m", "input_series": given, "alert_rule_test": expected})
        if wanted is not None:
            firing = {"expr": f'count(ALERTS{{alertname="{wanted}",alertstate="firing"}})'}
            sample = {"eval_time": "60m", "exp_samples": [{"labels": "{}", "value": 1}]}
            tests[-1]["promql_expr_test"] = [firing | sample]
    file = tmp_path / "tests.yml"
    shutil.copy(MONITORING / "alerts.yml", tmp_path)
    file.write_text(json.dumps({"rule_files": ["alerts.yml"], "evaluation_interval": "1m", "tests": tests}))
    promtool("test", "rules", file)
