"""Names of nodes, elements and parameters: how they are compared, and which are similar; counts in messages."""

from __future__ import annotations

import difflib
import string

MOST_COMPARED = 10**5       # names; among more the similar ones are not looked for
LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


def lower(name):
    """The name as the reader keeps it: letters of ASCII in lower case, all others as they are."""
    return name.translate(LOWER)


def similar(name, known, form="{}"):
    """``: did you mean ...`` where known names are close, three at most, else nothing; ``form`` is how they are written."""
    if not isinstance(name, str) or len(known) > MOST_COMPARED:
        return ""
    close = [repr(form.format(other)) for other in difflib.get_close_matches(lower(name), known)]
    return f": did you mean {' or '.join(filter(None, (', '.join(close[:-1]), close[-1])))}?" if close else ""


def times(count):
    """`` (and 3 more)`` for the end of a warning that stands for several lines."""
    return f" (and {count - 1:,} more)" if count > 1 else ""
