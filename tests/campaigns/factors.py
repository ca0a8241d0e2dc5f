"""Attacks on the factorizations, their solves, and what else is read off a factor."""

import numpy as np
import scipy.sparse as sp

import meshsolve as ms
from campaigns import axes
from campaigns.table import attack, well_posed


def close(x, y, condition, what, scale=1.0):
    """x equals y up to rounding errors of a well-scaled system with this condition number."""
    error = abs(scale * (np.asarray(x) - y)).max(initial=0)
    bound = 1e-13 * condition * max(abs(scale * np.asarray(y)).max(initial=0), 1e-300)
    assert error <= bound, f"{what}: error {error:.3g}, bound {bound:.3g}"


@attack("cholesky", "CholeskyFactor.solve", "CholeskyFactor.refactor", "analyze", "Symbolic.factor", "CholeskyFactor.matvec")
def cholesky(rng):
    """Units, sizes, scales of rows, layouts, right-hand sides. Oracle: integers, so that A x = b is exact."""
    n = max(axes.size(rng), 1)
    B = axes.definite(rng, n)
    d = axes.powers(rng, n)
    A = B * d[:, None] * d * 2.0 ** rng.integers(-300, 300)
    x = rng.integers(-4, 5, (n, 2)) / d[:, None]
    with well_posed("a positive definite matrix of integers, rows scaled by powers of two"):
        S = ms.analyze(axes.layout(rng, A))
        F = S.factor(axes.layout(rng, A)) if rng.random() < 0.5 else ms.cholesky(axes.layout(rng, A), ordering=str(rng.choice(["auto", "amd", "natural", "rcm", "nd"])))
        close(F.solve(A @ x), x, np.linalg.cond(B), "solve", d[:, None])
        F.refactor(4 * A)
        close(F.matvec(A @ x[:, 0]), x[:, 0] / 4, np.linalg.cond(B), "after refactor", d)


@attack("CholeskyFactor.update", "CholeskyFactor.downdate", "CholeskyFactor.inverse_diagonal", "CholeskyFactor.selected_inverse", "CholeskyFactor.logdet",
        "CholeskyFactor.slogdet", "CholeskyFactor.rcond", "CholeskyFactor.L", "CholeskyFactor.perm", "CholeskyFactor.nnz", "CholeskyFactor.flops", "CholeskyFactor.in_range")
def readings_of_cholesky(rng):
    """Updates inside the pattern, inverses, determinants, L. Oracle: dense LAPACK of the unscaled integers, and L L' = A."""
    n = max(axes.size(rng, 30), 1)
    B = axes.definite(rng, n)
    d = axes.powers(rng, n, 6)
    A = B * d[:, None] * d
    with well_posed("a positive definite matrix of integers"):
        F = ms.cholesky(A)
    kappa, inverse = np.linalg.cond(B), np.linalg.inv(B)
    L, p = F.L.toarray(), F.perm
    assert sorted(p) == list(range(n)) and F.nnz >= n and F.flops > 0
    close(L @ L.T, A[np.ix_(p, p)], 10, "L L'", 1 / np.outer(d[p], d[p]))
    close(F.inverse_diagonal() * d * d, np.diag(inverse), kappa, "inverse_diagonal")
    Z = F.selected_inverse().toarray()
    inside = (A != 0)
    close((Z * np.outer(d, d))[inside], inverse[inside], kappa, "selected_inverse")
    right = np.linalg.slogdet(B)[1] + 2 * np.log(d).sum()
    assert abs(F.logdet() - right) <= 1e-12 * kappa + 1e-12 * abs(right) and F.slogdet()[0] == 1.0, f"logdet {F.logdet()} instead of {right}"
    assert 0 < F.rcond() <= 1 + 1e-12 and F.rcond() <= 10 / np.linalg.cond(A, 1) * (1 + 1e-6) + 1e-300, f"rcond {F.rcond()} instead of {1 / np.linalg.cond(A, 1)}"
    b = rng.integers(-4, 5, n).astype(float)
    assert np.array_equal(F.in_range(b), b)
    rows = np.flatnonzero(B[rng.integers(n)])                            # a clique of A: its products are inside the pattern
    rows = rows[[bool((B[np.ix_([r], [q])] != 0).all()) for r, q in zip(rows, np.r_[rows[1:], rows[:1]])]][:1]
    C = np.zeros((n, 1))
    C[rows, 0] = d[rows] * rng.integers(1, 4)
    F.update(sp.csc_array(C))
    close(F.solve((A + C @ C.T) @ (b / d)), b / d, np.linalg.cond((A + C @ C.T) / np.outer(d, d)), "after update", d)
    F.downdate(sp.csc_array(C))
    close(F.solve(A @ (b / d)), b / d, 100 * kappa * np.linalg.cond((A + C @ C.T) / np.outer(d, d)), "after downdate", d)


