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
        The deck, which may be packed with gzip. Names ignore the case of A to Z. Supported are

        - elements: R, C, L, V, I, D, X, and linear E, F, G, H, B
        - waveforms: PULSE, SIN, EXP, PWL
        - lines: .subckt, .param, .func, .model of D, R, C and L, .include, .lib, .global, .ic, .nodeset, .temp, .options, .print
        - analyses: .op, .dc, .ac, .tran

        Not supported are transistors, switches, transformers and transmission lines.
    params : mapping of str to float, optional
        Values that replace those of the .param lines. Parameters of subcircuits keep their values, even with the same name.

    Returns
    -------
    Circuit

    Raises
    ------
    InvalidInputError
        The message begins with ``FILE:LINE:``. One message lists all unsupported kinds of elements and control lines. Or
        ``params`` has an unknown name or a value that is not a finite number.

    Warns
    -----
    MeshsolveWarning
        The first line, the title in SPICE, has the form of an element (it is read as one) or of a control line. ``.end`` is
        missing. A request for output, an option or a .control block is ignored. Each kind has one warning with its number of
        lines.

    See Also
    --------
    parse : read a deck from a text

    Notes
    -----
    O(bytes): about a second for a million elements. A resistor of 0 ohm is read as a source of 0 V.
    Source: Quarles, Newton, Pederson, Sangiovanni-Vincentelli, "SPICE3 Version 3f3 User's Manual" (1993).
    """
    return _circuit(read_netlist, path, params)


def parse(text: str, params: Mapping[str, float] | None = None) -> Circuit:
    """Read a SPICE deck that is given as text, as :func:`read` reads a file.

    Parameters
    ----------
    text : str
        The lines of the deck. The first one is its title. Included files are searched in the working directory.
    params : mapping of str to float, optional
        As in :func:`read`.

    Returns
    -------
    Circuit

    Raises
    ------
    InvalidInputError
        As in :func:`read`, with ``<text>`` as the file.

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
