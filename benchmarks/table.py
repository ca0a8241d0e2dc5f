"""Tables printed row by row while a benchmark runs, and the bars at its end."""

from __future__ import annotations

import math


class Table:
    """Columns of a fixed width. Each row is printed and flushed as soon as it is complete."""

    def __init__(self, *columns, first=22, width=9):
        self.widths = [first] + [max(width, len(c)) for c in columns[1:]]
        self._print(columns)
        print("-" * (sum(self.widths) + len(self.widths) - 1), flush=True)

    def row(self, *cells):
        """Print one row; numbers to three digits, None and NaN as a dash."""
        self._print([_text(c) for c in cells])

    def _print(self, cells):
        padded = [f"{c:<{w}}" if k == 0 else f"{c:>{w}}" for k, (c, w) in enumerate(zip(cells, self.widths, strict=False))]
        print(" ".join(padded), flush=True)


def _text(cell):
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return "-"
    if not isinstance(cell, float):
        return str(cell)
    if cell != 0 and abs(cell) < 1e-6:
        return f"{cell:.1e}"
    digits = max(0, 2 - math.floor(math.log10(abs(cell)))) if cell else 0
    return f"{cell:.{min(digits, 5)}f}"


def bar(what, value, bound, at_least=True, asked=True):
    """One bar of the project: a dict for the JSON. Without a measurement ``passed`` stays None. With ``asked=False`` a miss is no failure."""
    measured = value is not None and not math.isnan(value)
    passed = (value >= bound if at_least else value <= bound) if measured else None
    return {"what": what, "value": value if measured else None, "bound": bound, "at_least": at_least, "passed": passed,
            "asked": asked}


def print_bars(bars):
    """Print each bar with its verdict. True if no bar was missed."""
    print("\nbars")
    for b in bars:
        verdict = {True: "pass", False: "FAIL" if b["asked"] else "(no)", None: "not measured"}[b["passed"]]
        sign = ">=" if b["at_least"] else "<="
        print(f"  {verdict:<12} {b['what']:<86} {_text(b['value']):>8} {sign} {b['bound']}", flush=True)
    return not any(b["passed"] is False and b["asked"] for b in bars)