@attack("lu", "LUFactor.solve", "LUFactor.refactor", "LUFactor.slogdet", "LUFactor.rcond", "LUFactor.matvec", "LUFactor.rmatvec")
def lu(rng):
    """Rows and columns of other scales, layouts, complex factors, transposed systems. Oracle: integers, and dense LAPACK."""
    n = max(axes.size(rng), 1)
    B = axes.general(rng, n)
    if rng.random() < 0.3:
        B = B * rng.choice([1, 1j, -1])
    r, c = axes.powers(rng, n), axes.powers(rng, n)
    A = B * r[:, None] * c
    x = rng.integers(-4, 5, n)
    with well_posed("an unsymmetric matrix of integers, rows and columns scaled by powers of two"):
        F = ms.lu(axes.layout(rng, A), engine=str(rng.choice(["auto", "fronts", "columns"])))
        kappa = 1e3 * np.linalg.cond(B)
        close(F.solve(A @ (x / c)), x / c, kappa, "solve", c)
        close(F.matvec(A @ (x / c)), x / c, kappa, "matvec", c)
        close(F.solve(A.T @ (x / r), trans="T"), x / r, kappa, "transposed", r)
        close(F.rmatvec(A.conj().T @ (x / r)), x / r, kappa, "adjoint", r)
        F.refactor(2 * A)
        close(F.solve(A @ (x / c)), x / c / 2, kappa, "after refactor", c)
    sign, size = F.slogdet()
    right = np.linalg.slogdet(2 * B)
    assert abs(sign - right[0]) < 1e-9 and abs(size - right[1] - np.log(r).sum() - np.log(c).sum()) < 1e-9 * kappa, f"slogdet {sign}, {size}"
    assert 0 < F.rcond() <= 10 / np.linalg.cond(A, 1) * (1 + 1e-6) + 1e-300 or np.linalg.cond(A, 1) > 1e14, f"rcond {F.rcond()} instead of {1 / np.linalg.cond(A, 1)}"


@attack("LUFactor.L", "LUFactor.U", "LUFactor.row_perm", "LUFactor.col_perm", "LUFactor.row_scale", "LUFactor.col_scale", "LUFactor.nnz", "LUFactor.levels", "LUFactor.engine")
def parts_of_lu(rng):
    """Both engines, scaled rows and columns. Oracle: the product of the factors is the permuted and scaled matrix."""
    n = max(axes.size(rng, 40), 1)
    A = axes.general(rng, n) * axes.powers(rng, n, 6)[:, None] * axes.powers(rng, n, 6)
    with well_posed("an unsymmetric matrix of integers"):
        F = ms.lu(A, engine=str(rng.choice(["fronts", "columns"])))
    assert F.engine in ("fronts", "columns")
    scaled = (F.row_scale[:, None] * A * F.col_scale)[np.ix_(F.row_perm, F.col_perm)]
    L, U = F.L.toarray(), F.U.toarray()
    assert np.array_equal(np.tril(L), L) and np.array_equal(np.triu(U), U) and (np.diag(L) == 1).all()
    close(L @ U, scaled, 1 + (abs(L) @ abs(U)).max() / max(abs(scaled).max(), 1e-300), "L U")
    assert len(F.levels) == n and F.nnz >= n


