"""What circuits of one topology share: the pattern of each matrix and its analysis, so that another sample of values only refactors.

All of it is made with the values of the circuit that was read. Results then do not depend on which sample came first, nor on the
thread that it ran on.
"""

from __future__ import annotations

import numpy as np

from meshsolve.apps.circuit.mna import Matrix
from meshsolve.errors import MeshsolveError


class Family:
    """Circuits that differ in the values of elements.

    Parameters
    ----------
    system : System
        Of the circuit that was read.

    Attributes
    ----------
    is_sound : bool
        Whether the topology was found to be without fault.
    """

    def __init__(self, system):
        self.system, self.is_sound = system, False
        self._matrices, self._idle = {}, {}                 # by kind; and by kind, threads, a and type the factors nobody uses

    def __getstate__(self):
        """Factors are made again where they are wanted."""
        return self.__dict__ | {"_matrices": {}, "_idle": {}}

    def matrix(self, system, dynamic, pinned):
        """The matrix of one of the circuits on the common pattern."""
        kind = kind_of(dynamic, pinned)
        if kind not in self._matrices:
            self._matrices[kind] = Matrix(self.system, dynamic, pinned)
        return self._matrices[kind].like(system, dynamic, pinned)

    def lend(self, key, factor):
        """A factor that nobody else uses: one that was given back, or one of the first circuit's matrix, its devices at 0 V. None where
        that is singular.

        Parameters
        ----------
        key : (kind, a, siemens to ground, threads)
        factor : callable
            Makes one of a matrix.
        """
        try:
            return self._idle.setdefault(key, []).pop()     # at once: other threads may do the same
        except IndexError:
            pass
        (dynamic, pinned), a, to_ground, _ = key
        matrix, devices = self._matrices[dynamic, pinned].like(self.system, dynamic, _as_pins(pinned)), self.system.devices
        law = devices.at(np.zeros(len(devices)))
        try:
            return factor(matrix.with_devices(a, law.conductance + a * law.capacitance, to_ground))
        except MeshsolveError:
            return None

    def give_back(self, key, factor):
        """Take a factor back, unless other pivots were chosen for it: the next one to have it would not begin as the first."""
        if not factor.report.facts["repivoted"]:
            self._idle[key].append(factor)


def kind_of(dynamic, pinned):
    """What tells the patterns of a circuit apart, as a key."""
    return dynamic, pinned and (tuple(pinned[0].tolist()), pinned[1])


def _as_pins(pinned):
    return pinned and (np.array(pinned[0]), pinned[1])
