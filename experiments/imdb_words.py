"""Section 4.2: python experiments/imdb_words.py [--quick] is l2x reproduce imdb-words [--quick]."""

import sys

from l2x.cli import app

if __name__ == "__main__":
    app(["reproduce", "imdb-words", *sys.argv[1:]])