@attack("ildl", "IldlFactor.solve", "IldlFactor.inertia", "IldlFactor.slogdet", "IldlFactor.refactor", "IldlFactor.is_undecided", "IldlFactor.rcond", "IldlFactor.matvec")
def complete_ldlt(rng):
    """Indefinite and singular matrices, scaled rows. Oracle: inertia and solutions by construction from integers."""
    n = max(axes.size(rng), 1)
    B, inertia = axes.symmetric(rng, n)
    d = axes.powers(rng, n)
    A = B * d[:, None] * d
    if inertia[2]:
        try:
            F = ms.ildl(A, fill_level=None)
        except ms.SingularMatrixError:
            return
        assert F.is_undecided or tuple(F.inertia) == inertia, f"inertia {F.inertia} instead of {inertia}"
        return
    with well_posed("an indefinite matrix of integers"):
        F = ms.ildl(axes.layout(rng, A), fill_level=None)
        assert F.is_undecided or tuple(F.inertia) == inertia, f"inertia {F.inertia} instead of {inertia}"
        x = rng.integers(-4, 5, n) / d
        kappa = 100 * np.linalg.cond(B)
        close(F.solve(A @ x), x, kappa, "solve", d)
        close(F.matvec(A @ x), x, kappa, "matvec", d)
        F.refactor(-A)
    if not F.is_undecided:
        assert tuple(F.inertia) == (inertia[1], inertia[0], 0), f"inertia {F.inertia} of -A"
        sign, size = F.slogdet()
        right = np.linalg.slogdet(-B)
        assert sign == right[0] and abs(size - right[1] - 2 * np.log(d).sum()) < 1e-9 * kappa, f"slogdet {sign}, {size}"


@attack("IldlFactor.L", "IldlFactor.D", "IldlFactor.perm", "IldlFactor.scale", "IldlFactor.nnz", "IldlFactor.is_complete")
def parts_of_ldlt(rng):
    """Complete factors of indefinite matrices. Oracle: L D L' is the permuted and scaled matrix."""
    n = max(axes.size(rng, 40), 1)
    B, inertia = axes.symmetric(rng, n)
    if inertia[2]:
        return
    d = axes.powers(rng, n, 6)
    A = B * d[:, None] * d
    with well_posed("an indefinite matrix of integers"):
        F = ms.ildl(A, fill_level=None)
    assert F.is_complete and F.nnz >= n
    L, D = F.L.toarray(), F.D.toarray()
    scaled = (A * F.scale[:, None] * F.scale)[np.ix_(F.perm, F.perm)]
    close(L @ D @ L.T, scaled, 10 * (1 + (abs(L) @ abs(D) @ abs(L.T)).max() / abs(scaled).max()), "L D L'")


@attack("parac", "ParacFactor.solve", "ParacFactor.G", "ParacFactor.D", "ParacFactor.perm", "ParacFactor.nnz", "ParacFactor.connected", "ParacFactor.null_components",
        "ParacFactor.positions", "ParacFactor.matvec", "cg")
