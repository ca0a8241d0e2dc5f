"""Requests for output: .print lines, and lines that are ignored with one warning for each kind (.meas, .four, .step, ...).

A request changes no value of the circuit. An unsupported one is therefore a warning, not an error.
"""

from __future__ import annotations

import re

from meshsolve.apps.circuit.names import times
from meshsolve.errors import InvalidInputError, MeshsolveWarning
from meshsolve.report import warn

# Ignored without a warning: tables and plots of other simulators. Every node is kept unless .print selects some.
SILENT = {".width", ".title", ".backanno", ".save", ".probe", ".plot", ".graph", ".doc", ".wave", ".export", ".alias"}
FROM_WAVEFORMS = {".four", ".fourier", ".fft", ".meas", ".measure"}
REPEATED = {".step", ".mc", ".wcase", ".sampling", ".sweep"}
STEPPED = re.compile(r"\.step\s+(?:(?:oct|dec|lin)\s+)?param\s+([^\s=,()]+)")
KINDS = ("tran", "ac", "dc", "op")
SIGNAL = re.compile(r"(v|i|vm|vp|vr|vi|vdb|im|ip|ir|ii|idb)\s*\(\s*([^(),\s]+)\s*(?:,\s*([^(),\s]+)\s*)?\)")
DIFFERENCE = re.compile(r"v\s*\(\s*([^(),\s]+)\s*\)\s*-\s*v\s*\(\s*([^(),\s]+)\s*\)")
SHOWN = 60                  # most characters of a request in a warning


class Warnings:
    """One warning for each kind, with the location of its first line and the number of further lines."""

    def __init__(self):
        self._kinds = {}                # message: [place, count]

    def add(self, what, place):
        """Record one line of a kind."""
        self._kinds.setdefault(what, [place, 0])[1] += 1

    def give(self):
        """Issue the warnings and clear them."""
        for what, (place, count) in self._kinds.items():
            warn(f"{place}: {what}{times(count)}", MeshsolveWarning)
        self._kinds.clear()


def add(keyword, text, place, prints, warnings):
    """Read one request. Signals of .print lines are added to ``prints``: {kind: [(function, first, second or None, place)]}, or
    {kind: None} for all signals."""
    if keyword == ".print":
        _print(text, place, prints, warnings)
    elif keyword in FROM_WAVEFORMS:
        warnings.add(f"{keyword} is passed over, so none of its values is printed: compute them from the waveforms", place)
    elif keyword == ".step" and (swept := STEPPED.match(text)):
        warnings.add(f".step is not run: there is one run, in which {swept[1]} has the value of its .param line, or else the first one "
                     f"of .step. Use params={{{swept[1]!r}: ...}} of read and parse for each of the others", place)
    elif keyword in REPEATED:
        warnings.add(f"{keyword} is not run: there is one run, with the deck's own values. Use params= or with_values for others", place)
    elif keyword not in SILENT:
        warnings.add(f"{keyword} is passed over: supported analyses are .op, .dc, .ac and .tran", place)


def warn_of_others(path, kinds, kind, requested):
    """Warn of the analyses of a deck that one run leaves out, except .op, and unless the caller has requested one of several kinds.

    Parameters
    ----------
    path : str
    kinds : list of str
        Of the analyses, in the order of the deck.
    kind : str
        Of the analysis that is run, the first one of this kind.
    requested : bool
    """
    others = [f".{k}" for j, k in enumerate(kinds) if k != "op" and (k != kind or j > kinds.index(k))]
    if requested:
        others = [k for k in others if k == f".{kind}"]
    if others:
        counted = ", ".join(f"{others.count(k)} {k} lines" if others.count(k) > 1 else k for k in dict.fromkeys(others))
        warn(f"{path}: one analysis is run, the first .{kind} line. Not run: {counted}. Choose another kind by run('ac') or "
             "--analysis ac, or call the methods of Circuit", MeshsolveWarning)


def resolve(signals, system):
    """Signals of .print lines: names for a table and signals to keep, or None and None for all. Warns of unknown signals.

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
            warnings.add(f"{function}({inside}) of .print is ignored: {what}", place)
            continue
        names.append(f"{function}({inside})")
        nodes.append(f"{function[0]}({inside})")
    warnings.give()
    return (names, nodes) if names else (None, None)


def _print(text, place, prints, warnings):
    rest = text.split(None, 1)[1] if len(text.split(None, 1)) > 1 else ""
    kind = re.match(r"[a-z]*", rest)[0]
    if kind not in KINDS:
        warnings.add(".print is ignored: its first word must be tran, ac, dc or op", place)
        return
    items = _items(DIFFERENCE.sub(_as_pair, rest[len(kind):]))
    if not items:
        warnings.add(".print is ignored: it has no signal", place)
    for item in items:
        signal = _signal(item, kind)
        if signal == "all":
            prints[kind] = None                             # includes the signals of other lines
        elif signal:
            signals = prints.setdefault(kind, [])
            if signals is not None:
                signals.append((*signal, place))
        elif not _is_format(item):
            shown = item if len(item) <= SHOWN else item[:SHOWN] + "..."
            warnings.add(f"{shown} of .print {kind} is ignored: supported are v(node), v(node,node), i(source), all and v(*)"
                         f"{', and vm, vp, vr, vi, vdb' if kind == 'ac' else ''}", place)


def _as_pair(match):
    """Rewrite v(a)-v(b) as v(a,b), unless it is part of a longer expression."""
    text, start, end = match.string, match.start(), match.end()
    before, after = text[:start].rstrip()[-1:], text[end:].lstrip()[:1]
    alone = before not in set("+-*/({'^") and after not in set("+-*/)}'^")
    return f"v({match[1]},{match[2]})" if alone else match[0]


def _items(text):
    """Split a list at blanks and commas outside of parentheses, braces and quotes."""
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
    """(function, first, second or None) of a request, "all", or None if it is not supported."""
    if item in ("all", "v(*)"):
        return "all"
    match = SIGNAL.fullmatch(item)
    if not match or (match[1] not in ("v", "i") and kind != "ac") or "*" in item:
        return None
    return match[1], match[2], match[3]


def _is_format(item):
    """True for an item on the format of a table: format=, file=, width=, ..."""
    return re.match(r"[a-z_]+\s*=", item) is not None
