"""The control lines of a deck: .op, .dc, .ac, .tran, .ic, .nodeset, .options, and requests for output."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from meshsolve import _core
from meshsolve.apps.circuit import requests
from meshsolve.apps.circuit.names import similar
from meshsolve.apps.circuit.requests import Warnings
from meshsolve.errors import InvalidInputError, MeshsolveWarning
from meshsolve.report import warn

MOST_POINTS = 10**8         # of a sweep, over frequency or over time
TIMES = 1e-60, 1e60         # seconds; the third powers of steps and what is divided by them are finite
STEPS = 1000                # of a .tran line without a step, from its start to its end
# What .options may also say: about what is printed, about other devices, about how a simulator goes about it.
WITHOUT_EFFECT = {
    "acct", "noacct", "list", "nolist", "node", "nonode", "opts", "noopts", "page", "nopage", "mod", "nomod", "brief",
    "nobrief", "post", "probe", "numdgt", "measdgt", "ingold", "co", "width", "warn", "maxwarns", "limpts", "limtim",
    "cptime", "interp", "savecurrents", "keepopinfo", "seed", "defl", "defw", "defad", "defas", "badmos3", "bypass",
    "trytocompact", "itl2", "itl3", "itl5", "gminsteps", "srcsteps", "noopiter", "pivrel", "pivtol", "klu", "sparse",
    "minbreak", "maxord", "lvlcod", "lvltim", "temp", "tnom", "device", "timeint", "plotwinsize", "noinit"}
# Groups of options of Xyce that say how its own solvers go about it: names mean something else there.
OTHER_GROUPS = {
    "nonlin", "nonlin-tran", "loca", "linsol", "linsol-ac", "linsol-hb", "hbint", "output", "restart", "dist", "fft", "measure", "parser",
    "sampling", "sensitivity", "topology", "diagnostic"}
TRAN_WORDS = {"startup", "steady", "nodiscard", "step"}         # of LTspice
SETTING = re.compile(r"v\s*\(\s*([^(),\s]+)\s*\)\s*=\s*([^\s,()]+)")


@dataclass
class Options:
    """What .options may set; the defaults are SPICE's, but for trtol (7 there)."""

    reltol: float = 1e-3            # relative accuracy of Newton's method and of a time step
    vntol: float = 1e-6             # volt
    abstol: float = 1e-12           # ampere
    gmin: float = 1e-12             # siemens, across each junction
    trtol: float = 1.0              # how many times the tolerance the error of a time step may be
    chgtol: float = 1e-14           # coulomb
    itl1: float = 100               # Newton steps at an operating point
    itl4: float = 20                # Newton steps at a time step
    method: str = "trap"


@dataclass
class Analysis:
    """One analysis of a deck: its kind (op, dc, ac, tran), arguments and what .print asks for."""

    kind: str
    arguments: tuple = ()
    keywords: dict = field(default_factory=dict)
    place: str = ""                 # FILE:LINE


@dataclass
class Deck:
    """Everything that the control lines say."""

    analyses: list
    prints: dict                    # kind: [(function, first, second or None, place), ...], or None: everything
    options: Options
    initial: list                   # (node name, volt, place) of .ic
    guesses: list                   # and of .nodeset
    warnings: Warnings


def parse(controls):
    """The control lines of a netlist, (text, place) pairs, as a :class:`Deck`. Unknown ones are refused by the reader. Warns once for each
    kind of request that is not understood."""
    deck = Deck([], {}, Options(), [], [], Warnings())
    known = {".op": _op, ".dc": _dc, ".ac": _ac, ".tran": _tran, ".ic": _voltages, ".nodeset": _voltages}
    for text, place in controls:
        words = text.replace(",", " ").split()
        keyword = words[0]
        if keyword.startswith(".opt"):
            _options(deck, text, words, place)
        elif keyword in known:
            known[keyword](deck, text, words, place)
        else:
            requests.take(keyword, text, place, deck.prints, deck.warnings)
    deck.warnings.give()
    return deck


def number(word, place, what):
    """A number of the deck with its suffix."""
    value = _core.spice_number(word)
    if value is None:
        raise InvalidInputError(f"{place}: {what} {word!r} is not a number")
    return value


def _numbers(words, place, names, needed):
    given = words[1:]
    if not needed <= len(given) <= len(names):
        raise InvalidInputError(f"{place}: {words[0]} needs {', '.join(names[:needed])}; {len(given)} given")
    return [number(word, place, f"the {name} of {words[0]}") for name, word in zip(names, given)]


def require_points(count, what, place=""):
    """Refuse more points than anybody waits for."""
    if not count <= MOST_POINTS:
        raise InvalidInputError(f"{place and f'{place}: '}{count:.3g} {what}")


def require_times(tstep, tstop, place=""):
    """Refuse times of a transient that are too many, or no times of a circuit."""
    if not TIMES[0] <= tstep <= tstop <= TIMES[1]:
        raise InvalidInputError(f"{place and f'{place}: '}steps of {tstep:g} to {tstop:g} s: times have to lie between "
                                f"{TIMES[0]:g} and {TIMES[1]:g} s")
    require_points(tstop / tstep, "steps from 0 to tstop: a larger tstep is needed", place)


