"""Circuits of linear elements and diodes from SPICE decks: operating point, sweeps, small signals and transients.

The equations are solved with the sparse LU factorization. :func:`read` and :func:`parse` return the :class:`Circuit` of a deck,
and its methods are the analyses. Their results, an :class:`OperatingPoint` or :class:`Waveforms`, are mappings from signal names
to values: nodes by their names, currents as ``i(v1)``.

    import meshsolve

    open("rc.sp", "w").write('''a low pass, 1 ms
    V1 in 0 PULSE(0 1) AC 1
    R1 in out 1k
    C1 out 0 1u
    .end
    ''')
    circuit = meshsolve.apps.circuit.read("rc.sp")
    v = circuit.op()                                   # at rest: v["out"], v["i(v1)"], dict(v)
    w = circuit.transient(1e-5, 5e-3)                  # over time: w.time, w["out"], w["v(in,out)"]
    r = circuit.ac("dec", 10, 1, 1e5)                  # small signals: r.frequency, r["out"] (complex), r["vdb(out)"]
    s = circuit.dc("v1", 0, 5, 0.5)                    # over a source: s.sweep, s["out"]
    w.to_csv("out.csv")                                # a table
    w.plot("out.png", ["in", "out"])                   # a picture
    other = circuit.with_values({"r1": 2200.0})        # the same circuit with another resistor

Values are in SI units: seconds, hertz, volt, ampere.
"""

from meshsolve.apps.circuit.analysis import Circuit
from meshsolve.apps.circuit.reading import parse, read
from meshsolve.apps.circuit.results import OperatingPoint, Waveforms

__all__ = ["Circuit", "OperatingPoint", "Waveforms", "parse", "read"]

def __dir__() -> list[str]:
    return __all__
