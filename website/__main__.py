"""`python -m website [FOLDER]` builds the site; `... table | readme | notebooks` refresh generated files."""

import sys
from pathlib import Path

from website import ROOT

if __name__ == "__main__":
    match sys.argv[1:]:
        case ["table"]:
            from website import readme, tables

            tables.refresh()
            readme.refresh_tables()
        case ["readme"]:
            from website import readme

            readme.refresh()
        case ["notebooks"]:
            from website import notebooks

            notebooks.refresh()
        case arguments:
            from website.build import build

            folder = Path(*arguments) if arguments else ROOT / "out" / "website"
            print(f"The site: {build(folder) / 'index.html'}")
