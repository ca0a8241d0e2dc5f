"""Rows and unknowns of a convex program that need no iteration.

A row with one entry is a bound of its unknown. An unknown with neither curvature nor other rows lies at the bound to which b points.
Multipliers of such rows are found again from the gradient.
"""

from __future__ import annotations

import numpy as np

ROUNDING = 1e-15        # distance of crossing bounds, relative to their size, that are equal up to rounding


class Presolve:
    """What the pattern of P and G, csr_arrays without stored zeros, allows.

    Attributes
    ----------
    rows, columns, entries
        Of the rows of G with one entry.
    idle : (n,) bool
        Unknowns with neither curvature nor a row of two entries or more.
    """

    def __init__(self, P, G):
        n = P.shape[0]
        of_entry = np.repeat(np.arange(G.shape[0]), np.diff(G.indptr))
        stored = G.data != 0
        counts = np.bincount(of_entry[stored], minlength=G.shape[0])
        single = stored & (counts[of_entry] == 1)
        self.rows, self.columns, self.entries = of_entry[single], G.indices[single], G.data[single]
        others = G.indices[stored & ~single]
        self.idle = np.bincount(P.indices[P.data != 0], minlength=n) + np.bincount(others, minlength=n) == 0

    def tightened(self, lower, upper):
        """(lower, upper, sources) of (x, G x), where rows with one entry bound x instead; None if they contradict each other.

        ``sources``: for the lower and the upper bounds of x (n,) the row that gives them, -1 for no row.
        """
        n = len(self.idle)
        low, high = lower[n + self.rows] / self.entries, upper[n + self.rows] / self.entries
        low, high = np.where(self.entries > 0, low, high), np.where(self.entries > 0, high, low)
        lower, upper = lower.copy(), upper.copy()
        sources = np.full((2, n), -1)
        for bound, own, source, best in ((lower[:n], low, sources[0], np.maximum), (upper[:n], high, sources[1], np.minimum)):
            before = bound[self.columns]
            best.at(bound, self.columns, own)
            gives = (own == bound[self.columns]) & (own != before)
            source[self.columns[gives]] = self.rows[gives]
        crossing = lower[:n] > upper[:n]
        if (lower[:n] - upper[:n] > ROUNDING * np.maximum(abs(lower[:n]), abs(upper[:n])))[crossing].any():
            return None
        lower[:n][crossing] = upper[:n][crossing]
        lower[n + self.rows], upper[n + self.rows] = -np.inf, np.inf
        return lower, upper, sources

    def placed(self, b, lower, upper):
        """(x (n,) of the idle unknowns, side -1 or 1, first unknown without the bound to which b points or -1)."""
        x = np.where(b > 0, upper, np.where(b < 0, lower, np.clip(0, lower, upper)))
        endless = self.idle & ~np.isfinite(x)
        return x, np.where(self.idle & (b > 0), 1, -1).astype(np.int8), int(endless.argmax()) if endless.any() else -1
