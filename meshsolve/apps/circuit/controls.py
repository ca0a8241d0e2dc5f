"""The control lines of a deck: .op, .dc, .ac, .tran, .ic, .nodeset, .options, and requests for output."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import numpy as np

from meshsolve import _core
from meshsolve.apps.circuit import requests
from meshsolve.apps.circuit.names import similar
from meshsolve.apps.circuit.requests import Warnings
from meshsolve.errors import InvalidInputError, MeshsolveWarning
from meshsolve.options import as_integer, as_number, one_of
from meshsolve.report import warn

MOST_POINTS = 10**8         # largest number of points of a sweep, over frequency or over time
TIMES = 1e-60, 1e60         # seconds: range of tstep and tstop in which the cube of a step and its inverse are finite
STEPS = 1000                # steps of a .tran line without a step, from its start to its end
# Options without effect here: on printing, on other devices, on the solvers of a simulator.
WITHOUT_EFFECT = {
    "acct", "noacct", "list", "nolist", "node", "nonode", "opts", "noopts", "page", "nopage", "mod", "nomod", "brief",
    "nobrief", "post", "probe", "numdgt", "measdgt", "ingold", "co", "width", "warn", "maxwarns", "limpts", "limtim",
    "cptime", "interp", "savecurrents", "keepopinfo", "seed", "defl", "defw", "defad", "defas", "badmos3", "bypass",
    "trytocompact", "itl2", "itl3", "itl5", "gminsteps", "srcsteps", "noopiter", "pivrel", "pivtol", "klu", "sparse",
    "minbreak", "maxord", "lvlcod", "lvltim", "temp", "tnom", "device", "timeint", "plotwinsize", "noinit"}
# Groups of options for the solvers of Xyce: inside them names have other meanings.
OTHER_GROUPS = {
    "nonlin", "nonlin-tran", "loca", "linsol", "linsol-ac", "linsol-hb", "hbint", "output", "restart", "dist", "fft", "measure", "parser",
    "sampling", "sensitivity", "topology", "diagnostic"}
TRAN_WORDS = {"startup", "steady", "nodiscard", "step"}         # of LTspice
SETTING = re.compile(r"v\s*\(\s*([^(),\s]+)\s*\)\s*=\s*([^\s,()]+)")


@dataclass
class Options:
    """Values of .options. The defaults are those of SPICE, except trtol, which is 7 in SPICE."""

    reltol: float = 1e-3            # relative tolerance of Newton's method and of a time step
    vntol: float = 1e-6             # volt: absolute tolerance of voltages
    abstol: float = 1e-12           # ampere: absolute tolerance of currents
    gmin: float = 1e-12             # siemens across each junction
    trtol: float = 1.0              # largest error of a time step, in tolerances
    chgtol: float = 1e-14           # coulomb: absolute tolerance of charges
    itl1: float = 100               # most Newton steps at an operating point
    itl4: float = 20                # most Newton steps in a time step
    method: str = "trap"


@dataclass
class Analysis:
    """One analysis of a deck: its kind (op, dc, ac, tran) and the arguments of the method of Circuit."""

    kind: str
    arguments: tuple = ()
    keywords: dict = field(default_factory=dict)
    place: str = ""                 # FILE:LINE


@dataclass
class Deck:
    """Content of the control lines."""

    analyses: list
    prints: dict                    # kind: [(function, first, second or None, place), ...], or None for all signals
    options: Options
    initial: list                   # (node name, volt, place) of .ic
    guesses: list                   # (node name, volt, place) of .nodeset
    warnings: Warnings


def parse(controls):
    """Parse the control lines of a netlist, (text, place) pairs, into a :class:`Deck`.

    The reader has already rejected unknown lines. One warning covers all ignored requests of a kind.
    """
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
            requests.add(keyword, text, place, deck.prints, deck.warnings)
    deck.warnings.give()
    return deck


def number(word, place, what):
    """Value of a number with an engineering suffix."""
    value = _core.spice_number(word)
    if value is None:
        raise InvalidInputError(f"{place}: {what} {word!r} is not a number")
    return value


def require_points(count, remedy, place=""):
    """Reject more than MOST_POINTS points."""
    if not count <= MOST_POINTS:
        raise InvalidInputError(f"{place and f'{place}: '}{count:.3g} points are more than {MOST_POINTS:.0e}: {remedy}")


def require_sweep(start, stop, step, place=""):
    """Reject a sweep without an end or with too many points."""
    if step == 0 or (stop - start) / step < 0:
        raise InvalidInputError(f"{place and f'{place}: '}a step of {step:g} does not lead from {start:g} to {stop:g}: change it")
    require_points((stop - start) / step, "increase the step", place)


def require_times(tstep, tstop, place=""):
    """Reject too many time steps, and times out of range."""
    if not TIMES[0] <= tstep <= tstop <= TIMES[1]:
        raise InvalidInputError(f"{place and f'{place}: '}tstep = {tstep:g} and tstop = {tstop:g} must lie between {TIMES[0]:g} "
                                f"and {TIMES[1]:g} s, tstep first")
    require_points(tstop / tstep, "increase tstep", place)


def frequencies(spacing, points, fstart, fstop):
    """(points,) frequencies of small signals in hertz, ascending."""
    one_of(spacing, "spacing", ("dec", "oct", "lin"))
    points = as_integer(points, "points")
    fstart, fstop = as_number(fstart, "fstart", above=True), as_number(fstop, "fstop", above=True)
    if fstart > fstop:
        raise InvalidInputError(f"fstop must be at least fstart = {fstart:g}, got {fstop:g}")
    require_points(points, "decrease points")
    if spacing == "lin":
        return np.linspace(fstart, fstop, points)
    base = 10.0 if spacing == "dec" else 2.0
    steps = (np.log(fstop / fstart) if fstop / fstart < np.inf else np.log(fstop) - np.log(fstart)) / np.log(base) * points
    require_points(steps, "decrease points")
    exponents = np.arange(int(steps + 1e-9) + 1) / points
    half = base ** (exponents / 2)                # the whole power may overflow where fstart is tiny
    return fstart * base ** exponents if exponents[-1] * np.log10(base) < 300 else fstart * half * half


def _op(deck, text, words, place):
    deck.analyses.append(Analysis("op"))


def _dc(deck, text, words, place):
    if len(words) > 5 or words[1:2] in (["dec"], ["oct"], ["list"], ["lin"], ["data"]):
        deck.warnings.add(".dc is ignored: only a sweep of one source from start to stop in equal steps is supported", place)
        return
    if len(words) != 5:
        raise InvalidInputError(f"{place}: .dc needs a source, start, stop and step")
    start, stop, step = _numbers([words[0], *words[2:]], place, ("start", "stop", "step"), 3)
    require_sweep(start, stop, step, place)
    deck.analyses.append(Analysis("dc", (words[1], start, stop, step), place=place))


def _numbers(words, place, names, needed):
    given = words[1:]
    if not needed <= len(given) <= len(names):
        raise InvalidInputError(f"{place}: {words[0]} needs {', '.join(names[:needed])}, got {len(given)} numbers")
    return [number(word, place, f"the {name} of {words[0]}") for name, word in zip(names, given)]


def _ac(deck, text, words, place):
    if words[1:2] in (["list"], ["data"]):
        deck.warnings.add(f".ac {words[1]} is ignored: dec, oct and lin are supported", place)
        return
    if len(words) != 5 or words[1] not in ("dec", "oct", "lin"):
        raise InvalidInputError(f"{place}: .ac needs dec, oct or lin, then number of points, first frequency, last frequency")
    points, first, last = _numbers([words[0], *words[2:]], place, ("number of points", "first frequency", "last frequency"), 3)
    if points != int(points) or points < 1 or not 0 < first <= last:
        raise InvalidInputError(f"{place}: .ac needs at least one point and positive ascending frequencies, got {points:g} points "
                                f"from {first:g} to {last:g} Hz")
    require_points(points, "decrease the number of points", place)
    deck.analyses.append(Analysis("ac", (words[1], int(points), first, last)))


def _tran(deck, text, words, place):
    """Step, end, start and largest step. LTspice omits the step or writes 0, and in Xyce uic is noop."""
    uic = "uic" in words or "noop" in words
    for word in TRAN_WORDS.intersection(words):
        deck.warnings.add(f"{word!r} of .tran is ignored: sources have their values from time 0 on", place)
    plain = [w for w in words if w not in TRAN_WORDS | {"uic", "noop"}]
    if len(plain) == 2:
        plain.insert(1, "0")
    step, stop, *rest = _numbers(plain, place, ("step", "end", "start", "largest step"), 2)
    if rest and rest[1:] == [0]:
        del rest[1]                                         # no largest step
    if step < 0 or stop <= 0 or (rest and not 0 <= rest[0] < stop) or (len(rest) > 1 and not rest[1] > 0):
        raise InvalidInputError(f"{place}: .tran needs a step of at least 0, a positive end, a start between 0 and the end, and a "
                                f"positive largest step, got {' '.join(plain[1:])}")
    step = step or (stop - (rest[0] if rest else 0.0)) / STEPS
    if step > stop:
        raise InvalidInputError(f"{place}: the step of .tran must be at most its end {stop:g}, got {step:g}: the step comes first")
    require_times(min(stop, max([step, *rest[1:]])), stop, place)
    keywords = {"uic": uic} | ({"tstart": rest[0]} if rest else {}) | ({"tmax": rest[1]} if len(rest) > 1 else {})
    deck.analyses.append(Analysis("tran", (step, stop), keywords))


def _voltages(deck, text, words, place):
    rest = text[len(words[0]):]
    unknown = SETTING.sub(" ", rest).replace(",", " ").split()
    if unknown:
        raise InvalidInputError(f"{place}: {unknown[0]!r} of {words[0]} does not have the form v(node)=value")
    into = deck.initial if words[0] == ".ic" else deck.guesses
    into.extend((m[1], number(m[2], place, "the voltage"), place) for m in SETTING.finditer(rest))


def _options(deck, text, words, place):
    words = text.replace(",", " ").replace("(", " ").replace(")", " ").replace("=", " = ").split()[1:]
    if words and words[0] in OTHER_GROUPS:
        deck.warnings.add(f".options {words[0]} is ignored: it is for the solvers of another simulator", place)
        return
    while words:
        name, equals, value = words[0], words[1:2] == ["="], "".join(words[2:3])
        if equals and not value:
            raise InvalidInputError(f"{place}: the option {name!r} has no value")
        _option(deck, name, value if equals else None, place)
        del words[:3 if equals else 1]


def _option(deck, name, value, place):
    """Set one option. Without '=' its ``value`` must be None."""
    options = deck.options
    if name in WITHOUT_EFFECT:
        return
    if name not in vars(options):
        known = [*vars(options), "temp", "tnom"]
        close = similar(name, known).removeprefix(": ")
        deck.warnings.add(f"the option {name!r} is ignored: {close or 'supported are ' + ', '.join(known)}", place)
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
        warn(f"{place}: method={value} is not supported, backward Euler is used: choose trap or be", MeshsolveWarning)
    return "be"


def _positive(value, name, place):
    if not value > 0:
        raise InvalidInputError(f"{place}: {name} must be positive, got {value:g}")
    return value
