"""The site: pages of docs/, whose Python is run, and pages made from the records and the docstrings."""

from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
