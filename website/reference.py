"""The reference: a page for each package, with every public name of its `__all__`, from the docstrings."""

from __future__ import annotations

import inspect
from importlib import import_module
from pathlib import Path

import l2x

# The first sentence of each page. A name that belongs to several packages is described on the first page.
PACKAGES = {
    "l2x": "The names that most programs need.",
    "l2x.evaluation": "How good is an explanation?",
    "l2x.baselines": "Other methods, and controls, with the same method `explain(X, k)`.",
    "l2x.learning.objectives": "Objectives: what training maximises.",
    "l2x.learning.samplers": "Samplers: how training draws subsets of features, and their gradients.",
    "l2x.datasets": "Data sets for comparing explainers.",
    "l2x.errors": "The errors that l2x raises; each is an `l2x.L2XError`.",
    "l2x.testing": "Tests that extensions of the library must pass.",
    "l2x.apps.study": "The paper's human evaluation, as a tool.",
}
# Modules without an `__all__`.
PUBLIC = {
    "l2x.learning.objectives": ["Objective", "Surrogate", "Model", "Both", "Joint"],
    "l2x.learning.samplers": ["Sampler", "PlackettLuce", "ConcreteMax", "RelaxedTopK", "Reinforce",
                              "SoftAttention", "ExactSum", "Evidence"],
    "l2x.errors": ["L2XError", "InputError", "BlackBoxError", "ArtifactError", "WriteError", "DataError",
                   "StudyError", "TrainingError", "MissingExtraError", "NotFittedError"],
}  # fmt: skip
# Public classes that users meet only as arguments or results of others.
MORE = {
    "l2x": {
        "View": "l2x.features._view.View",
    }
}


def public_names(package: str) -> list[str]:
    """Return the names that a page describes."""
    names = PUBLIC.get(package) or list(import_module(package).__all__)
    return [name for name in names if f"{package}.{name}" not in PACKAGES and name != "__version__"]


def home(package: str, name: str) -> str:
    """Return the full name under which mkdocstrings finds a public name."""
    member = getattr(l2x if package == "l2x" else import_module(package), name)
    if inspect.isclass(member) or inspect.isfunction(member):
        return f"{member.__module__}.{member.__qualname__}"
    return f"{package}.{name}"  # a constant


def page(package: str) -> str:
    """Return the page of a package as Markdown."""
    lines = [f"# {package}", PACKAGES[package]]
    shared = set() if package == "l2x" else {home("l2x", name) for name in public_names("l2x")}
    places = {name: home(package, name) for name in public_names(package)} | MORE.get(package, {})
    for name in sorted(places, key=str.lower):
        if places[name] in shared:
            lines.append(f"## `{name}`\n\nThe same as [`l2x.{name}`](l2x.md#{places[name]}).")
        else:
            lines.append(f"::: {places[name]}")
    return "\n\n".join(lines) + "\n"


def write(pages: Path) -> None:
    """Write the pages and their table of contents."""
    folder = pages / "reference"
    folder.mkdir(exist_ok=True)
    for package in PACKAGES:
        (folder / f"{package.removeprefix('l2x.')}.md").write_text(page(package))
    entries = [f"- [`{name}`]({name.removeprefix('l2x.')}.md): {about}" for name, about in PACKAGES.items()]
    index = (folder / "index.md").read_text()
    (folder / "index.md").write_text(index.replace("<!-- the packages -->", "\n".join(entries)))
