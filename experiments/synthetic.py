"""Section 4.1: python experiments/synthetic.py [--quick] is l2x reproduce synthetic [--quick]."""

import sys

from l2x.cli import app

if __name__ == "__main__":
    app(["reproduce", "synthetic", *sys.argv[1:]])
