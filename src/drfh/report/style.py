"""Colours, dashes and font of pages and charts; stylesheets made of them."""

from functools import cache
from importlib.resources import files
from string import Template

__all__ = ["DARK", "DASHES", "FONT", "LIGHT", "PALETTE", "stylesheet"]

FONT = "system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif"

#: Eight colours that stay apart in every common kind of colour vision, on white and on black: the
#: two nearest are 17 apart in CIELAB for whoever lacks one kind of cone (a test measures it).
PALETTE = (
    "#2d7dc4", "#e07b00", "#5f7d4a", "#b23cf5", "#a65b83", "#a6a15b", "#bf3300", "#00add9",
)  # fmt: skip

#: Lines differ in their dashes too, so that no line is known by its colour alone.
DASHES = ((1, 0), (7, 3), (2, 2), (10, 3, 2, 3), (5, 5), (1, 3), (12, 4), (3, 2, 8, 2))

#: Colours of text, paper and lines by name, for pages that are light and for those that are dark.
LIGHT = """--ink: #1c2330; --soft: #5a6475; --paper: #ffffff; --line: #d9dee7; --bar: #4c78a8;
        --bad: #b3261e; --good: #1b7f3b; --yes: #1766a8; --partly: #8a5a00;"""
DARK = """--ink: #e6e9ef; --soft: #9aa4b5; --paper: #14181f; --line: #2c3440; --bar: #72a6d8;
          --bad: #ff8f86; --good: #7bd88f; --yes: #7db8ee; --partly: #f0b44c;"""


@cache
def stylesheet(package: str, name: str) -> str:
    """Return a file of a package's ``assets`` with ``$light``, ``$dark`` and ``$font`` filled in.

    Examples
    --------
    >>> stylesheet("drfh.report", "page.css")[:40]
    ':root { color-scheme: light dark; --ink:'
    """
    text = files(package).joinpath("assets", name).read_text(encoding="utf-8")
    return Template(text).substitute(light=LIGHT, dark=DARK, font=FONT)
