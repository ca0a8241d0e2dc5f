"""Factorizations: each is a linear operator that applies the inverse of its matrix.

The protocol that every factor follows: ``solve(b)``, ``refactor(A2)`` (same pattern, new values), ``perm``, ``shape``,
``report``, and use as a :class:`scipy.sparse.linalg.LinearOperator` (``F @ b``).
"""

from meshsolve.factor.base import Factor

__all__ = ["Factor"]
