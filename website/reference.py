"""The reference: a page for each package, with every public name of its `__all__`, from the docstrings."""

from __future__ import annotations

import inspect
from importlib import import_module
from pathlib import Path

import l2x

# Package: what its page says first. Names that stand on several pages are described on the first.
PACKAGES = {
    "l2x": "What most programs need.",
    "l2x.evaluation": "How good is an explanation?",
    "l2x.baselines": "Other methods, and controls, behind one verb: `explain(X, k)`.",
    "l2x.learning.objectives": "What a subset of features is worth.",
    "l2x.learning.samplers": "How subsets are drawn in training, and how the gradient comes back.",
    "l2x.datasets": "Data with which explainers are compared.",
    "l2x.errors": "Every error that l2x raises on purpose; each is an `l2x.L2XError`.",
    "l2x.apps.study": "The paper's human evaluation, as a tool.",
}
# Modules without an `__all__` of their own.
PUBLIC = {
    "l2x.learning.objectives": ["Value", "Surrogate", "Model", "Both", "Joint"],
    "l2x.learning.samplers": ["Sampler", "PlackettLuce", "ConcreteMax", "RelaxedTopK", "Reinforce",
                              "SoftAttention", "ExactSum", "Evidence"],
    "l2x.errors": ["L2XError", "InputError", "BlackBoxError", "ArtifactError", "WriteError", "DataError",
                   "StudyError", "TrainingError", "MissingExtraError", "NotFittedError"],
}  # fmt: skip
# Public, but found through what returns or takes them.
MORE = {
    "l2x": {
        "View": "l2x.features._view.View",
    }
}


def public_names(package: str) -> list[str]:
    """What a page of the reference has to describe."""
    names = PUBLIC.get(package) or list(import_module(package).__all__)
    return [name for name in names if f"{package}.{name}" not in PACKAGES and name != "__version__"]


def home(package: str, name: str) -> str:
    """Where a name is defined, as the docstrings' reader finds it."""
    found = getattr(l2x if package == "l2x" else import_module(package), name)
    if inspect.isclass(found) or inspect.isfunction(found):
        return f"{found.__module__}.{found.__qualname__}"
    return f"{package}.{name}"  # a constant


def page(package: str) -> str:
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
    folder = pages / "reference"
    folder.mkdir(exist_ok=True)
    for package in PACKAGES:
        (folder / f"{package.removeprefix('l2x.')}.md").write_text(page(package))
    entries = [f"- [`{name}`]({name.removeprefix('l2x.')}.md): {about}" for name, about in PACKAGES.items()]
    index = (folder / "index.md").read_text()
    (folder / "index.md").write_text(index.replace("<!-- the packages -->", "\n".join(entries)))
