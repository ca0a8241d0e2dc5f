"""Requests for output: .print lines, and those that are passed over (.meas, .four, .step, ...), each kind with one warning.

A request changes no value of the circuit. One that is not understood is therefore named in a warning, and the deck is read.
"""

from __future__ import annotations

import re

from meshsolve.apps.circuit.names import times
from meshsolve.errors import InvalidInputError, MeshsolveWarning
from meshsolve.report import warn

# What others write their tables for, and what a batch run would draw: every node is kept here unless .print names some.
SILENT = {".width", ".title", ".backanno", ".save", ".probe", ".plot", ".graph", ".doc", ".wave", ".export", ".alias"}
FROM_WAVEFORMS = {".four", ".fourier", ".fft", ".meas", ".measure"}
REPEATED = {".step", ".mc", ".wcase", ".sampling", ".sweep"}
KINDS = ("tran", "ac", "dc", "op")
SIGNAL = re.compile(r"(v|i|vm|vp|vr|vi|vdb|im|ip|ir|ii|idb)\s*\(\s*([^(),\s]+)\s*(?:,\s*([^(),\s]+)\s*)?\)")
DIFFERENCE = re.compile(r"v\s*\(\s*([^(),\s]+)\s*\)\s*-\s*v\s*\(\s*([^(),\s]+)\s*\)")
NAMED = 60                  # characters of a request in a warning


class Warnings:
    """Warnings that are given once for each kind: the place of the first line, and how many more there are."""

    def __init__(self):
        self._kinds = {}                # what: [place, count]

    def add(self, what, place):
        """Note one line of a kind."""
        self._kinds.setdefault(what, [place, 0])[1] += 1

    def give(self):
        """Warn of all kinds and forget them."""
        for what, (place, count) in self._kinds.items():
            warn(f"{place}: {what}{times(count)}", MeshsolveWarning)
        self._kinds.clear()


def take(keyword, text, place, prints, warnings):
    """Read one request. The signals of .print lines are added to ``prints``, as {kind: [(function, first, second or None, place)]}, or
    {kind: None} for all."""
    if keyword == ".print":
        _print(text, place, prints, warnings)
    elif keyword in FROM_WAVEFORMS:
        warnings.add(f"{keyword} is passed over: compute from the waveforms what it asks for", place)
    elif keyword in REPEATED:
        warnings.add(f"{keyword} is passed over: the deck is read once, with the values that it gives. "
                     "params= and with_values make others", place)
    elif keyword not in SILENT:
        warnings.add(f"{keyword} is passed over: it is not among the analyses .op, .dc, .ac and .tran", place)


def answered(signals, system):
    """What .print lines name: the names for a table and the signals to keep, or None and None for everything. Warns of what is not there.

    Parameters
    ----------
    signals : list of (function, first, second or None, place)
    system : System
    """
    names, nodes, warnings = [], [], Warnings()
    for function, first, second, place in signals:
        inside = first if second is None else f"{first},{second}"
        try:
            system.unknown(f"{function[0]}({inside})")
        except InvalidInputError as e:
            what = str(e).removeprefix(f"{system.netlist.path}: ")
            warnings.add(f".print: {function}({inside}) is passed over: {what}", place)
            continue
        names.append(f"{function}({inside})")
        nodes.append(f"{function[0]}({inside})")
    warnings.give()
    return (names, nodes) if names else (None, None)


def _print(text, place, prints, warnings):
    rest = text.split(None, 1)[1] if len(text.split(None, 1)) > 1 else ""
    kind = re.match(r"[a-z]*", rest)[0]
    if kind not in KINDS:
        warnings.add(".print is passed over where it does not begin with tran, ac, dc or op", place)
        return
    items = _items(DIFFERENCE.sub(_as_pair, rest[len(kind):]))
    if not items:
        warnings.add(".print is passed over where it does not say what to print", place)
    for item in items:
        signal = _signal(item, kind)
        if signal == "all":
            prints[kind] = None                             # and what other lines name is among it
        elif signal:
            signals = prints.setdefault(kind, [])
            if signals is not None:
                signals.append((*signal, place))
        elif not _is_format(item):
            shown = item if len(item) <= NAMED else item[:NAMED] + "..."
            warnings.add(f".print {kind}: {shown} is passed over: known are v(node), v(node,node), i(source), all and v(*)"
                         f"{', and vm, vp, vr, vi, vdb' if kind == 'ac' else ''}", place)


def _as_pair(match):
    """v(a)-v(b) as v(a,b), unless it is a part of a longer expression."""
    text, start, end = match.string, match.start(), match.end()
    before, after = text[:start].rstrip()[-1:], text[end:].lstrip()[:1]
    alone = before not in set("+-*/({'^") and after not in set("+-*/)}'^")
    return f"v({match[1]},{match[2]})" if alone else match[0]


def _items(text):
    """The parts of a list between blanks and commas, of which those in parentheses, braces and quotes are no ends."""
    items, item, depth, quote = [], "", 0, ""
    for c in re.sub(r"\s*=\s*", "=", re.sub(r"\s+(?=\()", "", text)) + " ":
        quote = "" if c == quote else quote or (c if c in "'\"" else "")
        depth += (c in "({") - (c in ")}") if not quote else 0
        if depth <= 0 and not quote and (c.isspace() or c == ","):
            items.append(item)
            item = ""
        else:
            item += c
    return [i for i in [*items, item.strip()] if i]


def _signal(item, kind):
    """(function, first, second or None) of a request, "all", or None where it is not understood."""
    if item in ("all", "v(*)"):
        return "all"
    match = SIGNAL.fullmatch(item)
    if not match or (match[1] not in ("v", "i") and kind != "ac") or "*" in item:
        return None
    return match[1], match[2], match[3]


def _is_format(item):
    """Whether an item says how a table is written: format=, file=, width=, ..."""
    return re.match(r"[a-z_]+\s*=", item) is not None
