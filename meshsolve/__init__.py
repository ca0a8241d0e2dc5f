"""meshsolve: fast sparse solvers for meshes, graphs and circuits."""

from meshsolve.errors import *  # noqa: F401,F403

__version__ = "0.1.0"
