"""Names of nodes, elements and parameters: comparison, suggestions of similar names, and counts in messages."""

from __future__ import annotations

import difflib
import string

MOST_COMPARED = 10**5       # largest number of names that are searched for similar ones
LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


def lower(name):
    """The name with A to Z in lower case, as in the reader."""
    return name.translate(LOWER)


def similar(name, known, form="{}"):
    """``: did you mean ...`` with at most three similar names, formatted by ``form``, or ""."""
    if not isinstance(name, str) or len(known) > MOST_COMPARED:
        return ""
    close = [repr(form.format(other)) for other in difflib.get_close_matches(lower(name), known)]
    return f": did you mean {' or '.join(filter(None, (', '.join(close[:-1]), close[-1])))}?" if close else ""


def times(count):
    """`` (and 3 more)`` for a warning on several lines of the deck, or "" for one line."""
    return f" (and {count - 1:,} more)" if count > 1 else ""
