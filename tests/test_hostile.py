"""Bad input: each row of ROWS is one line of docs/errors.md and one test. Nothing that the caller owns may change.

``python tests/test_hostile.py`` writes the table into the document; a test compares the two, so neither can drift.
"""

import copy
import functools
import gzip
import pathlib
import re
import sys
import types
from dataclasses import dataclass, field
from unittest import mock

import numpy as np
import pytest
import scipy.sparse as sp
from kernel_harness import Harness

import meshsolve as ms
from meshsolve import device, memory
from meshsolve.device.cuda import reason_without
from meshsolve.errors import FactorInUseError

DOCUMENT = pathlib.Path(__file__).resolve().parents[1] / "docs" / "errors.md"
BEGIN, END = "<!-- table:begin -->\n", "<!-- table:end -->"
N = 12


@dataclass
class Row:
    """``call(tmp)`` returns (function, arguments, keywords); ``error`` None means that the input is fine."""

    function: str
    given: str
    error: type | None
    says: str                                       # what the message holds; of fine input, what happens
    call: object
    where: dict = field(default_factory=dict)       # attributes of the exception, in the caller's numbering

    def line(self):
        place = "".join(f" `.{name}`" for name in self.where)
        answer = f"`{self.error.__name__}`{place}" if self.error else "fine"
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in (self.function, self.given, answer, self.says)) + " |"


# ---- material ---------------------------------------------------------------------------------------------------------


def spd(n=N):
    return sp.csr_array(sp.diags_array([-np.ones(n - 1), 2.1 * np.ones(n), -np.ones(n - 1)], offsets=[-1, 0, 1]))


def edited(**parts):
    """spd() whose arrays are replaced as given; index: value pairs of a dict are written into the array."""
    A = spd()
    for name, change in parts.items():
        array = getattr(A, name).copy()
        if isinstance(change, dict):
            for index, value in change.items():
                array[index] = value
        else:
            array = change(array)
        setattr(A, name, array)
    return A


def coo(row, value):
    A = spd().tocoo()
    getattr(A, row)[3] = value
    return A


def entry(i, j, value):
    A = spd().tolil()
    A[i, j] = value
    return sp.csr_array(A)


def sphere():
    return ms.datasets.icosphere(1)


def nan_sphere():
    mesh = sphere()
    mesh.vertices[3, 0] = np.nan
    return mesh


def damaged_tree():
    ordering = ms.order.nested_dissection(spd())
    ordering.tree.parent[0] = 0
    return ordering


def factor(**options):
    return ms.cholesky(spd(), **options)


def used_within(outer, inner):
    """``inner(F)`` while ``outer(F)`` works: its progress callable stands for another thread."""
    def call(F):
        with ms.showing_progress(lambda *told: inner(F)):
            outer(F)
    return call