def parac(rng):
    """Laplacians of several components and many scales. Oracle: the residual of cg with this preconditioner, in long double."""
    n, parts = max(axes.size(rng), 1), int(rng.integers(1, 4))
    A = axes.laplacian(rng, n, parts, float(rng.choice([0, 3, 8])))
    groups = sp.csgraph.connected_components(sp.csr_array(A))[1]
    x = rng.integers(-4, 5, n).astype(float)
    with well_posed("a Laplacian with exact row sums"):
        F = ms.parac(axes.layout(rng, A))
        y, info = ms.cg(sp.csr_array(A), A @ x, M=F, rtol=1e-10, maxiter=500)
    assert F.connected == (groups.max() == 0), f"connected is {F.connected} with {groups.max() + 1} components"
    assert sorted(F.perm) == list(range(n)) and sorted(F.positions()) == list(range(n)) and F.nnz >= 0
    if info.converged:
        r = np.linalg.norm((A @ x - A.astype(np.longdouble) @ y).astype(float))
        assert r <= 2e-10 * np.linalg.norm(A @ x) + 1e-12 * np.linalg.norm(abs(A) @ abs(y)), f"converged with a residual of {r:.3g} for b of {np.linalg.norm(A @ x):.3g}"


@attack("ilu", "IluFactor.solve", "IluFactor.matvec", "gmres")
def ilu(rng):
    """Unsymmetric matrices of other scales. Oracle: the residual of gmres with this preconditioner, in long double."""
    n = max(axes.size(rng), 1)
    r, c = axes.powers(rng, n, 6), axes.powers(rng, n, 6)
    A = (axes.general(rng, n) + 4 * np.eye(n)) * r[:, None] * c
    b = A @ (rng.integers(-4, 5, n) / c)
    F = ms.ilu(axes.layout(rng, A), droptol=float(rng.choice([0, 1e-3, 0.1])))
    y, info = ms.gmres(sp.csr_array(A), b, M=F, rtol=1e-9, maxiter=300)
    residual = float(np.linalg.norm((b - A.astype(np.longdouble) @ y).astype(float)))
    assert not info.converged or residual <= 2e-9 * np.linalg.norm(b) + 1e-300, f"converged with a residual of {residual:.3g} for b of {np.linalg.norm(b):.3g}"


@attack("Symbolic.factor_batch", "Symbolic.values_of", "Symbolic.pattern", "Symbolic.perm", "Symbolic.nnz", "Symbolic.n", "Symbolic.colcount", "Symbolic.parent",
        "Symbolic.supernodes", "Symbolic.lower", "Symbolic.flops", "CholeskyBatch.solve", "CholeskyBatch.refactor", "CholeskyBatch.failed", "CholeskyBatch.reason",
        "CholeskyBatch.nbytes")
def cholesky_batch(rng):
    """Systems of other units, some indefinite, none, one. Oracle: integers; the failed ones are those that LAPACK refuses."""
    n, k = max(axes.size(rng, 30), 1), int(rng.choice([0, 1, 2, 7]))
    B = axes.definite(rng, n)
    signs = rng.choice([1.0, 1.0, 1.0, -1.0], k)
    units = 2.0 ** rng.integers(-200, 200, k)
    S = ms.analyze(B)
    values = np.stack([S.values_of(s * u * B) for s, u in zip(signs, units)]) if k else np.zeros((0, len(S.values_of(B))))
    batch = S.factor_batch(values)
    assert np.array_equal(batch.failed, np.flatnonzero(signs < 0)), f"failed: {batch.failed}, signs {signs}"
    x = rng.integers(-4, 5, (k, n)).astype(float)
    good = signs > 0
    y = batch.solve(np.stack([s * u * B @ v for s, u, v in zip(signs, units, x)]) if k else np.zeros((0, n)))
    close(y[good], x[good], np.linalg.cond(B), "solve")
    assert all(bool(batch.reason(i)) == (signs[i] < 0) for i in range(k)) and batch.nbytes >= 0
    pointers, rows = S.pattern()
    assert S.n == n and len(rows) == S.nnz == pointers[-1] and sorted(S.perm) == list(range(n)) and np.array_equal(np.diff(pointers), S.colcount)


@attack("LUFactor.factor_batch", "LUFactor.values_of", "LUBatch.solve", "LUBatch.refactor", "LUBatch.failed", "LUBatch.reason", "LUBatch.backward_error", "LUBatch.nbytes",
        "LUBatch.alone", "IldlFactor.factor_batch", "IldlFactor.values_of", "IldlBatch.solve", "IldlBatch.refactor", "IldlBatch.failed", "IldlBatch.reason",
        "IldlBatch.backward_error", "IldlBatch.nbytes", "IldlBatch.alone", "IldlBatch.inertia")
