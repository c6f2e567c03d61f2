"""Section 4.3, into results/: python experiments/mnist.py [--quick]. The work is in l2x.experiments.mnist."""

from __future__ import annotations

import argparse
from pathlib import Path

from l2x.experiments import mnist, mnist_report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a few minutes, far from the best figures")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=1, help="problems at a time")
    parser.add_argument("--threads", type=int, default=1, help="torch threads of each")
    parser.add_argument("--folder", type=Path, default=Path("results"))
    given = parser.parse_args()
    records = mnist.run(
        given.folder / "mnist.json",
        quick=given.quick,
        seeds=given.seeds,
        jobs=given.jobs,
        threads=given.threads,
    )
    print(mnist_report.write(records, given.folder))


if __name__ == "__main__":
    main()