def written(tmp, name, content):
    path = tmp / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def half(tmp, suffix):
    path = tmp / f"whole{suffix}"
    ms.datasets.icosphere(2).save(path)
    content = path.read_bytes()
    return written(tmp, f"half{suffix}", content[:len(content) // 2])


def spoiled_gzip(tmp):
    content = bytearray(gzip.compress(bytes(range(256)) * 40))
    content[20:60] = b"\xff" * 40
    return written(tmp, "spoiled.obj.gz", bytes(content))


# ---- the table --------------------------------------------------------------------------------------------------------

Bad, Unsymmetric, Indefinite, Pattern = ms.InvalidInputError, ms.NotSymmetricError, ms.NotPositiveDefiniteError, ms.PatternMismatchError

OPERATOR = "a scipy `LinearOperator`, except in `cg` and `sqmr`"
STRUCTURE = [                                       # for everything that takes a matrix
    ("text", "has to be a matrix", lambda: "A.mtx"),
    ("`None`", "has to be a matrix", lambda: None),
    (OPERATOR, "a matrix with its entries", lambda: sp.linalg.aslinearoperator(np.eye(3))),
    ("a networkx graph", "networkx.to_scipy_sparse_array", lambda: type("Graph", (), {"__module__": "networkx"})()),
    ("a list of edges", "of a list of edges i, j make scipy.sparse.coo_array", lambda: [(0, 1), (1, 2), (2, 0)]),
    ("a list that is ragged", "not an array", lambda: [[2, 1], [1]]),
    ("a vector", "2-D", lambda: np.ones(N)),
    ("a sparse vector", "2-D", lambda: sp.coo_array(np.ones(N))),
    ("not square", "square, not 3 x 4", lambda: np.ones((3, 4))),
    ("no rows", "empty", lambda: sp.csr_array((0, 0))),
    ("dtype object", "has to hold numbers", lambda: np.eye(3).astype(object)),
    ("masked entries", "masked", lambda: np.ma.masked_less(np.eye(3), 0.5)),
    ("negative column index", "row 1 has a column index outside", lambda: edited(indices={3: -1})),
    ("column index too large", "row 1 has a column index outside", lambda: edited(indices={3: N})),
    ("int64 column index 2^32", "outside 0..", lambda: edited(indices=lambda x: np.where(np.arange(len(x)) == 3, 2**32, x.astype(np.int64)))),
    ("COO row out of range", "exceeds matrix dimension", lambda: coo("row", 10**6)),
    ("COO column negative", "negative", lambda: coo("col", -1)),
    ("decreasing row pointers", "bad row pointer", lambda: edited(indptr={5: 1})),
    ("row pointers beyond the entries", "bad row pointer", lambda: edited(indptr={-1: 10**6})),
    ("fewer values than column indices", "34 column indices and 31 values", lambda: edited(data=lambda x: x[:-3])),
    ("fractional column indices", "integers", lambda: edited(indices=lambda x: x + 0.5)),
]
VALUES = [                                          # for everything that reads values
    ("NaN", Bad, "row 3, column 3 holds nan", lambda: entry(3, 3, np.nan), {}),
    ("infinity", Bad, "row 3, column 4 holds inf", lambda: entry(3, 4, np.inf), {}),
    ("longdouble above the range of float64", Bad, "holds inf", lambda: sp.csr_array(np.eye(3, dtype=np.longdouble) * np.longdouble("1e4000")), {}),
    ("complex", Bad, "complex", lambda: spd() * 1j, {}),
    ("not symmetric", Unsymmetric, "lu takes unsymmetric matrices", lambda: entry(6, 7, 3.0), {"row": 7, "column": 6}),
]
DEFINITE = [                                        # for what factors by Cholesky
    ("a negative diagonal entry", Indefinite, "column 8 is not positive (diagonal entry -2)", lambda: entry(8, 8, -2.0), {"column": 8}),
    ("a zero row", Indefinite, "zero or missing (an isolated or unreferenced vertex, or constraints?", lambda: sp.csr_array(np.diag([1.0] * 5 + [0.0] + [1.0] * 6)), {"column": 5}),
    ("a singular Laplacian", Indefinite, "use pin=True", lambda: ms.graph_laplacian(spd()), {"column": None}),
]
TAKES_PATTERN = {
    "analyze": ms.analyze, "order.nested_dissection": ms.order.nested_dissection, "order.amd": ms.order.amd, "order.auto": ms.order.auto,
    "order.rcm": ms.order.rcm, "order.nnz_sort": ms.order.nnz_sort, "order.random": ms.order.random,
    "order.natural": ms.order.natural, "graph_laplacian": ms.graph_laplacian, "PatchMesh": ms.PatchMesh,
}
SHARED = factor()
FACTORS = {"cholesky": ms.cholesky, "F.refactor": SHARED.refactor, "Symbolic.factor": SHARED.symbolic.factor}
TAKES_VALUES = FACTORS | {"parac": ms.parac, "cg": lambda A: ms.cg(A, np.ones(N))}
SHARED_LU = ms.lu(spd())
SHARED_LDL = ms.ildl(spd())
SHARED_SCHUR = ms.schur_complement(spd(), [0, 5])
TAKES_SYMMETRIC = {"ildl": ms.ildl, "ildl: F.refactor": SHARED_LDL.refactor, "sqmr": lambda A: ms.sqmr(A, np.ones(N)),
                   "schur_complement": lambda A: ms.schur_complement(A, [0, 5]), "S.refactor": SHARED_SCHUR.refactor}
TAKES_ANY_VALUES = {"lu": ms.lu, "lu: F.refactor": SHARED_LU.refactor}


def dependent_rows():
    """A full matrix of integers, the last row of which is the sum of the others: LU leaves a pivot of about 1e-15."""
    A = np.random.default_rng(1).integers(-9, 9, (100, 100)).astype(float)
    A[-1] = A[:-1].sum(axis=0)
    return A


SOLVE = {"solve": lambda A: ms.solve(A, np.ones(N)), "factorized": ms.factorized}
ANY_VALUES = [                                      # for everything that takes matrices of any kind
    *VALUES[:3],
    ("a zero row", ms.SingularMatrixError, "singular", lambda: sp.csr_array(np.diag([1.0] * 5 + [0.0] + [1.0] * 6)), {"index": 5}),
    ("a singular Laplacian", ms.SingularMatrixError, "no pivot is left in column", lambda: ms.graph_laplacian(spd()), {"index": None}),
]


def matrix_rows():
    every = TAKES_PATTERN | TAKES_VALUES | TAKES_ANY_VALUES | TAKES_SYMMETRIC | SOLVE
    for given, says, make in STRUCTURE:
        for name, function in every.items():
            if given == OPERATOR and name in ("cg", "sqmr"):
                continue
            yield Row("every function that takes a matrix", given, Bad, says, lambda tmp, f=function, m=make: (f, (m(),), {})), name
    for given, error, says, make, where in VALUES:
        for name, function in TAKES_VALUES.items():
            yield Row("`cholesky`, `parac`, `cg`, `F.refactor`, `Symbolic.factor`", given, error, says,
                      lambda tmp, f=function, m=make: (f, (m(),), {}), where), name
    for given, error, says, make, where in DEFINITE:
        for name, function in FACTORS.items():
            yield Row("`cholesky`, `F.refactor`, `Symbolic.factor`", given, error, says,
                      lambda tmp, f=function, m=make: (f, (m(),), {}), where), name
    for given, error, says, make, where in VALUES[:5]:
        for name, function in TAKES_SYMMETRIC.items():
            if name == "schur_complement" and given in ("complex", "not symmetric"):        # these go to LU
                continue
            yield Row("`ildl`, its `F.refactor`, `sqmr`, `schur_complement` and its `S.refactor` of a symmetric matrix", given, error, says, lambda tmp, f=function, m=make: (f, (m(),), {}), where), name
    for given, error, says, make, where in ANY_VALUES:
        for name, function in TAKES_ANY_VALUES.items():
            yield Row("`lu`, its `F.refactor`", given, error, says, lambda tmp, f=function, m=make: (f, (m(),), {}), where), name


def bad(function, given, says, call, error=Bad, **where):
    return Row(f"`{function}`", given, error, says, call, where)


def fine(function, given, what, call):
    return Row(f"`{function}`", given, None, what, call)


def without_gpu(function, *args, **keywords):
    """A call on a machine that has neither CuPy nor a GPU."""
    with mock.patch.dict(sys.modules, {"cupy": None}), mock.patch.object(device, "_cupy", reason_without):
        return function(*args, **keywords)


def solving(*args, **keywords):
    return lambda tmp: (factor().solve, args, keywords)


def with_A(make):
    return lambda tmp: (ms.cholesky, (make(),), {})


def without_cupy(function):
    """The function on a machine that has no CuPy."""
    def call(*args, **keywords):
        with mock.patch.dict(sys.modules, {"cupy": None}), mock.patch.object(device, "_cupy", reason_without):
            return function(*args, **keywords)
    return call


def on_harness(function):
    """The function where there is a GPU, or what stands in for one."""
    def call(*args, **keywords):
        with device.use(Harness()):
            return function(*args, **keywords)
    return call


def without_polyscope(function):
    """The function on a machine that has no polyscope."""
    def call(*args, **keywords):
        with mock.patch.dict(sys.modules, {"polyscope": None}):
            return function(*args, **keywords)
    return call


def keeping(rows, A=None, **keywords):
    return lambda tmp: (ms.schur_complement, (spd() if A is None else A(), rows), keywords)


FIXED, SCHUR = "cholesky(fixed=)", "schur_complement"
ROWS = [
    fine("cholesky", "unsorted or duplicated entries", "duplicates are summed", with_A(lambda: sp.coo_array((np.repeat(spd().data / 2, 2), np.repeat(spd().tocoo().coords, 2, axis=1)[:, ::-1])))),
    fine("cholesky", "spare room behind the last row", "is not read", with_A(lambda: edited(data=lambda x: np.append(x, np.nan), indices=lambda x: np.append(x, 10**6).astype(np.int32)))),
    fine("cholesky", "several components, empty off-diagonals", "factored one by one", with_A(lambda: sp.block_diag([spd(), spd(), np.eye(3)]).tocsr())),
    fine("cholesky", "bool, int8, float16, float32, longdouble, big-endian", "becomes float64", with_A(lambda: np.eye(3, dtype=np.float16))),
    fine("cholesky", "numpy.matrix, Fortran order, strided or read-only arrays", "is taken as it is", with_A(lambda: np.asfortranarray(spd().toarray()).view(np.matrix))),
    bad("cholesky", "unknown ordering", "ordering has to be one of auto, nd", lambda tmp: (ms.cholesky, (spd(),), {"ordering": "metis"})),
    bad("cholesky", "an ordering that is no permutation", "is no permutation: 0 occurs 2 times", lambda tmp: (ms.cholesky, (spd(), np.r_[0, 0, 2:N]), {})),
    bad("cholesky", "an ordering with values out of range", "outside 0..11: 12 at 11", lambda tmp: (ms.cholesky, (spd(), np.arange(1, N + 1)), {})),
    bad("cholesky", "an ordering of another size", "the matrix has 12", lambda tmp: (ms.cholesky, (spd(), ms.order.amd(spd(5))), {})),
    *[bad(name, "an `Ordering` that holds no permutation", "ordering has values outside 0..11", lambda tmp, f=function: (f, (ms.graph_laplacian(spd()),), {"ordering": ms.Ordering(np.full(N, 10**6, np.int32), "given")}))
      for name, function in {"cholesky": functools.partial(ms.cholesky, pin=True), "analyze": ms.analyze, "lu": ms.lu, "ildl": ms.ildl, "parac": ms.parac}.items()],
    bad("cholesky", "a mesh of another size", "A has 12 rows, the mesh 42 vertices", lambda tmp: (ms.cholesky, (spd(),), {"mesh": sphere()})),
    bad("cholesky", "`device=\"cuda\"` without CuPy or a GPU", "needs CuPy: pip install", lambda tmp: (without_gpu, (ms.cholesky, spd()), {"device": "cuda"}), ms.DeviceUnavailableError),
    bad("cholesky", "`backend=\"cudss\"` without CuPy or a GPU", "needs CuPy: pip install", lambda tmp: (without_gpu, (ms.cholesky, spd()), {"backend": "cudss"}), ms.DeviceUnavailableError),
    bad("cholesky", "`backend=\"cudss\"` on the CPU", "needs device=\"cuda\"", lambda tmp: (ms.cholesky, (spd(),), {"device": "cpu", "backend": "cudss"})),
    bad("analyze", "`device=\"cuda\"` without a GPU or CuPy", "needs CuPy: pip install", lambda tmp: (without_cupy(ms.analyze), (spd(),), {"device": "cuda"}), ms.DeviceUnavailableError),
    bad("analyze", "unknown device", "device has to be one of 'auto', 'cpu', 'cuda'", lambda tmp: (ms.analyze, (spd(),), {"device": "gpu"})),
    bad("cholesky", "an unknown `device`", "device has to be one of", lambda tmp: (ms.cholesky, (spd(),), {"device": "gpu"})),
    bad("cholesky", "unknown device, backend or precision", "has to be one of", lambda tmp: (ms.cholesky, (spd(),), {"device": "gpu"})),
    bad("cholesky", "`threads` not a positive integer, also in `MESHSOLVE_NUM_THREADS`", "threads has to be a positive integer", lambda tmp: (ms.cholesky, (spd(),), {"threads": 0})),
    bad("cholesky", "a negative or fractional seed", "seed has to be an integer", lambda tmp: (ms.cholesky, (spd(),), {"seed": -1})),
    bad("cholesky", "`pin=True` together with `fixed=`", "exclude each other", lambda tmp: (ms.cholesky, (spd(),), {"pin": True, "fixed": [0]})),
    bad("cholesky", "`pin=True` for a matrix whose rows do not sum to 0", "row 0 of A sums to", lambda tmp: (ms.cholesky, (spd(),), {"pin": True}), ms.NotLaplacianError, row=0),
    *[bad(name, "`lower=True` with an upper triangle", "has entries above its diagonal alone", lambda tmp, f=function: (f, (sp.triu(spd()),), {"lower": True}))
      for name, function in {"cholesky": ms.cholesky, "analyze": ms.analyze, "ildl": ms.ildl}.items()],
    bad("cholesky", "`pin=` or `lower=` neither True nor False", "pin has to be True or False, not 'yes'", lambda tmp: (ms.cholesky, (spd(),), {"pin": "yes"})),
    bad("cholesky", "an analysis as `ordering=`", "not an analysis: give its .ordering", lambda tmp: (ms.cholesky, (spd(), SHARED.symbolic), {})),
    bad("cholesky", "an array where one of some words is needed", "precision has to be one of 'double', 'single', 'mixed', not an array of shape (12,)", lambda tmp: (ms.cholesky, (spd(),), {"precision": RHS})),
    fine(FIXED, "one row, or what `np.where` makes of a mask", "is taken as a list", lambda tmp: (ms.cholesky, (spd(),), {"fixed": np.where(np.arange(N) < 3)})),
    bad(FIXED, "rows out of range", "outside 0..11: 12", lambda tmp: (ms.cholesky, (spd(),), {"fixed": [N]})),
    bad(FIXED, "a row named twice", "names row 4 more than once", lambda tmp: (ms.cholesky, (spd(),), {"fixed": [4, 1, 4]})),
    bad(FIXED, "a set, which has no order", "not a set", lambda tmp: (ms.cholesky, (spd(),), {"fixed": {0, 5}})),
    bad(FIXED, "no row, or every row", "fixed is empty", lambda tmp: (ms.cholesky, (spd(),), {"fixed": []})),
    bad(FIXED, "an indefinite free block", "the pivot of column 8", lambda tmp: (ms.cholesky, (entry(8, 8, -2.0),), {"fixed": [0, 3]}), Indefinite, column=8),
    fine(SCHUR, "one row, a mask, or what `np.where` makes of it", "is taken as a list", keeping(np.arange(N) < 3)),
    fine(SCHUR, "a singular Laplacian, or an indefinite block of `rows`", "only what is eliminated has to be definite", keeping([0, 8], lambda: entry(8, 8, -2.0))),
    fine(SCHUR, "complex, or not symmetric", "the block that is eliminated is factored by LU", keeping([0, 8], lambda: entry(6, 7, 3.0))),
    bad(SCHUR, "not symmetric, and the block beside `rows` is singular", "the block of A without rows is singular", keeping([0], lambda: sp.csr_array(np.triu(np.ones((N, N)), 1))), ms.SingularMatrixError, index=None),
    bad(SCHUR, "rows out of range", "rows has row numbers outside 0..11: 12", keeping([N])),
    bad(SCHUR, "a row named twice", "rows names row 4 more than once", keeping([4, 1, 4])),
    bad(SCHUR, "a mask of another size, fractions, `None`", "rows has to be a list of row numbers", keeping(np.ones(N - 1, bool))),
    bad(SCHUR, "a set, which has no order", "not a set", keeping({0, 5})),
    bad(SCHUR, "no row", "rows is empty", keeping([])),
    bad(SCHUR, "every row", "rows names every row", keeping(np.ones(N, bool))),
    bad(SCHUR, "an indefinite block beside `rows`", "the block of A without rows is not positive definite: the pivot of column 8", keeping([0, 3], lambda: entry(8, 8, -2.0)), Indefinite, column=8),
    bad(SCHUR, "a Laplacian with a component that has none of `rows`", "no row of that component is in rows", keeping([0], lambda: ms.graph_laplacian(sp.block_diag([spd(4), spd(8)]))), Indefinite, column=None),
    bad(SCHUR, "unknown ordering", "ordering has to be one of auto, nd", keeping([0], ordering="metis")),
    bad(SCHUR, "`device=\"cuda\"`", "on the CPU only in this version", keeping([0], device="cuda"), ms.DeviceUnavailableError),
    bad(SCHUR, "an unknown `device`", "device has to be one of", keeping([0], device="gpu")),
    bad("S.refactor", "an entry outside the analysed pattern", "row 2, column 9 that is not in the analysed pattern", lambda tmp: (SHARED_SCHUR.refactor, (symmetric_entry(2, 9),), {}), Pattern, row=2, column=9),
    bad("S.refactor", "a block beside `rows` that is not definite", "the pivot of column 8", lambda tmp: (SHARED_SCHUR.refactor, (entry(8, 8, -2.0),), {}), Indefinite, column=8),
    bad("S.refactor", "a Schur complement that another call uses", "is using the factor", lambda tmp: (used_within(lambda S: S.reduce(RHS), lambda S: S.refactor(spd())), (copy.copy(SHARED_SCHUR),), {}), FactorInUseError),
    bad("S.reduce", "b of another size, or of three dimensions", "b has to be (12,) or (12, k), not (11,)", lambda tmp: (SHARED_SCHUR.reduce, (np.ones(N - 1),), {})),
    bad("S.reduce", "NaN or infinity in b", "b: row 7 holds nan", lambda tmp: (SHARED_SCHUR.reduce, (np.where(np.arange(N) == 7, np.nan, 1.0),), {})),
    bad("S.expand", "x_K of another size", "x_K has to be (2,) or (2, k), not (12,)", lambda tmp: (SHARED_SCHUR.expand, (np.ones(N), np.ones(N)), {})),
    bad("S.expand", "x_K with more or fewer columns than b", "x_K has to be (2, 3), with a column for each of b, not (2,)", lambda tmp: (SHARED_SCHUR.expand, (np.ones((N, 3)), np.ones(2)), {})),
    bad("S.expand", "NaN or infinity in x_K", "x_K: row 1 holds nan", lambda tmp: (SHARED_SCHUR.expand, (np.ones(N), np.array([1.0, np.nan])), {})),
    bad("S.expand", "x_K that is text, or sparse", "x_K has to hold real numbers", lambda tmp: (SHARED_SCHUR.expand, (np.ones(N), ["1", "2"]), {})),
    bad("Symbolic.factor", "a matrix of another size", "A has 5 rows, the analysis 12", lambda tmp: (SHARED.symbolic.factor, (spd(5),), {})),
    bad("Symbolic.factor", "an entry outside the analysed pattern", "row 2, column 9 that is not in the analysed pattern", lambda tmp: (SHARED.symbolic.factor, (symmetric_entry(2, 9),), {}), Pattern, row=2, column=9),
    *(bad("F.refactor", "a factor that another call uses" + of, "is using the factor", lambda tmp, made=made: (used_within(lambda F: F.solve(RHS), lambda F: F.refactor(spd())), (made(),), {}), FactorInUseError)
      for of, made in ((", of `cholesky`", factor), (", of `lu`", lambda: ms.lu(spd())), (", of `ildl`", lambda: ms.ildl(spd())))),
    *(bad(name, "a factor that another call refactors", "is being refactored by another call", lambda tmp, inner=inner: (used_within(lambda F: F.refactor(spd()), inner), (factor(),), {}), FactorInUseError)
      for name, inner in (("F.solve", lambda F: F.solve(RHS)), ("F.L", lambda F: F.L), ("F.refactor", lambda F: F.refactor(spd())))),
    bad("F.refactor", "a matrix of another size", "A has 5 rows, the analysis 12", lambda tmp: (SHARED.refactor, (spd(5),), {})),
    bad("F.refactor", "an entry outside the analysed pattern", "row 2, column 9 that is not in the analysed pattern", lambda tmp: (SHARED.refactor, (symmetric_entry(2, 9),), {}), Pattern, row=2, column=9),
    bad("F.refactor", "the same with fixed rows", "row 2, column 9", lambda tmp: (factor(fixed=[0, 5]).refactor, (symmetric_entry(2, 9),), {}), Pattern, row=2, column=9),
    fine("F.refactor", "missing entries", "are zeros", lambda tmp: (factor().refactor, (np.eye(N),), {})),
    bad("F.solve", "an array as second argument, meant as `out=`", "system has to be one of 'A', 'L', 'Lt', not an array of shape (12,)", solving(np.ones(N), np.empty(N))),
    bad("F.solve", "b too short", "b has to be (12,) or (12, k), not (11,)", solving(np.ones(N - 1))),
    bad("F.solve", "b of three dimensions", "not (12, 2, 2)", solving(np.ones((N, 2, 2)))),
    bad("F.solve", "NaN or infinity in b", "b: row 7 holds nan", solving(np.where(np.arange(N) == 7, np.nan, 1.0))),
    bad("F.solve", "text, objects, dates", "b has to hold real numbers", solving(["a"] * N)),
    bad("F.solve", "masked entries in b", "masked", solving(np.ma.masked_equal(np.arange(N), 3))),
    fine("F.solve", "a sparse b", "the solution is sparse", solving(sp.csr_array(np.ones((N, 1))))),
    bad("F.solve", "a sparse b with `out`", "out= is for a dense b", solving(sp.csr_array(np.ones((N, 1))), out=np.empty((N, 1)))),
    bad("F.solve", "`out` that is no array", "out has to be a writable array of shape (12,) and dtype float64, where b lies, not list", solving(np.ones(N), out=[0.0] * N)),
    bad("F.solve", "`out` of another shape or dtype, or read-only", "out has to be a writable array", solving(np.ones(N), out=np.ones(N, np.float32))),
    bad("F.solve", "`fixed_values` without `fixed=`", "made without fixed=", solving(np.ones(N), fixed_values=1.0)),
    bad("F.solve", "`fixed_values` of another shape", "fixed_values has to be (2,) or (2, 1), a row for each of fixed", lambda tmp: (factor(fixed=[0, 5]).solve, (np.ones(N),), {"fixed_values": np.ones(3)})),
    bad("F.solve", "NaN or infinity in `fixed_values`, also in those of all rows", "fixed_values: row 5 is not finite", lambda tmp: (factor(fixed=[0, 5]).solve, (np.ones(N),), {"fixed_values": np.where(np.arange(N) == 5, np.nan, 1.0)})),
    fine("F.solve", "`fixed_values` of all rows, NaN in the free ones", "those of the fixed rows are taken", lambda tmp: (factor(fixed=[0, 5]).solve, (np.ones(N),), {"fixed_values": np.where(np.arange(N) % 5 == 0, 1.0, np.nan)})),
    bad("F.solve", "`fixed_values` that are text", "real numbers", lambda tmp: (factor(fixed=[0, 5]).solve, (np.ones(N),), {"fixed_values": ["1", "2"]})),
    bad("F.solve", "`fixed_values` for a triangular system", "fixed_values goes with system=\"A\"", lambda tmp: (ms.cholesky(spd(), fixed=[0]).solve, (np.ones(N - 1),), {"system": "L", "fixed_values": [1.0]})),
    bad("F.solve", "unknown system", "system has to be one of", solving(np.ones(N), system="LDLt")),
    fine("F.solve", "complex b", "its parts are solved as two columns", solving(np.ones(N) * 1j)),
    fine("F.solve", "no columns", "no columns", solving(np.ones((N, 0)))),
    fine("F.solve", "strided, Fortran-ordered or read-only b", "is taken as it is", solving(np.broadcast_to(1.0, (N, 3)))),
    fine("solve", "unsymmetric or complex", "is solved by LU", lambda tmp: (ms.solve, (entry(6, 7, 3.0), np.ones(N)), {})),
    fine("solve", "symmetric indefinite or singular", "is solved by LDL^T and SQMR; `info.converged` says whether b was in its range", lambda tmp: (ms.solve, (entry(8, 8, -2.0), np.ones(N)), {})),
    bad("solve", "unsymmetric with `method=\"ildl\"`", "is not symmetric", lambda tmp: (ms.solve, (entry(6, 7, 3.0), np.ones(N), "ildl"), {}), Unsymmetric, row=7, column=6),
    bad("solve", "unsymmetric with `method=\"cholesky\"`", "is not symmetric", lambda tmp: (ms.solve, (entry(6, 7, 3.0), np.ones(N), "cholesky"), {}), Unsymmetric, row=7, column=6),
    bad("solve", "unknown method", "method has to be one of 'auto', 'cholesky', 'lu', 'ildl'", lambda tmp: (ms.solve, (spd(), np.ones(N)), {"method": "qr"})),
    bad("solve", "`rtol` not a number of at least 0", "rtol has to be a finite number of at least 0", lambda tmp: (ms.solve, (spd(), np.ones(N)), {"rtol": np.nan})),
    bad("solve", "`device=\"cuda\"` without a GPU or CuPy", "needs CuPy: pip install", lambda tmp: (without_cupy(ms.solve), (spd(), np.ones(N)), {"device": "cuda"}), ms.DeviceUnavailableError),
    bad("solve", "unknown device", "device has to be one of 'auto', 'cpu', 'cuda'", lambda tmp: (ms.solve, (spd(), np.ones(N)), {"device": "gpu"})),
    fine("solve", "complex b", "its parts are solved as two columns", lambda tmp: (ms.solve, (spd(), np.ones(N) * 1j), {})),
    bad("lu", "unknown ordering", "ordering has to be one of auto, nd", lambda tmp: (ms.lu, (spd(),), {"ordering": "metis"})),
    bad("lu", "an ordering that is no permutation", "is no permutation: 0 occurs 2 times", lambda tmp: (ms.lu, (spd(), np.r_[0, 0, 2:N]), {})),
    bad("lu", "unknown engine", "engine has to be one of", lambda tmp: (ms.lu, (spd(),), {"engine": "tiles"})),
    bad("lu", "`repivot` neither \"auto\" nor False", "repivot has to be", lambda tmp: (ms.lu, (spd(),), {"repivot": True})),
    bad("lu", "a complex matrix with `precision=\"mixed\"`", "complex matrices", lambda tmp: (ms.lu, (spd() * 1j,), {"precision": "mixed"})),
    bad("lu", "a complex matrix with `device=\"cuda\"`", "complex matrices are factored on the CPU only", lambda tmp: (ms.lu, (spd() * 1j,), {"device": "cuda"}), ms.DeviceUnavailableError),
    bad("lu", "no complete matching", "no nonzero is left for row 3", lambda tmp: (ms.lu, (np.vstack([np.ones((2, 4)), [[1.0, 0, 0, 0]] * 2]),), {}), ms.SingularMatrixError, index=3),
    fine("lu", "rows that differ by 300 orders of magnitude", "are scaled", lambda tmp: (ms.lu, (sp.diags_array(np.logspace(-150, 150, N)) @ spd(),), {})),
    bad("lu: F.refactor", "a matrix of another size", "A has 5 rows, the factor 12", lambda tmp: (SHARED_LU.refactor, (spd(5),), {})),
    bad("lu: F.refactor", "complex values for a real factor", "complex", lambda tmp: (SHARED_LU.refactor, (spd() * 1j,), {})),
    bad("lu: F.refactor", "an entry outside the analysed pattern", "row 2, column 9 that is not in the analysed pattern", lambda tmp: (SHARED_LU.refactor, (symmetric_entry(2, 9),), {}), Pattern, row=2, column=9),
    bad("lu: F.refactor", "zeros alone", "row 0 has no nonzero", lambda tmp: (SHARED_LU.refactor, (sp.csr_array(spd() * 0),), {}), ms.SingularMatrixError, index=0),
    bad("lu: F.refactor", "values without an inverse", "no pivot is left in column", lambda tmp: (SHARED_LU.refactor, (ms.graph_laplacian(spd()),), {}), ms.SingularMatrixError, index=None),
    fine("lu: F.refactor", "rows that differ by 300 orders of magnitude", "are scaled anew", lambda tmp: (ms.lu(spd()).refactor, (sp.diags_array(np.logspace(-150, 150, N)) @ spd(),), {})),
    bad("lu: F.solve", "b too short", "b has to be (12,) or (12, k), not (11,)", lambda tmp: (ms.lu(spd()).solve, (np.ones(N - 1),), {})),
    bad("lu: F.solve", "unknown `trans`", "trans has to be one of", lambda tmp: (ms.lu(spd()).solve, (np.ones(N), "C"), {})),
    bad("factorized", "a singular Laplacian", "zero pivot of its LDL^T factor", lambda tmp: (ms.factorized, (ms.graph_laplacian(spd()),), {}), ms.SingularMatrixError, index=None),
    bad("factorized", "unsymmetric and singular", "singular", lambda tmp: (ms.factorized, ([[1.0, 2.0], [0.0, 0.0]],), {}), ms.SingularMatrixError),
    bad("factorized", "unsymmetric and singular but for rounding", "singular in rounding", lambda tmp: (ms.factorized, (dependent_rows(),), {}), ms.SingularMatrixError),
    bad("factorized", "an unknown device", "device has to be one of", lambda tmp: (ms.factorized, (spd(),), {"device": "tpu"})),
    bad("ildl", "no nonzero at all", "A has no nonzero", lambda tmp: (ms.ildl, (sp.csr_array((4, 4)),), {}), ms.SingularMatrixError, index=0),
    bad("ildl", "`fill_level` negative or fractional", "fill_level has to be an integer from 0", lambda tmp: (ms.ildl, (spd(),), {"fill_level": 1.5})),
    bad("ildl", "`droptol` negative", "droptol has to be a finite number of at least 0", lambda tmp: (ms.ildl, (spd(),), {"droptol": -1})),
    bad("ildl", "`max_fill` not positive", "max_fill has to be a finite number above 0", lambda tmp: (ms.ildl, (spd(),), {"max_fill": 0})),
    bad("ildl", "`tile_size` outside 2..32", "tile_size has to be an integer from 2 to 32", lambda tmp: (ms.ildl, (spd(),), {"tile_size": 64})),
    bad("ildl", "unknown blocking", "blocking has to be one of", lambda tmp: (ms.ildl, (spd(),), {"blocking": "rows"})),
    bad("ildl", "unknown pivoting", "pivoting has to be one of", lambda tmp: (ms.ildl, (spd(),), {"pivoting": "partial"})),
    bad("ildl", "unknown ordering", "natural, multicolour, an Ordering or a permutation", lambda tmp: (ms.ildl, (spd(),), {"ordering": "metis"})),
    bad("ildl", "another dtype than float64 or float32", "dtype has to be float64 or float32", lambda tmp: (ms.ildl, (spd(),), {"dtype": np.int32})),
    bad("ildl", "`device=\"cuda\"` without a GPU or CuPy", "needs CuPy: pip install", lambda tmp: (without_cupy(ms.ildl), (spd(),), {"device": "cuda"}), ms.DeviceUnavailableError),
    bad("ildl", "`fill_level=None` and `device=\"cuda\"` without a GPU or CuPy", "needs CuPy: pip install", lambda tmp: (without_cupy(ms.ildl), (spd(),), {"device": "cuda", "fill_level": None}), ms.DeviceUnavailableError),
    bad("ildl", "no nonzero at all, for a complete factor on a GPU", "A has no nonzero", lambda tmp: (on_harness(ms.ildl), (sp.csr_array((4, 4)),), {"device": "cuda", "fill_level": None}), ms.SingularMatrixError, index=0),
    fine("ildl", "a structurally singular matrix, complete on a GPU", "as on the CPU", lambda tmp: (on_harness(ms.ildl), (sp.csr_array(np.diag([1.0] * 5 + [0.0] + [1.0] * 6)),), {"device": "cuda", "fill_level": None})),
    bad("ildl", "unknown device", "device has to be one of 'auto', 'cpu', 'cuda'", lambda tmp: (ms.ildl, (spd(),), {"device": "gpu"})),
    fine("ildl", "a structurally singular matrix", "zero pivots stay zero: consistent systems are solved", lambda tmp: (ms.ildl, (sp.csr_array(np.diag([1.0] * 5 + [0.0] + [1.0] * 6)),), {})),
    bad("ildl: K.solve", "complete and singular, b not in the range of A", "b is not in the range", lambda tmp: (ms.ildl(sp.csr_array(np.diag([1.0] * 11 + [0.0]))).solve, (RHS,), {}), ms.MeshsolveWarning),
    fine("ildl", "rows that differ by 300 orders of magnitude", "are scaled", lambda tmp: (ms.ildl, (sp.diags_array(np.logspace(-75, 75, N)) @ spd() @ sp.diags_array(np.logspace(-75, 75, N)),), {})),
    bad("ildl: F.refactor", "a matrix of another size", "A has 5 rows, the factor 12", lambda tmp: (SHARED_LDL.refactor, (spd(5),), {})),
    bad("ildl: F.refactor", "an entry outside the analysed pattern", "row 2, column 9 that is not in the analysed pattern", lambda tmp: (SHARED_LDL.refactor, (symmetric_entry(2, 9),), {}), Pattern, row=2, column=9),
    bad("ildl: F.solve", "b too short", "b has to be (12,) or (12, k), not (11,)", lambda tmp: (SHARED_LDL.solve, (np.ones(N - 1),), {})),
    bad("cg", "an operator as A whose products are not finite", "product with a finite vector holds nan in row 0", lambda tmp: (ms.cg, (sp.linalg.LinearOperator((N, N), matvec=lambda x: np.nan * x, dtype=float), RHS), {})),
    bad("cg", "an operator as A that is complex, or whose products have another shape", "A is complex, where a real operator is needed", lambda tmp: (ms.cg, (sp.linalg.aslinearoperator(spd() * 1j), RHS), {})),
    bad("sqmr", "b too short", "b has to be (12,) or (12, k), not (11,)", lambda tmp: (ms.sqmr, (spd(), np.ones(N - 1)), {})),
    bad("sqmr", "x0 of another shape", "x0 has to have b's shape", lambda tmp: (ms.sqmr, (spd(), np.ones(N)), {"x0": np.ones((N, 2))})),
    bad("sqmr", "M of another size", "M has to be 12 x 12", lambda tmp: (ms.sqmr, (spd(), np.ones(N)), {"M": ms.ildl(spd(5))})),
    bad("sqmr", "`rtol` or `atol` not a number of at least 0", "rtol has to be a finite number of at least 0", lambda tmp: (ms.sqmr, (spd(), np.ones(N)), {"rtol": -1})),
    bad("sqmr", "`maxiter` negative or fractional", "maxiter has to be an integer from 0", lambda tmp: (ms.sqmr, (spd(), np.ones(N)), {"maxiter": 2.5})),
    bad("sqmr", "a callback that cannot be called", "callback has to be a function", lambda tmp: (ms.sqmr, (spd(), np.ones(N)), {"callback": 3})),
    fine("solve", "a singular Laplacian, `method=\"auto\"` or `\"parac\"`", "the solution of mean 0", lambda tmp: (ms.solve, (ms.graph_laplacian(spd()), RHS - RHS.mean()), {})),
    bad("solve", "no Laplacian, `method=\"parac\"`", "row 0 of L sums to -0.9", lambda tmp: (ms.solve, (spd() - 2 * sp.eye_array(N), np.ones(N)), {"method": "parac"}), ms.NotLaplacianError, row=0),
    bad("parac", "a row whose sum is negative", "row 6 of L sums to -2.9", lambda tmp: (ms.parac, (symmetric_entry(6, 7, -3.0),), {}), ms.NotLaplacianError, row=6),
    bad("parac", "mostly positive entries off the diagonal", "22 of 22 off-diagonal entries of L are positive, the first in row 0", lambda tmp: (ms.parac, (abs(spd()),), {}), ms.NotLaplacianError, row=0),
    bad("parac", "an adjacency matrix, without a diagonal", "22 of 22 off-diagonal entries of L are positive, the first in row 0", lambda tmp: (ms.parac, (abs(ms.graph_laplacian(spd()) - sp.diags_array(ms.graph_laplacian(spd()).diagonal())).tocoo(),), {}), ms.NotLaplacianError, row=0),
    bad("parac", "some positive entries off the diagonal", "2 of 24 off-diagonal entries of L are positive", lambda tmp: (ms.parac, (symmetric_entry(2, 9),), {}), ms.MeshsolveWarning),
    fine("parac", "a singular Laplacian, components, isolated rows, multi-edges", "factored; `P @ r` is 0 at the last vertex of a singular component", lambda tmp: (ms.parac, (sp.block_diag([ms.graph_laplacian(spd()), sp.csr_array((3, 3))]),), {})),
    bad("parac", "unknown ordering", "ordering has to be one of 'auto', 'rounds', 'amd'", lambda tmp: (ms.parac, (spd(),), {"ordering": "metis"})),
    bad("parac", "an ordering that is no permutation", "is no permutation: 0 occurs 2 times", lambda tmp: (ms.parac, (spd(), np.r_[0, 0, 2:N]), {})),
    bad("parac", "a random order of a graph with hubs", "gives a factor of no use", lambda tmp: (ms.parac, (hub(),), {"ordering": "random"})),
    bad("parac", "a random order of any other graph", "a random order costs iterations", lambda tmp: (ms.parac, (spd(),), {"ordering": "random"}), ms.MeshsolveWarning),
    bad("parac", "`samples` or `rhs` no integer from 1", "samples has to be an integer from 1 to 1000", lambda tmp: (ms.parac, (spd(),), {"samples": 0})),
    bad("parac", "another `dtype` than float64 or float32", "dtype has to be float64 or float32", lambda tmp: (ms.parac, (spd(),), {"dtype": int})),
    bad("parac", "`device=\"cuda\"` without a GPU or CuPy", "needs CuPy: pip install", lambda tmp: (without_cupy(ms.parac), (spd(),), {"device": "cuda"}), ms.DeviceUnavailableError),
    bad("parac", "unknown device", "device has to be one of 'auto', 'cpu', 'cuda'", lambda tmp: (ms.parac, (spd(),), {"device": "gpu"})),
    bad("cg", "b, x0 or M of another size", "b has to be (12,) or (12, k), not (11,)", lambda tmp: (ms.cg, (spd(), np.ones(N - 1)), {})),
    bad("cg", "NaN or infinity in b or x0", "b: row 7 holds nan", lambda tmp: (ms.cg, (spd(), np.where(np.arange(N) == 7, np.nan, 1.0)), {})),
    bad("cg", "M that is no operator", "M has to be a factor, a matrix or a LinearOperator", lambda tmp: (ms.cg, (spd(), np.ones(N)), {"M": "ilu"})),
    bad("cg", "`rtol`, `atol` or `maxiter` out of range", "rtol has to be a finite number of at least 0", lambda tmp: (ms.cg, (spd(), np.ones(N)), {"rtol": -1})),
    bad("cg", "a callback that cannot be called", "callback has to be a function", lambda tmp: (ms.cg, (spd(), np.ones(N)), {"callback": 3})),
    bad("cg", "a tolerance that is not reached", "maxiter reached", lambda tmp: (ms.cg, (spd(), RHS), {"maxiter": 1}), ms.ConvergenceWarning),
    bad("cg", "an indefinite A or M", "broke down", lambda tmp: (ms.cg, (-spd(), RHS), {}), ms.ConvergenceWarning),
    bad("cg", "a singular Laplacian, b not in its range", "b is not in the range", lambda tmp: (ms.cg, (ms.graph_laplacian(spd()), RHS), {}), ms.ConvergenceWarning),
    fine("cg", "complex b, no columns, x0", "its parts are solved as two columns", lambda tmp: (ms.cg, (spd(), np.ones(N) * 1j), {})),
    bad("order.nested_dissection", "unknown effort", "effort has to be one of", lambda tmp: (ms.order.nested_dissection, (spd(),), {"effort": "best"})),
    bad("order.auto", "unknown effort", "effort has to be one of", lambda tmp: (ms.order.auto, (spd(),), {"effort": "best"})),
    bad("order.nested_dissection", "`patch_size` below 16", "patch_size has to be an integer from 16", lambda tmp: (ms.order.nested_dissection, (spd(),), {"patch_size": 8})),
    bad("order.update", "an ordering without a tree", "with a tree", lambda tmp: (ms.order.update, (ms.order.natural(spd()), spd()), {})),
    bad("order.update", "a damaged separator tree", "the parent of node 0 has to be a later node", lambda tmp: (ms.order.update, (damaged_tree(), spd()), {})),
    bad("order.update", "a graph of another size", "the graph has 7", lambda tmp: (ms.order.update, (ms.order.nested_dissection(spd()), spd(7)), {})),
    bad("order.nested_dissection", "`device=\"cuda\"` without a GPU or CuPy", "needs CuPy: pip install", lambda tmp: (without_cupy(ms.order.nested_dissection), (spd(),), {"device": "cuda"}), ms.DeviceUnavailableError),
    bad("order.nested_dissection", "unknown device", "device has to be one of 'auto', 'cpu', 'cuda'", lambda tmp: (ms.order.nested_dissection, (spd(),), {"device": "gpu"})),
    fine("order.amd", "an unsymmetric pattern", "the pattern of A + Aᵀ counts", lambda tmp: (ms.order.amd, (entry(0, 9, 1.0),), {})),
    bad("Mesh", "vertices of two columns", "vertices have to be (n, 3)", lambda tmp: (ms.Mesh, (np.zeros((3, 2)), [[0, 1, 2]]), {})),
    bad("Mesh", "no vertices", "at least one vertex", lambda tmp: (ms.Mesh, (np.zeros((0, 3)), np.zeros((0, 3), int)), {})),
    bad("Mesh", "NaN, infinity or a coordinate above 1e70", "vertex 1 is at", lambda tmp: (ms.Mesh, ([[0, 0, 0], [0, np.nan, 0], [1, 0, 0]], [[0, 1, 2]]), {})),
    bad("Mesh", "complex, text or object vertices", "real numbers", lambda tmp: (ms.Mesh, (np.eye(3) * 1j, [[0, 1, 2]]), {})),
    bad("Mesh", "masked vertices or faces", "masked", lambda tmp: (ms.Mesh, (np.ma.masked_equal(np.eye(3), 1), [[0, 1, 2]]), {})),
    bad("Mesh", "a vertex index out of range, also 2^32", "face 1 names vertex 4294967296", lambda tmp: (ms.Mesh, (np.eye(3), np.array([[0, 1, 2], [0, 1, 2**32]])), {})),
    bad("Mesh", "a negative vertex index", "face 0 names vertex -1", lambda tmp: (ms.Mesh, (np.eye(3), [[0, 1, -1]]), {})),
    bad("Mesh", "faces of four corners", "faces have to be (m, 3)", lambda tmp: (ms.Mesh, (np.eye(3), [[0, 1, 2, 0]]), {})),
    bad("Mesh", "fractional or bool faces", "faces have to be integers", lambda tmp: (ms.Mesh, (np.eye(3), [[0.0, 1.0, 2.0]]), {})),
    bad("Mesh", "a face with a repeated corner", "1 face with a repeated corner was dropped", lambda tmp: (ms.Mesh, (np.eye(3), [[0, 1, 1], [0, 1, 2]]), {}), ms.MeshsolveWarning),
    fine("Mesh", "non-manifold, flipped, zero-area or no faces; unreferenced vertices", "is kept as it is", lambda tmp: (ms.Mesh, (np.zeros((5, 3)), [[0, 1, 2], [1, 0, 2], [0, 1, 3]]), {})),
    bad("Mesh", "one argument that is no mesh", "a ndarray has no vertices and faces", lambda tmp: (ms.Mesh, (np.eye(3),), {})),
    bad("Mesh", "the name of a file", "load_mesh reads files", lambda tmp: (ms.Mesh, ("scan.ply",), {})),
    bad("Mesh.boundary_loops", "a boundary that meets an edge of more than two faces", "does not close at vertex 1", lambda tmp: (book().boundary_loops, (), {})),
    fine("Mesh.boundary_loops", "several fans at a vertex, faces that are not oriented alike", "each fan is passed by itself, a loop goes as the face of its first edge", lambda tmp: (ms.Mesh(np.zeros((6, 3)), [[0, 1, 2], [0, 3, 4], [5, 4, 3]]).boundary_loops, (), {})),
    bad("Mesh.from_trimesh", "a trimesh.Scene", "pass scene.to_geometry()", lambda tmp: (ms.Mesh.from_trimesh, (types.SimpleNamespace(geometry={}, to_geometry=None),), {})),
    bad("Mesh.from_trimesh", "anything else", "not a trimesh.Trimesh", lambda tmp: (ms.Mesh.from_trimesh, ("bunny",), {})),
    bad("Mesh.from_meshio", "anything else", "not a meshio.Mesh", lambda tmp: (ms.Mesh.from_meshio, ("bunny",), {})),
    bad("Mesh.from_meshio", "volume cells", "cells of the kind 'tetra' are no surface", lambda tmp: (ms.Mesh.from_meshio, (tetrahedra(),), {})),
    bad("Mesh.with_vertices", "another number of vertices", "42 vertices are needed, not 3", lambda tmp: (sphere().with_vertices, (np.eye(3),), {})),
    bad("Mesh.save", "a vertex that was changed to NaN", "vertex 3 is at", lambda tmp: (nan_sphere().save, (tmp / "mesh.ply",), {})),
    *[bad(name, "a mesh with a vertex that was changed to NaN", "vertex 3 is at", lambda tmp, f=function: (f, (nan_sphere(),), {}))
      for name, function in [("cotan_laplacian", ms.cotan_laplacian), ("mass_matrix", ms.mass_matrix), ("operators.gradient", ms.operators.gradient),
                             ("operators.divergence", ms.operators.divergence), ("apps.mcf", ms.apps.mcf), ("apps.smooth", ms.apps.smooth)]],
    bad("Mesh.save", "an unknown format", "unknown mesh format", lambda tmp: (sphere().save, (tmp / "mesh.xyz",), {})),
    bad("Mesh.save", "a folder that does not exist", "cannot be written", lambda tmp: (sphere().save, (tmp / "no" / "mesh.obj",), {})),
    bad("Mesh.save", "the name of a folder", "cannot be written", lambda tmp: ((tmp / "folder.obj").mkdir() or sphere().save, (tmp / "folder.obj",), {})),
    bad("Mesh.save", "no file name", "a file name has to be", lambda tmp: (sphere().save, (3,), {})),
    bad("load_mesh", "a file that does not exist", "no such file", lambda tmp: (ms.load_mesh, (tmp / "mesh.obj",), {})),
    bad("load_mesh", "a folder", "cannot be read", lambda tmp: ((tmp / "folder.obj").mkdir() or ms.load_mesh, (tmp / "folder.obj",), {})),
    bad("load_mesh", "an unknown format", "unknown mesh format '.xyz'", lambda tmp: (ms.load_mesh, (written(tmp, "mesh.xyz", "0 0 0"),), {})),
    bad("load_mesh", "no file name, a null character", "is not a file name", lambda tmp: (ms.load_mesh, ("a\0b.obj",), {})),
    bad("load_mesh", "an OBJ with a broken line", "mesh.obj:2: ", lambda tmp: (ms.load_mesh, (written(tmp, "mesh.obj", "v 0 0 0\nv 1 x 0\n"),), {})),
    bad("load_mesh", "an OBJ that names a vertex it does not have", "mesh.obj:4: ", lambda tmp: (ms.load_mesh, (written(tmp, "mesh.obj", "v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 4\n"),), {})),
    bad("load_mesh", "an empty file", "mesh.obj: ", lambda tmp: (ms.load_mesh, (written(tmp, "mesh.obj", ""),), {})),
    *[bad("load_mesh", f"a {suffix} file cut in half", f"half{suffix}", lambda tmp, s=suffix: (ms.load_mesh, (half(tmp, s),), {}))
      for suffix in (".obj", ".ply", ".off", ".stl", ".glb", ".obj.gz", ".ply.gz")],
    bad("load_mesh", "a glTF that requires Draco compression", "requires the extension KHR_draco_mesh_compression", lambda tmp: (
        ms.load_mesh, (written(tmp, "mesh.gltf", '{"extensionsRequired": ["KHR_draco_mesh_compression"]}'),), {})),
    bad("load_mesh", "a gzip file that is spoiled", "cannot be read", lambda tmp: (ms.load_mesh, (spoiled_gzip(tmp),), {})),
    *[bad(name, "not a mesh", "has to be a meshsolve.Mesh", lambda tmp, f=function: (f, (np.eye(3),), {}))
      for name, function in {"cotan_laplacian": ms.cotan_laplacian, "mass_matrix": ms.mass_matrix, "operators.gradient": ms.operators.gradient,
                             "operators.divergence": ms.operators.divergence, "apps.mcf": ms.apps.mcf,
                             "apps.smooth": functools.partial(ms.apps.smooth, strength=1)}.items()],
    bad("cotan_laplacian", "the name of a file", "load_mesh reads files", lambda tmp: (ms.cotan_laplacian, ("scan.ply",), {})),
    bad("cotan_laplacian(intrinsic_delaunay=True)", "a non-manifold mesh", "needs a manifold mesh", lambda tmp: (ms.cotan_laplacian, (book(),), {"intrinsic_delaunay": True})),
    fine("cotan_laplacian", "slivers, zero-area triangles, non-manifold edges", "finite weights", lambda tmp: (ms.cotan_laplacian, (book(),), {})),
    bad("graph_laplacian(weights=\"values\")", "weights that are not symmetric", "W[7, 6] is 1, W[6, 7] is 3", lambda tmp: (ms.graph_laplacian, (adjacency((6, 7, 3.0)),), {"weights": "values"}), Unsymmetric, row=7, column=6),
    bad("graph_laplacian(weights=\"values\")", "a negative weight, as a Laplacian has", "W[0, 1] is -1: weights have to be at least 0", lambda tmp: (ms.graph_laplacian, (spd(),), {"weights": "values"})),
    bad("graph_laplacian(weights=\"values\")", "NaN or infinity", "row 6, column 7 holds nan", lambda tmp: (ms.graph_laplacian, (adjacency((6, 7, np.nan)),), {"weights": "values"})),
    bad("graph_laplacian(weights=\"values\")", "weights whose sum overflows", "vertex 6 sum to infinity", lambda tmp: (ms.graph_laplacian, (adjacency((6, 7, 1.7e308), (7, 6, 1.7e308), (6, 5, 1.7e308), (5, 6, 1.7e308)),), {"weights": "values"})),
    bad("graph_laplacian(weights=\"values\")", "a mesh, which has no weights", "a mesh has none", lambda tmp: (ms.graph_laplacian, (sphere(),), {"weights": "values"})),
    fine("graph_laplacian(weights=\"values\")", "loops on the diagonal, duplicates, stored zeros", "loops cancel, duplicates are summed, zeros stay", lambda tmp: (ms.graph_laplacian, (adjacency((6, 6, 5.0), (2, 3, 0.0), (3, 2, 0.0)),), {"weights": "values"})),
    bad("graph_laplacian", "a matrix with entries in one direction alone: a directed graph", "2 entries without a mirror entry", lambda tmp: (ms.graph_laplacian, (sp.coo_array(([1.0, 1.0], ([0, 2], [1, 5])), shape=(N, N)),), {}), ms.MeshsolveWarning),
    bad("graph_laplacian(weights=)", "an unknown word", "weights has to be one of 'unit', 'values'", lambda tmp: (ms.graph_laplacian, (spd(),), {"weights": "distance"})),
    bad("graph_laplacian(weights=)", "not one for each edge of a mesh", "120 real numbers, one for each of mesh.edges", lambda tmp: (ms.graph_laplacian, (sphere(), np.ones(119)), {})),
    bad("graph_laplacian(weights=)", "a negative or infinite weight of an edge", "edge 3, from vertex 0 to 15, has inf", lambda tmp: (ms.graph_laplacian, (sphere(), np.where(np.arange(120) == 3, np.inf, 1.0)), {})),
    bad("graph_laplacian(weights=)", "an array for a matrix", "those of a matrix are its values", lambda tmp: (ms.graph_laplacian, (spd(), np.ones(11)), {})),
    fine("operators.gradient", "slivers, zero-area triangles, non-manifold edges", "finite, with the energy of the Laplacian", lambda tmp: (ms.operators.gradient, (book(),), {})),
    bad("mass_matrix", "unknown kind", "kind has to be one of", lambda tmp: (ms.mass_matrix, (sphere(), "full"), {})),
    bad("mass_matrix", "`device=\"cuda\"` without a GPU or CuPy", "needs CuPy: pip install", lambda tmp: (without_cupy(ms.mass_matrix), (sphere(),), {"device": "cuda"}), ms.DeviceUnavailableError),
    bad("mass_matrix", "unknown device", "device has to be one of 'auto', 'cpu', 'cuda'", lambda tmp: (ms.mass_matrix, (sphere(),), {"device": "gpu"})),
    bad("cotan_laplacian", "`device=\"cuda\"` without a GPU or CuPy", "needs CuPy: pip install", lambda tmp: (without_cupy(ms.cotan_laplacian), (sphere(),), {"device": "cuda"}), ms.DeviceUnavailableError),
    bad("cotan_laplacian", "unknown device", "device has to be one of 'auto', 'cpu', 'cuda'", lambda tmp: (ms.cotan_laplacian, (sphere(),), {"device": "gpu"})),
    bad("cotan_laplacian", "`device=\"cuda\"` with `intrinsic_delaunay`", "on the CPU only", lambda tmp: (ms.cotan_laplacian, (sphere(), True), {"device": "cuda"}), ms.DeviceUnavailableError),
    bad("PatchMesh", "`patch_size` below 1", "patch_size has to be an integer from 1", lambda tmp: (ms.PatchMesh, (sphere(), 0), {})),
    bad("PatchMesh", "a negative or fractional seed", "seed has to be an integer", lambda tmp: (ms.PatchMesh, (sphere(),), {"seed": 0.5})),
    bad("PatchMesh.patch", "a number out of range", "there is no patch 99", lambda tmp: (ms.PatchMesh(sphere()).patch, (99,), {})),
    bad("PatchMesh.query", "unknown query", "there is no query 'VX'", lambda tmp: (ms.PatchMesh(sphere()).query, ("VX",), {})),
    bad("PatchMesh.query", "faces of a pattern", "needs faces", lambda tmp: (ms.PatchMesh(spd()).query, ("VF",), {})),
    bad("PatchMesh.query", "`device=\"cuda\"` without a GPU or CuPy", "needs CuPy: pip install", lambda tmp: (without_cupy(ms.PatchMesh(sphere()).query), ("VV", "cuda"), {}), ms.DeviceUnavailableError),
    bad("PatchMesh", "`device=\"cuda\"` without a GPU or CuPy", "needs CuPy: pip install", lambda tmp: (without_cupy(ms.PatchMesh), (sphere(),), {"device": "cuda"}), ms.DeviceUnavailableError),
    bad("PatchMesh", "unknown device", "device has to be one of 'auto', 'cpu', 'cuda'", lambda tmp: (ms.PatchMesh, (sphere(),), {"device": "gpu"})),
    bad("apps.mcf", "`steps` below 1", "steps has to be an integer from 1", lambda tmp: (ms.apps.mcf, (sphere(),), {"steps": 0})),
    bad("apps.mcf", "`dt` not positive", "dt has to be a finite number above 0", lambda tmp: (ms.apps.mcf, (sphere(),), {"dt": 0.0})),
    bad("apps.mcf", "a callback that cannot be called", "callback has to be a function", lambda tmp: (ms.apps.mcf, (sphere(),), {"callback": 3})),
    bad("apps.mcf", "a mesh without area", "no face with an area", lambda tmp: (ms.apps.mcf, (ms.Mesh(np.zeros((3, 3)), [[0, 1, 2]]),), {})),
    bad("apps.mcf", "a step in which the surface vanishes", "shrank to nothing in step 1", lambda tmp: (ms.apps.mcf, (sphere(),), {"dt": 1e20}), ms.MeshsolveWarning),
    bad("apps.mcf", "`device=\"cuda\"` without a GPU or CuPy", "needs CuPy: pip install", lambda tmp: (without_cupy(ms.apps.mcf), (sphere(),), {"device": "cuda"}), ms.DeviceUnavailableError),
    bad("apps.mcf", "unknown device", "device has to be one of 'auto', 'cpu', 'cuda'", lambda tmp: (ms.apps.mcf, (sphere(),), {"device": "gpu"})),
    bad("apps.smooth", "`device=\"cuda\"` without a GPU or CuPy", "needs CuPy: pip install", lambda tmp: (without_cupy(ms.apps.smooth), (sphere(),), {"device": "cuda"}), ms.DeviceUnavailableError),
    bad("apps.smooth", "unknown device", "device has to be one of 'auto', 'cpu', 'cuda'", lambda tmp: (ms.apps.smooth, (sphere(),), {"device": "gpu"})),
    bad("apps.smooth", "a negative strength", "strength has to be a finite number of at least 0", lambda tmp: (ms.apps.smooth, (sphere(), -1), {})),
    bad("apps.smooth", "another order than 1 or 2", "order has to be one of 1, 2", lambda tmp: (ms.apps.smooth, (sphere(), 1, 3), {})),
    bad("operators.Assembly", "a place outside the matrix", "rows[1] is 5, outside 0..2", lambda tmp: (ms.operators.Assembly, ([0, 5], [0, 1], 3), {})),
    bad("operators.Assembly", "values of another shape", "values has to be (1,) numbers", lambda tmp: (ms.operators.Assembly([0], [0], 3), ([1.0, 2.0],), {})),
    bad("operators.NormalEquations", "an entry that the planned J has not", "J has an entry at row 0, column 1", lambda tmp: (ms.operators.NormalEquations(np.eye(2)), (np.ones((2, 2)),), {})),
    bad("operators.NormalEquations", "weights of another length", "weights has to be (2,) real numbers", lambda tmp: (ms.operators.NormalEquations(np.eye(2)), (np.eye(2), [1.0]), {})),
    bad("apps.render", "another extension than .png", "written as .png", lambda tmp: (ms.apps.render, (tmp / "a.jpg", sphere()), {})),
    bad("apps.render", "values of another length, or none that is finite", "values has to be one number for each of", lambda tmp: (ms.apps.render, (tmp / "a.png", sphere()), {"values": [1.0]})),
    bad("apps.render", "an unknown colormap", "colormap has to be one of matplotlib's", lambda tmp: (ms.apps.render, (tmp / "a.png", sphere()), {"values": sphere().vertices[:, 0], "colormap": "plain"})),
    bad("apps.render", "a size outside 300..4000", "size has to be an integer from 300 to 4000", lambda tmp: (ms.apps.render, (tmp / "a.png", sphere()), {"size": 10})),
    bad("apps.view", "an unknown `show`", "show has to be one of 'plain', 'patches'", lambda tmp: (ms.apps.view, (sphere(),), {"show": "all"})),
    bad("apps.view", "a mesh without faces", "there is nothing to see", lambda tmp: (ms.apps.view, (ms.Mesh(np.eye(3), []),), {})),
    bad("apps.view", "a `screenshot` that is no .png", "pictures are written as .png", lambda tmp: (ms.apps.view, (sphere(),), {"screenshot": tmp / "a.jpg"})),
    bad("apps.view", "a `turntable` in a folder that does not exist", "no folder can be made there", lambda tmp: (ms.apps.view, (sphere(),), {"turntable": tmp / "no" / "turn"})),
    bad("apps.view", "a picture of the separators of a mesh that has none", "no separators: meshes below 5,000 vertices", lambda tmp: (ms.apps.view, (sphere(), "separators", tmp / "a.png"), {})),
    bad("apps.view", "fewer than two `frames`", "frames has to be an integer from 2", lambda tmp: (ms.apps.view, (sphere(),), {"frames": 1})),
    bad("apps.view", "no polyscope", "the viewer needs polyscope", lambda tmp: (without_polyscope(ms.apps.view), (sphere(),), {}), ms.DeviceUnavailableError),
    *[bad("apps.circuit.read", given, says, lambda tmp, t=text: (ms.apps.circuit.read, (written(tmp, "deck.sp", t),), {})) for given, says, text in [
        ("an empty file", "deck.sp:1: the file is empty", ""),
        ("a file that is no text", "deck.sp:1: this is not a text file", "a\0b\n.end\n"),
        ("a `.subckt` without `.ends`", "deck.sp:2: .subckt s has no .ends: was the file cut?", "title\n.subckt s a\nR1 a 0 1\n.end\n"),
        ("a value that is no number", "deck.sp:2: 'abc' is neither a number nor a parameter", "title\nR1 a 0 abc\n.end\n"),
        ("elements of other kinds (M, Q, S, ...), each with its number and first line", "deck.sp:2: the deck has what is not supported: Q elements (bipolar transistors): 1, the first is 'q1' in ", "title\nQ1 a b c mod\n.end\n"),
        ("a name used twice", "deck.sp:3: there is already an element 'r1', in", "title\nR1 a 0 1\nR1 a 0 2\n.end\n"),
        ("a model, subcircuit, source or parameter that is not there", "deck.sp:2: there is no model 'dm'", "title\nD1 a 0 dm\n.end\n"),
        ("files that include each other, subcircuits or parameters that contain themselves", "deck.sp:2: ", "title\n.include deck.sp\n.end\n"),
        ("an option without a value, several temperatures", "deck.sp:2: .temp takes one temperature", "title\n.temp 20 50\nR1 a 0 1\n.end\n"),
        ("a control line that is not supported, each kind with its first line", "deck.sp:3: the deck has what is not supported: .if lines: 1, the first is '.if' in ", "title\nR1 a 0 1\n.if (1)\n.endif\n.end\n"),
        ("no element", "no element between two nodes", "title\n.end\n"),
    ]],
    bad("apps.circuit.read", "no `.end`", "deck.sp:2: the file ends without .end", lambda tmp: (ms.apps.circuit.read, (written(tmp, "deck.sp", "title\nR1 a 0 1\n"),), {}), ms.MeshsolveWarning),
    bad("apps.circuit.read", "a deck cut within a line", "deck.sp:2: the file ends within a line and without .end: was it cut?", lambda tmp: (ms.apps.circuit.read, (written(tmp, "deck.sp", "title\nR1 a 0 1.2"),), {}), ms.MeshsolveWarning),
    bad("apps.circuit.read", "a first line, the title in SPICE, that reads as an element", "is taken as the element", lambda tmp: (ms.apps.circuit.read, (written(tmp, "deck.sp", "R1 a 0 1\nR2 a 0 1\n.end\n"),), {}), ms.MeshsolveWarning),
    bad("apps.circuit.read", "a file that does not exist", "no such file", lambda tmp: (ms.apps.circuit.read, (tmp / "none.sp",), {})),
    bad("apps.circuit.read", "a deck instead of its path", "this text has line breaks", lambda tmp: (ms.apps.circuit.read, ("title\nR1 a 0 1\n.end\n",), {})),
    bad("apps.circuit.parse", "a parameter that the deck does not have", "there is no parameter 'p'", lambda tmp: (ms.apps.circuit.parse, ("title\nR1 a 0 1\n.end\n",), {"params": {"p": 1.0}})),
    bad("Circuit.with_values", "an unknown element", "there is no element 'r9'", lambda tmp: (circuit(tmp).with_values, ({"r9": 1.0},), {})),
    bad("Circuit.with_values", "NaN, infinity, text", "the value of r1 has to be a finite number", lambda tmp: (circuit(tmp).with_values, ({"r1": np.nan},), {})),
    bad("Circuit.with_values", "a resistor of 0 ohm", "r1 cannot be 0", lambda tmp: (circuit(tmp).with_values, ({"r1": 0.0},), {})),
    bad("Circuit.op", "an unknown node", "there is no node 'b'", lambda tmp: (circuit(tmp).op, (), {"nodes": ["b"]})),
    bad("Circuit.op", "a node without a path for a direct current to ground", "deck.sp:3: node b has no path", lambda tmp: (circuit(tmp, "R1 a 0 1\nC1 a b 1").op, (), {}), ms.SingularMatrixError, index=1),
    bad("Circuit.op", "a loop of voltage sources and inductors", "v2 and v1 form a loop", lambda tmp: (circuit(tmp, "V1 a 0 1\nV2 a 0 1").op, (), {}), ms.SingularMatrixError, index=0),
    bad("Circuit.op", "no node is ground", "no element is connected to ground", lambda tmp: (circuit(tmp, "V1 a b 1\nR1 a b 1").op, (), {})),
    bad("Circuit.transient", "a time that is not positive", "tstep has to be a finite number above 0", lambda tmp: (circuit(tmp).transient, (0, 1), {})),
    bad("Circuit.transient", "an unknown method", "method has to be one of", lambda tmp: (circuit(tmp).transient, (1, 2), {"method": "gear"})),
    bad("Circuit.transient", "an unknown node", "there is no node 'b'", lambda tmp: (circuit(tmp).transient, (1, 2), {"nodes": ["b"]})),
    bad("Circuit.ac", "frequencies that are not positive or do not ascend", "fstart has to be a finite number above 0", lambda tmp: (circuit(tmp).ac, ("dec", 1, 0, 1), {})),
    bad("Circuit.dc", "an unknown source", "there is no source 'v9'", lambda tmp: (circuit(tmp).dc, ("v9", 0, 1, 1), {})),
    bad("Circuit.run", "an analysis that the deck does not have", "the deck has no .ac line", lambda tmp: (circuit(tmp).run, ("ac",), {})),
    bad("showing_progress", "what cannot be called", "tell has to be a function", lambda tmp: (lambda tell: ms.showing_progress(tell).__enter__(), (3,), {})),
    bad("datasets.load_matrix", "no such file, or a folder", "there is no such file", lambda tmp: (ms.datasets.load_matrix, (tmp / "none.mtx",), {})),
    bad("datasets.load_matrix", "a suffix that is no matrix's", "unknown matrix format", lambda tmp: (ms.datasets.load_matrix, (written(tmp, "A.txt", "1"),), {})),
    bad("datasets.load_matrix", "a file cut in half", "A.mtx:", lambda tmp: (ms.datasets.load_matrix, (written(tmp, "A.mtx", "%%MatrixMarket matrix coordinate real general\n2 2 2\n1 1 1\n"),), {})),
    bad("datasets.*", "a size that is no positive integer", "nx has to be an integer from 1", lambda tmp: (ms.datasets.grid2d, (0, 5), {})),
    bad("datasets.*", "more rows than 2^31 - 2", "at most 2147483646", lambda tmp: (ms.datasets.grid2d, (10**6, 10**6), {})),
    bad("datasets.*", "more than the memory holds", "GiB are available", lambda tmp: (ms.datasets.grid2d, (46_000, 46_000), {}), ms.OutOfMemoryError),
    bad("datasets.*", "unknown kind or boundary", "kind has to be one of", lambda tmp: (ms.datasets.grid3d, (4, "random"), {})),
    bad("datasets.*", "a seed that is no integer of at least 0", "seed has to be an integer", lambda tmp: (ms.datasets.delaunay, (10, -1), {})),
    bad("datasets.kkt", "more constraints than unknowns", "cannot be independent", lambda tmp: (ms.datasets.kkt, (3, 4), {})),
    bad("datasets.icosphere", "k above 11", "k has to be an integer from 0 to 11", lambda tmp: (ms.datasets.icosphere, (12,), {})),
]


def symmetric_entry(i, j, value=0.1):
    return sp.csr_array(spd() + sp.coo_array(([value, value], ([i, j], [j, i])), shape=(N, N)))


def adjacency(*entries):
    """A path of weights 1 with some entries written over."""
    W = spd().tolil()
    W.setdiag(0)
    W = abs(W).tolil()
    for i, j, value in entries:
        W[i, j] = value
    return sp.csr_array(W)


def hub(n=400):
    edge = np.ones(n - 1)
    W = sp.coo_array((edge, (np.zeros(n - 1, int), np.arange(1, n))), (n, n))
    return ms.graph_laplacian(W + W.T)


def circuit(tmp, text="V1 a 0 1\nR1 a 0 1"):
    return ms.apps.circuit.read(written(tmp, "deck.sp", f"title\n{text}\n.end\n"))


def tetrahedra():
    """What a meshio.Mesh with a volume looks like."""
    cell = types.SimpleNamespace(type="tetra", data=np.array([[0, 1, 2, 3]]))
    return types.SimpleNamespace(points=np.eye(4, 3), cells=[cell], cells_dict={"tetra": cell.data})


def book():
    """Three pages on one spine, one of them a line."""
    return ms.Mesh([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [0.5, 0, 0]], [[0, 1, 2], [0, 1, 3], [0, 1, 4]])


def table():
    lines = dict.fromkeys([row.line() for row, _ in matrix_rows()] + [row.line() for row in ROWS])
    return "| function | given | answer | the message says, or what happens |\n|---|---|---|---|\n" + "\n".join(lines) + "\n"


# ---- what holds for every row -----------------------------------------------------------------------------------------


def contents(thing):
    """Every array inside an argument, copied."""
    if isinstance(thing, np.ndarray):
        return [np.array(thing, copy=True, subok=True)]
    if sp.issparse(thing):
        names = {"coo": ("data", "row", "col")}.get(thing.format, ("data", "indices", "indptr"))
        return [np.array(getattr(thing, name)) for name in names]
    if isinstance(thing, ms.Mesh):
        return [thing.vertices.copy(), thing.faces.copy()]
    if isinstance(thing, (list, tuple)):
        return [c for part in thing for c in contents(part)]
    return [c for part in thing.values() for c in contents(part)] if isinstance(thing, dict) else []


RHS = np.arange(1.0, N + 1)
EARLIER, EARLIER_LU, EARLIER_LDL, EARLIER_SCHUR = SHARED.solve(RHS), SHARED_LU.solve(RHS), SHARED_LDL.solve(RHS), SHARED_SCHUR.matrix


def check(row, tmp):
    function, args, keywords = row.call(tmp)
    before, files = contents((args, keywords)), sorted(tmp.rglob("*"))
    if row.error is None:
        function(*args, **keywords)
    else:
        with pytest.raises(row.error, match=re.escape(row.says)) as caught:
            function(*args, **keywords)
        assert type(caught.value) is row.error
        for name, value in row.where.items():
            assert getattr(caught.value, name) == value if value is not None else getattr(caught.value, name) in range(N)
    after = contents((args, keywords))
    assert len(before) == len(after) and all(np.array_equal(a, b, equal_nan=a.dtype.kind in "fc") for a, b in zip(before, after))
    assert sorted(tmp.rglob("*")) == files
    assert np.array_equal(SHARED.solve(RHS), EARLIER) and np.array_equal(SHARED_LU.solve(RHS), EARLIER_LU)
    assert np.array_equal(SHARED_LDL.solve(RHS), EARLIER_LDL) and np.array_equal(SHARED_SCHUR.matrix, EARLIER_SCHUR)


EXPANDED = list(matrix_rows())


@pytest.mark.parametrize("row, name", EXPANDED, ids=[f"{name}: {row.given}" for row, name in EXPANDED])
def test_matrices(row, name, tmp_path):
    check(row, tmp_path)


@pytest.mark.parametrize("row", ROWS, ids=[f"{row.function}: {row.given}" for row in ROWS])
def test_table(row, tmp_path):
    check(row, tmp_path)


def test_the_document_holds_this_table():
    text = DOCUMENT.read_text()
    assert text[text.index(BEGIN) + len(BEGIN):text.index(END)] == table(), "run python tests/test_hostile.py"


def test_every_class_of_error_is_in_the_table():
    raised = {row.error for row, _ in EXPANDED} | {row.error for row in ROWS}
    promised = {getattr(ms, name) for name in ms.__all__ if isinstance(getattr(ms, name), type) and issubclass(getattr(ms, name), ms.MeshsolveError)}
    later = {ms.MeshsolveError}                             # the class of them all
    assert promised - later <= raised


# ---- memory, files ------------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:.*collapsed")
@pytest.mark.parametrize("call", [lambda: ms.cholesky(spd(400)), lambda: ms.analyze(spd(400)).factor(spd(400)),
                                  lambda: ms.solve(spd(400), np.ones(400)), lambda: ms.parac(spd(400)), lambda: ms.apps.mcf(sphere()), lambda: ms.datasets.delaunay(50)])
def test_too_little_memory_is_said_before_it_is_taken(call, monkeypatch):
    monkeypatch.setattr(memory, "NEGLIGIBLE", 0)
    monkeypatch.setattr(memory, "available_memory", lambda: 1000)
    with pytest.raises(ms.OutOfMemoryError, match="GiB are available"):
        call()
    with pytest.raises(MemoryError):                # the built-in class catches it as well
        call()
    monkeypatch.undo()
    call()


@pytest.mark.parametrize("suffix", [".obj", ".ply", ".off", ".stl", ".glb", ".obj.gz"])
def test_a_write_that_fails_midway_leaves_the_old_file(suffix, tmp_path, monkeypatch):
    path = tmp_path / f"mesh{suffix}"
    path.write_bytes(b"the old file")

    def full(self, content):
        with open(self, "wb") as f:
            f.write(content[:20])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pathlib.Path, "write_bytes", full)
    with pytest.raises(OSError, match="No space left"):
        sphere().save(path)
    assert path.read_bytes() == b"the old file" and list(tmp_path.iterdir()) == [path]


def test_a_picture_that_fails_midway_leaves_nothing(tmp_path, monkeypatch):
    def broken(part, panels, captions, title, scale):
        part.write_bytes(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(sys.modules["meshsolve.apps.render"], "_write", broken)
    with pytest.raises(KeyboardInterrupt):
        ms.apps.render(tmp_path / "a.png", sphere())
    assert not list(tmp_path.iterdir())


if __name__ == "__main__":
    text = DOCUMENT.read_text()
    DOCUMENT.write_text(text[:text.index(BEGIN) + len(BEGIN)] + table() + text[text.index(END):])
