"""Circuits of one topology share the pattern of each matrix and its analysis: another sample of values only refactors.

Patterns and analyses are computed with the values of the circuit that was read. Results therefore do not depend on the order of
the samples or on threads.
"""

from __future__ import annotations

import numpy as np

from meshsolve.apps.circuit.mna import Matrix
from meshsolve.apps.circuit.nodal import Nodal
from meshsolve.errors import MeshsolveError


class Family:
    """Circuits that differ in the values of elements.

    Parameters
    ----------
    system : System
        Equations of the circuit that was read.

    Attributes
    ----------
    is_sound : bool
        True if the topology has been checked.
    """

    def __init__(self, system):
        self.system, self.is_sound = system, False
        self._matrices, self._idle = {}, {}                 # {pattern key: Matrix}, and {key of lease(): idle factors}
        self._nodal = None

    def __getstate__(self):
        """State without factors, which are computed again when needed."""
        return self.__dict__ | {"_matrices": {}, "_idle": {}}

    def matrix(self, system, dynamic, pinned):
        """The matrix of one of the circuits on the common pattern."""
        key = pattern_key(dynamic, pinned)
        if key not in self._matrices:
            self._matrices[key] = Matrix(self.system, dynamic, pinned)
        return self._matrices[key].like(system, dynamic, pinned)

    @property
    def nodal(self):
        """The reduced equations of all circuits."""
        self._nodal = self._nodal or Nodal(self.system)
        return self._nodal

    def lease(self, key, factor):
        """A factor for exclusive use: an idle one, or a new one of the matrix of the circuit that was read, with its devices at 0
        V.

        Returns None if that matrix is singular.

        Parameters
        ----------
        key : (pattern key, a, siemens to ground, threads)
        factor : callable
            Factors a matrix.
        """
        found = self.idle(key)
        if found is not None:
            return found
        (dynamic, pinned), a, to_ground, _ = key
        matrix, devices = self._matrices[dynamic, pinned].like(self.system, dynamic, _as_pins(pinned)), self.system.devices
        law = devices.at(np.zeros(len(devices)))
        try:
            return factor(matrix.with_devices(a, law.conductance + a * law.capacitance, to_ground))
        except MeshsolveError:
            return None

    def release(self, key, factor):
        """Return a factor for the next lease. A factor with changed pivots is dropped: results must not depend on earlier
        samples."""
        if not factor.report.facts["repivoted"]:
            self.keep(key, factor)

    def idle(self, key):
        """An idle factor for exclusive use, or None."""
        try:
            return self._idle.setdefault(key, []).pop()     # atomic: other threads may do the same at the same time
        except IndexError:
            return None

    def keep(self, key, factor):
        """Keep an idle factor."""
        self._idle.setdefault(key, []).append(factor)


def pattern_key(dynamic, pinned):
    """Hashable key of a pattern of the circuit."""
    return dynamic, pinned and (tuple(pinned[0].tolist()), pinned[1])


def _as_pins(pinned):
    return pinned and (np.array(pinned[0]), pinned[1])