def _op(deck, text, words, place):
    deck.analyses.append(Analysis("op"))


def _dc(deck, text, words, place):
    if len(words) > 5 or words[1:2] in (["dec"], ["oct"], ["list"], ["lin"], ["data"]):
        deck.warnings.add(".dc is passed over where it is no sweep of one source from start to stop in equal steps", place)
        return
    if len(words) != 5:
        raise InvalidInputError(f"{place}: .dc needs a source, start, stop and step")
    start, stop, step = _numbers([words[0], *words[2:]], place, ("start", "stop", "step"), 3)
    if step == 0 or (stop - start) / step < 0:
        raise InvalidInputError(f"{place}: .dc does not come from {start:g} to {stop:g} in steps of {step:g}")
    require_points((stop - start) / step, "points of a sweep: a larger step is needed", place)
    deck.analyses.append(Analysis("dc", (words[1], start, stop, step), place=place))


def _ac(deck, text, words, place):
    if words[1:2] in (["list"], ["data"]):
        deck.warnings.add(f".ac {words[1]} is passed over: dec, oct and lin are supported", place)
        return
    if len(words) != 5 or words[1] not in ("dec", "oct", "lin"):
        raise InvalidInputError(f"{place}: .ac needs dec, oct or lin, a number of points, and the first and the last frequency")
    points, first, last = _numbers([words[0], *words[2:]], place, ("number of points", "first frequency", "last frequency"), 3)
    if points != int(points) or points < 1 or not 0 < first <= last:
        raise InvalidInputError(f"{place}: .ac needs at least one point and frequencies that are positive and ascend")
    require_points(points, "points: fewer are needed", place)
    deck.analyses.append(Analysis("ac", (words[1], int(points), first, last)))


def _tran(deck, text, words, place):
    """Step, end, start and largest step; LTspice leaves the step out or writes 0, and Xyce calls uic noop."""
    uic = "uic" in words or "noop" in words
    for word in TRAN_WORDS.intersection(words):
        deck.warnings.add(f"{word!r} of .tran is passed over: sources have their values from the start", place)
    plain = [w for w in words if w not in TRAN_WORDS | {"uic", "noop"}]
    if len(plain) == 2:
        plain.insert(1, "0")
    step, stop, *rest = _numbers(plain, place, ("step", "end", "start", "largest step"), 2)
    if rest and rest[1:] == [0]:
        del rest[1]                                         # no largest step
    if step < 0 or stop <= 0 or (rest and not 0 <= rest[0] < stop) or (len(rest) > 1 and not rest[1] > 0):
        raise InvalidInputError(f"{place}: .tran needs a step of at least 0, a positive end, and a start before the end")
    step = step or (stop - (rest[0] if rest else 0.0)) / STEPS
    if step > stop:
        raise InvalidInputError(f"{place}: .tran needs an end that is not before its step, {step:g}: the step comes first")
    require_times(min(stop, max([step, *rest[1:]])), stop, place)
    keywords = {"uic": uic} | ({"tstart": rest[0]} if rest else {}) | ({"tmax": rest[1]} if len(rest) > 1 else {})
    deck.analyses.append(Analysis("tran", (step, stop), keywords))


def _voltages(deck, text, words, place):
    rest = text[len(words[0]):]
    unknown = SETTING.sub(" ", rest).replace(",", " ").split()
    if unknown:
        raise InvalidInputError(f"{place}: {words[0]}: {unknown[0]!r} is not v(node)=value")
    into = deck.initial if words[0] == ".ic" else deck.guesses
    into.extend((m[1], number(m[2], place, "the voltage"), place) for m in SETTING.finditer(rest))


def _options(deck, text, words, place):
    words = text.replace(",", " ").replace("(", " ").replace(")", " ").replace("=", " = ").split()[1:]
    if words and words[0] in OTHER_GROUPS:
        deck.warnings.add(f".options {words[0]} is passed over: it is for the solvers of another simulator", place)
        return
    while words:
        name, equals, value = words[0], words[1:2] == ["="], "".join(words[2:3])
        if equals and not value:
            raise InvalidInputError(f"{place}: the option {name!r} has no value")
        _option(deck, name, value if equals else None, place)
        del words[:3 if equals else 1]


def _option(deck, name, value, place):
    """Take one option; ``value`` is None where there is no '='."""
    options = deck.options
    if name in WITHOUT_EFFECT:
        return
    if name not in vars(options):
        known = [*vars(options), "temp", "tnom"]
        close = similar(name, known).removeprefix(": ")
        deck.warnings.add(f"the option {name!r} is passed over: {close or 'supported are ' + ', '.join(known)}", place)
        return
    if value is None:
        raise InvalidInputError(f"{place}: the option {name!r} needs a value: {name}=...")
    if name == "method":
        options.method = _method(value, place)
    else:
        setattr(options, name, _positive(number(value, place, name), name, place))


def _method(value, place):
    if value.startswith("trap"):
        return "trap"
    if not value.startswith(("be", "euler")):
        warn(f"{place}: method={value} is not known here, backward Euler is used", MeshsolveWarning)
    return "be"


def _positive(value, name, place):
    if not value > 0:
        raise InvalidInputError(f"{place}: {name} has to be positive, not {value:g}")
    return value
