"""A table as people have it: python experiments/adult.py [--quick] is l2x reproduce adult [--quick]."""

import sys

from l2x.cli import app

if __name__ == "__main__":
    app(["reproduce", "adult", *sys.argv[1:]])
