"""Tests mirror the sources: every module has a test file of its own, or a reason."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[1]

# Modules whose tests stand elsewhere. An entry goes when its module gets a file of its own.
ELSEWHERE = {
    "_version.py": "a number, which the tests of the command line print",
    "metrics.py": "the old name of l2x.evaluation",
    "cli/__main__.py": "test_app.py runs `python -m l2x.apps.cli`",
    "cli/options.py": "declarations, which the tests of every command use",
    "cli/reproduce.py": "tests/l2x_experiments/test_commands.py",
    "serve/bodies.py": "tests/serve/test_app.py",
    "serve/gate.py": "tests/serve/test_app.py",
    "serve/refusals.py": "tests/serve/test_app.py",
    "serve/served.py": "tests/serve/test_app.py and test_explaining.py",
    "serve/settings.py": "tests/cli/test_serve.py",
    "export/graph.py": "export/test_file.py",
    "plots/bars.py": "test_figures.py",
    "plots/comparison.py": "tests/test_comparison.py",
    "plots/highlights.py": "test_texts.py",
    "plots/labels.py": "test_figures.py",
    "plots/lines.py": "test_figures.py",
    "plots/notebook.py": "test_tables.py and test_texts.py",
    "plots/sizes.py": "tests/evaluation/test_choose_k.py",
    "plots/style.py": "test_figures.py",
}


def test_every_module_has_a_test_file_or_a_reason() -> None:
    source = ROOT / "src" / "l2x"
    # What packages export is tested in test_public_api.py.
    modules = {path.relative_to(source) for path in source.rglob("*.py") if path.name != "__init__.py"}
    tested = {
        str(module) for module in modules if (ROOT / "tests" / module.parent / f"test_{module.name}").exists()
    }
    assert {str(module) for module in modules} - tested <= set(ELSEWHERE)
    assert not tested & set(ELSEWHERE)
