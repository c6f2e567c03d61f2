"""Figures, tables and HTML: one renderer for notebook, report, service and study."""

from l2x.display._card import card_page, card_table, plot_card
from l2x.display._comparison import plot_comparison
from l2x.display._highlights import JOINT, Piece, pieces, shown_text
from l2x.display._html import explained_html, image_uri, patch_rectangles
from l2x.display._images import plain, plot_images, png
from l2x.display._interop import arrow_columns, attribution, shap_explanation
from l2x.display._labels import cell_text, count, percent, with_value
from l2x.display._lines import plot_lines
from l2x.display._pages import SECURITY_HEADERS, STATIC, environment
from l2x.display._pictures import html_of, picture_of
from l2x.display._report import SafeHtml, Section, render_report, write_report
from l2x.display._sizes import plot_sizes
from l2x.display._style import (
    ACCENT,
    GRID,
    INK,
    MUTED,
    SECOND,
    SOFT,
    THIRD,
    label_rows,
    new_figure,
    new_grid,
    note,
    save_figure,
    style,
    write_file,
)
from l2x.display._summary import plot_summary
from l2x.display._tables import explanation_text
from l2x.display._texts import verdict_table

__all__ = [
    "ACCENT",
    "GRID",
    "INK",
    "JOINT",
    "MUTED",
    "SECOND",
    "SECURITY_HEADERS",
    "SOFT",
    "STATIC",
    "THIRD",
    "Piece",
    "SafeHtml",
    "Section",
    "arrow_columns",
    "attribution",
    "card_page",
    "card_table",
    "cell_text",
    "count",
    "environment",
    "explained_html",
    "explanation_text",
    "html_of",
    "image_uri",
    "label_rows",
    "new_figure",
    "new_grid",
    "note",
    "patch_rectangles",
    "percent",
    "picture_of",
    "pieces",
    "plain",
    "plot_card",
    "plot_comparison",
    "plot_images",
    "plot_lines",
    "plot_sizes",
    "plot_summary",
    "png",
    "render_report",
    "save_figure",
    "shap_explanation",
    "shown_text",
    "style",
    "verdict_table",
    "with_value",
    "write_file",
    "write_report",
]
