"""`python -m website [FOLDER]` builds the site; `... table | readme | notebooks` refresh what is kept."""

import sys
from pathlib import Path

from website import ROOT
from website.build import build

if __name__ == "__main__":
    match sys.argv[1:]:
        case ["table"]:
            from website import tables
            from website.readme import refresh_table

            refresh_table()
            tables.refresh()
        case ["readme"]:
            from website.readme import refresh

            refresh()
        case ["notebooks"]:
            from website.notebooks import refresh as refresh_notebooks

            refresh_notebooks()
        case arguments:
            folder = Path(*arguments) if arguments else ROOT / "out" / "website"
            print(f"The site: {build(folder) / 'index.html'}")
