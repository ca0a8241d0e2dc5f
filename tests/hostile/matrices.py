"""Matrices and values that functions refuse. Each row is tested with every function that it names."""

import numpy as np
import scipy.sparse as sp

import meshsolve as ms
from hostile.material import SHARED, SHARED_LDL, SHARED_LU, SHARED_SCHUR, N, coo, edited, entry, spd
from hostile.row import Bad, Indefinite, Row, Unsymmetric

EDGES = "a list of edges, except in `graph_laplacian`, `PatchMesh` and `order`"
OPERATOR = "a scipy `LinearOperator`, except in `cg`, `sqmr` and `gmres`"
STRUCTURE = [                                       # functions with a matrix
    ("text", "must be a matrix", lambda: "A.mtx"),
    ("`None`", "must be a matrix", lambda: None),
    (OPERATOR, "a matrix with its entries", lambda: sp.linalg.aslinearoperator(np.eye(3))),
    ("a networkx graph", "networkx.to_scipy_sparse_array", lambda: type("Graph", (), {"__module__": "networkx"})()),
    (EDGES, "convert a list of edges i, j by scipy.sparse.coo_array", lambda: [(0, 1), (1, 2), (2, 0)]),
    ("a list that is ragged", "not an array", lambda: [[2, 1], [1]]),
    ("a vector", "2-D", lambda: np.ones(N)),
    ("a sparse vector", "2-D", lambda: sp.coo_array(np.ones(N))),
    ("not square", "square, got 3 x 4", lambda: np.ones((3, 4))),
    ("no rows", "empty", lambda: sp.csr_array((0, 0))),
    ("dtype object", "must hold numbers", lambda: np.eye(3).astype(object)),
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
VALUES = [                                          # functions that read values
    ("NaN", Bad, "row 3, column 3 holds nan", lambda: entry(3, 3, np.nan), {}),
    ("infinity", Bad, "row 3, column 4 holds inf", lambda: entry(3, 4, np.inf), {}),
    ("longdouble above the range of float64", Bad, "holds inf", lambda: sp.csr_array(np.eye(3, dtype=np.longdouble) * np.longdouble("1e4000")), {}),
    ("complex", Bad, "complex", lambda: spd() * 1j, {}),
    ("not symmetric", Unsymmetric, "lu takes unsymmetric matrices", lambda: entry(6, 7, 3.0), {"row": 7, "column": 6}),
]
DEFINITE = [                                        # Cholesky factorizations
    ("a negative diagonal entry", Indefinite, "column 8 is not positive (diagonal entry -2)", lambda: entry(8, 8, -2.0), {"column": 8}),
    ("a zero row", Indefinite, "zero or missing (an isolated or unreferenced vertex, or constraints?", lambda: sp.csr_array(np.diag([1.0] * 5 + [0.0] + [1.0] * 6)), {"column": 5}),
    ("a singular Laplacian", Indefinite, "use pin=True", lambda: ms.graph_laplacian(spd()), {"column": None}),
]
TAKES_PATTERN = {
    "analyze": ms.analyze, "order.nested_dissection": ms.order.nested_dissection, "order.amd": ms.order.amd, "order.auto": ms.order.auto,
    "order.rcm": ms.order.rcm, "order.nnz_sort": ms.order.nnz_sort, "order.random": ms.order.random,
    "order.natural": ms.order.natural, "order.partition": lambda A: ms.order.partition(A, 2), "graph_laplacian": ms.graph_laplacian, "PatchMesh": ms.PatchMesh,
}
FACTORS = {"cholesky": ms.cholesky, "F.refactor": SHARED.refactor, "Symbolic.factor": SHARED.symbolic.factor}
TAKES_VALUES = FACTORS | {"parac": ms.parac, "cg": lambda A: ms.cg(A, np.ones(N))}
TAKES_SYMMETRIC = {"ildl": ms.ildl, "ildl: F.refactor": SHARED_LDL.refactor, "sqmr": lambda A: ms.sqmr(A, np.ones(N)),
                   "schur_complement": lambda A: ms.schur_complement(A, [0, 5]), "S.refactor": SHARED_SCHUR.refactor}
LU = {"lu": ms.lu, "lu: F.refactor": SHARED_LU.refactor}
TAKES_ANY_VALUES = LU | {"ilu": ms.ilu, "gmres": lambda A: ms.gmres(A, np.ones(N))}


SOLVE = {"solve": lambda A: ms.solve(A, np.ones(N)), "factorized": ms.factorized}
ANY_VALUES = [                                      # functions with matrices of any kind
    *VALUES[:3],
    ("a zero row", ms.SingularMatrixError, "singular", lambda: sp.csr_array(np.diag([1.0] * 5 + [0.0] + [1.0] * 6)), {"index": 5}),
    ("a singular Laplacian", ms.SingularMatrixError, "no pivot is left in column", lambda: ms.graph_laplacian(spd()), {"index": None}),
]


def matrix_rows():
    every = TAKES_PATTERN | TAKES_VALUES | TAKES_ANY_VALUES | TAKES_SYMMETRIC | SOLVE
    for given, says, make in STRUCTURE:
        for name, function in every.items():
            if given == OPERATOR and name in ("cg", "sqmr", "gmres") or given == EDGES and name in TAKES_PATTERN and name != "analyze":
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
            if name == "schur_complement" and given in ("complex", "not symmetric"):        # factored by LU
                continue
            yield Row("`ildl`, its `F.refactor`, `sqmr`, `schur_complement` and its `S.refactor` of a symmetric matrix", given, error, says, lambda tmp, f=function, m=make: (f, (m(),), {}), where), name
    for given, error, says, make, where in ANY_VALUES:
        for name, function in (LU if error is ms.SingularMatrixError else TAKES_ANY_VALUES).items():
            yield Row("`lu`, its `F.refactor`" if error is ms.SingularMatrixError else "`lu`, its `F.refactor`, `ilu`, `gmres`", given, error, says, lambda tmp, f=function, m=make: (f, (m(),), {}), where), name