def general_batches(rng):
    """Pivots of one matrix used for others of other units and signs. Oracle: integers, and dense LAPACK."""
    n, k = max(axes.size(rng, 24), 1), int(rng.choice([1, 2, 6]))
    symmetric = rng.random() < 0.5
    B, inertia = axes.symmetric(rng, n) if symmetric else (axes.general(rng, n), (0, 0, 0))
    if inertia[2]:
        return
    F = ms.ildl(B, fill_level=None) if symmetric else ms.lu(B)
    E = (B != 0) * rng.integers(-1, 2, (k, n, n))
    E = [np.tril(e) + np.tril(e, -1).T if symmetric else e for e in E]
    systems = [(B + e * rng.choice([0, 0.01, 1])) * 2.0 ** rng.integers(-100, 100) for e in E]
    x = rng.integers(-4, 5, (k, n)).astype(float)
    batch = F.factor_batch(np.stack([F.values_of(A) for A in systems]))
    y = batch.solve(np.stack([A @ v for A, v in zip(systems, x)]))
    for i, A in enumerate(systems):
        kappa = axes.condition(A)
        if kappa < 1e10:
            assert i not in batch.failed, f"false alarm: {batch.reason(i)}"
            close(y[i], x[i], 1e3 * kappa, f"system {i} of condition {kappa:.2g}")
            if symmetric:
                w = np.linalg.eigvalsh(A)
                assert tuple(batch.inertia[i]) == (int((w > 0).sum()), int((w < 0).sum()), 0), f"inertia {batch.inertia[i]}"


@attack("schur_complement", "SchurComplement.matrix", "SchurComplement.reduce", "SchurComplement.expand", "SchurComplement.refactor", "SchurComplement.rows",
        "SchurComplement.perm", "SchurComplement.n", "SchurComplement.nnz", "SchurComplement.nbytes", "SchurComplement.flops", "SchurComplement.precision",
        "GeneralSchurComplement.matrix", "GeneralSchurComplement.reduce", "GeneralSchurComplement.expand", "GeneralSchurComplement.refactor", "GeneralSchurComplement.n",
        "GeneralSchurComplement.nnz")
def schur(rng):
    """Any kept rows, all of them, one; scaled rows. Oracle: dense LAPACK on the unscaled integers."""
    n = max(axes.size(rng, 40), 2)
    definite = rng.random() < 0.5
    B = axes.definite(rng, n) if definite else axes.general(rng, n) + 8 * np.eye(n)
    r = axes.powers(rng, n, 6)
    c = r if definite else axes.powers(rng, n, 6)
    A = B * r[:, None] * c
    keep = rng.permutation(n)[:int(rng.choice([1, max(n // 3, 1), n - 1]))]
    rest = np.setdiff1d(np.arange(n), keep)
    S = ms.schur_complement(axes.layout(rng, A), keep)
    right = B[np.ix_(keep, keep)] - B[np.ix_(keep, rest)] @ np.linalg.solve(B[np.ix_(rest, rest)], B[np.ix_(rest, keep)])
    kappa = 1e2 * np.linalg.cond(B[np.ix_(rest, rest)]) if len(rest) else 1
    close(S.matrix / r[keep][:, None] / c[keep], right, kappa * max(1, abs(B).max() / max(abs(right).max(), 1e-300)), "matrix")
    x = rng.integers(-4, 5, n) / c
    close(S.expand(A @ x, x[keep]), x, kappa, "expand", c)
    close(S.reduce(A @ x) / r[keep], right @ (x * c)[keep], kappa * max(1, abs(B).max() / max(abs(right @ (x * c)[keep]).max(), 1e-300)), "reduce")
