"""Can it be trusted? python experiments/honesty.py [--quick] is l2x reproduce honesty [--quick]."""

import sys

from l2x.cli import app

if __name__ == "__main__":
    app(["reproduce", "honesty", *sys.argv[1:]])
