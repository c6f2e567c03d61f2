"""Section 4.2: python experiments/imdb_sentences.py [--quick] is l2x reproduce imdb-sentences [--quick]."""

import sys

from l2x.cli import app

if __name__ == "__main__":
    app(["reproduce", "imdb-sentences", *sys.argv[1:]])
