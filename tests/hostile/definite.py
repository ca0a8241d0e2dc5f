"""Cholesky, Schur complements, and factors: refactor and solve."""

import copy
import functools

import numpy as np
import scipy.sparse as sp

import meshsolve as ms
from hostile.material import RHS, SHARED, SHARED_SCHUR, N, edited, entry, factor, spd, sphere, symmetric_entry, used_within, without_cupy
from hostile.row import Indefinite, Pattern, bad, fine
from meshsolve.errors import FactorInUseError


def solving(*args, **keywords):
    return lambda tmp: (factor().solve, args, keywords)


def with_A(make):
    return lambda tmp: (ms.cholesky, (make(),), {})


def keeping(rows, A=None, **keywords):
    return lambda tmp: (ms.schur_complement, (spd() if A is None else A(), rows), keywords)


FIXED, SCHUR = "cholesky(fixed=)", "schur_complement"
ROWS = [
    fine("cholesky", "unsorted or duplicated entries", "duplicates are summed", with_A(lambda: sp.coo_array((np.repeat(spd().data / 2, 2), np.repeat(spd().tocoo().coords, 2, axis=1)[:, ::-1])))),
    fine("cholesky", "spare room behind the last row", "is not read", with_A(lambda: edited(data=lambda x: np.append(x, np.nan), indices=lambda x: np.append(x, 10**6).astype(np.int32)))),
    fine("cholesky", "several components, empty off-diagonals", "factored one by one", with_A(lambda: sp.block_diag([spd(), spd(), np.eye(3)]).tocsr())),
    fine("cholesky", "bool, int8, float16, float32, longdouble, big-endian", "becomes float64", with_A(lambda: np.eye(3, dtype=np.float16))),
    fine("cholesky", "numpy.matrix, Fortran order, strided or read-only arrays", "is taken as it is", with_A(lambda: np.asfortranarray(spd().toarray()).view(np.matrix))),
    bad("cholesky", "unknown ordering", "ordering must be one of auto, nd", lambda tmp: (ms.cholesky, (spd(),), {"ordering": "metis"})),
    bad("cholesky", "an ordering that is no permutation", "is no permutation: 0 occurs 2 times", lambda tmp: (ms.cholesky, (spd(), np.r_[0, 0, 2:N]), {})),
    bad("cholesky", "an ordering with values out of range", "outside 0..11: 12 at 11", lambda tmp: (ms.cholesky, (spd(), np.arange(1, N + 1)), {})),
    bad("cholesky", "an ordering of another size", "the matrix has 12", lambda tmp: (ms.cholesky, (spd(), ms.order.amd(spd(5))), {})),
    *[bad(name, "an `Ordering` that holds no permutation", "ordering has values outside 0..11", lambda tmp, f=function: (f, (ms.graph_laplacian(spd()),), {"ordering": ms.Ordering(np.full(N, 10**6, np.int32), "given")}))
      for name, function in {"cholesky": functools.partial(ms.cholesky, pin=True), "analyze": ms.analyze, "lu": ms.lu, "ildl": ms.ildl, "parac": ms.parac}.items()],
    bad("F.solve(wanted=)", "a row out of range", "wanted has row numbers outside 0..11: 12", solving(RHS, wanted=[N])),
    bad("F.solve(wanted=)", "a triangular system, or a factor with `pin=True` or in single precision", "wanted= is for A x = b with a factor on the host", solving(RHS, "L", wanted=[0])),
    bad("cholesky", "a mesh of another size", "A has 12 rows, the mesh 42 vertices", lambda tmp: (ms.cholesky, (spd(),), {"mesh": sphere()})),
    bad("cholesky", "`device=\"cuda\"` without CuPy or a GPU", "needs CuPy: pip install", lambda tmp: (without_cupy(ms.cholesky), (spd(),), {"device": "cuda"}), ms.DeviceUnavailableError),
    bad("cholesky", "`backend=\"cudss\"` without CuPy or a GPU", "needs CuPy: pip install", lambda tmp: (without_cupy(ms.cholesky), (spd(),), {"backend": "cudss"}), ms.DeviceUnavailableError),
    bad("cholesky", "`backend=\"cudss\"` on the CPU", "needs device=\"cuda\"", lambda tmp: (ms.cholesky, (spd(),), {"device": "cpu", "backend": "cudss"})),
    bad("analyze", "`device=\"cuda\"` without a GPU or CuPy", "needs CuPy: pip install", lambda tmp: (without_cupy(ms.analyze), (spd(),), {"device": "cuda"}), ms.DeviceUnavailableError),
    bad("analyze", "unknown device", "device must be one of 'auto', 'cpu', 'cuda'", lambda tmp: (ms.analyze, (spd(),), {"device": "gpu"})),
    bad("cholesky", "an unknown `device`", "device must be one of", lambda tmp: (ms.cholesky, (spd(),), {"device": "gpu"})),
    bad("cholesky", "unknown device, backend or precision", "must be one of", lambda tmp: (ms.cholesky, (spd(),), {"device": "gpu"})),
    bad("cholesky", "unknown `memory`", "memory must be one of 'ram', 'disk', got 'tape'", lambda tmp: (ms.cholesky, (spd(),), {"memory": "tape"})),
    bad("cholesky", "`memory=\"disk\"` on the GPU", "memory=\"disk\" is for factors on the host", lambda tmp: (ms.cholesky, (spd(),), {"memory": "disk", "device": "cuda"})),
    bad("cholesky", "`folder=` without `memory=\"disk\"`", "folder= goes with memory=\"disk\"", lambda tmp: (ms.cholesky, (spd(),), {"folder": tmp})),
    bad("cholesky", "a `folder` that does not exist", "no file can be created in this folder: No such file", lambda tmp: (ms.cholesky, (spd(),), {"memory": "disk", "folder": tmp / "missing"})),
    bad("cholesky", "a `folder` that is a file", "no file can be created in this folder: Not a directory", lambda tmp: (ms.cholesky, (spd(),), {"memory": "disk", "folder": __file__})),
    bad("cholesky", "a `folder` that is no path", "must be a string or a path, got int", lambda tmp: (ms.cholesky, (spd(),), {"memory": "disk", "folder": 3})),
    bad("cholesky", "`threads` not a positive integer, also in `MESHSOLVE_NUM_THREADS`", "threads must be a positive integer", lambda tmp: (ms.cholesky, (spd(),), {"threads": 0})),
    bad("cholesky", "a negative or fractional seed", "seed must be an integer", lambda tmp: (ms.cholesky, (spd(),), {"seed": -1})),
    bad("cholesky", "`pin=True` together with `fixed=`", "exclude each other", lambda tmp: (ms.cholesky, (spd(),), {"pin": True, "fixed": [0]})),
    bad("cholesky", "`pin=True` for a matrix whose rows do not sum to 0", "row 0 of A sums to", lambda tmp: (ms.cholesky, (spd(),), {"pin": True}), ms.NotLaplacianError, row=0),
    *[bad(name, "`lower=True` with an upper triangle", "has entries above its diagonal only", lambda tmp, f=function: (f, (sp.triu(spd()),), {"lower": True}))
      for name, function in {"cholesky": ms.cholesky, "analyze": ms.analyze, "ildl": ms.ildl}.items()],
    bad("cholesky", "`pin=` or `lower=` neither True nor False", "pin must be True or False, got 'yes'", lambda tmp: (ms.cholesky, (spd(),), {"pin": "yes"})),
    bad("cholesky", "an analysis as `ordering=`", "not an analysis: give its .ordering", lambda tmp: (ms.cholesky, (spd(), SHARED.symbolic), {})),
    bad("cholesky", "an array where one of some words is needed", "precision must be one of 'double', 'single', 'mixed', got an array of shape (12,)", lambda tmp: (ms.cholesky, (spd(),), {"precision": RHS})),
    fine(FIXED, "one row, or what `np.where` makes of a mask", "is taken as a list", lambda tmp: (ms.cholesky, (spd(),), {"fixed": np.where(np.arange(N) < 3)})),
    bad(FIXED, "rows out of range", "outside 0..11: 12", lambda tmp: (ms.cholesky, (spd(),), {"fixed": [N]})),
    bad(FIXED, "a row named twice", "names row 4 more than once", lambda tmp: (ms.cholesky, (spd(),), {"fixed": [4, 1, 4]})),
    bad(FIXED, "a set, which has no order", "not a set", lambda tmp: (ms.cholesky, (spd(),), {"fixed": {0, 5}})),
    bad(FIXED, "no row, or every row", "fixed is empty", lambda tmp: (ms.cholesky, (spd(),), {"fixed": []})),
    bad(FIXED, "an indefinite free block", "the pivot of column 8", lambda tmp: (ms.cholesky, (entry(8, 8, -2.0),), {"fixed": [0, 3]}), Indefinite, column=8),
    fine(SCHUR, "one row, a mask, or what `np.where` makes of it", "is taken as a list", keeping(np.arange(N) < 3)),
    fine(SCHUR, "a singular Laplacian, or an indefinite block of `rows`", "only the eliminated block must be definite", keeping([0, 8], lambda: entry(8, 8, -2.0))),
    fine(SCHUR, "complex, or not symmetric", "the block that is eliminated is factored by LU", keeping([0, 8], lambda: entry(6, 7, 3.0))),
    bad(SCHUR, "not symmetric, and the block without `rows` is singular", "the block of A without rows is singular", keeping([0], lambda: sp.csr_array(np.triu(np.ones((N, N)), 1))), ms.SingularMatrixError, index=None),
    bad(SCHUR, "rows out of range", "rows has row numbers outside 0..11: 12", keeping([N])),
    bad(SCHUR, "a row named twice", "rows names row 4 more than once", keeping([4, 1, 4])),
    bad(SCHUR, "a mask of another size, fractions, `None`", "rows must be a list of row numbers", keeping(np.ones(N - 1, bool))),
    bad(SCHUR, "a set, which has no order", "got a set", keeping({0, 5})),
    bad(SCHUR, "no row", "rows is empty", keeping([])),
    bad(SCHUR, "every row", "rows has every row", keeping(np.ones(N, bool))),
    bad(SCHUR, "an indefinite block without `rows`", "the block of A without rows is not positive definite: the pivot of column 8", keeping([0, 3], lambda: entry(8, 8, -2.0)), Indefinite, column=8),
    bad(SCHUR, "a Laplacian with a component that has none of `rows`", "add a row of that component to rows", keeping([0], lambda: ms.graph_laplacian(sp.block_diag([spd(4), spd(8)]))), Indefinite, column=None),
    bad(SCHUR, "unknown ordering", "ordering must be one of auto, nd", keeping([0], ordering="metis")),
    bad(SCHUR, "`device=\"cuda\"` without CuPy or a GPU", "needs CuPy: pip install", lambda tmp: (without_cupy(ms.schur_complement), (spd(), [0]), {"device": "cuda"}), ms.DeviceUnavailableError),
    bad(SCHUR, "`device=\"cuda\"` with complex entries", "on the CPU only in this version", keeping([0], lambda: 1j * spd(), device="cuda"), ms.DeviceUnavailableError),
    bad(SCHUR, "an unknown `device`", "device must be one of", keeping([0], device="gpu")),
    bad(SCHUR, "a negative or fractional seed", "seed must be an integer", keeping([0], seed=-1)),
    bad("S.refactor", "an entry outside the analyzed pattern", "row 2, column 9 that is not in the analyzed pattern", lambda tmp: (SHARED_SCHUR.refactor, (symmetric_entry(2, 9),), {}), Pattern, row=2, column=9),
    bad("S.refactor", "a block without `rows` that is not definite", "the pivot of column 8", lambda tmp: (SHARED_SCHUR.refactor, (entry(8, 8, -2.0),), {}), Indefinite, column=8),
    bad("S.refactor", "a Schur complement that another call uses", "is using the factor", lambda tmp: (used_within(lambda S: S.reduce(RHS), lambda S: S.refactor(spd())), (copy.copy(SHARED_SCHUR),), {}), FactorInUseError),
    bad("S.reduce", "b of another size, or of three dimensions", "b must be (12,) or (12, k), got (11,)", lambda tmp: (SHARED_SCHUR.reduce, (np.ones(N - 1),), {})),
    bad("S.reduce", "NaN or infinity in b", "b: row 7 holds nan", lambda tmp: (SHARED_SCHUR.reduce, (np.where(np.arange(N) == 7, np.nan, 1.0),), {})),
    bad("S.expand", "x_K of another size", "x_K must be (2,) or (2, k), got (12,)", lambda tmp: (SHARED_SCHUR.expand, (np.ones(N), np.ones(N)), {})),
    bad("S.expand", "x_K with more or fewer columns than b", "x_K must be (2, 3), one column for each column of b; got (2,)", lambda tmp: (SHARED_SCHUR.expand, (np.ones((N, 3)), np.ones(2)), {})),
    bad("S.expand", "NaN or infinity in x_K", "x_K: row 1 holds nan", lambda tmp: (SHARED_SCHUR.expand, (np.ones(N), np.array([1.0, np.nan])), {})),
    bad("S.expand", "x_K that is text, or sparse", "x_K must hold real numbers", lambda tmp: (SHARED_SCHUR.expand, (np.ones(N), ["1", "2"]), {})),
    bad("Symbolic.factor", "a matrix of another size", "A has 5 rows, the analysis 12", lambda tmp: (SHARED.symbolic.factor, (spd(5),), {})),
    bad("Symbolic.factor", "an entry outside the analyzed pattern", "row 2, column 9 that is not in the analyzed pattern", lambda tmp: (SHARED.symbolic.factor, (symmetric_entry(2, 9),), {}), Pattern, row=2, column=9),
    *(bad("F.refactor", "a factor that another call uses" + of, "is using the factor", lambda tmp, made=made: (used_within(lambda F: F.solve(RHS), lambda F: F.refactor(spd())), (made(),), {}), FactorInUseError)
      for of, made in ((", of `cholesky`", factor), (", of `lu`", lambda: ms.lu(spd())), (", of `ildl`", lambda: ms.ildl(spd())))),
    *(bad(name, "a factor that another call refactors", "is being refactored by another call", lambda tmp, inner=inner: (used_within(lambda F: F.refactor(spd()), inner), (factor(),), {}), FactorInUseError)
      for name, inner in (("F.solve", lambda F: F.solve(RHS)), ("F.L", lambda F: F.L), ("F.refactor", lambda F: F.refactor(spd())))),
    bad("F.refactor", "a matrix of another size", "A has 5 rows, the analysis 12", lambda tmp: (SHARED.refactor, (spd(5),), {})),
    bad("F.refactor", "an entry outside the analyzed pattern", "row 2, column 9 that is not in the analyzed pattern", lambda tmp: (SHARED.refactor, (symmetric_entry(2, 9),), {}), Pattern, row=2, column=9),
    bad("F.refactor", "the same with fixed rows", "row 2, column 9", lambda tmp: (factor(fixed=[0, 5]).refactor, (symmetric_entry(2, 9),), {}), Pattern, row=2, column=9),
    fine("F.refactor", "missing entries", "are zeros", lambda tmp: (factor().refactor, (np.eye(N),), {})),
    bad("F.solve", "an array as second argument, meant as `out=`", "system must be one of 'A', 'L', 'Lt', got an array of shape (12,)", solving(np.ones(N), np.empty(N))),
    bad("F.solve", "b too short", "b must be (12,) or (12, k), got (11,)", solving(np.ones(N - 1))),
    bad("F.solve", "b of three dimensions", "got (12, 2, 2)", solving(np.ones((N, 2, 2)))),
    bad("F.solve", "NaN or infinity in b", "b: row 7 holds nan", solving(np.where(np.arange(N) == 7, np.nan, 1.0))),
    bad("F.solve", "text, objects, dates", "b must hold real numbers", solving(["a"] * N)),
    bad("F.solve", "masked entries in b", "masked", solving(np.ma.masked_equal(np.arange(N), 3))),
    fine("F.solve", "a sparse b", "the solution is sparse", solving(sp.csr_array(np.ones((N, 1))))),
    bad("F.solve", "a sparse b with `out`", "out= is for a dense b", solving(sp.csr_array(np.ones((N, 1))), out=np.empty((N, 1)))),
    bad("F.solve", "`out` that is no array", "out must be a writable array of shape (12,) and dtype float64, on the device of b, got list", solving(np.ones(N), out=[0.0] * N)),
    bad("F.solve", "`out` of another shape or dtype, or read-only", "out must be a writable array", solving(np.ones(N), out=np.ones(N, np.float32))),
    bad("F.solve", "`fixed_values` without `fixed=`", "made without fixed=", solving(np.ones(N), fixed_values=1.0)),
    bad("F.solve", "`fixed_values` of another shape", "fixed_values must be (2,) or (2, 1), a row for each of fixed", lambda tmp: (factor(fixed=[0, 5]).solve, (np.ones(N),), {"fixed_values": np.ones(3)})),
    bad("F.solve", "NaN or infinity in `fixed_values`, also in those of all rows", "fixed_values: row 5 is not finite", lambda tmp: (factor(fixed=[0, 5]).solve, (np.ones(N),), {"fixed_values": np.where(np.arange(N) == 5, np.nan, 1.0)})),
    fine("F.solve", "`fixed_values` of all rows, NaN in the free ones", "those of the fixed rows are taken", lambda tmp: (factor(fixed=[0, 5]).solve, (np.ones(N),), {"fixed_values": np.where(np.arange(N) % 5 == 0, 1.0, np.nan)})),
    bad("F.solve", "`fixed_values` that are text", "real numbers", lambda tmp: (factor(fixed=[0, 5]).solve, (np.ones(N),), {"fixed_values": ["1", "2"]})),
    bad("F.solve", "`fixed_values` for a triangular system", "fixed_values goes with system=\"A\"", lambda tmp: (ms.cholesky(spd(), fixed=[0]).solve, (np.ones(N - 1),), {"system": "L", "fixed_values": [1.0]})),
    bad("F.solve", "unknown system", "system must be one of", solving(np.ones(N), system="LDLt")),
    fine("F.solve", "complex b", "its parts are solved as two columns", solving(np.ones(N) * 1j)),
    fine("F.solve", "no columns", "no columns", solving(np.ones((N, 0)))),
    fine("F.solve", "strided, Fortran-ordered or read-only b", "is taken as it is", solving(np.broadcast_to(1.0, (N, 3)))),
]
