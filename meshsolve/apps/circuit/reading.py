"""Circuits from decks: files and texts."""

from __future__ import annotations

from collections.abc import Mapping

from meshsolve.apps.circuit.analysis import Circuit
from meshsolve.apps.circuit.netlist import parse_netlist, read_netlist
from meshsolve.report import Report
from meshsolve.types import Path


def read(path: Path, params: Mapping[str, float] | None = None) -> Circuit:
    """Read a SPICE deck of linear elements and diodes.

    Parameters
    ----------
    path : str or path
        Also packed with gzip. Elements R, C, L, V, I, D, linear E, F, G, H, B, and X; waveforms PULSE, SIN, EXP, PWL; .subckt,
        .param, .func, .model of D, R, C and L, .include, .lib, .global, .ic, .nodeset, .temp, .options, .print and the analyses
        .op, .dc, .ac, .tran. There are no transistors, switches, transformers and transmission lines. Names ignore the case of
        A to Z.
    params : mapping of str to float, optional
        Values that the deck's parameters get instead of those of its .param lines. Parameters of subcircuits keep theirs, also where
        they have the same name.

    Returns
    -------
    Circuit

    Raises
    ------
    InvalidInputError
        The message begins with ``FILE:LINE:`` and says what is wrong there; kinds of elements and control lines that are not
        supported are all named at once. Or ``params`` has the name of no parameter, or a value that is no finite number.

    Warns
    -----
    MeshsolveWarning
        The first line, a title in SPICE, reads as an element (it is taken as one) or a control line; ``.end`` is missing; a request
        for output, an option or a .control block is passed over. One warning for each kind, with the number of lines.

    See Also
    --------
    parse : a deck that is given as text

    Notes
    -----
    O(bytes): about a second for a million elements. A resistor of 0 ohm is taken as a source of 0 V.
    Source: Quarles, Newton, Pederson, Sangiovanni-Vincentelli, "SPICE3 Version 3f3 User's Manual" (1993).
    """
    return _circuit(read_netlist, path, params)


def parse(text: str, params: Mapping[str, float] | None = None) -> Circuit:
    """Read a SPICE deck that is given as text, as :func:`read` reads a file.

    Parameters
    ----------
    text : str
        The lines of the deck; the first one is its title. Files that it includes are looked for in the working directory.
    params : mapping of str to float, optional
        As in :func:`read`.

    Returns
    -------
    Circuit

    Raises
    ------
    InvalidInputError
        As in :func:`read`; ``<text>`` stands for the file.

    Warns
    -----
    MeshsolveWarning
        As in :func:`read`.

    Examples
    --------
    >>> from meshsolve.apps import circuit
    >>> divider = circuit.parse("* a divider\\nV1 a 0 {u}\\nR1 a b 1k\\nR2 b 0 1k\\n.param u=1\\n.end\\n", {"u": 3})
    >>> round(divider.op()["b"], 9)
    1.5
    """
    return _circuit(parse_netlist, text, params)


def _circuit(reader, deck, params):
    report = Report()
    with report.phase("read"):
        netlist = reader(deck, params)
    return Circuit(netlist, report)
