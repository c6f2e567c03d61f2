"""`make playground`: serve the demo's explainers - a table, reviews, digits - on an interactive page."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from images import digit_images, explain_digits
from reviews import explain_reviews
from table import explain_tumours

import l2x
from l2x.apps.serve import Dedicated, create_app, run


def tumours(quick: bool) -> l2x.Explainer:
    return explain_tumours(l2x.TrainingPlan.quick(progress=True) if quick else None)[0]


def reviews(quick: bool) -> l2x.Explainer:
    return (explain_reviews(rows=600, others=200) if quick else explain_reviews()).explainer


def digits(quick: bool) -> l2x.Explainer:
    return explain_digits(*digit_images(small=quick))[0]


# The names of these functions are the names in the service.
EXPLAINERS: tuple[Callable[[bool], l2x.Explainer], ...] = (tumours, reviews, digits)


def fitted(folder: Path, *, quick: bool) -> tuple[list[Path], dict[str, Any]]:
    """Fit the explainers and save them in `folder`; return the files and models.

    Explainers whose data cannot be downloaded are left out.
    """
    folder.mkdir(parents=True, exist_ok=True)
    files, models = [], {}
    for make in EXPLAINERS:
        try:
            explainer = make(quick)
        except l2x.errors.DataError as error:
            print(f"Left out: {error}")
            continue
        files.append(explainer.save(folder / f"{make.__name__}.l2x"))
        models[make.__name__] = explainer.model
    return files, models


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="train for fewer steps, on less data")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--folder", type=Path, default=Path("out/playground"))
    options = parser.parse_args()
    files, models = fitted(options.folder, quick=options.quick)
    run(
        Dedicated(lambda: create_app(files, models)),
        host=options.host,
        port=options.port,
        started=lambda address: print(f"Playground: {address}  (Ctrl-C stops)", flush=True),
    )


if __name__ == "__main__":
    main()
