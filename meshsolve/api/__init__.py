"""The top-level functions: analyze, cholesky, schur_complement, factorized, lu, ilu, ildl, parac, solve, spsolve, scipy_solver, Quadratic.

Each checks its arguments, chooses and calls; the algorithms are in the packages below.
"""

from __future__ import annotations

from meshsolve.api.definite import Symbolic, analyze, cholesky
from meshsolve.api.factorized import factorized
from meshsolve.api.factors import ildl, ilu, lu, parac
from meshsolve.api.quadratic import Quadratic, QuadraticInfo
from meshsolve.api.schur import schur_complement
from meshsolve.api.scipy_calls import scipy_solver, spsolve
from meshsolve.api.solving import solve

__all__ = ["Quadratic", "QuadraticInfo", "Symbolic", "analyze", "cholesky", "factorized", "ildl", "ilu", "lu", "parac",
           "schur_complement", "scipy_solver", "solve", "spsolve"]
