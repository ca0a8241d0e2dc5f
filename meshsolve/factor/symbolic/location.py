"""The place in which a matrix is ordered and analyzed: on the GPU only if the matrix is large enough, and is factored on the GPU."""

from __future__ import annotations

from typing import NamedTuple

from meshsolve.options import counted
from meshsolve.sparse.places import HOST, Host

ON_HOST_BELOW = 60_000          # rows: on an H200 with 16 cores, ordering 17,000 takes 21 ms, on the host 6


class Location(NamedTuple):
    """The place of an analysis, and the reason for a factor on the GPU; None for one on the host."""

    place: Host
    reason: str | None

    @property
    def facts(self):
        """What a report says about it."""
        return {"analysis_device": self.place.name} | ({"analysis_reason": self.reason} if self.reason else {})


def location_of_analysis(n, place):
    """Return the :class:`Location` of the analysis of a matrix of ``n`` rows that is factored in ``place``."""
    if place is HOST:
        return ON_HOST
    if n < ON_HOST_BELOW:
        return Location(HOST, "fewer than " + counted(ON_HOST_BELOW, "row"))
    return Location(place, "at least " + counted(ON_HOST_BELOW, "row"))


ON_HOST = Location(HOST, None)
