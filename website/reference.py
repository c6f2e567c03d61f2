"""The reference: a page for each package, with every public name of its `__all__`, from the docstrings."""

from __future__ import annotations

import inspect
from importlib import import_module
from pathlib import Path

import l2x

# The first sentence of each page. A name that belongs to several packages is described on one page: views in
# `l2x.features`, all others on the first.
PACKAGES = {
    "l2x": "The names that most programs need.",
    "l2x.features": "Feature views: what one feature is, and how unselected features are masked.",
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
    "l2x.features": ["Columns", "ColumnGroups", "Words", "Sentences", "Passages", "Patches", "Superpixels",
                     "ImageFiles", "View"],
    "l2x.learning.objectives": ["Objective", "Surrogate", "Model", "Both", "Joint"],
    "l2x.learning.samplers": ["Sampler", "PlackettLuce", "ConcreteMax", "RelaxedTopK", "Reinforce",
                              "SoftAttention", "ExactSum", "Evidence", "Shapley"],
    "l2x.errors": ["L2XError", "InputError", "BlackBoxError", "ArtifactError", "WriteError", "DataError",
                   "StudyError", "TrainingError", "MissingExtraError", "NotFittedError"],
}  # fmt: skip
# These come first on their pages; the others follow in alphabetical order.
FIRST = ("Explainer", "Explanation")


def public_names(package: str) -> list[str]:
    """Return the names that a page describes."""
    module = import_module(package)
    names = PUBLIC.get(package) or list(module.__all__)
    return [name for name in names if name != "__version__" and not inspect.ismodule(getattr(module, name))]


def file_of(package: str) -> str:
    """Return the file of a package's page."""
    return f"{package.removeprefix('l2x.').removeprefix('learning.').removeprefix('apps.')}.md"


def home(package: str, name: str) -> str:
    """Return the full name under which mkdocstrings finds a public name."""
    member = getattr(l2x if package == "l2x" else import_module(package), name)
    if inspect.isclass(member) or inspect.isfunction(member):
        return f"{member.__module__}.{member.__qualname__}"
    return f"{package}.{name}"  # a constant


def page(package: str) -> str:
    """Return the page of a package as Markdown."""
    lines = [f"# {package.replace('.learning.', '.')}", PACKAGES[package]]
    for name in sorted(public_names(package), key=lambda name: (name not in FIRST, name.lower())):
        described = described_in(package, name)
        if described != package:
            link = f"{file_of(described)}#{home(package, name)}"
            lines.append(f"## `{name}`\n\nThe same as [`{described}.{name}`]({link}).")
        else:
            lines.append(f"::: {home(package, name)}")
    return "\n\n".join(lines) + "\n"


def described_in(package: str, name: str) -> str:
    """Return the package on whose page a public name is described."""
    place = home(package, name)
    for other in ("l2x.features", "l2x"):
        if place in {home(other, each) for each in public_names(other)}:
            return other
    return package


def write(pages: Path) -> None:
    """Write the pages and their table of contents."""
    folder = pages / "reference"
    folder.mkdir(exist_ok=True)
    for package in PACKAGES:
        (folder / file_of(package)).write_text(page(package))
    entries = [
        f"| [`{name.replace('.learning.', '.')}`]({file_of(name)}) | {about} |"
        for name, about in PACKAGES.items()
    ]
    index = (folder / "index.md").read_text()
    (folder / "index.md").write_text(index.replace("<!-- the packages -->", "\n".join(entries)))
