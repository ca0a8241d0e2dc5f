"""Circuits from SPICE decks: operating point, sweeps, small signals and transients on the sparse LU factorization.

    circuit = meshsolve.apps.circuit.read("rectifier.sp")
    v = circuit.op()                                   # v["out"]
    w = circuit.transient(1e-5, 5e-3)                  # w.time, w["out"]
"""

from meshsolve.apps.circuit.analysis import Circuit, read
from meshsolve.apps.circuit.results import OperatingPoint, Waveforms

__all__ = ["Circuit", "OperatingPoint", "Waveforms", "read"]

def __dir__() -> list[str]:
    return __all__
