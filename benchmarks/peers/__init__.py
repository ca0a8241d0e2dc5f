"""The solvers and orderings that are compared: one table, one interface, one file per library.

A peer that cannot be loaded raises :class:`~benchmarks.peers.base.Unavailable` and is left out and named by the programs.
"""

from benchmarks.peers.base import Unavailable
from benchmarks.peers.cholespy import Cholespy
from benchmarks.peers.cholmod import Cholmod
from benchmarks.peers.eigen import Eigen
from benchmarks.peers.igl import Igl
from benchmarks.peers.meshsolve import Meshsolve, MeshsolveGiven
from benchmarks.peers.metis import METIS, METIS_C
from benchmarks.peers.pardiso import Pardiso

SOLVERS = {                                       # name -> constructor(perm=None); "given" ones factor with METIS' permutation
    "meshsolve": Meshsolve,
    "pardiso-metis": lambda perm=None: Pardiso("metis"),
    "pardiso-omp": lambda perm=None: Pardiso("omp"),
    "pardiso-default": lambda perm=None: Pardiso("metis", tuned=False),
    "cholmod-amd": lambda perm=None: Cholmod("amd"),
    "cholmod-metis": lambda perm=None: Cholmod("metis"),
    "cholmod-simplicial": lambda perm=None: Cholmod("amd", kind="simplicial"),
    "cholespy": Cholespy,
    "eigen": Eigen,
    "igl": Igl,
    "meshsolve-given": MeshsolveGiven,
    "pardiso-given": lambda perm=None: Pardiso("given", perm),
    "pardiso-default-given": lambda perm=None: Pardiso("given", perm, tuned=False),
    "cholmod-given": lambda perm=None: Cholmod("given", perm=perm),
}
SINGLE_THREAD = ("cholespy", "eigen", "igl", "cholmod-simplicial")             # the same with any number of threads
ORDERINGS = {"metis": METIS, "metis-c": METIS_C}


def available(names, table=SOLVERS):
    """Split ``names`` into ``{name: version}`` of those that load here and ``{name: reason}`` of those that do not."""
    installed, missing = {}, {}
    for name in names:
        try:
            installed[name] = table[name]().version()
        except Unavailable as e:
            missing[name] = str(e)
    return installed, missing
