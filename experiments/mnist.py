"""Section 4.3: python experiments/mnist.py [--quick] is l2x reproduce mnist [--quick]."""

import sys

from l2x.cli import app

if __name__ == "__main__":
    app(["reproduce", "mnist", *sys.argv[1:]])
